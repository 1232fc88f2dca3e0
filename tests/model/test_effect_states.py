"""The states of every effect, the evidence of the hard one against dense densities, and draws of its parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bacadi.model.effect import (
    AbstractEffect,
    EffectMixture,
    HardGaussian,
    ScaleGaussian,
    ShiftGaussian,
    SoftGaussian,
)
from scipy.stats import invgamma, kstest, multivariate_normal, multivariate_t

from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError
from bacadi.evidence.collapsed import EffectKind
from bacadi.model.linear import LinearGaussian
from bacadi.model.noise import FixedNoise, InferredNoise
from bacadi.relaxed.rows import context_moments, numpy_moments

COUNTS = (5, 4, 1, 7)
X = np.random.default_rng(0).normal(1.0, 2.0, (sum(COUNTS), 3))
DATA = ContextData(X, np.repeat(np.arange(4), COUNTS), ("a", "b", "c"), ("k1", "k2", "k3"), "obs")
NO_ROWS = ContextData(X[:5], np.zeros(5, int), ("a", "b", "c"), ("k1",), "obs")


def rows_of(k: int, j: int) -> np.ndarray:
    return DATA.x[DATA.context == k + 1, j]


@pytest.mark.parametrize("mean", [0.0, -1.5])
def test_hard_evidence_with_known_noise_is_the_dense_gaussian(mean: float) -> None:
    found = HardGaussian(FixedNoise(0.8), mean, 2.5).states(DATA).hard_log_evidence
    for k, j in np.ndindex(3, 3):
        y = rows_of(k, j)
        cov = 0.8**2 * np.eye(len(y)) + 2.5**2
        np.testing.assert_allclose(found[k, j], multivariate_normal(np.full(len(y), mean), cov).logpdf(y), rtol=1e-10)


@pytest.mark.parametrize("mean", [0.0, -1.5])
def test_hard_evidence_with_inferred_noise_is_the_dense_t(mean: float) -> None:
    """μ ~ N(mean, 2.5² σ²) and σ² ~ InvGamma(1.7, .6) make a t of 3.4 degrees of freedom."""
    found = HardGaussian(InferredNoise(1.7, 0.6), mean, 2.5).states(DATA).hard_log_evidence
    for k, j in np.ndindex(3, 3):
        y = rows_of(k, j)
        shape = 0.6 / 1.7 * (np.eye(len(y)) + 2.5**2)
        expected = multivariate_t(np.full(len(y), mean), shape, df=3.4).logpdf(y)
        np.testing.assert_allclose(found[k, j], expected, rtol=1e-10)


@pytest.mark.parametrize("noise", [FixedNoise(0.8), InferredNoise(1.7, 0.6)])
def test_a_context_without_rows_says_nothing(noise: FixedNoise | InferredNoise) -> None:
    np.testing.assert_allclose(HardGaussian(noise).states(NO_ROWS).hard_log_evidence, 0.0, atol=1e-12)


def test_a_context_of_constant_values_has_a_finite_evidence() -> None:
    constant = ContextData(np.zeros((6, 2)), np.repeat([0, 1], 3), ("a", "b"), ("k",), "obs")
    for noise in (FixedNoise(0.5), InferredNoise()):
        assert np.isfinite(HardGaussian(noise).states(constant).hard_log_evidence).all()


def test_hard_draws_with_known_noise() -> None:
    """μ ~ N(posterior mean, posterior variance) by Kolmogorov-Smirnov; false-alarm rate 1e-4 over the nine."""
    effect, n = HardGaussian(FixedNoise(0.8), -1.5, 2.5), 5000
    drawn = effect.draw_parameters(np.random.default_rng(1), DATA, n)
    assert set(drawn) == {"effect_mean"} and drawn["effect_mean"].dims == ("context", "variable")
    for k, j in np.ndindex(3, 3):
        y = rows_of(k, j)
        precision = len(y) / 0.8**2 + 1 / 2.5**2
        mean = (y.sum() / 0.8**2 - 1.5 / 2.5**2) / precision
        standard = (drawn["effect_mean"].values[:, k, j].astype(float) - mean) * precision**0.5
        assert kstest(standard, "norm")[1] > 1e-4 / 9


def test_hard_draws_with_inferred_noise() -> None:
    """σ² follows its inverse gamma and μ given σ its Gaussian; false-alarm rate 1e-4 over all."""
    effect, n = HardGaussian(InferredNoise(1.7, 0.6), -1.5, 2.5), 5000
    drawn = effect.draw_parameters(np.random.default_rng(2), DATA, n)
    for k, j in np.ndindex(3, 3):
        y = rows_of(k, j)
        size = len(y)
        precision = size + 2.5**-2
        mean = (y.sum() - 1.5 * 2.5**-2) / precision
        squares = (y**2).sum() + 1.5**2 * 2.5**-2 - precision * mean**2
        std = drawn["effect_noise_std"].values[:, k, j].astype(float)
        law = invgamma(1.7 + size / 2, scale=0.6 + squares / 2)
        assert kstest(std**2, law.cdf)[1] > 1e-4 / 18
        standard = (drawn["effect_mean"].values[:, k, j].astype(float) - mean) / std * precision**0.5
        assert kstest(standard, "norm")[1] > 1e-4 / 18


def test_states_of_every_effect() -> None:
    for effect, kinds, values in (
        (HardGaussian(), [EffectKind.HARD], [0.0]),
        (ShiftGaussian(3.0), [EffectKind.SHIFT], [3.0]),
        (ScaleGaussian((0.5, 4.0)), [EffectKind.SCALE] * 2, [0.5, 4.0]),
        (SoftGaussian(), [EffectKind.SOFT], [0.0]),
    ):
        states = effect.states(DATA)
        assert states.kind.tolist() == [0, *kinds] and states.value.tolist() == [0.0, *values]
        np.testing.assert_allclose(np.exp(states.log_share[1:]).sum(), 1)
        assert states.hard_log_evidence.shape == (3, 3)
        assert states.hard_log_evidence.any() == (EffectKind.HARD in kinds)


def test_a_mixture_multiplies_shares_and_keeps_the_evidence() -> None:
    hard, scale = HardGaussian(), ScaleGaussian((0.5, 4.0))
    states = EffectMixture((hard, scale, SoftGaussian()), (0.5, 0.3, 0.2)).states(DATA)
    assert states.names == ("none", "hard", "scale 0.5", "scale 4", "soft")
    np.testing.assert_allclose(np.exp(states.log_share[1:]), [0.5, 0.15, 0.15, 0.2])
    np.testing.assert_array_equal(states.hard_log_evidence, hard.states(DATA).hard_log_evidence)
    even = EffectMixture((hard, scale)).states(DATA)
    np.testing.assert_allclose(np.exp(even.log_share[1:]), [0.5, 0.25, 0.25])
    drawn = EffectMixture((hard, scale)).draw_parameters(np.random.default_rng(0), DATA, 2)
    assert set(drawn) == {"effect_mean"}


@pytest.mark.parametrize("shares", [(0.5,), (0.7, 0.7), (1.0, 0.0)])
def test_shares_that_are_no_probabilities_are_refused(shares: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="give 2 numbers above 0 that add to 1"):
        EffectMixture((HardGaussian(), SoftGaussian()), shares).states(DATA)


def test_a_kind_named_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="names one kind twice"):
        EffectMixture((HardGaussian(), HardGaussian(FixedNoise(2.0)))).states(DATA)


@pytest.mark.parametrize("effect", [ShiftGaussian(), ScaleGaussian(), EffectMixture((HardGaussian(),))])
def test_effects_without_parameters_refuse_svgd(effect: AbstractEffect) -> None:
    with pytest.raises(ConfigError, match="use method mcmc or exact"):
        effect.init(jax.random.key(0), LinearGaussian(), context_moments(DATA, jnp.dtype("float32")))


def test_moments_of_a_context_without_rows_are_zero() -> None:
    moments = numpy_moments(NO_ROWS)
    assert not moments.n_rows.any() and not moments.mean.any() and not moments.squares.any()
