"""A run folder: nothing of the user's is lost, two runs never mix, a run that is stopped anywhere goes on."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import bacadi
from bacadi.commands import run as run_module
from bacadi.commands.watch import Interrupted, Interrupts, Log

from .conftest import Run
from .test_fit import interrupt_at
from .test_refusals import assert_refused

QUICK = ("--sweeps", "40", "--draws", "8")
LONG = ("--sweeps", "1000000", "--draws", "8", "--checkpoint-every", "0.2")
RESULTS = ("edges.csv", "targets.csv", "posterior.nc")


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "bacadi", *map(str, arguments)]


def begun(arguments: list[str], folder: Path, **options: object) -> subprocess.Popen[str]:
    """A run in a process of its own that has saved a checkpoint."""
    process = subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
    for _ in range(1200):
        if (folder / "checkpoint.npz").exists() or process.poll() is not None:
            break
        time.sleep(0.1)
    assert process.poll() is None, process.communicate()
    return process


def test_a_run_is_replaced_only_where_that_is_asked_for(run: Run, plain: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run(*plain, *QUICK).exit_code == 0
    before = content(folder)
    assert_refused(run(*plain, *QUICK, "--seed", 1), "holds a finished run", "--overwrite")
    assert content(folder) == before
    assert run(*plain, *QUICK, "--seed", 1, "--overwrite").exit_code == 0
    assert content(folder)["posterior.nc"] != before["posterior.nc"]


@pytest.mark.parametrize("name", [*RESULTS, "config.json", "log.jsonl", "checkpoint.npz"])
def test_a_file_of_the_users_is_not_taken_for_ours(name: str, run: Run, plain: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / name).write_text("mine")
    assert_refused(run(*plain, *QUICK), f"{name}' exists", "--overwrite")
    assert content(folder) == {name: b"mine"}
    (folder / name).unlink()
    (folder / name).mkdir()
    assert_refused(run(*plain, *QUICK, "--overwrite"), f"{name}' is a folder")


def test_inputs_are_never_written_to(run: Run, plain: list[str], tmp_path: Path) -> None:
    targets = tmp_path / "targets.csv"
    targets.write_text("context,variable\nb,b\n")
    here = [*plain[:-1], str(tmp_path)]
    for options in (("--overwrite",), ()):
        assert_refused(run(*here, *QUICK, "--targets", targets, *options), "targets.csv' is an input")
    os.link(targets, tmp_path / "linked.csv")
    assert_refused(run(*here, *QUICK, "--targets", tmp_path / "linked.csv", "--overwrite"), "is an input")
    assert targets.read_text() == "context,variable\nb,b\n"
    (tmp_path / "edges.csv").write_text("source,target,log_odds\na,b,1\n")
    (tmp_path / "my.toml").write_text('[knowledge]\nedge_log_odds = "edges.csv"\n')
    targets.unlink()
    assert_refused(run(*here, *QUICK, "--config", tmp_path / "my.toml", "--overwrite"), "edges.csv' is an input")


def test_links_are_replaced_and_not_followed(run: Run, plain: list[str], tmp_path: Path) -> None:
    folder, other = tmp_path / "run", tmp_path / "other.txt"
    folder.mkdir()
    other.write_text("mine")
    (folder / "edges.csv").symlink_to(other)
    assert run(*plain, *QUICK, "--overwrite").exit_code == 0
    assert other.read_text() == "mine" and not (folder / "edges.csv").is_symlink()
    (folder / "log.jsonl").unlink()
    (folder / "log.jsonl").symlink_to(other)
    assert_refused(run(*plain, *QUICK, "--overwrite"), "log.jsonl")
    assert other.read_text() == "mine"


def test_what_a_killed_run_left_is_swept(run: Run, plain: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".bacadi-0123456789abcdef.tmp").write_text("half")
    assert run(*plain, *QUICK).exit_code == 0
    assert set(content(folder)) == {*RESULTS, "config.json", "log.jsonl"}


def test_resume_as_an_option_of_fit(
    run: Run, plain: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "whole"
    assert run(*plain, *QUICK, "--out", whole, "--resume").exit_code == 0
    with monkeypatch.context() as patch:
        interrupt_at(2, patch)
        assert run(*plain, *QUICK, "--resume").exit_code == 130
    assert_refused(run(*plain, *QUICK, "--resume", "--seed", 1), "begun with another seed")
    assert_refused(run(*plain, "--resume", "--overwrite"), "one of the two")
    assert run(*plain, *QUICK, "--resume").exit_code == 0
    for name in RESULTS:
        assert content(whole)[name] == content(tmp_path / "run")[name]
    again = run(*plain, *QUICK, "--resume")
    assert again.exit_code == 0 and "complete already" in again.stdout


def test_two_runs_in_one_folder(run: Run, plain: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = begun([*plain, *LONG], folder)
    try:
        for options in (("--overwrite",), ("--resume",)):
            assert_refused(run(*plain, *LONG, *options), "Another bacadi is at work")
        assert_refused(run("resume", folder), "Another bacadi is at work")
    finally:
        process.kill()
        process.communicate()
    with Log(folder / "log.jsonl"):  # the lock ends with the process
        pass


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_signals_save_the_state(name: str, plain: list[str], tmp_path: Path) -> None:
    number = getattr(signal, name)
    process = begun([*plain, *LONG], tmp_path / "run")
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number and "continue with: bacadi resume" in err and "Traceback" not in err
    last = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[-1])
    assert last["event"] == "interrupted" and last["signal"] == name
    assert set(content(tmp_path / "run")) == {"config.json", "log.jsonl", "checkpoint.npz"}


def test_a_signal_that_is_ignored_stays_ignored(plain: list[str], tmp_path: Path) -> None:
    process = begun([*plain, *LONG], tmp_path / "run", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    time.sleep(1)
    assert process.poll() is None
    process.terminate()
    process.communicate()
    assert process.returncode == 128 + signal.SIGTERM


def test_a_signal_after_the_last_chunk_is_not_swallowed() -> None:
    with pytest.raises(Interrupted), Interrupts() as interrupts:
        interrupts.between_chunks()
        signal.raise_signal(signal.SIGTERM)
    with pytest.raises(Interrupted), Interrupts() as interrupts:
        interrupts.between_chunks(last=True)
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("the signal had to wait although there was nothing to wait for")


def test_processes_of_a_baseline_end_with_it(plain: list[str], tmp_path: Path) -> None:
    process = subprocess.Popen(
        command(*plain, "--method", "jci-pc", "--samples", 100_000, "--jobs", 2),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(600):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        workers = children.read_text().split() if children.exists() else pytest.skip("needs /proc")
        if len(workers) >= 2:
            break
        time.sleep(0.1)
    time.sleep(2)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    for _ in range(50):
        left = [pid for pid in workers if Path(f"/proc/{pid}/status").exists() and not is_zombie(pid)]
        if not left:
            return
        time.sleep(0.1)
    pytest.fail(f"processes {left} are left over")


def is_zombie(pid: str) -> bool:
    return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()


def limited(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run(plain: list[str], tmp_path: Path) -> None:
    options = ("--sweeps", "3000", "--draws", "8", "--checkpoint-every", "0")
    process = subprocess.run(
        command(*plain, *options), capture_output=True, text=True, preexec_fn=lambda: limited(6_000)
    )
    assert "Warning: A checkpoint was not saved" in process.stderr and process.stderr.count("A checkpoint was") == 1
    # The results do not fit either: one sentence, nothing half-written, and the run can be finished later.
    assert process.returncode == 2 and process.stderr.splitlines()[-1].startswith("Error: ")
    assert "posterior.nc' cannot be written" in process.stderr and "bacadi resume" in process.stderr
    names = set(content(tmp_path / "run"))
    assert "posterior.nc" not in names and not [name for name in names if name.endswith(".tmp")]
    done = subprocess.run(command("resume", tmp_path / "run"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    whole = tmp_path / "whole"
    assert subprocess.run(command(*plain, *options, "--out", whole), capture_output=True).returncode == 0
    for name in RESULTS:
        assert content(whole)[name] == content(tmp_path / "run")[name]


def test_a_missing_extra_is_noticed_before_a_folder_is_made(
    run: Run, plain: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gies", None)
    assert_refused(run(*plain, "--method", "gies", "--targets", "known"), "gies")
    assert not (tmp_path / "run").exists()


def test_labels_cannot_command_a_terminal(run: Run, plain: list[str], table: Path) -> None:
    table.write_text(table.read_text().replace("a+c", "\x1b[31mred"))
    result = run(*plain, *QUICK)
    assert result.exit_code == 0 and "\\x1b[31mred" in result.stdout and "\x1b" not in result.stdout + result.stderr
    checked = run("check", table, "--context", "context", "--observational", "obs")
    assert checked.exit_code == 0 and "\x1b" not in checked.stdout


EDITS = {
    "a negative seed": ("seed", -1),
    "a seed in words": ("seed", "abc"),
    "a seed that is true": ("seed", True),
    "no data": ("data", None),
    "a folder for data": ("data", {"path": "/", "sha256": ""}),
    "a path with a NUL": ("data", {"path": "a\0b", "sha256": ""}),
    "a path of 5,000 characters": ("data", {"path": "x" * 5000, "sha256": ""}),
    "context is a number": ("context", 7),
    "another digest": ("data", "digest"),
    "an unknown method": ("configuration", {"method": {"type": "mcmk"}}),
    "a class of somebody": ("configuration", {"method": {"type": "os:system"}}),
    "no configuration": ("configuration", []),
    "no knowledge": ("knowledge", 3),
    "checkpoints in words": ("checkpoint_seconds", "soon"),
    "draws beyond all bounds": ("configuration", "draws"),
}


@pytest.fixture
def stopped(run: Run, plain: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that was interrupted while it recorded draws."""
    with monkeypatch.context() as patch:
        interrupt_at(5, patch)
        assert run(*plain, "--sweeps", 60, "--draws", 8).exit_code == 130
    return tmp_path / "run"


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_configuration_gets_a_sentence(edit: str, run: Run, stopped: Path) -> None:
    path = stopped / "config.json"
    record = json.loads(path.read_text())
    key, value = EDITS[edit]
    if value == "digest":
        value = record["data"] | {"sha256": "0" * 64}
    if value == "draws":
        value = record["configuration"]
        value["method"]["n_draws"] = 10**400
    record[key] = value
    path.write_text(json.dumps(record))
    before = content(stopped)
    assert_refused(run("resume", stopped))
    assert content(stopped) == before


def test_a_configuration_that_is_nested_deeply(run: Run, stopped: Path) -> None:
    (stopped / "config.json").write_text('{"bacadi": ' + "[" * 100_000 + "]" * 100_000 + "}")
    assert_refused(run("resume", stopped), "damaged")


def changed(name: str, index: object, value: object):  # type: ignore[no-untyped-def]
    def change(arrays: dict[str, np.ndarray]) -> None:
        arrays[name][index] = value

    return change


def replaced(name: str, value: object):  # type: ignore[no-untyped-def]
    return lambda arrays: arrays.update({name: np.asarray(value)})


CRAFTED = {
    "a parent out of range": changed("0.chains.parents", ..., 10**4),
    "a negative parent": changed("0.chains.parents", (0, 0), -5),
    "more parents than there are": changed("1.chains.n_parents", ..., 10**6),
    "a state that does not exist": changed("0.chains.states", ..., 100),
    "a negative state": changed("0.chains.states", ..., -1),
    "a cycle": changed("0.chains.edges", ..., 1),
    "edges that are no edges": changed("0.chains.edges", (0, 0, 1), 7),
    "two chains at one level": changed("0.chains.at_level", ..., 0),
    "a level out of range": changed("0.chains.at_level", 0, 10**6),
    "an order that is none": changed("0.chains.place", ..., 3),
    "targets miscounted": changed("0.chains.n_targets", ..., 99),
    "a score that is no number": changed("0.chains.score", ..., np.nan),
    "no random state": changed("0.chains.rng", ..., 0),
    "temperatures that rise": changed("0.betas", ..., 5.0),
    "a place beyond the sweep": changed("0.position", 1, 10**6),
    "a sweep beyond the run": changed("sweep", 0, 10**9),
    "draws at no distance": replaced("0.every", np.array(0)),
    "a draw with a state that does not exist": changed("0.draws.states", ..., 50),
    "fewer states than targets": lambda arrays: arrays.update({"0.draws.states": arrays["0.draws.states"][:1]}),
    "an edge out of range": changed("0.draws.edges", ..., 10**6),
    "fewer edges than it says": lambda arrays: arrays.update({"0.draws.edges": arrays["0.draws.edges"][:1]}),
    "another shape": replaced("0.chains.edges", np.zeros((2, 2, 2), np.uint8)),
    "another type": lambda arrays: arrays.update({"0.chains.parents": arrays["0.chains.parents"].astype(float)}),
    "a negative time": changed("seconds", 0, -1.0),
    "hyper-parameters that are not there": replaced("hyperparameters", np.array([4])),
}


@pytest.mark.parametrize("kind", CRAFTED)
def test_a_crafted_checkpoint_is_refused(kind: str, run: Run, stopped: Path) -> None:
    path = stopped / "checkpoint.npz"
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    CRAFTED[kind](arrays)
    np.savez(path, **arrays)
    assert_refused(run("resume", stopped), "checkpoint", "damaged")


def test_an_untouched_checkpoint_is_not_refused(run: Run, stopped: Path, plain: list[str], tmp_path: Path) -> None:
    assert run("resume", stopped).exit_code == 0
    assert run(*plain, "--sweeps", 60, "--draws", 8, "--out", tmp_path / "whole").exit_code == 0
    for name in RESULTS:
        assert content(stopped)[name] == content(tmp_path / "whole")[name]


def test_an_interrupt_while_starts_are_searched(
    run: Run, plain: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Costly evidence without an approximation, such as a user's own: its starts take long, and are kept."""
    from bacadi.evidence.gp.evidence import KernelEvidence
    from bacadi.inference.mcmc import run as mcmc

    monkeypatch.setattr(KernelEvidence, "approximation", None)
    whole, nonlinear = tmp_path / "whole", (*plain, *QUICK, "--model", "nonlinear")
    assert run(*nonlinear, "--out", whole).exit_code == 0
    usual = mcmc.initial

    def slow(rng, greedy, data, n):  # type: ignore[no-untyped-def]
        found = usual(rng, greedy, data, n)
        while not greedy.over():
            time.sleep(0.01)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(mcmc, "initial", slow)
        interrupt_at(1, patch)
        assert run(*nonlinear).exit_code == 130
    with np.load(tmp_path / "run" / "checkpoint.npz") as file:
        assert len(file["start.node"]) >= 6
        arrays = {name: file[name] for name in file.files}
    assert run("resume", tmp_path / "run").exit_code == 0
    for name in RESULTS:
        assert content(whole)[name] == content(tmp_path / "run")[name]
    arrays["start.node"][0] = 77
    (tmp_path / "run" / "posterior.nc").unlink()
    np.savez(tmp_path / "run" / "checkpoint.npz", **arrays)
    assert_refused(run("resume", tmp_path / "run"), "checkpoint", "damaged")


def test_an_interrupt_while_compiled_starts_are_searched(
    run: Run, plain: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search is made again from its beginning, and comes to the same."""
    from bacadi.inference.mcmc import run as mcmc

    whole = tmp_path / "whole"
    assert run(*plain, *QUICK, "--out", whole).exit_code == 0
    usual = mcmc.searched_starts

    def slow(collapsed, target, data, n, over, tell, rng):  # type: ignore[no-untyped-def]
        found = usual(collapsed, target, data, n, over, tell, rng)
        while not over():
            time.sleep(0.01)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(mcmc, "searched_starts", slow)
        interrupt_at(1, patch)
        assert run(*plain, *QUICK).exit_code == 130
    assert run("resume", tmp_path / "run").exit_code == 0
    for name in RESULTS:
        assert content(whole)[name] == content(tmp_path / "run")[name]


def test_long_names_and_results_that_are_bytes_of_the_seed(run: Run, plain: list[str], tmp_path: Path) -> None:
    long = tmp_path / ("x" * 300)
    assert_refused(run(*plain[:-1], long), "x" * 300)
    assert_refused(run("resume", long), "x" * 300)
    assert_refused(run("fit", long, *plain[2:]), "x")
    for name in ("one", "two"):
        assert run(*plain, *QUICK, "--out", tmp_path / name).exit_code == 0
    assert content(tmp_path / "one")["posterior.nc"] == content(tmp_path / "two")["posterior.nc"]
    assert "wall_time" not in bacadi.load(tmp_path / "one" / "posterior.nc").attrs


def test_a_long_run_says_beforehand_how_long(run: Run, plain: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bacadi.commands.watch._OBSERVED", 0.2)
    monkeypatch.setattr("bacadi.commands.watch._LONG_RUN", 0.1)
    result = run(*plain, "--sweeps", 4000, "--draws", 8)
    assert result.exit_code == 0 and "about " in result.stderr and " to go …" in result.stderr


def test_the_request_is_validated() -> None:
    with pytest.raises(bacadi.BacadiError, match="--seed is 'abc'"):
        run_module.Request(Path("a.csv"), "context", seed="abc")  # type: ignore[arg-type]


def test_a_finished_run_can_be_extended(
    run: Run, plain: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Draws of both runs, in proportion to their sweeps; interrupted as well; and again."""
    folder, other = tmp_path / "run", tmp_path / "other"
    for out in (folder, other):
        assert run(*plain, "--sweeps", 400, "--draws", 200, "--out", out).exit_code == 0
    first = bacadi.load(folder / "posterior.nc")
    assert_refused(run("resume", folder, "--sweeps", 300), "more than these")
    assert run("resume", folder, "--sweeps", 1200).exit_code == 0
    longer = bacadi.load(folder / "posterior.nc")
    assert longer.attrs["n_sweeps"] == 1200 and longer.n_draws == 200
    kept = {graph.tobytes() for graph in first.graph[0]}
    old = [graph.tobytes() in kept for graph in longer.graph[0]]
    assert np.mean(old[:33]) > 0.9  # 240 of 720 recorded sweeps are those of the first run
    np.testing.assert_allclose(longer.edge_probabilities(), first.edge_probabilities(), atol=0.3)
    with monkeypatch.context() as patch:
        interrupt_at(3, patch)
        assert run("resume", other, "--sweeps", 1200).exit_code == 130
    assert_refused(run("resume", other, "--sweeps", 2000), "not finished")
    assert run("resume", other).exit_code == 0
    for name in RESULTS:
        assert content(folder)[name] == content(other)[name]
    assert set(content(other)) == {*RESULTS, "config.json", "log.jsonl"}
    assert run("resume", other, "--sweeps", 1300).exit_code == 0
    assert bacadi.load(other / "posterior.nc").attrs["n_sweeps"] == 1300


def test_only_runs_of_mcmc_can_be_extended(run: Run, plain: list[str], tmp_path: Path) -> None:
    assert run(*plain, "--method", "exact").exit_code == 0
    assert_refused(run("resume", tmp_path / "run", "--sweeps", 300), "exact cannot be extended")


@pytest.mark.slow
def test_a_home_that_cannot_be_written_to(plain: list[str]) -> None:
    """As another user without a home, and with a package of root's: compiled code, which takes minutes to make, goes to
    a folder of its own."""
    if os.name != "posix" or os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another user, and needs setpriv for it")
    if subprocess.run([*NOBODY, "test", "-r", bacadi.__file__]).returncode:
        pytest.skip("another user cannot read the package")
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "NUMBA_CACHE_DIR")}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        shutil.copy(plain[1], folder / "table.csv")
        # Of all methods that are compiled, exact inference takes the least time for it.
        arguments = ("fit", folder / "table.csv", *plain[2:-1], folder / "run", "--method", "exact")
        done = subprocess.run(
            [*NOBODY, *command(*arguments)], env=environment, capture_output=True, text=True, cwd=folder
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("NUMBA_CACHE_DIR") == 1
        assert set(content(folder / "run")) == {*RESULTS, "config.json", "log.jsonl"}


NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")


def test_a_crafted_checkpoint_of_svgd(
    run: Run, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        interrupt_at(1, patch)
        assert run(*arguments).exit_code == 130
    path = tmp_path / "run" / "checkpoint.npz"
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    (step,) = (name for name in arrays if name.endswith(".step"))
    for value in (np.array(-7, np.int32), np.array(10**6, np.int32), np.zeros(3, np.int32), np.array(2.5)):
        np.savez(path, **(arrays | {step: value}))
        assert_refused(run("resume", tmp_path / "run", "--quiet"), "checkpoint", "damaged")
    np.savez(path, **arrays)
    assert run("resume", tmp_path / "run").exit_code == 0


def test_all_pairs_of_an_exact_run_as_json(run: Run, plain: list[str], tmp_path: Path) -> None:
    assert run(*plain, "--method", "exact").exit_code == 0
    exported = run("export", tmp_path / "run", "--to", "json", "--threshold", 0)
    assert exported.exit_code == 0 and len(json.loads(exported.stdout)["nodes"]) == 3


def test_target_sweeps_with_the_preset_of_the_authors(run: Run, plain: list[str], tmp_path: Path) -> None:
    config = tmp_path / "sweeps.toml"
    config.write_text("[method]\ntype = 'svgd'\ntarget_sweeps = 2\n")
    small = ("--method", "svgd", "--preset", "authors", "--config", config, "--steps", 10, "--particles", 4)
    assert run(*plain, *small).exit_code == 0
