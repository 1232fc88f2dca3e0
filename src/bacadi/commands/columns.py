"""The flags that say what is made of the columns of a table, shared by all commands that read one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from bacadi.config.columns import Columns

Transform = Annotated[
    str | None,
    typer.Option(help="none, log, log1p, asinh, normal-scores or auto, for all columns or as COLUMN=MAP,…"),
]
Variables = Annotated[str | None, typer.Option(help="Columns that are variables: a,b,… (default: all).")]
Drop = Annotated[str | None, typer.Option(help="Columns that are none: a,b,…")]
DropConstant = Annotated[bool, typer.Option("--drop-constant", help="Leave out columns of one value.")]
Thin = Annotated[int | None, typer.Option(help="Use every N-th row of each context, in file order.")]
Missing = Annotated[
    str | None,
    typer.Option(help="Cells without a value: refuse, drop (their rows) or impute (several times, pooled)."),
]
MissingValue = Annotated[
    float | None, typer.Option(help="Number that stands for a missing cell: -999, or 0 for what was not measured.")
]
Outliers = Annotated[
    str | None,
    typer.Option(help="Rows far off given the rest of the row: keep or drop."),
]
Spikes = Annotated[
    str | None,
    typer.Option(help="Cells with a value that many rows share: keep, or auto (missing where it says nothing)."),
]
Block = Annotated[str | None, typer.Option(help="Column of batches, donors or days, each with its own intercept.")]


def columns_of(config: Path | None, flags: dict[str, Any]) -> "Columns":
    """What the parameters of a command say of columns, over the section [data] of its file."""
    from bacadi.config.choices import rules_of
    from bacadi.config.columns import Columns as fields
    from bacadi.config.columns import choose_columns

    return choose_columns(config, {name: flags[name] for name in rules_of(fields)})
