"""Checks of residuals: how often they are wrong about data of the model, and what they see in data that are not."""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from bacadi.data.contexts import ContextData
from bacadi.inference.fit import fit
from bacadi.inference.mcmc.method import MCMC
from bacadi.inference.method import Problem
from bacadi.inference.residuals import FAMILIES, FitCheck, check_fit
from bacadi.model.certainty import NO_DRIFT
from bacadi.model.knowledge import Knowledge
from bacadi.model.model import Model
from bacadi.model.neural import NeuralGaussian
from bacadi.posterior.posterior import Posterior
from bacadi.simulate import Interventions, SyntheticSpec, Task, simulate

DESIGN = Interventions(n_contexts=4, n_without_effect=2, rows_per_context=40)
SPEC = SyntheticSpec(6, n_observational=200, interventions=DESIGN)


STEADY = Model(drift=NO_DRIFT)


def checked(task: Task, x: np.ndarray, model: Model = STEADY) -> FitCheck | None:
    """The check given the true structure."""
    data = replace(task.data, x=x)
    posterior = Posterior.from_draws(data, task.graph[None], task.targets[None])
    known = Knowledge.none(data.n_variables, data.n_contexts)
    return check_fit(Problem(data, model, known), posterior)


def test_one_clean_task_in_twenty_gets_a_sentence_at_most() -> None:
    """40 tasks; at a rate of .05 more than 6 of them would be flagged once in 300 times."""
    found = [checked(task, task.data.x) for task in (simulate(SPEC, seed) for seed in range(40))]
    assert sum(bool(check is not None and check.words) for check in found) <= 6


def heavy(x: np.ndarray, context: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return x + 0.4 * rng.standard_t(3, x.shape)


def skewed(x: np.ndarray, context: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.exp((x - x.mean(axis=0)) / x.std(axis=0))


def drifting(x: np.ndarray, context: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return x + 0.5 * rng.normal(size=(context.max() + 1, x.shape[1]))[context]


def following(x: np.ndarray, context: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    walk = np.convolve(rng.normal(size=len(x)), np.ones(10) / 10**0.5, "same")
    return x + walk[:, None]


VIOLATIONS: dict[str, Callable[..., np.ndarray]] = {
    "heavier than Gaussian.*--transform normal-scores": heavy,
    "is skewed|heavier|a line does not describe": skewed,
    "the mean of . of 6 variables differs between contexts": drifting,
    "a row resembles the one before.*--thin|vary together": following,
}


@pytest.mark.parametrize("words", VIOLATIONS)
def test_what_breaks_the_model_is_named_with_a_remedy(words: str) -> None:
    for seed in range(3):
        task = simulate(SPEC, seed)
        check = checked(task, VIOLATIONS[words](task.data.x, task.data.context, np.random.default_rng(seed)))
        assert check is not None
        first = check.words[0]
        assert first.startswith("The model does not fit: ") and len(check.words) <= 3
        assert any(re.search(words, sentence) for sentence in check.words), check.words


def test_drift_that_the_model_allows_for_is_no_fault() -> None:
    task = simulate(SPEC, 0)
    check = checked(task, drifting(task.data.x, task.data.context, np.random.default_rng(0)), Model())
    assert check is not None and check.words == []


def test_statistics_are_stored_by_name() -> None:
    task = simulate(SPEC, 0)
    check = checked(task, task.data.x)
    assert check is not None
    stats = check.to_stats()
    assert set(stats) == {f"residual_{name}{end}" for name in FAMILIES for end in ("", "_p")}
    assert stats["residual_mean"].values.shape == (7, 6) and stats["residual_correlation"].values.shape == (6, 6)
    p = stats["residual_kurtosis_p"].values
    assert ((p >= 0) & (p <= 1)).all()


def test_other_models_small_tables_and_holes_are_left_alone() -> None:
    task = simulate(SPEC, 0)
    assert checked(task, task.data.x, Model(mechanism=NeuralGaussian())) is None
    holes = task.data.x.copy()
    holes[0, 0] = np.nan
    assert checked(task, holes) is None
    few = ContextData(np.arange(8.0).reshape(4, 2) % 3, np.zeros(4, int), ("a", "b"), (), "obs")
    posterior = Posterior.from_draws(few, np.zeros((1, 2, 2)), np.zeros((1, 0, 2)))
    assert check_fit(Problem(few, Model(), Knowledge.none(2, 0)), posterior) is None


def test_observational_rows_alone_are_checked_too() -> None:
    task = simulate(SyntheticSpec(5, n_observational=200, interventions=Interventions(n_contexts=0)), 0)
    posterior = fit(task.data, method=MCMC(n_draws=20, n_sweeps=40))
    assert posterior.attrs["misfit"] == []
    assert posterior.sample_stats["residual_mean"].values.shape == (1, 5)


def test_contexts_of_one_row_and_constant_columns_do_not_break_it() -> None:
    single = SyntheticSpec(5, n_observational=60, interventions=Interventions(n_contexts=10, rows_per_context=1))
    task = simulate(single, 0)
    check = checked(task, task.data.x)
    assert check is not None and check.words == []
    x = simulate(SPEC, 1).data.x.copy()
    x[simulate(SPEC, 1).data.context == 1, 2] = 0.0
    assert checked(simulate(SPEC, 1), x) is not None


def test_tails_that_the_model_allows_for_are_no_fault_in_contexts_of_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that count less are known to the model, also where only some rows of a context are looked at."""
    rng = np.random.default_rng(0)
    x = rng.standard_t(3, size=(600, 4))
    data = ContextData(x, np.repeat([0, 1, 2], 200), tuple("abcd"), ("k", "l"), "wt")
    monkeypatch.setattr("bacadi.inference.residuals._MAX_ROWS", 150)
    posterior = fit(data, method=MCMC(n_draws=20, n_sweeps=50))
    assert any("tails: heavy" in line for line in posterior.attrs["chosen"]["words"])
    assert not any("tails" in line for line in posterior.attrs["misfit"])
