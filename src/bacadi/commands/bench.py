"""`bacadi bench`: studies, run and looked at; `benchmark` does the work."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from bacadi.commands.outputs import say
from bacadi.errors import INTERRUPTED, ConfigError

if TYPE_CHECKING:
    from bacadi.benchmark.engines import AbstractEngine
    from bacadi.benchmark.plan import PlannedFit
    from bacadi.benchmark.records import Record
    from bacadi.benchmark.runner import Event, Standing
    from bacadi.benchmark.study import Study

bench = typer.Typer(
    no_args_is_help=True, help="Run studies, methods on tasks of known truth, and make tables and figures of them."
)

_StudyName = Annotated[str, typer.Argument(metavar="STUDY", help="Name of a shipped study, or a TOML file.")]
_Store = Annotated[Path, typer.Option(help="SQLite file of the records; made if it is missing.")]
_Records = Annotated[Path, typer.Option("--store", help="Store of the records, or a file of lines (.jsonl).")]
_Only = Annotated[str | None, typer.Option(help="Methods by name or label, separated by commas.")]
_Tasks = Annotated[int | None, typer.Option(min=1, help="At most so many tasks of each set.")]
_Smoke = Annotated[bool, typer.Option("--smoke", help="The study in small, to see that all of it works.")]
_Jobs = Annotated[int | None, typer.Option(min=1, help="Fits side by side (default: one per core).")]
_STORE = Path("bench.sqlite")


@bench.command()
def run(
    study: _StudyName,
    store: _Store = _STORE,
    only: _Only = None,
    tasks: _Tasks = None,
    jobs: _Jobs = None,
    smoke: _Smoke = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try again what failed or timed out.")] = False,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Dask scheduler whose workers carry out the fits.")
    ] = None,
    search_storage: Annotated[
        str | None, typer.Option(metavar="URL", help="Database of a search (default: a file beside the store).")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Carry out what is missing of a study and record it; may be interrupted and repeated at any time."""
    if cluster is not None and jobs is not None:
        raise ConfigError("--jobs is for this machine and --cluster has workers of its own; give one of the two.")
    chosen, folder = _chosen(study, only, tasks, smoke)
    _carry_out(chosen, folder, _Means(store, jobs, cluster, retry_failed, quiet, search_storage))


@bench.command()
def status(
    study: _StudyName,
    store: _Records = _STORE,
    only: _Only = None,
    tasks: _Tasks = None,
    jobs: _Jobs = None,
    smoke: _Smoke = False,
) -> None:
    """Say what of a study is done, failed and left, and how long the rest takes."""
    from bacadi.benchmark.engines import n_cores
    from bacadi.benchmark.plan import plan
    from bacadi.benchmark.records import load_records
    from bacadi.benchmark.runner import standings

    chosen, folder = _chosen(study, only, tasks, smoke)
    records = load_records(store) if store.exists() or store.suffix == ".jsonl" else {}
    fits = plan(chosen, folder, records)
    found = standings(fits, records)
    typer.echo(_plain_table(found))
    typer.echo(_sum(found, jobs or n_cores()))
    for fit, record in _failures(fits, records):
        typer.echo(f"  {_words(fit)}: {record.reason}: {record.error}")


@bench.command()
def compare(
    methods: Annotated[str, typer.Argument(help="Methods as --method of `bacadi fit` takes them, by commas.")],
    task: Annotated[str, typer.Option(help="Specification: a name of studies/tasks, or a TOML file.")] = "linear-er",
    seeds: Annotated[int, typer.Option(min=1, help="Number of tasks.")] = 5,
    first_seed: Annotated[int, typer.Option(min=0, help="The seed of the first task.")] = 0,
    store: _Store = _STORE,
    jobs: _Jobs = None,
    smoke: _Smoke = False,
    to: Annotated[Path | None, typer.Option(help="The figure: .png, .svg or .pdf (default: compare-TASK.png).")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the figure.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Compare methods on tasks of one kind: a table of medians and percentiles, and a figure."""
    from bacadi.benchmark.figures import draw, save
    from bacadi.benchmark.plan import matched
    from bacadi.benchmark.study import SECONDS, MethodEntry, Study, TaskSet
    from bacadi.benchmark.tables import summarise, to_markdown

    entries = tuple(MethodEntry(method=name.strip()) for name in methods.split(",") if name.strip())
    title = f"{', '.join(entry.title for entry in entries)} on {task}"
    study = Study(title, (TaskSet(task, first_seed=first_seed, n_seeds=seeds),), entries)
    study = study.replace(metrics=(*study.metrics, SECONDS))
    study = study.small() if smoke else study
    pairs = matched(*_carry_out(study, Path(), _Means(store, jobs, quiet=quiet)))
    typer.echo(to_markdown(summarise(study, pairs)), nl=False)
    path = to or Path(f"compare-{study.tasks[0].label}.png")
    if path.exists() and not overwrite:
        typer.echo(f"The figure {path} is left as it is; --overwrite replaces it.", err=True)
    else:
        save(draw(study, pairs), path)
        typer.echo(f"figure written to {path}")


@bench.command()
def export(
    study: _StudyName,
    out: Annotated[Path | None, typer.Option(help="File of lines (default: results/STUDY.jsonl).")] = None,
    store: _Records = _STORE,
    only: _Only = None,
    tasks: _Tasks = None,
    smoke: _Smoke = False,
) -> None:
    """Write the records of a study as lines of JSON, small and fit for version control."""
    from bacadi.benchmark.plan import plan, searches
    from bacadi.benchmark.records import load_records, write_records
    from bacadi.data.text import counted

    chosen, folder = _chosen(study, only, tasks, smoke)
    records = load_records(store)
    fits = plan(chosen, folder, records)
    keys = [*searches(chosen, folder), *(fit.key for fit in fits)]
    kept = {key: records[key] for key in keys if key in records}
    path = out or Path("results") / f"{Path(study).stem}.jsonl"
    write_records(path, kept.values(), chosen.figure.kind == "posterior")
    typer.echo(f"{counted(len(kept), 'record')} written to {path}")


@bench.command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files of `bacadi bench export`.")],
    store: _Store = _STORE,
) -> None:
    """Put records that were kept as lines into a store, so that they are not made again."""
    from bacadi.benchmark.records import RecordStore, read_records
    from bacadi.data.text import counted

    read = [record for path in files for record in read_records(path).values()]
    with RecordStore(store) as opened:
        added = sum(opened.add(record) for record in read)
    typer.echo(f"{counted(added, 'new record')} of {len(read)} in {store}")


def _chosen(name: str, only: str | None, n_tasks: int | None, smoke: bool) -> tuple["Study", Path]:
    """The study that a command line means, and the folder that its paths start from."""
    from bacadi.benchmark.study import read_study
    from bacadi.config.shipped import find_shipped

    study = read_study(name)
    study = study.small() if smoke else study
    wanted = [part.strip() for part in (only or "").split(",") if part.strip()]
    return study.smaller(n_tasks, wanted), find_shipped(name, "study").parent


class _Means(NamedTuple):
    """Where and how fits are carried out."""

    store: Path
    jobs: int | None = None
    cluster: str | None = None
    retry_failed: bool = False
    quiet: bool = False
    search_storage: str | None = None

    def engine(self) -> "AbstractEngine":
        """Processes of this machine, or the workers of a cluster."""
        if self.cluster is None:
            from bacadi.benchmark.engines import LocalEngine

            return LocalEngine(self.jobs)
        from bacadi.benchmark.cluster import DaskEngine

        return DaskEngine(self.cluster, lambda message: say(f"Warning: {message}", err=True))


def _carry_out(study: "Study", folder: Path, means: _Means) -> tuple[list["PlannedFit"], dict[str, "Record"]]:
    """Run what is missing, with progress, and say how it ended; all fits of the study and their records."""
    from bacadi.benchmark.plan import plan
    from bacadi.benchmark.records import RecordStore
    from bacadi.benchmark.search import StudyRun
    from bacadi.commands.watch import Interrupted, Interrupts
    from bacadi.data.text import counted

    path = means.store
    plan(study, folder)  # what is wrong with the study is said before a store is made
    with RecordStore(path) as store:
        before = store.all()
        fits = plan(study, folder, before)
        left = [fit for fit in fits if not fit.is_settled(before.get(fit.key), means.retry_failed)]
        if not left:
            typer.echo(f"Nothing to do: {counted(len(fits), 'fit')} of '{study.title}' are recorded in {path}.")
            _say_failures(fits, before)
            return fits, before
        again = {fit.key for fit in left}
        settled = {key: one for key, one in before.items() if key not in again}
        try:
            with Interrupts(), means.engine() as engine, _Progress(fits, settled, engine, means.quiet) as progress:
                run = StudyRun(study, folder, store, engine, progress, means.retry_failed, means.search_storage)
                records = run.go()
        except Interrupted as stop:
            typer.echo(f"Interrupted; what is recorded in {path} is kept, the same command goes on.", err=True)
            raise typer.Exit(getattr(stop, "exit_code", INTERRUPTED)) from None
        fits = plan(study, folder, store.all())
    typer.echo(f"{counted(progress.n_ended, 'fit')} carried out; all {len(fits)} of '{study.title}' are in {path}.")
    _say_failures(fits, records)
    return fits, records


class _Progress:
    """Who hears of a run: a live table on a terminal, a line per fit elsewhere."""

    def __init__(
        self, fits: list["PlannedFit"], records: dict[str, "Record"], engine: "AbstractEngine", quiet: bool
    ) -> None:
        self._fits, self._records, self._engine, self._quiet = list(fits), dict(records), engine, quiet
        self._running: dict[str, tuple[PlannedFit, float]] = {}
        self._live: Any = None
        self._drawn = 0.0
        self.n_ended = 0

    def __enter__(self) -> "_Progress":
        if sys.stderr.isatty() and not self._quiet:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, event: "Event") -> None:
        fit, record = event
        if fit is not None and all(fit.key != one.key for one in self._fits):  # of a search, or what it has chosen
            self._fits = [one for one in self._fits if not (one.pending and _words(one) == _words(fit))] + [fit]
        if fit is not None and record is None:
            self._running[fit.key] = fit, time.monotonic()
        elif fit is not None and record is not None:
            self.n_ended += 1
            self._running.pop(fit.key, None)
            self._records[fit.key] = record
            if self._live is None and not self._quiet:
                settled = sum(one.key in self._records for one in self._fits)
                took = "" if record.seconds is None else f" in {record.seconds:.1f} s"
                why = f": {record.error}" if record.error else ""
                typer.echo(f"[{settled}/{len(self._fits)}] {_words(fit)}: {record.reason}{took}{why}", err=True)
        if self._live is not None and time.monotonic() - self._drawn > 0.4:
            self._drawn = time.monotonic()
            self._live.update(self._table(), refresh=True)

    def _table(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        from bacadi.benchmark.runner import standings
        from bacadi.data.text import duration

        found = standings(self._fits, self._records)
        now = time.monotonic()
        running = [f"running: {_words(fit)}, {duration(now - since)}" for fit, since in self._running.values()]
        return Group(_rich_table(found), *map(Text, [*running, _sum(found, max(self._engine.n_workers, 1))]))


def _rich_table(found: list["Standing"]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(*_HEADER[:2], box=box.SIMPLE_HEAD)
    for name in _HEADER[2:]:
        table.add_column(name, justify="right")
    for row in _rows(found):
        table.add_row(*row)
    return table


_HEADER = ("tasks", "method", "done", "failed", "left", "seconds a fit")


def _rows(found: list["Standing"]) -> list[tuple[str, ...]]:
    return [
        (
            one.tasks,
            one.method,
            str(one.done),
            str(one.failed),
            str(one.left),
            "" if one.seconds is None else f"{one.seconds:.1f}",
        )
        for one in found
    ]


def _plain_table(found: list["Standing"]) -> str:
    return aligned_columns([_HEADER, *_rows(found)], n_left=2)


def aligned_columns(rows: list[tuple[str, ...]], n_left: int = 1) -> str:
    """Rows of cells as lines with aligned columns, the first `n_left` to the left, never wrapped."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < n_left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _sum(found: list["Standing"], jobs: int) -> str:
    """All in one line: done, failed, left, and the time to go."""
    from bacadi.data.text import duration

    done, failed, left = (sum(getattr(one, name) for one in found) for name in ("done", "failed", "left"))
    line = f"{done} done, {failed} failed, {left} left"
    if not left:
        return line
    times = [one.seconds_left for one in found]
    known = sum(time for time in times if time is not None)
    about = f"about {duration(known / jobs)} to go with {jobs} at a time" if known else "no time is known yet"
    unknown = sorted({one.method for one, time in zip(found, times, strict=True) if time is None})
    beside = f", and {', '.join(unknown)}, whose time nobody knows yet" if unknown and known else ""
    return f"{line}; {about}{beside}"


def _words(fit: "PlannedFit") -> str:
    return f"{fit.tasks.label} {fit.identity.task_seed} {fit.entry.title}"


def _failures(fits: list["PlannedFit"], records: dict[str, "Record"]) -> list[tuple["PlannedFit", "Record"]]:
    pairs = [(fit, records.get(fit.key)) for fit in fits]
    return [(fit, record) for fit, record in pairs if record is not None and record.reason != "done"]


def _say_failures(fits: list["PlannedFit"], records: dict[str, "Record"]) -> None:
    from bacadi.data.text import counted

    if failed := _failures(fits, records):
        what = f"{counted(len(failed), 'fit')} did not end well (`bacadi bench status` says why)"
        typer.echo(f"Warning: {what}; --retry-failed tries again.", err=True)


@bench.command()
def table(
    study: _StudyName,
    store: _Records = _STORE,
    to: Annotated[
        Path | None, typer.Option(help="File to write: .md, .csv or .tex; without it Markdown is shown.")
    ] = None,
    only: _Only = None,
    tasks: _Tasks = None,
    smoke: _Smoke = False,
) -> None:
    """Make the table of a study: medians, percentiles and published values."""
    from bacadi.benchmark.plan import matched, plan
    from bacadi.benchmark.records import load_records
    from bacadi.benchmark.tables import summarise, written
    from bacadi.data.text import write_text

    chosen, folder = _chosen(study, only, tasks, smoke)
    records = load_records(store)
    made = summarise(chosen, matched(plan(chosen, folder, records), records))
    text = written(made, ".md" if to is None else to.suffix)
    if to is None:
        typer.echo(text, nl=False)
    else:
        write_text(to, text)
        typer.echo(f"written to {to}")


@bench.command()
def figure(
    study: _StudyName,
    store: _Records = _STORE,
    to: Annotated[
        list[Path] | None, typer.Option(help="File to write: .png, .svg or .pdf; may be given twice.")
    ] = None,
    only: _Only = None,
    tasks: _Tasks = None,
    smoke: _Smoke = False,
) -> None:
    """Draw the figure of a study, with published medians (default: STUDY.png and STUDY.svg)."""
    from bacadi.benchmark.figures import draw, save
    from bacadi.benchmark.plan import matched, plan
    from bacadi.benchmark.records import load_records

    chosen, folder = _chosen(study, only, tasks, smoke)
    records = load_records(store)
    drawn = draw(chosen, matched(plan(chosen, folder, records), records))
    for path in to or [Path(f"{Path(study).stem}{suffix}") for suffix in (".png", ".svg")]:
        save(drawn, path)
        typer.echo(f"written to {path}")


@bench.command()
def page(
    to: Annotated[Path, typer.Option(help="The page, in Markdown; its figures go into the folder images beside it.")],
    results: Annotated[Path, typer.Option(help="Folder of the records as lines, STUDY.jsonl.")] = Path("results"),
) -> None:
    """Write a page of all results: the table and the figure of every study that has records."""
    from bacadi.benchmark.page import write_page
    from bacadi.data.text import counted

    typer.echo(f"{counted(write_page(results, to), 'study')} written to {to}".replace("studys", "studies"))
