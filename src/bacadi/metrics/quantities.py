"""What `evaluate` says about numbers rather than structure: held-out likelihood, total effects, means of effects."""

import numpy as np
from jaxtyping import Float

from bacadi.data.context import ContextData
from bacadi.metrics.align import Scales
from bacadi.metrics.densities import AbstractDensity, LinearDensity, NetworkDensity, log_normal
from bacadi.metrics.effects import effect_mean_error, total_effect_rmse
from bacadi.metrics.fitted import MaximumLikelihood
from bacadi.metrics.likelihood import effect_log_density, interventional_nll, predictive_nll, untargeted
from bacadi.metrics.predictive import density_of, log_rows
from bacadi.posterior.posterior import Posterior
from bacadi.simulate.effects import Effects
from bacadi.simulate.mechanisms import LinearFunctions
from bacadi.simulate.network import CausalNetwork
from bacadi.simulate.task import Task
from bacadi.simulate.truth import Truth


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
