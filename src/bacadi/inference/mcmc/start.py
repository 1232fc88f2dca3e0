"""Where chains start and which pairs they propose most: cheap guesses from the data.

No result depends on them, with one exception: `fit_hyperparameters` fits free hyper-parameters to a greedy structure.
An intervention moves its target and what lies downstream of it, so a variable that few contexts move comes early in a
causal order. Given an order, the parents of each node and its states in the contexts are found greedily.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from bacadi.data.contexts import ContextData, mean_shift_z
from bacadi.evidence.collapsed import CollapsedPosterior, StructurePrior

MOVED = 4.0  # |z| of the mean from which a context counts as having moved a variable
ROUNDS = 2  # of a greedy structure and hyper-parameters for it
SEARCHES = 30  # greedy searches per variable that the refinement of an order may take
INFORMED = 0.8  # share of the proposal weights that follows the data; the rest is the same for all pairs


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
    order, waiting = np.zeros(0, int), np.ones(len(rank), bool)
    while waiting.any():
        free = waiting & ~prior.required[waiting].any(axis=0)
        order = np.append(order, np.where(free, rank, np.inf).argmin())
        waiting[order[-1]] = False
    return order


class Local(NamedTuple):
    """The greedy optimum of a node: its part of the log posterior, parents and states."""

    score: float
    parents: Bool[np.ndarray, " d"]
    state: Int8[np.ndarray, " M"]


class Orders:
    """Greedy structures of causal orders; a node is searched once for each set of variables before it."""

    def __init__(self, collapsed: CollapsedPosterior) -> None:
        self.collapsed, self.searched = collapsed, dict[tuple[int, bytes], Local]()

    def locals(self, order: Int[np.ndarray, " d"], first: int = 0, last: int | None = None) -> dict[int, Local]:
        """The optima of the nodes at places `first` to `last` of the order."""
        before = np.zeros(len(order), bool)
        before[order[:first]] = True
        optima = {}
        for node in order[first : len(order) if last is None else last + 1].tolist():
            key = node, before.tobytes()
            if key not in self.searched:
                self.searched[key] = _NodeSearch(self.collapsed, node, before).run()
            optima[node] = self.searched[key]
            before[node] = True
        return optima

    def structure(self, order: Int[np.ndarray, " d"]) -> Structure:
        """The optima of all nodes together."""
        d, m = len(order), self.collapsed.evidence.n_contexts
        graph, states = np.zeros((d, d), np.int8), np.zeros((m, d), np.int8)
        for node, local in self.locals(order).items():
            graph[:, node], states[:, node] = local.parents, local.state
        return _within_counts(self.collapsed.prior, Structure(graph, states))

    def refined(self, rng: np.random.Generator, order: Int[np.ndarray, " d"], searches: int) -> Int[np.ndarray, " d"]:
        """Reverse edges where that helps: j moves before i, or i behind j, for edges i → j, until none helps or there
        have been `searches` searches."""
        local, limit = self.locals(order), len(self.searched) + searches
        required = self.collapsed.prior.required
        improved = True
        while improved:
            improved = False
            edges = [(int(i), node) for node, optimum in local.items() for i in np.flatnonzero(optimum.parents)]
            for at in rng.permutation(len(edges)):
                i, j = edges[at]
                a, b = (int(np.flatnonzero(order == node)[0]) for node in (i, j))
                if a > b or required[order[a:b], j].any() or required[i, order[a + 1 : b + 1]].any():
                    continue
                if len(self.searched) > limit:
                    return order
                now = sum(local[node].score for node in order[a : b + 1].tolist())
                between = order[a + 1 : b]
                for middle in (np.concatenate([[j, i], between]), np.concatenate([between, [j, i]])):
                    new = np.concatenate([order[:a], middle, order[b + 1 :]])
                    changed = self.locals(new, a, b)
                    if _total(changed) > now + 1e-6:
                        order, local, improved = new, local | changed, True
                        break
        return order


def initial(rng: np.random.Generator, collapsed: CollapsedPosterior, data: ContextData, n: int) -> list[Structure]:
    """Greedy structures of `n` randomised orders, the best first; the best order is refined."""
    moved, greedy = mean_shift_z(data), Orders(collapsed)
    orders = [causal_order(rng, moved, collapsed.prior) for _ in range(n)]
    orders.sort(key=lambda order: -_total(greedy.locals(order)))
    orders[0] = greedy.refined(rng, orders[0], searches=SEARCHES * len(orders[0]))
    return [greedy.structure(order) for order in orders]


def _total(optima: dict[int, Local]) -> float:
    return sum(local.score for local in optima.values())


def fit_hyperparameters(collapsed: CollapsedPosterior, data: ContextData) -> CollapsedPosterior:
    """Alternate twice between a greedy structure and type-II maximum likelihood of the free hyper-parameters.

    Only contexts that are likelier targets than not are taken for such, prior included: where every context that a hard
    effect fits better counts as one, mechanisms are left with few rows and seem to have next to no noise.
    """
    if collapsed.evidence.is_fitted:
        return collapsed
    order = causal_order(np.random.default_rng(0), mean_shift_z(data), collapsed.prior)
    for _ in range(ROUNDS):
        structure = Orders(collapsed).structure(order)
        collapsed = replace(collapsed, evidence=collapsed.evidence.fit_hyperparameters(*structure))
    return collapsed


class _NodeSearch:
    """Greedy search for the parents of one node, among the variables before it, and for its states."""

    def __init__(self, collapsed: CollapsedPosterior, node: int, before: Bool[np.ndarray, " d"]) -> None:
        prior = collapsed.prior
        self.evidence, self.node, self.max_parents = collapsed.evidence, node, prior.max_parents
        self.free = before & ~prior.forbidden[:, node] & ~prior.required[:, node]
        self.odds = np.where(np.isfinite(prior.edge_log_odds[:, node]), prior.edge_log_odds[:, node], 0)
        self.log_states = prior.state_log_prior[:, node]
        self.parents = prior.required[:, node].copy()
        # The likeliest state beforehand: untouched, or a known target.
        self.state = self.log_states.argmax(axis=1).astype(np.int8)
        self.score = self._scores(self.parents[None], self.state[None])[0]

    def run(self) -> Local:
        """Improve states and parents in turn until no single change of a parent helps."""
        self._improve_states()
        while self._improve_parents():
            self._improve_states()
        return Local(float(self.score), self.parents, self.state)

    def _scores(self, parents: Bool[np.ndarray, "#B d"], states: Int8[np.ndarray, "#B M"]) -> Float[np.ndarray, " B"]:
        """The part of the node in the log posterior; a single row of parents or of states serves all of the other."""
        n = max(len(parents), len(states))
        parents, states = np.repeat(parents, n // len(parents), axis=0), np.repeat(states, n // len(states), axis=0)
        of_states = self.log_states[np.arange(states.shape[1]), states].sum(axis=1)
        return self.evidence.log_evidences(np.full(n, self.node), parents, states) + parents @ self.odds + of_states

    def _improve_parents(self) -> bool:
        """Make the single change of a parent that helps most."""
        full = self.parents.sum() >= self.max_parents
        options = np.flatnonzero(self.free & self.parents if full else self.free)
        if len(options) == 0:
            return False
        parents = np.repeat(self.parents[None], len(options), axis=0)
        parents[np.arange(len(options)), options] ^= True
        scores = self._scores(parents, self.state[None])
        best = int(scores.argmax())
        if not scores[best] > self.score + 1e-9:
            return False
        self.parents, self.score = parents[best], scores[best]
        return True

    def _improve_states(self, rounds: int = 10) -> None:
        """Make all single changes of a state that help, together if that helps more than the best one alone."""
        contexts, values = np.nonzero(self.log_states > -np.inf)
        for _ in range(rounds):
            other = values != self.state[contexts]
            k, s = contexts[other], values[other]
            if len(k) == 0:
                return
            states = np.repeat(self.state[None], len(k), axis=0)
            states[np.arange(len(k)), k] = s
            scores = self._scores(self.parents[None], states)
            if not scores.max() > self.score + 1e-9:
                return
            together = self.state.copy()
            for at in np.argsort(scores):
                if scores[at] > self.score:
                    together[k[at]] = s[at]
            pair = np.stack([together, states[scores.argmax()]])
            both = self._scores(self.parents[None], pair)
            self.state, self.score = pair[both.argmax()], both.max()


def _within_counts(prior: StructurePrior, structure: Structure) -> Structure:
    """Bring contexts whose number of targets is impossible back to the likeliest states that are possible."""
    graph, states = structure
    for k, count_log in enumerate(prior.target_count_log):
        possible, log_prior = np.flatnonzero(count_log > -np.inf), prior.state_log_prior[k]
        for _ in range(states.shape[1]):
            count = (states[k] > 0).sum()
            if count in possible:
                break
            more = possible[np.abs(possible - count).argmin()] > count
            effect = log_prior[:, 1:].argmax(axis=1) + 1
            gain = log_prior[np.arange(len(effect)), effect] - log_prior[:, 0]
            j = np.where((states[k] == 0) == more, gain if more else -gain, -np.inf).argmax()
            states[k, j] = effect[j] if more else 0
    return Structure(graph, states)


def edge_weights(data: ContextData) -> Float[np.ndarray, "d d"]:
    """Proposal weights of pairs: squared partial correlations within contexts, mixed with the same weight for all.

    They are symmetric, so that a reversal and its way back have the same weight.
    """
    off = 1.0 - np.eye(data.n_variables)
    residual = data.x.astype(float)
    for k in np.unique(data.context):
        residual[data.context == k] -= data.x[data.context == k].mean(axis=0)
    spread = residual.std(axis=0)
    residual /= np.where(spread > 0, spread, 1.0)
    precision = np.linalg.inv(residual.T @ residual / len(residual) + 0.1 * np.eye(data.n_variables))
    diagonal = np.sqrt(np.diag(precision))
    return _mixed(off / max(off.sum(), 1.0), (precision / np.outer(diagonal, diagonal)) ** 2 * off)


def target_weights(data: ContextData) -> Float[np.ndarray, "M d"]:
    """Proposal weights of (context, variable): how far the context moved the variable, mixed with the same for all."""
    weight = np.log1p(mean_shift_z(data))
    return _mixed(np.full(weight.shape, 1 / max(weight.size, 1)), weight)


def _mixed(even: Float[np.ndarray, "a b"], weight: Float[np.ndarray, "a b"]) -> Float[np.ndarray, "a b"]:
    return (1 - INFORMED) * even + INFORMED * weight / weight.sum() if weight.sum() > 0 else even
