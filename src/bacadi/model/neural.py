"""Nonlinear Gaussian mechanisms: a feed-forward network of the parents for every variable (Appendix D.1)."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError
from bacadi.evidence.collapsed import AbstractEvidence, States
from bacadi.model.mechanism import AbstractMechanism, weights_log_prior
from bacadi.model.noise import AbstractNoise, FixedNoise, gaussian_log_likelihood, log_normal
from bacadi.relaxed.rows import Rows

# In the own unit of each column, whose meaning differs from data to data (noise or signal), how far a function takes to
# bend is chosen for the data; in the units of the prior it is 1.
OWN_UNIT_SCALES = (0.1, 0.3, 1.0)


class Layer(NamedTuple):
    """One layer of the d networks: `weight[i, j, h]` leads from input i to unit h of the network of variable j."""

    weight: Float[Array, "i d h"]
    bias: Float[Array, "d h"]


class NeuralTheta(NamedTuple):
    layers: tuple[Layer, ...]
    log_noise_std: Float[Array, " d"] | None


class NeuralGaussian(AbstractMechanism):
    """x_j ~ N(FFN_j(G_:j ∘ x), σ_j²), all weights and biases N(0, prior_std²).

    `hidden` are the widths of the hidden layers; the paper has one of 5 sigmoid units. `absent_ratio` is the
    pseudo-prior of first-layer weights without an edge (`weights_log_prior`). Integrated out, a variable without
    parents has mean 0, as in the paper's recipe, or with `intercept` one of its own, as the biases of Θ give it;
    and beside an inferred noise `input_scales` are the factors of the inputs to choose from, None where the columns are
    in the units of the prior.
    """

    hidden: tuple[int, ...] = (5,)
    activation: Callable[[Array], Array] = eqx.field(static=True, default=jax.nn.sigmoid)
    noise: AbstractNoise = FixedNoise(0.1**0.5)
    prior_std: float = 1.0
    absent_ratio: float | None = 0.7
    intercept: bool = False
    input_scales: tuple[float, ...] | None = OWN_UNIT_SCALES

    def init(self, key: Key[Array, ""], n_variables: int, dtype: jnp.dtype) -> NeuralTheta:
        """Glorot normal weights, zero biases."""
        widths = (n_variables, *self.hidden, 1)
        layers = []
        for key_layer, fan_in, fan_out in zip(
            jax.random.split(key, len(widths) - 1), widths[:-1], widths[1:], strict=True
        ):
            std = (2 / (fan_in + fan_out)) ** 0.5
            weight = std * jax.random.normal(key_layer, (fan_in, n_variables, fan_out), dtype)
            layers.append(Layer(weight, jnp.zeros((n_variables, fan_out), dtype)))
        return NeuralTheta(tuple(layers), self.noise.init((n_variables,), dtype))

    def evidence(self, data: ContextData, states: States) -> AbstractEvidence:
        """Networks integrated out as the Gaussian process of their own covariance, for one hidden layer of sigmoids."""
        from bacadi.evidence.gp.evidence import network_evidence  # moves to the dispatch in evidence/

        if len(self.hidden) != 1 or self.activation is not jax.nn.sigmoid:
            raise ConfigError(
                "Only networks of one hidden layer of sigmoid units have a closed-form covariance; "
                "use those, a GaussianProcess, or method svgd."
            )
        return network_evidence(self, data, states)

    def log_prior(self, theta: NeuralTheta, graph: Float[Array, "d d"]) -> Float[Array, " d"]:
        first, *rest = theta.layers
        log_p = weights_log_prior(first.weight, graph, self.prior_std, self.absent_ratio)
        log_p = log_p + sum(jnp.sum(log_normal(layer.weight, 0.0, self.prior_std), axis=(0, 2)) for layer in rest)
        log_p = log_p + sum(jnp.sum(log_normal(layer.bias, 0.0, self.prior_std), axis=1) for layer in theta.layers)
        return log_p + self.noise.log_prior(theta.log_noise_std)

    def log_prob(self, theta: NeuralTheta, graph: Float[Array, "d d"], x: Float[Array, " d"]) -> Float[Array, " d"]:
        first, *rest = theta.layers
        value = jnp.einsum("i,ij,ijh->jh", x, graph, first.weight) + first.bias
        for layer in rest:
            value = jnp.einsum("ji,ijh->jh", self.activation(value), layer.weight) + layer.bias
        log_std = self.noise.log_std(theta.log_noise_std)
        return gaussian_log_likelihood(jnp.ones((), x.dtype), (x - value[:, 0]) ** 2, log_std)

    def log_likelihood(self, theta: NeuralTheta, graphs: Float[Array, "d S d"], rows: Rows) -> Float[Array, "K S d"]:
        """One matrix product feeds the first layer of every row, sample, network and unit at once."""
        n, (d, s, _) = len(rows.x), graphs.shape
        first, *rest = theta.layers
        weight = graphs[..., None] * first.weight[:, None]
        value = (rows.x @ weight.reshape(d, -1)).reshape(n, s, d, -1) + first.bias
        for layer in rest[:-1]:
            value = jnp.einsum("nsji,ijh->nsjh", self.activation(value), layer.weight) + layer.bias
        if rest:
            value = jnp.sum(self.activation(value) * rest[-1].weight[:, :, 0].T, axis=-1) + rest[-1].bias[:, 0]
        else:
            value = value[..., 0]
        squares = jax.lax.optimization_barrier((rows.x[:, None, :] - value) ** 2).reshape(n, s * d)
        squares = (rows.one_hot @ squares).reshape(-1, s, d)
        return gaussian_log_likelihood(rows.count[:, None, None], squares, self.noise.log_std(theta.log_noise_std))

    def explicit(self) -> "NeuralGaussian":
        return replace(self, intercept=True)

    def named(self, theta: NeuralTheta) -> dict[str, Labelled]:
        named = {}
        for number, layer in enumerate(theta.layers):
            inputs = "source" if number == 0 else f"unit_{number}"
            named[f"layer_{number + 1}_weight"] = Labelled(layer.weight, (inputs, "target", f"unit_{number + 1}"))
            named[f"layer_{number + 1}_bias"] = Labelled(layer.bias, ("target", f"unit_{number + 1}"))
        if theta.log_noise_std is not None:
            named["noise_std"] = Labelled(jnp.exp(theta.log_noise_std), ("node",))
        return named
