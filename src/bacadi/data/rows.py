"""The numbers of the rows within their contexts: constant inside a context, decided by the context, repeated rows."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float, Int

from bacadi.data.columns import Matrix, Names, constant_columns
from bacadi.data.findings import Finding, note, warning
from bacadi.data.labels import context_numbers
from bacadi.data.words import counted, listed, quoted, row_name

if TYPE_CHECKING:
    import pandas as pd


def row_findings(index: "pd.Index", x: Matrix, names: Names, labels: list[str]) -> list[Finding]:
    """Findings about a finite table that need the context of each row."""
    return _constant_inside(x, names, labels) + _repeated_rows(index, x)


def _constant_inside(x: Matrix, names: Names, labels: list[str]) -> list[Finding]:
    numbers, contexts = context_numbers(labels, observational=None)
    varies = ~constant_columns(x)
    if len(contexts) < 2 or not varies.any():
        return []
    constant, value = _per_context(x, numbers)
    decided = constant.all(axis=0) & varies
    findings = [
        warning(
            "decided-by-context",
            f"Column {quoted(names[j])} has one value in each context and looks like a batch, dose or group label; "
            "drop it if it is no measured variable.",
        )
        for j in np.flatnonzero(decided)
    ]
    for k, label in enumerate(contexts):
        held = np.flatnonzero(constant[k] & varies & ~decided)
        if len(held):
            findings.append(_held(label, [names[j] for j in held], float(value[k, held[0]])))
    return findings


def _held(label: str, names: Names, value: float) -> Finding:
    which = f"column {quoted(names[0])} is" if len(names) == 1 else f"the {len(names)} columns {listed(names)} are"
    at = f" at {value:.6g}" if len(names) == 1 else ""
    return note(
        "constant-in-context",
        f"In context {quoted(label)} {which} constant{at}, as after a knock-out or a clamp; this is fine if meant.",
    )


def _per_context(x: Matrix, numbers: Int[np.ndarray, " n"]) -> tuple[Bool[np.ndarray, "k d"], Float[np.ndarray, "k d"]]:
    """Whether each column is constant in each context of two rows or more, and its first value there."""
    order = np.argsort(numbers, kind="stable")
    groups = np.split(x[order], np.cumsum(np.bincount(numbers)[1:])[:-1])
    constant = [constant_columns(rows) if len(rows) > 1 else np.zeros(x.shape[1], dtype=bool) for rows in groups]
    return np.stack(constant), np.stack([rows[0] for rows in groups])


def _repeated_rows(index: "pd.Index", x: Matrix) -> list[Finding]:
    # Whole numbers repeat by chance (counts, on/off states); measured decimals do not.
    if (x == np.rint(x)).all():
        return []
    seen: dict[bytes, int] = {}
    repeats = [(seen[key], n) for n, row in enumerate(x + 0.0) if seen.setdefault(key := row.tobytes(), n) != n]
    if not repeats:
        return []
    first, again = repeats[0]
    return [
        warning(
            "repeated-rows",
            f"{counted(len(repeats), 'row')} repeat the values of an earlier row (first: {row_name(index, again)} "
            f"repeats {row_name(index, first)}); drop them if a sample was entered twice.",
        )
    ]
