"""What an intervention does to its target: p(x_j | parents, Θ_I) in place of the mechanism."""

from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from bacadi.errors import ConfigError
from bacadi.model.mechanism import AbstractMechanism, AnyMechanism, Named, graph_prior_of_theta
from bacadi.model.noise import AbstractNoise, FixedNoise, gaussian_log_likelihood, log_normal
from bacadi.model.rows import ContextMoments, Rows, split_rows


class EffectData(eqx.Module):
    """What effects read of the data: moments per context and, for soft effects, the rows of each context."""

    moments: ContextMoments
    blocks: Rows | None


class AbstractEffect(eqx.Module):
    """Density of a targeted variable in its context, as sums over the rows of context k = 1..M.

    `log_untargeted` is the density of the effect parameters of a variable that is no target. The paper leaves it
    undefined (0 here: density 1); any proper density leaves p(G, Θ, I | D) as it is.
    """

    @abstractmethod
    def init(self, key: Key[Array, ""], mechanism: AnyMechanism, moments: ContextMoments) -> PyTree: ...

    @abstractmethod
    def prepare(self, moments: ContextMoments, rows: PyTree) -> EffectData: ...

    @abstractmethod
    def log_targeted(
        self, theta_int: PyTree, graphs: Float[Array, "d S d"], mechanism: AnyMechanism, data: EffectData
    ) -> Float[Array, "M #S d"]:
        """log p(Θ_I | targeted) + log p(rows of context k of variable j | Θ_I)."""

    @abstractmethod
    def log_untargeted(
        self, theta_int: PyTree, graphs: Float[Array, "d S d"], mechanism: AnyMechanism, data: EffectData
    ) -> Float[Array, "M #S d"]: ...

    @abstractmethod
    def named(self, theta_int: PyTree, mechanism: AnyMechanism) -> dict[str, Named]: ...


class HardTheta(NamedTuple):
    mean: Float[Array, "M d"]
    log_noise_std: Float[Array, "M d"] | None


class HardGaussian(AbstractEffect):
    """x_j ~ N(μ_kj, σ_I²), parents cut off, with μ_kj ~ N(mean_prior_mean, mean_prior_std²) (Appendix D.1).

    The paper does not say which density the mean of an untargeted variable has. With `pseudo_prior` it follows
    p(μ | x_k, targeted), its posterior had it been a target: then targeted and untargeted differ by the evidence
    ∫ p(x_k | μ) p(μ) dμ alone, as if μ had been integrated out, and means start from that posterior. Without, the
    density is 1, as in the authors' code, and means start close to 0.
    """

    noise: AbstractNoise = FixedNoise(0.5**0.5)
    mean_prior_mean: float = 0.0
    mean_prior_std: float = 10.0
    pseudo_prior: bool = True
    init_std: float = 0.1**0.5

    def init(self, key: Key[Array, ""], mechanism: AnyMechanism, moments: ContextMoments) -> HardTheta:
        shape, dtype = moments.mean.shape, moments.mean.dtype
        noise, draw = self.noise.init(shape, dtype), jax.random.normal(key, shape, dtype)
        if not self.pseudo_prior:
            return HardTheta(self.init_std * draw, noise)
        mean, std = self._mean_given_data(noise, moments)
        return HardTheta(mean + std * draw, noise)

    def prepare(self, moments: ContextMoments, rows: PyTree) -> EffectData:
        return EffectData(moments, None)

    def log_likelihood(self, theta_int: HardTheta, moments: ContextMoments) -> Float[Array, "M d"]:
        count = moments.count[:, None]
        squares = moments.squares + count * (moments.mean - theta_int.mean) ** 2
        return gaussian_log_likelihood(count, squares, self.noise.log_std(theta_int.log_noise_std))

    def log_prior(self, theta_int: HardTheta) -> Float[Array, "M d"]:
        log_p = log_normal(theta_int.mean, self.mean_prior_mean, self.mean_prior_std)
        return log_p + self.noise.log_prior(theta_int.log_noise_std)

    def log_targeted(
        self, theta_int: HardTheta, graphs: Float[Array, "d S d"], mechanism: AnyMechanism, data: EffectData
    ) -> Float[Array, "M 1 d"]:
        return (self.log_likelihood(theta_int, data.moments) + self.log_prior(theta_int))[:, None, :]

    def log_untargeted(
        self, theta_int: HardTheta, graphs: Float[Array, "d S d"], mechanism: AnyMechanism, data: EffectData
    ) -> Float[Array, "M 1 #d"]:
        if not self.pseudo_prior:
            return jnp.zeros((len(data.moments.count), 1, 1), data.moments.mean.dtype)
        # With σ inferred its prior stands beside p(μ | x_k, σ), which is a proper density still.
        mean, std = self._mean_given_data(theta_int.log_noise_std, data.moments)
        log_p = log_normal(theta_int.mean, mean, std)
        return (log_p + self.noise.log_prior(theta_int.log_noise_std))[:, None, :]

    def _mean_given_data(
        self, log_noise_std: Float[Array, "M d"] | None, moments: ContextMoments
    ) -> tuple[Float[Array, "M d"], Float[Array, "M #d"]]:
        """Mean and standard deviation of p(μ | x_k, targeted, σ_I)."""
        rows = moments.count[:, None] * jnp.exp(-2 * self.noise.log_std(log_noise_std))
        precision = rows + self.mean_prior_std**-2
        mean = (rows * moments.mean + self.mean_prior_mean * self.mean_prior_std**-2) / precision
        return mean, precision**-0.5

    def log_evidence(self, moments: ContextMoments) -> Float[Array, "M d"]:
        """log ∫ N(x_k | μ, σ_I²) p(μ) dμ, for fixed σ_I."""
        if not isinstance(self.noise, FixedNoise):
            raise ConfigError("The evidence of a hard effect is closed only for fixed noise; use FixedNoise.")
        count, variance, prior = moments.count[:, None], self.noise.std**2, self.mean_prior_std**2
        total = variance + count * prior
        within = gaussian_log_likelihood(count, moments.squares, jnp.log(self.noise.std))
        shift = count * (moments.mean - self.mean_prior_mean) ** 2 / total
        return within + 0.5 * jnp.log(variance / total) - 0.5 * shift

    def named(self, theta_int: HardTheta, mechanism: AnyMechanism) -> dict[str, Named]:
        named = {"effect_mean": Named(theta_int.mean, ("context", "variable"))}
        if theta_int.log_noise_std is not None:
            named["effect_noise_std"] = Named(jnp.exp(theta_int.log_noise_std), ("context", "variable"))
        return named


class SoftGaussian(AbstractEffect):
    """The parents stay and the mechanism changes: a target follows the same kind of mechanism with its own Θ.

    Works with every mechanism that has parameters; Θ_I is one Θ per context, with the mechanism's prior.
    """

    def init(self, key: Key[Array, ""], mechanism: AnyMechanism, moments: ContextMoments) -> PyTree:
        (m, d), dtype = moments.mean.shape, moments.mean.dtype
        with_parameters = _with_parameters(mechanism)
        return jax.vmap(lambda k: with_parameters.init(k, d, dtype))(jax.random.split(key, m))

    def prepare(self, moments: ContextMoments, rows: PyTree) -> EffectData:
        return EffectData(moments, split_rows(rows) if isinstance(rows, Rows) else None)

    def log_targeted(
        self, theta_int: PyTree, graphs: Float[Array, "d S d"], mechanism: AnyMechanism, data: EffectData
    ) -> Float[Array, "M S d"]:
        own = _with_parameters(mechanism)

        def one_context(theta: PyTree, rows: Rows) -> Float[Array, "S d"]:
            return own.log_likelihood(theta, graphs, rows)[0] + graph_prior_of_theta(own, theta, graphs)

        assert data.blocks is not None
        return jax.vmap(one_context)(theta_int, data.blocks)

    def log_untargeted(
        self, theta_int: PyTree, graphs: Float[Array, "d S d"], mechanism: AnyMechanism, data: EffectData
    ) -> Float[Array, "M S d"]:
        own = _with_parameters(mechanism)
        return jax.vmap(lambda theta: graph_prior_of_theta(own, theta, graphs))(theta_int)

    def named(self, theta_int: PyTree, mechanism: AnyMechanism) -> dict[str, Named]:
        """The mechanism's own names behind `effect_`, with the context as the first axis."""
        own = _with_parameters(mechanism)
        named = jax.vmap(lambda theta: [item.values for item in own.named(theta).values()])(theta_int)
        one = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[1:], leaf.dtype), theta_int)
        return {
            f"effect_{name}": Named(values, ("context", *item.dims))
            for (name, item), values in zip(own.named(one).items(), named, strict=True)
        }


def _with_parameters(mechanism: AnyMechanism) -> AbstractMechanism:
    if not isinstance(mechanism, AbstractMechanism):
        raise ConfigError(
            f"A soft effect needs a mechanism with parameters and {type(mechanism).__name__} has none; "
            "use HardGaussian with it."
        )
    return mechanism
