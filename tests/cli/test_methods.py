"""`fit` with every method on a tiny table: files, what `auto` picks, knowledge, warnings, interruption."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

import bacadi
from bacadi.baselines import Estimate
from bacadi.baselines.dcdi.dcdi import DCDIG
from bacadi.config.names import BASELINE, NAMES
from bacadi.data.contexts import ContextData

from .conftest import Run
from .test_fit import FILES, events, interrupt_at, rows
from .test_refusals import assert_refused

SHORT = ("--sweeps", 60, "--draws", 40)
METHODS = {
    "auto": SHORT,
    "mcmc": (*SHORT, "--replicas", 3),
    "exact": ("--draws", 50),
    "jci-pc": ("--samples", 3, "--jobs", 1),
    "ut-igsp": ("--samples", 3, "--jobs", 1),
    "gies": ("--samples", 3, "--jobs", 1, "--targets", "known"),
    "gnies": ("--samples", 2, "--jobs", 1),
}


def fitted(run: Run, *arguments: object) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def with_config(folder: Path, text: str) -> tuple[str, Path]:
    path = folder / "my.toml"
    path.write_text(text)
    return "--config", path


@pytest.mark.parametrize("method", METHODS)
def test_every_method_writes_the_files(method: str, run: Run, plain: list[str]) -> None:
    folder = Path(plain[-1])
    result = fitted(run, *plain, "--method", method, *METHODS[method])
    assert {path.name for path in folder.iterdir()} == FILES and "edges.csv" in result.stdout
    assert len(rows(folder / "edges.csv")) == len(rows(folder / "targets.csv")) == 6
    chosen = "mcmc" if method == "auto" else method
    record, posterior = json.loads((folder / "config.json").read_text()), bacadi.load(folder / "posterior.nc")
    assert record["method"] == posterior.attrs["method"] == chosen
    assert record["preset"] == posterior.attrs["preset"] == (None if chosen in NAMES[BASELINE] else "default")
    asked, used = record["configuration"], posterior.attrs["configuration"]
    if chosen in ("mcmc", "exact"):  # the data chose what was left open
        assert asked["model"]["effect"]["type"] == asked["model"]["drift"] == "auto"
        assert used["model"]["effect"]["type"] in ("hard", "shift", "soft") and used["model"]["drift"] != "auto"
        assert asked["model"]["mechanism"] == {"type": "auto"} and used["model"]["mechanism"]["type"] == "linear"
        assert [side["model"]["graph_prior"]["type"] for side in (asked, used)] == ["auto", "erdos-renyi"]
        asked["model"] |= {name: used["model"][name] for name in ("mechanism", "effect", "drift", "graph_prior")}
    assert used == asked
    assert events(folder)[:2] == ["start", "opening"] and events(folder)[-1] == "done"


def test_dcdi_g_with_the_training_left_out(run: Run, plain: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The training takes a quarter of a minute to compile; the slow test below has it."""

    def estimate_many(self: DCDIG, rng: object, resampled: list[ContextData], known: np.ndarray) -> list[Estimate]:
        return [Estimate(np.eye(3, k=1, dtype=np.int8), np.zeros((2, 3), np.int8)) for _ in resampled]

    monkeypatch.setattr(DCDIG, "estimate_many", estimate_many)
    fitted(run, *plain, "--method", "dcdi-g")
    posterior = bacadi.load(Path(plain[-1]) / "posterior.nc")
    assert posterior.attrs["method"] == "dcdi-g" and posterior.n_draws == 5


@pytest.mark.slow
def test_dcdi_g(run: Run, plain: list[str], tmp_path: Path) -> None:
    text = "[method]\ntype = 'dcdi-g'\n[method.baseline]\nmax_iterations = 200\nrefit_iterations = 20\nbatch_size = 8\n"
    fitted(run, *plain, "--method", "dcdi-g", "--samples", 2, *with_config(tmp_path, text))
    assert bacadi.load(Path(plain[-1]) / "posterior.nc").attrs["method"] == "dcdi-g"


@pytest.mark.parametrize("extra", [("--preset", "paper"), ("--model", "bge"), ("--model", "nonlinear"), ()])
def test_models_and_presets_by_mcmc(extra: tuple[str, ...], run: Run, plain: list[str]) -> None:
    fitted(run, *plain, *SHORT, *extra, "--seed", 2)
    record = json.loads((Path(plain[-1]) / "config.json").read_text())
    assert record["method"] == "mcmc"
    assert record["configuration"]["model"]["standardize_within"] == ("paper" not in extra)


@pytest.mark.parametrize("effect", ["soft", "shift", "scale", "any"])
def test_effects_by_mcmc(effect: str, run: Run, plain: list[str], tmp_path: Path) -> None:
    fitted(run, *plain, *SHORT, *with_config(tmp_path, f"[model]\neffect = '{effect}'\n"))
    posterior = bacadi.load(Path(plain[-1]) / "posterior.nc")
    assert posterior.attrs["configuration"]["model"]["effect"]["type"] == effect


def test_the_default_finds_the_cause(run: Run, plain: list[str]) -> None:
    fitted(run, *plain)
    folder = Path(plain[-1])
    likely = {(row["source"], row["target"]) for row in rows(folder / "edges.csv") if float(row["probability"]) > 0.5}
    assert likely == {("a", "b"), ("b", "c")}
    likely = {
        (row["context"], row["variable"]) for row in rows(folder / "targets.csv") if float(row["probability"]) > 0.5
    }
    assert ("b", "b") in likely and ("a+c", "a") in likely


def test_equal_seeds_give_equal_draws(run: Run, plain: list[str], tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        fitted(run, *plain, *SHORT, "--seed", seed, "--out", tmp_path / name)
    one, two, three = (bacadi.load(tmp_path / name / "posterior.nc") for name in ("one", "two", "three"))
    for name, parameter in one.parameters.items():
        np.testing.assert_array_equal(parameter.values, two.parameters[name].values)
    assert (tmp_path / "one" / "edges.csv").read_bytes() == (tmp_path / "two" / "edges.csv").read_bytes()
    assert not np.array_equal(one.sample_stats["log_posterior"].values, three.sample_stats["log_posterior"].values)


def test_exact_marginals_are_written(run: Run, plain: list[str]) -> None:
    fitted(run, *plain, "--method", "exact")
    posterior = bacadi.load(Path(plain[-1]) / "posterior.nc")
    exact = posterior.constant_data["exact_edge_probability"].values
    said = {(row["source"], row["target"]): float(row["probability"]) for row in rows(Path(plain[-1]) / "edges.csv")}
    assert said["a", "b"] == pytest.approx(exact[0, 1], abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_known_targets(method: str, run: Run, plain: list[str]) -> None:
    fitted(run, *plain, "--method", method, *METHODS[method], "--targets", "known")
    said = {
        (row["context"], row["variable"]): float(row["probability"]) for row in rows(Path(plain[-1]) / "targets.csv")
    }
    assert {cell for cell, probability in said.items() if probability == 1} == {("b", "b"), ("a+c", "a"), ("a+c", "c")}
    assert set(said.values()) == {0.0, 1.0}


KNOWLEDGE = """
[knowledge]
forbidden = [["a", "b"]]
edge_log_odds = "edges.csv"
candidates = { b = ["b", "c"] }
max_parents = 1
target_count = [0.1, 0.6, 0.3]
"""


@pytest.mark.parametrize("method", ["mcmc", "exact"])
def test_knowledge_holds_in_every_draw(method: str, run: Run, plain: list[str], tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target,log_odds\nc,b,-inf\nb,a,0.5\n")
    fitted(run, *plain, "--method", method, *METHODS[method], *with_config(tmp_path, KNOWLEDGE))
    posterior = bacadi.load(Path(plain[-1]) / "posterior.nc")
    assert posterior.edge_probabilities()[0, 1] == 0 == posterior.edge_probabilities()[2, 1]
    assert not posterior.graph[..., 0, 1].any() and posterior.graph.sum(axis=-2).max() <= 1
    assert not posterior.intervention_target[..., 0, 0].any()
    assert posterior.intervention_target.sum(axis=-1).max() <= 2


def test_certain_targets_are_knowledge_for_every_method(run: Run, plain: list[str], tmp_path: Path) -> None:
    config = with_config(tmp_path, '[knowledge]\nknown = { b = ["b"] }\nexcluded = { b = ["a"] }\n')
    for method in ("jci-pc", "auto"):
        fitted(run, *plain, "--method", method, *METHODS[method], *config, "--overwrite")
        said = bacadi.load(Path(plain[-1]) / "posterior.nc").target_probabilities()[0]
        assert said[1] == 1 and said[0] == 0


def test_knowledge_that_cannot_be_used_is_refused(run: Run, plain: list[str], tmp_path: Path) -> None:
    def refused(text: str, *extra: object) -> Result:
        return run(*plain, *with_config(tmp_path, text), *extra)

    forbidden = '[knowledge]\nforbidden = [["a", "b"]]\n'
    for method in ("svgd", "jci-pc"):
        assert_refused(refused(forbidden, "--method", method), "more than certain targets", method, "--method mcmc")
    assert_refused(refused('[knowledge]\nforbidden = [["a", "z"]]\n'), "'z'", "my.toml")
    assert_refused(refused('[knowledge]\nforbiden = [["a", "b"]]\n'), "did you mean 'forbidden'")
    assert_refused(refused("knowledge = 3\n"), "no section")
    contradiction = '[knowledge]\nexcluded = { b = ["b"] }\n'
    assert_refused(refused(contradiction, "--targets", "known"), "'b'", "cannot be one")
    assert not Path(plain[-1]).exists()


def test_data_that_a_method_cannot_use_are_refused(run: Run, plain: list[str], table: Path) -> None:
    lines = table.read_text().splitlines()
    more = range(7, 20)
    wide = [",".join(f"v{i}" for i in more)] + [",".join(str(n * n % i) for i in more) for n in range(len(lines) - 1)]
    table.write_text("\n".join(f"{row},{line}" for row, line in zip(wide, lines, strict=True)) + "\n")
    assert_refused(run(*plain, "--method", "exact"), "at most 15 variables", "have 16", "--method mcmc")
    at = plain.index("--observational")
    result = run(*plain[: at + 1], "", *plain[at + 2 :], "--method", "ut-igsp")
    assert result.exit_code == 2 and "observational" in result.stderr.splitlines()[-1]
    assert not Path(plain[-1]).exists()


def same(one: Path, other: Path) -> None:
    first, second = (bacadi.load(folder / "posterior.nc") for folder in (one, other))
    for group in ("parameters", "sample_stats", "constant_data"):
        for name, parameter in getattr(first, group).items():
            np.testing.assert_array_equal(parameter.values, getattr(second, group)[name].values)
    np.testing.assert_array_equal(first.graph, second.graph)
    for file in ("edges.csv", "targets.csv"):
        assert (one / file).read_bytes() == (other / file).read_bytes()


@pytest.mark.parametrize("model", ["linear", "nonlinear"])
def test_interrupt_and_resume_equal_one_run(
    model: str, run: Run, plain: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Knowledge comes from files that are gone when the run goes on: it stands in config.json."""
    (tmp_path / "edges.csv").write_text("source,target,log_odds\nc,b,-inf\n")
    config = with_config(tmp_path, KNOWLEDGE)
    fitted(run, *plain, *SHORT, *config, "--model", model)
    other = tmp_path / "other run"
    with monkeypatch.context() as patch:
        interrupt_at(3, patch)
        result = run(*plain, *SHORT, *config, "--model", model, "--out", other)
    assert result.exit_code == 130 and "bacadi resume" in result.stderr and result.stderr.count("\n") == 1
    assert {path.name for path in other.iterdir()} == {"config.json", "log.jsonl", "checkpoint.npz"}
    for name in ("edges.csv", "my.toml"):
        (tmp_path / name).unlink()
    fitted(run, "resume", other)
    assert {path.name for path in other.iterdir()} == FILES and "resume" in events(other)
    same(Path(plain[-1]), other)


def test_a_time_budget_ends_the_run_and_survives_an_interruption(
    run: Run, plain: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many draws there is time for depends on the machine: there is one per replica at least, and 20 at most."""
    fitted(run, *plain, *SHORT, "--out", tmp_path / "compiled")
    budget = ("--time-budget", 4, "--sweeps", 10**7, "--draws", 20)
    fitted(run, *plain, *budget)
    posterior = bacadi.load(Path(plain[-1]) / "posterior.nc")
    assert 2 <= posterior.n_draws <= 20
    assert (
        f"the time budget ended the run after {posterior.attrs['n_sweeps']} of 10000000 sweeps" in posterior.verdict()
    )
    other = tmp_path / "other"
    with monkeypatch.context() as patch:
        interrupt_at(2, patch)
        assert run(*plain, *budget, "--out", other).exit_code == 130
    fitted(run, "resume", other)
    assert 2 <= bacadi.load(other / "posterior.nc").n_draws <= 20


def test_an_interrupted_bootstrap_starts_over(
    run: Run, plain: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (*plain, "--method", "jci-pc", *METHODS["jci-pc"])
    fitted(run, *arguments)
    other = tmp_path / "other"
    with monkeypatch.context() as patch:
        interrupt_at(2, patch)
        result = run(*arguments, "--out", other)
    assert result.exit_code == 130 and "no state was saved yet" in result.stderr
    result = fitted(run, "resume", other)
    assert "starts over" in result.stderr
    same(Path(plain[-1]), other)


def test_doubts_are_warnings_and_no_failure(run: Run, plain: list[str]) -> None:
    result = fitted(run, *plain, "--sweeps", 20, "--draws", 8, "--quiet")
    assert result.stdout == "" and "Warning: Not converged: 4 draws per replica cannot be judged" in result.stderr
    posterior = bacadi.load(Path(plain[-1]) / "posterior.nc")
    assert posterior.attrs["converged"] is False and len(posterior.attrs["warnings"]) == result.stderr.count("\n")
    last = json.loads((Path(plain[-1]) / "log.jsonl").read_text().splitlines()[-1])
    assert last["warnings"] == posterior.attrs["warnings"]


@pytest.mark.parametrize("choices", [SHORT, (*SHORT, "--model", "nonlinear"), METHODS["exact"] + ("--method", "exact")])
def test_rows_of_one_context_alone(choices: tuple[object, ...], run: Run, plain: list[str]) -> None:
    table = Path(plain[1])
    header, *lines = table.read_text().splitlines(keepends=True)
    table.write_text(header + "".join(line for line in lines if line.endswith("obs\n")))
    fitted(run, *plain, *choices)
    posterior = bacadi.load(Path(plain[-1]) / "posterior.nc")
    assert posterior.edge_probabilities().shape == (3, 3) and posterior.target_probabilities().shape == (0, 3)
