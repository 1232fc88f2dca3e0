"""`bacadi export`: the graph for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from bacadi.errors import ConfigError, StoreError


def export(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="The --out folder of a fit, or a posterior.nc.")],
    to: Annotated[str, typer.Option(help="csv, graphml, dot or json (networkx node-link).")] = "csv",
    out: Annotated[Path | None, typer.Option(help="File to write; without it the text goes to stdout.")] = None,
    threshold: Annotated[
        float, typer.Option(help="Edges above this probability; csv has every pair whatever the threshold.")
    ] = 0.5,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
) -> None:
    """Write the posterior graph as CSV, GraphML, DOT or node-link JSON."""
    from bacadi.commands.outputs import check_outputs
    from bacadi.data.text import closest, quoted, write_text
    from bacadi.posterior import load
    from bacadi.posterior.export import WRITERS
    from bacadi.posterior.summaries import check_threshold

    writers = {format.value: writer for format, writer in WRITERS.items()}
    if to not in writers:
        near = closest(to, list(writers))
        raise ConfigError(f"There is no format {quoted(to)}{near}; --to takes {', '.join(writers)}.")
    path = posterior_file(source)
    if out is not None:
        check_outputs([out], "--out", overwrite, [path])
    check_threshold(threshold)
    text = writers[to](load(path), threshold)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_text(out, text)


def posterior_file(source: Path) -> Path:
    """Find the posterior file of a run folder; a path that is not a folder is taken as the file itself."""
    if not source.is_dir():
        return source
    path = source / "posterior.nc"
    if not path.exists():
        unfinished = (source / "checkpoint.npz").exists()
        remedy = "finish it with `bacadi resume`" if unfinished else "give the --out folder of a fit"
        raise StoreError(f"The folder '{source}' holds no posterior.nc; {remedy}.")
    return path
