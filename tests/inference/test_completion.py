"""Missing cells completed by the model that is fitted, and rows that are far off."""

from dataclasses import replace

import numpy as np

from bacadi.data.contexts import ContextData
from bacadi.evidence.reading import collapse
from bacadi.inference.auto import chosen_model
from bacadi.inference.completion import complete, draw_mechanisms_of
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


def test_cells_are_drawn_from_the_mechanisms_of_their_context() -> None:
    """A hard target that lost its parents is completed without them: errors of 30 % missing cells have the variance
    that the truth leaves, within a tenth (about four standard errors of 300 cells and more per kind)."""
    task = simulate(SPEC, 3)
    rng = np.random.default_rng(0)
    gone = rng.random(task.data.x.shape) < 0.3
    holes = replace(task.data, x=np.where(gone, np.nan, task.data.x))
    problem = problem_of(task.data, Model(effect=HardGaussian()))
    whole = [complete(np.random.default_rng(s), holes, problem).x for s in range(3)]
    assert all((one[~gone] == task.data.x[~gone]).all() and np.isfinite(one).all() for one in whole)
    hit = (np.vstack([np.zeros(6), task.targets])[task.data.context] != 0) & gone
    std = np.vstack([task.noise_std, np.where(task.targets != 0, task.effects.std, task.noise_std)])[task.data.context]
    for cells in (hit, gone & ~hit):
        draws = np.stack([((one - task.data.x) / std)[cells] for one in whole])
        # Truth and draw each have at most the variance of the noise given the parents; children only narrow it.
        assert draws.std() < np.sqrt(2) * 1.3 and abs(draws.mean()) < 0.3


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
    task = simulate(SPEC, 1)
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
