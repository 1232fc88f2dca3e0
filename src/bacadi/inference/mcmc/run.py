"""The run of `MCMC`: starts, burn-in and draws of all replicas, one thread each, within a time budget if there is one.

A run goes on from its checkpoint as if it had never been interrupted: a checkpoint holds the chains and draws of all
replicas or, before there are any, the searches for their starts that came to an end (`state`).
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from itertools import count, repeat
from typing import NamedTuple

import numpy as np
from jaxtyping import Int8

from bacadi.data.contexts import ContextData
from bacadi.errors import InferenceError
from bacadi.evidence.collapsed import CollapsedPosterior
from bacadi.evidence.compiled import ONE_THREAD
from bacadi.inference.checkpoint import Checkpoint
from bacadi.inference.mcmc.draws import ChainDraws, evenly, packed, places, unpacked_graphs, unpacked_states
from bacadi.inference.mcmc.ladder import Replica, blank_chains, compiled_target, empty_memory, tables_of
from bacadi.inference.mcmc.method import MCMC
from bacadi.inference.mcmc.search import PASSES, RESTARTS
from bacadi.inference.mcmc.start import (
    Orders,
    Searched,
    Structure,
    fit_hyperparameters,
    initial,
    searched_starts,
    searches_of,
)
from bacadi.inference.mcmc.state import LISTS, Limits, faults, of_replica, searches
from bacadi.inference.method import STARTING, Monitor, Progress
from bacadi.posterior.posterior import Posterior

# When the ladder is adapted, as shares of the burn-in: after windows that grow, so that each is better informed.
ADAPTATIONS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75)
OBSERVE = 2  # sweeps between two looks at the structures of the burn-in
START_TEMPERATURE = 40.0  # of the hottest level before it is adapted
# Shares of a time budget: most for the search for starts, most that is guessed for the end, and what is worth going on
# for, at most so many times.
START_SHARE, FINISH_SHARE, SPARE, LOOKS = 0.25, 0.3, 0.03, 3
_CHUNK_SECONDS = 0.5


class Finish(NamedTuple):
    """The seconds that are needed after the last sweep: `fixed` and for each draw."""

    fixed: float
    per_draw: float


class TemperingRun:
    """The loop around the replicas: start, burn-in, recording, progress, checkpoints.

    Equal arguments give equal draws, but for a time budget. Threads ask `_over` whether to stop: the budget may have
    ended, or a signal may have come.

    Args:
        collapsed: evidence and prior; hyper-parameters that are free are fitted first.
        data: the data of the evidence, from which starts and weights of proposals are guessed.
        method: the numbers of the run.
        seed: of all random numbers.
        monitor: who hears of the progress.
        checkpoint: where the run keeps its state, and goes on from where there is one.
        finish: how long it takes from the last sweep to the end of all work, by a few structures; asked for where there
            is a time budget.
        extends: a posterior whose draws are the starts; random numbers are others than in its own run.
    """

    def __init__(
        self,
        collapsed: CollapsedPosterior,
        data: ContextData,
        method: MCMC,
        seed: int,
        monitor: Monitor | None = None,
        checkpoint: Checkpoint | None = None,
        finish: Callable[[CollapsedPosterior, Sequence[Structure]], Finish] | None = None,
        extends: Posterior | None = None,
    ) -> None:
        self.extends, entropy = extends, seed if extends is None else [seed, int(extends.attrs["n_sweeps"])]
        self.collapsed, self.data, self.method, self.finish = collapsed, data, method, finish
        self.monitor, self.checkpoint = monitor or Monitor(), checkpoint
        self.begun = time.monotonic() if self.monitor.begun is None else self.monitor.begun
        self.saved = time.monotonic()
        approximate = collapsed.evidence.approximation is not None
        self.plan = method.plan(data.n_variables, collapsed.evidence.costly and not approximate)
        self.plan = self.plan._replace(n_levels=self.plan.n_levels + approximate)  # one for the evidence itself
        self.n_moves, self.total = self.plan.level_moves(), self.plan.n_sweeps
        self.burn_in = max(int(self.total * method.burn_in), 1)
        self.adaptations = {int(share * self.burn_in) for share in ADAPTATIONS} - {0}
        self.wanted = math.ceil(method.n_draws / method.n_replicas)
        self.generators = [np.random.default_rng(s) for s in np.random.SeedSequence(entropy).spawn(method.n_replicas)]
        self.replicas: list[Replica] = []
        self.started, self.swept, self.is_last = 0.0, 0, False
        self.interrupted, self.deadline, self.looks = threading.Event(), math.inf, LOOKS

    def go(self) -> ChainDraws:
        """Start, or go back to where the checkpoint is; then advance all replicas, and collect their draws."""
        with ThreadPoolExecutor(len(self.generators)) as pool:
            try:
                self._sweep(pool, self._begin(pool))
            finally:
                self.interrupted.set()  # before the pool waits for its threads
        return self._draws()

    def _over(self) -> bool:
        return self.interrupted.is_set() or time.monotonic() > self.deadline

    def _seconds(self) -> float:
        return time.monotonic() - self.begun

    def _begin(self, pool: ThreadPoolExecutor) -> int:
        """Make the replicas, and return the sweep that they are at."""
        sweep, searched = self._recall()
        if sweep is not None:
            return sweep
        self._make_replicas(self._starts(pool, searched) if self.extends is None else self._draws_of(self.extends))
        self.started = self._seconds()
        if self.method.time_budget is not None:
            self._plan_finish(self.method.time_budget)
        return 0

    def _recall(self) -> tuple[int | None, list[Searched]]:
        """Go back to where the checkpoint is: the sweep of its replicas, or None and the searches for their starts.

        Free hyper-parameters are those of the checkpoint, or are fitted.
        """
        budget, saved, n = self.method.time_budget, self._load(), len(self.generators)
        if saved is not None:
            self.begun -= float(saved["seconds"][0])
            evidence = self.collapsed.evidence.with_hyperparameters(saved["hyperparameters"])
            self.collapsed = replace(self.collapsed, evidence=evidence)
            if "sweep" in saved:
                return self._restore(saved), []
        if budget is not None:
            self.deadline = self.begun + START_SHARE * budget
        if saved is not None:
            return None, searches(saved, n)
        self.collapsed = fit_hyperparameters(self.collapsed, self.data, self._over)
        return None, [Searched() for _ in range(n)]

    def _starts(self, pool: ThreadPoolExecutor, searched: list[Searched]) -> list[list[Structure]]:
        """The structures that the replicas start from, searched for in parallel; an interrupt saves what was found.

        The compiled search takes no longer to make again than to save.
        """
        n, d, steps = self.plan.n_levels, self.data.n_variables, count()
        if tables_of(self.collapsed.evidence) is None:
            orders = [Orders(self.collapsed, self._over, found) for found in searched]
            tasks = [
                pool.submit(initial, rng, of, self.data, n) for rng, of in zip(self.generators, orders, strict=True)
            ]
            total = searches_of(d, n) * len(tasks)
        else:
            orders, target = [], compiled_target(self.collapsed, self.data, self.method.weights)
            search = partial(searched_starts, self.collapsed, target, self.data, n, self._over, lambda: next(steps))
            tasks = [pool.submit(search, rng) for rng in self.generators]
            total = RESTARTS * PASSES * d * len(tasks)
        try:
            while wait(tasks, _CHUNK_SECONDS).not_done:
                step = sum(len(of.asked) for of in orders) if orders else next(steps)
                self.monitor.tell(
                    Progress(min(step, total - 1), total, self._seconds(), STARTING, "searching for starts")
                )
                if self._is_due():
                    self._save(self._start_arrays(searched))
        except KeyboardInterrupt:
            self.interrupted.set()
            wait(tasks)
            self._save(self._start_arrays(searched))
            raise
        return [task.result() for task in tasks]

    def _draws_of(self, posterior: Posterior) -> list[list[Structure]]:
        """Draws of a posterior as starts: for each replica the last of its own, then some at random."""
        states, starts = states_of(posterior), []
        for r, rng in enumerate(self.generators):
            at = np.append(
                posterior.graph.shape[1] - 1, rng.integers(posterior.graph.shape[1], size=self.plan.n_levels - 1)
            )
            starts.append([Structure(posterior.graph[r, i], states[r, i]) for i in at])
        return starts

    def _make_replicas(self, starts: list[list[Structure]] | None) -> None:
        """One replica per generator, from its starts, or blank where it will be restored."""
        evidence, n = self.collapsed.evidence, self.plan.n_levels
        target = compiled_target(self.collapsed, self.data, self.method.weights)
        for r, rng in enumerate(self.generators):
            if starts is None:
                memory = empty_memory(np.random.default_rng(0), evidence)
                replica = Replica(evidence, target, memory, blank_chains(evidence, n))
            else:
                replica = Replica.at(self.collapsed, target, starts[r], rng)
            replica.heat(self.plan.max_temperature or START_TEMPERATURE)
            # Where the number of sweeps is not known beforehand, draws are thinned out as the run goes on.
            if self.method.time_budget is None and self.total == self.plan.max_sweeps:
                replica.every = max((self.total - self.burn_in) // self.wanted, 1)
            self.replicas.append(replica)

    def _plan_finish(self, budget: float) -> None:
        """Keep time back for what follows the last sweep, by a guess from the structures of all chains."""
        chains = [replica.chains for replica in self.replicas]
        graphs = np.concatenate([chain.edges for chain in chains]).astype(np.int8)
        states = np.concatenate([chain.states for chain in chains]).transpose(0, 2, 1)
        fixed, per_draw = self._finish([Structure(*pair) for pair in zip(graphs, states, strict=True)])
        reserve = min(fixed + len(self.replicas) * self.wanted * per_draw, FINISH_SHARE * budget)
        self.deadline = self.begun + max(budget - reserve, self.started)

    def _finish(self, structures: Sequence[Structure]) -> Finish:
        return Finish(0.0, 0.0) if self.finish is None else self.finish(self.collapsed, structures)

    def _has_more_time(self, budget: float) -> bool:
        """Measure on draws, once the time that was guessed is over, what the end will take: go on if there is time
        left, and keep fewer draws if there is too little."""
        n = self.wanted if self.collapsed.evidence.costly else 16
        some = [draw for replica in self.replicas for draw in evenly(replica.draws, n)]
        d, m = self.data.n_variables, self.data.n_contexts
        draws = [Structure(*pair) for pair in zip(unpacked_graphs(some, d), unpacked_states(some, (m, d)), strict=True)]
        if not draws or self.looks == 0:
            return False
        self.looks -= 1
        fixed, per_draw = self._finish(draws)
        n = sum(min(self.wanted, len(replica.draws)) for replica in self.replicas)
        left = self.begun + budget - time.monotonic()
        spare = left - fixed - n * per_draw
        self.deadline = time.monotonic() + max(spare, 0.0)
        if spare < 0:
            self.wanted = max(int((left - fixed) / per_draw) // len(self.replicas), 1)
        return spare > SPARE * budget

    def _sweep(self, pool: ThreadPoolExecutor, sweep: int) -> None:
        """Advance all replicas in chunks of about half a second."""
        self.swept = sweep
        step, keeps = 1, self.checkpoint is not None
        whole = {}
        try:
            while sweep < self.total or self._goes_on():
                chunk_begin = time.monotonic()
                # Threads may be in the middle of a chunk when an interrupt comes; its beginning is whole.
                whole = self._arrays(sweep) if keeps else {}
                until = min(sweep + step, self.total)
                arrived = list(pool.map(self._advance, self.replicas, repeat(sweep), repeat(until)))
                self.swept = sweep = min(arrived)
                self._keep_within_budget(sweep)
                took = max(time.monotonic() - chunk_begin, 1e-3)
                step = int(np.clip(step * _CHUNK_SECONDS / took, 1, max(2 * step, 8)))
                self.monitor.tell(self._progress(sweep))
                if self._is_due():
                    self._save(self._arrays(sweep))
        except KeyboardInterrupt:
            if whole:
                self._save(whole)
            raise
        if keeps and time.monotonic() - self.saved > _CHUNK_SECONDS * 20:
            self._save(self._arrays(sweep))  # what follows may take long

    def _goes_on(self) -> bool:
        """At the end of the sweeps that were planned: whether the draws say that more are needed.

        Then there are twice as many, of which the same share is burn-in; the ladder is spaced anew by what was counted.
        """
        if self.total >= self.plan.max_sweeps or self.is_last:
            return False
        if not self._draws().diagnostics().is_worth_more:
            return False
        self.total = min(2 * self.total, self.plan.max_sweeps)
        burn_in = int(self.total * self.method.burn_in)
        for replica in self.replicas:
            replica.draws = replica.draws[(burn_in - self.burn_in) // replica.every :]
            replica.adapt(self.plan.max_temperature is None)
        self.burn_in = burn_in
        return True

    def _advance(self, replica: Replica, sweep: int, until: int) -> int:
        """Advance one replica, and return the sweep that it came to before time was over.

        What happens at a sweep depends on its number alone, not on where a chunk ends.
        """
        sweep = max(sweep, int(replica.position[0]))
        with ONE_THREAD:
            while sweep < until:
                if not replica.advance(sweep + 1, self.n_moves, self._over):
                    return sweep
                sweep += 1
                if sweep > self.burn_in:
                    replica.record(sweep - self.burn_in, self.wanted)
                elif sweep == self.burn_in:
                    replica.end_burn_in()
                else:
                    if sweep in self.adaptations:
                        replica.adapt(self.plan.max_temperature is None)
                        replica.gather()
                    if sweep % OBSERVE == 0:
                        replica.observe()
        return sweep

    def _keep_within_budget(self, sweep: int) -> None:
        """End the burn-in and the run where the time budget asks for it."""
        if self.method.time_budget is None:
            return
        seconds, limit = self._seconds(), self.deadline - self.begun
        if sweep < self.burn_in and seconds > self.started + self.method.burn_in * (limit - self.started):
            self.burn_in = sweep
            for replica in self.replicas:
                replica.end_burn_in()
        if seconds > limit and not self._has_more_time(self.method.time_budget):
            self.total, self.is_last = sweep, True

    def _progress(self, sweep: int) -> Progress:
        log_p = float(np.mean([replica.sample()[2] for replica in self.replicas]))
        burning_in = sweep < self.burn_in
        entries = {"log_posterior": log_p, "burning_in": burning_in}
        phase = "burn-in" if burning_in else "sampling"
        return Progress(sweep, self.total, self._seconds(), phase, f"log posterior {log_p:.0f}", entries)

    def _draws(self) -> ChainDraws:
        if self.method.time_budget is not None:
            for replica in self.replicas:
                replica.draws = replica.draws or [packed(*replica.sample())]  # time was over before the first draw
        if not all(replica.draws for replica in self.replicas):
            raise InferenceError("The run was too short to record a draw; give it more sweeps.")
        n = min(self.wanted, *(len(replica.draws) for replica in self.replicas))
        moved = np.stack([replica.counts.moves[0] for replica in self.replicas])
        return ChainDraws(
            [evenly(replica.draws, n) for replica in self.replicas],
            (self.data.n_contexts, self.data.n_variables),
            np.stack([replica.swap_rates() for replica in self.replicas]),
            moved[:, :, 1] / np.maximum(moved[:, :, 0], 1),
            self.swept,
            self.total if self.method.time_budget is None else self.plan.n_sweeps,
            max(self.swept - self.burn_in, n),
        )

    def _is_due(self) -> bool:
        """Whether a checkpoint is to be saved by now."""
        return self.checkpoint is not None and time.monotonic() - self.saved > self.checkpoint.seconds

    def _save(self, arrays: dict[str, np.ndarray]) -> None:
        if self.checkpoint is not None:
            self.checkpoint.save_arrays(arrays)
            self.saved = time.monotonic()

    def _common(self) -> dict[str, np.ndarray]:
        return {
            "seconds": np.array([self._seconds(), self.started]),
            "hyperparameters": self.collapsed.evidence.hyperparameters,
        }

    def _arrays(self, sweep: int) -> dict[str, np.ndarray]:
        """The state of the run as a checkpoint holds it; a copy, which threads that go on do not change."""
        arrays = self._common() | {"sweep": np.array([sweep, self.total, self.burn_in, self.wanted])}
        for r, replica in enumerate(self.replicas):
            arrays |= {f"{r}.{name}": value for name, value in replica.arrays().items()}
        return arrays

    def _start_arrays(self, searched: list[Searched]) -> dict[str, np.ndarray]:
        """The searches that came to an end, one per row."""
        found = [(r, *key, local) for r, each in enumerate(searched) for key, local in list(each.items())]
        d, m = self.data.n_variables, self.data.n_contexts
        return self._common() | {
            "start.replica": np.array([r for r, *_ in found], np.int64),
            "start.node": np.array([node for _, node, *_ in found], np.int64),
            "start.before": np.array([np.frombuffer(before, np.uint8) for *_, before, _ in found], np.uint8).reshape(
                -1, d
            ),
            "start.score": np.array([local.score for *_, local in found], float),
            "start.parents": np.array([local.parents for *_, local in found], np.uint8).reshape(-1, d),
            "start.state": np.array([local.state for *_, local in found], np.int8).reshape(len(found), m),
        }

    def _load(self) -> dict[str, np.ndarray] | None:
        """The arrays of the checkpoint, valid, or None where there is none."""
        if self.checkpoint is None or not self.checkpoint.path.exists():
            return None
        self._make_replicas(None)
        saved = self.checkpoint.load_arrays(self._arrays(0), self._start_arrays([]), lists=LISTS)
        self.replicas = []
        limits = Limits(len(self.generators), self.plan.max_sweeps, self.wanted, self.n_moves)
        if saved is not None and (what := next(faults(saved, self.collapsed, limits), None)):
            raise self.checkpoint.refusal(what)
        return saved

    def _restore(self, saved: dict[str, np.ndarray]) -> int:
        """Go back to a state, and return its sweep. What was learnt follows from what was seen."""
        sweep, self.total, self.burn_in, wanted = saved["sweep"].tolist()
        self.started = float(saved["seconds"][1])
        self._make_replicas(None)
        for r, replica in enumerate(self.replicas):
            replica.restore(of_replica(saved, r))
            if sweep >= self.burn_in:
                replica.learn()
        if self.method.time_budget is not None:
            self._plan_finish(self.method.time_budget)
        self.wanted = wanted
        return sweep


def states_of(posterior: Posterior) -> Int8[np.ndarray, "R n M d"]:
    """The states of all draws of a posterior that `MCMC` made."""
    kept = posterior.parameters.get("effect_state")
    return np.asarray(posterior.intervention_target if kept is None else kept.values, np.int8)


def pooled(old: Posterior, new: ChainDraws) -> ChainDraws:
    """The draws of an earlier run and of its extension, in proportion to the sweeps that each recorded."""
    share = old.attrs["n_sweeps_recorded"] / (old.attrs["n_sweeps_recorded"] + new.n_recorded)
    n_old, n_new = old.graph.shape[1], len(new.draws[0])
    wanted = max(n_old, n_new)
    total = int(min(wanted, n_old / share, n_new / max(1 - share, 1e-9)))
    n_first = min(max(round(share * total), 1), n_old)
    states, log_p = states_of(old), old.sample_stats["log_posterior"].values
    draws = [
        [packed(old.graph[r, i], states[r, i], float(log_p[r, i])) for i in places(n_old, n_first)]
        + evenly(of_replica, max(total - n_first, 1))
        for r, of_replica in enumerate(new.draws)
    ]
    made, planned, recorded = (old.attrs[name] for name in ("n_sweeps", "n_sweeps_planned", "n_sweeps_recorded"))
    counts = made + new.n_sweeps, planned + new.n_planned, recorded + new.n_recorded
    return ChainDraws(draws, new.shape, new.swap_rates, new.acceptance, *counts)
