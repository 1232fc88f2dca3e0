"""One ladder of chains, with the tables, scores and counts that it needs to go on alone in a thread."""

import math

import numpy as np
from jaxtyping import Float, Int

from bacadi.data.context import ContextData
from bacadi.errors import InferenceError
from bacadi.graph.acyclicity import topological_order
from bacadi.inference import moves
from bacadi.inference.chains import (
    Chains,
    Counts,
    Memory,
    PriorTables,
    Proposals,
    Request,
    Target,
    no_tables,
    rehash,
    slot_of,
)
from bacadi.inference.mcmc import MoveWeights
from bacadi.inference.start import Structure, edge_weights, target_weights
from bacadi.model.collapsed import AbstractEvidence, Collapsed
from bacadi.model.gram import GramEvidence

HOT_ACCEPTANCE = 0.15  # of edge toggles at the hottest level


class Replica:
    """One ladder of chains with all that it needs to go on alone in a thread."""

    def __init__(self, collapsed: Collapsed, target: Target, starts: list[Structure], rng: np.random.Generator) -> None:
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
        self.chains = new_chains(collapsed, starts, rng)
        self.counts = Counts(np.zeros((n, 8, 2), np.int64), np.zeros((n, 2)))
        self.betas = np.ones(n)
        self.position = np.zeros(3, np.int64)
        self.edge_sum, self.target_sum, self.n_seen = np.zeros((d, d)), np.zeros((m, d)), np.zeros(1)

    def advance(self, until: int, n_moves: int | Int[np.ndarray, " L"]) -> None:
        """Go on until the sweep, fetching scores that compiled code does not have; moves are those of each level."""
        each = np.full(len(self.betas), n_moves, np.int64)
        rest = (self.target, self.memory, self.request, self.chains, self.counts, self.betas, self.position)
        while not moves.advance(*rest, until, each):
            self._fetch()
            rest = (self.target, self.memory, *rest[2:])

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


def compiled_target(collapsed: Collapsed, data: ContextData, weights: MoveWeights) -> Target:
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


def new_chains(collapsed: Collapsed, starts: list[Structure], rng: np.random.Generator) -> Chains:
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
