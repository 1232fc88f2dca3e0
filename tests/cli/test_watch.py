"""What a person hears of a run: progress in words, the clock, the first compilation."""

import json
from pathlib import Path

import pytest

from bacadi.commands.watch import Log, Watch
from bacadi.config.layers import configure
from bacadi.inference.mcmc import method as mcmc
from bacadi.inference.method import Progress


def test_the_bar_follows_the_clock_where_time_is_short(tmp_path: Path) -> None:
    progress = Progress(10, 1000, 5.0, "burn-in")
    watcher = Watch(Log(tmp_path / "log"), tmp_path / "none", quiet=True)
    watcher.open("starting")
    assert watcher._position(progress) == (10, 1000)
    watcher.open("starting", budget=20.0)
    assert watcher._position(progress) == (5, 20.0)
    assert watcher._position(Progress(10, 1000, 0.1, "burn-in")) == (10, 1000)


def test_openings_of_the_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcmc, "is_compiled", lambda model: False)
    assert "compiling the sampler, once" in configure().method.opening()
    monkeypatch.setattr(mcmc, "is_compiled", lambda model: True)
    assert configure().method.opening() == "starting"
    assert "compiling" in configure("svgd").method.opening()
    assert "5 bootstrap samples together" in configure("dcdi-g").method.opening()


def test_the_compilation_is_said_without_a_terminal_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiling = "compiling the sampler, once"
    for quiet, words, said in ((False, compiling, f"{compiling} …\n"), (True, compiling, ""), (False, "starting", "")):
        with Log(tmp_path / "log") as log:
            log.clear()
            Watch(log, tmp_path / "none", quiet).open(words)
        assert capsys.readouterr().err == said
        assert json.loads((tmp_path / "log").read_text())["words"] == words
