"""`evaluate` as a whole: all names, no gaps, any order, any scale, tasks in memory and from files."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from bacadi import metrics
from bacadi.config.codec import encode
from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.errors import DataError
from bacadi.graph.equivalence import cpdag, i_cpdag
from bacadi.metrics.evaluate import CLASS_PARAMETER, METRICS, descriptions, evaluate, metric
from bacadi.model.effects import SoftGaussian
from bacadi.model.integrated import BGe
from bacadi.model.model import Model
from bacadi.model.neural import NeuralGaussian
from bacadi.posterior import Posterior, weights
from bacadi.relaxed.density import Density
from bacadi.simulate import (
    GeneExpressionSpec,
    HeldOut,
    Interventions,
    NeuralTruth,
    RandomErdosRenyi,
    SyntheticSpec,
    simulate,
)
from bacadi.simulate.expression import HeldOutKnockOuts, KnockOuts
from bacadi.simulate.files import read_task, write_task
from bacadi.simulate.graphs import erdos_renyi_dag

SPEC = SyntheticSpec(n_variables=5, graph=RandomErdosRenyi(1), held_out=HeldOut(3, 10, 2))
TASK = simulate(SPEC, seed=1)
STRUCTURE = {
    "cyclic_share",
    "expected_sid",
    "expected_shd",
    "edge_average_precision",
    "edge_auprc",
    "edge_prevalence",
    "ancestral_average_precision",
    "ancestral_prevalence",
    "expected_ancestral_shd",
    "expected_class_shd",
    "consensus_class_shd",
}
TARGETS = {"target_average_precision", "target_auprc", "target_prevalence", "target_top_accuracy", "false_targets"}
CALIBRATION = {
    f"{what}_{name}"
    for what in ("edge", "target")
    for name in ("calibration_error", "brier", "brier_reliability", "brier_resolution", "brier_uncertainty")
}
LIKELIHOOD = {"interventional_nll", "predictive_nll", "interventional_nll_of_truth"}
EFFECT_MEANS = {"effect_mean_rmse", "effect_mean_coverage"}
ALL = STRUCTURE | TARGETS | CALIBRATION | LIKELIHOOD


def some_posterior(task, n=6, seed=0, **fields):
    """Draws around the truth: weighted graphs and targets of which some are right."""
    rng = np.random.default_rng(seed)
    d = task.data.n_variables
    graphs = np.stack([task.graph] * 2 + [erdos_renyi_dag(rng, d, 1) for _ in range(n - 2)])
    targets = np.stack([task.targets] * 3 + [rng.integers(0, 2, task.targets.shape) for _ in range(n - 3)])
    return Posterior.from_draws(task.data, graphs, targets, rng.normal(size=n), weights.posterior, **fields)


def with_linear_parameters(task, n=6):
    rng = np.random.default_rng(5)
    d, m = task.data.n_variables, task.data.n_contexts
    parameters = {
        "weight": Labelled(rng.normal(size=(n, d, d)), ("source", "target")),
        "noise_std": Labelled(rng.uniform(0.5, 1, (n, d)), ("node",)),
        "effect_mean": Labelled(rng.normal(size=(n, m, d)), ("context", "node")),
    }
    return some_posterior(task, n, parameters=parameters)


def test_without_parameters_the_maximum_likelihood_ones_are_taken():
    values = evaluate(some_posterior(TASK), TASK)
    assert set(values) == ALL | {"total_effect_rmse"}
    assert all(isinstance(value, float) and np.isfinite(value) for value in values.values())


def test_values_are_those_of_the_functions():
    posterior = with_linear_parameters(TASK)
    values = evaluate(posterior, TASK)
    assert set(values) == ALL | EFFECT_MEANS | {"total_effect_rmse"}
    graphs, weights = posterior.graph[0], posterior.weights[0]
    assert values["expected_sid"] == metrics.expected_sid(graphs, weights, TASK.graph)
    assert values["expected_shd"] == metrics.expected_shd(graphs, weights, TASK.graph)
    edges, targets = posterior.edge_probabilities(), posterior.target_probabilities()
    assert values["edge_average_precision"] == metrics.average_precision(edges, TASK.graph)
    assert values["edge_auprc"] == metrics.edge_auprc(edges, TASK.graph)
    assert values["target_auprc"] == metrics.target_auprc(targets, TASK.targets)
    assert values["target_average_precision"] == metrics.target_average_precision(targets, TASK.targets)
    forecasts = metrics.target_forecasts(targets, TASK.targets)
    assert values["target_brier"] == metrics.brier_score(forecasts).score
    assert values["interventional_nll"] >= values["predictive_nll"]
    truth = TASK.weights
    drawn = posterior.graph[0] * posterior.parameters["weight"].values[0]
    assert values["total_effect_rmse"] == metrics.total_effect_rmse(drawn, weights, truth)
    means = posterior.parameters["effect_mean"].values[0]
    error = metrics.effect_mean_error(
        means, posterior.intervention_target[0], weights, TASK.effects.shift, TASK.targets
    )
    assert values["effect_mean_rmse"] == pytest.approx(error.rmse)


def test_the_truth_is_best():
    values = evaluate(Posterior.from_draws(TASK.data, TASK.graph[None], TASK.targets[None]), TASK)
    best = {name: 0.0 for name in values if name.startswith("expected") or name.endswith(("error", "brier"))}
    best |= {
        "false_targets": 0.0,
        "cyclic_share": 0.0,
        "target_top_accuracy": 1.0,
        "edge_auprc": 1.0,
        "target_auprc": 1.0,
    }
    best |= {"ancestral_average_precision": 1.0, "edge_average_precision": 1.0, "target_average_precision": 1.0}
    assert {name: values[name] for name in best} == best
    assert values["total_effect_rmse"] < 0.1
    assert values["interventional_nll"] < evaluate(some_posterior(TASK), TASK)["interventional_nll"]


def test_names_decide_and_not_positions():
    posterior = with_linear_parameters(TASK)
    variables, contexts = [3, 1, 4, 0, 2], [4, 2, 0, 1, 3]
    data = TASK.data
    shuffled = ContextData(
        data.x[:, variables],
        np.append(0, 1 + np.argsort(contexts))[data.context],
        tuple(data.variables[i] for i in variables),
        tuple(data.contexts[k] for k in contexts),
        data.observational,
    )
    parameters = {
        "weight": posterior.parameters["weight"].values[0][:, variables][:, :, variables],
        "noise_std": posterior.parameters["noise_std"].values[0][:, variables],
        "effect_mean": posterior.parameters["effect_mean"].values[0][:, contexts][:, :, variables],
    }
    same = Posterior.from_draws(
        shuffled,
        posterior.graph[0][:, variables][:, :, variables],
        posterior.intervention_target[0][:, contexts][:, :, variables],
        posterior.sample_stats["log_posterior"].values[0],
        weights.posterior,
        parameters={name: Labelled(v, posterior.parameters[name].dims) for name, v in parameters.items()},
    )
    assert evaluate(same, TASK) == pytest.approx(evaluate(posterior, TASK))
    other = replace(posterior, variables=("a", *posterior.variables[1:]))
    with pytest.raises(DataError, match="same variables"):
        evaluate(other, TASK)


def test_the_scale_in_which_the_posterior_was_learned_does_not_matter():
    """Least squares is equivariant: on standardised data it predicts the same, and so do all other metrics."""
    plain = some_posterior(TASK)
    scaled = Posterior.from_draws(
        TASK.data.standardized(),
        plain.graph[0],
        plain.intervention_target[0],
        plain.sample_stats["log_posterior"][0][0],
        weights.posterior,
    )
    assert evaluate(scaled, TASK) == pytest.approx(evaluate(plain, TASK))


def test_a_table_of_standardised_data_is_in_the_scale_of_the_task(tmp_path):
    """A table does not tell that its columns were scaled; the posterior then says 'not scaled' and means the table."""
    task = simulate(replace(SPEC, standardize=True), seed=1)
    write_task(task, tmp_path)
    truth = read_task(tmp_path)
    table = ContextData(truth.data.x, task.data.context, task.data.variables, task.data.contexts, "obs")
    from_memory, drawn = with_linear_parameters(task), with_linear_parameters(replace(task, data=table))
    assert not np.allclose(from_memory.constant_data["scale"].values, 1)
    assert np.allclose(drawn.constant_data["scale"].values, 1)
    assert evaluate(drawn, truth) == pytest.approx(evaluate(from_memory, task))


@pytest.mark.parametrize("within", [False, True], ids=["units of the task", "standardised within contexts"])
@pytest.mark.parametrize("standardize", [False, True], ids=["plain", "standardised"])
def test_the_true_means_of_effects_have_no_error_in_any_units(standardize, within):
    """Nor have the true weights; and means off by δ have the error δ / scale in the units of the task."""
    task = simulate(replace(SPEC, standardize=standardize), seed=1)
    learned_from = task.data.standardized_within() if within else task.data
    scaling, (hit, scale) = learned_from.scaling, (task.targets == 1, task.data.scaling.scale)
    assert standardize != np.allclose(scale, 1) and within != np.allclose(scaling.scale, scale)
    off = np.arange(1.0, 1 + task.data.n_variables)
    for delta in (0 * off, off):
        # Where there is no target a mean means nothing; it must not count.
        means = np.where(hit, scaling.apply(task.effects.shift + delta), 77.0)
        weight = task.weights * scaling.scale[:, None] / scaling.scale
        parameters = {
            "weight": Labelled(weight[None], ("source", "target")),
            "effect_mean": Labelled(means[None], ("context", "node")),
        }
        posterior = Posterior.from_draws(learned_from, task.graph[None], task.targets[None], parameters=parameters)
        values = evaluate(posterior, task)
        wanted = np.sqrt(np.mean(np.broadcast_to(delta / scale, hit.shape)[hit] ** 2))
        assert values["effect_mean_rmse"] == pytest.approx(wanted, abs=1e-9)
        assert values["effect_mean_coverage"] == 1
        assert values["total_effect_rmse"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("mechanism", [NeuralTruth(), SPEC.mechanism])
def test_a_task_from_files_gives_what_the_task_gives(tmp_path, mechanism):
    task = simulate(replace(SPEC, mechanism=mechanism), seed=2)
    write_task(task, tmp_path)
    posterior = with_linear_parameters(task)
    values, stored = evaluate(posterior, task), evaluate(posterior, read_task(tmp_path))
    # The functions of a network are in no table, so its own likelihood cannot be said.
    missing = {"interventional_nll_of_truth"} if isinstance(mechanism, NeuralTruth) else set()
    assert set(values) - set(stored) == missing
    assert stored == pytest.approx({name: values[name] for name in stored})


def test_classes_are_scored_by_bounds_and_in_favour_of_the_method():
    guesses = np.stack([TASK.graph, erdos_renyi_dag(np.random.default_rng(3), 5, 1.5)])
    classes = np.stack([cpdag(guess) for guess in guesses])
    parameters = {CLASS_PARAMETER: Labelled(classes, ("source", "target"))}
    posterior = Posterior.from_draws(TASK.data, guesses, np.stack([TASK.targets] * 2), parameters=parameters)
    values = evaluate(posterior, TASK)
    bounds = [metrics.sid_bounds(pdag, TASK.graph) for pdag in classes]
    assert values["expected_sid_lower"] == pytest.approx(np.mean([b.lower for b in bounds]))
    assert values["expected_sid_upper"] == pytest.approx(np.mean([b.upper for b in bounds]))
    assert values["expected_sid"] == pytest.approx((values["expected_sid_lower"] + values["expected_sid_upper"]) / 2)
    wanted = i_cpdag(TASK.graph, TASK.targets)
    shd = [metrics.structural_hamming_distance(pdag, wanted) for pdag in classes]
    assert values["expected_shd"] == values["expected_class_shd"] == pytest.approx(np.mean(shd))
    favoured = metrics.favour_undirected(classes, TASK.graph).mean(axis=0)
    assert values["edge_average_precision"] == metrics.average_precision(favoured, TASK.graph)
    assert np.isfinite(values["interventional_nll"])


def test_cyclic_draws_are_counted_and_left_out():
    cyclic = np.ones((5, 5), dtype=int) - np.eye(5, dtype=int)
    posterior = Posterior.from_draws(TASK.data, np.stack([TASK.graph, cyclic]), np.stack([TASK.targets] * 2))
    values = evaluate(posterior, TASK)
    assert values["cyclic_share"] == 0.5
    assert values["expected_sid"] == values["expected_shd"] == 0


def test_what_is_not_defined_is_left_out():
    """No true edge, no context, no held-out row, one variable."""
    empty = simulate(
        SyntheticSpec(3, RandomErdosRenyi(0), interventions=Interventions(n_contexts=0), held_out=HeldOut(0, 0, 0)),
        seed=0,
    )
    posterior = Posterior.from_draws(empty.data, np.zeros((1, 3, 3)), np.zeros((1, 0, 3)))
    values = evaluate(posterior, empty)
    assert not any(name.startswith("target") or "nll" in name or "precision" in name for name in values)
    assert values["expected_shd"] == values["edge_prevalence"] == 0
    single = simulate(SyntheticSpec(1, RandomErdosRenyi(0), held_out=HeldOut(1, 5, 1)), seed=0)
    values = evaluate(Posterior.from_draws(single.data, np.zeros((1, 1, 1)), single.targets[None]), single)
    assert values["expected_sid"] == 0 and np.isfinite(values["interventional_nll"])
    assert not any(name.startswith("edge") for name in values)


def test_weights_without_noise_have_no_likelihood_and_other_names_are_refused():
    posterior = with_linear_parameters(TASK)
    parameters = {name: value for name, value in posterior.parameters.items() if name != "noise_std"}
    values = evaluate(replace(posterior, parameters=parameters), TASK)
    assert "total_effect_rmse" in values and not any("nll" in name for name in values)
    with pytest.raises(DataError, match="same contexts"):
        evaluate(replace(posterior, contexts=("other", *posterior.contexts[1:])), TASK)


def test_gene_expression_has_a_likelihood_of_the_genes_that_are_not_knocked_out():
    spec = GeneExpressionSpec(6, knock_outs=KnockOuts(3), held_out=HeldOutKnockOuts(2, rows_per_context=5))
    task = simulate(spec, seed=0)
    posterior = Posterior.from_draws(task.data, task.graph[None], task.targets[None])
    values = evaluate(posterior, task)
    assert set(values) == ALL - {"interventional_nll_of_truth"}
    assert all(np.isfinite(value) for value in values.values())


def test_a_metric_of_ones_own_is_a_function_in_one_place():
    @metric(share_of_draws_right="1 is best; asks for whole graphs")
    def share_of_draws_right(comparison):
        return float(comparison.weights @ (comparison.graphs == comparison.task.graph).all(axis=(1, 2)))

    @metric(known="told")
    def forgetful(comparison):
        return {"untold": 1.0}

    try:
        with pytest.raises(KeyError, match="forgetful gives untold"):
            evaluate(some_posterior(TASK), TASK)
        del METRICS[forgetful]
        posterior = some_posterior(TASK)
        assert evaluate(posterior, TASK)["share_of_draws_right"] == pytest.approx(posterior.weights[0, :2].sum())
        assert descriptions()["share_of_draws_right"].startswith("1 is best")
    finally:
        del METRICS[share_of_draws_right]


@pytest.mark.parametrize(
    ("model", "extra"),
    [
        (Model.preset("paper"), EFFECT_MEANS | {"total_effect_rmse"}),
        (Model(mechanism=NeuralGaussian(hidden=(2,)), effect=SoftGaussian()), set()),
        (Model(mechanism=BGe()), EFFECT_MEANS),
    ],
    ids=["linear", "neural", "marginal"],
)
def test_a_posterior_of_each_model_and_its_file_are_evaluated_alike(tmp_path, model, extra):
    """What `fit` stores, but for the graphs: parameters under their names and the configuration of the model."""
    n, (d, m) = 6, (TASK.data.n_variables, TASK.data.n_contexts)
    density, stacked = Density.of(model, TASK.data), []
    for key in jax.random.split(jax.random.key(0), n):
        particle = density.init(key)
        named = density.effect.labelled(particle.theta_int)
        stacked.append(named | (model.mechanism.labelled(particle.theta) if density.has_parameters else {}))
    parameters = {
        name: Labelled(np.stack([np.asarray(one[name].values) for one in stacked]), item.dims)
        for name, item in stacked[0].items()
    }
    posterior = some_posterior(TASK, n, parameters=parameters, attrs={"configuration": {"model": encode(model)}})
    assert posterior.graph.shape == (1, n, d, d) and posterior.intervention_target.shape == (1, n, m, d)
    posterior.save(tmp_path / "posterior.nc")
    values = evaluate(posterior, TASK)
    assert set(values) == ALL | extra
    assert evaluate(Posterior.load(tmp_path / "posterior.nc"), TASK) == pytest.approx(values)
