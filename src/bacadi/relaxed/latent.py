"""The continuous latent variables Z and Γ, the discrete structures they encode (paper, Sec. 4), and acyclicity.

h(G) = tr[(I + G/d)^d] - d is zero exactly on acyclic graphs (Yu et al. 2019); its expectation enters Eq. (8), p_β(Z).
"""

from abc import abstractmethod
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

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


def edge_probs(z: Float[Array, "2 d r"], alpha: Alpha) -> Float[Array, "d d"]:
    """G_α(Z)_ij = σ(α u_i · v_j), 0 on the diagonal: Eq. (7), p_α(G | Z)."""
    return jnp.where(off_diagonal(z.shape[1]), jax.nn.sigmoid(alpha * edge_scores(z)), 0.0)


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
    """S samples of (G, I) for one particle, or the noise that they are made of."""

    graphs: Graphs
    targets: Float[Array, "M S d"]


def soft_bernoulli(logits: Float[Array, "a b"], noise: Float[Array, "a S b"], tau: float) -> Float[Array, "a S b"]:
    """Gumbel-softmax relaxation of Bernoulli(σ(logits)): σ((logits + logistic noise) / τ), τ being the temperature."""
    return jax.nn.sigmoid((logits[:, None, :] + noise) / tau)


def hard_bernoulli(logits: Float[Array, "a b"], noise: Float[Array, "a S b"]) -> Float[Array, "a S b"]:
    """Exact Bernoulli(σ(logits)) samples from the same noise; no gradient passes."""
    return jax.lax.stop_gradient((logits[:, None, :] + noise > 0).astype(noise.dtype))


def log_bernoulli(logits: Float[Array, "a b"], sample: Float[Array, "a S b"]) -> Float[Array, "S b"]:
    """log p(sample) summed over the first axis: the density of each column. Infinite logits contribute 0."""
    finite = jnp.where(jnp.isfinite(logits), logits, 0.0)[:, None, :]
    log_p = sample * finite - jax.nn.softplus(finite)
    return jnp.sum(jnp.where(jnp.isfinite(logits)[:, None, :], log_p, 0.0), axis=0)


def acyclicity(graph: Float[Array, "d d"]) -> Float[Array, ""]:
    """h(G) = tr[(I + G/d)^d] - d for 0/1 or relaxed adjacency (`graph[i, j]` is i → j).

    The power of I + G/d is taken as Σ_p C(d, p) (G/d)^p through P = (I + G/d)^d - I, so that an acyclic
    graph gives 0 and not the rounding error of d - d: (I + A)(I + B) - I = A + B + AB.
    """
    d = graph.shape[0]
    base = graph / d
    power, square, n = jnp.zeros_like(base), base, d
    while n:
        if n & 1:
            power = power + square + power @ square
        n >>= 1
        if n:
            square = 2 * square + square @ square
    return jnp.trace(power)


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
        scores = alpha * edge_scores(z)
        noise = jax.random.logistic(key, (self.n_samples, *scores.shape), z.dtype)
        graphs = jnp.where(off_diagonal(z.shape[1]), jax.nn.sigmoid((scores + noise) / self.temperature), 0.0)
        return jnp.mean(jax.vmap(acyclicity)(graphs))
