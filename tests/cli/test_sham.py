"""`bacadi sham` and `fit --shams`: counts in words, in the log and in the posterior."""

import json
from pathlib import Path

import bacadi

from .conftest import Run
from .test_refusals import assert_refused


def test_sham_says_how_many_targets_are_named(run: Run, table: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.toml"
    short.write_text("[method]\nn_sweeps = 60\n")
    known = ("--context", "context", "--observational", "obs", "--config", short)
    result = run("sham", table, *known, "--shams", 1)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("1 sham with permuted labels: ") and " of 6 pairs" in lines[0]
    assert lines[-1].startswith("the data themselves: 3 targets named of 6 pairs")


def test_fit_adds_shams_to_summary_log_and_posterior(run: Run, plain: list[str]) -> None:
    result = run(*plain, "--sweeps", 60, "--shams", 1)
    assert result.exit_code == 0, result.output
    folder = Path(plain[-1])
    found = bacadi.load(folder / "posterior.nc").attrs["shams"]
    assert found["words"][0] in result.stdout and found["real"]["pairs"] == 6
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    assert [line["shams"] for line in log if line["event"] == "shams"] == [found["shams"]]
    assert json.loads((folder / "config.json").read_text())["shams"] == 1


def test_refusals(run: Run, table: Path, plain: list[str]) -> None:
    known = ("--context", "context", "--observational", "obs")
    assert_refused(run("sham", table, *known, "--shams", 0), "1 or more")
    assert_refused(run("sham", table), "--context")
    assert_refused(run(*plain, "--shams", -1), "--shams is -1")
