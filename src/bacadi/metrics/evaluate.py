"""`evaluate`: all yardsticks that apply to a posterior, given the task whose data it was learned from."""

import numpy as np

from bacadi.graph import i_cpdag, transitive_closure
from bacadi.metrics import ranking
from bacadi.metrics.align import aligned
from bacadi.metrics.ancestral import ancestor_probabilities, expected_ancestral_shd
from bacadi.metrics.calibration import (
    Forecasts,
    brier_score,
    edge_forecasts,
    expected_calibration_error,
    target_forecasts,
)
from bacadi.metrics.classes import expected_sid_bounds, favour_undirected
from bacadi.metrics.quantities import held_out_likelihood, sizes
from bacadi.metrics.structure import expected_shd, expected_sid
from bacadi.posterior.posterior import Posterior
from bacadi.simulate.task import Task
from bacadi.simulate.truth import Truth

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
