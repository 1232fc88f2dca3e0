"""Held-out interventional likelihood (I-NLL of the appendix): targets and effects of the held-out contexts are known.

The averages read `log_p[l, n]`, the log density of held-out row n under draw l. It comes from the mechanism that is
recorded with the posterior: `density_of` decodes it and calls its forward pass with the parameters of each draw. Draws
without parameters are given maximum-likelihood ones (linear), or the predictive density of BGe, learned from the rows
where the draw does not name the variable as a target.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8
from scipy.special import gammaln, logsumexp

from bacadi.baselines.base import LinearNode, fit_node
from bacadi.data.contexts import ContextData, Scaling
from bacadi.errors import DataError
from bacadi.metrics.structure import check_weights
from bacadi.model.integrated import BGe
from bacadi.model.kernels import FUNCTION_PARAMETERS, FunctionMechanism
from bacadi.model.mechanism import AbstractMechanism, GaussianMechanism
from bacadi.model.network import Effects
from bacadi.model.noise import log_normal
from bacadi.posterior.networks import (
    drawn_functions,
    has_parameters,
    in_prior_units,
    mechanism_by_names,
    recorded_mechanism,
    units_of,
)
from bacadi.posterior.posterior import Draw, Posterior

Rows = Float[np.ndarray, "n d"]
Contexts = Int[np.ndarray, " n"]
Weights = Float[np.ndarray, " draws"]
LogRows = Float[np.ndarray, "draws n"]
ParentSet = Bool[np.ndarray, " d"]
Parents = Float[np.ndarray, "n p"]
Column = Float[np.ndarray, " n"]


def interventional_nll(log_p: LogRows, weights: Weights, context: Contexts) -> float:
    """The paper's I-NLL = -1/K Σ_k 1/n_k Σ_{n in k} Σ_l w_l log p(x_n | draw l): a mean over contexts, per sample.

    It asks every draw to be good: a draw of weight .01 that rules out a row can outweigh all others.

    >>> interventional_nll(np.array([[-1.0, -3.0], [-2.0, -2.0]]), np.array([0.5, 0.5]), np.array([1, 2]))
    2.0
    """
    weights, log_p = _with_weight(weights, log_p)
    return -_mean_over_contexts(weights @ log_p, context)


def predictive_nll(log_p: LogRows, weights: Weights, context: Contexts) -> float:
    """The same with the logarithm outside: -1/K Σ_k 1/n_k Σ_{n in k} log Σ_l w_l p(x_n | draw l).

    It scores the prediction that the draws make together, and is never larger than `interventional_nll`.

    >>> round(np.exp(-predictive_nll(np.log([[0.2], [0.6]]), np.array([0.5, 0.5]), np.array([1]))).item(), 6)
    0.4
    """
    weights, log_p = _with_weight(weights, log_p)
    return -_mean_over_contexts(logsumexp(log_p + np.log(weights)[:, None], axis=0), context)


def effect_log_density(x: Rows, context: Contexts, effects: Effects) -> Rows:
    """log N(x_nj | shift_kj, std_kj²) where j is the target of a hard effect with noise in the row's context, else 0.

    A point mass (a knocked-out gene) has no density, and one of an effect that keeps the parents depends on the
    mechanism, so those targets count for nothing, the same for all methods.
    """
    hard = (effects.targets != 0) & ~effects.keeps_parents & (effects.std > 0)
    std = np.where(hard, effects.std, 1.0)
    log_p = np.zeros(x.shape)
    rows, k = context > 0, context[context > 0] - 1
    log_p[rows] = np.where(hard[k], log_normal(x[rows], effects.shift[k], std[k]), 0.0)
    return log_p


def untargeted(context: Contexts, targets: Int8[np.ndarray, "m d"]) -> Rows:
    """1 where a variable is not a target in the context of the row; context 0 has none, row k - 1 is context k.

    >>> untargeted(np.array([0, 2, 1]), np.array([[1, 0], [0, 1]], dtype=np.int8)).tolist()
    [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """
    return 1.0 - np.vstack([np.zeros((1, targets.shape[1])), targets != 0])[context]


def _with_weight(weights: Weights, log_p: LogRows) -> tuple[Float[np.ndarray, " kept"], Float[np.ndarray, "kept n"]]:
    """Normalised weights of the draws that have one: 0 times a density of 0 is nothing, not undefined."""
    check_weights(weights, "draw")
    kept = weights > 0
    return weights[kept] / weights.sum(), log_p[kept]


def _mean_over_contexts(values: Float[np.ndarray, " n"], context: Contexts) -> float:
    _, inverse, counts = np.unique(context, return_inverse=True, return_counts=True)
    if not len(counts):
        raise DataError("There are no held-out rows, so a likelihood is not defined; give held-out data.")
    return float((np.bincount(inverse.ravel(), weights=values) / counts).mean())


class AbstractDensity(ABC):
    """The density of every variable given its parents in the graph of a draw."""

    @abstractmethod
    def log_density(self, draw: Draw, x: Rows) -> Rows:
        """log p(x_nj | parents of j in row n), entry by entry."""

    def log_rows(self, draws: Sequence[Draw], x: Rows, counted: Rows) -> LogRows:
        """Σ_j counted_nj log p(x_nj | parents) of each row under each draw."""
        return np.stack([(self.log_density(draw, x) * counted).sum(axis=1) for draw in draws])


@dataclass(frozen=True)
class MechanismDensity(AbstractDensity):
    """The density of a mechanism with the parameters of each draw, which are in the units of the rows.

    >>> from bacadi.model.linear import LinearGaussian
    >>> graph = np.array([[0, 1], [0, 0]], dtype=np.int8)
    >>> draw = Draw(graph, np.zeros((0, 2), np.int8), {"weight": np.ones((2, 2)), "noise_std": np.ones(2)})
    >>> MechanismDensity(LinearGaussian()).log_density(draw, np.array([[2.0, 2.0]])).round(3).tolist()
    [[-2.919, -0.919]]
    """

    mechanism: AbstractMechanism

    def log_density(self, draw: Draw, x: Rows) -> Rows:
        if not self.has_noise(draw.parameters):
            raise DataError(
                "The posterior holds neither a noise_std nor a model with fixed noise, so its likelihood is not "
                "defined; store noise_std as a parameter."
            )
        values = {name: value.astype(float) for name, value in draw.parameters.items()}
        return self.mechanism.log_density(self.mechanism.theta_of(values, x.shape[1]), draw.graph, x)

    def has_noise(self, parameters: Mapping[str, Any]) -> bool:
        """Whether the noise is known: a parameter, fixed, or not a matter of its own."""
        fixed = not isinstance(self.mechanism, GaussianMechanism) or self.mechanism.noise.initial is None
        return fixed or "noise_std" in parameters


@dataclass(frozen=True)
class InUnits(AbstractDensity):
    """A density that is defined in other units, those of the priors, for rows in the units of the data."""

    density: AbstractDensity
    units: Scaling

    def log_density(self, draw: Draw, x: Rows) -> Rows:
        return self.density.log_density(draw, self.units.apply(x)) - np.log(self.units.scale)


@dataclass(frozen=True)
class FunctionDensity(AbstractDensity):
    """The density of functions drawn from Gaussian processes, with the weights of each draw."""

    mechanism: FunctionMechanism

    def log_density(self, draw: Draw, x: Rows) -> Rows:
        return np.stack([column[0] for column in self._columns([draw], x)], axis=1)

    def log_rows(self, draws: Sequence[Draw], x: Rows, counted: Rows) -> LogRows:
        """Node by node, since draws that share the parents of a node share its features."""
        total = np.zeros((len(draws), len(x)))
        for node, column in enumerate(self._columns(draws, x)):
            total += column * counted[:, node]
        return total

    def _columns(self, draws: Sequence[Draw], x: Rows) -> Iterator[LogRows]:
        names = FUNCTION_PARAMETERS & set(draws[0].parameters)
        drawn = {name: np.stack([d.parameters[name] for d in draws]) for name in names}
        graphs, nodes = np.stack([draw.graph for draw in draws]), range(x.shape[1])
        noise_std = np.stack([draw.parameters["noise_std"].astype(float) for draw in draws])
        for node, mean in enumerate(self.mechanism.columns(drawn, graphs, x, nodes)):
            yield log_normal(x[:, node], mean, noise_std[:, node, None])


class BGeNode(NamedTuple):
    """The posterior predictive density of a node under BGe, all parameters integrated out.

    It is the ratio of the evidences (`bacadi.model.integrated`) with and without the new row. With N training rows,
    s = Σ x, R = t I + Σ x x' - s s'/(N + α_μ), κ = (N + α_μ) / (N + α_μ + 1), z = x - s/(N + α_μ), l parents P, the
    family F = P ∪ j and ν = N + α_ω - d + l + 1, a row adds κ z z' to R, and |R + κ z z'| = |R| (1 + κ z' R⁻¹ z):

        log p(x_j | x_P, data) = ½ log(κ/π) + log Γ((ν + 1)/2) - log Γ(ν/2) - ½ log(|R_F| / |R_P|)
                                 - (ν + 1)/2 · log(1 + κ z_F' R_F⁻¹ z_F) + ν/2 · log(1 + κ z_P' R_P⁻¹ z_P).
    """

    mean: Float[np.ndarray, " p+1"]  # s / (N + α_μ), the parents first
    matrix: Float[np.ndarray, "p+1 p+1"]  # R of the family
    kappa: float
    df: float

    @classmethod
    def fit(cls, bge: BGe, x: Rows, node: int, parents: ParentSet, rows: Bool[np.ndarray, " n"]) -> "BGeNode":
        """Learn from the marked rows."""
        family = x[rows][:, [*np.flatnonzero(parents), node]]
        n, size = family.shape
        strength = n + bge.alpha_mu
        mean = family.sum(axis=0) / strength
        matrix = bge.prior_scale * np.eye(size) + family.T @ family - strength * np.outer(mean, mean)
        return cls(mean, matrix, strength / (strength + 1), n + bge.alpha_omega_excess + size)

    def log_density(self, parents: Parents, column: Column) -> Column:
        """log p(x_j | x_parents, data), row by row."""
        z, (kappa, df), size = np.column_stack([parents, column]) - self.mean, self[2:], len(self.mean)
        log_det, grown = np.zeros(2), np.zeros((2, len(z)))
        for i, k in enumerate((size - 1, size)):  # the parents, then the family
            log_det[i] = np.linalg.slogdet(self.matrix[:k, :k])[1]
            inverse = np.linalg.inv(self.matrix[:k, :k])
            grown[i] = np.log1p(kappa * np.einsum("np,pq,nq->n", z[:, :k], inverse, z[:, :k]))
        constant = 0.5 * np.log(kappa / np.pi) + gammaln((df + 1) / 2) - gammaln(df / 2)
        return constant - 0.5 * (log_det[1] - log_det[0]) - 0.5 * (df + 1) * grown[1] + 0.5 * df * grown[0]


@dataclass(frozen=True)
class EvidenceNode:
    """The posterior predictive density of a node under a mechanism that offers `log_evidence` and no parameters:

    p(x | D) = p(D, x) / p(D), one evidence per row. Draws share nodes, so a set of rows is scored once.
    """

    mechanism: Any
    x: Rows
    node: int
    parents: ParentSet
    rows: Bool[np.ndarray, " n"]
    _scored: dict[bytes, Float[np.ndarray, " m"]] = field(default_factory=dict, repr=False)

    def log_density(self, parents: Parents, column: Column) -> Column:
        """log p(D, x) - log p(D) of each row x."""
        key = parents.tobytes() + column.tobytes()
        if key not in self._scored:
            evidence = partial(self.mechanism.log_evidence, self.node, np.flatnonzero(self.parents))
            known, new = self.x[self.rows], np.zeros((len(column), 1, self.x.shape[1]))
            new[:, 0, self.parents], new[:, 0, self.node] = parents, column
            base = evidence(known)
            self._scored[key] = np.array([evidence(np.concatenate([known, row])) - base for row in new])
        return self._scored[key]


Learn = Callable[[np.ndarray, int, np.ndarray, np.ndarray], LinearNode | BGeNode | EvidenceNode]


@dataclass(frozen=True)
class FittedDensity(AbstractDensity):
    """log p(x_j | parents) by what `fit(x, node, parents, rows)` learns of node j from rows where j is not a target.

    By default linear Gaussian by maximum likelihood. Draws share nodes, parents and rows, so each combination is
    learned once.

    >>> data = ContextData(np.array([[0.0, 1.0], [2.0, 2.0]]), np.zeros(2, int), ("a", "b"), (), "obs")
    >>> draw = Draw(np.array([[0, 1], [0, 0]], np.int8), np.zeros((0, 2), np.int8), {})
    >>> FittedDensity(data).weights(draw).round(6).tolist()
    [[0.0, 0.5], [0.0, 0.0]]
    """

    data: ContextData
    fit: Learn = fit_node
    _learned: dict[tuple[int, bytes, bytes], Any] = field(default_factory=dict, repr=False)

    def nodes(self, draw: Draw) -> list[Any]:
        """What is learned of each node, given its parents and targets in the draw."""
        keep = untargeted(self.data.context, draw.targets) != 0
        nodes = []
        for node, parents in enumerate(draw.graph.T != 0):
            key = node, parents.tobytes(), draw.targets[:, node].tobytes()
            if key not in self._learned:
                self._learned[key] = self.fit(self.data.x, node, parents, keep[:, node])
            nodes.append(self._learned[key])
        return nodes

    def log_density(self, draw: Draw, x: Rows) -> Rows:
        pairs = zip(self.nodes(draw), draw.graph.T != 0, x.T, strict=True)
        return np.stack([node.log_density(x[:, parents], column) for node, parents, column in pairs], axis=1)

    def weights(self, draw: Draw) -> Float[np.ndarray, "d d"]:
        """The fitted linear weight of each edge i -> j, 0 where there is none."""
        weights = np.zeros(draw.graph.shape)
        for j, node in enumerate(self.nodes(draw)):
            weights[draw.graph[:, j] != 0, j] = node.weight
        return weights


def density_of(posterior: Posterior, data: ContextData, modules: Sequence[str] = ()) -> AbstractDensity | None:
    """The predictive density of a posterior's draws, or None where they do not hold the parameters it needs.

    Functions drawn from a Gaussian process are known by the name of their parameters. Else the mechanism is the one
    recorded with the posterior; without a record (baselines) the names of the parameters tell it, and draws without
    parameters of a mechanism get the linear maximum-likelihood ones.

    Args:
        data: the training data, in the units and with the contexts of the posterior.
        modules: modules of the user's own that the record may name a mechanism of; no other is imported.
    """
    if (functions := drawn_functions(posterior)) is not None:
        return FunctionDensity(functions)
    mechanism = recorded_mechanism(posterior, modules) or mechanism_by_names(posterior)
    if mechanism is None:
        return FittedDensity(data)
    units = units_of(posterior)
    if isinstance(mechanism, AbstractMechanism) and has_parameters(mechanism, posterior):
        density = MechanismDensity(mechanism)
        return InUnits(density, units) if in_prior_units(mechanism) else density
    scaled = replace(data, x=units.apply(data.x))
    if isinstance(mechanism, BGe):
        return InUnits(FittedDensity(scaled, lambda *node: BGeNode.fit(mechanism, *node)), units)
    if hasattr(mechanism, "log_evidence"):
        return InUnits(FittedDensity(scaled, partial(EvidenceNode, mechanism)), units)
    return None


def log_rows(posterior: Posterior, density: AbstractDensity, x: Rows, counted: Rows) -> tuple[Weights, LogRows]:
    """Weights of the draws that have one, and Σ_j counted_nj log p(x_nj | parents) of each row under each of them."""
    weights, draws = zip(*posterior.draws(), strict=True)
    return np.array(weights), density.log_rows(draws, x, counted)
