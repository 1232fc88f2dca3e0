"""Who watches a running fit: the log file, the progress bar on a terminal, and Ctrl-C."""

import json
import signal
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from bacadi.inference.method import Progress

_LOG_SECONDS = 10.0


class Log:
    """log.jsonl: one JSON object per line with `time` and `event`; a fresh run begins a fresh file."""

    def __init__(self, path: Path, fresh: bool) -> None:
        self._path = path
        if fresh:
            path.write_text("", encoding="utf-8")

    def write(self, event: str, **entries: Any) -> None:
        """Append one line; it is on disk when the call returns."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **entries}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


class Interrupts:
    """Ctrl-C between two chunks of steps instead of inside one, so that the state can be saved whole.

    Before the first report there is no state worth saving and a second Ctrl-C means now: both interrupt at once.
    """

    def __init__(self) -> None:
        self._running = self._pending = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._running or self._pending:
            raise KeyboardInterrupt
        self._pending = True

    def between_chunks(self) -> None:
        """Raise the interrupt that came in since the last call."""
        self._running = True
        if self._pending:
            raise KeyboardInterrupt


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
        self._interrupts.__exit__()
        self._log_checkpoint()

    def open(self, words: str, budget: float | None = None) -> None:
        """Say what is done before the first report; what takes long (compiling) also where there is no bar.

        With a time budget (seconds) the bar may follow the clock.
        """
        self._budget = budget
        self._log.write("opening", words=words)
        if self._bar is not None:
            self._bar.update(self._task, description=words)
        elif words.startswith("compiling the sampler") and not self._quiet:
            print(f"{words} …", file=sys.stderr, flush=True)

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
        self._interrupts.between_chunks()

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
