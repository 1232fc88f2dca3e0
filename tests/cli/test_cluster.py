"""`bacadi fit --cluster`: a real Dask scheduler with worker processes, one of which is killed midway."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bacadi.inference import machines

from .conftest import Run

distributed = pytest.importorskip("distributed")

SOURCE = Path(__file__).parent.parent.parent / "src"
RESULTS = ("edges.csv", "targets.csv", "posterior.nc")


def test_a_scheduler_that_does_not_answer(run: Run, table: Path, tmp_path: Path) -> None:
    begin, out = time.monotonic(), tmp_path / "run"
    refused = run("fit", table, "--context", "context", "--out", out, "--cluster", "tcp://127.0.0.1:9")
    assert refused.exit_code == 2 and time.monotonic() - begin < 60
    words = r"Error: No Dask scheduler answers at 'tcp://127.0.0.1:9' \(\w+\); start one with .*\.\n"
    assert re.fullmatch(words, refused.stderr.splitlines(keepends=True)[-1]), refused.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--method", "exact"), "Method exact runs on one machine; --cluster is for mcmc."),
        (("--time-budget", 9), "--time-budget is for one machine; with --cluster limit the run by --sweeps."),
    ],
)
def test_what_cannot_be_spread(run: Run, table: Path, tmp_path: Path, options: tuple, words: str) -> None:
    out = ("--context", "context", "--out", tmp_path / "run", "--cluster", "tcp://127.0.0.1:9")
    refused = run("fit", table, *out, *options)
    assert refused.exit_code == 2 and refused.stderr.splitlines()[-1] == f"Error: {words}"


def test_workers_of_other_versions(run: Run, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "differences", lambda found, wanted: "numpy 1, not 2")
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None) as local:
        out = ("--context", "context", "--out", tmp_path / "run", "--cluster", local.scheduler_address)
        refused = run("fit", table, *out)
    assert refused.exit_code == 2 and "has numpy 1, not 2; install the same versions there." in refused.stderr


def start(*arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
        | {"PYTHONPATH": str(SOURCE)},
    )


class Cluster:
    """A scheduler and its workers, each a process."""

    def __init__(self, folder: Path) -> None:
        file = folder / "scheduler.json"
        self.processes = [start("dask", "scheduler", "--port", 0, "--no-dashboard", "--scheduler-file", file)]
        while not file.exists() or not file.read_text().strip():
            time.sleep(0.2)
        found = re.search(r"tcp://[\d.]+:\d+", file.read_text())
        assert found is not None
        self.address = found.group(0)

    def join(self) -> subprocess.Popen[bytes]:
        self.processes.append(start("dask", "worker", self.address, "--nthreads", 1, "--no-dashboard"))
        return self.processes[-1]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        yield made
    finally:
        for process in made.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.mark.slow
def test_a_worker_is_killed_midway_and_the_result_is_the_local_one(
    cluster: Cluster, table: Path, tmp_path: Path
) -> None:
    options = ("--context", "context", "--observational", "obs", "--sweeps", 8000, "--replicas", 3, "--seed", 5)
    fit = ("bacadi", "fit", table, *options, "--quiet", "--out")
    first, _ = cluster.join(), cluster.join()
    spread, here = tmp_path / "spread", tmp_path / "here"
    running = start(*fit, spread, "--cluster", cluster.address, "--checkpoint-every", 0)
    log, deadline = spread / "log.jsonl", time.monotonic() + 300
    while not (log.exists() and "checkpoint" in log.read_text()):
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.1)
    assert running.poll() is None
    os.killpg(first.pid, signal.SIGKILL)
    assert running.wait(300) == 0
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert events[-1] == "done" and events.count("start") == 1
    assert start(*fit, here).wait(300) == 0
    for name in RESULTS:
        assert (spread / name).read_bytes() == (here / name).read_bytes(), name


@pytest.mark.slow
def test_a_scheduler_that_goes_away_leaves_a_run_to_resume(cluster: Cluster, table: Path, tmp_path: Path) -> None:
    options = ("--context", "context", "--observational", "obs", "--sweeps", 8000, "--seed", 5, "--quiet")
    out, here = tmp_path / "spread", tmp_path / "here"
    cluster.join()
    running = start(
        "bacadi", "fit", table, *options, "--out", out, "--cluster", cluster.address, "--checkpoint-every", 0
    )
    deadline = time.monotonic() + 300
    while not (out / "checkpoint.npz").exists():
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.1)
    os.killpg(cluster.processes[0].pid, signal.SIGKILL)
    assert running.wait(120) == 2
    assert start("bacadi", "resume", out, "--quiet").wait(300) == 0
    assert start("bacadi", "fit", table, *options, "--out", here).wait(300) == 0
    assert (out / "posterior.nc").read_bytes() == (here / "posterior.nc").read_bytes()
