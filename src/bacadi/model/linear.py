"""Linear Gaussian mechanisms: x_j ~ N(Σ_i G_ij Θ_ij x_i + b_j, σ_j²) (Appendix D.1)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.evidence.collapsed import AbstractEvidence, States
from bacadi.model.mechanism import AbstractMechanism, weights_log_prior
from bacadi.model.noise import AbstractNoise, FixedNoise, InferredNoise, gaussian_log_likelihood, log_normal
from bacadi.relaxed.rows import Rows, gram_rows


class LinearTheta(NamedTuple):
    """`weight[i, j]` acts from i on j; the other two are None where the model has none."""

    weight: Float[Array, "d d"]
    intercept: Float[Array, " d"] | None
    log_noise_std: Float[Array, " d"] | None


@jax.custom_vjp
def context_squares(
    x: Float[Array, "N c"], one_hot: Float[Array, "K N"], coefficients: Float[Array, "c p"]
) -> Float[Array, "K p"]:
    """Σ_{n in context k} (x_n · coefficients)², with a gradient of one matrix product that reuses the residuals."""
    return _context_squares_forward(x, one_hot, coefficients)[0]


def _context_squares_forward(x, one_hot, coefficients):  # type: ignore[no-untyped-def]
    # The barrier keeps XLA from fusing the first product into the second, which it then computes row by row.
    residuals = jax.lax.optimization_barrier(x @ coefficients)
    return one_hot @ (residuals * residuals), (x, one_hot, residuals)


def _context_squares_backward(saved, cotangent):  # type: ignore[no-untyped-def]
    x, one_hot, residuals = saved
    return None, None, x.T @ (residuals * (one_hot.T @ (2 * cotangent)))


context_squares.defvjp(_context_squares_forward, _context_squares_backward)


class LinearGaussian(AbstractMechanism):
    """x_j ~ N(Σ_i G_ij Θ_ij x_i + b_j, σ_j²) with Θ_ij ~ N(0, weight_prior_std²) where the edge exists.

    Beside an inferred noise both prior standard deviations are in units of σ_j (see `InferredNoise`).

    `absent_ratio` is the pseudo-prior of a weight without an edge (`weights_log_prior`).

    >>> LinearGaussian().noise.std ** 2
    0.1
    """

    noise: AbstractNoise = FixedNoise(0.1**0.5)
    weight_prior_std: float = 1.0
    intercept_prior_std: float | None = None
    absent_ratio: float | None = None
    init_std: float = 0.3

    def init(self, key: Key[Array, ""], n_variables: int, dtype: jnp.dtype) -> LinearTheta:
        weight = self.init_std * jax.random.normal(key, (n_variables, n_variables), dtype)
        intercept = None if self.intercept_prior_std is None else jnp.zeros(n_variables, dtype)
        return LinearTheta(weight, intercept, self.noise.init((n_variables,), dtype))

    def log_prior(self, theta: LinearTheta, graph: Float[Array, "d d"]) -> Float[Array, " d"]:
        unit = self.noise.prior_unit(theta.log_noise_std)
        log_p = weights_log_prior(theta.weight[..., None], graph, self.weight_prior_std * unit, self.absent_ratio)
        log_p = log_p + self.noise.log_prior(theta.log_noise_std)
        if theta.intercept is None or self.intercept_prior_std is None:
            return log_p
        return log_p + log_normal(theta.intercept, 0.0, self.intercept_prior_std * unit)

    def log_prob(self, theta: LinearTheta, graph: Float[Array, "d d"], x: Float[Array, " d"]) -> Float[Array, " d"]:
        mean = x @ (graph * theta.weight)
        residual = x - mean if theta.intercept is None else x - mean - theta.intercept
        return gaussian_log_likelihood(jnp.ones((), x.dtype), residual**2, self.noise.log_std(theta.log_noise_std))

    def prepare(self, data: ContextData, dtype: jnp.dtype) -> Rows:
        return gram_rows(data, dtype, intercept=self.intercept_prior_std is not None)

    def log_likelihood(self, theta: LinearTheta, graphs: Float[Array, "d S d"], rows: Rows) -> Float[Array, "K S d"]:
        d, s, _ = graphs.shape
        coefficients = jnp.eye(d, dtype=graphs.dtype)[:, None, :] - graphs * theta.weight[:, None, :]
        if theta.intercept is not None:
            offset = jnp.broadcast_to(-theta.intercept, (1, s, d))
            coefficients = jnp.concatenate([coefficients, offset])
        squares = context_squares(rows.x, rows.one_hot, coefficients.reshape(-1, s * d)).reshape(-1, s, d)
        return gaussian_log_likelihood(rows.count[:, None, None], squares, self.noise.log_std(theta.log_noise_std))

    def evidence(self, data: ContextData, states: States) -> AbstractEvidence:
        from bacadi.evidence.gram import GramEvidence, regression

        d, known = data.n_variables, isinstance(self.noise, FixedNoise)
        variance = self.noise.std**2 if isinstance(self.noise, FixedNoise) else 1.0
        shape, scale = (self.noise.shape, self.noise.scale) if isinstance(self.noise, InferredNoise) else (1.0, 1.0)
        # Prior precisions in units of the noise: with σ known the prior variance itself is not.
        precision = np.full((d, d + 1), variance / self.weight_prior_std**2)
        if self.intercept_prior_std is not None:
            precision[:, d] = variance / self.intercept_prior_std**2
        noise = np.full(d, variance) if known else None
        prior = regression(
            self.intercept_prior_std is not None, precision, noise, np.full(d + 1, shape), np.full(d, scale)
        )
        return GramEvidence(data, states, prior)

    def named(self, theta: LinearTheta) -> dict[str, Labelled]:
        named = {"weight": Labelled(theta.weight, ("source", "target"))}
        if theta.intercept is not None:
            named["intercept"] = Labelled(theta.intercept, ("node",))
        if theta.log_noise_std is not None:
            named["noise_std"] = Labelled(jnp.exp(theta.log_noise_std), ("node",))
        return named
