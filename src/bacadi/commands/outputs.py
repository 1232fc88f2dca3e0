"""What commands print and where they may write: nothing of the user's is overwritten unasked, and an input never."""

import os
from collections.abc import Iterable
from pathlib import Path

import typer

from bacadi.data.text import printable
from bacadi.errors import ConfigError

REPORT = "report.html"
"""The page of a run, in its folder."""


def say(text: str, err: bool = False) -> None:
    """Print text that may hold labels of the user's, which a terminal must not take for commands."""
    typer.echo(printable(text), err=err)


def check_outputs(paths: Iterable[Path], option: str, overwrite: bool, inputs: Iterable[Path | None] = ()) -> None:
    """Refuse to write files that exist, unless that is asked for, and folders or inputs in any case.

    Args:
        paths: the files that will be written.
        option: what the user gave to name them, such as `--out`.
        overwrite: whether files may be replaced.
        inputs: what the command reads, where that is a file.
    """
    read = [path for path in inputs if path is not None and path.exists()]
    for path in paths:
        if path.is_dir():
            raise ConfigError(f"'{path}' is a folder, where a file has to be written; choose another {option}.")
        if path.exists() and any(path.samefile(other) for other in read):
            raise ConfigError(
                f"'{path}' is an input of this command and would be overwritten; choose another {option}."
            )
        if os.path.lexists(path) and not overwrite:
            raise ConfigError(f"'{path}' exists; choose another {option}, or replace it with --overwrite.")


def check_folder(out: Path) -> None:
    """Refuse a folder for the results that cannot be made or written to."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out '{out}' is a file; give the name of a folder, which is made if it is missing.")
    ancestor = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists())
    if not ancestor.is_dir():
        raise ConfigError(f"--out '{out}' cannot be made because '{ancestor}' is a file; choose another folder.")
    if not os.access(ancestor, os.W_OK | os.X_OK):
        raise ConfigError(
            f"--out '{out}' cannot be written to (no permission for '{ancestor}'); choose another folder."
        )
