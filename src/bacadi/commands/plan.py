"""A run before it starts: everything validated, and the config.json from which `resume` builds it again."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bacadi
from bacadi.commands import targets as known_targets
from bacadi.data.context import ContextData
from bacadi.data.doctor import examine
from bacadi.data.files import read_table
from bacadi.data.findings import Severity
from bacadi.data.words import closest, quoted
from bacadi.errors import BacadiError, ConfigError, DataError, StoreError
from bacadi.posterior.files import write_text
from bacadi.settings import Settings, restored

CONFIG, LOG, CHECKPOINT, POSTERIOR = "config.json", "log.jsonl", "checkpoint.npz", "posterior.nc"
RESULTS = ("edges.csv", "targets.csv", POSTERIOR)
METHODS = ("auto", "svgd")
_PLANNED = ("mcmc", "exact", "jci-pc", "ut-igsp", "dcdi-g")
_LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class Options:
    """What the user asked for beside the settings; paths are as given."""

    data: Path
    context: str
    observational: str | None
    out: Path
    method: str = "auto"
    seed: int = 0
    standardize: bool = False
    targets: str = known_targets.UNKNOWN
    preset: str = "paper"
    checkpoint_seconds: float = 60.0


@dataclass(frozen=True)
class Plan:
    """A run that nothing but the inference itself can stop."""

    options: Options
    settings: Settings
    data: ContextData
    known: np.ndarray | None
    sha256: str
    warnings: tuple[str, ...] = ()

    @property
    def out(self) -> Path:
        return self.options.out

    def record(self) -> dict[str, Any]:
        """The content of config.json: all that a repetition or a continuation needs."""
        options = self.options
        return {
            "bacadi": bacadi.__version__,
            "data": {"path": str(options.data.resolve()), "sha256": self.sha256},
            "context": options.context,
            "observational": options.observational,
            "standardize": options.standardize,
            "targets": options.targets,
            "known_targets": known_targets.to_cells(self.known, self.data),
            "method": options.method,
            "seed": options.seed,
            "preset": options.preset,
            "settings": self.settings.to_dict(),
            "checkpoint_seconds": options.checkpoint_seconds,
        }

    def write_record(self) -> None:
        """Write config.json."""
        write_text(self.out / CONFIG, json.dumps(self.record(), indent=2, ensure_ascii=False) + "\n")


def prepare(options: Options, settings: Settings) -> Plan:
    """Check everything that can be checked without running; nothing is written."""
    _check_method(options.method)
    if not 0 <= options.seed <= _LARGEST_SEED:
        raise ConfigError(f"--seed is {options.seed}; give a whole number from 0 to {_LARGEST_SEED}.")
    if not 0 <= options.checkpoint_seconds < float("inf"):
        raise ConfigError(f"--checkpoint-every is {options.checkpoint_seconds}; give a number of seconds from 0 on.")
    data, warnings = read_data(options)
    known = known_targets.known_targets(options.targets, data)
    check_folder(options.out)
    if (options.out / CHECKPOINT).exists():
        raise ConfigError(
            f"The folder '{options.out}' holds an unfinished run; continue it with `bacadi resume`, delete the folder "
            "or choose another --out."
        )
    return Plan(options, settings, data, known, _sha256(options.data), warnings)


def read_data(options: Options) -> tuple[ContextData, tuple[str, ...]]:
    """The data, and the warnings of the doctor as sentences."""
    examination = examine(read_table(options.data, options.context), options.context, options.observational)
    data = examination.data()
    warnings = tuple(finding.message for finding in examination.diagnosis.of(Severity.WARNING))
    return (data.standardized() if options.standardize else data), warnings


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


def load(folder: Path) -> Plan:
    """The plan of a run that has begun, from its config.json; the data must be those it began with."""
    record = read_record(folder)
    try:
        options = Options(
            data=Path(record["data"]["path"]),
            out=folder,
            **{key: record[key] for key in ("context", "observational", "standardize", "targets", "method")},
            **{key: record[key] for key in ("seed", "preset", "checkpoint_seconds")},
        )
        settings, digest = restored(record["settings"], f"'{folder / CONFIG}'"), record["data"]["sha256"]
        cells = record["known_targets"]
    except (KeyError, TypeError) as error:
        raise _damaged(folder) from error
    if not options.data.exists():
        raise DataError(f"The data file '{options.data}' of this run is gone; put it back to resume.")
    if _sha256(options.data) != digest:
        raise DataError(
            f"The data file '{options.data}' has changed since the run began, so it cannot be resumed; "
            "restore the file or start a new fit."
        )
    data, _ = read_data(options)
    try:
        known = known_targets.from_cells(cells, data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(folder) from error
    return Plan(options, settings, data, known, digest)


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
    except (OSError, ValueError) as error:
        raise _damaged(folder) from error
    if not isinstance(record, dict) or "bacadi" not in record:
        raise _damaged(folder)
    return record


def _damaged(folder: Path) -> BacadiError:
    return StoreError(f"'{folder / CONFIG}' is damaged or not ours, so the run cannot be resumed; start a new fit.")


def _check_method(method: str) -> None:
    if method in _PLANNED:
        raise ConfigError(f"--method {method} is not part of this version; use auto or svgd.")
    if method not in METHODS:
        near = closest(method, (*METHODS, *_PLANNED))
        raise ConfigError(f"There is no method {quoted(method)}{near}; --method takes auto or svgd.")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
