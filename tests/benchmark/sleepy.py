"""A baseline that takes the time it is told to and ends as it is told to, for tests of what runs it."""

import os
import signal
import time

import numpy as np

from bacadi.baselines import AbstractBaseline, Estimate
from bacadi.config.choices import option


class Sleepy(AbstractBaseline):
    """Says x1 → x2 → …, whatever the data, unless it ends otherwise; `level` has no meaning but to be set."""

    seconds: float = option(0.0, least=0)
    ending: str = option("well", among=("well", "error", "segfault", "exit", "memory", "interrupt"))
    level: float = option(0.5, above=0)

    def estimate(self, rng, data, known_targets):
        time.sleep(self.seconds)
        if self.ending == "error":
            raise RuntimeError("as asked")
        if self.ending == "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.ending == "exit":
            os._exit(3)
        if self.ending == "memory":
            raise MemoryError
        d = data.n_variables
        return Estimate(np.eye(d, k=1, dtype=np.int8), np.zeros((data.n_contexts, d), np.int8))
