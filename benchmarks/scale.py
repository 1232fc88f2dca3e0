"""How `bacadi fit` grows with the size of a task: the whole command, one table with time and peak memory.

    python benchmarks/scale.py er200 --tasks 3
    python benchmarks/scale.py er500 er1000 --tasks 1 -- --time-budget 600
    python benchmarks/scale.py er100 networks-er --tasks 3 --cores 1

Arguments name kinds of tasks (`--help` lists them); what follows `--` goes to `bacadi fit` as it is. Linear kinds are
the paper's recipe scaled: ER with two edges per variable, 200 observational rows, one context of ten rows per variable.
Kinds of networks are its nonlinear recipe by `--model nonlinear`, 300 rows or as many as the name says; networks-50 has
50 variables and 1,200 rows. Tasks start at seed 8000. Columns: average precision of edges and targets from edges.csv
and targets.csv, whether the run calls itself converged and the number of its warnings, the sweeps it made, seconds, CPU
seconds and peak memory of the command, and the load of the machine at its end. The warnings of a run are printed below
it.
"""

import argparse
import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
from method_accuracy import TASKS
from mixing import Tree, as_json, line, probabilities, summary, write_table
from mixing_tasks import Case, Kind, simulated

import bacadi
from bacadi.data.text import write_text
from bacadi.metrics.ranking import average_precision, target_average_precision
from bacadi.simulate import Interventions, SyntheticSpec
from bacadi.simulate.files import read_spec

COLUMNS = ("edge AP", "target AP", "converged", "warnings", "sweeps", "seconds", "CPU-s", "MB", "load")
ROWS, CONTEXT_ROWS = 200, 10


class Scaled(NamedTuple):
    """A kind of task and the options of the fit."""

    kind: Kind
    options: tuple[str, ...] = ()


def asked(edges: float, targets: float, seconds: float) -> dict[str, float]:
    return {"edge AP": edges, "target AP": targets, "seconds": seconds, "MB": 8000.0}


def linear(d: int, tasks: int, edges: float, targets: float, seconds: float) -> Scaled:
    """The paper's linear recipe on d variables, one context for each."""
    spec = SyntheticSpec(d, n_observational=ROWS, interventions=Interventions(rows_per_context=CONTEXT_ROWS))
    return Scaled(Kind(tasks, simulated(spec), asked(edges, targets, seconds)))


def networks(
    name: str, tasks: int, bars: tuple[float, float, float], d: int = 20, rows: int = 100, each: int = 10
) -> Scaled:
    """The paper's nonlinear recipe with more variables or rows."""
    spec = read_spec(TASKS / f"{name}.toml")
    assert isinstance(spec, SyntheticSpec)
    more = replace(spec.interventions, rows_per_context=each)
    spec = replace(spec, n_variables=d, n_observational=rows, interventions=more)
    return Scaled(Kind(tasks, simulated(spec), asked(*bars)), ("--model", "nonlinear"))


KINDS = {
    "er100": linear(100, 3, 0.97, 0.98, 60),
    "er200": linear(200, 3, 0.97, 0.98, 300),
    "er500": linear(500, 1, 0.97, 0.98, 1800),
    "er1000": linear(1000, 1, 0.90, 0.95, 7200),
    "networks-er": networks("nonlinear-er", 10, (0.91, 0.99, 30)),
    "networks-sf": networks("nonlinear-sf", 10, (0.93, 0.99, 30)),
    "networks-2000": networks("nonlinear-er", 3, (0.95, 0.99, 180), rows=800, each=60),
    "networks-5000": networks("nonlinear-er", 3, (0.95, 0.99, 180), rows=2000, each=150),
    "networks-50": networks("nonlinear-er", 3, (0.90, 0.99, 300), d=50, rows=200, each=20),
    "expression": Scaled(Kind(10, simulated(read_spec(TASKS / "expression-sf.toml")), asked(0.60, 1.0, 8))),
}


def measured(case: Case, out: Path) -> tuple[dict[str, float], list[str]]:
    """All columns but time and memory from the files of a run, and its warnings."""
    variables, contexts = case.data.variables, case.data.contexts
    row = {
        "edge AP": average_precision(probabilities(out / "edges.csv", variables, variables), case.graph),
        "target AP": target_average_precision(probabilities(out / "targets.csv", contexts, variables), case.targets),
    }
    with h5py.File(out / "posterior.nc", "r") as file:
        converged, warnings = (json.loads(str(file.attrs[name])) for name in ("converged", "warnings"))
        row |= {
            "converged": float(converged),
            "warnings": len(warnings),
            "sweeps": float(np.max(file.attrs["n_sweeps"])),
        }
    return row, warnings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="+", choices=list(KINDS), metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--tasks", type=int, default=None, help="tasks of each kind, in place of the number asked for")
    parser.add_argument("--first-seed", type=int, default=8000)
    parser.add_argument("--cores", type=int, default=None, help="use so many cores alone (Linux)")
    parser.add_argument("--json", type=Path, default=None, help="keep the rows in this file, renewed after each run")
    own, options = sys.argv[1:], []
    if "--" in own:
        own, options = own[: own.index("--")], own[own.index("--") + 1 :]
    chosen = parser.parse_args(own)
    if chosen.cores is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: chosen.cores])  # commands inherit it
    tree, rows = Tree.parse(f"now={Path(bacadi.__file__).parent.parent}"), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as name:
        small = simulated(SyntheticSpec(8))(0)  # compiles the code, which is no part of what is measured
        table = write_table(small.data, Path(name) / "small.csv")
        for n, options_of in enumerate(sorted({KINDS[kind].options for kind in chosen.kinds})):
            tree.fit(small, table, Path(name) / f"small-{n}", [*options_of, "--sweeps", "20"])
        for kind_name in chosen.kinds:
            (kind, fixed), of_kind = KINDS[kind_name], list[dict[str, Any]]()
            print(line(kind_name, {}, ()) + "".join(f"{column:>11s}" for column in COLUMNS), flush=True)
            for seed in range(chosen.first_seed, chosen.first_seed + (chosen.tasks or kind.tasks)):
                case, row = kind.draw(seed), {"kind": kind_name, "case": f"seed {seed}"}
                table, out = write_table(case.data, Path(name) / kind_name / f"{seed}.csv"), Path(name) / f"out-{seed}"
                done = tree.fit(case, table, out / kind_name, ["--seed", str(seed), *fixed, *options])
                of_kind.append(row)
                if isinstance(done, str):
                    row["error"] = done
                    print(f"{case.label:30s} failed: {done}", flush=True)
                else:
                    found, warnings = measured(case, out / kind_name)
                    row |= found | done
                    print("\n".join([line(case.label, row, COLUMNS), *warnings]), flush=True)
                if chosen.json:
                    write_text(chosen.json, as_json([*rows, *of_kind]))
            rows += of_kind
            print(summary(kind_name, of_kind, COLUMNS, kind.asked) + "\n", flush=True)


if __name__ == "__main__":
    main()
