"""Noise with heavy tails: rows that are far off count less in what the mechanism of a variable has to explain.

Student's t with ν degrees of freedom is Gaussian noise of variance σ²/w with w of its own in every cell, and given the
rest its mean is (Dempster, Laird and Rubin 1977)

    w = (ν + 1) / (ν + r²/σ²),   r the residual given the parents.

Weights come from a structure found beforehand and are then kept, at most 1, so that no row counts more than once: rows
with a large residual neither pass for a target nor pull a line. A row counts less for the variable that is far off and
fully for all others, its children among them, who follow it.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from bacadi.data.contexts import ContextData
from bacadi.data.shapes import shapes
from bacadi.data.transforms import judge
from bacadi.evidence.collapsed import EffectKind
from bacadi.inference.mcmc.start import Structure

DEGREES = 4.0
MOST_SUMS = 2e7
"""Numbers at most that sums by node may take: d (M + 1) d²."""

_STEPS = 10
_LEAST = 8


def tail_weights(data: ContextData, structure: Structure, kind: Int8[np.ndarray, " T"]) -> Float[np.ndarray, "n d"]:
    """How much each row counts for each variable; 1 for all rows of variables without heavy tails.

    Given the structure every variable is regressed on its parents with an intercept for each context; a hard target has
    its mean alone, a soft one a regression of its own. One row that is far off makes a target where noise is taken for
    Gaussian, so that rows are held to be a target's only if that is likelier under Student's t, too.
    """
    weight, left = np.ones(data.x.shape), np.full(data.x.shape, np.nan)
    kinds = np.vstack([np.zeros(data.n_variables, np.int8), kind[structure.states]])
    for j in range(data.n_variables):
        parents = np.flatnonzero(structure.graph[:, j])
        apart = np.isin(kinds[:, j], (EffectKind.HARD, EffectKind.SOFT))
        line = None
        for k in (-1, *np.flatnonzero(apart).tolist()):
            rows = np.flatnonzero(~apart[data.context] if k < 0 else data.context == k)
            of = parents if k < 0 or kinds[k, j] == EffectKind.SOFT else parents[:0]
            if len(rows) < _LEAST + len(of):
                continue
            x, y = data.x[rows], data.x[rows, j]
            fit = _by_student(x[:, of], y, data.context[rows])
            if k < 0:
                line = fit
            elif fit and line:
                fit = max(fit, line.of(x[:, parents], y), key=lambda one: one.log_density)
            if fit:
                left[rows, j], weight[rows, j] = fit.left, fit.weight
    return np.where(heavy(left, data.context), np.minimum(weight, 1.0), 1.0)


def heavy(left: Float[np.ndarray, "n d"], context: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " d"]:
    """Which columns of residuals have tails beyond those of Gaussian noise."""
    found = judge(shapes(left, context), np.zeros(left.shape[1], bool))
    return found.heavy | found.far


class _Fit(NamedTuple):
    """A regression with noise of Student's t: its slopes, the square of its scale, and residuals in units of it."""

    slope: Float[np.ndarray, " p"]
    square: float
    left: Float[np.ndarray, " n"]

    @property
    def weight(self) -> Float[np.ndarray, " n"]:
        return (DEGREES + 1) / (DEGREES + self.left**2)

    @property
    def log_density(self) -> float:
        """Of all rows, up to a constant."""
        squares = np.log1p(self.left**2 / DEGREES)
        return float(-0.5 * (DEGREES + 1) * squares.sum() - 0.5 * len(squares) * np.log(self.square))

    def of(self, z: Float[np.ndarray, "m p"], y: Float[np.ndarray, " m"]) -> "_Fit":
        """The same line and scale on other rows, with an intercept of their own."""
        left = y - z @ self.slope
        return self._replace(left=(left - np.median(left)) / np.sqrt(self.square))


def _by_student(z: Float[np.ndarray, "n p"], y: Float[np.ndarray, " n"], group: Int[np.ndarray, " n"]) -> _Fit | None:
    """The fit by EM with an intercept for each group; None where more than half of the residuals are the same."""
    at = np.unique(group, return_inverse=True)[1]
    n_free = max(len(y) - z.shape[1] - at.max() - 1, 1)
    table, fit = np.column_stack([z, y]), _Fit(np.zeros(z.shape[1]), 1.0, np.zeros(len(y)))
    for step in range(_STEPS):
        weight = fit.weight if step else np.ones(len(y))
        total = np.bincount(at, weights=weight)
        means = np.stack([np.bincount(at, weights=weight * column) / total for column in table.T], axis=1)
        centred = table - means[at]
        gram = (centred.T * weight) @ centred
        p = z.shape[1]
        slope = np.linalg.lstsq(gram[:p, :p], gram[:p, p], rcond=None)[0] if p else np.zeros(0)
        left = centred[:, p] - centred[:, :p] @ slope
        # From the middle half of the residuals at first, which tails do not reach.
        square = np.subtract(*np.quantile(left, [0.75, 0.25])) ** 2 / 1.82 if not step else weight @ left**2 / n_free
        if not square > 0:
            return None
        fit = _Fit(slope, float(square), left / np.sqrt(square))
    return fit
