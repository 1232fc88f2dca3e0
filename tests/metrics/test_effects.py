"""Ancestors, total effects, means of effects and the most probable target."""

import networkx as nx
import numpy as np
import pytest

from bacadi.graph.dag import transitive_closure
from bacadi.metrics import effect_mean_error, total_effect_rmse
from bacadi.metrics.ranking import target_prevalence, top_target_accuracy
from bacadi.metrics.structure import expected_ancestral_shd
from bacadi.model.linear import total_effects
from bacadi.posterior.summaries import ancestor_probabilities
from bacadi.simulate.graphs import erdos_renyi_dag


def by_paths(weights):
    """Total effects as sums over directed paths of the products of their weights."""
    graph = nx.from_numpy_array(weights, create_using=nx.DiGraph)
    d = len(weights)
    total = np.eye(d)
    for i in range(d):
        for j in range(d):
            if i != j:
                paths = nx.all_simple_edge_paths(graph, i, j)
                total[i, j] = sum(np.prod([weights[edge] for edge in path]) for path in paths)
    return total


def test_total_effects_are_sums_over_paths():
    rng = np.random.default_rng(0)
    weights = np.stack([erdos_renyi_dag(rng, 6, 2) * rng.normal(size=(6, 6)) for _ in range(4)])
    np.testing.assert_allclose(total_effects(weights), [by_paths(w) for w in weights], atol=1e-12)


def test_total_effects_are_what_an_intervention_does():
    """x = do(x_1 = 1) in a noise-free linear network, by substitution in topological order."""
    weights = np.array([[0, 2.0, 1.0], [0, 0, 3.0], [0, 0, 0]])
    x = np.array([1.0, 0, 0])
    for j in (1, 2):
        x[j] = x @ weights[:, j]
    np.testing.assert_allclose(total_effects(weights)[0], x)


def test_error_of_total_effects_is_zero_for_the_truth_and_averages_draws_first():
    truth = np.array([[0, 1.5], [0, 0]])
    assert total_effect_rmse(truth[None], np.ones(1), truth) == 0
    around = np.stack([truth * 0.5, truth * 1.5])
    assert total_effect_rmse(around, np.array([2.0, 2.0]), truth) == pytest.approx(0)
    assert total_effect_rmse(around[:1], np.ones(1), truth) == pytest.approx(0.75 / np.sqrt(2))


def test_effect_means_are_taken_where_the_draw_has_the_target():
    means = np.array([[[1.0, 100.0]], [[3.0, 100.0]], [[-50.0, 7.0]]])
    targets = np.array([[[1, 0]], [[1, 0]], [[0, 1]]])
    weights = np.array([0.25, 0.25, 0.5])
    error = effect_mean_error(means, targets, weights, np.array([[5.0, 0.0]]), np.array([[1, 0]]))
    assert error == (3.0, 1.0)
    both = effect_mean_error(means[:2], targets[:2], weights[:2], np.array([[5.0, 0.0]]), np.array([[1, 1]]))
    assert both == (3.0, 0.5)
    missed = effect_mean_error(means, 0 * targets, weights, np.array([[5.0, 0.0]]), np.array([[1, 0]]))
    assert np.isnan(missed.rmse) and missed.coverage == 0
    none = effect_mean_error(means, targets, weights, np.zeros((1, 2)), np.zeros((1, 2)))
    assert np.isnan(none.rmse) and np.isnan(none.coverage)


def test_ancestors():
    rng = np.random.default_rng(1)
    graphs, truth = np.stack([erdos_renyi_dag(rng, 7) for _ in range(5)]), erdos_renyi_dag(rng, 7)
    weights = rng.random(5)
    closures = [
        nx.to_numpy_array(nx.transitive_closure(nx.from_numpy_array(g, create_using=nx.DiGraph))) for g in graphs
    ]
    closures = np.array(closures) > 0
    np.testing.assert_allclose(ancestor_probabilities(graphs, weights), np.average(closures, axis=0, weights=weights))
    true = transitive_closure(truth)
    wrong = [sum((c[i, j], c[j, i]) != (true[i, j], true[j, i]) for i in range(7) for j in range(i)) for c in closures]
    assert expected_ancestral_shd(graphs, weights, truth) == pytest.approx(np.average(wrong, weights=weights))
    assert expected_ancestral_shd(truth[None], np.ones(1), truth) == 0


def test_an_edge_that_only_shortens_a_path_changes_no_ancestor():
    chain = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    shortcut = chain.copy()
    shortcut[0, 2] = 1
    assert expected_ancestral_shd(shortcut[None], np.ones(1), chain) == 0


def test_the_most_probable_target():
    truth = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0], [0, 0, 1]])
    assert top_target_accuracy(truth.astype(float), truth) == 1
    # Right; one of two targets; no target at all, left out; three that tie, of which one is right.
    probabilities = np.array([[0.9, 0.5, 0.1], [0.1, 0.2, 0.9], [0.9, 0.1, 0.1], [0.3, 0.3, 0.3]])
    assert top_target_accuracy(probabilities, truth) == pytest.approx((1 + 1 + 1 / 3) / 3)
    assert np.isnan(top_target_accuracy(np.ones((2, 3)), np.zeros((2, 3))))
    assert np.isnan(top_target_accuracy(np.ones((0, 3)), np.zeros((0, 3))))
    assert target_prevalence(truth) == pytest.approx(4 / 12)
    assert np.isnan(target_prevalence(truth[:0]))
