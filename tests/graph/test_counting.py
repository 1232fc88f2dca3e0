"""Causal orders and the edges expected along them, against all permutations."""

import math
from itertools import permutations

import numpy as np
import pytest

from bacadi.graph.enumerate import all_dags, calibrated_log_odds, expected_edges, log_orders

PLACES = {d: np.array(list(permutations(range(d)))) for d in range(1, 5)}


def n_orders(graph: np.ndarray) -> int:
    before, after = np.nonzero(graph)
    places = PLACES[len(graph)]
    return int((places[:, before] < places[:, after]).all(axis=1).sum())


def test_causal_orders_by_permutations() -> None:
    for graph in all_dags(4):
        assert math.exp(log_orders(graph)) == pytest.approx(n_orders(graph))


@pytest.mark.parametrize("d", [1, 2, 3, 4])
@pytest.mark.parametrize("log_odds", [-3.0, 0.0, 1.5])
def test_expected_edges_by_enumeration(d: int, log_odds: float) -> None:
    graphs, law = all_dags(d), np.random.default_rng(d).normal(size=d)
    edges, orders = graphs.sum(axis=(1, 2)), np.array([n_orders(graph) for graph in graphs])
    weight = orders * np.exp(edges * log_odds + law[graphs.sum(axis=2)].sum(axis=1))
    assert expected_edges(law, log_odds) == pytest.approx(edges @ weight / weight.sum(), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("d", [2, 20, 100])
@pytest.mark.parametrize("per_node", [0.05, 2.0, 1e9])
@pytest.mark.parametrize("law", ["none", "random"])
def test_calibrated_odds_give_the_edges_asked_for(d: int, per_node: float, law: str) -> None:
    log_law = np.random.default_rng(d).normal(size=d) if law == "random" else np.zeros(d)
    log_odds = calibrated_log_odds(log_law, per_node * d)
    assert expected_edges(log_law, log_odds) == pytest.approx(min(per_node * d, d * (d - 1) / 4), rel=1e-9)


def test_one_variable_has_no_pair_to_join() -> None:
    assert calibrated_log_odds(np.zeros(1), 2.0) == 0.0
