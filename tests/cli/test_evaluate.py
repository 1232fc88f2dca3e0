"""`evaluate`: the numbers of `bacadi.metrics`, a table that explains each, JSON, and what is refused."""

import hashlib
import json
import re
import runpy
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bacadi
from bacadi.data.labelled import Labelled
from bacadi.data.tables import from_file
from bacadi.metrics.evaluate import METRICS, descriptions, evaluate
from bacadi.posterior import Posterior
from bacadi.simulate import Task, read_spec, simulate

from .conftest import Run
from .test_refusals import assert_refused

ROOT = Path(__file__).parents[2]
SPEC = """
type = "synthetic"
n_variables = 5
n_observational = 30
standardize = {standardize}
[graph]
type = "erdos-renyi"
edges_per_node = 1
[held_out]
n_contexts = 3
rows_per_context = 4
targets_per_context = 2
"""


def simulated(run: Run, tmp_path: Path, standardize: bool = False) -> Task:
    """A task in memory and, the same, in the folder `task`."""
    spec = tmp_path / "task.toml"
    spec.write_text(SPEC.format(standardize=str(standardize).lower()))
    assert run("simulate", spec, "--seed", 3, "--out", tmp_path / "task").exit_code == 0
    return simulate(read_spec(spec), 3)


def posterior_of(task: Task, graphs: list[np.ndarray], targets: np.ndarray) -> Posterior:
    """Equally likely graphs, all with the same targets, with linear weights and means of effects."""
    n = len(graphs)
    rng = np.random.default_rng(0)
    parameters = {
        "weight": Labelled(rng.normal(size=(n, 5, 5)), ("source", "target")),
        "effect_mean": Labelled(rng.normal(size=(n, 5, 5)), ("context", "node")),
        "noise_std": Labelled(np.ones((n, 5)), ("node",)),
    }
    return Posterior.from_draws(task.data, np.stack(graphs), np.stack([targets] * n), parameters=parameters)


def values_of(run: Run, tmp_path: Path, posterior: Posterior) -> dict[str, float]:
    posterior.save(tmp_path / "run" / "posterior.nc")
    result = run(
        "evaluate", tmp_path / "run", "--truth", tmp_path / "task", "--json", tmp_path / "values.json", "--overwrite"
    )
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "values.json").read_text())
    assert record["bacadi"] == bacadi.__version__ and record["truth"] == str(tmp_path / "task")
    for name in record["metrics"]:
        line = next(line for line in result.stdout.splitlines() if line.split()[:1] == [name])
        assert descriptions()[name] in line, f"the table does not say what a good {name} is"
    return record["metrics"]


def test_the_truth_scores_best(run: Run, tmp_path: Path) -> None:
    task = simulated(run, tmp_path)
    values = values_of(run, tmp_path, posterior_of(task, [task.graph], task.targets))
    for name in ("expected_sid", "expected_shd", "cyclic_share", "edge_brier", "target_calibration_error"):
        assert values[name] == 0, name
    for name in ("edge_average_precision", "edge_auprc", "target_average_precision", "target_top_accuracy"):
        assert values[name] == 1, name
    assert values["edge_prevalence"] == pytest.approx(task.graph.sum() / 20)


def test_the_empty_graph_scores_what_the_table_says(run: Run, tmp_path: Path) -> None:
    task = simulated(run, tmp_path)
    values = values_of(run, tmp_path, posterior_of(task, [0 * task.graph], 0 * task.targets))
    assert values["expected_shd"] == task.graph.sum()
    assert values["edge_auprc"] == pytest.approx((1 + task.graph.sum() / 25) / 2)
    assert values["edge_average_precision"] == values["edge_prevalence"] == values["edge_brier"]
    assert values["target_auprc"] == pytest.approx((1 + values["target_prevalence"]) / 2)
    assert values["target_brier"] == values["target_prevalence"]
    assert values["effect_mean_coverage"] == 0


@pytest.mark.parametrize("standardize", [False, True])
def test_files_and_memory_give_the_same_numbers(standardize: bool, run: Run, tmp_path: Path) -> None:
    """A fit reads its data from the table, whose scaling is the identity; a task in memory knows its scaling."""
    task = simulated(run, tmp_path, standardize)
    in_memory = posterior_of(task, [task.graph, 0 * task.graph], task.targets)
    read = from_file(tmp_path / "task" / "data.csv", "context", "obs")
    from_table = posterior_of(replace(task, data=read), [task.graph, 0 * task.graph], task.targets)
    expected = evaluate(in_memory, task)
    assert values_of(run, tmp_path, from_table) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert {"interventional_nll", "interventional_nll_of_truth", "total_effect_rmse", "effect_mean_rmse"} <= set(
        expected
    )


def test_names_decide_and_not_positions(run: Run, tmp_path: Path) -> None:
    task = simulated(run, tmp_path)
    posterior = posterior_of(task, [task.graph], task.targets)
    order = [3, 1, 4, 0, 2]
    data = replace(task.data, x=task.data.x[:, order], variables=tuple(task.data.variables[i] for i in order))
    moved = Posterior.from_draws(data, task.graph[np.ix_(order, order)][None], task.targets[:, order][None])
    plain = Posterior.from_draws(task.data, task.graph[None], task.targets[None])
    assert values_of(run, tmp_path, moved) == pytest.approx(values_of(run, tmp_path, plain), rel=1e-9, abs=1e-12)
    assert evaluate(posterior, task)["expected_sid"] == 0


def test_the_documented_example_runs(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of docs/tasks.md one after the other, and no word about other data where the data are the same."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    shell, python = (re.search(rf"^```{kind}\n(.*?)^```", page, re.M | re.S).group(1) for kind in ("console", "python"))
    commands = [shlex.split(line) for line in shell.splitlines()]
    assert [command[:2] for command in commands] == [["bacadi", name] for name in ("simulate", "fit", "evaluate")]
    for command in commands:
        result = run(*command[1:])
        assert result.exit_code == 0, result.output
    assert result.stderr == "" and "interventional_nll_of_truth" in result.stdout
    assert json.loads(Path("scores.json").read_text())["metrics"]["target_average_precision"] > 0.5
    assert run("evaluate", "run/posterior.nc", "--truth", "task").stdout == result.stdout
    names: dict[str, Any] = {}
    exec(python, names)
    np.testing.assert_array_equal(names["task"].data.x, names["truth"].data.x)


def test_the_page_of_metrics_has_them_all_and_the_numbers_of_the_script() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    for name in descriptions():
        short = re.sub(r"^(edge|target)_(brier_)", r"…_\2", name)
        assert f"`{name}`" in page or f"`{short}`" in page, name
    script = runpy.run_path(str(ROOT / "benchmarks" / "metric_traps.py"))
    rows = [line for line in page.splitlines() if line.startswith("|")]
    found = [line for table in script["tables"](10) for line in table.splitlines()]
    assert len(rows) == len(found)
    for row, expected in zip(rows, found, strict=True):
        for cell, number in zip(row.split("|"), expected.split("|"), strict=True):
            if re.fullmatch(r" [\d.]+ ", number):  # the last digit may differ between linear algebra libraries
                assert float(cell) == pytest.approx(float(number), rel=0.1, abs=0.011)
            else:
                assert cell == number


def test_a_posterior_of_other_data_is_pointed_out(run: Run, tmp_path: Path) -> None:
    task = simulated(run, tmp_path)
    posterior = posterior_of(task, [task.graph], task.targets)
    digest = hashlib.sha256((tmp_path / "task" / "data.csv").read_bytes()).hexdigest()
    for sha256, warned in ((digest, False), ("0" * 64, True)):
        replace(posterior, attrs={**posterior.attrs, "data_sha256": sha256}).save(tmp_path / "run" / "posterior.nc")
        result = run("evaluate", tmp_path / "run", "--truth", tmp_path / "task")
        assert result.exit_code == 0 and ("another file" in result.stderr) == warned


MINE = """
from bacadi.metrics import metric
from bacadi.model.linear import LinearGaussian

class Mine(LinearGaussian):
    pass

@metric(edges_drawn="no score: expected number of edges")
def edges_drawn(comparison):
    return float(comparison.weights @ comparison.graphs.sum(axis=(1, 2)))
"""


def test_a_module_of_ones_own_brings_its_mechanism_and_its_metrics(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that a file names is imported unasked; with --import the likelihood and the metric are there."""
    task = simulated(run, tmp_path)
    (tmp_path / "mine_of_test_evaluate.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    attrs = {"configuration": {"model": {"mechanism": {"type": "mine_of_test_evaluate:Mine"}}}}
    replace(posterior_of(task, [task.graph], task.targets), attrs=attrs).save(tmp_path / "run" / "posterior.nc")
    command = ("evaluate", tmp_path / "run", "--truth", tmp_path / "task")
    unasked = run(*command)
    assert unasked.exit_code == 0 and "interventional_nll" not in unasked.stdout
    assert unasked.stderr.startswith("Warning: ") and "--import mine_of_test_evaluate" in unasked.stderr
    assert "mine_of_test_evaluate" not in sys.modules
    try:
        asked = run(*command, "--import", "mine_of_test_evaluate")
        assert asked.exit_code == 0 and asked.stderr == "" and "interventional_nll" in asked.stdout
        assert re.search(r"^edges_drawn +\S+  no score: expected number of edges$", asked.stdout, re.M)
    finally:
        METRICS.pop(sys.modules.pop("mine_of_test_evaluate").edges_drawn)
    assert_refused(run(*command, "--import", "no_such_module"), "--import no_such_module", "cannot be imported")


def test_refusals(run: Run, tmp_path: Path) -> None:
    task = simulated(run, tmp_path)
    posterior_of(task, [task.graph], task.targets).save(tmp_path / "run" / "posterior.nc")
    truth = ("--truth", tmp_path / "task")
    assert_refused(run("evaluate", tmp_path / "run"), "--truth DIR")
    assert_refused(run("evaluate", tmp_path / "none", *truth), "none")
    assert_refused(run("evaluate", tmp_path, *truth), "posterior.nc")
    assert_refused(run("evaluate", tmp_path / "run", "--truth", tmp_path), "no complete task")
    assert_refused(run("evaluate", tmp_path / "run", "--truth", tmp_path / "none"), "is no folder")
    assert_refused(run("evaluate", tmp_path / "run", *truth, "--json", tmp_path), "is a folder")
    other = replace(task.data, variables=("x1", "x2", "x3", "x4", "y"))
    Posterior.from_draws(other, task.graph[None], task.targets[None]).save(tmp_path / "run" / "posterior.nc")
    assert_refused(run("evaluate", tmp_path / "run", *truth), "variables")
