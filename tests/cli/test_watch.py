"""What a person hears of a run: progress of every method in words, the clock, the first compilation."""

import json
import os
from pathlib import Path

import pytest

from bacadi.baselines import BootstrapProgress
from bacadi.commands import opening, watch
from bacadi.inference.mcmc.ladder import Progress as MCMCProgress
from bacadi.inference.svgd.method import Progress as SVGDProgress
from bacadi.settings import resolve


def test_progress_is_told_in_words_for_every_method() -> None:
    burning = watch.told(MCMCProgress(3, 10, -12.3, True, 0.5))
    assert (burning.words, burning.note, burning.step, burning.total) == ("burn-in", "log posterior -12", 3, 10)
    assert watch.told(MCMCProgress(9, 10, -12.3, False, 0.5)).words == "sampling"
    assert watch.told(SVGDProgress(3, 10, 5.0, 7, 0.5)).note == "log posterior 5, 7 acyclic"
    bootstrap = watch.told(BootstrapProgress(3, 10, 1, 0.5))
    assert (bootstrap.note, bootstrap.entries) == ("1 failed", {"step": 3, "steps": 10, "dropped": 1, "seconds": 0.5})


def test_the_bar_follows_the_clock_where_time_is_short(tmp_path: Path) -> None:
    told = watch.told(MCMCProgress(10, 1000, 0.0, True, 5.0))
    watcher = watch.Watch(watch.Log(tmp_path / "log", fresh=True), tmp_path / "none", quiet=True)
    watcher.open("starting")
    assert watcher._position(told, 5.0) == (10, 1000)
    watcher.open("starting", budget=20.0)
    assert watcher._position(told, 5.0) == (5, 20.0) and watcher._position(told, 0.1) == (10, 1000)


def test_the_first_run_says_that_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "is_compiled", lambda: False)
    assert "compiling the sampler, once" in opening.opening(resolve())
    monkeypatch.setattr(opening, "is_compiled", lambda: True)
    assert opening.opening(resolve()) == "starting"
    assert "compiling" in opening.opening(resolve(method="svgd"))
    assert "5 bootstrap samples together" in opening.opening(resolve(method="dcdi-g"))


def test_compiled_code_counts_while_it_is_younger_than_its_source(tmp_path: Path) -> None:
    import numba

    folder = tmp_path / "package"
    folder.mkdir()
    source = folder / "quick.py"
    source.write_text("import numba\n\n\n@numba.njit(cache=True)\ndef advance(x):\n    return x + 1\n")
    names: dict = {"__file__": str(source), "__name__": "quick"}
    exec(compile(source.read_text(), str(source), "exec"), names)
    assert isinstance(names["advance"], numba.core.dispatcher.Dispatcher)
    cache = Path(names["advance"].stats.cache_path)
    assert not opening.is_cached(source, "advance", cache)
    names["advance"](1)
    assert opening.is_cached(source, "advance", cache) and not opening.is_cached(source, "advances", cache)
    os.utime(source, (source.stat().st_atime, source.stat().st_mtime + 10**6))
    assert not opening.is_cached(source, "advance", cache)


def test_the_compilation_is_said_without_a_terminal_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for quiet, notable, said in ((False, True, "compiling …\n"), (True, True, ""), (False, False, "")):
        log = tmp_path / "log"
        watch.Watch(watch.Log(log, fresh=True), tmp_path / "none", quiet).open("compiling", notable=notable)
        assert capsys.readouterr().err == said
        assert json.loads(log.read_text())["words"] == "compiling"
