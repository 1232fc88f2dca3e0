"""`bacadi fit` and `bacadi resume`."""

from pathlib import Path
from typing import Annotated

import typer

from bacadi.errors import ConfigError


def fit(
    data: Annotated[Path, typer.Argument(help="Table: .csv, .tsv, .txt (tabs), each also .gz, or .parquet.")],
    context: Annotated[str | None, typer.Option(help="Column that names the context of each row.")] = None,
    observational: Annotated[str | None, typer.Option(help="Label of the observational context, if any.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results.")] = None,
    model: Annotated[str | None, typer.Option(help="linear (default), nonlinear or bge.")] = None,
    method: Annotated[
        str,
        typer.Option(
            help="auto (mcmc where possible, else svgd), svgd, mcmc, exact, jci-pc, ut-igsp, dcdi-g, gies or gnies."
        ),
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
        Path | None, typer.Option(help="TOML file with sections such as model, mcmc and knowledge (docs/settings.md).")
    ] = None,
    draws: Annotated[int | None, typer.Option(help="mcmc, exact: number of draws.")] = None,
    sweeps: Annotated[int | None, typer.Option(help="mcmc: length of the run.")] = None,
    time_budget: Annotated[float | None, typer.Option(help="mcmc: end after so many seconds.")] = None,
    replicas: Annotated[int | None, typer.Option(help="mcmc: independent runs to compare, at least 2.")] = None,
    particles: Annotated[int | None, typer.Option(help="svgd: number of particles.")] = None,
    steps: Annotated[int | None, typer.Option(help="svgd: number of steps.")] = None,
    samples: Annotated[
        int | None, typer.Option(help="jci-pc, ut-igsp, dcdi-g, gies, gnies: bootstrap samples.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="jci-pc, ut-igsp, gies, gnies: processes (default: all cores).")
    ] = None,
    checkpoint_every: Annotated[float, typer.Option(help="Seconds between two checkpoints.")] = 60.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")] = False,
) -> None:
    """Infer a posterior over graph and intervention targets and write it to a folder."""
    if context is None:
        from bacadi.data.doctor import which_context
        from bacadi.data.tables import read_table

        raise ConfigError(which_context(read_table(data), "--context COLUMN"))
    if out is None:
        raise ConfigError("Name the folder for the results with --out DIR; it is made if it is missing.")
    from bacadi.commands.plan import Options, prepare
    from bacadi.commands.run import conclude, start
    from bacadi.settings import resolve

    flags = {"--model": model, "--draws": draws, "--sweeps": sweeps, "--time-budget": time_budget}
    flags |= {"--replicas": replicas, "--particles": particles, "--steps": steps, "--samples": samples, "--jobs": jobs}
    settings = resolve(preset, config, flags, method)
    options = Options(data, context, observational, out, seed, standardize, targets, config, checkpoint_every)
    conclude(start(prepare(options, settings), quiet), out, quiet)


def resume(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The --out folder of a fit that was interrupted.")],
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")] = False,
) -> None:
    """Continue an interrupted fit; the result is the same as without the interruption, bit for bit."""
    from bacadi.commands import plan, record, run

    record.read_record(folder)
    if (folder / plan.POSTERIOR).exists() and not (folder / plan.CHECKPOINT).exists():
        typer.echo(f"The run in {folder} is complete already; there is nothing to resume.")
        return
    run.conclude(run.resume(record.load(folder), quiet), folder, quiet)
