"""Covariances of mechanisms, k(x, x') over the parents of a node, units for drawing functions, and noise.

A mechanism without parents has the constant part alone: its function is zero where `constant` is 0, as a root of the
paper's data recipe is. Every kernel is

    k(x, x') = constant + [there are parents] · (linear · x·x' + own part).
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import gammaln

from bacadi.errors import ConfigError
from bacadi.model.functions import Units

LOG_2PI = math.log(2 * math.pi)
LOGISTIC_AS_PROBIT = math.pi / 8  # λ: the logistic function is close to Φ(√λ ·)


class AbstractKernel(ABC):
    """A covariance function; `constant` and `linear` are the prior variances of an intercept and of linear weights."""

    constant: float
    linear: float

    @abstractmethod
    def prepared(self, x: Float[np.ndarray, "... n p"]) -> Float[np.ndarray, "... n q"]:
        """What `own` needs to know of rows, computed once for rows that are compared with many others."""

    @abstractmethod
    def own(self, a: Float[np.ndarray, "... n q"], b: Float[np.ndarray, "... m q"]) -> Float[np.ndarray, "... n m"]:
        """The part that is neither constant nor linear, of prepared rows, for p >= 1."""

    @abstractmethod
    def own_diagonal(self, x: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        """`own` of every row with itself."""

    @abstractmethod
    def units(self, rng: np.random.Generator, n_variables: int, n_units: int) -> Units:
        """Random units whose functions have this covariance on average over units."""

    @abstractmethod
    def unit_variances(self, units: Units, parents: Bool[np.ndarray, " d"]) -> Float[np.ndarray, " C"]:
        """Prior variances of the weights of `Units.features`; 0 where a feature is not in use."""

    def cross(self, a: Float[np.ndarray, "... n p"], b: Float[np.ndarray, "... m p"]) -> Float[np.ndarray, "... n m"]:
        """k between all rows of `a` and all rows of `b`, batched over leading axes."""
        if a.shape[-1] == 0:
            return np.full((*a.shape[:-1], b.shape[-2]), self.constant)
        return self._completed(self.own(self.prepared(a), self.prepared(b)), a, b)

    def lower_tiles(self, x: Float[np.ndarray, "tiles n p"]) -> Float[np.ndarray, "pairs n n"]:
        """k between the rows of tiles i >= j, in the order (0, 0), (1, 0), (1, 1), (2, 0) and so on."""
        i, j = np.tril_indices(len(x))
        if x.shape[-1] == 0:
            return np.full((len(i), x.shape[1], x.shape[1]), self.constant)
        rows = self.prepared(x)
        return self._completed(self.own(rows[i], rows[j]), x[i], x[j])

    def _completed(
        self, own: Float[np.ndarray, "... n m"], a: Float[np.ndarray, "... n p"], b: Float[np.ndarray, "... m p"]
    ) -> Float[np.ndarray, "... n m"]:
        """`own`, in place, with the linear and the constant part."""
        if self.linear:
            own += self.linear * (a @ np.swapaxes(b, -1, -2))
        if self.constant:
            own += self.constant
        return own

    def gram(self, x_parents: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n n"]:
        """k between all pairs of rows."""
        return self.cross(x_parents, x_parents)

    def diagonal(self, x_parents: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        """k of every row with itself."""
        if x_parents.shape[1] == 0:
            return np.full(len(x_parents), self.constant)
        return self.own_diagonal(x_parents) + self.linear * (x_parents**2).sum(axis=1) + self.constant

    def _rest_variances(self, units: Units, parents: Bool[np.ndarray, " d"], bias: float) -> Float[np.ndarray, " rest"]:
        constant = [self.constant + bias * parents.any()]
        return np.concatenate([constant, self.linear * parents] if units.linear else [constant])

    def _require(self, *positive: str) -> None:
        for name in positive:
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} = {getattr(self, name)} makes no kernel; give a number above 0.")
        if self.constant < 0 or self.linear < 0:
            raise ConfigError("The constant and linear parts of a kernel are variances; give 0 or more.")


@dataclass(frozen=True)
class NetworkKernel(AbstractKernel):
    """Covariance of networks of one logistic hidden layer, all weights and biases N(0, w²), w = `weight_std`:

    k(x, x') = w² + n_hidden w² [¼ + asin(c(x, x') / √((1 + c(x, x))(1 + c(x', x')))) / 2π],   c = λ w² (1 + u² x·x'),

    exact for units Φ(√λ ·) with λ = π/8; the covariance of logistic units is within 2 % of it. u = `input_scale` is 1
    for inputs in the units of the prior, smaller where the functions bend over longer distances.

    >>> float(NetworkKernel().gram(np.zeros((1, 1)))[0, 0].round(4))
    2.4775
    """

    n_hidden: int = 5
    weight_std: float = 1.0
    constant: float = 0.0
    linear: float = 0.0
    input_scale: float = 1.0

    def __post_init__(self) -> None:
        self._require("n_hidden", "weight_std", "input_scale")

    def prepared(self, x: Float[np.ndarray, "... n p"]) -> Float[np.ndarray, "... n q"]:
        """√slope (1, ux) / √(1 + slope (1 + u² x·x)), slope = λ w², whose products are the argument of the arcsine."""
        rows = np.concatenate([np.ones((*x.shape[:-1], 1)), self.input_scale * x], axis=-1)
        slope = LOGISTIC_AS_PROBIT * self.weight_std**2
        return rows / np.sqrt(1 / slope + np.square(rows).sum(axis=-1, keepdims=True))

    def own(self, a: Float[np.ndarray, "... n q"], b: Float[np.ndarray, "... m q"]) -> Float[np.ndarray, "... n m"]:
        variance = self.weight_std**2
        value = a @ np.swapaxes(b, -1, -2)
        np.arcsin(value, out=value)
        value *= self.n_hidden * variance / (2 * math.pi)
        value += variance * (1 + self.n_hidden / 4)
        return value

    def own_diagonal(self, x: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        variance = self.weight_std**2
        inside = LOGISTIC_AS_PROBIT * variance * (1 + self.input_scale**2 * (x**2).sum(axis=1))
        return variance * (1 + self.n_hidden * (0.25 + np.arcsin(inside / (1 + inside)) / (2 * math.pi)))

    def units(self, rng: np.random.Generator, n_variables: int, n_units: int) -> Units:
        weight = self.weight_std * self.input_scale * rng.normal(size=(n_units, n_variables))
        bias = self.weight_std * rng.normal(size=n_units)
        scale = np.full(n_units, math.sqrt(self.n_hidden / n_units))
        return Units(weight, bias, scale, np.full(n_units, -1), True, self.linear > 0)

    def unit_variances(self, units: Units, parents: Bool[np.ndarray, " d"]) -> Float[np.ndarray, " C"]:
        variance = self.weight_std**2
        own = np.full(len(units.bias), variance * parents.any())
        return np.concatenate([own, self._rest_variances(units, parents, variance)])


@dataclass(frozen=True)
class RBF(AbstractKernel):
    """k(x, x') = variance · exp(-‖x - x'‖² / 2 lengthscale²).

    >>> RBF(variance=2.0).gram(np.zeros((1, 1))).tolist()
    [[2.0]]
    """

    lengthscale: float = 1.0
    variance: float = 1.0
    constant: float = 0.0
    linear: float = 0.0

    def __post_init__(self) -> None:
        self._require("lengthscale", "variance")

    def prepared(self, x: Float[np.ndarray, "... n p"]) -> Float[np.ndarray, "... n q"]:
        return x / self.lengthscale

    def own(self, a: Float[np.ndarray, "... n q"], b: Float[np.ndarray, "... m q"]) -> Float[np.ndarray, "... n m"]:
        value = a @ np.swapaxes(b, -1, -2)
        value -= 0.5 * np.square(a).sum(axis=-1)[..., :, None]
        value -= 0.5 * np.square(b).sum(axis=-1)[..., None, :]
        np.exp(value, out=value)
        value *= self.variance
        return value

    def own_diagonal(self, x: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        return np.full(len(x), self.variance)

    def units(self, rng: np.random.Generator, n_variables: int, n_units: int) -> Units:
        """Random Fourier features: √(2/R) cos(b + w·x), w ~ N(0, 1/lengthscale²), b uniform on the circle."""
        weight = rng.normal(size=(n_units, n_variables)) / self.lengthscale
        bias = rng.uniform(0, 2 * math.pi, size=n_units)
        scale = np.full(n_units, math.sqrt(2 / n_units))
        return Units(weight, bias, scale, np.full(n_units, -1), False, self.linear > 0)

    def unit_variances(self, units: Units, parents: Bool[np.ndarray, " d"]) -> Float[np.ndarray, " C"]:
        own = np.full(len(units.bias), self.variance * parents.any())
        return np.concatenate([own, self._rest_variances(units, parents, 0.0)])


@dataclass(frozen=True)
class AdditiveRBF(AbstractKernel):
    """k(x, x') = variance · Σ_i exp(-(x_i - x'_i)² / 2 lengthscale²): a sum of one smooth function for each parent.

    >>> AdditiveRBF().gram(np.zeros((1, 3))).tolist()
    [[3.0]]
    """

    lengthscale: float = 1.0
    variance: float = 1.0
    constant: float = 0.0
    linear: float = 0.0

    def __post_init__(self) -> None:
        self._require("lengthscale", "variance")

    def prepared(self, x: Float[np.ndarray, "... n p"]) -> Float[np.ndarray, "... n q"]:
        return x * (math.sqrt(0.5) / self.lengthscale)

    def own(self, a: Float[np.ndarray, "... n q"], b: Float[np.ndarray, "... m q"]) -> Float[np.ndarray, "... n m"]:
        total = np.zeros((*a.shape[:-1], b.shape[-2]))
        for i in range(a.shape[-1]):
            part = a[..., :, i, None] - b[..., None, :, i]
            np.negative(np.square(part, out=part), out=part)
            np.exp(part, out=part)
            total += part
        total *= self.variance
        return total

    def own_diagonal(self, x: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        return np.full(len(x), self.variance * x.shape[1])

    def units(self, rng: np.random.Generator, n_variables: int, n_units: int) -> Units:
        """Cosines and sines of every input at Gauss-Hermite frequencies (one input needs no chance), n_units/3 each."""
        n_nodes = max(n_units // 6, 8)
        nodes, share = np.polynomial.hermite_e.hermegauss(n_nodes)
        inputs = np.repeat(np.arange(n_variables), 2 * n_nodes)
        weight = np.zeros((len(inputs), n_variables))
        weight[np.arange(len(inputs)), inputs] = np.tile(np.repeat(nodes, 2), n_variables) / self.lengthscale
        bias = np.tile([0.0, -math.pi / 2], n_nodes * n_variables)
        scale = np.tile(np.repeat(np.sqrt(share / share.sum()), 2), n_variables)
        return Units(weight, bias, scale, inputs, False, self.linear > 0)

    def unit_variances(self, units: Units, parents: Bool[np.ndarray, " d"]) -> Float[np.ndarray, " C"]:
        own = self.variance * parents[units.own_input]
        return np.concatenate([own, self._rest_variances(units, parents, 0.0)])


class Terms(NamedTuple):
    """Rows, log determinant and quadratic form of Gaussians, with the scale s² taken out: y ~ N(0, s² A)."""

    n_rows: Float[np.ndarray, "..."]
    log_det: Float[np.ndarray, "..."]
    quad: Float[np.ndarray, "..."]


@dataclass(frozen=True)
class FixedVariance:
    """Noise of known variance: log p = -½ (n log 2π + log |A| + y'A⁻¹y)."""

    variance: float = 0.1

    def __post_init__(self) -> None:
        if not self.variance > 0:
            raise ConfigError(f"A noise variance of {self.variance} makes no sense; give a number above 0.")

    @property
    def ratios(self) -> tuple[float, ...]:
        return (self.variance,)

    def log_density(self, terms: Terms, ratio: float) -> Float[np.ndarray, "..."]:
        return np.asarray(-0.5 * (terms.n_rows * LOG_2PI + terms.log_det + terms.quad))

    def draw_scale(self, rng: np.random.Generator, terms: Terms, ratio: float, size: int) -> Float[np.ndarray, " size"]:
        """s² given the data, which is 1 here."""
        return np.ones(size)


@dataclass(frozen=True)
class InverseGamma:
    """y ~ N(0, s² A) with noise of variance s²ρ ~ InvGamma(a, b), ρ one of `ratios`, and s² integrated out.

    s² is InvGamma(a, c) with c = b/ρ:
    log p = log Γ(a + n/2) - log Γ(a) + a log c - (a + n/2) log(c + ½ y'A⁻¹y) - ½ (n log 2π + log |A|).
    """

    a: float = 1.0
    b: float = 0.5
    ratios: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0)

    def __post_init__(self) -> None:
        if not (self.a > 0 and self.b > 0 and self.ratios and min(self.ratios) > 0):
            raise ConfigError(f"{self} makes no prior of the noise; give a, b and at least one ratio, all above 0.")

    def log_density(self, terms: Terms, ratio: float) -> Float[np.ndarray, "..."]:
        shape, c = self.a + 0.5 * terms.n_rows, self.b / ratio
        log_p = gammaln(shape) - gammaln(self.a) + self.a * math.log(c) - shape * np.log(c + 0.5 * terms.quad)
        return np.asarray(log_p - 0.5 * (terms.n_rows * LOG_2PI + terms.log_det))

    def draw_scale(self, rng: np.random.Generator, terms: Terms, ratio: float, size: int) -> Float[np.ndarray, " size"]:
        """s² given the data: InvGamma(a + n/2, c + ½ y'A⁻¹y)."""
        return (self.b / ratio + 0.5 * terms.quad) / rng.gamma(self.a + 0.5 * terms.n_rows, size=size)
