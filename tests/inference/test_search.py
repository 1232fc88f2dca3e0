"""The compiled search over causal orders against the plain one, and what it finds."""

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest

from bacadi.data.contexts import ContextData, mean_shift_z
from bacadi.evidence.collapsed import CollapsedPosterior
from bacadi.evidence.reading import collapse
from bacadi.evidence.scan import single_changes
from bacadi.graph.dag import is_acyclic
from bacadi.inference.mcmc import search
from bacadi.inference.mcmc.chain import CompiledTarget
from bacadi.inference.mcmc.ladder import compiled_target
from bacadi.inference.mcmc.method import MoveWeights
from bacadi.inference.mcmc.start import Orders, causal_order
from bacadi.model.effects import EffectMixture
from bacadi.model.knowledge import Knowledge
from bacadi.model.model import Model
from bacadi.simulate import SyntheticSpec, Task, simulate

Problem = tuple[CollapsedPosterior, ContextData, CompiledTarget]


def task(d: int, seed: int = 0) -> Task:
    return simulate(SyntheticSpec(n_variables=d), seed)


def problem(of: Task, model: Model | None = None, knowledge: Knowledge | None = None) -> Problem:
    data = of.data.standardized()
    collapsed = collapse(model or Model(), data, knowledge)
    return collapsed, data, compiled_target(collapsed, data, MoveWeights())


def knowledge(d: int) -> Knowledge:
    """An edge that is required, some that are forbidden, at most two parents and a known target."""
    odds = np.zeros((d, d))
    odds[0, 1], odds[2, 3:] = np.inf, -np.inf
    known = np.full((d, d), np.nan)
    known[0, 2], known[1] = 1, 0
    return replace(Knowledge.none(d, d).with_edges(odds).known_targets(known), max_parents=2)


CASES = {
    "hard": (None, None),
    "any": (Model(effect=EffectMixture()), None),
    "knowledge": (None, knowledge(8)),
}


@pytest.mark.parametrize("name", CASES)
def test_along_an_order_it_finds_what_the_plain_search_finds(name: str) -> None:
    """The same greedy search, in Python and compiled."""
    collapsed, data, target = problem(task(8), *CASES[name])
    for seed in range(3):
        order = causal_order(np.random.default_rng(seed), mean_shift_z(data), collapsed.prior)
        plain, found = Orders(collapsed).structure(order), search.along(order, target)
        search.search_all(target, found)
        np.testing.assert_array_equal(found.parents.T, plain.graph)
        np.testing.assert_array_equal(found.states.T, plain.states)
        score = collapsed.log_posterior(plain.graph, plain.states)
        np.testing.assert_allclose(found.score.sum(), score, rtol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_no_step_makes_anything_worse_and_all_that_is_known_holds(name: str) -> None:
    collapsed, data, target = problem(task(8, 1), *CASES[name])
    rng = np.random.default_rng(0)
    order = causal_order(rng, mean_shift_z(data), collapsed.prior)
    found, trial = search.along(order, target), search.along(order, target)
    search.search_all(target, found)
    steps = (search.REVERSE, search.SETTLE, search.RECONSIDER)
    for node, step in product(rng.permutation(8), steps):
        before, moved = found.score.sum(), search.take_step(target, found, trial, node, step)
        graph, states = found.parents.T.astype(np.int8), np.ascontiguousarray(found.states.T)
        assert found.score.sum() > before if moved else found.score.sum() == before
        np.testing.assert_allclose(found.score.sum(), collapsed.log_posterior(graph, states), rtol=1e-10)
        assert sorted(found.order) == list(range(8))
        assert (found.order[found.place] == np.arange(8)).all()
        i, j = np.nonzero(graph)
        assert (found.place[i] < found.place[j]).all()
        assert not graph[collapsed.prior.forbidden].any() and graph[collapsed.prior.required].all()


def test_the_best_of_few_variables_is_the_best_of_all_orders() -> None:
    """Restarts find the best greedy structure of all 120 orders of five variables, or a better one."""
    for seed in range(4):
        collapsed, _, target = problem(task(5, seed))
        best = -np.inf
        for order in permutations(range(5)):
            found = search.along(np.array(order), target)
            search.search_all(target, found)
            best = max(best, found.score.sum())
        rng = np.random.default_rng(seed)
        graph, states = search.optima(rng, target, (rng.permutation(5) for _ in range(search.RESTARTS)))[0]
        assert is_acyclic(graph)
        assert collapsed.log_posterior(graph, states) > best - 1e-6


def test_searches_end_when_the_best_was_found_twice_or_time_is_over() -> None:
    _, _, target = problem(task(5))
    asked = []

    def orders() -> object:
        for seed in range(search.RESTARTS):
            asked.append(seed)
            yield np.random.default_rng(seed).permutation(5)

    found = search.optima(np.random.default_rng(0), target, orders())
    assert 2 <= len(found) == len(asked) <= search.RESTARTS
    assert len(search.optima(np.random.default_rng(0), target, orders(), over=lambda: True)) == 1


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_truth_is_found_where_the_data_tell_it(seed: int) -> None:
    """On tasks of the paper's recipe no greedy search along the best order alone finds it (a parent and a target that
    explain the same rows)."""
    of = task(12, seed)
    collapsed, data, target = problem(of)
    rng = np.random.default_rng(seed)
    orders = (causal_order(rng, mean_shift_z(data), collapsed.prior) for _ in range(search.RESTARTS))
    best = collapsed.log_posterior(*search.optima(rng, target, orders)[0])
    assert best > collapsed.log_posterior(of.graph, of.effects.targets) - 1e-6


def test_short_lists_end_where_no_single_change_of_a_parent_or_state_helps() -> None:
    """From 97 candidates on only some of them are scored in every round, all of them in the last one."""
    collapsed, data, target = problem(simulate(SyntheticSpec(110, n_observational=50), 0))
    found = search.along(causal_order(np.random.default_rng(0), mean_shift_z(data), collapsed.prior), target)
    search.search_all(target, found)
    prior = collapsed.prior
    for node in found.order[97::4]:
        parents, states = found.parents[node][None], found.states[node][None]
        toggled, of_state = np.empty((1, 110)), np.empty((1, 110, prior.state_log_prior.shape[2]))
        single_changes(target.tables, node, parents, states, toggled, of_state)
        gain = toggled[0] + np.where(parents[0], -1, 1) * prior.edge_log_odds[:, node]
        before = found.place < found.place[node]
        assert gain[before].max() < 1e-5
        log_prior = prior.state_log_prior[:, node]
        assert (of_state[0] + log_prior - log_prior[np.arange(110), states[0]][:, None]).max() < 1e-5
