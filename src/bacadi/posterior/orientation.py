"""What orients an edge: the structure of the graph, a context that hits one of its ends, both, or nothing."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from bacadi.graph.equivalence import compelled

# One second, about: entries of all graphs, and edges times parents. More draws than that allows are thinned.
_MAX_WORK, _CHUNK = 2.5e7, 1e6

PerPair = Float[np.ndarray, "*pairs"]


class Orientation(NamedTuple):
    """Probabilities given that the edge i -> j is there, for ordered pairs (i, j); NaN where no draw has the edge.

    `structure` and `contexts[k]` may hold together; otherwise exactly one of the four holds in a draw.

    Attributes:
        structure: the edge is directed in the CPDAG; v-structures and Meek's rules tell it, without any context.
        contexts: context k hits exactly one of i and j and so tells the direction (Hauser and Bühlmann, 2012).
        propagated: neither of both, yet directed in the interventional CPDAG: Meek's rules spread it from there.
        undetermined: not directed in the interventional CPDAG; some graph of the same class has j -> i.
    """

    structure: PerPair
    contexts: Float[np.ndarray, "M *pairs"]
    propagated: PerPair
    undetermined: PerPair


class Draws(NamedTuple):
    """Acyclic graphs and targets with weights."""

    graphs: Int8[np.ndarray, "n d d"]
    targets: Int8[np.ndarray, "n M d"]
    weights: Float[np.ndarray, " n"]


def what_orients(draws: Draws, pairs: Int[np.ndarray, "p 2"]) -> Orientation:
    """Sum what orients the edge i -> j over the draws, for each pair (i, j); equal draws are looked at once.

    Where this would take more than about a second (1,000 distinct draws of d = 100 do not), every so many units of
    weight one draw is taken.

    >>> chain, first = np.array([[[0, 1, 0], [0, 0, 1], [0, 0, 0]]]), np.array([[[1, 0, 0]]])
    >>> draws = Draws(chain.astype(np.int8), first.astype(np.int8), np.ones(1))
    >>> found = what_orients(draws, np.array([[0, 1], [1, 2]]))
    >>> found.contexts.tolist(), found.propagated.tolist()
    ([[1.0, 0.0]], [0.0, 1.0])
    """
    graphs, targets, weights = _affordable(distinct(draws))
    n, m, d = targets.shape
    place = np.full((d, d), -1)
    place[tuple(pairs.T)] = np.arange(len(pairs))
    parts = []
    for some in np.array_split(np.arange(n), max(1, int(n * d * (d + m) / _CHUNK))):
        dags, hit = graphs[some] != 0, targets[some].swapaxes(1, 2) != 0
        at = graph, i, j = np.nonzero(dags)
        split = hit[graph, i] ^ hit[graph, j]
        told = split.any(axis=1)
        structure, either = (_compelled(dags, at, shown) for shown in (np.zeros_like(told), told))
        holds = np.column_stack([np.ones_like(told), structure, either & ~structure & ~told, ~either, split])
        asked = place[i, j] >= 0
        parts.append((place[i, j][asked], weights[some][graph][asked], holds[asked]))
    pair, share, holds = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    sums = np.stack([np.bincount(pair[column], weights=share[column], minlength=len(pairs)) for column in holds.T])
    with np.errstate(invalid="ignore"):
        # Rounded as the marginals of a posterior are.
        given = np.clip((sums[1:] / sums[0]).round(12), 0.0, 1.0)
    return Orientation(given[0], given[3:], given[1], given[2])


def _compelled(
    dags: Bool[np.ndarray, "n d d"], at: tuple[np.ndarray, ...], shown: Bool[np.ndarray, " e"]
) -> Bool[np.ndarray, " e"]:
    pairs = np.zeros_like(dags)
    pairs[at] = shown
    return compelled(dags, pairs)[at]


def distinct(draws: Draws) -> Draws:
    """Each draw that differs from those before and has weight, with the weight of its equals.

    >>> empty, one = np.zeros((2, 2), np.int8), np.array([[0, 1], [0, 0]], np.int8)
    >>> merged = distinct(Draws(np.stack([one, empty, one]), np.zeros((3, 0, 2), np.int8), np.array([0.5, 0.2, 0.3])))
    >>> merged.graphs.sum(axis=(1, 2)).tolist(), merged.weights.tolist()
    ([1, 0], [0.8, 0.2])
    """
    seen: dict[bytes, int] = {}
    used = np.flatnonzero(draws.weights > 0)
    rows = zip(*(np.packbits(array[used] != 0, axis=-1) for array in draws[:2]), strict=True)
    keys = (graph.tobytes() + targets.tobytes() for graph, targets in rows)
    group = np.array([seen.setdefault(key, len(seen)) for key in keys], dtype=np.int64)
    first = used[np.unique(group, return_index=True)[1]]
    return Draws(draws.graphs[first], draws.targets[first], np.bincount(group, weights=draws.weights[used]))


def thinned(draws: Draws, most: int) -> Draws:
    """All draws, or those at `most` evenly spaced points of the sum of weights if there are more.

    >>> three = Draws(np.zeros((3, 1, 1), np.int8), np.zeros((3, 0, 1), np.int8), np.array([0.6, 0.1, 0.3]))
    >>> thinned(three, 2).weights.tolist()
    [0.5, 0.5]
    """
    graphs, targets, weights = draws
    if len(graphs) <= most:
        return draws
    points = (np.arange(most) + 0.5) / most * weights.sum()
    chosen, times = np.unique(np.searchsorted(weights.cumsum(), points), return_counts=True)
    return Draws(graphs[chosen], targets[chosen], times / most)


def _affordable(draws: Draws) -> Draws:
    """As many draws as take about a second."""
    graphs = draws.graphs
    parents = graphs.sum(axis=1, dtype=np.int64)
    work = graphs.size + (parents.sum(axis=1) * parents.max(axis=1)).sum()
    return draws if work <= _MAX_WORK else thinned(draws, max(1, int(_MAX_WORK * len(graphs) / work)))
