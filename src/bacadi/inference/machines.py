"""Other machines: the workers of a Dask scheduler (`distributed`), who joined them, and whether they are like this one.

Workers join with `dask worker ADDRESS --nthreads 1`, before a run or while it goes on, and only need bacadi installed.
What is sent and what comes back are bytes and plain values; which function a worker calls goes by its name.
"""

import platform
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import bacadi
from bacadi.data.text import quoted
from bacadi.errors import ConfigError, InferenceError

CONNECT_SECONDS = 5
LOOK_SECONDS = 0.1
"""Between two looks at what the workers have done."""

Job = Callable[..., dict[str, Any]]
"""A function of a module of ours; its first argument are the versions that are wanted. A worker of other versions
answers with those of `refusal`."""


class Machines:
    """The workers of the Dask scheduler at an address such as `tcp://10.0.0.1:8786`.

    Args:
        address: of the scheduler.
        say: hears of workers that are sent away, and that there are none.
    """

    def __init__(self, address: str, say: Callable[[str], None] = lambda message: None) -> None:
        if find_spec("distributed") is None:
            raise ConfigError("--cluster needs the package distributed; run pip install 'bacadi[cluster]'.")
        from distributed import Client

        self.address, self.say, self.wanted = address, say, compared()
        self._busy: list[Any] = []
        self._idle_said = False
        try:
            self.client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as failure:
            raise ConfigError(
                f"No Dask scheduler answers at {quoted(address)} ({type(failure).__name__}); start one with "
                "`dask scheduler` and give the address that it prints."
            ) from None
        try:
            for worker, found in self.client.run(compared).items():
                if differing := differences(found, self.wanted):
                    raise ConfigError(f"The worker at {worker} has {differing}; install the same versions there.")
        except BaseException:
            self.client.close()
            raise

    def __enter__(self) -> "Machines":
        return self

    def __exit__(self, *error: object) -> None:
        self.give_up()
        self.client.close()

    @property
    def n_workers(self) -> int:
        """How many jobs run side by side."""
        try:
            if self.client.status == "running":
                return sum(self.client.nthreads().values())
        except (OSError, TimeoutError):
            pass
        raise InferenceError(
            f"The Dask scheduler at {quoted(self.address)} has gone; start it anew and resume the run."
        )

    def share(self, payload: bytes) -> Any:
        """What all jobs need, held by the workers; where one that had it is lost, it is sent again."""
        return self._task(_given, payload, pure=True)

    def submit(self, job: Job, *arguments: Any, near: str | None = None) -> Any:
        """A job as a future; `near` is the address of the worker that knows most about it already."""
        where = {} if near is None else {"workers": [near], "allow_other_workers": True}
        future = self._task(job, self.wanted, *arguments, pure=False, **where)
        self._busy.append(future)
        return future

    def _task(self, function: Callable[..., Any], *arguments: Any, **how: Any) -> Any:
        with warnings.catch_warnings():
            # That a task is large: Dask would have data scattered, which are gone with the worker that has them.
            warnings.simplefilter("ignore", UserWarning)
            return self.client.submit(function, *arguments, **how)

    def ended(self) -> list[Any]:
        """The jobs that ended since the last call; waits a moment where there are none."""
        n_workers = self.n_workers
        done = [future for future in self._busy if future.done()]
        if not done:
            if not n_workers and not self._idle_said:
                self.say("no worker has joined yet; start one with: dask worker ADDRESS --nthreads 1")
            self._idle_said = not n_workers
            time.sleep(LOOK_SECONDS)
        self._busy = [future for future in self._busy if future not in done]
        return done

    def answer(self, future: Any) -> dict[str, Any] | None:
        """What a job that ended has answered; None where it has to be submitted again, to another worker."""
        if future.status != "finished":
            failure = future.exception() if future.status == "error" else None
            if failure is None or type(failure).__name__ == "KilledWorker":
                raise InferenceError(
                    "A part of the run was lost with several workers, one after the other; see why they died (memory?) "
                    "and resume the run."
                )
            raise failure
        found: dict[str, Any] = future.result()
        if "differing" in found:
            self.say(f"the worker at {found['worker']} has {found['differing']} and is sent away")
            self.client.retire_workers([found["worker"]])
            return None
        return found

    def give_up(self) -> None:
        """Let go of all jobs that have not ended; workers look whether theirs is still wanted."""
        with suppress(Exception):
            self.client.cancel(self._busy, force=True)
        self._busy = []


def compared() -> dict[str, str]:
    """The versions that have to be the same everywhere."""
    found = {"python": platform.python_version(), "bacadi": bacadi.__version__}
    return found | {name: version(name) for name in ("numpy", "numba")}


def differences(found: dict[str, str], wanted: dict[str, str]) -> str:
    """What differs, in words; empty where nothing does.

    >>> differences({"numpy": "2.0"}, {"numpy": "2.1"})
    'numpy 2.0, not 2.1'
    """
    other = {name: value for name, value in wanted.items() if found.get(name) != value}
    return " and ".join(f"{name} {found.get(name, 'missing')}, not {value}" for name, value in other.items())


def refusal(wanted: dict[str, str]) -> dict[str, str] | None:
    """On a worker: the answer of one that has other versions than those wanted, which may have joined late."""
    differing = differences(compared(), wanted)
    return {"differing": differing, "worker": own_address()} if differing else None


def own_address() -> str:
    """On a worker: its address."""
    from distributed import get_worker

    return str(get_worker().address)


def is_given_up() -> bool:
    """On a worker: whether whoever submitted has gone, or no longer wants the job that this thread is at."""
    from distributed import get_worker

    with suppress(Exception):
        worker = get_worker()
        task = worker.state.tasks.get(worker.get_current_task())
        return task is not None and task.state == "cancelled"
    return False


def _given(payload: bytes) -> bytes:
    return payload
