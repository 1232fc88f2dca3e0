"""Sums over sets of nodes against enumeration, counts of graphs, and MCMC where nothing else reaches."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom, chi2

from bacadi import MCMC, ContextData, EffectMixture, Exact, HardGaussian, Knowledge, Model, ShiftGaussian, fit
from bacadi.errors import ConfigError, InferenceError
from bacadi.evidence.collapsed import CollapsedPosterior
from bacadi.evidence.reading import collapse
from bacadi.graph.dag import is_acyclic
from bacadi.graph.enumerate import log_orders
from bacadi.inference.exact import local, subsets
from bacadi.inference.exact.enumeration import enumerate_posterior
from bacadi.inference.exact.recursions import log_orders_of
from bacadi.inference.exact.subsets import SubsetPosterior
from bacadi.inference.method import Monitor, Progress
from bacadi.model.noise import InferredNoise
from bacadi.model.priors import OrderedErdosRenyi, PreferentialAttachment, ScaleFree
from bacadi.posterior.posterior import EXACT_EDGES, EXACT_TARGETS

from .collapsed_problems import TableEvidence, random_collapsed, relabelled


def with_prior(collapsed: CollapsedPosterior, **changes: object) -> CollapsedPosterior:
    return replace(collapsed, prior=replace(collapsed.prior, **changes))


def a_problem(seed: int, d: int, m: int, n_states: int = 2, **options: bool) -> CollapsedPosterior:
    """Random terms; out-degrees and numbers of targets add something, but the same to every graph and all states."""
    problem = random_collapsed(np.random.default_rng(seed), d, m, n_states, **options)
    return with_prior(problem, out_degree_log=np.full(d, 0.3), target_count_log=np.full((m, d + 1), -0.7))


def some_data(seed: int, d: int, rows: tuple[int, ...]) -> ContextData:
    """A sparse linear network, one variable moved in every context but the first, so few rows that much is open."""
    rng, context = np.random.default_rng(seed), np.repeat(np.arange(len(rows)), rows)
    weight = np.triu(rng.normal(0, 0.6, (d, d)) * (rng.random((d, d)) < 0.4), 1)
    noise = rng.normal(size=(len(context), d))
    for k in range(1, len(rows)):
        noise[context == k, rng.integers(d)] += 2
    names, contexts = (tuple(f"{letter}{i}" for i in range(n)) for letter, n in (("x", d), ("k", len(rows) - 1)))
    return ContextData(noise @ np.linalg.inv(np.eye(d) - weight), context, names, contexts, "obs")


def a_model_problem(seed: int, d: int, model: Model, knowledge: Knowledge | None = None) -> CollapsedPosterior:
    return collapse(model, some_data(seed, d, (8, 5, 4)).standardized_within(), knowledge)


KNOWN = Knowledge.none(5, 2).require(0, 3).forbid(1, 2).forbid(3, 4).limit_parents(2).candidates(1, [0, 2, 4])
ANY = EffectMixture((HardGaussian(InferredNoise(), 0.5, 3.0), ShiftGaussian(2.0)))
PROBLEMS = {
    "one variable": a_problem(0, 1, 2, 3),
    "two variables": a_problem(1, 2, 2, constrained=False),
    "three variables": a_problem(2, 3, 2, 3, constrained=False),
    "three variables, constraints": a_problem(3, 3, 2, 3),
    "four variables": a_problem(4, 4, 1, constrained=False),
    "four variables, constraints, orders": a_problem(5, 4, 2, over_orders=True),
    "five variables": a_problem(6, 5, 2, constrained=False),
    "five variables, constraints": a_problem(7, 5, 1),
    "five variables, orders": a_problem(8, 5, 1, constrained=False, over_orders=True),
    "one parent": with_prior(a_problem(9, 5, 1, constrained=False), max_parents=1),
    "one parent, orders": with_prior(a_problem(10, 5, 1, constrained=False, over_orders=True), max_parents=1),
    "no parent": with_prior(a_problem(11, 4, 1, constrained=False), max_parents=0),
    "no context": a_problem(12, 5, 0),
    "hard effects": a_model_problem(13, 4, Model()),
    "hard effects, knowledge": a_model_problem(14, 5, Model(), KNOWN),
    "any effect, knowledge": a_model_problem(15, 5, Model(effect=ANY), KNOWN),
    "any effect, knowledge, orders": a_model_problem(16, 5, Model(effect=ANY, graph_prior=OrderedErdosRenyi()), KNOWN),
}


def sum_over_subsets(collapsed: CollapsedPosterior) -> SubsetPosterior:
    return subsets.sum_over_subsets(collapsed, Monitor())


@cache
def summed(name: str) -> SubsetPosterior:
    return sum_over_subsets(PROBLEMS[name])


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_answer_equals_enumeration(name: str) -> None:
    found, wanted = summed(name), enumerate_posterior(PROBLEMS[name])
    np.testing.assert_allclose(found.log_evidence, wanted.log_evidence, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(found.edge_marginals, wanted.edge_marginals, atol=1e-11)
    np.testing.assert_allclose(found.state_marginals, wanted.state_marginals, atol=1e-11)
    np.testing.assert_allclose(found.target_marginals, wanted.target_marginals, atol=1e-11)
    for j, (node, probs) in enumerate(zip(found.choices, found.parent_probs, strict=True)):
        chosen = (wanted.dags[:, None, :, j] == node.parents).all(axis=2)
        np.testing.assert_allclose(probs, np.exp(wanted.dag_log_prob) @ chosen, atol=1e-11)


@pytest.mark.parametrize("over_orders", [False, True])
def test_differences_of_thousands_of_nats(over_orders: bool) -> None:
    """The best graph that is acyclic may be as far from the best parents of every node."""
    problem = a_problem(20, 5, 1, over_orders=over_orders)
    assert isinstance(problem.evidence, TableEvidence)
    problem = replace(problem, evidence=TableEvidence(2000 * problem.evidence.table, 1, 2))
    found, wanted = sum_over_subsets(problem), enumerate_posterior(problem)
    np.testing.assert_allclose(found.log_evidence, wanted.log_evidence, rtol=1e-12)
    np.testing.assert_allclose(found.edge_marginals, wanted.edge_marginals, atol=1e-9)
    np.testing.assert_allclose(found.state_marginals, wanted.state_marginals, atol=1e-9)


@pytest.mark.parametrize("name", ["four variables, constraints, orders", "five variables", "any effect, knowledge"])
def test_draws_have_the_marginals(name: str) -> None:
    """Every frequency between the binomial quantiles of a false-alarm rate of 1e-4 a problem, all of them together."""
    posterior, n = summed(name), 20_000
    draws = posterior.draws(np.random.default_rng(3), n)
    assert is_acyclic(draws.graphs).all()
    marginals = np.concatenate([posterior.edge_marginals.ravel(), posterior.state_marginals.ravel()])
    states = draws.states[..., None] == np.arange(posterior.state_marginals.shape[2])
    found = np.concatenate([draws.graphs.sum(axis=0).ravel(), states.sum(axis=0).ravel()])
    rare = np.minimum(binom.cdf(found, n, marginals), binom.sf(found - 1, n, marginals))
    assert rare[marginals < 1 - 1e-12].min() > 1e-4 / (2 * len(marginals))
    assert (found[marginals >= 1 - 1e-12] == n).all()


@pytest.mark.parametrize("name", ["three variables, constraints", "four variables, constraints, orders"])
def test_draws_have_the_joint_distribution(name: str) -> None:
    """Pearson's test over the pairs (G, S), the rare ones in one cell, at a false-alarm rate of 1e-4 a problem."""
    posterior, n = summed(name), 40_000
    draws = posterior.draws(np.random.default_rng(4), n)
    pairs = enumerate_posterior(PROBLEMS[name]).weighted(10**6)
    assert pairs is not None
    keys = {(g.tobytes(), s.tobytes()): i for i, (g, s) in enumerate(zip(pairs.graphs, pairs.states, strict=True))}
    drawn = [keys[g.tobytes(), s.tobytes()] for g, s in zip(draws.graphs, draws.states, strict=True)]
    expected, counts = n * np.exp(pairs.log_weight), np.bincount(drawn, minlength=len(keys))
    common = expected >= 5
    expected = np.append(expected[common], expected[~common].sum())
    counts = np.append(counts[common], counts[~common].sum())
    assert len(expected) > 50
    assert ((counts - expected) ** 2 / expected).sum() < chi2.isf(1e-4, len(expected) - 1)


@pytest.mark.parametrize("name", ["four variables, constraints, orders", "no context", "any effect, knowledge, orders"])
def test_log_prob_of_the_draws(name: str) -> None:
    problem, posterior = PROBLEMS[name], summed(name)
    one, two = (posterior.draws(np.random.default_rng(5), 40) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    plain = [problem.log_posterior(*pair) - posterior.log_evidence for pair in zip(one.graphs, one.states, strict=True)]
    np.testing.assert_allclose(one.log_prob, plain, atol=1e-9)


def test_orders_of_drawn_graphs() -> None:
    draws = summed("five variables").draws(np.random.default_rng(6), 30)
    sets = np.einsum("i,nij->nj", 2 ** np.arange(5), draws.graphs.astype(int))
    np.testing.assert_allclose(log_orders_of(sets), [log_orders(graph) for graph in draws.graphs], rtol=1e-12)


def number_of_dags(d: int) -> int:
    """Robinson's recursion, which has signs."""
    counts = [1]
    for n in range(1, d + 1):
        terms = ((-1) ** (k + 1) * math.comb(n, k) * 2 ** (k * (n - k)) * counts[n - k] for k in range(1, n + 1))
        counts.append(sum(terms))
    return counts[d]


def uniform(d: int, over_orders: bool) -> CollapsedPosterior:
    problem = random_collapsed(np.random.default_rng(0), d, 0, constrained=False, over_orders=over_orders)
    evidence, zeros = TableEvidence(np.zeros((d, 2**d, 1)), 0, 2), np.zeros((d, d))
    return with_prior(replace(problem, evidence=evidence), edge_log_odds=zeros, out_degree_log=zeros[0])


@pytest.mark.parametrize("d", [3, 6, 10])
def test_all_graphs_are_counted_once(d: int) -> None:
    """Or once for every order; along an order an edge is there in half of the graphs."""
    assert number_of_dags(5) == 29281
    found = sum_over_subsets(uniform(d, False))
    np.testing.assert_allclose(found.log_evidence, math.log(number_of_dags(d)), rtol=1e-13)
    marginals = found.edge_marginals[~np.eye(d, dtype=bool)]
    np.testing.assert_allclose(marginals, marginals[0], rtol=1e-11)
    found, pairs = sum_over_subsets(uniform(d, True)), d * (d - 1) / 2
    np.testing.assert_allclose(found.log_evidence, math.lgamma(d + 1) + pairs * math.log(2), rtol=1e-13)
    np.testing.assert_allclose(found.edge_marginals, (1 - np.eye(d)) / 4, rtol=1e-11)


@pytest.mark.parametrize("over_orders", [False, True])
def test_relabelling_seven_variables_relabels_the_answer(over_orders: bool) -> None:
    problem, order = a_problem(30, 7, 2, over_orders=over_orders), np.array([2, 0, 6, 3, 1, 5, 4])
    one, two = sum_over_subsets(problem), sum_over_subsets(relabelled(problem, order))
    np.testing.assert_allclose(two.log_evidence, one.log_evidence, rtol=1e-12)
    np.testing.assert_allclose(two.edge_marginals, one.edge_marginals[np.ix_(order, order)], atol=1e-12)
    np.testing.assert_allclose(two.state_marginals, one.state_marginals[:, order], atol=1e-12)
    np.testing.assert_allclose(one.state_marginals.sum(axis=2), 1, rtol=1e-12)


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = summed("five variables")
    monkeypatch.setattr(subsets, "_COSTLY_BATCH", 12)
    found = sum_over_subsets(PROBLEMS["five variables"])
    assert found.log_evidence == wanted.log_evidence
    np.testing.assert_array_equal(found.edge_marginals, wanted.edge_marginals)


def test_a_count_that_cannot_differ_is_no_prior_on_counts() -> None:
    """Numbers of targets that the knowledge rules out may have any prior."""
    problem = a_problem(31, 3, 1, constrained=False)
    known = problem.prior.state_log_prior.copy()
    known[0, 0, 0], known[0, 1, 1:] = -np.inf, -np.inf  # 1 or 2 of 3
    counts = np.array([[-np.inf, 0.4, 0.4, 7.0]])
    problem = with_prior(problem, state_log_prior=known, target_count_log=counts)
    found, wanted = sum_over_subsets(problem), enumerate_posterior(problem)
    np.testing.assert_allclose(found.log_evidence, wanted.log_evidence, rtol=1e-12)
    np.testing.assert_allclose(found.state_marginals, wanted.state_marginals, atol=1e-12)


def test_refusals_say_what_why_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    data = some_data(0, 6, (8, 4))
    for prior in (ScaleFree(), PreferentialAttachment()):
        with pytest.raises(ConfigError, match=r"children .* with 6 variables, only with 5 .* use --method mcmc"):
            fit(data, Model(graph_prior=prior), Exact())
    one_target = Knowledge.none(6, 1).count_targets(0, np.array([-np.inf, 0.0]))
    with pytest.raises(ConfigError, match=r"number of targets .* with 6 of them, only with 5 .* use --method mcmc"):
        fit(data, method=Exact(), knowledge=one_target)
    many = some_data(0, 19, (30,))
    with pytest.raises(ConfigError, match=r"at most 15 variables .* have 19; use --method mcmc"):
        fit(many, method=Exact())
    with pytest.raises(ConfigError, match=r"at most 18 variables .* have 19; use --method mcmc"):
        fit(many, Model(graph_prior=OrderedErdosRenyi()), Exact())
    monkeypatch.setattr(local, "MAX_LOCAL_TERMS", 383)
    with pytest.raises(ConfigError, match="6 variables and 1 contexts needs 384 local terms and takes at most 383"):
        fit(data, method=Exact())


@pytest.mark.parametrize("over_orders", [False, True])
def test_what_leaves_nothing(over_orders: bool) -> None:
    problem = a_problem(32, 3, 1, constrained=False, over_orders=over_orders)
    cycle = problem.prior.edge_log_odds.copy()
    cycle[0, 1] = cycle[1, 0] = np.inf
    with pytest.raises(InferenceError, match="No DAG of 3 variables"):
        sum_over_subsets(with_prior(problem, edge_log_odds=cycle))
    problem.evidence.table[1] = -np.inf
    with pytest.raises(InferenceError, match="No DAG of 3 variables"):
        sum_over_subsets(problem)
    problem.evidence.table[1] = np.nan
    with pytest.raises(InferenceError, match="variable 1"):
        sum_over_subsets(problem)


def test_a_fit_of_six_variables_reports_and_holds_the_marginals() -> None:
    heard = list[Progress]()
    posterior = fit(some_data(1, 6, (20, 10, 10)), method=Exact(n_draws=50), monitor=Monitor(heard.append))
    assert posterior.graph.shape == (1, 50, 6, 6)
    assert {EXACT_EDGES, EXACT_TARGETS} < set(posterior.constant_data)
    assert math.isfinite(posterior.attrs["log_evidence"])
    scoring, rest = heard[:6], heard[6:]
    assert [one.step for one in scoring] == [32, 64, 96, 128, 160, 192] and scoring[0].total == 192
    assert {one.phase for one in scoring} == {"scoring parent sets"}
    assert [one.phase for one in rest] == ["summing over all graphs", "adding up probabilities"]
    assert all(one.step == one.total == 63 for one in rest)


@pytest.mark.slow
@pytest.mark.parametrize("over_orders", [False, True])
@pytest.mark.parametrize("d", [8, 12])
def test_mcmc_agrees_with_the_sums(d: int, over_orders: bool) -> None:
    """Each marginal within 4 Monte-Carlo errors, √(p (1 - p) / ESS) with the exact p, and .005 on average.

    A false-alarm rate of 1.2 % for the 192 marginals of d = 12; a probability that few draws can speak of is granted
    4 draws more.
    """
    data, model = some_data(1, d, (30, 10, 10, 10)), Model(graph_prior=OrderedErdosRenyi()) if over_orders else Model()
    exact, sampled = fit(data, model, Exact(n_draws=10)), fit(data, model, MCMC(n_draws=4000, n_sweeps=6000))
    assert sampled.attrs["converged"]
    for kind in ("edge", "target"):
        p, found = (getattr(posterior, f"{kind}_probabilities")() for posterior in (exact, sampled))
        ess = sampled.sample_stats[f"{kind}_ess"].values
        ess = np.where(np.isnan(ess), np.nanmin(ess), ess)
        granted = np.where(ess * p * (1 - p) < 10, 4 / ess, 0.0)
        assert (np.abs(found - p) <= 4 * np.sqrt(p * (1 - p) / ess) + granted).all()
        assert np.abs(found - p).mean() < 0.005
    assert logsumexp(exact.log_weight) == pytest.approx(0.0)
