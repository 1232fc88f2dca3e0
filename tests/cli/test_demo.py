"""`demo`: files, tables against the truth, picture."""

from pathlib import Path

import numpy as np

from bacadi.commands.demo import condensed
from bacadi.data.contexts import ContextData
from bacadi.posterior import Posterior

from .conftest import Run


def test_demo(run: Run, tmp_path: Path) -> None:
    for _ in range(2):  # the second run replaces the first
        result = run("demo", "--out", tmp_path / "demo")
        assert result.exit_code == 0, result.output
    for text in ("Edges", "Intervention targets", "probability", "truth", "4 of 4 found", "5 of 5 found, 0 wrong"):
        assert text in result.stdout
    expected = {"data.csv", "edges.csv", "targets.csv", "posterior.nc", "particles.png", "config.json", "log.jsonl"}
    assert {path.name for path in (tmp_path / "demo").iterdir()} == expected
    assert (tmp_path / "demo" / "particles.png").read_bytes().startswith(b"\x89PNG")


def test_demo_refuses_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    result = run("demo", "--out", tmp_path / "taken")
    assert result.exit_code == 2 and "is a file" in result.stderr


def test_equal_draws_are_shown_as_one_with_their_weight() -> None:
    data = ContextData(np.zeros((2, 2)), np.array([0, 1]), ("a", "b"), ("k",), "obs")
    one, none = [[0, 1], [0, 0]], [[0, 0], [0, 0]]
    targets = [[[1, 0]], [[1, 0]], [[1, 0]], [[0, 1]]]
    shown = condensed(Posterior.from_draws(data, np.array([none, one, one, one]), np.array(targets)))
    np.testing.assert_allclose(shown.weights, [[0.5, 0.25, 0.25]])
    assert shown.graph[0, 0].tolist() == one and shown.intervention_target[0, 0].tolist() == [[1, 0]]
