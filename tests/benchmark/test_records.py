"""The store of records: nothing is recorded twice, and what cannot be read or written is said in one sentence."""

import resource
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bacadi.benchmark.records import Record, RecordStore, load_records, read_records, write_records
from bacadi.errors import StoreError

RECORD = Record(
    {"type": "synthetic"},
    3,
    "mcmc",
    {"method": {"type": "mcmc", "x": 0.123456789}},
    0,
    1,
    metrics={"expected_shd": 1.23456789, "interventional_nll": "inf"},
    details={"probabilities": [1], "reliability": {}},
    seconds=2.0,
)
KEY = RECORD.identity.key


def test_a_record_is_added_once_and_failures_are_replaced(tmp_path: Path) -> None:
    failed = replace(RECORD, reason="failed", error="why", metrics={})
    with RecordStore(tmp_path / "s.sqlite") as one, RecordStore(tmp_path / "s.sqlite") as other:
        assert one.add(failed) and not other.add(RECORD)
        assert other.get([KEY])[KEY] == failed
        assert other.add(RECORD, replace_failures=True)
        assert not one.add(failed, replace_failures=True)
        assert one.all() == {KEY: RECORD} == one.get([KEY, "none"])
    assert load_records(tmp_path / "s.sqlite")[KEY].value("expected_shd") == 1.23456789


def test_values() -> None:
    assert RECORD.value("seconds") == 2.0 and RECORD.value("interventional_nll") == float("inf")
    assert all(value != value for value in (RECORD.value("cpu_seconds"), RECORD.value("task"), RECORD.value("nothing")))


def test_claims_hold_while_their_runner_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RecordStore(tmp_path / "s.sqlite") as one, RecordStore(tmp_path / "s.sqlite") as other:
        assert one.claim("a") and one.claim("a") and not other.claim("a")
        one.release(["a"])
        assert other.claim("a") and not one.claim("a")
        dead = subprocess.Popen(["true"])
        dead.wait()
        other.owner = f"{other.owner.split(':')[0]}:{dead.pid}:gone"
        assert other.claim("b") and one.claim("b")
        other.owner = "elsewhere:1:there"
        assert other.claim("c") and not one.claim("c")
        monkeypatch.setattr("bacadi.benchmark.records._STALE_SECONDS", -1.0)
        assert one.claim("c")


def test_lines_are_sorted_stable_and_read_back(tmp_path: Path) -> None:
    other = replace(RECORD, task_seed=4)
    write_records(tmp_path / "a.jsonl", [other, RECORD])
    write_records(tmp_path / "b.jsonl", [RECORD, other])
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    read = read_records(tmp_path / "a.jsonl")
    assert set(read) == {KEY, other.identity.key}
    assert read[KEY].metrics == {"expected_shd": 1.23457, "interventional_nll": "inf"}
    assert read[KEY].details == {"reliability": {}}
    assert load_records(tmp_path / "a.jsonl") == read


def test_lines_that_are_no_records(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    for text in ("{}", "[1]", "nothing", '{"task": 1}'):
        path.write_text(text)
        with pytest.raises(StoreError, match=r"Line 1 of .* is no record"):
            read_records(path)
    with pytest.raises(StoreError, match="cannot be read"):
        read_records(tmp_path / "none.jsonl")


def test_stores_of_others(tmp_path: Path) -> None:
    RecordStore(tmp_path / "old.sqlite").close()
    with sqlite3.connect(tmp_path / "old.sqlite") as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(StoreError, match="is of version 99 and this bacadi reads version 1"):
        RecordStore(tmp_path / "old.sqlite")
    with sqlite3.connect(tmp_path / "other.sqlite") as database:
        database.execute("CREATE TABLE theirs (x)")
    with pytest.raises(StoreError, match="a database of another program"):
        RecordStore(tmp_path / "other.sqlite")
    (tmp_path / "text.sqlite").write_text("no database, but long enough to be looked at " * 20)
    with pytest.raises(StoreError, match="cannot be used"):
        RecordStore(tmp_path / "text.sqlite")
    with pytest.raises(StoreError, match="cannot be used"):
        RecordStore(tmp_path)
    with pytest.raises(StoreError, match="There is no store"):
        load_records(tmp_path / "none.sqlite")


FILL = """
import sys
from dataclasses import replace
from bacadi.benchmark.records import RecordStore
from bacadi.errors import StoreError
sys.path.insert(0, {here!r})
store, n = RecordStore({path!r}), 0
from bacadi.benchmark.records import Record
try:
    for n in range(10_000):
        store.add(Record({{}}, n, "mcmc", {{}}, 0, 1, details={{"long": "x" * 2000}}))
except StoreError as refusal:
    print(n, refusal)
"""


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "full.sqlite"
    limit = 300_000
    filled = subprocess.run(
        [sys.executable, "-c", FILL.format(here=str(tmp_path), path=str(path))],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
    )
    n, _, sentence = filled.stdout.partition(" ")
    assert int(n) > 10 and "cannot be used" in sentence and "make room" in sentence, filled
    assert len(load_records(path)) == int(n)
