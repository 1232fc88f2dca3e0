"""Studies of a baseline that does nothing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bacadi.benchmark.study import Study, read_study

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent / "src"

TINY = """
title = "tiny"
time_limit = {limit}
[[tasks]]
name = "five"
n_seeds = {seeds}
[tasks.settings]
type = "synthetic"
n_variables = 5
n_observational = 20
held_out = {{ n_contexts = 1, rows_per_context = 5 }}
interventions = {{ rows_per_context = 2 }}
"""
METHOD = """
[[methods]]
label = "{label}"
{more}
[methods.settings.method]
type = "bootstrap"
n_samples = 1
baseline = {{ type = "sleepy:Sleepy", {options} }}
"""


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """`sleepy` and bacadi can be imported here and in every process that is started."""
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(SOURCE)]))


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a study of the sleepy baseline: keywords are labels with options of the baseline."""

    def make(name: str = "tiny", seeds: int = 2, limit: float = 60, above: str = "", **methods: str) -> Path:
        text = TINY.format(seeds=seeds, limit=limit)
        for label, options in methods.items():
            options, _, more = options.partition("|")
            text += METHOD.format(label=label, options=options or "seconds = 0", more=more)
        path = tmp_path / f"{name}.toml"
        path.write_text(above + text)
        return path

    return make


@pytest.fixture
def make(write: Callable[..., Path]) -> Callable[..., Study]:
    return lambda **arguments: read_study(write(**arguments))
