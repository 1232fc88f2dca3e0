"""The score of DCDI-G (Brouillard et al. 2020, Sec. 3): masked networks, masked targets, the acyclicity constraint.

`graph[i, j] = 1` means i -> j and `targets[k, j] = 1` that context k + 1 intervenes on j, so a row of context k + 1 has

log f(x) = Σ_j (1 - R_kj) log N(x_j; NN_j(M_:j ∘ x), σ_j²) + R_kj log p_kj(x_j),

with M_ij ~ Bernoulli(σ(Λ_ij)) and R_kj ~ Bernoulli(σ(β_kj)). An observational row has R = 0.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Float32, Float64, Key

from bacadi.baselines.dcdi.dcdi import LEAK, Constants, Effect, Networks
from bacadi.model.noise import log_normal

# A standardised column whose mechanism fits better than this is taken as noiseless; without a floor a context of one
# row, or one whose target is held at a constant, would have an unbounded likelihood.
MIN_STD = 1e-3
_ORDER = 10

PRNGKey = Key[Array, ""]
PerTarget = Float32[Array, "M d"]


class Parameters(NamedTuple):
    """All that is trained; `effect` is a mean (perfect interventions) or networks of its own (imperfect ones)."""

    edge_logit: Float32[Array, "d d"]
    target_logit: Float32[Array, "M d"]
    networks: Networks
    log_std: Float32[Array, " d"]
    effect: Effect
    effect_log_std: Float32[Array, "M d"]


class ContextRows(NamedTuple):
    """Rows and their contexts: `one_hot[n, k] = 1` for a row of context k + 1, all 0 for an observational row."""

    x: Float32[Array, "*B n d"]
    one_hot: Float32[Array, "*B n M"]


class Masks(NamedTuple):
    """What is not learned of M and R: 1 or 0, and NaN where a mask is to be found. The diagonal of `edges` is 0."""

    edges: Float32[Array, "*B d d"]
    targets: Float32[Array, "*B M d"]

    def probabilities(self, parameters: Parameters) -> tuple[Float32[Array, "*B d d"], Float32[Array, "*B M d"]]:
        """σ(Λ) and σ(β), or what is known."""
        logits = (parameters.edge_logit, parameters.target_logit)
        edges, targets = (jnp.where(jnp.isnan(m), jax.nn.sigmoid(z), m) for z, m in zip(logits, self, strict=True))
        return edges, targets


class Penalty(NamedTuple):
    """Coefficients of the augmented Lagrangian: λ, λ_R, γ and μ."""

    sparsity: Float[Array, ""] | float
    target_sparsity: Float[Array, ""] | float
    multiplier: Float64[Array, ""]
    weight: Float64[Array, ""]


def initial_parameters(key: PRNGKey, n_variables: int, n_contexts: int, n_hidden: int, perfect: bool) -> Parameters:
    """Glorot normal weights, zero biases, unit noise, and every mask 1 with probability ½."""
    key_mechanism, key_effect = jax.random.split(key)
    d, shape, h = n_variables, (n_contexts, n_variables), n_hidden

    def networks(key: PRNGKey) -> Networks:
        keys = jax.random.split(key)
        first = jax.random.normal(keys[0], (d, d, h), jnp.float32) * (2 / (d + h)) ** 0.5
        second = jax.random.normal(keys[1], (d, h), jnp.float32) * (2 / (h + 1)) ** 0.5
        return Networks(first, jnp.zeros((d, h), jnp.float32), second, jnp.zeros(d, jnp.float32))

    effect: Effect = Constants(jnp.zeros(shape, jnp.float32))
    if not perfect:
        effect = jax.vmap(networks)(jax.random.split(key_effect, n_contexts))
    edge_logit, log_std, of_targets = (jnp.zeros(size, jnp.float32) for size in ((d, d), d, shape))
    return Parameters(edge_logit, of_targets, networks(key_mechanism), log_std, effect, of_targets)


def lagrangian(
    key: PRNGKey, parameters: Parameters, known: Masks, rows: ContextRows, penalty: Penalty, rows_per_mask: int
) -> Float64[Array, ""]:
    """-E[log f] + λ E‖M‖₀ + λ_R E‖R‖₀ + γ h(σ(Λ)) + μ/2 h(σ(Λ))², the last two the augmented Lagrangian's."""
    edges, targets = known.probabilities(parameters)
    h = cyclicity(edges)
    fit = negative_log_likelihood(key, parameters, known, rows, rows_per_mask)
    sparse = penalty.sparsity * jnp.sum(edges) + penalty.target_sparsity * jnp.sum(targets)
    return fit + sparse + penalty.multiplier * h + 0.5 * penalty.weight * h**2


def negative_log_likelihood(
    key: PRNGKey, parameters: Parameters, known: Masks, rows: ContextRows, rows_per_mask: int
) -> Float32[Array, ""]:
    """-E[log f] per row, with fresh masks; differentiable through the relaxed masks (straight-through).

    Every `rows_per_mask` rows share a graph mask, which divides their number.
    """
    key_edges, key_targets = jax.random.split(key)
    n, d = rows.x.shape
    graphs = straight_through(key_edges, parameters.edge_logit, (n // rows_per_mask, d, d))
    graphs = jnp.where(jnp.isnan(known.edges), graphs, known.edges)
    targets = _row_targets(key_targets, parameters.target_logit, known.targets, rows)
    mechanism = log_normal(rows.x, masked_mean(parameters.networks, graphs, rows.x), floored(parameters.log_std))
    std = floored(rows.one_hot @ parameters.effect_log_std)
    effect = log_normal(rows.x, _effect_mean(parameters.effect, graphs, rows), std)
    return -jnp.mean(jnp.sum(mechanism + targets * (effect - mechanism), axis=1))


def _row_targets(key: PRNGKey, logits: PerTarget, known: PerTarget, rows: ContextRows) -> Float32[Array, "n d"]:
    """R of the context of each row. Products with `one_hot` and not indexing: their transpose is not a scatter,
    which is many times slower on a CPU."""
    free = jnp.isnan(known).astype(logits.dtype)
    drawn = straight_through(key, rows.one_hot @ logits, rows.x.shape)
    return rows.one_hot @ jnp.where(jnp.isnan(known), 0.0, known) + (rows.one_hot @ free) * drawn


def _effect_mean(effect: Effect, graphs: Float32[Array, "g d d"], rows: ContextRows) -> Float32[Array, "n d"]:
    if isinstance(effect, Constants):
        return rows.one_hot @ effect.value
    of_row = jax.tree.map(lambda leaf: jnp.tensordot(rows.one_hot, leaf, 1), effect)
    mean = jax.vmap(lambda networks, graph, x: masked_mean(networks, graph[None], x[None])[0])
    return mean(of_row, jnp.repeat(graphs, len(rows.x) // len(graphs), axis=0), rows.x)


def masked_mean(networks: Networks, graphs: Float32[Array, "g d d"], x: Float32[Array, "n d"]) -> Float32[Array, "n d"]:
    """NN_j(M_:j ∘ x) for every variable; the rows are split evenly among the g graphs."""
    (n, d), g = x.shape, graphs.shape[0]
    if g == n:
        value = jnp.einsum("nij,ijh->njh", x[:, :, None] * graphs, networks.first)
    else:
        weight = (graphs[..., None] * networks.first).reshape(g, d, -1)
        value = (x.reshape(g, -1, d) @ weight).reshape(n, d, -1)
    value = jax.nn.leaky_relu(value + networks.first_bias, LEAK)
    return jnp.sum(value * networks.second, axis=-1) + networks.second_bias


def floored(log_std: Float32[Array, "..."]) -> Float32[Array, "..."]:
    """The standard deviation of a trained logarithm, above `MIN_STD`."""
    return jnp.exp(log_std) + MIN_STD


def straight_through(key: PRNGKey, logit: Float32[Array, "..."], shape: tuple[int, ...]) -> Float32[Array, "..."]:
    """Bernoulli(σ(logit)) samples whose gradient is that of the Gumbel-sigmoid at temperature 1.

    σ(logit + log(u / (1 - u))) = u e^logit / (u e^logit + 1 - u) needs no logarithm of the uniform u.
    """
    u = jax.random.uniform(key, shape, jnp.float32)
    odds = u * jnp.exp(logit)
    soft = odds / (odds + (1 - u))
    hard = (soft > 0.5).astype(soft.dtype)
    return jax.lax.stop_gradient(hard - soft) + soft


def cyclicity(edges: Float32[Array, "d d"]) -> Float64[Array, ""]:
    """h(A) = tr e^A - d, 0 exactly without cycles. In float64: it grows like e^d and enters the Lagrangian squared."""
    return trace_exponential(edges.astype(jnp.float64))


@jax.custom_jvp
def trace_exponential(matrix: Float64[Array, "d d"]) -> Float64[Array, ""]:
    """tr e^A - d, its gradient (e^A)ᵀ in closed form."""
    return jnp.trace(_exponential_minus_identity(matrix))


@trace_exponential.defjvp
def _trace_exponential_jvp(primals: tuple, tangents: tuple) -> tuple:
    (matrix,), (tangent,) = primals, tangents
    power = _exponential_minus_identity(matrix)
    return jnp.trace(power), jnp.trace(tangent) + jnp.sum(power.T * tangent)


def _exponential_minus_identity(matrix: Float64[Array, "d d"]) -> Float64[Array, "d d"]:
    """P = e^A - I by scaling and squaring with (I + P)² - I = 2P + P²: an acyclic A gives the trace 0, not d - d."""
    # Halvings that bring the norm of a d x d matrix of probabilities, at most d - 1, below 1/2.
    n_squarings = max(len(matrix) - 1, 1).bit_length() + 1
    scaled = matrix / 2**n_squarings
    power = scaled
    for k in range(_ORDER, 1, -1):
        power = scaled + scaled @ power / k
    for _ in range(n_squarings):
        power = 2 * power + power @ power
    return power
