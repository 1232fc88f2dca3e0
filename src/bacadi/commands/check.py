"""`bacadi check`: the doctor for data files."""

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bacadi.commands.columns import Context, Data, Observational, columns_of, reads_columns
from bacadi.errors import BAD_INPUT

if TYPE_CHECKING:
    from rich.console import Console

    from bacadi.data.doctor import Diagnosis

_LISTED_CONTEXTS, _LISTED_VARIABLES, _LISTED_FINDINGS = 20, 12, 8


@reads_columns
def check(
    data: Data,
    context: Context = None,
    observational: Observational = None,
    config: Annotated[Path | None, typer.Option(help="TOML file whose section data says the same.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    *,
    flags: dict[str, Any],
) -> None:
    """Say in plain words what a table holds and what is wrong or risky about it (exit code 2 if it is unusable)."""
    diagnosis = columns_of(config, flags).open(data, context, observational).diagnosis
    if as_json:
        typer.echo(json.dumps(diagnosis.to_dict(), indent=2, ensure_ascii=False))
    else:
        _print_diagnosis(data, diagnosis)
    if not diagnosis.ok:
        raise typer.Exit(BAD_INPUT)


def _print_diagnosis(path: Path, diagnosis: "Diagnosis") -> None:
    """Print what the table holds, its findings by severity, and the verdict."""
    from rich.console import Console

    from bacadi.data.checks import Severity
    from bacadi.data.text import counted

    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(str(path), style="bold")
    _print_contents(console, diagnosis)
    for severity, title, style in (
        (Severity.ERROR, "Errors: the table cannot be used", "bold red"),
        (Severity.WARNING, "Warnings: the table can be used, with care", "bold yellow"),
        (Severity.NOTE, "Notes", "bold"),
    ):
        findings = diagnosis.of(severity)
        if findings:
            console.print(f"\n{title} ({len(findings)})", style=style)
        shown: Counter[str] = Counter()
        for finding in findings:
            shown[finding.code] += 1
            if shown[finding.code] <= _LISTED_FINDINGS:
                console.print(f"  - {finding.message}")
        for code, count in shown.items():
            if count > _LISTED_FINDINGS:
                console.print(f"  … and {count - _LISTED_FINDINGS} more of the kind '{code}' (--json lists all)")
    errors, warnings = (counted(len(diagnosis.of(kind)), kind.value) for kind in (Severity.ERROR, Severity.WARNING))
    verdict = "Usable: nothing wrong was found."
    if diagnosis.of(Severity.WARNING):
        verdict = f"Usable, with {warnings} to consider."
    if not diagnosis.ok:
        verdict = f"Not usable yet: {errors} to correct, {warnings} to consider."
    console.print(f"\n{verdict}", style="bold green" if diagnosis.ok else "bold red")


def _print_contents(console: "Console", diagnosis: "Diagnosis") -> None:
    """Print the size of the table, its variables, and the contexts with their numbers of rows."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from bacadi.data.text import printable

    names = printable(", ".join(diagnosis.variables[:_LISTED_VARIABLES]))
    more = ", …" if len(diagnosis.variables) > _LISTED_VARIABLES else ""
    console.print(f"{diagnosis.rows} rows, {len(diagnosis.variables)} variables: {names}{more}")
    if not diagnosis.contexts:
        return
    table = Table("context", box=box.SIMPLE_HEAD)
    table.add_column("rows", justify="right")
    table.add_column("")
    for label, rows in diagnosis.contexts[:_LISTED_CONTEXTS]:
        table.add_row(Text(printable(label)), str(rows), "observational" if label == diagnosis.observational else "")
    console.print(table)
    hidden = len(diagnosis.contexts) - _LISTED_CONTEXTS
    if hidden > 0:
        console.print(f"  … and {hidden} more contexts")
