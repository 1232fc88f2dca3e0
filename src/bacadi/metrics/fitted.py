"""Densities for draws without parameters: maximum likelihood or BGe given the training data and the draw's graph.

A node is learned from the rows where the draw's targets do not name it. Draws share nodes, parents and rows, so each
combination is learned once.
"""

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import gammaln

from bacadi.data.context import ContextData
from bacadi.metrics.densities import AbstractDensity, log_normal
from bacadi.metrics.likelihood import untargeted
from bacadi.posterior.draws import Draw

# A residual variance below this share of the column's own comes from too few rows and is no law of the data.
MIN_VARIANCE_SHARE = 1e-6


class AbstractFitted(AbstractDensity):
    """log p(x_j | parents) with what is learned about node j from the training rows where j is no target."""

    def __init__(self, data: ContextData) -> None:
        self.data = data
        self._learned: dict[tuple[int, bytes, bytes], Any] = {}

    @abstractmethod
    def _learn(self, node: int, parents: Bool[np.ndarray, " d"], rows: Bool[np.ndarray, " n"]) -> Any:
        """What `_log_density_of` needs about a node."""

    @abstractmethod
    def _log_density_of(
        self, learned: Any, parents: Float[np.ndarray, "n p"], column: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]: ...

    def log_density(self, draw: Draw, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        columns = []
        for node, learned in enumerate(self.learned(draw)):
            columns.append(self._log_density_of(learned, x[:, draw.graph[:, node] != 0], x[:, node]))
        return np.stack(columns, axis=1)

    def learned(self, draw: Draw) -> list[Any]:
        """What is known about each node, given its parents and the rows where the draw says it is no target."""
        keep = untargeted(self.data.context, draw.targets) != 0
        return [self._of_node(node, draw, keep[:, node]) for node in range(len(draw.graph))]

    def _of_node(self, node: int, draw: Draw, keep: Bool[np.ndarray, " n"]) -> Any:
        parents = draw.graph[:, node] != 0
        key = node, parents.tobytes(), draw.targets[:, node].tobytes()
        if key not in self._learned:
            self._learned[key] = self._learn(node, parents, keep)
        return self._learned[key]


class LinearNode(NamedTuple):
    """x_j ~ N(weight · x_parents + intercept, noise_std²)."""

    weight: Float[np.ndarray, " p"]
    intercept: float
    noise_std: float


class MaximumLikelihood(AbstractFitted):
    """Linear Gaussian mechanisms with the weights, intercepts and noise that make the training data most likely.

    Closed form for each node over its n rows: (w, b) by least squares, σ² = 1/n Σ residual². With too few rows for the
    parents σ² would be 0 and is held at a millionth of the column's variance; a node that is a target in every row is
    fitted to all rows.

    >>> data = ContextData(np.array([[0.0, 1.0], [2.0, 2.0]]), np.zeros(2, int), ("a", "b"), (), "obs")
    >>> draw = Draw(np.array([[0, 1], [0, 0]], np.int8), np.zeros((0, 2), np.int8), {})
    >>> MaximumLikelihood(data).weights(draw).round(6).tolist()
    [[0.0, 0.5], [0.0, 0.0]]
    """

    def weights(self, draw: Draw) -> Float[np.ndarray, "d d"]:
        """The fitted weight of each edge i -> j, 0 where there is none."""
        weights = np.zeros(draw.graph.shape)
        for node, fitted in enumerate(self.learned(draw)):
            weights[draw.graph[:, node] != 0, node] = fitted.weight
        return weights

    def _learn(self, node: int, parents: Bool[np.ndarray, " d"], rows: Bool[np.ndarray, " n"]) -> LinearNode:
        x = self.data.x[rows] if rows.any() else self.data.x
        mean = x.mean(axis=0)
        centred, column = (x - mean)[:, parents], x[:, node] - mean[node]
        weight = np.linalg.lstsq(centred, column, rcond=None)[0]
        variance = np.mean((column - centred @ weight) ** 2)
        floor = MIN_VARIANCE_SHARE * (self.data.x[:, node].var() or 1.0)
        intercept = mean[node] - mean[parents] @ weight
        return LinearNode(weight, float(intercept), float(np.sqrt(max(variance, floor))))

    def _log_density_of(
        self, learned: LinearNode, parents: Float[np.ndarray, "n p"], column: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        return log_normal(column, parents @ learned.weight + learned.intercept, np.asarray(learned.noise_std))


class BGeNode(NamedTuple):
    """The Student t of a node given its parents: see `Marginal`."""

    mean: Float[np.ndarray, " p+1"]  # s / (N + α_μ), the parents first
    inverse: Float[np.ndarray, "p p"]
    beta: Float[np.ndarray, " p"]
    schur: float
    kappa: float
    df: float


class Marginal(AbstractFitted):
    """BGe, all parameters integrated out: the posterior predictive density of one row given the training rows.

    With N training rows, s = Σ x, R = t I + Σ x x' - s s'/(N + α_μ) and l parents P (as in `bacadi.model.bge`), and
    κ = (N + α_μ) / (N + α_μ + 1), z = x - s/(N + α_μ), β = R_P⁻¹ R_Pj, c = R_jj - R_jP β, ν = N + α_ω - d + l + 1:

        x_j | x_P, data ~ Student t with ν degrees of freedom, mean s_j/(N + α_μ) + β·z_P
                          and squared scale c (1 + κ z_P' R_P⁻¹ z_P) / (κ ν).
    """

    def __init__(self, data: ContextData, alpha_mu: float = 1.0, alpha_omega_excess: float = 2.0) -> None:
        super().__init__(data)
        self.alpha_mu = alpha_mu
        self.alpha_omega_excess = alpha_omega_excess

    def _learn(self, node: int, parents: Bool[np.ndarray, " d"], rows: Bool[np.ndarray, " n"]) -> BGeNode:
        x = self.data.x[rows]
        family = np.column_stack([x[:, parents], x[:, node]])
        n, size = len(x), int(parents.sum())
        strength = n + self.alpha_mu
        mean = family.sum(axis=0) / strength
        t = self.alpha_mu * (self.alpha_omega_excess - 1) / (self.alpha_mu + 1)
        matrix = t * np.eye(size + 1) + family.T @ family - strength * np.outer(mean, mean)
        inverse = np.linalg.inv(matrix[:size, :size])
        beta = inverse @ matrix[:size, size]
        schur = matrix[size, size] - matrix[size, :size] @ beta
        df = n + self.alpha_omega_excess + size + 1
        return BGeNode(mean, inverse, beta, float(schur), strength / (strength + 1), df)

    def _log_density_of(
        self, learned: BGeNode, parents: Float[np.ndarray, "n p"], column: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        mean, inverse, beta, schur, kappa, df = learned
        z = parents - mean[:-1]
        spread = 1 + kappa * np.einsum("np,pq,nq->n", z, inverse, z)
        square = kappa * (column - mean[-1] - z @ beta) ** 2 / (schur * spread)
        normaliser = gammaln((df + 1) / 2) - gammaln(df / 2) + 0.5 * np.log(kappa / (np.pi * schur * spread))
        return np.asarray(normaliser - 0.5 * (df + 1) * np.log1p(square))
