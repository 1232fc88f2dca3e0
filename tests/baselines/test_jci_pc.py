"""JCI-PC: right where the independences are, equal to causal-learn's `pc` with tiers, and unmoved by odd columns."""

import warnings

import networkx as nx
import numpy as np
import pytest
from scipy.stats import norm

from bacadi.baselines import JCIPC, Bootstrap, jci_pc
from bacadi.baselines.ci import JointColumns, PartialCorrelationTest
from bacadi.baselines.jci_pc import nearest_dag
from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError, DataError, InferenceError
from bacadi.graph.dag import is_acyclic, topological_order
from bacadi.graph.equivalence import i_cpdag, skeleton
from bacadi.simulate import SyntheticSpec, simulate
from bacadi.simulate.graphs import erdos_renyi_dag

from .problems import run

CHAIN = [(0, 1), (1, 2), (2, 3)]
FORK = [(0, 1), (0, 2), (0, 3)]
COLLIDER = [(0, 2), (1, 2), (2, 3)]
DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3)]
NOTHING = np.random.default_rng(0)


def dag(edges, d=4):
    graph = np.zeros((d, d), dtype=np.int8)
    graph[tuple(np.array(edges).T)] = 1
    return graph


def named(x, context, n_contexts):
    variables = tuple(f"x{j}" for j in range(x.shape[1]))
    return ContextData(x, context, variables, tuple(f"k{k}" for k in range(n_contexts)), "obs")


def linear_data(rng, graph, targets, n_rows, cut=0.0, weight=0.5):
    """x_j = weight · parents + 2 · target + noise; a hard intervention cuts the parents."""
    context = np.repeat(np.arange(len(targets) + 1), n_rows)
    hit = np.vstack([np.zeros((1, len(graph))), targets])[context]
    x = np.zeros(hit.shape)
    for j in topological_order(graph):
        x[:, j] = (1 - cut * hit[:, j]) * weight * (x @ graph[:, j]) + 2 * hit[:, j] + rng.normal(size=len(x))
    return named(x, context, len(targets))


class SeparationOracle:
    """The answers of the true graph over variables and indicators in place of a test."""

    method = "d-separation"

    def __init__(self, graph, targets):
        d = len(graph)
        self.dag = nx.DiGraph([*map(tuple, np.argwhere(graph)), *((d + k, j) for k, j in np.argwhere(targets))])
        self.dag.add_nodes_from(range(d + len(targets)))

    def __call__(self, x, y, given=()):
        return float(nx.is_d_separator(self.dag, {int(x)}, {int(y)}, set(map(int, given))))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5])
def test_the_true_independences_give_the_interventional_class_and_the_targets(share, monkeypatch):
    for seed in range(25):
        rng = np.random.default_rng(seed)
        graph = erdos_renyi_dag(rng, 6, 1.5)
        targets = (rng.random((3, 6)) < share).astype(np.int8)
        oracle = SeparationOracle(graph, targets)
        monkeypatch.setattr(jci_pc, "PartialCorrelationTest", lambda columns, max_tests, oracle=oracle: oracle)
        found = JCIPC(alpha=0.5).estimate(rng, linear_data(rng, graph, targets, 3), None)
        np.testing.assert_array_equal(found.graph, i_cpdag(graph, targets))
        np.testing.assert_array_equal(found.targets, targets)


@pytest.mark.parametrize("edges", [CHAIN, FORK, COLLIDER, DIAMOND])
@pytest.mark.parametrize("targets", [[], [[0, 1, 0, 0]], [[1, 0, 0, 0], [0, 0, 1, 0]], [[0, 1, 1, 0], [0, 0, 0, 0]]])
def test_many_rows_give_the_interventional_class_and_the_targets(edges, targets):
    # At most 60 tests of true independences at 1e-5: a false alarm in fewer than one of 1600 data sets.
    graph, targets = dag(edges), np.array(targets, dtype=np.int8).reshape(-1, 4)
    data = linear_data(np.random.default_rng(1), graph, targets, 20_000)
    found = JCIPC(alpha=1e-5).estimate(NOTHING, data, None)
    np.testing.assert_array_equal(found.graph, i_cpdag(graph, targets))
    np.testing.assert_array_equal(found.targets, targets)


def test_hard_interventions_on_roots_are_found_and_on_others_bring_false_targets():
    graph, root, both = dag(CHAIN), np.eye(4, dtype=np.int8)[:1], np.eye(4, dtype=np.int8)[:2]
    found_root, found_both = (
        JCIPC(alpha=1e-5).estimate(
            NOTHING, linear_data(np.random.default_rng(2), graph, targets, 20_000, cut=1.0, weight=0.8), None
        )
        for targets in (root, both)
    )
    np.testing.assert_array_equal(found_root.graph, graph)
    np.testing.assert_array_equal(found_root.targets, root)
    # What the class says of linear tests: k0 seems to act on x1 beside its effect through x0.
    assert found_both.targets[0].tolist() == [1, 1, 0, 0]


def causal_learn(data, alpha):
    """`pc` of causal-learn with JCI's assumptions as tiers: joined pairs of variables, and targets."""
    from causallearn.graph.GraphNode import GraphNode
    from causallearn.search.ConstraintBased.PC import pc
    from causallearn.utils.PCUtils.BackgroundKnowledge import BackgroundKnowledge

    d, m = data.n_variables, data.n_contexts
    knowledge = BackgroundKnowledge()
    nodes = [GraphNode(f"X{i + 1}") for i in range(d + m)]
    for number, node in enumerate(nodes):
        knowledge.add_node_to_tier(node, int(number < d))
    for a in nodes[d:]:
        for b in nodes[d:]:
            knowledge.add_forbidden_by_node(a, b)
    indicators = (data.context[:, None] == np.arange(1, m + 1)).astype(float)
    x = np.column_stack([data.x, indicators])
    result = pc(x, alpha, "fisherz", stable=True, background_knowledge=knowledge, show_progress=False)
    ends = result.G.graph
    directed = (ends.T == 1) & (ends == -1)
    return ends[:d, :d] != 0, directed[d:, :d], directed[:d, :d]


def test_equals_pc_with_tiers_of_causal_learn():
    # causal-learn 0.1.4.8, run here; it leaves out Meek's fourth rule and orients conflicting colliders in its order.
    agree = total = 0
    for seed in range(6):
        data = simulate(SyntheticSpec(n_variables=10), seed=seed).data
        found = JCIPC(alpha=0.01).estimate(NOTHING, data, None)
        joined, targets, directed = causal_learn(data, 0.01)
        np.testing.assert_array_equal(skeleton(found.graph), joined)
        np.testing.assert_array_equal(found.targets, targets)
        agree += ((found.graph & ~found.graph.T & 1).astype(bool) & directed).sum()
        total += directed.sum()
    assert agree >= 0.9 * total > 0


def test_known_targets_are_kept_and_known_others_never_named():
    task = simulate(SyntheticSpec(n_variables=8), seed=3)
    truth = task.targets.astype(float)
    found = JCIPC(alpha=0.05).estimate(NOTHING, task.data, truth)
    np.testing.assert_array_equal(found.targets, task.targets)
    partly = np.full(truth.shape, np.nan)
    partly[0], partly[1, 2] = 0, 1
    found = JCIPC(alpha=0.05).estimate(NOTHING, task.data, partly)
    assert not found.targets[0].any() and found.targets[1, 2] == 1


def test_a_known_non_target_that_no_test_separates_keeps_the_directions():
    # Context 0 acts on x0 and, unlike it is said to, on x1: the edge to x1 goes, x0 -> x1 is not turned round.
    graph, targets = dag([(0, 1)], 2), np.array([[1, 1]], dtype=np.int8)
    data = linear_data(np.random.default_rng(0), graph, targets, 2000)
    found = JCIPC().estimate(NOTHING, data, np.array([[1.0, 0.0]]))
    assert found.targets.tolist() == [[1, 0]]
    assert found.graph.tolist() == graph.tolist()


def small(change=None, counts=(50, 10, 10), d=4):
    rng = np.random.default_rng(0)
    context = np.repeat(np.arange(len(counts)), counts)
    x = rng.normal(size=(len(context), d))
    x[:, 1] += x[:, 0]
    for k in range(1, len(counts)):
        x[context == k, (k - 1) % d] += 6
    if change is not None:
        change(x, context)
    return named(x, context, len(counts) - 1)


def test_a_constant_column_has_no_edges_and_is_no_target():
    def constant(x, context):
        x[:, 2] = 7.1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = JCIPC(alpha=0.2).estimate(NOTHING, small(constant), None)
    assert not found.graph[2].any() and not found.graph[:, 2].any() and not found.targets[:, 2].any()
    assert found.targets[0, 0] == 1


def test_nothing_but_constants_is_an_empty_graph():
    found = JCIPC().estimate(NOTHING, named(np.ones((6, 2)), np.array([0, 0, 0, 1, 1, 1]), 1), None)
    assert not found.graph.any() and not found.targets.any()


def test_columns_that_determine_each_other_are_named():
    def twice(x, context):
        x[:, 3] = 1 - 2 * x[:, 1]

    with pytest.raises(DataError, match=r"'x1', 'x3' .* singular"):
        run(Bootstrap(JCIPC(), n_samples=2, jobs=1), small(twice))


def test_a_column_that_the_context_determines_is_named():
    def indicator(x, context):
        x[:, 2] = context == 1

    with pytest.raises(InferenceError, match="'x2' is a linear function of context 'k0'"):
        JCIPC(alpha=0.05).estimate(NOTHING, small(indicator), None)


@pytest.mark.parametrize("counts", [(0, 40, 40), (0, 40, 40, 40), (0, 40)])
def test_indicators_that_add_to_one_do_not_stop_it(counts):
    found = JCIPC().estimate(NOTHING, small(counts=counts), None)
    # With two contexts both differ from the other, with three each is told from the rest, one has nothing beside it.
    expected = {2: [[1, 1], [1, 1]], 3: [[1, 0], [0, 1]], 1: [[0, 0]]}[len(counts) - 1]
    assert found.targets[: len(expected), :2].tolist() == expected


def test_too_few_rows_say_nothing_against_independence():
    found = JCIPC(alpha=0.5).estimate(NOTHING, small(counts=(2, 1)), None)
    assert not found.graph.any()


def test_a_search_without_end_is_refused():
    with pytest.raises(InferenceError, match="more than 5 independence tests"):
        JCIPC(max_tests=5).estimate(NOTHING, small(), None)


@pytest.mark.parametrize("choices", [{"alpha": 0.0}, {"alpha": 1.0}, {"max_tests": 0}, {"max_conditioning": -1}])
def test_senseless_choices_are_refused(choices):
    with pytest.raises(ConfigError):
        JCIPC(**choices)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "causallearn", None)
    with pytest.raises(ConfigError, match=r"causal-learn.*pip install 'bacadi\[baselines\]'"):
        JCIPC().check(small(), None)


def test_partial_correlations_are_those_of_residuals():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(40, 4)) @ rng.normal(size=(4, 4))
    test = PartialCorrelationTest(JointColumns(x, tuple("abcd"), np.zeros((0, 4))), 100)
    z = np.column_stack([np.ones(40), x[:, 2:]])
    residuals = x[:, :2] - z @ np.linalg.lstsq(z, x[:, :2], rcond=None)[0]
    r = np.corrcoef(residuals, rowvar=False)[0, 1]
    assert np.isclose(test._partial_correlation(0, 1, (2, 3)), r)
    # The two-sided normal tail of √(n - |S| - 3) atanh r.
    assert np.isclose(test(1, 0, (3, 2)), 2 * norm.sf(np.sqrt(35) * abs(np.arctanh(r))))


def test_the_nearest_dag_keeps_the_skeleton_and_what_it_can():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        edges = rng.random((6, 6)) < 0.4
        np.fill_diagonal(edges, False)
        found = nearest_dag(edges)
        assert is_acyclic(found)
        np.testing.assert_array_equal(skeleton(found), skeleton(edges))
    graph = erdos_renyi_dag(np.random.default_rng(0), 7)
    np.testing.assert_array_equal(nearest_dag(graph), graph)
