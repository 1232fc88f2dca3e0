"""The doctor: one examination of a table, behind `bacadi check` and behind every `from_*` function."""

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from bacadi.data.cells import Column, cell_findings, to_column
from bacadi.data.columns import column_findings
from bacadi.data.context import ContextData
from bacadi.data.findings import Diagnosis, Finding, Severity, error
from bacadi.data.labels import context_numbers, label_findings, to_labels
from bacadi.data.rows import row_findings
from bacadi.data.words import closest, counted, listed, quoted
from bacadi.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


@dataclass(frozen=True)
class Examination:
    """A diagnosis with the arrays that were read on the way; they are complete when the diagnosis is ok."""

    diagnosis: Diagnosis
    x: Float[np.ndarray, "n d"]
    labels: list[str]

    def data(self) -> ContextData:
        """The arrays as `ContextData`, or the first error as a refusal."""
        for finding in self.diagnosis.of(Severity.ERROR):
            raise DataError(finding.message)
        numbers, contexts = context_numbers(self.labels, self.diagnosis.observational)
        return ContextData(self.x, numbers, self.diagnosis.variables, contexts, self.diagnosis.observational)


def diagnose(df: "pd.DataFrame", context: str, observational: str | None = None) -> Diagnosis:
    """What a table holds and what is wrong or risky about it, in plain words.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"a": [1.0, 2.5, 3.5, 0.5], "b": [0.0, None, 1.0, 2.0], "context": list("ooii")})
    >>> found = diagnose(table, "context", "o")
    >>> found.ok, found.contexts, [finding.code for finding in found.of(Severity.ERROR)]
    (False, (('o', 2), ('i', 2)), ['missing'])
    """
    return examine(df, context, observational).diagnosis


def examine(df: "pd.DataFrame", context: str, observational: str | None = None) -> Examination:
    """Examine a table whose column `context` names the context of each row and whose other columns are variables."""
    names, context = [str(name) for name in df.columns], str(context)
    structure = _column_names(df, names)
    position = names.index(context) if context in names else None
    if position is None:
        structure.insert(0, _no_context_column(df, names, context))
        values, labels = df, None
    else:
        values, labels = df.iloc[:, [j for j in range(len(names)) if j != position]], df.iloc[:, position]
    return examine_parts(values, labels, observational, structure)


def examine_parts(
    values: "pd.DataFrame",
    labels: "pd.Series | None",
    observational: str | None,
    structure: list[Finding] | None = None,
) -> Examination:
    """Examine the variables and the labels of a table apart; `structure` holds what was found already."""
    observational = None if observational is None else str(observational)
    names, findings = [str(name) for name in values.columns], list(structure or [])
    if labels is not None:
        findings += _size(values, names)
    texts, missing = to_labels(labels) if labels is not None else ([], np.zeros(0, dtype=bool))
    if len(texts):
        findings += label_findings(values.index, texts, missing, observational)
    columns = [to_column(values.iloc[:, j]) for j in range(len(names))]
    for j, name in enumerate(names):
        findings += cell_findings(name, values.iloc[:, j], columns[j])
    x = np.stack([column.values for column in columns], axis=1) if columns else np.zeros((len(values), 0))
    findings += _numbers(values, names, columns, texts)
    counts = Counter(label for label, gone in zip(texts, missing, strict=True) if not gone)
    problems = tuple(sorted(findings, key=lambda finding: _ORDER[finding.severity]))
    diagnosis = Diagnosis(len(values), tuple(names), tuple(counts.items()), observational, problems)
    return Examination(diagnosis, x, texts)


def _numbers(values: "pd.DataFrame", names: list[str], columns: list[Column], labels: list[str]) -> list[Finding]:
    """Checks that need complete numbers, on the columns that have them."""
    usable = [j for j, column in enumerate(columns) if column.usable]
    if not usable or len(values) < 2:
        return []
    x, kept = np.stack([columns[j].values for j in usable], axis=1), [names[j] for j in usable]
    findings = column_findings(x, kept)
    return findings + (row_findings(values.index, x, kept, labels) if labels else [])


def _column_names(df: "pd.DataFrame", names: list[str]) -> list[Finding]:
    findings = []
    if df.columns.nlevels > 1:
        findings.append(
            error(
                "column-levels",
                f"The columns have {df.columns.nlevels} levels of names, the first being {quoted(df.columns[0])}; "
                "give every column one name.",
            )
        )
    for j, name in enumerate(names):
        if not name.strip():
            findings.append(
                error(
                    "unnamed-column",
                    f"Column number {j + 1} has no name (row names saved along with the table look like this); "
                    "name the column or drop it.",
                )
            )
    for name, count in Counter(name for name in names if name.strip()).items():
        if count > 1:
            findings.append(
                error(
                    "duplicate-name",
                    f"{count} columns have the name {quoted(name)}; give every column a name of its own.",
                )
            )
    return findings


def _no_context_column(df: "pd.DataFrame", names: list[str], context: str) -> Finding:
    if context in [str(name) for name in df.index.names]:
        return error(
            "no-context-column",
            f"{quoted(context)} is the index of the table and not a column; call reset_index() first.",
        )
    return error(
        "no-context-column",
        f"There is no column {quoted(context)} to name the contexts{closest(context, names)}; "
        f"the columns are {listed(names, 10)}.",
    )


def _size(values: "pd.DataFrame", names: list[str]) -> list[Finding]:
    findings = []
    if len(values) == 0:
        findings.append(error("no-rows", "The table has column names but no row of values; add one row a sample."))
    if len(names) < 2:
        what = f"only the variable {quoted(names[0])}" if names else "no variable"
        findings.append(
            error(
                "few-variables",
                f"Beside the context column the table has {what}; "
                f"a graph needs at least 2 variables, so add {counted(2 - len(names), 'column')} or more.",
            )
        )
    return findings
