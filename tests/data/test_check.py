"""`bacadi check` and the frame of the command line: exit codes, streams, what is imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bacadi.config.columns
from bacadi import cli

SOURCE = str(Path(cli.__file__).parents[1])


@pytest.fixture
def good(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).normal(size=(40, 3))
    path = tmp_path / "good.csv"
    pd.DataFrame(x, columns=["g[red]", "h", "i"]).assign(arm=["wt", "ko"] * 20).to_csv(path, index=False)
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def process(*command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, check=False)


def test_good_table(good: Path) -> None:
    code, out, err = run("check", good, "--context", "arm", "--observational", "wt")
    assert (code, err) == (0, "")
    assert "40 rows, 3 variables: g[red], h, i" in out and "observational" in out and "nothing wrong" in out


def test_warnings_inform_and_pass(good: Path) -> None:
    code, out, _ = run("check", good, "--context", "arm", "--observational", "")
    assert code == 0 and "Warnings" in out and "Usable, with 1 warning to consider." in out


def test_json(good: Path) -> None:
    code, out, _ = run("check", good, "--context", "arm", "--observational", "", "--json")
    found = json.loads(out)
    assert code == 0 and found["ok"] and found["rows"] == 40
    assert found["problems"][0]["code"] == "no-observational"


def test_without_context_the_candidates_are_named(good: Path) -> None:
    code, out, err = run("check", good)
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert "--context" in err and "'arm'" in err and "'h'" not in err


def test_long_lists_are_cut(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(90, 30))
    x[4] = np.nan
    path = tmp_path / "t.csv"
    pd.DataFrame(x).assign(arm=[f"c{n % 30}" for n in range(90)]).to_csv(path, index=False)
    code, out, _ = run("check", path, "--context", "arm", "--observational", "c0")
    assert code == 2 and "and 10 more contexts" in out and "22 more of the kind 'missing'" in out


def test_usage_errors_are_exit_code_2() -> None:
    assert run("check")[0] == 2
    assert run("nonsense")[0] == 2


def test_unexpected_failures_are_exit_code_1(
    good: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: object) -> None:
        raise ZeroDivisionError("surprise\nover two lines")

    monkeypatch.setattr(bacadi.config.columns, "examine", fail)
    monkeypatch.setattr(sys, "argv", ["bacadi", "check", str(good), "--context", "arm"])
    monkeypatch.delenv("BACADI_DEBUG", raising=False)
    for debug, traced in (("0", False), ("1", True)):
        monkeypatch.setenv("BACADI_DEBUG", debug)
        with pytest.raises(SystemExit) as end:
            cli.main()
        err = capsys.readouterr().err
        assert end.value.code == 1 and "ZeroDivisionError: surprise over two lines" in err
        assert ("Traceback" in err) is traced


def test_interrupt_is_exit_code_130(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bacadi.config.columns, "examine", interrupt)
    assert run("check", good, "--context", "arm")[0] == 130


def test_module_entry_and_version() -> None:
    done = process("-m", "bacadi", "--version")
    assert done.returncode == 0 and done.stdout.startswith("bacadi ")


def test_refusal_of_the_process(tmp_path: Path) -> None:
    done = process("-m", "bacadi", "check", str(tmp_path / "none.csv"), "--context", "arm")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == f"Error: There is no file '{tmp_path / 'none.csv'}'; check the path.\n"


def test_check_imports_no_jax_and_help_no_pandas(good: Path) -> None:
    script = """
import sys
from bacadi.cli import main
sys.argv[0] = "bacadi"
try:
    main()
except SystemExit as end:
    print(end.code, "jax" in sys.modules, "pandas" in sys.modules, file=sys.stderr)
"""
    assert process("-c", script, "check", str(good), "--context", "arm").stderr.split() == ["0", "False", "True"]
    assert process("-c", script, "--help").stderr.split() == ["0", "False", "False"]
