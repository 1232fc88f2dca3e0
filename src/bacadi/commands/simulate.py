"""`bacadi simulate`: a task whose truth is known, as a folder of tables."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bacadi.errors import BacadiError, ConfigError

if TYPE_CHECKING:
    from bacadi.simulate import AbstractSpec, Task


def simulate(
    spec: Annotated[
        Path, typer.Argument(metavar="SPEC", help="TOML file, or the name of a shipped one (linear-er, …).")
    ],
    out: Annotated[Path | None, typer.Option(help="Folder for the tables.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed is another task; equal seeds give equal files.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files in --out.")] = False,
) -> None:
    """Simulate a task from a specification: data, true graph, true targets and held-out data as tables."""
    if out is None:
        raise ConfigError("Name the folder for the tables with --out DIR; it is made if it is missing.")
    if not 0 <= seed < 2**64:
        raise ConfigError(f"--seed is {seed}; give a whole number from 0 to {2**64 - 1}.")
    from bacadi.commands.outputs import check_folder, check_outputs
    from bacadi.config.shipped import TASKS, find_shipped
    from bacadi.simulate import read_spec, write_task
    from bacadi.simulate.files import FILES

    spec = find_shipped(spec, "specification", TASKS)
    specification = read_spec(spec)
    check_folder(out)
    check_outputs((out / name for name in FILES), "--out", overwrite, [spec])
    task = _simulated(specification, seed, spec)
    write_task(task, out, spec.read_bytes().decode("utf-8-sig"))
    typer.echo(_summary(task, out))


def _simulated(spec: "AbstractSpec", seed: int, path: Path) -> "Task":
    """Simulate, and refuse a task whose tables could not be used."""
    import numpy as np

    from bacadi.data.text import quoted
    from bacadi.simulate import simulate

    name = f"The specification {quoted(path.name)}"
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # what comes of it is looked at below
            task = simulate(spec, seed)
    except BacadiError as refusal:
        what = str(refusal)
        raise ConfigError(f"{name} makes no task: {what[:1].lower()}{what[1:]}") from None
    except MemoryError:
        raise ConfigError(f"{name} makes a table that does not fit into memory; ask for fewer rows.") from None
    if not (np.isfinite(task.data.x).all() and np.isfinite(task.held_out.x).all()):
        raise ConfigError(f"{name} makes values too large for a number; give smaller weights or effects.")
    # A context without a row is in no table, so that no posterior could name it.
    if not task.data.counts[1:].all():
        raise ConfigError(f"{name} makes contexts without rows; give rows_per_context above 0 or n_contexts = 0.")
    if not task.data.n_rows:
        raise ConfigError(f"{name} makes a table without rows; give n_observational above 0.")
    return task


def _summary(task: "Task", out: Path) -> str:
    from bacadi.data.text import counted
    from bacadi.simulate.files import CONTEXT, FILES, TRAINING

    data, held_out = task.data, task.held_out
    observational = f" --observational {data.observational}" if data.observational is not None else ""
    return "\n".join(
        [
            f"{counted(data.n_variables, 'variable')}, {counted(int(task.graph.sum()), 'edge')}; "
            f"{counted(int(data.counts[0]), 'observational row')}, "
            f"{counted(int(data.counts[1:].sum()), 'row')} in {counted(data.n_contexts, 'context')}, "
            f"{counted(held_out.n_rows, 'held-out row')} in {counted(held_out.n_contexts, 'context')}",
            f"written to {out}: {', '.join(FILES)}",
            "go on with:",
            f"  bacadi fit {shlex.quote(str(out / TRAINING[0]))} --context {CONTEXT}{observational} --out run",
            f"  bacadi evaluate run --truth {shlex.quote(str(out))}",
        ]
    )
