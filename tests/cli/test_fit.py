"""`fit` by SVGD, `resume` and `export` on a tiny table: the files of the contract, determinism, interruption."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from click.testing import Result

import bacadi
from bacadi import cli
from bacadi.commands import watch

from ..small import EDGE_COLUMNS, TARGET_COLUMNS
from .conftest import Run
from .test_refusals import assert_refused

FILES = {"edges.csv", "targets.csv", "posterior.nc", "config.json", "log.jsonl"}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def said(result: Result) -> list[str]:
    """The lines on stderr but for the notice that compiling takes a while."""
    return [line for line in result.stderr.splitlines() if not line.startswith("compiling")]


def events(folder: Path) -> list[str]:
    return [json.loads(line)["event"] for line in (folder / "log.jsonl").read_text().splitlines()]


@pytest.fixture
def done(run: Run, arguments: list[str]) -> Path:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return Path(arguments[-1])


def test_files_of_the_contract(done: Path) -> None:
    assert {path.name for path in done.iterdir()} == FILES
    edges, targets = rows(done / "edges.csv"), rows(done / "targets.csv")
    assert tuple(edges[0]) == EDGE_COLUMNS
    assert {(row["source"], row["target"]) for row in edges} == {(i, j) for i in "abc" for j in "abc" if i != j}
    assert tuple(targets[0]) == TARGET_COLUMNS
    assert {(row["context"], row["variable"]) for row in targets} == {(k, i) for k in ("b", "a+c") for i in "abc"}
    for table in (edges, targets):
        probability = [float(row["probability"]) for row in table]
        assert probability == sorted(probability, reverse=True) and 0 <= min(probability) <= max(probability) <= 1


def test_posterior_and_record(done: Path, table: Path) -> None:
    posterior = bacadi.load(done / "posterior.nc")
    assert posterior.graph.shape == (1, 4, 3, 3) and posterior.intervention_target.shape == (1, 4, 2, 3)
    assert posterior.attrs["seed"] == 0 and posterior.attrs["version"] == bacadi.__version__
    assert posterior.attrs["configuration"]["method"]["estimator"]["n_samples"] == 8
    assert {"configuration", "preset", "data_sha256"} <= set(posterior.attrs)
    record = json.loads((done / "config.json").read_text())
    assert record["data"]["path"] == str(table.resolve()) and record["configuration"]["method"]["n_steps"] == 20
    assert events(done)[0] == "start" and events(done)[-1] == "done"


def test_summary_and_quiet(run: Run, arguments: list[str]) -> None:
    result = run(*arguments)
    assert "4 draws" in result.stdout and "edges.csv" in result.stdout and said(result) == []
    silent = run(*arguments, "--quiet", "--overwrite")
    assert (silent.exit_code, silent.stdout, silent.stderr) == (0, "", "")


def test_warnings_of_the_doctor_go_to_stderr(run: Run, arguments: list[str]) -> None:
    at = arguments.index("--observational")
    result = run(*arguments[: at + 1], "", *arguments[at + 2 :])
    assert result.exit_code == 0 and len(said(result)) == 1 and said(result)[0].startswith("Warning: ")


def test_equal_seeds_give_equal_bytes_and_others_do_not(run: Run, arguments: list[str], tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        assert run(*arguments, "--seed", seed, "--out", tmp_path / name).exit_code == 0
    for file in ("edges.csv", "targets.csv", "config.json", "posterior.nc"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    first, third = (bacadi.load(tmp_path / name / "posterior.nc") for name in ("one", "three"))
    assert not np.array_equal(first.parameters["weight"].values, third.parameters["weight"].values)


def test_known_targets_and_standardised_data(run: Run, arguments: list[str]) -> None:
    assert run(*arguments, "--targets", "known", "--standardize").exit_code == 0
    folder = Path(arguments[-1])
    said = {(row["context"], row["variable"]): float(row["probability"]) for row in rows(folder / "targets.csv")}
    assert {cell for cell, probability in said.items() if probability == 1} == {("b", "b"), ("a+c", "a"), ("a+c", "c")}
    assert set(said.values()) == {0.0, 1.0}
    assert bacadi.load(folder / "posterior.nc").constant_data["scale"].values.min() != 1


def interrupt_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = watch.Interrupts.between_chunks
    calls = []

    def interrupted(self: watch.Interrupts, last: bool = False) -> None:
        calls.append(1)
        if len(calls) == step:
            raise KeyboardInterrupt
        usual(self, last)

    monkeypatch.setattr(watch.Interrupts, "between_chunks", interrupted)


def test_interrupt_and_resume_equal_one_run(
    run: Run, arguments: list[str], done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other run"
    interrupt_at(1, monkeypatch)
    result = run(*arguments, "--out", other)
    assert result.exit_code == 130 and len(said(result)) == 1 and "bacadi resume" in said(result)[0]
    assert {path.name for path in other.iterdir()} == {"config.json", "log.jsonl", "checkpoint.npz"}
    assert events(other) == ["start", "opening", "checkpoint", "interrupted"]
    assert_refused(run(*arguments, "--out", other), "holds an unfinished run")
    assert_refused(run("export", other), "bacadi resume")

    assert run("resume", other).exit_code == 0
    assert {path.name for path in other.iterdir()} == FILES
    assert events(other)[3:5] == ["interrupted", "resume"] and events(other)[-1] == "done"
    for file in ("edges.csv", "targets.csv"):
        assert (other / file).read_bytes() == (done / file).read_bytes()
    one, two = (bacadi.load(folder / "posterior.nc") for folder in (done, other))
    for group in ("parameters", "sample_stats"):
        for name, parameter in getattr(one, group).items():
            np.testing.assert_array_equal(parameter.values, getattr(two, group)[name].values)
    complete = run("resume", other)
    assert complete.exit_code == 0 and "complete already" in complete.stdout


def test_resume_refuses_other_data(
    run: Run, arguments: list[str], table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_at(1, monkeypatch)
    assert run(*arguments).exit_code == 130
    content = table.read_text()
    table.write_text(content.replace("\n0.", "\n1.", 1))
    assert_refused(run("resume", arguments[-1]), "has changed")
    table.unlink()
    assert_refused(run("resume", arguments[-1]), "is gone")
    table.write_text(content)
    (Path(arguments[-1]) / "checkpoint.npz").unlink()
    again = run("resume", arguments[-1])
    assert again.exit_code == 0 and "starts over" in again.stderr


def test_first_interrupt_waits_for_the_chunk_and_the_second_does_not() -> None:
    import signal

    with pytest.raises(KeyboardInterrupt), watch.Interrupts() as interrupts:
        interrupts.between_chunks()
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupts.between_chunks()
    with watch.Interrupts(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_export_formats(run: Run, done: Path, tmp_path: Path) -> None:
    assert run("export", done).stdout.startswith("source,target,probability,mean_weight,given_adjacent,log_odds\n")
    for to in ("csv", "graphml", "dot", "json"):
        out = tmp_path / f"graph.{to}"
        assert run("export", done, "--to", to, "--out", out, "--threshold", 0.4).exit_code == 0
        assert out.read_text() == run("export", done / "posterior.nc", "--to", to, "--threshold", 0.4).stdout
    assert set(nx.read_graphml(tmp_path / "graph.graphml").nodes) == {"a", "b", "c"}
    linked = json.loads((tmp_path / "graph.json").read_text())
    assert nx.node_link_graph(linked, edges="edges").number_of_nodes() == 3
    assert (tmp_path / "graph.dot").read_text().startswith("digraph")
    assert_refused(run("export", done, "--to", "grapml"), "did you mean 'graphml'")
    assert_refused(run("export", done, "--to", "dot", "--threshold", 2), "2")
    assert_refused(run("export", done, "--out", tmp_path), "is a folder")


def test_export_and_refused_fit_import_no_jax(done: Path, table: Path) -> None:
    script = """
import sys
from bacadi.cli import main
try:
    main()
except SystemExit as end:
    print(end.code, "jax" in sys.modules)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[1])}
    for command, code in ((("export", str(done), "--to", "dot"), "0"), (("fit", str(table), "--out", "x"), "2")):
        out = subprocess.run(
            [sys.executable, "-c", script, *command], capture_output=True, text=True, env=environment, check=True
        ).stdout
        assert out.splitlines()[-1].split() == [code, "False"]
