"""Kills at random points, while starts are searched and files are written included: `resume` gives the same values.

Slow: `make test-slow`. A run is killed with SIGKILL after a random share of the time it takes, resumed, killed again,
and so on until it ends.
"""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bacadi.posterior import load
from bacadi.simulate import Interventions, RandomErdosRenyi, SyntheticSpec, simulate
from bacadi.simulate.files import CONTEXT, TRAINING, write_task

KINDS = {
    "linear": ("--sweeps", "6000", "--draws", "200"),
    "nonlinear": ("--model", "nonlinear", "--sweeps", "150", "--draws", "100"),
    "svgd": ("--method", "svgd", "--steps", "1500", "--particles", "6"),
    "jci-pc": ("--method", "jci-pc", "--samples", "40"),
}
KILLS = 15  # of each kind, 60 in all


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "bacadi", *map(str, arguments)]


def killed(arguments: list[str], after: float) -> bool:
    """Run a command and kill it after so many seconds; whether it was still running then."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(timeout=after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True
    assert process.returncode == 0
    return False


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_runs_that_are_killed_again_and_again(kind: str, tmp_path: Path) -> None:
    spec = SyntheticSpec(6, RandomErdosRenyi(2), interventions=Interventions(rows_per_context=20))
    task, rng = simulate(spec, 3), np.random.default_rng(0)
    write_task(task, tmp_path / "task")
    fit = command("fit", tmp_path / "task" / TRAINING[0], "--context", CONTEXT, "--observational")
    fit += [task.data.observational, *KINDS[kind], "--checkpoint-every", "0.3", "--quiet", "--out"]
    begin = time.monotonic()
    subprocess.run([*fit, str(tmp_path / "warm")], check=True)
    begin = time.monotonic()
    subprocess.run([*fit, str(tmp_path / "whole")], check=True)
    takes, kills, at = time.monotonic() - begin, 0, 0
    while kills < KILLS:
        folder = tmp_path / f"killed{at}"
        at += 1
        while killed([*fit, str(folder), "--resume"], rng.uniform(0.1, 1.1) * takes):
            kills += 1
        assert {path.name for path in folder.iterdir()} == {path.name for path in (tmp_path / "whole").iterdir()}
        for name in ("edges.csv", "targets.csv", "posterior.nc"):
            assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), (kind, kills, name)
    assert load(tmp_path / "whole" / "posterior.nc").n_draws > 1
