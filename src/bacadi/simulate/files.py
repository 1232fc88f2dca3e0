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

`load_truth`: a task read back from the tables that `write_task` wrote.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int8

import bacadi
from bacadi.data.contexts import ContextData, Scaling
from bacadi.data.text import quoted, write_text
from bacadi.errors import StoreError
from bacadi.simulate import files
from bacadi.simulate.grn import RegulatoryNetwork
from bacadi.simulate.synthetic import CausalNetwork, Effects, LinearFunctions
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


@dataclass(frozen=True, eq=False)
class Truth:
    """All of a `Task` that its tables hold, under the same names and in the same units: `data.scaling` leads there.

    `weights` are there where the mechanisms are linear and `noise_std` where there is Gaussian noise. The functions of
    other mechanisms and those that fully soft effects drew for themselves are not stored.
    """

    seed: int
    graph: Int8[np.ndarray, "d d"]
    weights: Float[np.ndarray, "d d"] | None
    noise_std: Float[np.ndarray, " d"] | None
    effects: Effects
    data: ContextData
    held_out_effects: Effects
    held_out: ContextData

    @property
    def targets(self) -> Int8[np.ndarray, "m d"]:
        """The true targets of the training contexts; row k belongs to `data.contexts[k]`."""
        return self.effects.targets

    @property
    def held_out_targets(self) -> Int8[np.ndarray, "h d"]:
        """The targets of the held-out contexts; row k belongs to `held_out.contexts[k]`."""
        return self.held_out_effects.targets


class _Labels(NamedTuple):
    variables: tuple[str, ...]
    contexts: tuple[str, ...]
    observational: str | None


def load_truth(folder: str | Path) -> Truth:
    """The task in a folder that `bacadi simulate` wrote; what is missing or damaged is refused in words.

    >>> import tempfile
    >>> from bacadi.simulate import ErdosRenyi, SyntheticSpec, simulate
    >>> folder, task = tempfile.mkdtemp(), simulate(SyntheticSpec(5, ErdosRenyi(1)), seed=0)
    >>> files.write_task(task, folder, {"kind": "synthetic"})
    >>> truth = load_truth(folder)
    >>> bool((truth.graph == task.graph).all() and (truth.data.x == task.data.x).all())
    True
    """
    folder = Path(folder)
    record = _read_truth(folder)
    try:
        variables, seed = tuple(record["variables"]), int(record["seed"])
        training = _Labels(variables, tuple(record["contexts"]), record["observational"])
        held_out = _Labels(variables, tuple(record["held_out_contexts"]), None)
        shift, scale = (_numbers(record["scaling"][name], len(variables)) for name in ("shift", "scale"))
        noise_std = None if record["noise_std"] is None else _numbers(record["noise_std"], len(variables)) * scale
        linear = record["weight"] == files.LINEAR
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(folder / files.TASK) from error
    graph, weights = _edges(folder / files.EDGES, variables)
    back = Scaling(-shift / scale, 1 / scale)  # from the units of the tables to those of the task
    return Truth(
        seed,
        graph,
        weights * scale / scale[:, None] if linear else None,
        noise_std,
        files.in_units(_effects(folder, files.TRAINING, training), back),
        _data(folder / files.TRAINING[0], training, Scaling(shift, scale)),
        files.in_units(_effects(folder, files.HELD_OUT, held_out), back),
        _data(folder / files.HELD_OUT[0], held_out, Scaling(shift, scale)),
    )


def _read_truth(folder: Path) -> dict[str, Any]:
    path = folder / files.TASK
    if not path.is_file():
        what = "holds no complete task (there is no task.json)" if folder.is_dir() else "is no folder"
        raise StoreError(f"'{folder}' {what}; give the --out folder of `bacadi simulate`.")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(path) from error
    if not isinstance(record, dict) or "bacadi" not in record:
        raise _damaged(path)
    return record


def _edges(path: Path, variables: Sequence[str]) -> tuple[Int8[np.ndarray, "d d"], Float[np.ndarray, "d d"]]:
    shape = (len(variables), len(variables))
    graph, weights = np.zeros(shape, dtype=np.int8), np.zeros(shape)
    for line, (source, target, weight) in _rows(path, files.EDGE_COLUMNS):
        edge = _at(path, line, source, variables), _at(path, line, target, variables)
        graph[edge], weights[edge] = 1, _number(path, line, weight or "0")
    return graph, weights


def _effects(folder: Path, names: Sequence[str], labels: _Labels) -> Effects:
    shape = (len(labels.contexts), len(labels.variables))
    targets, keeps_parents = np.zeros(shape, dtype=np.int8), np.zeros(shape, dtype=bool)
    shift, std = np.zeros(shape), np.zeros(shape)
    path = folder / names[1]
    for line, (context, variable) in _rows(path, files.TARGET_COLUMNS):
        k = _at(path, line, context, labels.contexts)
        if variable:
            targets[k, _at(path, line, variable, labels.variables)] = 1
    path = folder / names[2]
    for line, (context, variable, keeps, *numbers) in _rows(path, files.EFFECT_COLUMNS):
        cell = _at(path, line, context, labels.contexts), _at(path, line, variable, labels.variables)
        keeps_parents[cell] = _number(path, line, keeps) == 1
        shift[cell], std[cell] = (_number(path, line, number) for number in numbers)
    return Effects(targets, keeps_parents, shift, std, (None,) * len(targets))


def _data(path: Path, labels: _Labels, scaling: Scaling) -> ContextData:
    names = (str(labels.observational), *labels.contexts)
    x, context = [], []
    for line, (*values, label) in _rows(path, (*labels.variables, files.CONTEXT)):
        x.append([_number(path, line, value) for value in values])
        context.append(_at(path, line, label, names))
    return ContextData(
        np.array(x, dtype=float).reshape(len(x), len(labels.variables)),
        np.array(context, dtype=int),
        labels.variables,
        labels.contexts,
        labels.observational,
        scaling,
    )


def _rows(path: Path, header: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every row below the header, all as long as the header."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"'{path}' cannot be read; simulate the task again.") from error
    reader = csv.reader(text.splitlines())
    if tuple(next(reader, ())) != tuple(header):
        raise StoreError(f"Line 1 of '{path}' is not '{','.join(header)}'; simulate the task again.")
    for row in reader:
        if len(row) != len(header):
            raise StoreError(
                f"Line {reader.line_num} of '{path}' has {len(row)} values and the header names {len(header)}; "
                "simulate the task again."
            )
        yield reader.line_num, row


def _at(path: Path, line: int, name: str, names: Sequence[str]) -> int:
    if name not in names:
        raise StoreError(f"Line {line} of '{path}' names {quoted(name)}, which is not in the task; correct it.")
    return names.index(name)


def _number(path: Path, line: int, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise StoreError(f"Line {line} of '{path}' has {quoted(text)} for a number; correct it.") from None


def _numbers(values: Sequence[float], length: int) -> Float[np.ndarray, " d"]:
    numbers = np.array(values, dtype=float)
    if numbers.shape != (length,):
        raise ValueError(f"{numbers.shape} numbers for {length} variables")
    return numbers


def _damaged(path: Path) -> StoreError:
    return StoreError(f"'{path}' is damaged or not ours; simulate the task again.")
