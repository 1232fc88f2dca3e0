"""Tables that must be refused: a file each, the options to read it with, and what the refusal has to name.

A test of any command that reads a table can run through `BROKEN_TABLES`: write the case into a folder with `write`,
pass `options()`, and expect exit code 2 and a sentence on stderr that holds every one of `expected`.
"""

import gzip
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class BrokenTable:
    """One broken file. `unreadable` tells those that fail before there is a table for the doctor to look at."""

    name: str
    content: bytes | None
    expected: tuple[str, ...]
    ending: str = ".csv"
    context: str = "context"
    observational: str | None = "obs"
    unreadable: bool = False

    def write(self, folder: Path) -> Path:
        path = folder / f"table{self.ending}"
        if self.content is not None:
            path.write_bytes(self.content)
        return path

    def options(self) -> list[str]:
        named = [] if self.observational is None else ["--observational", self.observational]
        return ["--context", self.context, *named]


GOOD_ROWS = (
    ("a", "b", "context"),
    ("0.5", "1.5", "obs"),
    ("1.5", "0.2", "obs"),
    ("-0.3", "0.9", "obs"),
    ("2.0", "-1.0", "ko"),
    ("1.1", "0.4", "ko"),
)


def joined(rows: tuple[tuple[str, ...], ...], delimiter: str = ",", end: str = "\n") -> bytes:
    return "".join(delimiter.join(row) + end for row in rows).encode()


def with_cell(line: int, column: int, cell: str) -> tuple[tuple[str, ...], ...]:
    """The good table with one cell replaced; lines count from 1, the header."""
    rows = [list(row) for row in GOOD_ROWS]
    rows[line - 1][column] = cell
    return tuple(tuple(row) for row in rows)


def with_column(name: str, cells: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    return tuple((cell, *row) for cell, row in zip((name, *cells), GOOD_ROWS, strict=True))


def _parquet_without_labels() -> bytes:
    import pandas as pd

    buffer = io.BytesIO()
    pd.DataFrame(
        {"a": [0.5, np.nan, 2.0, 1.0], "b": [1.0, 2.0, 0.0, 5.0], "context": ["obs", "obs", "ko", "ko"]}
    ).to_parquet(buffer)
    return buffer.getvalue()


def _case(name: str, rows: tuple[tuple[str, ...], ...], *expected: str, **options: object) -> BrokenTable:
    return BrokenTable(name, joined(rows), expected, **options)  # type: ignore[arg-type]


_UNREADABLE = [
    BrokenTable("no such file", None, ("no file", "table.csv"), unreadable=True),
    BrokenTable("unknown ending", b"a b context\n", ("table.dat", ".csv"), ".dat", unreadable=True),
    BrokenTable("spreadsheet", b"PK\x03\x04", ("table.xlsx", "CSV"), ".xlsx", unreadable=True),
    BrokenTable("empty file", b"", ("table.csv", "empty"), unreadable=True),
    BrokenTable("blank lines only", b"\n  \n\n", ("table.csv", "blank"), unreadable=True),
    BrokenTable("semicolons", joined(GOOD_ROWS, ";"), ("line 1", "semicolons", "commas"), unreadable=True),
    BrokenTable("tabs in .csv", joined(GOOD_ROWS, "\t"), ("line 1", "tabs", ".tsv"), unreadable=True),
    BrokenTable("commas in .tsv", joined(GOOD_ROWS), ("line 1", "commas", "tabs"), ".tsv", unreadable=True),
    BrokenTable("one column", b"context\nobs\nko\n", ("Line 1", "'context'", "single column"), unreadable=True),
    BrokenTable("row too short", joined((*GOOD_ROWS, ("1.0", "ko"))), ("Line 7", "2 values"), unreadable=True),
    BrokenTable(
        "row too long", joined((*GOOD_ROWS[:3], ("1", "5", "0.2", "obs"))), ("Line 4", "4 values"), unreadable=True
    ),
    BrokenTable(
        "row names without a heading",
        joined((GOOD_ROWS[0], *((f"cell{n}", *row) for n, row in enumerate(GOOD_ROWS[1:])))),
        ("Line 2", "row names"),
        unreadable=True,
    ),
    BrokenTable("open quote", joined(with_cell(4, 2, '"obs')), ("line 4", "quote"), unreadable=True),
    BrokenTable(
        "Latin-1 characters",
        joined(with_cell(3, 2, "obs")) + "1,2,Kälte\n".encode("latin-1"),
        ("Line 7", "UTF-8"),
        unreadable=True,
    ),
    BrokenTable("UTF-16", joined(GOOD_ROWS).decode().encode("utf-16"), ("table.csv", "UTF-16"), unreadable=True),
    BrokenTable("zero bytes", joined(with_cell(5, 0, "\0")), ("Line 5", "zero byte"), unreadable=True),
    BrokenTable("not gzip", joined(GOOD_ROWS), ("table.csv.gz", "gzip"), ".csv.gz", unreadable=True),
    BrokenTable("cut gzip", gzip.compress(joined(GOOD_ROWS))[:-9], ("gzip",), ".csv.gz", unreadable=True),
    BrokenTable("not parquet", joined(GOOD_ROWS), ("table.parquet", "parquet"), ".parquet", unreadable=True),
]

_REFUSED = [
    _case("header only", GOOD_ROWS[:1], "no row"),
    _case("misspelt context column", GOOD_ROWS, "'contxt'", "did you mean 'context'", context="contxt"),
    _case("unknown context column", GOOD_ROWS, "'zzz'", "'a', 'b' and 'context'", context="zzz"),
    _case("misspelt observational label", GOOD_ROWS, "'Obs '", "did you mean 'obs'", "'ko'", observational="Obs "),
    _case("unknown observational label", GOOD_ROWS, "'zzz'", "'obs' and 'ko'", observational="zzz"),
    _case("context label missing", with_cell(4, 2, ""), "context column", "line 4"),
    _case("value missing", with_cell(3, 1, ""), "'b'", "line 3"),
    _case("value NA", with_cell(5, 0, "NA"), "'a'", "no value", "line 5"),
    _case("text in a number column", with_cell(4, 0, "high"), "'a'", "'high'", "line 4"),
    _case("spreadsheet error in a cell", with_cell(4, 1, "#DIV/0!"), "'b'", "'#DIV/0!'", "line 4"),
    _case("decimal comma", with_cell(6, 0, '"1,5"'), "'a'", "'1,5'", "line 6", "decimal comma"),
    _case("thousands separators", with_cell(6, 0, '"1,234,567.5"'), "'a'", "line 6", "thousands"),
    _case("infinite value", with_cell(2, 1, "-inf"), "'b'", "infinite", "line 2"),
    _case("overflow of float64", with_cell(2, 1, "1e400"), "'b'", "infinite", "line 2"),
    _case("overflow of float32", with_cell(6, 0, "1e30"), "'a'", "1e+30", "line 6"),
    _case("whole number beyond 64 bits", with_cell(6, 0, "9" * 30), "'a'", "1e+30", "line 6"),
    _case("constant column", with_column("c", ("7",) * 5), "'c'", "same value 7"),
    _case("identical columns", with_column("c", ("1.5", "0.2", "0.9", "-1.0", "0.4")), "'c'", "'b'", "same as"),
    _case("rescaled column", with_column("c", ("-2", "0.6", "-0.8", "3", "0.2")), "'c'", "'b'", "up to sign"),
    _case("two columns of one name", with_column("a", ("1", "5", "2", "0", "3")), "2 columns", "'a'"),
    _case("column without a name", with_column("", ("0", "1", "2", "3", "4")), "Column number 1", "no name"),
    _case(
        "every row a context",
        tuple((*row[:2], label) for row, label in zip(GOOD_ROWS, ("context", *"12345"), strict=True)),
        "own",
        "'1'",
        observational=None,
    ),
    _case("one variable", tuple(row[1:] for row in GOOD_ROWS), "only the variable 'b'"),
    _case("no variable", tuple((row[2], "") for row in (("", "", "context"), *GOOD_ROWS[1:])), "no name"),
    _case("dates", with_column("day", ("2024-01-01",) * 5), "'day'", "'2024-01-01'", "line 2"),
    BrokenTable("blank line before the error", b"\n" + joined(with_cell(4, 0, "?")), ("'a'", "'?'", "line 5")),
    BrokenTable("Windows line ends", joined(with_cell(4, 0, "?"), end="\r\n"), ("'a'", "'?'", "line 4")),
    BrokenTable(
        "quoted line break",
        b'a,b,context\n0.5,1.5,"no\ndrug"\n1.5,0.2,"no\ndrug"\n0.1,0.9,ko\nx,0.4,ko\n',
        ("'a'", "'x'", "line 7"),
        observational=None,
    ),
    BrokenTable("missing value, gzip", gzip.compress(joined(with_cell(3, 1, ""))), ("'b'", "line 3"), ".csv.gz"),
    BrokenTable("missing value, tabs", joined(with_cell(3, 1, ""), "\t"), ("'b'", "line 3"), ".txt"),
    BrokenTable("missing value, parquet", _parquet_without_labels(), ("'a'", "index label 1"), ".parquet"),
]

BROKEN_TABLES: list[BrokenTable] = [*_UNREADABLE, *_REFUSED]
