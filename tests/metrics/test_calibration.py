"""Calibration against direct sums, scikit-learn and forecasts that are calibrated by construction."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from bacadi.errors import ConfigError, DataError
from bacadi.metrics import Forecasts, brier_score, edge_forecasts, pooled, target_forecasts
from bacadi.metrics.calibration import expected_calibration_error, reliability_curve
from bacadi.simulate.graphs import erdos_renyi_dag


def some_forecasts(seed, n=60, levels=None):
    rng = np.random.default_rng(seed)
    p = rng.random(n) if levels is None else rng.integers(0, levels + 1, n) / levels
    return Forecasts(p, rng.random(n) < 0.3)


@given(st.integers(0, 10**6), st.sampled_from([None, 1, 4, 20]), st.integers(1, 12))
def test_brier_score_is_the_sum_of_its_parts(seed, levels, n_bins):
    forecasts = some_forecasts(seed, levels=levels)
    brier = brier_score(forecasts, n_bins)
    assert brier.score == pytest.approx(brier_score_loss(forecasts.outcome, forecasts.probability))
    assert brier.score == pytest.approx(brier.reliability - brier.resolution + brier.uncertainty)
    assert brier.uncertainty == pytest.approx(np.var(forecasts.outcome))


@given(st.integers(0, 10**6))
def test_equal_forecasts_in_a_bin_give_murphys_parts(seed):
    """With one value a bin the terms inside bins vanish and the resolution is Murphy's."""
    forecasts = some_forecasts(seed, levels=4)
    brier, y = brier_score(forecasts, 10), forecasts.outcome
    values = np.unique(forecasts.probability)
    groups = [y[forecasts.probability == v] for v in values]
    resolution = sum(len(g) * (g.mean() - y.mean()) ** 2 for g in groups) / len(y)
    reliability = sum(len(g) * (g.mean() - v) ** 2 for v, g in zip(values, groups, strict=True)) / len(y)
    assert (brier.resolution, brier.reliability) == pytest.approx((resolution, reliability))


@given(st.integers(0, 10**6))
def test_curve_equals_scikit_learn(seed):
    forecasts = some_forecasts(seed)
    curve = reliability_curve(forecasts)
    frequency, probability = calibration_curve(forecasts.outcome, forecasts.probability, n_bins=10)
    np.testing.assert_allclose(curve.probability, probability)
    np.testing.assert_allclose(curve.frequency, frequency)
    error = np.abs(frequency - probability) @ curve.number / len(forecasts.outcome)
    assert expected_calibration_error(forecasts) == pytest.approx(error)


def test_certain_and_right_is_perfect_and_certain_and_wrong_is_not():
    truth = np.array([True, False, True])
    right, wrong = Forecasts(truth.astype(float), truth), Forecasts(1.0 - truth, truth)
    assert expected_calibration_error(right) == brier_score(right).score == 0
    assert expected_calibration_error(wrong) == brier_score(wrong).score == 1


def test_outcomes_drawn_from_the_forecasts_are_calibrated():
    """Reliability is a mean of ten squared binomial errors of variance below .25 / n a bin: with n = 100,000 in all its
    mean is below 2.5e-5, and 4e-4 is passed with probability below 1e-9 (Chernoff bound of a chi-square of 10)."""
    rng = np.random.default_rng(0)
    p = rng.random(100_000)
    forecasts = Forecasts(p, rng.random(100_000) < p)
    assert brier_score(forecasts).reliability < 4e-4
    overconfident = Forecasts(np.where(p > 0.5, 1.0, 0.0), forecasts.outcome)
    assert brier_score(overconfident).reliability > 0.05


def test_edges_leave_the_diagonal_out_and_tasks_are_pooled():
    rng = np.random.default_rng(0)
    parts = []
    for d in (4, 6):
        truth = erdos_renyi_dag(rng, d, 1)
        probabilities = rng.random((d, d))
        np.fill_diagonal(probabilities, 1.0)
        parts.append(edge_forecasts(probabilities, truth))
        assert len(parts[-1].outcome) == d * (d - 1)
        assert parts[-1].outcome.sum() == truth.sum()
    both = pooled(parts)
    sizes = [len(part.outcome) for part in parts]
    scores = [brier_score(part).score for part in parts]
    assert brier_score(both).score == pytest.approx(np.average(scores, weights=sizes))
    targets = target_forecasts(rng.random((3, 5)), np.eye(3, 5))
    assert len(targets.outcome) == 15 and targets.outcome.sum() == 3


def test_bad_forecasts_are_refused():
    for value in (np.nan, -0.1, 1.1):
        with pytest.raises(DataError, match="probability"):
            target_forecasts(np.array([[value]]), np.array([[1]]))
    with pytest.raises(DataError, match="nothing to judge"):
        expected_calibration_error(target_forecasts(np.zeros((0, 3)), np.zeros((0, 3))))
    with pytest.raises(ConfigError, match="bins"):
        reliability_curve(some_forecasts(0), 0)
