"""Who watches a running fit: the log file, the progress bar on a terminal, and the signals that end it."""

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer

from bacadi.commands.outputs import say
from bacadi.data.text import duration
from bacadi.errors import ConfigError
from bacadi.inference.method import STARTING

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from bacadi.inference.method import Progress

_LOG_SECONDS = 10.0
# A run that will take longer than the first of these seconds says so, after it was observed for the second.
_LONG_RUN, _OBSERVED = 30.0, 3.0
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class Log:
    """log.jsonl: one JSON object per line with `time` and `event`. While it is open, nobody else can open it.

    The lock is on the log because every run has one from its first moment on; the system frees it when a process dies.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        try:
            self._file = os.fdopen(os.open(path, flags, 0o666), "ab", buffering=0)
        except OSError as error:
            raise ConfigError(f"'{path}' cannot be written to ({error.strerror}); choose another folder.") from error
        if not _locked(self._file.fileno()):
            self._file.close()
            raise ConfigError(
                f"Another bacadi is at work in the folder '{path.parent}'; wait until it ends or choose another folder."
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def clear(self) -> None:
        """Begin a fresh file."""
        self._file.truncate(0)

    def write(self, event: str, **entries: Any) -> None:
        """Append one line, which is on disk when the call returns; a full disk does not end a run."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **entries}
        with suppress(OSError):
            self._file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")


def _locked(file: int) -> bool:
    """Lock an open file; True as well where the system or the file system has no locks."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    return True


class Interrupted(KeyboardInterrupt):
    """A signal asked the program to end: Ctrl-C, a scheduler (SIGTERM), a terminal that was closed (SIGHUP)."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class Interrupts:
    """Signals between two chunks of steps instead of inside one, so that the state can be saved whole.

    Before the first report and after the last there is no chunk to wait for, and a second signal means now: these
    interrupt at once. A signal that is ignored when the run begins (`nohup`) stays ignored.
    """

    def __init__(self) -> None:
        self._in_chunks, self._pending = False, 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)):
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        if self._pending and kind is None:
            raise Interrupted(self._pending)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._in_chunks or self._pending:
            raise Interrupted(number)
        self._pending = number

    def between_chunks(self, last: bool = False) -> None:
        """Raise the interrupt that came in since the last call; after the `last` chunk they no longer wait."""
        self._in_chunks = not last
        if self._pending:
            raise Interrupted(self._pending)


class Watch:
    """The report of a run: log, bar and interrupts together, as a context manager around the fit."""

    def __init__(self, log: Log, checkpoint: Path, quiet: bool) -> None:
        self._log, self._checkpoint, self._quiet = log, checkpoint, quiet
        self._bar = _bar() if sys.stderr.isatty() and not quiet else None
        self._interrupts = Interrupts()
        self._task: Any = None
        self._budget: float | None = None
        self._logged = time.monotonic()
        self._saved = self._stamp()
        self._warned = self._estimated = False
        self._timed: tuple[str, float, int] | None = None
        self.step = 0

    def __enter__(self) -> Self:
        self._interrupts.__enter__()
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task("starting", total=None, note="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._log_checkpoint()
        self._interrupts.__exit__(kind, error, trace)

    def open(self, words: str, budget: float | None = None) -> None:
        """Say what is done before the first report; what takes long (compiling) also where there is no bar.

        With a time budget (seconds) the bar may follow the clock.
        """
        self._budget = budget
        self._log.write("opening", words=words)
        if self._bar is not None:
            self._bar.update(self._task, description=words)
        elif words.startswith("compiling") and not self._quiet:
            typer.echo(f"{words} …", err=True)

    def warn(self, message: str) -> None:
        """A trouble that does not end the run, such as a checkpoint that could not be written; printed once."""
        self._log.write("warning", message=message)
        if not self._warned:
            self._warned = True
            say(f"Warning: {message}", err=True)

    def __call__(self, progress: "Progress") -> None:
        self._log_checkpoint()
        self.step = progress.step
        if time.monotonic() - self._logged >= _LOG_SECONDS:
            self._logged = time.monotonic()
            where = {"step": progress.step, "steps": progress.total, "seconds": round(progress.seconds, 3)}
            self._log.write("progress", **where, **progress.entries)
        if self._bar is not None:
            done, total = self._position(progress)
            self._bar.update(self._task, description=progress.phase, completed=done, total=total, note=progress.note)
        elif not self._quiet:
            self._estimate(progress)
        self._interrupts.between_chunks(last=progress.step >= progress.total)

    def _estimate(self, progress: "Progress") -> None:
        """Say once how long the run will take, if that is long; for those who see no bar."""
        now = time.monotonic()
        if self._timed is None or self._timed[0] != progress.phase:
            self._timed = (progress.phase, now, progress.step)
        _, begin, first = self._timed
        if self._estimated or progress.phase == STARTING or now - begin < _OBSERVED or progress.step == first:
            return
        self._estimated = True
        left = (progress.total - progress.step) * (now - begin) / (progress.step - first)
        if self._budget is not None:
            left = min(left, self._budget - progress.seconds)
        if left > _LONG_RUN:
            self._log.write("estimate", seconds=round(left))
            typer.echo(f"about {duration(left)} to go …", err=True)

    def _position(self, progress: "Progress") -> tuple[float, float]:
        """Steps, or seconds where the time budget will be over before the steps are."""
        if self._budget is not None and progress.seconds * progress.total > progress.step * self._budget:
            return min(int(progress.seconds), self._budget), self._budget
        return progress.step, progress.total

    def _log_checkpoint(self) -> None:
        """The loop saves after it reported, so a new file stands for the step reported last."""
        if (stamp := self._stamp()) not in (self._saved, None):
            self._saved = stamp
            self._log.write("checkpoint", step=self.step)

    def _stamp(self) -> int | None:
        return self._checkpoint.stat().st_mtime_ns if self._checkpoint.exists() else None


def _bar() -> "Bar":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
        transient=True,
    )
