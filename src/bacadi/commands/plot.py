"""`bacadi plot` and `bacadi report`: a run to look at."""

from pathlib import Path
from typing import Annotated

import typer

from bacadi.errors import ConfigError

_FORMATS = ("png", "svg", "pdf")
_NAMES = "graph, edges, targets, changes, effects, structures, convergence, checks, shams"


def plot(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="The --out folder of a fit, or a posterior.nc.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help=f"{_NAMES}; all without a name.")
    ] = None,
    to: Annotated[str, typer.Option(help="png, svg or pdf.")] = "png",
    out: Annotated[Path | None, typer.Option(help="Folder for the pictures; without it the folder of the run.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace pictures of the same names.")] = False,
) -> None:
    """Draw a posterior: graph, heat maps, what moved, effects, structures, convergence, checks, shams."""
    from bacadi.commands.export import posterior_file
    from bacadi.commands.outputs import check_folder, check_outputs, say
    from bacadi.data.text import closest, quoted
    from bacadi.posterior import load
    from bacadi.report import PLOTS, save_figure

    if to not in _FORMATS:
        raise ConfigError(f"There is no format {quoted(to)}{closest(to, _FORMATS)}; --to takes {', '.join(_FORMATS)}.")
    for name in names or ():
        if name not in PLOTS:
            near = closest(name, list(PLOTS))
            raise ConfigError(f"There is no plot {quoted(name)}{near}; give one of {', '.join(PLOTS)}.")
    path = posterior_file(source)
    folder = path.parent if out is None else out
    check_folder(folder)
    files = {name: folder / f"{name}.{to}" for name in names or PLOTS}
    check_outputs(files.values(), "--out", overwrite, [path])
    posterior, written = load(path), []
    for name, file in files.items():
        try:
            figure = PLOTS[name](posterior)
        except ConfigError as reason:
            if names:
                raise
            say(f"no {name}: {reason}", err=True)
            continue
        save_figure(figure, file)
        written.append(file.name)
    say(f"written to {folder}: {', '.join(written)}")


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The --out folder of a fit.")],
    out: Annotated[Path | None, typer.Option(help="File to write; without it report.html in the folder.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
) -> None:
    """Write one HTML file for a person who was not there: what was done, found, how sure, what to doubt."""
    from bacadi.commands.export import posterior_file
    from bacadi.commands.outputs import REPORT, check_outputs, say
    from bacadi.report.page import read_run, write_report

    source = posterior_file(folder)
    path = source.parent / REPORT if out is None else out
    check_outputs([path], "--out", overwrite, [source])
    write_report(read_run(source), path)
    say(f"written to {path}; open it in a browser")
