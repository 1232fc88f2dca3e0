# mypy: disable-error-code="no-untyped-def"
"""Compiled linear algebra of Gaussian-process evidence, on the column panels of a covariance matrix.

A symmetric matrix of N = K · BLOCK rows is an array [K, N, BLOCK]: panel k holds columns k · BLOCK to (k + 1) · BLOCK,
of which only the rows down to the diagonal block are used. A part of a panel is contiguous, so that nearly all work is
products of long and narrow matrices by BLAS without a copy. Compiled functions let go of the interpreter's lock, which
SciPy's LAPACK functions hold, so that parent sets are worked on in parallel (`benchmarks/gp_factor.py` has the times).

The formulas are in `factor`.
"""

import math

import numpy as np

from bacadi.evidence.compiled import compiled, inner

BLOCK = 32
"""Columns per panel: the diagonal blocks are factorised by plain loops, which pays up to about this size."""


@inner
def arcsine(v):
    """asin v to the last digit, without branches, so that loops over it are compiled to vector code.

    Up to ½ by the rational approximation of fdlibm (Sun Microsystems 1993), above it by
    asin v = π/2 - 2 asin √((1 - v)/2).
    """
    size = abs(v)
    large = size > 0.5
    square = 0.5 * max(1.0 - size, 0.0) if large else v * v  # never above 1 but for rounding
    root = math.sqrt(square) if large else size
    over = 2.01212532134862925881e-01 + square * (
        -4.00555345006794114027e-02 + square * (7.91534994289814532176e-04 + square * 3.47933107596021167570e-05)
    )
    over = square * (1.66666666666666657415e-01 + square * (-3.25565818622400915405e-01 + square * over))
    under = 2.02094576023350569471e00 + square * (-6.88283971605453293030e-01 + square * 7.70381505559019352791e-02)
    under = 1.0 + square * (-2.40339491173441421878e00 + square * under)
    angle = root + root * (over / under)
    return math.copysign(0.5 * math.pi - 2.0 * angle if large else angle, v)


@compiled
def network_panels(directions, scale, offset):
    """Panels of offset + scale · asin(a·b) of all pairs of rows, whose columns are those of `directions`."""
    n = directions.shape[1]
    u = np.empty((n // BLOCK, n, BLOCK))
    for k in range(len(u)):
        s = k * BLOCK
        for i in range(s + BLOCK):
            row = u[k, i]
            for c in range(BLOCK):
                row[c] = 0.0
            for q in range(len(directions)):
                factor, others = directions[q, i], directions[q, s : s + BLOCK]
                for c in range(BLOCK):
                    row[c] += factor * others[c]
            for c in range(BLOCK):
                row[c] = offset + scale * arcsine(row[c])
    return u


@inner
def cholesky(a):
    """Replace a small matrix, read from its lower half, by its lower Cholesky factor; return the log determinant."""
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


@inner
def forward(lower, b):
    """Replace b by L⁻¹b, for a small L and b of several columns."""
    for i in range(lower.shape[0]):
        for j in range(i):
            factor = lower[i, j]
            for c in range(b.shape[1]):
                b[i, c] -= factor * b[j, c]
        for c in range(b.shape[1]):
            b[i, c] /= lower[i, i]


@inner
def subtract(a, b):
    """a -= b in a quarter of the time of that statement: loops over parts of arrays are compiled to vector code."""
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i, j] -= b[i, j]


@inner
def cholesky_panels(u):
    """Replace the panels of A by those of L', A = LL'; return the inverses of the diagonal blocks of L and log |A|."""
    log_det, inverse = 0.0, np.zeros((len(u), BLOCK, BLOCK))
    for k in range(len(u)):
        s = k * BLOCK
        rows = slice(s, s + BLOCK)
        for i in range(k, len(u)):
            if k > 0:
                subtract(u[i, rows], np.dot(u[k, :s].T, u[i, :s]))
            if i == k:
                lower = u[k, rows].T.copy()
                log_det += cholesky(lower)
                for r in range(BLOCK):
                    inverse[k, r, r] = 1.0
                forward(lower, inverse[k])
            else:
                u[i, rows] = np.dot(inverse[k], u[i, rows])
    return inverse, log_det


@inner
def forward_panels(u, inverse, first, b):
    """Replace b by L⁻¹b, for the rows and columns of L from panel `first` on."""
    top = first * BLOCK
    for k in range(first, len(u)):
        s = k * BLOCK - top
        rows = b[s : s + BLOCK]
        if s > 0:
            subtract(rows, np.dot(u[k, top : top + s].T, b[:s]))
        rows[:] = np.dot(inverse[k], rows)


@inner
def _solved(u, y):
    """Replace the panels of A by those of L'; return L⁻¹y, y'A⁻¹y of each column, log |A| and inverse blocks of L."""
    inverse, log_det = cholesky_panels(u)
    z = y.copy()
    forward_panels(u, inverse, 0, z)
    quad = np.zeros(y.shape[1])
    for i in range(len(z)):
        quad += z[i] * z[i]
    return z, quad, log_det, inverse


@compiled
def solve(u, y):
    """log |A| and y'A⁻¹y of each column; the panels of A are overwritten."""
    _, quad, log_det, _ = _solved(u, y)
    return log_det, quad


@compiled
def factorise(u, y, first, n):
    """Λ = A⁻¹ and α = Λy over `n` rows from panel `first` on, log |A| and y'Λy of each column.

    With W = (L⁻¹)_TT for these rows T, Λ_TT = W'W: W follows from the last block of L alone, and panel k of W is 0
    above its diagonal block, which saves two thirds of the work. Of Λ its lower half is kept, row after row: most of
    the memory of a run are these.
    """
    z, quad, log_det, inverse = _solved(u, y)
    n_panels = len(u) - first
    w, precision = np.zeros((n_panels, n_panels * BLOCK, BLOCK)), np.empty(n * (n + 1) // 2)
    alpha = np.empty((n, y.shape[1]))
    for k in range(n_panels):
        s = k * BLOCK
        e = min(s + BLOCK, n)
        for i in range(BLOCK):
            w[k, s + i, i] = 1.0
        forward_panels(u, inverse, first + k, w[k, s:])
        alpha[s:e] = np.dot(w[k, s:].T, z[first * BLOCK + s :])[: e - s]
        for j in range(k + 1):
            block = np.dot(w[k, s:].T, w[j, s:])
            for i in range(s, e):
                begin = i * (i + 1) // 2
                for c in range(j * BLOCK, min((j + 1) * BLOCK, i + 1)):
                    precision[begin + c] = block[i - s, c - j * BLOCK]
    return precision, alpha, log_det, quad


@inner
def _lower_half(precision, rows):
    """The lower half of Λ for some rows, in ascending order."""
    n = len(rows)
    block = np.empty((n, n))
    for i in range(n):
        begin = rows[i] * (rows[i] + 1) // 2
        for j in range(i + 1):
            block[i, j] = precision[begin + rows[j]]
    return block


@compiled
def leave_out(precision, alpha, log_det, quad, start):
    """log |A| and y'Λy with one context left out (row 0: none), `start` counted from the first row of Λ."""
    n_contexts = len(start) - 1
    log_dets, quads = np.full(n_contexts, log_det), np.empty((n_contexts, alpha.shape[1]))
    quads[:] = quad
    for k in range(1, n_contexts):
        s, e = start[k], start[k + 1]
        block, rest = _lower_half(precision, np.arange(s, e)), alpha[s:e].copy()
        log_dets[k] += cholesky(block)
        forward(block, rest)
        for i in range(e - s):
            quads[k] -= rest[i] * rest[i]
    return log_dets, quads


@compiled
def with_noise(precision, alpha, start, scale, shift, ratio):
    """What log |A| and y'Λy of one column gain when the noise of context k is ratio · (scale_k I + shift_k 11').

    Contexts of scale ∞ are left out; `start` is counted from the first row of Λ.
    """
    n_rows = len(alpha)
    rows, context, n = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64), 0
    for k in range(1, len(scale)):
        if scale[k] != 1.0 or shift[k] != 0.0:
            for r in range(start[k], start[k + 1]):
                rows[n], context[n] = r, k if scale[k] < np.inf else -1
                n += 1
    block, rest = _lower_half(precision, rows[:n]), np.empty((n, 1))
    for i in range(n):
        rest[i, 0] = alpha[rows[i]]
    log_det = cholesky(block)
    forward(block, rest)
    quad = -np.sum(rest * rest)
    kept = np.flatnonzero(context[:n] >= 0)
    if len(kept) == 0:
        return log_det, quad
    inverse = np.eye(n)
    forward(block, inverse)
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
