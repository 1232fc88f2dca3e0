"""Held-out interventional likelihood (I-NLL of the appendix): targets and effects of the held-out contexts are known.

All functions read `log_p[l, n]`, the log density of held-out row n under draw l: see `bacadi.metrics.likelihood`.

Densities of rows under draws, in NumPy: the linear, network and Gaussian-process mechanisms of `bacadi.model`.

They read a draw's parameters under the names a posterior stores them by, so a posterior from a file will do.

Densities for draws without parameters: maximum likelihood or BGe given the training data and the draw's graph.

A node is learned from the rows where the draw's targets do not name it. Draws share nodes, parents and rows, so each
combination is learned once.

What a posterior predicts for held-out rows: the density that belongs to its model, draw by draw.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8
from scipy.special import expit, gammaln, logsumexp

from bacadi.data.contexts import ContextData
from bacadi.errors import DataError
from bacadi.model.functions import Functions
from bacadi.posterior.posterior import Draw, Posterior
from bacadi.simulate.synthetic import Effects

LOG_2PI = float(np.log(2 * np.pi))


def interventional_nll(
    log_p: Float[np.ndarray, "draws n"], weights: Float[np.ndarray, " draws"], context: Int[np.ndarray, " n"]
) -> float:
    """The paper's I-NLL = -1/K Σ_k 1/n_k Σ_{n in k} Σ_l w_l log p(x_n | draw l): a mean over contexts, per sample.

    It asks every draw to be good: a draw of weight .01 that rules out a row can outweigh all others.

    >>> interventional_nll(np.array([[-1.0, -3.0], [-2.0, -2.0]]), np.array([0.5, 0.5]), np.array([1, 2]))
    2.0
    """
    weights, log_p = _with_weight(weights, log_p)
    return -_mean_over_contexts(weights @ log_p, context)


def predictive_nll(
    log_p: Float[np.ndarray, "draws n"], weights: Float[np.ndarray, " draws"], context: Int[np.ndarray, " n"]
) -> float:
    """The same with the logarithm outside: -1/K Σ_k 1/n_k Σ_{n in k} log Σ_l w_l p(x_n | draw l).

    It scores the prediction that the draws make together, and is never larger than `interventional_nll`.

    >>> round(np.exp(-predictive_nll(np.log([[0.2], [0.6]]), np.array([0.5, 0.5]), np.array([1]))).item(), 6)
    0.4
    """
    weights, log_p = _with_weight(weights, log_p)
    return -_mean_over_contexts(logsumexp(log_p + np.log(weights)[:, None], axis=0), context)


def effect_log_density(
    x: Float[np.ndarray, "n d"], context: Int[np.ndarray, " n"], effects: Effects
) -> Float[np.ndarray, "n d"]:
    """log N(x_nj | shift_kj, std_kj²) where j is the target of a hard effect with noise in the row's context, else 0.

    A point mass (a knocked-out gene) has no density and an effect that keeps the parents is no density of its own, so
    those targets count for nothing, alike for all methods.
    """
    hard = (effects.targets != 0) & ~effects.keeps_parents & (effects.std > 0)
    std = np.where(hard, effects.std, 1.0)
    log_p = np.zeros(x.shape)
    rows, k = context > 0, context[context > 0] - 1
    standard = (x[rows] - effects.shift[k]) / std[k]
    log_p[rows] = np.where(hard[k], -0.5 * (LOG_2PI + standard**2) - np.log(std[k]), 0.0)
    return log_p


def untargeted(context: Int[np.ndarray, " n"], targets: Int8[np.ndarray, "m d"]) -> Float[np.ndarray, "n d"]:
    """1 where a variable is no target in the context of the row; context 0 has no targets and row k - 1 is context k.

    >>> untargeted(np.array([0, 2, 1]), np.array([[1, 0], [0, 1]], dtype=np.int8)).tolist()
    [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """
    hit = np.vstack([np.zeros((1, targets.shape[1])), targets != 0])
    return 1.0 - hit[context]


def _with_weight(
    weights: Float[np.ndarray, " draws"], log_p: Float[np.ndarray, "draws n"]
) -> tuple[Float[np.ndarray, " kept"], Float[np.ndarray, "kept n"]]:
    """Normalised weights of the draws that have one: 0 times a density of 0 is nothing, not undefined."""
    if not (weights >= 0).all() or not weights.sum() > 0:
        raise DataError("The weights of the draws are negative, not numbers or all zero; give one weight >= 0 a draw.")
    kept = weights > 0
    return weights[kept] / weights.sum(), log_p[kept]


def _mean_over_contexts(values: Float[np.ndarray, " n"], context: Int[np.ndarray, " n"]) -> float:
    _, inverse, counts = np.unique(context, return_inverse=True, return_counts=True)
    if not len(counts):
        raise DataError("There are no held-out rows, so a likelihood is not defined; give held-out data.")
    return float((np.bincount(inverse.ravel(), weights=values) / counts).mean())


Activation = Callable[[np.ndarray], np.ndarray]


class AbstractDensity(ABC):
    """The density of every variable given its parents in the graph of a draw."""

    @abstractmethod
    def log_density(self, draw: Draw, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """log p(x_nj | parents of j in row n), entry by entry."""

    def log_rows(
        self, draws: Sequence[Draw], x: Float[np.ndarray, "n d"], counted: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "draws n"]:
        """Σ_j counted_nj log p(x_nj | parents) of each row under each draw."""
        return np.stack([(self.log_density(draw, x) * counted).sum(axis=1) for draw in draws])


@dataclass(frozen=True)
class LinearDensity(AbstractDensity):
    """x_j ~ N(Σ_i G_ij w_ij x_i + b_j, σ_j²) from `weight` and, where the draw has them, `intercept` and `noise_std`.

    >>> draw = Draw(np.array([[0, 1], [0, 0]], dtype=np.int8), np.zeros((0, 2), np.int8), {"weight": np.ones((2, 2))})
    >>> LinearDensity(noise_std=1.0).log_density(draw, np.array([[2.0, 2.0]])).round(3).tolist()
    [[-2.919, -0.919]]
    """

    noise_std: float | None = None

    def log_density(self, draw: Draw, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        mean = x @ (draw.graph * draw.parameters["weight"].astype(float))
        mean = mean + draw.parameters.get("intercept", np.zeros(x.shape[1])).astype(float)
        return log_normal(x, mean, noise_std_of(draw, self.noise_std))


@dataclass(frozen=True)
class NetworkDensity(AbstractDensity):
    """x_j ~ N(FFN_j(G_:j ∘ x), σ_j²) from `layer_1_weight` [source, target, unit], `layer_1_bias` and so on.

    The activation is that of the model, or leaky ReLU of the slope that a draw has as `negative_slope`.
    """

    activation: Activation = expit
    noise_std: float | None = None

    def log_density(self, draw: Draw, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        (n, d), values = x.shape, draw.parameters
        first = draw.graph[:, :, None] * values["layer_1_weight"].astype(float)
        value = (x @ first.reshape(d, -1)).reshape(n, d, -1) + values["layer_1_bias"]
        activation, number = activation_of(draw, self.activation), 2
        while f"layer_{number}_weight" in values:
            weight = values[f"layer_{number}_weight"].astype(float)
            value = np.einsum("nji,ijh->njh", activation(value), weight) + values[f"layer_{number}_bias"]
            number += 1
        return log_normal(x, value[:, :, 0], noise_std_of(draw, self.noise_std))


class OwnUnits(NamedTuple):
    """The units of the priors: x = shift + scale · (x in these units)."""

    shift: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]

    @classmethod
    def of(cls, posterior: Posterior) -> "OwnUnits":
        """As stored with the posterior; without a word those of the data."""
        stored, d = posterior.constant_data, posterior.n_variables
        if "unit_shift" not in stored or "unit_scale" not in stored:
            return cls(np.zeros(d), np.ones(d))
        return cls(stored["unit_shift"].values, stored["unit_scale"].values)


@dataclass(frozen=True)
class InOwnUnits(AbstractDensity):
    """A density that is defined in the units of the priors, for rows in those of the data."""

    density: AbstractDensity
    units: OwnUnits

    def log_density(self, draw: Draw, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        shift, scale = self.units
        return self.density.log_density(draw, (x - shift) / scale) - np.log(scale)


@dataclass(frozen=True)
class FunctionDensity(AbstractDensity):
    """x_j ~ N(a_j + s_j f_j((x_P - a_P) / s_P), σ_j²) with f_j from `output_weight` and the posterior's hidden units.

    Functions are drawn in the units of the priors, a and s; `noise_std` σ is in those of the data.
    """

    hidden: dict[str, np.ndarray]
    units: OwnUnits

    @classmethod
    def of(cls, posterior: Posterior) -> "FunctionDensity":
        """Read off the constants stored with the posterior."""
        stored = {name: item.values for name, item in posterior.constant_data.items() if name.startswith("hidden_")}
        return cls(stored, OwnUnits.of(posterior))

    def log_density(self, draw: Draw, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return np.stack([column[0] for column in self._columns([draw], x)], axis=1)

    def log_rows(
        self, draws: Sequence[Draw], x: Float[np.ndarray, "n d"], counted: Float[np.ndarray, "n d"]
    ) -> Float[np.ndarray, "draws n"]:
        """Node by node, since draws that share the parents of a node share its features."""
        total = np.zeros((len(draws), len(x)))
        for node, column in enumerate(self._columns(draws, x)):
            total += column * counted[:, node]
        return total

    def _columns(self, draws: Sequence[Draw], x: Float[np.ndarray, "n d"]) -> Iterator[Float[np.ndarray, "draws n"]]:
        names = {"output_weight", "output_bias", "linear_weight"} & set(draws[0].parameters)
        functions = Functions.of(self.hidden, {name: np.stack([d.parameters[name] for d in draws]) for name in names})
        graphs, own = np.stack([draw.graph for draw in draws]), (x - self.units.shift) / self.units.scale
        noise_std = np.stack([noise_std_of(draw, None) for draw in draws])
        for node, (shift, scale) in enumerate(zip(*self.units, strict=True)):
            mean = shift + scale * functions.values(graphs, own, node)
            yield log_normal(x[:, node], mean, noise_std[:, node, None])


def activation_of(draw: Draw, of_model: Activation) -> Activation:
    """The activation that a draw names by its `negative_slope`, or else that of its model."""
    if "negative_slope" not in draw.parameters:
        return of_model
    slope = float(draw.parameters["negative_slope"])
    return lambda value: np.where(value > 0, value, slope * value)


def noise_std_of(draw: Draw, fixed: float | None) -> Float[np.ndarray, "..."]:
    """The noise of a draw, or the fixed noise of its model."""
    if "noise_std" in draw.parameters:
        return draw.parameters["noise_std"].astype(float)
    if fixed is None:
        raise DataError(
            "The posterior holds neither a noise_std nor a model with fixed noise, so its likelihood is not defined; "
            "store noise_std as a parameter."
        )
    return np.asarray(fixed, dtype=float)


def log_normal(
    x: Float[np.ndarray, "..."], mean: Float[np.ndarray, "..."], std: Float[np.ndarray, "..."]
) -> Float[np.ndarray, "..."]:
    """log N(x | mean, std²), entry by entry.

    >>> float(log_normal(np.array(0.0), np.array(0.0), np.array(1.0)).round(3))
    -0.919
    """
    return np.asarray(-0.5 * (LOG_2PI + ((x - mean) / std) ** 2) - np.log(std))


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


Maker = Callable[[Mapping[str, Any], Posterior, ContextData], AbstractDensity | None]


def density_of(posterior: Posterior, data: ContextData) -> AbstractDensity | None:
    """The predictive density of a posterior's draws, or None for a mechanism that is not of this package.

    Functions drawn from a Gaussian process are known by the name of their parameters. Else the mechanism is read from
    the configuration stored with the posterior; without one, the names of the parameters tell it, and draws without
    parameters of a mechanism get the linear maximum-likelihood ones. `data` are the training data, in the scale and
    with the contexts of the posterior.
    """
    if "output_weight" in posterior.parameters:
        return FunctionDensity.of(posterior)
    mechanism = _mechanism(posterior)
    if mechanism is not None:
        make = _BY_CLASS.get(str(mechanism.get("class")))
        return make(mechanism, posterior, data) if make else None
    if "weight" in posterior.parameters:
        return LinearDensity()
    return NetworkDensity() if "layer_1_weight" in posterior.parameters else MaximumLikelihood(data)


def log_rows(
    posterior: Posterior, density: AbstractDensity, x: Float[np.ndarray, "n d"], counted: Float[np.ndarray, "n d"]
) -> tuple[Float[np.ndarray, " draws"], Float[np.ndarray, "draws n"]]:
    """Weights of the draws that have one, and Σ_j counted_nj log p(x_nj | parents) of each row under each of them."""
    weights, draws = zip(*posterior.draws(), strict=True)
    return np.array(weights), density.log_rows(draws, x, counted)


def _mechanism(posterior: Posterior) -> Mapping[str, Any] | None:
    found: Any = posterior.attrs
    for name in ("configuration", "model", "mechanism"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _linear(mechanism: Mapping[str, Any], posterior: Posterior, data: ContextData) -> AbstractDensity:
    return LinearDensity(mechanism["noise"].get("std"))


def _network(mechanism: Mapping[str, Any], posterior: Posterior, data: ContextData) -> AbstractDensity | None:
    activation = _ACTIVATIONS.get(mechanism["activation"])
    # Networks that were integrated out and not drawn leave no weights behind.
    if activation is None or "layer_1_weight" not in posterior.parameters:
        return None
    return NetworkDensity(activation, mechanism["noise"].get("std"))


def _marginal(mechanism: Mapping[str, Any], posterior: Posterior, data: ContextData) -> AbstractDensity:
    units = OwnUnits.of(posterior)
    own = replace(data, x=(data.x - units.shift) / units.scale)
    return InOwnUnits(Marginal(own, mechanism["alpha_mu"], mechanism["alpha_omega_excess"]), units)


def _gelu(x: np.ndarray) -> np.ndarray:
    # The tanh form, which is JAX's default.
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


_BY_CLASS: dict[str, Maker] = {"LinearGaussian": _linear, "NeuralGaussian": _network, "BGe": _marginal}
_ACTIVATIONS: dict[Any, Activation] = {
    "sigmoid": expit,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "gelu": _gelu,
    "softplus": lambda x: np.logaddexp(x, 0.0),
}
