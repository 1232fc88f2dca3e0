"""Equivalence classes of DAGs: skeleton, v-structures, (interventional) CPDAG, and how the members of a class differ.

Edges are directed where `graph[i, j] = 1` and `graph[j, i] = 0` (i -> j) and undirected where both are 1 (i - j).

A partially directed graph represents the DAGs with its skeleton, its v-structures and its directed edges, its
consistent extensions. They are visited chain component by chain component, for the components are independent: close
the graph under Meek's rules and take nodes B that undirected edges join. If x outside points to one node of B, rule 1
joins x to that node's neighbours in B, and rule 2 leaves x -> as the only direction; so x points to all of B. Hence no
choice inside B makes a v-structure with x, and a cycle through several components would consist of edges that are
directed already. Inside B no member of the class has a v-structure, so each has exactly one source in B: taking every
possible source in turn visits each member once.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Int, Int8, Shaped


def skeleton(graph: Shaped[np.ndarray, "d d"]) -> Bool[np.ndarray, "d d"]:
    """Which pairs of nodes are joined, whatever the direction; symmetric.

    >>> skeleton(np.array([[0, 1], [0, 0]])).tolist()
    [[False, True], [True, False]]
    """
    edges = graph != 0
    return edges | edges.T


def v_structures(graph: Shaped[np.ndarray, "d d"]) -> Int[np.ndarray, "n 3"]:
    """The triples (i, j, k), i < k, with i -> j <- k and no edge between i and k, in lexicographic order.

    >>> v_structures(np.array([[0, 1, 0], [0, 0, 0], [0, 1, 0]])).tolist()
    [[0, 1, 2]]
    """
    directed, apart = _directed(graph != 0), ~skeleton(graph)
    triples = directed[:, :, None] & directed.T[None, :, :] & apart[:, None, :]
    triples &= np.triu(np.ones_like(apart), k=1)[:, None, :]
    return np.argwhere(triples)


def cpdag(dag: Shaped[np.ndarray, "d d"]) -> Int8[np.ndarray, "d d"]:
    """The completed partially directed graph of a DAG's Markov class: an edge is directed iff all members agree on it.

    >>> chain = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    >>> cpdag(chain).tolist()
    [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    """
    edges = dag != 0
    return _completed(edges, np.zeros_like(edges))


def i_cpdag(dag: Shaped[np.ndarray, "d d"], targets: Shaped[np.ndarray, "m d"]) -> Int8[np.ndarray, "d d"]:
    """The interventional CPDAG of a DAG under hard interventions on `targets[k]`, besides observational data.

    An edge between a target and a non-target of one context shows its direction (Hauser and Bühlmann, 2012); Meek's
    rules spread the directions.

    >>> chain = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    >>> i_cpdag(chain, np.array([[1, 0, 0]])).tolist()
    [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    """
    hit = targets != 0
    return _completed(dag != 0, (hit[:, :, None] ^ hit[:, None, :]).any(axis=0))


def compelled(dags: Bool[np.ndarray, "n d d"], shown: Bool[np.ndarray, "n d d"]) -> Bool[np.ndarray, "n d d"]:
    """Which edges of each DAG are directed in its class, where contexts show the direction of the pairs in `shown`.

    The edges of all DAGs are looked at together, each with the parents of its ends only. Meek's fourth rule is left
    out: it matters for directions known otherwise, not for those of v-structures and targets (the tests compare).

    >>> collider = np.array([[[0, 1, 0], [0, 0, 0], [0, 1, 0]]]) != 0
    >>> bool((compelled(collider, np.zeros_like(collider)) == collider).all())
    True
    """
    d, (graph, a, b) = dags.shape[-1], np.nonzero(dags)
    parents, joined = _padded_parents(dags.shape, graph, a, b), np.zeros_like(dags)
    joined[graph, a, b] = joined[graph, b, a] = joined[:, np.arange(d), np.arange(d)] = True

    def at(array: Bool[np.ndarray, "n d d"], rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """The entries of each edge's own graph; extra axes of rows and columns are candidates."""
        own = (graph * d).reshape(-1, *[1] * (max(rows.ndim, columns.ndim) - 1))
        return np.take(array, (own + rows) * d + columns)

    # v-structures a -> b <- c.
    known = at(shown, a, b) | (~at(joined, parents[graph, b], a[:, None])).any(axis=1)
    directed = np.zeros_like(dags)
    while known.any():
        directed[graph[known], a[known], b[known]] = True
        graph, a, b = graph[~known], a[~known], b[~known]
        of_a, of_b, a_, b_ = parents[graph, a], parents[graph, b], a[:, None], b[:, None]
        into_b = at(directed, of_b, b_)
        # Rule 1, no new v-structure: c -> a - b with c and b apart. Rule 2, no cycle: a -> c -> b.
        known = (at(directed, of_a, a_) & ~at(joined, of_a, b_)).any(axis=1)
        known |= (into_b & at(directed, a_, of_b)).any(axis=1)
        # Rule 3: c -> b <- e with c and e apart, both joined to a by undirected edges.
        middle = into_b & at(joined, of_b, a_) & ~at(directed, of_b, a_) & ~at(directed, a_, of_b)
        several = np.flatnonzero(~known & (middle.sum(axis=1) > 1))
        c, own = of_b[several], graph[several, None, None]
        apart = ~joined[own, c[:, :, None], c[:, None, :]]
        known[several] = (apart & middle[several, :, None] & middle[several, None, :]).any(axis=(1, 2))
    return directed


def _padded_parents(
    shape: tuple[int, ...], graph: Int[np.ndarray, " e"], parent: Int[np.ndarray, " e"], child: Int[np.ndarray, " e"]
) -> Int[np.ndarray, "n d p"]:
    """The parents of each node of each graph, filled up with the node itself to the largest number of parents."""
    n, d, _ = shape
    node = graph * d + child
    counts, order = np.bincount(node, minlength=n * d), np.argsort(node, kind="stable")
    padded = np.tile(np.arange(d)[:, None], (n, counts.max(initial=1)))
    position = np.arange(len(node)) - np.repeat(counts.cumsum() - counts, counts)
    padded[node[order], position] = parent[order]
    return padded.reshape(n, d, padded.shape[1])


def meek_closure(pdag: Shaped[np.ndarray, "d d"]) -> Int8[np.ndarray, "d d"]:
    """The graph with every direction that Meek's four rules imply (Meek, 1995).

    >>> meek_closure(np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0]])).tolist()
    [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    """
    edges = pdag != 0
    while True:
        implied = _implied_directions(edges)
        # Only a graph without any consistent extension implies both directions of an edge; that edge stays undirected.
        implied &= ~implied.T
        if not implied.any():
            return edges.astype(np.int8)
        edges &= ~implied.T


def consistent_extension(pdag: Shaped[np.ndarray, "d d"], rng: np.random.Generator) -> Int8[np.ndarray, "d d"]:
    """A random DAG with the skeleton, the v-structures and the directed edges of a partially directed graph.

    Dor and Tarsi (1992): a sink whose undirected neighbours are joined to all its neighbours is taken off, its edges
    pointing to it; where several qualify one is drawn, so every extension is reached, not all equally often.
    Raises ValueError if there is no extension.

    >>> consistent_extension(np.array([[0, 1], [0, 0]]), np.random.default_rng(0)).tolist()
    [[0, 1], [0, 0]]
    """
    edges, left = pdag != 0, np.ones(len(pdag), dtype=bool)
    dag = _directed(edges)
    for _ in range(len(edges)):
        sinks = [node for node in np.flatnonzero(left).tolist() if _is_free_sink(edges, left, node)]
        if not sinks:
            raise ValueError("the partially directed graph has no consistent extension to a DAG")
        sink = int(rng.choice(sinks))
        dag[:, sink] |= edges[:, sink] & left
        left[sink] = False
    return dag.astype(np.int8)


def _directed(edges: Bool[np.ndarray, "d d"]) -> Bool[np.ndarray, "d d"]:
    return edges & ~edges.T


def _completed(dag: Bool[np.ndarray, "d d"], shown: Bool[np.ndarray, "d d"]) -> Int8[np.ndarray, "d d"]:
    """Forget the directions of a DAG except those that its class has."""
    return (skeleton(dag) & ~compelled(dag[None], shown[None])[0].T).astype(np.int8)


def _implied_directions(edges: Bool[np.ndarray, "d d"]) -> Bool[np.ndarray, "d d"]:
    """Entry (a, b) is true where a - b is undirected and one of Meek's rules makes it a -> b."""
    directed, undirected, apart = _directed(edges), edges & edges.T, ~skeleton(edges)
    np.fill_diagonal(apart, False)
    # Rule 1, no new v-structure: c -> a - b with c and b apart. Rule 2, no cycle: a -> c -> b.
    implied = undirected & ((directed.T @ apart) | (directed @ directed))
    for a, b in np.argwhere(undirected & ~implied):
        # Rule 3: c -> b <- e with c and e apart, both joined to a by undirected edges.
        parents = undirected[a] & directed[:, b]
        by_parents = apart[np.ix_(parents, parents)].any()
        # Rule 4: e -> c -> b with e and b apart, a - e undirected and a joined to c.
        starts, middles = undirected[a] & apart[:, b], ~apart[a] & directed[:, b]
        middles[a] = False
        implied[a, b] = by_parents or directed[np.ix_(starts, middles)].any()
    return implied


def _is_free_sink(edges: Bool[np.ndarray, "d d"], left: Bool[np.ndarray, " d"], node: int) -> bool:
    outgoing, incoming = edges[node] & left, edges[:, node] & left
    if (outgoing & ~incoming).any():
        return False
    joined = skeleton(edges) | np.eye(len(edges), dtype=bool)
    return bool(joined[np.ix_(outgoing, incoming)].all())


def chain_components(pdag: Shaped[np.ndarray, "d d"]) -> list[Int[np.ndarray, " _"]]:
    """The sets of nodes that paths of undirected edges join, by their smallest node; a single node is one too.

    >>> [nodes.tolist() for nodes in chain_components(np.array([[0, 0, 1], [0, 0, 1], [1, 0, 0]]))]
    [[0, 2], [1]]
    """
    undirected, left = (pdag != 0) & (pdag != 0).T, np.ones(len(pdag), dtype=bool)
    components = []
    while left.any():
        component = np.arange(len(left)) == np.argmax(left)
        while (grown := component | undirected[component].any(axis=0)).sum() > component.sum():
            component = grown
        components.append(np.flatnonzero(component))
        left &= ~component
    return components


def orientations_by_source(
    pdag: Shaped[np.ndarray, "d d"], nodes: Int[np.ndarray, " n"]
) -> Iterator[tuple[int, Int8[np.ndarray, "d d"]]]:
    """Every possible source of a chain component of a graph closed under Meek's rules, with the graph it implies.

    All edges of the source leave it and Meek's rules spread the directions inside the component; what they leave
    undirected there are chain components again.

    >>> by_source = orientations_by_source(np.array([[0, 1], [1, 0]]), np.array([0, 1]))
    >>> [(source, graph.tolist()) for source, graph in by_source]
    [(0, [[0, 1], [0, 0]]), (1, [[0, 0], [1, 0]])]
    """
    block = np.ix_(nodes, nodes)
    inside = pdag[block] != 0
    for position in np.flatnonzero(~_directed(inside).any(axis=0)).tolist():
        graph = (pdag != 0).astype(np.int8)
        graph[block] = _directed_from(inside, position)
        yield int(nodes[position]), graph


def _directed_from(component: Bool[np.ndarray, "n n"], source: int) -> Int8[np.ndarray, "n n"]:
    """All edges of the source leave it, closed under Meek's rules; rule 1 is followed edge by edge, which is faster."""
    edges = component.copy()
    edges[:, source] = False
    if component.sum() == component.size - len(component):
        return edges.astype(np.int8)  # in a complete undirected component nothing follows
    joined = skeleton(component)
    arrows = [(source, int(child)) for child in np.flatnonzero(edges[source])]
    while arrows:
        a, b = arrows.pop()
        children = np.flatnonzero(edges[b] & edges[:, b] & ~joined[a])
        edges[children, b] = False
        arrows += [(b, int(c)) for c in children]
    return meek_closure(edges)


def consistent_union(pdag: Shaped[np.ndarray, "d d"]) -> Int8[np.ndarray, "d d"]:
    """The graph closed under Meek's rules: an edge is directed iff all consistent extensions agree on it.

    Raises ValueError if there is no extension.

    >>> consistent_union(np.array([[0, 1, 0], [0, 0, 1], [0, 1, 0]])).tolist()
    [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    """
    consistent_extension(pdag, np.random.default_rng(0))
    return meek_closure(pdag)
