"""Distances between drawn graphs and the true one, where `graph[i, j] = 1` means i -> j.

Who influences whom, directly or not: the same yardsticks on ancestors in place of parents.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Shaped

from bacadi.errors import DataError, InferenceError
from bacadi.graph.dag import find_cycle, is_acyclic, transitive_closure

Graph = Shaped[np.ndarray, "d d"]
Graphs = Shaped[np.ndarray, "n d d"]
Weights = Float[np.ndarray, " n"]
Distance = Callable[[np.ndarray, np.ndarray], int | tuple[float, ...]]


def structural_hamming_distance(graph: Graph, truth: Graph) -> int:
    """The number of pairs of nodes whose edge differs; a reversed edge counts once.

    Edges may be undirected (both entries 1), so a CPDAG is compared with the CPDAG of the truth: an undirected edge
    where the truth has a directed one counts once.

    >>> structural_hamming_distance(np.array([[0, 1], [0, 0]]), np.array([[0, 0], [1, 0]]))
    1
    """
    differs = (graph != 0) != (truth != 0)
    return int(np.triu(differs | differs.T, k=1).sum())


def structural_intervention_distance(graph: Graph, truth: Graph) -> int:
    """The number of ordered pairs (i, j) for which the parents of i in `graph` do not give p(x_j | do(x_i)) in `truth`.

    Peters and Bühlmann (2015), for two DAGs; at most d(d - 1).

    >>> chain = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    >>> structural_intervention_distance(chain, chain), structural_intervention_distance(np.zeros((3, 3)), chain)
    (0, 3)
    """
    refuse_cycles(graph[None], truth)
    return sid_of_dags(graph, truth)


def expected_shd(graphs: Graphs, weights: Weights, truth: Graph) -> float:
    """The mean structural Hamming distance of weighted graphs: E-SHD = Σ_n w_n SHD(G_n, G) / Σ_n w_n.

    >>> truth = np.array([[0, 1], [0, 0]])
    >>> expected_shd(np.stack([truth, truth.T]), np.array([0.75, 0.25]), truth)
    0.25
    """
    return float(weighted_mean(structural_hamming_distance, graphs, weights, truth))


def expected_sid(graphs: Graphs, weights: Weights, truth: Graph) -> float:
    """The mean structural intervention distance of weighted DAGs: E-SID = Σ_n w_n SID(G_n, G) / Σ_n w_n.

    It rewards dense graphs, so it is read beside `expected_shd`. All graphs have to be acyclic.

    >>> truth = np.array([[0, 1], [0, 0]])
    >>> expected_sid(np.stack([truth, truth.T]), np.array([0.75, 0.25]), truth)
    0.5
    """
    refuse_cycles(graphs, truth)
    return float(weighted_mean(sid_of_dags, graphs, weights, truth))


def sid_of_dags(graph: Graph, truth: Graph) -> int:
    """SID of two graphs that are known to be acyclic."""
    if len(truth) < 2:
        return 0
    from gadjid import sid

    as_dag = [np.ascontiguousarray(g != 0, dtype=np.int8) for g in (truth, graph)]
    return int(sid(*as_dag, edge_direction="from row to column")[1])


def check_weights(weights: Float[np.ndarray, " _"], noun: str) -> None:
    """Refuse weights that have no mean."""
    if not (weights >= 0).all() or not weights.sum() > 0:
        raise DataError(f"The weights of the {noun}s are negative, not numbers or all zero; give each a weight >= 0.")


def weighted_mean(distance: Distance, graphs: Graphs, weights: Weights, truth: Graph) -> Float[np.ndarray, "..."]:
    """Σ_n w_n distance(G_n, truth) / Σ_n w_n, each distinct graph measured once."""
    check_weights(weights, "graph")
    # Draws repeat graphs, and a distance costs far more than a comparison.
    flat, inverse = np.unique((graphs != 0).reshape(len(graphs), -1), axis=0, return_inverse=True)
    mass = np.bincount(inverse.ravel(), weights=weights)
    distances = np.array([distance(g.reshape(truth.shape), truth) for g in flat])
    return np.asarray(mass @ distances / mass.sum())


def refuse_cycles(graphs: Graphs, truth: Graph) -> None:
    """Raise an error in words where SID has no meaning."""
    # gadjid panics on a cycle of two nodes, which no `except Exception` would catch.
    if not is_acyclic(truth):
        raise DataError(f"The true graph has the cycle {find_cycle(truth)}, so SID is not defined; give a DAG.")
    if len(cyclic := np.flatnonzero(~is_acyclic(graphs))):
        raise InferenceError(
            f"{len(cyclic)} of {len(graphs)} graphs are cyclic (the first is number {cyclic[0]}), so SID is not "
            "defined; leave the cyclic graphs out."
        )


def expected_ancestral_shd(graphs: Graphs, weights: Weights, truth: Graph) -> float:
    """The mean number of pairs about which graph and truth disagree: i ⇝ j, j ⇝ i or neither.

    >>> chain = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    >>> expected_ancestral_shd(chain[None], np.ones(1), 0 * chain)
    3.0
    """
    return expected_shd(transitive_closure(graphs), weights, transitive_closure(truth))
