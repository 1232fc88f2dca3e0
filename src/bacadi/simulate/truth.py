"""`load_truth`: a task read back from the tables that `write_task` wrote."""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int8

from bacadi.data.context import ContextData, Scaling
from bacadi.data.words import quoted
from bacadi.errors import StoreError
from bacadi.simulate import files
from bacadi.simulate.effects import Effects


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
    record = _record(folder)
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


def _record(folder: Path) -> dict[str, Any]:
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
