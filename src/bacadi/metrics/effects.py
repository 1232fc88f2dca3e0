"""How well sizes are learned: total causal effects of linear networks, means of hard interventions."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped

from bacadi.metrics.structure import Graph, Graphs, Weights
from bacadi.model.linear import total_effects

Drawn = Shaped[np.ndarray, "n m d"]
PerTarget = Shaped[np.ndarray, "m d"]


class EffectMeans(NamedTuple):
    """Error of the learned means over the true targets that some draw names, and the share of targets it covers."""

    rmse: float
    coverage: float


def total_effect_rmse(draws: Graphs, probabilities: Weights, truth: Graph) -> float:
    """Root mean squared error of the mean total effect over all pairs i ≠ j, from weights: E[T | D] against T.

    >>> truth = np.array([[0.0, 2.0], [0.0, 0.0]])
    >>> total_effect_rmse(np.stack([truth, 0 * truth]), np.array([0.5, 0.5]), truth) == 0.5**0.5
    True
    """
    mean = np.einsum("l,lij->ij", probabilities / probabilities.sum(), total_effects(draws))
    off = ~np.eye(len(truth), dtype=bool)
    return float(np.sqrt(np.mean((mean - total_effects(truth))[off] ** 2)))


def effect_mean_error(
    means: Drawn, targets: Drawn, probabilities: Weights, true_means: PerTarget, true_targets: PerTarget
) -> EffectMeans:
    """Root mean squared error of E[μ_kj | j is a target of k, D] over the true targets that have such draws.

    Not a number where no true target is named by any draw.

    >>> one = np.ones((1, 1, 1))
    >>> effect_mean_error(2 * one, one, np.ones(1), np.array([[5.0]]), np.ones((1, 1)))
    EffectMeans(rmse=3.0, coverage=1.0)
    """
    weight = probabilities[:, None, None] * (targets != 0)
    mass, wanted = weight.sum(axis=0), true_targets != 0
    named = wanted & (mass > 0)
    if not named.any():
        return EffectMeans(float("nan"), 0.0 if wanted.any() else float("nan"))
    estimate = (weight * means).sum(axis=0)[named] / mass[named]
    rmse = np.sqrt(np.mean((estimate - true_means[named]) ** 2))
    return EffectMeans(float(rmse), float(named.sum() / wanted.sum()))
