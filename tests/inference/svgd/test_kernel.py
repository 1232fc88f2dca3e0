"""The direction of SVGD against a plain double loop with kernel gradients by finite differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bacadi.inference.svgd.kernel import TERMS, Bandwidths, SteinKernel, squared_distances
from bacadi.relaxed.latent import Particle

L = 5
BLOCKS = ("z", "gamma", "theta", "theta_int")
FIXED = Bandwidths(1.5, 0.7, 3.0, 2.0)


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def random_particles(seed: int, *, parameters: bool = True) -> Particle:
    rng = np.random.default_rng(seed)
    theta = (jnp.asarray(rng.normal(size=(L, 2, 2))), jnp.asarray(rng.normal(size=(L, 2)))) if parameters else ()
    return Particle(
        jnp.asarray(rng.normal(size=(L, 2, 2, 2))),
        jnp.asarray(rng.normal(size=(L, 1, 2))),
        theta,
        {"mean": jnp.asarray(rng.normal(size=(L, 1, 2)))},
    )


def flat(particles: Particle) -> list[np.ndarray]:
    """Blocks as matrices [L, p]."""
    return [
        np.concatenate([np.asarray(leaf).reshape(L, -1) for leaf in jax.tree.leaves(block)] or [np.zeros((L, 0))], 1)
        for block in particles
    ]


def kernel_value(kernel: SteinKernel, taus: dict[str, float], left: list, right: list) -> float:
    """k(Ω, Ω') by its definition: factors exp(-‖·‖²/2τ), added."""
    factors = []
    for term in TERMS[kernel.n_terms]:
        members = [BLOCKS.index(name) for name in term if left[BLOCKS.index(name)].size]
        if members:
            distance = sum(((left[b] - right[b]) ** 2).sum() for b in members)
            factors.append(np.exp(-distance / (2 * taus[BLOCKS[members[0]]])))
    return float(np.sum(factors))


def loop_direction(kernel: SteinKernel, taus: dict[str, float], particles: Particle, score: Particle) -> list:
    """φ(Ω_m) = 1/L Σ_l [k(Ω_l, Ω_m) s_l + ∇_l k(Ω_l, Ω_m)], the gradient by central differences."""
    x, s, step = flat(particles), flat(score), 1e-5
    out = [np.zeros_like(block) for block in x]
    for m in range(L):
        right = [block[m] for block in x]
        for source in range(L):
            left = [block[source].copy() for block in x]
            value = kernel_value(kernel, taus, left, right)
            for b, block in enumerate(left):
                out[b][m] += value * s[b][source] / L
                for i in range(block.size):
                    ends = []
                    for sign in (1, -1):
                        block[i] += sign * step
                        ends.append(kernel_value(kernel, taus, left, right))
                        block[i] -= sign * step
                    out[b][m, i] += (ends[0] - ends[1]) / (2 * step) / L
    return out


def median_tau(points: np.ndarray) -> float:
    """2τ = median of the squared distances of all pairs / log(L + 1)."""
    pairs = [((points[a] - points[b]) ** 2).sum() for a in range(L) for b in range(a)]
    return float(np.median(pairs) / (2 * np.log(L + 1)))


@pytest.mark.parametrize("n_terms", [4, 3], ids=["four terms", "three terms"])
@pytest.mark.parametrize("parameters", [True, False], ids=["theta", "no theta"])
def test_direction_against_a_double_loop(n_terms: int, parameters: bool) -> None:
    kernel = SteinKernel(FIXED, n_terms)
    particles, score = random_particles(0, parameters=parameters), random_particles(1, parameters=parameters)
    taus = dict(zip(BLOCKS, (1.5, 0.7, 3.0, 2.0), strict=True))
    found = flat(eqx.filter_jit(kernel.stein_direction)(particles, score))
    for ours, plain in zip(found, loop_direction(kernel, taus, particles, score), strict=True):
        np.testing.assert_allclose(ours, plain, atol=1e-8)


def test_median_heuristic() -> None:
    kernel = SteinKernel(Bandwidths(None, None, None, None))
    particles, score = random_particles(2), random_particles(3)
    taus = {name: median_tau(points) for name, points in zip(BLOCKS, flat(particles), strict=True)}
    found = flat(eqx.filter_jit(kernel.stein_direction)(particles, score))
    for ours, plain in zip(found, loop_direction(kernel, taus, particles, score), strict=True):
        np.testing.assert_allclose(ours, plain, atol=1e-8)


def test_a_single_particle_follows_its_score() -> None:
    """k(Ω, Ω) is 4 for the sum of four terms, and nothing repels."""
    particles, score = (jax.tree.map(lambda leaf: leaf[:1], random_particles(seed)) for seed in (0, 1))
    for kernel in (SteinKernel(), SteinKernel(Bandwidths(None, None, None, None))):
        jax.tree.map(
            lambda ours, s: np.testing.assert_allclose(ours, 4.0 * s, rtol=1e-12),
            kernel.stein_direction(particles, score),
            score,
        )


def test_distances_survive_a_large_offset() -> None:
    points = np.random.default_rng(0).normal(size=(4, 3))
    plain = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
    np.testing.assert_allclose(squared_distances(jnp.asarray(points + 1e4)), plain, atol=1e-6)
    with jax.enable_x64(False):
        single = squared_distances(jnp.asarray(points + 1e3, jnp.float32))
        assert (np.asarray(single) >= 0).all()
        np.testing.assert_allclose(single, plain, atol=2e-3)
