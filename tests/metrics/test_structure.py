"""SID against its definition from d-separation alone; SHD against a count over pairs."""

import time
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bacadi.errors import DataError, InferenceError
from bacadi.graph.enumerate import all_dags
from bacadi.metrics import expected_shd, expected_sid, structural_hamming_distance
from bacadi.metrics.structure import structural_intervention_distance
from bacadi.simulate.graphs import erdos_renyi_dag

from .definition import brute_force_sid, cost_of, dags_up_to_relabelling


@cache
def dags_of_four():
    return all_dags(4)


def test_sid_equals_its_definition_on_all_pairs_of_three_nodes():
    for truth in all_dags(3):
        for guess in all_dags(3):
            assert structural_intervention_distance(guess, truth) == brute_force_sid(guess, truth)


def test_sid_equals_its_definition_on_all_graphs_of_four_nodes():
    """All 543 guesses for each of the 31 DAGs up to relabelling (OEIS A003087), which changes no distance (below)."""
    truths = dags_up_to_relabelling(4)
    assert len(truths) == 31
    for truth in truths:
        cost = cost_of(truth)
        for guess in dags_of_four():
            by_definition = sum(cost(i, frozenset(np.flatnonzero(guess[:, i]).tolist())) for i in range(4))
            assert structural_intervention_distance(guess, truth) == by_definition


def test_sid_of_the_published_example():
    """Peters and Bühlmann (2015), Figure 2: SID 0 for H1 (superfluous edge), 8 for H2 (reversed edge)."""
    truth = np.zeros((5, 5), dtype=int)
    truth[0, 1:] = truth[1, 2:] = 1
    superfluous = truth.copy()
    superfluous[2, 3] = 1
    reversed_edge = truth.copy()
    reversed_edge[0, 1], reversed_edge[1, 0] = 0, 1
    assert structural_intervention_distance(superfluous, truth) == 0
    assert structural_intervention_distance(reversed_edge, truth) == 8
    assert structural_hamming_distance(superfluous, truth) == structural_hamming_distance(reversed_edge, truth) == 1


@given(st.integers(0, 542), st.integers(0, 542), st.permutations(range(4)))
def test_relabelling_changes_nothing_and_equal_graphs_have_distance_zero(a, b, order):
    a, b, block = dags_of_four()[a], dags_of_four()[b], np.ix_(order, order)
    for distance in (structural_intervention_distance, structural_hamming_distance):
        assert distance(a[block], b[block]) == distance(a, b)
        assert distance(a, a) == 0
    assert structural_hamming_distance(a, b) == structural_hamming_distance(b, a)
    pairs = [(i, j) for i in range(4) for j in range(i)]
    expected = sum((a[i, j], a[j, i]) != (b[i, j], b[j, i]) for i, j in pairs)
    assert structural_hamming_distance(a, b) == expected


def test_expectations_are_weighted_means():
    rng = np.random.default_rng(0)
    truth = erdos_renyi_dag(rng, 8)
    graphs = np.stack([erdos_renyi_dag(rng, 8) for _ in range(6)])
    graphs[3] = graphs[1]
    weights = rng.random(6)
    for expected, single in [
        (expected_sid, structural_intervention_distance),
        (expected_shd, structural_hamming_distance),
    ]:
        by_hand = np.average([single(g, truth) for g in graphs], weights=weights)
        assert expected(graphs, weights, truth) == pytest.approx(by_hand)
        assert expected(graphs.astype(bool), 10 * weights, truth.astype(float)) == pytest.approx(by_hand)


def test_cycles_are_refused_in_words():
    truth = np.array([[0, 1], [0, 0]])
    cyclic = np.array([[0, 1], [1, 0]])
    with pytest.raises(InferenceError, match="1 of 2 graphs are cyclic"):
        expected_sid(np.stack([truth, cyclic]), np.ones(2), truth)
    with pytest.raises(DataError, match="cycle"):
        structural_intervention_distance(truth, cyclic)
    assert expected_shd(np.stack([truth, cyclic]), np.ones(2), truth) == 0.5


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, -1.0], [np.nan, 1.0]])
def test_bad_weights_are_refused(weights):
    graphs = np.zeros((2, 3, 3), dtype=int)
    with pytest.raises(DataError, match="weights"):
        expected_shd(graphs, np.array(weights), graphs[0])


def test_one_node():
    assert expected_sid(np.zeros((1, 1, 1)), np.ones(1), np.zeros((1, 1))) == 0


def test_expected_sid_of_twenty_graphs_of_fifty_nodes_takes_less_than_a_second():
    rng = np.random.default_rng(0)
    graphs = np.stack([erdos_renyi_dag(rng, 50) for _ in range(20)])
    start = time.process_time()
    expected_sid(graphs, np.ones(20), graphs[0])
    assert time.process_time() - start < 1
