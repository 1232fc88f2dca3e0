"""Tasks as files: specifications in TOML, and a simulated task as a folder of plain tables.

| file | columns or content |
|---|---|
| data.csv | one column per variable, `context`; the table for `bacadi fit --context context` |
| truth_edges.csv | source, target, weight (linear coefficient or interaction strength, else empty) |
| truth_targets.csv | context, variable (empty: no target); fit for `bacadi fit --targets` |
| truth_effects.csv | context, variable, keeps_parents, shift, std |
| held_out.csv, held_out_targets.csv, held_out_effects.csv | the same for the held-out contexts |
| spec.toml | the specification as it was given |
| task.json | version, seed, specification with all defaults, labels, noise and scaling of the variables |

All numbers are in the units of data.csv, whether it is standardised or not; interaction strengths alone are as drawn.
The scaling in task.json leads back to the units in which the task was drawn: drawn = value · scale + shift. Every file
appears whole or not at all, and task.json comes last: a folder without it is not complete. The functions of mechanisms
that are not linear, and the parameters that fully soft effects drew for themselves, are not stored.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int8

import bacadi
from bacadi.config.codec import Place, decode, encode, read_toml
from bacadi.data.contexts import ContextData, Scaling
from bacadi.data.text import quoted, read_rows, write_text
from bacadi.errors import ConfigError, DataError, StoreError
from bacadi.model.linear import LinearGaussian, LinearTheta
from bacadi.model.network import CausalNetwork, Effects
from bacadi.simulate.grn import RegulatoryNetwork
from bacadi.simulate.task import AbstractSpec, Task

TASK, SPEC, EDGES, CONTEXT = "task.json", "spec.toml", "truth_edges.csv", "context"
LINEAR, STRENGTH = "linear coefficient", "interaction strength, negative where it represses"
TRAINING = ("data.csv", "truth_targets.csv", "truth_effects.csv")
HELD_OUT = ("held_out.csv", "held_out_targets.csv", "held_out_effects.csv")
FILES = (*TRAINING, EDGES, *HELD_OUT, SPEC, TASK)
EDGE_COLUMNS, TARGET_COLUMNS = ("source", "target", "weight"), (CONTEXT, "variable")
EFFECT_COLUMNS = (*TARGET_COLUMNS, "keeps_parents", "shift", "std")
SCALING = ("shift", "scale")
Names = tuple[str, ...]


def read_spec(path: str | Path) -> AbstractSpec:
    """Read a specification from a TOML file; whatever is wrong with it is refused in a sentence that names the key.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "task.toml"
    >>> _ = path.write_text('type = "synthetic"\\nn_variables = 9\\n[graph]\\ntype = "scale-free"\\n')
    >>> spec = read_spec(path)
    >>> spec.graph, spec.n_observational
    (RandomScaleFree(edges_per_node=2), 100)
    """
    return decode_spec(read_toml(Path(path), "specification"), quoted(Path(path).name))


def decode_spec(table: dict[str, Any], source: str) -> AbstractSpec:
    """Make a specification from nested tables; `source` names their origin in refusals.

    >>> decode_spec({"type": "synthetic", "noise": {"low": 0.1, "high": 0.1}}, "the example").noise
    UniformNoise(low=0.1, high=0.1)
    """
    place = Place(source)
    spec: AbstractSpec = decode(AbstractSpec, table, place)
    try:  # a graph family refuses a density only when it draws, and then it knows neither key nor file
        spec.graph.draw(np.random.default_rng(0), spec.n_variables)
    except ConfigError as refusal:
        key, what = place.below("graph").key("edges_per_node"), str(refusal)
        raise ConfigError(
            f"{key} does not fit n_variables = {spec.n_variables}: {what[:1].lower()}{what[1:]}"
        ) from None
    except (MemoryError, OverflowError, ValueError):  # what NumPy makes of an array that is too large
        raise ConfigError(
            f"{place.key('n_variables')} is {spec.n_variables}, whose graph does not fit into memory; ask for fewer."
        ) from None
    return spec


def write_task(task: Task, folder: str | Path, spec_toml: str | None = None) -> None:
    """Write the tables of a task and, last, task.json; `spec_toml` is the text that its specification came from.

    >>> import tempfile
    >>> from bacadi.simulate import RandomErdosRenyi, SyntheticSpec, simulate
    >>> folder, task = Path(tempfile.mkdtemp()), simulate(SyntheticSpec(5, RandomErdosRenyi(1)), seed=0)
    >>> write_task(task, folder)
    >>> (folder / "truth_targets.csv").read_text().split()
    ['context,variable', 'c1,x1', 'c2,x2', 'c3,x3', 'c4,x4', 'c5,x5']
    """
    folder = Path(folder)
    try:
        (folder / TASK).unlink(missing_ok=True)  # what is written next does not belong to it
    except OSError as error:
        raise StoreError(f"'{folder / TASK}' cannot be replaced ({error.strerror}); choose another folder.") from error
    for names, data, drawn in ((TRAINING, task.data, task.effects), (HELD_OUT, task.held_out, task.held_out_effects)):
        labels, rows = (str(data.observational), *data.contexts), zip(data.x.tolist(), data.context, strict=True)
        _write(folder / names[0], (*data.variables, CONTEXT), ([*map(repr, x), labels[k]] for x, k in rows))
        _write(folder / names[1], TARGET_COLUMNS, _target_rows(data, drawn))
        _write(folder / names[2], EFFECT_COLUMNS, _effect_rows(data, drawn.scaled(data.scaling)))
    what, weights = _weights(task)
    variables, edges = task.data.variables, np.argwhere(task.graph).tolist()
    texts = ([variables[i], variables[j], "" if weights is None else repr(float(weights[i, j]))] for i, j in edges)
    _write(folder / EDGES, EDGE_COLUMNS, texts)
    if spec_toml is not None:
        write_text(folder / SPEC, spec_toml)
    write_text(folder / TASK, json.dumps(_record(task, what), indent=2, ensure_ascii=False) + "\n")


def _record(task: Task, weight: str | None) -> dict[str, Any]:
    data, scaling = task.data, task.data.scaling
    return {
        "bacadi": bacadi.__version__,
        "seed": task.seed,
        "spec": encode(task.spec),
        "context_column": CONTEXT,
        "observational": data.observational,
        "contexts": data.contexts,
        "held_out_contexts": task.held_out.contexts,
        "variables": data.variables,
        "noise_std": None if task.noise_std is None else (task.noise_std / scaling.scale).tolist(),
        "weight": weight,
        "scaling": {name: getattr(scaling, name).tolist() for name in SCALING},
    }


def _weights(task: Task) -> tuple[str | None, Float[np.ndarray, "d d"] | None]:
    """What the weight of an edge is, and the weights; nothing where an edge is not a single number."""
    if isinstance(task.network, RegulatoryNetwork):
        return STRENGTH, task.network.strengths
    return (None, None) if task.weights is None else (LINEAR, task.data.scaling.inverse().weights(task.weights))


def _target_rows(data: ContextData, effects: Effects) -> Iterable[Sequence[str]]:
    for label, row in zip(data.contexts, effects.targets, strict=True):
        for name in [data.variables[i] for i in np.flatnonzero(row)] or [""]:
            yield label, name


def _effect_rows(data: ContextData, effects: Effects) -> Iterable[Sequence[str]]:
    for k, i in np.argwhere(effects.targets).tolist():
        numbers = (int(effects.keeps_parents[k, i]), float(effects.shift[k, i]), float(effects.std[k, i]))
        yield data.contexts[k], data.variables[i], *map(repr, numbers)


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, text.getvalue())


def read_task(folder: str | Path) -> Task:
    """Read the task in a folder that `bacadi simulate` wrote; what is missing or damaged is refused in words.

    >>> import tempfile
    >>> from bacadi.simulate import RandomErdosRenyi, SyntheticSpec, simulate
    >>> folder, task = tempfile.mkdtemp(), simulate(SyntheticSpec(5, RandomErdosRenyi(1)), seed=0)
    >>> write_task(task, folder)
    >>> same = read_task(folder)
    >>> bool((same.graph == task.graph).all() and (same.data.x == task.data.x).all())
    True
    """
    folder = Path(folder)
    path = folder / TASK
    if not path.is_file():
        what = "holds no complete task (there is no task.json)" if folder.is_dir() else "is no folder"
        raise StoreError(f"'{folder}' {what}; give the --out folder of `bacadi simulate`.")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        variables, seed, linear = tuple(record["variables"]), int(record["seed"]), record["weight"] == LINEAR
        contexts, held_out_contexts = tuple(record["contexts"]), tuple(record["held_out_contexts"])
        observational, noise = record["observational"], record["noise_std"]
        scaling = Scaling(*(np.array(record["scaling"][name], float).reshape(len(variables)) for name in SCALING))
        noise_std = None if noise is None else np.array(noise, float).reshape(len(variables)) * scaling.scale
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"'{path}' is damaged or not ours; simulate the task again.") from error
    graph, weights = _read_edges(folder / EDGES, variables)
    network = None
    if linear and noise_std is not None:
        theta = LinearTheta(scaling.weights(weights), None, np.log(noise_std))
        network = CausalNetwork(graph, LinearGaussian(), theta)

    def part(files: Names, names: Names, base: str | None) -> tuple[Effects, ContextData]:
        effects = _read_effects(folder, files, variables, names).scaled(scaling.inverse())
        return effects, _read_data(folder / files[0], variables, names, base, scaling)

    training, held_out = part(TRAINING, contexts, observational), part(HELD_OUT, held_out_contexts, None)
    return Task(seed, graph, *training, *held_out, network, noise_std)


def _read_edges(path: Path, variables: Names) -> tuple[Int8[np.ndarray, "d d"], Float[np.ndarray, "d d"]]:
    weights = np.zeros((len(variables), len(variables)))
    graph = weights.astype(np.int8)
    for line, (source, target, weight) in _rows(path, EDGE_COLUMNS):
        edge = _at(line, source, variables), _at(line, target, variables)
        graph[edge], weights[edge] = 1, _number(line, weight or "0")
    return graph, weights


def _read_effects(folder: Path, files: Names, variables: Names, contexts: Names) -> Effects:
    shape = (len(contexts), len(variables))
    targets, keeps_parents = np.zeros(shape, dtype=np.int8), np.zeros(shape, dtype=bool)
    shift, std = np.zeros(shape), np.zeros(shape)
    for line, (context, variable) in _rows(folder / files[1], TARGET_COLUMNS):
        k = _at(line, context, contexts)
        if variable:
            targets[k, _at(line, variable, variables)] = 1
    for line, (context, variable, *numbers) in _rows(folder / files[2], EFFECT_COLUMNS):
        cell = _at(line, context, contexts), _at(line, variable, variables)
        keeps_parents[cell], shift[cell], std[cell] = (_number(line, number) for number in numbers)
    return Effects(targets, keeps_parents, shift, std, (None,) * len(targets))


def _read_data(path: Path, variables: Names, contexts: Names, base: str | None, scaling: Scaling) -> ContextData:
    labels, x, context = (str(base), *contexts), [], []
    for line, (*values, label) in _rows(path, (*variables, CONTEXT)):
        x.append([_number(line, value) for value in values])
        context.append(_at(line, label, labels))
    rows = np.array(x, dtype=float).reshape(len(x), len(variables))
    return ContextData(rows, np.array(context, dtype=int), variables, contexts, base, scaling)


def _rows(path: Path, header: Names) -> Iterator[tuple[str, list[str]]]:
    """Where each row below the header is, in words, and its cells, as many as the header has."""
    try:
        (_, first), *rows = read_rows(path, "table") or [(1, [])]
    except DataError as refusal:
        raise StoreError(f"'{path}' cannot be read; simulate the task again.") from refusal
    if tuple(first) != header:
        raise StoreError(f"Line 1 of '{path}' is not '{','.join(header)}'; simulate the task again.")
    for number, row in rows:
        line = f"Line {number} of '{path}'"
        if len(row) != len(header):
            raise StoreError(
                f"{line} has {len(row)} values and the header names {len(header)}; simulate the task again."
            )
        yield line, row


def _at(line: str, name: str, names: Names) -> int:
    if name not in names:
        raise StoreError(f"{line} names {quoted(name)}, which is not in the task; correct it.")
    return names.index(name)


def _number(line: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise StoreError(f"{line} has {quoted(text)} for a number; correct it.") from None
