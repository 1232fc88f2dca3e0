"""Gaussian tests of conditional independence over variables and context indicators, for the search of `jci_pc`."""

from collections.abc import Iterable
from math import atanh, erfc, inf, sqrt
from typing import NamedTuple, SupportsIndex

import numpy as np
from jaxtyping import Bool, Float

from bacadi.errors import InferenceError

# A column that others explain up to this share of its variance is a function of them.
DETERMINED = 1e-9


class Columns(NamedTuple):
    """Variables first, context indicators after them; `known[k, j]` is 1, 0 or NaN: whether context k targets j."""

    x: Float[np.ndarray, "n c"]
    names: tuple[str, ...]
    known: Float[np.ndarray, "M d"]

    @property
    def n_variables(self) -> int:
        return self.known.shape[1]


class PartialCorrelationTest:
    """p-values of Fisher's z: √(n - |S| - 3) · atanh r_xy·S is standard normal if x and y are independent given S.

    - With n <= |S| + 3 nothing can be said against independence: p = 1.
    - Two indicators are independent by assumption (p = 1); a known target is never separated from its context (p = 0).
    - An indicator that the other indicators in S determine (there are no observational rows) cannot be tested given
      them and p = 0, for the separation has to be found without them.
    - A variable that S determines makes the correlations singular: an `InferenceError` names it.
    """

    method = "partial correlation"  # the search asks for a name

    def __init__(self, columns: Columns, max_tests: int) -> None:
        self.names, self.known, self.n_variables = columns.names, columns.known, columns.n_variables
        self.n_rows = len(columns.x)
        self.correlation = correlations(columns.x)
        self.max_tests = max_tests
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
        """|√(n - |S| - 3) · atanh r|, 0 where p is 1 and infinite where it is 0."""
        if y >= self.n_variables and x >= self.n_variables:
            return 0.0
        if y >= self.n_variables and self.known[y - self.n_variables, x] == 1:
            return inf
        if self.n_rows <= len(given) + 3:
            return 0.0
        r = self._partial_correlation(x, y, given)
        return inf if abs(r) >= 1 - DETERMINED else sqrt(self.n_rows - len(given) - 3) * abs(atanh(r))

    def _partial_correlation(self, x: int, y: int, given: tuple[int, ...]) -> float:
        if not given:
            return float(self.correlation[x, y])
        members = [x, y, *given]
        matrix = self.correlation[np.ix_(members, members)]
        try:
            inverse = np.linalg.inv(matrix)
            diagonal = inverse.diagonal()
        except np.linalg.LinAlgError:
            diagonal = np.zeros(1)
        if diagonal.min() > 0.5 and diagonal.max() < 1 / DETERMINED:  # 1 / (1 - R²) of each column on the others
            return float(-inverse[0, 1] / sqrt(diagonal[0] * diagonal[1]))
        return self._nearly_singular(matrix, x, y, given)

    def _nearly_singular(self, matrix: Float[np.ndarray, "s s"], x: int, y: int, given: tuple[int, ...]) -> float:
        """The same from the residuals of x and y on S, where S may hold columns that say the same."""
        across = matrix[:2, 2:]
        left = matrix[:2, :2] - across @ np.linalg.pinv(matrix[2:, 2:], rcond=DETERMINED, hermitian=True) @ across.T
        for position, column in enumerate((x, y)):
            if left[position, position] < DETERMINED:
                if column >= self.n_variables:
                    return 1.0
                others = ", ".join(map(self._named, given))
                raise InferenceError(
                    f"In these rows {self._named(column)} is a linear function of {others}, so the correlation matrix "
                    "is singular; drop that column or give more rows."
                )
        return float(left[0, 1] / sqrt(left[0, 0] * left[1, 1]))

    def _named(self, column: int) -> str:
        return f"{'column' if column < self.n_variables else 'context'} '{self.names[column]}'"


def not_constant(x: Float[np.ndarray, "n c"]) -> Bool[np.ndarray, " c"]:
    """Which columns take more than one value, up to rounding.

    >>> not_constant(np.array([[1.0, 2.0], [1.0, 3.0]])).tolist()
    [False, True]
    """
    return np.ptp(x, axis=0) > 1e-12 * np.abs(x).max(axis=0)


def correlations(x: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "c c"]:
    """The correlation matrix of columns that are not constant, whatever their scales.

    >>> correlations(np.array([[0.0, 0.0], [1e300, 3.0]])).round(9).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return np.atleast_2d(np.corrcoef(x / np.abs(x).max(axis=0), rowvar=False))


def singular_columns(x: Float[np.ndarray, "n d"], names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of columns that a linear relation binds in more rows than there are columns, constant ones aside.

    >>> x = np.random.default_rng(0).normal(size=(9, 3))
    >>> singular_columns(np.column_stack([x, x[:, 1]]), ("a", "b", "c", "d"))
    ('b', 'd')
    """
    varies = np.flatnonzero(not_constant(x))
    if len(varies) < 2 or len(x) <= len(varies) + 1:
        return ()
    values, vectors = np.linalg.eigh(correlations(x[:, varies]))
    if values[0] > DETERMINED:
        return ()
    return tuple(names[column] for column in varies[np.abs(vectors[:, 0]) > 1e-3])
