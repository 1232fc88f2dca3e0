"""An engine without processes, and `bacadi bench` as a user types it."""

import subprocess
import sys

from bacadi.benchmark.engines import AbstractEngine
from bacadi.benchmark.work import carry_out


class InlineEngine(AbstractEngine):
    """Carries out fits here and now; `stop_after` so many it is interrupted."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.carried_out: list[str] = []
        self._stop_after = stop_after

    n_workers = 1

    def __exit__(self, *error: object) -> None:
        pass

    def run(self, fits, start):
        for fit in fits:
            if start(fit):
                if len(self.carried_out) == self._stop_after:
                    raise KeyboardInterrupt
                self.carried_out.append(fit.key)
                yield fit, carry_out(fit.identity)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "bacadi", "bench", *map(str, arguments)]


def bench(*arguments: object, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run `bacadi bench …` in a process of its own."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=timeout)
