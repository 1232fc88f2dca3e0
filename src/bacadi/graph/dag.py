"""Acyclicity, causal order and ancestors of adjacency arrays, where `graph[i, j] = 1` means i -> j."""

from heapq import heappop, heappush

import numpy as np
from jaxtyping import Bool, Int, Shaped


def is_acyclic(graph: Shaped[np.ndarray, "*batch d d"]) -> Bool[np.ndarray, "*batch"]:
    """Whether each graph has no directed cycle; nodes without parents are removed until none is left.

    A loop i -> i is a cycle. Nonzero entries are edges; leading axes are a batch.

    >>> chain = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    >>> bool(is_acyclic(chain)), is_acyclic(np.stack([chain, chain + chain.T])).tolist()
    (True, [True, False])
    """
    edges, alive = graph != 0, np.ones(graph.shape[:-1], dtype=bool)
    while True:
        remaining = alive & (edges & alive[..., :, None]).any(axis=-2)
        if (remaining == alive).all():
            return np.asarray(~alive.any(axis=-1))
        alive = remaining


def topological_order(graph: Shaped[np.ndarray, "d d"]) -> Int[np.ndarray, " d"]:
    """The nodes, every parent before its children; the smallest number first where several could come next.

    Raises ValueError for a cyclic graph, with one of its cycles.

    >>> topological_order(np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0]])).tolist()
    [2, 1, 0]
    """
    edges = np.asarray(graph) != 0
    waits_for = edges.sum(axis=0)
    free = np.flatnonzero(waits_for == 0).tolist()  # in ascending order, which is a heap
    order = []
    while free:
        order.append(heappop(free))
        children = np.flatnonzero(edges[order[-1]])
        waits_for[children] -= 1
        for child in children[waits_for[children] == 0].tolist():
            heappush(free, child)
    if len(order) < len(edges):
        raise ValueError(f"the graph has the cycle {find_cycle(graph)} and so no topological order")
    return np.array(order, dtype=np.int64)


def find_cycle(graph: Shaped[np.ndarray, "d d"]) -> list[int] | None:
    """The nodes of one directed cycle in order (the last points to the first), or None for an acyclic graph.

    >>> find_cycle(np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0]]))
    [1, 2]
    >>> find_cycle(np.array([[0, 1], [0, 0]])) is None
    True
    """
    edges, left = graph != 0, np.ones(len(graph), dtype=bool)
    while (free := left & ~edges[left].any(axis=0)).any():
        left &= ~free
    if not left.any():
        return None
    # Every node left has a parent that is left, so walking backwards must come back to a node already seen.
    walk = [int(np.argmax(left))]
    while walk.count(walk[-1]) == 1:
        walk.append(int(np.argmax(edges[:, walk[-1]] & left)))
    cycle = walk[walk.index(walk[-1]) + 1 :][::-1]
    start = cycle.index(min(cycle))
    return cycle[start:] + cycle[:start]


def transitive_closure(graph: Shaped[np.ndarray, "*batch d d"]) -> Bool[np.ndarray, "*batch d d"]:
    """Whether a directed path leads from i to j, for all (i, j): i is an ancestor of j (Warshall, 1962).

    A node is its own ancestor only if it is on a cycle. Leading axes are a batch.

    >>> transitive_closure(np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])).astype(int).tolist()
    [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    """
    reaches = graph != 0
    for middle in range(graph.shape[-1]):
        reaches = reaches | (reaches[..., :, middle, None] & reaches[..., None, middle, :])
    return reaches


def depths(graph: Shaped[np.ndarray, "*batch d d"]) -> Int[np.ndarray, "*batch d"]:
    """The number of edges of the longest directed path that ends in each node; leading axes are a batch.

    Every edge leads from a smaller depth to a larger one. Graphs must be acyclic.

    >>> depths(np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]])).tolist()
    [0, 1, 2]
    """
    depth = np.zeros(graph.shape[:-1], dtype=np.int64)
    *batch, source, target = np.nonzero(graph)
    for _ in range(graph.shape[-1]):
        deeper = np.zeros_like(depth)
        np.maximum.at(deeper, (*batch, target), depth[(*batch, source)] + 1)
        if (deeper == depth).all():
            break
        depth = deeper
    return depth
