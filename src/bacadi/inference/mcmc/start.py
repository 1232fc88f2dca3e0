"""Where chains start and which pairs they propose most: cheap guesses from the data.

No result depends on them, with one exception: `fit_hyperparameters` fits free hyper-parameters to a greedy structure.
An intervention moves its target and what lies downstream of it, so a variable that few contexts move comes early in a
causal order. Given an order, the parents of each node and its states in the contexts are found greedily.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from bacadi.data.contexts import ContextData, mean_shift_z
from bacadi.evidence.collapsed import CollapsedPosterior, StructurePrior, never
from bacadi.inference.mcmc.chain import CompiledTarget
from bacadi.inference.mcmc.search import RESTARTS, RESTARTS_APPROXIMATE, optima

MOVED = 4.0  # |z| of the mean from which a context counts as having moved a variable
ROUNDS = 2  # of a greedy structure and hyper-parameters for it
SEARCHES = 30  # greedy searches per variable that the refinement of an order may take
_COSTLY_BATCH = 2 * (os.cpu_count() or 1)  # scores of milliseconds between two looks at the clock
INFORMED = 0.8  # share of the proposal weights that follows the data; the rest is the same for all pairs


class Structure(NamedTuple):
    """A graph and the states of all variables in all contexts."""

    graph: Int8[np.ndarray, "d d"]
    states: Int8[np.ndarray, "M d"]


class _TimeIsOver(Exception):
    pass


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


Searched = dict[tuple[int, bytes], Local]
"""Greedy optima by node and the variables before it."""


class Orders:
    """Greedy structures of causal orders; a node is searched once for each set of variables before it.

    Where `over` says that there is no time left, searches stop where they are and new ones do not begin. `searched`
    holds those that came to their end; given to another `Orders`, it makes the same way shorter and nothing else.
    """

    def __init__(
        self, collapsed: CollapsedPosterior, over: Callable[[], bool] = never, searched: "Searched | None" = None
    ) -> None:
        self.collapsed, self.over = collapsed, over
        self.searched: Searched = {} if searched is None else searched
        self.asked = set[tuple[int, bytes]]()

    def locals(self, order: Int[np.ndarray, " d"], first: int = 0, last: int | None = None) -> dict[int, Local]:
        """The optima of the nodes at places `first` to `last` of the order."""
        before = np.zeros(len(order), bool)
        before[order[:first]] = True
        optima = {}
        for node in order[first : len(order) if last is None else last + 1].tolist():
            optima[node] = self._local(node, before)
            before[node] = True
        return optima

    def _local(self, node: int, before: Bool[np.ndarray, " d"]) -> Local:
        key = node, before.tobytes()
        self.asked.add(key)
        if key in self.searched:
            return self.searched[key]
        search = _NodeSearch(self.collapsed, node, before, self.over)
        if search.run():
            self.searched[key] = search.found
        return search.found

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
        local, limit = self.locals(order), len(self.asked) + searches
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
                if len(self.asked) > limit or self.over():
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


def initial(rng: np.random.Generator, greedy: Orders, data: ContextData, n: int) -> list[Structure]:
    """Greedy structures of `n` randomised orders, the best first; the best order is refined.

    Where time runs out, the structures found by then serve in turn.
    """
    moved, prior = mean_shift_z(data), greedy.collapsed.prior
    orders: list[tuple[float, Int[np.ndarray, " d"]]] = []
    for order in [causal_order(rng, moved, prior) for _ in range(n)]:
        score = _total(greedy.locals(order))
        if orders and greedy.over():
            break
        orders.append((-score, order))
    found = [order for _, order in sorted(orders, key=lambda item: item[0])]
    found[0] = greedy.refined(rng, found[0], searches=SEARCHES * data.n_variables)
    structures = [greedy.structure(order) for order in found]
    return [structures[i % len(structures)] for i in range(n)]


def searched_starts(
    collapsed: CollapsedPosterior,
    target: CompiledTarget,
    data: ContextData,
    n: int,
    over: Callable[[], bool],
    tell: Callable[[], object],
    rng: np.random.Generator,
) -> list[Structure]:
    """`initial` by the compiled search: the best optimum for the colder half, then the others in turn."""
    moved, prior = mean_shift_z(data), collapsed.prior
    restarts = RESTARTS if collapsed.evidence.approximation is None else RESTARTS_APPROXIMATE
    orders = (causal_order(rng, moved, prior) for _ in range(restarts))
    found = [_within_counts(prior, Structure(*each)) for each in optima(rng, target, orders, over, tell)]
    starts = [found[max(level - n // 2, 0) % len(found)] for level in range(n)]
    if collapsed.evidence.approximation is not None:
        starts[0] = with_likely_states(collapsed, starts[0], over)
    return starts


def with_likely_states(collapsed: CollapsedPosterior, structure: Structure, over: Callable[[], bool]) -> Structure:
    """The same graph with the greedy states of the evidence: those that an approximation found are of its own making
    where contexts move parents far. They cost next to nothing once the evidence knows the parents."""
    graph, states = structure.graph, structure.states.copy()
    for node in range(len(graph)):
        search = _NodeSearch(collapsed, node, np.zeros(len(graph), bool), over)
        search.parents, search.state = graph[:, node].astype(bool), states[:, node]
        search.run()
        states[:, node] = search.found.state
    return _within_counts(collapsed.prior, Structure(graph, states))


def searches_of(n_variables: int, n: int) -> int:
    """The most searches that `initial` makes, for a bar of its progress."""
    return (n + SEARCHES) * n_variables


def _total(optima: dict[int, Local]) -> float:
    return sum(local.score for local in optima.values())


def fit_hyperparameters(
    collapsed: CollapsedPosterior, data: ContextData, over: Callable[[], bool] = never
) -> CollapsedPosterior:
    """Alternate twice between a greedy structure and type-II maximum likelihood of the free hyper-parameters.

    Only contexts that are likelier targets than not are taken for such, prior included: where every context that a hard
    effect fits better counts as one, mechanisms are left with few rows and seem to have next to no noise.
    """
    if collapsed.evidence.is_fitted:
        return collapsed
    order = causal_order(np.random.default_rng(0), mean_shift_z(data), collapsed.prior)
    for _ in range(ROUNDS):
        cheap = replace(collapsed, evidence=collapsed.evidence.approximation or collapsed.evidence)
        structure = Orders(cheap, over).structure(order)
        collapsed = replace(collapsed, evidence=collapsed.evidence.fit_hyperparameters(*structure, over))
    return collapsed


class _NodeSearch:
    """Greedy search for the parents of one node, among the variables before it, and for its states."""

    def __init__(
        self, collapsed: CollapsedPosterior, node: int, before: Bool[np.ndarray, " d"], over: Callable[[], bool]
    ) -> None:
        prior = collapsed.prior
        self.evidence, self.node, self.max_parents, self.over = collapsed.evidence, node, prior.max_parents, over
        self.free = before & ~prior.forbidden[:, node] & ~prior.required[:, node]
        self.odds = np.where(np.isfinite(prior.edge_log_odds[:, node]), prior.edge_log_odds[:, node], 0)
        self.log_states = prior.state_log_prior[:, node]
        self.parents = prior.required[:, node].copy()
        # The likeliest state beforehand: untouched, or a known target.
        self.state = self.log_states.argmax(axis=1).astype(np.int8)
        self.score = -np.inf

    @property
    def found(self) -> Local:
        """The best found so far."""
        return Local(float(self.score), self.parents, self.state)

    def run(self) -> bool:
        """Improve states and parents in turn until no single change of a parent helps; False if time ran out."""
        try:
            self.score = self._scores(self.parents[None], self.state[None])[0]
            self._improve_states()
            while self._improve_parents():
                self._improve_states()
        except _TimeIsOver:
            return False
        return True

    def _scores(self, parents: Bool[np.ndarray, "#B d"], states: Int8[np.ndarray, "#B M"]) -> Float[np.ndarray, " B"]:
        """The part of the node in the log posterior; a single row of parents or of states serves all of the other."""
        n = max(len(parents), len(states))
        parents, states = np.repeat(parents, n // len(parents), axis=0), np.repeat(states, n // len(states), axis=0)
        of_states = self.log_states[np.arange(states.shape[1]), states].sum(axis=1)
        size = _COSTLY_BATCH if self.evidence.costly else n
        scores = [np.zeros(0)]
        for at in range(0, n, size):
            if self.over():
                raise _TimeIsOver
            batch = slice(at, at + size)
            scores.append(self.evidence.log_evidences(np.full(n, self.node)[batch], parents[batch], states[batch]))
        return np.concatenate(scores) + parents @ self.odds + of_states

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
    residual = data.residuals_within()
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
