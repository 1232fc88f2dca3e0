"""log E[Ψ] by brute force: every graph and every set of targets of a tiny problem, written out without estimators."""

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bacadi.graph.enumerate import all_digraphs
from bacadi.relaxed.density import Density
from bacadi.relaxed.latent import Particle, Structures


class Everything(NamedTuple):
    """All structures of a problem: `graphs` [S, d, d] and `targets` [S, M, d], every combination once."""

    graphs: jax.Array
    targets: jax.Array

    @property
    def structures(self) -> Structures:
        return Structures(jnp.moveaxis(self.graphs, 0, 1), jnp.moveaxis(self.targets, 0, 1))


def everything(density: Density) -> Everything:
    d, m = density.n_variables, density.n_contexts
    graphs = all_digraphs(d).astype(float)
    targets = np.array(list(product((0.0, 1.0), repeat=m * d))).reshape(2 ** (m * d), m, d)
    n, t = len(graphs), len(targets)
    return Everything(
        jnp.asarray(np.repeat(graphs, t, axis=0), density.dtype),
        jnp.asarray(np.tile(targets, (n, 1, 1)), density.dtype),
    )


def log_mass(particle: Particle, alpha: float, every: Everything) -> jax.Array:
    """log p(G | Z) p(I | Γ) of every structure, by products of σ(α u·v) and σ(α γ): Eq. (7), p_α(G | Z), and
    Eq. (9), p(I | Γ)."""
    edge = jax.nn.sigmoid(alpha * jnp.einsum("ir,jr->ij", particle.z[0], particle.z[1]))
    target = jax.nn.sigmoid(alpha * particle.gamma)
    off = 1 - jnp.eye(edge.shape[0])
    log_g = jnp.sum(off * jnp.log(jnp.where(every.graphs == 1, edge, 1 - edge)), axis=(1, 2))
    return log_g + jnp.sum(jnp.log(jnp.where(every.targets == 1, target, 1 - target)), axis=(1, 2))


@eqx.filter_jit
def log_psi(particle: Particle, density: Density, every: Everything) -> jax.Array:
    """log Ψ of every structure."""
    return jnp.sum(density.log_psi(particle.theta, particle.theta_int, every.structures), axis=1)


def exact_log_expected_psi(alpha: float, density: Density) -> Callable[[Particle], jax.Array]:
    """log Σ_G Σ_I p(G | Z) p(I | Γ) Ψ(G, I), a function of the particle."""
    every = everything(density)
    return lambda particle: jax.nn.logsumexp(log_mass(particle, alpha, every) + log_psi(particle, density, every))


def posterior_mass(particle: Particle, alpha: float, density: Density) -> tuple[Everything, np.ndarray]:
    """p(G, I | Ω, D) of every structure: p(G|Z) p(I|Γ) Ψ / E[Ψ], the weights of Proposition 1."""
    every = everything(density)
    log_p = log_mass(particle, alpha, every) + log_psi(particle, density, every)
    return every, np.asarray(jax.nn.softmax(log_p))
