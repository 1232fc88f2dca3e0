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


BEYOND = ("1" + "0" * 30, "1" + "0" * 399)


@pytest.mark.parametrize("number", BEYOND)
@pytest.mark.parametrize(
    "options",
    [
        ("--method", "exact", "--draws"),
        ("--sweeps",),
        ("--draws",),
        ("--method", "jci-pc", "--samples"),
        ("--method", "svgd", "--steps"),
        ("--seed",),
    ],
)
def test_numbers_beyond_all_bounds(number: str, options: tuple[str, ...], run: Run, plain: list[str]) -> None:
    assert_refused(run(*plain, *options, number), options[-1])
    assert not Path(plain[-1]).exists()


@pytest.mark.parametrize(
    "options", [("--draws",), ("--method", "exact", "--draws"), ("--method", "jci-pc", "--samples")]
)
def test_what_does_not_fit_into_memory(
    options: tuple[str, ...], run: Run, plain: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bacadi.inference.method.total_memory", lambda: 1e9)
    assert_refused(run(*plain, *options, 10**9), "memory")
    assert not Path(plain[-1]).exists()


@pytest.mark.parametrize("number", [*BEYOND, 10**9])
@pytest.mark.parametrize(
    "key",
    ["n_variables = {}", "n_observational = {}", "[interventions]\nn_contexts = {}", "[held_out]\nn_contexts = {}"],
)
def test_tasks_beyond_all_bounds(
    key: str, number: object, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bacadi.simulate.task.total_memory", lambda: 1e9)
    spec = tmp_path / "spec.toml"
    spec.write_text('type = "synthetic"\n' + key.format(number))
    assert_refused(run("simulate", spec, "--out", tmp_path / "task"))
    assert not (tmp_path / "task").exists()


def test_steps_that_never_end(run: Run, tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text('type = "expression"\n[langevin]\nstep = 1e-300\n')
    assert_refused(run("simulate", spec, "--out", tmp_path / "task"), "steps")


def test_a_column_of_tiny_values_is_not_called_constant(run: Run, plain: list[str], table: Path) -> None:
    header, *lines = table.read_text().splitlines()
    tiny = [f"{float(line.split(',')[0]) * 1e-300!r},{line.split(',', 1)[1]}" for line in lines]
    table.write_text("\n".join([header, *tiny]) + "\n")
    result = run(*plain, "--sweeps", 20, "--draws", 4)
    assert result.exit_code == 2 and "'a'" in result.stderr and "constant" not in result.stderr
