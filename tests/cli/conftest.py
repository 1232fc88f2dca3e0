"""A small table with a known cause and the commands run in this process, so that compiled code is shared."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from bacadi.cli import app

Run = Callable[..., Result]

TINY = ("--particles", "4", "--steps", "20")


@pytest.fixture
def run() -> Run:
    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return invoke


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """a -> b -> c with contexts named after their targets, `b` and `a+c`."""
    rng = np.random.default_rng(0)
    context = np.repeat(["obs", "b", "a+c"], 10)
    a = np.where(context == "a+c", 4.0, rng.normal(size=30)) + 0.1 * rng.normal(size=30)
    b = np.where(context == "b", -3.0, 1.5 * a) + 0.3 * rng.normal(size=30)
    c = np.where(context == "a+c", 5.0, -b) + 0.3 * rng.normal(size=30)
    lines = [f"{x:.4f},{y:.4f},{z:.4f},{label}" for x, y, z, label in zip(a, b, c, context, strict=True)]
    path = tmp_path / "table.csv"
    path.write_text("a,b,c,context\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def arguments(table: Path, tmp_path: Path) -> list[str]:
    """A tiny fit of the table by SVGD into the folder `run`."""
    config = tmp_path / "small.toml"
    # Steep schedules, so that twenty steps leave acyclic particles for every seed in use.
    config.write_text(
        "[method]\ntype = 'svgd'\nreader = 'limit'\n[method.estimator]\ntype = 'relaxed'\nn_samples = 8\n"
        "[method.optimizer]\ntype = 'rmsprop'\nlearning_rate = 0.1\n[method.beta]\ntype = 'ramp'\nslope = 200\n"
    )
    known = ["fit", str(table), "--context", "context", "--observational", "obs", "--config", str(config)]
    return [*known, "--method", "svgd", *TINY, "--out", str(tmp_path / "run")]


@pytest.fixture
def plain(table: Path, tmp_path: Path) -> list[str]:
    """A fit of the table without any choice, into the folder `run`."""
    return ["fit", str(table), "--context", "context", "--observational", "obs", "--out", str(tmp_path / "run")]
