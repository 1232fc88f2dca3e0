"""Time budgets asked of `bacadi fit` and times taken by the whole command.

    python benchmarks/budgets.py
    python benchmarks/budgets.py linear-100 --budgets 30 60

Each row is one command on a simulated task: budget, wall time, the excess over the budget, sweeps made,
and whether the run calls itself converged. Run it on an idle machine; compile caches are warmed by `bacadi warm-up`.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bacadi.posterior import load
from bacadi.simulate import AbstractSpec, Interventions, NeuralTruth, SyntheticSpec, simulate
from bacadi.simulate.files import CONTEXT, TRAINING, write_task


def linear(d: int) -> SyntheticSpec:
    """The paper's recipe: 100 observational rows and ten for an intervention on each variable."""
    return SyntheticSpec(d)


def nonlinear(rows: int) -> SyntheticSpec:
    """Networks on twenty variables, so many rows in all."""
    return SyntheticSpec(
        20, mechanism=NeuralTruth(), n_observational=rows // 3, interventions=Interventions(rows_per_context=rows // 30)
    )


TASKS: dict[str, tuple[AbstractSpec, tuple[str, ...], tuple[float, ...]]] = {
    "linear-20": (linear(20), ("--sweeps", "1000000"), (5, 20)),
    "linear-50": (linear(50), ("--sweeps", "1000000"), (30,)),
    "linear-100": (linear(100), ("--sweeps", "1000000"), (60,)),
    "linear-200": (linear(200), ("--sweeps", "1000000"), (120,)),
    "nonlinear-300": (nonlinear(300), ("--model", "nonlinear", "--sweeps", "1000000"), (30,)),
    "nonlinear-3000": (nonlinear(3000), ("--model", "nonlinear", "--sweeps", "1000000"), (90,)),
}


def row(name: str, budget: float, folder: Path) -> str:
    """One line of the table."""
    spec, options, _ = TASKS[name]
    task = simulate(spec, 0)
    write_task(task, folder / "task")
    command = [sys.executable, "-m", "bacadi", "fit", str(folder / "task" / TRAINING[0]), "--context", CONTEXT]
    command += ["--observational", str(task.data.observational), "--time-budget", str(budget), *options, "--quiet"]
    begin = time.monotonic()
    done = subprocess.run([*command, "--out", str(folder / "run")], capture_output=True, text=True)
    taken = time.monotonic() - begin
    if done.returncode:
        return f"{name:16s}{budget:8.0f}{taken:8.1f}  {done.stderr.strip()}"
    attrs = load(folder / "run" / "posterior.nc").attrs
    converged = "yes" if attrs["converged"] else "no"
    return f"{name:16s}{budget:8.0f}{taken:8.1f}{taken - budget:+8.1f}{attrs['n_sweeps']:10d}  {converged}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--budgets", type=float, nargs="*", default=None)
    chosen = parser.parse_args()
    subprocess.run([sys.executable, "-m", "bacadi", "warm-up"], capture_output=True, check=True)
    print(f"{'task':16s}{'asked':>8s}{'taken':>8s}{'excess':>8s}{'sweeps':>10s}  converged")
    for name in chosen.tasks:
        for budget in chosen.budgets or TASKS[name][2]:
            with tempfile.TemporaryDirectory() as folder:
                print(row(name, budget, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
