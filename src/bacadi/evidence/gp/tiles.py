"""Compiled linear algebra of Gaussian-process evidence, on the lower tiles of a covariance matrix.

Tiles are small enough for OpenBLAS to stay on one thread, and compiled functions let go of the interpreter's lock, so
that parent sets are worked on in parallel. The formulas stand in `factors_gp`.
"""

import math
from typing import no_type_check

import numpy as np
from numba import njit

TILE = 32
_jit = njit(cache=True, nogil=True)


@no_type_check
@_jit
def cholesky(a):
    """Lower Cholesky factor in place (the part above the diagonal is set to 0) and the log determinant."""
    n, log_det = a.shape[0], 0.0
    column = np.empty(n)
    for k in range(n):
        root = math.sqrt(a[k, k])
        log_det += 2 * math.log(root)
        for i in range(k + 1, n):
            a[k, i] = 0.0
            a[i, k] /= root
            column[i] = a[i, k]
        a[k, k] = root
        for i in range(k + 1, n):
            factor = column[i]
            for j in range(k + 1, i + 1):
                a[i, j] -= factor * column[j]
    return log_det


@no_type_check
@_jit
def forward(lower, b):
    """L⁻¹b in place, for b of several columns."""
    for i in range(lower.shape[0]):
        for j in range(i):
            factor = lower[i, j]
            for c in range(b.shape[1]):
                b[i, c] -= factor * b[j, c]
        for c in range(b.shape[1]):
            b[i, c] /= lower[i, i]


@no_type_check
@_jit
def subtract(a, b):
    """a -= b, a quarter of the time of that statement: loops over parts of arrays are compiled to vector code."""
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] -= b[i, j]


@no_type_check
@_jit
def cholesky_tiles(a, n_tiles):
    """Cholesky factor in place of the lower tiles (i, j) at i(i+1)/2 + j; inverses of its diagonal tiles; log |A|."""
    size, log_det = a.shape[1], 0.0
    inverse, work = np.zeros((n_tiles, size, size)), np.empty((size, size))
    for k in range(n_tiles):
        kk = k * (k + 1) // 2 + k
        log_det += cholesky(a[kk])
        for i in range(size):
            inverse[k, i, i] = 1.0
        forward(a[kk], inverse[k])
        for i in range(k + 1, n_tiles):
            ik = i * (i + 1) // 2 + k
            np.dot(a[ik], inverse[k].T, work)
            a[ik] = work
            for j in range(k + 1, i + 1):
                ij = i * (i + 1) // 2 + j
                np.dot(a[ik], a[j * (j + 1) // 2 + k].T, work)
                subtract(a[ij], work)
    return inverse, log_det


@no_type_check
@_jit
def forward_tiles(a, inverse, y):
    """L⁻¹y from the tiles of L."""
    size, (_, n_columns) = a.shape[1], y.shape
    z, work = y.copy(), np.empty((size, n_columns))
    for i in range(len(inverse)):
        rows = slice(i * size, (i + 1) * size)
        for j in range(i):
            np.dot(a[i * (i + 1) // 2 + j], z[j * size : (j + 1) * size], work)
            subtract(z[rows], work)
        np.dot(inverse[i], z[rows], work)
        z[rows] = work
    return z


@no_type_check
@_jit
def inverse_tiles(a, inverse, first):
    """W, the rows and columns of L⁻¹ from tile `first` on, as lower tiles: (i, j) at `panel(j, n) + i - j`."""
    size, n = a.shape[1], len(inverse) - first
    w, total, work = np.empty((n * (n + 1) // 2, size, size)), np.empty((size, size)), np.empty((size, size))
    for j in range(n):
        column = panel(j, n) - j
        w[column + j] = inverse[first + j]
        for i in range(j + 1, n):
            total[:] = 0.0
            row = (first + i) * (first + i + 1) // 2 + first
            for m in range(j, i):
                np.dot(a[row + m], w[column + m], work)
                subtract(total, work)
            np.dot(inverse[first + i], total, w[column + i])
    return w


@no_type_check
@_jit
def panel(j, n):
    """Where the tiles of column j begin, among the lower tiles of n columns stored one column after the other."""
    return j * n - j * (j - 1) // 2


@no_type_check
@_jit
def columns_of(w, columns):
    """Columns of W, without the rows above the first of them, which are 0 there; `columns[0]` is the smallest."""
    size, top = w.shape[2], columns[0]
    n = int(math.sqrt(2.0 * len(w)))
    found = np.empty((n * size - top, len(columns)))
    for c in range(len(columns)):
        j, at = columns[c] // size, columns[c] % size
        rows = w[panel(j, n) : panel(j + 1, n)].reshape(-1, size)
        begin = j * size - top
        found[: max(begin, 0), c] = 0.0
        found[max(begin, 0) :, c] = rows[max(-begin, 0) :, at]
    return found


@no_type_check
@_jit
def factorise(tiles, ratio, y, n_rows, first):
    """W, α over the rows of W, log |A| and y'Λy of each column, for A = K + ratio · I given by its lower tiles."""
    size = tiles.shape[1]
    n_tiles = y.shape[0] // size
    for i in range(n_tiles):
        for j in range(i + 1):
            tile = tiles[i * (i + 1) // 2 + j]
            for r in range(max(n_rows - i * size, 0), size):  # rows that fill the last tile are independent of all
                tile[r, :] = 0.0
            for c in range(max(n_rows - j * size, 0), size):
                tile[:, c] = 0.0
        for r in range(size):
            tiles[i * (i + 1) // 2 + i, r, r] += ratio if i * size + r < n_rows else 1.0
    inverse, log_det = cholesky_tiles(tiles, n_tiles)
    z = forward_tiles(tiles, inverse, y)
    quad = np.zeros(y.shape[1])
    for i in range(len(z)):
        quad += z[i] * z[i]
    w, alpha = inverse_tiles(tiles, inverse, first), np.empty((y.shape[0] - first * size, y.shape[1]))
    n = n_tiles - first
    for j in range(n):
        rows = w[panel(j, n) : panel(j + 1, n)].reshape(-1, size)
        np.dot(rows.T, z[(first + j) * size :], alpha[j * size : (j + 1) * size])
    return w, alpha, log_det, quad


@no_type_check
@_jit
def leave_one_out(w, alpha, log_det, quad, start):
    """log |A| and y'Λy with one context left out (row 0: none), `start` counted from the first row of `w`."""
    n_contexts, n_columns = len(start) - 1, alpha.shape[1]
    log_dets, quads = np.full(n_contexts, log_det), np.empty((n_contexts, n_columns))
    quads[:] = quad
    for k in range(1, n_contexts):
        s, e = start[k], start[k + 1]
        if e > s:
            columns = columns_of(w, np.arange(s, e))
            precision, rest = np.dot(columns.T, columns), alpha[s:e].copy()
            log_dets[k] += cholesky(precision)
            forward(precision, rest)
            for i in range(e - s):
                quads[k] -= rest[i] * rest[i]
    return log_dets, quads


@no_type_check
@_jit
def altered(w, alpha, start, scale, shift, ratio):
    """What log |A| and y'Λy of one column gain when the noise of context k is ratio · (scale_k I + shift_k 11').

    Contexts of scale ∞ are left out; `start` is counted from the first row of `w`.
    """
    changed = np.flatnonzero((scale != 1.0) | (shift != 0.0))
    n = np.sum(start[changed + 1] - start[changed])
    if n == 0:
        return 0.0, 0.0
    rows, context, rest = np.empty(n, np.int64), np.full(n, -1), np.empty((n, 1))
    n = 0
    for k in changed:
        for r in range(start[k], start[k + 1]):
            rows[n], rest[n, 0] = r, alpha[r]
            if scale[k] < np.inf:
                context[n] = k
            n += 1
    columns = columns_of(w, rows)
    precision = np.dot(columns.T, columns)
    log_det = cholesky(precision)
    forward(precision, rest)
    quad = -np.sum(rest * rest)
    kept = np.flatnonzero(context >= 0)
    if len(kept) == 0:
        return log_det, quad
    inverse = np.eye(n)
    forward(precision, inverse)
    residual, covariance = np.dot(inverse.T, rest)[kept], np.dot(inverse.T, inverse)[kept][:, kept].copy()
    for a in range(len(kept)):
        one = context[kept[a]]
        covariance[a, a] += ratio * (scale[one] - 1.0)
        for b in range(len(kept)):
            if context[kept[b]] == one:
                covariance[a, b] += ratio * shift[one]
    log_det += cholesky(covariance)
    forward(covariance, residual)
    return log_det, quad + np.sum(residual * residual)


@no_type_check
@_jit
def solve_features(matrix, b):
    """log |B| and b_c'B⁻¹b_c of each column."""
    size, n = TILE, len(matrix)
    n_tiles = (n + size - 1) // size
    tiles, right = np.zeros((n_tiles * (n_tiles + 1) // 2, size, size)), np.zeros((n_tiles * size, b.shape[1]))
    right[:n] = b
    for i in range(n_tiles):
        for j in range(i + 1):
            tile, part = tiles[i * (i + 1) // 2 + j], matrix[i * size : (i + 1) * size, j * size : (j + 1) * size]
            tile[: part.shape[0], : part.shape[1]] = part
        for r in range(max(n - i * size, 0), size):
            tiles[i * (i + 1) // 2 + i, r, r] = 1.0
    inverse, log_det = cholesky_tiles(tiles, n_tiles)
    z = forward_tiles(tiles, inverse, right)
    quad = np.zeros(b.shape[1])
    for i in range(n):
        quad += z[i] * z[i]
    return log_det, quad
