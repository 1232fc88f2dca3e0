"""`bacadi check`: the doctor for data files."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bacadi.errors import BAD_INPUT, ConfigError

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

    from bacadi.data.checks import Diagnosis, Severity

_LISTED_CONTEXTS, _LISTED_VARIABLES, _LISTED_FINDINGS = 20, 12, 8


def check(
    data: Annotated[Path, typer.Argument(help="Table: .csv, .tsv, .txt (tabs), each also .gz, or .parquet.")],
    context: Annotated[str | None, typer.Option(help="Column that names the context of each row.")] = None,
    observational: Annotated[str | None, typer.Option(help="Label of the observational context, if any.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say in plain words what a table holds and what is wrong or risky about it (exit code 2 if it is unusable)."""
    from bacadi.data import diagnose, read_table

    table = read_table(data, context)
    if context is None:
        raise ConfigError(which_context(table))
    diagnosis = diagnose(table, context, observational)
    if as_json:
        typer.echo(json.dumps(diagnosis.to_dict(), indent=2, ensure_ascii=False))
    else:
        _print_diagnosis(data, diagnosis)
    if not diagnosis.ok:
        raise typer.Exit(BAD_INPUT)


def which_context(table: "pd.DataFrame") -> str:
    """A sentence that names the columns that could be the context column."""
    from bacadi.data.checks import context_candidates
    from bacadi.data.text import listed

    candidates = context_candidates(table)
    if not candidates:
        return f"Name the context column with --context COLUMN; the columns are {listed(table.columns, 10)}."
    return f"Name the context column with --context COLUMN; from its values it could be {listed(candidates, 10)}."


def _print_diagnosis(path: Path, diagnosis: "Diagnosis") -> None:
    from rich.console import Console

    from bacadi.data.checks import Severity

    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(str(path), style="bold")
    _print_contents(console, diagnosis)
    _print_findings(console, diagnosis, Severity.ERROR, "Errors: the table cannot be used", "bold red")
    _print_findings(console, diagnosis, Severity.WARNING, "Warnings: the table can be used, with care", "bold yellow")
    _print_findings(console, diagnosis, Severity.NOTE, "Notes", "bold")
    console.print()
    console.print(_verdict(diagnosis), style="bold green" if diagnosis.ok else "bold red")


def _print_contents(console: "Console", diagnosis: "Diagnosis") -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    names = ", ".join(diagnosis.variables[:_LISTED_VARIABLES])
    more = ", …" if len(diagnosis.variables) > _LISTED_VARIABLES else ""
    console.print(f"{diagnosis.rows} rows, {len(diagnosis.variables)} variables: {names}{more}")
    if not diagnosis.contexts:
        return
    table = Table("context", box=box.SIMPLE_HEAD)
    table.add_column("rows", justify="right")
    table.add_column("")
    for label, rows in diagnosis.contexts[:_LISTED_CONTEXTS]:
        table.add_row(Text(label), str(rows), "observational" if label == diagnosis.observational else "")
    console.print(table)
    hidden = len(diagnosis.contexts) - _LISTED_CONTEXTS
    if hidden > 0:
        console.print(f"  … and {hidden} more contexts")


def _print_findings(console: "Console", diagnosis: "Diagnosis", severity: "Severity", title: str, style: str) -> None:
    findings = diagnosis.of(severity)
    if not findings:
        return
    console.print()
    console.print(f"{title} ({len(findings)})", style=style)
    shown: dict[str, int] = {}
    for finding in findings:
        shown[finding.code] = shown.get(finding.code, 0) + 1
        if shown[finding.code] <= _LISTED_FINDINGS:
            console.print(f"  - {finding.message}")
    for code, count in shown.items():
        if count > _LISTED_FINDINGS:
            console.print(f"  … and {count - _LISTED_FINDINGS} more of the kind '{code}' (--json lists all)")


def _verdict(diagnosis: "Diagnosis") -> str:
    from bacadi.data.checks import Severity
    from bacadi.data.text import counted

    errors, warnings = len(diagnosis.of(Severity.ERROR)), len(diagnosis.of(Severity.WARNING))
    if errors:
        return f"Not usable yet: {counted(errors, 'error')} to correct, {counted(warnings, 'warning')} to consider."
    if warnings:
        return f"Usable, with {counted(warnings, 'warning')} to consider."
    return "Usable: nothing wrong was found."
