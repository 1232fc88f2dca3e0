"""A truth of the user's own, such as a curated network: pairs of names in CSV files, and the metrics it allows.

Nothing is known of effects, noise or held-out rows, so that only graphs and targets are compared. A curated network may
have feedback; then the metrics that need an acyclic truth (SID, ancestors, classes) are left out.
"""

import warnings
from pathlib import Path

import numpy as np
from jaxtyping import Int8

from bacadi.data.contexts import ContextData
from bacadi.data.text import closest, counted, listed, quoted, read_rows
from bacadi.errors import DataError
from bacadi.graph.dag import is_acyclic
from bacadi.metrics import evaluate as measures
from bacadi.metrics.evaluate import Values
from bacadi.model.network import Effects
from bacadi.posterior.posterior import Posterior
from bacadi.simulate.task import Task

EDGE_COLUMNS, TARGET_COLUMNS = ("source", "target"), ("context", "variable")


def evaluate_gold(posterior: Posterior, edges: Path, targets: Path | None = None) -> Values:
    """Every metric of graph and targets that two files allow: `source,target` and, if given, `context,variable`.

    Further columns are ignored. Pairs whose names the posterior does not have are left out with a warning; a context
    without a line counts as one without targets.
    """
    graph = _pairs(edges, EDGE_COLUMNS, posterior.variables, posterior.variables)
    if graph.diagonal().any():
        name = posterior.variables[int(graph.diagonal().argmax())]
        raise DataError(f"{quoted(edges.name)} names {quoted(name)} as its own cause; remove that line.")
    if graph.sum() == graph.size - len(graph):
        raise DataError(f"{quoted(edges.name)} lists every pair of variables; list only the edges that there are.")
    known = None if targets is None else _pairs(targets, TARGET_COLUMNS, posterior.contexts, posterior.variables)
    return evaluate_truth(posterior, graph, known)


def evaluate_truth(
    posterior: Posterior, graph: Int8[np.ndarray, "d d"], targets: Int8[np.ndarray, "M d"] | None = None
) -> Values:
    """The metrics of a true graph and, if given, true targets, both in the order of the posterior's names.

    >>> draws = np.array([[[[0, 1], [0, 0]]]], dtype=np.int8)
    >>> posterior = Posterior(draws, np.zeros((1, 1, 0, 2)), np.zeros((1, 1)), ("a", "b"), ())
    >>> evaluate_truth(posterior, draws[0, 0])["expected_shd"]
    0.0
    """
    acyclic = bool(is_acyclic(graph))
    chosen = [measures.cyclic_share, measures.edges, measures.edge_calibration]
    if acyclic:
        chosen.append(measures.ancestors)
    else:
        warnings.warn("SID, ancestors and classes are left out: the true graph has a cycle.", stacklevel=2)
    if targets is not None:
        chosen += [measures.targets, measures.target_calibration, *([measures.classes] if acyclic else [])]
    task = _task(
        posterior, graph, np.zeros((posterior.n_contexts, len(graph)), np.int8) if targets is None else targets
    )
    return measures.measured(measures.Comparison(posterior, task), chosen)


def _task(posterior: Posterior, graph: Int8[np.ndarray, "d d"], targets: Int8[np.ndarray, "M d"]) -> Task:
    """A task without rows that has this truth."""
    m, d = targets.shape
    nothing = np.zeros((m, d))
    effects = Effects(targets, np.ones((m, d), dtype=bool), nothing, nothing, (None,) * m)
    none = Effects(targets[:0], np.ones((0, d), dtype=bool), nothing[:0], nothing[:0], ())
    rows, context = np.zeros((0, d)), np.zeros(0, dtype=np.int64)
    data = ContextData(rows, context, posterior.variables, posterior.contexts, posterior.observational)
    return Task(0, graph, effects, data, none, ContextData(rows, context, posterior.variables, ()))


def _pairs(
    path: Path, columns: tuple[str, str], first: tuple[str, ...], second: tuple[str, ...]
) -> Int8[np.ndarray, "a b"]:
    """The pairs that a file lists as ones of a matrix; an empty second name means: none."""
    rows = read_rows(path, "file with the truth")
    header = rows[0][1] if rows else []
    if not set(columns) <= set(header):
        raise DataError(
            f"Line 1 of {quoted(path.name)} is {quoted(','.join(header))}; it must name {','.join(columns)}."
        )
    at, matrix = [header.index(name) for name in columns], np.zeros((len(first), len(second)), dtype=np.int8)
    unknown, n_left = dict[str, str](), 0
    for line, row in rows[1:]:
        if len(row) != len(header):
            what = f"Line {line} of {quoted(path.name)} has {counted(len(row), 'value')}"
            raise DataError(f"{what} and the header names {len(header)}; correct the line.")
        one, other = (row[j] for j in at)
        odd = [(one, first)] if one not in first else []
        odd += [(other, second)] if other and other not in second else []
        unknown |= {name: closest(name, names) for name, names in odd}
        n_left += bool(odd)
        if not odd and other:
            matrix[first.index(one), second.index(other)] = 1
    if rows[1:] and n_left == len(rows) - 1:
        raise DataError(
            f"No line of {quoted(path.name)} has names of the posterior ({listed(unknown, 3)} are not among them); "
            f"they are {listed(first, 4)} and {listed(second, 4)}."
        )
    if unknown:
        names = ", ".join(f"{quoted(name)}{near}" for name, near in list(unknown.items())[:3])
        what = f"{n_left} of {counted(len(rows) - 1, 'line')} of {quoted(path.name)} are left out"
        warnings.warn(f"{what}: the posterior does not have {names}.", stacklevel=3)
    return matrix
