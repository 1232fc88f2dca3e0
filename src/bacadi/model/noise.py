"""Standard deviation of Gaussian noise: fixed as in the paper, or inferred."""

from abc import abstractmethod

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

LOG_2PI = 1.8378770664093453


class AbstractNoise(eqx.Module):
    """What is known of a noise standard deviation; the parameter is log σ, or None where there is none."""

    @abstractmethod
    def init(self, shape: tuple[int, ...], dtype: jnp.dtype) -> Float[Array, "..."] | None: ...

    @abstractmethod
    def log_std(self, parameter: Float[Array, "..."] | None) -> Float[Array, "..."]: ...

    @abstractmethod
    def log_prior(self, parameter: Float[Array, "..."] | None) -> Float[Array, "..."]: ...

    @abstractmethod
    def prior_unit(self, parameter: Float[Array, "..."] | None) -> Float[Array, "..."]:
        """The unit of prior standard deviations of coefficients and means beside this noise: 1 or σ."""


class FixedNoise(AbstractNoise):
    """σ is known: the paper has σ² = .1 for mechanisms and σ_I² = .5 for interventions."""

    std: float

    def init(self, shape: tuple[int, ...], dtype: jnp.dtype) -> None:
        return None

    def log_std(self, parameter: Float[Array, "..."] | None) -> Float[Array, ""]:
        return jnp.log(self.std)

    def log_prior(self, parameter: Float[Array, "..."] | None) -> Float[Array, ""]:
        return jnp.zeros(())

    def prior_unit(self, parameter: Float[Array, "..."] | None) -> Float[Array, ""]:
        return jnp.ones(())


class InferredNoise(AbstractNoise):
    """σ² ~ InverseGamma(shape, scale), carried as log σ (the density includes d σ² / d log σ = 2σ²).

    Coefficients and means beside an inferred noise have priors in units of σ: the conjugate choice, with which they
    and σ can be integrated out.
    """

    shape: float = 2.0
    scale: float = 0.2

    def init(self, shape: tuple[int, ...], dtype: jnp.dtype) -> Float[Array, "..."]:
        return jnp.full(shape, 0.5 * jnp.log(self.scale / (self.shape + 1)), dtype)

    def log_std(self, parameter: Float[Array, "..."] | None) -> Float[Array, "..."]:
        assert parameter is not None
        return parameter

    def log_prior(self, parameter: Float[Array, "..."] | None) -> Float[Array, "..."]:
        assert parameter is not None
        normaliser = self.shape * jnp.log(self.scale) - gammaln(self.shape) + jnp.log(2.0)
        return normaliser - 2 * self.shape * parameter - self.scale * jnp.exp(-2 * parameter)

    def prior_unit(self, parameter: Float[Array, "..."] | None) -> Float[Array, "..."]:
        assert parameter is not None
        return jnp.exp(parameter)


def gaussian_log_likelihood(
    count: Float[Array, "..."], squares: Float[Array, "..."], log_std: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Σ log N(residual; 0, σ²) from the number of rows and the sum of squared residuals."""
    return -0.5 * count * (LOG_2PI + 2 * log_std) - 0.5 * squares * jnp.exp(-2 * log_std)


def log_normal(
    value: Float[Array, "..."], mean: Float[Array, "..."] | float, std: Float[Array, "..."] | float
) -> Float[Array, "..."]:
    """log N(value; mean, std²), entry by entry."""
    return -0.5 * (LOG_2PI + ((value - mean) / std) ** 2) - jnp.log(std)
