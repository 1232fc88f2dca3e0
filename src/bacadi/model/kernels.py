"""Covariances k(x, x') of mechanisms over the parents of a node, with the algebra `Constant(1.0) + RBF(2.0)`.

A mechanism without parents has the constant part alone: every kernel but `Constant` is 0 where x has no columns. So the
mean of a root is an intercept, or 0 where there is no constant part, as in the paper's data recipe.

Drawn functions have hidden units in common: node j with parents P has f_j(x) = b_j + Σ_r w_jr g(c_r + Σ_{i in P} v_ri
x_i) + Σ_{i in P} l_ij x_i. The units (v, c) are the same in all draws and stored once; w, b and l are drawn. Inputs and
outputs are in the units of the priors, which a posterior holds as `unit_shift` and `unit_scale`.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8, Shaped
from scipy.special import expit

from bacadi.config.choices import Choice, option
from bacadi.data.contexts import Scaling
from bacadi.errors import ConfigError


class Units(NamedTuple):
    """Hidden units shared by all nodes: f_j(x) = Σ_r w_jr scale_r g(bias_r + Σ_{i parent of j} weight_ri x_i) + rest.

    g is the logistic function or the cosine; `rest` is w_jR plus, if the kernel has a linear part, Σ_i w_j,R+1+i x_i.
    `own_input[r]` names the single input of unit r, which is silent where that is no parent, or is -1.
    """

    weight: Float[np.ndarray, "R d"]
    bias: Float[np.ndarray, " R"]
    scale: Float[np.ndarray, " R"]
    own_input: Int[np.ndarray, " R"]
    logistic: bool | np.bool
    linear: bool | np.bool

    @classmethod
    def none(cls, n_variables: int) -> "Units":
        """No units: functions of a constant and of linear parts alone."""
        return cls(np.empty((0, n_variables)), np.empty(0), np.empty(0), np.empty(0, int), False, False)

    def features(self, x: Float[np.ndarray, "n d"], parents: Bool[np.ndarray, " d"]) -> Float[np.ndarray, "n C"]:
        """All features of the rows for one set of parents: units, the constant 1, and the parents if linear."""
        inputs = self.bias + x[:, parents] @ self.weight[:, parents].T
        units = self.scale * (expit(inputs) if self.logistic else np.cos(inputs))
        columns = [units, np.ones((len(x), 1))] + ([x * parents] if self.linear else [])
        return np.concatenate(columns, axis=1)


Graphs = Int8[np.ndarray, "n d d"]
Parameters = Mapping[str, Shaped[np.ndarray, "n ..."]]


@dataclass(frozen=True)
class Functions:
    """Drawn functions: `parameters` hold `output_weight` [n, d, R], `output_bias` [n, d] and, where the kernel has a
    linear part, `linear_weight` [n, d, d]; `units` those of each kernel and `kernel[j]` the one of variable j."""

    units: tuple[Units, ...]
    kernel: Int[np.ndarray, " d"]
    parameters: Parameters

    @classmethod
    def of(cls, constants: Mapping[str, np.ndarray], parameters: Parameters) -> "Functions":
        """From the arrays that a posterior stores, `hidden_weight`, `hidden_bias`, `hidden_logistic` and
        `hidden_kernel` among its constants."""
        weight, bias = constants["hidden_weight"].astype(float), constants["hidden_bias"].astype(float)
        logistic, linear = bool(constants["hidden_logistic"]), "linear_weight" in parameters
        scale, none = np.ones(bias.shape[1]), np.full(bias.shape[1], -1)
        units = tuple(Units(v, c, scale, none, logistic, linear) for v, c in zip(weight, bias, strict=True))
        return cls(units, constants["hidden_kernel"], parameters)

    def values(self, graphs: Graphs, x: Float[np.ndarray, "m d"], node: int) -> Float[np.ndarray, "n m"]:
        """f_j(x) of every draw and row; only the columns of the parents of j in the graph of the draw matter."""
        found, units = np.empty((len(graphs), len(x))), self.units[self.kernel[node]]
        parts = [self.parameters["output_weight"][:, node], self.parameters["output_bias"][:, node, None]]
        if "linear_weight" in self.parameters:
            parts.append(self.parameters["linear_weight"][:, :, node])
        weight = np.concatenate(parts, axis=1, dtype=float)
        different, number = np.unique(graphs[:, :, node], axis=0, return_inverse=True)
        for i, parents in enumerate(different):
            at = np.flatnonzero(number == i)
            found[at] = weight[at] @ units.features(x, parents == 1).T
        return found


FUNCTION_PARAMETERS = {"output_weight", "output_bias", "linear_weight"}
"""The names of the parameters that `Functions` reads; the last is missing where the kernel has no linear part."""


@dataclass(frozen=True)
class FunctionMechanism:
    """x_j ~ N(a_j + s_j f_j((x_P - a_P) / s_P), σ_j²) with f_j one of the drawn `Functions` and σ_j from `noise_std`.

    Functions are drawn in the units of the priors, a and s; σ is in those of the rows. `hidden` are the constants that
    `Functions.of` reads, and Θ is the dictionary of the parameters of one draw.
    """

    hidden: Mapping[str, np.ndarray]
    units: Scaling

    def mean(
        self,
        theta: Mapping[str, np.ndarray],
        graph: Int8[np.ndarray, "d d"],
        x: Float[np.ndarray, "n d"],
        nodes: Sequence[int] | None = None,
    ) -> Float[np.ndarray, "n d"]:
        """E[x_j | parents of j], of `nodes` alone where these are given (the others are 0)."""
        columns = range(len(graph)) if nodes is None else nodes
        mean, drawn = np.zeros(x.shape), {name: theta[name][None] for name in FUNCTION_PARAMETERS & set(theta)}
        for node, column in zip(columns, self.columns(drawn, graph[None], x, columns), strict=True):
            mean[:, node] = column[0]
        return mean

    def columns(
        self, drawn: Parameters, graphs: Graphs, x: Float[np.ndarray, "m d"], nodes: Iterable[int]
    ) -> Iterator[Float[np.ndarray, "n m"]]:
        """E[x_j | parents of j] of every draw and row, node by node: draws that share the parents share features."""
        functions, scaled = Functions.of(self.hidden, drawn), self.units.apply(x)
        for node in nodes:
            yield self.units.shift[node] + self.units.scale[node] * functions.values(graphs, scaled, node)

    def log_noise_std(self, theta: Mapping[str, np.ndarray]) -> Float[np.ndarray, " d"]:
        """log σ_j."""
        return np.log(np.asarray(theta["noise_std"], float))


LINE_NODES = 6
"""Of the quadrature over each weight of a unit of a single input; even, so that none is 0."""

LOGISTIC_AS_PROBIT = math.pi / 8
"""λ: the logistic function is close to Φ(√λ ·)."""

Rows = Float[np.ndarray, "... n p"]
OtherRows = Float[np.ndarray, "... m p"]
Covariance = Float[np.ndarray, "... n m"]
Numbers = Int[np.ndarray, " _"] | slice
Among = Callable[..., Covariance]
"""k between some rows and others, both named by their numbers, written to a third argument where there is one."""


class WeightVariances(NamedTuple):
    """Prior variances of the weights of hidden units, of an intercept and of linear weights."""

    hidden: Float[np.ndarray, " R"] | float
    constant: float
    linear: float


class AbstractKernel(Choice):
    """A covariance function k(x, x'); `order` is its place in a sum: constant, linear, any other."""

    order: ClassVar[int] = 2

    @abstractmethod
    def __call__(self, a: Rows, b: OtherRows) -> Covariance:
        """k between all rows of `a` and all rows of `b`, batched over leading axes."""

    def among(self, x: Float[np.ndarray, "n p"]) -> "Among":
        """The covariance of these rows."""

        def covariance(some: Numbers, others: Numbers, out: Covariance | None = None) -> Covariance:
            value = self(x[some], x[others])
            if out is not None:
                out[:] = value
            return value

        return covariance

    @abstractmethod
    def diagonal(self, x: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        """k of every row with itself."""

    @abstractmethod
    def weight_variances(self, units: Units, parents: Bool[np.ndarray, " d"]) -> WeightVariances:
        """Prior variances with which functions of `units` have this covariance, on average over units."""

    def units(self, rng: np.random.Generator, n_variables: int, n_units: int) -> Units:
        """Random hidden units for `weight_variances`; none where the function is constant or linear."""
        return Units.none(n_variables)

    def line_units(self, n_units: int) -> Units:
        """About so many hidden units of a single input, which needs no chance: nodes of a quadrature."""
        return Units.none(1)

    def __add__(self, other: "AbstractKernel") -> "AbstractKernel":
        """The covariance of the sum of two independent functions.

        >>> Constant(1.0) + RBF(2.0) == RBF(2.0) + Constant(1.0)
        True
        """
        return Sum((*getattr(self, "parts", (self,)), *getattr(other, "parts", (other,))))


def _any_parents(x: Rows) -> float:
    """1 where x has columns and 0 where it has none, the factor of everything but the constant part."""
    return float(x.shape[-1] > 0)


class Constant(AbstractKernel):
    """k(x, x') = variance: an intercept, which a node without parents has as well.

    >>> Constant(2.0)(np.zeros((1, 0)), np.zeros((1, 0))).tolist()
    [[2.0]]
    """

    order: ClassVar[int] = 0
    variance: float = option(1.0, above=0)

    def __call__(self, a: Rows, b: OtherRows) -> Covariance:
        """A read-only view of one number: adding it to another part costs no memory."""
        return np.broadcast_to(np.asarray(self.variance, float), (*a.shape[:-1], b.shape[-2]))

    def diagonal(self, x: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        return np.full(len(x), float(self.variance))

    def weight_variances(self, units: Units, parents: Bool[np.ndarray, " d"]) -> WeightVariances:
        return WeightVariances(0.0, self.variance, 0.0)


class LinearKernel(AbstractKernel):
    """k(x, x') = variance · x·x': linear weights of this prior variance."""

    order: ClassVar[int] = 1
    variance: float = option(1.0, above=0)

    def __call__(self, a: Rows, b: OtherRows) -> Covariance:
        return (self.variance * a) @ np.swapaxes(b, -1, -2)

    def diagonal(self, x: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        return self.variance * np.square(x).sum(axis=1)

    def units(self, rng: np.random.Generator, n_variables: int, n_units: int) -> Units:
        return Units.none(n_variables)._replace(linear=True)

    def weight_variances(self, units: Units, parents: Bool[np.ndarray, " d"]) -> WeightVariances:
        return WeightVariances(0.0, 0.0, self.variance)


class RBF(AbstractKernel):
    """k(x, x') = variance · exp(-‖x - x'‖² / 2 lengthscale²).

    >>> RBF(variance=2.0)(np.zeros((1, 1)), np.zeros((1, 1))).tolist()
    [[2.0]]
    """

    lengthscale: float = option(1.0, above=0)
    variance: float = option(1.0, above=0)

    def __call__(self, a: Rows, b: OtherRows) -> Covariance:
        a, b = a / self.lengthscale, b / self.lengthscale
        value = a @ np.swapaxes(b, -1, -2)
        value -= 0.5 * np.square(a).sum(axis=-1)[..., :, None]
        value -= 0.5 * np.square(b).sum(axis=-1)[..., None, :]
        np.exp(value, out=value)
        value *= self.variance * _any_parents(a)
        return value

    def diagonal(self, x: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        return np.full(len(x), self.variance * _any_parents(x))

    def units(self, rng: np.random.Generator, n_variables: int, n_units: int) -> Units:
        """Random Fourier features: √(2/R) cos(b + w·x), w ~ N(0, 1/lengthscale²), b uniform on the circle."""
        weight = rng.normal(size=(n_units, n_variables)) / self.lengthscale
        bias = rng.uniform(0, 2 * math.pi, size=n_units)
        return Units(weight, bias, np.full(n_units, math.sqrt(2 / n_units)), np.full(n_units, -1), False, False)

    def line_units(self, n_units: int) -> Units:
        """Cosines and sines at Gauss-Hermite frequencies."""
        n_nodes = max(n_units // 2, 8)
        nodes, share = np.polynomial.hermite_e.hermegauss(n_nodes)
        weight, bias = np.repeat(nodes, 2)[:, None] / self.lengthscale, np.tile([0.0, -math.pi / 2], n_nodes)
        scale = np.repeat(np.sqrt(share / share.sum()), 2)
        return Units(weight, bias, scale, np.zeros(2 * n_nodes, int), False, False)

    def weight_variances(self, units: Units, parents: Bool[np.ndarray, " d"]) -> WeightVariances:
        return WeightVariances(self.variance * float(parents.any()), 0.0, 0.0)


class NetworkKernel(AbstractKernel):
    """Covariance of networks of one logistic hidden layer, all weights and biases N(0, w²), w = `weight_std`:

    k(x, x') = w² + n_hidden w² [¼ + asin(c(x, x') / √((1 + c(x, x))(1 + c(x', x')))) / 2π],   c = λ w² (1 + u² x·x'),

    exact for units Φ(√λ ·) with λ = π/8; the covariance of logistic units is within 2 % of it. u = `input_scale` is 1
    for inputs in the units of the prior, smaller where the functions bend over longer distances.

    >>> float(NetworkKernel()(np.zeros((1, 1)), np.zeros((1, 1)))[0, 0].round(4))
    2.4775
    """

    n_hidden: int = option(5, least=1)
    weight_std: float = option(1.0, above=0)
    input_scale: float = option(1.0, above=0)

    def __call__(self, a: Rows, b: OtherRows) -> Covariance:
        return self._arcs(self.directions(a), self.directions(b))

    def among(self, x: Float[np.ndarray, "n p"]) -> "Among":
        directions = self.directions(x)
        return lambda some, others, out=None: self._arcs(directions[some], directions[others], out)

    def _arcs(self, a: Rows, b: OtherRows, out: Covariance | None = None) -> Covariance:
        """The covariance of rows with these directions, of which the first part is that of a constant."""
        value = np.matmul(a, np.swapaxes(b, -1, -2), out=out)
        np.arcsin(value, out=value)
        value *= self.arc_variance * _any_parents(a[..., 1:])
        value += self.mean_variance * _any_parents(a[..., 1:])
        return value

    @property
    def arc_variance(self) -> float:
        """What the arcsine is multiplied by."""
        return self.n_hidden * self.weight_std**2 / (2 * math.pi)

    @property
    def mean_variance(self) -> float:
        """What is added to it."""
        return self.weight_std**2 * (1 + self.n_hidden / 4)

    def directions(self, x: Rows) -> Float[np.ndarray, "... n q"]:
        """√slope (1, ux) / √(1 + slope (1 + u² x·x)), slope = λ w², whose products are the argument of the arcsine."""
        rows = np.concatenate([np.ones((*x.shape[:-1], 1)), self.input_scale * x], axis=-1)
        slope = LOGISTIC_AS_PROBIT * self.weight_std**2
        return rows / np.sqrt(1 / slope + np.square(rows).sum(axis=-1, keepdims=True))

    def diagonal(self, x: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        variance = self.weight_std**2
        inside = LOGISTIC_AS_PROBIT * variance * (1 + self.input_scale**2 * (x**2).sum(axis=1))
        share = 0.25 + np.arcsin(inside / (1 + inside)) / (2 * math.pi)
        return variance * _any_parents(x) * (1 + self.n_hidden * share)

    def units(self, rng: np.random.Generator, n_variables: int, n_units: int) -> Units:
        weight = self.weight_std * self.input_scale * rng.normal(size=(n_units, n_variables))
        bias = self.weight_std * rng.normal(size=n_units)
        scale = np.full(n_units, math.sqrt(self.n_hidden / n_units))
        return Units(weight, bias, scale, np.full(n_units, -1), True, False)

    def line_units(self, n_units: int) -> Units:
        """Units g(c + vx) with (v, c) at Gauss-Hermite nodes; those of -v are, but for a constant, those of v."""
        v, share = np.polynomial.hermite_e.hermegauss(LINE_NODES)
        half = v > 0
        weight, bias = (part.ravel() for part in np.meshgrid(v[half], v, indexing="ij"))
        shares = np.outer(2 * share[half], share).ravel() / share.sum() ** 2
        weight, bias = self.weight_std * self.input_scale * weight[:, None], self.weight_std * bias
        return Units(weight, bias, np.sqrt(self.n_hidden * shares), np.zeros(len(bias), int), True, False)

    def weight_variances(self, units: Units, parents: Bool[np.ndarray, " d"]) -> WeightVariances:
        variance = self.weight_std**2 * float(parents.any())
        return WeightVariances(variance, variance, 0.0)


class AdditiveKernel(AbstractKernel):
    """k(x, x') = Σ_i part(x_i, x'_i): a sum of one function per parent, each of the covariance `part`.

    >>> AdditiveKernel(RBF(variance=2.0))(np.zeros((1, 3)), np.zeros((1, 3))).tolist()
    [[6.0]]
    """

    part: AbstractKernel = RBF()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not len(self.part.line_units(1).bias):
            raise ConfigError(
                "The part of an additive kernel is of type rbf or network; add constant and linear parts."
            )

    def __call__(self, a: Rows, b: OtherRows) -> Covariance:
        total = np.zeros((*a.shape[:-1], b.shape[-2]))
        for i in range(a.shape[-1]):
            total += self.part(a[..., i : i + 1], b[..., i : i + 1])
        return total

    def diagonal(self, x: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        return np.sum([self.part.diagonal(x[:, i : i + 1]) for i in range(x.shape[1])] or [np.zeros(len(x))], axis=0)

    def units(self, rng: np.random.Generator, n_variables: int, n_units: int) -> Units:
        """Those of `part` for every input, n_units/3 each, or as many as its quadrature has nodes."""
        own = self.part.line_units(n_units // 3)
        inputs = np.repeat(np.arange(n_variables), len(own.bias))
        weight = np.zeros((len(inputs), n_variables))
        weight[np.arange(len(inputs)), inputs] = np.tile(own.weight[:, 0], n_variables)
        bias, scale = np.tile(own.bias, n_variables), np.tile(own.scale, n_variables)
        return Units(weight, bias, scale, inputs, own.logistic, False)

    def weight_variances(self, units: Units, parents: Bool[np.ndarray, " d"]) -> WeightVariances:
        hidden, constant, _ = self.part.weight_variances(units, np.ones(1, bool))
        return WeightVariances(hidden * parents[units.own_input], constant * float(parents.sum()), 0.0)


class Sum(AbstractKernel):
    """The covariance of a sum of independent functions: at most one constant, one linear and one other kernel.

    >>> (Constant(0.5) + LinearKernel(2.0) + RBF())(np.ones((1, 1)), np.ones((1, 1))).tolist()
    [[3.5]]
    """

    parts: tuple[AbstractKernel, ...]

    def __post_init__(self) -> None:
        orders = [part.order for part in self.parts]
        if len(set(orders)) < len(orders) or max(orders, default=0) == 0:
            rule = "at most one constant, one linear and one other part, and not a constant alone"
            raise ConfigError(f"A sum of kernels has {rule}.")
        object.__setattr__(self, "parts", tuple(sorted(self.parts, key=lambda part: part.order)))

    def __call__(self, a: Rows, b: OtherRows) -> Covariance:
        total = self.parts[-1](a, b)
        for part in self.parts[:-1]:
            total += part(a, b)
        return total

    def diagonal(self, x: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        return np.sum([part.diagonal(x) for part in self.parts], axis=0)

    def units(self, rng: np.random.Generator, n_variables: int, n_units: int) -> Units:
        units = [part.units(rng, n_variables, n_units) for part in self.parts]
        return units[-1]._replace(linear=any(each.linear for each in units))

    def weight_variances(self, units: Units, parents: Bool[np.ndarray, " d"]) -> WeightVariances:
        parts = [part.weight_variances(units, parents) for part in self.parts]
        return WeightVariances(*(sum(column) for column in zip(*parts, strict=True)))
