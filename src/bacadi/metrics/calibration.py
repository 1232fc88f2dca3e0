"""Whether probabilities mean what they say: of the edges given 70 %, do 70 % exist?

Everything reads `Forecasts`, so edges or targets of many tasks are pooled by `pooled` before they are judged; one
task of 20 variables has too few edges for a curve.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from bacadi.errors import ConfigError, DataError


class Forecasts(NamedTuple):
    """Probabilities and whether what they speak of is true."""

    probability: Float[np.ndarray, " n"]
    outcome: Bool[np.ndarray, " n"]


class ReliabilityCurve(NamedTuple):
    """Mean probability, observed frequency and number of forecasts of each bin that is not empty."""

    probability: Float[np.ndarray, " b"]
    frequency: Float[np.ndarray, " b"]
    number: Int[np.ndarray, " b"]


class BrierScore(NamedTuple):
    """score = reliability - resolution + uncertainty, exactly."""

    score: float
    reliability: float
    resolution: float
    uncertainty: float


def edge_forecasts(probabilities: Float[np.ndarray, "d d"], truth: Shaped[np.ndarray, "d d"]) -> Forecasts:
    """Every ordered pair i ≠ j as a forecast.

    >>> edge_forecasts(np.array([[0.0, 0.7], [0.2, 0.0]]), np.array([[0, 1], [0, 0]])).probability.tolist()
    [0.7, 0.2]
    """
    off = ~np.eye(len(truth), dtype=bool)
    return _checked(probabilities[off], truth[off])


def target_forecasts(probabilities: Float[np.ndarray, "m d"], truth: Shaped[np.ndarray, "m d"]) -> Forecasts:
    """Every context and variable as a forecast.

    >>> target_forecasts(np.array([[0.9, 0.1]]), np.array([[1, 0]])).outcome.tolist()
    [True, False]
    """
    return _checked(probabilities.ravel(), truth.ravel())


def pooled(forecasts: Sequence[Forecasts]) -> Forecasts:
    """The forecasts of several tasks as one.

    >>> one = target_forecasts(np.array([[0.9, 0.1]]), np.array([[1, 0]]))
    >>> len(pooled([one, one]).outcome)
    4
    """
    return Forecasts(np.concatenate([f.probability for f in forecasts]), np.concatenate([f.outcome for f in forecasts]))


def reliability_curve(forecasts: Forecasts, n_bins: int = 10) -> ReliabilityCurve:
    """Probability against frequency in bins of equal width; a bin holds its left end, the last also 1.

    >>> curve = reliability_curve(Forecasts(np.array([0.1, 0.1, 0.8, 1.0]), np.array([False, True, True, True])), 2)
    >>> curve.probability.tolist(), curve.frequency.tolist(), curve.number.tolist()
    ([0.1, 0.9], [0.5, 1.0], [2, 2])
    """
    bins, count = _bins(forecasts, n_bins)
    mean, frequency = (np.bincount(bins, weights=values) / count for values in forecasts)
    return ReliabilityCurve(mean, frequency, count)


def expected_calibration_error(forecasts: Forecasts, n_bins: int = 10) -> float:
    """ECE = Σ_b n_b / n · |frequency_b - mean probability_b|: 0 is calibrated. The prevalence as only answer has 0 too.

    >>> expected_calibration_error(Forecasts(np.array([0.75] * 4), np.array([True, True, True, False])))
    0.0
    """
    curve = reliability_curve(forecasts, n_bins)
    return float(np.average(np.abs(curve.frequency - curve.probability), weights=curve.number))


def brier_score(forecasts: Forecasts, n_bins: int = 10) -> BrierScore:
    """The mean of (p - y)² and what it is made of (Murphy, 1973), over the bins of the reliability curve.

    reliability = Σ_b n_b/n (p̄_b - ȳ_b)², uncertainty = ȳ (1 - ȳ) and resolution = Σ_b n_b/n (ȳ_b - ȳ)² with the terms
    for probabilities that differ inside a bin (Stephenson et al., 2008), - 1/n Σ (p - p̄_b)² + 2/n Σ (p - p̄_b)(y - ȳ_b).

    >>> brier_score(Forecasts(np.array([0.0, 0.5, 0.5, 1.0]), np.array([False, False, True, True])))
    BrierScore(score=0.125, reliability=0.0, resolution=0.125, uncertainty=0.25)
    """
    p, y = forecasts.probability, forecasts.outcome.astype(float)
    bins, _ = _bins(forecasts, n_bins)
    mean, frequency, count = reliability_curve(forecasts, n_bins)
    reliability = np.average((mean - frequency) ** 2, weights=count)
    within_p, within_y = p - mean[bins], y - frequency[bins]
    between = np.average((frequency - y.mean()) ** 2, weights=count)
    resolution = between - np.mean(within_p**2) + 2 * np.mean(within_p * within_y)
    score, uncertainty = np.mean((p - y) ** 2), y.mean() * (1 - y.mean())
    return BrierScore(float(score), float(reliability), float(resolution), float(uncertainty))


def _bins(forecasts: Forecasts, n_bins: int) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " b"]]:
    """The number of each forecast's bin among those that are not empty, and how many each of them holds."""
    if n_bins < 1:
        raise ConfigError(f"A reliability curve of {n_bins} bins makes no sense; give 1 or more.")
    if not len(forecasts.outcome):
        raise DataError("There is nothing to judge: no pair of variables or no context; give at least one forecast.")
    raw = np.minimum((forecasts.probability * n_bins).astype(int), n_bins - 1)
    _, bins, count = np.unique(raw, return_inverse=True, return_counts=True)
    return bins.ravel(), count


def _checked(probability: Float[np.ndarray, " n"], truth: Shaped[np.ndarray, " n"]) -> Forecasts:
    if not ((probability >= 0) & (probability <= 1)).all():
        raise DataError("A probability is below 0, above 1 or not a number; give one between 0 and 1 for every entry.")
    return Forecasts(probability, truth != 0)
