"""All directed graphs and all DAGs of a few nodes, and counts that need no list: causal orders, expected edges.

`graph[i, j] = 1` means i -> j.
"""

import math
from functools import cache
from itertools import combinations

import numpy as np
from jaxtyping import Float, Int8
from scipy.special import gammaln

from bacadi.errors import ConfigError
from bacadi.graph.dag import is_acyclic

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


def log_orders(graph: Int8[np.ndarray, "d d"]) -> float:
    """log of the number of causal orders (linear extensions) of a DAG, by dynamic programming over prefixes.

    A prefix is a set of nodes that holds the parents of each of its nodes; a graph of few edges has up to 2^d of them.

    >>> graph = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]], np.int8)
    >>> round(math.exp(log_orders(graph)))  # half of the 6 orders
    3
    """
    d = len(graph)
    parents = [sum(1 << int(i) for i in np.flatnonzero(graph[:, j])) for j in range(d)]
    orders_of = {0: 1}
    for _ in range(d):
        longer: dict[int, int] = {}
        for prefix, orders in orders_of.items():
            for j in range(d):
                if not prefix >> j & 1 and not parents[j] & ~prefix:
                    longer[prefix | 1 << j] = longer.get(prefix | 1 << j, 0) + orders
        orders_of = longer
    return math.log(orders_of[(1 << d) - 1])


def log_subsets(n: int) -> Float[np.ndarray, " sizes"]:
    """log of the number of subsets of n things that have 0, 1, …, n members: log binomial(n, size).

    >>> np.exp(log_subsets(3)).round().tolist()
    [1.0, 3.0, 3.0, 1.0]
    """
    size = np.arange(n + 1)
    return gammaln(n + 1) - gammaln(size + 1) - gammaln(n - size + 1)


def log_normaliser(log_law: Float[np.ndarray, " d"], edge_log_odds: float) -> float:
    """log Σ_G y^|G| Π_i law(number of children of i) over all graphs of one causal order, log y = edge_log_odds.

    >>> round(math.exp(log_normaliser(np.zeros(4), 0.0)))  # each of the 6 pairs is joined or not
    64
    """
    children, total = np.arange(len(log_law)), 0.0
    for later in range(len(log_law)):
        terms = log_subsets(later) + log_law[: later + 1] + children[: later + 1] * edge_log_odds
        total += float(np.logaddexp.reduce(terms))
    return total


def expected_edges(log_law: Float[np.ndarray, " d"], edge_log_odds: float) -> float:
    """E|G| under p(G, π) ∝ y^|G| Π_i law(number of children of i), log y = edge_log_odds, π a causal order of G.

    Given the order, the variables choose their children among those after them independently of each other.

    >>> expected_edges(np.zeros(4), 0.0)  # half of the 6 pairs
    3.0
    """
    total = 0.0
    for later in range(len(log_law)):
        children = np.arange(later + 1)
        log_p = log_subsets(later) + log_law[: later + 1] + children * edge_log_odds
        p = np.exp(log_p - log_p.max())
        total += float(children @ p / p.sum())
    return total


def calibrated_log_odds(log_law: Float[np.ndarray, " d"], edges: float) -> float:
    """The edge log-odds under which `edges` edges are expected, at most half of the pairs.

    >>> round(calibrated_log_odds(np.zeros(20), 40.0), 4), round(math.log(40 / 150), 4)
    (-1.3218, -1.3218)
    """
    d, low, high = len(log_law), -700.0, 50.0
    wanted = min(edges, d * (d - 1) / 4)
    while d > 1 and high - low > 1e-12:  # bisection: SciPy's optimisers take longer to import than this takes
        middle = (low + high) / 2
        low, high = (middle, high) if expected_edges(log_law, middle) < wanted else (low, middle)
    return (low + high) / 2 if d > 1 else 0.0
