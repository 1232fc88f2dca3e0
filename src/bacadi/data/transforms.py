"""`Transforms`: a monotone map per column, with its inverse, and the rule that picks one where the user says "auto".

The models have Gaussian noise. A column whose noise is not is better described on another scale, where weights and
effects then live; `inverse` leads back, so that a change can be told as a difference of back-transformed medians.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtri

from bacadi.data.shapes import GAUSSIAN_TAIL, LEAST_ROWS, Shapes, shapes
from bacadi.data.text import quoted
from bacadi.errors import ConfigError, DataError

NONE, NORMAL_SCORES, AUTO = "none", "normal-scores", "auto"
_FUNCTIONS: dict[str, Any] = {
    NONE: (np.positive, np.positive),
    "log": (np.log, np.exp),
    "log1p": (np.log1p, np.expm1),
    "asinh": (np.arcsinh, np.sinh),
}
_DOMAIN = {"log": 0.0, "log1p": -1.0}  # open lower ends
_IN_WORDS = {
    "log": "logarithm",
    "log1p": "log(1 + x)",
    "asinh": "inverse hyperbolic sine",
    NORMAL_SCORES: "normal scores",
}
KINDS = (*_FUNCTIONS, NORMAL_SCORES)
"""The maps, by the names that files and flags use; `AUTO` picks one of none, log and normal scores per column."""

_STORED_KNOTS = 1001

# What counts as not Gaussian: beyond so many standard errors, and by so much that it matters.
_ERRORS = 4.0
_SKEWED, _SKEWED_POSITIVE = 0.3, 0.05
_HEAVY = 0.035
_SPIKE = 0.05
_FAR_SHARE, _FAR_ROWS = 0.002, 3

Rows = Float[np.ndarray, "*batch d"]
Knots = Float[np.ndarray, "2 k"]


@dataclass(frozen=True, eq=False)
class Transforms:
    """A monotone map per column: `transformed = forward(original)`.

    `names` says which, `knots` holds values and scores of columns in normal scores (None for the others), `reasons`
    why a column was given its map, empty where the user chose it.

    Normal scores are z = Φ⁻¹((r - ½) / n) with r the rank among all n rows, ties at their mean rank, so that any
    strictly increasing change of a column changes nothing. Between the values that were seen the map is linear; beyond
    them it stays at the outermost, of which nothing more is known.

    >>> maps = Transforms.fitted(np.array([[1.0, 10.0], [2.0, 30.0], [4.0, 20.0]]), ("log", "normal-scores"))
    >>> maps.forward(np.array([[2.0, 20.0]])).round(3).tolist()
    [[0.693, 0.0]]
    >>> maps.inverse(np.array([[0.0, 0.0]])).round(3).tolist()
    [[1.0, 20.0]]
    """

    names: tuple[str, ...]
    knots: tuple[Knots | None, ...]
    reasons: tuple[str, ...]

    @classmethod
    def identity(cls, n_variables: int) -> "Transforms":
        """The maps that change nothing."""
        return cls((NONE,) * n_variables, (None,) * n_variables, ("",) * n_variables)

    @classmethod
    def fitted(cls, x: Float[np.ndarray, "n d"], names: tuple[str, ...], reasons: tuple[str, ...] = ()) -> "Transforms":
        """The maps of these names for these rows; missing values (NaN) are left out."""
        columns = zip(x.T, names, strict=True)
        knots = tuple(_knots(column[~np.isnan(column)]) if name == NORMAL_SCORES else None for column, name in columns)
        return cls(names, knots, reasons or ("",) * len(names))

    @property
    def is_identity(self) -> bool:
        """Whether no column is changed."""
        return set(self.names) <= {NONE}

    def forward(self, x: Rows) -> Rows:
        """From original to transformed values, over the last axis."""
        return self._mapped(x, 0)

    def inverse(self, x: Rows) -> Rows:
        """From transformed to original values, over the last axis."""
        return self._mapped(x, 1)

    def _mapped(self, x: Rows, way: int) -> Rows:
        mapped = np.array(x, dtype=float)
        for j, (name, knots) in enumerate(zip(self.names, self.knots, strict=True)):
            if knots is None:
                mapped[..., j] = _FUNCTIONS[name][way](mapped[..., j])
            else:
                mapped[..., j] = np.interp(mapped[..., j], knots[way], knots[1 - way])
        return mapped

    def at(self, columns: Int[np.ndarray, " k"]) -> "Transforms":
        """The maps of some columns."""
        return Transforms(*(tuple(part[j] for j in columns) for part in (self.names, self.knots, self.reasons)))

    def words(self, variables: tuple[str, ...]) -> list[str]:
        """A sentence for each map and reason: which columns, which map, why.

        >>> Transforms.fitted(np.ones((2, 2)), ("log", "none")).words(("Raf", "Mek"))
        ['Raf: logarithm.']
        """
        groups: dict[tuple[str, str], list[str]] = {}
        for variable, name, reason in zip(variables, self.names, self.reasons, strict=True):
            if name != NONE:
                groups.setdefault((name, reason), []).append(variable)
        return [
            f"{_some(columns)}: {_IN_WORDS[name]}{f', because {reason}' if reason else ''}."
            for (name, reason), columns in groups.items()
        ]

    def stored_knots(self) -> Float[np.ndarray, "d 2 k"]:
        """At most `_STORED_KNOTS` knots of each column, evenly spaced in rank, NaN where a column has fewer."""
        thinned = [np.zeros((2, 0)) if knots is None else _thinned(knots) for knots in self.knots]
        stored = np.full((len(thinned), 2, max((knots.shape[1] for knots in thinned), default=0)), np.nan)
        for row, knots in zip(stored, thinned, strict=True):
            row[:, : knots.shape[1]] = knots
        return stored

    @classmethod
    def restored(cls, names: tuple[str, ...], stored: Float[np.ndarray, "d 2 k"]) -> "Transforms":
        """The maps from their names and `stored_knots`."""
        knots = [
            row[:, ~np.isnan(row[0])] if name == NORMAL_SCORES else None
            for row, name in zip(stored, names, strict=True)
        ]
        return cls(names, tuple(knots), ("",) * len(names))


def _knots(column: Float[np.ndarray, " n"]) -> Knots:
    values, counts = np.unique(column, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts - 1) / 2
    return np.stack([values, ndtri((mean_rank - 0.5) / len(column))])


def _thinned(knots: Knots) -> Knots:
    k = knots.shape[1]
    return knots if k <= _STORED_KNOTS else knots[:, np.linspace(0, k - 1, _STORED_KNOTS).round().astype(int)]


def _some(names: list[str], limit: int = 3) -> str:
    if len(names) <= limit + 1:
        return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"{', '.join(names[: limit - 1])} and {len(names) - limit + 1} more"


def by_column(wanted: str | Mapping[str, str], variables: tuple[str, ...], other: str = NONE) -> tuple[str, ...]:
    """The name of the map of each column, from one for all or from those of some; the rest get `other`.

    >>> by_column({"b": "log"}, ("a", "b"))
    ('none', 'log')
    """
    given = dict.fromkeys(variables, wanted) if isinstance(wanted, str) else dict(wanted)
    for column, name in given.items():
        if column not in variables:
            raise ConfigError(f"A transform is given for {quoted(column)}, which is no variable; name a column.")
        if name not in (*KINDS, AUTO):
            what = (
                f"The transform of {quoted(column)} is {quoted(name)}"
                if len(given) > 1
                else f"The transform is {quoted(name)}"
            )
            raise ConfigError(f"{what}; give one of {', '.join((*KINDS, AUTO))}.")
    return tuple(given.get(column, other) for column in variables)


def fit_transforms(
    x: Float[np.ndarray, "n d"], context: Int[np.ndarray, " n"], names: tuple[str, ...], variables: tuple[str, ...]
) -> Transforms:
    """The maps of these names; "auto" is decided by the shape of the column within contexts.

    A value outside the domain of a logarithm is refused.
    """
    names, reasons = _decided(x, context, names)
    for j, name in enumerate(names):
        low = float(np.nanmin(x[:, j], initial=np.inf))
        if name in _DOMAIN and low <= _DOMAIN[name]:
            what = f"Column {quoted(variables[j])} has the value {low:g}, of which there is no {_IN_WORDS[name]}"
            remedy = "use log1p, asinh or normal-scores" if low > -1 else "use asinh or normal-scores"
            raise DataError(f"{what}; {remedy} for this column.")
    return Transforms.fitted(x, names, reasons)


def _decided(
    x: Float[np.ndarray, "n d"], context: Int[np.ndarray, " n"], names: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and reasons, with "auto" decided.

    None where the column is near Gaussian within contexts; the logarithm where all values are positive and it takes the
    skewness away, and then for every positive column that it leaves near Gaussian, if most columns want it; normal
    scores where skewness or a spike remains, unless contexts are so far apart that ranks would bend the column. Heavy
    tails alone are no reason: a map of values cannot tame noise whose level moves, and bends what was linear.
    """
    auto = [j for j, name in enumerate(names) if name == AUTO]
    if not auto:
        return names, ("",) * len(names)
    values, decided, reasons = x[:, auto], list(names), [""] * len(names)
    positive = np.nanmin(values, axis=0) > 0
    logs = np.log(np.where(positive, values, 1.0))
    raw, of_logs = judge(shapes(values, context), positive), judge(shapes(logs, context), positive)
    to_log = positive & raw.skewed & ~of_logs.skewed
    if to_log.sum() > 0.5 * len(auto):
        to_log = positive & ~of_logs.skewed
    bends = _apart(values, context) > _FAR_APART
    for at, j in enumerate(auto):
        decided[j] = NONE
        if to_log[at]:
            decided[j], reasons[j] = "log", "values are positive and skewed within contexts"
        elif (raw.skewed[at] or raw.spike[at]) and not bends[at]:
            decided[j] = NORMAL_SCORES
            reasons[j] = "many rows share one value" if raw.spike[at] else "values are skewed within contexts"
    return tuple(decided), tuple(reasons)


_FAR_APART = 2.0
"""Contexts further apart than this many standard deviations within them: their ranks say little but which is which."""


def _apart(x: Float[np.ndarray, "n d"], context: Int[np.ndarray, " n"]) -> Float[np.ndarray, " d"]:
    """Standard deviation of the means of contexts over the one within contexts."""
    groups = [x[context == k] for k in np.unique(context) if (context == k).sum() >= LEAST_ROWS]
    if len(groups) < 2:
        return np.zeros(x.shape[1])
    within = np.sqrt(np.mean([np.nanvar(rows, axis=0) for rows in groups], axis=0))
    between = np.std([np.nanmean(rows, axis=0) for rows in groups], axis=0)
    return between / np.where(within > 0, within, np.inf)


class Verdicts(NamedTuple):
    """Which columns are not near Gaussian within contexts, and in which way."""

    skewed: Bool[np.ndarray, " d"]
    heavy: Bool[np.ndarray, " d"]
    far: Bool[np.ndarray, " d"]
    spike: Bool[np.ndarray, " d"]


def judge(found: Shapes, positive: Bool[np.ndarray, " d"]) -> Verdicts:
    """What is beyond four standard errors of a Gaussian's and large enough to matter; nothing where few rows speak.

    Skewness counts sooner in positive columns: what can only be positive is often multiplicative, and then its spread
    grows with its level.
    """
    floor = np.where(positive, _SKEWED_POSITIVE, _SKEWED)
    skewed = np.abs(found.skewness) > np.maximum(floor, _ERRORS * found.skewness_error())
    heavy = found.tails > GAUSSIAN_TAIL + np.maximum(_HEAVY, _ERRORS * found.tails_error())
    far = (found.far > _FAR_SHARE) & (found.far * found.rows >= _FAR_ROWS)
    spike = (found.spike > _SPIKE) & (found.spike * found.rows >= 2 * _FAR_ROWS)
    return Verdicts(skewed, heavy, far, spike)
