"""SID over equivalence classes against the definition and enumeration; the paper's rules for undirected edges."""

import numpy as np
import pytest

from bacadi.errors import DataError
from bacadi.graph.enumerate import all_dags
from bacadi.graph.equivalence import cpdag, i_cpdag
from bacadi.metrics import (
    average_precision,
    class_distances,
    expected_shd,
    expected_sid_bounds,
    favour_undirected,
    sid_bounds,
    structural_hamming_distance,
)
from bacadi.metrics.structure import structural_intervention_distance
from bacadi.simulate.graphs import erdos_renyi_dag

from ..members import consistent_extensions
from .definition import cost_of, dags_up_to_relabelling

UNDIRECTED = np.array([[0, 1], [1, 0]])
FORWARD = np.array([[0, 1], [0, 0]])


def parents(dag):
    return [frozenset(np.flatnonzero(column).tolist()) for column in dag.T]


def classes_of(d, targets):
    """Every class as its partially directed graph and its members."""
    graphs = {i_cpdag(dag, targets).tobytes() for dag in all_dags(d)}
    for raw in sorted(graphs):
        pdag = np.frombuffer(raw, dtype=np.int8).reshape(d, d)
        yield pdag, [parents(dag) for dag in consistent_extensions(pdag)]


TARGETS = [np.zeros((0, 4), dtype=int), np.array([[1, 0, 0, 0]]), np.array([[0, 1, 1, 0]])]


def check_all_classes_of_four_nodes(targets, truths):
    classes = list(classes_of(4, targets))
    for truth in truths:
        cost = cost_of(truth)
        for pdag, members in classes:
            sids = [sum(cost(i, p) for i, p in enumerate(member)) for member in members]
            assert sid_bounds(pdag, truth) == (min(sids), max(sids), True)


@pytest.mark.parametrize("targets", TARGETS)
def test_bounds_equal_those_over_the_members_by_the_definition(targets):
    """Every class of four nodes against some of the 31 DAGs up to relabelling."""
    check_all_classes_of_four_nodes(targets, dags_up_to_relabelling(4)[9::15])


@pytest.mark.slow
@pytest.mark.parametrize("targets", TARGETS)
def test_bounds_equal_those_over_the_members_by_the_definition_on_all_graphs_of_four_nodes(targets):
    """Relabelling changes no distance, so with all classes 31 true DAGs stand for all 543."""
    check_all_classes_of_four_nodes(targets, dags_up_to_relabelling(4))


def test_bounds_equal_enumeration_on_larger_classes():
    rng = np.random.default_rng(0)
    for d in (6, 7, 8, 9):
        for _ in range(4):
            truth, pdag = erdos_renyi_dag(rng, d, 1.2), cpdag(erdos_renyi_dag(rng, d, 1.5))
            sids = [structural_intervention_distance(dag, truth) for dag in consistent_extensions(pdag)]
            assert sid_bounds(pdag, truth) == (min(sids), max(sids), True)


def test_bounds_of_a_graph_with_knowledge_equal_enumeration():
    """A direction that no data gave: the parts are no longer chordal graphs without directions."""
    rng = np.random.default_rng(1)
    square = np.array([[0, 1, 1, 1], [1, 0, 1, 0], [1, 1, 0, 1], [1, 0, 1, 0]])
    square[1, 2] = 0
    assert len(list(consistent_extensions(square))) > 1
    for _ in range(10):
        truth = erdos_renyi_dag(rng, 4, 1.2)
        sids = [structural_intervention_distance(dag, truth) for dag in consistent_extensions(square)]
        assert sid_bounds(square, truth) == (min(sids), max(sids), True)


def test_a_dag_has_one_sid_and_the_true_class_holds_zero():
    rng = np.random.default_rng(2)
    for _ in range(5):
        truth, guess = erdos_renyi_dag(rng, 15), erdos_renyi_dag(rng, 15)
        sid = structural_intervention_distance(guess, truth)
        assert sid_bounds(guess, truth) == (sid, sid, True)
        assert sid_bounds(cpdag(truth), truth).lower == 0


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_the_fallback_holds_the_exact_bounds_and_says_so(limit):
    rng = np.random.default_rng(3)
    for _ in range(10):
        truth, pdag = erdos_renyi_dag(rng, 8, 1.2), cpdag(erdos_renyi_dag(rng, 8, 1.5))
        exact, loose = sid_bounds(pdag, truth), sid_bounds(pdag, truth, max_subproblems=limit)
        assert 0 <= loose.lower <= exact.lower <= exact.upper <= loose.upper <= 56
        assert loose.exact or (pdag * pdag.T).any()
    clique = 1 - np.eye(8, dtype=int)
    assert sid_bounds(clique, np.triu(clique)) == (0, 56, True)
    assert sid_bounds(clique, np.triu(clique), max_subproblems=limit) == (0, 56, False)


def test_node_by_node_bounds_are_exact_for_a_tree_of_one_edge():
    assert sid_bounds(UNDIRECTED, FORWARD, max_subproblems=0).exact is False
    assert sid_bounds(UNDIRECTED, FORWARD).midpoint == 1.0


def test_expected_bounds_are_weighted_means():
    rng = np.random.default_rng(4)
    truth = erdos_renyi_dag(rng, 8)
    pdags = np.stack([cpdag(erdos_renyi_dag(rng, 8, 1)) for _ in range(5)])
    weights = rng.random(5)
    single = [sid_bounds(pdag, truth) for pdag in pdags]
    expected = expected_sid_bounds(pdags, 3 * weights, truth)
    assert expected.lower == pytest.approx(np.average([b.lower for b in single], weights=weights))
    assert expected.upper == pytest.approx(np.average([b.upper for b in single], weights=weights))
    assert expected.midpoint == pytest.approx(np.average([b.midpoint for b in single], weights=weights))


def test_graphs_that_stand_for_no_dag_are_refused_in_words():
    four_cycle = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0]])
    with pytest.raises(DataError, match="stands for no DAG"):
        sid_bounds(four_cycle, np.zeros((4, 4), dtype=int))
    with pytest.raises(DataError, match="cycle"):
        sid_bounds(FORWARD, UNDIRECTED)


def test_hamming_distance_of_cpdags_counts_each_pair_once():
    """Undirected for directed, reversed, missing and superfluous: one each."""
    truth = np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
    for pair, entries in [((0, 1), (1, 1)), ((0, 1), (0, 1)), ((0, 1), (0, 0)), ((0, 2), (1, 1)), ((0, 2), (0, 1))]:
        guess = truth.copy()
        guess[pair], guess[pair[::-1]] = entries
        assert structural_hamming_distance(guess, truth) == 1
    members = [dag for dag in all_dags(4) if np.array_equal(cpdag(dag), cpdag(truth))]
    pdags = np.stack([cpdag(dag) for dag in members])
    assert expected_shd(pdags, np.ones(len(pdags)), cpdag(truth)) == 0


def test_undirected_edges_are_read_in_favour_of_the_method():
    """The two rules of the paper: right where there is an edge, one mistake where there is none."""
    truth = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0]])
    both = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    favoured = favour_undirected(both, truth)
    assert favoured.tolist() == [[0, 0, 0], [1, 0, 1], [0, 0, 0]]
    assert average_precision(favoured.astype(float), truth) == 0.5
    assert average_precision(both.astype(float), truth) == 0.25
    np.testing.assert_array_equal(favour_undirected(np.stack([both, truth]), truth), [favoured, truth])


def test_directed_edges_are_left_as_they_are():
    rng = np.random.default_rng(5)
    for _ in range(5):
        truth, guess = erdos_renyi_dag(rng, 10), erdos_renyi_dag(rng, 10)
        np.testing.assert_array_equal(favour_undirected(guess, truth), guess)
        np.testing.assert_array_equal(favour_undirected(cpdag(truth), truth), truth)


def test_distances_of_classes_forgive_what_targets_do_not_tell():
    """Against the classes of all members: 0 under the targets of the truth, and the consensus is the majority's."""
    truth, none = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], np.int8), np.zeros((0, 3), np.int8)
    on_first = np.array([[1, 0, 0]], np.int8)
    assert class_distances(truth.T[None], np.ones(1), truth, none) == (0, 0)
    assert class_distances(truth.T[None], np.ones(1), truth, on_first) == (2, 2)
    graphs, weights = np.stack([truth, 0 * truth]), np.array([0.6, 0.4])
    assert class_distances(graphs, weights, truth, none) == (pytest.approx(0.8), 0)
    assert class_distances(i_cpdag(truth, none)[None], np.ones(1), truth, on_first, True).expected == 2
