"""Knowledge as plain data under the names of variables and contexts: what a run records of it, without any files."""

import math
from typing import Any

import numpy as np

from bacadi.model.knowledge import Knowledge, Labels

_Rows = list[list[Any]]


def to_record(knowledge: Knowledge | None) -> dict[str, Any] | None:
    """All that is known, fit for JSON: rows of two names and log odds, and log probabilities of numbers of targets.

    >>> to_record(Knowledge.none(2, 1, Labels(("a", "b"), ("ko",))).forbid(0, 1))
    {'edges': [['a', 'b', '-inf']], 'targets': [], 'max_parents': None, 'target_counts': None}
    """
    if knowledge is None:
        return None
    variables, contexts = knowledge.labels.variables, knowledge.labels.contexts
    counts = knowledge.target_count_log
    return {
        "edges": _rows(knowledge.edge_log_odds, variables, variables),
        "targets": _rows(knowledge.target_log_odds, contexts, variables),
        "max_parents": knowledge.max_parents,
        "target_counts": None if counts is None else [[_plain(value) for value in row] for row in counts.tolist()],
    }


def from_record(record: dict[str, Any] | None, labels: Labels) -> Knowledge | None:
    """The inverse of `to_record`."""
    if record is None:
        return None
    d, m = len(labels.variables), len(labels.contexts)
    counts = record["target_counts"]
    return Knowledge(
        _cells(record["edges"], labels.variables, labels.variables),
        record["max_parents"],
        _cells(record["targets"], labels.contexts, labels.variables),
        None if counts is None else np.array([[float(value) for value in row] for row in counts]).reshape(m, d + 1),
        labels,
    )


def _rows(cells: np.ndarray, first: tuple[str, ...], second: tuple[str, ...]) -> _Rows:
    return [[first[i], second[j], _plain(float(cells[i, j]))] for i, j in np.argwhere(cells != 0).tolist()]


def _cells(rows: _Rows, first: tuple[str, ...], second: tuple[str, ...]) -> np.ndarray:
    cells = np.zeros((len(first), len(second)))
    for one, other, log_odds in rows:
        cells[first.index(one), second.index(other)] = float(log_odds)
    return cells


def _plain(value: float) -> float | str:
    """JSON has no infinity."""
    return str(value) if math.isinf(value) else value
