"""Whether the default `bacadi fit` mixes: the whole command on tasks of known truth, for one or several source trees.

    python benchmarks/mixing.py observational few er --tasks 2
    python benchmarks/mixing.py er --tree before=/path/to/src --tree now=src --json rows.json
    python benchmarks/mixing.py ibge400 --tasks 1 -- --time-budget 60

Arguments name kinds of tasks (`--help` lists them); what follows `--` goes to `bacadi fit` as it is. A task is written
once and read by every tree, which runs with its own PYTHONPATH and, after one small fit, its own warm NUMBA_CACHE_DIR
(`--tree name=src:cache` names the folder). Tasks start at seed 7000. Effects other than the default are asked for by a
`--config` file: `soft` for the kinds ibge, each of hard, shift, scale, soft and any for sachs and dream4.

Columns, all read from the files of a run: `converged` and the number of warnings by the run's own word; R-hat and ESS
of the log posterior and the largest difference of an edge probability between replicas, by the diagnostics of this
tree; the log posterior of the true graph and targets less that of the best draw and less the mean of the draws, for the
present tree alone; average precision of edges, of adjacencies, of the class, of targets; the expected and true number
of edges; seconds, CPU seconds and peak memory of the command; the load of the machine at its end, without which seconds
say little. Members of a Markov class have the same log posterior in a linear model without contexts, so that a
truth-best of 0 says that the class was found, and two replicas may rank edges well though one is stuck. Class AP ranks
P(adjacent) for each pair whose edge is undirected in the truth's interventional CPDAG and P(i → j) for all other
ordered pairs: true are the undirected pairs and the directed edges. SHD, of the kinds ibge, is between interventional
CPDAGs under the true targets: of the draw with the highest log posterior, of the edges with p > .5 (NaN if cyclic), and
of the entries that more than half of the draws' CPDAGs have, which is what the authors of iBGe call their consensus.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pandas as pd
from mixing_tasks import DISTANCES, OTHER, Case, Kind, kinds, simulated

import bacadi
from bacadi.commands.run import RunFolder
from bacadi.data.contexts import ContextData
from bacadi.data.text import write_text
from bacadi.evidence.collapsed import CollapsedPosterior
from bacadi.evidence.reading import collapse
from bacadi.graph.dag import is_acyclic
from bacadi.graph.equivalence import i_cpdag, skeleton
from bacadi.inference.auto import chosen_model
from bacadi.inference.mcmc.diagnostics import diagnose
from bacadi.inference.method import Problem
from bacadi.metrics.ranking import average_precision, target_average_precision
from bacadi.metrics.structure import structural_hamming_distance
from bacadi.simulate import SyntheticSpec
from bacadi.simulate.files import CONTEXT

COLUMNS = (
    *("converged", "warnings", "R-hat", "ESS", "ESS/s", "max diff", "truth-best", "truth-mean"),
    *("edge AP", OTHER, "skel. AP", "class AP", "target AP", "edges", "true", *DISTANCES),
    *("seconds", "CPU-s", "MB", "load"),
)
CLASS_DRAWS = 100  # of which CPDAGs are averaged
# A process starts with the peak memory of its parent, so that a small one has to start the command and to measure it.
LAUNCHER = """
import json, os, sys, time
begin = time.monotonic()
_, status, used = os.wait4(os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ), 0)
seconds, cpu = time.monotonic() - begin, used.ru_utime + used.ru_stime
with open(sys.argv[1], "w") as file:
    json.dump({"seconds": seconds, "CPU-s": cpu, "MB": used.ru_maxrss / 1024}, file)
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""


class Tree(NamedTuple):
    """A source tree to run, and its folder for compiled code."""

    name: str
    source: Path
    cache: Path

    @classmethod
    def parse(cls, text: str) -> "Tree":
        """From `name=src` or `name=src:cache`."""
        name, given, paths = text.partition("=")
        source, _, cache = paths.partition(":")
        if not given or not (Path(source) / "bacadi").is_dir():
            raise argparse.ArgumentTypeError(f"'{text}' is not name=FOLDER with a package bacadi in FOLDER")
        default = Path(os.environ.get("NUMBA_CACHE_DIR", Path(tempfile.gettempdir()) / "bacadi-numba")) / name
        return cls(name, Path(source).resolve(), Path(cache) if cache else default)

    @property
    def is_present(self) -> bool:
        """Whether this very program runs on it."""
        return self.source == Path(bacadi.__file__).resolve().parent.parent

    def fit(self, case: Case, table: Path, out: Path, options: list[str]) -> dict[str, float] | str:
        """Run the command and return its time and memory, or its last words."""
        command = [sys.executable, "-m", "bacadi", "fit", str(table), "--context", CONTEXT, "--out", str(out)]
        command += ["--observational", str(case.data.observational), "--quiet"]
        if case.effect is not None:
            write_text(table.with_name(f"{case.effect}.toml"), f'[model]\neffect = "{case.effect}"\n')
            command += ["--config", str(table.with_name(f"{case.effect}.toml"))]
        usage = out.with_name(f"{out.name}.json")
        environment = os.environ | {"PYTHONPATH": str(self.source), "NUMBA_CACHE_DIR": str(self.cache)}
        launch = [sys.executable, "-S", "-c", LAUNCHER, str(usage), *command, *options]
        done = subprocess.run(launch, capture_output=True, text=True, env=environment)
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["no message"])[-1]
        return json.loads(usage.read_text()) | {"load": os.getloadavg()[0]}


def write_table(data: ContextData, path: Path) -> Path:
    """The data as a table for the command line."""
    labels = np.array([str(data.observational), *data.contexts])
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(data.x, columns=list(data.variables)).assign(**{CONTEXT: labels[data.context]}).to_csv(
        path, index=False
    )
    return path


def probabilities(path: Path, rows: tuple[str, ...], columns: tuple[str, ...]) -> np.ndarray:
    """A matrix from a table with a name, another name and a probability in every line; what is left out is 0."""
    table, found = pd.read_csv(path, dtype={0: str, 1: str}, usecols=[0, 1, 2]), np.zeros((len(rows), len(columns)))
    first, second, probability = (table.iloc[:, at] for at in range(3))
    found[pd.Index(rows).get_indexer(first), pd.Index(columns).get_indexer(second)] = probability
    return found


def measured(case: Case, out: Path, present: bool, with_distances: bool) -> dict[str, float]:
    """All columns but time and memory, from the files of a run."""
    variables, graph = case.data.variables, case.graph
    edges = probabilities(out / "edges.csv", variables, variables)
    targets = probabilities(out / "targets.csv", case.data.contexts, variables)
    row = {
        "edge AP": average_precision(edges, graph),
        "skel. AP": average_precision(edges + edges.T, skeleton(graph)),
        "target AP": target_average_precision(targets, case.targets),
        "edges": float(edges.sum()),
        "true": float(graph.sum()),
    }
    if case.other_graph is not None:
        row[OTHER] = average_precision(edges, case.other_graph)
    with h5py.File(out / "posterior.nc", "r") as file:
        attrs = {name: json.loads(str(file.attrs[name])) for name in ("converged", "warnings") if name in file.attrs}
        row |= {"converged": float(attrs.get("converged", np.nan)), "warnings": len(attrs.get("warnings", ()))}
        stored = file["posterior/source"].asstr()[:].tolist()
        order = [stored.index(name) for name in variables]
        graphs = file["posterior/graph"][:][:, :, order][..., order].astype(np.int8)
        scores = file["sample_stats/log_posterior"][:] if "sample_stats/log_posterior" in file else None
    if scores is not None:
        nothing = np.zeros((*scores.shape, 0, len(graph)), np.int8)
        found = diagnose(graphs, nothing, scores, np.zeros((len(scores), 0)))
        row |= {"R-hat": found.log_posterior_rhat, "ESS": found.log_posterior_ess}
        row["max diff"] = float(found.edges.difference.max()) if len(scores) > 1 else np.nan
    if not is_acyclic(graph):
        return row
    row["class AP"] = class_average_precision(edges, i_cpdag(graph, case.targets))
    if scores is not None:
        flat = graphs.reshape(-1, *graph.shape)
        row |= distances(case, edges, flat, flat[np.argmax(scores)]) if with_distances else {}
        if present:
            truth = log_posterior_of_truth(case, out)
            row |= {"truth-best": truth - float(scores.max()), "truth-mean": truth - float(scores.mean())}
    return row


def class_average_precision(edges: np.ndarray, truth: np.ndarray) -> float:
    """Average precision with P(adjacent) for undirected edges of the class and P(i → j) for all other ordered pairs."""
    undirected = (truth != 0) & (truth.T != 0)
    once = ~np.eye(len(truth), dtype=bool) & ~np.tril(undirected)
    scores = np.where(undirected, edges + edges.T, edges)
    return target_average_precision(scores[once][None], truth[once][None])


def distances(case: Case, edges: np.ndarray, graphs: np.ndarray, best: np.ndarray) -> dict[str, float]:
    """SHD between interventional CPDAGs under the true targets."""
    truth, consensus = i_cpdag(case.graph, case.targets), (edges > 0.5).astype(np.int8)
    thinned = graphs[np.linspace(0, len(graphs) - 1, CLASS_DRAWS).astype(int)]
    different, counts = np.unique(thinned, axis=0, return_counts=True)
    mean = np.average([i_cpdag(graph, case.targets) for graph in different], axis=0, weights=counts)
    of_consensus = i_cpdag(consensus, case.targets) if is_acyclic(consensus) else None
    compared = (i_cpdag(best, case.targets), of_consensus, (mean > 0.5).astype(np.int8))
    values = [np.nan if other is None else float(structural_hamming_distance(other, truth)) for other in compared]
    return dict(zip(DISTANCES, values, strict=True))


def log_posterior_of_truth(case: Case, out: Path) -> float:
    """log p(G, S | D) of the true graph and targets, in the model of the run and with its weights of rows."""
    run = RunFolder.load(out)
    chosen = chosen_model(Problem(run.data, run.configuration.model, run.knowledge))
    problem = Problem(replace(run.data, weight=chosen.weight), chosen.model, run.knowledge)
    most = getattr(run.configuration.method, "max_parents", None)
    collapsed = collapse(chosen.model, problem.standardized, run.knowledge, most)
    order = [case.data.variables.index(name) for name in run.data.variables]
    rows = [case.data.contexts.index(name) for name in run.data.contexts]
    return best_of_states(collapsed, case.graph[np.ix_(order, order)], case.targets[np.ix_(rows, order)].copy())


def best_of_states(collapsed: CollapsedPosterior, graph: np.ndarray, states: np.ndarray) -> float:
    """The log posterior with the likeliest kind of effect at every target, chosen one after the other, twice."""
    best = collapsed.log_posterior(graph, states)
    n_states = collapsed.evidence.states.n_states
    for k, j in np.argwhere(states).tolist() * (2 if n_states > 2 else 0):
        tried = []
        for state in range(1, n_states):
            states[k, j] = state
            tried.append(collapsed.log_posterior(graph, states))
        states[k, j], best = 1 + int(np.argmax(tried)), max(tried)
    return best


def cases(kind: Kind, seeds: range) -> Iterator[Case]:
    """The tasks of a kind, each with every effect that is to be fitted."""
    for seed in seeds:
        case = kind.draw(seed)
        yield from (case._replace(effect=effect) for effect in kind.effects)


def line(label: str, row: dict[str, Any], columns: tuple[str, ...]) -> str:
    """One line of the table."""
    digits = {name: 3 if "AP" in name else 2 for name in columns}
    values = [round(row.get(name, np.nan), digits[name]) + 0.0 for name in columns]  # no -0.00
    return f"{label:30s}" + "".join(f"{v:11.{digits[name]}f}" for name, v in zip(columns, values, strict=True))


def summary(name: str, rows: list[dict[str, Any]], columns: tuple[str, ...], bars: dict[str, float]) -> str:
    """Medians and means of the runs that came to an end, the share that converged, and the bars beside the medians."""
    table = pd.DataFrame([row for row in rows if "error" not in row], columns=list(columns), dtype=float)
    if table.empty:
        return f"{name}: none of {len(rows)} tasks came to an end"
    middle, mean = table.median().to_dict(), table.mean().to_dict()
    middle["converged"], words = mean["converged"], []
    share = f"{int(table['converged'].sum())} converged"  # a short run that has not may meet all other bars
    for column, bar in bars.items():
        least = "AP" in column or column == "converged"
        met = middle[column] >= bar if least else middle[column] <= bar
        words.append(f"{column} {'≥' if least else '≤'} {bar:g}: {middle[column]:.3g}, {'met' if met else 'missed'}")
    found = [line(f"{name} median", middle, columns), line(f"{name} mean", mean, columns)] if len(table) > 1 else []
    return "\n".join([*found, f"{name} asked of {len(table)} of {len(rows)} tasks, {share}: {'; '.join(words)}"])


def as_json(rows: list[dict[str, Any]]) -> str:
    """The rows as JSON, which has no NaN."""
    plain = [{name: None if value != value else value for name, value in row.items()} for row in rows]
    return json.dumps(plain, indent=1) + "\n"


def main() -> None:
    every = kinds(Path(__file__).resolve().parent.parent.parent / "shared" / "data")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="+", choices=list(every), metavar="KIND", help=", ".join(every))
    parser.add_argument("--tree", type=Tree.parse, action="append", metavar="NAME=SRC[:CACHE]", help="default: now")
    parser.add_argument("--tasks", type=int, default=None, help="tasks of each kind, in place of the number asked for")
    parser.add_argument("--first-seed", type=int, default=7000)
    parser.add_argument("--shared", type=Path, default=None, help="folder of sachs and dream4 (../shared/data)")
    parser.add_argument("--json", type=Path, default=None, help="keep the rows in this file, renewed after each run")
    own, options = sys.argv[1:], []
    if "--" in own:
        own, options = own[: own.index("--")], own[own.index("--") + 1 :]
    chosen = parser.parse_args(own)
    every = every if chosen.shared is None else kinds(chosen.shared)
    trees = chosen.tree or [Tree.parse(f"now={Path(bacadi.__file__).parent.parent}")]
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = simulated(SyntheticSpec(8))(0)
        for tree in trees:
            done = tree.fit(
                small, write_table(small.data, folder / "small.csv"), folder / f"small-{tree.name}", options
            )
            if isinstance(done, str):
                raise SystemExit(f"{tree.name}: {done}")
        for kind_name in chosen.kinds:
            kind, first, of_kind = every[kind_name], chosen.first_seed, []
            extra = (*DISTANCES, OTHER)
            columns = tuple(column for column in COLUMNS if column not in extra or column in kind.columns)
            print(line(kind_name, {}, ()) + "".join(f"{column:>11s}" for column in columns), flush=True)
            for case in cases(kind, range(first, first + (kind.tasks if chosen.tasks is None else chosen.tasks))):
                place = folder / kind_name / f"{case.label} {case.effect}"
                table = write_table(case.data, place / "data.csv")
                for tree in trees:
                    row = {"kind": kind_name, "case": case.label, "effect": case.effect, "tree": tree.name}
                    label = " ".join(filter(None, (case.label, case.effect, tree.name)))
                    of_kind.append(row)
                    done = tree.fit(case, table, place / tree.name, ["--seed", str(case.seed), *options])
                    if isinstance(done, str):
                        row["error"] = done
                        print(f"{label:30s} failed: {done}", flush=True)
                    else:
                        row |= measured(case, place / tree.name, tree.is_present, DISTANCES[0] in columns) | done
                        row["ESS/s"] = row.get("ESS", np.nan) / row["seconds"]
                        print(line(label, row, columns), flush=True)
                    if chosen.json:
                        write_text(chosen.json, as_json([*rows, *of_kind]))
            rows += of_kind
            for effect in kind.effects:
                for tree in trees:
                    found = [row for row in of_kind if (row["effect"], row["tree"]) == (effect, tree.name)]
                    label = " ".join(filter(None, (kind_name, effect, tree.name)))
                    print(summary(label, found, columns, kind.asked), flush=True)
            print(flush=True)


if __name__ == "__main__":
    main()
