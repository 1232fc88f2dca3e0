"""Nonlinear Gaussian mechanisms: a feed-forward network of the parents for every variable (Appendix D.1)."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int8
from scipy.special import expit

from bacadi.config.choices import option
from bacadi.data.contexts import Scaling
from bacadi.data.labelled import Labelled
from bacadi.model.linear import labelled_noise, log_noise_of
from bacadi.model.mechanism import GaussianMechanism, weights_log_prior
from bacadi.model.noise import AbstractNoise, Values, log_normal, namespace, of_functions

STANDARDIZED_SCALES = (0.1, 0.3, 1.0)
"""Length scales are unknown when columns are standardised, so three input scales are offered and chosen by evidence."""

SIGMOID, LEAKY_RELU = "sigmoid", "leaky_relu"
_NUMPY: dict[str, Callable[[Values], Values]] = {
    SIGMOID: expit,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),  # the form of JAX
    "softplus": lambda x: np.logaddexp(x, 0.0),
}


def activation(mechanism: "NeuralGaussian", xp: Any) -> Callable[[Values], Values]:
    """The activation of a network for NumPy arrays or JAX's own, which compiles to one instruction."""
    name = mechanism.activation
    if name == LEAKY_RELU:
        return lambda x: xp.where(x > 0, x, mechanism.negative_slope * x)
    if xp is np:
        return _NUMPY[name]
    from jax import nn

    return getattr(nn, name)


class Layer(NamedTuple):
    """One layer of the d networks: `weight[i, j, h]` leads from input i to unit h of the network of variable j."""

    weight: Values
    bias: Values


class NeuralTheta(NamedTuple):
    """Layers from the inputs to the output, and log σ where it is inferred."""

    layers: tuple[Layer, ...]
    log_noise_std: Values | None = None


class NeuralGaussian(GaussianMechanism):
    """x_j ~ N(FFN_j(G_:j ∘ x), σ_j²), all weights and biases N(0, prior_std²).

    `hidden` are the widths of the hidden layers; the paper has one of 5 sigmoid units. `absent_ratio` is the
    pseudo-prior of first-layer weights without an edge (`weights_log_prior`), for SVGD alone. The rest is for the
    collapsed reading: with `intercept` a variable without parents has a mean of its own, as the biases of Θ give it,
    without it mean 0 as in the paper's recipe, and columns keep their origin; None is what explains the data better
    (`inference.origin`), a mean of its own where that is not asked. Beside an inferred noise functions are in units of
    one of its `widths`, each equally probable, and `input_scales` are the factors of the inputs to choose from, None
    where the columns are in the units of the prior. `negative_slope` is that of `leaky_relu` units.
    """

    hidden: tuple[int, ...] = option((5,), least=1)
    activation: str = option(SIGMOID, among=(*_NUMPY, LEAKY_RELU))
    noise: AbstractNoise = of_functions()
    prior_std: float = option(1.0, above=0)
    absent_ratio: float | None = option(0.7, above=0, none="none")
    intercept: bool | None = None
    input_scales: tuple[float, ...] | None = option(STANDARDIZED_SCALES, above=0, none="none")
    negative_slope: float = option(0.01, least=0)

    @property
    def keeps_origin(self) -> bool:
        return self.intercept is False

    def init(self, key: Any, n_variables: int, dtype: Any) -> NeuralTheta:
        """Glorot normal weights, zero biases."""
        import jax

        layers, keys = [], jax.random.split(key, len(self.hidden) + 1)
        for key_layer, (fan_in, fan_out) in zip(keys, pairwise((n_variables, *self.hidden, 1)), strict=True):
            std = (2 / (fan_in + fan_out)) ** 0.5
            weight = std * jax.random.normal(key_layer, (fan_in, n_variables, fan_out), dtype)
            layers.append(Layer(weight, jax.numpy.zeros((n_variables, fan_out), dtype)))
        start = self.noise.initial
        return NeuralTheta(tuple(layers), None if start is None else jax.numpy.full(n_variables, start, dtype))

    def log_prior(self, theta: NeuralTheta, graph: Values) -> Values:
        xp, (first, *rest) = namespace(graph), theta.layers
        log_p = weights_log_prior(first.weight, graph, self.prior_std, self.absent_ratio)
        log_p = log_p + sum(xp.sum(log_normal(layer.weight, 0.0, self.prior_std), axis=(0, 2)) for layer in rest)
        log_p = log_p + sum(xp.sum(log_normal(layer.bias, 0.0, self.prior_std), axis=1) for layer in theta.layers)
        return log_p + self.noise.log_prior(theta.log_noise_std)

    def mean(self, theta: NeuralTheta, graph: Values, x: Values) -> Values:
        xp, (first, *rest) = namespace(x), theta.layers
        bend = activation(self, xp)
        value = xp.einsum("...i,ijh->...jh", x, graph[..., None] * first.weight) + first.bias
        for layer in rest:
            value = xp.einsum("...ji,ijh->...jh", bend(value), layer.weight) + layer.bias
        return value[..., 0]

    def labelled(self, theta: NeuralTheta) -> dict[str, Labelled]:
        parts = {}
        for number, layer in enumerate(theta.layers):
            inputs = "source" if number == 0 else f"unit_{number}"
            parts[f"layer_{number + 1}_weight"] = Labelled(layer.weight, (inputs, "target", f"unit_{number + 1}"))
            parts[f"layer_{number + 1}_bias"] = Labelled(layer.bias, ("target", f"unit_{number + 1}"))
        return parts | labelled_noise(theta.log_noise_std)

    def theta_of(self, values: dict[str, np.ndarray], n_variables: int) -> NeuralTheta:
        numbers = range(1, len(self.hidden) + 2)
        layers = tuple(Layer(values[f"layer_{n}_weight"], values[f"layer_{n}_bias"]) for n in numbers)
        return NeuralTheta(layers, log_noise_of(values))

    def rescaled(self, theta: NeuralTheta, graph: Int8[np.ndarray, "d d"], scaling: Scaling) -> NeuralTheta:
        """With x = a + s · u the first layer reads (x_i - a_i) / s_i and the output is a_j + s_j f_j."""
        shift, scale, layers = scaling.shift, scaling.scale, list(theta.layers)
        weight = layers[0].weight / scale[:, None, None]
        layers[0] = Layer(weight, layers[0].bias - np.einsum("ij,ijh,i->jh", graph, weight, shift))
        last = layers[-1]
        layers[-1] = Layer(last.weight * scale[:, None], last.bias * scale[:, None] + shift[:, None])
        return NeuralTheta(tuple(layers), self.noise.rescaled(theta.log_noise_std, scale))
