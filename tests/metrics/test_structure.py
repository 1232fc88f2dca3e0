"""SID against its definition, written here from d-separation alone; SHD against a count over pairs."""

import time
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bacadi.errors import DataError, InferenceError
from bacadi.graph import all_dags, erdos_renyi_dag
from bacadi.metrics import (
    expected_shd,
    expected_sid,
    structural_hamming_distance,
    structural_intervention_distance,
)


def descendants(dag, node):
    """The node and everything a directed path from it reaches."""
    found, todo = {node}, [node]
    while todo:
        for child in np.flatnonzero(dag[todo.pop()]):
            if child not in found:
                found.add(int(child))
                todo.append(int(child))
    return found


def paths(dag, start, end):
    """All paths without repeated nodes, whatever the directions of their edges."""
    stack = [[start]]
    while stack:
        path = stack.pop()
        if path[-1] == end:
            yield path
            continue
        for node in np.flatnonzero(dag[path[-1]] | dag[:, path[-1]]):
            if node not in path:
                stack.append([*path, int(node)])


def blocked(dag, path, given):
    for a, b, c in zip(path, path[1:], path[2:], strict=False):
        collider = dag[a, b] and dag[c, b]
        if collider and not descendants(dag, b) & given:
            return True
        if not collider and b in given:
            return True
    return False


def adjusts(dag, i, j, given):
    """Whether `given` is a valid adjustment set for the effect of i on j in `dag` (Shpitser et al., 2010): no member
    descends from a node (other than i) on a directed path from i to j, and every other path is blocked."""
    directed = [p for p in paths(dag, i, j) if all(dag[a, b] for a, b in pairwise(p))]
    forbidden = set().union(*(descendants(dag, node) for p in directed for node in p[1:]))
    if forbidden & given:
        return False
    return all(blocked(dag, p, given) for p in paths(dag, i, j) if p not in directed)


def brute_force_sid(guess, truth):
    """The definition of Peters and Bühlmann (2015): pairs whose effect the parents in the guess do not give."""
    d = len(truth)
    wrong = 0
    for i in range(d):
        parents = frozenset(np.flatnonzero(guess[:, i]).tolist())
        for j in range(d):
            if i == j:
                continue
            if j in parents:
                # The guess says that j does not react; wrong if it does.
                wrong += j in descendants(truth, i)
            else:
                wrong += not adjusts(truth, i, j, set(parents))
    return wrong


@cache
def dags_of_four():
    return all_dags(4)


def test_sid_equals_its_definition_on_all_pairs_of_three_nodes():
    for truth in all_dags(3):
        for guess in all_dags(3):
            assert structural_intervention_distance(guess, truth) == brute_force_sid(guess, truth)


def test_sid_equals_its_definition_on_pairs_of_four_nodes():
    rng = np.random.default_rng(0)
    for a, b in rng.integers(0, 543, (250, 2)):
        guess, truth = dags_of_four()[a], dags_of_four()[b]
        assert structural_intervention_distance(guess, truth) == brute_force_sid(guess, truth)


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
