"""Mechanisms that bend where parents have moved: what is a target and what is not, against a sum over both."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError
from bacadi.evidence.collapsed import CollapsedPosterior
from bacadi.evidence.gram import reach
from bacadi.evidence.reading import collapse
from bacadi.graph.enumerate import all_dags
from bacadi.inference.collapsed import drawn_targets
from bacadi.inference.conditionals import log_odds
from bacadi.inference.exact.enumeration import enumerate_posterior
from bacadi.inference.exact.method import Exact
from bacadi.inference.exact.subsets import sum_over_subsets
from bacadi.inference.fit import fit
from bacadi.inference.mcmc.method import MCMC
from bacadi.inference.method import Monitor
from bacadi.model.certainty import ContextDrift
from bacadi.model.effects import HardGaussian
from bacadi.model.knowledge import Knowledge
from bacadi.model.model import Model
from bacadi.posterior.posterior import EXACT_TARGETS

PLAIN = ContextDrift((0.1, 0.3), (0.0, 0.0), None, moves=(0.0, 0.5))
MODEL = Model(effect=HardGaussian(), drift=PLAIN.replace(bend=0.7))
DRAWS = 20_000


def moved_data() -> ContextData:
    """A chain of three variables; contexts move the first and the last, and the second by more than its slope."""
    rng = np.random.default_rng(3)
    context = np.repeat(np.arange(3), [12, 6, 6])
    x = rng.normal(size=(24, 3)) @ np.array([[1.0, 0.8, 0.5], [0, 1.0, 0.6], [0, 0, 1.0]])
    x[context == 1] += [3.0, 3.0, 1.5]
    x[context == 2, 2] -= 1.5
    return ContextData(x, context, ("a", "b", "c"), ("one", "two"), "obs")


@pytest.fixture(scope="module")
def collapsed() -> CollapsedPosterior:
    return collapse(MODEL, moved_data())


def by_hand(data: ContextData) -> np.ndarray:
    """P(target) by summing over graphs and over three labels of every pair: untouched, target, bent."""
    plain = collapse(MODEL.replace(drift=PLAIN), data)
    odds, far = np.exp(MODEL.target_prior.log_odds(3)), reach(data, data.counts.astype(float))
    log_p, targets = [], []
    for graph in all_dags(3):
        moved = far @ graph
        bent = 0.7 * moved / (1 + moved)
        for labels in product(range(3), repeat=6):
            label = np.array(labels, np.int8).reshape(2, 3)
            state = (label > 0).astype(np.int8)
            evidence = [plain.evidence.log_evidence(j, graph[:, j] > 0, state[:, j]) for j in range(3)]
            with np.errstate(divide="ignore"):
                prior = np.log(np.choose(label, [np.ones((2, 3)), odds * np.ones((2, 3)), bent]) / (1 + odds + bent))
            log_p.append(sum(evidence) + plain.prior.log_prob_graph(graph) + prior.sum())
            targets.append(label == 1)
    return np.tensordot(np.exp(log_p - logsumexp(log_p)), np.array(targets, float), 1)


def test_targets_are_those_of_a_sum_over_labels(collapsed: CollapsedPosterior) -> None:
    expected, exact = by_hand(moved_data()), enumerate_posterior(collapsed)
    assert ((expected > 0.02) & (expected < 0.98)).sum() >= 2
    np.testing.assert_allclose(exact.target_marginals, expected, atol=1e-10)
    np.testing.assert_allclose(sum_over_subsets(collapsed, Monitor()).target_marginals, expected, atol=1e-10)
    pairs = exact.weighted(10**6)
    assert pairs is not None
    odds = log_odds(collapsed, pairs.graphs, pairs.states, pairs.log_weight, len(pairs.graphs)).targets
    np.testing.assert_allclose(odds, np.log(expected) - np.log1p(-expected), atol=1e-6)


def test_draws_name_the_share_of_targets(collapsed: CollapsedPosterior) -> None:
    """Independent draws, bands of 5 standard errors: false-alarm rate 6e-7 each, of six."""
    exact, rng = enumerate_posterior(collapsed), np.random.default_rng(1)
    draws, p = exact.draws(rng, DRAWS), exact.target_marginals
    named = drawn_targets(rng, collapsed.evidence, draws.graphs[None], draws.states[None])[0]
    assert (np.abs(named.mean(axis=0) - p) < 5 * np.sqrt(p * (1 - p) / DRAWS) + 1e-3).all()
    assert not (named & (draws.states == 0)).any()


def test_methods_agree() -> None:
    data, means = moved_data(), []
    for method in (Exact(), MCMC(n_draws=2000)):
        posterior = fit(data, model=MODEL, method=method, seed=1)
        means.append(posterior.targets().set_index(["context", "variable"])["probability"].sort_index().to_numpy())
        if isinstance(method, Exact):
            assert EXACT_TARGETS in posterior.constant_data
    assert np.abs(means[0] - means[1]).max() < 0.05  # at least 400 effective draws: two standard errors


def test_a_number_of_targets_cannot_be_held() -> None:
    data, counts = moved_data(), np.log(np.full((2, 4), 0.25))
    knowledge = Knowledge.none(3, 2)
    with pytest.raises(ConfigError, match="bend"):
        collapse(MODEL, data, replace(knowledge, target_count_log=counts))
