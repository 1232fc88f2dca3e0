"""From a study to the list of its fits, each with the identity under which its record is kept."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from bacadi.benchmark.records import CHOSEN, DONE, TIMEOUT, Identity, Record
from bacadi.benchmark.study import AS_IN_PAPER, UNKNOWN, MethodEntry, SearchPlan, Study, TaskSet
from bacadi.config.codec import Place, Table, build, encode
from bacadi.config.columns import Columns, columns_table
from bacadi.config.layers import DATA, KNOWLEDGE, Configuration, configure, merged
from bacadi.data.text import quoted
from bacadi.errors import ConfigError
from bacadi.simulate.files import decode_spec

LIMIT = "time_limit"
"""The entry of `Record.details` with the limit that a fit ran into."""

SEARCH = "search"
"""The entry of `Record.details` with the protocol by which settings were chosen, where they were searched for."""

SETTINGS = "settings"
"""The entry of `Record.details` with the settings that a search chose, by dotted path."""


@dataclass(frozen=True)
class PlannedFit:
    """One fit of a study: a method on a task.

    `protocol` is how the settings were chosen where they were searched for ("honest" or "paper"), None otherwise.
    `pending` says that this search has not ended, so that the settings are not known yet.
    """

    tasks: TaskSet
    entry: MethodEntry
    identity: Identity
    time_limit: float
    protocol: str | None = None
    pending: bool = False

    @cached_property
    def key(self) -> str:
        """The key of its record."""
        return self.identity.key

    def is_settled(self, record: Record | None, retry_failed: bool = False) -> bool:
        """Whether nothing is left to do: there is a record, and a fit that ran out of time had no less of it."""
        if record is None or record.reason == DONE:
            return record is not None
        shorter = record.reason == TIMEOUT and record.details.get(LIMIT, 0.0) < self.time_limit
        return not retry_failed and not shorter


def plan(study: Study, folder: Path | None = None, records: Mapping[str, Record] | None = None) -> list[PlannedFit]:
    """All fits of a study, the first task of every set by every method first, so that a part of them is of use.

    `folder` is where paths of the study start; everything that can be refused without running is refused here.
    `records` say what searches have chosen; without them methods that are searched for have fits that are `pending`.

    >>> from bacadi.benchmark.study import read_study
    >>> fits = plan(read_study("linear").smaller(1, ["mcmc", "ut-igsp"]))
    >>> [(fit.tasks.label, fit.identity.method, fit.identity.task_seed) for fit in fits][:3]
    [('linear-er', 'mcmc', 1000), ('linear-sf', 'mcmc', 1000), ('linear-er', 'ut-igsp', 1000)]
    """
    specs = {tasks.label: specification(tasks, folder or Path()) for tasks in study.tasks}
    fits = []
    for entry in study.methods:
        given = chosen_settings(entry)
        chosen_settings(with_settings(entry, {path: one.example for path, one in entry.search.items()}))
        for tasks in study.sets_of(entry):
            limit, protocol = entry.time_limit or study.time_limit, None
            settings, pending = given, False
            if entry.search:
                protocol = study.search.protocol
                key = search_identity(entry, tasks, specs[tasks.label], study.search).key
                if (found := (records or {}).get(key)) is not None and found.reason == CHOSEN:
                    settings = chosen_settings(with_settings(entry, found.details[SETTINGS]))
                else:
                    settings, pending = given._replace(settings=given.settings | {SEARCH: key}), True
            for turn, seed in enumerate(tasks.seeds):
                identity = settings.identity(specs[tasks.label], seed, entry.seed)
                fits.append((turn, PlannedFit(tasks, entry, identity, limit, protocol, pending)))
    return [fit for _, fit in sorted(fits, key=lambda pair: pair[0])]


def specification(tasks: TaskSet, folder: Path) -> Table:
    """The specification of a task set as its records keep it, without what equals the defaults."""
    name = quoted(tasks.spec) if tasks.spec else f"the task set {quoted(tasks.label)}"
    table: Table = encode(decode_spec(tasks.table(folder), name), brief=True)
    return table


class ChosenSettings(NamedTuple):
    """Name, settings and results version of a method, as records keep them."""

    method: str
    settings: Table
    results_version: int

    def identity(self, spec: Table, task_seed: int, method_seed: int) -> Identity:
        """The identity of a fit of these settings to a task."""
        return Identity(spec, task_seed, self.method, self.settings, method_seed, self.results_version)


def chosen_settings(entry: MethodEntry) -> ChosenSettings:
    """What an entry of a study means; what makes no sense is refused."""
    where = f"the settings of {quoted(entry.title)}"
    chosen: Configuration = configure(entry.method, entry.preset, (entry.settings, where))
    method: Any = chosen.method
    if getattr(method, "jobs", None) is not None:  # the number of processes does not change a posterior
        method = method.replace(jobs=None)
    settings: Table = {"method": encode(method, brief=True)}
    if chosen.model is not None and method.reads_model:
        settings["model"] = encode(chosen.model, brief=True)
    if any(isinstance(value, str) for value in chosen.knowledge.values()):
        raise ConfigError(f"The table 'knowledge' in {where} names a file; write what is known into the study itself.")
    if chosen.knowledge:
        settings[KNOWLEDGE] = chosen.knowledge
    if DATA in entry.settings:  # without it data are fitted as they were drawn
        columns = build(Columns, columns_table(entry.settings[DATA]), Place(where).below(DATA))
        settings[DATA] = encode(columns, brief=True)
    if entry.targets != UNKNOWN:
        settings["targets"] = entry.targets
    baseline = getattr(method, "baseline", None)
    extra = 0 if baseline is None else baseline.results_version - 1
    return ChosenSettings(chosen.name, settings, method.results_version + extra)


def with_settings(entry: MethodEntry, values: Mapping[str, Any]) -> MethodEntry:
    """The entry with other values at dotted paths of its settings.

    >>> with_settings(MethodEntry("jci-pc"), {"method.baseline.alpha": 0.1}).settings
    {'method': {'baseline': {'alpha': 0.1}}}
    """
    settings = entry.settings
    for path, value in values.items():
        nested = value
        for key in reversed(path.split(".")):
            nested = {key: nested}
        settings = merged(settings, nested)
    return entry.replace(settings=settings)


def tuning_seeds(tasks: TaskSet, search: SearchPlan) -> range:
    """The seeds of the tasks on which settings are chosen."""
    return tasks.seeds[: search.n_seeds] if search.protocol == AS_IN_PAPER else search.seeds


def search_identity(entry: MethodEntry, tasks: TaskSet, spec: Table, search: SearchPlan) -> Identity:
    """The identity of the record that says what a search has chosen for a method on a set of tasks."""
    given, seeds = chosen_settings(entry), tuning_seeds(tasks, search)
    about = {"ranges": encode(entry.search, brief=True), "plan": encode(search, brief=True), "n_tasks": len(seeds)}
    changed = given._replace(settings=given.settings | {SEARCH: about})
    return changed.identity(spec, seeds[0], entry.seed)


def searches(study: Study, folder: Path | None = None) -> list[str]:
    """The keys of the records of what the searches of a study have chosen."""
    specs = {tasks.label: specification(tasks, folder or Path()) for tasks in study.tasks}
    return [
        search_identity(entry, tasks, specs[tasks.label], study.search).key
        for entry in study.methods
        for tasks in (study.sets_of(entry) if entry.search else ())
    ]


def matched(fits: Iterable[PlannedFit], records: Mapping[str, Record]) -> list[tuple[PlannedFit, Record | None]]:
    """Every fit with its record, None where there is none yet: what tables and figures are made of."""
    return [(fit, records.get(fit.key)) for fit in fits]
