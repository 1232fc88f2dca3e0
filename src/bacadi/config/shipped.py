"""Studies and specifications of tasks that come with the package, found by name."""

from pathlib import Path

from bacadi.data.text import closest, quoted
from bacadi.errors import ConfigError

TASKS = "tasks"
"""The folder of specifications below that of studies."""


def studies_folder() -> Path:
    """Where the shipped studies are: inside an installed package, or beside the sources of a clone."""
    inside = Path(__file__).parent.parent / "studies"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "studies"


def shipped_names(folder: str = "") -> list[str]:
    """The names of all studies, or of all specifications (`folder` is `TASKS`).

    >>> "linear-er" in shipped_names(TASKS)
    True
    """
    return sorted(path.stem for path in (studies_folder() / folder).glob("*.toml"))


def find_shipped(name: str | Path, noun: str, folder: str = "") -> Path:
    """The TOML file that a user means: a path, or the name of one that is shipped.

    A file of the user's own goes first. `noun` says what is looked for ("study") where there is none.

    >>> find_shipped("linear-er", "specification", TASKS).name
    'linear-er.toml'
    """
    path, names = Path(name), shipped_names(folder)
    if path.is_file() or path.suffix == ".toml" or len(path.parts) > 1:
        return path
    if str(name) in names:
        return studies_folder() / folder / f"{name}.toml"
    remedy = f"give the path of a TOML file or one of {', '.join(names)}" if names else "give the path of a TOML file"
    raise ConfigError(f"There is no {noun} {quoted(name)}{closest(str(name), names)}; {remedy}.")
