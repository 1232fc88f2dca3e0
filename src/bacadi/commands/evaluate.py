"""`bacadi evaluate`: how good a posterior is where the truth is known."""

import json
import math
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bacadi.errors import ConfigError

if TYPE_CHECKING:
    from bacadi.posterior import Posterior


def evaluate(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="The --out folder of a fit, or a posterior.nc.")],
    truth: Annotated[
        Path | None,
        typer.Option(help="The --out folder of `bacadi simulate`, or a CSV file of true edges (source,target)."),
    ] = None,
    true_targets: Annotated[
        Path | None, typer.Option(help="CSV file of true targets (context,variable), beside a file of edges.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the values to this JSON file as well.")
    ] = None,
    modules: Annotated[
        list[str] | None,
        typer.Option("--import", metavar="MODULE", help="Module of your own with a mechanism or metrics; repeatable."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the JSON file.")] = False,
) -> None:
    """Compare a posterior with the truth of a simulated task or of your own: a table of metrics, JSON on request."""
    if truth is None:
        folder, file = (
            "--truth DIR, the --out folder of `bacadi simulate`",
            "--truth FILE.csv with columns source,target",
        )
        raise ConfigError(f"Name the truth with {folder}, or with {file}.")
    if true_targets is not None and truth.is_dir():
        raise ConfigError("--true-targets goes with a file of true edges; a simulated task has its own, so remove it.")
    from bacadi.commands.export import posterior_file
    from bacadi.commands.outputs import check_outputs
    from bacadi.data.text import write_text
    from bacadi.metrics import evaluate as metrics
    from bacadi.metrics.gold import evaluate_gold
    from bacadi.posterior import load
    from bacadi.simulate.files import read_task

    for module in modules or ():
        _import(module)
    path = posterior_file(source)
    if json_file is not None:
        check_outputs([json_file], "--json", overwrite, [path, truth, true_targets])
    posterior = load(path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if truth.is_file():
            values = evaluate_gold(posterior, truth, true_targets)
        else:
            task = read_task(truth)
            _warn_of_other_data(posterior, truth)
            values = metrics.evaluate(posterior, task, modules or ())
    for warning in caught:
        typer.echo(f"Warning: {warning.message}", err=True)
    if json_file is not None:
        write_text(json_file, json.dumps(_record(path, truth, values), indent=2, ensure_ascii=False) + "\n")
    typer.echo(_table(values, metrics.descriptions()))


def _import(module: str) -> None:
    """Import a module of the user's own, whose metrics register themselves."""
    try:
        import_module(module)
    except ImportError as failure:
        raise ConfigError(f"--import {module} cannot be imported ({failure}); give the name of a module.") from failure


def _warn_of_other_data(posterior: "Posterior", truth: Path) -> None:
    """Tasks of one kind share all their names, so only the data tell a fit of another task from one of this."""
    import hashlib

    from bacadi.simulate.files import TRAINING

    fitted = posterior.attrs.get("data_sha256")
    if fitted is not None and fitted != hashlib.sha256((truth / TRAINING[0]).read_bytes()).hexdigest():
        typer.echo(
            f"Warning: the posterior was fitted to another file than '{truth / TRAINING[0]}'; "
            "if that is not a copy of it, the values below mean nothing.",
            err=True,
        )


def _record(path: Path, truth: Path, values: dict[str, float]) -> dict[str, object]:
    import bacadi

    # JSON has no infinity.
    metrics = {name: value if math.isfinite(value) else None for name, value in values.items()}
    return {"bacadi": bacadi.__version__, "posterior": str(path), "truth": str(truth), "metrics": metrics}


def _table(values: dict[str, float], good: dict[str, str]) -> str:
    """One line per metric, never wrapped, so that other programs can cut it as well."""
    rows = [("metric", "value", "what is good"), *((name, f"{v:.4g}", good[name]) for name, v in values.items())]
    names, numbers = (max(len(row[i]) for row in rows) for i in (0, 1))
    return "\n".join(f"{name:<{names}}  {value:>{numbers}}  {good}".rstrip() for name, value, good in rows)
