"""Maps of columns: invariance, inverses, the choice of "auto"."""

from dataclasses import replace

import numpy as np
import pytest

from bacadi.data.contexts import ContextData
from bacadi.data.transforms import KINDS, Transforms
from bacadi.errors import ConfigError, DataError
from bacadi.simulate import SyntheticSpec, simulate
from bacadi.simulate.synthetic import HeldOut, Interventions


def data(x: np.ndarray, n_contexts: int = 2) -> ContextData:
    context = np.arange(len(x)) % (n_contexts + 1)
    names = tuple(f"x{j}" for j in range(x.shape[1]))
    return ContextData(x, context, names, tuple(f"c{k}" for k in range(n_contexts)), "wt")


def positive(n: int = 300, d: int = 3) -> np.ndarray:
    return np.exp(np.random.default_rng(0).normal(size=(n, d)))


@pytest.mark.parametrize("kind", KINDS)
def test_inverse_leads_back_whatever_the_scaling(kind: str) -> None:
    given = data(positive())
    found = given.transformed(kind).standardized()
    assert np.allclose(found.original(), given.x)
    again = found.transformed("log")
    assert np.allclose(again.x, np.log(given.x)) and np.allclose(again.scaling.scale, 1)


def test_normal_scores_know_ranks_alone() -> None:
    x = positive()
    x[:40, 0] = 0.5  # ties
    once, other = data(x).transformed("normal-scores").x, data(x**3 + 7).transformed("normal-scores").x
    assert (once == other).all() and len(np.unique(once[:40, 0])) == 1
    assert abs(once[:, 1].mean()) < 1e-10 and abs(once[:, 1].std() - 1) < 0.01


def test_stored_knots_give_the_inverse_back() -> None:
    x = positive(5000, 2)
    maps = data(x).transformed({"x0": "normal-scores", "x1": "log"}).transforms
    stored = Transforms.restored(maps.names, maps.stored_knots())
    scores = np.linspace(-2.5, 2.5, 101)[:, None].repeat(2, axis=1)
    assert np.allclose(stored.inverse(scores), maps.inverse(scores), rtol=0.02)


def test_refusals() -> None:
    x = positive()
    x[3, 1] = 0.0
    for how, word in (("log", "log1p"), ({"x1": "log"}, "'x1'")):
        with pytest.raises(DataError, match=word):
            data(x).transformed(how)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no variable"):
        data(x).transformed({"y": "log"})
    with pytest.raises(ConfigError, match="normal-scores"):
        data(x).transformed("logs")


def test_missing_cells_stay_missing() -> None:
    x = positive()
    x[5, 0] = np.nan
    for kind in (*KINDS, "auto"):
        assert np.isnan(data(x).transformed(kind).x).sum() == 1


TASKS = SyntheticSpec(
    n_variables=12,
    n_observational=100,
    interventions=Interventions(rows_per_context=10),
    held_out=HeldOut(n_contexts=0),
)


def test_auto_leaves_gaussian_columns_alone() -> None:
    """Four standard errors of 12 columns each: one false alarm in 1,000 tasks; 40 are looked at."""
    for seed in range(40):
        assert simulate(TASKS, seed).data.transformed("auto").transforms.is_identity


def test_auto_takes_logarithms_of_what_is_multiplicative() -> None:
    task = simulate(TASKS.replace(n_observational=300), 0).data
    z = (task.x - task.x.mean(axis=0)) / task.x.std(axis=0)
    found = replace(task, x=np.exp(z)).transformed("auto")
    assert set(found.transforms.names) == {"log"} and np.allclose(found.x, z)
    assert "logarithm, because values are positive and skewed" in found.transforms.words(found.variables)[0]


def test_auto_takes_no_ranks_where_they_would_bend() -> None:
    rng = np.random.default_rng(0)
    skewed = rng.exponential(size=(600, 1)) - 1
    flat, context = data(skewed), np.arange(600) % 3
    assert flat.transformed("auto").transforms.names == ("normal-scores",)
    assert data(skewed + 30.0 * context[:, None] - 30).transformed("auto").transforms.names == ("none",)
