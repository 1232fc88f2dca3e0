"""The states of every effect, the evidence of the hard one against dense densities, and draws of its parameters."""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.stats import invgamma, kstest, multivariate_normal, multivariate_t, norm

from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError
from bacadi.evidence.collapsed import EffectKind
from bacadi.evidence.effects import draw_hard_effects, effect_states, hard_log_evidence
from bacadi.model.effects import EffectMixture, HardGaussian, ScaleGaussian, ShiftGaussian, SoftGaussian, moments
from bacadi.model.noise import FixedNoise, InferredNoise

from ..small import small_data

COUNTS = (5, 4, 1, 7)
X = np.random.default_rng(0).normal(1.0, 2.0, (sum(COUNTS), 3))
DATA = ContextData(X, np.repeat(np.arange(4), COUNTS), ("a", "b", "c"), ("k1", "k2", "k3"), "obs")
NO_ROWS = ContextData(X[:5], np.zeros(5, int), ("a", "b", "c"), ("k1",), "obs")


def rows_of(k: int, j: int) -> np.ndarray:
    return DATA.x[DATA.context == k + 1, j]


@pytest.mark.parametrize("mean", [0.0, -1.5])
def test_hard_evidence_with_known_noise_is_the_dense_gaussian(mean: float) -> None:
    found = effect_states(HardGaussian(FixedNoise(0.8), mean, 2.5), DATA).hard_log_evidence
    for k, j in np.ndindex(3, 3):
        y = rows_of(k, j)
        cov = 0.8**2 * np.eye(len(y)) + 2.5**2
        np.testing.assert_allclose(found[k, j], multivariate_normal(np.full(len(y), mean), cov).logpdf(y), rtol=1e-10)


@pytest.mark.parametrize("mean", [0.0, -1.5])
def test_hard_evidence_with_inferred_noise_is_the_dense_t(mean: float) -> None:
    """μ ~ N(mean, 2.5² σ²) and σ² ~ InvGamma(1.7, .6) make a t of 3.4 degrees of freedom."""
    found = effect_states(HardGaussian(InferredNoise(1.7, 0.6), mean, 2.5), DATA).hard_log_evidence
    for k, j in np.ndindex(3, 3):
        y = rows_of(k, j)
        shape = 0.6 / 1.7 * (np.eye(len(y)) + 2.5**2)
        expected = multivariate_t(np.full(len(y), mean), shape, df=3.4).logpdf(y)
        np.testing.assert_allclose(found[k, j], expected, rtol=1e-10)


@pytest.mark.parametrize("noise", [FixedNoise(0.8), InferredNoise(1.7, 0.6)])
def test_a_context_without_rows_says_nothing(noise: FixedNoise | InferredNoise) -> None:
    np.testing.assert_allclose(effect_states(HardGaussian(noise), NO_ROWS).hard_log_evidence, 0.0, atol=1e-12)


def test_a_context_of_constant_values_has_a_finite_evidence() -> None:
    constant = ContextData(np.zeros((6, 2)), np.repeat([0, 1], 3), ("a", "b"), ("k",), "obs")
    for noise in (FixedNoise(0.5), InferredNoise()):
        assert np.isfinite(effect_states(HardGaussian(noise), constant).hard_log_evidence).all()


def test_hard_draws_with_known_noise() -> None:
    """μ ~ N(posterior mean, posterior variance) by Kolmogorov-Smirnov; false-alarm rate 1e-4 over the nine."""
    effect, n = HardGaussian(FixedNoise(0.8), -1.5, 2.5), 5000
    drawn = draw_hard_effects(np.random.default_rng(1), effect, DATA, n)
    assert set(drawn) == {"effect_mean"} and drawn["effect_mean"].dims == ("context", "node")
    for k, j in np.ndindex(3, 3):
        y = rows_of(k, j)
        precision = len(y) / 0.8**2 + 1 / 2.5**2
        mean = (y.sum() / 0.8**2 - 1.5 / 2.5**2) / precision
        standard = (drawn["effect_mean"].values[:, k, j].astype(float) - mean) * precision**0.5
        assert kstest(standard, "norm")[1] > 1e-4 / 9


def test_hard_draws_with_inferred_noise() -> None:
    """σ² follows its inverse gamma and μ given σ its Gaussian; false-alarm rate 1e-4 over all."""
    effect, n = HardGaussian(InferredNoise(1.7, 0.6), -1.5, 2.5), 5000
    drawn = draw_hard_effects(np.random.default_rng(2), effect, DATA, n)
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


@pytest.mark.parametrize("noise", [FixedNoise(0.8), InferredNoise(1.7, 0.6)], ids=["known noise", "inferred"])
def test_hard_draws_have_their_mean_and_spread_in_every_context(noise: FixedNoise | InferredNoise) -> None:
    """First and second moments where the prior counts, by itself in a context without rows.

    With σ known μ has variance 1 / (rows / σ² + 1 / prior variance), else σ² over (rows + 1 / prior variance), and
    σ^-2 is Gamma. False-alarm rate 1e-5 over all moments of a case.
    """
    data = ContextData(DATA.x, DATA.context, DATA.variables, ("k1", "k2", "k3", "k4"), "obs")
    n, prior, at = 40_000, 0.9**-2, -1.5
    drawn = draw_hard_effects(np.random.default_rng(3), HardGaussian(noise, at, 0.9), data, n)
    limit = norm.isf(1e-5 / (2 * 4 * 3 * 4))
    for k, j in np.ndindex(4, 3):
        y = data.x[data.context == k + 1, j]
        known = isinstance(noise, FixedNoise)
        rows = len(y) / 0.8**2 if known else len(y)
        mean = ((rows / max(len(y), 1)) * y.sum() + at * prior) / (rows + prior)
        std = np.ones(n) if known else drawn["effect_noise_std"].values[:, k, j].astype(float)
        standard = (drawn["effect_mean"].values[:, k, j].astype(float) - mean) / std * (rows + prior) ** 0.5
        assert abs(standard.mean()) < limit / n**0.5
        assert abs((standard**2).mean() - 1) < limit * (2 / n) ** 0.5
        if not known:
            shape = 1.7 + len(y) / 2
            scale = 0.6 + ((y**2).sum() + at**2 * prior - (rows + prior) * mean**2) / 2
            gamma = scale / std**2
            second = shape * (shape + 1)
            spread = (second * (shape + 2) * (shape + 3) - second**2) ** 0.5
            assert abs(gamma.mean() - shape) < limit * (shape / n) ** 0.5
            assert abs((gamma**2).mean() - second) < limit * spread / n**0.5


def test_states_of_every_effect() -> None:
    for effect, kinds, values in (
        (HardGaussian(), [EffectKind.HARD], [0.0]),
        (ShiftGaussian(3.0, (1.0,)), [EffectKind.SHIFT], [3.0]),
        (ShiftGaussian(3.0), [EffectKind.SHIFT] * 2, [3.0, 90.0]),
        (ScaleGaussian((0.5, 4.0)), [EffectKind.SCALE] * 2, [0.5, 4.0]),
        (SoftGaussian((), True), [EffectKind.SOFT], [0.0]),
        (SoftGaussian((0.5, 2.0)), [EffectKind.SOFT] * 3, [0.5, 2.0, 0.0]),
    ):
        states = effect_states(effect, DATA)
        assert states.kind.tolist() == [0, *kinds] and states.value.tolist() == [0.0, *values]
        np.testing.assert_allclose(np.exp(states.log_share[1:]).sum(), 1)
        assert states.hard_log_evidence.shape == (3, 3)
        assert states.hard_log_evidence.any() == (EffectKind.HARD in kinds)


def test_a_mixture_multiplies_shares_and_keeps_the_evidence() -> None:
    hard, scale = HardGaussian(FixedNoise(0.5**0.5)), ScaleGaussian((0.5, 4.0))
    states = effect_states(EffectMixture((hard, scale, SoftGaussian(())), (0.5, 0.3, 0.2)), DATA)
    assert states.names == ("none", "hard", "scale 0.5", "scale 4", "soft")
    np.testing.assert_allclose(np.exp(states.log_share[1:]), [0.5, 0.15, 0.15, 0.2])
    np.testing.assert_array_equal(states.hard_log_evidence, effect_states(hard, DATA).hard_log_evidence)
    even = effect_states(EffectMixture((hard, scale)), DATA)
    np.testing.assert_allclose(np.exp(even.log_share[1:]), [0.5, 0.25, 0.25])
    drawn = draw_hard_effects(np.random.default_rng(0), EffectMixture((hard, scale)), DATA, 2)
    assert set(drawn) == {"effect_mean"}


@pytest.mark.parametrize("shares", [(0.5,), (0.7, 0.7), (1.0, 0.0)])
def test_shares_that_are_no_probabilities_are_refused(shares: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="give 2 numbers above 0 that add to 1"):
        effect_states(EffectMixture((HardGaussian(), SoftGaussian()), shares), DATA)


def test_a_kind_named_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="names one kind twice"):
        effect_states(EffectMixture((HardGaussian(), HardGaussian(FixedNoise(2.0)))), DATA)


def test_moments_of_a_context_without_rows_are_zero() -> None:
    sums = moments(NO_ROWS)
    assert not sums.n_rows.any() and not sums.mean.any() and not sums.squares.any()


def test_evidence_of_a_hard_effect_by_quadrature() -> None:
    """log ∫ Π_n N(x_n; μ, σ²) N(μ; m, s²) dμ, entry by entry, by scipy.integrate.quad."""
    data, effect = small_data((2, 1, 3)), HardGaussian(FixedNoise(0.6), mean_prior_mean=0.4, mean_prior_std=1.5)
    found = hard_log_evidence(effect, moments(data))
    for k in (1, 2):
        for j in range(3):
            x = data.x[data.context == k, j]

            def density(mean: float, x: np.ndarray = x) -> float:
                return float(np.exp(stats.norm.logpdf(x, mean, 0.6).sum()) * stats.norm.pdf(mean, 0.4, 1.5))

            value, _ = integrate.quad(density, -12, 12, points=[float(x.mean())], epsabs=1e-12)
            assert found[k - 1, j] == pytest.approx(np.log(value), rel=1e-5)


def test_evidence_of_a_hard_effect_of_unknown_noise_is_a_multivariate_t() -> None:
    """Source: scipy.stats.multivariate_t; μ ~ N(m, s²σ²), σ² ~ InvGamma(a, b) gives t with 2a degrees of freedom."""
    data = small_data((2, 1, 3))
    effect = HardGaussian(InferredNoise(1.5, 0.7), mean_prior_mean=0.4, mean_prior_std=2.0)
    found = hard_log_evidence(effect, moments(data))
    for k in (1, 2):
        for j in range(3):
            x = data.x[data.context == k, j]
            shape = 0.7 / 1.5 * (np.eye(len(x)) + 4.0)
            expected = stats.multivariate_t(np.full(len(x), 0.4), shape, df=3.0).logpdf(x)
            assert found[k - 1, j] == pytest.approx(float(expected), rel=1e-9)


def test_several_widths_of_a_hard_effect_are_the_mean_of_each() -> None:
    one, six, both = (
        HardGaussian(InferredNoise(1.7, 0.6, widths), -1.5, std)
        for widths, std in (((1.0,), 2.5), ((1.0,), 15.0), ((1.0, 6.0), 2.5))
    )
    log_p = [effect_states(effect, DATA).hard_log_evidence for effect in (one, six)]
    found = effect_states(both, DATA).hard_log_evidence
    np.testing.assert_allclose(found, np.logaddexp(*log_p) - np.log(2), rtol=1e-12)
    n = 20_000
    means = [
        draw_hard_effects(np.random.default_rng(1), effect, DATA, n)["effect_mean"].values
        for effect in (both, one, six)
    ]
    share = np.exp(log_p[1] - np.logaddexp(*log_p))
    expected = (1 - share) * means[1].mean(axis=0) + share * means[2].mean(axis=0)
    error = means[0].std(axis=0) * (2 / n) ** 0.5
    assert (np.abs(means[0].mean(axis=0) - expected) < 5 * error).all()  # false-alarm rate 1e-5 over all
