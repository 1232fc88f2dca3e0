"""Known intervention targets: from the labels of the contexts or from a file, as an array of 1, 0 and NaN (unknown)."""

import csv
import math
from pathlib import Path

import numpy as np
from jaxtyping import Float

from bacadi.data.contexts import ContextData
from bacadi.data.text import closest, listed, quoted
from bacadi.errors import ConfigError, DataError

UNKNOWN, KNOWN = "unknown", "known"
_JOINT = "+"
_COLUMNS = ["context", "variable", "target"]
Known = Float[np.ndarray, "M d"]
Cells = dict[str, dict[str, int]]


def known_targets(choice: str, data: ContextData) -> Known | None:
    """What `--targets` says: `unknown` (None), `known` (labels name their targets) or the path of a CSV file."""
    if choice == UNKNOWN:
        return None
    if choice == KNOWN:
        return from_labels(data)
    path = Path(choice)
    if not path.exists():
        raise ConfigError(
            f"--targets is {quoted(choice)}, which is no file{closest(choice, (UNKNOWN, KNOWN))}; "
            "give unknown, known or the path of a CSV file."
        )
    return from_csv(path, data)


def from_labels(data: ContextData) -> Known:
    """Targets from labels such as `geneA` or `geneA+geneB`; every target is then known.

    >>> data = ContextData(np.zeros((2, 2)), np.array([1, 2]), ("a", "b"), ("a", "a+b"))
    >>> from_labels(data).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    known = np.zeros((data.n_contexts, data.n_variables))
    for k, label in enumerate(data.contexts):
        whole = label in data.variables  # a variable may have a plus in its name
        for name in [label] if whole else [part.strip() for part in label.split(_JOINT)]:
            if name not in data.variables:
                raise ConfigError(
                    f"The context {quoted(label)} names {quoted(name)}, which is no variable"
                    f"{closest(name, data.variables)}; with --targets known a label is its targets joined by '+', "
                    "otherwise list the targets in a file for --targets FILE.csv."
                )
            known[k, data.variables.index(name)] = 1
    return known


def from_csv(path: Path, data: ContextData) -> Known:
    """Targets from a table `context,variable` (listed contexts are known whole) or `context,variable,target`.

    With the third column, 1 or 0, only the listed cells are known. Without it an empty variable says that the context
    has no target.
    """
    rows = _rows(path)
    line, header = rows[0]
    if header not in (_COLUMNS, _COLUMNS[:2]):
        raise DataError(
            f"Line {line} of {quoted(path.name)} is {quoted(','.join(header))}; "
            "the columns must be context,variable or context,variable,target."
        )
    known = np.full((data.n_contexts, data.n_variables), np.nan)
    for line, row in rows[1:]:
        place = f"Line {line} of {quoted(path.name)}"
        if len(row) != len(header):
            raise DataError(f"{place} has {len(row)} values and the header names {len(header)}; correct the line.")
        k = _context(place, row[0], data)
        if len(header) == 3:
            _set_cell(known, (k, _variable(place, row[1], data)), row[2], place)
        else:
            known[k] = np.where(np.isnan(known[k]), 0.0, known[k])
            if row[1]:
                known[k, _variable(place, row[1], data)] = 1.0
    return known


def to_cells(known: Known | None, data: ContextData) -> Cells | None:
    """The known cells under their names, for the record."""
    if known is None:
        return None
    cells: Cells = {}
    for k, i in np.argwhere(~np.isnan(known)).tolist():
        cells.setdefault(data.contexts[k], {})[data.variables[i]] = int(known[k, i])
    return cells


def from_cells(cells: Cells | None, data: ContextData) -> Known | None:
    """The inverse of `to_cells`."""
    if cells is None:
        return None
    row, column = ({name: at for at, name in enumerate(names)} for names in (data.contexts, data.variables))
    known = np.full((data.n_contexts, data.n_variables), math.nan)
    for context, entries in cells.items():
        for variable, value in entries.items():
            known[row[context], column[variable]] = value
    return known


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """Line number and stripped cells of every row that is not blank."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as failure:
        what = failure.strerror.lower() if isinstance(failure, OSError) and failure.strerror else "it is not UTF-8 text"
        raise DataError(f"The targets file '{path}' cannot be read ({what}); give a CSV file.") from None
    reader = csv.reader(text.splitlines())
    try:
        rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if any(map(str.strip, row))]
    except csv.Error as failure:
        raise DataError(f"Line {reader.line_num} of {quoted(path.name)} is no CSV ({failure}); correct it.") from None
    if not rows:
        raise DataError(f"The targets file {quoted(path.name)} is empty; its first line must be context,variable.")
    return rows


def _context(place: str, name: str, data: ContextData) -> int:
    if name in data.contexts:
        return data.contexts.index(name)
    if name == data.observational:
        raise DataError(f"{place} lists {quoted(name)}, the observational context, which has no targets; remove it.")
    raise DataError(
        f"{place} names the context {quoted(name)}, which is not in the data{closest(name, data.contexts)}; "
        f"the contexts are {listed(data.contexts)}."
    )


def _variable(place: str, name: str, data: ContextData) -> int:
    if name in data.variables:
        return data.variables.index(name)
    raise DataError(
        f"{place} names the variable {quoted(name)}, which is not in the data{closest(name, data.variables)}; "
        f"the variables are {listed(data.variables)}."
    )


def _set_cell(known: Known, cell: tuple[int, int], value: str, place: str) -> None:
    if value not in ("0", "1"):
        raise DataError(f"{place} has the target {quoted(value)}; give 1 for a target and 0 for none.")
    if not np.isnan(known[cell]) and known[cell] != float(value):
        raise DataError(f"{place} says {value} where an earlier line says {int(known[cell])}; keep one of them.")
    known[cell] = float(value)
