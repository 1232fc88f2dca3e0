"""The score of SVGD as a whole: finite differences of the log density of a particle, written out term by term."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from bacadi import SVGD, ErdosRenyi, HardGaussian, InferredNoise, LinearGaussian, Model, ScaleFree, TargetPrior
from bacadi.inference.svgd.estimators import AbstractEstimator, Psi, RelaxedEstimator
from bacadi.inference.svgd.method import Descent, Ramp, score
from bacadi.relaxed.density import Density
from bacadi.relaxed.latent import Particle

from ...small import PAPER, small_data
from .enumeration import exact_log_expected_psi

D, STEP, ALPHA, BETA = 3, 7, 1.4, 21.0


class Enumerated(AbstractEstimator):
    """log E[Ψ] by the sum over all graphs and targets."""

    def __call__(self, key, particle, chains, alpha, density):
        return Psi(*jax.value_and_grad(exact_log_expected_psi(alpha, density))(particle), chains)


class SameNoise(AbstractEstimator):
    """The paper's estimator with four samples of the same noise at every call."""

    def __call__(self, key, particle, chains, alpha, density):
        return RelaxedEstimator(4)(jax.random.key(5), particle, chains, alpha, density)


INFERRED = (LinearGaussian(InferredNoise(), 1.0, 1.0), HardGaussian(InferredNoise()))
FEW_EDGES, FEW_TARGETS = ErdosRenyi(0.3), TargetPrior(sparsity=1.7, gamma_std=0.8)
CASES = {
    "enumerated": (Enumerated(), PAPER.replace(graph_prior=FEW_EDGES, target_prior=FEW_TARGETS)),
    "relaxed, all inferred": (SameNoise(), Model(*INFERRED, ScaleFree(2.0), FEW_TARGETS)),
}


def log_prior(z: jax.Array, gamma: jax.Array, model: Model) -> jax.Array:
    """log N(Z; 0, 1/d) + log p(G_α(Z)) - β h(G_α(Z)) + log p(Γ) without constants: Eqs. (8), p_β(Z), and (10), p(Γ)."""
    edges = (1 - jnp.eye(D)) / (1 + jnp.exp(-ALPHA * jnp.einsum("ir,jr->ij", z[0], z[1])))
    log_p = -0.5 * D * jnp.sum(z**2)
    if isinstance(model.graph_prior, ErdosRenyi):
        log_p += jnp.sum(edges) * jnp.log(0.3 / 0.7)  # .3 d edges among the d pairs of three variables
    else:
        log_p -= 2.0 * jnp.sum(jnp.log(1 + jnp.sum(edges, axis=1)))
    log_p -= BETA * (jnp.trace(jnp.linalg.matrix_power(jnp.eye(D) + edges / D, D)) - D)
    target = 1 / (1 + jnp.exp(-ALPHA * gamma))
    beta_density = (1 / D - 1) * jnp.log(target) + ((D - 1) / D - 1) * jnp.log(1 - target)
    return log_p + jnp.sum(beta_density - 1.7 * target - gamma**2 / (2 * 0.8**2))


@pytest.mark.parametrize("name", CASES)
def test_the_score_is_the_gradient_of_the_whole_log_density(name: str) -> None:
    """All four blocks by central differences in double precision, whose error is below 1e-6 of the gradient."""
    estimator, model = CASES[name]
    svgd = SVGD(estimator=estimator, alpha=Ramp(0.2), beta=Ramp(3.0), double=True)
    with jax.enable_x64(True):
        density = Density.of(model, small_data((3, 1, 2), D), dtype=jnp.dtype("float64"))
        particle = eqx.filter_jit(density.init)(jax.random.key(3), 2)
        particle = jax.tree.map(lambda leaf: 1.5 * leaf + 0.1, particle)
        descent = Descent(svgd, density, jax.random.key(0))
        flat, particle_of = ravel_pytree(particle)

        def log_density(flat: jax.Array) -> jax.Array:
            particle = particle_of(flat)
            log_psi = estimator(jax.random.key(0), particle, (), ALPHA, density).log_psi
            return log_prior(particle.z, particle.gamma, model) + log_psi

        gradient, info, _ = eqx.filter_jit(score)(jax.random.key(1), particle, (), jnp.asarray(STEP), descent)
        step = 1e-5 * jnp.eye(len(flat))
        values = jax.jit(lambda points: jax.lax.map(log_density, points))(jnp.concatenate([flat + step, flat - step]))
        wanted = particle_of((values[: len(flat)] - values[len(flat) :]) / 2e-5)
        inside = 1 / (1 + jnp.exp(-ALPHA * particle.z[0] @ particle.z[1].T)) * (1 - jnp.eye(D)) / D
        cycles = jnp.trace(jnp.linalg.matrix_power(jnp.eye(D) + inside, D)) - D
        np.testing.assert_allclose(info.expected_acyclicity, cycles, rtol=1e-9)
    for block in Particle._fields:
        found, expected = (
            np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(getattr(g, block))]) for g in (gradient, wanted)
        )
        assert np.abs(expected).max() > 0.1, f"{block} says nothing here"
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max(), err_msg=block)
