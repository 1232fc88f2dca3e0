"""The numbers of all columns together: constant, duplicated, collinear, badly scaled, counts."""

import numpy as np
from jaxtyping import Bool, Float, Int

from bacadi.data.findings import Finding, error, warning
from bacadi.data.words import counted, listed, quoted

Matrix = Float[np.ndarray, "n d"]
Names = list[str]

DUPLICATE_CORRELATION = 1 - 1e-10
"""Two columns with a larger absolute correlation are one column up to sign, scale and shift."""

COLLINEAR_VIF = 1e3
"""Variance inflation 1 / (1 - R²) from which a column counts as a combination of others (R² > .999)."""

SCALE_RATIO = 1e6
COUNT_SKEWNESS = 2.0
_ROUNDING = 1e-13


def column_findings(x: Matrix, names: Names) -> list[Finding]:
    """Every finding about the columns of a finite table; constant columns are left out after they are named."""
    constant = constant_columns(x)
    findings = [
        error("constant", f"Column {quoted(names[j])} has the same value {x[0, j]:.6g} in all {len(x)} rows; drop it.")
        for j in np.flatnonzero(constant)
    ]
    findings += _more_variables(*x.shape)
    x, names = x[:, ~constant], [name for name, gone in zip(names, constant, strict=True) if not gone]
    if x.shape[1] == 0:
        return findings
    unit = unit_columns(x)
    duplicates = duplicate_pairs(x, unit)
    findings += [_duplicate(x, names, i, j) for i, j in duplicates]
    repeated = np.isin(np.arange(x.shape[1]), [j for _, j in duplicates])
    findings += _collinear(unit[:, ~repeated], [name for name, gone in zip(names, repeated, strict=True) if not gone])
    return findings + _scales(x, names) + _counts(x, names) + _row_numbers(x, names)


def constant_columns(x: Matrix) -> Bool[np.ndarray, " d"]:
    """Columns whose values differ by nothing but rounding.

    >>> constant_columns(np.array([[1.0, 2.0], [1.0, 3.0]])).tolist()
    [True, False]
    """
    low, high = x.min(axis=0), x.max(axis=0)
    return high - low <= _ROUNDING * np.maximum(np.abs(low), np.abs(high))


def unit_columns(x: Matrix) -> Matrix:
    """Columns with mean 0 and length 1, so that `u.T @ u` is the matrix of correlations."""
    centred = x / np.abs(x).max(axis=0)  # first to the same size, so that squares neither overflow nor vanish
    centred = centred - centred.mean(axis=0)
    return centred / np.linalg.norm(centred, axis=0)


def duplicate_pairs(x: Matrix, unit: Matrix) -> list[tuple[int, int]]:
    """Pairs (i, j), i < j, where column j repeats column i up to sign, scale and shift; each j occurs once.

    >>> x = np.array([[1.0, -2.0, 0.0], [2.0, -4.0, 1.0], [4.0, -8.0, 0.0]])
    >>> duplicate_pairs(x, unit_columns(x))
    [(0, 1)]
    """
    # Any two columns of two rows have correlation 1, which says nothing; there only equal columns are duplicates.
    same = np.abs(unit.T @ unit) > DUPLICATE_CORRELATION if len(x) > 2 else (x[:, :, None] == x[:, None, :]).all(axis=0)
    upper = np.triu(same, k=1)
    repeats = np.flatnonzero(upper.any(axis=0))
    return [(int(np.argmax(upper[:, j])), int(j)) for j in repeats]


def _duplicate(x: Matrix, names: Names, i: int, j: int) -> Finding:
    first, second = quoted(names[i]), quoted(names[j])
    how = "is the same as" if (x[:, i] == x[:, j]).all() else "is the same up to sign, unit or offset as"
    return error("duplicate-column", f"Column {second} {how} column {first}; keep only one of the two.")


def _collinear(unit: Matrix, names: Names) -> list[Finding]:
    """Groups of columns of which one is, to R² > .999, a linear combination of the others."""
    n, d = unit.shape
    if d < 2 or n <= d + 1:
        return []
    correlation = unit.T @ unit
    smallest = np.linalg.eigvalsh(correlation)[0]
    # The ridge keeps the inverse finite; on an exact dependence it makes the inverse the projection onto it.
    ridge = d * 1e-14
    precision = np.linalg.inv(correlation + ridge * np.eye(d))
    inflated = np.flatnonzero(np.diag(precision) > COLLINEAR_VIF)
    root = np.sqrt(np.diag(precision)[inflated])
    partial = np.abs(precision[np.ix_(inflated, inflated)]) / np.outer(root, root)
    exact = smallest < 100 * ridge
    findings = []
    for group in _groups(partial > 0.1):
        members = inflated[group]
        vif = float(np.diag(precision)[members].max())
        findings.append(_collinear_finding([names[j] for j in members], vif, bool(exact and vif > 1e-3 / ridge)))
    return findings


def _collinear_finding(names: Names, vif: float, exact: bool) -> Finding:
    what = f"The {counted(len(names), 'column')} {listed(names)}"
    if exact:
        return warning(
            "collinear",
            f"{what} are linearly dependent to within rounding (for example, they may add up to a constant); drop one "
            "of them, since the data cannot tell which causes which.",
        )
    return warning(
        "collinear",
        f"{what} are nearly collinear (variance inflation up to {vif:.0e}); edges among them are hardly determined by "
        "the data, so consider dropping or merging some.",
    )


def _more_variables(n: int, d: int) -> list[Finding]:
    if d < n:
        return []
    compared = "more variables than" if d > n else "as many variables as"
    return [
        warning(
            "more-variables-than-rows",
            f"There are {compared} rows ({d} and {n}), so the result will lean on the prior; choose fewer variables "
            "or add rows.",
        )
    ]


def _groups(linked: Bool[np.ndarray, "d d"]) -> list[Int[np.ndarray, " m"]]:
    """Connected components with at least two members."""
    label = np.arange(len(linked))
    for _ in range(len(linked)):
        spread = np.where(linked, label[None, :], len(linked)).min(axis=1, initial=len(linked))
        spread = np.minimum(spread, label)
        if (spread == label).all():
            break
        label = spread
    groups = [np.flatnonzero(label == value) for value in np.unique(label)]
    return [group for group in groups if len(group) > 1]


def _scales(x: Matrix, names: Names) -> list[Finding]:
    spread = x.std(axis=0)
    low, high = int(np.argmin(spread)), int(np.argmax(spread))
    if spread[high] <= SCALE_RATIO * spread[low]:
        return []
    return [
        warning(
            "scales",
            f"The spread of column {quoted(names[high])} (standard deviation {spread[high]:.2g}) is over a million "
            f"times that of column {quoted(names[low])} ({spread[low]:.2g}); standardise the data or change the units.",
        )
    ]


def _counts(x: Matrix, names: Names) -> list[Finding]:
    """Non-negative integers with a long right tail: the third standardised moment exceeds 2."""
    candidates = np.flatnonzero((x.min(axis=0) >= 0) & (x.max(axis=0) >= 10) & (x == np.rint(x)).all(axis=0))
    if not len(candidates):
        return []
    values = x[:, candidates]
    skewness = (((values - values.mean(axis=0)) / values.std(axis=0)) ** 3).mean(axis=0)
    found = [names[j] for j in candidates[skewness > COUNT_SKEWNESS]]
    if not found:
        return []
    verb, whose = ("holds", "its") if len(found) == 1 else ("hold", "their")
    return [
        warning(
            "counts",
            f"{counted(len(found), 'column')} {verb} counts with a long right tail ({listed(found)}); the models assume"
            f" Gaussian noise, so take the logarithm of 1 + {whose} values (first divide by the library size, if any).",
        )
    ]


def _row_numbers(x: Matrix, names: Names) -> list[Finding]:
    if len(x) < 5:
        return []
    return [
        warning(
            "row-number",
            f"Column {quoted(names[j])} counts the rows one by one and looks like a row number; drop it if it is one.",
        )
        for j in np.flatnonzero((np.diff(x, axis=0) == 1).all(axis=0))
    ]
