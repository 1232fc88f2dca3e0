"""Results as files for other programs."""

from collections.abc import Callable
from enum import Enum
from pathlib import Path

from bacadi.posterior import formats
from bacadi.posterior.files import write_text
from bacadi.posterior.posterior import Posterior
from bacadi.posterior.store import save


class Format(Enum):
    """What `export` can write; the value is the name on the command line."""

    CSV = "csv"
    GRAPHML = "graphml"
    DOT = "dot"
    JSON = "json"


WRITERS: dict[Format, Callable[[Posterior, float], str]] = {
    Format.CSV: formats.csv_text,
    Format.GRAPHML: formats.graphml_text,
    Format.DOT: formats.dot_text,
    Format.JSON: formats.node_link_text,
}


def export(posterior: Posterior, format: Format, path: str | Path, threshold: float = 0.5) -> None:
    """Write the graph in one format: CSV has every ordered pair, the others the edges above the threshold."""
    write_text(path, WRITERS[format](posterior, threshold))


def write_results(posterior: Posterior, directory: str | Path) -> None:
    """Write edges.csv, targets.csv and posterior.nc into a folder, which is made if it is missing."""
    directory = Path(directory)
    write_text(directory / "edges.csv", posterior.edges().to_csv(index=False, lineterminator="\n"))
    write_text(directory / "targets.csv", posterior.targets().to_csv(index=False, lineterminator="\n"))
    save(posterior, directory / "posterior.nc")
