"""Maximum-likelihood linear Gaussian fit of a graph and its targets, in closed form (Hauser and Bühlmann, 2014).

In the rows where variable j is not a target, and in those of a context k that targets it,

    x_j = Σ_i w_ij x_i + b_j + σ_j ε,      x_j = μ_kj + s_kj ε,

so that each variable is regressed on its parents over the rows where nothing intervenes on it, and each effect is a
mean and a standard deviation. `graph[i, j] = 1` means i -> j.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int8

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled

LOG_2PI = float(np.log(2 * np.pi))

# A residual variance below this share of the column's variance is due to too few rows, not a property of the data.
MIN_VARIANCE_SHARE = 1e-6


class FittedParameters(NamedTuple):
    """Parameters of a DAG and its targets, and log p(rows | parameters) of the rows at hand.

    Names and axes are those of `bacadi.model`, because `bacadi.metrics` finds the density by them. `n_parameters` is
    the number that BIC counts.
    """

    parameters: dict[str, Labelled]
    log_likelihood: float
    n_parameters: int


class LinearNode(NamedTuple):
    """x_j ~ N(weight · x_parents + intercept, noise_std²)."""

    weight: Float[np.ndarray, " p"]
    intercept: float
    noise_std: float

    def log_density(
        self, parents: Float[np.ndarray, "n p"], column: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """log p(x_j | x_parents), row by row."""
        return log_normal(column, parents @ self.weight + self.intercept, self.noise_std)


def fit_gaussian(
    data: ContextData, graph: Int8[np.ndarray, "d d"], targets: Int8[np.ndarray, "M d"]
) -> FittedParameters:
    """Fit the most likely parameters of a DAG, each variable without the rows where it is a target.

    The standard deviation of an effect is at least the noise of its variable: one row has none, and its density would
    be infinite. A variable counts two parameters (intercept, noise), an edge one, a target two (mean, noise).

    >>> data = ContextData(np.array([[0.0, 1.0], [2.0, 2.0], [4.0, 9.0]]), np.array([0, 0, 1]), ("a", "b"), ("k",))
    >>> fit = fit_gaussian(data, np.array([[0, 1], [0, 0]], np.int8), np.array([[0, 1]], np.int8))
    >>> fit.parameters["weight"].values.round(6).tolist(), fit.parameters["effect_mean"].values.tolist()
    ([[0.0, 0.5], [0.0, 0.0]], [[0.0, 9.0]])
    >>> fit.n_parameters
    7
    """
    (n_contexts, d), x = targets.shape, data.x
    hit = np.vstack([np.zeros((1, d), dtype=bool), targets != 0])[data.context]
    weight, intercept, noise_std = np.zeros((d, d)), np.zeros(d), np.ones(d)
    effect_mean, effect_std = np.zeros((n_contexts, d)), np.zeros((n_contexts, d))
    log_likelihood = 0.0
    for j in range(d):
        parents, free = graph[:, j] != 0, ~hit[:, j]
        node = fit_node(x, j, parents, free)
        weight[parents, j], intercept[j], noise_std[j] = node
        log_likelihood += float(node.log_density(x[free][:, parents], x[free, j]).sum())
        for k in np.flatnonzero(targets[:, j]):
            rows = x[data.context == k + 1, j]
            effect_mean[k, j], effect_std[k, j] = rows.mean(), max(rows.std(), node.noise_std)
            log_likelihood += float(log_normal(rows, effect_mean[k, j], effect_std[k, j]).sum())
    parameters = {
        "weight": Labelled(weight, ("source", "target")),
        "intercept": Labelled(intercept, ("node",)),
        "noise_std": Labelled(noise_std, ("node",)),
        "effect_mean": Labelled(effect_mean, ("context", "node")),
        "effect_noise_std": Labelled(effect_std, ("context", "node")),
    }
    return FittedParameters(parameters, log_likelihood, 2 * d + int(graph.sum()) + 2 * int(targets.sum()))


def fit_node(
    x: Float[np.ndarray, "n d"], node: int, parents: Bool[np.ndarray, " d"], rows: Bool[np.ndarray, " n"]
) -> LinearNode:
    """Fit (w, b) of a variable by least squares and σ² = 1/n Σ residual² over the marked rows; over all if none is.

    With too few rows for the parents σ² would be 0; it is at least `MIN_VARIANCE_SHARE` of the column's variance.

    >>> x = np.array([[0.0, 1.0], [2.0, 2.0], [4.0, 3.0], [0.0, 9.0]])
    >>> node = fit_node(x, 1, np.array([True, False]), np.array([True, True, True, False]))
    >>> round(float(node.weight[0]), 6), round(node.intercept, 6), round(node.noise_std, 4)
    (0.5, 1.0, 0.0031)
    """
    used = x[rows] if rows.any() else x
    inputs, column = used[:, parents], used[:, node]
    centre, middle = inputs.mean(axis=0), column.mean()
    # Centred columns carry the intercept and keep the regression well conditioned far from the origin.
    weight = np.linalg.lstsq(inputs - centre, column - middle, rcond=None)[0]
    least_std = np.sqrt(MIN_VARIANCE_SHARE * (x[:, node].var() or 1.0))
    noise_std = max(np.std(column - inputs @ weight), least_std)
    return LinearNode(weight, float(middle - centre @ weight), float(noise_std))


def log_normal(
    x: Float[np.ndarray, "..."], mean: Float[np.ndarray, "..."] | float, std: Float[np.ndarray, "..."] | float
) -> Float[np.ndarray, "..."]:
    """log N(x; mean, std²), entry by entry.

    >>> float(log_normal(np.array(0.0), 0.0, 1.0).round(3))
    -0.919
    """
    return np.asarray(-0.5 * (LOG_2PI + ((x - mean) / std) ** 2) - np.log(std))
