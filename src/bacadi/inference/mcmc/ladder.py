"""The run of `MCMC`: parallel tempering of the collapsed posterior, one thread per replica.

A replica is a ladder of chains at inverse temperatures 1 = β_0 > … > β_{L-1}; chain l samples p(G, S) p(D | G, S)^β_l
and neighbours exchange. Replicas share nothing but the target density, so that their agreement says something. In the
first part of a run (burn-in) the spacing of the ladder is adapted so that all neighbours exchange equally often; at its
end the weights of the proposals are learnt. All that changes are arrays, so that a run that goes on from a checkpoint
makes the same draws, bit for bit, as one that was never interrupted.
"""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int8

from bacadi.data.contexts import ContextData
from bacadi.errors import InferenceError
from bacadi.evidence.collapsed import AbstractEvidence, CollapsedPosterior
from bacadi.graph.dag import topological_order
from bacadi.inference.checkpoint import Checkpoint
from bacadi.inference.mcmc import chain, moves
from bacadi.inference.mcmc.chain import CompiledTarget, Memory
from bacadi.inference.mcmc.method import MCMC, MoveWeights
from bacadi.inference.mcmc.start import Structure, edge_weights, initial, target_weights
from bacadi.inference.method import Monitor, Progress

HOT_ACCEPTANCE = 0.15  # of edge toggles at the hottest level
# When the ladder is adapted, as shares of the burn-in: after windows that grow, so that each is better informed.
ADAPTATIONS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75)
OBSERVE = 2  # sweeps between two looks at the structures of the burn-in
START_TEMPERATURE = 40.0  # of the hottest level before it is adapted


class ChainDraws(NamedTuple):
    """What a run recorded, replicas along the first axis."""

    graphs: Int8[np.ndarray, "R n d d"]
    states: Int8[np.ndarray, "R n M d"]
    log_posterior: Float[np.ndarray, "R n"]
    swap_rates: Float[np.ndarray, "R L-1"]
    acceptance: Float[np.ndarray, "R 8"]


class Seen(NamedTuple):
    """Sums of the edges and targets of cold chains over the burn-in, and the number of looks at them."""

    edges: Float[np.ndarray, "d d"]
    targets: Float[np.ndarray, "M d"]
    n: Float[np.ndarray, " 1"]


PARTS: dict[str, Any] = {"chains": chain.Chains, "counts": chain.MoveCounts, "seen": Seen}
"""The tuples of arrays of a replica that change during a run."""

Sample = tuple[Int8[np.ndarray, "d d"], Int8[np.ndarray, "M d"], float]
"""Graph, states and log posterior of a draw; with one order where the prior is one over orders."""


class Replica:
    """One ladder of chains with all that it needs to go on alone in a thread.

    `draws` are recorded every `every` sweeps.
    """

    def __init__(
        self, collapsed: CollapsedPosterior, target: CompiledTarget, starts: list[Structure], rng: np.random.Generator
    ) -> None:
        self.evidence = collapsed.evidence
        d, m, n = self.evidence.n_variables, self.evidence.n_contexts, len(starts)
        # A copy for each replica: threads that count references to the same arrays slow each other down.
        self.target: CompiledTarget = _copied(target)
        self.memory, self.n_kept = empty_memory(rng, self.evidence), 0
        kinds = (1, "i8"), (d, "u1"), (m, "i1"), (1, "u8")
        self.request = chain.ScoreRequest(*(np.zeros(size, kind) for size, kind in kinds))
        self.work = chain.new_work(d, m, self.evidence.states.n_states)
        self.chains = new_chains(collapsed, starts, rng)
        self.counts = chain.MoveCounts(np.zeros((n, len(moves.MOVES), 2), np.int64), np.zeros((n, 2)))
        self.seen = Seen(np.zeros((d, d)), np.zeros((m, d)), np.zeros(1))
        self.betas, self.position = np.ones(n), np.zeros(3, np.int64)
        self.draws, self.every = list[Sample](), 1

    def advance(self, until: int, n_moves: int | Int[np.ndarray, " L"]) -> None:
        """Go on until the sweep, fetching scores that compiled code does not have; moves are those of each level."""
        each = np.full(len(self.betas), n_moves, np.int64)
        rest = (self.work, self.chains, self.counts, self.betas, self.position)
        while not moves.advance(chain.SamplingProblem(self.target, self.memory, self.request), *rest, until, each):
            self._fetch()

    def _fetch(self) -> None:
        """Compute the score that was requested and keep it."""
        request, node = self.request, int(self.request.node[0])
        value = self.evidence.log_evidence(node, request.parents.astype(bool), request.state.copy())
        _check_finite(value, node, request.parents)
        if 2 * (self.n_kept + 1) > (size := len(self.memory.keys)):
            keys, values = np.zeros(2 * size, np.uint64), np.zeros(2 * size)
            chain.rehash(self.memory.keys, self.memory.values, keys, values)
            self.memory = self.memory._replace(keys=keys, values=values)
        slot = chain.slot_of(self.memory.keys, request.key[0])
        self.memory.keys[slot], self.memory.values[slot] = request.key[0], value
        self.n_kept += 1

    def adapt(self, adapt_range: bool) -> None:
        """Space the ladder so that exchanges between all neighbours are refused equally often (Syed et al. 2022).

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
        self.counts.swaps[:], self.counts.moves[:] = 0, 0

    def observe(self) -> None:
        """Remember which edges and targets the colder quarter of the ladder has."""
        cold = self.chains.at_level[: max(len(self.betas) // 4, 1)]
        self.seen.edges[:] += self.chains.edges[cold].mean(axis=0)
        self.seen.targets[:] += (self.chains.states[cold] > 0).mean(axis=0).T
        self.seen.n[:] += 1

    def end_burn_in(self) -> None:
        """Learn the proposals; rates are counted from here on."""
        self.learn()
        self.counts.swaps[:], self.counts.moves[:] = 0, 0

    def learn(self) -> None:
        """Propose the pairs most whose indicator was least certain; fixed from here on, so that no ratio changes."""
        if self.seen.n[0]:
            edges, targets, old = self.seen.edges / self.seen.n, self.seen.targets / self.seen.n, self.target.proposals
            edge_weight = _sharpened(np.exp(old.edge_log), edges * (1 - edges))
            target_weight = _sharpened(np.exp(old.target_log), targets * (1 - targets))
            self.target = self.target._replace(proposals=proposals(edge_weight, target_weight, old.move_sum))

    def swap_rates(self) -> Float[np.ndarray, " pairs"]:
        """The share of exchanges accepted between each level and the next."""
        return self.counts.swaps[:-1, 1] / np.maximum(self.counts.swaps[:-1, 0], 1)

    def sample(self) -> Sample:
        """The present state of the coldest chain."""
        c = self.chains.at_level[0]
        log_p = float(self.chains.score[c].sum() + self.chains.log_prior[c])
        return self.chains.edges[c].astype(np.int8), self.chains.states[c].T.copy(), log_p

    def record(self, sweep: int, wanted: int) -> None:
        """Keep a draw every `every` sweeps; with twice the number wanted every second one is dropped."""
        if sweep % self.every == 0:
            self.draws.append(self.sample())
        if len(self.draws) >= 2 * wanted:
            self.draws, self.every = self.draws[1::2], 2 * self.every

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of all that changes during a run, except scores in memory, which can be computed again."""
        arrays = {f"{part}.{name}": value for part in PARTS for name, value in getattr(self, part)._asdict().items()}
        arrays |= {"betas": self.betas, "position": self.position, "every": np.array(self.every)}
        for part, name in enumerate(("graphs", "states", "log_posterior")):
            arrays[f"draws.{name}"] = np.array([draw[part] for draw in self.draws])
        return {name: value.copy() for name, value in arrays.items()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go back to where `arrays` was asked for."""
        for part, kind in PARTS.items():
            setattr(self, part, kind(*(arrays[f"{part}.{name}"] for name in kind._fields)))
        self.betas, self.position, self.every = arrays["betas"], arrays["position"], int(arrays["every"])
        parts = (arrays["draws.graphs"], arrays["draws.states"], arrays["draws.log_posterior"].tolist())
        self.draws = list(zip(*parts, strict=True))


def sample(
    collapsed: CollapsedPosterior,
    data: ContextData,
    method: MCMC,
    seed: int,
    monitor: Monitor | None = None,
    checkpoint: Checkpoint | None = None,
) -> ChainDraws:
    """Draws of (G, S) from the collapsed posterior; equal arguments give equal draws (but for a time budget).

    Args:
        collapsed: evidence and prior.
        data: the data of the evidence, from which starts and weights of proposals are guessed.
        method: the numbers of the run.
        seed: of all random numbers.
        monitor: who hears of the progress.
        checkpoint: where the run keeps its state, and goes on from where there is one.
    """
    return _Run(collapsed, data, method, seed).go(monitor or Monitor(), checkpoint)


class _Run:
    """The loop around the replicas: start, burn-in, recording, progress, checkpoints."""

    def __init__(self, collapsed: CollapsedPosterior, data: ContextData, method: MCMC, seed: int) -> None:
        plan = method.plan(data.n_variables, collapsed.evidence.costly)
        self.method, self.total, self.n_moves = method, plan.n_sweeps, plan.level_moves()
        self.adapt_range = plan.max_temperature is None
        self.burn_in = max(int(self.total * method.burn_in), 1)
        self.adaptations = {int(share * self.burn_in) for share in ADAPTATIONS} - {0}
        self.wanted = math.ceil(method.n_draws / method.n_replicas)
        target = compiled_target(collapsed, data, method.weights)
        self.replicas = []
        for child in np.random.SeedSequence(seed).spawn(method.n_replicas):
            rng = np.random.default_rng(child)
            replica = Replica(collapsed, target, initial(rng, collapsed, data, plan.n_levels), rng)
            replica.betas = np.geomspace(1, 1 / (plan.max_temperature or START_TEMPERATURE), plan.n_levels)
            # How many sweeps a time budget allows is not known beforehand; draws are thinned out as the run goes on.
            if method.time_budget is None:
                replica.every = max((self.total - self.burn_in) // self.wanted, 1)
            self.replicas.append(replica)

    def go(self, monitor: Monitor, checkpoint: Checkpoint | None) -> ChainDraws:
        """Advance all replicas in chunks of about half a second, then collect their draws."""
        begin = saved = time.monotonic()
        sweep, step = 0, 1
        arrays = None if checkpoint is None else checkpoint.load_arrays(self._arrays(sweep, 0.0))
        if arrays is not None:
            sweep = self._restore(arrays)
            begin -= float(arrays["seconds"])
        with ThreadPoolExecutor(len(self.replicas)) as pool:
            try:
                while sweep < self.total:
                    chunk_begin = time.monotonic()
                    # Threads may be in the middle of a chunk when an interrupt comes; its beginning is whole.
                    whole = self._arrays(sweep, chunk_begin - begin) if checkpoint is not None else {}
                    until = min(sweep + step, self.total)
                    list(pool.map(self._advance, self.replicas, repeat(sweep), repeat(until)))
                    sweep, seconds = until, time.monotonic() - begin
                    self._keep_within_budget(sweep, seconds)
                    took = max(time.monotonic() - chunk_begin, 1e-3)
                    step = int(np.clip(step * 0.5 / took, 1, max(2 * step, 8)))
                    monitor.tell(self._progress(sweep, seconds))
                    if checkpoint is not None and time.monotonic() - saved > checkpoint.seconds:
                        checkpoint.save_arrays(self._arrays(sweep, time.monotonic() - begin))
                        saved = time.monotonic()
            except KeyboardInterrupt:
                if checkpoint is not None:
                    checkpoint.save_arrays(whole)
                raise
        return self._draws()

    def _advance(self, replica: Replica, sweep: int, until: int) -> None:
        """Advance one replica; what happens at a sweep depends on its number alone, not on where a chunk ends."""
        while sweep < until:
            sweep += 1
            replica.advance(sweep, self.n_moves)
            if sweep > self.burn_in:
                replica.record(sweep - self.burn_in, self.wanted)
            elif sweep == self.burn_in:
                replica.end_burn_in()
            else:
                if sweep in self.adaptations:
                    replica.adapt(self.adapt_range)
                if sweep % OBSERVE == 0:
                    replica.observe()

    def _keep_within_budget(self, sweep: int, seconds: float) -> None:
        """End the burn-in and the run where the time budget asks for it."""
        budget = self.method.time_budget
        if budget is None:
            return
        if sweep < self.burn_in and seconds > self.method.burn_in * budget:
            self.burn_in = sweep
            for replica in self.replicas:
                replica.end_burn_in()
        if seconds > budget and any(replica.draws for replica in self.replicas):
            self.total = sweep

    def _progress(self, sweep: int, seconds: float) -> Progress:
        log_p = float(np.mean([replica.sample()[2] for replica in self.replicas]))
        burning_in = sweep < self.burn_in
        entries = {"log_posterior": log_p, "burning_in": burning_in}
        phase = "burn-in" if burning_in else "sampling"
        return Progress(sweep, self.total, seconds, phase, f"log posterior {log_p:.0f}", entries)

    def _draws(self) -> ChainDraws:
        n = min(self.wanted, *(len(replica.draws) for replica in self.replicas))
        if n == 0:
            raise InferenceError("The run was too short to record a draw; give it more sweeps or time.")
        kept = [_evenly(replica.draws, n) for replica in self.replicas]
        moved = np.stack([replica.counts.moves[0] for replica in self.replicas])
        graphs, states, log_p = (np.array([[draw[part] for draw in draws] for draws in kept]) for part in range(3))
        swap_rates = np.stack([replica.swap_rates() for replica in self.replicas])
        return ChainDraws(graphs, states, log_p, swap_rates, moved[:, :, 1] / np.maximum(moved[:, :, 0], 1))

    def _arrays(self, sweep: int, seconds: float) -> dict[str, np.ndarray]:
        """The state of the run as a checkpoint holds it; a copy, which threads that go on do not change."""
        arrays = {"sweep": np.array([sweep, self.burn_in]), "seconds": np.array(seconds)}
        for r, replica in enumerate(self.replicas):
            arrays |= {f"{r}.{name}": value for name, value in replica.arrays().items()}
        return arrays

    def _restore(self, arrays: dict[str, np.ndarray]) -> int:
        """Go back to a state, and return its sweep. What was learnt follows from what was seen."""
        sweep, self.burn_in = (int(value) for value in arrays["sweep"])
        for r, replica in enumerate(self.replicas):
            replica.restore({name[len(f"{r}.") :]: arrays[name] for name in arrays if name.startswith(f"{r}.")})
            if sweep >= self.burn_in:
                replica.learn()
        return sweep


def _evenly(draws: list[Sample], n: int) -> list[Sample]:
    """`n` of the draws, evenly spaced, the last one among them."""
    if len(draws) <= n:
        return draws
    return [draws[i] for i in np.linspace(0, len(draws) - 1, n + 1).round().astype(int)[1:]]


def compiled_target(collapsed: CollapsedPosterior, data: ContextData, weights: MoveWeights) -> CompiledTarget:
    """The target density and the proposals in the form that compiled code reads."""
    prior, evidence = collapsed.prior, collapsed.evidence
    odds = np.where(np.isfinite(prior.edge_log_odds), prior.edge_log_odds, 0.0)
    fixed = prior.required.astype(np.int8) - prior.forbidden.astype(np.int8)
    degree, states = prior.out_degree_log, (prior.state_log_prior, prior.target_count_log)
    by_degree = bool(degree.any())
    tables = chain.PriorTables(odds, fixed, prior.over_orders, by_degree, degree, prior.max_parents, *states)
    move_sum = np.cumsum(_move_weights(weights, evidence))
    drawn = proposals(edge_weights(data), target_weights(data), move_sum)
    return CompiledTarget(evidence.tables or chain.no_tables(), tables, drawn)


def proposals(
    edges: Float[np.ndarray, "d d"], targets: Float[np.ndarray, "M d"], move_sum: Float[np.ndarray, " 8"]
) -> chain.Proposals:
    """Weights of pairs in the form that compiled code reads."""
    with np.errstate(divide="ignore"):
        return chain.Proposals(np.log(edges), np.cumsum(edges), np.log(targets), np.cumsum(targets), move_sum)


def _move_weights(weights: MoveWeights, evidence: AbstractEvidence) -> Float[np.ndarray, " 8"]:
    """The weights of the moves that exist: targets need contexts, scans of columns need scores in compiled code."""
    allowed = np.array(list(vars(weights).values()), float)
    if evidence.n_contexts == 0 or evidence.states.n_states == 1:
        allowed[moves.SET_TARGET :] = 0
    if evidence.tables is None:
        allowed[moves.TOGGLE_AND_COLUMN :] = 0
    return allowed


def _sharpened(weight: np.ndarray, uncertain: np.ndarray) -> np.ndarray:
    """Half of the old weights and half of new ones in proportion to the uncertainty of what they propose."""
    if uncertain.sum() <= 0:
        return weight
    return 0.5 * weight / weight.sum() + 0.5 * uncertain / uncertain.sum()


def new_chains(collapsed: CollapsedPosterior, starts: list[Structure], rng: np.random.Generator) -> chain.Chains:
    """One chain for each structure, the first at the coldest level."""
    graphs = np.stack([graph for graph, _ in starts])
    states = np.ascontiguousarray(np.stack([states.T for _, states in starts]))
    n, d, m = states.shape
    nodes, masks = np.tile(np.arange(d), n), graphs.transpose(0, 2, 1).reshape(n * d, d).astype(bool)
    score = collapsed.evidence.log_evidences(nodes, masks, states.reshape(n * d, m))
    for value, node, parents in zip(score.tolist(), nodes.tolist(), masks, strict=True):
        _check_finite(value, node, parents)
    prior, bits = collapsed.prior, rng.integers(1, 2**63, 4, dtype=np.uint64)
    # The parents of each node in ascending order, then all others, which nobody reads.
    parents = np.argsort(graphs.transpose(0, 2, 1) == 0, axis=2, kind="stable")
    n_parents, n_targets = graphs.sum(axis=1).astype(np.int64), (states > 0).sum(axis=1).astype(np.int64)
    log_prior = np.array([prior.log_prob_ordered(graph) + prior.log_prob_states(states) for graph, states in starts])
    place = np.argsort([topological_order(graph) for graph in graphs], axis=1)
    structure = graphs.astype(np.uint8), parents, n_parents, states, n_targets
    return chain.Chains(*structure, score.reshape(n, d), log_prior, place, np.arange(n), bits)


def _check_finite(value: float, node: int, parents: np.ndarray) -> None:
    if not math.isfinite(value):
        raise InferenceError(
            f"The evidence of variable number {node} given parents {np.flatnonzero(parents).tolist()} is {value}; look "
            "at the scale of the data (bacadi check)."
        )


def empty_memory(rng: np.random.Generator, evidence: AbstractEvidence) -> Memory:
    """Room for scores, and the random words of their hashes."""
    d, m, t = evidence.n_variables, evidence.n_contexts, evidence.states.n_states
    inline = evidence.tables is not None
    size = 2 if inline else 2**16
    words = rng.integers(1, 2**63, d * (d + 1) + d * m * t, dtype=np.uint64)
    nodes, states = np.split(words, [d * (d + 1)])
    return Memory(inline, np.zeros(size, np.uint64), np.zeros(size), nodes.reshape(d, d + 1), states.reshape(d, m, t))


def _copied(value):  # type: ignore[no-untyped-def]
    """A copy of nested tuples of arrays."""
    if isinstance(value, np.ndarray):
        return value.copy()
    return type(value)(*(_copied(item) for item in value)) if isinstance(value, tuple) else value
