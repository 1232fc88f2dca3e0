"""Marginals, expectations, tables and graphs of a posterior."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError, InferenceError
from bacadi.graph.dag import is_acyclic
from bacadi.posterior import Posterior, weights
from bacadi.posterior.summaries import consensus, distinct_graphs

from ..small import EDGE_COLUMNS, TARGET_COLUMNS

CYCLE = np.array([[0, 1], [1, 0]])
EDGE = np.array([[0, 1], [0, 0]])
EMPTY = np.zeros((2, 2), dtype=int)


def two_variables(graphs, log_p=None, targets=None, **fields) -> Posterior:
    data = ContextData(np.zeros((3, 2)), np.array([0, 1, 1]), ("a", "b"), ("k",), "obs")
    targets = np.zeros((len(graphs), 1, 2)) if targets is None else targets
    return Posterior.from_draws(data, np.stack(graphs), targets, log_p, weights.posterior, **fields)


def permuted(posterior: Posterior, order: np.ndarray) -> Posterior:
    graph = posterior.graph[..., order, :][..., order]
    names = tuple(posterior.variables[i] for i in order)
    target = posterior.intervention_target[..., order]
    return Posterior(graph, target, posterior.log_weight, names, posterior.contexts)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_renaming_variables_permutes_every_statement(make_posterior, seed):
    rng = np.random.default_rng(seed)
    posterior = make_posterior(rng, d=5)
    order = rng.permutation(5)
    other = permuted(posterior, order)
    np.testing.assert_allclose(other.edge_probabilities(), posterior.edge_probabilities()[np.ix_(order, order)])
    np.testing.assert_allclose(other.target_probabilities(), posterior.target_probabilities()[:, order])
    np.testing.assert_array_equal(other.consensus_graph(0.3), posterior.consensus_graph(0.3)[np.ix_(order, order)])
    best = posterior.distinct_graphs()
    np.testing.assert_allclose(other.distinct_graphs().probability, best.probability)


def test_expect_is_the_direct_sum_for_numbers_arrays_and_trees(posterior):
    class Pair(NamedTuple):
        first: object
        second: object

    def f(draw):
        weight = draw.parameters["weight"]
        return {"n": draw.graph.sum(), "both": Pair(draw.targets, [weight, (draw.graph.any(), None)])}

    result = posterior.expect(f)
    w = posterior.weights
    assert result["n"] == pytest.approx((w * posterior.graph.sum(axis=(2, 3))).sum())
    assert isinstance(result["n"], float)
    assert isinstance(result["both"], Pair)
    np.testing.assert_allclose(result["both"].first, posterior.target_probabilities())
    direct = (w[..., None, None] * posterior.parameters["weight"].values).sum(axis=(0, 1))
    np.testing.assert_allclose(result["both"].second[0], direct)
    assert result["both"].second[1][1] is None
    np.testing.assert_allclose(posterior.expect(lambda draw: draw.graph), posterior.edge_probabilities())


def test_expect_never_calls_the_function_on_a_draw_that_is_left_out():
    posterior = two_variables([EDGE, CYCLE])

    def f(draw):
        assert is_acyclic(draw.graph)
        return np.inf if draw.graph[1, 0] else 1.0

    assert posterior.expect(f) == 1.0


def test_cyclic_draws_are_counted_and_have_no_weight():
    posterior = two_variables([EDGE, CYCLE, EMPTY], np.array([0.0, 50.0, np.log(3)]))
    np.testing.assert_allclose(posterior.weights, [[0.25, 0, 0.75]])
    assert posterior.n_cyclic == posterior.attrs["n_cyclic"] == 1
    assert posterior.sample_stats["acyclic"].values.tolist() == [[True, False, True]]
    assert posterior.edge_probabilities()[1, 0] == 0
    assert posterior.reweighted(weights.posterior, np.zeros((1, 3))).weights.tolist() == [[0.5, 0, 0.5]]


def test_the_log_posterior_of_draws_does_not_say_how_to_weight_them():
    data = ContextData(np.zeros((2, 2)), np.array([0, 1]), ("a", "b"), ("k",), "obs")
    draws = (np.stack([EDGE, EMPTY]), np.zeros((2, 1, 2)))
    assert Posterior.from_draws(data, *draws).weights.tolist() == [[0.5, 0.5]]
    with pytest.raises(TypeError, match=r"weights\.uniform for MCMC"):
        Posterior.from_draws(data, *draws, np.array([0.0, 1.0]))


def test_no_acyclic_draw_is_an_error_with_a_remedy():
    with pytest.raises(InferenceError, match=r"None of the 2 draws.*more steps.*beta.*more particles"):
        two_variables([CYCLE, CYCLE])


def test_other_weights_start_from_the_log_posterior_of_the_draws(posterior):
    log_p = posterior.sample_stats["log_posterior"].values
    np.testing.assert_allclose(posterior.tempered(2.0).log_weight, weights.tempered(log_p, 2.0))
    uniform = posterior.reweighted(weighting=weights.uniform)
    assert uniform.effective_sample_size == pytest.approx(posterior.n_draws)
    np.testing.assert_allclose(uniform.reweighted(weights.posterior).log_weight, posterior.log_weight)
    assert posterior.tempered().effective_sample_size >= posterior.n_draws / 2 - 1e-9
    with pytest.raises(ConfigError, match="log_p"):
        replace(posterior, sample_stats={}).reweighted(weights.posterior)


def test_tables_have_every_pair_sorted_by_probability_then_name(posterior):
    edges, targets = posterior.edges(), posterior.targets()
    assert tuple(edges.columns) == EDGE_COLUMNS and len(edges) == 12
    assert tuple(targets.columns) == TARGET_COLUMNS and len(targets) == 12
    key = [(-p, s, t) for s, t, p, *_ in edges.itertuples(index=False)]
    assert key == sorted(key)
    at = {name: i for i, name in enumerate(posterior.variables)}
    p = posterior.edge_probabilities()
    for source, target, probability, given_adjacent, *_ in edges.itertuples(index=False):
        i, j = at[source], at[target]
        assert probability == p[i, j]
        assert given_adjacent == pytest.approx(p[i, j] / (p[i, j] + p[j, i]))


def test_no_context_gives_empty_target_tables(make_posterior):
    posterior = make_posterior(np.random.default_rng(1), m=0)
    assert posterior.target_probabilities().shape == (0, 4)
    assert tuple(posterior.targets().columns) == TARGET_COLUMNS
    assert len(posterior.targets()) == len(posterior.effects()) == 0
    assert "no context" in posterior.describe()


def test_parameter_table_describes_an_edge_by_the_draws_that_have_it():
    values = np.array([[[0, 1.0], [9, 9]], [[0, 3.0], [9, 9]], [[0, np.nan], [9, 9]]])
    parameters = {"weight": Labelled(values, ("source", "target"))}
    posterior = two_variables([EDGE, EDGE, EMPTY], np.log([0.3, 0.1, 0.6]), parameters=parameters)
    table = posterior.parameter_table("weight").set_index(["source", "target"])
    row = table.loc[("a", "b")]
    # By hand: weights 3/4 and 1/4 on 1 and 3; mean 1.5, variance 3/4 * 1/4 + 1/4 * 9/4 = 3/4.
    np.testing.assert_allclose(row, [0.4, 1.5, np.sqrt(0.75), 1.0, 3.0])
    assert table.loc[("b", "a"), "probability"] == 0
    assert table.loc[("b", "a")].drop("probability").isna().all()


def test_parameter_table_follows_the_names_of_the_axes(posterior):
    swapped = np.swapaxes(posterior.parameters["weight"].values, 2, 3)
    other = replace(posterior, parameters={"weight": Labelled(swapped, ("target", "source"))})
    index = ["source", "target"]
    left = posterior.parameter_table("weight").set_index(index).sort_index()
    right = other.parameter_table("weight").set_index(index).sort_index()
    np.testing.assert_allclose(left, right[left.columns])
    layer = posterior.parameter_table("layer")
    assert list(layer.columns[:2]) == ["hidden", "variable"] and (layer["probability"] == 1).all()


def test_effects_are_described_given_the_target(posterior):
    table = posterior.effects().set_index(["context", "variable"])
    assert set(table["parameter"]) == {"effect_mean"}
    hit = posterior.intervention_target[..., 1, 2] * posterior.weights
    expected = (hit * posterior.parameters["effect_mean"].values[..., 1, 2]).sum() / hit.sum()
    assert table.loc[("k1", "v2"), "mean"] == pytest.approx(expected)
    assert table.loc[("k1", "v2"), "probability"] == pytest.approx(posterior.target_probabilities()[1, 2])


def test_unknown_parameter_is_named_with_those_that_exist(posterior):
    with pytest.raises(ConfigError, match=r"'wieght'.*effect_mean, layer, noise_std, weight"):
        posterior.parameter_table("wieght")


def test_most_probable_graph_adds_the_weight_of_equal_graphs_and_breaks_ties_by_sparsity():
    posterior = two_variables([EDGE, EMPTY, EMPTY], np.log([0.4, 0.3, 0.3]))
    np.testing.assert_array_equal(posterior.most_probable_graph(), EMPTY)
    assert posterior.graphs_table().iloc[0].tolist() == [pytest.approx(0.6), 2, 0, ""]
    assert posterior.graphs_table(5).iloc[1].tolist() == [pytest.approx(0.4), 1, 1, "a -> b"]
    assert len(posterior.graphs_table(1)) == 1
    np.testing.assert_array_equal(two_variables([EDGE, EMPTY]).most_probable_graph(), EMPTY)
    np.testing.assert_array_equal(two_variables([EMPTY, EDGE]).most_probable_graph(), EMPTY)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 0.9))
def test_consensus_keeps_what_its_docstring_states(seed, threshold):
    rng = np.random.default_rng(seed)
    p = rng.random((6, 6)) * (1 - np.eye(6))
    graph = consensus(p, threshold, tuple("abcdefgh"[: len(p)]))
    assert is_acyclic(graph)
    assert (p[graph == 1] > threshold).all()
    for i, j in np.argwhere((p > threshold) & (graph == 0)):
        at_least = np.where(p >= p[i, j], graph, 0)
        at_least[i, j] = 1
        assert not is_acyclic(at_least)
    if is_acyclic(p > threshold):
        np.testing.assert_array_equal(graph, p > threshold)


def test_consensus_of_acyclic_draws_needs_no_repair_at_a_high_threshold(make_posterior):
    for seed in range(10):
        posterior = make_posterior(np.random.default_rng(seed), d=4)
        np.testing.assert_array_equal(posterior.consensus_graph(0.75), posterior.edge_probabilities() > 0.75)
    with pytest.raises(ConfigError, match="threshold"):
        posterior.consensus_graph(1.5)


def test_distinct_graphs_match_a_dictionary(make_posterior):
    posterior = make_posterior(np.random.default_rng(5), d=3, shape=(1, 200))
    found = posterior.distinct_graphs()
    totals: dict[bytes, float] = {}
    for weight, draw in posterior.draws():
        totals[draw.graph.tobytes()] = totals.get(draw.graph.tobytes(), 0) + weight
    assert {g.tobytes(): pytest.approx(p) for g, p, _ in zip(*found, strict=True)} == totals
    assert found.draws.sum() == 200 and (np.diff(found.probability) <= 1e-12).all()
    assert len(distinct_graphs(posterior.graph[0], np.eye(200)[0]).graphs) == 1


def test_data_give_names_sizes_and_scaling():
    posterior = two_variables([EDGE])
    assert posterior.constant_data["n_rows"].values.tolist() == [1, 2]
    assert posterior.constant_data["scale"].values.tolist() == [1, 1]
    assert posterior.observational == "obs" and posterior.attrs["version"]


def test_description_names_the_numbers_that_matter():
    targets = np.array([[[1, 0]], [[1, 1]], [[1, 0]]])
    text = two_variables([EDGE, EDGE, CYCLE], targets=targets).describe()
    assert "3 draws, effective sample size of their weights 2.0, 1 cyclic" in text
    assert "1 edges with probability above 0.5, 0 uncertain" in text
    assert "k: a (1.00)" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log_weight": np.zeros((2, 7))}, "add to 1"),
        ({"log_weight": np.full((2, 7), np.nan)}, "add to 1"),
        ({"variables": ("a", "b")}, "graph"),
        ({"variables": ("a", "a", "b", "c")}, "twice"),
        ({"graph": np.full((2, 7, 4, 4), 2, np.int8)}, "neither 0 nor 1"),
        ({"parameters": {"weight": Labelled(np.zeros((2, 7, 3)), ("node",))}}, "'node' has 3"),
        ({"parameters": {"weight": Labelled(np.zeros(4), ("node",))}}, "does not have the axes"),
        ({"parameters": {"graph": Labelled(np.zeros((2, 7)))}}, "field of its own"),
        ({"parameters": {"x": Labelled(np.zeros((2, 7, 4, 4)), ("node", "node"))}}, "repeat"),
        ({"parameters": {"x": Labelled(np.zeros((2, 7, 4)), ("variable",))}}, "reserved.*'node'"),
        ({"parameters": {"context": Labelled(np.zeros((2, 7)))}}, "names no axis"),
        ({"sample_stats": {"names": Labelled(np.array(["a"]), ("step",))}}, "no number"),
        ({"constant_data": {"x": Labelled(np.zeros((2, 7)))}}, "constant"),
    ],
)
def test_constructor_checks_and_changes_nothing(posterior, change, message):
    with pytest.raises(ValueError, match=message):
        replace(posterior, **change)
