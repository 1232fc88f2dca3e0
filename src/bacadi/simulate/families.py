"""Families of random graphs as choices of a specification."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int8

from bacadi.graph import erdos_renyi_dag, scale_free_dag


class AbstractGraphFamily(ABC):
    """A distribution over DAGs of any number of nodes."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, d: int) -> Int8[np.ndarray, "d d"]:
        """A random DAG of d nodes with `graph[i, j] = 1` for i -> j."""


@dataclass(frozen=True)
class ErdosRenyi(AbstractGraphFamily):
    """Independent edges, `edges_per_node` times d in expectation.

    >>> ErdosRenyi(0).draw(np.random.default_rng(0), 2).tolist()
    [[0, 0], [0, 0]]
    """

    edges_per_node: float = 2

    def draw(self, rng: np.random.Generator, d: int) -> Int8[np.ndarray, "d d"]:
        return erdos_renyi_dag(rng, d, self.edges_per_node)


@dataclass(frozen=True)
class ScaleFree(AbstractGraphFamily):
    """Preferential attachment, hubs as parents, `edges_per_node` parents for every node that joins.

    >>> int(ScaleFree().draw(np.random.default_rng(0), 50).sum())
    97
    """

    edges_per_node: int = 2

    def draw(self, rng: np.random.Generator, d: int) -> Int8[np.ndarray, "d d"]:
        return scale_free_dag(rng, d, self.edges_per_node)
