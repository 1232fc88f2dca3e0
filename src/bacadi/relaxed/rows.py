"""The data as the model reads them on the device: rows, their contexts and per-context sums."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bacadi.data.contexts import ContextData
from bacadi.model.effects import moments


class Rows(eqx.Module):
    """Rows and the context each belongs to; K contexts, the observational one first (it may be empty).

    `one_hot` sums rows into contexts by a matrix product. `count` holds the true number of samples, which
    may exceed the number of rows when a mechanism keeps sufficient statistics only.
    """

    x: Float[Array, "*B N c"]
    one_hot: Float[Array, "*B K N"]
    count: Float[Array, "*B K"]


class ContextMoments(eqx.Module):
    """Number, mean and centred sum of squares of every variable in every context but the observational."""

    count: Float[Array, " M"]
    mean: Float[Array, "M d"]
    squares: Float[Array, "M d"]


def one_hot_rows(x: Float[np.ndarray, "N c"], context: np.ndarray, count: np.ndarray, dtype: jnp.dtype) -> Rows:
    one_hot = context[None, :] == np.arange(len(count))[:, None]
    return Rows(jnp.asarray(x, dtype), jnp.asarray(one_hot, dtype), jnp.asarray(count, dtype))


def raw_rows(data: ContextData, dtype: jnp.dtype) -> Rows:
    """Every sample as a row of its own."""
    return one_hot_rows(data.x, data.context, data.counts, dtype)


def gram_rows(data: ContextData, dtype: jnp.dtype, intercept: bool) -> Rows:
    """Rows with the same X'X in every context and at most as many rows per context as columns.

    A context with more samples than columns is replaced by the triangular factor of its QR decomposition:
    all sums of squared linear residuals stay as they are and their cost no longer grows with the samples.
    With `intercept` a column of ones is appended.
    """
    design = np.column_stack([data.x, np.ones(data.n_rows)]) if intercept else data.x
    blocks, context = [], []
    for k, count in enumerate(data.counts):
        block = design[data.context == k]
        if count > design.shape[1]:
            block = np.linalg.qr(block, mode="r")
        blocks.append(block)
        context.append(np.full(len(block), k))
    return one_hot_rows(np.concatenate(blocks), np.concatenate(context), data.counts, dtype)


def context_moments(data: ContextData, dtype: jnp.dtype) -> ContextMoments:
    return ContextMoments(*(jnp.asarray(leaf, dtype) for leaf in moments(data)))


def split_rows(rows: Rows) -> Rows:
    """One single-context `Rows` per intervention context, stacked along a new leading axis and padded."""
    one_hot = np.asarray(rows.one_hot[1:])
    n_max = int(one_hot.sum(axis=1).max(initial=0))
    x = np.zeros((len(one_hot), n_max, rows.x.shape[1]), rows.x.dtype)
    mask = np.zeros((len(one_hot), 1, n_max), rows.x.dtype)
    for k, member in enumerate(one_hot > 0):
        block = np.asarray(rows.x)[member]
        x[k, : len(block)], mask[k, 0, : len(block)] = block, 1
    return Rows(jnp.asarray(x), jnp.asarray(mask), rows.count[1:, None])
