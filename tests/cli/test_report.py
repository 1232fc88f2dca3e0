"""`plot`, `report` and `fit --report`: what is written, where, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from bacadi.commands.plot import _NAMES
from bacadi.data.contexts import ContextData
from bacadi.posterior import Posterior
from bacadi.report import PLOTS

from .conftest import Run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished run, as far as these commands look at it."""
    data = ContextData(np.eye(6, 3), np.repeat([0, 1], 3), ("a", "b", "c"), ("ko",), "obs")
    graph = np.broadcast_to(np.eye(3, k=1), (2, 12, 3, 3))
    posterior = Posterior.from_draws(data, graph, np.broadcast_to([[0, 1, 0]], (2, 12, 1, 3)))
    (tmp_path / "run").mkdir()
    posterior.save(tmp_path / "run" / "posterior.nc")
    return tmp_path / "run"


def test_plot_draws_all_that_can_be_drawn(run: Run, folder: Path, tmp_path: Path) -> None:
    result = run("plot", folder, "--out", tmp_path / "pictures")
    assert result.exit_code == 0, result.output
    names = {path.stem for path in (tmp_path / "pictures").iterdir()}
    assert names == {"graph", "edges", "targets", "changes", "effects", "structures"}
    assert set(_NAMES.split(", ")) == set(PLOTS)
    assert "no shams: No shams were fitted" in result.stderr


@pytest.mark.parametrize(("to", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_plot_writes_the_format_asked_for_beside_the_run(run: Run, folder: Path, to: str, start: bytes) -> None:
    assert run("plot", folder, "edges", "targets", "--to", to).exit_code == 0
    assert (folder / f"targets.{to}").read_bytes().startswith(start)


def test_plot_refuses(run: Run, folder: Path) -> None:
    for arguments, words in (
        (["shams"], "No shams were fitted"),
        (["edgs"], "did you mean 'edges'"),
        (["edges", "--to", "jpg"], "--to takes png, svg, pdf"),
    ):
        result = run("plot", folder, *arguments)
        assert result.exit_code == 2 and words in result.stderr
    (folder / "edges.png").write_text("mine")
    result = run("plot", folder, "edges")
    assert result.exit_code == 2 and "--overwrite" in result.stderr and (folder / "edges.png").read_text() == "mine"
    assert run("plot", folder / "nothing").exit_code == 2


def test_report_is_one_file_and_nothing_is_replaced_unasked(run: Run, folder: Path, tmp_path: Path) -> None:
    result = run("report", folder)
    assert result.exit_code == 0 and "report.html" in result.stdout, result.output
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert run("report", folder).exit_code == 2
    assert run("report", folder, "--overwrite").exit_code == 0
    assert run("report", folder / "posterior.nc", "--out", tmp_path / "page.html").exit_code == 0
    assert run("report", folder, "--out", folder / "posterior.nc", "--overwrite").exit_code == 2
    assert run("report", tmp_path / "nowhere").exit_code == 2


def test_fit_writes_a_report_and_replaces_it_with_the_run(run: Run, plain: list[str], tmp_path: Path) -> None:
    small = [*plain, "--sweeps", "40", "--draws", "20"]
    result = run(*small, "--report")
    assert result.exit_code == 0, result.output
    assert "report.html" in result.stdout and json.loads((tmp_path / "run" / "config.json").read_text())["report"]
    first = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "What causes what in table.csv" in first and "30 rows of 3 variables" in first and "It took" in first
    assert run("resume", tmp_path / "run", "--sweeps", "60").exit_code == 0
    assert (tmp_path / "run" / "report.html").read_text(encoding="utf-8") != first
    assert run(*small, "--overwrite").exit_code == 0
    assert not (tmp_path / "run" / "report.html").exists(), "a page of a run that is gone"
