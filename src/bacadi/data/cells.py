"""One column at a time: cells to numbers, with the first cell of every kind that is none."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from bacadi.data.findings import Finding, error
from bacadi.data.words import counted, quoted, row_name

if TYPE_CHECKING:
    import pandas as pd

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
