"""Mechanisms in the differentiable reading: sums of log densities over the rows of each context, for S graphs at once.

`prepare` brings the data to the device in the form that `log_likelihood` reads. Both work for every mechanism with
parameters from its `log_prob` alone; linear mechanisms and networks have faster paths, which `check_mechanism` and the
tests hold to the plain one. BGe has no parameters and `log_evidence` in place of a likelihood.
"""

from functools import singledispatch
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, PyTree

from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError
from bacadi.model.effects import moments
from bacadi.model.integrated import BGe
from bacadi.model.linear import LinearGaussian, LinearTheta
from bacadi.model.mechanism import AbstractMechanism, Mechanism
from bacadi.model.neural import NeuralGaussian, NeuralTheta, activation
from bacadi.model.noise import gaussian_log_likelihood
from bacadi.relaxed.latent import Graphs
from bacadi.relaxed.squares import Columns, Kept, Network, context_squares, kept_squares

ByContext = Float[Array, "K S d"]
LOG_PI = 1.1447298858494002


class Rows(eqx.Module):
    """Rows and the context each belongs to; K contexts, the observational one first (it may be empty).

    Rows stand in pieces of q = N / P, each of one context and filled up with zeros; `one_hot` sums pieces into contexts
    by a matrix product. q is 1 unless a mechanism keeps sufficient statistics, of which zeros are no part; `count`
    holds the true number of samples, of which there may be more or fewer.
    """

    x: Float[Array, "*B N c"]
    one_hot: Float[Array, "*B K P"]
    count: Float[Array, "*B K"]


class ContextMoments(eqx.Module):
    """Number, mean and centred sum of squares of every variable in every context but the observational."""

    count: Float[Array, "M d"]
    mean: Float[Array, "M d"]
    squares: Float[Array, "M d"]


def one_hot_rows(blocks: list[Float[np.ndarray, "_ c"]], count: np.ndarray, dtype: jnp.dtype, size: int = 1) -> Rows:
    """The rows of every context on the device, in pieces of `size` rows."""
    filled = [np.pad(block, ((0, -len(block) % size), (0, 0))) for block in blocks]
    context = np.repeat(np.arange(len(blocks)), [len(block) // size for block in filled])
    one_hot = context[None, :] == np.arange(len(blocks))[:, None]
    return Rows(jnp.asarray(np.concatenate(filled), dtype), jnp.asarray(one_hot, dtype), jnp.asarray(count, dtype))


def raw_rows(data: ContextData, dtype: jnp.dtype) -> Rows:
    """Every sample as a row of its own."""
    return one_hot_rows(data.by_context(), data.counts, dtype)


def gram_rows(data: ContextData, dtype: jnp.dtype, intercept: bool) -> Rows:
    """Rows with the same X'X in every context and at most as many rows per context as columns.

    A context with more samples than columns is replaced by the triangular factor of its QR decomposition:
    all sums of squared linear residuals stay as they are and their cost no longer grows with the samples.
    With `intercept` a column of ones is appended.
    """
    design = np.column_stack([data.x, np.ones(data.n_rows)]) if intercept else data.x
    blocks: list[Any] = [np.linalg.qr(b, mode="r") if len(b) > b.shape[1] else b for b in data.by_context(design)]
    return one_hot_rows(blocks, data.counts, dtype, piece_size([len(block) for block in blocks], design.shape[1]))


def piece_size(lengths: list[int], n_columns: int) -> int:
    """The number of rows in a piece with which `context_squares` multiplies least.

    N rows, those that fill up pieces among them, meet c columns in one product and N / q pieces K contexts in another.

    >>> piece_size([20, 10, 10, 9], 20), piece_size([1, 1], 3)
    (10, 1)
    """
    sizes, counts = np.arange(1, max(max(lengths), 1) + 1), np.array(lengths)
    n_pieces = -(-counts[None, :] // sizes[:, None]).sum(axis=1)
    return int(sizes[np.argmin(n_pieces * (sizes * n_columns + len(lengths)))])


def context_moments(data: ContextData, dtype: jnp.dtype) -> ContextMoments:
    """`model.effects.moments` on the device."""
    return ContextMoments(*(jnp.asarray(leaf, dtype) for leaf in moments(data)))


def split_rows(rows: Rows) -> Rows:
    """One single-context `Rows` per intervention context, stacked along a new leading axis and padded."""
    one_hot = np.repeat(np.asarray(rows.one_hot[1:]), len(rows.x) // max(rows.one_hot.shape[1], 1), axis=1)
    n_max = int(one_hot.sum(axis=1).max(initial=0))
    x = np.zeros((len(one_hot), n_max, rows.x.shape[1]), rows.x.dtype)
    mask = np.zeros((len(one_hot), 1, n_max), rows.x.dtype)
    for k, member in enumerate(one_hot > 0):
        block = np.asarray(rows.x)[member]
        x[k, : len(block)], mask[k, 0, : len(block)] = block, 1
    return Rows(jnp.asarray(x), jnp.asarray(mask), rows.count[1:, None])


@singledispatch
def prepare(mechanism: Mechanism, data: ContextData, dtype: jnp.dtype) -> PyTree:
    """The data on the device, as the differentiable reading of the mechanism wants them."""
    if isinstance(mechanism, AbstractMechanism):
        return raw_rows(data, dtype)
    raise ConfigError(
        f"{type(mechanism).__name__} is integrated out and has no parameters for SVGD; use method mcmc or exact with "
        "it, or NeuralGaussian with SVGD."
    )


@singledispatch
def log_likelihood(mechanism: AbstractMechanism, theta: PyTree, graphs: Graphs, rows: Rows) -> ByContext:
    """Sum of `log_prob` over the rows of each context, for S graphs at once."""
    over_rows = jax.vmap(mechanism.log_prob, in_axes=(None, None, 0))
    over_graphs = jax.vmap(over_rows, in_axes=(None, 1, None), out_axes=1)
    return jnp.einsum("kn,nsj->ksj", rows.one_hot, over_graphs(theta, graphs, rows.x))


@singledispatch
def kept_log_likelihood(
    mechanism: AbstractMechanism, theta: PyTree, graphs: Graphs, keep: ByContext, rows: Rows
) -> Columns:
    """Σ_k keep_k log p(rows of context k): those contexts in which a variable is no target, in part if I is relaxed."""
    return jnp.sum(keep * log_likelihood(mechanism, theta, graphs, rows), axis=0)


@singledispatch
def log_prior_of_theta(mechanism: AbstractMechanism, theta: PyTree, graphs: Graphs) -> Columns:
    """log p(θ_j | G) for S graphs."""
    return jax.vmap(mechanism.log_prior, in_axes=(None, 1))(theta, graphs)


@log_prior_of_theta.register(LinearGaussian)
@log_prior_of_theta.register(NeuralGaussian)
def _(mechanism: LinearGaussian | NeuralGaussian, theta: PyTree, graphs: Graphs) -> Columns:
    return mechanism.log_prior(theta, graphs)


# Linear mechanisms: residuals of all graphs in one matrix product over sufficient statistics.


@prepare.register
def _(mechanism: LinearGaussian, data: ContextData, dtype: jnp.dtype) -> Rows:
    return gram_rows(data, dtype, intercept=mechanism.intercept_prior_std is not None)


@log_likelihood.register
def _(mechanism: LinearGaussian, theta: LinearTheta, graphs: Graphs, rows: Rows) -> ByContext:
    d, s, _ = graphs.shape
    coefficients = jnp.eye(d, dtype=graphs.dtype)[:, None, :] - graphs * theta.weight[:, None, :]
    if theta.intercept is not None:
        coefficients = jnp.concatenate([coefficients, jnp.broadcast_to(-theta.intercept, (1, s, d))])
    squares = context_squares(rows.x, rows.one_hot, coefficients.reshape(-1, s * d)).reshape(-1, s, d)
    return gaussian_log_likelihood(rows.count[:, None, None], squares, mechanism.log_noise_std(theta))


# Networks: one matrix product feeds the first layer of every row, sample, network and unit at once.


@log_likelihood.register
def _(mechanism: NeuralGaussian, theta: NeuralTheta, graphs: Graphs, rows: Rows) -> ByContext:
    n, (d, s, _), bend = len(rows.x), graphs.shape, activation(mechanism, jnp)
    first, *rest = theta.layers
    weight = graphs[..., None] * first.weight[:, None]
    value = (rows.x @ weight.reshape(d, -1)).reshape(n, s, d, -1) + first.bias
    for layer in rest[:-1]:
        value = jnp.einsum("nsji,ijh->nsjh", bend(value), layer.weight) + layer.bias
    value = jnp.sum(bend(value) * rest[-1].weight[:, :, 0].T, axis=-1) + rest[-1].bias[:, 0] if rest else value[..., 0]
    squares = jax.lax.optimization_barrier((rows.x[:, None, :] - value) ** 2).reshape(n, s * d)
    squares = (rows.one_hot @ squares).reshape(-1, s, d)
    return gaussian_log_likelihood(rows.count[:, None, None], squares, mechanism.log_noise_std(theta))


@kept_log_likelihood.register
def _(mechanism: NeuralGaussian, theta: NeuralTheta, graphs: Graphs, keep: ByContext, rows: Rows) -> Columns:
    if len(theta.layers) != 2:
        return kept_log_likelihood.dispatch(AbstractMechanism)(mechanism, theta, graphs, keep, rows)
    first, last = theta.layers
    network = Network(jnp.moveaxis(first.weight, 2, 0), first.bias.T, last.weight[:, :, 0], last.bias[:, 0])
    squares = kept_squares(activation(mechanism, jnp), rows.x, rows.one_hot, Kept(network, graphs, keep))
    return gaussian_log_likelihood(jnp.tensordot(rows.count, keep, 1), squares, mechanism.log_noise_std(theta))


# BGe: evidence of relaxed graphs and targets in place of a likelihood.


class BGeStatistics(eqx.Module):
    """Sums over the rows of each context: number, Σ x and Σ x x'."""

    count: Float[Array, " K"]
    total: Float[Array, "K d"]
    product: Float[Array, "K d d"]


@prepare.register
def _(mechanism: BGe, data: ContextData, dtype: jnp.dtype) -> BGeStatistics:
    sums = [(len(rows), rows.sum(axis=0), rows.T @ rows) for rows in data.by_context()]
    return BGeStatistics(*(jnp.asarray(np.stack(part), dtype) for part in zip(*sums, strict=True)))


def log_evidence(mechanism: BGe, graphs: Graphs, keep: ByContext, statistics: BGeStatistics) -> Columns:
    """log p(column j | its parents) over the rows where j is not a target: context k counts `keep[k, s, j]` times.

    A row may count fractionally (relaxed targets) and parents may be relaxed: R_P becomes D R D + I - D² with
    D = diag(G_:j), which is R_P on 0/1 graphs and positive definite between.
    """

    def one_node(parents: Array, keep: Array, node: Array) -> Float[Array, ""]:
        n, total, t = keep @ statistics.count, keep @ statistics.total, mechanism.prior_scale
        matrix = jnp.tensordot(keep, statistics.product, 1) - jnp.outer(total, total) / (n + mechanism.alpha_mu)
        matrix = matrix + t * jnp.eye(len(parents), dtype=matrix.dtype)
        masked = parents[:, None] * matrix * parents[None, :] + jnp.diag(1 - parents**2)
        factor = jnp.linalg.cholesky(masked)
        projected = solve_triangular(factor, parents * matrix[:, node], lower=True)
        schur = matrix[node, node] - projected @ projected
        size = jnp.sum(parents)
        free = mechanism.alpha_omega_excess + size  # α_ω - d + l
        constant = -0.5 * n * LOG_PI + 0.5 * jnp.log(mechanism.alpha_mu / (n + mechanism.alpha_mu))
        constant = constant + gammaln((n + free + 1) / 2) - gammaln((free + 1) / 2)
        constant = constant + 0.5 * (free + size + 1) * jnp.log(t)
        # log |R_{P∪j}| = log |R_P| + log of the Schur complement, so one factorisation serves both.
        return constant - jnp.sum(jnp.log(jnp.diagonal(factor))) - 0.5 * (n + free + 1) * jnp.log(schur)

    over_nodes = jax.vmap(one_node, in_axes=(1, 1, 0))
    over_samples = jax.vmap(over_nodes, in_axes=(1, 1, None))
    return over_samples(graphs, keep, jnp.arange(graphs.shape[0]))
