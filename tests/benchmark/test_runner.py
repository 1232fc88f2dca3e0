"""The runner: what is missing is carried out once, whatever fails, dies or is killed."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bacadi.benchmark.engines import LocalEngine
from bacadi.benchmark.plan import matched, plan
from bacadi.benchmark.records import Record, RecordStore, load_records
from bacadi.benchmark.runner import Event, run_fits, standings
from bacadi.benchmark.study import Study

from .running import InlineEngine, bench, command

Make = Callable[..., Study]
Write = Callable[..., Path]


def test_a_second_run_does_nothing_and_a_changed_setting_makes_new_records(make: Make, tmp_path: Path) -> None:
    fits, engine = plan(make(well="", error="ending = 'error'|n_tasks = 1")), InlineEngine()
    with RecordStore(tmp_path / "s.sqlite") as store:
        records = run_fits(fits, store, engine)
        assert sorted(record.reason for record in records.values()) == ["done", "done", "failed"]
        again = InlineEngine()
        assert run_fits(fits, store, again) == records and not again.carried_out
        changed = InlineEngine()
        run_fits(plan(make(well="level = 0.1")), store, changed)
        assert len(changed.carried_out) == 2 and len(store.all()) == 5
        failed = InlineEngine()
        run_fits(fits, store, failed, retry_failed=True)
        assert len(failed.carried_out) == 1 and len(store.all()) == 5


def test_what_a_record_holds(make: Make, tmp_path: Path) -> None:
    (fit, record), *_ = _run(make(well=""), tmp_path)
    assert record.reason == "done" and record.metrics["expected_shd"] >= 0 and "interventional_nll" in record.metrics
    assert record.seconds >= 0 and record.cpu_seconds >= 0 and record.peak_memory > 10
    assert {"python", "bacadi", "numpy", "numba"} <= set(record.versions) and "cores" in record.machine
    assert len(record.details["probabilities"]["edges"]) == 5
    assert record.details["graphs"][0]["edges"] == [[0, 1], [1, 2], [2, 3], [3, 4]]
    assert sum(row[2] for row in record.details["reliability"]["edges"]) == 20
    assert fit.is_settled(record) and not fit.is_settled(None)


def _run(study: Study, tmp_path: Path) -> list[tuple]:
    fits = plan(study)
    with RecordStore(tmp_path / "s.sqlite") as store:
        return matched(fits, run_fits(fits, store, InlineEngine()))


def test_more_time_is_worth_another_try(make: Make, tmp_path: Path) -> None:
    short, long = (plan(make(limit=limit, slow="", seeds=1))[0] for limit in (1, 2))
    assert short.key == long.key
    record = Record(**short.identity._asdict(), reason="timeout", details={"time_limit": 1.0})
    assert short.is_settled(record) and not short.is_settled(record, retry_failed=True) and not long.is_settled(record)


def test_processes_that_fail_die_or_take_too_long_are_records(make: Make, tmp_path: Path) -> None:
    endings = {name: f"ending = '{name}'|n_tasks = 1" for name in ("error", "segfault", "exit", "memory")}
    fits = plan(make(limit=3, well="", slow="seconds = 100|n_tasks = 1", **endings))
    events: list[Event] = []
    with RecordStore(tmp_path / "s.sqlite") as store, LocalEngine(2) as engine:
        records = run_fits(fits, store, engine, events.append)
    found = {fit.entry.title: record for fit, record in matched(fits, records)}
    assert {name: record.reason for name, record in found.items()} == {
        "well": "done",
        "slow": "timeout",
        "error": "failed",
        "segfault": "failed",
        "exit": "failed",
        "memory": "failed",
    }
    assert found["error"].error.startswith("RuntimeError: as asked (sleepy.py, line")
    assert found["segfault"].error == "The process of the fit was killed by SIGSEGV."
    assert found["exit"].error == "The process of the fit ended with exit code 3."
    assert found["slow"].error == "The fit took longer than its limit of 3 seconds."
    assert len([event for event in events if event.record is not None]) == len(fits)
    (well, *_), left = standings(fits, records), standings(fits, {})
    assert (well.done, well.failed, well.left) == (2, 0, 0) and left[0].left == 2 and left[0].seconds_left is None


def test_fits_of_two_labels_that_are_one(make: Make, tmp_path: Path) -> None:
    engine = InlineEngine()
    fits = plan(make(one="", other="", seeds=1))
    with RecordStore(tmp_path / "s.sqlite") as store:
        run_fits(fits, store, engine)
    assert len(fits) == 2 and len(engine.carried_out) == 1


def workers_of(process: int) -> list[int]:
    """The processes whose parent is this one."""
    listing = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True).stdout
    return [int(word) for word in listing.split()]


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def killed_at_random(study: Path, store: Path, kills: int, jobs: int) -> int:
    """Start the runner again and again and kill it, while it starts or after it has recorded something; how often."""
    rng = np.random.default_rng(0)
    for n in range(kills):
        before, more = count(store), int(rng.integers(4))
        run = command("run", study, "--store", store, "--quiet", "--jobs", jobs)
        process = subprocess.Popen(run, stdout=subprocess.DEVNULL)
        while process.poll() is None and count(store) < before + more:
            time.sleep(0.02)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=rng.uniform(0.0, 0.6 if more else 5.0))
            return n
        workers = workers_of(process.pid)
        process.kill()
        process.wait()
        deadline = time.monotonic() + 10
        while any(map(alive, workers)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(map(alive, workers))
        assert count(store) >= before + more
    return kills


def count(store: Path) -> int:
    """How many fits are recorded, all of which have ended well."""
    if not store.exists() or not store.stat().st_size:
        return 0
    records = load_records(store)
    assert all(record.reason == "done" for record in records.values())
    return len(records)


def check_complete(study: Path, store: Path, n: int) -> None:
    before = set(load_records(store)) if store.exists() else set()
    assert bench("run", study, "--store", store, timeout=600).returncode == 0
    records = load_records(store)
    assert before <= set(records) and len(records) == n
    assert {record.reason for record in records.values()} == {"done"}


def test_kills_of_the_runner_lose_and_double_nothing(write: Write, tmp_path: Path) -> None:
    study, store = write(well="seconds = 0.2", seeds=40), tmp_path / "s.sqlite"  # more than it gets done in between
    assert killed_at_random(study, store, 3, 1) == 3
    check_complete(study, store, 40)


@pytest.mark.slow
def test_thirty_kills_of_the_runner(write: Write, tmp_path: Path) -> None:
    study, store = write(well="seconds = 0.6", seeds=120), tmp_path / "s.sqlite"
    assert killed_at_random(study, store, 30, 2) == 30
    check_complete(study, store, 120)


def test_two_runners_share_the_work(write: Write, tmp_path: Path) -> None:
    study, store = write(well="seconds = 0.3", seeds=10), tmp_path / "s.sqlite"
    runners = [
        subprocess.Popen(command("run", study, "--store", store, "--jobs", "1"), stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [runner.communicate(timeout=120)[1] for runner in runners]
    assert [runner.returncode for runner in runners] == [0, 0]
    carried_out = [line.split("] ")[1] for text in said for line in text.splitlines() if line.startswith("[")]
    assert len(carried_out) == len({line.split(":")[0] for line in carried_out}) == 10
    assert len(load_records(store)) == 10


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_it_cleanly(number: int, code: int, write: Write, tmp_path: Path) -> None:
    study, store = write(well="seconds = 30", seeds=2), tmp_path / "s.sqlite"
    process = subprocess.Popen(command("run", study, "--store", store), stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (workers := workers_of(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    os.kill(process.pid, number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == code and said.count("\n") == 1 and "the same command goes on" in said, said
    assert workers and not any(map(alive, workers)) and not load_records(store)
