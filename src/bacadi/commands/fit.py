"""`bacadi fit` and `bacadi resume`."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from bacadi.commands.columns import Context, Data, Observational, columns_of, reads_columns
from bacadi.config.names import BASELINE, EFFECT, MECHANISM, METHOD, NAMES
from bacadi.errors import ConfigError

_MECHANISMS = ", ".join(NAMES[MECHANISM])
_EFFECTS = ", ".join(NAMES[EFFECT])
_METHODS = ", ".join([*(name for name in NAMES[METHOD] if name != "bootstrap"), *NAMES[BASELINE]])
_BASELINES = ", ".join(NAMES[BASELINE])


@reads_columns
def fit(
    data: Data,
    context: Context = None,
    observational: Observational = None,
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
        str,
        typer.Option(
            help="unknown, known (labels name their targets: a+b), known-with-off-targets (these for certain, and more "
            "are looked for) or FILE.csv (context,variable)."
        ),
    ] = "unknown",
    preset: Annotated[
        str | None,
        typer.Option(
            help="default, paper, authors or improved; without it default, or paper for svgd without --standardize."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="TOML file with the sections model, method, data and knowledge (docs/settings.md)."),
    ] = None,
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
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="mcmc: Dask scheduler whose workers carry out the replicas, same result."),
    ] = None,
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
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout in place of the summary; all else on stderr.")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit code 3 if the draws did not converge, the model misfits or shams fail."),
    ] = False,
    *,
    flags: dict[str, Any],
) -> None:
    """Infer a posterior over graph and intervention targets and write it to a folder."""
    begun = time.monotonic()
    columns = columns_of(config, flags)
    if context is None:
        columns.open(data, None)  # refuses, with the columns that could be it
    if out is None:
        raise ConfigError("Name the folder for the results with --out DIR; it is made if it is missing.")
    if resume and overwrite:
        raise ConfigError("--resume keeps the run in --out and --overwrite replaces it; give one of the two.")
    from bacadi.commands.run import Request, RunFolder, conclude, holds_run, is_finished
    from bacadi.config.layers import configure

    chosen = {"--model": model, "--effect": effect, "--draws": draws, "--sweeps": sweeps, "--time-budget": time_budget}
    chosen |= {"--replicas": replicas, "--particles": particles, "--steps": steps, "--samples": samples, "--jobs": jobs}
    configuration = configure(method, preset, config, chosen, standardize)
    request = Request(
        data, str(context), observational, seed, standardize, targets, config, checkpoint_every, columns, shams, report
    )
    run = RunFolder.prepare(out, request, configuration, overwrite)
    if not (resume and holds_run(out)):
        with run.at(cluster) as at:
            posterior = at.start(quiet, begun)
    else:
        run.check_same()
        if is_finished(out):
            from bacadi.posterior import load

            if not quiet:
                typer.echo(f"The run in {out} is complete already; there is nothing to resume.", err=as_json)
            posterior, quiet = load(out / "posterior.nc"), True
        else:
            with run.at(cluster) as at:
                posterior = at.resume(quiet, begun)
    conclude(posterior, out, quiet, as_json, strict)


def resume(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The --out folder of a fit that was interrupted.")],
    sweeps: Annotated[int | None, typer.Option(help="mcmc: extend a finished run to so many sweeps in all.")] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="mcmc: Dask scheduler whose workers carry out the replicas.")
    ] = None,
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
    with run.at(cluster) as at:
        posterior = at.resume(quiet, begun, extend)
    conclude(posterior, folder, quiet)
