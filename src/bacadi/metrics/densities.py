"""Densities of rows under draws, in NumPy: the linear, network and Gaussian-process mechanisms of `bacadi.model`.

They read a draw's parameters under the names a posterior stores them by, so a posterior from a file will do.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from bacadi.errors import DataError
from bacadi.metrics.likelihood import LOG_2PI
from bacadi.model.functions import Functions
from bacadi.posterior.draws import Draw
from bacadi.posterior.posterior import Posterior

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
