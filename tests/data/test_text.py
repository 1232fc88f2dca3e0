"""Small tables of names: what is read, and what is refused in one sentence."""

from pathlib import Path

import pytest

from bacadi.data.text import read_rows
from bacadi.errors import DataError


def table(folder: Path, content: bytes) -> Path:
    path = folder / "names.csv"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_rows_have_their_line_and_no_spaces_around_cells(tmp_path: Path, end: str) -> None:
    text = end.join(["context, variable", "", " ,", '"drug, high",  ü ', '"two', 'lines",a', "ko,b"])
    expected = [(1, ["context", "variable"]), (4, ["drug, high", "ü"]), (5, [f"two{end}lines", "a"]), (7, ["ko", "b"])]
    assert read_rows(table(tmp_path, text.encode()), "targets file") == expected
    assert read_rows(table(tmp_path, text.encode("utf-8-sig")), "targets file") == expected


def test_a_table_without_rows_is_empty(tmp_path: Path) -> None:
    assert read_rows(table(tmp_path, b""), "targets file") == read_rows(table(tmp_path, b"\n , \n"), "file") == []


@pytest.mark.parametrize(
    ("content", "fragments"),
    [
        (b"context,variable\nK\xe4lte,a\n", ["names.csv' cannot be read", "not UTF-8"]),
        (b'context,variable\nko,"a\nko,b\n', ["'names.csv'", "quotes", "line 2"]),
        (b'context,variable\nko,"a"b\n', ["'names.csv'", "quotes", "line 2"]),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, content: bytes, fragments: list[str]) -> None:
    with pytest.raises(DataError) as refusal:
        read_rows(table(tmp_path, content), "targets file")
    message = str(refusal.value)
    assert "targets file" in message and "\n" not in message and message.endswith(".")
    for fragment in fragments:
        assert fragment in message


def test_files_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"targets file '.*none\.csv' cannot be read \(no such file"):
        read_rows(tmp_path / "none.csv", "targets file")
    with pytest.raises(DataError, match=r"cannot be read \(is a directory\)"):
        read_rows(tmp_path, "targets file")
