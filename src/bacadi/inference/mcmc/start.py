"""Where chains start and which pairs they propose most: cheap guesses from the data, on which no result depends but
the choices of `settle`.

An intervention moves its target and what lies downstream of it, so a variable that is moved in few contexts stands
early in a causal order. Given an order, parents are chosen greedily for each node, with its states in the contexts.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from bacadi.data.contexts import ContextData, mean_shift_z
from bacadi.evidence.collapsed import AbstractEvidence, CollapsedPosterior, StructurePrior

MOVED = 4.0  # |z| of the mean from which a context counts as having moved a variable
SETTLING = 2  # rounds of a greedy structure and choices for it
SEARCHES = 30  # greedy searches for each variable that the refinement of an order may take


class Structure(NamedTuple):
    """A graph and the states of all variables in all contexts."""

    graph: Int8[np.ndarray, "d d"]
    states: Int8[np.ndarray, "M d"]


def causal_order(
    rng: np.random.Generator, moved: Float[np.ndarray, "M d"], prior: StructurePrior
) -> Int[np.ndarray, " d"]:
    """Variables by the number of contexts that move them, ties at random; required edges always run forwards."""
    threshold = MOVED * np.exp(rng.normal(0, 0.5))
    rank = (moved > threshold).sum(axis=0) + rng.random(moved.shape[1])
    if not prior.required.any():
        return np.argsort(rank)
    order: list[int] = []
    waiting = set(range(len(rank)))
    while waiting:
        free = [j for j in waiting if not (set(np.flatnonzero(prior.required[:, j])) & waiting)]
        order.append(min(free, key=lambda j: rank[j]))
        waiting.remove(order[-1])
    return np.array(order)


class Local(NamedTuple):
    """What the greedy search found for a node: its part of the log posterior, parents and states."""

    score: float
    parents: Bool[np.ndarray, " d"]
    state: Int8[np.ndarray, " M"]


class Orders:
    """Greedy structures of causal orders; a node is searched once for each set of variables before it."""

    def __init__(self, collapsed: CollapsedPosterior) -> None:
        self.collapsed, self.found = collapsed, dict[tuple[int, bytes], Local]()

    def node(self, node: int, before: Bool[np.ndarray, " d"]) -> Local:
        key = node, before.tobytes()
        if key not in self.found:
            self.found[key] = _Node(self.collapsed, node, before & ~self.collapsed.prior.forbidden[:, node]).run()
        return self.found[key]

    def locals(self, order: Int[np.ndarray, " d"], first: int = 0, last: int | None = None) -> dict[int, Local]:
        """What is found for the nodes at places `first` to `last` of the order."""
        before = np.zeros(len(order), bool)
        before[order[:first]] = True
        found = {}
        for node in order[first : len(order) if last is None else last + 1].tolist():
            found[node] = self.node(node, before)
            before[node] = True
        return found

    def structure(self, order: Int[np.ndarray, " d"]) -> Structure:
        d, m = len(order), self.collapsed.evidence.n_contexts
        graph, states = np.zeros((d, d), np.int8), np.zeros((m, d), np.int8)
        for node, local in self.locals(order).items():
            graph[:, node], states[:, node] = local.parents, local.state
        return _within_counts(self.collapsed.prior, Structure(graph, states))

    def refined(self, rng: np.random.Generator, order: Int[np.ndarray, " d"], searches: int) -> Int[np.ndarray, " d"]:
        """Turn edges round where that helps: j moves before i, or i behind j, for edges i → j, until none helps."""
        local, limit = self.locals(order), len(self.found) + searches
        required = self.collapsed.prior.required
        improved = True
        while improved:
            improved = False
            edges = [(int(i), node) for node, found in local.items() for i in np.flatnonzero(found.parents)]
            for at in rng.permutation(len(edges)):
                i, j = edges[at]
                a, b = (int(np.flatnonzero(order == node)[0]) for node in (i, j))
                if a > b or required[order[a:b], j].any() or required[i, order[a + 1 : b + 1]].any():
                    continue
                if len(self.found) > limit:
                    return order
                now = sum(local[node].score for node in order[a : b + 1].tolist())
                between = order[a + 1 : b]
                for middle in (np.concatenate([[j, i], between]), np.concatenate([between, [j, i]])):
                    new = np.concatenate([order[:a], middle, order[b + 1 :]])
                    changed = self.locals(new, a, b)
                    if sum(found.score for found in changed.values()) > now + 1e-6:
                        order, local, improved = new, local | changed, True
                        break
        return order


def initial(rng: np.random.Generator, collapsed: CollapsedPosterior, data: ContextData, n: int) -> list[Structure]:
    """Greedy structures of `n` randomised orders, the best first; the best order is refined."""
    moved, orders = mean_shift_z(data), Orders(collapsed)
    found = [causal_order(rng, moved, collapsed.prior) for _ in range(n)]
    found.sort(key=lambda order: -sum(local.score for local in orders.locals(order).values()))
    found[0] = orders.refined(rng, found[0], searches=SEARCHES * len(found[0]))
    return [orders.structure(order) for order in found]


def fit_hyperparameters(collapsed: CollapsedPosterior, data: ContextData) -> CollapsedPosterior:
    """Alternate twice between a greedy structure and type-II maximum likelihood of the free hyper-parameters.

    Only contexts that are likelier targets than not are taken for such, prior included: where every context that a hard
    effect fits better counts as one, mechanisms are left with few rows and seem to have next to no noise.
    """
    if collapsed.evidence.has_hyperparameters:
        return collapsed
    order = causal_order(np.random.default_rng(0), mean_shift_z(data), collapsed.prior)
    for _ in range(SETTLING):
        structure = Orders(collapsed).structure(order)
        collapsed = replace(collapsed, evidence=collapsed.evidence.fit_hyperparameters(*structure))
    return collapsed


class _Node:
    """Greedy search for the parents and states of one node."""

    def __init__(self, collapsed: CollapsedPosterior, node: int, allowed: Bool[np.ndarray, " d"]) -> None:
        self.evidence: AbstractEvidence = collapsed.evidence
        self.prior, self.node, self.allowed = collapsed.prior, node, allowed
        self.parents = self.prior.required[:, node].copy()
        # The likeliest state beforehand: untouched, or a known target.
        self.state = self.prior.state_log_prior[:, node].argmax(axis=1).astype(np.int8)
        self.score = self._scores(self.parents[None], self.state[None])[0]

    def run(self) -> Local:
        self._improve_states()
        while self._improve_parents():
            self._improve_states()
        return Local(float(self.score), self.parents, self.state)

    def _scores(self, parents: np.ndarray, states: np.ndarray) -> Float[np.ndarray, " B"]:
        nodes = np.full(len(parents), self.node)
        odds = np.where(np.isfinite(self.prior.edge_log_odds[:, self.node]), self.prior.edge_log_odds[:, self.node], 0)
        contexts = np.arange(states.shape[1])
        of_states = self.prior.state_log_prior[contexts, self.node, states].sum(axis=1)
        return self.evidence.log_evidences(nodes, parents, states) + parents @ odds + of_states

    def _improve_parents(self) -> bool:
        """The single change of a parent that helps most."""
        change = self.allowed & ~self.prior.required[:, self.node]
        if self.parents.sum() >= self.prior.max_parents:
            change &= self.parents
        options = np.flatnonzero(change)
        if len(options) == 0:
            return False
        parents = np.repeat(self.parents[None], len(options), axis=0)
        parents[np.arange(len(options)), options] ^= True
        scores = self._scores(parents, np.repeat(self.state[None], len(options), axis=0))
        best = int(scores.argmax())
        if not scores[best] > self.score + 1e-9:
            return False
        self.parents, self.score = parents[best], scores[best]
        return True

    def _improve_states(self, rounds: int = 10) -> None:
        """All single changes of a state that help, together if that helps more than the best one alone."""
        contexts, values = np.nonzero(self.prior.state_log_prior[:, self.node] > -np.inf)
        for _ in range(rounds):
            other = values != self.state[contexts]
            k, s = contexts[other], values[other]
            if len(k) == 0:
                return
            states = np.repeat(self.state[None], len(k), axis=0)
            states[np.arange(len(k)), k] = s
            scores = self._scores(np.repeat(self.parents[None], len(k), axis=0), states)
            if not scores.max() > self.score + 1e-9:
                return
            together = self.state.copy()
            for at in np.argsort(scores):
                if scores[at] > self.score:
                    together[k[at]] = s[at]
            alone = states[scores.argmax()]
            pair = np.stack([together, alone])
            both = self._scores(np.repeat(self.parents[None], 2, axis=0), pair)
            self.state, self.score = pair[both.argmax()], both.max()


def _within_counts(prior: StructurePrior, structure: Structure) -> Structure:
    """Bring contexts whose number of targets is impossible back to the likeliest states that are possible."""
    graph, states = structure
    for k, row in enumerate(prior.target_count_log):
        for _ in range(states.shape[1] + 1):
            count = int((states[k] > 0).sum())
            if row[count] > -np.inf:
                break
            possible = np.flatnonzero(row > -np.inf)
            more = possible[np.abs(possible - count).argmin()] > count
            log_prior = prior.state_log_prior[k]
            effect = log_prior[:, 1:].argmax(axis=1) + 1
            gain = log_prior[np.arange(len(effect)), effect] - log_prior[:, 0]
            gain = np.where(states[k] == 0, gain, -np.inf) if more else np.where(states[k] > 0, -gain, -np.inf)
            j = int(gain.argmax())
            states[k, j] = effect[j] if more else 0
    return Structure(graph, states)


def edge_weights(data: ContextData, prior: StructurePrior, informed: float = 0.8) -> Float[np.ndarray, "d d"]:
    """Proposal weights of pairs: partial correlations within contexts, mixed with the same weight for all.

    They are symmetric, so that a reversal and its way back are proposed alike.
    """
    d = data.n_variables
    off = 1.0 - np.eye(d)
    residual = data.x.astype(float)
    for k in range(data.n_contexts + 1):
        rows = data.context == k
        if rows.any():
            residual[rows] -= data.x[rows].mean(axis=0)
    spread = residual.std(axis=0)
    residual /= np.where(spread > 0, spread, 1.0)
    precision = np.linalg.inv(residual.T @ residual / len(residual) + 0.1 * np.eye(d))
    diagonal = np.sqrt(np.diag(precision))
    partial = (precision / np.outer(diagonal, diagonal)) ** 2 * off
    even = off / max(off.sum(), 1.0)
    if partial.sum() <= 0:
        return even
    return (1 - informed) * even + informed * partial / partial.sum()


def target_weights(data: ContextData, informed: float = 0.8) -> Float[np.ndarray, "M d"]:
    """Proposal weights of (context, variable): how far the context moved the variable, mixed with the same for all."""
    weight = np.log1p(mean_shift_z(data))
    even = np.full(weight.shape, 1 / max(weight.size, 1))
    if weight.sum() <= 0:
        return even
    return (1 - informed) * even + informed * weight / weight.sum()
