"""`evaluate`: all metrics that apply to a posterior, given the task whose data it was learned from.

A metric is a function of a `Comparison`, registered by `@metric` under its name with a few words on what a good value
is; the table of `bacadi evaluate` reads the same registry. Variables and contexts are matched by name.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int8, Shaped

from bacadi.baselines.base import CLASS_PARAMETER
from bacadi.data.contexts import ContextData, Scaling
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError, DataError
from bacadi.graph.dag import is_acyclic, transitive_closure
from bacadi.graph.equivalence import i_cpdag
from bacadi.metrics import calibration, likelihood, ranking
from bacadi.metrics.classes import class_distances, expected_sid_bounds, favour_undirected
from bacadi.metrics.effects import effect_mean_error, total_effect_rmse
from bacadi.metrics.likelihood import AbstractDensity, FittedDensity, MechanismDensity, density_of
from bacadi.metrics.structure import expected_ancestral_shd, expected_shd, expected_sid
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import AbstractMechanism
from bacadi.model.network import CausalNetwork
from bacadi.posterior.posterior import Posterior
from bacadi.posterior.summaries import ancestor_probabilities
from bacadi.simulate.task import Task

Values = dict[str, float]
SURE = 0.9  # the probability from which on a false target counts as one


@dataclass(frozen=True, eq=False)
class Comparison:
    """A posterior beside the truth of a task, variables and contexts of both in the order of `task.data`.

    `modules` are modules of the user's own from which the mechanism of the posterior may be imported.
    """

    posterior: Posterior
    task: Task
    modules: tuple[str, ...] = ()

    @cached_property
    def weights(self) -> Float[np.ndarray, " draws"]:
        """Weights of the draws that count; cyclic ones do not."""
        return self.posterior.weights[self.posterior.weights > 0]

    @cached_property
    def graphs(self) -> Int8[np.ndarray, "draws d d"]:
        """The graphs of the draws that count."""
        return self.posterior.graph[self.posterior.weights > 0]

    @cached_property
    def scaling(self) -> Scaling:
        """The units of the posterior, seen from those of the task's data.

        Data in memory carry the scaling since they were drawn, a table does not; a posterior whose scaling is the
        identity is therefore taken to be in the units of the task's data as they stand.
        """
        same, stored = Scaling.identity(self.task.data.n_variables), self.posterior.constant_data
        own = Scaling(stored["shift"].values, stored["scale"].values) if {"shift", "scale"} <= set(stored) else same
        unscaled = np.allclose(own.shift, 0) and np.allclose(own.scale, 1)
        return same if unscaled else own.relative_to(self.task.data.scaling)

    @cached_property
    def density(self) -> AbstractDensity | None:
        """The predictive density of the draws in the posterior's units; None, with a warning, if it cannot be read."""
        if not self.posterior.transforms().is_identity:
            # Densities and weights live on the transformed scale, where the truth has neither.
            warnings.warn("Likelihoods and effects are left out: columns were transformed.", stacklevel=2)
            return None
        data = replace(self.task.data, x=self.scaling.apply(self.task.data.x))
        try:
            return density_of(self.posterior, data, self.modules)
        except ConfigError as refusal:
            warnings.warn(f"Likelihoods are left out: {refusal}", stacklevel=2)
            return None

    def parameter(self, name: str) -> Shaped[np.ndarray, "draws ..."]:
        """A parameter of the draws that count."""
        return self.posterior.parameters[name].values[self.posterior.weights > 0]


Measure = Callable[[Comparison], Values | float]
METRICS: dict[Measure, dict[str, str]] = {}
"""Every measure with its metrics by name, each with what a good value is, short enough for a terminal."""


def metric(**good: str) -> Callable[[Measure], Measure]:
    """Register a function of a `Comparison` as one metric or several, given by name with what a good value is.

    The function returns the value of its only metric, or those of its metrics that apply by name. A value that is not
    a number means: not defined here.

    >>> @metric(n_edges_error="0 is best; does not see where they are")
    ... def n_edges_error(comparison):
    ...     n_edges = comparison.weights @ comparison.graphs.sum(axis=(1, 2))
    ...     return float(abs(n_edges - comparison.task.graph.sum()))
    >>> METRICS.pop(n_edges_error)
    {'n_edges_error': '0 is best; does not see where they are'}
    """

    def register(measure: Measure) -> Measure:
        METRICS[measure] = good
        return measure

    return register


def descriptions() -> dict[str, str]:
    """What a good value is, of every registered metric by name; docs/metrics.md says how each can mislead."""
    return {name: text for good in METRICS.values() for name, text in good.items()}


def evaluate(posterior: Posterior, task: Task, modules: Sequence[str] = ()) -> Values:
    """Compute every metric that applies, by name; what does not apply or is not defined (no true edge) is left out.

    Variables and contexts are matched by name, likelihoods and effects are in the units of `task.data`. Draws without
    weight, cyclic ones above all, do not count; their share is `cyclic_share`. A mechanism of the user's own has a
    likelihood if its module is among `modules`: nothing else that a posterior names is imported.

    - Graphs: `expected_sid`, `expected_shd`. Of draws with an equivalence class (parameter `cpdag`) the SID is the
      midpoint of `expected_sid_lower` and `expected_sid_upper`, and SHD is to the true interventional CPDAG.
    - Edges: `edge_average_precision`, `edge_auprc`, `edge_prevalence`; undirected ones in the method's favour.
    - Targets: `target_average_precision`, `target_auprc`, `target_prevalence`, `target_top_accuracy`, `false_targets`.
    - Classes: `expected_class_shd`, `consensus_class_shd`, between interventional CPDAGs under the true targets.
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
    return measured(Comparison(aligned(posterior, task.data), task, tuple(modules)), METRICS)


def measured(comparison: Comparison, measures: Iterable[Measure]) -> Values:
    """The values of registered measures by name, without what is not defined."""
    values: Values = {}
    for measure in measures:
        found, good = measure(comparison), METRICS[measure]
        for name, value in (found if isinstance(found, dict) else dict.fromkeys(good, found)).items():
            if name not in good:
                raise KeyError(f"{measure.__name__} gives {name}; say in @metric what a good {name} is")
            values[name] = value
    return {name: value for name, value in values.items() if not np.isnan(value)}


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
    changes: dict[str, Any] = {"variables": data.variables, "contexts": data.contexts}
    for group in ("parameters", "sample_stats", "constant_data"):
        changes[group] = {name: _reordered(value, orders) for name, value in getattr(posterior, group).items()}
    for field, dims in (("graph", ("source", "target")), ("intervention_target", ("context", "node"))):
        changes[field] = _reordered(Labelled(getattr(posterior, field), dims), orders).values
    return replace(posterior, **changes)


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


@metric(cyclic_share="0 is best; cyclic draws do not count")
def cyclic_share(c: Comparison) -> float:
    """The share of cyclic draws."""
    return c.posterior.n_cyclic / c.posterior.n_draws


@metric(
    expected_sid="0 is best; dense graphs get it cheaply",
    expected_sid_lower="0 is best; the best DAG of a class",
    expected_sid_upper="0 is best; the worst DAG of a class",
    expected_shd="0 is best; no edge at all: their number",
    edge_average_precision="1 is best; chance: edge_prevalence",
    edge_auprc="1 is best; no edge at all: above .5",
    edge_prevalence="no score: share of edges among pairs",
)
def edges(c: Comparison) -> Values:
    """Distances of graphs or classes of graphs, and how edges are ranked."""
    truth = c.task.graph
    if CLASS_PARAMETER in c.posterior.parameters:
        classes = c.parameter(CLASS_PARAMETER)
        bounds = expected_sid_bounds(classes, c.weights, truth)
        sid = {"expected_sid": bounds.midpoint, "expected_sid_lower": bounds.lower, "expected_sid_upper": bounds.upper}
        shd = expected_shd(classes, c.weights, i_cpdag(truth, c.task.targets))
        probabilities = np.einsum("l,lij->ij", c.weights, favour_undirected(classes, truth))
    else:
        sid = {"expected_sid": expected_sid(c.graphs, c.weights, truth)} if is_acyclic(truth) else {}
        shd = expected_shd(c.graphs, c.weights, truth)
        probabilities = c.posterior.edge_probabilities()
    return sid | {
        "expected_shd": shd,
        "edge_average_precision": ranking.average_precision(probabilities, truth),
        "edge_auprc": ranking.edge_auprc(probabilities, truth),
        "edge_prevalence": ranking.prevalence(truth),
    }


@metric(
    expected_class_shd="0 is best; directions that targets tell",
    consensus_class_shd="0 is best; the edges of most draws",
)
def classes(c: Comparison) -> Values:
    """Distances of interventional CPDAGs under the true targets."""
    are_classes = CLASS_PARAMETER in c.posterior.parameters
    graphs = c.parameter(CLASS_PARAMETER) if are_classes else c.graphs
    distances = class_distances(graphs, c.weights, c.task.graph, c.task.targets, are_classes)
    return {"expected_class_shd": distances.expected, "consensus_class_shd": distances.consensus}


@metric(
    ancestral_average_precision="1 is best; chance: ancestral_prevalence",
    ancestral_prevalence="no score: share of ancestors",
    expected_ancestral_shd="0 is best; no edge: pairs of ancestors",
)
def ancestors(c: Comparison) -> Values:
    """Who influences whom, directly or not."""
    probabilities, truth = ancestor_probabilities(c.graphs, c.weights), transitive_closure(c.task.graph)
    return {
        "ancestral_average_precision": ranking.average_precision(probabilities, truth),
        "ancestral_prevalence": ranking.prevalence(truth),
        "expected_ancestral_shd": expected_ancestral_shd(c.graphs, c.weights, c.task.graph),
    }


def _about_calibration(what: str, nothing: str) -> dict[str, str]:
    return {
        f"{what}_calibration_error": "0 is best; a constant can get it",
        f"{what}_brier": f"0 is best; {nothing}: {what}_prevalence",
        f"{what}_brier_reliability": "0 is best; the part of calibration",
        f"{what}_brier_resolution": "high is good, at most the next",
        f"{what}_brier_uncertainty": "no score: prevalence (1 - prevalence)",
    }


def _calibration(what: str, forecasts: calibration.Forecasts) -> Values:
    if not len(forecasts.outcome):
        return {}
    values = calibration.expected_calibration_error(forecasts), *calibration.brier_score(forecasts)
    return dict(zip(_about_calibration(what, ""), values, strict=True))


@metric(**_about_calibration("edge", "no edge"))
def edge_calibration(c: Comparison) -> Values:
    """Whether probabilities of edges mean what they say."""
    return _calibration("edge", calibration.edge_forecasts(c.posterior.edge_probabilities(), c.task.graph))


@metric(
    target_average_precision="1 is best; chance: target_prevalence",
    target_auprc="1 is best; no target at all: above .5",
    target_prevalence="no score: share of targets",
    target_top_accuracy="1 is best; looks at one target a context",
    false_targets="0 is best; naming none gets it",
)
def targets(c: Comparison) -> Values:
    """How targets are ranked."""
    probabilities, truth = c.posterior.target_probabilities(), c.task.targets
    return {
        "target_average_precision": ranking.target_average_precision(probabilities, truth),
        "target_auprc": ranking.target_auprc(probabilities, truth),
        "target_prevalence": ranking.target_prevalence(truth),
        "target_top_accuracy": ranking.top_target_accuracy(probabilities, truth),
        "false_targets": float(((probabilities >= SURE) & (truth == 0)).sum()),
    }


@metric(**_about_calibration("target", "none"))
def target_calibration(c: Comparison) -> Values:
    """Whether probabilities of targets mean what they say."""
    return _calibration("target", calibration.target_forecasts(c.posterior.target_probabilities(), c.task.targets))


@metric(
    interventional_nll="low is good, -E[log p] a held-out row",
    predictive_nll="low is good, -log E[p] a held-out row",
    interventional_nll_of_truth="no score: what the true network gets",
)
def held_out_likelihood(c: Comparison) -> Values:
    """Likelihoods of held-out contexts whose targets and effects are known, in the units of the task's data.

    Nothing where the draws do not hold the parameters of their mechanism or its noise.
    """
    task, held_out, density = c.task, c.task.held_out, c.density
    lacks_noise = isinstance(density, MechanismDensity) and not density.has_noise(c.posterior.parameters)
    if density is None or lacks_noise or not held_out.n_rows:
        return {}
    free = likelihood.untargeted(held_out.context, task.held_out_targets)
    effects = task.held_out_effects.scaled(held_out.scaling)
    known = likelihood.effect_log_density(held_out.x, held_out.context, effects).sum(axis=1)
    weights, rows = likelihood.log_rows(c.posterior, density, c.scaling.apply(held_out.x), free)
    # Change of variables: densities in the posterior's units become those in the task's.
    rows = rows + known - free @ np.log(c.scaling.scale)
    values = {
        "interventional_nll": likelihood.interventional_nll(rows, weights, held_out.context),
        "predictive_nll": likelihood.predictive_nll(rows, weights, held_out.context),
    }
    mechanism = getattr(task.network, "mechanism", None)
    if isinstance(task.network, CausalNetwork) and isinstance(mechanism, AbstractMechanism):
        x, scale = held_out.scaling.invert(held_out.x), held_out.scaling.scale
        unperturbed = mechanism.log_density(task.network.theta, task.graph, x) + np.log(scale)
        best = (unperturbed * free).sum(axis=1) + known
        values["interventional_nll_of_truth"] = likelihood.interventional_nll(best[None], np.ones(1), held_out.context)
    return values


@metric(total_effect_rmse="0 is best, in the units of data.csv")
def total_effects(c: Comparison) -> float:
    """The error of total effects, where both the truth and the draws are linear."""
    truth, density, nothing = c.task.weights, c.density, float("nan")
    if truth is None or c.task.data.n_variables < 2:
        return nothing
    draws = [draw for _, draw in c.posterior.draws()]
    if isinstance(density, MechanismDensity) and isinstance(density.mechanism, LinearGaussian):
        weights = [draw.graph * draw.parameters["weight"].astype(float) for draw in draws]
    elif isinstance(density, FittedDensity):
        weights = [density.weights(draw) for draw in draws]
    else:
        return nothing
    truth = c.task.data.scaling.inverse().weights(truth)
    return total_effect_rmse(c.scaling.weights(np.stack(weights)), c.weights, truth)


@metric(
    effect_mean_rmse="0 is best, over true targets named",
    effect_mean_coverage="1 is best: share of true targets named",
)
def effect_means(c: Comparison) -> Values:
    """Error and coverage of the means of hard effects."""
    if "effect_mean" not in c.posterior.parameters or not c.posterior.transforms().is_identity:
        return {}
    effects = c.task.effects
    means, drawn = c.scaling.invert(c.parameter("effect_mean")), c.posterior.intervention_target
    true_means, hard = effects.scaled(c.task.data.scaling).shift, (effects.targets != 0) & ~effects.keeps_parents
    error = effect_mean_error(means, drawn[c.posterior.weights > 0], c.weights, true_means, hard)
    return {"effect_mean_rmse": error.rmse, "effect_mean_coverage": error.coverage}
