"""How `bacadi fit` grows with the size of a task: the whole command, one table with time and peak memory.

    python benchmarks/scale.py er200 --tasks 3
    python benchmarks/scale.py er500 er1000 --tasks 1 -- --time-budget 600

Arguments name kinds of tasks (`--help` lists them); what follows `--` goes to `bacadi fit` as it is. Linear kinds are
the paper's recipe scaled: ER with two edges per variable, 200 observational rows, one context of ten rows per variable.
Tasks start at seed 8000. Columns: average precision of edges and targets from edges.csv and targets.csv, whether the
run calls itself converged and the number of its warnings, the sweeps it made, seconds, CPU seconds and peak memory of
the command, and the load of the machine at its end. The warnings of a run are printed below it.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import h5py
from mixing import Tree, as_json, line, probabilities, summary, write_table
from mixing_tasks import Case, Kind, simulated

import bacadi
from bacadi.data.text import write_text
from bacadi.metrics.ranking import average_precision, target_average_precision
from bacadi.simulate import Interventions, SyntheticSpec

COLUMNS = ("edge AP", "target AP", "converged", "warnings", "sweeps", "seconds", "CPU-s", "MB", "load")
ROWS, CONTEXT_ROWS = 200, 10


def linear(d: int, tasks: int, edges: float, targets: float, seconds: float) -> Kind:
    """The paper's linear recipe on d variables, one context for each."""
    asked = {"edge AP": edges, "target AP": targets, "seconds": seconds, "MB": 8000.0}
    spec = SyntheticSpec(d, n_observational=ROWS, interventions=Interventions(rows_per_context=CONTEXT_ROWS))
    return Kind(tasks, simulated(spec), asked)


KINDS = {
    "er100": linear(100, 3, 0.97, 0.98, 60),
    "er200": linear(200, 3, 0.97, 0.98, 300),
    "er500": linear(500, 1, 0.97, 0.98, 1800),
    "er1000": linear(1000, 1, 0.90, 0.95, 7200),
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
        row |= {"converged": float(converged), "warnings": len(warnings), "sweeps": float(file.attrs["n_sweeps"])}
    return row, warnings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="+", choices=list(KINDS), metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--tasks", type=int, default=None, help="tasks of each kind, in place of the number asked for")
    parser.add_argument("--first-seed", type=int, default=8000)
    parser.add_argument("--json", type=Path, default=None, help="keep the rows in this file, renewed after each run")
    own, options = sys.argv[1:], []
    if "--" in own:
        own, options = own[: own.index("--")], own[own.index("--") + 1 :]
    chosen = parser.parse_args(own)
    tree, rows = Tree.parse(f"now={Path(bacadi.__file__).parent.parent}"), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as name:
        small = simulated(SyntheticSpec(8))(0)  # compiles the code, which is no part of what is measured
        tree.fit(small, write_table(small.data, Path(name) / "small.csv"), Path(name) / "small", [])
        for kind_name in chosen.kinds:
            kind, of_kind = KINDS[kind_name], list[dict[str, Any]]()
            print(line(kind_name, {}, ()) + "".join(f"{column:>11s}" for column in COLUMNS), flush=True)
            for seed in range(chosen.first_seed, chosen.first_seed + (chosen.tasks or kind.tasks)):
                case, row = kind.draw(seed), {"kind": kind_name, "case": f"seed {seed}"}
                table, out = write_table(case.data, Path(name) / kind_name / f"{seed}.csv"), Path(name) / f"out-{seed}"
                done = tree.fit(case, table, out / kind_name, ["--seed", str(seed), *options])
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
