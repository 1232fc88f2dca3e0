"""A run of `fit` and its folder: all is validated before anything is written, then fitted, written and summed up."""

import hashlib
import json
import math
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer

import bacadi
from bacadi.commands.outputs import REPORT, check_folder, check_outputs, say
from bacadi.commands.watch import Log, Watch
from bacadi.config.choices import shown
from bacadi.config.codec import Place, build, encode
from bacadi.config.columns import PLAIN, Columns
from bacadi.config.layers import Configuration, name_of_method, restored
from bacadi.data.checks import Severity
from bacadi.data.contexts import ContextData
from bacadi.data.text import sweep, write_text
from bacadi.errors import DOUBTFUL, INTERRUPTED, BacadiError, ConfigError, DataError, StoreError
from bacadi.inference.fit import fit
from bacadi.inference.machines import Machines
from bacadi.inference.method import Monitor, Problem
from bacadi.inference.shams import sham
from bacadi.inference.spread import check_spread
from bacadi.model.knowledge import Knowledge
from bacadi.model.model import Model
from bacadi.model.statements import UNKNOWN, from_record, labels_of, stated, to_record
from bacadi.posterior import Posterior, load, write_results

CONFIG, LOG, CHECKPOINT, POSTERIOR = "config.json", "log.jsonl", "checkpoint.npz", "posterior.nc"
RESULTS = ("edges.csv", "targets.csv", POSTERIOR)
_LARGEST_SEED = 2**32 - 1
_LISTED_EDGES = 10
LISTED_FROM = 0.1
"""The least probability of an edge or a target that `--json` lists; the CSV files have all."""


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
    columns: Columns = PLAIN
    shams: int = 0
    report: bool = False

    def __post_init__(self) -> None:
        if type(self.seed) is not int or not 0 <= self.seed <= _LARGEST_SEED:
            raise ConfigError(f"--seed is {shown(self.seed)}; give a whole number from 0 to {_LARGEST_SEED}.")
        if type(self.shams) is not int or self.shams < 0:
            raise ConfigError(f"--shams is {shown(self.shams)}; give a whole number from 0 on.")
        if not 0 <= self.checkpoint_seconds < float("inf"):
            raise ConfigError(f"--checkpoint-every is {self.checkpoint_seconds}; give a number of seconds from 0 on.")

    def read(self) -> tuple[ContextData, tuple[str, ...], tuple[str, ...]]:
        """The data, the warnings of the doctor, and what was decided in the user's place, as sentences."""
        data, diagnosis = self.columns.open(self.data, self.context, self.observational)
        if data is None:
            raise DataError(diagnosis.of(Severity.ERROR)[0].message)
        warnings = tuple(finding.message for finding in diagnosis.of(Severity.WARNING))
        notes = tuple(finding.message for finding in diagnosis.of(Severity.NOTE) if finding.code in _TOLD)
        return (data.standardized() if self.standardize else data), warnings, notes


_TOLD = ("observational", "control", "labels", "genes", "normalized", "outliers", "spikes")
_KEPT = ("context", "observational", "seed", "standardize", "targets", "checkpoint_seconds", "shams")


@dataclass(frozen=True)
class RunFolder:
    """A folder with one run: config.json, log.jsonl, a checkpoint while it is unfinished, results when it is done.

    `RunFolder.prepare` makes one from a request without writing anything, `RunFolder.load` reads one back; `start` and
    `resume` hold the lock of the folder while they run.
    """

    path: Path
    request: Request
    configuration: Configuration
    data: ContextData
    knowledge: Knowledge
    sha256: str
    warnings: tuple[str, ...] = ()
    overwrite: bool = False
    extends: int = 0
    notes: tuple[str, ...] = ()
    machines: Machines | None = None

    @classmethod
    def prepare(
        cls, path: Path, request: Request, configuration: Configuration, overwrite: bool = False
    ) -> "RunFolder":
        """Validate everything that can be validated without running; nothing is written."""
        data, warnings, notes = request.read()
        request = replace(request, observational=data.observational)
        knowledge = stated(data, request.targets, configuration.knowledge, request.config)
        run = cls(
            path, request, configuration, data, knowledge, file_digest(request.data), warnings, overwrite, notes=notes
        )
        run.check()
        check_folder(path)
        return run

    @classmethod
    def load(cls, path: Path, modules: tuple[str, ...] = ()) -> "RunFolder":
        """The run that has begun in a folder; the data must be those it began with."""
        record = read_record(path)
        damaged = StoreError(
            f"'{path / CONFIG}' is damaged or not ours, so the run cannot be resumed; start a new fit."
        )
        try:
            place = Place(f"'{path / CONFIG}'", modules=modules)
            columns = build(Columns, record["columns"], place.below("columns")) if "columns" in record else PLAIN
            kept = {key: record[key] for key in _KEPT if key in record}
            kept["observational"] = kept.get("observational") or ""  # nothing is to be looked for again
            report = bool(record.get("report", False))
            request = Request(Path(record["data"]["path"]), **kept, columns=columns, report=report)
            model, method = restored(record["configuration"], place)
            configuration = Configuration(model, method, name_of_method(method), record["preset"], {})
            digest, known = record["data"]["sha256"], record["knowledge"]
            if not request.data.is_file():
                raise DataError(f"The data file '{request.data}' of this run is gone; put it back to resume.")
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise damaged from error
        if file_digest(request.data) != digest:
            raise DataError(
                f"The data file '{request.data}' has changed since the run began, so it cannot be resumed; "
                "restore the file or start a new fit."
            )
        try:
            data, _, _ = request.read()
            request = replace(request, observational=data.observational)
            known = from_record(known, labels_of(data))
            run = cls(path, request, configuration, data, known, digest, extends=int(record.get("extends", 0)))
            run.check()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise damaged from error
        return run

    @property
    def inputs(self) -> list[Path | None]:
        """The files that are read, which are never written to."""
        request, folder = self.request, Path() if self.request.config is None else self.request.config.parent
        named = [folder / value for value in self.configuration.knowledge.values() if isinstance(value, str)]
        return [request.data, request.config, Path(request.targets), *named]

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
            **self._columns_record(),
            **({"extends": self.extends} if self.extends else {}),
            **({"report": True} if self.request.report else {}),
        }

    def _columns_record(self) -> dict[str, Any]:
        """What was made of the columns, and the maps that came of it; nothing where they are used as they are."""
        if self.request.columns == PLAIN:
            return {}
        names = dict(zip(self.data.variables, self.data.transforms.names, strict=True))
        return {"columns": encode(self.request.columns), "transforms": names}

    def extended(self, sweeps: int) -> "RunFolder":
        """The run that brings a finished one to so many sweeps; its results stay until there are new ones."""
        method, made = self.configuration.method, load(self.path / POSTERIOR).attrs.get("n_sweeps", 0)
        if not method.can_extend:
            raise ConfigError(f"A run of method {self.configuration.name} cannot be extended; start a new one.")
        if not sweeps > made:
            raise ConfigError(f"The run has made {made} sweeps; give --sweeps more than these to extend it.")
        changed = self.configuration._replace(method=method.replace(n_sweeps=sweeps - made))
        return replace(self, configuration=changed, extends=made)

    @contextmanager
    def at(self, cluster: str | None) -> Iterator["RunFolder"]:
        """The run with the workers of a Dask scheduler at hand, or without any; the result is the same."""
        if cluster is None:
            yield self
            return
        check_spread(self.configuration.method)
        with Machines(cluster, lambda message: say(f"Warning: {message}", err=True)) as machines:
            yield replace(self, machines=machines)

    def start(self, quiet: bool = False, begun: float | None = None) -> Posterior:
        """Run from the first step; what is in the folder is replaced only where that was asked for.

        A time budget counts from `begun` (monotonic), when the command began.
        """
        self.check_free()
        for message in () if quiet else self.notes:
            say(message, err=True)
        for message in self.warnings:
            say(f"Warning: {message}", err=True)
        self.path.mkdir(parents=True, exist_ok=True)
        with Log(self.path / LOG) as log:
            self.check_free(but=LOG)  # another run may have come and gone in the meantime
            page = (REPORT,) if self.request.report or holds_run(self.path) else ()
            for name in (*RESULTS, CHECKPOINT, *page):  # they would not belong to the new configuration
                (self.path / name).unlink(missing_ok=True)
            self._write_record()
            log.clear()
            log.write("start", **self._facts())
            return self._carry_out(log, quiet, begun)

    def _write_record(self) -> None:
        write_text(self.path / CONFIG, json.dumps(self.record(), indent=2, ensure_ascii=False) + "\n")

    def check_free(self, but: str = "") -> None:
        """Refuse a folder that holds a run or files of our names, unless they are to be overwritten."""
        if not self.overwrite and holds_run(self.path):
            what = "a finished run" if is_finished(self.path) else "an unfinished run, which `bacadi resume` continues"
            raise ConfigError(
                f"The folder '{self.path}' holds {what}; choose another --out, or replace it with --overwrite."
            )
        page = (REPORT,) if self.request.report else ()
        outputs = (self.path / name for name in (*RESULTS, CHECKPOINT, CONFIG, LOG, *page) if name != but)
        check_outputs(outputs, "--out", self.overwrite, self.inputs)

    def check_same(self) -> None:
        """Refuse to continue the run in the folder with other data or options than those it began with."""
        begun, asked = read_record(self.path), json.loads(json.dumps(self.record()))
        other = [key for key in asked if key != "bacadi" and begun.get(key) != asked[key]]
        if other:
            raise ConfigError(
                f"The run in '{self.path}' was begun with another {' and '.join(other)}; choose another --out, or "
                "replace it with --overwrite."
            )

    def resume(self, quiet: bool = False, begun: float | None = None, extend: bool = False) -> Posterior:
        """Run from the checkpoint, or from the first step where none was saved; `extend` begins an extension."""
        check_outputs((self.path / name for name in RESULTS), "folder", True, self.inputs)
        with Log(self.path / LOG) as log:
            if extend:
                (self.path / CHECKPOINT).unlink(missing_ok=True)
                self._write_record()
            saved = (self.path / CHECKPOINT).exists()
            if not saved and not self.extends:
                say("No checkpoint had been saved, so the run starts over; the result is the same.", err=True)
            log.write("resume", checkpoint=saved, **self._facts())
            return self._carry_out(log, quiet, begun)

    def _facts(self) -> dict[str, object]:
        data, chosen = self.data, self.configuration
        sizes = {"rows": data.n_rows, "variables": data.n_variables, "contexts": data.n_contexts}
        how = {"method": chosen.name, "preset": chosen.preset, "seed": self.request.seed}
        words = data.transforms.words(data.variables)
        made = ({"transforms": words} if words else {}) | ({"missing": round(data.missing, 6)} if data.missing else {})
        return {"version": bacadi.__version__, **sizes, **how, **made}

    def _carry_out(self, log: Log, quiet: bool, begun: float | None) -> Posterior:
        begin, checkpoint = time.monotonic(), self.path / CHECKPOINT
        watch, go_on = Watch(log, checkpoint, quiet), f"bacadi resume {shlex.quote(str(self.path))}"
        sweep(self.path)
        try:
            with watch:
                posterior = self._with_shams(self._fit(watch, begun), log)
                try:
                    write_results(posterior, self.path)
                except StoreError as error:
                    what = str(error).split(";")[0]
                    raise StoreError(f"{what}; make room and finish the run with: {go_on}") from error
        except KeyboardInterrupt as error:
            log.write("interrupted", step=watch.step, signal=str(error) or "SIGINT")
            saved = f"its state is saved in {checkpoint}" if checkpoint.exists() else "no state was saved yet"
            say(f"Interrupted at step {watch.step}, {saved}; continue with: {go_on}", err=True)
            raise typer.Exit(getattr(error, "exit_code", INTERRUPTED)) from None
        except BacadiError as error:
            log.write("failed", step=watch.step, error=str(error))
            raise
        seconds = round(time.monotonic() - begin, 3)
        log.write("done", seconds=seconds, cyclic=posterior.n_cyclic, warnings=doubts(posterior))
        checkpoint.unlink(missing_ok=True)
        if self.request.report or (self.extends and (self.path / REPORT).exists()):
            from bacadi.report.page import read_run, write_report

            write_report(read_run(self.path / POSTERIOR), self.path / REPORT)
        return posterior

    def _fit(self, watch: Watch, begun: float | None) -> Posterior:
        chosen = self.configuration
        watch.open(chosen.method.opening(chosen.model), getattr(chosen.method, "time_budget", None))
        posterior = fit(
            self.data,
            chosen.model,
            chosen.method,
            seed=self.request.seed,
            knowledge=self.knowledge,
            monitor=Monitor(
                watch, self.path / CHECKPOINT, self.request.checkpoint_seconds, watch.warn, begun, self.machines
            ),
            extends=load(self.path / POSTERIOR) if self.extends else None,
        )
        extra = {"preset": chosen.preset, "data_sha256": self.sha256}
        return replace(posterior, attrs=posterior.attrs | extra)

    def _with_shams(self, posterior: Posterior, log: Log) -> Posterior:
        """The posterior with what shams of the same data say, where they were asked for."""
        chosen, request = self.configuration, self.request
        if not request.shams:
            return posterior
        found = sham(
            self.data,
            chosen.model,
            chosen.method,
            n_shams=request.shams,
            seed=request.seed,
            knowledge=self.knowledge,
            real=posterior,
        ).record()
        log.write("shams", **found)
        return replace(posterior, attrs=posterior.attrs | {"shams": found})


def conclude(posterior: Posterior, folder: Path, quiet: bool, as_json: bool = False, strict: bool = False) -> None:
    """Print the summary unless it is not wanted, and in any case what makes the result doubtful.

    With `as_json` the only thing on stdout is one JSON object; with `strict` a result that is not to be trusted ends
    the command with the exit code for that.
    """
    if as_json:
        typer.echo(json.dumps(outcome(posterior, folder), ensure_ascii=False, allow_nan=False))
    elif not quiet:
        say(summary(posterior, folder))
    for message in doubts(posterior):
        say(f"Warning: {message}", err=True)
    if strict and (reasons := failures(posterior)):
        say(f"Not to be trusted (--strict): {' and '.join(reasons)}.", err=True)
        raise typer.Exit(DOUBTFUL)


def failures(posterior: Posterior) -> list[str]:
    """Why `--strict` does not take a result: replicas that disagree, a model that does not fit, shams with targets."""
    attrs = posterior.attrs
    found = {
        "the draws did not converge": attrs.get("converged") is False,
        "the model does not fit": bool(attrs.get("misfit")),
        "shams name targets": bool(attrs.get("shams", {}).get("warnings")),
    }
    return [reason for reason, holds in found.items() if holds]


def outcome(posterior: Posterior, folder: Path) -> dict[str, Any]:
    """The result as plain values for a program: what `--json` prints (docs/inputs.md)."""
    shams = posterior.attrs.get("shams")
    return {
        "bacadi": bacadi.__version__,
        "verdict": posterior.verdict(),
        "converged": posterior.attrs.get("converged"),
        "trusted": not failures(posterior),
        "threshold": LISTED_FROM,
        "targets": _rows(posterior.targets()),
        "edges": _rows(posterior.edges()),
        "doubts": doubts(posterior),
        "shams": None if shams is None else shams["words"],
        "observational": posterior.observational,
        "contexts": list(posterior.contexts),
        "variables": list(posterior.variables),
        "files": {name: str(folder / name) for name in (*RESULTS, CONFIG, LOG, REPORT) if (folder / name).exists()},
    }


def _rows(table: Any) -> list[dict[str, Any]]:
    """The rows of a table whose probability reaches `LISTED_FROM`, one object each."""
    likely = table[table["probability"] >= LISTED_FROM]
    rows: list[dict[str, Any]] = likely.to_dict("records")
    return [{name: _finite(value) for name, value in row.items()} for row in rows]


def _finite(value: Any) -> Any:
    """JSON has neither NaN nor infinity, the log odds of what is certain."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def summary(posterior: Posterior, folder: Path) -> str:
    """The answer in a few lines: verdict, draws, targets, strongest edges, and where the files are."""
    edges = posterior.edges()
    likely = edges[edges["probability"] > 0.5].head(_LISTED_EDGES)
    lines = [
        posterior.describe(),
        *posterior.attrs.get("columns", []),
        *posterior.attrs.get("chosen", {}).get("words", []),
        "most probable edges:" if len(likely) else "no edge has a probability above 0.5",
    ]
    lines += [f"  {edge.source} -> {edge.target} ({edge.probability:.2f})" for edge in likely.itertuples()]
    more = int((edges["probability"] > 0.5).sum()) - len(likely)
    lines += [f"  and {more} more"] if more > 0 else []
    lines += posterior.attrs.get("shams", {}).get("words", [])
    page = (REPORT,) if (folder / REPORT).exists() else ()
    return "\n".join([*lines, f"written to {folder}{os.sep}: {', '.join((*RESULTS, CONFIG, LOG, *page))}"])


def doubts(posterior: Posterior) -> list[str]:
    """Sentences on why not to trust the posterior: replicas that disagree, samples that failed, a model that does not
    fit, shams in which targets were named."""
    attrs = posterior.attrs
    return [*attrs.get("warnings", []), *attrs.get("misfit", []), *attrs.get("shams", {}).get("warnings", [])]


def read_record(folder: Path) -> dict[str, Any]:
    """The content of config.json, or a refusal if the folder holds no run of ours."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise StoreError(f"The folder '{folder}' {what}; give the --out folder of a fit.")
    path = folder / CONFIG
    if not path.exists():
        raise StoreError(f"The folder '{folder}' holds no run (there is no {CONFIG}); give the --out folder of a fit.")
    record = _record_of(path)
    if record is None:
        raise StoreError(f"'{path}' is damaged or not ours, so the run cannot be resumed; start a new fit.")
    return record


def holds_run(folder: Path) -> bool:
    """Whether a run was begun in the folder."""
    return _record_of(folder / CONFIG) is not None


def is_finished(folder: Path) -> bool:
    """Whether the results are there and nothing is left to do: of an extension, whether they have its sweeps."""
    if not (folder / POSTERIOR).exists():
        return False
    extends = (_record_of(folder / CONFIG) or {}).get("extends", 0)
    if extends:
        return load(folder / POSTERIOR).attrs.get("n_sweeps", 0) > extends
    return not (folder / CHECKPOINT).exists()


def _record_of(path: Path) -> dict[str, Any] | None:
    """The content of a file that `RunFolder` wrote, None for any other."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and "bacadi" in record else None


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
