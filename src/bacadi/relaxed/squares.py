"""Sums of squared residuals, the most of what a step costs, with gradients of their own.

A residual belongs to one sample and one column of the graph, and what the data say of that pair enters everything else
as one number per context or one in all. So residuals are never differentiated twice, nor kept longer than needed.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from bacadi.relaxed.latent import Graphs

CACHED = 2**17  # numbers that a core keeps close to it, 512 kB in single precision
Columns = Float[Array, "S d"]
Bend = Callable[[Array], Array]


@jax.custom_vjp
def context_squares(
    x: Float[Array, "N c"], one_hot: Float[Array, "K P"], coefficients: Float[Array, "c p"]
) -> Float[Array, "K p"]:
    """Σ_{n in context k} (x_n · coefficients)², with a gradient of one matrix product that reuses the residuals.

    Rows come in P pieces of N / P, each of one context; see `Rows`.
    """
    return _context_squares_forward(x, one_hot, coefficients)[0]


def _context_squares_forward(x: Array, one_hot: Array, coefficients: Array) -> tuple[Array, Any]:
    # The barrier keeps XLA from fusing the first product into the second, which it then computes row by row.
    residuals = jax.lax.optimization_barrier(x @ coefficients)
    pieces = residuals.reshape(one_hot.shape[1], -1, coefficients.shape[1])
    return one_hot @ jnp.sum(pieces * pieces, axis=1), (x, one_hot, pieces)


def _context_squares_backward(saved: Any, cotangent: Array) -> tuple[None, None, Array]:
    x, one_hot, pieces = saved
    scaled = pieces * (one_hot.T @ (2 * cotangent))[:, None]
    return None, None, x.T @ scaled.reshape(len(x), -1)


context_squares.defvjp(_context_squares_forward, _context_squares_backward)


class Network(NamedTuple):
    """d networks with one hidden layer of H units: x_j ≈ output_j + Σ_h slope_hj bend(bias_hj + Σ_i weight_hij x_i)."""

    weight: Float[Array, "H d d"]
    bias: Float[Array, "H d"]
    slope: Float[Array, "H d"]
    output: Float[Array, " d"]


class Kept(NamedTuple):
    """What `kept_squares` looks at, and the form its gradients have; the rows are in `x` and `one_hot`."""

    network: Network
    graphs: Graphs
    keep: Float[Array, "K S d"]


class _Slopes(NamedTuple):
    """Gradients of the sum of each sample and column, in blocks of samples: those of weights and biases, of slopes, of
    outputs, and the sums of the contexts, which are the gradient of `keep`."""

    inputs: Float[Array, "B H e c d"]
    slope: Float[Array, "B H c d"]
    output: Float[Array, "B c d"]
    squares: Float[Array, "B K c d"]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def kept_squares(bend: Bend, x: Float[Array, "N d"], one_hot: Float[Array, "K N"], kept: Kept) -> Columns:
    """Σ_k keep_ksj Σ_{n in context k} (x_nj - network_j of the parents in graph s)².

    A few samples at a time, so that their units stay in cache, and one unit after the other. The gradient is taken
    beside the value: whatever a sum is used for only multiplies it.
    """
    return _by_blocks(bend, x, one_hot, kept)[0]


def _kept_squares_forward(bend: Bend, x: Array, one_hot: Array, kept: Kept) -> tuple[Columns, tuple[Kept, _Slopes]]:
    value, slopes = _by_blocks(bend, x, one_hot, kept)
    return value, (kept, slopes)


def _kept_squares_backward(bend: Bend, saved: tuple[Kept, _Slopes], cotangent: Columns) -> tuple[None, None, Kept]:
    (network, graphs, keep), slopes = saved
    weights = cotangent.reshape(slopes.output.shape)
    inputs = slopes.inputs * weights[:, None, None]
    of_weight, of_bias = inputs[:, :, :-1], jnp.sum(inputs[:, :, -1], axis=(0, 2))
    blocks = _in_blocks(graphs, len(weights))
    of_graphs = jnp.sum(of_weight * network.weight[None, :, :, None], axis=1)
    of_network = Network(
        jnp.sum(of_weight * blocks[:, None], axis=(0, 3)),
        of_bias,
        jnp.sum(slopes.slope * weights[:, None], axis=(0, 2)),
        jnp.sum(slopes.output * weights, axis=(0, 1)),
    )
    of_keep = jnp.moveaxis(slopes.squares, 0, 1).reshape(keep.shape) * cotangent
    return None, None, Kept(of_network, jnp.moveaxis(of_graphs, 0, 1).reshape(graphs.shape), of_keep)


kept_squares.defvjp(_kept_squares_forward, _kept_squares_backward)


def _in_blocks(samples: Float[Array, "a S d"], n_blocks: int) -> Float[Array, "B a c d"]:
    a, s, d = samples.shape
    return jnp.moveaxis(samples.reshape(a, n_blocks, s // n_blocks, d), 1, 0)


def _n_blocks(n_samples: int, size: int) -> int:
    """Into how many equal blocks to part samples of `size` numbers each, so that a block fits into the cache."""
    fits = [n for n in range(1, n_samples + 1) if n_samples % n == 0 and n_samples // n * size <= CACHED]
    return min(fits, default=n_samples)


def _by_blocks(bend: Bend, x: Array, one_hot: Array, kept: Kept) -> tuple[Columns, _Slopes]:
    network, graphs, keep = kept
    n, (d, s, _) = len(x), graphs.shape
    n_blocks = _n_blocks(s, n * d * len(network.slope))
    design = jnp.concatenate([x, jnp.ones((n, 1), x.dtype)], axis=1)

    def one_block(item: tuple[Array, Array]) -> tuple[Columns, _Slopes]:
        graphs, keep = item
        p = graphs.shape[1] * d

        def spread(of_columns: Array) -> Array:
            """The same for every sample: [.., d] becomes [.., c d]."""
            wide = jnp.broadcast_to(of_columns[..., None, :], (*of_columns.shape[:-1], p // d, d))
            return wide.reshape(*of_columns.shape[:-1], p)

        def unit(mean: Array, item: tuple[Array, Array, Array]) -> tuple[Array, tuple[Array, Array]]:
            weight, bias, slope = item
            inputs = jnp.concatenate([graphs.reshape(d, p) * spread(weight), spread(bias)[None]])
            value, rise = jax.jvp(bend, (design @ inputs,), (jnp.ones((n, p), x.dtype),))
            return mean + value * spread(slope), (value, rise)

        def back(_: None, item: tuple[Array, Array, Array]) -> tuple[None, tuple[Array, Array]]:
            value, rise, slope = item
            return None, (design.T @ (scaled * rise * spread(slope)), jnp.sum(scaled * value, axis=0))

        start = jnp.broadcast_to(spread(network.output), (n, p))
        mean, units = jax.lax.scan(unit, start, network[:3])
        residuals = spread(x) - mean
        squares = one_hot @ (residuals * residuals)
        scaled = residuals * (one_hot.T @ (-2 * keep.reshape(-1, p)))
        _, (inputs, slope) = jax.lax.scan(back, None, (*units, network.slope))
        slopes = _Slopes(inputs, slope, jnp.sum(scaled, axis=0), squares)
        shaped = _Slopes(*(leaf.reshape(*leaf.shape[:-1], p // d, d) for leaf in slopes))
        return jnp.sum(keep * shaped.squares, axis=0), shaped

    value, slopes = jax.lax.map(one_block, (_in_blocks(graphs, n_blocks), _in_blocks(keep, n_blocks)))
    return value.reshape(s, d), slopes
