"""What `bacadi fit` says of data that follow its model only nearly: false targets, ranking, calibration.

    python benchmarks/robustness.py t3 exp --tasks 10
    python benchmarks/robustness.py all --tree before=/path/to/src --tree now=src --json rows.json
    python benchmarks/robustness.py shifts --variant plain= --variant soft="--config soft.toml"

Arguments name kinds of tasks (`--help` lists them; `all` is every violation, `real` all of Sachs and DREAM4, `clean`
tasks of the studies that follow the model). A violation breaks one assumption: d = 20, linear, 400 observational rows
and 20 contexts of 80, 16 of them with one hard target, unless the violation says otherwise. The whole command runs,
with its defaults and what `--config` or `--variant NAME=OPTIONS` add, on the same table for every variant and tree
(`--tree`, as in benchmarks/mixing.py). Tasks start at seed 9000.

Columns, all read from the files of a run: pairs of context and variable that are no target and are named with
p >= .9 and with p > .5; all names (p > .5); average precision of edges and targets by probability; the share of
contexts with a target whose best-ranked variable is one (`best`), ties broken by `log_odds` where the table has it; SHD
and true edges of the edges with p > .5 as an acyclic graph; whether the run says that it converged; seconds and CPU
seconds of the command. ECE is over all tasks of a kind together.
"""

import argparse
import json
import os
import shlex
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pandas as pd
from mixing import Tree, as_json, probabilities, write_table
from mixing_tasks import Case, simulated
from robustness_tasks import CLEAN_TASKS, FIRST_SEED, VIOLATIONS, Trial, kinds

import bacadi
from bacadi.data.contexts import ContextData
from bacadi.data.text import write_text
from bacadi.metrics.calibration import (
    Forecasts,
    edge_forecasts,
    expected_calibration_error,
    pooled,
    target_forecasts,
)
from bacadi.metrics.ranking import average_precision, target_average_precision, top_target_accuracy
from bacadi.metrics.structure import structural_hamming_distance
from bacadi.posterior.summaries import consensus
from bacadi.simulate import SyntheticSpec

COLUMNS = (
    *("false .9", "false .5", "names", "edge AP", "target AP", "best", "SHD", "true edges"),
    *("converged", "seconds", "CPU-s", "ECE edges", "ECE targets"),
)
REAL = ("sachs-sham", "sachs-log-sham", "sachs", "dream4", "dream4-one-row", "dream4-labels", "dream4-one-row-labels")
GROUPS = {"all": tuple(VIOLATIONS), "clean": CLEAN_TASKS, "real": REAL}


class Variant(NamedTuple):
    """A tree with options of `bacadi fit`."""

    tree: Tree
    name: str
    options: list[str]


class Outcome(NamedTuple):
    """A row of the table, and the forecasts of which calibration is judged."""

    row: dict[str, Any]
    edges: Forecasts | None = None
    targets: Forecasts | None = None


def run(trial: Trial, folder: Path, variant: Variant) -> Outcome:
    """Fit one table by the command and measure its files."""
    place = folder / f"{trial.label} {variant.name}"
    place.mkdir(parents=True)
    trial.table.to_csv(place / "data.csv", index=False)
    impute = ["--missing", "impute"] if trial.table.isna().any(axis=None) else []  # the command refuses them unasked
    options = ["--seed", str(trial.seed), *impute, *variant.options]
    if trial.known:
        known = [(trial.contexts[k], trial.variables[j]) for k, j in np.argwhere(trial.targets).tolist()]
        pd.DataFrame(known, columns=["context", "variable"]).to_csv(place / "targets.csv", index=False)
        options += ["--targets", str(place / "targets.csv")]
    done = variant.tree.fit(_case(trial), place / "data.csv", place / "run", options)
    if isinstance(done, str):
        return Outcome({"error": done})
    return measured(trial, place / "run", done)


def _case(trial: Trial) -> Case:
    """What `Tree.fit` wants to know of a task."""
    none = ContextData(np.zeros((0, 0)), np.zeros(0, int), (), (), trial.observational)
    return Case(trial.label, trial.seed, none, np.zeros((0, 0)), np.zeros((0, 0)))


def measured(trial: Trial, out: Path, used: dict[str, float]) -> Outcome:
    """The columns of one run, with the time it used."""
    variables, truth = trial.variables, trial.targets
    targets = probabilities(out / "targets.csv", trial.contexts, variables)
    row: dict[str, Any] = {
        "false .9": int(((targets >= 0.9) & ~truth).sum()),
        "false .5": int(((targets > 0.5) & ~truth).sum()),
        "names": int((targets > 0.5).sum()),
        "target AP": target_average_precision(targets, truth),
        "best": top_target_accuracy(ranks(out / "targets.csv", trial), truth),
        "seconds": used["seconds"],
        "CPU-s": used["CPU-s"],
    }
    with h5py.File(out / "posterior.nc", "r") as file:
        row["converged"] = float(json.loads(str(file.attrs["converged"]))) if "converged" in file.attrs else np.nan
    if trial.graph is None:
        return Outcome(row, None, target_forecasts(targets, truth))
    edges = probabilities(out / "edges.csv", variables, variables)
    agreed = consensus(edges, 0.5, variables)
    row |= {
        "edge AP": average_precision(edges, trial.graph),
        "SHD": int(structural_hamming_distance(agreed, trial.graph)),
        "true edges": int((agreed & (trial.graph != 0)).sum()),
    }
    return Outcome(row, edge_forecasts(edges, trial.graph), target_forecasts(targets, truth))


def ranks(path: Path, trial: Trial) -> np.ndarray:
    """Scores in the order of probability, then of `log_odds` where the table has them."""
    table = pd.read_csv(path, dtype={"context": str, "variable": str})
    keys = [name for name in ("probability", "log_odds") if name in table]
    place = table[keys].fillna(0.0).apply(tuple, axis=1).rank(method="dense").to_numpy()
    scores = np.zeros(trial.targets.shape)
    scores[
        [trial.contexts.index(c) for c in table["context"]], [trial.variables.index(v) for v in table["variable"]]
    ] = place
    return scores


def line(label: str, row: dict[str, Any]) -> str:
    """One line of the table."""
    values = [row.get(name, np.nan) for name in COLUMNS]
    digits = [3 if "AP" in name or "ECE" in name or name == "best" else 1 for name in COLUMNS]
    cells = ["" if value != value else f"{value:.{n}f}" for value, n in zip(values, digits, strict=True)]
    return f"{label:34s}" + "".join(f"{cell:>12s}" for cell in cells)


def summary(label: str, outcomes: list[Outcome]) -> str:
    """Medians and means of the runs that came to an end, with the calibration of all together."""
    done = [outcome for outcome in outcomes if "error" not in outcome.row]
    if not done:
        return f"{label}: none of {len(outcomes)} came to an end: {outcomes[0].row['error']}"
    table = pd.DataFrame([outcome.row for outcome in done]).reindex(columns=list(COLUMNS)).astype(float)
    together = {}
    for name in ("edges", "targets"):
        found = [getattr(outcome, name) for outcome in done if getattr(outcome, name) is not None]
        if found:
            together[f"ECE {name}"] = expected_calibration_error(pooled(found))
    lines = [
        line(f"{label} median", table.median().to_dict() | together),
        line(f"{label} mean", table.mean().to_dict() | together),
    ]
    if len(done) < len(outcomes):
        lines.append(f"{label}: {len(outcomes) - len(done)} of {len(outcomes)} failed")
    return "\n".join(lines)


def warm_up(variant: Variant, folder: Path) -> None:
    """Compile, so that the first task is not the slow one."""
    small = simulated(SyntheticSpec(8))(0)
    table = write_table(small.data, folder / "small.csv")
    done = variant.tree.fit(small, table, folder / f"small {variant.name}", variant.options)
    if isinstance(done, str):
        raise SystemExit(f"{variant.name}: {done}")


def variants(chosen: argparse.Namespace) -> list[Variant]:
    """Every tree with every set of options."""
    trees = chosen.tree or [Tree.parse(f"now={Path(bacadi.__file__).parent.parent}")]
    given = [text.partition("=") for text in chosen.variant or ["="]]
    config = [] if chosen.config is None else ["--config", str(chosen.config)]
    return [
        Variant(tree, " ".join(filter(None, (tree.name, name))), [*config, *shlex.split(options)])
        for tree in trees
        for name, _, options in given
    ]


def main() -> None:
    every = kinds(Path(__file__).resolve().parent.parent.parent / "shared" / "data")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    named = [*every, *GROUPS]
    parser.add_argument("kinds", nargs="+", choices=named, metavar="KIND", help=", ".join(named))
    parser.add_argument("--tree", type=Tree.parse, action="append", metavar="NAME=SRC[:CACHE]", help="default: now")
    parser.add_argument("--variant", action="append", metavar="NAME=OPTIONS", help="options of `bacadi fit`")
    parser.add_argument("--config", type=Path, default=None, help="configuration file for every fit")
    parser.add_argument("--tasks", type=int, default=10, help="tasks of each kind")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--jobs", type=int, default=1, help="fits at the same time, which make each other slower")
    parser.add_argument("--shared", type=Path, default=None, help="folder of sachs and dream4 (../shared/data)")
    parser.add_argument("--json", type=Path, default=None, help="keep the rows in this file, renewed after each kind")
    chosen = parser.parse_args()
    every = every if chosen.shared is None else kinds(chosen.shared)
    names = [n for name in chosen.kinds for n in GROUPS.get(name, (name,))]
    # Threads of linear algebra would only compete with those of the sampler.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(chosen.jobs) as pool:
        for variant in variants(chosen):
            warm_up(variant, Path(root))
        for name in names:
            n = chosen.tasks if every[name].most is None else min(chosen.tasks, every[name].most or 0)
            print(f"{name:34s}" + "".join(f"{column:>12s}" for column in COLUMNS), flush=True)
            found: dict[str, list[Outcome]] = {variant.name: [] for variant in variants(chosen)}
            asked = []
            for seed in range(chosen.first_seed, chosen.first_seed + n):
                trial = every[name].draw(seed)
                for variant in variants(chosen):
                    asked.append((trial, variant, pool.submit(run, trial, Path(root) / name, variant)))
            for trial, variant, task in asked:
                outcome, label = task.result(), f"{trial.label} {variant.name}"
                found[variant.name].append(outcome)
                rows.append({"kind": name, "case": trial.label, "variant": variant.name} | outcome.row)
                print(
                    f"{label:34s} failed: {outcome.row['error']}"
                    if "error" in outcome.row
                    else line(label, outcome.row),
                    flush=True,
                )
            for variant_name, outcomes in found.items():
                print(summary(f"{name} {variant_name}", outcomes), flush=True)
            print(flush=True)
            if chosen.json:
                write_text(chosen.json, as_json(rows))


if __name__ == "__main__":
    sys.exit(main())
