"""Runs that have begun, from the config.json in their folder."""

import json
from pathlib import Path
from typing import Any

from bacadi.commands import targets as known_targets
from bacadi.commands.plan import CONFIG, Options, Plan, file_digest, labels_of, read_data
from bacadi.errors import BacadiError, DataError, StoreError
from bacadi.settings import METHODS, restored
from bacadi.settings.knowledge_record import from_record

_OPTIONS = ("context", "observational", "standardize", "targets", "seed", "checkpoint_seconds")


def load(folder: Path) -> Plan:
    """The plan of a run that has begun; the data must be those it began with."""
    record = read_record(folder)
    try:
        options = Options(data=Path(record["data"]["path"]), out=folder, **{key: record[key] for key in _OPTIONS})
        if record["method"] not in METHODS:
            raise KeyError("method")
        settings = restored(record["settings"], f"'{folder / CONFIG}'", record["method"], record["preset"])
        digest, cells, known_edges = record["data"]["sha256"], record["known_targets"], record["knowledge"]
    except (KeyError, TypeError) as error:
        raise _damaged(folder) from error
    if not options.data.exists():
        raise DataError(f"The data file '{options.data}' of this run is gone; put it back to resume.")
    if file_digest(options.data) != digest:
        raise DataError(
            f"The data file '{options.data}' has changed since the run began, so it cannot be resumed; "
            "restore the file or start a new fit."
        )
    data, _ = read_data(options)
    try:
        known, knowledge = known_targets.from_cells(cells, data), from_record(known_edges, labels_of(data))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(folder) from error
    return Plan(options, settings, data, known, knowledge, digest)


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
