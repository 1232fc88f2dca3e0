"""The continuous latent variables Z and Γ, the discrete structures they encode (paper, Sec. 4), and acyclicity.

h(G) = tr[(I + G/d)^d] - d is zero exactly on acyclic graphs (Yu et al. 2019); its expectation enters Eq. (8), p_β(Z).
"""

import math
from abc import abstractmethod
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree, UInt32

from bacadi.config.choices import Choice, option

RandomKey = Key[Array, ""]
Alpha = Float[Array, ""] | float
Targets = Float[Array, "M d"]
Graphs = Float[Array, "d S d"]
"""S graphs. Samples sit in the middle axis, so that one matrix product over the source axis serves all of them without
moving memory."""


class Particle(NamedTuple):
    """Ω = (Z, Γ, Θ, Θ_I): one point of the latent posterior, or a stack of them with a leading axis.

    `z` stacks the embeddings U and V; `gamma` has one row per context (the observational one left out);
    `theta` belongs to the mechanism and `theta_int` to the effect, each a pytree of their own making.
    """

    z: Float[Array, "*L 2 d r"]
    gamma: Float[Array, "*L M d"]
    theta: PyTree
    theta_int: PyTree


def edge_scores(z: Float[Array, "2 d r"]) -> Float[Array, "d d"]:
    """u_i · v_j for every ordered pair."""
    return z[0] @ z[1].T


def off_diagonal(d: int) -> Bool[Array, "d d"]:
    """True where i ≠ j: no variable is a cause of itself."""
    return ~jnp.eye(d, dtype=bool)


def edge_logits(z: Float[Array, "2 d r"], alpha: Alpha) -> Float[Array, "d d"]:
    """α u_i · v_j, -∞ on the diagonal."""
    return jnp.where(off_diagonal(z.shape[1]), alpha * edge_scores(z), -jnp.inf)


def edge_probs(z: Float[Array, "2 d r"], alpha: Alpha) -> Float[Array, "d d"]:
    """G_α(Z)_ij = σ(α u_i · v_j), 0 on the diagonal: Eq. (7), p_α(G | Z)."""
    return jax.nn.sigmoid(edge_logits(z, alpha))


def limit_graph(z: Float[Array, "2 d r"]) -> Bool[Array, "d d"]:
    """G_∞(Z)_ij = 1[u_i · v_j > 0], the graph a particle stands for as α → ∞ (Proposition 2)."""
    return (edge_scores(z) > 0) & off_diagonal(z.shape[1])


def target_logits(gamma: Float[Array, "M d"], alpha: Alpha, known: Float[Array, "M d"]) -> Float[Array, "M d"]:
    """α γ_ki, the logit of Eq. (9), p(I | Γ); ±∞ where `known` says 1 or 0 (NaN: unknown)."""
    certain = jnp.where(known > 0.5, jnp.inf, -jnp.inf)
    return jnp.where(jnp.isnan(known), alpha * gamma, certain)


def limit_targets(gamma: Float[Array, "M d"], known: Float[Array, "M d"]) -> Bool[Array, "M d"]:
    """I_∞(Γ)_ki = 1[γ_ki > 0], or what is known of it."""
    return jnp.where(jnp.isnan(known), gamma > 0, known > 0.5)


class Structures(NamedTuple):
    """S samples of (G, I) for one particle, or the uniform numbers that they are made of."""

    graphs: Graphs
    targets: Float[Array, "M S d"]


def draw_uniform(key: RandomKey, shape: tuple[int, ...], dtype: jnp.dtype) -> Array:
    """Numbers between 0 and 1, both left out: what Bernoulli samples, soft or hard, are made of.

    In single precision they are the counter mixed with both words of the key, which costs a tenth of JAX's generator
    and is fused into whatever reads it; random numbers were a third of a step. Not for secrets.
    """
    if dtype != jnp.float32:
        return jax.random.uniform(key, shape, dtype, minval=jnp.finfo(dtype).eps)
    words = jax.random.key_data(key)
    counter = jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)
    bits = _mixed(_mixed(counter + words[0]) ^ words[-1])
    return ((bits >> 9).astype(dtype) + 0.5) * 2.0**-23


def _mixed(word: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """A permutation of the 32-bit words in which every bit depends on all others (`triple32` of C. Wellons)."""
    for shift, factor in ((17, 0xED5AD4BB), (11, 0xAC4C1B51), (15, 0x31848BAB)):
        word = (word ^ (word >> shift)) * jnp.uint32(factor)
    return word ^ (word >> 14)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def soft_bernoulli(logits: Float[Array, "a b"], uniform: Float[Array, "a S b"], tau: float) -> Float[Array, "a S b"]:
    """Gumbel-softmax relaxation of Bernoulli(σ(logits)): σ((logits + logit u) / τ), τ being the temperature.

    At τ = 1 that is u / (u + (1 - u) e^-logits): nothing to exponentiate but the logits. The gradient is
    Σ_s y (1 - y) / τ times that of the sample y.
    """
    if tau == 1.0:
        return uniform / (uniform + (1 - uniform) * jnp.exp(-logits)[:, None, :])
    odds = jnp.log(uniform) - jnp.log1p(-uniform)
    return jax.nn.sigmoid((logits[:, None, :] + odds) / tau)


def _soft_bernoulli_forward(logits: Array, uniform: Array, tau: float) -> tuple[Array, Array]:
    sample = soft_bernoulli(logits, uniform, tau)
    return sample, sample


def _soft_bernoulli_backward(tau: float, sample: Array, cotangent: Array) -> tuple[Array, None]:
    return jnp.sum(cotangent * sample * (1 - sample), axis=1) / tau, None


soft_bernoulli.defvjp(_soft_bernoulli_forward, _soft_bernoulli_backward)


def hard_bernoulli(logits: Float[Array, "a b"], uniform: Float[Array, "a S b"]) -> Float[Array, "a S b"]:
    """Exact Bernoulli(σ(logits)) samples, the soft ones rounded; no gradient passes."""
    return jax.lax.stop_gradient((uniform > jax.nn.sigmoid(-logits)[:, None, :]).astype(uniform.dtype))


def log_bernoulli(logits: Float[Array, "a b"], sample: Float[Array, "a S b"]) -> Float[Array, "S b"]:
    """log p(sample) summed over the first axis: the density of each column. Infinite logits contribute 0."""
    finite = jnp.where(jnp.isfinite(logits), logits, 0.0)[:, None, :]
    log_p = sample * finite - jax.nn.softplus(finite)
    return jnp.sum(jnp.where(jnp.isfinite(logits)[:, None, :], log_p, 0.0), axis=0)


@jax.custom_vjp
def acyclicity(graph: Float[Array, "d d"]) -> Float[Array, ""]:
    """h(G) = tr[(I + G/d)^d] - d for 0/1 or relaxed adjacency (`graph[i, j]` is i → j).

    The power of I + G/d is taken as Σ_p C(d, p) (G/d)^p through P_n = (I + G/d)^n - I, so that an acyclic
    graph gives 0 and not the rounding error of d - d: (I + A)(I + B) - I = A + B + AB. The gradient is
    (I + P_{d-1})', which is at hand when the value is.
    """
    return _acyclicity_forward(graph)[0]


def _acyclicity_forward(graph: Float[Array, "d d"]) -> tuple[Float[Array, ""], Float[Array, "d d"]]:
    d = graph.shape[0]
    base = graph / d
    power, square, n = jnp.zeros_like(base), base, d - 1
    while n:
        if n & 1:
            power = power + square + power @ square
        n >>= 1
        if n:
            square = 2 * square + square @ square
    return jnp.trace(power) + jnp.trace(base) + jnp.sum(power * base.T), power


def _acyclicity_backward(power: Float[Array, "d d"], cotangent: Float[Array, ""]) -> tuple[Float[Array, "d d"]]:
    return (cotangent * (jnp.eye(len(power), dtype=power.dtype) + power.T),)


acyclicity.defvjp(_acyclicity_forward, _acyclicity_backward)


class AbstractExpectedAcyclicity(Choice):
    """How E[h(G)] under p(G | Z) is computed."""

    @abstractmethod
    def __call__(self, key: RandomKey, z: Float[Array, "2 d r"], alpha: Alpha) -> Float[Array, ""]: ...


class AcyclicityOfProbs(AbstractExpectedAcyclicity):
    """h(edge probabilities): exact for closed walks up to length 3, noise free, one matrix power."""

    def __call__(self, key: RandomKey, z: Float[Array, "2 d r"], alpha: Alpha) -> Float[Array, ""]:
        return acyclicity(edge_probs(z, alpha))


class SampledAcyclicity(AbstractExpectedAcyclicity):
    """Mean of h over `n_samples` Gumbel-softmax graphs, as the authors' code estimates it."""

    n_samples: int = option(32, least=1)
    temperature: float = option(1.0, above=0)

    def __call__(self, key: RandomKey, z: Float[Array, "2 d r"], alpha: Alpha) -> Float[Array, ""]:
        shape = (z.shape[1], self.n_samples, z.shape[1])
        graphs = soft_bernoulli(edge_logits(z, alpha), draw_uniform(key, shape, z.dtype), self.temperature)
        return jnp.mean(jax.vmap(acyclicity, in_axes=1)(graphs))
