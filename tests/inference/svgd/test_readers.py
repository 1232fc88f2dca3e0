"""Propositions 1 and 2 as numbers, by enumeration of every graph and every set of targets at d = 3, M = 1."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bacadi.graph.dag import is_acyclic
from bacadi.inference.svgd.estimators import FiniteAlpha, LimitGraphs
from bacadi.model.effects import HardGaussian
from bacadi.model.model import Model
from bacadi.model.noise import FixedNoise
from bacadi.relaxed.density import Density
from bacadi.relaxed.latent import Particle, target_logits

from ...small import PAPER, PAPER_BGE, small_data
from .enumeration import everything, log_mass, log_psi, posterior_mass

MODEL = PAPER.replace(
    mechanism=PAPER.mechanism.replace(noise=FixedNoise(1.0)),
    effect=HardGaussian(noise=FixedNoise(1.0), mean_prior_std=1.0),
)
DENSITY = Density.of(MODEL, small_data((3, 1)))
ALPHA = 1.3


def a_particle(seed: int) -> Particle:
    particle = DENSITY.init(jax.random.key(seed))
    return particle._replace(z=1.5 * particle.z, gamma=3 * particle.gamma)


def test_proposition_1_over_a_prior_of_few_particles() -> None:
    """E[f | D] over p(G, I) = Σ_l w_l p(G|Z_l) p(I|Γ_l) is E over p(Ω_l | D) ∝ w_l E[Ψ_l] of E[f Ψ_l] / E[Ψ_l].

    The left side sums structures of the mixture directly; the right side has E[Ψ] by columns and summed-out targets.
    """
    every, particles = everything(DENSITY), [a_particle(seed) for seed in range(4)]
    prior = np.array([0.1, 0.2, 0.3, 0.4])
    joint = sum(
        w * np.exp(np.asarray(log_mass(p, ALPHA, every) + log_psi(p, DENSITY, every), float))
        for w, p in zip(prior, particles, strict=True)
    )
    f = np.asarray(every.graphs)[:, 0, 1] * (1 + np.asarray(every.targets).sum(axis=(1, 2)))
    left = (joint @ f) / joint.sum()

    graphs = jnp.moveaxis(every.graphs[:: 2**3], 0, 1)
    log_evidence, ratio = [], []
    for particle in particles:
        logits = target_logits(particle.gamma, ALPHA, DENSITY.known_targets)
        columns = eqx.filter_jit(DENSITY.log_psi_over_targets)(particle.theta, particle.theta_int, graphs, logits)
        no_targets = everything(Density.of(MODEL, small_data((3,))))
        log_g = log_mass(particle._replace(gamma=jnp.zeros((0, 3))), ALPHA, no_targets)
        log_evidence.append(float(jax.nn.logsumexp(log_g + jnp.sum(columns, axis=1))))
        _, mass = posterior_mass(particle, ALPHA, DENSITY)
        ratio.append(mass @ f)
    weight = prior * np.exp(log_evidence)
    np.testing.assert_allclose(weight @ np.array(ratio) / weight.sum(), left, rtol=1e-4)


@pytest.mark.parametrize("model", [MODEL, PAPER_BGE.replace(effect=MODEL.effect)], ids=["linear", "BGe"])
def test_finite_alpha_draws_from_the_ratio(model: Model) -> None:
    """Marginals of p(G, I | Ω, D) over DAGs by enumeration; 40 batches of 200 draws, 5 standard errors of 9 numbers,
    false-alarm rate 1.2e-4. 300 candidates cover all columns of three variables; 40 sweeps forget the start."""
    particle, density = a_particle(0), Density.of(model, small_data((3, 1)))
    particle = particle if density.has_parameters else particle._replace(theta=())

    @eqx.filter_jit
    def batches(keys: jax.Array) -> tuple[jax.Array, jax.Array]:
        def one(key: jax.Array) -> tuple[jax.Array, jax.Array]:
            read = FiniteAlpha(200, 300, 40).read(key, particle, (), ALPHA, density)
            return jnp.mean(read.graphs, axis=0), jnp.mean(read.targets, axis=0)

        return jax.lax.map(one, keys)

    every, mass = posterior_mass(particle, ALPHA, density)
    mass = np.where(is_acyclic(np.asarray(every.graphs).astype(int)), mass, 0)
    mass /= mass.sum()
    truths = np.tensordot(mass, every.graphs, 1), np.tensordot(mass, every.targets, 1)
    for sampled, truth in zip(batches(jax.random.split(jax.random.key(5), 40)), truths, strict=True):
        error = np.std(sampled, axis=0, ddof=1) / 40**0.5
        assert (np.abs(np.mean(sampled, axis=0) - truth) <= 5 * error + 1e-6).all()


def test_finite_alpha_carries_the_joint_of_its_draws() -> None:
    particle = a_particle(1)
    read = eqx.filter_jit(FiniteAlpha(5, 16).read)(jax.random.key(0), particle, (), ALPHA, DENSITY)
    joint = eqx.filter_jit(DENSITY.log_joint)
    for graph, targets, log_joint in zip(read.graphs, read.targets, read.log_joint, strict=True):
        assert abs(float(joint(particle, graph, targets) - log_joint)) < 1e-3


def test_proposition_2_is_the_limit_of_proposition_1() -> None:
    """As α grows the exact marginals given a particle go to the limit graph and targets, which `LimitGraphs` gives."""
    particle = a_particle(2)
    limit = eqx.filter_jit(LimitGraphs().read)(jax.random.key(0), particle, (), ALPHA, DENSITY)
    scores = np.abs(np.asarray(particle.z[0] @ particle.z[1].T))[~np.eye(3, dtype=bool)]
    assert min(scores.min(), np.abs(particle.gamma).min()) > 0.01  # no entry sits on the fence
    gaps = []
    for alpha in (1.0, 10.0, 100.0, 1000.0):
        edges, targets = marginals(particle, alpha)
        gaps.append(max(np.abs(edges - limit.graphs[0]).max(), np.abs(targets - limit.targets[0]).max()))
    assert gaps[0] > 0.1 and gaps[-1] < 1e-3 and gaps[-1] <= gaps[-2] <= gaps[1] + 1e-6


def marginals(particle: Particle, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of edges and targets given the particle, by enumeration.

    In float64 and by logarithms, so that a large α gives a number or minus infinity and never NaN.
    """
    every = everything(DENSITY)
    scores = np.asarray(particle.z[0] @ particle.z[1].T, float)
    off = ~np.eye(3, dtype=bool)
    signs = 2 * np.asarray(every.graphs, float) - 1
    log_p = -np.logaddexp(0, -alpha * signs * scores)[:, off].sum(axis=1)
    target_signs = 2 * np.asarray(every.targets, float) - 1
    log_p -= np.logaddexp(0, -alpha * target_signs * np.asarray(particle.gamma, float)).sum(axis=(1, 2))
    log_p += np.asarray(log_psi(particle, DENSITY, every), float)
    mass = np.exp(log_p - log_p.max())
    mass /= mass.sum()
    return np.tensordot(mass, every.graphs, 1), np.tensordot(mass, every.targets, 1)


def test_limit_graphs_are_weighed_by_the_joint() -> None:
    particle = a_particle(3)
    read = eqx.filter_jit(LimitGraphs().read)(jax.random.key(0), particle, (), ALPHA, DENSITY)
    joint = eqx.filter_jit(DENSITY.log_joint)(particle, read.graphs[0], read.targets[0])
    assert abs(float(read.log_joint[0] - joint)) < 1e-3 and read.graphs.shape == (1, 3, 3)
