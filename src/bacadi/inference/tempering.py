"""MCMC over graph and states: parallel tempering of the collapsed posterior, compiled, one thread a replica.

A replica is a ladder of chains at inverse temperatures 1 = β_0 > … > β_{L-1}; chain l samples p(G, S) p(D | G, S)^β_l
and neighbours exchange. Replicas share nothing but the target density, so that their agreement says something. In the
first part of a run (burn-in) the spacing of the ladder is adapted so that exchanges are accepted alike everywhere.
"""

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int8

from bacadi.data.context import ContextData
from bacadi.errors import InferenceError
from bacadi.inference.checkpoint import Checkpoint
from bacadi.inference.mcmc import MCMC
from bacadi.inference.replica import Replica, compiled_target
from bacadi.inference.start import initial
from bacadi.model.collapsed import Collapsed

# When the ladder is adapted, as shares of the burn-in: after windows that grow, so that each is better informed.
ADAPTATIONS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75)
OBSERVE = 2  # sweeps between two looks at the structures of the burn-in
START_TEMPERATURE = 40.0  # of the hottest level before it is adapted


class Draws(NamedTuple):
    """What a run recorded, replicas along the first axis."""

    graphs: Int8[np.ndarray, "R n d d"]
    states: Int8[np.ndarray, "R n M d"]
    log_posterior: Float[np.ndarray, "R n"]
    swap_rates: Float[np.ndarray, "R L-1"]
    acceptance: Float[np.ndarray, "R 8"]


class Progress(NamedTuple):
    """What a person hears of a running fit."""

    step: int
    total: int
    log_posterior: float
    burning_in: bool
    seconds: float


Report = Callable[[Progress], None]


class Recorder:
    """Draws of one replica every `every` sweeps; when twice the wanted number is there, every second one is dropped."""

    def __init__(self, wanted: int, every: int) -> None:
        self.wanted, self.every, self.draws = wanted, max(every, 1), list[tuple[np.ndarray, np.ndarray, float]]()

    def record(self, sweep: int, sample: tuple[np.ndarray, np.ndarray, float]) -> None:
        if sweep % self.every:
            return
        self.draws.append(sample)
        if len(self.draws) >= 2 * self.wanted:
            self.draws, self.every = self.draws[1::2], 2 * self.every


def sample(
    collapsed: Collapsed,
    data: ContextData,
    method: MCMC,
    seed: int,
    report: Report | None = None,
    checkpoint: Checkpoint | None = None,
) -> Draws:
    """Draws of (G, S) from the collapsed posterior; equal arguments give equal draws (but for a time budget)."""
    return _Run(collapsed, data, method, seed).go(report, checkpoint)


class _Run:
    """The loop around the replicas: start, burn-in, recording, progress, checkpoints."""

    def __init__(self, collapsed: Collapsed, data: ContextData, method: MCMC, seed: int) -> None:
        plan = method.plan(data.n_variables, collapsed.evidence.costly)
        self.method, self.total, self.n_moves = method, plan.n_sweeps, plan.level_moves()
        self.adapt_range = plan.max_temperature is None
        self.burn_in = max(int(self.total * method.burn_in), 1)
        target = compiled_target(collapsed, data, method.weights)
        self.replicas = []
        for child in np.random.SeedSequence(seed).spawn(method.n_replicas):
            rng = np.random.default_rng(child)
            replica = Replica(collapsed, target, initial(rng, collapsed, data, plan.n_levels), rng)
            replica.betas = np.geomspace(1, 1 / (plan.max_temperature or START_TEMPERATURE), plan.n_levels)
            self.replicas.append(replica)
        per_replica = math.ceil(method.n_draws / method.n_replicas)
        # How many sweeps a time budget allows is not known beforehand; the recorder thins out as it goes.
        every = 1 if method.time_budget is not None else max((self.total - self.burn_in) // per_replica, 1)
        self.recorders = [Recorder(per_replica, every) for _ in self.replicas]
        self.adaptations = {int(share * self.burn_in) for share in ADAPTATIONS} - {0}

    def go(self, report: Report | None, checkpoint: Checkpoint | None) -> Draws:
        begin = saved = time.monotonic()
        sweep = 0
        arrays = None if checkpoint is None else checkpoint.load_arrays(self._arrays(sweep, 0.0).keys())
        if arrays is not None:
            sweep = self._restore(arrays)
            begin -= float(arrays["seconds"])
        with ThreadPoolExecutor(len(self.replicas)) as pool:
            step = 1
            try:
                while sweep < self.total:
                    chunk_begin = time.monotonic()
                    # Threads may be in the middle of a chunk when the interrupt comes; its beginning is whole.
                    whole = self._whole(sweep, chunk_begin - begin) if checkpoint is not None else {}
                    until = min(sweep + step, self.total)
                    list(pool.map(self._advance, self.replicas, self.recorders, repeat(sweep), repeat(until)))
                    sweep = until
                    seconds = time.monotonic() - begin
                    sweep = self._within_budget(sweep, seconds)
                    took = max(time.monotonic() - chunk_begin, 1e-3)
                    step = int(np.clip(step * 0.5 / took, 1, max(2 * step, 8)))
                    if report is not None:
                        report(self._progress(sweep, seconds))
                    if checkpoint is not None and time.monotonic() - saved > checkpoint.seconds:
                        checkpoint.save_arrays(self._arrays(sweep, time.monotonic() - begin))
                        saved = time.monotonic()
            except KeyboardInterrupt:
                if checkpoint is not None:
                    checkpoint.save_arrays(whole)
                raise
        return self._draws()

    def _pairs(self) -> list[tuple[Replica, Recorder]]:
        return list(zip(self.replicas, self.recorders, strict=True))

    def _advance(self, replica: Replica, recorder: Recorder, sweep: int, until: int) -> None:
        while sweep < until:
            stop = self._next_event(sweep, until, recorder.every)
            replica.advance(stop, self.n_moves)
            sweep = stop
            if sweep in self.adaptations and sweep < self.burn_in:
                replica.adapt(self.adapt_range)
            if sweep < self.burn_in and sweep % OBSERVE == 0:  # never where a chunk ends, which the clock decides
                replica.observe()
            if sweep == self.burn_in:
                replica.learn()
                replica.reset_counts()
            if sweep > self.burn_in:
                recorder.record(sweep - self.burn_in, replica.sample())

    def _next_event(self, sweep: int, until: int, every: int) -> int:
        events = [until, *(at for at in self.adaptations if at > sweep)]
        if sweep < self.burn_in:
            events.append(min(sweep - sweep % OBSERVE + OBSERVE, self.burn_in))
        else:
            events.append(self.burn_in + ((sweep - self.burn_in) // every + 1) * every)
        return min(events)

    def _within_budget(self, sweep: int, seconds: float) -> int:
        """Shorten what is left where the time budget asks for it."""
        budget = self.method.time_budget
        if budget is None:
            return sweep
        if sweep < self.burn_in and seconds > self.method.burn_in * budget:
            self.burn_in = sweep
            self.adaptations = set()
            for replica in self.replicas:
                replica.learn()
                replica.reset_counts()
        if seconds > budget and any(recorder.draws for recorder in self.recorders):
            self.total = sweep
        return sweep

    def _progress(self, sweep: int, seconds: float) -> Progress:
        log_p = float(np.mean([replica.sample()[2] for replica in self.replicas]))
        return Progress(sweep, self.total, log_p, sweep < self.burn_in, seconds)

    def _draws(self) -> Draws:
        n = min(min(len(recorder.draws) for recorder in self.recorders), self.recorders[0].wanted)
        if n == 0:
            raise InferenceError("The run was too short to record a draw; give it more sweeps or time.")
        kept = [_evenly(recorder.draws, n) for recorder in self.recorders]
        moved = [replica.counts.moves[0] for replica in self.replicas]
        return Draws(
            np.stack([[draw[0] for draw in draws] for draws in kept]),
            np.stack([[draw[1] for draw in draws] for draws in kept]),
            np.array([[draw[2] for draw in draws] for draws in kept]),
            np.stack([replica.swap_rates() for replica in self.replicas]),
            np.stack([count[:, 1] / np.maximum(count[:, 0], 1) for count in moved]),
        )

    def _arrays(self, sweep: int, seconds: float) -> dict[str, np.ndarray]:
        arrays = {"sweep": np.array([sweep, self.burn_in]), "seconds": np.array(seconds)}
        for r, (replica, recorder) in enumerate(self._pairs()):
            arrays |= {f"{r}.{name}": value for name, value in replica.arrays().items()}
            arrays[f"{r}.every"] = np.array(recorder.every)
            for part, name in enumerate(("graphs", "states", "log_posterior")):
                arrays[f"{r}.draws.{name}"] = np.array([draw[part] for draw in recorder.draws])
        return arrays

    def _whole(self, sweep: int, seconds: float) -> dict[str, np.ndarray]:
        """A copy of everything, which the threads that go on do not change."""
        return {name: value.copy() for name, value in self._arrays(sweep, seconds).items()}

    def _restore(self, arrays: dict[str, np.ndarray]) -> int:
        sweep, self.burn_in = (int(value) for value in arrays["sweep"])
        for r, (replica, recorder) in enumerate(self._pairs()):
            own = {name.removeprefix(f"{r}."): value for name, value in arrays.items() if name.startswith(f"{r}.")}
            replica.restore(own)
            if sweep >= self.burn_in:
                replica.learn()
            recorder.every = int(own["every"])
            parts = (own["draws.graphs"], own["draws.states"], own["draws.log_posterior"].tolist())
            recorder.draws = list(zip(*parts, strict=True))
        return sweep


def _evenly(draws: list, n: int) -> list:
    """`n` of the draws, evenly spaced, the last one among them."""
    return (
        [draws[i] for i in np.linspace(0, len(draws) - 1, n + 1).round().astype(int)[1:]] if len(draws) > n else draws
    )
