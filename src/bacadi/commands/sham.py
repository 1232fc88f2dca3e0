"""`bacadi sham`: how many targets are named in data in which no context has one."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bacadi.commands.columns import Context, Data, Observational, columns_of, reads_columns


@reads_columns
def sham(
    data: Data,
    context: Context = None,
    observational: Observational = None,
    shams: Annotated[int, typer.Option(help="Shams with permuted labels; half as many are made of the control.")] = 5,
    model: Annotated[str | None, typer.Option(help="As of `bacadi fit`.")] = None,
    method: Annotated[str, typer.Option(help="As of `bacadi fit`; runs of mcmc are short.")] = "auto",
    seed: Annotated[int, typer.Option(help="Makes shams and runs repeatable.")] = 0,
    standardize: Annotated[bool, typer.Option("--standardize", help="Scale every column to mean 0 and std 1.")] = False,
    effect: Annotated[str | None, typer.Option(help="As of `bacadi fit`.")] = None,
    preset: Annotated[str | None, typer.Option(help="As of `bacadi fit`.")] = None,
    config: Annotated[Path | None, typer.Option(help="As of `bacadi fit`.")] = None,
    *,
    flags: dict[str, Any],
) -> None:
    """Fit data whose labels are permuted and pieces of the control that pose as contexts, and say how many targets are
    named: none should be."""
    columns = columns_of(config, flags)
    if context is None:
        columns.open(data, None)  # refuses, with the columns that could be it
    from bacadi.commands.outputs import say
    from bacadi.commands.run import Request
    from bacadi.config.layers import configure
    from bacadi.inference.shams import sham as fit_shams
    from bacadi.model.statements import stated

    configuration = configure(method, preset, config, {"--model": model, "--effect": effect}, standardize)
    request = Request(data, str(context), observational, seed, standardize, config=config, columns=columns)
    table, _, notes = request.read()
    for message in notes:
        say(message, err=True)
    knowledge = stated(table, request.targets, configuration.knowledge, config)
    found = fit_shams(table, configuration.model, configuration.method, n_shams=shams, seed=seed, knowledge=knowledge)
    say("\n".join(found.words()))
    for message in found.warnings():
        say(f"Warning: {message}", err=True)
