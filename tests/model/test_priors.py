"""Priors and noise against hand-written formulas, scipy and quadrature."""

import math
from decimal import Decimal, localcontext

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from bacadi.graph.enumerate import log_subsets
from bacadi.model.noise import InferredNoise
from bacadi.model.priors import (
    AbstractGraphPrior,
    AbstractOrderPrior,
    ErdosRenyi,
    LatentPrior,
    OrderedErdosRenyi,
    PreferentialAttachment,
    ScaleFree,
    TargetPrior,
    UniformGraph,
)

CHAIN = np.array([[0.0, 1, 1], [0, 0, 1], [0, 0, 0]])
FLOAT = jnp.dtype("float32")


def test_erdos_renyi_is_a_product_of_bernoullis() -> None:
    """d = 6, one edge per node: q = 6/15, over the 15 pairs."""
    graph = np.triu(np.random.default_rng(0).integers(0, 2, (6, 6)), 1)
    expected = stats.bernoulli.logpmf(graph[np.triu_indices(6, 1)], 6 / 15).sum()
    assert float(ErdosRenyi(1.0).log_prob(jnp.asarray(graph, FLOAT))) == pytest.approx(expected, rel=1e-5)
    assert np.isfinite(ErdosRenyi(2.0).log_prob(jnp.zeros((2, 2))))  # more edges wanted than pairs there are


def test_scale_free_and_uniform() -> None:
    """Out-degrees 2, 1, 0: 3^-3 2^-3 1."""
    assert float(ScaleFree().log_prob(jnp.asarray(CHAIN))) == pytest.approx(-3 * np.log(6), rel=1e-6)
    assert float(UniformGraph().log_prob(jnp.asarray(CHAIN))) == 0


def expected_edges_of_dags(prior: AbstractGraphPrior, d: int) -> float:
    """E|G| over all DAGs: Robinson's recursion over sets of sources, a(n) = Σ_k (-1)^(k+1) C(n,k) g(n-k)^k a(n-k),
    where g(m) weighs the children of a source among m nodes; y a'(d) / a(d) by a difference quotient."""

    def log_total(log_odds: float) -> Decimal:
        law = prior.out_degree_log(d)
        weight = [(Decimal(law[k]) + k * Decimal(log_odds)).exp() for k in range(d)]
        total = [Decimal(1)] + d * [Decimal(0)]
        for m in range(d):
            children = sum((math.comb(m, k) * weight[k] for k in range(m + 1)), Decimal(0))
            for k in range(1, d - m + 1):
                total[m + k] -= (-children) ** k * math.comb(m + k, k) * total[m]
        return total[d].ln()

    with localcontext() as context:
        context.prec = 60
        log_odds = prior.edge_log_odds(d)
        return float((log_total(log_odds + 1e-6) - log_total(log_odds - 1e-6)) / Decimal("2e-6"))


def test_edges_that_the_priors_of_the_paper_expect() -> None:
    """What is said of them: 50 and 76 edges among 20 variables, where 40 are meant; by hand at d = 3, 48 / 25."""
    assert expected_edges_of_dags(UniformGraph(), 3) == pytest.approx(48 / 25, rel=1e-6)
    assert expected_edges_of_dags(ErdosRenyi(), 20) == pytest.approx(49.8, abs=0.05)
    assert expected_edges_of_dags(ScaleFree(), 20) == pytest.approx(75.6, abs=0.05)


def test_degrees_of_preferential_attachment() -> None:
    """Sets of children together have the probability of their number, and these add up to 1 with mean m."""
    d, m = 4000, 2.0
    p = np.exp(PreferentialAttachment(m).out_degree_log(d) + log_subsets(d - 1))
    assert p[:3] == pytest.approx([1 / 2, 1 / 5, 1 / 10], rel=1e-6)
    assert p.sum() == pytest.approx(1, abs=1e-5) and np.arange(d) @ p == pytest.approx(m, abs=0.01)


def test_latent_prior_is_gaussian_up_to_a_constant() -> None:
    z = np.random.default_rng(0).normal(size=(2, 2, 3, 3))
    ours = [float(LatentPrior().log_prob(jnp.asarray(part, FLOAT))) for part in z]
    theirs = stats.norm.logpdf(z, scale=3**-0.5).sum(axis=(1, 2, 3))
    assert ours[1] - ours[0] == pytest.approx(theirs[1] - theirs[0], rel=1e-5)


@pytest.mark.parametrize("jacobian", [False, True])
def test_target_prior_is_the_product_of_its_factors(jacobian: bool) -> None:
    """Differences between two points: constants drop out. Beta(1/d, (d-1)/d) by scipy, d = 4, λ = 1.5, α = 0.7."""
    alpha, d = 0.7, 4
    gamma = 0.5 * np.random.default_rng(0).normal(size=(2, 3, d))
    p = 1 / (1 + np.exp(-alpha * gamma))
    terms = -1.5 * p + stats.beta.logpdf(p, 1 / d, (d - 1) / d) + stats.norm.logpdf(gamma, scale=0.1**0.5)
    terms = (terms + jacobian * np.log(p * (1 - p))).sum(axis=(1, 2))
    prior = TargetPrior(sparsity=1.5, change_of_variables=jacobian)
    ours = [float(prior.log_prob(jnp.asarray(part, FLOAT), alpha)) for part in gamma]
    assert ours[1] - ours[0] == pytest.approx(terms[1] - terms[0], rel=1e-4)


def test_prior_of_discrete_targets() -> None:
    targets = np.array([[1.0, 0, 0, 0], [1, 1, 0, 0]])
    expected = 3 * (np.log(0.25) - 2.0) + 5 * np.log(0.75)
    assert float(TargetPrior(sparsity=2.0).log_prob_targets(jnp.asarray(targets))) == pytest.approx(expected, rel=1e-6)
    assert float(TargetPrior().log_prob_targets(jnp.zeros((0, 4)))) == 0


def test_the_prior_of_inferred_noise_is_a_density_of_log_std() -> None:
    noise = InferredNoise(shape=2.5, scale=0.4)
    grid = np.linspace(-6, 8, 4001)
    log_p = np.asarray(noise.log_prior(jnp.asarray(grid, FLOAT)), float)
    assert integrate.trapezoid(np.exp(log_p), grid) == pytest.approx(1, abs=1e-4)
    expected = stats.invgamma.logpdf(np.exp(2 * grid), 2.5, scale=0.4) + np.log(2) + 2 * grid
    np.testing.assert_allclose(log_p[1500:2500], expected[1500:2500], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("prior", [OrderedErdosRenyi(1.0), PreferentialAttachment(1.0)])
def test_priors_along_an_order_sum_to_one(prior: AbstractOrderPrior) -> None:
    """All 64 graphs of four variables whose edges run one way."""
    forward = np.argwhere(np.triu(np.ones((4, 4)), 1))
    total = 0.0
    for n in range(2 ** len(forward)):
        graph = np.zeros((4, 4), np.int8)
        graph[tuple(forward[[bool(n >> bit & 1) for bit in range(len(forward))]].T)] = 1
        total += math.exp(prior.log_prob_along_order(graph))
    assert total == pytest.approx(1.0)
