"""The doctor sees what makes a posterior too certain, names a remedy that the command has, and is silent otherwise."""

from dataclasses import replace

import numpy as np
import pytest

from bacadi.data.checks import Severity
from bacadi.data.contexts import ContextData
from bacadi.data.symptoms import symptoms
from bacadi.simulate import SyntheticSpec, simulate
from bacadi.simulate.synthetic import HeldOut, Interventions, NeuralTruth

BASE = SyntheticSpec(n_variables=12, held_out=HeldOut(n_contexts=0))


def codes(data: ContextData) -> list[str]:
    return [finding.code for finding in symptoms(data) if finding.severity is Severity.WARNING]


def message(data: ContextData, code: str) -> str:
    return next(finding.message for finding in symptoms(data) if finding.code == code)


def plain(seed: int = 0, n: int = 400, d: int = 8, m: int = 5) -> ContextData:
    """Independent Gaussian columns, contexts without any effect, rows in random order."""
    x = np.random.default_rng(seed).normal(size=(n, d))
    names = tuple(f"x{j}" for j in range(d))
    return ContextData(x, np.arange(n) % (m + 1), names, tuple(f"c{k}" for k in range(m)), "wt")


SPECS = [
    BASE,
    BASE.replace(n_observational=30, interventions=Interventions(rows_per_context=5)),
    BASE.replace(interventions=Interventions(n_contexts=5, targets_per_context=2, rows_per_context=30)),
    BASE.replace(mechanism=NeuralTruth()),
]


@pytest.mark.parametrize("spec", SPECS, ids=["linear", "few rows", "two targets", "nonlinear"])
def test_tasks_that_follow_a_model_get_no_warning(spec: SyntheticSpec) -> None:
    """Fewer than one in 100 tasks gets a warning, nonlinear ones two in 100; of 20 at most one may."""
    assert sum(bool(codes(simulate(spec, seed).data)) for seed in range(20)) <= 1


def test_shapes() -> None:
    data = plain()
    rng = np.random.default_rng(1)
    x = data.x.copy()
    x[:, 0] = rng.standard_t(2.5, size=400)
    x[:, 1] = rng.exponential(size=400)
    x[:, 2] = np.where(rng.random(400) < 0.3, 0.0, x[:, 2])
    x[:, 3] = rng.integers(0, 2, size=400)
    x[:, 4] = rng.integers(0, 5, size=400)
    found = replace(data, x=x)
    assert codes(found) == ["binary", "few-values", "spike", "skewed", "heavy-tails"]
    assert "'x0'" in message(found, "heavy-tails") and "--outliers drop" in message(found, "heavy-tails")
    assert "'x1'" in message(found, "skewed") and "--transform auto" in message(found, "skewed")
    assert "0 in 29% of rows" in message(found, "spike") and "--missing-value 0" in message(found, "spike")
    assert "'x3' has two values" in message(found, "binary")
    once = found.transformed({"x1": "log"})
    assert "skewed" not in codes(once) or "normal-scores" in message(once, "skewed")


def test_rows_that_depend_on_each_other() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(600, 5))
    for i in range(1, 600):
        z[i] = 0.93 * z[i - 1] + np.sqrt(1 - 0.93**2) * z[i]
    data = ContextData(z, np.repeat([0, 1], 300), tuple("abcde"), ("ko",), "wt")
    assert "dependent-rows" in codes(data) and "--thin" in message(data, "dependent-rows")
    shuffled = rng.permutation(300)
    assert "dependent-rows" not in codes(data.rows(np.concatenate([shuffled, 300 + shuffled])))
    timed = replace(data, x=np.column_stack([z[:, :4], np.tile(60.0 * np.arange(300), 2)]))
    assert "--drop e" in message(timed, "time-stamp")


def test_dense_change_and_a_reference_that_differs() -> None:
    data = plain(n=3000)
    x = data.x + 0.9 * (data.context == 2)[:, None]
    found = replace(data, x=x)
    assert codes(found) == ["dense-change"] and "'c1' 8 of 8 variables" in message(found, "dense-change")
    x = data.x.copy()
    x[data.context == 0, 3] += 1.5
    moved = replace(data, x=x)
    assert codes(moved) == ["moves-everywhere"] and "--drop x3" in message(moved, "moves-everywhere")


def test_a_mixed_control_and_a_common_factor() -> None:
    data, rng = plain(n=1200), np.random.default_rng(3)
    half = (data.context == 0) & (np.cumsum(data.context == 0) <= 80)
    assert "mixed-control" in codes(replace(data, x=data.x + 6.0 * half[:, None]))
    depth = rng.normal(size=(1200, 1))
    assert codes(replace(data, x=data.x + 2 * depth)) == ["common-factor"]


def test_blocks_of_one_context() -> None:
    data = plain()
    blocked = replace(data, block=(data.context == 1).astype(int), blocks=("day 1", "day 2"))
    assert "'day 2'" in message(blocked, "block-of-one-context")
