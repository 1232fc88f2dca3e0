"""The doctor: one examination of a table, behind `bacadi check` and behind every `from_*` function."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from bacadi.data import checks
from bacadi.data.checks import Finding, Findings, Severity, error
from bacadi.data.contexts import ContextData
from bacadi.data.symptoms import symptoms
from bacadi.data.text import closest, counted, listed, quoted
from bacadi.errors import DataError


@dataclass(frozen=True)
class Diagnosis:
    """What a table holds and everything that is wrong or risky about it, errors first.

    `contexts` pairs each label with its number of rows, in order of first appearance; `observational` is the label
    that was asked for, whether or not it occurs.

    >>> problem = Finding(Severity.NOTE, "few-rows", "Context 'ko' has fewer than 5 rows.")
    >>> found = Diagnosis(9, ("a", "b"), (("wt", 6), ("ko", 3)), "wt", (problem,))
    >>> found.ok, found.of(Severity.NOTE)[0].code, found.to_dict()["contexts"][1]
    (True, 'few-rows', {'context': 'ko', 'rows': 3, 'observational': False})
    """

    rows: int
    variables: tuple[str, ...]
    contexts: tuple[tuple[str, int], ...]
    observational: str | None
    problems: tuple[Finding, ...]

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity, in the order in which they were made."""
        return tuple(finding for finding in self.problems if finding.severity is severity)

    def with_findings(self, findings: Iterable[Finding]) -> "Diagnosis":
        """The diagnosis with more findings, in the order of severity."""
        return replace(self, problems=_by_severity([*self.problems, *findings]))

    @property
    def ok(self) -> bool:
        """Whether the table can be used: no finding is an error."""
        return not self.of(Severity.ERROR)

    def to_dict(self) -> dict[str, Any]:
        """The diagnosis as plain lists and dicts, ready for JSON."""
        return {
            "ok": self.ok,
            "rows": self.rows,
            "variables": list(self.variables),
            "contexts": [
                dict(context=name, rows=n, observational=name == self.observational) for name, n in self.contexts
            ],
            "problems": [asdict(finding) | {"severity": finding.severity.value} for finding in self.problems],
        }


@dataclass(frozen=True)
class Examination:
    """A diagnosis with the arrays that were read on the way; they are complete when the diagnosis is ok."""

    diagnosis: Diagnosis
    x: Float[np.ndarray, "n d"]
    labels: list[str]
    blocks: list[str] | None = None

    def data(self) -> ContextData:
        """The arrays as `ContextData`, or the first error as a refusal.

        Contexts are numbered 1..M in order of first appearance, 0 being the observational one.
        """
        for finding in self.diagnosis.of(Severity.ERROR):
            raise DataError(finding.message)
        observational = self.diagnosis.observational
        names = tuple(label for label, _ in self.diagnosis.contexts if label != observational)
        number = {label: k for k, label in enumerate(names, start=1)}
        context = np.array([number.get(label, 0) for label in self.labels], dtype=np.int64)
        data = ContextData(self.x, context, self.diagnosis.variables, names, observational)
        if self.blocks is None:
            return data
        blocks = tuple(dict.fromkeys(self.blocks))
        block = np.array([blocks.index(label) for label in self.blocks], dtype=np.int64)
        return replace(data, block=block, blocks=blocks)


def diagnose(df: pd.DataFrame, context: str, observational: str | None = None) -> Diagnosis:
    """What a table holds and what is wrong or risky about it, in plain words.

    >>> table = pd.DataFrame({"a": [1.0, 2.5, 3.5, 0.5], "b": [0.0, None, 1.0, 2.0], "context": list("ooii")})
    >>> found = diagnose(table, "context", "o")
    >>> found.ok, found.contexts, [finding.code for finding in found.of(Severity.ERROR)]
    (False, (('o', 2), ('i', 2)), ['missing'])
    """
    examination = examine(df, context, observational)
    found = examination.diagnosis
    return found.with_findings(symptoms(examination.data())) if found.ok else found


def examine(
    df: pd.DataFrame,
    context: str | pd.Series,
    observational: str | None = None,
    blocks: pd.Series | None = None,
    may_miss: bool = False,
) -> Examination:
    """Examine a table of one row per sample: names, labels, cells, and the numbers of the columns that are whole.

    Args:
        df: the table; every column but the context column is a variable.
        context: the name of the column with the context of each row, or the labels themselves if no column has them.
        observational: the label of the untouched context, None if there is none.
        blocks: the block of each row, None without blocks.
        may_miss: whether cells may be missing, because they are going to be completed.
    """
    observational = None if observational is None else str(observational)
    findings, names = [*_names(df)], [str(name) for name in df.columns]
    labels: Any = None
    if isinstance(context, pd.Series):
        labels = context
    elif str(context) in names:
        at = names.index(str(context))
        labels, df = df.iloc[:, at], df.iloc[:, [j for j in range(len(names)) if j != at]]
    else:
        findings.insert(0, _no_context_column(df, names, str(context)))
    texts, counts = [], Counter[str]()
    if labels is not None:
        texts = [str(label) for label in labels.to_list()]
        missing = labels.isna().to_numpy(dtype=bool) | np.array([not text.strip() for text in texts], dtype=bool)
        counts.update(text for text, gone in zip(texts, missing, strict=True) if not gone)
        findings += _size(df)
        findings += checks.label_findings(df.index, counts, missing, observational) if texts else ()
    x, of_numbers = _numbers(df, texts, may_miss)
    problems = _by_severity([*findings, *of_numbers])
    variables = tuple(str(name) for name in df.columns)
    found = Diagnosis(len(df), variables, tuple(counts.items()), observational, problems)
    return Examination(found, x, texts, None if blocks is None else blocks.to_list())


def _by_severity(findings: list[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda finding: list(Severity).index(finding.severity)))


def _numbers(values: pd.DataFrame, labels: list[str], may_miss: bool) -> tuple[Float[np.ndarray, "n d"], list[Finding]]:
    """Parse all columns; check the cells, then columns and rows as far as they hold nothing but usable numbers."""
    x, usable = np.empty(values.shape), []
    findings: list[Finding] = []
    for j in range(x.shape[1]):
        x[:, j], text = checks.to_numbers(values.iloc[:, j])
        of_cells = [*checks.cell_findings(values.iloc[:, j], x[:, j], text, may_miss)]
        findings += of_cells
        if not of_cells:
            usable.append(j)
    if usable and len(x) > 1:
        names = [str(values.columns[j]) for j in usable]
        findings += checks.column_findings(x[:, usable], names)
        findings += checks.row_findings(values.index, x[:, usable], names, labels) if labels else ()
    return x, findings


def _names(df: pd.DataFrame) -> Findings:
    """Check that every column has one name that no other column has."""
    if df.columns.nlevels > 1:
        what = f"The columns have {df.columns.nlevels} levels of names, the first being {quoted(df.columns[0])}"
        yield error("column-levels", f"{what}; give every column one name.")
    names = [str(name) for name in df.columns]
    for j, name in enumerate(names):
        if not name.strip():
            what = f"Column number {j + 1} has no name (row names saved along with the table look like this)"
            yield error("unnamed-column", f"{what}; name the column or drop it.")
    for name, count in Counter(names).items():
        if count > 1 and name.strip():
            what = f"{count} columns have the name {quoted(name)}"
            yield error("duplicate-name", f"{what}; give every column a name of its own.")


def _no_context_column(df: pd.DataFrame, names: list[str], context: str) -> Finding:
    what = f"There is no column {quoted(context)} to name the contexts{closest(context, names)}"
    remedy = f"the columns are {listed(names, 10)}"
    if context in [str(name) for name in df.index.names]:
        what, remedy = f"{quoted(context)} is the index of the table and not a column", "call reset_index() first"
    return error("no-context-column", f"{what}; {remedy}.")


def _size(values: pd.DataFrame) -> Findings:
    """Check that there are rows and enough variables for a graph."""
    if len(values) == 0:
        yield error("no-rows", "The table has column names but no row of values; add one row per sample.")
    d = values.shape[1]
    if d < 2:
        what = f"only the variable {quoted(values.columns[0])}" if d else "no variable"
        remedy = f"a graph needs at least 2 variables, so add {counted(2 - d, 'column')} or more"
        yield error("few-variables", f"Besides the context column the table has {what}; {remedy}.")


def which_context(table: pd.DataFrame, option: str) -> str:
    """Ask for the context column in a sentence that names the columns that could be it.

    >>> which_context(pd.DataFrame({"a": [0.1, 0.2, 0.3, 0.4], "arm": ["wt", "wt", "ko", "ko"]}), "context=")
    "Name the context column with context=; from its values it could be 'arm'."
    """
    likely = checks.context_candidates(table)
    which = "from its values it could be" if likely else "the columns are"
    return f"Name the context column with {option}; {which} {listed(likely or table.columns, 10)}."
