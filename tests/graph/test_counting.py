"""Expected edges of DAGs against enumeration and against the same recursion in fractions."""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from bacadi.graph import all_dags
from bacadi.graph.counting import calibrated_log_odds, expected_edges, log_orders


def random_law(d: int) -> tuple[float, ...]:
    return tuple(np.random.default_rng(d).normal(size=d).tolist())


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("log_odds", [-3.0, 0.0, 1.5])
def test_expected_edges_by_enumeration(d: int, log_odds: float) -> None:
    graphs, law = all_dags(d), np.array(random_law(d))
    edges = graphs.sum(axis=(1, 2))
    log_p = edges * log_odds + law[graphs.sum(axis=2)].sum(axis=1)
    weight = np.exp(log_p - log_p.max())
    assert expected_edges(tuple(law), log_odds) == pytest.approx(edges @ weight / weight.sum(), rel=1e-12, abs=1e-12)


def fraction_of_edges(d: int, y: Fraction) -> float:
    """E|G| without a law, from the numbers of DAGs at y and close to it: Robinson 1973, exact."""

    def total(y: Fraction) -> Fraction:
        found = [Fraction(1)]
        for n in range(1, d + 1):
            terms = [(-1) ** (k + 1) * math.comb(n, k) * (1 + y) ** (k * (n - k)) for k in range(1, n + 1)]
            found.append(sum((t * found[n - k] for k, t in enumerate(terms, start=1)), Fraction(0)))
        return found[d]

    step = y / 10**6
    return float(y * (total(y + step) - total(y - step)) / (2 * step) / total(y))


@pytest.mark.parametrize(("d", "y"), [(20, Fraction(4, 15)), (30, Fraction(1, 1000))])
def test_digits_suffice_where_terms_cancel(d: int, y: Fraction) -> None:
    """The rest is the error of the difference quotient."""
    assert expected_edges((0.0,) * d, math.log(y)) == pytest.approx(fraction_of_edges(d, y), rel=1e-9)


@pytest.mark.parametrize("d", [2, 5, 20, 60])
@pytest.mark.parametrize("per_node", [0.05, 0.4])
@pytest.mark.parametrize("law", ["none", "random"])
def test_calibrated_odds_give_the_edges_asked_for(d: int, per_node: float, law: str) -> None:
    log_law = random_law(d) if law == "random" else (0.0,) * d
    log_odds = calibrated_log_odds(log_law, per_node * d)
    assert expected_edges(log_law, log_odds) == pytest.approx(min(per_node * d, d * (d - 1) / 4), rel=1e-6)


def test_causal_orders_by_permutations() -> None:
    places = np.array(list(permutations(range(4))))
    for graph in all_dags(4)[::7]:
        before, after = np.nonzero(graph)
        number = (places[:, before] < places[:, after]).all(axis=1).sum()
        assert math.exp(log_orders(graph)) == pytest.approx(number)


def test_no_more_than_half_of_the_pairs() -> None:
    assert expected_edges((0.0,) * 5, calibrated_log_odds((0.0,) * 5, 1e9)) == pytest.approx(5, rel=1e-6)
    assert calibrated_log_odds((0.0,), 2.0) == 0.0  # one variable: no pair to join
