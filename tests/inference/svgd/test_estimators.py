"""Estimators of log E[Ψ] and its gradient against enumeration of all 64 graphs and all targets at d = 3.

Each estimate is the mean of `BATCHES` independent batches and is held to the exact number within 5 standard errors
taken from the spread of the batches. For Student's t with 39 degrees of freedom that is exceeded with probability
1.2e-5; with about 200 numbers compared here the false-alarm rate over fresh keys is below 0.3 % (keys are fixed).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bacadi.inference.svgd.estimators import AbstractEstimator, BlockwiseEstimator, GibbsEstimator, RelaxedEstimator
from bacadi.model.effects import HardGaussian, SoftGaussian
from bacadi.model.model import Model
from bacadi.model.noise import FixedNoise
from bacadi.relaxed.density import Density
from bacadi.relaxed.latent import Particle, target_logits

from ...small import PAPER, PAPER_BGE, PAPER_NETWORKS, small_data
from .enumeration import everything, exact_log_expected_psi, log_psi
from .reference import MarginalEstimator

BATCHES = 40
ALPHA = 1.3
EFFECT = HardGaussian(noise=FixedNoise(1.0), mean_prior_std=1.0, pseudo_prior=False)
LINEAR = PAPER.replace(mechanism=PAPER.mechanism.replace(noise=FixedNoise(1.0)), effect=EFFECT)
NEURAL = PAPER.replace(mechanism=PAPER_NETWORKS.mechanism.replace(hidden=(2,), noise=FixedNoise(1.0)), effect=EFFECT)
SOFT = LINEAR.replace(effect=SoftGaussian())
MARGINAL = PAPER_BGE.replace(effect=EFFECT)


def tiny_problem(model: Model, counts: tuple[int, ...] = (3, 1), known: np.ndarray | None = None):
    """A particle away from 0 and its density."""
    density = Density.of(model, small_data(counts), known)
    particle = density.init(jax.random.key(7))
    return particle._replace(z=1.5 * particle.z, gamma=3 * particle.gamma), density


@eqx.filter_jit
def exact(particle: Particle, density: Density) -> tuple[jax.Array, Particle]:
    return jax.value_and_grad(exact_log_expected_psi(ALPHA, density))(particle)


def once(estimator: AbstractEstimator, key: jax.Array, particle: Particle, density: Density, n_warmup: int = 20):
    """Value and gradient without an earlier step: chains of Gibbs first take `n_warmup` calls from their start."""
    if not isinstance(estimator, GibbsEstimator):
        return estimator(key, particle, (), ALPHA, density)[:2]
    key_start, key_warmup, key = jax.random.split(key, 3)

    def warm_up(chains: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
        return estimator(key, particle, chains, ALPHA, density).chains, None

    start = estimator.start(key_start, particle, ALPHA, density)
    chains, _ = jax.lax.scan(warm_up, start, jax.random.split(key_warmup, n_warmup))
    return estimator(key, particle, chains, ALPHA, density)[:2]


@eqx.filter_jit
def estimated(estimator: AbstractEstimator, particle: Particle, density: Density, n_warmup: int = 20):
    """Mean and standard error over batches, in the structure (value, gradient)."""
    keys = jax.random.split(jax.random.key(11), BATCHES)
    batches = jax.lax.map(lambda key: once(estimator, key, particle, density, n_warmup), keys)
    mean = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), batches)
    return mean, jax.tree.map(lambda leaf: jnp.std(leaf, axis=0, ddof=1) / BATCHES**0.5, batches)


def assert_within(estimate, truth) -> None:
    """5 standard errors; 1e-5 is the rounding of float32 where an estimate has no spread."""
    mean, error = estimate
    for (path, m), e, t in zip(
        jax.tree_util.tree_flatten_with_path(mean)[0], jax.tree.leaves(error), jax.tree.leaves(truth), strict=True
    ):
        excess = np.abs(np.asarray(m) - np.asarray(t)) - 5 * np.asarray(e) - 1e-5 * (1 + np.abs(np.asarray(t)))
        assert (excess <= 0).all(), f"{jax.tree_util.keystr(path)}: {m} ± {e} against {t}"


CASES = {
    "linear, one context": (LINEAR, (3, 1)),
    "linear, two contexts": (LINEAR, (3, 1, 2)),
    "neural": (NEURAL, (3, 1)),
    "soft effect": (SOFT, (3, 1)),
    "no observational rows": (LINEAR, (0, 2)),
    "observational rows only": (LINEAR, (4,)),
    "BGe": (MARGINAL, (3, 1)),
}


@pytest.mark.parametrize(("model", "counts"), CASES.values(), ids=CASES.keys())
def test_marginal_estimator_is_consistent(model: Model, counts: tuple[int, ...]) -> None:
    """Value and all four blocks of the gradient. The bias of log E is of order 1/2000, under the error of the mean."""
    particle, density = tiny_problem(model, counts)
    assert_within(estimated(MarginalEstimator(2000), particle, density), exact(particle, density))


@pytest.mark.parametrize("by_column", [False, True], ids=["whole", "by column"])
def test_blockwise_estimator_is_consistent_in_value_and_parameters_only(by_column: bool) -> None:
    """Both hard: log E[Ψ], Θ and Θ_I are consistent. Z and Γ see one relaxed structure and are biased, which is
    measured: further from the truth than 5 standard errors."""
    particle, density = tiny_problem(LINEAR)
    (value, gradient), (value_error, error) = estimated(
        BlockwiseEstimator(2000, by_column=by_column), particle, density
    )
    true_value, true = exact(particle, density)
    consistent = (value, gradient.theta, gradient.theta_int), (value_error, error.theta, error.theta_int)
    assert_within(consistent, (true_value, true.theta, true.theta_int))
    for block in ("z", "gamma"):
        miss = np.abs(getattr(gradient, block) - getattr(true, block)) / getattr(error, block)
        assert miss.max() > 5, f"{block} is unbiased, unlike the documentation says"


@pytest.mark.parametrize("by_column", [False, True], ids=["whole", "by column"])
def test_relaxed_estimator_is_biased_as_documented(by_column: bool) -> None:
    """The paper's relaxation changes even the value of log E[Ψ]: by -.090 ± .004 (docs/developer/estimators.md).

    Within 5 standard errors of both. Its gradient points nearly the right way, short in Z and Γ and long in Θ and Θ_I:
    cosines and ratios of norms were the same to .0005 and .003 with other keys, and are held to .005 and .025.
    """
    particle, density = tiny_problem(LINEAR)
    (value, gradient), (error, _) = estimated(RelaxedEstimator(2000, by_column=by_column), particle, density)
    true_value, true = exact(particle, density)
    assert abs(float(value - true_value) + 0.090) < 5 * np.hypot(float(error), 0.004)
    measured = {"z": (0.993, 0.750), "gamma": (0.999, 0.721), "theta": (0.974, 1.204), "theta_int": (0.990, 1.134)}
    for block, (cosine, ratio) in measured.items():
        a, b = (np.concatenate([np.ravel(x) for x in jax.tree.leaves(getattr(g, block))]) for g in (gradient, true))
        lengths = np.linalg.norm(a), np.linalg.norm(b)
        assert a @ b / lengths[0] / lengths[1] == pytest.approx(cosine, abs=0.005), block
        assert lengths[0] / lengths[1] == pytest.approx(ratio, abs=0.025), block


def test_relaxed_estimator_becomes_exact_as_its_temperature_falls() -> None:
    """Measured with 320 000 samples: off by -.157 ± .002 at temperature .5 and by -.018 ± .004 at .02. The bound of .06
    is 5 standard errors (.008 with 80 000 samples) from the second and more from the first: false alarm 2e-5."""
    particle, density = tiny_problem(LINEAR)
    truth = float(exact(particle, density)[0])
    warm, cold = (
        abs(float(estimated(RelaxedEstimator(2000, temperature), particle, density)[0][0]) - truth)
        for temperature in (0.5, 0.02)
    )
    assert cold < 0.06 < warm


@pytest.mark.parametrize("model", [LINEAR, SOFT], ids=["hard", "soft"])
def test_targets_are_summed_out_exactly(model: Model) -> None:
    """`log_psi_over_targets` against the sum over all 2^(M d) targets, graph by graph."""
    particle, density = tiny_problem(model, (2, 1, 2))
    every = everything(density)
    logits = target_logits(particle.gamma, ALPHA, density.known_targets)
    graphs = jnp.asarray(every.graphs[:: 2**6])
    columns = eqx.filter_jit(density.log_psi_over_targets)(
        particle.theta, particle.theta_int, jnp.moveaxis(graphs, 0, 1), logits
    )
    probability = jax.nn.sigmoid(ALPHA * particle.gamma)
    log_targets = jnp.sum(jnp.log(jnp.where(every.targets == 1, probability, 1 - probability)), axis=(1, 2))
    terms = (log_targets + log_psi(particle, density, every)).reshape(64, 2**6)
    np.testing.assert_allclose(jnp.sum(columns, axis=1), jax.nn.logsumexp(terms, axis=1), rtol=2e-5)


@pytest.mark.parametrize("model", [LINEAR, MARGINAL], ids=["linear", "BGe"])
@pytest.mark.parametrize("kind", [RelaxedEstimator, BlockwiseEstimator, MarginalEstimator])
def test_known_targets_give_finite_gradients_and_none_for_gamma(kind: type[AbstractEstimator], model: Model) -> None:
    known = np.array([[1.0, 0.0, np.nan]])
    particle, density = tiny_problem(model, (3, 1), known)
    value, gradient, _ = eqx.filter_jit(kind(8))(jax.random.key(0), particle, (), ALPHA, density)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((value, gradient)))
    assert (np.asarray(gradient.gamma)[0, :2] == 0).all()


def test_known_targets_are_conditioned_on() -> None:
    """With every target known, log E[Ψ] is a sum over graphs at these targets alone."""
    known = np.array([[0.0, 1.0, 0.0]])
    particle, density = tiny_problem(LINEAR, (3, 1), known)
    every = everything(density)
    here = np.asarray((every.targets == known).all(axis=(1, 2)))
    edge = jax.nn.sigmoid(ALPHA * particle.z[0] @ particle.z[1].T)
    log_g = jnp.sum((1 - jnp.eye(3)) * jnp.log(jnp.where(every.graphs == 1, edge, 1 - edge)), axis=(1, 2))
    truth = jax.nn.logsumexp((log_g + log_psi(particle, density, every))[here])
    (mean, _), (error, _) = estimated(MarginalEstimator(2000), particle, density)
    assert abs(float(mean - truth)) < 5 * float(error) + 1e-4
