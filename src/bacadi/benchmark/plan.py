"""From a study to the list of its fits, each with the identity under which its record is kept."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bacadi.benchmark.records import DONE, TIMEOUT, Identity, Record
from bacadi.benchmark.study import UNKNOWN, MethodEntry, Study, TaskSet
from bacadi.config.codec import Table, encode
from bacadi.config.layers import KNOWLEDGE, Configuration, configure
from bacadi.data.text import quoted
from bacadi.errors import ConfigError
from bacadi.simulate.files import decode_spec

LIMIT = "time_limit"
"""The entry of `Record.details` with the limit that a fit ran into."""


@dataclass(frozen=True)
class PlannedFit:
    """One fit of a study: a method on a task.

    `protocol` is how the settings were chosen where they were searched for ("honest" or "paper"), None otherwise.
    """

    tasks: TaskSet
    entry: MethodEntry
    identity: Identity
    time_limit: float
    protocol: str | None = None

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


def plan(study: Study, folder: Path | None = None) -> list[PlannedFit]:
    """All fits of a study, the first task of every set by every method first, so that a part of them is of use.

    `folder` is where paths of the study start; everything that can be refused without running is refused here.

    >>> from bacadi.benchmark.study import read_study
    >>> fits = plan(read_study("linear").smaller(1, ["mcmc", "ut-igsp"]))
    >>> [(fit.tasks.label, fit.identity.method, fit.identity.task_seed) for fit in fits][:3]
    [('linear-er', 'mcmc', 1000), ('linear-sf', 'mcmc', 1000), ('linear-er', 'ut-igsp', 1000)]
    """
    specs = {tasks.label: specification(tasks, folder or Path()) for tasks in study.tasks}
    fits = []
    for entry in study.methods:
        chosen = chosen_settings(entry)
        for tasks in study.sets_of(entry):
            for turn, seed in enumerate(tasks.seeds):
                identity = Identity(specs[tasks.label], seed, chosen[0], chosen[1], entry.seed, chosen[2])
                fits.append((turn, PlannedFit(tasks, entry, identity, entry.time_limit or study.time_limit)))
    return [fit for _, fit in sorted(fits, key=lambda pair: pair[0])]


def specification(tasks: TaskSet, folder: Path) -> Table:
    """The specification of a task set as its records keep it, without what equals the defaults."""
    name = quoted(tasks.spec) if tasks.spec else f"the task set {quoted(tasks.label)}"
    table: Table = encode(decode_spec(tasks.table(folder), name), brief=True)
    return table


def chosen_settings(entry: MethodEntry) -> tuple[str, Table, int]:
    """Name, settings and results version of a method, as records keep them."""
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
    if entry.targets != UNKNOWN:
        settings["targets"] = entry.targets
    baseline = getattr(method, "baseline", None)
    extra = 0 if baseline is None else baseline.results_version - 1
    return chosen.name, settings, method.results_version + extra


def matched(fits: Iterable[PlannedFit], records: dict[str, Record]) -> list[tuple[PlannedFit, Record | None]]:
    """Every fit with its record, None where there is none yet: what tables and figures are made of."""
    return [(fit, records.get(fit.key)) for fit in fits]
