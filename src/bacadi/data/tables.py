"""From a table in a file, a pandas table or arrays to `ContextData`.

Files are CSV, tab-separated text (both also gzipped), parquet and Excel sheets. Whatever `bacadi.diagnose` calls an
error is refused with its sentence; a file that is not a table at all is refused here.
"""

import gzip
import io
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from bacadi.data.checks import ARRAY_INDEX, LINE_INDEX
from bacadi.data.contexts import ContextData
from bacadi.data.doctor import examine, which_context
from bacadi.data.text import counted, quoted, split_rows
from bacadi.errors import ConfigError, DataError

_DELIMITERS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
_DELIMITER_NAMES = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "vertical bars"}
SEPARATORS = {",": ",", ";": ";", "|": "|", "tab": "\t"}
"""What `--sep` may be, with what it means."""
_ENDINGS = ".csv, .tsv, .txt (tabs), .csv.gz, .tsv.gz, .txt.gz, .parquet, .xlsx or .h5ad"
_EXCEL, _SPREADSHEETS = frozenset({".xlsx", ".xlsm"}), frozenset({".xls", ".ods", ".numbers"})
# What programs write for a missing number. They are not applied to the context column, where "None" is a fair label.
_MISSING = ["", "NA", "N/A", "n/a", "na", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None", "<NA>", "#N/A", "#NA"]


def from_dataframe(df: Any, context: str | None = None, observational: str | None = None) -> ContextData:
    """Read a pandas or polars table: one row per sample, one column naming the context, every other one a variable.

    Contexts are numbered in order of first appearance. Labels are taken as text.

    Args:
        df: the table.
        context: the name of the column with the context of each row; it has to be named.
        observational: the label of the untouched context, None if there is none.

    >>> table = pd.DataFrame({"a": [1.0, 2.5, 3.5, 0.5], "b": [0, 3, 1, 2], "context": ["wt", "wt", "ko", "ko"]})
    >>> data = from_dataframe(table, context="context", observational="wt")
    >>> data.context.tolist(), data.contexts, data.variables
    ([0, 0, 1, 1], ('ko',), ('a', 'b'))
    """
    df = as_frame(df)
    if context is None:
        raise DataError(which_context(df, "context="))
    return examine(df, context, observational).data()


def as_frame(table: Any) -> pd.DataFrame:
    """A table as a pandas one: pandas itself, or whatever has `to_pandas` (polars, pyarrow), lazy or not.

    >>> as_frame(pd.DataFrame({"a": [1]})).columns.tolist()
    ['a']
    """
    if isinstance(table, pd.DataFrame):
        return table
    if not hasattr(table, "to_pandas") and hasattr(table, "collect"):
        table = table.collect()
    if not hasattr(table, "to_pandas"):
        remedy = "use from_file for the path of a file and from_arrays for arrays"
        raise DataError(f"The table is a {type(table).__name__} and not a pandas DataFrame; {remedy}.")
    try:
        return as_frame(table.to_pandas())
    except ImportError:
        remedy = "install it with: pip install 'bacadi[parquet]'"
        raise DataError(f"Taking a {type(table).__module__.split('.')[0]} table needs pyarrow; {remedy}.") from None


def table_of(array: ArrayLike) -> pd.DataFrame:
    """An array [rows, variables] as a table with columns x0, x1, ….

    >>> table_of(np.zeros((2, 2))).columns.tolist()
    ['x0', 'x1']
    """
    matrix = np.asarray(array)
    if matrix.ndim != 2:
        raise DataError(f"The array has {matrix.ndim} dimensions; give two, [rows, variables].")
    return pd.DataFrame(matrix, columns=[f"x{j}" for j in range(matrix.shape[1])])


def from_file(path: str | Path, context: str | None = None, observational: str | None = None) -> ContextData:
    """Read a table from a file, as `from_dataframe` does from memory; `read_table` says which files.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "data.csv"
    >>> _ = path.write_text("a,b,context\\n1,0.5,wt\\n2,0.1,wt\\n4,0.2,ko\\n3,0.9,ko\\n")
    >>> from_file(path, context="context", observational="wt")
    ContextData(4 rows, 2 variables; wt (observational): 2, ko: 2)
    """
    return from_dataframe(read_table(path, context), context, observational)


def read_table(
    path: str | Path,
    context: str | None = None,
    block: str | None = None,
    sep: str | None = None,
    decimal: str | None = None,
) -> pd.DataFrame:
    """Read .csv, .tsv and .txt (tabs), each also .gz, .parquet or .xlsx; a row is indexed by its line in the file.

    The header is line 1. The columns `context` and `block`, if they are there, are kept as the text they are, so that
    labels such as `01` or `None` survive. `sep` separates columns in place of what the ending promises, `decimal` is
    the mark in numbers. Of a workbook the first sheet is read.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "data.csv"
    >>> _ = path.write_text("a;context\\n0,5;01\\n")
    >>> read_table(path, "context", sep=";", decimal=",").to_dict("records")
    [{'a': 0.5, 'context': '01'}]
    """
    path = Path(path)
    ending, zipped = ending_of(path)
    if ending in _SPREADSHEETS:
        remedy = "save its sheet as CSV (UTF-8, commas) or .xlsx and give that file"
        raise DataError(f"{quoted(path.name)} is a spreadsheet; {remedy}.")
    if ending == ".h5ad":
        raise DataError(f"{quoted(path.name)} holds an AnnData and no table; from_anndata and bacadi.prepare read it.")
    if ending not in _DELIMITERS and (zipped or ending not in (".parquet", *_EXCEL)):
        what = f"The ending of {quoted(path.name)} does not say what kind of table it is"
        raise DataError(f"{what}; the file must end in {_ENDINGS}.")
    if ending not in _DELIMITERS and (sep is not None or decimal is not None):
        raise ConfigError(f"--sep and --decimal are for text and {quoted(path.name)} is none; leave them out.")
    content = _content(path)
    if ending == ".parquet":
        return _read_parquet(path, content)
    if ending in _EXCEL:
        return _read_excel(path, content, {context, block})
    text = _text(path, _unzipped(path, content) if zipped else content)
    delimiter = _DELIMITERS[ending] if sep is None else SEPARATORS[sep]
    if decimal == delimiter:
        raise ConfigError("Columns and decimals are both marked by commas; give another --sep, such as ';'.")
    return _read_text(path, text, delimiter, {context, block}, decimal or ".")


def ending_of(path: Path) -> tuple[str, bool]:
    """The ending of a file in lower case without .gz, and whether that was there.

    >>> ending_of(Path("a.b.CSV.gz"))
    ('.csv', True)
    """
    endings = [ending.lower() for ending in path.suffixes]
    zipped = endings[-1:] == [".gz"]
    return next(iter(endings[-2:-1] if zipped else endings[-1:]), ""), zipped


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
        remedy = "it needs a line of column names and one line per sample"
        raise DataError(f"The file {quoted(path.name)} is empty; {remedy}.")
    return content


def _unzipped(path: Path, content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error):
        what = f"The file {quoted(path.name)} ends in .gz but is not a complete gzip file"
        raise DataError(f"{what}; fetch it again, or rename it if it is not compressed.") from None


def _text(path: Path, content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"The file {quoted(path.name)} is encoded as UTF-16; save it as UTF-8.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line, what = content.count(b"\n", 0, failure.start) + 1, "holds a character that is not UTF-8"
        raise DataError(f"Line {line} of {quoted(path.name)} {what}; save the file as UTF-8.") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"Line {line} of {quoted(path.name)} holds a zero byte, so it is not text; export it again.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


class _Row(NamedTuple):
    """A row of a text table: its first line, its number of values, and its text, which may run over several lines."""

    line: int
    width: int
    source: str


def _read_text(path: Path, text: str, delimiter: str, label_columns: set[str | None], decimal: str) -> pd.DataFrame:
    """Check that every row has as many values as the header has names, then let pandas parse the numbers.

    Pandas alone would fill up short rows, count lines without the blank ones and call a bad cell by its column.
    """
    lines = text.split("\n")
    cells = split_rows(text, delimiter, quoted(path.name))
    rows = [_Row(first, len(row), "\n".join(lines[first - 1 : last])) for first, last, row in cells]
    if not rows:
        raise DataError(f"The file {quoted(path.name)} has only blank lines; it needs a line of column names.")
    ((_, _, header),) = split_rows(rows[0].source, delimiter, quoted(path.name))
    names = [name.strip() for name in header]
    _check_delimiter(path, names, delimiter, rows[0].line)
    _check_widths(path, len(names), rows[1:])
    labels = {j for j, name in enumerate(names) if name in label_columns}
    frame = pd.read_csv(
        io.StringIO("\n".join(row.source for row in rows)),
        sep=delimiter,
        decimal=decimal,
        header=0,
        names=list(range(len(names))),
        index_col=False,
        dtype=dict.fromkeys(labels, str),
        keep_default_na=False,
        na_values={j: [""] if j in labels else _MISSING for j in range(len(names))},
        skip_blank_lines=False,
        low_memory=False,
    )
    frame.columns = pd.Index(names)
    frame.index = pd.Index([row.line for row in rows[1:]], name=LINE_INDEX)
    return frame


def _check_delimiter(path: Path, names: list[str], delimiter: str, line: int) -> None:
    if len(names) > 1:
        return
    wanted, first = _DELIMITER_NAMES[delimiter], names[0]
    other = max((other for other in _DELIMITER_NAMES if other != delimiter), key=first.count)
    if other not in first:
        remedy = f"separate the columns by {wanted}, with one column for the context and one per variable"
        raise DataError(f"Line {line} of {quoted(path.name)} has a single column, {quoted(first)}; {remedy}.")
    what = f"The columns in line {line} of {quoted(path.name)} are separated by {_DELIMITER_NAMES[other]}"
    said = next(repr(name) for name, character in SEPARATORS.items() if character == other)
    rename = {"\t": " or rename it to .tsv", ",": " or rename it to .csv"}.get(other, "")
    raise DataError(
        f"{what} where the ending of the file promises {wanted}; save it with {wanted}{rename}, or say --sep {said}."
    )


def _check_widths(path: Path, width: int, rows: list[_Row]) -> None:
    ragged = [row for row in rows if row.width != width]
    if not ragged:
        return
    line, cells, _ = ragged[0]
    start = f"Line {line} of {quoted(path.name)} has {counted(cells, 'value')} and the header names {width}"
    if all(row.width == width + 1 for row in rows):
        remedy = "if the rows begin with row names, give their column a name or drop it"
        raise DataError(f"{start}, as in every row; {remedy}.")
    remedy = "a value is missing" if cells < width else "there is one delimiter too many, or a decimal comma"
    raise DataError(f"{start}; {remedy} there, so correct the line.")


def _read_parquet(path: Path, content: bytes) -> pd.DataFrame:
    try:
        return pd.read_parquet(io.BytesIO(content))
    except ImportError:
        remedy = "install it with: pip install 'bacadi[parquet]'"
        raise DataError(f"Reading {quoted(path.name)} needs pyarrow; {remedy}.") from None
    except Exception as failure:  # pyarrow's errors share no base class that could be named without importing it
        what = f"is not a readable parquet file ({type(failure).__name__})"
        raise DataError(f"The file {quoted(path.name)} {what}; write it again.") from None


def _read_excel(path: Path, content: bytes, label_columns: set[str | None]) -> pd.DataFrame:
    """The first sheet of a workbook; empty rows and columns, which spreadsheets append, are left out."""
    try:
        frame = pd.read_excel(
            io.BytesIO(content), dtype=object, engine="openpyxl", keep_default_na=False, na_values=[""]
        )
    except ImportError:
        remedy = "install it with: pip install 'bacadi[excel]'"
        raise DataError(f"Reading {quoted(path.name)} needs openpyxl; {remedy}.") from None
    except Exception as failure:  # a workbook is a zip file of XML, with the errors of both
        what = f"is not a readable workbook ({type(failure).__name__})"
        raise DataError(f"The file {quoted(path.name)} {what}; save it again as .xlsx or as CSV.") from None
    empty = [str(name).startswith("Unnamed: ") and frame[name].isna().all() for name in frame.columns]
    frame = frame.loc[:, ~np.array(empty, dtype=bool)]
    frame.columns = pd.Index([str(name).strip() for name in frame.columns])
    frame.index = pd.Index(range(2, len(frame) + 2), name=LINE_INDEX)
    frame = frame.loc[~frame.isna().all(axis=1)]
    for j, name in enumerate(frame.columns):
        cells = frame.iloc[:, j]
        if name not in label_columns:
            cells = cells.mask(cells.isin(_MISSING))
        frame.isetitem(j, cells.map(str, na_action="ignore") if name in label_columns else cells.infer_objects())
    return frame


def from_arrays(
    arrays: Mapping[str, ArrayLike] | Sequence[ArrayLike],
    observational: str | EllipsisType | None = ...,
    variables: Sequence[str] | None = None,
) -> ContextData:
    """Read one [n_k, d] array per context, from a mapping of names to arrays or from a list.

    Args:
        arrays: a mapping names its contexts. A list names them by position: "0", "1", "2", …, or from "1" on if there
            is no observational context.
        observational: the name of the untouched context, None if there is none; by default the first array of a list
            ("0") and none of a mapping.
        variables: the names of the columns, by default x0, x1, ….

    >>> rng = np.random.default_rng(0)
    >>> obs, ko = rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    >>> from_arrays([obs, ko])
    ContextData(7 rows, 2 variables; 0 (observational): 4, 1: 3)
    >>> from_arrays([obs, ko], observational=None).contexts
    ('1', '2')
    >>> from_arrays({"wt": obs, "ko": ko}, observational="wt", variables=["a", "b"]).contexts
    ('ko',)
    """
    if len(arrays) == 0:
        raise DataError("No array was given; give one array of samples per context.")
    if isinstance(arrays, np.ndarray) and arrays.ndim != 3:
        raise DataError("A single array was given; put the arrays of the contexts in a list or a dict.")
    named = arrays.items() if isinstance(arrays, Mapping) else enumerate(arrays, start=observational is None)
    matrices = {str(label): _matrix(quoted(label), array) for label, array in named}
    names = _variable_names(matrices, variables)
    rows = [(label, n) for label, matrix in matrices.items() for n in range(len(matrix))]
    index = pd.Index([f"{label}[{n}]" for label, n in rows], name=ARRAY_INDEX)
    values = pd.DataFrame(np.concatenate(list(matrices.values())), columns=names, index=index)
    labels = pd.Series([label for label, _ in rows], index=index)
    if observational is ...:
        observational = None if isinstance(arrays, Mapping) else "0"
    return examine(values, labels, observational).data()


def _matrix(name: str, array: ArrayLike) -> np.ndarray:
    if hasattr(array, "columns"):
        remedy = "put all contexts in one table with a context column and use from_dataframe"
        raise DataError(f"Context {name} is a table with named columns, not an array; {remedy}.")
    try:
        matrix = np.asarray(array)
    except ValueError:
        raise DataError(f"The rows of context {name} differ in length; give an array [rows, d].") from None
    if matrix.ndim != 2:
        raise DataError(f"The array of context {name} has {matrix.ndim} dimensions; give two, [rows, variables].")
    if len(matrix) == 0:
        raise DataError(f"The array of context {name} has no rows; add rows or leave the context out.")
    return matrix


def _variable_names(matrices: dict[str, np.ndarray], variables: Sequence[str] | None) -> list[str]:
    first, width = next((label, matrix.shape[1]) for label, matrix in matrices.items())
    for label, matrix in matrices.items():
        if matrix.shape[1] != width:
            what = f"The array of context {quoted(label)} has {matrix.shape[1]} columns and that of {quoted(first)}"
            raise DataError(f"{what} has {width}; every context needs the same variables.")
    names = [f"x{j}" for j in range(width)] if variables is None else [str(name) for name in variables]
    if len(names) != width:
        raise DataError(f"The arrays have {width} columns but {len(names)} variables are named; name each column once.")
    return names
