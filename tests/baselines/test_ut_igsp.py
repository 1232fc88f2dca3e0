"""UT-IGSP: its search against oracles, enumeration and another implementation, and what it makes of degenerate data."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from bacadi.baselines.ci import (
    GaussianTests,
    mask_of,
    members,
)
from bacadi.baselines.ut_igsp import UTIGSP, PermutationSearch, adjacency, changed_mechanisms, minimum_degree_order
from bacadi.errors import ConfigError, DataError
from bacadi.graph.dag import is_acyclic
from bacadi.graph.equivalence import i_cpdag
from bacadi.simulate import RandomErdosRenyi, SyntheticSpec, simulate
from bacadi.simulate.graphs import erdos_renyi_dag
from bacadi.simulate.synthetic import Interventions

from .igsp_tasks import ALPHA, ALPHA_INV, N_TASKS, our_search, reference_task, table

GOLDEN = json.loads((Path(__file__).parent / "golden_ut_igsp.json").read_text())["results"]


class Oracle:
    """Perfect tests: d-separation in the true graph with one node a context, which points at the context's targets."""

    def __init__(self, graph, targets):
        self.n_variables, self.most_given = len(graph), len(graph)
        self.graph = nx.from_numpy_array(graph, create_using=nx.DiGraph)
        self.n_contexts = len(targets)
        self.graph.add_nodes_from(f"context {k}" for k in range(self.n_contexts))
        self.graph.add_edges_from((f"context {k}", int(i)) for k, i in np.argwhere(targets))

    def independent(self, i, j, given):
        return nx.is_d_separator(self.graph, {i}, {j}, set(members(given).tolist()))

    def changed(self, node, given):
        apart = [
            nx.is_d_separator(self.graph, {f"context {k}"}, {node}, set(members(given).tolist()))
            for k in range(self.n_contexts)
        ]
        return mask_of(~np.array(apart, dtype=bool))


def plenty(seed, d=8, n_targets=1):
    interventions = Interventions(n_contexts=d, targets_per_context=n_targets, rows_per_context=2000)
    return simulate(SyntheticSpec(n_variables=d, interventions=interventions, n_observational=20_000), seed=seed)


# The search


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_with_perfect_tests_every_start_finds_the_class_of_the_truth(seed, known):
    """Consistency (Squires et al. 2020) from single random starts, without a limit on the depth that matters."""
    rng = np.random.default_rng(seed)
    graph = erdos_renyi_dag(rng, 6, edges_per_node=1.5)
    targets = np.eye(6, dtype=np.int8)[rng.permutation(6)[: seed % 4]]
    given = targets.astype(float) if known else np.full(targets.shape, np.nan)
    oracle = Oracle(graph, targets)
    found = UTIGSP(n_starts=1, depth=30, minimum_degree=seed % 2 == 0).search(rng, oracle, given)
    changed = changed_mechanisms(oracle, found.parents, len(targets))
    np.testing.assert_array_equal(changed, targets)
    np.testing.assert_array_equal(i_cpdag(adjacency(found.parents), changed), i_cpdag(graph, targets))


@pytest.mark.parametrize("seed", range(6))
def test_no_order_has_a_better_minimal_imap(seed):
    """All 24 orders of four variables, I-maps and scores written out here."""
    rng = np.random.default_rng(seed)
    task = simulate(SyntheticSpec(n_variables=4, graph=RandomErdosRenyi(1), n_observational=40), seed=seed)
    tests = GaussianTests(task.data, 1e-2, 1e-2)
    best = float("inf")
    for order in itertools.permutations(range(4)):
        total = 0
        for place, node in enumerate(order):
            before = set(order[:place])
            parents = [i for i in before if not tests.independent(i, node, sum(1 << j for j in before - {i}))]
            total += len(parents) + tests.changed(node, sum(1 << i for i in parents)).bit_count()
        best = min(best, total)
    found = UTIGSP(n_starts=300).search(rng, tests, np.full((4, 4), np.nan))
    assert found.edges + found.changes <= best


@pytest.mark.parametrize("score", ["edges first", "sum"])
def test_search_finds_the_graphs_of_another_implementation(score):
    """graphical-model-learning 0.1a8 given our tests and the same orders (golden_ut_igsp.json): all thirty alike."""
    for seed, golden in enumerate(GOLDEN[f"package search, {score}"]):
        task = reference_task(seed)
        tests = GaussianTests(task.data, ALPHA, ALPHA_INV)
        found = our_search(task, tests, edges_first=score == "edges first")
        assert list(found.parents) == golden["parents"]
        targets = changed_mechanisms(tests, found.parents, len(task.targets))
        assert [mask_of(row == 1) for row in targets] == golden["targets"]


def test_whole_method_beside_another_implementation():
    """The package with its own tests (golden file): all graphs alike but for its I-maps, and 98 % of the targets."""
    same, alike, as_it_is = 0, [], 0
    for seed in range(N_TASKS):
        task = reference_task(seed)
        tests = GaussianTests(task.data, ALPHA, ALPHA_INV)
        found = our_search(task, tests, edges_first=True)
        golden = GOLDEN["package, I-map by definition"][seed]
        same += list(found.parents) == golden["parents"]
        as_it_is += list(found.parents) == GOLDEN["package"][seed]["parents"]
        theirs = np.array([[mask >> i & 1 for i in range(len(task.graph))] for mask in golden["targets"]])
        alike.append((changed_mechanisms(tests, found.parents, len(task.targets)) == theirs).mean())
    assert (same, as_it_is) == (N_TASKS, 23)
    assert np.mean(alike) > 0.98


def test_scores_of_neighbours_are_those_of_a_full_count():
    task = reference_task(4)
    rules = PermutationSearch(GaussianTests(task.data, ALPHA, ALPHA_INV), task.targets == 1, edges_first=False)
    found = rules.imap(task.orders[0])
    nearby = list(rules._neighbours(found))
    assert nearby
    for other in nearby:
        assert other == rules.scored(other.parents)
        assert is_acyclic(adjacency(other.parents))


def test_minimum_degree_order_keeps_a_tree_sparse():
    star = np.zeros((6, 6), dtype=np.int8)
    star[0, 1:] = 1
    oracle = Oracle(star, np.zeros((0, 6)))
    order = minimum_degree_order(np.random.default_rng(0), oracle)
    rules = PermutationSearch(oracle, np.zeros((0, 6), dtype=bool), edges_first=False)
    assert sorted(order) == list(range(6))
    assert rules.imap(order).edges == 5


# The method


@pytest.mark.parametrize(("seed", "n_targets"), [(0, 1), (1, 1), (2, 2), (3, 2)])
def test_with_many_rows_the_class_of_the_truth_is_found(seed, n_targets):
    task = plenty(seed, n_targets=n_targets)
    found = UTIGSP(alpha=1e-6, alpha_inv=1e-6).estimate(np.random.default_rng(0), task.data, None)
    np.testing.assert_array_equal(found.targets, task.targets)
    np.testing.assert_array_equal(found.graph, i_cpdag(task.graph, task.targets))


def test_known_targets_are_reported_and_an_edge_they_settle_is_not_reversed():
    """x0 -> x1 with a context known to act on x0 that leaves x1 given x0 as it was."""
    rng = np.random.default_rng(0)
    context = np.repeat([0, 1], 500)
    x = rng.normal(size=(1000, 2))
    x[context == 1, 0] += 3
    x[:, 1] += x[:, 0]
    data, known = table(x, context), np.array([[1.0, 0.0]])
    np.testing.assert_array_equal(UTIGSP().estimate(rng, data, known).targets, [[1, 0]])
    tests = GaussianTests(data, 1e-3, 1e-4)
    for targets, n_moves in ((known == 1, 0), (np.zeros((1, 2), dtype=bool), 1)):
        rules = PermutationSearch(tests, targets, edges_first=False)
        assert len(list(rules._neighbours(rules.imap([0, 1])))) == n_moves


def test_partly_known_targets_bind_where_they_are_known():
    task = simulate(SyntheticSpec(n_variables=6), seed=0)
    known = np.full((6, 6), np.nan)
    known[0, 3], known[1, 1], known[2, 2] = 1, 0, 1
    found = UTIGSP(n_starts=20).estimate(np.random.default_rng(0), task.data, known)
    assert (found.targets[0, 3], found.targets[1, 1], found.targets[2, 2]) == (1, 0, 1)


def test_same_seed_same_result():
    task = simulate(SyntheticSpec(n_variables=10), seed=3)
    first, second = (UTIGSP(n_starts=20).estimate(np.random.default_rng(7), task.data, None) for _ in range(2))
    np.testing.assert_array_equal(first.graph, second.graph)
    np.testing.assert_array_equal(first.targets, second.targets)


def test_scale_and_origin_of_a_column_change_nothing():
    task = simulate(SyntheticSpec(n_variables=8), seed=3)
    moved = replace(task.data, x=task.data.x * np.logspace(-4, 4, 8) + np.arange(8))
    first, second = (UTIGSP(n_starts=20).estimate(np.random.default_rng(0), data, None) for data in (task.data, moved))
    np.testing.assert_array_equal(first.graph, second.graph)
    np.testing.assert_array_equal(first.targets, second.targets)


# Input that other implementations stop at


def degenerate(name):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 6))
    x[:, 1] += x[:, 0]
    context = np.repeat(np.arange(4), [30, 10, 10, 10])
    if name == "constant column":
        x[:, 2] = 7.0
    elif name == "all constant":
        x[:] = 1.0
    elif name == "duplicated column":
        x[:, 3] = x[:, 0]
    elif name == "column that is a sum":
        x[:, 4] = x[:, 0] + x[:, 1] - x[:, 2]
    elif name == "knock-out to exactly zero":
        x[context == 1, 0] = 0.0
    elif name == "rows repeated by the bootstrap":
        x[context == 2] = x[np.flatnonzero(context == 2)[[0, 0, 0, 1, 1, 1, 1, 1, 0, 0]]]
    elif name == "contexts of one row":
        x, context = x[[*range(30), 30, 40, 50]], np.array([0] * 30 + [1, 2, 3])
    elif name == "more variables than observational rows":
        x, context = x[25:], context[25:]
    elif name == "one observational row":
        x, context = x[29:], context[29:]
    return table(x, context, 3)


CASES = (
    "constant column",
    "all constant",
    "duplicated column",
    "column that is a sum",
    "knock-out to exactly zero",
    "rows repeated by the bootstrap",
    "contexts of one row",
    "more variables than observational rows",
    "one observational row",
)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_degenerate_data_have_an_answer(name, published):
    method = UTIGSP.published() if published else UTIGSP(n_starts=20)
    found = method.estimate(np.random.default_rng(0), degenerate(name), None)
    assert found.graph.shape == (6, 6)
    assert found.targets.shape == (3, 6)
    assert not np.diag(found.graph).any()


def test_what_degenerate_columns_mean():
    """A constant column has no edge and no change, copies are joined, a knock-out to zero is a change."""
    method, rng = UTIGSP(n_starts=50), np.random.default_rng(0)
    constant = method.estimate(rng, degenerate("constant column"), None)
    assert not constant.graph[2].any()
    assert not constant.graph[:, 2].any()
    assert not constant.targets[:, 2].any()
    copies = method.estimate(rng, degenerate("duplicated column"), None)
    assert copies.graph[0, 3] or copies.graph[3, 0]
    assert method.estimate(rng, degenerate("knock-out to exactly zero"), None).targets[0, 0] == 1


def test_few_observational_rows_still_give_the_strong_edge():
    """Five rows cannot condition on ten variables; the first graph is then grown from the pairs they can tell."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 20))
    x[:, 1] = x[:, 0] + 0.001 * x[:, 1]
    found = UTIGSP(n_starts=20, alpha=0.001).estimate(rng, table(x, np.repeat([0, 1], [8, 4])), None)
    assert found.graph[0, 1] or found.graph[1, 0]


@pytest.mark.parametrize(("n_variables", "n_contexts"), [(1, 1), (3, 0)])
def test_smallest_problems(n_variables, n_contexts):
    rng = np.random.default_rng(0)
    data = table(rng.normal(size=(20, n_variables)), np.arange(20) % (n_contexts + 1), n_contexts)
    found = UTIGSP(n_starts=3).estimate(rng, data, None)
    assert found.targets.shape == (n_contexts, n_variables)


def test_errors_say_what_to_do():
    rng = np.random.default_rng(0)
    with pytest.raises(DataError, match="observational"):
        UTIGSP().estimate(rng, table(rng.normal(size=(10, 2)), np.repeat([1, 2], 5)), None)
    with pytest.raises(DataError, match="'c2' has no row"):
        UTIGSP().estimate(rng, table(rng.normal(size=(10, 2)), np.repeat([0, 1], 5), 2), None)
    with pytest.raises(ConfigError, match=r"alpha_inv is 1\.5"):
        UTIGSP(alpha_inv=1.5)
    with pytest.raises(ConfigError, match="n_starts is 0; give a whole number of at least 1"):
        UTIGSP(n_starts=0)


def test_relaxed_halves_alpha():
    assert UTIGSP(alpha=0.02).relaxed() == UTIGSP(alpha=0.01)
