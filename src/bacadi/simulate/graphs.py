"""Random DAGs with random labels, where `graph[i, j] = 1` means i -> j, and their families as choices of a task."""

from abc import abstractmethod

import numpy as np
from jaxtyping import Int8

from bacadi.config.choices import Choice, option
from bacadi.errors import ConfigError


def erdos_renyi_dag(rng: np.random.Generator, d: int, edges_per_node: float = 2) -> Int8[np.ndarray, "d d"]:
    """Join each pair of a random order independently: P(edge) = edges_per_node * d / (d choose 2).

    >>> graph = erdos_renyi_dag(np.random.default_rng(0), d=20)
    >>> graph.shape, int(graph.sum())
    ((20, 20), 36)
    """
    pairs = d * (d - 1) / 2
    if not 0 <= edges_per_node * d <= pairs:
        raise ConfigError(
            f"{edges_per_node} edges per node do not fit into a DAG of {d} nodes, which has room for {pairs:g} edges "
            f"in all; ask for 0 to {(d - 1) / 2:g} edges per node."
        )
    probability = edges_per_node * d / pairs if pairs else 0.0
    return _relabelled(rng, np.triu(rng.random((d, d)) < probability, k=1))


def scale_free_dag(rng: np.random.Generator, d: int, edges_per_node: int = 2) -> Int8[np.ndarray, "d d"]:
    """Preferential attachment with hubs as parents (Barabási and Albert, 1999).

    Nodes join one by one and take `edges_per_node` distinct earlier nodes (or all, if there are fewer) as parents, with
    probability proportional to 1 + their number of children. The number of edges is fixed: 2d - 3 for two per node.

    >>> int(scale_free_dag(np.random.default_rng(0), d=20).sum())
    37
    """
    if not 0 <= edges_per_node < max(d, 1):
        raise ConfigError(
            f"{edges_per_node} edges per node do not fit into a scale-free DAG of {d} nodes; "
            f"ask for 0 to {d - 1} edges per node."
        )
    graph = np.zeros((d, d), dtype=bool)
    for node in range(1, d):
        log_weight = np.log1p(graph[:node].sum(axis=1))
        # The largest Gumbel-perturbed log weights are a draw without replacement, one after the other.
        parents = np.argsort(-(log_weight + rng.gumbel(size=node)))[:edges_per_node]
        graph[parents, node] = True
    return _relabelled(rng, graph)


def _relabelled(rng: np.random.Generator, graph: np.ndarray) -> Int8[np.ndarray, "d d"]:
    order = rng.permutation(len(graph))
    return graph[np.ix_(order, order)].astype(np.int8)


class AbstractGraphFamily(Choice):
    """A distribution over DAGs of any number of nodes."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, d: int) -> Int8[np.ndarray, "d d"]:
        """Draw a DAG of d nodes with `graph[i, j] = 1` for i -> j."""


class RandomErdosRenyi(AbstractGraphFamily):
    """Independent edges, `edges_per_node` times d in expectation.

    >>> RandomErdosRenyi(0).draw(np.random.default_rng(0), 2).tolist()
    [[0, 0], [0, 0]]
    """

    edges_per_node: float = option(2.0, least=0)

    def draw(self, rng: np.random.Generator, d: int) -> Int8[np.ndarray, "d d"]:
        return erdos_renyi_dag(rng, d, self.edges_per_node)


class RandomScaleFree(AbstractGraphFamily):
    """Preferential attachment, hubs as parents, `edges_per_node` parents for every node that joins.

    >>> int(RandomScaleFree().draw(np.random.default_rng(0), 50).sum())
    97
    """

    edges_per_node: int = option(2, least=0)

    def draw(self, rng: np.random.Generator, d: int) -> Int8[np.ndarray, "d d"]:
        return scale_free_dag(rng, d, self.edges_per_node)
