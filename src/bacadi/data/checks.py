"""What the doctor says about a table: findings with a severity, and the summary that holds them.

One column at a time: cells to numbers, with the first cell of every kind that is none.

The context column: labels as text, and what can be wrong with them.
"""

import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Int

from bacadi.data.text import closest, counted, listed, quoted, row_name

if TYPE_CHECKING:
    import pandas as pd


class Severity(Enum):
    """An error refuses the table, a warning informs of a risk, a note mentions something expected."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """One statement about a table: how bad, a stable code for scripts, and a sentence for people."""

    severity: Severity
    code: str
    message: str


def error(code: str, message: str) -> Finding:
    return Finding(Severity.ERROR, code, message)


def warning(code: str, message: str) -> Finding:
    return Finding(Severity.WARNING, code, message)


def note(code: str, message: str) -> Finding:
    return Finding(Severity.NOTE, code, message)


@dataclass(frozen=True)
class Diagnosis:
    """What a table holds and everything that is wrong or risky about it, errors first.

    `contexts` pairs each label with its number of rows, in order of first appearance; `observational` is the label
    that was asked for, whether or not it occurs.
    """

    rows: int
    variables: tuple[str, ...]
    contexts: tuple[tuple[str, int], ...]
    observational: str | None
    problems: tuple[Finding, ...]

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity, in the order in which they were made."""
        return tuple(finding for finding in self.problems if finding.severity is severity)

    @property
    def ok(self) -> bool:
        """Whether the table can be used: no finding is an error."""
        return not self.of(Severity.ERROR)

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as plain lists and dicts, ready for JSON."""
        return {
            "ok": self.ok,
            "rows": self.rows,
            "variables": list(self.variables),
            "contexts": [
                {"context": label, "rows": rows, "observational": label == self.observational}
                for label, rows in self.contexts
            ],
            "problems": [
                {"severity": finding.severity.value, "code": finding.code, "message": finding.message}
                for finding in self.problems
            ],
        }


# Squares of the values are summed in single precision, so the square has to be representable, not only the value.
LARGEST = float(np.sqrt(np.finfo(np.float32).max))

_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+(?:[eE][-+]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?\s*")


@dataclass(frozen=True)
class Column:
    """A column as numbers: NaN where a cell is missing or is no number; `text` marks the latter."""

    values: Float[np.ndarray, " n"]
    missing: Bool[np.ndarray, " n"]
    text: Bool[np.ndarray, " n"]

    @property
    def usable(self) -> bool:
        return bool(np.isfinite(self.values).all() and (np.abs(self.values) <= LARGEST).all())


def to_column(series: "pd.Series") -> Column:
    """The numbers of a column; booleans become 0 and 1, text stays out even where it spells a number.

    >>> import pandas as pd
    >>> to_column(pd.Series([1, None, "x"], dtype=object)).text.tolist()
    [False, False, True]
    """
    import pandas as pd

    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(series.cat.categories.dtype)
    missing = series.isna().to_numpy(dtype=bool)
    kinds = pd.api.types
    if kinds.is_numeric_dtype(series.dtype) and not kinds.is_complex_dtype(series.dtype):
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
        return Column(values, missing, np.zeros(len(series), dtype=bool))
    cells = [_number(cell) for cell in series.to_list()]
    values = np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
    values[missing] = np.nan
    return Column(values, missing, np.array([cell is None for cell in cells], dtype=bool) & ~missing)


def _number(cell: object) -> float | None:
    """The cell as a float, None when it is not a real number by type."""
    if isinstance(cell, (str, bytes, complex)) or not hasattr(cell, "__float__"):
        return None
    try:
        return float(cell)  # type: ignore[arg-type]
    except OverflowError:
        return float("inf")
    except (TypeError, ValueError):
        return None


def cell_findings(name: str, series: "pd.Series", column: Column) -> list[Finding]:
    """Errors about single cells: text, missing, infinite and too large, each with its first row and its count."""
    index, findings = series.index, []
    if column.text.any():
        findings.append(error("text", _text_message(name, series, column.text)))
    if column.missing.any():
        where = row_name(index, int(np.argmax(column.missing)))
        findings.append(
            error(
                "missing",
                f"Column {quoted(name)} has no value in {where}{_more(column.missing)}; "
                "fill in the value, or drop the row or the column.",
            )
        )
    infinite = np.isinf(column.values)
    if infinite.any():
        first = int(np.argmax(infinite))
        findings.append(
            error(
                "infinite",
                f"Column {quoted(name)} has an infinite value in {row_name(index, first)}{_more(infinite)}; "
                "replace it by a number, or drop the row (a logarithm of 0 is a common cause).",
            )
        )
    findings += _overflow(name, index, column.values)
    return findings


def _overflow(name: str, index: "pd.Index", values: Float[np.ndarray, " n"]) -> list[Finding]:
    huge = np.isfinite(values) & (np.abs(values) > LARGEST)
    if not huge.any():
        return []
    first = int(np.argmax(huge))
    return [
        error(
            "overflow",
            f"Column {quoted(name)} has the value {values[first]:.3g} in {row_name(index, first)}{_more(huge)}, "
            f"too large to be squared in single precision (limit {LARGEST:.1e}); express the column in a larger unit.",
        )
    ]


def _more(mask: Bool[np.ndarray, " n"]) -> str:
    others = int(mask.sum()) - 1
    return f" and in {counted(others, 'more row')}" if others else ""


def _spells_number(series: "pd.Series") -> Bool[np.ndarray, " n"]:
    import pandas as pd

    cells = pd.Series([cell if isinstance(cell, str) else None for cell in series.to_list()], dtype=object)
    return pd.to_numeric(cells, errors="coerce").notna().to_numpy(dtype=bool)


def _text_message(name: str, series: "pd.Series", text: Bool[np.ndarray, " n"]) -> str:
    """Point at the cell that is to blame: the first that does not spell a number, else the first text cell."""
    to_blame = text & ~_spells_number(series)
    first = int(np.argmax(to_blame)) if to_blame.any() else int(np.argmax(text))
    cell, where = series.iloc[first], row_name(series.index, first)
    start = f"Column {quoted(name)} has {{}} {quoted(cell)} in {where}{_more(to_blame if to_blame.any() else text)}"
    if not isinstance(cell, str):
        return start.format(f"a value of type {type(cell).__name__}") + "; only real numbers can be used, convert it."
    if not to_blame.any():
        return start.format("a number stored as text,") + "; convert the column with pandas.to_numeric."
    if _THOUSANDS.fullmatch(cell) and not re.fullmatch(r"\s*[-+]?\d{1,3},\d{3}\s*", cell):
        return start.format("a number with thousands separators,") + "; write the digits without commas."
    if _DECIMAL_COMMA.fullmatch(cell):
        return start.format("a decimal comma,") + "; write numbers with a point, as in 1.5."
    return start.format("the text") + "; write a number there, or drop the row or the column."


MIN_ROWS = 2
"""Fewest rows of a context: with one row alone a changed mechanism cannot be told from noise."""

_FEW_ROWS = 5

_CONTROL_WORDS = frozenset(
    {"0", "obs", "observational", "control", "ctrl", "wt", "wildtype", "wild type", "wild-type", "none", "ntc"}
    | {"untreated", "unperturbed", "non-targeting", "mock", "vehicle", "dmso", "baseline", "reference"}
)


def to_labels(column: "pd.Series") -> tuple[list[str], Bool[np.ndarray, " n"]]:
    """Every label as text, and a mask of the rows that have none.

    >>> import pandas as pd
    >>> to_labels(pd.Series([1, 2, 1]))[0]
    ['1', '2', '1']
    """
    missing = column.isna().to_numpy(dtype=bool)
    labels = [str(label) for label in column.to_list()]
    return labels, missing | np.array([not label.strip() for label in labels], dtype=bool)


def context_numbers(labels: list[str], observational: str | None) -> tuple[Int[np.ndarray, " n"], tuple[str, ...]]:
    """Numbers 1..M in order of first appearance, 0 for the observational label, and the names of 1..M.

    >>> numbers, names = context_numbers(["ko", "obs", "ko", "drug"], "obs")
    >>> numbers.tolist(), names
    ([1, 0, 1, 2], ('ko', 'drug'))
    """
    names = tuple(label for label in dict.fromkeys(labels) if label != observational)
    number = {label: k for k, label in enumerate(names, start=1)}
    return np.array([number.get(label, 0) for label in labels], dtype=np.int64), names


def label_findings(
    index: "pd.Index", labels: list[str], missing: Bool[np.ndarray, " n"], observational: str | None
) -> list[Finding]:
    """Everything about the labels alone, not about the numbers in the rows."""
    counts = Counter(label for label, gone in zip(labels, missing, strict=True) if not gone)
    findings = []
    if missing.any():
        others = int(missing.sum()) - 1
        more = f" and in {counted(others, 'more row')}" if others else ""
        findings.append(
            error(
                "missing-context",
                f"The context column has no label in {row_name(index, int(np.argmax(missing)))}{more}; "
                "write the context of every row, or drop the row.",
            )
        )
    if observational is not None and observational not in counts:
        findings.append(
            error(
                "unknown-observational",
                f"No row has the observational label {quoted(observational)}{closest(observational, list(counts))}; "
                f"the contexts are {listed(counts)}, so name one of these.",
            )
        )
    return findings + _size_findings(counts) + _design_findings(counts, observational) + _spelling(counts)


def _size_findings(counts: Counter[str]) -> list[Finding]:
    rows = counts.total()
    if len(counts) == rows > 2:
        return [
            error(
                "context-is-index",
                f"Every one of the {rows} rows has a context of its own (the first is {quoted(next(iter(counts)))}), "
                "so the context column looks like a row number; name the column that groups the rows.",
            )
        ]
    single = [label for label, count in counts.items() if count < MIN_ROWS]
    findings = [
        error(
            "small-context",
            f"Context {quoted(label)} has only {counted(counts[label], 'row')} and needs at least {MIN_ROWS}; "
            "add rows, merge it with a context of the same treatment, or drop it.",
        )
        for label in single
    ]
    few = [label for label, count in counts.items() if MIN_ROWS <= count < _FEW_ROWS]
    if few:
        which, it = ("Context {} has", "it") if len(few) == 1 else ("Contexts {} have", "them")
        findings.append(
            note(
                "few-rows",
                f"{which.format(listed(few))} fewer than {_FEW_ROWS} rows; expect wide uncertainty about {it}.",
            )
        )
    return findings


def _design_findings(counts: Counter[str], observational: str | None) -> list[Finding]:
    if not counts:
        return []
    if len(counts) == 1:
        only = quoted(next(iter(counts)))
        return [
            warning(
                "one-context",
                f"All rows are of the one context {only}, so nothing tells cause from effect beyond the "
                "conditional independences; add rows from another context if you have them.",
            )
        ]
    if observational is not None:
        return []
    control = [label for label in counts if label.strip().lower() in _CONTROL_WORDS]
    hint = f" (perhaps {listed(control)})" if control else ""
    return [
        warning(
            "no-observational",
            "No observational context is named, so every context may have targets and the unperturbed mechanisms are "
            f"learnt only from what the contexts share; if one of them is the untouched control{hint}, name it as "
            "observational.",
        )
    ]


def _spelling(counts: Counter[str]) -> list[Finding]:
    variants: dict[str, list[str]] = {}
    for label in counts:
        variants.setdefault(" ".join(label.lower().split()), []).append(label)
    return [
        warning(
            "similar-contexts",
            f"The contexts {' and '.join(repr(label) for label in group)} differ only in capitals or spaces and are "
            "treated as different; spell them alike if they are the same.",
        )
        for group in variants.values()
        if len(group) > 1
    ]


def context_candidates(table: "pd.DataFrame") -> list[str]:
    """Columns that could name the contexts: few distinct values and at least two rows each on average.

    >>> import pandas as pd
    >>> context_candidates(pd.DataFrame({"a": [0.1, 0.2, 0.3, 0.4], "arm": ["wt", "wt", "ko", "ko"]}))
    ['arm']
    """
    import pandas as pd

    few, words = [], []
    for j, name in enumerate(table.columns):
        column = table.iloc[:, j]
        if not pd.api.types.is_float_dtype(column.dtype) and 1 <= column.nunique() <= max(1, len(column) // 2):
            few.append(str(name))
            if not pd.api.types.is_numeric_dtype(column.dtype):
                words.append(str(name))
    return words or few  # words are a better guess than whole numbers, which may be a variable
