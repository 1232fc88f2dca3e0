"""Missing cells completed by the model that is fitted: data augmentation (Tanner and Wong 1987).

A completion that knows nothing of graph and targets is fitted as if its errors were mechanisms. Here structure,
parameters and missing cells take turns: a search finds the structure of the completed data, parameters are drawn given
it, and every missing cell is drawn from the Gaussian that the mechanisms of its context make of the whole row,

    p(x_j | rest of the row) = N(μ_kj - Σ_i Ω_ji (x_i - μ_ki) / Ω_jj, 1 / Ω_jj),   Ω_k = (I - W_k) S_k⁻² (I - W_k)',

with W_k, μ_k and S_k the weights, means and noise of context k: a target follows its effect there.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bacadi.data.contexts import ContextData, mean_shift_z
from bacadi.data.imputation import completed, draw_cells
from bacadi.data.labelled import Labelled
from bacadi.evidence.collapsed import CollapsedPosterior, EffectKind, never
from bacadi.evidence.effects import draw_hard_effects
from bacadi.evidence.reading import collapse
from bacadi.graph.dag import topological_order
from bacadi.inference.mcmc.ladder import compiled_target
from bacadi.inference.mcmc.method import MoveWeights
from bacadi.inference.mcmc.search import optima
from bacadi.inference.mcmc.start import Structure, causal_order
from bacadi.inference.method import Problem
from bacadi.model.integrated import AdditiveProcess
from bacadi.model.linear import LinearGaussian

ROUNDS = 6
"""Turns of structure, parameters and cells; what is found changes little after three."""

CELL_SWEEPS = 5


class Mechanisms(NamedTuple):
    """Linear mechanisms of every context, the control first: x = b + x W + noise of standard deviation s."""

    weight: Float[np.ndarray, "K d d"]
    intercept: Float[np.ndarray, "K d"]
    noise_std: Float[np.ndarray, "K d"]

    def moments(self, k: int) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, "d d"]]:
        """Mean and precision of a row of context k."""
        through = np.eye(self.weight.shape[1]) - self.weight[k]
        return np.linalg.solve(through.T, self.intercept[k]), (through / self.noise_std[k] ** 2) @ through.T


def complete(
    rng: np.random.Generator, data: ContextData, problem: Problem, over: Callable[[], bool] = never
) -> ContextData:
    """The data with every missing cell drawn given the others and the model of the problem.

    Models without tables of sums (Gaussian processes, a user's own) complete by a joint Gaussian alone, curves by the
    lines next to them.
    """
    whole = completed(rng, data)
    if isinstance(problem.model.mechanism, AdditiveProcess):
        problem = replace(problem, model=problem.model.replace(mechanism=LinearGaussian()))
    missing, structure = np.isnan(data.x), None
    for _ in range(ROUNDS):
        trial = replace(problem, data=whole)
        collapsed = collapse(trial.model, trial.standardized, trial.scaled_knowledge)
        if collapsed.evidence.tables is None or over():
            return whole
        structure = searched(rng, collapsed, trial.standardized, structure, over)
        mechanisms = draw_mechanisms_of(rng, trial, collapsed, structure)
        x = trial.standardized.x.copy()
        for k in np.unique(data.context[missing.any(axis=1)]).tolist():
            rows = np.flatnonzero((data.context == k) & missing.any(axis=1))
            mean, precision = mechanisms.moments(k)
            for _ in range(CELL_SWEEPS):
                x[rows] = draw_cells(rng, x[rows], missing[rows], mean, precision)
        whole = replace(data, x=np.where(missing, trial.scaling.invert(x), data.x))
    return whole


def searched(
    rng: np.random.Generator,
    collapsed: CollapsedPosterior,
    data: ContextData,
    before: Structure | None = None,
    over: Callable[[], bool] = never,
) -> Structure:
    """The best structure that a search from one order finds: that of a structure found before, or one by contexts."""
    target = compiled_target(collapsed, data, MoveWeights())
    if before is None:
        order = causal_order(rng, mean_shift_z(data), collapsed.prior)
    else:
        order = topological_order(before.graph)
    return Structure(*optima(rng, target, [order], over)[0])


def draw_mechanisms_of(
    rng: np.random.Generator, problem: Problem, collapsed: CollapsedPosterior, structure: Structure
) -> Mechanisms:
    """Parameters given a structure, as the mechanisms of every context, in the units of the priors."""
    states, evidence = structure.states, collapsed.evidence
    drawn = evidence.draw_parameters(rng, structure.graph[None], states[None])
    drawn |= draw_hard_effects(rng, problem.model.effect, problem.standardized, 1, evidence.states.power)
    m, d = states.shape
    usual = drawn["weight"].values[0], _of(drawn, "intercept", np.zeros(d)), drawn["noise_std"].values[0]
    weight, intercept, noise_std = (np.repeat(part[None].astype(float), m + 1, axis=0) for part in usual)
    noise_std[1:] *= np.sqrt(_of(drawn, "noise_ratio", np.ones(d)))
    kind = np.vstack([np.zeros((1, d), np.int8), evidence.states.kind[states]])
    hard = kind == EffectKind.HARD
    if hard.any():
        known = problem.scaled_knowledge.effects
        mean, std = drawn["effect_mean"].values[0], _of(drawn, "effect_noise_std", noise_std[1:])
        if known is not None:
            mean, std = np.where(known.known, known.mean, mean), np.where(known.known, known.std, std)
        weight.transpose(0, 2, 1)[hard] = 0.0
        intercept[hard], noise_std[hard] = mean[hard[1:]], std[hard[1:]]
    intercept[1:] += np.where(kind[1:] == EffectKind.SHIFT, _of(drawn, "effect_shift", np.zeros((m, d))), 0.0)
    noise_std[1:] *= np.where(kind[1:] == EffectKind.SCALE, _of(drawn, "effect_noise_ratio", np.ones((m, d))), 1) ** 0.5
    if "effect_node" in drawn:
        for slot, node in enumerate(drawn["effect_node"].values[0]):
            if node >= 0:
                k = drawn["effect_context"].values[0, slot] + 1
                weight[k, :, node] = drawn["effect_weight"].values[0, slot]
                intercept[k, node] = drawn["effect_intercept"].values[0, slot]
                noise_std[k, node] = drawn["effect_own_noise_std"].values[0, slot]
    return Mechanisms(weight, intercept, noise_std)


def _of(drawn: dict[str, Labelled], name: str, otherwise: np.ndarray) -> np.ndarray:
    """The first draw of a parameter, or what stands for it where the model has none."""
    return drawn[name].values[0] if name in drawn else otherwise
