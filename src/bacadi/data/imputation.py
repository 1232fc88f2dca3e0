"""Missing cells, completed by draws from what they may have been.

A completion is one draw of the missing cells given all others, so that the spread between completions is what the
missing cells leave open (multiple imputation, Rubin 1987). The model is joint Gaussian with a mean per context and a
covariance within contexts that all share; parameters and cells are drawn in turn (Schafer 1997). A covariance per
context, even one drawn towards the common one, was measured to add false edges: its errors are fitted as mechanisms.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float

from bacadi.data.contexts import ContextData
from bacadi.errors import DataError

_SWEEPS = 40

Rows = Float[np.ndarray, "n d"]
Column = Float[np.ndarray, " d"]


def completed(rng: np.random.Generator, data: ContextData) -> ContextData:
    """The data with every missing cell drawn given the cells that are there.

    On the scale of `x`. Each cell is drawn from N(μ_kj - Σ_i Ω_ji (x_i - μ_ki) / Ω_jj, 1 / Ω_jj), with μ_k the mean of
    its context, drawn towards the mean of all contexts where it has few rows, and Ω the inverse of the covariance
    within contexts, both from their posterior.

    >>> x = np.array([[1.0, 2.0], [2.0, np.nan], [3.0, 6.1], [4.0, 7.9], [5.0, 10.2], [6.0, 11.9]])
    >>> data = ContextData(x, np.zeros(6, dtype=int), ("a", "b"), (), "wt")
    >>> whole = completed(np.random.default_rng(0), data).x
    >>> bool(abs(whole[1, 1] - 4.0) < 2), int(np.isnan(whole).sum())
    (True, 0)
    """
    missing = np.isnan(data.x)
    if not missing.any():
        return data
    if missing.all(axis=0).any():
        column = data.variables[int(np.argmax(missing.all(axis=0)))]
        raise DataError(f"Column '{column}' has no value at all, so it cannot be completed; drop it.")
    centre, scale = np.nanmean(data.x, axis=0), np.nanstd(data.x, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    z = (data.x - centre) / scale
    z[missing] = 0.0
    rows = [np.flatnonzero(data.context == k) for k in np.unique(data.context)]
    d, freedom = z.shape[1], len(z) - len(rows) + z.shape[1] + 2
    for _ in range(_SWEEPS):
        means = np.array([z[at].mean(axis=0) for at in rows])
        residuals = [z[at] - mean for at, mean in zip(rows, means, strict=True)]
        # The prior has the weight of d + 2 rows with independent columns of a hundredth of the total variance.
        scatter = sum(r.T @ r for r in residuals) + 0.01 * (d + 2) * np.eye(d)
        precision = _wishart(rng, freedom, np.linalg.inv(scatter))
        variance = np.diag(np.linalg.inv(precision))
        drawn = np.zeros_like(z)
        for at, mean in zip(rows, means, strict=True):
            drawn[at] = _draw_mean(rng, means, mean, variance / len(at))
        z = draw_cells(rng, z, missing, drawn, precision)
    return replace(data, x=np.where(missing, centre + scale * z, data.x))


def _draw_mean(rng: np.random.Generator, means: Rows, mean: Column, variance: Column) -> Column:
    """The mean of a context given that of its rows, whose variance is this, and the spread of those of all contexts."""
    between = np.maximum(means.var(axis=0), 1e-2)
    weight, overall = between / (between + variance), means.mean(axis=0)
    return overall + weight * (mean - overall) + np.sqrt(weight * variance) * rng.normal(size=len(mean))


def _wishart(rng: np.random.Generator, freedom: int, scale: Float[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
    """A draw from the Wishart distribution, by Bartlett's decomposition."""
    d = len(scale)
    lower = np.tril(rng.normal(size=(d, d)), -1)
    lower[np.diag_indices(d)] = np.sqrt(rng.chisquare(freedom - np.arange(d)))
    factor = np.linalg.cholesky(scale) @ lower
    return factor @ factor.T


def draw_cells(
    rng: np.random.Generator,
    z: Rows,
    missing: Bool[np.ndarray, "n d"],
    mean: Rows | Column,
    precision: Float[np.ndarray, "d d"],
) -> Rows:
    """Rows of a Gaussian with their missing cells drawn, one column after the other, given all the others."""
    off = z - mean
    for j in np.flatnonzero(missing.any(axis=0)):
        at = missing[:, j]
        others = off[at] @ precision[:, j] - off[at, j] * precision[j, j]
        off[at, j] = -others / precision[j, j] + rng.normal(size=at.sum()) / np.sqrt(precision[j, j])
    return mean + off
