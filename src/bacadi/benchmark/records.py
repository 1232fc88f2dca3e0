"""Records of fits and the store that holds them: one row for each task, method, setting and seed, whatever the study.

The store is an SQLite file in WAL mode. The primary key of a record is a hash of all that its result depends on
(`Identity`), so that several runners may write to one store: whoever records a fit first wins, the others are ignored.
A claim keeps runners from starting the same fit; it ends with its runner.

Records kept as text (`results/NAME.jsonl`) are lines of JSON, one record each, in a fixed order.
"""

import hashlib
import json
import math
import os
import socket
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, Self
from uuid import uuid4

from bacadi.data.text import write_text
from bacadi.errors import StoreError

DONE, FAILED, TIMEOUT, CHOSEN = "done", "failed", "timeout", "chosen"
SCHEMA = 1
"""The version of the store; one of another version is refused."""

_APPLICATION = 0x62616361  # "baca", by which SQLite files of ours are known
_STALE_SECONDS = 120.0
_KEYS_AT_ONCE = 500
_COLUMNS_OF_JSON = ("task", "settings", "metrics", "details", "versions", "warnings")


class Identity(NamedTuple):
    """All that the result of a fit depends on; equal identities are the same fit.

    Args:
        task: the specification of the task, without what equals the defaults.
        task_seed: the seed of the task.
        method: the name of the method.
        settings: `model`, `method`, `knowledge` and `targets`, without what equals the defaults.
        method_seed: the seed of the method.
        results_version: of the method: raised when a change of the code changes its results.
    """

    task: dict[str, Any]
    task_seed: int
    method: str
    settings: dict[str, Any]
    method_seed: int
    results_version: int

    @property
    def key(self) -> str:
        """The primary key: SHA-256 of the canonical JSON of all parts.

        >>> one = Identity({"type": "synthetic"}, 0, "mcmc", {"model": {}, "method": {"type": "mcmc"}}, 0, 1)
        >>> other = one._replace(settings={"method": {"type": "mcmc"}, "model": {}})
        >>> one.key == other.key, one.key == one._replace(results_version=2).key
        (True, False)
        """
        return hashlib.sha256(_canonical(list(self)).encode()).hexdigest()


@dataclass(frozen=True)
class Record:
    """What came of one fit.

    Args:
        identity: the fields of `Identity`, by which the record is found.
        reason: how it ended: "done", "failed" or "timeout"; "chosen" for what a search has chosen.
        metrics: those of `metrics.evaluate` by name.
        details: what does not fit into single numbers: curves of reliability, probabilities of edges and targets.
        seconds: wall time of the fit.
        cpu_seconds: CPU time of the fit, all threads and child processes.
        peak_memory: the most memory that the process held, in megabytes.
        versions: of Python, bacadi and the packages that results depend on.
        machine: processor and number of cores.
        warnings: of the fit and of the metrics.
        error: why the fit failed, in one line.
        recorded: when, in UTC.
    """

    task: dict[str, Any]
    task_seed: int
    method: str
    settings: dict[str, Any]
    method_seed: int
    results_version: int
    reason: str = DONE
    metrics: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    cpu_seconds: float | None = None
    peak_memory: float | None = None
    versions: dict[str, str] = field(default_factory=dict)
    machine: str = ""
    warnings: list[str] = field(default_factory=list)
    error: str = ""
    recorded: str = ""

    @property
    def identity(self) -> Identity:
        """The part of the record by which it is found."""
        return Identity(*(getattr(self, name) for name in Identity._fields))

    def value(self, metric: str) -> float:
        """A metric or a cost by name; NaN where the record has none."""
        found = self.metrics.get(metric, getattr(self, metric, None) if metric not in Identity._fields else None)
        return float("nan") if found is None else float(found)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class RecordStore:
    """The records in an SQLite file; `RecordStore(path)` opens it and makes it where it is missing.

    >>> import tempfile
    >>> with RecordStore(Path(tempfile.mkdtemp()) / "bench.sqlite") as store:
    ...     record = Record({}, 0, "mcmc", {}, 0, 1, metrics={"expected_shd": 2.0})
    ...     store.add(record), store.add(record), store.get([record.identity.key])[record.identity.key].metrics
    (True, False, {'expected_shd': 2.0})
    """

    def __init__(self, path: str | Path, must_exist: bool = False) -> None:
        self.path = Path(path)
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        if must_exist and not self.path.is_file():
            raise StoreError(f"There is no store '{self.path}'; make it with `bacadi bench run`, or give --store FILE.")
        with self._refusing():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=60, isolation_level=None)
            try:
                self._open()
            except BaseException:
                self._db.close()
                raise

    def _open(self) -> None:
        empty = not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        (application,), (version,) = (
            self._db.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
        )
        if not empty and application != _APPLICATION:
            raise StoreError(f"'{self.path}' is a database of another program; choose another --store.")
        if not empty and version != SCHEMA:
            raise StoreError(
                f"The store '{self.path}' is of version {version} and this bacadi reads version {SCHEMA}; choose "
                "another --store, or use the bacadi that made it."
            )
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        if not empty:
            return
        columns = ", ".join(f"{entry.name} {_kind(entry)}" for entry in fields(Record))
        with self._transaction():
            self._db.execute(f"CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, {columns})")
            self._db.execute("CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, owner TEXT, beat REAL)")
            self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._db.execute(f"PRAGMA user_version = {SCHEMA}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; nothing that was recorded depends on it."""
        self._db.close()

    def add(self, record: Record, replace_failures: bool = False) -> bool:
        """Record a fit unless it is there already; whether it was new. Its claim ends with it.

        With `replace_failures` the new record takes the place of one that did not end well.
        """
        row = {"key": record.identity.key, **{name: _plain(value) for name, value in _shallow(record).items()}}
        names, marks = ", ".join(row), ", ".join(f":{name}" for name in row)
        with self._refusing(), self._transaction():
            if replace_failures:
                self._db.execute("DELETE FROM records WHERE key = :key AND reason != 'done'", {"key": row["key"]})
            added = self._db.execute(f"INSERT OR IGNORE INTO records ({names}) VALUES ({marks})", row).rowcount
            self._db.execute("DELETE FROM claims WHERE key = :key", {"key": row["key"]})
        return added == 1

    def get(self, keys: Iterable[str]) -> dict[str, Record]:
        """The records of these keys that there are."""
        wanted = list(dict.fromkeys(keys))
        found: dict[str, Record] = {}
        for first in range(0, len(wanted), _KEYS_AT_ONCE):
            some = wanted[first : first + _KEYS_AT_ONCE]
            found |= self._select(f" WHERE key IN ({', '.join('?' * len(some))})", some)
        return found

    def all(self) -> dict[str, Record]:
        """Every record by its key."""
        return self._select()

    def _select(self, condition: str = "", values: Sequence[str] = ()) -> dict[str, Record]:
        names = ["key", *(entry.name for entry in fields(Record))]
        with self._refusing():
            rows = self._db.execute(f"SELECT {', '.join(names)} FROM records{condition}", values).fetchall()
        return {row[0]: _restored(dict(zip(names[1:], row[1:], strict=True))) for row in rows}

    def mark(self, key: str, **details: Any) -> None:
        """Add to the details of a record that there is."""
        with self._refusing(), self._transaction():
            (text,) = self._db.execute("SELECT details FROM records WHERE key = ?", (key,)).fetchone()
            text = _canonical(json.loads(text) | details)
            self._db.execute("UPDATE records SET details = ? WHERE key = ?", (text, key))

    def claim(self, key: str) -> bool:
        """Announce that this runner begins a fit; False if another one that lives is at it."""
        now = time.time()
        with self._refusing(), self._transaction():
            held = self._db.execute("SELECT owner, beat FROM claims WHERE key = ?", (key,)).fetchone()
            if held is not None and held[0] != self.owner and _lives(held[0], held[1], now):
                return False
            self._db.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", (key, self.owner, now))
        return True

    def beat(self) -> None:
        """Say that this runner still lives, so that its claims hold."""
        with self._refusing():
            self._db.execute("UPDATE claims SET beat = ? WHERE owner = ?", (time.time(), self.owner))

    def release(self, keys: Iterable[str]) -> None:
        """Give up claims of this runner."""
        with self._refusing():
            self._db.executemany("DELETE FROM claims WHERE key = ? AND owner = ?", [(key, self.owner) for key in keys])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Errors of the database or its disk as one sentence."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            what = " ".join((getattr(error, "strerror", None) or str(error)).split())
            remedy = "make room or choose another --store; what was recorded before is kept"
            raise StoreError(f"The store '{self.path}' cannot be used ({what}); {remedy}.") from error


def _lives(owner: str, beat: float, now: float) -> bool:
    """Whether the runner that holds a claim is still there: it has shown so lately, and its process exists."""
    host, process, _ = owner.rsplit(":", 2)
    if now - beat > _STALE_SECONDS:
        return False
    if host != socket.gethostname():
        return True
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def _shallow(record: Record) -> dict[str, Any]:
    return {entry.name: getattr(record, entry.name) for entry in fields(record)}


def _kind(entry: Any) -> str:
    return "INTEGER" if entry.type is int else "REAL" if "float" in str(entry.type)[:5] else "TEXT"


def _plain(value: Any) -> Any:
    return _canonical(value) if isinstance(value, dict | list) else value


def _restored(row: dict[str, Any]) -> Record:
    return Record(**{name: json.loads(value) if name in _COLUMNS_OF_JSON else value for name, value in row.items()})


def write_records(path: Path, records: Iterable[Record], with_probabilities: bool = False) -> None:
    """Write records as lines of JSON, sorted, numbers with six digits; equal records give equal bytes.

    Probabilities of single edges and targets are left out unless asked for: they are most of the size.
    """
    lines = []
    for record in records:
        table = asdict(record)
        if not with_probabilities:
            table["details"] = {name: value for name, value in record.details.items() if name != "probabilities"}
        lines.append(_canonical(_rounded(table)))
    write_text(path, "".join(f"{line}\n" for line in sorted(lines)))


def read_records(path: Path) -> dict[str, Record]:
    """The records of a file of lines by their keys; what is no record is refused with its line."""
    names = {entry.name for entry in fields(Record)}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or "not UTF-8 text"
        raise StoreError(
            f"The records '{path}' cannot be read ({what}); give a file of `bacadi bench export`."
        ) from error
    records = {}
    for number, line in enumerate(lines, start=1):
        try:
            table = json.loads(line)
            record = Record(**{name: value for name, value in table.items() if name in names})
            records[record.identity.key] = record
        except (ValueError, TypeError, AttributeError) as error:
            remedy = "give a file of `bacadi bench export`"
            raise StoreError(f"Line {number} of '{path}' is no record; {remedy}.") from error
    return records


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)  # JSON has no infinity
    if isinstance(value, dict):
        # The identity keeps every digit: the key is made of it.
        return {name: item if name in ("task", "settings") else _rounded(item) for name, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value


def load_records(path: Path) -> dict[str, Record]:
    """The records of a store, or of a file of lines (`.jsonl`)."""
    if path.suffix == ".jsonl":
        return read_records(path)
    with RecordStore(path, must_exist=True) as store:
        return store.all()
