"""Effects in the differentiable reading: densities of targeted variables, as sums over the rows of context k = 1..M.

`log_untargeted` is the density of the effect parameters of a variable that is not a target. The paper leaves it
undefined (0 here: density 1); any proper density leaves p(G, Θ, I | D) as it is.
"""

from abc import abstractmethod
from functools import singledispatch
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from bacadi.data.contexts import Scaling
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError
from bacadi.model.effects import Effect, HardGaussian, SoftGaussian
from bacadi.model.mechanism import AbstractMechanism, Mechanism
from bacadi.model.noise import gaussian_log_likelihood, log_normal
from bacadi.relaxed.mechanisms import ContextMoments, Rows, log_likelihood, log_prior_of_theta, split_rows


class RelaxedEffect(eqx.Module):
    """An effect with the data that it reads."""

    @abstractmethod
    def init(self, key: Key[Array, ""]) -> PyTree:
        """Θ_I of a fresh particle."""

    @abstractmethod
    def log_targeted(self, theta_int: PyTree, graphs: Float[Array, "d S d"]) -> Float[Array, "M #S d"]:
        """log p(Θ_I | targeted) + log p(rows of context k of variable j | Θ_I)."""

    @abstractmethod
    def log_untargeted(self, theta_int: PyTree, graphs: Float[Array, "d S d"]) -> Float[Array, "M #S #d"]:
        """log p(Θ_I | not targeted)."""

    @abstractmethod
    def labelled(self, theta_int: PyTree) -> dict[str, Labelled]:
        """Θ_I under the names it has in the output."""

    @abstractmethod
    def rescaled(self, theta_int: PyTree, graph: np.ndarray, scaling: Scaling) -> PyTree:
        """Θ_I for the variables in original units; see `AbstractMechanism.rescaled`."""


@singledispatch
def relaxed_effect(effect: Effect, mechanism: Mechanism, moments: ContextMoments, rows: PyTree) -> RelaxedEffect:
    """The differentiable reading of an effect, or a refusal where it has none."""
    raise ConfigError(
        f"{type(effect).__name__} is integrated out and has no parameters for SVGD; use method mcmc or exact, "
        "or HardGaussian or SoftGaussian with SVGD."
    )


class HardTheta(NamedTuple):
    """Means of all variables in all contexts, and log σ_I where it is inferred."""

    mean: Float[Array, "M d"]
    log_noise_std: Float[Array, "M d"] | None


class RelaxedHard(RelaxedEffect):
    """`HardGaussian`: x_j ~ N(μ_kj, σ_I²), parents cut off."""

    effect: HardGaussian = eqx.field(static=True)
    moments: ContextMoments

    def init(self, key: Key[Array, ""]) -> HardTheta:
        shape, dtype, start = self.moments.mean.shape, self.moments.mean.dtype, self.effect.noise.initial
        noise, draw = None if start is None else jnp.full(shape, start, dtype), jax.random.normal(key, shape, dtype)
        if not self.effect.pseudo_prior:
            return HardTheta(self.effect.init_std * draw, noise)
        mean, std = self._mean_given_data(noise)
        return HardTheta(mean + std * draw, noise)

    def log_likelihood(self, theta_int: HardTheta) -> Float[Array, "M d"]:
        """log p(rows of context k of variable j | μ, σ_I)."""
        count = self.moments.count[:, None]
        squares = self.moments.squares + count * (self.moments.mean - theta_int.mean) ** 2
        return gaussian_log_likelihood(count, squares, self.effect.noise.log_std(theta_int.log_noise_std))

    def log_prior(self, theta_int: HardTheta) -> Float[Array, "M d"]:
        """log p(μ, σ_I)."""
        effect, unit = self.effect, self.effect.noise.prior_unit(theta_int.log_noise_std)
        log_p = log_normal(theta_int.mean, effect.mean_prior_mean, effect.mean_prior_std * unit)
        return log_p + effect.noise.log_prior(theta_int.log_noise_std)

    def log_targeted(self, theta_int: HardTheta, graphs: Float[Array, "d S d"]) -> Float[Array, "M 1 d"]:
        return (self.log_likelihood(theta_int) + self.log_prior(theta_int))[:, None, :]

    def log_untargeted(self, theta_int: HardTheta, graphs: Float[Array, "d S d"]) -> Float[Array, "M 1 #d"]:
        if not self.effect.pseudo_prior:
            return jnp.zeros((len(self.moments.count), 1, 1), self.moments.mean.dtype)
        # With σ inferred its prior stands beside p(μ | x_k, σ), which is a proper density still.
        mean, std = self._mean_given_data(theta_int.log_noise_std)
        log_p = log_normal(theta_int.mean, mean, std)
        return (log_p + self.effect.noise.log_prior(theta_int.log_noise_std))[:, None, :]

    def labelled(self, theta_int: HardTheta) -> dict[str, Labelled]:
        parts = {"effect_mean": Labelled(theta_int.mean, ("context", "node"))}
        if theta_int.log_noise_std is not None:
            parts["effect_noise_std"] = Labelled(jnp.exp(theta_int.log_noise_std), ("context", "node"))
        return parts

    def rescaled(self, theta_int: HardTheta, graph: np.ndarray, scaling: Scaling) -> HardTheta:
        mean = theta_int.mean * scaling.scale + scaling.shift
        noise: Any = self.effect.noise.rescaled(theta_int.log_noise_std, scaling.scale)
        return HardTheta(mean, noise if noise is None else noise + np.zeros(mean.shape, mean.dtype))

    def _mean_given_data(
        self, log_noise_std: Float[Array, "M d"] | None
    ) -> tuple[Float[Array, "M d"], Float[Array, "M #d"]]:
        """Mean and standard deviation of p(μ | x_k, targeted, σ_I)."""
        effect, moments = self.effect, self.moments
        rows = moments.count[:, None] * jnp.exp(-2 * jnp.asarray(effect.noise.log_std(log_noise_std)))
        prior = (effect.mean_prior_std * effect.noise.prior_unit(log_noise_std)) ** -2
        precision = rows + prior
        return (rows * moments.mean + effect.mean_prior_mean * prior) / precision, precision**-0.5


@relaxed_effect.register
def _(effect: HardGaussian, mechanism: Mechanism, moments: ContextMoments, rows: PyTree) -> RelaxedEffect:
    return RelaxedHard(effect, moments)


class RelaxedSoft(RelaxedEffect):
    """`SoftGaussian`: a target follows the same kind of mechanism with its own Θ."""

    mechanism: AbstractMechanism = eqx.field(static=True)
    blocks: Rows
    n_variables: int = eqx.field(static=True)

    def init(self, key: Key[Array, ""]) -> PyTree:
        m, dtype = len(self.blocks.x), self.blocks.x.dtype
        return jax.vmap(lambda k: self.mechanism.init(k, self.n_variables, dtype))(jax.random.split(key, m))

    def log_targeted(self, theta_int: PyTree, graphs: Float[Array, "d S d"]) -> Float[Array, "M S d"]:
        def one_context(theta: PyTree, rows: Rows) -> Float[Array, "S d"]:
            fitted = log_likelihood(self.mechanism, theta, graphs, rows)[0]
            return fitted + log_prior_of_theta(self.mechanism, theta, graphs)

        return jax.vmap(one_context)(theta_int, self.blocks)

    def log_untargeted(self, theta_int: PyTree, graphs: Float[Array, "d S d"]) -> Float[Array, "M S d"]:
        return jax.vmap(lambda theta: log_prior_of_theta(self.mechanism, theta, graphs))(theta_int)

    def labelled(self, theta_int: PyTree) -> dict[str, Labelled]:
        """The mechanism's own names behind `effect_`, with the context as the first axis."""
        contexts = [self.mechanism.labelled(theta) for theta in self._contexts(theta_int)]
        # Names and axes are there without contexts, too.
        empty: Any = jax.tree.map(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), theta_int)
        return {
            f"effect_{name}": Labelled(
                np.array([parts[name].values for parts in contexts]).reshape(-1, *np.shape(values)), ("context", *dims)
            )
            for name, (values, dims) in self.mechanism.labelled(empty).items()
        }

    def rescaled(self, theta_int: PyTree, graph: np.ndarray, scaling: Scaling) -> PyTree:
        changed = [self.mechanism.rescaled(theta, graph, scaling) for theta in self._contexts(theta_int)]
        if not changed or changed[0] is None:
            return theta_int
        return jax.tree.map(lambda *leaves: np.stack(leaves), *changed)

    def _contexts(self, theta_int: PyTree) -> list[PyTree]:
        """Θ_I of one context after the other."""
        return [jax.tree.map(lambda leaf, k=k: leaf[k], theta_int) for k in range(len(self.blocks.x))]


@relaxed_effect.register
def _(effect: SoftGaussian, mechanism: Mechanism, moments: ContextMoments, rows: PyTree) -> RelaxedEffect:
    if not isinstance(mechanism, AbstractMechanism):
        raise ConfigError(
            f"A soft effect needs a mechanism with parameters and {type(mechanism).__name__} has none; "
            "use HardGaussian with it."
        )
    return RelaxedSoft(mechanism, split_rows(rows), moments.mean.shape[1])
