"""A posterior brought into the order and the scale of a task: names decide, not positions.

What `evaluate` says about numbers rather than structure: held-out likelihood, total effects, means of effects.

`evaluate`: all yardsticks that apply to a posterior, given the task whose data it was learned from.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from bacadi.data.contexts import ContextData, Scaling
from bacadi.data.labelled import Labelled
from bacadi.errors import DataError
from bacadi.graph import i_cpdag, transitive_closure
from bacadi.metrics import ranking
from bacadi.metrics.calibration import (
    Forecasts,
    brier_score,
    edge_forecasts,
    expected_calibration_error,
    target_forecasts,
)
from bacadi.metrics.classes import expected_sid_bounds, favour_undirected
from bacadi.metrics.effects import effect_mean_error, total_effect_rmse
from bacadi.metrics.likelihood import (
    AbstractDensity,
    LinearDensity,
    MaximumLikelihood,
    NetworkDensity,
    density_of,
    effect_log_density,
    interventional_nll,
    log_normal,
    log_rows,
    predictive_nll,
    untargeted,
)
from bacadi.metrics.structure import ancestor_probabilities, expected_ancestral_shd, expected_shd, expected_sid
from bacadi.posterior.posterior import Posterior
from bacadi.simulate.files import Truth
from bacadi.simulate.synthetic import CausalNetwork, Effects, LinearFunctions
from bacadi.simulate.task import Task


def aligned(posterior: Posterior, data: ContextData) -> Posterior:
    """The posterior with variables and contexts in the order of `data`, which has to hold the same names.

    >>> graph = np.array([[[[0, 1], [0, 0]]]], dtype=np.int8)
    >>> posterior = Posterior(graph, np.zeros((1, 1, 0, 2), np.int8), np.zeros((1, 1)), ("b", "a"), ())
    >>> aligned(posterior, ContextData(np.zeros((1, 2)), np.zeros(1, int), ("a", "b"), (), "obs")).graph.tolist()
    [[[[0, 0], [1, 0]]]]
    """
    if (posterior.variables, posterior.contexts) == (data.variables, data.contexts):
        return posterior
    variables = _order("variables", posterior.variables, data.variables)
    contexts = _order("contexts", posterior.contexts, data.contexts)
    orders = {"source": variables, "target": variables, "node": variables, "context": contexts}
    parameters, sample_stats, constant_data = (
        {name: _reordered(value, orders) for name, value in group.items()}
        for group in (posterior.parameters, posterior.sample_stats, posterior.constant_data)
    )
    return replace(
        posterior,
        graph=posterior.graph[:, :, variables][:, :, :, variables],
        intervention_target=posterior.intervention_target[:, :, contexts][:, :, :, variables],
        variables=data.variables,
        contexts=data.contexts,
        parameters=parameters,
        sample_stats=sample_stats,
        constant_data=constant_data,
    )


@dataclass(frozen=True)
class Scales:
    """The scale in which a posterior's parameters are, seen from that of a task: posterior = (task - shift) / scale."""

    shift: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]

    @classmethod
    def of(cls, posterior: Posterior, data: ContextData) -> "Scales":
        """Read off the scaling stored with the posterior.

        Data in memory carry the scaling since they were drawn, a table does not; a posterior whose scaling is the
        identity is therefore taken to be in the scale of the task's data as they stand.
        """
        same = cls(np.zeros(data.n_variables), np.ones(data.n_variables))
        stored = posterior.constant_data
        if "shift" not in stored or "scale" not in stored:
            return same
        own = Scaling(stored["shift"].values, stored["scale"].values)
        if np.allclose(own.shift, 0) and np.allclose(own.scale, 1):
            return same
        task = data.scaling
        return cls((own.shift - task.shift) / task.scale, own.scale / task.scale)

    def data(self, data: ContextData) -> ContextData:
        """The data of a task in the scale of the posterior."""
        return replace(data, x=(data.x - self.shift) / self.scale)

    def weights(self, weights: Float[np.ndarray, "*batch d d"]) -> Float[np.ndarray, "*batch d d"]:
        """Linear weights of the posterior in the scale of the task: w_ij · scale_j / scale_i."""
        return weights * self.scale / self.scale[:, None]


def _order(what: str, have: tuple[str, ...], wanted: tuple[str, ...]) -> list[int]:
    if set(have) != set(wanted):
        other = sorted(set(have) ^ set(wanted))[0]
        raise DataError(
            f"Posterior and task do not have the same {what} ('{other}' is in only one of them); "
            "give the task whose data the posterior was fitted to."
        )
    return [have.index(name) for name in wanted]


def _reordered(parameter: Labelled, orders: dict[str, list[int]]) -> Labelled:
    values, dims = parameter
    for axis, name in enumerate(dims, start=values.ndim - len(dims)):
        if name in orders:
            values = np.take(values, orders[name], axis=axis)
    return Labelled(values, dims)


def held_out_likelihood(posterior: Posterior, task: Task | Truth) -> dict[str, float]:
    """`interventional_nll`, `predictive_nll` and `interventional_nll_of_truth` in the scale of the task's data.

    The posterior has to name variables and contexts in the order of the task. Where the mechanism is not known to this
    package or its noise is stored nowhere, nothing is said.
    """
    held_out, scales = task.held_out, Scales.of(posterior, task.data)
    density = density_of(posterior, scales.data(task.data))
    if density is None or not held_out.n_rows or not _has_noise(posterior, density):
        return {}
    free = untargeted(held_out.context, task.held_out_targets)
    known = _known_effects(held_out, task.held_out_effects)
    weights, rows = log_rows(posterior, density, scales.data(held_out).x, free)
    # Change of variables: densities in the posterior's scale become those in the task's.
    rows = rows + known - free @ np.log(scales.scale)
    values = {
        "interventional_nll": interventional_nll(rows, weights, held_out.context),
        "predictive_nll": predictive_nll(rows, weights, held_out.context),
    }
    network = _network(task)
    if network is not None:
        best = (_log_density(network, held_out) * free).sum(axis=1) + known
        values["interventional_nll_of_truth"] = interventional_nll(best[None], np.ones(1), held_out.context)
    return values


def sizes(posterior: Posterior, task: Task | Truth) -> dict[str, float]:
    """`total_effect_rmse` of linear truths, and error and coverage of the means of hard effects."""
    scales = Scales.of(posterior, task.data)
    return _total_effects(posterior, task, scales) | _effect_means(posterior, task, scales)


def _total_effects(posterior: Posterior, task: Task | Truth, scales: Scales) -> dict[str, float]:
    network = _network(task)
    density = density_of(posterior, scales.data(task.data))
    if network is None or not isinstance(network.functions, LinearFunctions) or task.data.n_variables < 2:
        return {}
    drawn = _weights(posterior, density)
    if drawn is None:
        return {}
    scale = task.data.scaling.scale
    truth = network.functions.weights * scale[:, None] / scale
    probabilities, weights = drawn
    return {"total_effect_rmse": total_effect_rmse(scales.weights(weights), probabilities, truth)}


def _weights(
    posterior: Posterior, density: AbstractDensity | None
) -> tuple[Float[np.ndarray, " draws"], Float[np.ndarray, "draws d d"]] | None:
    """Weights of the draws and the linear coefficients of each, or None where the draws are not linear."""
    draws = list(posterior.draws())
    if isinstance(density, LinearDensity):
        found = [draw.graph * draw.parameters["weight"].astype(float) for _, draw in draws]
    elif isinstance(density, MaximumLikelihood):
        found = [density.weights(draw) for _, draw in draws]
    else:
        return None
    return np.array([weight for weight, _ in draws]), np.stack(found)


def _effect_means(posterior: Posterior, task: Task | Truth, scales: Scales) -> dict[str, float]:
    if "effect_mean" not in posterior.parameters:
        return {}
    kept, effects = posterior.weights > 0, task.effects
    hard = (effects.targets != 0) & ~effects.keeps_parents
    error = effect_mean_error(
        posterior.parameters["effect_mean"].values[kept] * scales.scale + scales.shift,
        posterior.intervention_target[kept],
        posterior.weights[kept],
        task.data.scaling.apply(effects.shift),
        hard,
    )
    return {"effect_mean_rmse": error.rmse, "effect_mean_coverage": error.coverage}


def _has_noise(posterior: Posterior, density: AbstractDensity) -> bool:
    if isinstance(density, LinearDensity | NetworkDensity):
        return density.noise_std is not None or "noise_std" in posterior.parameters
    return True


def _known_effects(data: ContextData, effects: Effects) -> Float[np.ndarray, " n"]:
    """The effects' part of the log density of each row, in the scale of the data."""
    scaled = Effects(
        effects.targets,
        effects.keeps_parents,
        data.scaling.apply(effects.shift),
        effects.std / data.scaling.scale,
        effects.functions,
    )
    return effect_log_density(data.x, data.context, scaled).sum(axis=1)


def _network(task: Task | Truth) -> CausalNetwork | None:
    """The true network, as far as the task knows it in closed form."""
    if isinstance(task, Task):
        return task.network if isinstance(task.network, CausalNetwork) else None
    if task.weights is None or task.noise_std is None:
        return None
    return CausalNetwork(task.graph, LinearFunctions(task.weights), task.noise_std)


def _log_density(network: CausalNetwork, data: ContextData) -> Float[np.ndarray, "n d"]:
    """log p(x_nj | parents) under the truth without interventions, in the scale of the data."""
    x = data.scaling.invert(data.x)
    mean = np.stack([network.functions.mean(j, x) for j in range(data.n_variables)], axis=1)
    return log_normal(x, mean, network.noise_std) + np.log(data.scaling.scale)


# A method that learns equivalence classes stores them beside the DAGs it drew from them, under this name.
CLASS_PARAMETER = "cpdag"

Values = dict[str, float]


def evaluate(posterior: Posterior, task: Task | Truth) -> Values:
    """Every metric that applies, by name; what does not apply or is not defined (no true edge) is left out.

    Variables and contexts are matched by name, likelihoods and effects are in the scale of `task.data`. Draws without
    weight, cyclic ones above all, do not count; their share is `cyclic_share`.

    - Graphs: `expected_sid`, `expected_shd`. Of draws with an equivalence class (parameter `cpdag`) the SID is the
      midpoint of `expected_sid_lower` and `expected_sid_upper`, and SHD is to the true interventional CPDAG.
    - Edges: `edge_average_precision`, `edge_auprc`, `edge_prevalence`; undirected ones in the method's favour.
    - Targets: `target_average_precision`, `target_auprc`, `target_prevalence`, `target_top_accuracy`.
    - Ancestors: `ancestral_average_precision`, `ancestral_prevalence`, `expected_ancestral_shd`.
    - Calibration of edges and of targets: `edge_calibration_error`, `edge_brier`, `edge_brier_reliability`,
      `edge_brier_resolution`, `edge_brier_uncertainty`, and the same with `target_`.
    - Held-out contexts: `interventional_nll` (E[log p]), `predictive_nll` (log E[p]), `interventional_nll_of_truth`.
    - Sizes, where both truth and posterior have them: `total_effect_rmse`, `effect_mean_rmse`, `effect_mean_coverage`.

    >>> from bacadi.simulate import SyntheticSpec, simulate
    >>> task = simulate(SyntheticSpec(), seed=0)
    >>> values = evaluate(Posterior.from_draws(task.data, task.graph[None], task.targets[None]), task)
    >>> values["expected_sid"], values["edge_average_precision"], values["target_top_accuracy"]
    (0.0, 1.0, 1.0)
    """
    posterior = aligned(posterior, task.data)
    values = {"cyclic_share": posterior.n_cyclic / posterior.n_draws}
    values |= _structure(posterior, task) | _targets(posterior, task)
    values |= held_out_likelihood(posterior, task) | sizes(posterior, task)
    return {name: value for name, value in values.items() if not np.isnan(value)}


def _structure(posterior: Posterior, task: Task | Truth) -> Values:
    kept = posterior.weights > 0
    graphs, weights, truth = posterior.graph[kept], posterior.weights[kept], task.graph
    if CLASS_PARAMETER in posterior.parameters:
        classes = posterior.parameters[CLASS_PARAMETER].values[kept]
        bounds = expected_sid_bounds(classes, weights, truth)
        values = {
            "expected_sid": bounds.midpoint,
            "expected_sid_lower": bounds.lower,
            "expected_sid_upper": bounds.upper,
            "expected_shd": expected_shd(classes, weights, i_cpdag(truth, task.targets)),
        }
        probabilities = np.einsum("l,lij->ij", weights, favour_undirected(classes, truth))
    else:
        values = {
            "expected_sid": expected_sid(graphs, weights, truth),
            "expected_shd": expected_shd(graphs, weights, truth),
        }
        probabilities = posterior.edge_probabilities()
    ancestors, true_ancestors = ancestor_probabilities(graphs, weights), transitive_closure(truth)
    return (
        values
        | {
            "edge_average_precision": ranking.average_precision(probabilities, truth),
            "edge_auprc": ranking.edge_auprc(probabilities, truth),
            "edge_prevalence": ranking.prevalence(truth),
            "ancestral_average_precision": ranking.average_precision(ancestors, true_ancestors),
            "ancestral_prevalence": ranking.prevalence(true_ancestors),
            "expected_ancestral_shd": expected_ancestral_shd(graphs, weights, truth),
        }
        | _calibration("edge", edge_forecasts(posterior.edge_probabilities(), truth))
    )


def _targets(posterior: Posterior, task: Task | Truth) -> Values:
    probabilities, truth = posterior.target_probabilities(), task.targets
    return {
        "target_average_precision": ranking.target_average_precision(probabilities, truth),
        "target_auprc": ranking.target_auprc(probabilities, truth),
        "target_prevalence": ranking.target_prevalence(truth),
        "target_top_accuracy": ranking.top_target_accuracy(probabilities, truth),
    } | _calibration("target", target_forecasts(probabilities, truth))


def _calibration(what: str, forecasts: Forecasts) -> Values:
    if not len(forecasts.outcome):
        return {}
    brier = brier_score(forecasts)
    return {
        f"{what}_calibration_error": expected_calibration_error(forecasts),
        f"{what}_brier": brier.score,
        f"{what}_brier_reliability": brier.reliability,
        f"{what}_brier_resolution": brier.resolution,
        f"{what}_brier_uncertainty": brier.uncertainty,
    }
