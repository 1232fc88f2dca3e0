"""Priors, noise and effects against hand-written formulas, scipy and quadrature; h(G) on all graphs of d = 4."""

import math
from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bacadi.model.effect import HardGaussian, HardTheta
from scipy import integrate, stats

from bacadi.errors import ConfigError
from bacadi.graph import all_digraphs, is_acyclic
from bacadi.graph.enumerate import log_subsets
from bacadi.model.linear import LinearGaussian
from bacadi.model.noise import FixedNoise, InferredNoise
from bacadi.model.priors import (
    AbstractGraphPrior,
    ErdosRenyi,
    LatentPrior,
    OrderedErdosRenyi,
    PreferentialAttachment,
    ScaleFree,
    TargetPrior,
    UniformGraph,
)
from bacadi.relaxed.latent import (
    AcyclicityOfProbs,
    SampledAcyclicity,
    acyclicity,
    edge_probs,
    limit_graph,
    limit_targets,
)
from bacadi.relaxed.rows import context_moments, numpy_moments

from ..inference.enumeration import small_data

CHAIN = np.array([[0.0, 1, 1], [0, 0, 1], [0, 0, 0]])
FLOAT = jnp.dtype("float32")


def h(graphs: np.ndarray) -> np.ndarray:
    """tr[(I + G/d)^d] - d in double precision."""
    d = graphs.shape[-1]
    return np.trace(np.linalg.matrix_power(np.eye(d) + graphs / d, d), axis1=-2, axis2=-1) - d


def test_acyclicity_is_zero_exactly_on_dags_of_four_nodes() -> None:
    """All 4096 digraphs; both implementations agree and a cyclic graph is at least a two-cycle away from 0."""
    graphs = all_digraphs(4)
    ours = np.asarray(jax.jit(jax.vmap(acyclicity))(jnp.asarray(graphs, FLOAT)))
    acyclic = is_acyclic(graphs)
    assert acyclic.sum() == 543  # OEIS A003024
    assert (ours[acyclic] == 0).all() and (ours[~acyclic] > 4**-4 / 2).all()
    np.testing.assert_allclose(ours, h(graphs), atol=2e-5)


@pytest.mark.parametrize("d", [1, 2, 5, 8])
def test_acyclicity_is_the_trace_of_a_matrix_power(d: int) -> None:
    graph = np.random.default_rng(d).uniform(size=(d, d)) * (1 - np.eye(d))
    expected = np.trace(np.linalg.matrix_power(np.eye(d) + graph / d, d)) - d
    assert float(acyclicity(jnp.asarray(graph, FLOAT))) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_acyclicity_has_a_finite_gradient_at_the_empty_graph() -> None:
    gradient = jax.grad(acyclicity)(jnp.zeros((4, 4)))
    assert np.isfinite(gradient).all() and (np.asarray(gradient) == np.eye(4)).all()


def test_expected_acyclicity_of_three_nodes_is_exact_at_the_probabilities() -> None:
    """Closed walks of up to 3 steps use no edge twice, so E[h(G)] = h(E[G]) at d = 3, by enumeration."""
    z, alpha, key = jax.random.normal(jax.random.key(0), (2, 3, 3)), 0.8, jax.random.key(1)
    p = np.asarray(edge_probs(z, alpha))
    graphs = all_digraphs(3)
    mass = np.where(graphs == 1, p, 1 - p)[:, ~np.eye(3, dtype=bool)].prod(axis=1)
    assert mass.sum() == pytest.approx(1, abs=1e-6)
    assert float(AcyclicityOfProbs()(key, z, alpha)) == pytest.approx(float(mass @ h(graphs)), rel=1e-5)
    cold = SampledAcyclicity(n_samples=4000, temperature=0.01)(key, z, alpha)
    # h lies in [0, 1.3], so its mean over 4000 draws has a standard error below .011: 5 of them, false alarm 6e-7.
    assert abs(float(cold) - float(mass @ h(graphs))) < 0.055


def test_limits_of_the_relaxations() -> None:
    z, gamma = jax.random.normal(jax.random.key(0), (2, 3, 2)), jnp.array([[0.2, -0.1, 0.3]])
    np.testing.assert_allclose(edge_probs(z, 1e6), limit_graph(z), atol=1e-6)
    known = jnp.array([[jnp.nan, 1.0, 0.0]])
    assert limit_targets(gamma, known).tolist() == [[True, True, False]]


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


@pytest.mark.parametrize("prior", [OrderedErdosRenyi(), PreferentialAttachment()])
def test_orders_have_no_relaxed_form(prior: AbstractGraphPrior) -> None:
    assert prior.over_orders
    with pytest.raises(ConfigError, match="SVGD"):
        prior.log_prob(jnp.zeros((3, 3)))


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


def test_evidence_of_a_hard_effect_by_quadrature() -> None:
    """log ∫ Π_n N(x_n; μ, σ²) N(μ; m, s²) dμ, entry by entry, by scipy.integrate.quad."""
    data, effect = small_data((2, 1, 3)), HardGaussian(FixedNoise(0.6), mean_prior_mean=0.4, mean_prior_std=1.5)
    found = np.asarray(effect.log_evidence(numpy_moments(data)))
    for k in (1, 2):
        for j in range(3):
            x = data.x[data.context == k, j]

            def density(mean: float, x: np.ndarray = x) -> float:
                return float(np.exp(stats.norm.logpdf(x, mean, 0.6).sum()) * stats.norm.pdf(mean, 0.4, 1.5))

            value, _ = integrate.quad(density, -12, 12, points=[float(x.mean())], epsabs=1e-12)
            assert found[k - 1, j] == pytest.approx(np.log(value), rel=1e-5)


@pytest.mark.parametrize("mean", [-0.7, 0.0, 3.0])
def test_the_pseudo_prior_leaves_the_evidence_alone(mean: float) -> None:
    """log targeted - log untargeted = log evidence at every μ, so that p(G, Θ, I | D) does not depend on Θ_I."""
    data = small_data((2, 1, 3))
    effect = HardGaussian(FixedNoise(0.6), mean_prior_mean=0.4, mean_prior_std=1.5, pseudo_prior=True)
    moments = context_moments(data, FLOAT)
    prepared = effect.prepare(moments, None)
    theta_int, graphs = HardTheta(jnp.full((2, 3), mean), None), jnp.zeros((3, 1, 3))
    arguments = (theta_int, graphs, LinearGaussian(), prepared)
    difference = effect.log_targeted(*arguments) - effect.log_untargeted(*arguments)
    np.testing.assert_allclose(difference[:, 0], effect.log_evidence(numpy_moments(data)), rtol=1e-4, atol=1e-4)


def test_evidence_of_a_hard_effect_of_unknown_noise_is_a_multivariate_t() -> None:
    """Source: scipy.stats.multivariate_t; μ ~ N(m, s²σ²), σ² ~ InvGamma(a, b) gives t with 2a degrees of freedom."""
    data = small_data((2, 1, 3))
    effect = HardGaussian(InferredNoise(1.5, 0.7), mean_prior_mean=0.4, mean_prior_std=2.0)
    found = effect.log_evidence(numpy_moments(data))
    for k in (1, 2):
        for j in range(3):
            x = data.x[data.context == k, j]
            shape = 0.7 / 1.5 * (np.eye(len(x)) + 4.0)
            expected = stats.multivariate_t(np.full(len(x), 0.4), shape, df=3.0).logpdf(x)
            assert found[k - 1, j] == pytest.approx(float(expected), rel=1e-9)
