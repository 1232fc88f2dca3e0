"""The context column: labels as text, and what can be wrong with them."""

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Int

from bacadi.data.findings import Finding, error, note, warning
from bacadi.data.words import closest, counted, listed, quoted, row_name

if TYPE_CHECKING:
    import pandas as pd

MIN_ROWS = 2
"""Fewest rows of a context: with one row alone a changed mechanism cannot be told from noise."""

_FEW_ROWS = 5

_CONTROL_WORDS = frozenset(
    {"0", "obs", "observational", "control", "ctrl", "wt", "wildtype", "wild type", "wild-type", "none", "ntc"}
    | {"untreated", "unperturbed", "non-targeting", "mock", "vehicle", "dmso", "baseline", "reference"}
)


def to_labels(column: "pd.Series") -> tuple[list[str], Bool[np.ndarray, " n"]]:
    """Every label as text, and a mask of the rows that have none.

    >>> import pandas as pd
    >>> to_labels(pd.Series([1, 2, 1]))[0]
    ['1', '2', '1']
    """
    missing = column.isna().to_numpy(dtype=bool)
    labels = [str(label) for label in column.to_list()]
    return labels, missing | np.array([not label.strip() for label in labels], dtype=bool)


def context_numbers(labels: list[str], observational: str | None) -> tuple[Int[np.ndarray, " n"], tuple[str, ...]]:
    """Numbers 1..M in order of first appearance, 0 for the observational label, and the names of 1..M.

    >>> numbers, names = context_numbers(["ko", "obs", "ko", "drug"], "obs")
    >>> numbers.tolist(), names
    ([1, 0, 1, 2], ('ko', 'drug'))
    """
    names = tuple(label for label in dict.fromkeys(labels) if label != observational)
    number = {label: k for k, label in enumerate(names, start=1)}
    return np.array([number.get(label, 0) for label in labels], dtype=np.int64), names


def label_findings(
    index: "pd.Index", labels: list[str], missing: Bool[np.ndarray, " n"], observational: str | None
) -> list[Finding]:
    """Everything about the labels alone, not about the numbers in the rows."""
    counts = Counter(label for label, gone in zip(labels, missing, strict=True) if not gone)
    findings = []
    if missing.any():
        others = int(missing.sum()) - 1
        more = f" and in {counted(others, 'more row')}" if others else ""
        findings.append(
            error(
                "missing-context",
                f"The context column has no label in {row_name(index, int(np.argmax(missing)))}{more}; "
                "write the context of every row, or drop the row.",
            )
        )
    if observational is not None and observational not in counts:
        findings.append(
            error(
                "unknown-observational",
                f"No row has the observational label {quoted(observational)}{closest(observational, list(counts))}; "
                f"the contexts are {listed(counts)}, so name one of these.",
            )
        )
    return findings + _size_findings(counts) + _design_findings(counts, observational) + _spelling(counts)


def _size_findings(counts: Counter[str]) -> list[Finding]:
    rows = counts.total()
    if len(counts) == rows > 2:
        return [
            error(
                "context-is-index",
                f"Every one of the {rows} rows has a context of its own (the first is {quoted(next(iter(counts)))}), "
                "so the context column looks like a row number; name the column that groups the rows.",
            )
        ]
    single = [label for label, count in counts.items() if count < MIN_ROWS]
    findings = [
        error(
            "small-context",
            f"Context {quoted(label)} has only {counted(counts[label], 'row')} and needs at least {MIN_ROWS}; "
            "add rows, merge it with a context of the same treatment, or drop it.",
        )
        for label in single
    ]
    few = [label for label, count in counts.items() if MIN_ROWS <= count < _FEW_ROWS]
    if few:
        which, it = ("Context {} has", "it") if len(few) == 1 else ("Contexts {} have", "them")
        findings.append(
            note(
                "few-rows",
                f"{which.format(listed(few))} fewer than {_FEW_ROWS} rows; expect wide uncertainty about {it}.",
            )
        )
    return findings


def _design_findings(counts: Counter[str], observational: str | None) -> list[Finding]:
    if not counts:
        return []
    if len(counts) == 1:
        only = quoted(next(iter(counts)))
        return [
            warning(
                "one-context",
                f"All rows are of the one context {only}, so nothing tells cause from effect beyond the "
                "conditional independences; add rows from another context if you have them.",
            )
        ]
    if observational is not None:
        return []
    control = [label for label in counts if label.strip().lower() in _CONTROL_WORDS]
    hint = f" (perhaps {listed(control)})" if control else ""
    return [
        warning(
            "no-observational",
            "No observational context is named, so every context may have targets and the unperturbed mechanisms are "
            f"learnt only from what the contexts share; if one of them is the untouched control{hint}, name it as "
            "observational.",
        )
    ]


def _spelling(counts: Counter[str]) -> list[Finding]:
    variants: dict[str, list[str]] = {}
    for label in counts:
        variants.setdefault(" ".join(label.lower().split()), []).append(label)
    return [
        warning(
            "similar-contexts",
            f"The contexts {' and '.join(repr(label) for label in group)} differ only in capitals or spaces and are "
            "treated as different; spell them alike if they are the same.",
        )
        for group in variants.values()
        if len(group) > 1
    ]


def context_candidates(table: "pd.DataFrame") -> list[str]:
    """Columns that could name the contexts: few distinct values and at least two rows each on average.

    >>> import pandas as pd
    >>> context_candidates(pd.DataFrame({"a": [0.1, 0.2, 0.3, 0.4], "arm": ["wt", "wt", "ko", "ko"]}))
    ['arm']
    """
    import pandas as pd

    few, words = [], []
    for j, name in enumerate(table.columns):
        column = table.iloc[:, j]
        if not pd.api.types.is_float_dtype(column.dtype) and 1 <= column.nunique() <= max(1, len(column) // 2):
            few.append(str(name))
            if not pd.api.types.is_numeric_dtype(column.dtype):
                words.append(str(name))
    return words or few  # words are a better guess than whole numbers, which may be a variable
