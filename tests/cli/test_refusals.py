"""`fit` refuses bad input with exit code 2 and one sentence, and leaves nothing behind."""

import re
from pathlib import Path

import pytest

from ..data.broken_tables import BROKEN_TABLES, BrokenTable
from .conftest import Run


def assert_refused(result, *expected: str) -> None:
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit) and result.stdout == ""
    message = result.stderr
    assert message.startswith("Error: ") and message.count("\n") == 1
    assert not re.search(r"\. [A-Z]", message) and "Traceback" not in message
    for fragment in expected:
        assert fragment in message


@pytest.mark.parametrize("case", BROKEN_TABLES, ids=lambda case: case.name)
def test_broken_tables(case: BrokenTable, run: Run, tmp_path: Path) -> None:
    result = run("fit", case.write(tmp_path), *case.options(), "--out", tmp_path / "deep" / "run")
    assert_refused(result, *case.expected)
    assert not (tmp_path / "deep").exists()


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (("--method", "mcmc"), ("[method]", "no effect with method mcmc", "--method svgd")),
        (("--sweeps", "9"), ("--sweeps", "no effect with method svgd", "only with mcmc")),
        (("--samples", "9"), ("--samples", "no effect with method svgd", "jci-pc or ut-igsp or dcdi-g")),
        (("--time-budget", "9"), ("--time-budget", "no effect with method svgd", "only with mcmc")),
        (("--method", "svgdd"), ("'svgdd'", "did you mean 'svgd'")),
        (("--model", "linaer"), ("--model", "did you mean 'linear'")),
        (("--preset", "author"), ("'author'", "did you mean 'authors'")),
        (("--seed", "-1"), ("--seed is -1",)),
        (("--seed", "x"), ("--seed", "integer", "--help")),
        (("--steps", "0"), ("--steps is 0",)),
        (("--particles", "-3"), ("--particles is -3",)),
        (("--checkpoint-every", "-1"), ("--checkpoint-every",)),
        (("--config", "none.toml"), ("none.toml",)),
        (("--targets", "none.csv"), ("'none.csv'", "no file")),
        (("--nonsense",), ("--nonsense", "--help")),
        (("--context", "contxt"), ("'contxt'", "did you mean 'context'")),
    ],
    ids=lambda value: " ".join(value),
)
def test_bad_options(extra: tuple[str, ...], expected: tuple[str, ...], run: Run, arguments: list[str]) -> None:
    assert_refused(run(*arguments, *extra), *expected)
    assert not Path(arguments[-1]).exists()


def test_values_of_flags_are_validated(run: Run, plain: list[str]) -> None:
    assert_refused(run(*plain, "--time-budget", "0"), "--time-budget is 0.0", "above 0.")
    assert_refused(run(*plain, "--replicas", "1"), "--replicas is 1", "at least 2.")
    assert not Path(plain[-1]).exists()


def test_context_and_out_are_asked_for(run: Run, table: Path) -> None:
    assert_refused(run("fit", table, "--out", "x"), "--context COLUMN", "'context'")
    assert_refused(run("fit", table, "--context", "context"), "--out DIR")
    assert_refused(run("fit"), "--help")


def test_out_must_be_a_folder(run: Run, arguments: list[str], table: Path) -> None:
    before = table.read_bytes()
    assert_refused(run(*arguments, "--out", table), "is a file")
    assert_refused(run(*arguments, "--out", table / "below"), "is a file")
    assert table.read_bytes() == before


def test_broken_config_and_targets_leave_nothing(run: Run, arguments: list[str], tmp_path: Path) -> None:
    for option, name, text, expected in (
        ("--config", "c.toml", "[method]\ntype = 'svgd'\nn_step = 3\n", "did you mean 'n_steps'"),
        ("--targets", "t.csv", "context,variable\nb,z\n", "Line 2"),
    ):
        (tmp_path / name).write_text(text)
        assert_refused(run(*arguments, option, tmp_path / name), expected)
    assert not (tmp_path / "run").exists()


def test_resume_and_export_refuse_folders_that_hold_no_run(run: Run, tmp_path: Path) -> None:
    for command in ("resume", "export"):
        assert_refused(run(command, tmp_path), str(tmp_path))
        assert_refused(run(command, tmp_path / "none"), "none")
    (tmp_path / "config.json").write_text("{}")
    assert_refused(run("resume", tmp_path), "damaged")
