"""Equivalence classes of DAGs: skeleton, v-structures, CPDAG, interventional CPDAG.

Edges are directed where `graph[i, j] = 1` and `graph[j, i] = 0` (i -> j) and undirected where both are 1 (i - j).
"""

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
    directed = _directed(graph != 0)
    apart = ~skeleton(graph)
    triples = directed[:, :, None] & directed.T[None, :, :] & apart[:, None, :]
    triples &= np.triu(np.ones_like(apart), k=1)[:, None, :]
    return np.argwhere(triples)


def cpdag(dag: Shaped[np.ndarray, "d d"]) -> Int8[np.ndarray, "d d"]:
    """The completed partially directed graph of a DAG's Markov class: an edge is directed iff all members agree on it.

    >>> chain = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    >>> cpdag(chain).tolist()
    [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    """
    return _complete(dag != 0, np.zeros((len(dag), len(dag)), dtype=bool))


def i_cpdag(dag: Shaped[np.ndarray, "d d"], targets: Shaped[np.ndarray, "m d"]) -> Int8[np.ndarray, "d d"]:
    """The interventional CPDAG of a DAG under hard interventions on `targets[k]`, beside observational data.

    An edge between a target and a non-target of one context shows its direction (Hauser and Bühlmann, 2012); Meek's
    rules spread the directions.

    >>> chain = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    >>> i_cpdag(chain, np.array([[1, 0, 0]])).tolist()
    [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    """
    hit = targets != 0
    shown = (hit[:, :, None] ^ hit[:, None, :]).any(axis=0)
    return _complete(dag != 0, shown)


def markov_equivalent(a: Shaped[np.ndarray, "d d"], b: Shaped[np.ndarray, "d d"]) -> bool:
    """Whether two DAGs imply the same independences: equal skeletons and equal v-structures (Verma and Pearl, 1990).

    >>> forward = np.array([[0, 1], [0, 0]])
    >>> markov_equivalent(forward, forward.T)
    True
    """
    return np.array_equal(skeleton(a), skeleton(b)) and np.array_equal(v_structures(a), v_structures(b))


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
    edges = pdag != 0
    dag = _directed(edges)
    left = np.ones(len(edges), dtype=bool)
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


def _complete(dag: Bool[np.ndarray, "d d"], shown: Bool[np.ndarray, "d d"]) -> Int8[np.ndarray, "d d"]:
    """Forget the directions of a DAG except the v-structures and the pairs in `shown`, then apply Meek's rules."""
    known = dag & shown
    for i, j, k in v_structures(dag):
        known[i, j] = known[k, j] = True
    return meek_closure(skeleton(dag) & ~known.T)


def _implied_directions(edges: Bool[np.ndarray, "d d"]) -> Bool[np.ndarray, "d d"]:
    """Entry (a, b) is true where a - b is undirected and one of Meek's rules makes it a -> b."""
    directed, undirected = _directed(edges), edges & edges.T
    apart = ~(edges | edges.T)
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
    outgoing = edges[node] & left
    incoming = edges[:, node] & left
    if (outgoing & ~incoming).any():
        return False
    joined = (edges | edges.T) | np.eye(len(edges), dtype=bool)
    return bool(joined[np.ix_(outgoing, incoming)].all())
