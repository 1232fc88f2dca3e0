"""What the methods on the collapsed posterior share: the reading of a problem, and the parameters of its draws."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Int8, Shaped

from bacadi.data.contexts import Scaling
from bacadi.data.labelled import Labelled
from bacadi.evidence.collapsed import AbstractEvidence, CollapsedPosterior, EffectKind, never, structure_prior
from bacadi.evidence.effects import draw_hard_effects, effect_states, hard_part
from bacadi.evidence.reading import PROBE, collapse, with_known_effects
from bacadi.inference.mcmc.start import fit_hyperparameters
from bacadi.inference.method import AbstractMethod, Monitor, Problem
from bacadi.model.effects import HardGaussian
from bacadi.model.knowledge import KnownEffects

MOST_EFFECTS = 1e7  # draws x contexts x variables up to which all have effects, those that are no targets too
CHOICE_SHARE = 0.15  # of a time budget, at most, for the choice of effect and drift


class AbstractCollapsedMethod(AbstractMethod):
    """A method that draws from the collapsed posterior; its `n_draws` is how many."""

    results_version = 2
    takes_all_knowledge = True
    takes_effects = True

    @property
    def n_results(self) -> int:
        return self.n_draws  # type: ignore[attr-defined]

    def check(self, problem: Problem) -> None:
        super().check(problem)
        collapse(problem.model, PROBE)  # refuses a model without closed-form evidence
        effects = problem.knowledge.effects
        if effects is not None:
            states = effect_states(problem.model.effect, problem.data)
            with_known_effects(effects, problem.data, states, structure_prior(problem.model, states))

    def settled(self, problem: Problem, monitor: Monitor) -> tuple[Problem, dict[str, Any]]:
        from bacadi.inference.auto import chosen_model

        budget, begun = getattr(self, "time_budget", None), monitor.begun or time.monotonic()
        deadline = math.inf if budget is None else begun + CHOICE_SHARE * budget
        chosen = chosen_model(problem, lambda: time.monotonic() > deadline)
        data = replace(problem.data, weight=chosen.weight) if chosen.weight is not None else problem.data
        return replace(problem, data=data, model=chosen.model, hyperparameters=chosen.hyperparameters), chosen.attrs()


def collapsed_so_far(problem: Problem, max_parents: int | None = None) -> CollapsedPosterior:
    """The collapsed posterior of a problem, with the hyper-parameters that it has; those that are free stay free."""
    collapsed = collapse(problem.model, problem.standardized, problem.scaled_knowledge, max_parents)
    if problem.hyperparameters is None:
        return collapsed
    return replace(collapsed, evidence=collapsed.evidence.with_hyperparameters(problem.hyperparameters))


def collapsed_problem(
    problem: Problem, max_parents: int | None = None, over: Callable[[], bool] = never
) -> CollapsedPosterior:
    """The collapsed posterior of a problem, free hyper-parameters fixed by empirical Bayes."""
    return fit_hyperparameters(collapsed_so_far(problem, max_parents), problem.standardized, over)


def posterior_fields(
    rng: np.random.Generator,
    problem: Problem,
    collapsed: CollapsedPosterior,
    graphs: Int8[np.ndarray, "R n d d"],
    states: Int8[np.ndarray, "R n M d"],
) -> dict[str, dict[str, Labelled]]:
    """`parameters` and `constant_data` of the posterior of these draws.

    Parameters of mechanisms and effects come from their posterior given each draw and are in the units of the data;
    functions (`output_weight` and the like) stay in the units of the priors, which the constants hold.
    """
    shape, every_graph, every_state = graphs.shape[:2], flat(graphs), flat(states)
    drawn, states_of = collapsed.evidence.draw_parameters(rng, every_graph, every_state), collapsed.evidence.states
    # So many effects are kept where they act: elsewhere nothing reads them, and they are most of all numbers.
    acts = states_of.kind[every_state] == EffectKind.HARD if every_state.size > MOST_EFFECTS else None
    given = problem.model.effect, problem.standardized, len(every_graph), states_of.power
    drawn |= draw_hard_effects(rng, *given, acts)
    hard, effects = hard_part(problem.model.effect), problem.scaled_knowledge.effects
    if hard is not None and effects is not None:
        drawn |= told_effects(effects, hard, drawn)
    if states_of.n_states > 2:
        drawn["effect_state"] = Labelled(every_state, ("context", "node"))
    converted = in_data_units(drawn, problem.scaling)
    if acts is not None:
        names = {"effect_mean", "effect_noise_std"} & converted.keys()
        converted |= {
            name: Labelled(np.where(acts, converted[name].values, np.float32(0)), converted[name].dims)
            for name in names
        }
    parameters, constants = {}, {"known_target": Labelled(problem.known_targets, ("context", "node"))}
    for name, (values, dims) in converted.items():
        if values.ndim == len(dims):
            constants[name] = Labelled(values, dims)
        else:
            parameters[name] = Labelled(values.reshape(*shape, *values.shape[1:]), dims)
    return {"parameters": parameters, "constant_data": constants | problem.unit_constants()}


def drawn_targets(
    rng: np.random.Generator,
    evidence: AbstractEvidence,
    graphs: Int8[np.ndarray, "R n d d"],
    states: Int8[np.ndarray, "R n M d"],
) -> Bool[np.ndarray, "R n M d"]:
    """Which states are those of targets: all but 0, unless mechanisms bend; then one is drawn for each of them."""
    changed = states > 0
    if not evidence.states.drift.bend:
        return changed
    every = flat(graphs) != 0
    share = np.stack([evidence.target_share(node, every[:, :, node]) for node in range(evidence.n_variables)], axis=2)
    return changed & (rng.random(states.shape) < share.reshape(states.shape))


def told_effects(effects: KnownEffects, hard: HardGaussian, drawn: dict[str, Labelled]) -> dict[str, Labelled]:
    """Mean and noise of hard effects, those that are known in place of what was drawn."""
    mean, dims = drawn["effect_mean"]
    fixed = Labelled(np.full(mean.shape, (hard.noise.conjugate().variance or 1.0) ** 0.5, mean.dtype), dims)
    std, known = drawn.get("effect_noise_std", fixed).values, effects.known
    pairs = {"effect_mean": (effects.mean, mean), "effect_noise_std": (effects.std, std)}
    return {name: Labelled(np.where(known, *pair).astype(mean.dtype), dims) for name, pair in pairs.items()}


def flat(array: Shaped[np.ndarray, "R n a d"]) -> Shaped[np.ndarray, "N a d"]:
    """Draws of all replicas one after the other."""
    # The number of draws is spelt out: without contexts the states are empty and say nothing of it.
    return np.ascontiguousarray(array.reshape(array.shape[0] * array.shape[1], *array.shape[2:]))


def in_data_units(drawn: dict[str, Labelled], scaling: Scaling) -> dict[str, Labelled]:
    """Linear parameters and effects drawn in the units of the priors, in those of the data.

    With x = shift + scale · u, u_j = Σ_i w_ij u_i + b_j + ε_j reads x_j = Σ_i w_ij s_j/s_i x_i + b'_j + s_j ε_j.
    Weights of other mechanisms stay as they are: their inputs and outputs are in the units of the priors.
    """
    shift, scale = scaling.shift, scaling.scale
    converted = dict(drawn)
    if "weight" in drawn:
        weight, dims = drawn["weight"]
        weight = weight * (scale[None, :] / scale[:, None]).astype(weight.dtype)
        converted["weight"] = Labelled(weight, dims)
        # A mechanism without an intercept has one in units whose origin is another.
        if "intercept" in drawn or shift.any():
            own = drawn["intercept"].values if "intercept" in drawn else np.zeros((), weight.dtype)
            moved = shift + scale * own - np.einsum("...ij,i->...j", weight, shift)
            converted["intercept"] = Labelled(moved.astype(weight.dtype), ("node",))
    if "effect_weight" in drawn:
        converted |= _slots_in_data_units(drawn, scaling)
    for name in ("noise_std", "effect_noise_std", "effect_shift"):
        if name in drawn:
            values, dims = drawn[name]
            converted[name] = Labelled((values * scale).astype(values.dtype), dims)
    if "effect_mean" in drawn:
        values, dims = drawn["effect_mean"]
        converted["effect_mean"] = Labelled((values * scale + shift).astype(values.dtype), dims)
    return converted


def _slots_in_data_units(drawn: dict[str, Labelled], scaling: Scaling) -> dict[str, Labelled]:
    """The mechanisms of soft effects, one per slot; slots without a target stay 0."""
    node, weight = drawn["effect_node"].values, drawn["effect_weight"].values
    used, scale = node >= 0, scaling.scale[node]
    weight = weight * (scale[..., None] / scaling.scale).astype(weight.dtype)
    moved = scaling.shift[node] + scale * drawn["effect_intercept"].values - weight @ scaling.shift
    std = scale * drawn["effect_own_noise_std"].values
    return {
        "effect_weight": Labelled(weight, drawn["effect_weight"].dims),
        "effect_intercept": Labelled(np.where(used, moved, 0.0).astype(weight.dtype), ("slot",)),
        "effect_own_noise_std": Labelled(std.astype(weight.dtype), ("slot",)),
    }
