"""Where chains start and which pairs they propose most: cheap guesses from the data, which no result depends on.

An intervention moves its target and what lies downstream of it, so a variable that is moved in few contexts stands
early in a causal order. Given an order, parents are chosen greedily for each node, with its states in the contexts.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from bacadi.data.context import ContextData
from bacadi.model.collapsed import AbstractEvidence, Collapsed, StructurePrior

MOVED = 4.0  # standard errors between the mean of a context and the reference that count as moved


class Structure(NamedTuple):
    """A graph and the states of all variables in all contexts."""

    graph: Int8[np.ndarray, "d d"]
    states: Int8[np.ndarray, "M d"]


def shifts(data: ContextData) -> Float[np.ndarray, "M d"]:
    """How many standard errors the mean of a variable in a context lies from that of the other rows of reference."""
    observational = data.context == 0
    reference = data.x[observational] if observational.sum() > 2 else data.x
    found = np.zeros((data.n_contexts, data.n_variables))
    for k in range(data.n_contexts):
        block = data.x[data.context == k + 1]
        if len(block):
            # A context of constant values (a knock-out) has no spread of its own; that of the reference stands in.
            error = (reference.var(axis=0) / len(reference)) + np.maximum(block.var(axis=0), 1e-2) / len(block)
            found[k] = np.abs(block.mean(axis=0) - reference.mean(axis=0)) / np.sqrt(error + 1e-300)
    return found


def causal_order(
    rng: np.random.Generator, moved: Float[np.ndarray, "M d"], prior: StructurePrior
) -> Int[np.ndarray, " d"]:
    """Variables by the number of contexts that move them, ties at random; required edges always run forwards."""
    threshold = MOVED * np.exp(rng.normal(0, 0.3))
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


def greedy(collapsed: Collapsed, order: Int[np.ndarray, " d"]) -> Structure:
    """Parents among earlier variables and states, node by node, by steps that raise the posterior most."""
    d, m = len(order), collapsed.evidence.n_contexts
    graph, states = np.zeros((d, d), np.int8), np.zeros((m, d), np.int8)
    for place, node in enumerate(order):
        allowed = np.zeros(d, bool)
        allowed[order[:place]] = True
        search = _Node(collapsed, int(node), allowed & ~collapsed.prior.forbidden[:, node])
        graph[:, node], states[:, node] = search.run()
    return _within_counts(collapsed.prior, Structure(graph, states))


def initial(rng: np.random.Generator, collapsed: Collapsed, data: ContextData, tries: int = 5) -> Structure:
    """The best of several greedy structures of randomised orders."""
    moved = shifts(data)
    found = [greedy(collapsed, causal_order(rng, moved, collapsed.prior)) for _ in range(tries)]
    return max(found, key=lambda structure: collapsed.log_posterior(*structure))


class _Node:
    """Greedy search for the parents and states of one node."""

    def __init__(self, collapsed: Collapsed, node: int, allowed: Bool[np.ndarray, " d"]) -> None:
        self.evidence: AbstractEvidence = collapsed.evidence
        self.prior, self.node, self.allowed = collapsed.prior, node, allowed
        self.parents = self.prior.required[:, node].copy()
        # The likeliest state beforehand: untouched, or a known target.
        self.state = self.prior.state_log_prior[:, node].argmax(axis=1).astype(np.int8)
        self.score = self._scores(self.parents[None], self.state[None])[0]

    def run(self) -> tuple[Bool[np.ndarray, " d"], Int8[np.ndarray, " M"]]:
        self._improve_states()
        while self._improve_parents():
            self._improve_states()
        return self.parents, self.state

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
    weight = np.log1p(shifts(data))
    even = np.full(weight.shape, 1 / max(weight.size, 1))
    if weight.sum() <= 0:
        return even
    return (1 - informed) * even + informed * weight / weight.sum()
