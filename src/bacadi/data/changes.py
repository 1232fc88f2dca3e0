"""What changes between contexts, and which rows stand apart, given the other columns of the same row.

A change spreads from a target to all its descendants, so that in a context with one strong intervention most means may
move and nothing is wrong. Given the other columns only the target and its parents move: with covariance Σ in the
control and means moved by δ, Σ⁻¹ δ of a linear model is zero at all other variables.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from bacadi.data.shapes import LEAST_ROWS

Rows = Float[np.ndarray, "n d"]
Contexts = Int[np.ndarray, " n"]

_RIDGE = 1e-6
_IQR = 1.349
FAR_OFF = 4.0
"""Robust standard deviations from which a value is far off given the rest of its row (one Gaussian value in 16,000)."""


class Changes(NamedTuple):
    """Differences of means against the reference in standard errors: of each variable, and given all the others."""

    alone: Float[np.ndarray, "M d"]
    given_others: Float[np.ndarray, "M d"]


class _Within(NamedTuple):
    """Residuals within contexts in units of their spread, the rows whose correlations are used, and their inverse."""

    residual: Rows
    scale: Float[np.ndarray, " d"]
    n: int
    precision: Float[np.ndarray, "d d"]


def _within(x: Rows, context: Contexts) -> _Within | None:
    """Of the control where it has enough rows, of all contexts otherwise; None where neither has."""
    residual = x - x.mean(axis=0)
    for k in np.unique(context):
        residual[context == k] = x[context == k] - x[context == k].mean(axis=0)
    d, control = x.shape[1], residual[context == 0]
    base = control if len(control) >= 3 * d else residual
    scale = base.std(axis=0)
    if len(base) < 3 * d or len(base) < 10 or not (scale > 0).all():
        return None
    correlation = base.T @ base / len(base) / np.outer(scale, scale)
    return _Within(residual / scale, scale, len(base), np.linalg.inv(correlation + _RIDGE * np.eye(d)))


def changes(x: Rows, context: Contexts, share: Float[np.ndarray, " K"] | None = None) -> Changes | None:
    """How far each context has moved each variable, alone and given the others; None where too few rows tell.

    With δ the difference of means in units of the spread within contexts and W the inverse correlation matrix, the
    change of j given the others is (W δ)_j / W_jj with the variance (1/n_k + 1/n_0 + h_j) / W_jj, where
    h_j = δ' Σ⁻¹ δ / n over the other variables is what the regression adds. `share` is how many independent rows a row
    of each context is worth.

    >>> rng = np.random.default_rng(0)
    >>> context = np.repeat([0, 1], 100)
    >>> a = rng.normal(size=200) + 5 * context
    >>> x = np.column_stack([a, a + rng.normal(size=200), rng.normal(size=200)])
    >>> found = changes(x, context)
    >>> (np.abs(found.alone) > 4).tolist(), (np.abs(found.given_others) > 4).tolist()
    ([[True, True, False]], [[True, False, False]])
    """
    within, m = _within(x, context), int(context.max(initial=0))
    if within is None or not m:
        return None
    share = np.ones(m + 1) if share is None else share
    reference = context == 0 if (context == 0).sum() > 2 else np.ones(len(x), dtype=bool)
    n_reference = float((reference * share[context]).sum())
    of_others = np.diag(within.precision)
    alone, given_others = np.zeros((2, m, x.shape[1]))
    for k in range(1, m + 1):
        rows = x[context == k]
        if not len(rows):
            continue
        delta = (rows.mean(axis=0) - x[reference].mean(axis=0)) / within.scale
        n = len(rows) * share[k]
        variance = (rows / within.scale).var(axis=0) if len(rows) > 1 else np.ones_like(delta)
        alone[k - 1] = delta / np.sqrt(np.maximum(variance, 1e-2) / n + 1 / n_reference)
        moved = within.precision @ delta
        leverage = np.maximum(delta @ moved - moved**2 / of_others, 0.0) / within.n
        given_others[k - 1] = moved / np.sqrt(of_others * (1 / n + 1 / n_reference + leverage))
    return Changes(alone, given_others)


def far_rows(x: Rows, context: Contexts) -> Bool[np.ndarray, " n"]:
    """Rows with a value more than `FAR_OFF` robust standard deviations off, given the other values of the row.

    A value that is far off because a parent is does not count: what an outlier did to its descendants follows the
    mechanisms. To leave such rows out costs few rows where noise is Gaussian and leaves every linear relation as it is,
    which cutting or ranking single columns does not. A context keeps at least half of its rows.

    >>> rng = np.random.default_rng(0)
    >>> a = np.concatenate([rng.normal(size=99), [9.0]])
    >>> x = np.column_stack([a, a + rng.normal(size=100)])
    >>> np.flatnonzero(far_rows(x, np.zeros(100, dtype=int))).tolist()
    [99]
    """
    far, complete = np.zeros(len(x), dtype=bool), ~np.isnan(x).any(axis=1)
    within = _within(x[complete], context[complete])
    if within is None:
        return far
    groups = context[complete]
    innovations = np.zeros_like(within.residual)
    usual = _spread(within.residual @ within.precision)
    for k in np.unique(groups):
        rows = within.residual[groups == k]
        if len(rows) >= LEAST_ROWS:
            clipped = np.clip(rows, -3 * _spread(rows), 3 * _spread(rows))
            large = len(rows) > 3 * x.shape[1]  # enough for correlations of its own: a target has lost its parents
            own = np.linalg.inv(np.cov(clipped.T) + _RIDGE * np.eye(x.shape[1])) if large else within.precision
            partial = rows @ own
            # The spread of a few rows is itself uncertain, and too small a one would cost good rows.
            spread = _spread(partial) if large else np.maximum(_spread(partial), usual)
            innovations[groups == k] = (partial - np.median(partial, axis=0)) / np.where(spread > 0, spread, np.inf)
    off = (np.abs(innovations) > FAR_OFF).any(axis=1)
    for k in np.unique(groups):
        if off[groups == k].mean() > 0.5:
            off[groups == k] = False
    far[complete] = off
    return far


def _spread(rows: Rows) -> Float[np.ndarray, " d"]:
    """Interquartile range in units of that of a standard Gaussian."""
    return np.subtract(*np.quantile(rows, [0.75, 0.25], axis=0)) / _IQR
