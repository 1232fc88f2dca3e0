"""Runs what is missing of a study and records it; a second run does only what the first one left."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from bacadi.benchmark.engines import TICK, AbstractEngine
from bacadi.benchmark.plan import SEARCH, PlannedFit
from bacadi.benchmark.records import DONE, Record, RecordStore

_BEAT_SECONDS = 15.0


class Event(NamedTuple):
    """Something that happened to a fit: it began (no record) or ended; without a fit, only time went by."""

    fit: PlannedFit | None = None
    record: Record | None = None


Listener = Callable[[Event], None]


def run_fits(
    fits: Sequence[PlannedFit],
    store: RecordStore,
    engine: AbstractEngine,
    listen: Listener = lambda event: None,
    retry_failed: bool = False,
) -> dict[str, Record]:
    """Carry out the fits that have no record yet and return the records of all.

    Several runners may do so with one store at the same time: a fit that another one has begun is left to it, and
    looked after again at the end.
    """
    return _Run(store, engine, listen).go(fits, retry_failed)


class _Run:
    """The loop of `run_fits`: what is left, what others are at, and when this runner last said that it lives."""

    def __init__(self, store: RecordStore, engine: AbstractEngine, listen: Listener) -> None:
        self._store, self._engine, self._listen = store, engine, listen
        self._beaten = time.monotonic()
        self._retried: set[str] = set()
        self._claimed: set[str] = set()

    def go(self, fits: Sequence[PlannedFit], retry_failed: bool) -> dict[str, Record]:
        records = self._store.get(fit.key for fit in fits)
        left = _unique(fit for fit in fits if not fit.is_settled(records.get(fit.key), retry_failed))
        self._retried = {fit.key for fit in left if fit.key in records}
        try:
            while left:
                for ended in self._engine.run(left, self._begin):
                    if ended is not None:
                        self._record(*ended)
                    self._live()
                records = self._store.get(fit.key for fit in fits)
                left = [fit for fit in left if not self._is_settled(fit, records.get(fit.key))]
                if left:  # others are at them; they may end or die
                    time.sleep(2 * TICK)
                    self._live()
        finally:
            self._store.release(self._claimed)
        return self._store.get(fit.key for fit in fits)

    def _is_settled(self, fit: PlannedFit, record: Record | None) -> bool:
        return record is not None and fit.key not in self._retried

    def _begin(self, fit: PlannedFit) -> bool:
        """Claim a fit, unless somebody else has or its record came in."""
        if not self._store.claim(fit.key):
            return False
        self._claimed.add(fit.key)
        if self._is_settled(fit, self._store.get([fit.key]).get(fit.key)):
            return False
        self._listen(Event(fit))
        return True

    def _record(self, fit: PlannedFit, record: Record) -> None:
        if fit.protocol is not None:
            record = replace(record, details=record.details | {SEARCH: fit.protocol})
        self._store.add(record, replace_failures=fit.key in self._retried)
        self._retried.discard(fit.key)
        self._listen(Event(fit, record))

    def _live(self) -> None:
        if time.monotonic() - self._beaten > _BEAT_SECONDS:
            self._beaten = time.monotonic()
            self._store.beat()
        self._listen(Event())


def _unique(fits: Iterable[PlannedFit]) -> list[PlannedFit]:
    """Fits of different labels may be one and the same; it is carried out once."""
    return list({fit.key: fit for fit in fits}.values())


class Standing(NamedTuple):
    """How far a method is on a set of tasks; `seconds` is the mean time of its fits, None before the first."""

    tasks: str
    method: str
    done: int
    failed: int
    left: int
    seconds: float | None

    @property
    def seconds_left(self) -> float | None:
        """The time that what is left takes one worker; None where nobody knows yet."""
        return 0.0 if not self.left else None if self.seconds is None else self.left * self.seconds


def standings(fits: Sequence[PlannedFit], records: dict[str, Record]) -> list[Standing]:
    """Done, failed, left and time of each method on each set of tasks, in the order of the study."""
    groups: dict[tuple[str, str], list[PlannedFit]] = {}
    for fit in fits:
        groups.setdefault((fit.tasks.label, fit.entry.title), []).append(fit)
    found = []
    for (tasks, method), members in groups.items():
        of_group = [records.get(fit.key) for fit in members]
        settled = [one for fit, one in zip(members, of_group, strict=True) if one and fit.is_settled(one)]
        done = [one for one in settled if one.reason == DONE]
        times = [one.details.get("overall_seconds", one.seconds) for one in settled if one.seconds is not None]
        mean = sum(times) / len(times) if times else None
        counts = len(done), len(settled) - len(done), len(members) - len(settled)
        found.append(Standing(tasks, method, *counts, mean))
    return _with_guesses(found)


def _with_guesses(found: list[Standing]) -> list[Standing]:
    """Where a method has no time on some tasks yet, its mean time on others stands in."""
    known: dict[str, list[float]] = {}
    for one in found:
        if one.seconds is not None:
            known.setdefault(one.method, []).append(one.seconds)
    guess = {method: sum(times) / len(times) for method, times in known.items()}
    return [one if one.seconds is not None else one._replace(seconds=guess.get(one.method)) for one in found]
