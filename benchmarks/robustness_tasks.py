"""The tasks of benchmarks/robustness.py: tables that break one assumption of the model each, and real ones."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from method_accuracy import TASKS
from mixing_tasks import real

from bacadi.simulate import Interventions, SyntheticSpec, simulate
from bacadi.simulate.files import CONTEXT, read_spec
from bacadi.simulate.synthetic import Hard, NeuralTruth, Shift, Soft, signed_uniform
from bacadi.simulate.task import AbstractSpec
from bacadi.simulate.violations import (
    Autocorrelated,
    ContextShifts,
    Exponentiated,
    HeavyTails,
    HiddenCause,
    MeasurementNoise,
    MissingCells,
    ZeroedCells,
)

FIRST_SEED = 9000
_DESIGN = Interventions(n_contexts=16, n_without_effect=4, rows_per_context=80)
CLEAN = SyntheticSpec(20, n_observational=400, interventions=_DESIGN)


class Trial(NamedTuple):
    """A table for the command line and its truth; a sham has no target, and real data may have no graph."""

    label: str
    seed: int
    table: pd.DataFrame
    observational: str
    variables: tuple[str, ...]
    contexts: tuple[str, ...]
    targets: np.ndarray
    graph: np.ndarray | None = None
    known: bool = False  # whether the fit is told the targets


# Tasks of the studies that follow the model, which nothing said here may make worse or much slower.
CLEAN_TASKS = ("linear-er", "linear-sf", "two-targets-a-third-untouched", "expression-sf", "nonlinear-er")


def with_effect(effect: Hard | Shift | Soft) -> SyntheticSpec:
    """The clean task with other effects."""
    return replace(CLEAN, interventions=replace(_DESIGN, effect=effect))


_SINGLE = Interventions(n_contexts=32, n_without_effect=8, rows_per_context=1)
VIOLATIONS = {
    "none": CLEAN,
    "t3": replace(CLEAN, violation=HeavyTails()),
    "exp": replace(CLEAN, violation=Exponentiated()),
    "zeros": replace(CLEAN, violation=ZeroedCells()),
    "shifts": replace(CLEAN, violation=ContextShifts()),
    "ar1": replace(CLEAN, violation=Autocorrelated()),
    "measurement": replace(CLEAN, violation=MeasurementNoise()),
    "hidden": replace(CLEAN, violation=HiddenCause()),
    "shift-effects": with_effect(Shift()),
    "sigmoid": replace(CLEAN, mechanism=NeuralTruth()),
    "soft-effects": with_effect(Soft()),
    "weak-effects": with_effect(Hard(offset=0.0, mean_std=1.0)),
    "one-row": SyntheticSpec(20, n_observational=200, interventions=_SINGLE),
    "missing": replace(CLEAN, violation=MissingCells()),
}


def simulated(spec: AbstractSpec, seed: int) -> Trial:
    """The task of a seed."""
    task = simulate(spec, seed)
    data = task.data
    table = pd.DataFrame(data.x, columns=list(data.variables))
    labels = np.array([str(data.observational), *data.contexts])
    table[CONTEXT] = labels[data.context]
    return Trial(f"seed {seed}", seed, table, labels[0], data.variables, data.contexts, task.targets != 0, task.graph)


def screen(seed: int, sham: bool) -> Trial:
    """A screen of single cells: 24 genes as counts of 14,000 cells, normalised, and eight guides, four fifths of whose
    cells have their gene knocked down by 1 on the scale of logarithms; contexts differ by .05 in everything."""
    rng = np.random.default_rng(seed)
    n, d, m = 14_000, 24, 8
    weight = np.triu((rng.random((d, d)) < 0.1) * signed_uniform(rng, 0.3, 0.8, (d, d)), 1)
    context, hit = rng.choice(m + 1, size=n, p=[0.3, *[0.7 / m] * m]), rng.choice(d, m, replace=False)
    level, works, z = rng.normal(1.5, 1.0, d), rng.random(n) < 0.8, np.zeros((n, d))
    for j in range(d):
        z[:, j] = (
            z @ weight[:, j]
            + 0.5 * rng.normal(size=n)
            - (np.isin(hit, j) @ (context - 1 == np.arange(m)[:, None])) * works
        )
    z += 0.05 * rng.normal(size=(m + 1, d))[context]
    depth = rng.gamma(10, 0.1, n)
    counts = rng.poisson(np.exp(z + level) * depth[:, None])
    size = counts.sum(axis=1) + rng.poisson(2000 * depth)
    variables, contexts = tuple(f"g{j}" for j in range(d)), tuple(f"guide{k}" for k in range(m))
    table = pd.DataFrame(np.log1p(counts / size[:, None] * np.median(size)), columns=list(variables))
    table[CONTEXT] = np.array(["control", *contexts])[rng.permutation(context) if sham else context]
    targets = np.zeros((m, d), bool)
    targets[np.arange(m), hit] = not sham
    return Trial(f"seed {seed}", seed, table, "control", variables, contexts, targets, (weight != 0).astype(np.int8))


def _sachs_table(shared: Path, log: bool) -> tuple[pd.DataFrame, tuple[str, ...], tuple[str, ...]]:
    table = pd.read_csv(shared / "sachs" / "sachs_wang2017_dcdi_5846.csv")
    variables = tuple(table.columns[list(table.columns).index("Raf") :])
    contexts = tuple(name for name in dict.fromkeys(table[CONTEXT]) if name != "control")
    if log:
        table[list(variables)] = np.log(table[list(variables)])
    return table, variables, contexts


def sachs_sham(shared: Path, seed: int, log: bool) -> Trial:
    """Sachs with the labels of the contexts permuted, so that no context has a target."""
    table, variables, contexts = _sachs_table(shared, log)
    labels = np.random.default_rng(seed).permutation(table[CONTEXT])
    table = table[list(variables)].assign(**{CONTEXT: labels})
    nobody = np.zeros((len(contexts), len(variables)), bool)
    return Trial(f"permutation {seed}", seed, table, "control", variables, contexts, nobody)


def sachs(shared: Path, seed: int) -> Trial:
    """Logarithms, nominal targets, the consensus of 18 edges."""
    table, variables, _ = _sachs_table(shared, log=True)
    gold = shared / "sachs" / "graph_consensus18_utigsp.csv"
    case = real(f"seed {seed}", seed, table, "Raf", [gold], log=False)
    kept = table[[*variables, CONTEXT]]
    return Trial(case.label, seed, kept, "control", variables, case.data.contexts, case.targets != 0, case.graph)


def dream4(shared: Path, seed: int, single: bool, known: bool) -> Trial:
    """A network of ten genes: knock-out and knock-down of a gene are one context of two rows, or two of one row.

    Wild type and multifactorial rows are observational, time series are left out.
    """
    number, folder = 1 + seed % 5, shared / "dream4"
    table = pd.read_csv(folder / f"dream4_size10_{number}.csv")
    table = table[table["experiment"] != "timeseries"].replace({CONTEXT: {"multifactorial": "control"}})
    if not single:
        table = table.assign(**{CONTEXT: table[CONTEXT].str.replace("^K[OD]_", "", regex=True)})
    case = real(f"net {number}", seed, table, "G1", [folder / f"gold_size10_{number}.csv"], log=False)
    kept = table[[*case.data.variables, CONTEXT]]
    truth = case.targets != 0
    return Trial(case.label, seed, kept, "control", case.data.variables, case.data.contexts, truth, case.graph, known)


class Kind(NamedTuple):
    """How to draw a trial of a seed, and how many there are at most."""

    draw: Callable[[int], Trial]
    most: int | None = None


def kinds(shared: Path) -> dict[str, Kind]:
    """All kinds of trials by name."""
    files = {name: read_spec(TASKS / f"{name}.toml") for name in CLEAN_TASKS}
    every = {name: Kind(lambda seed, spec=spec: simulated(spec, seed)) for name, spec in (VIOLATIONS | files).items()}
    return every | {
        "screen": Kind(lambda seed: screen(seed, sham=False)),
        "screen-sham": Kind(lambda seed: screen(seed, sham=True)),
        "sachs-sham": Kind(lambda seed: sachs_sham(shared, seed, log=False), 5),
        "sachs-log-sham": Kind(lambda seed: sachs_sham(shared, seed, log=True), 5),
        "sachs": Kind(lambda seed: sachs(shared, seed), 1),
        "dream4": Kind(lambda seed: dream4(shared, seed, single=False, known=False), 5),
        "dream4-one-row": Kind(lambda seed: dream4(shared, seed, single=True, known=False), 5),
        "dream4-labels": Kind(lambda seed: dream4(shared, seed, single=False, known=True), 5),
        "dream4-one-row-labels": Kind(lambda seed: dream4(shared, seed, single=True, known=True), 5),
    }
