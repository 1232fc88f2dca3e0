"""One ladder of chains, with the tables, scores and counts that it needs to go on alone in a thread.

MCMC over graph and states: parallel tempering of the collapsed posterior, compiled, one thread a replica.

A replica is a ladder of chains at inverse temperatures 1 = β_0 > … > β_{L-1}; chain l samples p(G, S) p(D | G, S)^β_l
and neighbours exchange. Replicas share nothing but the target density, so that their agreement says something. In the
first part of a run (burn-in) the spacing of the ladder is adapted so that exchanges are accepted alike everywhere.
"""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int8

from bacadi.data.contexts import ContextData
from bacadi.errors import InferenceError
from bacadi.evidence.collapsed import AbstractEvidence, CollapsedPosterior
from bacadi.evidence.gram import GramEvidence
from bacadi.graph.dag import topological_order
from bacadi.inference.checkpoint import Checkpoint
from bacadi.inference.mcmc import moves
from bacadi.inference.mcmc.chain import (
    Chains,
    Counts,
    Memory,
    PriorTables,
    Proposals,
    Request,
    SamplingProblem,
    Target,
    new_work,
    no_tables,
    rehash,
    slot_of,
)
from bacadi.inference.mcmc.method import MCMC, MoveWeights
from bacadi.inference.mcmc.start import Structure, edge_weights, initial, target_weights
from bacadi.inference.method import Progress, Report

HOT_ACCEPTANCE = 0.15  # of edge toggles at the hottest level


class Replica:
    """One ladder of chains with all that it needs to go on alone in a thread."""

    def __init__(
        self, collapsed: CollapsedPosterior, target: Target, starts: list[Structure], rng: np.random.Generator
    ) -> None:
        evidence = collapsed.evidence
        self.evidence = evidence
        # A copy for each replica: threads that count references to the same arrays slow each other down.
        self.target: Target = _copied(target)
        self.memory = empty_memory(rng, evidence, inline=isinstance(evidence, GramEvidence))
        self.n_kept = 0
        d, m, n = evidence.n_variables, evidence.n_contexts, len(starts)
        self.request = Request(
            np.zeros(1, np.int64), np.zeros(d, np.uint8), np.zeros(m, np.int8), np.zeros(1, np.uint64)
        )
        self.work = new_work(d, m, evidence.states.n_states)
        self.chains = new_chains(collapsed, starts, rng)
        self.counts = Counts(np.zeros((n, 8, 2), np.int64), np.zeros((n, 2)))
        self.betas = np.ones(n)
        self.position = np.zeros(3, np.int64)
        self.edge_sum, self.target_sum, self.n_seen = np.zeros((d, d)), np.zeros((m, d)), np.zeros(1)

    def advance(self, until: int, n_moves: int | Int[np.ndarray, " L"]) -> None:
        """Go on until the sweep, fetching scores that compiled code does not have; moves are those of each level."""
        each = np.full(len(self.betas), n_moves, np.int64)
        rest = (self.work, self.chains, self.counts, self.betas, self.position)
        while not moves.advance(SamplingProblem(self.target, self.memory, self.request), *rest, until, each):
            self._fetch()

    def _fetch(self) -> None:
        request = self.request
        value = self.evidence.log_evidence(int(request.node[0]), request.parents.astype(bool), request.state.copy())
        if not math.isfinite(value):
            raise InferenceError(
                f"The evidence of variable number {int(request.node[0])} given parents "
                f"{np.flatnonzero(request.parents).tolist()} is {value}; look at the scale of the data (bacadi check)."
            )
        if 2 * (self.n_kept + 1) > len(self.memory.keys):
            self.memory = larger(self.memory)
        slot = slot_of(self.memory.keys, request.key[0])
        self.memory.keys[slot], self.memory.values[slot] = request.key[0], value
        self.n_kept += 1

    def adapt(self, adapt_range: bool) -> None:
        """Space the ladder so that exchanges between all neighbours are refused alike (Syed et al. 2022).

        Refusals add up along the ladder to a barrier, of which every step gets the same part. With `adapt_range` the
        hottest level moves to where about one edge toggle in seven is accepted: there structures dissolve, and
        hotter levels would only add to the way.
        """
        refused = 1 - self.swap_rates()
        barrier = np.concatenate([[0.0], np.cumsum(np.maximum(refused, 0.01))])
        even = np.linspace(0, barrier[-1], len(self.betas))
        log_betas = np.interp(even, barrier, np.log(self.betas))
        if adapt_range:
            proposed, accepted = self.counts.moves[-1, moves.TOGGLE]
            rate = accepted / max(proposed, 1)
            log_betas *= 1 + np.clip((HOT_ACCEPTANCE - rate) / HOT_ACCEPTANCE, -1, 1) * np.log(2) / -log_betas[-1]
        self.betas = np.exp(log_betas)
        self.reset_counts()

    def swap_rates(self) -> Float[np.ndarray, " pairs"]:
        return self.counts.swaps[:-1, 1] / np.maximum(self.counts.swaps[:-1, 0], 1)

    def observe(self) -> None:
        """Remember which edges and targets the colder quarter of the ladder has."""
        cold = self.chains.at_level[: max(len(self.betas) // 4, 1)]
        self.edge_sum += self.chains.edges[cold].mean(axis=0)
        self.target_sum += (self.chains.states[cold] > 0).mean(axis=0).T
        self.n_seen += 1

    def learn(self) -> None:
        """Propose the pairs most whose indicator was least certain; fixed from here on, so that no ratio changes."""
        if not self.n_seen[0]:
            return
        edges, targets = self.edge_sum / self.n_seen, self.target_sum / self.n_seen
        old = self.target.proposals
        edge_weight = _sharpened(np.exp(old.edge_log), edges * (1 - edges))
        target_weight = _sharpened(np.exp(old.target_log), targets * (1 - targets))
        self.target = self.target._replace(proposals=proposals(edge_weight, target_weight, old.move_sum))

    def reset_counts(self) -> None:
        self.counts.swaps[:], self.counts.moves[:] = 0, 0

    def sample(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Graph, states and log posterior of the coldest chain; with one order where the prior is one over orders."""
        c = self.chains.at_level[0]
        log_p = float(self.chains.score[c].sum() + self.chains.log_prior[c])
        return self.chains.edges[c].astype(np.int8), self.chains.states[c].T.copy(), log_p

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that changes during a run, except scores in memory, which can be computed again."""
        chains = {f"chains.{name}": value for name, value in self.chains._asdict().items()}
        counts = {f"counts.{name}": value for name, value in self.counts._asdict().items()}
        seen = {"edge_sum": self.edge_sum, "target_sum": self.target_sum, "n_seen": self.n_seen}
        return chains | counts | seen | {"betas": self.betas, "position": self.position}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self.chains = Chains(*(arrays[f"chains.{name}"].copy() for name in Chains._fields))
        self.counts = Counts(*(arrays[f"counts.{name}"].copy() for name in Counts._fields))
        for name in ("betas", "position", "edge_sum", "target_sum", "n_seen"):
            setattr(self, name, arrays[name].copy())


def compiled_target(collapsed: CollapsedPosterior, data: ContextData, weights: MoveWeights) -> Target:
    """The target density and the proposals in the form that compiled code reads."""
    prior, evidence = collapsed.prior, collapsed.evidence
    fixed = prior.required.astype(np.int8) - prior.forbidden.astype(np.int8)
    tables = PriorTables(
        np.where(np.isfinite(prior.edge_log_odds), prior.edge_log_odds, 0.0),
        fixed,
        prior.over_orders,
        bool(prior.out_degree_log.any()),
        np.ascontiguousarray(prior.out_degree_log, float),
        int(prior.max_parents),
        np.ascontiguousarray(prior.state_log_prior, float),
        np.ascontiguousarray(prior.target_count_log, float),
    )
    edges, targets = edge_weights(data, prior), target_weights(data)
    chosen = proposals(edges, targets, np.cumsum(_move_weights(weights, evidence)))
    compiled = evidence.tables if isinstance(evidence, GramEvidence) else no_tables()
    return Target(compiled, tables, chosen)


def proposals(
    edges: Float[np.ndarray, "d d"], targets: Float[np.ndarray, "M d"], move_sum: Float[np.ndarray, " 8"]
) -> Proposals:
    with np.errstate(divide="ignore"):
        return Proposals(np.log(edges), np.cumsum(edges), np.log(targets), np.cumsum(targets), move_sum)


def _sharpened(weight: np.ndarray, uncertain: np.ndarray) -> np.ndarray:
    """Half of the old weights and half of new ones in proportion to the uncertainty of what they propose."""
    if uncertain.sum() <= 0:
        return weight
    return 0.5 * weight / weight.sum() + 0.5 * uncertain / uncertain.sum()


def new_chains(collapsed: CollapsedPosterior, starts: list[Structure], rng: np.random.Generator) -> Chains:
    """One chain for each structure, the first at the coldest level."""
    graphs = np.stack([graph for graph, _ in starts])
    states = np.ascontiguousarray(np.stack([states.T for _, states in starts]))
    n, d, m = states.shape
    nodes, masks = np.tile(np.arange(d), n), graphs.transpose(0, 2, 1).reshape(n * d, d).astype(bool)
    score = collapsed.evidence.log_evidences(nodes, masks, states.reshape(n * d, m)).reshape(n, d)
    parents = np.zeros((n, d, d), np.int64)
    for c, j in np.ndindex(n, d):
        chosen = np.flatnonzero(graphs[c, :, j])
        parents[c, j, : len(chosen)] = chosen
    prior = collapsed.prior
    return Chains(
        graphs.astype(np.uint8),
        parents,
        graphs.sum(axis=1).astype(np.int64),
        states,
        (states > 0).sum(axis=1).astype(np.int64),
        score,
        np.array([prior.log_prob_ordered(graph) + prior.log_prob_states(states) for graph, states in starts]),
        np.argsort([topological_order(graph) for graph in graphs], axis=1),
        np.arange(n),
        rng.integers(1, 2**63, 4, dtype=np.uint64),
    )


def empty_memory(rng: np.random.Generator, evidence: AbstractEvidence, inline: bool) -> Memory:
    d, m, t = evidence.n_variables, evidence.n_contexts, evidence.states.n_states
    size = 2 if inline else 2**16
    words = rng.integers(1, 2**63, d * (d + 1) + d * m * t, dtype=np.uint64)
    return Memory(
        inline,
        np.zeros(size, np.uint64),
        np.zeros(size),
        words[: d * (d + 1)].reshape(d, d + 1),
        words[d * (d + 1) :].reshape(d, m, t),
    )


def larger(memory: Memory) -> Memory:
    """The same scores in twice the room."""
    keys, values = np.zeros(2 * len(memory.keys), np.uint64), np.zeros(2 * len(memory.keys))
    rehash(memory.keys, memory.values, keys, values)
    return memory._replace(keys=keys, values=values)


def _move_weights(weights: MoveWeights, evidence: AbstractEvidence) -> Float[np.ndarray, " 8"]:
    """The weights of the moves that exist: targets need contexts, scans of columns need cheap scores."""
    found = np.array(list(vars(weights).values()), float)
    if evidence.n_contexts == 0 or evidence.states.n_states == 1:
        found[moves.SET_TARGET :] = 0
    if not isinstance(evidence, GramEvidence):
        found[moves.TOGGLE_AND_COLUMN :] = 0
    return found


def _copied(value):  # type: ignore[no-untyped-def]
    if isinstance(value, np.ndarray):
        return value.copy()
    return type(value)(*(_copied(item) for item in value)) if isinstance(value, tuple) else value


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
    collapsed: CollapsedPosterior,
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

    def __init__(self, collapsed: CollapsedPosterior, data: ContextData, method: MCMC, seed: int) -> None:
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
        burning_in = sweep < self.burn_in
        entries = {"log_posterior": log_p, "burning_in": burning_in}
        phase = "burn-in" if burning_in else "sampling"
        return Progress(sweep, self.total, seconds, phase, f"log posterior {log_p:.0f}", entries)

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
