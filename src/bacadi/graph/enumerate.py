"""All directed graphs and all DAGs of a few nodes, where `graph[i, j] = 1` means i -> j."""

from functools import cache
from itertools import combinations

import numpy as np
from jaxtyping import Int8

from bacadi.errors import ConfigError
from bacadi.graph.acyclicity import is_acyclic

MAX_DAG_NODES = 5
MAX_DIGRAPH_NODES = 4


@cache
def all_digraphs(d: int) -> Int8[np.ndarray, "n d d"]:
    """All 2^(d(d-1)) directed graphs without loops of d <= 4 labelled nodes, as a read-only array.

    >>> [len(all_digraphs(d)) for d in (1, 2, 3, 4)]
    [1, 4, 64, 4096]
    """
    _check_size(d, MAX_DIGRAPH_NODES, "directed graphs")
    source, target = np.nonzero(~np.eye(d, dtype=bool))
    bits = (np.arange(2 ** len(source))[:, None] >> np.arange(len(source))) & 1
    graphs = np.zeros((len(bits), d, d), dtype=np.int8)
    graphs[:, source, target] = bits
    graphs.setflags(write=False)
    return graphs


@cache
def all_dags(d: int) -> Int8[np.ndarray, "n d d"]:
    """All DAGs of d <= 5 labelled nodes, as a read-only array (OEIS A003024 counts them).

    >>> [len(all_dags(d)) for d in (1, 2, 3, 4, 5)]
    [1, 3, 25, 543, 29281]
    """
    _check_size(d, MAX_DAG_NODES, "DAGs")
    pairs = list(combinations(range(d), 2))
    # Each pair is absent, forward or backward: 3^(pairs) candidates, 59,049 at d = 5.
    states = (np.arange(3 ** len(pairs))[:, None] // 3 ** np.arange(len(pairs))) % 3
    graphs = np.zeros((len(states), d, d), dtype=np.int8)
    for column, (i, j) in enumerate(pairs):
        graphs[:, i, j] = states[:, column] == 1
        graphs[:, j, i] = states[:, column] == 2
    graphs = graphs[is_acyclic(graphs)]
    graphs.setflags(write=False)
    return graphs


def _check_size(d: int, largest: int, what: str) -> None:
    if not 1 <= d <= largest:
        raise ConfigError(f"All {what} of {d} nodes cannot be listed; ask for 1 to {largest} nodes.")
