"""`bacadi bench` from end to end: run, look, interrupt, export, import, compare."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bacadi.cli import app
from bacadi.commands import bench as command_module

from .running import InlineEngine

Write = Callable[..., Path]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The command in this process, with fits carried out here; its output, and its exit code must be as expected."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command_module._Means, "engine", lambda self: InlineEngine())

    def invoke(*arguments: object, code: int = 0) -> str:
        result = CliRunner().invoke(app, ["bench", *map(str, arguments)])
        assert result.exit_code == code, result.output
        return result.output

    return invoke


def test_from_run_to_export_and_back(run: Callable[..., str], write: Write, tmp_path: Path) -> None:
    study = write(well="", error="ending = 'error'|n_tasks = 1")
    assert "3 left; no time is known yet" in run("status", study)
    said = run("run", study, "--tasks", 1, "--only", "well")
    assert "[1/1] five 0 well: done in" in said and "1 fit carried out; all 1 of 'tiny' are in bench.sqlite." in said
    assert "1 done, 0 failed, 2 left; about" in run("status", study)
    said = run("run", study)
    assert "2 fits carried out; all 3 of 'tiny'" in said and "1 fit did not end well" in said
    said = run("run", study)
    assert said.startswith("Nothing to do: 3 fits of 'tiny' are recorded in bench.sqlite.") and "did not end" in said
    assert "five 0 error: failed: RuntimeError: as asked" in run("status", study)
    assert "3 records written to results/tiny.jsonl" in run("export", study)
    lines = (tmp_path / "results" / "tiny.jsonl").read_text().splitlines()
    assert len(lines) == 3 and json.loads(lines[0])["method"] == "sleepy:Sleepy"
    assert "3 new records of 3 in other.sqlite" in run("import", "results/tiny.jsonl", "--store", "other.sqlite")
    assert "Nothing to do" in run("run", study, "--store", "other.sqlite")
    assert "2 done, 1 failed, 0 left" in run("status", study, "--store", "results/tiny.jsonl")
    assert "1 fit carried out" in run("run", study, "--retry-failed", "--quiet")


def test_compare_is_one_line(run: Callable[..., str], tmp_path: Path) -> None:
    said = run("compare", "ut-igsp, exact", "--task", "linear-er", "--seeds", 2, "--smoke", "--quiet")
    assert "| linear-er | ut-igsp |" in said and "| exact |" in said and "| seconds |" in said
    assert "figure written to compare-linear-er.png" in said and (tmp_path / "compare-linear-er.png").stat().st_size
    said = run("compare", "ut-igsp,exact", "--task", "linear-er", "--smoke")
    assert "Nothing to do" in said and "is left as it is; --overwrite replaces it" in said
    assert "did you mean 'ut-igsp'" in run("compare", "ut-isgp", code=2)
    assert "did you mean 'linear-er'" in run("compare", "mcmc", "--task", "liner-er", code=2)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "nothing.toml"), "There is no study 'nothing.toml'; give the path of a TOML file."),
        (("run", "linear", "--only", "mcm"), "The study has no method 'mcm' (did you mean 'mcmc'?)"),
        (("run", "linear", "--store", "folder"), "The store 'folder' cannot be used"),
        (("export", "linear"), "There is no store 'bench.sqlite'"),
        (("import", "none.jsonl"), "The records 'none.jsonl' cannot be read"),
        (("status", "linear", "--store", "none.jsonl"), "The records 'none.jsonl' cannot be read"),
        (("run", "linear", "--tasks", "0"), "--tasks"),
    ],
)
def test_refusals(run: Callable[..., str], tmp_path: Path, arguments: tuple, sentence: str) -> None:
    (tmp_path / "folder").mkdir()
    said = run(*arguments, code=2)
    assert said.startswith("Error: ") and sentence in said and said.count("\n") == 1


def test_simulate_takes_names(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["simulate", "linear-er", "--out", str(tmp_path / "task")])
    assert result.exit_code == 0 and (tmp_path / "task" / "spec.toml").exists()
    result = CliRunner().invoke(app, ["simulate", "linear-ar", "--out", str(tmp_path / "task")])
    assert result.exit_code == 2 and "did you mean 'linear-er'" in result.output
