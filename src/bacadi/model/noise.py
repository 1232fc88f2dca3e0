"""Gaussian noise: the density, and what is known of its standard deviation (fixed as in the paper, or inferred).

Everything here is written once for NumPy and JAX arrays: `namespace(x)` is the array library of x.
"""

import math
from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from bacadi.config.choices import Choice, option
from bacadi.errors import ConfigError

LOG_2PI = math.log(2 * math.pi)
START_VARIANCE = 0.05  # of the noise of a fresh particle, at least: steps from next to no noise would be huge
Values = Any
"""An array of NumPy or JAX, or None where there is none."""


def namespace(x: Values) -> Any:
    """The array library of x: `numpy` or `jax.numpy`; plain numbers count as NumPy's."""
    return x.__array_namespace__() if hasattr(x, "__array_namespace__") else np


def log_normal(x: Values, mean: Values, std: Values) -> Values:
    """log N(x | mean, std²), entry by entry.

    >>> float(log_normal(np.zeros(()), 0.0, 1.0).round(3))
    -0.919
    """
    xp = namespace(x)
    return -0.5 * ((x - mean) / std) ** 2 - xp.log(xp.asarray(std, dtype=x.dtype)) - 0.5 * LOG_2PI


def log_mean_exp(values: list[Values]) -> Values:
    """log of the mean of exp(values), entry by entry: the density of a mixture of equal shares."""
    if len(values) == 1:
        return values[0]
    xp = namespace(values[0])
    top = xp.max(xp.stack(values), axis=0)
    return top + xp.log(sum(xp.exp(value - top) for value in values) / len(values))


def gaussian_log_likelihood(count: Values, squares: Values, log_std: Values) -> Values:
    """Σ_n log N(r_n | 0, σ²) from the number of residuals and the sum of their squares."""
    xp = namespace(squares)
    return -count * (log_std + 0.5 * LOG_2PI) - 0.5 * squares * xp.exp(-2 * log_std)


class Conjugate(NamedTuple):
    """The conjugate prior of a noise variance: known (`variance`), or σ² ~ InverseGamma(shape, scale); `widths` are
    those of the coefficients beside it."""

    variance: float | None
    shape: float = 1.0
    scale: float = 1.0
    widths: tuple[float, ...] = (1.0,)


class AbstractNoise(Choice):
    """What is known of a noise standard deviation; its parameter is log σ, or None where σ is known.

    A known σ has a parameter all the same in units other than those it is stated in (`rescaled`).
    """

    @property
    @abstractmethod
    def initial(self) -> float | None:
        """Where log σ starts, None where it is not a parameter."""

    @abstractmethod
    def log_std(self, parameter: Values) -> Values:
        """log σ."""

    def rescaled(self, parameter: Values, scale: np.ndarray) -> Values:
        """log σ for variables that are `scale` times as large; a known σ becomes a number per variable, too."""
        return parameter if parameter is None and (scale == 1).all() else self.log_std(parameter) + np.log(scale)

    @abstractmethod
    def log_prior(self, parameter: Values) -> Values:
        """log p(log σ)."""

    @abstractmethod
    def prior_units(self, parameter: Values) -> tuple[Values, ...]:
        """The units, equally likely, of prior standard deviations of coefficients and means beside this noise."""

    @abstractmethod
    def conjugate(self) -> Conjugate:
        """The same knowledge in the form in which σ can be integrated out."""


class FixedNoise(AbstractNoise):
    """σ is known: the paper has σ² = .1 for mechanisms and σ_I² = .5 for interventions."""

    std: float = option(above=0)

    @property
    def initial(self) -> None:
        return None

    def log_std(self, parameter: Values) -> Values:
        # Parameters drawn with a noise of their own (a collapsed draw, a simulated network) say it themselves.
        return math.log(self.std) if parameter is None else parameter

    def log_prior(self, parameter: Values) -> float:
        return 0.0

    def prior_units(self, parameter: Values) -> tuple[float]:
        return (1.0,)

    def conjugate(self) -> Conjugate:
        return Conjugate(self.std**2)


class InferredNoise(AbstractNoise):
    """σ² ~ InverseGamma(shape, scale), carried as log σ (the density includes d σ² / d log σ = 2σ²).

    Coefficients and means beside an inferred noise have priors in units of σ: the conjugate choice, with which they
    and σ can be integrated out. The unit is u σ where `widths` names several u: one of them for each variable, equally
    likely, so that a variable that its parents explain but for one part in a million is not shrunk to fit the unit.
    """

    shape: float = option(2.0, above=0)
    scale: float = option(0.2, above=0)
    widths: tuple[float, ...] = option((1.0,), above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.widths:
            raise ConfigError("widths is empty; give at least one number above 0.")

    @property
    def initial(self) -> float:
        return 0.5 * math.log(max(self.scale / (self.shape + 1), START_VARIANCE))

    def log_std(self, parameter: Values) -> Values:
        return parameter

    def log_prior(self, parameter: Values) -> Values:
        normaliser = self.shape * math.log(self.scale) - math.lgamma(self.shape) + math.log(2.0)
        return normaliser - 2 * self.shape * parameter - self.scale * namespace(parameter).exp(-2 * parameter)

    def prior_units(self, parameter: Values) -> tuple[Values, ...]:
        return tuple(width * namespace(parameter).exp(parameter) for width in self.widths)

    def conjugate(self) -> Conjugate:
        return Conjugate(None, self.shape, self.scale, self.widths)


def scale_free() -> InferredNoise:
    """σ² nearly log-uniform: says next to nothing of how well a variable is determined, in whatever unit.

    Between 1e-6 and 1 the density of log σ² falls from .1 to .03; the two widths serve signals of up to some hundred σ
    as well as those near the noise. docs/developer/collapsed.md has the measurements behind the numbers.
    """
    return InferredNoise(0.1, 1e-6, (1.0, 30.0))


def of_functions() -> InferredNoise:
    """For mechanisms whose functions have one height for all variables in units of the noise: that of a variable may
    also be .6 or 1.7 times as high, its ratio of variances a third or three times that of the others.

    docs/developer/collapsed.md has what this is worth.
    """
    return InferredNoise(1.0, 0.5, (0.6, 1.0, 1.7))
