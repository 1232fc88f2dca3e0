"""Missing cells completed by the model that is fitted, and rows that are far off."""

from dataclasses import replace

import numpy as np
import pytest

from bacadi.data.contexts import ContextData
from bacadi.evidence.reading import collapse
from bacadi.inference.auto import chosen_model
from bacadi.inference.completion import complete, draw_mechanisms_of
from bacadi.inference.fit import fit
from bacadi.inference.mcmc.method import MCMC
from bacadi.inference.mcmc.start import Structure
from bacadi.inference.method import Problem
from bacadi.inference.tails import tail_weights
from bacadi.model.effects import EffectMixture, HardGaussian, ShiftGaussian, SoftGaussian
from bacadi.model.knowledge import Knowledge, Labels
from bacadi.model.model import Model
from bacadi.simulate import Interventions, SyntheticSpec, simulate

SPEC = SyntheticSpec(6, n_observational=300, interventions=Interventions(n_contexts=4, rows_per_context=100))


def problem_of(data: ContextData, model: Model) -> Problem:
    labels = Labels(data.variables, data.contexts)
    return Problem(data, model, Knowledge.none(data.n_variables, data.n_contexts, labels))


def test_a_missing_cell_is_one_of_its_completions() -> None:
    """The true value ranks among nine completions as any of them does, for hard targets and for all others: mean rank
    4.5 and a fifth at the ends. Cells of a row depend on each other; the bounds are six standard errors and more of 80
    and of 1,000 independent cells."""
    task = simulate(SPEC, 3)
    gone = np.random.default_rng(0).random(task.data.x.shape) < 0.3
    holes = replace(task.data, x=np.where(gone, np.nan, task.data.x))
    problem = problem_of(task.data, Model(effect=HardGaussian()))
    whole = np.stack([complete(np.random.default_rng(s), holes, problem).x for s in range(9)])
    assert (whole[:, ~gone] == task.data.x[~gone]).all() and np.isfinite(whole).all()
    hit = np.vstack([np.zeros(6), task.targets])[task.data.context] != 0
    for cells, mean, ends in ((gone & hit, 2.0, 0.45), (gone & ~hit, 0.5, 0.28)):
        rank = (whole[:, cells] < task.data.x[cells]).sum(axis=0)
        assert abs(rank.mean() - 4.5) < mean and np.isin(rank, (0, 9)).mean() < ends


def test_mechanisms_of_every_kind_of_effect() -> None:
    """The mechanisms of a context reproduce its means and variances: hard, shifted and soft targets."""
    task = simulate(SPEC, 5)
    effects = EffectMixture((HardGaussian(), ShiftGaussian(), SoftGaussian((), True)))
    problem = problem_of(task.data, Model(effect=effects))
    collapsed = collapse(problem.model, problem.standardized, problem.knowledge)
    for name in ("hard", "shift 5", "soft"):
        states = np.where(task.targets != 0, collapsed.evidence.states.names.index(name), 0).astype(np.int8)
        structure = Structure(task.graph.astype(np.int8), states)
        found = [draw_mechanisms_of(np.random.default_rng(s), problem, collapsed, structure) for s in range(20)]
        for k in range(5):
            rows = problem.standardized.x[task.data.context == k]
            mean = np.mean([one.moments(k)[0] for one in found], axis=0)
            free = task.targets[k - 1] == 0 if k else np.ones(6, bool)
            if name == "hard":
                assert np.abs(mean - rows.mean(axis=0)).max() < 0.6
            elif name == "soft":
                assert np.abs(mean - rows.mean(axis=0))[~free].max(initial=0.0) < 0.6


def test_rows_that_are_far_off_count_less_for_what_is_far_off() -> None:
    task = simulate(replace(SPEC, n_variables=12, interventions=replace(SPEC.interventions, n_contexts=6)), 1)
    x = task.data.x.copy()
    root = int(np.flatnonzero(task.graph.sum(axis=0) == 0)[0])
    leaf = int(np.flatnonzero(task.graph.sum(axis=1) == 0)[-1])
    x[:20, leaf] += 8 * task.noise_std[leaf] * np.sign(np.random.default_rng(0).normal(size=20))
    data = replace(task.data, x=x)
    problem = problem_of(data, Model(effect=HardGaussian()))
    states = collapse(problem.model, problem.standardized).evidence.states
    structure = Structure(task.graph.astype(np.int8), (task.targets != 0).astype(np.int8))
    weight = tail_weights(problem.standardized, structure, states.kind)
    assert weight[:20, leaf].max() < 0.3 and weight[20:, leaf].mean() > 0.9 and weight.max() <= 1
    assert (weight[:, root] == 1).all() or root == leaf
    chosen = chosen_model(problem)
    assert chosen.weight is not None and any("tails" in line for line in chosen.words())
    assert chosen_model(problem_of(task.data, Model(effect=HardGaussian()))).weight is None


def test_one_row_that_is_far_off_makes_no_target() -> None:
    """Were its context a target, with a mean and a scale of its own, the row would count for more than it should."""
    task = simulate(SPEC, 3)
    leaf = int(np.flatnonzero((task.graph.sum(axis=1) == 0) & (task.graph.sum(axis=0) > 0))[0])
    context = int(np.flatnonzero(task.targets[:, leaf] == 0)[0])
    x, row = task.data.x.copy(), int(np.flatnonzero(task.data.context == context + 1)[0])
    x[row, leaf] += 30 * task.noise_std[leaf]
    data = replace(task.data, x=x)
    named = (task.targets != 0).astype(np.int8)
    named[context, leaf] = 1
    problem = problem_of(data, Model(effect=HardGaussian()))
    kind = collapse(problem.model, problem.standardized).evidence.states.kind
    weight = tail_weights(problem.standardized, Structure(task.graph.astype(np.int8), named), kind)
    assert weight[row, leaf] < 0.02 and np.delete(weight[:, leaf], row).mean() > 0.8


def test_what_is_open_is_chosen_where_the_model_completed_the_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells completed by one Gaussian for all contexts look as if all variances differed, and slopes drifted."""
    monkeypatch.setattr("bacadi.inference.fit.COMPLETIONS", 1)
    spec = SyntheticSpec(10, n_observational=300, interventions=Interventions(n_contexts=10, rows_per_context=80))
    task = simulate(spec, 5)
    gone = np.random.default_rng(0).random(task.data.x.shape) < 0.3
    holes = replace(task.data, x=np.where(gone, np.nan, task.data.x))
    posterior = fit(holes, method=MCMC(n_draws=20, n_sweeps=20), seed=5)
    assert posterior.attrs["chosen"]["words"][0].startswith("effects: hard, chosen by evidence")
