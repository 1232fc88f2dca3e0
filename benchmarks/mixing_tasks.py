"""The tasks of benchmarks/mixing.py: their data, their truth and the bars asked of a fit."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from method_accuracy import TASKS

from bacadi.data.contexts import ContextData
from bacadi.simulate import Interventions, SyntheticSpec, simulate
from bacadi.simulate.files import CONTEXT, read_spec
from bacadi.simulate.task import AbstractSpec

EFFECTS = ("hard", "shift", "scale", "soft", "any")
DISTANCES = ("SHD best", "SHD > .5", "SHD class")
OTHER = "AP other"


class Case(NamedTuple):
    """Data, their truth and the effect to fit (None: the default); `other_graph` is a second opinion on the truth."""

    label: str
    seed: int
    data: ContextData
    graph: np.ndarray
    targets: np.ndarray
    effect: str | None = None
    other_graph: np.ndarray | None = None


@dataclass(frozen=True)
class Kind:
    """How to draw a task of a seed, how many are asked for, and what is asked of their medians."""

    tasks: int
    draw: Callable[[int], Case]
    asked: dict[str, float]  # at least so much of AP and converged, at most of all else
    effects: tuple[str | None, ...] = (None,)
    columns: tuple[str, ...] = ()  # besides those of all kinds


def simulated(spec: AbstractSpec) -> Callable[[int], Case]:
    """Tasks of a specification."""

    def draw(seed: int) -> Case:
        task = simulate(spec, seed)
        return Case(f"seed {seed}", seed, task.data, task.graph, task.targets)

    return draw


def study(name: str, d: int | None = None) -> Callable[[int], Case]:
    """Tasks of a file of studies/tasks, with another number of variables if one is given."""
    spec = read_spec(TASKS / f"{name}.toml")
    assert isinstance(spec, SyntheticSpec)
    return simulated(spec if d is None else replace(spec, n_variables=d))


def some_contexts(d: int, rows: int, n_contexts: int = 0, rows_per_context: int = 0) -> Callable[[int], Case]:
    """ER-2 with the paper's weights and hard effects, on as many variables as there are contexts."""
    some = Interventions(n_contexts=n_contexts, rows_per_context=rows_per_context)
    return simulated(SyntheticSpec(d, n_observational=rows, interventions=some))


def real(label: str, seed: int, table: pd.DataFrame, first: str, golds: list[Path], log: bool) -> Case:
    """A table with columns `context` and `target`, variables from column `first` on, and one or two gold networks."""
    variables = tuple(table.columns[list(table.columns).index(first) :])
    contexts = tuple(name for name in dict.fromkeys(table[CONTEXT]) if name != "control")
    x = table[list(variables)].to_numpy(float)
    of_row = np.array([("control", *contexts).index(name) for name in table[CONTEXT]])
    named = dict(zip(table[CONTEXT], table["target"], strict=True))
    targets = np.array([[variable == named[name] for variable in variables] for name in contexts]).astype(np.int8)
    graphs = [np.zeros((len(variables),) * 2, np.int8) for _ in golds]
    for graph, path in zip(graphs, golds, strict=True):
        for source, target in pd.read_csv(path)[["source", "target"]].itertuples(index=False):
            graph[variables.index(source), variables.index(target)] = 1
    data = ContextData(np.log(x) if log else x, of_row, variables, contexts, "control")
    return Case(label, seed, data, graphs[0], targets, None, graphs[1] if len(graphs) > 1 else None)


def sachs(shared: Path, seed: int) -> Case:
    """Logarithms, nominal targets; edges against the consensus of 18 edges and (AP other) the 17 of DCDI."""
    folder = shared / "sachs"
    golds = [folder / "graph_consensus18_utigsp.csv", folder / "graph_dcdi17.csv"]
    return real(f"seed {seed}", seed, pd.read_csv(folder / "sachs_wang2017_dcdi_5846.csv"), "Raf", golds, log=True)


def dream4(shared: Path, seed: int) -> Case:
    """A network of ten genes by its seed. A context needs two rows, so that knock-out and knock-down of a gene are one;
    wild type and multifactorial rows are observational, and time series left out. A cyclic truth has no score."""
    number, folder = 1 + seed % 5, shared / "dream4"
    table = pd.read_csv(folder / f"dream4_size10_{number}.csv")
    table = table[table["experiment"] != "timeseries"].replace({CONTEXT: {"multifactorial": "control"}})
    table = table.assign(**{CONTEXT: table[CONTEXT].str.replace("^K[OD]_", "", regex=True)})
    return real(f"net {number}", seed, table, "G1", [folder / f"gold_size10_{number}.csv"], log=False)


def kinds(shared: Path) -> dict[str, Kind]:
    """All kinds of tasks with the bars asked of them."""

    def asked(edges: float, targets: float, seconds: float) -> dict[str, float]:
        return {"edge AP": edges, "target AP": targets, "seconds": seconds}

    real_bars = {"converged": 1.0, "seconds": 10.0}
    return {
        "er": Kind(20, study("linear-er"), asked(0.99, 0.99, 5)),
        "sf": Kind(20, study("linear-sf"), asked(0.99, 0.99, 5)),
        "observational": Kind(10, some_contexts(20, 2000), {"skel. AP": 0.99, "seconds": 10}),
        "few": Kind(10, some_contexts(20, 400, 3, 80), asked(0.97, 0.99, 10)),
        "er50": Kind(5, study("linear-er-50"), asked(0.99, 0.99, 15)),
        "sf50": Kind(5, study("linear-sf-50"), asked(0.99, 0.99, 15)),
        "er100": Kind(3, study("linear-er-100"), asked(0.99, 0.99, 60)),
        "sf100": Kind(3, study("linear-sf-50", 100), asked(0.99, 0.99, 60)),
        "few50": Kind(3, some_contexts(50, 1000, 5, 100), asked(0.95, 0.99, 60)),
        "ibge400": Kind(10, study("ibge-400"), {"SHD class": 5, "CPU-s": 150}, ("soft",), DISTANCES),
        "ibge4000": Kind(10, study("ibge-4000"), {"SHD class": 1, "CPU-s": 150}, ("soft",), DISTANCES),
        "sachs": Kind(1, lambda seed: sachs(shared, seed), real_bars, EFFECTS, (OTHER,)),
        "dream4": Kind(5, lambda seed: dream4(shared, seed), real_bars, EFFECTS),
    }
