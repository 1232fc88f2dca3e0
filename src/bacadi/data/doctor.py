"""The numbers of all columns together: constant, duplicated, collinear, badly scaled, counts.

The numbers of the rows within their contexts: constant inside a context, decided by the context, repeated rows.

The doctor: one examination of a table, behind `bacadi check` and behind every `from_*` function.
"""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from bacadi.data.checks import (
    Column,
    Diagnosis,
    Finding,
    Severity,
    cell_findings,
    context_numbers,
    error,
    label_findings,
    note,
    to_column,
    to_labels,
    warning,
)
from bacadi.data.contexts import ContextData
from bacadi.data.text import closest, counted, listed, quoted, row_name
from bacadi.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


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


def row_findings(index: "pd.Index", x: Matrix, names: Names, labels: list[str]) -> list[Finding]:
    """Findings about a finite table that need the context of each row."""
    return _constant_inside(x, names, labels) + _repeated_rows(index, x)


def _constant_inside(x: Matrix, names: Names, labels: list[str]) -> list[Finding]:
    numbers, contexts = context_numbers(labels, observational=None)
    varies = ~constant_columns(x)
    if len(contexts) < 2 or not varies.any():
        return []
    constant, value = _per_context(x, numbers)
    decided = constant.all(axis=0) & varies
    findings = [
        warning(
            "decided-by-context",
            f"Column {quoted(names[j])} has one value in each context and looks like a batch, dose or group label; "
            "drop it if it is no measured variable.",
        )
        for j in np.flatnonzero(decided)
    ]
    for k, label in enumerate(contexts):
        held = np.flatnonzero(constant[k] & varies & ~decided)
        if len(held):
            findings.append(_held(label, [names[j] for j in held], float(value[k, held[0]])))
    return findings


def _held(label: str, names: Names, value: float) -> Finding:
    which = f"column {quoted(names[0])} is" if len(names) == 1 else f"the {len(names)} columns {listed(names)} are"
    at = f" at {value:.6g}" if len(names) == 1 else ""
    return note(
        "constant-in-context",
        f"In context {quoted(label)} {which} constant{at}, as after a knock-out or a clamp; this is fine if meant.",
    )


def _per_context(x: Matrix, numbers: Int[np.ndarray, " n"]) -> tuple[Bool[np.ndarray, "k d"], Float[np.ndarray, "k d"]]:
    """Whether each column is constant in each context of two rows or more, and its first value there."""
    order = np.argsort(numbers, kind="stable")
    groups = np.split(x[order], np.cumsum(np.bincount(numbers)[1:])[:-1])
    constant = [constant_columns(rows) if len(rows) > 1 else np.zeros(x.shape[1], dtype=bool) for rows in groups]
    return np.stack(constant), np.stack([rows[0] for rows in groups])


def _repeated_rows(index: "pd.Index", x: Matrix) -> list[Finding]:
    # Whole numbers repeat by chance (counts, on/off states); measured decimals do not.
    if (x == np.rint(x)).all():
        return []
    seen: dict[bytes, int] = {}
    repeats = [(seen[key], n) for n, row in enumerate(x + 0.0) if seen.setdefault(key := row.tobytes(), n) != n]
    if not repeats:
        return []
    first, again = repeats[0]
    return [
        warning(
            "repeated-rows",
            f"{counted(len(repeats), 'row')} repeat the values of an earlier row (first: {row_name(index, again)} "
            f"repeats {row_name(index, first)}); drop them if a sample was entered twice.",
        )
    ]


_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


@dataclass(frozen=True)
class Examination:
    """A diagnosis with the arrays that were read on the way; they are complete when the diagnosis is ok."""

    diagnosis: Diagnosis
    x: Float[np.ndarray, "n d"]
    labels: list[str]

    def data(self) -> ContextData:
        """The arrays as `ContextData`, or the first error as a refusal."""
        for finding in self.diagnosis.of(Severity.ERROR):
            raise DataError(finding.message)
        numbers, contexts = context_numbers(self.labels, self.diagnosis.observational)
        return ContextData(self.x, numbers, self.diagnosis.variables, contexts, self.diagnosis.observational)


def diagnose(df: "pd.DataFrame", context: str, observational: str | None = None) -> Diagnosis:
    """What a table holds and what is wrong or risky about it, in plain words.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"a": [1.0, 2.5, 3.5, 0.5], "b": [0.0, None, 1.0, 2.0], "context": list("ooii")})
    >>> found = diagnose(table, "context", "o")
    >>> found.ok, found.contexts, [finding.code for finding in found.of(Severity.ERROR)]
    (False, (('o', 2), ('i', 2)), ['missing'])
    """
    return examine(df, context, observational).diagnosis


def examine(df: "pd.DataFrame", context: str, observational: str | None = None) -> Examination:
    """Examine a table whose column `context` names the context of each row and whose other columns are variables."""
    names, context = [str(name) for name in df.columns], str(context)
    structure = _column_names(df, names)
    position = names.index(context) if context in names else None
    if position is None:
        structure.insert(0, _no_context_column(df, names, context))
        values, labels = df, None
    else:
        values, labels = df.iloc[:, [j for j in range(len(names)) if j != position]], df.iloc[:, position]
    return examine_parts(values, labels, observational, structure)


def examine_parts(
    values: "pd.DataFrame",
    labels: "pd.Series | None",
    observational: str | None,
    structure: list[Finding] | None = None,
) -> Examination:
    """Examine the variables and the labels of a table apart; `structure` holds what was found already."""
    observational = None if observational is None else str(observational)
    names, findings = [str(name) for name in values.columns], list(structure or [])
    if labels is not None:
        findings += _size(values, names)
    texts, missing = to_labels(labels) if labels is not None else ([], np.zeros(0, dtype=bool))
    if len(texts):
        findings += label_findings(values.index, texts, missing, observational)
    columns = [to_column(values.iloc[:, j]) for j in range(len(names))]
    for j, name in enumerate(names):
        findings += cell_findings(name, values.iloc[:, j], columns[j])
    x = np.stack([column.values for column in columns], axis=1) if columns else np.zeros((len(values), 0))
    findings += _numbers(values, names, columns, texts)
    counts = Counter(label for label, gone in zip(texts, missing, strict=True) if not gone)
    problems = tuple(sorted(findings, key=lambda finding: _ORDER[finding.severity]))
    diagnosis = Diagnosis(len(values), tuple(names), tuple(counts.items()), observational, problems)
    return Examination(diagnosis, x, texts)


def _numbers(values: "pd.DataFrame", names: list[str], columns: list[Column], labels: list[str]) -> list[Finding]:
    """Checks that need complete numbers, on the columns that have them."""
    usable = [j for j, column in enumerate(columns) if column.usable]
    if not usable or len(values) < 2:
        return []
    x, kept = np.stack([columns[j].values for j in usable], axis=1), [names[j] for j in usable]
    findings = column_findings(x, kept)
    return findings + (row_findings(values.index, x, kept, labels) if labels else [])


def _column_names(df: "pd.DataFrame", names: list[str]) -> list[Finding]:
    findings = []
    if df.columns.nlevels > 1:
        findings.append(
            error(
                "column-levels",
                f"The columns have {df.columns.nlevels} levels of names, the first being {quoted(df.columns[0])}; "
                "give every column one name.",
            )
        )
    for j, name in enumerate(names):
        if not name.strip():
            findings.append(
                error(
                    "unnamed-column",
                    f"Column number {j + 1} has no name (row names saved along with the table look like this); "
                    "name the column or drop it.",
                )
            )
    for name, count in Counter(name for name in names if name.strip()).items():
        if count > 1:
            findings.append(
                error(
                    "duplicate-name",
                    f"{count} columns have the name {quoted(name)}; give every column a name of its own.",
                )
            )
    return findings


def _no_context_column(df: "pd.DataFrame", names: list[str], context: str) -> Finding:
    if context in [str(name) for name in df.index.names]:
        return error(
            "no-context-column",
            f"{quoted(context)} is the index of the table and not a column; call reset_index() first.",
        )
    return error(
        "no-context-column",
        f"There is no column {quoted(context)} to name the contexts{closest(context, names)}; "
        f"the columns are {listed(names, 10)}.",
    )


def _size(values: "pd.DataFrame", names: list[str]) -> list[Finding]:
    findings = []
    if len(values) == 0:
        findings.append(error("no-rows", "The table has column names but no row of values; add one row a sample."))
    if len(names) < 2:
        what = f"only the variable {quoted(names[0])}" if names else "no variable"
        findings.append(
            error(
                "few-variables",
                f"Beside the context column the table has {what}; "
                f"a graph needs at least 2 variables, so add {counted(2 - len(names), 'column')} or more.",
            )
        )
    return findings
