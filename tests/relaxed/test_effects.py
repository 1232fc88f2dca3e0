"""Effects in the differentiable reading: the pseudo-prior of effects that did not happen."""

import jax.numpy as jnp
import numpy as np
import pytest

from bacadi.evidence.effects import hard_log_evidence
from bacadi.model.effects import HardGaussian, moments
from bacadi.model.noise import FixedNoise
from bacadi.relaxed.density import HardTheta, relaxed_effect
from bacadi.relaxed.mechanisms import context_moments

from ..small import PAPER, small_data

FLOAT = jnp.dtype("float32")


@pytest.mark.parametrize("mean", [-0.7, 0.0, 3.0])
def test_the_pseudo_prior_leaves_the_evidence_alone(mean: float) -> None:
    """log targeted - log untargeted = log evidence at every μ, so that p(G, Θ, I | D) does not depend on Θ_I."""
    data = small_data((2, 1, 3))
    effect = HardGaussian(FixedNoise(0.6), mean_prior_mean=0.4, mean_prior_std=1.5, pseudo_prior=True)
    relaxed = relaxed_effect(effect, PAPER.mechanism, context_moments(data, FLOAT), None)
    arguments = HardTheta(jnp.full((2, 3), mean), None), jnp.zeros((3, 1, 3))
    targeted, untargeted = relaxed.log_terms(*arguments)
    difference = targeted - untargeted
    np.testing.assert_allclose(difference[:, 0], hard_log_evidence(effect, moments(data)), rtol=1e-4, atol=1e-4)
