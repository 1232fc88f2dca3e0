"""A task as a folder of plain tables: what `bacadi simulate` writes and `bacadi evaluate` reads.

| file | columns or content |
|---|---|
| data.csv | one column a variable, `context`; the table for `bacadi fit --context context` |
| truth_edges.csv | source, target, weight (linear coefficient or interaction strength, else empty) |
| truth_targets.csv | context, variable (empty: no target); fit for `bacadi fit --targets` |
| truth_effects.csv | context, variable, keeps_parents, shift, std |
| held_out.csv, held_out_targets.csv, held_out_effects.csv | the same for the held-out contexts |
| spec.toml | the specification as it was given |
| task.json | version, seed, specification with all defaults, labels, noise and scaling of the variables |

All numbers are in the units of data.csv, whether it is standardised or not; interaction strengths alone are as drawn.
The scaling in task.json leads back to the units in which the task was drawn: drawn = value · scale + shift. Every file
appears whole or not at all, and task.json comes last: a folder without it is not complete.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

import bacadi
from bacadi.data.context import ContextData, Scaling
from bacadi.errors import StoreError
from bacadi.posterior.files import write_text
from bacadi.simulate.effects import Effects
from bacadi.simulate.grn import RegulatoryNetwork
from bacadi.simulate.mechanisms import LinearFunctions
from bacadi.simulate.network import CausalNetwork
from bacadi.simulate.task import Task

TASK, SPEC, EDGES, CONTEXT = "task.json", "spec.toml", "truth_edges.csv", "context"
LINEAR, STRENGTH = "linear coefficient", "interaction strength, negative where it represses"
TRAINING = ("data.csv", "truth_targets.csv", "truth_effects.csv")
HELD_OUT = ("held_out.csv", "held_out_targets.csv", "held_out_effects.csv")
FILES = (*TRAINING, EDGES, *HELD_OUT, SPEC, TASK)
EDGE_COLUMNS, TARGET_COLUMNS = ("source", "target", "weight"), (CONTEXT, "variable")
EFFECT_COLUMNS = (*TARGET_COLUMNS, "keeps_parents", "shift", "std")


def write_task(task: Task, folder: str | Path, spec: Mapping[str, Any], spec_toml: str | None = None) -> None:
    """Write the tables of a task and, last, task.json with the values of its specification.

    `spec` are the values as plain tables (`bacadi.settings.specs.values_of`); `spec_toml` is the text they came from.

    >>> import tempfile
    >>> from bacadi.simulate import ErdosRenyi, SyntheticSpec, simulate
    >>> folder, task = Path(tempfile.mkdtemp()), simulate(SyntheticSpec(5, ErdosRenyi(1)), seed=0)
    >>> write_task(task, folder, {"kind": "synthetic"})
    >>> (folder / "truth_targets.csv").read_text().split()
    ['context,variable', 'c1,x1', 'c2,x2', 'c3,x3', 'c4,x4', 'c5,x5']
    """
    folder = Path(folder)
    try:
        (folder / TASK).unlink(missing_ok=True)  # what is written next does not belong to it
    except OSError as error:
        raise StoreError(f"'{folder / TASK}' cannot be replaced ({error.strerror}); choose another folder.") from error
    for names, data, drawn in ((TRAINING, task.data, task.effects), (HELD_OUT, task.held_out, task.held_out_effects)):
        effects = in_units(drawn, data.scaling)
        _write(folder / names[0], (*data.variables, CONTEXT), _data_rows(data))
        _write(folder / names[1], TARGET_COLUMNS, _target_rows(data, effects))
        _write(folder / names[2], EFFECT_COLUMNS, _effect_rows(data, effects))
    _write(folder / EDGES, EDGE_COLUMNS, _edge_rows(task))
    if spec_toml is not None:
        write_text(folder / SPEC, spec_toml)
    write_text(folder / TASK, json.dumps(_record(task, spec), indent=2, ensure_ascii=False) + "\n")


def in_units(effects: Effects, scaling: Scaling) -> Effects:
    """The effects on scaled variables: (μ - shift) / scale for a mean μ, s / scale for s that adds to a mechanism.

    >>> five, none = np.full((1, 1), 5.0), np.zeros((1, 1), dtype=bool)
    >>> effects = Effects(np.ones((1, 1), np.int8), none, five, five, (None,))
    >>> in_units(effects, Scaling(np.ones(1), np.full(1, 2.0))).shift.tolist()
    [[2.0]]
    """
    moved = np.where(effects.keeps_parents, effects.shift, effects.shift - scaling.shift) / scaling.scale
    return replace(effects, shift=effects.targets * moved, std=effects.std / scaling.scale)


def _record(task: Task, spec: Mapping[str, Any]) -> dict[str, Any]:
    data, held_out = task.data, task.held_out
    return {
        "bacadi": bacadi.__version__,
        "seed": task.seed,
        "spec": dict(spec),
        "context_column": CONTEXT,
        "observational": data.observational,
        "contexts": data.contexts,
        "held_out_contexts": held_out.contexts,
        "variables": data.variables,
        "noise_std": _noise_std(task),
        "weight": _weights(task)[0],
        "scaling": {"shift": data.scaling.shift.tolist(), "scale": data.scaling.scale.tolist()},
    }


def _data_rows(data: ContextData) -> Iterator[list[str]]:
    labels = (str(data.observational), *data.contexts)
    for x, k in zip(data.x.tolist(), data.context.tolist(), strict=True):
        yield [*map(repr, x), labels[k]]


def _target_rows(data: ContextData, effects: Effects) -> Iterator[list[str]]:
    for label, row in zip(data.contexts, effects.targets, strict=True):
        for name in [data.variables[i] for i in np.flatnonzero(row)] or [""]:
            yield [label, name]


def _effect_rows(data: ContextData, effects: Effects) -> Iterator[list[str]]:
    for k, i in np.argwhere(effects.targets).tolist():
        numbers = (int(effects.keeps_parents[k, i]), float(effects.shift[k, i]), float(effects.std[k, i]))
        yield [data.contexts[k], data.variables[i], *map(repr, numbers)]


def _edge_rows(task: Task) -> Iterator[list[str]]:
    names, (_, weights) = task.data.variables, _weights(task)
    for i, j in np.argwhere(task.graph).tolist():
        yield [names[i], names[j], "" if weights is None else repr(float(weights[i, j]))]


def _weights(task: Task) -> tuple[str | None, Float[np.ndarray, "d d"] | None]:
    """What the weight of an edge is, and the weights; nothing where an edge is no single number."""
    if isinstance(task.network, RegulatoryNetwork):
        return STRENGTH, task.network.strengths
    functions, scale = task.network.functions, task.data.scaling.scale
    if not isinstance(functions, LinearFunctions):
        return None, None
    return LINEAR, functions.weights * scale[:, None] / scale


def _noise_std(task: Task) -> list[float] | None:
    network = task.network
    return (network.noise_std / task.data.scaling.scale).tolist() if isinstance(network, CausalNetwork) else None


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, text.getvalue())
