"""SID and rankings for methods that answer with an equivalence class: a CPDAG, an interventional CPDAG.

An edge is directed where `graph[i, j] = 1` and `graph[j, i] = 0` (i -> j) and undirected where both are 1 (i - j).
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, Int8, Shaped

from bacadi.errors import DataError
from bacadi.graph.equivalence import chain_components, consistent_union, i_cpdag, orientations_by_source, skeleton
from bacadi.metrics.structure import (
    Graph,
    Graphs,
    Weights,
    refuse_cycles,
    sid_of_dags,
    structural_hamming_distance,
    weighted_mean,
)

MAX_SUBPROBLEMS = 2000

PDAG = Int8[np.ndarray, "d d"]
Nodes = Int[np.ndarray, " n"]
Cost = Callable[[int, frozenset[int]], int]


class SIDBounds(NamedTuple):
    """Smallest and largest SID of the DAGs of a class; where `exact` is false the true ones lie between them."""

    lower: float
    upper: float
    exact: bool

    @property
    def midpoint(self) -> float:
        """(lower + upper) / 2, the paper's single number for a class."""
        return (self.lower + self.upper) / 2


class _TooLarge(Exception):
    """A chain component has more parts than are worth visiting."""


def sid_bounds(pdag: Graph, truth: Graph, max_subproblems: int = MAX_SUBPROBLEMS) -> SIDBounds:
    """Bound SID(G, truth) over the DAGs G that a partially directed graph represents.

    SID(G, H) = Σ_i c_i(parents of i in G), so the bounds add over the chain components. Inside one, the source is
    chosen in every way and what remains undirected is solved the same way, each part once. A component with more than
    `max_subproblems` parts (a clique of 11 nodes) gets the sums of each node's own smallest and largest cost over the
    parent sets that make no new v-structure, which the true bounds lie between.

    >>> undirected = np.array([[0, 1], [1, 0]])
    >>> sid_bounds(undirected, np.array([[0, 1], [0, 0]]))
    SIDBounds(lower=0, upper=2, exact=True)
    """
    refuse_cycles(truth[None][:0], truth)
    return _sid_bounds(pdag, truth, _costs(truth), max_subproblems)


def expected_sid_bounds(pdags: Graphs, weights: Weights, truth: Graph) -> SIDBounds:
    """The weighted means of the lower and of the upper bound over several classes; the paper's E-SID is the midpoint.

    >>> undirected, truth = np.array([[0, 1], [1, 0]]), np.array([[0, 1], [0, 0]])
    >>> expected_sid_bounds(np.stack([undirected, truth]), np.array([0.5, 0.5]), truth).midpoint
    0.5
    """
    refuse_cycles(pdags[:0], truth)
    cost = _costs(truth)

    def bounds(pdag: np.ndarray, truth: np.ndarray) -> tuple[float, ...]:
        lower, upper, exact = _sid_bounds(pdag, truth, cost, MAX_SUBPROBLEMS)
        return lower, upper, not exact

    lower, upper, inexact = weighted_mean(bounds, pdags, weights, truth)
    return SIDBounds(float(lower), float(upper), not inexact)


def favour_undirected(pdags: Shaped[np.ndarray, "*batch d d"], truth: Graph) -> Int8[np.ndarray, "*batch d d"]:
    """The graphs with undirected edges read in the method's favour, as the paper does for AUPRC.

    An undirected edge takes the direction of the true edge where there is one; elsewhere it counts as one wrong edge
    and not two (from the smaller to the larger number).

    >>> undirected = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> favour_undirected(undirected, np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0]])).tolist()
    [[0, 0, 0], [1, 0, 1], [0, 0, 0]]
    """
    edges = pdags != 0
    undirected = edges & np.swapaxes(edges, -1, -2)
    chosen = np.where(skeleton(truth), truth != 0, np.triu(np.ones(truth.shape, dtype=bool), k=1))
    return np.asarray(np.where(undirected, chosen, edges), dtype=np.int8)


class ClassDistances(NamedTuple):
    """SHD to the true class: the mean over draws, and that of the edges that most draws agree on."""

    expected: float
    consensus: float


def class_distances(
    graphs: Graphs, weights: Weights, truth: Graph, targets: Shaped[np.ndarray, "m d"], are_classes: bool = False
) -> ClassDistances:
    """SHD between interventional CPDAGs, which forgives directions that the true targets do not tell.

    DAGs are compared by their classes under `targets`, unless they `are_classes` already. The consensus has the entries
    (i - j has two) of more than half the weight, and need not be a class itself.

    >>> chain, targets = np.array([[0, 1], [0, 0]], dtype=np.int8), np.zeros((0, 2), dtype=np.int8)
    >>> class_distances(np.stack([chain, chain.T]), np.array([0.5, 0.5]), chain, targets)
    ClassDistances(expected=0.0, consensus=0.0)
    """
    of_truth = i_cpdag(truth, targets)
    total, mean = 0.0, np.zeros(truth.shape)
    # Draws repeat graphs, and the class of a graph costs far more than a comparison.
    flat, inverse = np.unique((graphs != 0).reshape(len(graphs), -1), axis=0, return_inverse=True)
    mass = np.bincount(inverse.ravel(), weights=weights) / weights.sum()
    for share, graph in zip(mass.tolist(), flat.reshape(-1, *truth.shape).astype(np.int8), strict=True):
        own = graph if are_classes else i_cpdag(graph, targets)
        total += share * structural_hamming_distance(own, of_truth)
        mean += share * own
    return ClassDistances(total, float(structural_hamming_distance(mean > 0.5, of_truth)))


def _costs(truth: Graph) -> Cost:
    """c_i(parents) - c_i(no parents): wrong effects of node i. Only node i has parents in the graph that is scored."""
    empty = np.zeros_like(truth)
    base = sid_of_dags(empty, truth)

    @cache
    def cost(node: int, parents: frozenset[int]) -> int:
        star = empty.copy()
        star[list(parents), node] = 1
        return sid_of_dags(star, truth) - base

    return cost


def _sid_bounds(pdag: Graph, truth: Graph, cost: Cost, max_subproblems: int) -> SIDBounds:
    try:
        closed = consistent_union(pdag)
    except ValueError as error:
        raise DataError(
            "A predicted graph stands for no DAG (its directions force a cycle or a new v-structure), so SID is not "
            "defined; give a CPDAG or an interventional CPDAG."
        ) from error
    components = [nodes for nodes in chain_components(closed) if len(nodes) > 1]
    decided, exact = closed.copy(), True
    for nodes in components:
        decided[:, nodes] = 0
    total = np.full(2, sid_of_dags(decided, truth))
    for nodes in components:
        try:
            total += _search(cost, max_subproblems)(closed, nodes)
        except _TooLarge:
            exact = False
            total += _node_by_node(closed, nodes, cost, max_subproblems)
    lower, upper = np.clip(total, 0, truth.size - len(truth)).tolist()
    return SIDBounds(lower, upper, exact)


def _search(cost: Cost, max_subproblems: int) -> Callable[[PDAG, Nodes], tuple[int, int]]:
    """Smallest and largest cost of a chain component by choosing its source; equal parts are solved once."""
    solved: dict[bytes, tuple[int, int]] = {}

    def solve(graph: PDAG, nodes: Nodes) -> tuple[int, int]:
        if len(nodes) == 1:
            return (cost(int(nodes[0]), _members(graph[:, nodes[0]])),) * 2
        # All that the answer depends on: the edges into these nodes, those from outside included.
        key = nodes.tobytes() + graph[:, nodes].tobytes()
        if key not in solved:
            if len(solved) >= max_subproblems:
                raise _TooLarge
            solved[key] = (0, 0)  # holds the place, so that open parts count
            choices = [parts(choice, nodes) for _, choice in orientations_by_source(graph, nodes)]
            solved[key] = min(low for low, _ in choices), max(high for _, high in choices)
        return solved[key]

    def parts(graph: PDAG, nodes: Nodes) -> tuple[int, int]:
        bounds = [solve(graph, nodes[part]) for part in chain_components(graph[np.ix_(nodes, nodes)])]
        return sum(low for low, _ in bounds), sum(high for _, high in bounds)

    return solve


def _node_by_node(graph: PDAG, nodes: Nodes, cost: Cost, max_subproblems: int) -> tuple[int, int]:
    """Sums of each node's own smallest and largest cost; a node with too many parent sets may have any cost."""
    any_cost = (1 - len(graph), len(graph) - 1)
    low = high = 0
    for node in nodes.tolist():
        sets = list(islice(_parent_sets(graph, node), max_subproblems + 1))
        costs = any_cost if len(sets) > max_subproblems else tuple(cost(node, parents) for parents in sets)
        low, high = low + min(costs), high + max(costs)
    return low, high


def _parent_sets(graph: PDAG, node: int) -> Iterator[frozenset[int]]:
    """Directed parents with every clique of undirected neighbours that are joined to each other and to the parents."""
    joined = skeleton(graph)
    parents = (graph[:, node] != 0) & (graph[node] == 0)
    free = (graph[:, node] != 0) & (graph[node] != 0) & joined[parents].all(axis=0)
    stack = [(_members(parents), np.flatnonzero(free).tolist())]
    while stack:
        chosen, candidates = stack.pop()
        yield chosen
        for position, new in enumerate(candidates):
            rest = [other for other in candidates[position + 1 :] if joined[new, other]]
            stack.append((chosen | {new}, rest))


def _members(column: Shaped[np.ndarray, " d"]) -> frozenset[int]:
    return frozenset(np.flatnonzero(column).tolist())
