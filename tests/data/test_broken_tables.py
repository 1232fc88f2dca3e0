"""Every broken table is refused in words that say what, where and what to do."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bacadi.cli import app
from bacadi.data.doctor import diagnose
from bacadi.data.tables import from_file, read_table
from bacadi.errors import DataError

from .broken_tables import BROKEN_TABLES, GOOD_ROWS, BrokenTable, joined

cases = pytest.mark.parametrize("case", BROKEN_TABLES, ids=lambda case: case.name)


def assert_one_sentence(message: str) -> None:
    assert "\n" not in message and message.endswith(".")
    assert not re.search(r"\. [A-Z]", message)
    assert "Traceback" not in message


def test_the_list_is_long_and_free_of_repeats() -> None:
    assert len({case.name for case in BROKEN_TABLES}) == len(BROKEN_TABLES) >= 24


def test_the_table_they_are_made_from_is_accepted(tmp_path: Path) -> None:
    case = BrokenTable("good", joined(GOOD_ROWS), ())
    assert from_file(case.write(tmp_path), case.context, case.observational).counts.tolist() == [3, 2]


@cases
def test_from_file_refuses_with_one_sentence(case: BrokenTable, tmp_path: Path) -> None:
    with pytest.raises(DataError) as refusal:
        from_file(case.write(tmp_path), case.context, case.observational)
    assert_one_sentence(str(refusal.value))
    for fragment in case.expected:
        assert fragment in str(refusal.value)


@cases
def test_check_ends_with_exit_code_2(case: BrokenTable, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["check", str(case.write(tmp_path)), *case.options()])
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    said = result.stderr if case.unreadable else result.stdout
    for fragment in case.expected:
        assert fragment in said
    if case.unreadable:
        assert result.stdout == "" and said.startswith("Error: ")
        assert_one_sentence(said.rstrip("\n"))
    else:
        assert result.stderr == "" and "Not usable" in said


@pytest.mark.parametrize("case", [case for case in BROKEN_TABLES if not case.unreadable], ids=lambda case: case.name)
def test_every_finding_is_one_sentence(case: BrokenTable, tmp_path: Path) -> None:
    for finding in diagnose(read_table(case.write(tmp_path), case.context), case.context, case.observational).problems:
        assert_one_sentence(finding.message)
