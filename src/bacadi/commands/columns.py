"""The flags that say what is made of the columns of a table, shared by all commands that read one."""

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from bacadi.config.columns import Columns

Data = Annotated[Path, typer.Argument(help="Table: .csv, .tsv, .txt (tabs), each also .gz, .parquet, .xlsx; or .h5ad.")]
Context = Annotated[
    str | None, typer.Option(help="Column (of obs in an .h5ad) that names the context or perturbation of each row.")
]
Observational = Annotated[
    str | None,
    typer.Option(help="Label of the untouched context; without it a usual one (control, ctrl, DMSO, …), '' for none."),
]

OPTIONS: dict[str, Any] = {
    "transform": Annotated[
        str | None,
        typer.Option(help="none, log, log1p, asinh, normal-scores or auto, for all columns or as COLUMN=MAP,…"),
    ],
    "variables": Annotated[str | None, typer.Option(help="Columns that are variables: a,b,… (default: all).")],
    "drop": Annotated[str | None, typer.Option(help="Columns that are none: a,b,…")],
    "drop_constant": Annotated[bool, typer.Option("--drop-constant", help="Leave out columns of one value.")],
    "drop_contexts": Annotated[
        str | None, typer.Option(help="Labels whose rows are left out: a,b,… (nan: rows without one).")
    ],
    "thin": Annotated[int | None, typer.Option(help="Use every N-th row of each context, in file order.")],
    "missing": Annotated[
        str | None,
        typer.Option(help="Cells without a value: refuse, drop (their rows) or impute (several times, pooled)."),
    ],
    "missing_value": Annotated[
        float | None,
        typer.Option(help="Number that stands for a missing cell: -999, or 0 for what was not measured."),
    ],
    "outliers": Annotated[str | None, typer.Option(help="Rows far off given the rest of the row: keep or drop.")],
    "spikes": Annotated[
        str | None,
        typer.Option(help="Cells with a value that many rows share: keep, or auto (missing where it says nothing)."),
    ],
    "block": Annotated[
        str | None, typer.Option(help="Column of batches, donors or days, each with its own intercept.")
    ],
    "sep": Annotated[str | None, typer.Option(help="Text files: what separates columns: ',', ';', '|' or tab.")],
    "decimal": Annotated[str | None, typer.Option(help="Text files: the decimal mark, '.' or ','.")],
    "layer": Annotated[str | None, typer.Option(help=".h5ad: the layer to read in place of X.")],
    "genes": Annotated[
        int | None, typer.Option(help=".h5ad: how many genes: the perturbed ones, then those that change most.")
    ],
    "normalize": Annotated[str | None, typer.Option(help=".h5ad: log1p-cpm for raw counts, or none.")],
    "label_separator": Annotated[
        str | None, typer.Option(help=".h5ad: what joins the parts of a label, by default + as in A+B.")
    ],
}
"""Fields of `Columns` with the flags that set them."""


def reads_columns(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the flags of `OPTIONS` after its own; it gets them as one dict `flags`."""
    own = [p for p in signature(command).parameters.values() if p.name != "flags"]
    shared = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=False if kind.__origin__ is bool else None, annotation=kind)
        for name, kind in OPTIONS.items()
    ]

    @wraps(command)
    def run(**given: Any) -> None:
        flags = {name: given.pop(name) for name in OPTIONS}
        command(**given, flags=flags)

    parameters = [*(p.replace(kind=Parameter.KEYWORD_ONLY) for p in own), *shared]
    run.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def columns_of(config: Path | None, flags: dict[str, Any]) -> "Columns":
    """What the flags of a command say of columns, over the section [data] of its file."""
    from bacadi.config.columns import choose_columns

    return choose_columns(config, flags)
