"""The Gaussian tests of permutation searches against textbook formulas and their own level."""

import itertools

import numpy as np
import pytest
from scipy import stats

from bacadi.baselines.ci import GaussianTests, changes, correlation, partial_correlation, scatters

from .igsp_tasks import table


def two_contexts(rng, n0, nk, d):
    return table(rng.normal(size=(n0 + nk, d)) @ rng.normal(size=(d, d)), np.repeat([0, 1], [n0, nk]))


def test_partial_correlation_is_that_of_regression_residuals():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 6)) @ rng.normal(size=(6, 6))
    others = np.column_stack([np.ones(60), x[:, [1, 3, 4]]])
    residuals = x - others @ np.linalg.lstsq(others, x, rcond=None)[0]
    value, rank, *left = partial_correlation(correlation(x), np.array([1, 3, 4, 0, 5]))
    assert rank == 3
    np.testing.assert_allclose(left, (residuals.var(axis=0) / x.var(axis=0))[[0, 5]])
    assert value == pytest.approx(stats.pearsonr(residuals[:, 0], residuals[:, 5])[0], abs=1e-12)


def test_independence_is_decided_as_by_fishers_p_value():
    """Against 2 (1 - Phi(|atanh r| sqrt(n - |S| - 3))), with r from the inverse correlation matrix."""
    rng = np.random.default_rng(1)
    data = two_contexts(rng, 40, 5, 5)
    x = data.x[:40]
    tests = {alpha: GaussianTests(data, alpha, 0.01) for alpha in (0.5, 0.1, 0.01, 1e-4)}
    for given in itertools.combinations([1, 2, 4], 2):
        inverse = np.linalg.inv(np.corrcoef(x[:, [0, 3, *given]], rowvar=False))
        r = -inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1])
        p = 2 * stats.norm.sf(np.arctanh(abs(r)) * np.sqrt(40 - 2 - 3))
        for alpha, one in tests.items():
            assert one.independent(0, 3, sum(1 << i for i in given)) == (p >= alpha)


@pytest.mark.parametrize("n_rows", [2, 4, 12])
def test_change_is_decided_by_chows_and_the_variance_test(n_rows):
    """Both statistics by least squares on the rows themselves; with 2 and 4 rows there is no residual variance."""
    rng = np.random.default_rng(n_rows)
    for _ in range(20):
        data = two_contexts(rng, 30, n_rows, 4)
        data.x[30:, 3] += rng.normal()
        design = np.column_stack([np.ones(30 + n_rows), data.x[:, :3]])

        def squares(rows, design=design, y=data.x[:, 3]):
            fitted = design[rows] @ np.linalg.lstsq(design[rows], y[rows], rcond=None)[0]
            return ((y[rows] - fitted) ** 2).sum()

        r0, rk, both = squares(slice(0, 30)), squares(slice(30, None)), squares(slice(None))
        more = min(n_rows, 4)
        free = 30 - 4 + max(n_rows - 4, 0)
        p = stats.f.sf((both - r0 - rk) / more / ((r0 + rk) / free), more, free)
        if n_rows > 4:
            ratio = (r0 / 26) / (rk / (n_rows - 4))
            p_variance = 2 * min(stats.f.sf(ratio, 26, n_rows - 4), stats.f.cdf(ratio, 26, n_rows - 4))
            p = 2 * min(p, p_variance)
        for alpha in (0.5, 0.1, 0.01):
            assert changes(scatters(data), np.array([0, 1, 2, 3]), alpha).tolist() == [p < alpha]


@pytest.mark.parametrize("n_rows", [1, 3, 8, 50])
def test_unchanged_mechanisms_are_called_changed_at_most_as_often_as_allowed(n_rows):
    """2,000 data sets at level .1: a false-alarm rate of 6e-5 above; so few that they show a lost level below."""
    rng = np.random.default_rng(n_rows)
    calls = sum(
        int(changes(scatters(two_contexts(rng, 40, n_rows, 4)), np.array([0, 1, 2, 3]), 0.1)[0]) for _ in range(2000)
    )
    assert 120 < calls <= 253


def test_shifts_scales_and_lost_causes_are_changes():
    rng = np.random.default_rng(2)
    context = np.repeat(np.arange(5), 200)
    cause, noise = rng.normal(size=1000), rng.normal(size=1000)
    effect = cause + noise
    effect[context == 2] += 2
    effect[context == 3] = (cause + 3 * noise)[context == 3]
    effect[context == 4] = noise[context == 4]
    tests = GaussianTests(table(np.column_stack([cause, effect]), context), 1e-3, 1e-4)
    assert tests.changed(1, 0b01) == 0b1110
    assert tests.changed(0, 0) == 0
