"""`bacadi demo`: a small task whose truth is known, from the table to the picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from bacadi.posterior import Posterior
    from bacadi.simulate import Task

# Results that a person can read at a glance.
_VARIABLES, _ROWS = 5, 20
_DATA, _PICTURE = "data.csv", "particles.png"
_LISTED = 0.1


def demo(
    out: Annotated[Path, typer.Option(help="Folder for data, results and picture.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Another seed is another task.")] = 0,
) -> None:
    """Simulate a small task, fit it and show edges and targets against the truth, in seconds."""
    from rich.console import Console

    from bacadi.commands.outputs import REPORT, check_folder, check_outputs
    from bacadi.commands.run import Request, RunFolder, doubts, holds_run, read_record
    from bacadi.config.layers import configure

    check_folder(out)
    task, data = simulated(seed), out / _DATA
    again = holds_run(out) and read_record(out).get("data", {}).get("path") == str(data.resolve())
    check_outputs([data, out / _PICTURE], "--out", overwrite=again)
    _write_data(task, data)
    console = Console(highlight=False, soft_wrap=True)
    console.print(_introduction(task, data))
    request = Request(data, "context", task.data.observational, seed, report=True)
    posterior = RunFolder.prepare(out, request, configure(), overwrite=again).start()
    for table in (edge_table(posterior, task), target_table(posterior, task)):
        console.print(table)
    for message in doubts(posterior):
        typer.echo(f"Warning: {message}", err=True)
    _draw(posterior, task, out / _PICTURE)
    console.print(f"written to {out}: {_DATA}, edges.csv, targets.csv, posterior.nc and the picture {_PICTURE}")
    console.print(f"To look at all of it, open {out / REPORT} in a browser.")


def simulated(seed: int) -> "Task":
    """The task of the demo: linear mechanisms, a scale-free graph, one hidden target a context."""
    from bacadi.simulate import Interventions, RandomScaleFree, SyntheticSpec, simulate

    interventions = Interventions(rows_per_context=_ROWS)
    return simulate(SyntheticSpec(_VARIABLES, RandomScaleFree(1), interventions=interventions), seed)


def edge_table(posterior: "Posterior", task: "Task") -> "Table":
    """Every edge that exists or that the posterior gives some probability, with the truth beside it."""
    found = [(edge.source, edge.target, edge.probability) for edge in posterior.edges().itertuples()]
    names = posterior.variables
    truth = {(names[i], names[j]) for i, j in zip(*task.graph.nonzero(), strict=True)}
    return _against_truth("Edges", ("from", "to"), found, truth)


def target_table(posterior: "Posterior", task: "Task") -> "Table":
    """Every target that exists or that the posterior gives some probability, with the truth beside it."""
    found = [(target.context, target.variable, target.probability) for target in posterior.targets().itertuples()]
    contexts, names = posterior.contexts, posterior.variables
    truth = {(contexts[k], names[i]) for k, i in zip(*task.targets.nonzero(), strict=True)}
    return _against_truth("Intervention targets", ("context", "variable"), found, truth)


def _against_truth(
    title: str, columns: tuple[str, str], found: list[tuple[str, str, float]], truth: set[tuple[str, str]]
) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(*columns, title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.add_column("probability", justify="right")
    table.add_column("truth")
    table.add_column("")
    hits = 0
    for first, second, probability in found:
        true, said = (first, second) in truth, probability > 0.5
        hits += true and said
        if true or probability > _LISTED:
            mark = "[green]right[/]" if true == said else "[red]missed[/]" if true else "[red]wrong[/]"
            table.add_row(first, second, f"{probability:.2f}", "yes" if true else "no", mark)
    wrong = sum(probability > 0.5 and (first, second) not in truth for first, second, probability in found)
    table.caption = f"{hits} of {len(truth)} found, {wrong} wrong"
    table.caption_justify = "left"
    return table


def _introduction(task: "Task", path: Path) -> str:
    data = task.data
    return (
        f"A task with a known truth: {data.n_variables} variables, {data.counts[0]} observational rows and "
        f"{data.n_contexts} contexts of {data.counts[1]} rows, each with a hidden target.\n"
        f"The table is {path}; what follows is the same as\n"
        f"  bacadi fit {path} --context context --observational {data.observational} --out run"
    )


def _write_data(task: "Task", path: Path) -> None:
    from bacadi.data.text import write_text

    data = task.data
    labels = (data.observational, *data.contexts)
    lines = [",".join((*data.variables, "context"))]
    for row, context in zip(data.x, data.context, strict=True):
        lines.append(",".join((*(f"{value:.6f}" for value in row), str(labels[context]))))
    write_text(path, "\n".join(lines) + "\n")


def _draw(posterior: "Posterior", task: "Task", path: Path) -> None:
    from bacadi.report import plot_structures, save_figure

    save_figure(plot_structures(posterior, task.graph, task.targets, n=4), path)
