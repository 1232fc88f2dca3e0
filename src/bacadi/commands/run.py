"""A run of `fit` and its folder: all is validated before anything is written, then fitted, written and summed up."""

import hashlib
import json
import os
import shlex
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

import bacadi
from bacadi.commands.watch import Log, Watch
from bacadi.config.codec import Place
from bacadi.config.layers import Configuration, name_of_method, restored
from bacadi.data.checks import Severity
from bacadi.data.contexts import ContextData
from bacadi.data.doctor import examine
from bacadi.data.tables import read_table
from bacadi.data.text import write_text
from bacadi.errors import INTERRUPTED, BacadiError, ConfigError, DataError, StoreError
from bacadi.inference.fit import fit
from bacadi.inference.method import Monitor, Problem
from bacadi.model.knowledge import Knowledge
from bacadi.model.model import Model
from bacadi.model.statements import UNKNOWN, from_record, labels_of, stated, to_record
from bacadi.posterior import Posterior, write_results

CONFIG, LOG, CHECKPOINT, POSTERIOR = "config.json", "log.jsonl", "checkpoint.npz", "posterior.nc"
RESULTS = ("edges.csv", "targets.csv", POSTERIOR)
_LARGEST_SEED = 2**32 - 1
_LISTED_EDGES = 10


@dataclass(frozen=True)
class Request:
    """What the user asked for beside model and method; paths are as given. All but the paths is kept in config.json."""

    data: Path
    context: str
    observational: str | None = None
    seed: int = 0
    standardize: bool = False
    targets: str = UNKNOWN
    config: Path | None = None
    checkpoint_seconds: float = 60.0

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= _LARGEST_SEED:
            raise ConfigError(f"--seed is {self.seed}; give a whole number from 0 to {_LARGEST_SEED}.")
        if not 0 <= self.checkpoint_seconds < float("inf"):
            raise ConfigError(f"--checkpoint-every is {self.checkpoint_seconds}; give a number of seconds from 0 on.")

    def read(self) -> tuple[ContextData, tuple[str, ...]]:
        """The data, and the warnings of the doctor as sentences."""
        examination = examine(read_table(self.data, self.context), self.context, self.observational)
        data = examination.data()
        warnings = tuple(finding.message for finding in examination.diagnosis.of(Severity.WARNING))
        return (data.standardized() if self.standardize else data), warnings


_KEPT = ("context", "observational", "seed", "standardize", "targets", "checkpoint_seconds")


@dataclass(frozen=True)
class RunFolder:
    """A folder with one run: config.json, log.jsonl, a checkpoint while it is unfinished, results when it is done.

    `RunFolder.prepare` makes one from a request without writing anything, `RunFolder.load` reads one back.
    """

    path: Path
    request: Request
    configuration: Configuration
    data: ContextData
    knowledge: Knowledge
    sha256: str
    warnings: tuple[str, ...] = ()

    @classmethod
    def prepare(cls, path: Path, request: Request, configuration: Configuration) -> "RunFolder":
        """Validate everything that can be validated without running; nothing is written."""
        data, warnings = request.read()
        knowledge = stated(data, request.targets, configuration.knowledge, request.config)
        check_folder(path)
        if (path / CHECKPOINT).exists():
            raise ConfigError(
                f"The folder '{path}' holds an unfinished run; continue it with `bacadi resume`, delete the folder "
                "or choose another --out."
            )
        run = cls(path, request, configuration, data, knowledge, file_digest(request.data), warnings)
        run.check()
        return run

    @classmethod
    def load(cls, path: Path, modules: tuple[str, ...] = ()) -> "RunFolder":
        """The run that has begun in a folder; the data must be those it began with."""
        record = read_record(path)
        damaged = StoreError(
            f"'{path / CONFIG}' is damaged or not ours, so the run cannot be resumed; start a new fit."
        )
        try:
            request = Request(Path(record["data"]["path"]), **{key: record[key] for key in _KEPT})
            model, method = restored(record["configuration"], Place(f"'{path / CONFIG}'", modules=modules))
            configuration = Configuration(model, method, name_of_method(method), record["preset"], {})
            digest, known = record["data"]["sha256"], record["knowledge"]
        except (KeyError, TypeError, AttributeError) as error:
            raise damaged from error
        if not request.data.exists():
            raise DataError(f"The data file '{request.data}' of this run is gone; put it back to resume.")
        if file_digest(request.data) != digest:
            raise DataError(
                f"The data file '{request.data}' has changed since the run began, so it cannot be resumed; "
                "restore the file or start a new fit."
            )
        data, _ = request.read()
        try:
            return cls(path, request, configuration, data, from_record(known, labels_of(data)), digest)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise damaged from error

    def check(self) -> None:
        """Refuse what the method cannot do with these data and this knowledge."""
        model = self.configuration.model or Model()
        self.configuration.method.check(Problem(self.data, model, self.knowledge, self.request.seed))

    def record(self) -> dict[str, Any]:
        """The content of config.json: all that a repetition or a continuation needs."""
        return {
            "bacadi": bacadi.__version__,
            "data": {"path": str(self.request.data.resolve()), "sha256": self.sha256},
            **{key: getattr(self.request, key) for key in _KEPT},
            "knowledge": to_record(self.knowledge),
            "method": self.configuration.name,
            "preset": self.configuration.preset,
            "configuration": self.configuration.table(),
        }

    def start(self, quiet: bool = False) -> Posterior:
        """Run from the first step; results of an earlier run in the folder are replaced."""
        for message in self.warnings:
            typer.echo(f"Warning: {message}", err=True)
        self.path.mkdir(parents=True, exist_ok=True)
        for name in RESULTS:  # they would not belong to the new configuration
            (self.path / name).unlink(missing_ok=True)
        write_text(self.path / CONFIG, json.dumps(self.record(), indent=2, ensure_ascii=False) + "\n")
        log = Log(self.path / LOG, fresh=True)
        log.write("start", **self._facts())
        return self._carry_out(log, quiet)

    def resume(self, quiet: bool = False) -> Posterior:
        """Run from the checkpoint, or from the first step where none was saved."""
        saved = (self.path / CHECKPOINT).exists()
        if not saved:
            typer.echo("No checkpoint had been saved, so the run starts over; the result is the same.", err=True)
        log = Log(self.path / LOG, fresh=False)
        log.write("resume", checkpoint=saved, **self._facts())
        return self._carry_out(log, quiet)

    def _facts(self) -> dict[str, object]:
        data, chosen = self.data, self.configuration
        sizes = {"rows": data.n_rows, "variables": data.n_variables, "contexts": data.n_contexts}
        how = {"method": chosen.name, "preset": chosen.preset, "seed": self.request.seed}
        return {"version": bacadi.__version__, **sizes, **how}

    def _carry_out(self, log: Log, quiet: bool) -> Posterior:
        begin, checkpoint = time.monotonic(), self.path / CHECKPOINT
        watch = Watch(log, checkpoint, quiet)
        try:
            with watch:
                posterior = self._fit(watch)
            write_results(posterior, self.path)
        except KeyboardInterrupt:
            log.write("interrupted", step=watch.step)
            saved = f"its state is saved in {checkpoint}" if checkpoint.exists() else "no state was saved yet"
            command = f"bacadi resume {shlex.quote(str(self.path))}"
            typer.echo(f"Interrupted at step {watch.step}, {saved}; continue with: {command}", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except BacadiError as error:
            log.write("failed", step=watch.step, error=str(error))
            raise
        seconds = round(time.monotonic() - begin, 3)
        log.write("done", seconds=seconds, cyclic=posterior.n_cyclic, warnings=doubts(posterior))
        checkpoint.unlink(missing_ok=True)
        return posterior

    def _fit(self, watch: Watch) -> Posterior:
        # Messages of the compiler are of no use to whoever waits for a posterior; a user's own setting wins.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        chosen = self.configuration
        watch.open(chosen.method.opening(), getattr(chosen.method, "time_budget", None))
        posterior = fit(
            self.data,
            chosen.model,
            chosen.method,
            seed=self.request.seed,
            knowledge=self.knowledge,
            monitor=Monitor(watch, self.path / CHECKPOINT, self.request.checkpoint_seconds),
        )
        extra = {"preset": chosen.preset, "data_sha256": self.sha256}
        return replace(posterior, attrs=posterior.attrs | extra)


def conclude(posterior: Posterior, folder: Path, quiet: bool) -> None:
    """Print the summary unless it is not wanted, and in any case what makes the result doubtful."""
    if not quiet:
        typer.echo(summary(posterior, folder))
    for message in doubts(posterior):
        typer.echo(f"Warning: {message}", err=True)


def summary(posterior: Posterior, folder: Path) -> str:
    """The answer in a few lines: draws, targets, strongest edges, and where the files are."""
    edges = posterior.edges()
    likely = edges[edges["probability"] > 0.5].head(_LISTED_EDGES)
    lines = [posterior.describe(), "most probable edges:" if len(likely) else "no edge has a probability above 0.5"]
    lines += [f"  {edge.source} -> {edge.target} ({edge.probability:.2f})" for edge in likely.itertuples()]
    more = int((edges["probability"] > 0.5).sum()) - len(likely)
    lines += [f"  and {more} more"] if more > 0 else []
    return "\n".join([*lines, f"written to {folder}{os.sep}: {', '.join((*RESULTS, CONFIG, LOG))}"])


def doubts(posterior: Posterior) -> list[str]:
    """Sentences on why not to trust the posterior: replicas that disagree, bootstrap samples that failed."""
    sentences = list(posterior.attrs.get("warnings", []))
    if dropped := int(posterior.attrs.get("n_dropped", 0)):
        tried = posterior.n_draws + dropped
        sentences.append(f"{dropped} of {tried} bootstrap samples gave no estimate and were left out.")
    return sentences


def read_record(folder: Path) -> dict[str, Any]:
    """The content of config.json, or a refusal if the folder holds no run of ours."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise StoreError(f"The folder '{folder}' {what}; give the --out folder of a fit.")
    path = folder / CONFIG
    if not path.exists():
        raise StoreError(f"The folder '{folder}' holds no run (there is no {CONFIG}); give the --out folder of a fit.")
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or "bacadi" not in record:
        raise StoreError(f"'{path}' is damaged or not ours, so the run cannot be resumed; start a new fit.")
    return record


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


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
