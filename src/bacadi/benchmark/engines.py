"""Engines: what carries out planned fits, here on the processes of this machine. Others have the same method `run`."""

import os
import selectors
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Self

from bacadi.benchmark.plan import LIMIT, PlannedFit
from bacadi.benchmark.records import FAILED, TIMEOUT, Record
from bacadi.benchmark.work import machine, versions
from bacadi.benchmark.worker import WorkerProcess
from bacadi.data.text import duration

TICK = 0.5
"""Seconds between two looks at time limits and signals."""


class AbstractEngine(ABC):
    """Carries out fits, in whatever order they end; a context manager that holds the workers."""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, *error: object) -> None:
        """End all workers at once."""

    @abstractmethod
    def run(
        self, fits: Iterable[PlannedFit], start: Callable[[PlannedFit], bool]
    ) -> Iterator[tuple[PlannedFit, Record] | None]:
        """Yield every fit with its record as it ends, and None now and then while nothing does.

        `start` is asked just before a fit begins; where it says no, the fit is left out.
        """

    @property
    @abstractmethod
    def n_workers(self) -> int:
        """How many fits run side by side."""


class LocalEngine(AbstractEngine):
    """Processes of this machine, one fit each at a time, one thread each where there are several."""

    def __init__(self, jobs: int | None = None) -> None:
        self._jobs = jobs or n_cores()
        self._idle: list[WorkerProcess] = []
        self._busy: dict[WorkerProcess, PlannedFit] = {}

    @property
    def n_workers(self) -> int:
        return self._jobs

    def __exit__(self, *error: object) -> None:
        for worker in (*self._idle, *self._busy):
            worker.kill()
        self._idle, self._busy = [], {}

    def run(
        self, fits: Iterable[PlannedFit], start: Callable[[PlannedFit], bool]
    ) -> Iterator[tuple[PlannedFit, Record] | None]:
        waiting = iter(fits)
        self._fill(waiting, start)
        while self._busy:
            ended = list(self._ended())
            yield from ended
            if not ended:
                yield None
            self._fill(waiting, start)

    def _fill(self, waiting: Iterator[PlannedFit], start: Callable[[PlannedFit], bool]) -> None:
        while len(self._busy) < self._jobs and (fit := next((one for one in waiting if start(one)), None)):
            worker = self._idle.pop() if self._idle else WorkerProcess(single=self._jobs > 1)
            self._busy[worker] = fit
            worker.submit(fit.identity)

    def _ended(self) -> Iterator[tuple[PlannedFit, Record]]:
        """Fits that have ended, by themselves, by the end of their process or by their time limit."""
        with selectors.DefaultSelector() as selector:
            for worker in self._busy:
                selector.register(worker, selectors.EVENT_READ)
            ready: list[Any] = [key.fileobj for key, _ in selector.select(TICK)]
        for worker in ready:
            fit = self._busy[worker]
            try:
                record = worker.receive()
            except EOFError as end:
                yield self._lost(worker), stopped(fit, FAILED, f"The process of the fit {end}.")
            else:
                if record is not None:
                    self._idle.append(worker)
                    del self._busy[worker]
                    yield fit, record
        now = time.monotonic()
        for worker, fit in list(self._busy.items()):
            if worker.is_ready and now - worker.begun > fit.time_limit:
                yield self._lost(worker), stopped(fit, TIMEOUT, out_of_time(fit))

    def _lost(self, worker: WorkerProcess) -> PlannedFit:
        worker.kill()
        return self._busy.pop(worker)


def stopped(fit: PlannedFit, reason: str, error: str) -> Record:
    """The record of a fit that did not come to its end."""
    facts: dict[str, Any] = {"versions": versions(), "machine": machine(), "error": error}
    if reason == TIMEOUT:
        facts |= {"details": {LIMIT: fit.time_limit}, "seconds": fit.time_limit}
    return Record(
        **fit.identity._asdict(), reason=reason, **facts, recorded=datetime.now(UTC).isoformat("T", "seconds")
    )


def out_of_time(fit: PlannedFit) -> str:
    """Why a fit was ended, in a sentence."""
    return f"The fit took longer than its limit of {duration(fit.time_limit)}."


def n_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
