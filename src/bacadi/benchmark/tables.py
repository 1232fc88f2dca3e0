"""Tables of a study: what its records say, method by method, beside published values, as Markdown, CSV and LaTeX."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bacadi.benchmark.plan import PlannedFit
from bacadi.benchmark.records import DONE, Record
from bacadi.benchmark.study import AS_IN_PAPER, HONEST, Study
from bacadi.config.shipped import studies_folder
from bacadi.data.text import read_rows
from bacadi.errors import ConfigError

Pairs = Sequence[tuple[PlannedFit, Record | None]]

LABELS = {
    "expected_sid": "E-SID",
    "expected_shd": "E-SHD",
    "edge_auprc": "AUPRC",
    "edge_average_precision": "AP edges",
    "target_auprc": "INTV-AUPRC",
    "target_average_precision": "AP targets",
    "interventional_nll": "I-NLL",
    "predictive_nll": "predictive NLL",
    "expected_class_shd": "E-SHD of I-CPDAGs",
    "consensus_class_shd": "SHD of I-CPDAG",
    "edge_calibration_error": "calibration error, edges",
    "target_calibration_error": "calibration error, targets",
    "edge_brier": "Brier score, edges",
    "target_brier": "Brier score, targets",
    "seconds": "seconds",
    "cpu_seconds": "CPU-seconds",
    "peak_memory": "memory, MB",
}
"""What tables and figures call a metric; others go by their name."""

HIGH_IS_GOOD = {"edge_auprc", "edge_average_precision", "target_auprc", "target_average_precision"}
NOT_COMPARABLE = {"interventional_nll"}
"""Metrics whose published values measure something else: they are shown in brackets and drawn nowhere."""

MARKS = {HONEST: "*", AS_IN_PAPER: "†"}
FOOTNOTES = {
    HONEST: "settings were searched for on tasks of their own, which are not reported",
    AS_IN_PAPER: "settings were searched for on the very tasks that are reported, as in the paper",
}
PUBLISHED = "published"
_STATISTICS = {
    "median": np.median,
    "p05": lambda values: np.quantile(values, 0.05),
    "p95": lambda values: np.quantile(values, 0.95),
    "mean": np.mean,
    "std": lambda values: np.std(values, ddof=1) if len(values) > 1 else np.nan,
    "stderr": lambda values: np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan,
}


def label_of(metric: str) -> str:
    """What tables and figures call a metric.

    >>> label_of("expected_sid"), label_of("total_effect_rmse")
    ('E-SID', 'total effect rmse')
    """
    return LABELS.get(metric, metric.replace("_", " "))


class Numbers(NamedTuple):
    """Statistics of one metric over tasks by name, and the number of tasks."""

    n: int
    by_name: dict[str, float]

    def text(self, statistics: Sequence[str]) -> str:
        """The statistics in one cell: median (5 to 95 %), mean ± spread.

        >>> Numbers(3, {"median": 12.0, "p05": 9.5, "p95": 140.0}).text(("median", "p05", "p95"))
        '12.0 (9.50–140)'
        >>> Numbers(3, {"mean": 0.5, "stderr": 0.125}).text(("mean", "stderr"))
        '0.500 ± 0.125'
        """
        shown = {name: rounded(self.by_name.get(name, np.nan)) for name in statistics}
        if self.n == 1:  # a single task has no spread
            shown |= dict.fromkeys(("p05", "p95"), "")
        parts = []
        if shown.get("median"):
            around = [shown[name] for name in ("p05", "p95") if shown.get(name)]
            parts.append(shown["median"] + (f" ({'–'.join(around)})" if len(around) == 2 else ""))
        if shown.get("mean"):
            spread = shown.get("stderr") or shown.get("std")
            parts.append(shown["mean"] + (f" ± {spread}" if spread else ""))
        return ", mean ".join(parts)


@dataclass(frozen=True)
class Row:
    """A method on a set of tasks: what was measured, and what was published."""

    tasks: str
    method: str
    n_done: int
    n_planned: int
    n_failed: int
    protocol: str | None
    measured: dict[str, Numbers]
    published: dict[str, Numbers]

    @property
    def title(self) -> str:
        """The method, with the mark of how its settings were chosen."""
        return f"{self.method}{MARKS[self.protocol]}" if self.protocol else self.method

    @property
    def counted(self) -> str:
        """The number of tasks, and of what is missing."""
        failed = f", {self.n_failed} failed" if self.n_failed else ""
        return (
            f"{self.n_done}{failed}"
            if self.n_done + self.n_failed == self.n_planned
            else (f"{self.n_done} of {self.n_planned}{failed}")
        )


@dataclass(frozen=True)
class Table:
    """The rows of a study with the metrics and statistics that it shows."""

    title: str
    metrics: tuple[str, ...]
    statistics: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def footnotes(self) -> list[str]:
        """What marks and brackets mean."""
        used = dict.fromkeys(row.protocol for row in self.rows if row.protocol)
        notes = [f"{MARKS[protocol]} {FOOTNOTES[protocol]}." for protocol in used if protocol]
        if any(NOT_COMPARABLE & set(row.published) & set(self.metrics) for row in self.rows):
            notes.append(
                "Published I-NLL in brackets cannot be compared: it was computed with the targets of another context."
            )
        return notes


def summarise(study: Study, pairs: Pairs) -> Table:
    """The table of a study from its fits and their records; `plan.matched` pairs them."""
    metrics, groups = (
        study.table.metrics or study.metrics,
        dict[tuple[str, str], list[tuple[PlannedFit, Record | None]]](),
    )
    for fit, record in pairs:
        groups.setdefault((fit.tasks.label, fit.entry.title), []).append((fit, record))
    order = {one.label: position for position, one in enumerate(study.tasks)}
    rows = []
    for (tasks, method), group in sorted(groups.items(), key=lambda item: order[item[0][0]]):
        first, done = group[0][0], [record for _, record in group if record is not None and record.reason == DONE]
        failed = sum(record is not None and record.reason != DONE for _, record in group)
        place = (*first.tasks.published, first.entry.published or "")
        found = {metric: numbers for metric in metrics if (numbers := published_of(*place, metric)) is not None}
        measured = {metric: numbers_of(record.value(metric) for record in done) for metric in metrics}
        rows.append(Row(tasks, method, len(done), len(group), failed, first.protocol, measured, found))
    return Table(study.title, tuple(metrics), study.table.statistics, tuple(rows))


def numbers_of(values: Iterable[float]) -> Numbers:
    """All statistics of the values that are numbers.

    >>> numbers_of([1.0, 3.0, float("nan")]).by_name["median"]
    2.0
    """
    finite = np.array([value for value in values if not np.isnan(value)])
    return Numbers(
        len(finite),
        {name: float(of(finite)) for name, of in _STATISTICS.items()} if len(finite) else {},  # type: ignore[operator]
    )


@lru_cache
def published_values(path: Path | None = None) -> dict[tuple[str, ...], Numbers]:
    """Published values by setting, graph, method and metric, from `studies/published.csv`.

    Medians, percentiles and means are of the authors' stored results (posterior weights); where a table of the paper
    has a mean with its spread, that is taken. Times are in seconds.

    >>> published_values()["linear", "ER-2", "BaCaDI (LinG)", "expected_sid"].by_name["median"]
    18.0
    """
    source = path or studies_folder() / "published.csv"
    (_, header), *lines = read_rows(source, "table of published values")
    found: dict[tuple[str, ...], Numbers] = {}
    for _, cells in lines:
        row = dict(zip(header, cells, strict=True))
        key = row["setting"], row["graph"], row["method"], row["metric"]
        numbers = {name: float(row[name]) for name in ("median", "p05", "p95", "mean") if row[name]}
        if row["spread"]:
            numbers |= {"stderr": float(row["spread"]), "std": float(row["spread"])}
        before = found.get(key, Numbers(int(row["n_tasks"]), {}))
        found[key] = Numbers(before.n, before.by_name | numbers)
    return found


def published_of(*place: str) -> Numbers | None:
    """What was published of a setting, graph, method and metric; CPU time stands beside the wall time of the paper.

    >>> published_of("linear", "ER-2", "B-JCI-PC", "cpu_seconds").n
    30
    """
    *where, metric = place
    return published_values().get((*where, "seconds" if metric == "cpu_seconds" else metric))


def rounded(value: float) -> str:
    """Three digits, never an exponent; nothing for what is no number.

    >>> [rounded(value) for value in (0.0, 0.0123, 1.5, 22.04, 1588.2, float("nan"), float("inf"))]
    ['0', '0.012', '1.50', '22.0', '1588', '', '∞']
    """
    if np.isnan(value):
        return ""
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    digits = next((n for n, least in ((0, 100), (1, 10), (2, 1), (3, 0)) if abs(value) >= least), 3)
    return f"{value:.{digits}f}" if value else "0"


def cells_of(table: Table) -> tuple[list[str], list[tuple[str, ...]]]:
    """Header and rows of cells; a row of published values follows its method, with "published" in its second cell."""
    header = ["tasks", "method", "n", *(label_of(metric) for metric in table.metrics)]
    rows, before = [], None
    for row in table.rows:
        cells = [row.measured[metric].text(table.statistics) or "–" for metric in table.metrics]
        rows.append((row.tasks if row.tasks != before else "", row.title, row.counted, *cells))
        before = row.tasks
        beside = [_published_cell(row, metric, table.statistics) for metric in table.metrics]
        if any(beside):
            n = str(max(numbers.n for numbers in row.published.values()))
            rows.append(("", PUBLISHED, n, *beside))
    return header, rows


def _published_cell(row: Row, metric: str, statistics: Sequence[str]) -> str:
    text = row.published[metric].text(statistics) if metric in row.published else ""
    return f"[{text}]" if text and metric in NOT_COMPARABLE else text


def to_markdown(table: Table) -> str:
    """A table of Markdown, published values in italics below each method, footnotes at the end."""
    header, rows = cells_of(table)
    lines = [_line(header), _line(["---", "---", *["---:"] * (len(header) - 2)])]
    for cells in rows:
        italic = [f"*{cell}*" if cell else "" for cell in cells]
        lines.append(_line(italic if cells[1] == PUBLISHED else [cell.replace("|", "\\|") for cell in cells]))
    notes = "".join(f"\n{note}\n" for note in table.footnotes)
    return "\n".join(lines) + "\n" + notes


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def to_csv(table: Table) -> str:
    """One line for each set of tasks, method and metric, with every statistic, ours and published, unrounded."""
    names = tuple(_STATISTICS)
    header = ("tasks", "method", "protocol", "metric", "n", *names, "n_published", *(f"published_{n}" for n in names))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in table.rows:
        for metric in table.metrics:
            ours, theirs = row.measured[metric], row.published.get(metric, Numbers(0, {}))
            numbers = [[_plain(one.by_name.get(name, np.nan)) for name in names] for one in (ours, theirs)]
            head = (row.tasks, row.method, row.protocol or "", metric)
            writer.writerow((*head, ours.n, *numbers[0], theirs.n or "", *numbers[1]))
    return text.getvalue()


def _plain(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.6g}"


_ESCAPES = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "±": r"$\pm$"}
_ESCAPES |= {"∞": r"$\infty$", "†": r"$\dagger$", "←": r"$\leftarrow$", "→": r"$\rightarrow$"}
_ESCAPES |= {character: f"\\{character}" for character in "&%$#_{}"}


def escaped(text: str) -> str:
    r"""Text as LaTeX shows it.

    >>> print(escaped("50 % of a_b ± 1 {x}"))
    50 \% of a\_b $\pm$ 1 \{x\}
    """
    return "".join(_ESCAPES.get(character, character) for character in text)


def to_latex(table: Table) -> str:
    """A table of LaTeX (package booktabs), published values in italics below each method."""
    header, rows = cells_of(table)
    lines = [r"\begin{tabular}{ll" + "r" * (len(header) - 2) + "}", r"\toprule", _latex_line(header), r"\midrule"]
    for number, cells in enumerate(rows):
        if cells[0] and number:
            lines.append(r"\midrule")
        texts = [escaped(cell) for cell in cells]
        lines.append(
            _latex_line([rf"\textit{{{text}}}" if text else "" for text in texts], True)
            if (cells[1] == PUBLISHED)
            else _latex_line(texts, True)
        )
    lines += [r"\bottomrule", r"\end{tabular}"]
    notes = [rf"\\ {escaped(note)}" for note in table.footnotes]
    return "\n".join([f"% {table.title}", *lines, *notes]) + "\n"


def _latex_line(cells: Sequence[str], is_escaped: bool = False) -> str:
    return " & ".join(cells if is_escaped else map(escaped, cells)) + r" \\"


FORMATS = {".md": to_markdown, ".csv": to_csv, ".tex": to_latex}


def written(table: Table, suffix: str) -> str:
    """The table in the format of a file name's ending."""
    if suffix not in FORMATS:
        raise ConfigError(f"A table cannot be written as '{suffix}'; end the file with {', '.join(FORMATS)}.")
    return FORMATS[suffix](table)
