"""Densities of rows under one draw, in NumPy: the linear and the network mechanism of `bacadi.model`.

They read a draw's parameters under the names a posterior stores them by, so a posterior from a file will do.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from bacadi.errors import DataError
from bacadi.metrics.likelihood import LOG_2PI
from bacadi.posterior.draws import Draw

Activation = Callable[[np.ndarray], np.ndarray]


class AbstractDensity(ABC):
    """The density of every variable given its parents in the graph of a draw."""

    @abstractmethod
    def log_density(self, draw: Draw, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """log p(x_nj | parents of j in row n), entry by entry."""


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
    """x_j ~ N(FFN_j(G_:j ∘ x), σ_j²) from `layer_1_weight` [source, target, unit], `layer_1_bias` and so on."""

    activation: Activation = expit
    noise_std: float | None = None

    def log_density(self, draw: Draw, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        (n, d), values = x.shape, draw.parameters
        first = draw.graph[:, :, None] * values["layer_1_weight"].astype(float)
        value = (x @ first.reshape(d, -1)).reshape(n, d, -1) + values["layer_1_bias"]
        number = 2
        while f"layer_{number}_weight" in values:
            weight = values[f"layer_{number}_weight"].astype(float)
            value = np.einsum("nji,ijh->njh", self.activation(value), weight) + values[f"layer_{number}_bias"]
            number += 1
        return log_normal(x, value[:, :, 0], noise_std_of(draw, self.noise_std))


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
