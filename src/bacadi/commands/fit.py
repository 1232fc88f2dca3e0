"""`bacadi fit` and `bacadi resume`."""

import time
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
from bacadi.config.names import BASELINE, EFFECT, MECHANISM, METHOD, NAMES
from bacadi.errors import ConfigError

_MECHANISMS = ", ".join(NAMES[MECHANISM])
_EFFECTS = ", ".join(NAMES[EFFECT])
_METHODS = ", ".join([*(name for name in NAMES[METHOD] if name != "bootstrap"), *NAMES[BASELINE]])
_BASELINES = ", ".join(NAMES[BASELINE])


def fit(
    data: Annotated[Path, typer.Argument(help="Table: .csv, .tsv, .txt (tabs), each also .gz, or .parquet.")],
    context: Annotated[str | None, typer.Option(help="Column that names the context of each row.")] = None,
    observational: Annotated[str | None, typer.Option(help="Label of the observational context, if any.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results.")] = None,
    model: Annotated[str | None, typer.Option(help=f"{_MECHANISMS}, or module:Class of your own.")] = None,
    effect: Annotated[str | None, typer.Option(help=f"What interventions do: {_EFFECTS}.")] = None,
    method: Annotated[
        str,
        typer.Option(help=f"auto (mcmc where possible, else svgd), {_METHODS}."),
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Makes the run repeatable bit for bit on one machine.")] = 0,
    standardize: Annotated[bool, typer.Option("--standardize", help="Scale every column to mean 0 and std 1.")] = False,
    targets: Annotated[
        str, typer.Option(help="unknown, known (labels name their targets: a+b) or FILE.csv (context,variable).")
    ] = "unknown",
    preset: Annotated[
        str | None,
        typer.Option(help="default, paper, authors or improved; without it paper for svgd, otherwise default."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file with the sections model, method, data and knowledge (docs/settings.md)."),
    ] = None,
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
    draws: Annotated[int | None, typer.Option(help="mcmc, exact: number of draws.")] = None,
    sweeps: Annotated[int | None, typer.Option(help="mcmc: length of the run.")] = None,
    time_budget: Annotated[
        float | None, typer.Option(help="mcmc: seconds for the whole command, from reading to writing.")
    ] = None,
    replicas: Annotated[int | None, typer.Option(help="mcmc: independent runs to compare, at least 2.")] = None,
    particles: Annotated[int | None, typer.Option(help="svgd: number of particles.")] = None,
    steps: Annotated[int | None, typer.Option(help="svgd: number of steps.")] = None,
    samples: Annotated[int | None, typer.Option(help=f"{_BASELINES}: bootstrap samples.")] = None,
    jobs: Annotated[int | None, typer.Option(help=f"{_BASELINES}: processes (default: all cores).")] = None,
    shams: Annotated[
        int, typer.Option(help="Fit so many shams too (see `bacadi sham`) and say how many targets they name.")
    ] = 0,
    report: Annotated[bool, typer.Option("--report", help="Write report.html too (see `bacadi report`).")] = False,
    checkpoint_every: Annotated[float, typer.Option(help="Seconds between two checkpoints.")] = 60.0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out if there is one, with the same options.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run or files in --out.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")] = False,
) -> None:
    """Infer a posterior over graph and intervention targets and write it to a folder."""
    given, begun = locals(), time.monotonic()
    if context is None:
        from bacadi.data.doctor import which_context
        from bacadi.data.tables import read_table

        raise ConfigError(which_context(read_table(data), "--context COLUMN"))
    if out is None:
        raise ConfigError("Name the folder for the results with --out DIR; it is made if it is missing.")
    if resume and overwrite:
        raise ConfigError("--resume keeps the run in --out and --overwrite replaces it; give one of the two.")
    from bacadi.commands.run import Request, RunFolder, conclude, holds_run, is_finished
    from bacadi.config.layers import configure

    flags = {"--model": model, "--effect": effect, "--draws": draws, "--sweeps": sweeps, "--time-budget": time_budget}
    flags |= {"--replicas": replicas, "--particles": particles, "--steps": steps, "--samples": samples, "--jobs": jobs}
    configuration = configure(method, preset, config, flags)
    columns = columns_of(config, given)
    request = Request(
        data, context, observational, seed, standardize, targets, config, checkpoint_every, columns, shams, report
    )
    run = RunFolder.prepare(out, request, configuration, overwrite)
    if resume and holds_run(out):
        run.check_same()
        if not is_finished(out):
            conclude(run.resume(quiet, begun), out, quiet)
        elif not quiet:
            typer.echo(f"The run in {out} is complete already; there is nothing to resume.")
    else:
        conclude(run.start(quiet, begun), out, quiet)


def resume(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The --out folder of a fit that was interrupted.")],
    sweeps: Annotated[int | None, typer.Option(help="mcmc: extend a finished run to so many sweeps in all.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")] = False,
    modules: Annotated[
        list[str] | None, typer.Option("--import", help="Module of a class of your own that the run names.")
    ] = None,
) -> None:
    """Continue an interrupted fit; the result is the same as without the interruption, bit for bit.

    With --sweeps a finished run of mcmc goes on from its last draws, and the new ones are added.
    """
    begun = time.monotonic()
    from bacadi.commands.run import RunFolder, conclude, is_finished, read_record

    read_record(folder)
    finished = is_finished(folder)
    if finished and sweeps is None:
        typer.echo(f"The run in {folder} is complete already; there is nothing to resume (--sweeps N extends it).")
        return
    run, extend = RunFolder.load(folder, tuple(modules or ())), sweeps is not None
    if sweeps is not None:
        if not finished:
            raise ConfigError(f"The run in '{folder}' is not finished; resume it without --sweeps first.")
        run = run.extended(sweeps)
    conclude(run.resume(quiet, begun, extend), folder, quiet)
