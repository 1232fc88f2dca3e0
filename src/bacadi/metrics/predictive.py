"""What a posterior predicts for held-out rows: the density that belongs to its model, draw by draw."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from bacadi.data.context import ContextData
from bacadi.metrics.densities import (
    AbstractDensity,
    Activation,
    FunctionDensity,
    InOwnUnits,
    LinearDensity,
    NetworkDensity,
    OwnUnits,
)
from bacadi.metrics.fitted import Marginal, MaximumLikelihood
from bacadi.posterior.posterior import Posterior

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
