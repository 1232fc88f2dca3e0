"""From a table in a file to `ContextData`: CSV, tab-separated text (both also gzipped) and parquet.

From a pandas table to `ContextData`.

From arrays, one for each context, to `ContextData`.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bacadi.data.contexts import ContextData
from bacadi.data.doctor import examine, examine_parts
from bacadi.data.text import ARRAY_INDEX, LINE_INDEX, counted, quoted
from bacadi.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike


_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
_DELIMITER_NAMES = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars"}
_ENDINGS = ".csv, .tsv, .txt (tabs), .csv.gz, .tsv.gz, .txt.gz or .parquet"
_SPREADSHEETS = frozenset({".xls", ".xlsx", ".xlsm", ".ods", ".numbers"})
# What programs write for a missing number. They are not applied to the context column, where "None" is a fair label.
_MISSING = ["", "NA", "N/A", "n/a", "na", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None", "<NA>", "#N/A", "#NA"]


def from_file(path: str | Path, context: str, observational: str | None = None) -> ContextData:
    """Read a table with one row a sample, one column naming the context and every other column a variable.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "data.csv"
    >>> _ = path.write_text("a,b,context\\n1,0.5,wt\\n2,0.1,wt\\n4,0.2,ko\\n3,0.9,ko\\n")
    >>> from_file(path, context="context", observational="wt").counts.tolist()
    [2, 2]
    """
    return examine(read_table(path, context), context, observational).data()


def read_table(path: str | Path, context: str | None = None) -> "pd.DataFrame":
    """The table in a file, with line numbers of the file as its index where the file is text (the header is line 1).

    The column `context`, if it is there, is kept as the text it is, so that labels such as `01` or `None` survive.
    """
    path = Path(path)
    endings = [ending.lower() for ending in path.suffixes]
    zipped = endings[-1:] == [".gz"]
    ending = next(iter(endings[-2:-1] if zipped else endings[-1:]), "")
    if ending not in _DELIMITERS and not (ending == ".parquet" and not zipped):
        raise DataError(_unknown_ending(path, ending))
    content = _content(path)
    if ending == ".parquet":
        return _read_parquet(path, content)
    return _read_text(path, _text(path, _unzipped(path, content) if zipped else content), _DELIMITERS[ending], context)


def _unknown_ending(path: Path, ending: str) -> str:
    if ending in _SPREADSHEETS:
        return f"{quoted(path.name)} is a spreadsheet; save its sheet as CSV (UTF-8, commas) and give that file."
    return f"The ending of {quoted(path.name)} does not say what kind of table it is; the file must end in {_ENDINGS}."


def _content(path: Path) -> bytes:
    if path.is_dir():
        raise DataError(f"'{path}' is a folder; give the path of the table inside it.")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"There is no file '{path}'; check the path.") from None
    except OSError as failure:
        reason = (failure.strerror or type(failure).__name__).lower()
        raise DataError(f"The file '{path}' cannot be read ({reason}); check its permissions.") from None
    if not content:
        raise DataError(f"The file {quoted(path.name)} is empty; it needs a line of column names and a line a sample.")
    return content


def _unzipped(path: Path, content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        raise DataError(
            f"The file {quoted(path.name)} ends in .gz but is not a complete gzip file; "
            "fetch it again, or rename it if it is not compressed."
        ) from None


def _text(path: Path, content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"The file {quoted(path.name)} is encoded as UTF-16; save it as UTF-8.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = content.count(b"\n", 0, failure.start) + 1
        raise DataError(
            f"Line {line} of {quoted(path.name)} holds a character that is not UTF-8; save the file as UTF-8."
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"Line {line} of {quoted(path.name)} holds a zero byte, so it is no text; export it again.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True)
class _Row:
    """A row that is not blank: the lines of the file that it fills and its number of fields."""

    first: int
    last: int
    fields: int


def _read_text(path: Path, text: str, delimiter: str, context: str | None) -> "pd.DataFrame":
    """Check that every row has as many values as the header has names, then parse the numbers."""
    import pandas as pd

    lines = text.split("\n")
    rows = _rows(path, lines, delimiter)
    if not rows:
        raise DataError(f"The file {quoted(path.name)} has only blank lines; it needs a line of column names.")
    header, body = rows[0], rows[1:]
    names = [name.strip() for name in next(csv.reader([_source(lines, header)], delimiter=delimiter))]
    _check_delimiter(path, names, delimiter, header.first)
    ragged = [row for row in body if row.fields != len(names)]
    if ragged:
        raise DataError(_ragged(path, len(names), ragged, len(body)))
    labels = [j for j, name in enumerate(names) if name == context]
    frame = _parsed("\n".join(_source(lines, row) for row in body), delimiter, len(names), labels)
    frame.columns = pd.Index(names)
    frame.index = pd.Index([row.first for row in body], name=LINE_INDEX)
    return frame


def _source(lines: list[str], row: _Row) -> str:
    return lines[row.first - 1] if row.first == row.last else "\n".join(lines[row.first - 1 : row.last])


def _parsed(body: str, delimiter: str, width: int, labels: list[int]) -> "pd.DataFrame":
    import pandas as pd

    if not body:
        return pd.DataFrame(columns=range(width))
    return pd.read_csv(
        io.StringIO(body),
        sep=delimiter,
        header=None,
        names=list(range(width)),
        index_col=False,
        dtype=dict.fromkeys(labels, str),
        keep_default_na=False,
        na_values={j: [""] if j in labels else _MISSING for j in range(width)},
        skip_blank_lines=False,
        low_memory=False,
    )


def _rows(path: Path, lines: list[str], delimiter: str) -> list[_Row]:
    """The rows with a value in them; spreadsheets like to append rows of nothing but delimiters."""
    blank = " \t" + delimiter
    if not any('"' in line for line in lines):  # then lines are rows and counting delimiters is enough, and fast
        return [_Row(n, n, line.count(delimiter) + 1) for n, line in enumerate(lines, 1) if line.strip(blank)]
    reader = csv.reader((line + "\n" for line in lines), delimiter=delimiter, strict=True)
    rows, first = [], 1
    try:
        for row in reader:
            if any(cell.strip(blank) for cell in row):
                rows.append(_Row(first, reader.line_num, len(row)))
            first = reader.line_num + 1
    except csv.Error:
        raise DataError(
            f"The quotes in {quoted(path.name)} do not match from line {first} on; close or remove the quote there."
        ) from None
    return rows


def _check_delimiter(path: Path, names: list[str], delimiter: str, line: int) -> None:
    if len(names) > 1:
        return
    others = {other: names[0].count(other) for other in _DELIMITER_NAMES if other != delimiter}
    other = max(others, key=others.__getitem__)
    wanted = _DELIMITER_NAMES[delimiter]
    if not others[other]:
        raise DataError(
            f"Line {line} of {quoted(path.name)} has a single column, {quoted(names[0])}; "
            f"separate the columns by {wanted}, with one column for the context and one a variable."
        )
    remedy = " or rename it to .tsv" if other == "\t" else " or rename it to .csv" if other == "," else ""
    raise DataError(
        f"The columns in line {line} of {quoted(path.name)} are separated by {_DELIMITER_NAMES[other]} where "
        f"the ending of the file promises {wanted}; save it with {wanted}{remedy}."
    )


def _ragged(path: Path, width: int, ragged: list[_Row], n_rows: int) -> str:
    line, fields = ragged[0].first, ragged[0].fields
    start = f"Line {line} of {quoted(path.name)} has {counted(fields, 'value')} and the header names {width}"
    if len(ragged) == n_rows and all(row.fields == width + 1 for row in ragged):
        return f"{start}, as in every row; if the rows begin with row names, give their column a name or drop it."
    remedy = "a value is missing" if fields < width else "there is one delimiter too many, or a decimal comma"
    return f"{start}; {remedy} there, so correct the line."


def _read_parquet(path: Path, content: bytes) -> "pd.DataFrame":
    import pandas as pd

    try:
        return pd.read_parquet(io.BytesIO(content))
    except ImportError:
        raise DataError(
            f"Reading {quoted(path.name)} needs pyarrow; install it with: pip install 'bacadi[parquet]'."
        ) from None
    except Exception as failure:  # pyarrow's errors share no base class that could be named without importing it
        raise DataError(
            f"The file {quoted(path.name)} is not a readable parquet file ({type(failure).__name__}); write it again."
        ) from None


def from_dataframe(df: "pd.DataFrame", context: str, observational: str | None = None) -> ContextData:
    """Samples in rows, one column naming the context of each row, every other column a variable.

    Contexts are numbered in order of first appearance; `observational` is the label of the untouched context, None if
    there is none. Labels are taken as text. Whatever `diagnose` calls an error is refused with its sentence.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"a": [1.0, 2.5, 3.5, 0.5], "b": [0, 3, 1, 2], "context": ["wt", "wt", "ko", "ko"]})
    >>> data = from_dataframe(table, context="context", observational="wt")
    >>> data.context.tolist(), data.contexts, data.variables
    ([0, 0, 1, 1], ('ko',), ('a', 'b'))
    """
    return examine(df, context, observational).data()


class Default(Enum):
    """What `from_arrays` does when no observational context is named."""

    FIRST_OF_LIST = "the first array of a list is observational, no array of a mapping is"


def from_arrays(
    arrays: "Mapping[str, ArrayLike] | Sequence[ArrayLike]",
    observational: str | Default | None = Default.FIRST_OF_LIST,
    variables: Sequence[str] | None = None,
) -> ContextData:
    """One [n_k, d] array for each context, as a mapping from its name or as a list.

    A mapping names its contexts; none is observational unless `observational` says which. A list names them by
    position: the first is the observational context "0", the others are "1", "2", …; with `observational=None` no
    array is observational and they are "1", "2", … from the first on. Variables are called x0, x1, … unless named.

    >>> rng = np.random.default_rng(0)
    >>> obs, ko = rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    >>> from_arrays([obs, ko]).counts.tolist(), from_arrays([obs, ko]).contexts
    ([4, 3], ('1',))
    >>> from_arrays([obs, ko], observational=None).contexts
    ('1', '2')
    >>> from_arrays({"wt": obs, "ko": ko}, observational="wt", variables=["a", "b"]).contexts
    ('ko',)
    """
    named, observational = _named(arrays, observational)
    matrices = {label: _matrix(label, array) for label, array in named.items()}
    names = _variable_names(matrices, variables)
    values, labels = _table(matrices, names)
    return examine_parts(values, labels, observational).data()


def _named(
    arrays: "Mapping[str, ArrayLike] | Sequence[ArrayLike]", observational: str | Default | None
) -> "tuple[dict[str, ArrayLike], str | None]":
    if len(arrays) == 0:
        raise DataError("No array was given; give one array of samples for each context.")
    if isinstance(arrays, Mapping):
        return {str(label): array for label, array in arrays.items()}, (
            None if isinstance(observational, Default) else observational
        )
    if isinstance(arrays, np.ndarray) and arrays.ndim != 3:
        raise DataError("A single array was given; put the arrays of the contexts in a list or a dict.")
    start = 1 if observational is None else 0
    return {str(k): array for k, array in enumerate(arrays, start)}, (
        "0" if isinstance(observational, Default) else observational
    )


def _matrix(label: str, array: "ArrayLike") -> np.ndarray:
    if hasattr(array, "columns"):
        raise DataError(
            f"Context {quoted(label)} is a table with named columns, not an array; "
            "put all contexts in one table with a context column and use from_dataframe."
        )
    try:
        matrix = np.asarray(array)
    except ValueError:
        raise DataError(f"The rows of context {quoted(label)} differ in length; give an array [rows, d].") from None
    if matrix.ndim != 2:
        raise DataError(
            f"The array of context {quoted(label)} has {matrix.ndim} dimensions; give two, [rows, variables]."
        )
    if len(matrix) == 0:
        raise DataError(f"The array of context {quoted(label)} has no rows; add rows or leave the context out.")
    return matrix


def _variable_names(matrices: dict[str, np.ndarray], variables: Sequence[str] | None) -> list[str]:
    first, width = next((label, matrix.shape[1]) for label, matrix in matrices.items())
    for label, matrix in matrices.items():
        if matrix.shape[1] != width:
            raise DataError(
                f"The array of context {quoted(label)} has {matrix.shape[1]} columns and that of {quoted(first)} has "
                f"{width}; every context needs the same variables."
            )
    names = [f"x{j}" for j in range(width)] if variables is None else [str(name) for name in variables]
    if len(names) != width:
        raise DataError(f"The arrays have {width} columns but {len(names)} variables are named; name each column once.")
    if len(set(names)) != width:
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"The variable name {quoted(twice)} is given twice; give every column a name of its own.")
    return names


def _table(matrices: dict[str, np.ndarray], names: list[str]) -> "tuple[pd.DataFrame, pd.Series]":
    import pandas as pd

    rows = [f"{label}[{n}]" for label, matrix in matrices.items() for n in range(len(matrix))]
    labels = [label for label, matrix in matrices.items() for _ in range(len(matrix))]
    index = pd.Index(rows, name=ARRAY_INDEX)
    values = pd.DataFrame(np.concatenate(list(matrices.values())), columns=names, index=index)
    return values, pd.Series(labels, index=index)
