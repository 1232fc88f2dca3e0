"""Effects in the differentiable reading: the pseudo-prior of effects that did not happen."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bacadi.model.effects import HardGaussian, hard_log_evidence, moments
from bacadi.model.noise import AbstractNoise, FixedNoise, InferredNoise
from bacadi.relaxed.density import HardTheta, relaxed_effect
from bacadi.relaxed.mechanisms import context_moments

from ..small import PAPER, small_data

FLOAT = jnp.dtype("float32")


NOISES = [FixedNoise(0.6), InferredNoise(1.2, 0.4), InferredNoise(1.2, 0.4, (1.0, 30.0))]


@pytest.mark.parametrize("noise", NOISES, ids=["fixed", "inferred", "two widths"])
@pytest.mark.parametrize("mean", [-0.7, 0.0, 3.0])
def test_the_pseudo_prior_leaves_the_evidence_alone(mean: float, noise: AbstractNoise) -> None:
    """log targeted - log untargeted = log evidence at every μ and σ_I, so that p(G, Θ, I | D) does not depend on Θ_I.

    The evidence is that of the closed form; that the untargeted density is proper follows, and is checked below.
    """
    data = small_data((2, 1, 3))
    effect = HardGaussian(noise, mean_prior_mean=0.4, mean_prior_std=1.5, pseudo_prior=True)
    relaxed = relaxed_effect(effect, PAPER.mechanism, context_moments(data, FLOAT), None)
    log_std = None if noise.initial is None else jnp.full((2, 3), -0.3)
    targeted, untargeted = relaxed.log_terms(HardTheta(jnp.full((2, 3), mean), log_std), jnp.zeros((3, 1, 3)))
    difference = targeted - untargeted
    np.testing.assert_allclose(difference[:, 0], hard_log_evidence(effect, moments(data)), rtol=1e-4, atol=1e-4)


def test_the_untargeted_density_of_mean_and_noise_is_proper() -> None:
    """∫∫ exp(untargeted) dμ d log σ_I = 1 on a grid, whatever the rows of the context."""
    data = small_data((2, 1, 3))
    effect = HardGaussian(InferredNoise(1.2, 0.4, (1.0, 3.0)), mean_prior_mean=0.4, mean_prior_std=1.5)
    relaxed = relaxed_effect(effect, PAPER.mechanism, context_moments(data, FLOAT), None)
    means, log_stds = np.linspace(-40, 40, 4001), np.linspace(-2.5, 3.5, 121)

    def density(log_std: jax.Array) -> jax.Array:
        def at(mean: jax.Array) -> jax.Array:
            theta = HardTheta(jnp.full((2, 3), mean), jnp.full((2, 3), log_std))
            return jnp.exp(relaxed.log_terms(theta, jnp.zeros((3, 1, 3)))[1][:, 0])

        return jnp.sum(jax.vmap(at)(jnp.asarray(means, FLOAT)), axis=0)

    total = jax.lax.map(density, jnp.asarray(log_stds, FLOAT)).sum(axis=0)
    np.testing.assert_allclose(total * (means[1] - means[0]) * (log_stds[1] - log_stds[0]), 1.0, atol=0.01)


def test_fresh_particles_start_at_the_posterior_of_an_effect() -> None:
    """Over many keys: μ about its posterior mean, σ_I at the mode; wide priors, so that the data decide."""
    data = small_data((2, 4, 9))
    effect = HardGaussian(InferredNoise(0.1, 1e-4), mean_prior_std=100.0)
    relaxed = relaxed_effect(effect, PAPER.mechanism, context_moments(data, FLOAT), None)
    starts = jax.vmap(relaxed.init)(jax.random.split(jax.random.key(0), 2000))
    sums = moments(data)
    variance = (1e-4 + 0.5 * sums.squares) / (0.1 + 0.5 * sums.n_rows + 1)
    np.testing.assert_allclose(starts.log_noise_std[0], 0.5 * np.log(variance), atol=1e-3)
    error = np.sqrt(variance / sums.n_rows)
    # 5 standard errors of a mean of 2000; a standard deviation is known to 1.6 %: 5 of them.
    assert (np.abs(np.mean(starts.mean, axis=0) - sums.mean) < 5 * error / 2000**0.5 + 1e-3).all()
    np.testing.assert_allclose(np.std(starts.mean, axis=0), error, rtol=0.08)
