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
) -> None:
    """Write the posterior graph as CSV, GraphML, DOT or node-link JSON."""
    from bacadi.data.text import closest, quoted
    from bacadi.posterior import Format, load
    from bacadi.posterior import export as export_file
    from bacadi.posterior.export import WRITERS
    from bacadi.posterior.summaries import check_threshold

    formats = {format.value: format for format in Format}
    if to not in formats:
        near = closest(to, list(formats))
        raise ConfigError(f"There is no format {quoted(to)}{near}; --to takes {', '.join(formats)}.")
    check_threshold(threshold)
    posterior = load(posterior_file(source))
    if out is None:
        typer.echo(WRITERS[formats[to]](posterior, threshold), nl=False)
        return
    if out.is_dir():
        raise ConfigError(f"--out '{out}' is a folder; give the name of a file.")
    export_file(posterior, formats[to], out, threshold)


def posterior_file(source: Path) -> Path:
    if not source.is_dir():
        return source
    path = source / "posterior.nc"
    if not path.exists():
        unfinished = (source / "checkpoint.npz").exists()
        remedy = "finish it with `bacadi resume`" if unfinished else "give the --out folder of a fit"
        raise StoreError(f"The folder '{source}' holds no posterior.nc; {remedy}.")
    return path
