"""How many edges acyclic graphs have on average: exact sums over all DAGs, without going through them."""

import math
from decimal import Decimal, localcontext
from functools import lru_cache

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
