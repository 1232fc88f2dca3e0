"""The engine for many machines: fits as tasks of a Dask scheduler (`distributed`), records back to the one store.

Workers join with `dask worker ADDRESS --nthreads 1`, before the run or while it goes on, and only need bacadi
installed. Every thread of a worker holds a process of its own for the fits, so that time limits and crashes work as on
one machine. Dask itself gives the fits of a lost worker to others.
"""

import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from bacadi.benchmark.engines import TICK, AbstractEngine, out_of_time, stopped
from bacadi.benchmark.plan import PlannedFit
from bacadi.benchmark.records import FAILED, TIMEOUT, Identity, Record
from bacadi.benchmark.worker import WorkerProcess
from bacadi.inference.machines import Machines, is_given_up, refusal

_OF_THREAD = threading.local()

Answer = dict[str, Any]


class DaskEngine(AbstractEngine):
    """The workers of a Dask scheduler at an address such as `tcp://10.0.0.1:8786`.

    Args:
        address: of the scheduler.
        say: hears of workers that are sent away.
    """

    def __init__(self, address: str, say: Callable[[str], None] = lambda message: None) -> None:
        self._say, self._machines = say, Machines(address, say)
        self._client = self._machines.client
        self._futures: dict[Any, PlannedFit] = {}

    @property
    def n_workers(self) -> int:
        return self._machines.n_workers

    def __exit__(self, *error: object) -> None:
        # Workers look whether their fit is still wanted, and end it if not.
        with suppress(Exception):
            self._client.cancel(list(self._futures), force=True)
        self._futures = {}
        self._client.close()

    def run(
        self, fits: Iterable[PlannedFit], start: Callable[[PlannedFit], bool]
    ) -> Iterator[tuple[PlannedFit, Record] | None]:
        waiting, again = iter(fits), list[PlannedFit]()
        idle_said = False
        while True:
            n_workers = self.n_workers
            # One fit in hand for every one that runs: workers never wait, and those that join late find some.
            while len(self._futures) < max(2 * n_workers, 1):
                fit = again.pop() if again else next((one for one in waiting if start(one)), None)
                if fit is None:
                    break
                self._submit(fit)
            if not self._futures:
                return
            if not n_workers and not idle_said:
                self._say("no worker has joined yet; start one with: dask worker ADDRESS --nthreads 1")
            idle_said = not n_workers
            ended = [future for future in self._futures if future.done()]
            if not ended:
                time.sleep(TICK / 5)
                yield None
            for future in ended:
                fit = self._futures.pop(future)
                record = self._record(fit, future)
                if record is None:
                    again.append(fit)
                else:
                    yield fit, record

    def _submit(self, fit: PlannedFit) -> None:
        arguments = self._machines.wanted, list(fit.identity), fit.time_limit
        future = self._client.submit(fit_on_worker, *arguments, key=f"{fit.key}-{time.monotonic_ns()}", pure=False)
        self._futures[future] = fit

    def _record(self, fit: PlannedFit, future: Any) -> Record | None:
        """The record of a fit that ended; None where it has to go to another worker."""
        if future.status != "finished":  # lost with several workers, one after the other, or not importable there
            failure = future.exception()
            what = " ".join(str(failure).split()) if failure is not None else "it was lost"
            return stopped(fit, FAILED, f"The workers gave no answer ({type(failure).__name__}: {what}).")
        answer: Answer = future.result()
        if "differing" in answer:
            self._say(f"the worker at {answer['worker']} has {answer['differing']} and is sent away")
            self._client.retire_workers([answer["worker"]])
            return None
        if "record" in answer:
            return Record(**answer["record"])
        return stopped(fit, answer["reason"], answer["error"] or out_of_time(fit))


def fit_on_worker(wanted: dict[str, str], parts: list[Any], time_limit: float) -> Answer:
    """Carry out a fit in the process that belongs to this thread of a Dask worker, within its time limit."""
    if (other := refusal(wanted)) is not None:
        return other
    process = getattr(_OF_THREAD, "process", None) or WorkerProcess()
    _OF_THREAD.process = None  # until the fit has ended well
    process.submit(Identity(*parts))
    try:
        while True:
            if select.select([process], [], [], TICK)[0] and (record := process.receive()) is not None:
                _OF_THREAD.process = process
                return {"record": asdict(record)}
            if process.is_ready and time.monotonic() - process.begun > time_limit:
                return {"reason": TIMEOUT, "error": ""}
            if is_given_up():
                return {"reason": FAILED, "error": "Nobody waits for the fit any more."}
    except EOFError as end:
        return {"reason": FAILED, "error": f"The process of the fit {end}."}
    finally:
        if _OF_THREAD.process is None:
            process.kill()
