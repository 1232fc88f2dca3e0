"""`bacadi sham`: how many targets are named in data in which no context has one."""

from pathlib import Path
from typing import Annotated

import typer

from bacadi.commands.columns import (
    Block,
    Drop,
    DropConstant,
    Missing,
    MissingValue,
    Outliers,
    Spikes,
    Thin,
    Transform,
    Variables,
    columns_of,
)
from bacadi.errors import ConfigError


def sham(
    data: Annotated[Path, typer.Argument(help="Table: .csv, .tsv, .txt (tabs), each also .gz, or .parquet.")],
    context: Annotated[str | None, typer.Option(help="Column that names the context of each row.")] = None,
    observational: Annotated[str | None, typer.Option(help="Label of the observational context, if any.")] = None,
    shams: Annotated[int, typer.Option(help="Shams with permuted labels; half as many are made of the control.")] = 5,
    model: Annotated[str | None, typer.Option(help="As of `bacadi fit`.")] = None,
    method: Annotated[str, typer.Option(help="As of `bacadi fit`; runs of mcmc are short.")] = "auto",
    seed: Annotated[int, typer.Option(help="Makes shams and runs repeatable.")] = 0,
    standardize: Annotated[bool, typer.Option("--standardize", help="Scale every column to mean 0 and std 1.")] = False,
    effect: Annotated[str | None, typer.Option(help="As of `bacadi fit`.")] = None,
    transform: Transform = None,
    variables: Variables = None,
    drop: Drop = None,
    drop_constant: DropConstant = False,
    thin: Thin = None,
    missing: Missing = None,
    missing_value: MissingValue = None,
    outliers: Outliers = None,
    spikes: Spikes = None,
    block: Block = None,
    preset: Annotated[str | None, typer.Option(help="As of `bacadi fit`.")] = None,
    config: Annotated[Path | None, typer.Option(help="As of `bacadi fit`.")] = None,
) -> None:
    """Fit data whose labels are permuted and pieces of the control that pose as contexts, and say how many targets are
    named: none should be."""
    given = locals()
    if context is None:
        from bacadi.data.doctor import which_context
        from bacadi.data.tables import read_table

        raise ConfigError(which_context(read_table(data), "--context COLUMN"))
    from bacadi.commands.outputs import say
    from bacadi.commands.run import Request
    from bacadi.config.layers import configure
    from bacadi.inference.shams import sham as fit_shams
    from bacadi.model.statements import stated

    configuration = configure(method, preset, config, {"--model": model, "--effect": effect})
    request = Request(data, context, observational, seed, standardize, config=config, columns=columns_of(config, given))
    table, _ = request.read()
    knowledge = stated(table, request.targets, configuration.knowledge, config)
    found = fit_shams(table, configuration.model, configuration.method, n_shams=shams, seed=seed, knowledge=knowledge)
    say("\n".join(found.words()))
    for message in found.warnings():
        say(f"Warning: {message}", err=True)
