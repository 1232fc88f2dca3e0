"""How columns are distributed within contexts and how rows follow each other, as numbers of arrays.

Interventions make a column multimodal over all rows, whatever its noise, so shapes are measured within contexts: each
context is centred and scaled by itself and the residuals are pooled. The doctor puts the numbers in words and
`transform = "auto"` decides by them.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import chdtrc

Rows = Float[np.ndarray, "n d"]
Contexts = Int[np.ndarray, " n"]
PerColumn = Float[np.ndarray, " d"]

LEAST_ROWS = 5
"""Contexts of fewer rows say nothing about a shape: centred and scaled by themselves their residuals are bounded."""

LEAST_SHAPE = 30
"""Fewest residuals of a column whose shape is judged at all."""

FAR = 5.0
"""Robust standard deviations from which a value is far off: one Gaussian value in 1.7 million."""

GAUSSIAN_TAIL = 0.12260172
"""L-kurtosis of the Gaussian distribution, 30/π · arctan √2 - 9."""


class Shapes(NamedTuple):
    """Shapes of columns within contexts; NaN where fewer than `LEAST_SHAPE` residuals speak.

    `skewness` and `tails` are L-moment ratios τ₃ and τ₄ (Hosking 1990): τ₃ = 0 and τ₄ = .123 for a Gaussian; 0 and .26
    for Student's t with 3 degrees of freedom, .46 and .29 for a log-normal with σ = 1, 0 and 0 for a uniform. They are
    nearly Gaussian themselves from a few dozen rows on and no single value rules them. `far` is the share of values
    more than `FAR` robust standard deviations from the median, `spike` the largest share that one value has of its
    context, at the value `spike_at`.
    """

    rows: Int[np.ndarray, " d"]
    skewness: PerColumn
    tails: PerColumn
    far: PerColumn
    spike: PerColumn
    spike_at: PerColumn

    def skewness_error(self) -> PerColumn:
        """Standard error of `skewness` for Gaussian rows (Hosking and Wallis 1997, simulated there)."""
        return np.sqrt(0.1866 / np.maximum(self.rows, 1) + 0.8 / np.maximum(self.rows, 1) ** 2)

    def tails_error(self) -> PerColumn:
        """Standard error of `tails` for Gaussian rows."""
        n = np.maximum(self.rows, 1)
        return np.sqrt(0.0883 / n + 0.68 / n**2 + 4.9 / n**3)


def residuals(x: Rows, context: Contexts) -> Rows:
    """Each value minus the mean of its context, over its standard deviation there.

    NaN where it is missing, in contexts of fewer than `LEAST_ROWS` values and where these are constant.

    >>> x, context = np.array([[1.0], [2.0], [3.0], [4.0], [5.0], [9.0]]), np.array([0, 0, 0, 0, 0, 1])
    >>> residuals(x, context).ravel().round(1).tolist()
    [-1.4, -0.7, 0.0, 0.7, 1.4, nan]
    """
    z = np.full(x.shape, np.nan)
    for k in np.unique(context):
        rows = x[context == k]
        there = ~np.isnan(rows)
        n = there.sum(axis=0)
        values = np.where(there, rows, 0.0)
        mean = values.sum(axis=0) / np.maximum(n, 1)
        spread = np.sqrt((np.where(there, rows - mean, 0.0) ** 2).sum(axis=0) / np.maximum(n, 1))
        varies = (spread > 1e-12 * np.abs(values).max(axis=0, initial=0.0)) & (n >= LEAST_ROWS)
        z[context == k] = np.where(varies, (rows - mean) / np.where(varies, spread, 1.0), np.nan)
    return z


def shapes(x: Rows, context: Contexts) -> Shapes:
    """The shape of each column within contexts.

    >>> rng = np.random.default_rng(0)
    >>> found = shapes(np.exp(rng.normal(size=(500, 1))), np.zeros(500, dtype=int))
    >>> float(found.skewness[0].round(1)), float(found.tails[0].round(1))
    (0.5, 0.3)
    """
    z = residuals(x, context)
    columns = [_shape(z[~np.isnan(z[:, j]), j]) for j in range(x.shape[1])]
    n, skewness, tails, far = (np.array(values) for values in zip(*columns, strict=True))
    share, at = spikes(x, context)
    return Shapes(n, skewness, tails, far, share, at)


def _shape(z: Float[np.ndarray, " n"]) -> tuple[int, float, float, float]:
    """Number, L-skewness, L-kurtosis and share of far values of one column of residuals."""
    n = len(z)
    if n < LEAST_SHAPE:
        return n, np.nan, np.nan, np.nan
    z, i = np.sort(z), np.arange(n)
    # Probability weighted moments b_r = mean of z_(i) (i)_r / (n - 1)_r.
    b1 = (i * z).mean() / (n - 1)
    b2 = (i * (i - 1) * z).mean() / ((n - 1) * (n - 2))
    b3 = (i * (i - 1) * (i - 2) * z).mean() / ((n - 1) * (n - 2) * (n - 3))
    b0 = z.mean()
    scale = 2 * b1 - b0
    if not scale > 0:
        return n, np.nan, np.nan, np.nan
    quarter = np.subtract(*np.quantile(z, [0.75, 0.25])) / 1.349
    # More than half at one value: the quartiles coincide, and the spike is what there is to say.
    far = float((np.abs(z - np.median(z)) > FAR * quarter).mean()) if quarter > 0 else 0.0
    return n, (6 * b2 - 6 * b1 + b0) / scale, (20 * b3 - 30 * b2 + 12 * b1 - b0) / scale, far


def spikes(x: Rows, context: Contexts) -> tuple[PerColumn, PerColumn]:
    """The share of rows that have the most frequent value of their column, and that value.

    Contexts that hold the column constant do not count: a clamp is no spike.

    >>> spikes(np.array([[0.0], [0.0], [3.0], [7.0], [7.0], [7.0]]), np.array([0, 0, 0, 1, 1, 1]))[1].tolist()
    [0.0]
    """
    share, at = np.zeros(x.shape[1]), np.full(x.shape[1], np.nan)
    varies = np.zeros(x.shape, dtype=bool)
    for k in np.unique(context):
        rows = x[context == k]
        varies[context == k] = rows.min(axis=0) < rows.max(axis=0)
    for j in range(x.shape[1]):
        values, counts = np.unique(x[varies[:, j], j], return_counts=True)
        if len(values):
            share[j], at[j] = counts.max() / counts.sum(), values[np.argmax(counts)]
    return share, at


_LEAST_SPIKE, _NEXT, _EACH_SIDE = 0.05, 5, 0.02
_BY_CONTEXT, _BY_OTHERS = 1e-4, 5.0


def unmeasured(x: Rows, context: Contexts) -> Bool[np.ndarray, "n d"]:
    """Cells with a value that stands for "not measured", as far as the numbers tell.

    Such a value is shared by many rows where others are hardly shared, lies within the column and not at its end (what
    is at an end may be a limit of detection, which says that the true value is beyond), is as frequent in every
    context, wherever that has the column, and does not depend on the other columns: it says nothing of the row.

    >>> rng = np.random.default_rng(0)
    >>> x, context = rng.normal(size=(300, 2)), np.repeat([0, 1], 150)
    >>> gone = rng.random(300) < 0.3
    >>> x[gone, 0], x[x[:, 1] < 0, 1] = 0.0, 0.0
    >>> unmeasured(x, context).sum(axis=0).tolist() == [gone.sum(), 0]
    True
    """
    share, at = spikes(x, context)
    n, cells = len(x), np.zeros(x.shape, dtype=bool)
    z = np.nan_to_num(residuals(x, context))
    for j in np.flatnonzero(share > _LEAST_SPIKE):
        column = x[:, j]
        hit = column == at[j]
        others = column[~hit & ~np.isnan(column)]
        if min((others < at[j]).sum(), (others > at[j]).sum()) < _EACH_SIDE * n:
            continue
        next_count = np.unique(others, return_counts=True)[1].max(initial=0)
        counts = np.bincount(context)[np.unique(context)]
        hits = np.bincount(context, weights=hit)[np.unique(context)]
        if hit.sum() < _NEXT * next_count or _homogeneity(hits, counts) < _BY_CONTEXT:
            continue
        off = np.where(hit, 1.0, 0.0) - (hits / counts)[np.searchsorted(np.unique(context), context)]
        along = np.delete(z, j, axis=1)
        norm = np.sqrt((along**2).sum(axis=0) * (off**2).mean())
        if np.abs(off @ along / np.where(norm > 0, norm, np.inf)).max(initial=0.0) < _BY_OTHERS:
            cells[:, j] = hit
    return cells


def _homogeneity(hits: PerColumn, counts: PerColumn) -> float:
    """p-value of equal shares in all groups (χ²)."""
    share = hits.sum() / counts.sum()
    statistic = float(((hits - counts * share) ** 2 / (counts * share * (1 - share))).sum())
    return float(chdtrc(max(len(counts) - 1, 1), statistic))


# ------------------------------------------------------------------------------------------ rows that follow each other

_LEAST_SEQUENCE = 8
_SIGNIFICANT, _LEAST_LAG = 4.0, 0.1


class Dependence(NamedTuple):
    """How rows of a context depend on each other in their order.

    `autocorrelation` is the lag-1 autocorrelation of each column, `share` the number of independent rows that each
    context is worth over its number of rows (1 where nothing speaks against independence), `order` the columns that
    increase or decrease along the rows of nearly every context.
    """

    autocorrelation: PerColumn
    share: Float[np.ndarray, " K"]
    order: Int[np.ndarray, " o"]


def dependence(x: Rows, context: Contexts) -> Dependence:
    """Dependence of rows within contexts, in the order in which they stand.

    Autocorrelations ρ_l within contexts, averaged over contexts, of the median column give n / (1 + 2 Σ (1 - l/n) ρ_l),
    the number of independent rows whose mean is as exact (Geyer's sum up to the first negative pair, or that of a
    process of first order with Kendall's correction, whichever is larger). If ρ_1 is within four standard errors of
    what independent rows have, or below .1 (a drift or a change of batch halfway, which fewer rows would not cure), all
    rows count: shuffled rows show nothing. Nor does an order by value: where a measured column is sorted in every
    context, the others follow it for no other reason.
    """
    n_contexts = int(context.max(initial=0)) + 1
    counts = np.bincount(context, minlength=n_contexts)
    z = np.where(np.isnan(x), 0.0, residuals(x, context))
    used = np.flatnonzero(counts >= _LEAST_SEQUENCE)
    order = _ordered(x, context, used)
    rest = np.setdiff1d(np.arange(x.shape[1]), order)
    rest = rest[np.nan_to_num(z[:, rest]).any(axis=0)]
    every, none = np.ones(n_contexts), np.zeros(x.shape[1])
    if not len(used) or not len(rest):
        return Dependence(none, every, order)
    sequences = [np.nan_to_num(z[context == k]) for k in used]
    rho = _autocorrelations(sequences)
    n = counts[used].sum()
    correlation = sum(rows[:, rest].T @ rows[:, rest] for rows in sequences) / n
    # cov(ρ_1 of i, ρ_1 of j) = r_ij² / n for independent rows.
    error = np.sqrt((correlation**2).mean() / n)
    typical = np.median(rho[:, rest], axis=1)  # one column that counts up or switches says nothing of the others
    by_value = any(not is_clock(x[context == k][:, j]) for j in order for k in used[:1])
    if by_value or not typical[1] > max(_LEAST_LAG, _SIGNIFICANT * error):
        return Dependence(rho[1], every, order)
    return Dependence(rho[1], np.array([_worth(typical, int(rows), n / len(used)) for rows in counts]), order)


def _autocorrelations(sequences: list[Rows]) -> Float[np.ndarray, "lags d"]:
    """ρ_l of each column over several sequences of residuals, unbiased for independent rows; lags from 0."""
    longest = max(map(len, sequences))
    lags = max(2, longest // 2)
    total, pairs = np.zeros((lags, sequences[0].shape[1])), np.zeros(lags)
    for z in sequences:
        n = len(z)
        spectrum = np.abs(np.fft.rfft(z, 2 * n, axis=0)) ** 2
        sums = np.fft.irfft(spectrum, 2 * n, axis=0)[: min(lags, n)]
        weight = (n - np.arange(len(sums))).astype(float)
        total[: len(sums)] += sums + weight[:, None] / n * (sums[0] / n)  # centring costs 1/n at every lag
        pairs[: len(sums)] += weight
    rho = total / np.maximum(pairs, 1.0)[:, None]
    return rho / np.where(rho[0] > 0, rho[0], 1.0)


def _worth(rho: Float[np.ndarray, " lags"], n: int, typical: float) -> float:
    """Independent rows over rows of a context of n rows."""
    if n < 2:
        return 1.0
    first = min(0.999, rho[1] + (1 + 3 * rho[1]) / typical)
    geometric = first ** np.arange(1, n)
    pairs = rho[1:][: (len(rho) - 1) // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    summed = rho[1 : 1 + 2 * (int(ends[0]) if len(ends) else len(pairs))][: n - 1]
    weights = 1 - np.arange(1, n) / n
    inflation = 1 + 2 * max(float(weights @ geometric), float(weights[: len(summed)] @ summed))
    return float(np.clip(1 / inflation, 1 / n, 1.0))


def _ordered(x: Rows, context: Contexts, used: Int[np.ndarray, " c"]) -> Int[np.ndarray, " o"]:
    """Columns that never fall, or never rise, along the rows of at least nine in ten contexts."""
    monotone = []
    for k in used:
        steps = np.diff(x[context == k], axis=0)
        moves = (steps != 0).any(axis=0)
        monotone.append(moves & ((steps >= 0).all(axis=0) | (steps <= 0).all(axis=0)))
    return np.flatnonzero(np.mean(monotone, axis=0) >= 0.9) if monotone else np.zeros(0, dtype=int)


def is_clock(column: Float[np.ndarray, " n"]) -> bool:
    """Whether an ordered column runs evenly, as time stamps and row numbers do and sorted measurements do not."""
    return bool(np.abs(np.corrcoef(column, np.arange(len(column)))[0, 1]) > 0.99)


# ------------------------------------------------------------------------------------------------- two groups of rows

_LEAST_GROUPS, _COMPONENTS = 60, 3
_APART, _BETTER, _SMALLEST = 2.5, 15.0, 0.1


def mixture(rows: Rows) -> float | None:
    """The share of the smaller of two groups into which rows fall, None where they are one.

    Scores on the first principal components are split into two Gaussians by EM. Two groups have means that are Ashman's
    D = √2 |μ₁ - μ₂| / √(σ₁² + σ₂²) > 2.5 apart, each at least a tenth of the rows, and a likelihood better by far than
    that of one Gaussian.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 3))
    >>> mixture(x) is None, round(mixture(x + 6 * (np.arange(200) < 60)[:, None]), 1)
    (True, 0.3)
    """
    if len(rows) < _LEAST_GROUPS or not (spread := rows.std(axis=0)).any():
        return None
    z = (rows - rows.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    scores = z @ np.linalg.svd(z, full_matrices=False)[2][:_COMPONENTS].T
    found = [share for share in (_two_groups(column / column.std()) for column in scores.T) if share is not None]
    return found[0] if found else None


def _two_groups(z: Float[np.ndarray, " n"]) -> float | None:
    """The share of the smaller of two Gaussians in a standardised column, None where one describes it as well."""
    best, n = None, len(z)
    for start in (-0.8, 0.0, 0.8):
        weight, mean, std = np.array([0.5, 0.5]), np.array([start - 0.8, start + 0.8]), np.array([0.6, 0.6])
        for _ in range(100):
            log_p = np.log(weight / std) - 0.5 * ((z[:, None] - mean) / std) ** 2
            total = np.logaddexp(log_p[:, 0], log_p[:, 1])
            r = np.exp(log_p - total[:, None])
            weight = np.maximum(r.mean(axis=0), 1e-9)
            mean = (r * z[:, None]).sum(axis=0) / (weight * n)
            std = np.sqrt((r * (z[:, None] - mean) ** 2).sum(axis=0) / (weight * n) + 1e-3)
        gain = float(total.sum()) + 0.5 * n
        if best is None or gain > best[0]:
            best = gain, weight, mean, std
    gain, weight, mean, std = best  # type: ignore[misc]
    apart = np.sqrt(2.0) * abs(mean[0] - mean[1]) / np.sqrt((std**2).sum())
    return float(weight.min()) if apart > _APART and gain > _BETTER and weight.min() > _SMALLEST else None
