"""The page of results, docs/results.md: every study that has records, with its command, table, figure and remarks.

Records are those kept as text in a folder, which studies share; `remarks.toml` beside them has the words: an
introduction, why results differ from the published ones (`[methods]`, by label or name), and what to say of a study
(`[studies]`, by name).
"""

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bacadi.benchmark.figures import draw, save
from bacadi.benchmark.plan import matched, plan
from bacadi.benchmark.records import DONE, Record, load_records
from bacadi.benchmark.study import Study, read_study
from bacadi.benchmark.tables import NOT_COMPARABLE, Pairs, Row, Table, label_of, rounded, summarise, to_markdown
from bacadi.config.codec import read_toml
from bacadi.config.shipped import find_shipped, shipped_names
from bacadi.data.text import counted, write_text
from bacadi.errors import ConfigError

REMARKS = "remarks.toml"
_PAPER = (
    "linear",
    "nonlinear",
    "expression",
    "bge",
    "linear-more-data",
    "nonlinear-more-data",
    "targets",
    "fifty",
    "toy",
)
_FIRST = (*_PAPER, "e-shd", "runtime", "search")


def write_page(results: Path, page: Path) -> int:
    """Write the page of all studies with records in a folder, its figures beside it; returns how many they are."""
    remarks = read_toml(results / REMARKS, "file of remarks") if (results / REMARKS).is_file() else {}
    parts, records, found = ["# Results\n", remarks.get("introduction", "")], dict[str, Record](), []
    kept: dict[str, Record] = {}
    for path in sorted(results.glob("*.jsonl")):
        kept |= load_records(path)
    for name in ordered_names():
        study = read_study(name)
        pairs = matched(plan(study, find_shipped(name, "study").parent, kept), kept)
        done = {fit.key: record for fit, record in pairs if record is not None}
        if not done:
            continue
        records |= done  # studies share records
        found.append(name)
        parts.append(section(name, study, pairs, page, remarks))
    if not found:
        raise ConfigError(f"There are no records in '{results}'; make them with `bacadi bench run` and `bench export`.")
    parts.append(left_over(found))
    parts.append(colophon(list(records.values())))
    write_text(page, "\n".join(parts))
    return len(found)


def ordered_names() -> list[str]:
    """All shipped studies, those of the paper first."""
    names = shipped_names()
    return [name for name in _FIRST if name in names] + [name for name in names if name not in _FIRST]


def section(name: str, study: Study, pairs: Pairs, page: Path, remarks: dict[str, Any]) -> str:
    """A study on the page."""
    table = summarise(study, pairs)
    lines = [f"## {study.title}", "", study.description, "", "```console", f"bacadi bench run {name}", "```", ""]
    if study.figure.kind != "none":
        image = page.parent / "images" / f"{name}.png"
        save(draw(study, pairs), image)
        lines += [f"![{study.title}](images/{name}.png)", ""]
    lines += [to_markdown(table)]
    lines += [f"- {sentence}" for sentence in differences(table, study, remarks.get("methods", {}))]
    if said := remarks.get("studies", {}).get(name):
        lines += ["", said.strip()]
    missing = sum(record is None for _, record in pairs)
    failed = [(fit, record) for fit, record in pairs if record is not None and record.reason != DONE]
    if missing:
        verb = "is" if missing == 1 else "are"
        lines += ["", f"{counted(missing, 'fit')} of {len(pairs)} {verb} left; the command above makes them."]
    if failed:
        fit, record = failed[0]
        what = f"{counted(len(failed), 'fit')} did not end well, the first ({fit.tasks.label}, {fit.entry.title})"
        lines += ["", f"{what} because: {record.error or record.reason}"]
    return "\n".join([*lines, ""])


def differences(table: Table, study: Study, reasons: dict[str, str]) -> Iterable[str]:
    """A sentence for each method whose published median lies outside of our 5 to 95 %, on whatever tasks, and why."""
    for entry in study.methods:
        by_tasks = []
        for row in table.rows:
            texts = [difference(row, metric) for metric in table.metrics if row.method == entry.title]
            if differing := ", ".join(filter(None, texts)):
                by_tasks.append(f"on {row.tasks} {differing}")
        if by_tasks:
            reason = reasons.get(entry.title, reasons.get(entry.method, "")).strip()
            yield f"{entry.title}, ours (published): {'; '.join(by_tasks)}.{f' {reason}' if reason else ''}"


def difference(row: Row, metric: str) -> str:
    """Ours and the published median where they differ by more than the spread over our tasks, empty otherwise.

    Fewer than three tasks have no spread to speak of.
    """
    n, ours = row.measured[metric]
    theirs = row.published.get(metric)
    if n < 3 or theirs is None or "median" not in theirs.by_name or metric in NOT_COMPARABLE:
        return ""
    published = theirs.by_name["median"]
    if ours["p05"] <= published <= ours["p95"]:
        return ""
    return f"{label_of(metric)} {rounded(ours['median'])} ({rounded(published)})"


def left_over(found: list[str]) -> str:
    """The studies without any record, with their commands."""
    left = [name for name in ordered_names() if name not in found]
    if not left:
        return ""
    commands = "\n".join(f"bacadi bench run {name}" for name in left)
    return f"## Not run yet\n\n```console\n{commands}\n```\n"


def colophon(records: list[Record]) -> str:
    """Machines and versions behind the records."""
    machines = Counter(record.machine for record in records)
    versions = Counter(", ".join(" ".join(pair) for pair in sorted(record.versions.items())) for record in records)
    lines = ["## Machine and versions", ""]
    lines += [f"- {machine}: {counted(n, 'record')}" for machine, n in machines.most_common()]
    lines += [f"- {names}: {counted(n, 'record')}" for names, n in versions.most_common()]
    hours = math.fsum(record.cpu_seconds or 0.0 for record in records) / 3600
    times = "Wall times are of fits beside other work on the same cores; CPU-seconds are the fairer measure."
    return "\n".join([*lines, "", f"All fits together took {hours:.1f} CPU-hours. {times}", ""])
