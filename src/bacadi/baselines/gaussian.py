"""Linear Gaussian parameters of a graph and its targets by maximum likelihood, in closed form (Hauser, Bühlmann 2014).

x_j = Σ_i w_ij x_i + b_j + σ_j ε in the rows where j is no target, x_j = μ_kj + s_kj ε in those of a context k that
targets it. `graph[i, j] = 1` means i -> j.

Parameters that go with an estimate in a posterior: linear Gaussian ones, unless the baseline brings its own.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int8

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled

LOG_2PI = float(np.log(2 * np.pi))

# A residual variance below this share of the column's own comes from too few rows and is no law of the data.
MIN_VARIANCE_SHARE = 1e-6


class LinearNode(NamedTuple):
    """x_j ~ N(weight · x_parents + intercept, noise_std²)."""

    weight: Float[np.ndarray, " p"]
    intercept: float
    noise_std: float


class GaussianFit(NamedTuple):
    """The parameters under the names of `bacadi.model`, 0 where there is no edge or no target, and log p(D | them)."""

    weight: Float[np.ndarray, "d d"]
    intercept: Float[np.ndarray, " d"]
    noise_std: Float[np.ndarray, " d"]
    effect_mean: Float[np.ndarray, "M d"]
    effect_noise_std: Float[np.ndarray, "M d"]
    log_likelihood: float


def fit_gaussian(data: ContextData, graph: Int8[np.ndarray, "d d"], targets: Int8[np.ndarray, "M d"]) -> GaussianFit:
    """The most likely parameters of a DAG, every variable learned without the rows where it is a target.

    A variable that is a target in every row is learned from all rows. The spread of an effect is not let below the
    noise of the variable: one row shows no spread, and its density would be infinite.

    >>> data = ContextData(np.array([[0.0, 1.0], [2.0, 2.0], [4.0, 9.0]]), np.array([0, 0, 1]), ("a", "b"), ("k",))
    >>> fit = fit_gaussian(data, np.array([[0, 1], [0, 0]], np.int8), np.array([[0, 1]], np.int8))
    >>> fit.weight.round(6).tolist(), fit.effect_mean.tolist()
    ([[0.0, 0.5], [0.0, 0.0]], [[0.0, 9.0]])
    """
    (n_contexts, d), x = targets.shape, data.x
    hit = np.vstack([np.zeros((1, d), dtype=bool), targets != 0])[data.context]
    weight, intercept, noise_std = np.zeros((d, d)), np.zeros(d), np.ones(d)
    effect_mean, effect_std = np.zeros((n_contexts, d)), np.zeros((n_contexts, d))
    log_likelihood = 0.0
    for j in range(d):
        parents, free = graph[:, j] != 0, ~hit[:, j]
        node = _learned(x, j, parents, free)
        weight[parents, j], intercept[j], noise_std[j] = node
        mean = x[free][:, parents] @ node.weight + node.intercept
        log_likelihood += float(log_normal(x[free, j], mean, node.noise_std).sum())
        for k in np.flatnonzero(targets[:, j]):
            rows = x[data.context == k + 1, j]
            effect_mean[k, j], effect_std[k, j] = rows.mean(), max(rows.std(), node.noise_std)
            log_likelihood += float(log_normal(rows, effect_mean[k, j], effect_std[k, j]).sum())
    return GaussianFit(weight, intercept, noise_std, effect_mean, effect_std, log_likelihood)


def fit_node(parents: Float[np.ndarray, "n p"], column: Float[np.ndarray, " n"], least_std: float) -> LinearNode:
    """(w, b) by least squares and σ² = 1/n Σ residual², held at `least_std`² where too few rows leave nothing.

    >>> node = fit_node(np.array([[0.0], [2.0], [4.0]]), np.array([1.0, 2.0, 3.0]), 0.1)
    >>> round(float(node.weight[0]), 6), round(node.intercept, 6), node.noise_std
    (0.5, 1.0, 0.1)
    """
    centre, middle = parents.mean(axis=0), column.mean()
    weight = np.linalg.lstsq(parents - centre, column - middle, rcond=None)[0]
    residual_std = np.std(column - parents @ weight)
    return LinearNode(weight, float(middle - centre @ weight), float(max(residual_std, least_std)))


def _learned(
    x: Float[np.ndarray, "n d"], j: int, parents: Bool[np.ndarray, " d"], free: Bool[np.ndarray, " n"]
) -> LinearNode:
    rows = x[free] if free.any() else x
    return fit_node(rows[:, parents], rows[:, j], float(np.sqrt(MIN_VARIANCE_SHARE * (x[:, j].var() or 1.0))))


def log_normal(
    x: Float[np.ndarray, "..."], mean: Float[np.ndarray, "..."] | float, std: Float[np.ndarray, "..."] | float
) -> Float[np.ndarray, "..."]:
    """log N(x; mean, std²), entry by entry."""
    return np.asarray(-0.5 * (LOG_2PI + ((x - mean) / std) ** 2) - np.log(std))


class Fitted(NamedTuple):
    """Parameters of a DAG and its targets by the names of a posterior, and log p(rows | them) of the rows at hand.

    The names and axes are those of `bacadi.model`, for `bacadi.metrics` finds the density by them. `n_parameters` is
    what a weight by posterior counts.
    """

    parameters: dict[str, Labelled]
    log_likelihood: float
    n_parameters: int


def linear_gaussian(data: ContextData, dag: Int8[np.ndarray, "d d"], targets: Int8[np.ndarray, "M d"]) -> Fitted:
    """The most likely linear Gaussian parameters: see `fit_gaussian`.

    A variable has an intercept and a noise, an edge a weight, a target a mean and a spread.

    >>> data = ContextData(np.array([[0.0], [2.0]]), np.array([0, 0]), ("a",), (), "obs")
    >>> linear_gaussian(data, np.zeros((1, 1), np.int8), np.zeros((0, 1), np.int8)).n_parameters
    2
    """
    fit = fit_gaussian(data, dag, targets)
    parameters = {
        "weight": Labelled(fit.weight, ("source", "target")),
        "intercept": Labelled(fit.intercept, ("node",)),
        "noise_std": Labelled(fit.noise_std, ("node",)),
        "effect_mean": Labelled(fit.effect_mean, ("context", "node")),
        "effect_noise_std": Labelled(fit.effect_noise_std, ("context", "node")),
    }
    return Fitted(parameters, fit.log_likelihood, 2 * data.n_variables + int(dag.sum()) + 2 * int(targets.sum()))
