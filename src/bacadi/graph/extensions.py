"""All DAGs that a partially directed graph stands for, and the parts of it that can be directed one by one.

Edges are directed where `graph[i, j] = 1` and `graph[j, i] = 0` (i -> j) and undirected where both are 1 (i - j).

Why the parts are free of each other: close the graph under Meek's rules and take nodes B that undirected edges join.
If x outside points to one node of B, rule 1 joins x to that node's neighbours in B, and rule 2 leaves x -> as the only
direction; so x points to all of B. Hence no choice inside B makes a v-structure with x, and a cycle through several
parts would be one of edges already directed. Inside B no member of the class has a v-structure, so each has exactly
one source in B: taking every node that can be it as the root visits each member once.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Int, Int8, Shaped

from bacadi.graph.markov import consistent_extension, meek_closure


def chain_components(pdag: Shaped[np.ndarray, "d d"]) -> list[Int[np.ndarray, " _"]]:
    """The sets of nodes that paths of undirected edges join, by their smallest node; a node may stand alone.

    >>> [nodes.tolist() for nodes in chain_components(np.array([[0, 0, 1], [0, 0, 1], [1, 0, 0]]))]
    [[0, 2], [1]]
    """
    undirected = (pdag != 0) & (pdag != 0).T
    left = np.ones(len(undirected), dtype=bool)
    components = []
    while left.any():
        found = np.arange(len(left)) == np.argmax(left)
        while (grown := found | undirected[found].any(axis=0)).sum() > found.sum():
            found = grown
        components.append(np.flatnonzero(found))
        left &= ~found
    return components


def rooted(
    pdag: Shaped[np.ndarray, "d d"], nodes: Int[np.ndarray, " n"]
) -> Iterator[tuple[int, Int8[np.ndarray, "d d"]]]:
    """Every possible source of a chain component of a graph closed under Meek's rules, with what its choice directs.

    >>> [(root, graph.tolist()) for root, graph in rooted(np.array([[0, 1], [1, 0]]), np.array([0, 1]))]
    [(0, [[0, 1], [0, 0]]), (1, [[0, 0], [1, 0]])]
    """
    block = np.ix_(nodes, nodes)
    inside = pdag[block] != 0
    for position in np.flatnonzero(~(inside & ~inside.T).any(axis=0)).tolist():
        graph = (pdag != 0).astype(np.int8)
        graph[block] = _directed_from(inside, position)
        yield int(nodes[position]), graph


def _directed_from(component: Bool[np.ndarray, "n n"], root: int) -> Int8[np.ndarray, "n n"]:
    """All edges of the root leave it, closed under Meek's rules; rule 1 is followed edge by edge, which is faster."""
    edges = component.copy()
    edges[:, root] = False
    if component.sum() == component.size - len(component):
        return edges.astype(np.int8)  # in a complete undirected component nothing follows
    joined = component | component.T
    arrows = [(root, int(child)) for child in np.flatnonzero(edges[root])]
    while arrows:
        a, b = arrows.pop()
        children = np.flatnonzero(edges[b] & edges[:, b] & ~joined[a])
        edges[children, b] = False
        arrows += [(b, int(c)) for c in children]
    return meek_closure(edges)


def consistent_extensions(pdag: Shaped[np.ndarray, "d d"]) -> Iterator[Int8[np.ndarray, "d d"]]:
    """Every DAG with the skeleton, the v-structures and the directed edges of a partially directed graph, once each.

    Of a CPDAG these are the members of the Markov class, of an interventional CPDAG those of its class. Their number
    may be exponential in the number of nodes. Raises ValueError if there is none.

    >>> [dag.tolist() for dag in consistent_extensions(np.array([[0, 1], [1, 0]]))]
    [[[0, 1], [0, 0]], [[0, 0], [1, 0]]]
    """
    closed = consistent_union(pdag)
    yield from _all_parts(closed, chain_components(closed))


def consistent_union(pdag: Shaped[np.ndarray, "d d"]) -> Int8[np.ndarray, "d d"]:
    """The graph closed under Meek's rules: an edge is directed iff all consistent extensions agree on it.

    Raises ValueError if there is no extension.

    >>> consistent_union(np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0]])).tolist()
    [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    """
    consistent_extension(pdag, np.random.default_rng(0))
    return meek_closure(pdag)


def _orientations(pdag: Int8[np.ndarray, "d d"], nodes: Int[np.ndarray, " n"]) -> Iterator[Int8[np.ndarray, "d d"]]:
    """The graph with the chain component `nodes` directed in every way; the rest stays as it is."""
    if len(nodes) == 1:
        yield pdag
        return
    for _, graph in rooted(pdag, nodes):
        block = np.ix_(nodes, nodes)
        parts = [nodes[part] for part in chain_components(graph[block])]
        yield from _all_parts(graph, parts)


def _all_parts(pdag: Int8[np.ndarray, "d d"], parts: list[Int[np.ndarray, " _"]]) -> Iterator[Int8[np.ndarray, "d d"]]:
    if not parts:
        yield pdag
        return
    for graph in _orientations(pdag, parts[0]):
        yield from _all_parts(graph, parts[1:])


def transitive_closure(graph: Shaped[np.ndarray, "*batch d d"]) -> Bool[np.ndarray, "*batch d d"]:
    """Which nodes a directed path leads from and to: entry (i, j) is true where i is an ancestor of j.

    >>> transitive_closure(np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])).astype(int).tolist()
    [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    """
    reaches = graph != 0
    for middle in range(graph.shape[-1]):
        reaches = reaches | (reaches[..., :, middle, None] & reaches[..., None, middle, :])
    return reaches
