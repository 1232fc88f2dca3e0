"""`bacadi query`: causal answers from a finished fit."""

from pathlib import Path
from typing import Annotated

import typer

from bacadi.errors import ConfigError


def query(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="The --out folder of a fit, or a posterior.nc.")],
    question: Annotated[
        str,
        typer.Argument(
            metavar="QUESTION",
            help='"effects", "effect(A -> B)", "do(A=0, B+=1) -> C", "ancestors(B)", "descendants(A)", '
            '"context(drug)", "changed(incident)", "changed(incident, other)", "next" or "next(effect(A -> B))"; '
            "names with odd characters in quotes.",
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print question, answer and rows as one JSON object.")
    ] = False,
    csv: Annotated[Path | None, typer.Option(help="Write the whole table to this CSV file as well.")] = None,
    rows: Annotated[
        int | None, typer.Option(help="For next: rows of the experiment; by default the median of the contexts.")
    ] = None,
    mean: Annotated[
        float | None,
        typer.Option(help="For next: where a variable is set, in sd from the control; by default from the prior."),
    ] = None,
    noise: Annotated[
        float | None, typer.Option(help="For next: noise of a variable that is set, in sd; by default from the prior.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of what is simulated.")] = 0,
    modules: Annotated[
        list[str] | None,
        typer.Option("--import", metavar="MODULE", help="Module of your own with a mechanism; repeatable."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the CSV file.")] = False,
) -> None:
    """Ask what causes what, how strongly, what an intervention would do, what a context did, and what to try next."""
    from bacadi.answers import Design, Settings, ask
    from bacadi.commands.export import posterior_file
    from bacadi.commands.outputs import check_outputs, say
    from bacadi.data.text import write_text
    from bacadi.posterior import load

    if seed < 0 or (noise is not None and noise <= 0):
        raise ConfigError("--seed counts from 0 and --noise is above 0; give such numbers.")
    path = posterior_file(source)
    if csv is not None:
        check_outputs([csv], "--csv", overwrite, [path])
    settings = Settings(Design(rows, mean, noise), tuple(modules or ()), seed)
    answer = ask(load(path), question, settings)
    if csv is not None:
        write_text(csv, answer.csv())
    if as_json:
        typer.echo(answer.json())
    else:
        say(str(answer))
