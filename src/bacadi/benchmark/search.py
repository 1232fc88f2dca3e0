"""Settings chosen by search, as in the paper's appendix, with Optuna; and the run of a whole study, searches first.

For each method with ranges and each set of tasks, settings are drawn (tree-structured Parzen estimator), fitted to the
tuning tasks and judged by the mean of a metric, held-out I-NLL. Their fits are ordinary records. What was chosen is a
record as well, so that tables need no Optuna. Settings are asked for in batches of a fixed size, and the sampler of
each batch has a seed of its own: a search that is killed and resumed tries the same settings.
"""

import math
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bacadi.benchmark.engines import TICK, AbstractEngine
from bacadi.benchmark.plan import (
    SEARCH,
    SETTINGS,
    PlannedFit,
    chosen_settings,
    plan,
    search_identity,
    specification,
    tuning_seeds,
    with_settings,
)
from bacadi.benchmark.records import CHOSEN, DONE, Record, RecordStore
from bacadi.benchmark.runner import Event, Listener, run_fits
from bacadi.benchmark.study import AbstractRange, Among, LogUniform, MethodEntry, Study, TaskSet, UniformRange
from bacadi.benchmark.work import machine, versions
from bacadi.config.codec import Table
from bacadi.data.text import quoted
from bacadi.errors import ConfigError, InferenceError, StoreError

_BATCH = 4


@dataclass(frozen=True)
class StudyRun:
    """A study with all that running it needs.

    Args:
        folder: where paths of the study start.
        storage: URL of the database in which Optuna keeps its trials; None: an SQLite file beside the store.
    """

    study: Study
    folder: Path
    store: RecordStore
    engine: AbstractEngine
    listen: Listener
    retry_failed: bool = False
    storage: str | None = None

    def go(self) -> dict[str, Record]:
        """Search, then carry out what is missing, and return all records of the study."""
        searches = [Search(self, entry, tasks) for entry in self.study.methods for tasks in self._searched(entry)]
        while searches := [search for search in searches if not search.go()]:  # others are at what is left of them
            self._run_known()
            time.sleep(2 * TICK)
            self.listen(Event())
        return self._run_known()

    def _searched(self, entry: MethodEntry) -> list[TaskSet]:
        return self.study.sets_of(entry) if entry.search else []

    def _run_known(self) -> dict[str, Record]:
        """Carry out the fits whose settings are known."""
        fits = [fit for fit in plan(self.study, self.folder, self.store.all()) if not fit.pending]
        before = self.store.get(fit.key for fit in fits)
        for fit in fits:
            if fit.protocol is not None and fit.key in before:  # a setting that was tried may be the one chosen
                self.store.mark(fit.key, **{SEARCH: fit.protocol})
        return run_fits(fits, self.store, self.engine, self.listen, self.retry_failed)

    @property
    def storage_url(self) -> str:
        """The database of the trials."""
        return self.storage or f"sqlite:///{self.store.path.with_suffix('.search.sqlite').absolute()}"


class Search:
    """The search for settings of one method on one set of tasks."""

    def __init__(self, run: StudyRun, entry: MethodEntry, tasks: TaskSet) -> None:
        self._run, self._entry, self._tasks, self._plan = run, entry, tasks, run.study.search
        self._spec = specification(tasks, run.folder)
        self._identity = search_identity(entry, tasks, self._spec, self._plan)
        self._label = f"{entry.title}, search"

    def go(self) -> bool:
        """Try all settings and record the best, unless that is done already; False if another runner is at it."""
        store, key = self._run.store, self._identity.key
        if key in store.get([key]):
            return True
        if not store.claim(key):
            return False
        try:
            store.add(self._chosen())
        finally:
            store.release([key])
        return True

    def _chosen(self) -> Record:
        """Try all settings; the record of what was chosen."""
        key, scores = self._identity.key, {"": self._scores([{}])[0]}
        trials = _Trials(self._run.storage_url, f"bacadi {key[:24]}", self._entry.search, self._plan.seed)
        tried: dict[str, Mapping[str, Any]] = {"": {}}
        while len(tried) <= self._plan.n_settings:
            asked = trials.ask(min(_BATCH, self._plan.n_settings + 1 - len(tried)))
            found = self._scores([settings for _, settings in asked])
            for (number, settings), score in zip(asked, found, strict=True):
                trials.tell(number, score)
                tried[str(number)], scores[str(number)] = settings, score
        best = min(scores, key=lambda name: scores[name])
        if math.isinf(scores[best]):
            raise InferenceError(
                f"No setting of {quoted(self._entry.title)} gave a finite {self._plan.metric} on the tuning tasks of "
                f"{quoted(self._tasks.label)}; look at the errors that the run printed or give [search] another metric."
            )
        return self._record(tried, scores, best)

    def _scores(self, candidates: list[Mapping[str, Any]]) -> list[float]:
        """The mean of the metric over the tuning tasks of each setting; ∞ where a fit failed or has none."""
        fits = [self._fits(settings) for settings in candidates]
        together = [fit for of_one in fits for fit in of_one]
        records = run_fits(together, self._run.store, self._run.engine, self._run.listen)
        return [self._score([records[fit.key] for fit in of_one]) for of_one in fits]

    def _score(self, records: list[Record]) -> float:
        values = [record.value(self._plan.metric) if record.reason == DONE else math.nan for record in records]
        mean = math.fsum(values) / len(values)
        return mean if math.isfinite(mean) else math.inf

    def _fits(self, settings: Mapping[str, Any]) -> list[PlannedFit]:
        entry = with_settings(self._entry, settings).replace(label=self._label, search={})
        chosen, limit = chosen_settings(entry), entry.time_limit or self._run.study.time_limit
        seeds = tuning_seeds(self._tasks, self._plan)
        return [PlannedFit(self._tasks, entry, chosen.identity(self._spec, seed, entry.seed), limit) for seed in seeds]

    def _record(self, tried: Mapping[str, Mapping[str, Any]], scores: Mapping[str, float], best: str) -> Record:
        rows = [{**tried[name], self._plan.metric: _finite(scores[name])} for name in tried]
        details: Table = {SETTINGS: dict(tried[best]), SEARCH: self._plan.protocol, "trials": rows}
        return Record(
            **self._identity._asdict(),
            reason=CHOSEN,
            metrics={self._plan.metric: scores[best]},
            details=details,
            versions=versions(),
            machine=machine(),
            recorded=datetime.now(UTC).isoformat(timespec="seconds"),
        )


def _finite(score: float) -> float | None:
    return score if math.isfinite(score) else None


class _Trials:
    """The trials of a search in Optuna's database, where those of a run that was killed are found again."""

    def __init__(self, url: str, name: str, ranges: Mapping[str, AbstractRange], seed: int) -> None:
        if find_spec("optuna") is None:
            raise ConfigError("A search needs the package optuna; run pip install 'bacadi[bench]'.")
        import optuna

        self._optuna, self._seed = optuna, seed
        self._distributions = {path: _distribution(one) for path, one in ranges.items()}
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
        try:
            self._study = optuna.create_study(storage=url, study_name=name, load_if_exists=True)
        except Exception as failure:  # of whatever database and driver the URL names
            what = " ".join(str(failure).split()).split(" (Background")[0]
            raise StoreError(
                f"The storage of the search {quoted(url)} cannot be used ({type(failure).__name__}: {what}); give "
                "--search-storage another URL."
            ) from failure
        self._replayed = 0

    def ask(self, n: int) -> list[tuple[int, dict[str, Any]]]:
        """The next settings to try, by number: those that the database holds first, then new ones."""
        held = self._study.get_trials(deepcopy=False)[self._replayed : self._replayed + n]
        asked = [(trial.number, dict(trial.params)) for trial in held]
        # A sampler of its own for every batch: what it asks for depends on the trials before, not on how often the
        # program was started.
        self._study.sampler = self._optuna.samplers.TPESampler(seed=self._seed + self._replayed, constant_liar=True)
        while len(asked) < n:
            trial = self._study.ask(self._distributions)
            asked.append((trial.number, dict(trial.params)))
        self._replayed += n
        return [(number, {path: _short(value) for path, value in params.items()}) for number, params in asked]

    def tell(self, number: int, score: float) -> None:
        """Say what a setting was worth; one that failed is not built on."""
        state = self._optuna.trial.TrialState
        with suppress(ValueError):  # it was told in an earlier run
            if math.isfinite(score):
                self._study.tell(number, score)
            else:
                self._study.tell(number, state=state.FAIL)


def _distribution(range_: AbstractRange) -> Any:
    from optuna import distributions

    if isinstance(range_, Among):
        return distributions.CategoricalDistribution(range_.values)
    assert isinstance(range_, LogUniform | UniformRange)
    log = isinstance(range_, LogUniform)
    if range_.whole:
        return distributions.IntDistribution(round(range_.low), round(range_.high), log=log)
    return distributions.FloatDistribution(range_.low, range_.high, log=log)


def _short(value: Any) -> Any:
    """Six digits of a number are enough, and readable."""
    return float(f"{value:.6g}") if isinstance(value, float) else value
