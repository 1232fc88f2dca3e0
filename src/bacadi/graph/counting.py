"""Counting without going through all cases: the edges that DAGs have on average, the causal orders of a DAG."""

import math
from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
from jaxtyping import Int8
from scipy.optimize import brentq


def expected_edges(log_law: tuple[float, ...], edge_log_odds: float) -> float:
    """E|G| over the DAGs of d = len(log_law) nodes under p(G) ∝ y^|G| Π_i law(out-degree of i), log y = edge_log_odds.

    Robinson's recursion with weights: with g(m) = Σ_k C(m,k) law(k) y^k for the children of one source among m nodes,
    a(n) = Σ_k (-1)^(k+1) C(n,k) g(n-k)^k a(n-k) sums over the sets of k sources, and E|G| = y a'(d) / a(d). It is a/n!
    that is computed here. Its terms alternate and nearly cancel, hence decimal numbers of many digits.

    >>> expected_edges((0.0,) * 3, 0.0)  # the 25 DAGs of three nodes have 48 edges
    1.92
    """
    d = len(log_law)
    with localcontext() as context:
        context.prec = 30 + d // 2
        y, inverse = Decimal(edge_log_odds).exp(), [Decimal(1)]  # of factorials
        for k in range(1, d + 1):
            inverse.append(inverse[-1] / k)
        weight = [Decimal(value).exp() * y**k for k, value in enumerate(log_law)]
        total, slope = [Decimal(1)] + d * [Decimal(0)], (d + 1) * [Decimal(0)]  # a/n! and y a'/n!
        for m in range(d):
            terms = [math.comb(m, k) * weight[k] for k in range(m + 1)]
            children = sum(terms, Decimal(0))
            mean_children = sum((k * term for k, term in enumerate(terms)), Decimal(0)) / children
            power = Decimal(-1)
            for k in range(1, d - m + 1):
                power *= -children
                sets = power * inverse[k]
                total[m + k] += sets * total[m]
                slope[m + k] += sets * (k * mean_children * total[m] + slope[m])
        return float(slope[d] / total[d])


@lru_cache(maxsize=64)
def calibrated_log_odds(log_law: tuple[float, ...], edges: float) -> float:
    """The edge log-odds with which DAGs of that law of out-degrees have so many edges in expectation.

    At most half of the pairs are joined in expectation, however many edges are asked for.

    >>> round(calibrated_log_odds((0.0,) * 20, 40.0), 3)  # 40 of the 190 pairs of an order: -1.322
    -1.683
    """
    d = len(log_law)
    wanted = min(edges, d * (d - 1) / 4)
    if wanted <= 0:
        return 0.0

    def excess(log_odds: float) -> float:
        return math.log(expected_edges(log_law, log_odds) / wanted)

    # Without the demand of acyclicity and a law of degrees, a pair of an order would be joined with these odds.
    low = high = math.log(2 * wanted / (d * (d - 1) - 2 * wanted))
    while excess(low) > 0:
        low -= 1
    while excess(high) < 0:
        high += 1
    return float(brentq(excess, low, high, xtol=1e-7))


def log_orders(graph: Int8[np.ndarray, "d d"]) -> float:
    """log of the number of causal orders (linear extensions) of a DAG, by the sets that can come first.

    There may be 2^d such sets, in graphs of few edges.

    >>> round(math.exp(log_orders(np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]]))))  # half of the 6 orders
    3
    """
    d = len(graph)
    parents = [sum(1 << int(i) for i in np.flatnonzero(graph[:, j])) for j in range(d)]
    number = {0: 1}
    for _ in range(d):
        longer: dict[int, int] = {}
        for first, orders in number.items():
            for j in range(d):
                if not first >> j & 1 and not parents[j] & ~first:
                    longer[first | 1 << j] = longer.get(first | 1 << j, 0) + orders
        number = longer
    return math.log(number[(1 << d) - 1])
