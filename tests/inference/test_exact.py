"""Exact inference against the plain sum over every DAG and every table of states, and what follows from exactness."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom, chi2

from bacadi.errors import ConfigError, InferenceError
from bacadi.evidence.collapsed import CollapsedPosterior
from bacadi.graph.dag import is_acyclic
from bacadi.graph.enumerate import all_dags, all_digraphs
from bacadi.inference.exact import enumeration, local
from bacadi.inference.exact.enumeration import ExactPosterior, enumerate_posterior
from bacadi.inference.exact.local import ExactDraws

from .collapsed_problems import brute_force, random_collapsed, relabelled


def a_problem(seed: int, d: int, m: int, n_states: int = 2, **options: bool) -> CollapsedPosterior:
    return random_collapsed(np.random.default_rng(seed), d, m, n_states, **options)


def with_prior(collapsed: CollapsedPosterior, **changes: object) -> CollapsedPosterior:
    return replace(collapsed, prior=replace(collapsed.prior, **changes))


def scale_free(d: int) -> np.ndarray:
    return -3 * np.log1p(np.arange(d))


PROBLEMS = {
    "plain": a_problem(0, 3, 2, constrained=False),
    "constraints": a_problem(1, 3, 2),
    "three states": a_problem(2, 3, 2, 3, constrained=False),
    "four variables, one context": a_problem(3, 4, 1),
    "count prior": a_problem(4, 3, 2, constrained=False, counted=True),
    "count prior, constraints, three states": a_problem(5, 3, 2, 3, counted=True),
    "count prior in one context of two": with_prior(
        a_problem(6, 3, 2), target_count_log=np.array([[0.3] * 4, [0, 1, -np.inf, -1]])
    ),
    "exactly one target": with_prior(
        a_problem(7, 3, 2, constrained=False), target_count_log=np.array([[-np.inf, 0, -np.inf, -np.inf]] * 2)
    ),
    "scale-free": with_prior(a_problem(8, 3, 2, constrained=False), out_degree_log=scale_free(3)),
    "one parent": with_prior(a_problem(9, 4, 1, constrained=False), max_parents=1),
    "no parent": with_prior(a_problem(10, 3, 1, constrained=False), max_parents=0),
    "no context": a_problem(11, 4, 0),
    "one variable": a_problem(12, 1, 2, 3, counted=True),
}


@cache
def summed_plainly(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`brute_force` of a problem, made once for the tests that share it."""
    return brute_force(PROBLEMS[name])


def sorted_by_graph(posterior: ExactPosterior) -> dict[bytes, float]:
    return {g.tobytes(): p for g, p in zip(posterior.dags, np.exp(posterior.dag_log_prob), strict=True)}


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_answer_equals_the_plain_sum(name: str) -> None:
    posterior = enumerate_posterior(PROBLEMS[name])
    dags, states, log_p = summed_plainly(name)
    probs = np.exp(log_p - logsumexp(log_p))
    np.testing.assert_allclose(posterior.log_evidence, logsumexp(log_p), rtol=1e-12)
    np.testing.assert_allclose(np.exp(posterior.dag_log_prob).sum(), 1, rtol=1e-12)
    found = sorted_by_graph(posterior)
    np.testing.assert_allclose([found.get(g.tobytes(), 0.0) for g in dags], probs.sum(axis=1), atol=1e-13)
    np.testing.assert_allclose(posterior.edge_marginals, np.einsum("n,nij->ij", probs.sum(axis=1), dags), atol=1e-12)
    kinds = np.arange(posterior.prior.state_log_prior.shape[2])
    of_state = np.einsum("s,skjt->kjt", probs.sum(axis=0), states[..., None] == kinds)
    np.testing.assert_allclose(posterior.state_marginals, of_state, atol=1e-12)
    np.testing.assert_allclose(posterior.target_marginals, 1 - of_state[:, :, 0], atol=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_joint_log_prob_and_weighted_pairs(name: str) -> None:
    posterior = enumerate_posterior(PROBLEMS[name])
    dags, states, log_p = summed_plainly(name)
    log_probs = log_p - logsumexp(log_p)
    rng = np.random.default_rng(0)
    for g, s in zip(rng.integers(len(dags), size=60), rng.integers(len(states), size=60), strict=True):
        np.testing.assert_allclose(posterior.log_prob(dags[g], states[s]), log_probs[g, s], rtol=1e-9, atol=1e-9)
    n_pairs = int((log_probs > -np.inf).sum())
    pairs = posterior.weighted(n_pairs)
    assert pairs is not None and len(pairs.log_weight) == n_pairs
    assert posterior.weighted(n_pairs - 1) is None
    expected = {(g.tobytes(), s.tobytes()): log_probs[a, b] for a, g in enumerate(dags) for b, s in enumerate(states)}
    keys = [(g.tobytes(), s.tobytes()) for g, s in zip(pairs.graphs, pairs.states, strict=True)]
    assert len(set(keys)) == n_pairs
    np.testing.assert_allclose(pairs.log_weight, [expected[key] for key in keys], rtol=1e-9, atol=1e-9)


def test_log_prob_of_what_cannot_be() -> None:
    problem = PROBLEMS["constraints"]
    posterior, none = enumerate_posterior(problem), np.zeros((2, 3), np.int8)
    cyclic = [g for g in all_digraphs(3) if not is_acyclic(g)]
    assert all(posterior.log_prob(g, none) == -np.inf for g in cyclic)
    assert posterior.log_prob(np.zeros((3, 3), np.int8), none) == -np.inf  # an edge is required


def frequencies(draws: ExactDraws, n_states: int) -> np.ndarray:
    """Edge and state indicators of every draw, side by side."""
    states = draws.states[..., None] == np.arange(n_states)
    return np.concatenate([draws.graphs.reshape(len(draws.graphs), -1), states.reshape(len(states), -1)], axis=1)


@pytest.mark.parametrize("name", ["constraints", "three states", "count prior, constraints, three states"])
def test_draws_have_the_marginals(name: str) -> None:
    """Every frequency between the binomial quantiles of a false-alarm rate of 1e-4 a problem, all of them together."""
    posterior, n = enumerate_posterior(PROBLEMS[name]), 20_000
    draws = posterior.draws(np.random.default_rng(3), n)
    marginals = np.concatenate([posterior.edge_marginals.ravel(), posterior.state_marginals.ravel()])
    found = frequencies(draws, posterior.state_marginals.shape[2]).sum(axis=0)
    rare = np.minimum(binom.cdf(found, n, marginals), binom.sf(found - 1, n, marginals))
    assert rare.min() > 1e-4 / (2 * len(marginals))
    np.testing.assert_allclose(draws.log_weight, -np.log(n))


@pytest.mark.parametrize("name", ["plain", "exactly one target"])
def test_draws_have_the_joint_distribution(name: str) -> None:
    """Pearson's test over the pairs (G, S), the rare ones in one cell, at a false-alarm rate of 1e-4 a problem."""
    posterior, n = enumerate_posterior(PROBLEMS[name]), 20_000
    draws, pairs = posterior.draws(np.random.default_rng(4), n), posterior.weighted(10_000)
    assert pairs is not None
    keys = {(g.tobytes(), s.tobytes()): i for i, (g, s) in enumerate(zip(pairs.graphs, pairs.states, strict=True))}
    drawn = [keys[g.tobytes(), s.tobytes()] for g, s in zip(draws.graphs, draws.states, strict=True)]
    expected, counts = n * np.exp(pairs.log_weight), np.bincount(drawn, minlength=len(keys))
    common = expected >= 5
    expected = np.append(expected[common], expected[~common].sum())
    counts = np.append(counts[common], counts[~common].sum())
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-4, len(expected) - 1)


def test_draws_are_repeatable() -> None:
    posterior = enumerate_posterior(PROBLEMS["count prior"])
    one, two = (posterior.draws(np.random.default_rng(5), 50) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("counted", [False, True])
def test_relabelling_the_variables_relabels_the_answer(counted: bool) -> None:
    problem, order = a_problem(20, 4, 2, 3, counted=counted), np.array([2, 0, 3, 1])
    one, two = enumerate_posterior(problem), enumerate_posterior(relabelled(problem, order))
    np.testing.assert_allclose(two.log_evidence, one.log_evidence, rtol=1e-12)
    np.testing.assert_allclose(two.edge_marginals, one.edge_marginals[np.ix_(order, order)], atol=1e-12)
    np.testing.assert_allclose(two.state_marginals, one.state_marginals[:, order], atol=1e-12)


def test_a_constant_count_prior_and_a_constant_evidence_change_nothing_but_the_normaliser() -> None:
    """Also where it is carried as a count: a row that differs only in a count that is excluded anyway."""
    problem = a_problem(21, 4, 2)
    plain = enumerate_posterior(problem)
    shifted = enumerate_posterior(with_prior(problem, target_count_log=np.full((2, 5), -700.0)))
    np.testing.assert_allclose(shifted.log_evidence, plain.log_evidence - 1400, rtol=1e-12)
    np.testing.assert_allclose(shifted.state_marginals, plain.state_marginals, atol=1e-12)
    known = problem.prior.state_log_prior.copy()
    known[:, 0, 1:], known[:, 0, 0] = -np.inf, 0.0
    known_problem = with_prior(problem, state_log_prior=known)
    counted = np.zeros((2, 5))
    counted[:, 4] = -3.0  # four targets never occur: variable 0 is none
    coupled, free = (
        enumerate_posterior(p) for p in (with_prior(known_problem, target_count_log=counted), known_problem)
    )
    assert coupled.messages[0].ndim == 3 and free.messages[0].ndim == 1
    np.testing.assert_allclose(coupled.dag_log_prob, free.dag_log_prob, atol=1e-10)
    np.testing.assert_allclose(coupled.state_marginals, free.state_marginals, atol=1e-12)


def test_differences_of_thousands_of_nats() -> None:
    """Real data give such evidence; an exact count that the data speak against must not underflow."""
    problem = PROBLEMS["exactly one target"]
    evidence = problem.evidence
    evidence = type(evidence)(1000 * evidence.table, evidence.n_contexts, evidence.states.n_states)
    problem = replace(problem, evidence=evidence)
    posterior = enumerate_posterior(problem)
    dags, states, log_p = brute_force(problem)
    g, s = np.unravel_index(np.argmax(log_p), log_p.shape)
    np.testing.assert_allclose(posterior.log_evidence, logsumexp(log_p), rtol=1e-12)
    np.testing.assert_allclose(posterior.log_prob(dags[g], states[s]), log_p[g, s] - logsumexp(log_p), atol=1e-8)
    np.testing.assert_allclose(posterior.target_marginals.sum(axis=1), 1, rtol=1e-9)
    pairs, draws = posterior.weighted(10), posterior.draws(np.random.default_rng(0), 5)
    assert pairs is not None and np.array_equal(draws.states, np.stack([states[s]] * 5))
    assert np.array_equal(draws.graphs, np.stack([dags[g]] * 5))


def test_weighted_leaves_out_what_is_below_1e_12() -> None:
    problem = a_problem(22, 3, 1, constrained=False)
    odds = problem.prior.edge_log_odds.copy()
    odds[0, 1] = -60.0
    pairs = enumerate_posterior(with_prior(problem, edge_log_odds=odds)).weighted(10_000)
    assert pairs is not None and not pairs.graphs[:, 0, 1].any()
    np.testing.assert_allclose(np.exp(pairs.log_weight).sum(), 1, rtol=1e-12)


def test_five_variables_keep_every_dag() -> None:
    posterior = enumerate_posterior(a_problem(23, 5, 1, constrained=False))
    assert len(posterior.dags) == len(all_dags(5)) == 29281
    np.testing.assert_allclose(np.exp(posterior.dag_log_prob).sum(), 1, rtol=1e-10)
    np.testing.assert_allclose(posterior.state_marginals.sum(axis=2), 1, rtol=1e-10)
    assert posterior.weighted(29281) is None


def test_refusals_name_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="All DAGs of 6 nodes cannot be listed"):
        enumerate_posterior(a_problem(0, 6, 1))
    problem = a_problem(30, 3, 2, constrained=False)
    monkeypatch.setattr(local, "MAX_COSTLY_TERMS", 47)
    with pytest.raises(ConfigError, match="3 variables and 2 contexts needs 48 local terms and takes at most 47"):
        enumerate_posterior(problem)
    monkeypatch.setattr(local, "MAX_COSTLY_TERMS", 48)
    enumerate_posterior(problem)
    # 25 DAGs, 12 = 3 · 2² and 4 suffixes; patterns 2²; counts (j + 1)²: 4 (25 + 4 · 12 + 9 · 4).
    counted = a_problem(31, 3, 2, constrained=False, counted=True)
    monkeypatch.setattr(enumeration, "MAX_COUNT_TERMS", 435)
    with pytest.raises(ConfigError, match="in 2 contexts needs sums of 436 terms"):
        enumerate_posterior(counted)
    monkeypatch.setattr(enumeration, "MAX_COUNT_TERMS", 436)
    enumerate_posterior(counted)


def test_constraints_that_leave_nothing() -> None:
    problem = a_problem(32, 3, 2, constrained=False)
    both = problem.prior.edge_log_odds.copy()
    both[0, 1] = both[1, 0] = np.inf
    with pytest.raises(ConfigError, match="No DAG of 3 variables"):
        enumerate_posterior(with_prior(problem, edge_log_odds=both))
    nothing = problem.prior.state_log_prior.copy()
    nothing[1, 2] = -np.inf
    with pytest.raises(ConfigError, match="variable 2 in context 1"):
        enumerate_posterior(with_prior(problem, state_log_prior=nothing))
    with pytest.raises(InferenceError, match="probability 0"):
        enumerate_posterior(with_prior(problem, target_count_log=np.full((2, 4), -np.inf)))


def test_evidence_that_is_no_number() -> None:
    problem = a_problem(33, 3, 1)
    problem.evidence.table[1] = np.nan
    with pytest.raises(InferenceError, match="variable 1"):
        enumerate_posterior(problem)
