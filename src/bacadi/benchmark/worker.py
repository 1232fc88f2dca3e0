"""A process that carries out one fit after the other: `python -m bacadi.benchmark.worker`, and its handle.

The process reads identities of fits as lines of JSON and answers with records, likewise. It can be killed at any time,
by a time limit or by the system, and takes nothing with it but the fit at hand. It ends with its parent.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from typing import IO, Any

from bacadi.baselines.bootstrap import end_with
from bacadi.benchmark.records import Identity, Record
from bacadi.errors import InferenceError

_READY = "ready"
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


class WorkerProcess:
    """A worker process and the fit that it is at.

    Args:
        single: whether libraries are to use one thread, for several workers on one machine.
    """

    def __init__(self, single: bool = True) -> None:
        environment = os.environ | (dict.fromkeys(_THREADS, "1") if single else {})
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the runner, and a kill is for all that the fit has started
        )
        self._text = b""
        self.is_ready = False
        self.begun = time.monotonic()

    def fileno(self) -> int:
        """What can be waited for: there is something to read."""
        return self._pipe(self._process.stdout).fileno()

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None
        return pipe

    def submit(self, identity: Identity) -> None:
        """Give the worker a fit to carry out."""
        self.begun = time.monotonic()
        pipe = self._pipe(self._process.stdin)
        with contextlib.suppress(BrokenPipeError):  # a worker that has died is found out when it is asked
            pipe.write(json.dumps(list(identity)).encode() + b"\n")
            pipe.flush()

    def receive(self) -> Record | None:
        """Read what there is; the record once it is whole. A worker that died raises `EOFError` with its end."""
        part = os.read(self.fileno(), 1 << 20)
        if not part:
            raise EOFError(self._end())
        self._text += part
        while b"\n" in self._text:
            line, _, self._text = self._text.partition(b"\n")
            message = json.loads(line)
            if message != _READY:
                return Record(**message)
            self.is_ready, self.begun = True, time.monotonic()
        return None

    def _end(self) -> str:
        code = self._process.wait()
        if not self.is_ready:
            raise InferenceError(
                "A worker process cannot be started; `python -m bacadi.benchmark.worker < /dev/null` says why."
            )
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def kill(self) -> None:
        """End the process and all that it has started, now."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                self._pipe(pipe).close()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid


def _die_with_parent(parent: int) -> None:
    """Have the system kill this process when its parent dies; where it cannot, look after the parent."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    end_with(parent)


def main() -> None:
    """Answer every line of stdin with a line of stdout until there are no more."""
    _die_with_parent(os.getppid())
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    from bacadi.benchmark.work import carry_out

    def answer(message: Any) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    answer(_READY)
    for line in sys.stdin:
        answer(asdict(carry_out(Identity(*json.loads(line)))))


if __name__ == "__main__":
    main()
