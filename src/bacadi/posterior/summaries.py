"""Summaries of weighted draws as functions of arrays: distinct graphs, consensus graph, moments and quantiles."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int8, Shaped

from bacadi.errors import ConfigError
from bacadi.graph.dag import transitive_closure

# Sums of the same weights in another order differ in the last bits; what agrees to this many digits is a tie.
_TIE_DIGITS = 12
_BLOCK_BYTES = 2**24  # of graphs whose ancestors are found at once

Matrix = Float[np.ndarray, "d d"]
PerDraw = Float[np.ndarray, "n *dims"]


class DistinctGraphs(NamedTuple):
    """Graphs that differ from each other, the most probable first."""

    graphs: Int8[np.ndarray, "n d d"]
    probability: Float[np.ndarray, " n"]
    draws: Int[np.ndarray, " n"]


def distinct_graphs(graphs: Int8[np.ndarray, "n d d"], weights: Float[np.ndarray, " n"]) -> DistinctGraphs:
    """Merge equal graphs: p(G) = sum_l w_l [G_l = G] and the number of draws of each graph with p(G) > 0.

    Ties are broken by the number of edges (fewer first), then by the adjacency matrix read row by row.

    >>> edge, empty = np.array([[0, 1], [0, 0]]), np.zeros((2, 2), dtype=int)
    >>> merged = distinct_graphs(np.stack([edge, empty, edge]).astype(np.int8), np.array([0.5, 0.25, 0.25]))
    >>> merged.probability.tolist(), merged.draws.tolist()
    ([0.75, 0.25], [2, 1])
    """
    graphs, weights, d = graphs[weights > 0], weights[weights > 0], graphs.shape[-1]
    rows = graphs.reshape(len(graphs), d * d)
    packed, inverse, counts = np.unique(np.packbits(rows, axis=1), axis=0, return_inverse=True, return_counts=True)
    total = np.bincount(inverse.ravel(), weights=weights, minlength=len(packed))
    unpacked = np.unpackbits(packed, axis=1, count=d * d).astype(np.int8).reshape(-1, d, d)
    # np.unique sorts by the bytes, so the position is the third key.
    order = np.lexsort((np.arange(len(packed)), unpacked.sum(axis=(1, 2)), -total.round(_TIE_DIGITS)))
    return DistinctGraphs(unpacked[order], total[order], counts[order])


def ancestor_probabilities(
    graphs: Shaped[np.ndarray, "n d d"], weights: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "d d"]:
    """p(i is an ancestor of j) = Σ_n w_n [i ⇝ j in G_n] / Σ_n w_n.

    >>> chain = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    >>> ancestor_probabilities(np.stack([chain, 0 * chain]), np.array([0.5, 0.5])).tolist()
    [[0.0, 0.5, 0.5], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]]
    """
    total = np.zeros(graphs.shape[1:])
    for block in blocks(*graphs.shape[:2]):
        total += np.einsum("n,nij->ij", weights[block], transitive_closure(graphs[block]))
    return total / weights.sum()


def blocks(n_draws: int, n_variables: int) -> Iterator[slice]:
    """Slices of draws whose graphs fit into 16 MB.

    >>> list(blocks(3, 4096))
    [slice(0, 1, None), slice(1, 2, None), slice(2, 3, None)]
    """
    size = max(_BLOCK_BYTES // max(n_variables, 1) ** 2, 1)
    return (slice(start, min(start + size, n_draws)) for start in range(0, n_draws, size))


def consensus(probability: Matrix, threshold: float, names: tuple[str, ...]) -> Int8[np.ndarray, "d d"]:
    """Choose a directed acyclic graph with a large sum of (p_ij - threshold) over its edges.

    Greedy: go through the edges with p_ij > threshold from the most probable to the least (ties by name) and keep
    an edge unless it closes a directed cycle with those kept before.

    What holds: the graph is acyclic; each edge has p_ij > threshold; every edge left out although p_ij > threshold
    closes a cycle of edges at least as probable as itself. If {p_ij > threshold} is acyclic the result is that graph
    and the sum is the largest possible. It always is for threshold >= 1 - 1/d when p comes from acyclic draws (a
    cycle of L edges has at most L - 1 of them in any draw). Otherwise the sum need not be the largest: that problem
    (maximum acyclic subgraph) is NP-hard.

    >>> consensus(np.array([[0, 0.9, 0], [0, 0, 0.8], [0.7, 0, 0]]), 0.5, ("a", "b", "c")).tolist()
    [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    """
    check_threshold(threshold)
    d = len(probability)
    candidates = [(i, j) for i, j in np.argwhere(probability > threshold).tolist() if i != j]
    candidates.sort(key=lambda edge: (-round(float(probability[edge]), _TIE_DIGITS), names[edge[0]], names[edge[1]]))
    graph, reaches = np.zeros((d, d), dtype=np.int8), np.eye(d, dtype=bool)
    for i, j in candidates:
        if not reaches[j, i]:
            graph[i, j] = 1
            reaches |= np.outer(reaches[:, i], reaches[j])
    return graph


def check_threshold(threshold: float) -> None:
    """Refuse a threshold that is not a probability."""
    if not 0 <= threshold <= 1:
        raise ConfigError(f"The threshold is {threshold}, but edges are compared by probability; give 0 to 1.")


def edge_text(graph: Int8[np.ndarray, "d d"], names: tuple[str, ...]) -> str:
    """Write the edges of one graph as text.

    >>> edge_text(np.array([[0, 1], [0, 0]]), ("rain", "wet"))
    'rain -> wet'
    """
    return ", ".join(f"{names[i]} -> {names[j]}" for i, j in np.argwhere(graph))


def summarise(values: PerDraw, weight: PerDraw) -> dict[str, Float[np.ndarray, "*dims"]]:
    """Moments and quantiles of each entry of an array over n draws, with one weight per draw *and* entry.

    With v_l = w_l / sum_l w_l: `probability` is sum_l w_l, `mean` is sum_l v_l x_l, `sd` is the root of
    sum_l v_l (x_l - mean)^2, and `q05`, `q95` are the smallest values up to which v adds to 5 % and 95 %. Values of
    weight 0 are never read (they may be NaN); an entry whose weights are all 0 has the probability 0 and NaN otherwise.

    >>> found = summarise(np.array([1.0, 3.0, np.nan]), np.array([0.3, 0.1, 0.0]))
    >>> float(found["mean"].round(9)), float(found["q95"])
    (1.5, 3.0)
    """
    used = weight > 0
    values = np.where(used, values, 0.0).astype(np.float64)
    total = weight.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = weight / total
    mean = (weight * values).sum(axis=0)
    sd = np.sqrt((weight * (values - mean) ** 2).sum(axis=0))
    order = np.argsort(np.where(used, values, np.inf), axis=0, kind="stable")
    ordered = np.take_along_axis(values, order, axis=0)
    reached = np.cumsum(np.take_along_axis(weight, order, axis=0), axis=0)

    def quantile(level: float) -> np.ndarray:
        # A hair below the level, so that rounding of the running sum does not skip a value that reaches it.
        first = np.argmax(reached >= level - 1e-12, axis=0)
        return np.where(total > 0, np.take_along_axis(ordered, first[None], axis=0)[0], np.nan)

    probability = np.clip(total, 0.0, 1.0)
    return {"probability": probability, "mean": mean, "sd": sd, "q05": quantile(0.05), "q95": quantile(0.95)}


def weighted_sum(terms: Iterable[tuple[float, Any]]) -> Any:
    """Compute sum_i w_i t_i, where a term is a number, an array, or a dict, list or tuple of such.

    >>> weighted_sum([(0.25, {"a": 4.0}), (0.75, {"a": 0.0})])
    {'a': 1.0}
    """
    total = None
    for weight, term in terms:
        scaled = _map(partial(np.multiply, weight), term)
        total = scaled if total is None else _map(np.add, total, scaled)
    return _map(lambda leaf: leaf.item() if np.ndim(leaf) == 0 else leaf, total)


def _map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Apply a function to the leaves of nested dicts, lists and tuples of one structure."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: _map(function, tree[key], *(other[key] for other in others)) for key in tree}
    if isinstance(tree, list | tuple):
        items = [_map(function, *parts) for parts in zip(tree, *others, strict=True)]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    return function(tree, *others)
