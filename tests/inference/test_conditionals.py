"""Log odds from conditional probabilities, against sums over all graphs and states."""

import numpy as np
import pytest
from scipy.special import logsumexp

from bacadi.evidence.collapsed import EffectKind
from bacadi.inference.conditionals import _surroundings, log_odds
from bacadi.inference.exact.enumeration import enumerate_posterior

from .collapsed_problems import brute_force, random_collapsed
from .test_exact import PROBLEMS


def exact_log_odds(log_p: np.ndarray, indicator: np.ndarray) -> np.ndarray:
    """log Σ p over the structures that have it, less that over those that do not."""
    flat, with_it = log_p.ravel(), np.where(indicator, 0.0, -np.inf)
    without = np.where(indicator, -np.inf, 0.0)
    weight = flat.reshape(-1, *[1] * (indicator.ndim - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return logsumexp(weight + with_it, axis=0) - logsumexp(weight + without, axis=0)


@pytest.mark.parametrize("name", PROBLEMS)
def test_all_structures_with_their_probabilities_give_the_exact_odds(name: str) -> None:
    collapsed = PROBLEMS[name]
    pairs = enumerate_posterior(collapsed).weighted(10**6)
    assert pairs is not None
    found = log_odds(collapsed, pairs.graphs, pairs.states, pairs.log_weight, len(pairs.graphs))
    off = ~np.eye(len(found.edges), dtype=bool)
    assert np.isnan(np.diag(found.edges)).all()
    edges = exact_log_odds(pairs.log_weight, pairs.graphs != 0)
    np.testing.assert_allclose(found.edges[off], edges[off], atol=1e-8)
    targets = exact_log_odds(pairs.log_weight, pairs.states > 0)
    np.testing.assert_allclose(found.targets, targets, atol=1e-8)
    assert (found.kind == (EffectKind.SOFT if collapsed.evidence.states.n_states > 1 else 0)).all()


def test_priors_over_orders_are_nearly_exact() -> None:
    """Orders are counted approximately: at four variables odds are right to a third of a nat."""
    errors = []
    for seed in range(5):
        collapsed = random_collapsed(np.random.default_rng(seed), 4, 0, constrained=False, over_orders=True)
        dags, states, log_p = brute_force(collapsed)
        log_p = log_p[:, 0] - logsumexp(log_p)
        found = log_odds(collapsed, dags, np.repeat(states, len(dags), axis=0), log_p, len(dags))
        off = ~np.eye(4, dtype=bool)
        errors.append(found.edges[off] - exact_log_odds(log_p, dags != 0)[off])
    assert np.abs(errors).max() < 0.33


def test_odds_go_on_where_shares_of_draws_end() -> None:
    """One draw says nothing of shares, and still ranks: the odds are those of its conditionals."""
    collapsed = PROBLEMS["plain"]
    graphs, states = np.zeros((1, 3, 3), np.int8), np.zeros((1, 2, 3), np.int8)
    found = log_odds(collapsed, graphs, states)
    assert np.isfinite(found.targets).all() and len(np.unique(found.targets)) == 6
    with_target = states[0].copy()
    with_target[1, 2] = 1
    expected = collapsed.log_posterior(graphs[0], with_target) - collapsed.log_posterior(graphs[0], states[0])
    np.testing.assert_allclose(found.targets[1, 2], expected)


def test_without_its_edge_a_pair_has_fewer_relatives() -> None:
    graph = np.array([[0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]], np.int8)
    around = _surroundings(graph[None])
    assert around.back[0].astype(int).tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0]]
    assert around.descendants[0, 0].tolist() == [3, 2, 3, 3]  # without 0 → 1 still 2 and 3
    assert around.ancestors[0, :, 2].tolist() == [2, 1, 2, 2]  # without 1 → 2 only 0 is above
