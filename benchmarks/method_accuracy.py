"""`bacadi fit` on tasks of known truth: accuracy, calibration and wall time of the whole command, method by method.

    python benchmarks/method_accuracy.py linear-er --tasks 20
    python benchmarks/method_accuracy.py linear-er-50 --tasks 5 --method svgd
    python benchmarks/method_accuracy.py nonlinear-er -- --model nonlinear --preset paper

The first argument names a file of studies/tasks; what follows `--` goes to `bacadi fit` as it is. Tasks start at seed
1000: choices were made on other seeds. Prints the metrics and the time of every task, their medians, the published ones
where there are any, and the expected calibration error (ECE) over all tasks together. Compile caches are warmed
by a first, small fit.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from bacadi.metrics.calibration import edge_forecasts, expected_calibration_error, pooled, target_forecasts
from bacadi.metrics.evaluate import evaluate
from bacadi.posterior import load
from bacadi.simulate import Task, simulate
from bacadi.simulate.files import CONTEXT, TRAINING, read_spec, write_task

TASKS = Path(__file__).parent.parent / "studies" / "tasks"
METRICS = {
    "edge AP": "edge_average_precision",
    "E-SID": "expected_sid",
    "E-SHD": "expected_shd",
    "target AP": "target_average_precision",
    "edge AUPRC": "edge_auprc",
    "target AUPRC": "target_auprc",
    "I-NLL": "interventional_nll",
    "I-NLL truth": "interventional_nll_of_truth",
}
COLUMNS = (*METRICS, "seconds", "CPU-s", "converged")
# Medians of the authors' stored results (30 tasks), in the order of METRICS but for I-NLL, which they computed with the
# targets of the neighbouring context; the last number is the time in seconds.
PUBLISHED = {
    ("linear-er", "jci-pc"): (0.111, 221.7, 38.0, 0.145, 0.554, 0.573, 123),
    ("linear-er", "ut-igsp"): (0.356, 226.4, 42.0, 0.738, 0.360, 0.786, 83),
    ("linear-er", "dcdi-g"): (0.222, 209.0, 62.0, 0.038, 0.351, 0.052, 14442),
    ("linear-er", "svgd"): (0.632, 18.0, 22.0, 0.762, 0.796, 0.877, 3787),
    ("linear-sf", "jci-pc"): (0.117, 360.2, 37.0, 0.187, 0.236, 0.364, 132),
    ("linear-sf", "ut-igsp"): (0.758, 259.3, 34.4, 0.918, 0.756, 0.923, 88),
    ("linear-sf", "dcdi-g"): (0.402, 228.5, 49.5, 0.070, 0.468, 0.077, 10182),
    ("linear-sf", "svgd"): (0.557, 49.1, 25.5, 0.545, 0.749, 0.757, 3824),
    ("nonlinear-er", "jci-pc"): (0.095, 222.0, 38.0, 0.240, 0.548, 0.620, 114),
    ("nonlinear-er", "ut-igsp"): (0.283, 218.1, 34.6, 0.678, 0.397, 0.839, 70),
    ("nonlinear-er", "dcdi-g"): (0.101, 289.8, 65.3, 0.062, 0.107, 0.051, 8520),
    ("nonlinear-er", "svgd"): (0.386, 176.1, 29.0, 0.571, 0.620, 0.786, 34554),
    ("nonlinear-sf", "svgd"): (0.456, 302.9, 25.5, 0.646, 0.646, 0.823, 29760),
}


def command(task: Task, folder: Path, options: list[str]) -> list[str]:
    """The command on the tables of the task, written to the folder."""
    write_task(task, folder / "task")
    fit = [sys.executable, "-m", "bacadi", "fit", str(folder / "task" / TRAINING[0]), "--context", CONTEXT]
    return [*fit, "--observational", str(task.data.observational), "--out", str(folder / "run"), "--quiet", *options]


def run(task: Task, folder: Path, options: list[str]) -> tuple[list[float], dict]:
    """The columns of one task and the forecasts of edges and targets."""
    arguments = command(task, folder, options)
    begin, before = time.monotonic(), _cpu()
    done = subprocess.run(arguments, capture_output=True, text=True)
    seconds, used = time.monotonic() - begin, _cpu() - before
    if done.returncode:
        raise SystemExit(f"{' '.join(done.args)}\n{done.stderr}")
    posterior = load(folder / "run" / "posterior.nc")
    edges, targets = posterior.edge_probabilities(), posterior.target_probabilities()
    targets = targets[[posterior.contexts.index(name) for name in task.data.contexts]]
    values = evaluate(posterior, task)
    converged = float(posterior.attrs.get("converged", np.nan))
    row = [values.get(name, np.nan) for name in METRICS.values()] + [seconds, used, converged]
    return row, {"edges": edge_forecasts(edges, task.graph), "targets": target_forecasts(targets, task.targets)}


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def shown(name: str, values: list[float]) -> str:
    return f"{name:12s}" + "".join(f"{value:13.3f}" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", help=f"one of {', '.join(sorted(path.stem for path in TASKS.glob('*.toml')))}")
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--standardized", action="store_true", help="standardise the columns of the task")
    parser.add_argument("--variables", type=int, default=None, help="another number of variables")
    parser.add_argument("--rows-times", type=int, default=1, help="so many times the rows of every context")
    parser.add_argument("--json", default=None, help="append one line to this file")
    own, options = sys.argv[1:], []
    if "--" in own:
        own, options = own[: own.index("--")], own[own.index("--") + 1 :]
    chosen = parser.parse_args(own)
    spec = read_spec(TASKS / f"{chosen.study}.toml")
    changes = {"standardize": True} if chosen.standardized else {}
    if chosen.variables is not None:
        changes["n_variables"] = chosen.variables
    if chosen.rows_times > 1:
        inner = spec.interventions
        changes["n_observational"] = chosen.rows_times * spec.n_observational
        changes["interventions"] = replace(inner, rows_per_context=chosen.rows_times * inner.rows_per_context)
    spec = replace(spec, **changes)
    options = ["--method", chosen.method, *options]
    rows, forecasts = [], []
    print(f"{chosen.study} {spec.n_variables} variables, bacadi fit {' '.join(options)}", flush=True)
    print(" " * 12 + "".join(f"{name:>13s}" for name in COLUMNS), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        warm = [*options, *(["--sweeps", "4", "--draws", "4"] if chosen.method in ("auto", "mcmc") else [])]
        run(simulate(spec, chosen.first_seed), Path(folder) / "warm", warm)
        for seed in range(chosen.first_seed, chosen.first_seed + chosen.tasks):
            row, forecast = run(simulate(spec, seed), Path(folder) / str(seed), [*options, "--seed", str(seed)])
            rows.append(row)
            forecasts.append(forecast)
            print(shown(f"seed {seed}", row), flush=True)
    columns = [[value for value in column if not np.isnan(value)] or [np.nan] for column in zip(*rows, strict=True)]
    medians = [float(np.median(column)) for column in columns[:-1]] + [float(np.mean(columns[-1]))]
    print(shown("median", medians))
    if found := PUBLISHED.get((chosen.study, chosen.method)):
        print(shown("published", [*found[:-1], np.nan, np.nan, found[-1], np.nan, np.nan]))
    error = {
        name: expected_calibration_error(pooled([forecast[name] for forecast in forecasts]))
        for name in ("edges", "targets")
    }
    print(f"ECE of edges {error['edges']:.4f}, of targets {error['targets']:.4f}; load {os.getloadavg()[0]:.1f}")
    if chosen.json:
        with open(chosen.json, "a") as file:
            file.write(
                json.dumps(vars(chosen) | {"options": options} | {"medians": medians, "rows": rows, "ece": error})
                + "\n"
            )


if __name__ == "__main__":
    main()
