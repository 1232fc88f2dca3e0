"""For programs: one JSON object on stdout, exit codes, a truth of one's own."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bacadi.commands.run import LISTED_FROM, conclude, failures
from bacadi.posterior import load

from .conftest import Run
from .test_refusals import assert_refused

SHORT = ("--sweeps", "60", "--draws", "40")


def test_json_is_the_only_thing_on_stdout(run: Run, plain: list[str], tmp_path: Path) -> None:
    result = run(*plain, *SHORT, "--json")
    assert result.exit_code == 0
    found, posterior = json.loads(result.stdout), load(tmp_path / "run" / "posterior.nc")
    assert found["verdict"] == posterior.verdict() and found["converged"] is posterior.attrs["converged"]
    assert found["contexts"] == list(posterior.contexts) and found["variables"] == ["a", "b", "c"]
    likely = posterior.edge_probabilities() >= LISTED_FROM
    assert {(e["source"], e["target"]) for e in found["edges"]} == {
        (posterior.variables[i], posterior.variables[j]) for i, j in np.argwhere(likely)
    }
    assert all({"context", "variable", "probability", "change"} <= set(row) for row in found["targets"])
    assert all(Path(path).is_file() for path in found["files"].values())
    assert found["doubts"] == [*posterior.attrs["warnings"], *posterior.attrs["misfit"]]
    assert found["trusted"] is (not failures(posterior))
    again = run(*plain, *SHORT, "--json", "--resume")
    assert again.exit_code == 0 and json.loads(again.stdout) == found and "complete already" in again.stderr
    silent = run(*plain, *SHORT, "--json", "--quiet", "--overwrite")
    assert json.loads(silent.stdout) == found


def test_what_is_certain_has_no_log_odds_in_json(run: Run, plain: list[str]) -> None:
    result = run(*plain, *SHORT, "--json", "--targets", "known-with-off-targets")
    own = [row for row in json.loads(result.stdout)["targets"] if row["variable"] in row["context"].split("+")]
    assert len(own) == 3 and all(row["probability"] == 1 and row["log_odds"] is None for row in own)


def test_bad_input_leaves_stdout_empty(run: Run, plain: list[str]) -> None:
    result = run(*plain, "--json", "--sweeps", "-1")
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.parametrize(
    ("attrs", "words"),
    [
        ({"converged": True, "misfit": []}, None),
        ({}, None),
        ({"converged": False}, "the draws did not converge"),
        ({"converged": True, "misfit": ["Residuals …"]}, "the model does not fit"),
        ({"converged": True, "shams": {"words": [], "warnings": ["Shams …"]}}, "shams name targets"),
    ],
)
def test_strict(run: Run, plain: list[str], tmp_path: Path, attrs: dict, words: str | None, capsys) -> None:
    """What `--strict` does is a function of the posterior; the draws are of one short run."""
    import typer

    run(*plain, *SHORT, "--quiet")
    posterior = load(tmp_path / "run" / "posterior.nc")
    kept = {key: value for key, value in posterior.attrs.items() if key not in ("converged", "misfit", "shams")}
    posterior = replace(posterior, attrs=kept | attrs)
    conclude(posterior, tmp_path, True)
    if words is None:
        conclude(posterior, tmp_path, True, strict=True)
        return
    with pytest.raises(typer.Exit) as stop:
        conclude(posterior, tmp_path, True, as_json=True, strict=True)
    assert stop.value.exit_code == 3
    said = capsys.readouterr()
    assert words in said.err and json.loads(said.out)["trusted"] is False


def test_strict_on_the_command_line(run: Run, plain: list[str]) -> None:
    """Four sweeps cannot converge, by the diagnostics' own rule."""
    result = run(*plain, "--sweeps", "4", "--draws", "4", "--strict", "--quiet")
    assert result.exit_code == 3 and "did not converge" in result.stderr
    assert run(*plain, "--sweeps", "4", "--draws", "4", "--quiet", "--overwrite").exit_code == 0


@pytest.fixture
def fitted(run: Run, plain: list[str], tmp_path: Path) -> Path:
    run(*plain, *SHORT, "--quiet")
    return tmp_path / "run"


def values(text: str) -> dict[str, float]:
    return {line.split()[0]: float(line.split()[1]) for line in text.splitlines()[1:]}


def test_a_truth_of_ones_own(run: Run, fitted: Path, tmp_path: Path) -> None:
    edges, targets = tmp_path / "gold.csv", tmp_path / "hit.csv"
    edges.write_text("target,source,reference\nb,a,Smith 2001\nc,b,\n")
    targets.write_text("context,variable\nb,b\na+c,a\na+c,c\n")
    alone = run("evaluate", fitted, "--truth", edges)
    both = run("evaluate", fitted, "--truth", edges, "--true-targets", targets, "--json", tmp_path / "values.json")
    assert alone.exit_code == both.exit_code == 0 and alone.stderr == both.stderr == ""
    assert not any(name.startswith("target_") for name in values(alone.stdout))
    found = json.loads((tmp_path / "values.json").read_text())["metrics"]
    posterior = load(fitted / "posterior.nc")
    truth = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    distance = (posterior.weights[..., None, None] * np.abs(posterior.graph - truth)).sum()
    # A turned edge is one error of SHD and two of the difference of matrices.
    assert distance / 2 <= found["expected_shd"] <= distance
    assert found["edge_prevalence"] == pytest.approx(2 / 6) and found["target_prevalence"] == pytest.approx(3 / 6)
    assert values(both.stdout).keys() == found.keys() and "expected_sid" in found and "expected_class_shd" in found


def test_a_cyclic_truth_and_unknown_names_are_warned_about(run: Run, fitted: Path, tmp_path: Path) -> None:
    edges = tmp_path / "gold.csv"
    edges.write_text("source,target\na,b\nb,c\nc,a\nz,a\n")
    result = run("evaluate", fitted, "--truth", edges)
    assert result.exit_code == 0 and "expected_sid" not in result.stdout and "edge_auprc" in result.stdout
    assert "has a cycle" in result.stderr and "1 of 4 lines of 'gold.csv' are left out" in result.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("from,to\na,b\n", ("Line 1", "source,target")),
        ("", ("Line 1", "source,target")),
        ("source,target\na,a\n", ("own cause",)),
        ("source,target\na\n", ("Line 2", "1 value")),
        ("source,target\nx,y\n", ("No line", "'x'")),
        ("source,target\na,b\na,c\nb,a\nb,c\nc,a\nc,b\n", ("every pair",)),
    ],
)
def test_a_truth_that_makes_no_sense_is_refused(
    run: Run, fitted: Path, tmp_path: Path, text: str, words: tuple[str, ...]
) -> None:
    (tmp_path / "gold.csv").write_text(text)
    assert_refused(run("evaluate", fitted, "--truth", tmp_path / "gold.csv"), *words)
