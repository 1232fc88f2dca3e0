"""Parameters of linear Gaussian mechanisms and of BGe from their posterior, given a graph and states; compiled."""

import math

import numpy as np

from bacadi.evidence.compiled import compiled
from bacadi.evidence.tables import (
    NODE,
    SHIFT,
    SOFT,
    by_drift,
    change_factor,
    columns_of,
    context_block,
    moved,
    noise_constant,
    width_log_evidence,
)


@compiled
def draw_index(rng, log_p):  # type: ignore[no-untyped-def]
    """An index with probability proportional to exp(log_p)."""
    cumulative = np.cumsum(np.exp(log_p - log_p.max()))
    return np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")


@compiled
def draw_regression(rng, prior, columns, matrix, n_rows):  # type: ignore[no-untyped-def]
    """σ and coefficients from their posterior, given the Gram matrix of (Z, y)."""
    size, node = len(columns) - 1, columns[-1]
    noise, n_widths = noise_constant(prior, node, size - prior.n_fixed, n_rows), len(prior.width_squares)
    log_p = np.array([width_log_evidence(prior, w, columns, matrix, n_rows, noise) for w in range(n_widths)])
    w = draw_index(rng, log_p)
    for a in range(size):
        matrix[a, a] += prior.precision[node, columns[a]] / prior.width_squares[w]
        for b in range(a):
            matrix[b, a] = matrix[a, b]
    factor = np.linalg.cholesky(np.ascontiguousarray(matrix[:size, :size])) if size > 0 else np.empty((0, 0))
    product = matrix[size, :size].copy()
    half = np.linalg.solve(factor, product) if size > 0 else product
    if prior.noise_known:
        std = math.sqrt(prior.variance[node])
    else:
        residual = max(matrix[size, size] - (half * half).sum(), 0.0)
        shape = prior.shape[size - prior.n_fixed] + 0.5 * n_rows
        std = math.sqrt((prior.scale[node] + 0.5 * residual) / rng.standard_gamma(shape))
    for a in range(size):
        half[a] += std * rng.standard_normal()
    return std, np.linalg.solve(factor.T.copy(), half) if size > 0 else half


@compiled
def draw_mechanism(rng, tables, node, parents, columns, state):  # type: ignore[no-untyped-def]
    """The usual mechanism of a node from its posterior: the drift, σ and the coefficients."""
    matrices, n_rows, log_p = by_drift(tables, node, parents, len(parents), columns, state)
    b = draw_index(rng, log_p)
    std, coefficients = draw_regression(rng, tables.prior, columns, matrices[b], n_rows)
    return b, std, coefficients


@compiled
def draw_soft(rng, tables, k, node, parents, columns, value, usual):  # type: ignore[no-untyped-def]
    """σ and coefficients that a soft effect has put in place of the usual ones: drawn anew, or changed."""
    b, std, coefficients = usual
    square, g, size = value * value, tables.group[node], len(columns)
    block = np.empty((size + 1, size))
    context_block(tables, g, k, columns, block)
    if value == 0:
        return draw_regression(rng, tables.prior, columns, block, tables.rows[g, k + 1])
    own = coefficients.copy()
    far, ratio = moved(tables, k, parents, len(parents)), tables.ratio[b]
    shift = square + tables.drift[b] + tables.move[b] * far
    lower = change_factor(tables, columns, block, ratio, square + tables.slope[b], shift)
    n = len(lower)
    if n > 0:
        left = np.empty(n)
        for a in range(n):
            left[a] = block[a, size - 1]
            for c in range(len(coefficients)):
                left[a] -= coefficients[c] * block[a, c]
        half = np.linalg.solve(lower, left / ratio)
        for a in range(n):
            half[a] += std * rng.standard_normal()
        own[:n] += np.linalg.solve(lower.T.copy(), half)
    return std * math.sqrt(ratio), own


@compiled
def draw_mechanisms(rng, tables, graphs, states):  # type: ignore[no-untyped-def]
    """Weights, intercepts, noise and shifts of all nodes for every draw, and the mechanisms of soft effects; float32.

    Those of soft effects are kept for targets alone, at most `n_slots` of a draw: `own[n, slot]` are weights, intercept
    and σ, `where[n, slot]` the context and the node (-1: no more targets).
    """
    n, m, d = states.shape
    n_slots = 0
    for at in range(n):
        n_soft = 0
        for s in states[at].ravel():
            n_soft += tables.kind[s] == SOFT
        n_slots = max(n_slots, n_soft)
    weight, shift = np.zeros((n, d, d), np.float32), np.zeros((n, m, d), np.float32)
    intercept, noise_std = np.zeros((n, d), np.float32), np.zeros((n, d), np.float32)
    noise_ratio = np.ones((n, d), np.float32)
    own, where = np.zeros((n, n_slots, d + 2), np.float32), np.full((n, n_slots, 2), -1, np.int16)
    for at in range(n):
        slot = 0
        for node in range(d):
            parents, state = np.flatnonzero(graphs[at, :, node]).astype(NODE), states[at, :, node].copy()
            columns, _ = columns_of(tables, node, parents, len(parents))
            usual = draw_mechanism(rng, tables, node, parents, columns, state)
            b, std, coefficients = usual
            noise_std[at, node], noise_ratio[at, node] = std, tables.ratio[b]
            for a in range(len(parents)):
                weight[at, parents[a], node] = coefficients[a]
            if tables.prior.n_fixed > 0:
                intercept[at, node] = coefficients[len(parents)]
            for k in range(m):
                kind, value = tables.kind[state[k]], tables.value[state[k]]
                if kind == SHIFT:
                    g, size = tables.group[node], len(columns)
                    block = np.empty((size + 1, size))
                    context_block(tables, g, k, columns, block)
                    residual = block[size, size - 1]
                    for a in range(len(coefficients)):
                        residual -= coefficients[a] * block[size, a]
                    ratio = tables.ratio[b]
                    spread = value**2 + tables.drift[b] + tables.move[b] * moved(tables, k, parents, len(parents))
                    precision = tables.rows[g, k + 1] / ratio + 1 / spread
                    shift[at, k, node] = (
                        residual / ratio / precision + std / math.sqrt(precision) * rng.standard_normal()
                    )
                elif kind == SOFT:
                    own_std, changed = draw_soft(rng, tables, k, node, parents, columns, value, usual)
                    for a in range(len(parents)):
                        own[at, slot, parents[a]] = changed[a]
                    if tables.prior.n_fixed > 0:
                        own[at, slot, d] = changed[len(parents)]
                    own[at, slot, d + 1] = own_std
                    where[at, slot, 0], where[at, slot, 1] = k, node
                    slot += 1
    return weight, intercept, noise_std, noise_ratio, shift, own, where
