"""Noise with heavy tails: rows that are far off count less in what the mechanism of a variable has to explain.

Student's t with ν degrees of freedom is Gaussian noise of variance σ²/w with w of its own in every cell, and given the
rest its mean is (Dempster, Laird and Rubin 1977)

    w = (ν + 1) / (ν + r²/σ²),   r the residual given the parents.

Weights come from a structure found beforehand and are then kept, at most 1, so that no row counts more than once: rows
with a large residual neither pass for a target nor pull a line. A row counts less for the variable that is far off and
fully for all others, its children among them, who follow it.
"""

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
    its mean alone, a soft one a regression of its own.
    """
    weight, left = np.ones(data.x.shape), np.full(data.x.shape, np.nan)
    kinds = np.vstack([np.zeros(data.n_variables, np.int8), kind[structure.states]])
    for j in range(data.n_variables):
        parents = np.flatnonzero(structure.graph[:, j])
        apart = np.isin(kinds[:, j], (EffectKind.HARD, EffectKind.SOFT))
        for k in (-1, *np.flatnonzero(apart).tolist()):
            rows = np.flatnonzero(~apart[data.context] if k < 0 else data.context == k)
            of = parents if k < 0 or kinds[k, j] == EffectKind.SOFT else parents[:0]
            if len(rows) >= _LEAST + len(of):
                left[rows, j], weight[rows, j] = _by_student(data.x[rows][:, of], data.x[rows, j], data.context[rows])
    return np.where(heavy(left, data.context), np.minimum(weight, 1.0), 1.0)


def heavy(left: Float[np.ndarray, "n d"], context: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " d"]:
    """Which columns of residuals have tails beyond those of Gaussian noise."""
    found = judge(shapes(left, context), np.zeros(left.shape[1], bool))
    return found.heavy | found.far


def _by_student(
    z: Float[np.ndarray, "n p"], y: Float[np.ndarray, " n"], group: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Residuals in units of the scale and their weights, by EM for Student's t, with an intercept for each group."""
    at = np.unique(group, return_inverse=True)[1]
    n_free = max(len(y) - z.shape[1] - at.max() - 1, 1)
    table, weight = np.column_stack([z, y]), np.ones(len(y))
    for step in range(_STEPS):
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
            return np.zeros(len(y)), np.ones(len(y))
        weight = (DEGREES + 1) / (DEGREES + left**2 / square)
    return left / np.sqrt(square), weight
