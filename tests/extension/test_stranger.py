"""What it costs to add a thing: one file, and one line for a short name. Each test does what a stranger does."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import bacadi
from bacadi.cli import app
from bacadi.config.names import BASELINE, MECHANISM, NAMES
from bacadi.testing import check_mechanism

TASK = """
type = "synthetic"
n_variables = 3
n_observational = 40

[graph]
type = "erdos-renyi"
edges_per_node = 0.7

[mechanism]
type = "mine:UnitLinear"
weight_std = 2.0

[interventions]
rows_per_context = 15

[held_out]
n_contexts = 2
rows_per_context = 10
targets_per_context = 1
"""
SHORT = {"mcmc": ("--sweeps", 60, "--draws", 40), "svgd": ("--steps", 200, "--particles", 4)}


@pytest.fixture(autouse=True)
def on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments: object) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def task(tmp_path: Path) -> Path:
    (tmp_path / "task.toml").write_text(TASK)
    done("simulate", tmp_path / "task.toml", "--out", tmp_path / "task", "--seed", 1)
    return tmp_path / "task"


def fit(task: Path, out: Path, *options: object) -> Result:
    data = ("fit", task / "data.csv", "--context", "context", "--observational", "obs", "--out", out)
    return run(*data, *options)


def test_a_mechanism_passes_the_check() -> None:
    from mine import UnitLinear

    check_mechanism(UnitLinear())


@pytest.mark.parametrize("method", SHORT)
def test_a_mechanism_in_one_file(method: str, task: Path, tmp_path: Path) -> None:
    """Simulated above; fitted by each reading, named in a flag and in a file; evaluated; its record is not trusted."""
    out = tmp_path / "run"
    (tmp_path / "my.toml").write_text("[model.mechanism]\ntype = 'mine:UnitLinear'\nweight_std = 2\n")
    result = fit(task, out, "--config", tmp_path / "my.toml", "--method", method, *SHORT[method])
    assert result.exit_code == 0, result.output
    record = json.loads((out / "config.json").read_text())["configuration"]["model"]["mechanism"]
    assert record == {"type": "mine:UnitLinear", "weight_std": 2.0}
    without = done("evaluate", out, "--truth", task)
    assert "--import mine" in without.stderr and "interventional_nll " not in without.stdout
    assert "interventional_nll " in done("evaluate", out, "--truth", task, "--import", "mine").stdout
    assert fit(task, tmp_path / "flag", "--model", "mine:UnitLinear", "--method", method, *SHORT[method]).exit_code == 0


def test_a_mechanism_with_one_line(task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NAMES[MECHANISM], "unit-linear", "mine:UnitLinear")
    result = fit(task, tmp_path / "run", "--model", "unit-linear", *SHORT["mcmc"])
    assert result.exit_code == 0, result.output
    done("evaluate", tmp_path / "run", "--truth", task)
    posterior = bacadi.load(tmp_path / "run" / "posterior.nc")
    assert posterior.attrs["configuration"]["model"]["mechanism"]["type"] == "unit-linear"


def test_a_baseline_in_one_file_and_with_one_line(task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "[method]\ntype = 'bootstrap'\nn_samples = 2\njobs = 1\n[method.baseline]\ntype = 'mine:FarMeans'\n"
    (tmp_path / "my.toml").write_text(text + "threshold = 2.5\n")
    assert fit(task, tmp_path / "one", "--config", tmp_path / "my.toml").exit_code == 0
    monkeypatch.setitem(NAMES[BASELINE], "far-means", "mine:FarMeans")
    result = fit(task, tmp_path / "two", "--method", "far-means", "--samples", 2, "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "two" / "config.json").read_text())["method"] == "far-means"
    done("evaluate", tmp_path / "two", "--truth", task)


def test_an_option_of_a_method_in_one_place(task: Path, tmp_path: Path) -> None:
    """The field of the class is its key in files, its range in messages and its value in the record."""
    (tmp_path / "my.toml").write_text("[method]\ntype = 'mine:PatientMCMC'\npatience = 2\nn_draws = 20\n")
    assert fit(task, tmp_path / "run", "--config", tmp_path / "my.toml").exit_code == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["configuration"]["method"]["patience"] == 2
    (tmp_path / "my.toml").write_text("[method]\ntype = 'mine:PatientMCMC'\npatience = 0\n")
    refused = fit(task, tmp_path / "no", "--config", tmp_path / "my.toml")
    assert refused.exit_code == 2 and "'patience'" in refused.stderr and "at least 1" in refused.stderr
