"""Statements about graphs: the distinct ones among weighted draws, and an acyclic consensus of edge probabilities."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int8

from bacadi.errors import ConfigError

# Sums of the same weights in another order differ in the last bits; what agrees to this many digits is a tie.
_TIE_DIGITS = 12


class DistinctGraphs(NamedTuple):
    """Graphs that differ from each other, the most probable first."""

    graphs: Int8[np.ndarray, "n d d"]
    probability: Float[np.ndarray, " n"]
    draws: Int[np.ndarray, " n"]


def distinct_graphs(graphs: Int8[np.ndarray, "n d d"], weights: Float[np.ndarray, " n"]) -> DistinctGraphs:
    """The distinct graphs of positive weight with their total weight and number of draws.

    Ties are broken by the number of edges (fewer first), then by the adjacency matrix read row by row.
    """
    kept = weights > 0
    graphs, weights = graphs[kept], weights[kept]
    d = graphs.shape[-1]
    rows = graphs.reshape(len(graphs), d * d)
    packed, inverse, counts = np.unique(np.packbits(rows, axis=1), axis=0, return_inverse=True, return_counts=True)
    total = np.bincount(inverse.ravel(), weights=weights, minlength=len(packed))
    unpacked = np.unpackbits(packed, axis=1, count=d * d).astype(np.int8).reshape(-1, d, d)
    # np.unique sorts by the bytes, so the position is the third key.
    order = np.lexsort((np.arange(len(packed)), unpacked.sum(axis=(1, 2)), -total.round(_TIE_DIGITS)))
    return DistinctGraphs(unpacked[order], total[order], counts[order])


def consensus(
    probability: Float[np.ndarray, "d d"], threshold: float = 0.5, names: tuple[str, ...] | None = None
) -> Int8[np.ndarray, "d d"]:
    """A directed acyclic graph with a large sum of (p_ij - threshold) over its edges.

    Greedy: go through the edges with p_ij > threshold from the most probable to the least (ties by name) and keep
    an edge unless it closes a directed cycle with those kept before.

    What holds: the graph is acyclic; each edge has p_ij > threshold; every edge left out although p_ij > threshold
    closes a cycle of edges at least as probable as itself. If {p_ij > threshold} is acyclic the result is that graph
    and the sum is the largest possible. It always is for threshold >= 1 - 1/d when p comes from acyclic draws (a
    cycle of L edges has at most L - 1 of them in any draw). Otherwise the sum need not be the largest: that problem
    (maximum acyclic subgraph) is NP-hard.

    >>> consensus(np.array([[0, 0.9, 0], [0, 0, 0.8], [0.7, 0, 0]])).tolist()
    [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    """
    check_threshold(threshold)
    d = len(probability)
    label = names if names is not None else tuple(range(d))
    candidates = [(i, j) for i, j in np.argwhere(probability > threshold).tolist() if i != j]
    candidates.sort(key=lambda edge: (-round(float(probability[edge]), _TIE_DIGITS), label[edge[0]], label[edge[1]]))
    graph = np.zeros((d, d), dtype=np.int8)
    reaches = np.eye(d, dtype=bool)
    for i, j in candidates:
        if not reaches[j, i]:
            graph[i, j] = 1
            reaches |= np.outer(reaches[:, i], reaches[j])
    return graph


def check_threshold(threshold: float) -> None:
    """Refuse a threshold that is no probability."""
    if not 0 <= threshold <= 1:
        raise ConfigError(f"The threshold is {threshold}, but edges are compared by probability; give 0 to 1.")
