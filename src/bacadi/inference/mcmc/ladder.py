"""A replica of parallel tempering: a ladder of chains on the collapsed posterior.

The chains are at inverse temperatures 1 = β_0 > … > β_{L-1}; chain l samples p(G, S) p(D | G, S)^β_l and neighbours
exchange. Replicas share nothing but the target density, so that their agreement says something. In the first part of a
run (burn-in) the spacing of the ladder is adapted so that all neighbours exchange equally often; at its end the weights
of the proposals are learnt. Where the evidence is costly and has an approximation, the second level is the posterior of
the approximation, which the levels behind it temper; in the burn-in it is told what becomes known of the evidence. All
that changes are arrays, so that a run that goes on from a checkpoint makes the same draws, bit for bit, as one that was
never interrupted.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int8, UInt8, UInt64

from bacadi.data.contexts import ContextData
from bacadi.errors import InferenceError
from bacadi.evidence.collapsed import AbstractEvidence, CollapsedPosterior, never
from bacadi.evidence.compiled import row_by_row
from bacadi.evidence.tables import NODE, GramTables
from bacadi.graph.dag import topological_order
from bacadi.inference.mcmc import chain, moves
from bacadi.inference.mcmc.chain import Chains, CompiledTarget, Memory
from bacadi.inference.mcmc.draws import PackedDraw, from_arrays, packed, to_arrays
from bacadi.inference.mcmc.method import MoveWeights
from bacadi.inference.mcmc.start import Structure, edge_weights, target_weights

HOT_ACCEPTANCE = 0.02  # of edge toggles at the hottest level
INLINE_SLOTS = 2**17  # scores of compiled evidence that are kept: 2 MB, which stay near the processor
GUESS_SLOTS = 2**20  # of approximations, which take ten times as long as a miss of the processor's cache
CERTAIN = 0.01  # weight to drop an edge that was always there, beside 1 for one that never was
NEAR = 12  # candidate parents and contexts of a node that a scan looks at
COLD = 0.5  # the least β of chains that may begin anew where the first one is
LITTLE = 0.25  # quantile of what the approximation was seen to lack beyond what is expected, where nothing is known
CONFUSED = 10.0  # times as often as otherwise an edge and a target change together where there is an approximation
RIDGE = 1.0  # prior precision of what a parent or a touched context adds to what lacks, in units of its own variation
COOLEST_HOT = -math.log(5.0)  # log inverse temperature that the hottest level has at least


class Seen(NamedTuple):
    """Sums of the edges and targets of cold chains over the burn-in, and the number of looks at them."""

    edges: Float[np.ndarray, "d d"]
    targets: Float[np.ndarray, "M d"]
    n: Float[np.ndarray, " 1"]


class Known(NamedTuple):
    """Scores of the evidence that the approximation has been told and what it lacks given some parents, both by hash,
    and what it is expected to lack at each node (`chain.expected_lack`)."""

    keys: UInt64[np.ndarray, " Q"]
    values: Float[np.ndarray, " Q"]
    lack: Float[np.ndarray, "d _ _"]


class Lacks(NamedTuple):
    """What an approximation was seen to lack at some nodes, given parents and states, and the hashes of the former."""

    node: Int[np.ndarray, " n"]
    parents: UInt8[np.ndarray, "n d"]
    state: Int8[np.ndarray, "n M"]
    key: UInt64[np.ndarray, " n"]
    by: Float[np.ndarray, " n"]


PARTS: dict[str, Any] = {"chains": Chains, "counts": chain.MoveCounts, "seen": Seen, "known": Known}
"""The tuples of arrays of a replica that change during a run."""

Sample = tuple[Int8[np.ndarray, "d d"], Int8[np.ndarray, "M d"], float]
"""Graph, states and log posterior of a draw; with one order where the prior is one over orders."""


class Replica:
    """One ladder of chains with all that it needs to go on alone in a thread.

    `draws` are recorded every `every` sweeps.
    """

    @classmethod
    def at(
        cls,
        collapsed: CollapsedPosterior,
        target: CompiledTarget,
        starts: Sequence[Structure],
        rng: np.random.Generator,
    ) -> "Replica":
        """A replica whose chains start at these structures, the first at the coldest level."""
        memory = empty_memory(rng, collapsed.evidence)
        return cls(collapsed.evidence, target, memory, new_chains(collapsed, starts, rng))

    def __init__(self, evidence: AbstractEvidence, target: CompiledTarget, memory: Memory, chains: Chains) -> None:
        d, m, n = evidence.n_variables, evidence.n_contexts, len(chains.edges)
        self.evidence, self.memory, self.n_kept, self.chains = evidence, memory, 0, chains
        self.target, self.is_approximate = target, evidence.approximation is not None
        self.known = Known(memory.known_keys, memory.known_values, memory.lack)
        columns = ((), "i8"), ((d,), "u1"), ((m,), "i1"), ((), "u8"), ((), "f8")
        self.lacks = Lacks(*(np.empty((0, *shape), kind) for shape, kind in columns))
        self.new_lacks = [list[Any]() for _ in Lacks._fields]
        self.guesses = self._guesses()
        kinds = (1, "i8"), (d, "u1"), (m, "i1"), (2, "u8")
        self.request = chain.ScoreRequest(*(np.zeros(size, kind) for size, kind in kinds))
        self.work = chain.new_work(d, m, self.evidence.states.n_states)
        self.counts = chain.MoveCounts(np.zeros((n, len(moves.MOVES), 2), np.int64), np.zeros((n, 2)))
        self.seen = Seen(np.zeros((d, d)), np.zeros((m, d)), np.zeros(1))
        self.betas, self.position = np.ones(n), np.zeros(3, np.int64)
        self.draws, self.every = list[PackedDraw](), 1

    def heat(self, max_temperature: float) -> None:
        """Space the ladder evenly in log β, up to this temperature."""
        coldest = int(self.is_approximate)
        self.betas[coldest:] = np.geomspace(1, 1 / max_temperature, len(self.betas) - coldest)

    def advance(self, until: int, n_moves: int | Int[np.ndarray, " L"], over: Callable[[], bool] = never) -> bool:
        """Go on until the sweep, fetching scores that compiled code does not have; moves are those of each level.

        False where `over` ended it before.
        """
        each = np.full(len(self.betas), n_moves, np.int64)
        rest = (self.work, self.chains, self.counts, self.betas, self.position)
        while True:
            guesses = self.guesses if self.is_approximate else self.memory
            exact, guess = (chain.SamplingProblem(self.target, of, self.request) for of in (self.memory, guesses))
            if moves.advance(exact, guess, *rest, until, each):
                return True
            if over():
                return False
            self._fetch()

    def _fetch(self) -> None:
        """Compute the score that was requested and keep it."""
        request, node = self.request, int(self.request.node[0])
        value = self.evidence.log_evidence(node, request.parents.astype(bool), request.state.copy())
        _check_finite(value, node, request.parents)
        if (cheap := self.evidence.approximation) is not None:
            guess = cheap.log_evidence(node, request.parents.astype(bool), request.state)
            seen = node, request.parents.copy(), request.state.copy(), request.key[1], value - guess
            for column, entry in zip(self.new_lacks, seen, strict=True):
                column.append(entry)
        if not self._keep(request.key[0], value):  # it was there, and the approximation gave no number
            _check_finite(math.nan, node, request.parents)

    def _keep(self, key: np.uint64, value: float) -> bool:
        """Keep a score, in twice the room where half of it is taken; False where it was there."""
        if 2 * (self.n_kept + 1) > (size := len(self.memory.keys)):
            keys, values = np.zeros(2 * size, np.uint64), np.zeros(2 * size)
            chain.rehash(self.memory.keys, self.memory.values, keys, values)
            self.memory = self.memory._replace(keys=keys, values=values)
        slot = chain.slot_of(self.memory.keys, key)
        is_new = bool(self.memory.keys[slot] != key)
        self.memory.keys[slot], self.memory.values[slot] = key, value
        self.n_kept += is_new
        return is_new

    def _guesses(self) -> Memory:
        """Memory of cheap scores: that of the evidence itself, or an empty one of its approximation."""
        if not self.is_approximate:
            return self.memory
        room = np.zeros(GUESS_SLOTS, np.uint64), np.zeros(GUESS_SLOTS)
        return Memory(True, *room, self.memory.node_hash, self.memory.state_hash, *self.known)

    def refine(self) -> None:
        """Tell the approximation what is known of the evidence by now: the scores that were asked for, and what it is
        expected to lack elsewhere. It thereby comes so near to it where chains are that both exchange states.

        What is not known is given a little less: where that is too much, chains would gather there.
        """
        if self.is_approximate:
            lacks = self._lacks()
            expected, rest = expected_lacks(lacks)
            keys, at = np.unique(lacks.key, return_inverse=True)
            n = np.bincount(at, minlength=len(keys))
            size = 2 ** math.ceil(math.log2(2 * (self.n_kept + len(keys)) + 2))
            self.known = Known(np.zeros(size, np.uint64), np.zeros(size), expected)
            chain.rehash(self.memory.keys, self.memory.values, *self.known[:2])
            chain.rehash(keys, np.bincount(at, rest, len(keys)) / n, *self.known[:2])
            self.guesses = self._guesses()
            self._rescore()

    def _lacks(self) -> Lacks:
        """What the approximation was seen to lack; what is new joins the arrays, which a run asks for often."""
        if self.new_lacks[0]:
            both = zip(self.lacks, self.new_lacks, strict=True)
            self.lacks = Lacks(*(np.concatenate([old, np.array(column, old.dtype)]) for old, column in both))
            self.new_lacks = [list[Any]() for _ in Lacks._fields]
        return self.lacks

    def _rescore(self) -> None:
        """Give all chains but the first the scores of the approximation as it is now."""
        chain.rescore(chain.SamplingProblem(self.target, self.guesses, self.request), self.chains)

    def gather(self) -> None:
        """Let chains of the colder levels that are worse off begin anew where the first is; for the burn-in alone.

        What the approximation was told has changed what is likely, and their way there may be long.
        """
        if not self.is_approximate:
            return
        first, log_p = self.chains.at_level[0], self.chains.score.sum(axis=1) + self.chains.log_prior
        for level in np.flatnonzero(self.betas >= COLD):
            worse = self.chains.at_level[level]
            if log_p[worse] < log_p[first]:
                for name in set(Chains._fields) - {"at_level", "rng"}:
                    array = getattr(self.chains, name)
                    array[worse] = array[first]
        self._rescore()

    def adapt(self, adapt_range: bool) -> None:
        """Space the ladder so that exchanges between all neighbours are refused equally often (Syed et al. 2022).

        Refusals add up along the ladder to a barrier, of which every step gets the same part. With `adapt_range` the
        hottest level moves to where about one edge toggle in seven is accepted: there structures dissolve, and
        hotter levels would only add to the way.
        """
        coldest = int(self.is_approximate)  # the level from which on temperatures differ
        refused = 1 - self.swap_rates()[coldest:]
        barrier = np.concatenate([[0.0], np.cumsum(np.maximum(refused, 0.01))])
        even = np.linspace(0, barrier[-1], len(self.betas) - coldest)
        log_betas = np.interp(even, barrier, np.log(self.betas[coldest:]))
        if adapt_range:
            proposed, accepted = self.counts.moves[-1, moves.ADD_OR_DROP]
            rate = accepted / max(proposed, 1)
            hottest = log_betas[-1] - np.clip((HOT_ACCEPTANCE - rate) / HOT_ACCEPTANCE, -1, 1) * np.log(2)
            log_betas *= min(hottest, COOLEST_HOT) / log_betas[-1]  # a posterior that is flat itself needs no heat
        self.betas[coldest:] = np.exp(log_betas)
        self.refine()
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
        self.refine()
        self.gather()
        self.counts.swaps[:], self.counts.moves[:] = 0, 0

    def learn(self) -> None:
        """Propose the pairs most whose indicator was least certain; fixed from here on, so that no ratio changes."""
        if self.seen.n[0]:
            edges, targets, old = self.seen.edges / self.seen.n, self.seen.targets / self.seen.n, self.target.proposals
            edge_weight = _sharpened(np.exp(old.edge_log), edges * (1 - edges))
            target_weight = _sharpened(np.exp(old.target_log), targets * (1 - targets))
            learnt = proposals(edge_weight, target_weight, old.move_sum, np.maximum(1 - edges, CERTAIN))
            self.target = self.target._replace(proposals=learnt)

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
            self.draws.append(packed(*self.sample()))
        if len(self.draws) >= 2 * wanted:
            self.draws, self.every = self.draws[1::2], 2 * self.every

    def arrays(self) -> dict[str, np.ndarray]:
        """Copies of all that changes during a run, except scores in memory, which can be computed again; but for those
        that an approximation is told, since what it is told must not depend on an interruption."""
        arrays = {f"{part}.{name}": value for part in PARTS for name, value in getattr(self, part)._asdict().items()}
        arrays |= {"betas": self.betas, "position": self.position, "every": np.array(self.every)}
        arrays |= {f"lacks.{name}": value for name, value in self._lacks()._asdict().items()}
        kept = np.flatnonzero(self.memory.keys if self.is_approximate else [])
        arrays |= {"asked.keys": self.memory.keys[kept], "asked.values": self.memory.values[kept]}
        return {name: value.copy() for name, value in arrays.items()} | to_arrays(self.draws)

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go back to where `arrays` was asked for."""
        for part, kind in PARTS.items():
            setattr(self, part, kind(*(arrays[f"{part}.{name}"] for name in kind._fields)))
        self.betas, self.position, self.every = arrays["betas"], arrays["position"], int(arrays["every"])
        self.lacks = Lacks(*(arrays[f"lacks.{name}"] for name in Lacks._fields))
        for key, value in zip(arrays["asked.keys"], arrays["asked.values"], strict=True):
            self._keep(key, value)
        self.guesses = self._guesses()
        self.draws = from_arrays(arrays)


def expected_lacks(lacks: Lacks) -> tuple[Float[np.ndarray, "d _ _"], Float[np.ndarray, " n"]]:
    """The coefficients of `chain.expected_lack`, by a ridge regression at each node, and what is left of each lack.

    Those of node j are `[j, d, i]` for parent i and `[j, d, d + k]` for context k, `[j, h, i]` for parents h < i and
    `[j, i, d + k]` for both. No variable is its own parent: the constant is `[j, d, j]`, and the little `[j, j, j]`.
    """
    d, m = lacks.parents.shape[1], lacks.state.shape[1]
    found, rest = np.zeros((d, d + 1, d + m)), lacks.by.copy()
    single = np.column_stack([lacks.parents, lacks.state > 0]).astype(float)
    for node in np.unique(lacks.node):
        at = np.flatnonzero(lacks.node == node)
        own, by = single[at], lacks.by[at]
        # Pairs that were seen twice, of those in which the first is a parent.
        first, second = np.nonzero(np.triu(own[:, :d].T @ own, 1) > 1)
        design = np.column_stack([own, own[:, first] * own[:, second]])
        mean, centred = design.mean(axis=0), design - design.mean(axis=0)
        slopes = np.linalg.solve(centred.T @ centred + RIDGE * np.eye(len(mean)), centred.T @ (by - by.mean()))
        rest[at] -= by.mean() + centred @ slopes
        found[node, d], found[node, first, second] = slopes[: d + m], slopes[d + m :]
        found[node, d, node], found[node, node, node] = by.mean() - mean @ slopes, np.quantile(rest[at], LITTLE)
    return found, rest


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
    return row_by_row(CompiledTarget(tables_of(evidence) or chain.no_tables(), tables, drawn))


def tables_of(evidence: AbstractEvidence) -> GramTables | None:
    """The tables of the evidence, or of its approximation."""
    return (evidence.approximation or evidence).tables


def proposals(
    edges: Float[np.ndarray, "d d"],
    targets: Float[np.ndarray, "M d"],
    move_sum: Float[np.ndarray, " 8"],
    drop: Float[np.ndarray, "d d"] | None = None,
) -> chain.Proposals:
    """Weights of pairs in the form that compiled code reads."""
    near = _largest(edges, len(edges) - 1), _largest(targets, len(targets))
    with np.errstate(divide="ignore"):
        logs = np.log(edges), np.log(targets)
    drop = np.ones_like(edges) if drop is None else drop
    return chain.Proposals(logs[0], np.cumsum(edges), logs[1], np.cumsum(targets), move_sum, drop, *near)


def _largest(weight: Float[np.ndarray, "a d"], n: int) -> Int[np.ndarray, "d C"]:
    """The rows of the largest weights in each column, at most `NEAR` and at most n, in ascending order."""
    return np.sort(np.ascontiguousarray(np.argsort(-weight, axis=0, kind="stable")[: min(NEAR, n)].T), axis=1)


def _move_weights(weights: MoveWeights, evidence: AbstractEvidence) -> Float[np.ndarray, " 8"]:
    """The weights of the moves that exist: targets need contexts, scans need scores in compiled code.

    An edge and the target that it explains away are what an approximation confuses, and what takes longest to settle.
    """
    allowed = np.array(list(vars(weights).values()), float)
    if evidence.approximation is not None:
        allowed[moves.EDGE_AND_TARGET] *= CONFUSED
    if evidence.n_contexts == 0 or evidence.states.n_states == 1:
        allowed[moves.SET_TARGET : moves.REDRAW] = 0
    if tables_of(evidence) is None:
        allowed[moves.TOGGLE_AND_COLUMN :] = 0
    return allowed


def _sharpened(weight: np.ndarray, uncertain: np.ndarray) -> np.ndarray:
    """Half of the old weights and half of new ones in proportion to the uncertainty of what they propose."""
    if uncertain.sum() <= 0:
        return weight
    return 0.5 * weight / weight.sum() + 0.5 * uncertain / uncertain.sum()


def new_chains(collapsed: CollapsedPosterior, starts: Sequence[Structure], rng: np.random.Generator) -> Chains:
    """One chain for each structure, the first at the coldest level; the others have the scores of the approximation,
    where there is one."""
    # Row by row whatever the layout of the starts, as a checkpoint has them: for another all would be compiled anew.
    graphs = np.ascontiguousarray(np.stack([graph for graph, _ in starts]))
    states = np.ascontiguousarray(np.stack([states.T for _, states in starts]))
    n, d, m = states.shape
    nodes, masks = np.tile(np.arange(d), n), graphs.transpose(0, 2, 1).reshape(n * d, d).astype(bool)
    columns, evidence = states.reshape(n * d, m), collapsed.evidence
    first, others = slice(0, d), slice(d, None)
    score = np.concatenate(
        [
            of.log_evidences(nodes[part], masks[part], columns[part])
            for of, part in ((evidence, first), (evidence.approximation or evidence, others))
        ]
    )
    for value, node, parents in zip(score.tolist(), nodes.tolist(), masks, strict=True):
        _check_finite(value, node, parents)
    prior, bits = collapsed.prior, rng.integers(1, 2**63, 4, dtype=np.uint64)
    n_parents, n_targets = graphs.sum(axis=1).astype(np.int64), (states > 0).sum(axis=1).astype(np.int64)
    # The parents of each node in ascending order, then zeros, which nobody reads.
    parents = np.zeros(graphs.shape, NODE)
    parents[np.arange(d) < n_parents[:, :, None]] = np.nonzero(graphs.transpose(0, 2, 1))[2]
    log_prior = np.array([prior.log_prob_ordered(graph) + prior.log_prob_states(states) for graph, states in starts])
    place = np.argsort([topological_order(graph) for graph in graphs], axis=1)
    structure = graphs.astype(np.uint8), parents, n_parents, states, n_targets
    return Chains(*structure, score.reshape(n, d), log_prior, place, np.arange(n), bits)


def blank_chains(evidence: AbstractEvidence, n: int) -> Chains:
    """Chains that are nowhere yet, to be restored."""
    d, m = evidence.n_variables, evidence.n_contexts
    return Chains(
        edges=np.zeros((n, d, d), np.uint8),
        parents=np.zeros((n, d, d), NODE),
        n_parents=np.zeros((n, d), np.int64),
        states=np.zeros((n, d, m), np.int8),
        n_targets=np.zeros((n, m), np.int64),
        score=np.zeros((n, d)),
        log_prior=np.zeros(n),
        place=np.zeros((n, d), np.int64),
        at_level=np.zeros(n, np.int64),
        rng=np.zeros(4, np.uint64),
    )


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
    size = INLINE_SLOTS if inline else 2**16
    if evidence.approximation is not None:
        rng = np.random.default_rng(0)  # a checkpoint holds what the approximation was told, by hash
    words = rng.integers(1, 2**63, d * (d + 1) + d * m * t, dtype=np.uint64)
    nodes, states = np.split(words, [d * (d + 1)])
    states = states.reshape(d, m, t)
    states[:, :, :1] = 0  # of most states, which need not be looked at
    room, known = ((np.zeros(n, np.uint64), np.zeros(n)) for n in (size, 1))
    lack = np.zeros((d, d + 1, d + m) if evidence.approximation is not None else (d, 0, 0))
    return Memory(inline, *room, nodes.reshape(d, d + 1), states, *known, lack)
