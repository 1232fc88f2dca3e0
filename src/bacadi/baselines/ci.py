"""Gaussian tests of conditional independence, for PC over variables and contexts and for permutation searches.

All read a correlation or scatter matrix, out of which the conditioning variables are regressed by compiled elimination.
It skips a variable without variance left, so that duplicated or constant columns and contexts with fewer rows than
variables have an answer like any others. Fisher's test is √(n - |S| - 3) · |atanh r_xy·S|, the absolute value of a
standard normal variable if x and y are independent given S.

- `PartialCorrelationTest`: p-values over variables and context indicators, as the search of `jci_pc` asks for them.
- `GaussianTests`: decisions about independences and changed mechanisms for `ut_igsp`. Sets of variables and of contexts
  are bit masks there (bit i is member i), so that answers can be cached by their question.
"""

from collections.abc import Iterable
from math import atanh, erfc, inf, sqrt
from typing import NamedTuple, Protocol, SupportsIndex

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from scipy.special import fdtrc, ndtri

from bacadi.data.contexts import ContextData
from bacadi.errors import InferenceError
from bacadi.evidence.compiled import compiled

# Share of a variable's variance below which it counts as a function of the variables before it. Scatter matrices
# square the condition of the data, so smaller shares are rounding.
_LEFT = 1e-10
# A column whose spread inside a context is below this share of its pooled standard deviation is constant there.
_SPREAD = 1e-6
# A column that others explain up to this share of its variance is refused as a function of them.
DETERMINED = 1e-9

Numbers = Shaped[np.ndarray, " M"] | float


# Correlations


def not_constant(x: Float[np.ndarray, "n c"]) -> Bool[np.ndarray, " c"]:
    """Which columns take more than one value, up to rounding.

    >>> not_constant(np.array([[1.0, 2.0], [1.0, 3.0]])).tolist()
    [False, True]
    """
    return np.ptp(x, axis=0) > 1e-12 * np.abs(x).max(axis=0)


def correlation(x: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "c c"]:
    """Correlations of the columns, whatever their scales; 0 for a constant column, independent of everything.

    >>> correlation(np.array([[0.0, 1.0, 0.0], [1e300, 1.0, 3.0]])).round(9).tolist()
    [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """
    products, varies = np.eye(x.shape[1]), np.flatnonzero(not_constant(x))
    scaled = x[:, varies] / np.abs(x[:, varies]).max(axis=0)
    products[np.ix_(varies, varies)] = np.corrcoef(scaled, rowvar=False)
    return products


def singular_columns(x: Float[np.ndarray, "n d"], names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of columns bound by a linear relation in more rows than there are columns, constant ones aside.

    >>> x = np.random.default_rng(0).normal(size=(9, 3))
    >>> singular_columns(np.column_stack([x, x[:, 1]]), ("a", "b", "c", "d"))
    ('b', 'd')
    """
    varies = np.flatnonzero(not_constant(x))
    if len(varies) < 2 or len(x) <= len(varies) + 1:
        return ()
    values, vectors = np.linalg.eigh(correlation(x[:, varies]))
    if values[0] > DETERMINED:
        return ()
    return tuple(names[column] for column in varies[np.abs(vectors[:, 0]) > 1e-3])


def fisher_statistic(r: float, free: int) -> float:
    """√free · |atanh r|, where free = n - |S| - 3; 0 without a degree of freedom and infinite where |r| is 1.

    With so few rows nothing can be said against independence.

    >>> fisher_statistic(0.5, 0), round(fisher_statistic(-0.5, 4), 3), fisher_statistic(1.0, 4)
    (0.0, 1.099, inf)
    """
    if free < 1:
        return 0.0
    return inf if abs(r) >= 1 - DETERMINED else sqrt(free) * atanh(abs(r))


@compiled
def _eliminate(matrix, columns, n_given):  # type: ignore[no-untyped-def]
    """Regress the first of `columns` out of the others; returns the lower triangle that is left, and the rank removed.

    Gaussian elimination of a copy of the block: after column s it holds the scatter of the later ones given the first
    s. A pivot without variance left is a function of those before it and is skipped, and so rounding never divides.
    """
    size = len(columns)
    block = np.empty((size, size))
    for a in range(size):
        for b in range(size):
            block[a, b] = matrix[columns[a], columns[b]]
    first = np.diag(block).copy()
    rank = 0
    for s in range(n_given):
        pivot = block[s, s]
        if pivot <= _LEFT * first[s]:
            continue
        rank += 1
        for a in range(s + 1, size):
            slope = block[a, s] / pivot
            for b in range(a, size):
                block[b, a] -= slope * block[b, s]
    for a in range(n_given, size):
        if block[a, a] <= _LEFT * first[a]:
            block[a, a] = 0.0
    return block[n_given:, n_given:], rank


@compiled
def partial_correlation(matrix, columns):  # type: ignore[no-untyped-def]
    """The correlation of the last two of `columns` given the others, the variances left of them, and the others' rank.

    It is 0 where one of the two is a function of the others: nothing is left that could depend on anything.
    """
    left, rank = _eliminate(matrix, columns, len(columns) - 2)
    product = left[1, 1] * left[0, 0]
    r = 0.0 if product == 0.0 else left[1, 0] / np.sqrt(product)
    return r, rank, left[0, 0], left[1, 1]


@compiled
def residual_squares(matrices, columns):  # type: ignore[no-untyped-def]
    """The residual sum of squares of the last column given the others, and the rank with intercept, for each matrix."""
    residual, rank = np.empty(len(matrices)), np.empty(len(matrices), dtype=np.int64)
    for k in range(len(matrices)):
        left, of_others = _eliminate(matrices[k], columns, len(columns) - 1)
        residual[k], rank[k] = left[0, 0], 1 + of_others
    return residual, rank


# Variables and context indicators: JCI-PC


class JointColumns(NamedTuple):
    """Variables first, context indicators after them; `known[k, j]` is 1, 0 or NaN: whether context k targets j."""

    x: Float[np.ndarray, "n c"]
    names: tuple[str, ...]
    known: Float[np.ndarray, "M d"]

    @property
    def n_variables(self) -> int:
        return self.known.shape[1]


class PartialCorrelationTest:
    """p-values of Fisher's test over variables and context indicators, at most `max_tests` different ones.

    - Two indicators are independent by assumption (p = 1); a known target is never separated from its context (p = 0).
    - An indicator that the other indicators in S determine (there are no observational rows) cannot be tested given
      them and p = 0, because the separation has to be found without them.
    - A variable that S determines makes the correlations singular: an `InferenceError` names it.
    """

    method = "partial correlation"  # the search asks for a name

    def __init__(self, columns: JointColumns, max_tests: int) -> None:
        self.columns, self.max_tests = columns, max_tests
        self.correlation = correlation(columns.x)
        self._statistics: dict[tuple[int, int, tuple[int, ...]], float] = {}

    def __call__(self, x: SupportsIndex, y: SupportsIndex, given: Iterable[SupportsIndex] = ()) -> float:
        first, second = sorted((int(x), int(y)))
        key = first, second, tuple(sorted(map(int, given)))
        if key not in self._statistics:
            if len(self._statistics) >= self.max_tests:
                raise InferenceError(
                    f"The search needs more than {self.max_tests} independence tests because too many columns depend "
                    "on each other; lower alpha, set max_conditioning or raise max_tests."
                )
            self._statistics[key] = self._statistic(*key)
        return erfc(self._statistics[key] / sqrt(2))

    def best_separator(self, x: int, y: int) -> tuple[int, ...]:
        """The conditioning set of the largest p-value among the tests made of x < y, the smallest set of several."""
        made = ((value, len(given), given) for (a, b, given), value in self._statistics.items() if (a, b) == (x, y))
        return min(made, default=(0.0, 0, ()))[2]

    def _statistic(self, x: int, y: int, given: tuple[int, ...]) -> float:
        d, known = self.columns.n_variables, self.columns.known
        if y >= d and x >= d:
            return 0.0
        if y >= d and known[y - d, x] == 1:
            return inf
        free = len(self.columns.x) - len(given) - 3
        return 0.0 if free < 1 else fisher_statistic(self._partial_correlation(x, y, given), free)

    def _partial_correlation(self, x: int, y: int, given: tuple[int, ...]) -> float:
        r, _, *left = partial_correlation(self.correlation, np.array([*given, x, y]))
        for column, variance in zip((x, y), left, strict=True):
            if variance < DETERMINED:
                if column >= self.columns.n_variables:
                    return 1.0
                raise InferenceError(
                    f"In these rows {self._named(column)} is a linear function of "
                    f"{', '.join(map(self._named, given))}, so the correlation matrix is singular; "
                    "drop that column or give more rows."
                )
        return float(r)

    def _named(self, column: int) -> str:
        return f"{'column' if column < self.columns.n_variables else 'context'} '{self.columns.names[column]}'"


# Permutation searches: UT-IGSP


class StructureTests(Protocol):
    """The questions a permutation search asks; data, or an oracle, answer them."""

    @property
    def n_variables(self) -> int: ...

    @property
    def most_given(self) -> int:
        """The largest number of variables that a test of independence can condition on."""

    def independent(self, i: int, j: int, given: int) -> bool:
        """Whether variables i and j are independent given a set, in the observational context."""

    def changed(self, node: int, given: int) -> int:
        """The contexts (bit k - 1 is context k) where a variable given a set is not distributed as usual."""


class GaussianTests:
    """Partial correlations at level `alpha` and Chow and variance tests at level `alpha_inv`, each asked once."""

    def __init__(self, data: ContextData, alpha: float, alpha_inv: float) -> None:
        # Only observational rows: with unknown targets no other row is sure to follow the observational distribution.
        self._correlation = correlation(data.x[data.context == 0])
        self._rows, self._quantile = int(data.counts[0]), float(-ndtri(alpha / 2))
        self._scatter, self._alpha_inv = scatters(data), alpha_inv
        self._independent: dict[tuple[int, int, int], bool] = {}
        self._changed: dict[tuple[int, int], int] = {}

    @property
    def n_variables(self) -> int:
        return len(self._correlation)

    @property
    def most_given(self) -> int:
        return self._rows - 4

    def independent(self, i: int, j: int, given: int) -> bool:
        """Fisher's test at z_(1 - alpha/2): an edge needs evidence. |S| counts what is not a function of the rest."""
        key = (min(i, j), max(i, j), given)
        if key not in self._independent:
            r, rank, _, _ = partial_correlation(self._correlation, members(given, key[0], key[1]))
            self._independent[key] = fisher_statistic(r, self._rows - rank - 3) <= self._quantile
        return self._independent[key]

    def changed(self, node: int, given: int) -> int:
        key = (node, given)
        if key not in self._changed:
            self._changed[key] = mask_of(changes(self._scatter, members(given, node), self._alpha_inv))
        return self._changed[key]


def members(mask: int, *last: int) -> Int[np.ndarray, " n"]:
    """The members of a bit mask in order, then `last`.

    >>> members(0b101, 7).tolist()
    [0, 2, 7]
    """
    return np.array([*(i for i in range(mask.bit_length()) if mask >> i & 1), *last], dtype=np.int64)


def mask_of(flags: Bool[np.ndarray, " n"]) -> int:
    """The bit mask whose members are the true entries.

    >>> mask_of(np.array([True, False, True]))
    5
    """
    return sum(1 << int(k) for k in np.flatnonzero(flags))


class Scatters(NamedTuple):
    """Centred sums of products S: the observational one, each context's, and each context's with observational rows."""

    matrices: Float[np.ndarray, "K d d"]  # K = 1 + 2 M
    rows: Int[np.ndarray, " m"]  # m = 1 + M, the observational context first
    distinct: Int[np.ndarray, " m"]


def scatters(data: ContextData) -> Scatters:
    """The scatter matrices of the contexts; S_0k = S_0 + S_k + n_0 n_k / (n_0 + n_k) (m_0 - m_k)(m_0 - m_k)'."""
    spread = data.x.std(axis=0)
    x = (data.x - data.x.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    parts, rows = data.by_context(x), data.counts
    means = np.stack([part.mean(axis=0) for part in parts])
    alone = np.stack([(part - mean).T @ (part - mean) for part, mean in zip(parts, means, strict=True)])
    shift = means[1:] - means[0]
    factor = rows[0] * rows[1:] / (rows[0] + rows[1:])
    pooled = alone[0] + alone[1:] + factor[:, None, None] * shift[:, :, None] * shift[:, None, :]
    matrices, n = np.concatenate([alone, pooled]), np.concatenate([rows, rows[0] + rows[1:]])
    constant = np.diagonal(matrices, axis1=1, axis2=2) <= _SPREAD**2 * n[:, None]
    matrices[constant[:, :, None] | constant[:, None, :]] = 0.0
    return Scatters(matrices, rows, np.array([len(np.unique(part, axis=0)) for part in parts]))


def changes(scatter: Scatters, columns: Int[np.ndarray, " c"], alpha: float) -> Bool[np.ndarray, " M"]:
    """In which contexts the regression of the last of `columns` on the others is not the observational one.

    With R the residual sum of squares, r the rank of a regression with intercept and N the rows of both,
    F = [(R_0k - R_0 - R_k) / (r_0 + r_k - r_0k)] / [(R_0 + R_k) / (N - r_0 - r_k)]   (Chow, 1960: coefficients),
    F = [R_0 / (n_0 - r_0)] / [R_k / (n_k - r_k)]                                      (residual variances),
    both exact for Gaussian noise where nothing changed; a change is a p-value below alpha / 2 in either. A context with
    no more distinct rows than coefficients has no residual variance: Chow's test, then one of prediction, gets all of
    alpha. Without degrees of freedom nothing is said to change.
    """
    residual, rank = residual_squares(scatter.matrices, columns)
    m, n0, nk = len(scatter.rows), scatter.rows[0], scatter.rows[1:]
    r0, rk, r0k = rank[0], rank[1:m], rank[m:]
    alone, both = residual[0] + residual[1:m], residual[m:]
    more, free = r0 + rk - r0k, n0 + nk - r0 - rk
    moved = _upper(both - alone, more, alone, free, noise=_LEFT * both)
    comparable = (scatter.distinct[0] > r0) & (scatter.distinct[1:] > rk)
    usual, other = (residual[0], n0 - r0), (residual[1:m], nk - rk)
    spread = 2 * np.minimum(_upper(*usual, *other), _upper(*other, *usual))
    return np.where(comparable, np.minimum(moved, spread) < alpha / 2, moved < alpha)


def _upper(top: Numbers, top_free: Numbers, bottom: Numbers, bottom_free: Numbers, noise: Numbers = 0.0) -> np.ndarray:
    """P(F > (top / top_free) / (bottom / bottom_free)); 1 without degrees of freedom or where `top` is only `noise`."""
    top, bottom = np.broadcast_arrays(top, bottom)
    testable = (np.asarray(top_free) > 0) & (np.asarray(bottom_free) > 0) & (top > noise)
    u, v = np.maximum(top_free, 1), np.maximum(bottom_free, 1)
    ratio = np.divide(top * v, bottom * u, out=np.full(top.shape, np.inf), where=bottom > 0)
    return np.where(testable, np.where(np.isinf(ratio), 0.0, fdtrc(u, v, np.where(np.isinf(ratio), 0.0, ratio))), 1.0)
