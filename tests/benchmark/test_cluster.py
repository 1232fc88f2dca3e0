"""Many machines: a real Dask scheduler with worker processes that die and join while a study runs."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bacadi.benchmark import cluster
from bacadi.benchmark.plan import matched, plan
from bacadi.benchmark.records import RecordStore, load_records
from bacadi.benchmark.runner import run_fits
from bacadi.benchmark.study import Study
from bacadi.errors import ConfigError
from bacadi.inference import machines

from .running import bench, command

distributed = pytest.importorskip("distributed")

Write = Callable[..., Path]


def test_a_scheduler_that_does_not_answer(write: Write, tmp_path: Path) -> None:
    begin = time.monotonic()
    refused = bench("run", write(well=""), "--store", tmp_path / "s.sqlite", "--cluster", "tcp://127.0.0.1:9")
    assert refused.returncode == 2 and time.monotonic() - begin < 60
    assert re.fullmatch(r"Error: No Dask scheduler answers at 'tcp://127.0.0.1:9' \(.*\.\n", refused.stderr), refused
    both = bench("run", write(well=""), "--cluster", "tcp://127.0.0.1:9", "--jobs", 2)
    assert both.returncode == 2 and "give one of the two" in both.stderr


@pytest.fixture
def workers() -> Iterator[str]:
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as local:
        yield local.scheduler_address


def test_records_come_back_and_limits_hold(
    make: Callable[..., Study], tmp_path: Path, workers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = plan(make(limit=2, well="", exit="ending = 'exit'|n_tasks = 1", slow="seconds = 100|n_tasks = 1"))
    with RecordStore(tmp_path / "s.sqlite") as store, cluster.DaskEngine(workers) as engine:
        assert engine.n_workers == 2
        records = run_fits(fits, store, engine)
        assert not list(engine.run(fits, lambda fit: False))
    found = {fit.entry.title: record.reason for fit, record in matched(fits, records)}
    assert found == {"well": "done", "exit": "failed", "slow": "timeout"} and len(records) == 4
    monkeypatch.setattr(machines, "differences", lambda found, wanted: "numpy 1, not 2")
    with pytest.raises(ConfigError, match="has numpy 1, not 2; install the same versions there"):
        cluster.DaskEngine(workers)


def test_versions_are_compared() -> None:
    same = machines.compared()
    assert set(same) == {"python", "bacadi", "numpy", "numba"}
    assert machines.differences(same, same) == ""
    assert machines.differences(same | {"numba": "0.1"}, same).startswith("numba 0.1, not ")


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@pytest.mark.slow
def test_a_worker_is_killed_and_another_joins_late(write: Write, tmp_path: Path) -> None:
    """Nothing is lost and nothing is recorded twice."""
    study, store, n = write(well="seconds = 1.5", seeds=16), tmp_path / "s.sqlite", 16
    file = tmp_path / "scheduler.json"
    processes = [start("scheduler", "--port", 0, "--no-dashboard", "--scheduler-file", file)]
    try:
        while not file.exists() or not file.read_text().strip():
            time.sleep(0.2)
        address = re.search(r"tcp://[\d.]+:\d+", file.read_text()).group(0)
        join = ("worker", address, "--nthreads", 1, "--no-dashboard")
        processes += [start(*join), start(*join)]
        runner = subprocess.Popen(
            command("run", study, "--store", store, "--cluster", address), stderr=subprocess.PIPE, text=True
        )
        _wait_for(store, 3)
        os.killpg(processes[1].pid, signal.SIGKILL)
        _wait_for(store, 6)
        processes.append(start(*join))
        _, said = runner.communicate(timeout=200)
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    assert runner.returncode == 0, said
    ended = [line.split("] ")[1] for line in said.splitlines() if line.startswith("[")]
    assert len(ended) == len({line.split(":")[0] for line in ended}) == n, said
    records = load_records(store)
    assert len(records) == n and {record.reason for record in records.values()} == {"done"}


def _wait_for(store: Path, n: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if store.exists() and len(load_records(store)) >= n:
            return
        time.sleep(0.3)
    raise AssertionError(f"{n} records did not come in two minutes")
