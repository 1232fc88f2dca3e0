"""Scores of linear Gaussian mechanisms and of BGe from one Gram matrix per context, compiled.

Node j with regressors Z (its parents, and a column of ones where the model has an intercept) and prior precision Λ of
their coefficients in units of the noise, over n rows:

    B = Z'Z + Λ,   r = y'y - y'Z B⁻¹ Z'y,
    σ² known:            log p(y | Z) = -n/2 log 2πσ² - r/2σ² - ½ log |B| + ½ log |Λ|,
    σ² ~ InvGamma(a, b): log p(y | Z) = -n/2 log 2π + a log b - log Γ(a) + log Γ(a + n/2) - (a + n/2) log(b + r/2)
                                        - ½ log |B| + ½ log |Λ|.

Where Λ is one of several (`InferredNoise.widths`), p(y | Z) is the mean of theirs, and likewise for the variation
between contexts (`ContextDrift`).

Only sums of products enter, so the cost does not depend on the number of rows. With s the column sums of a context of
n rows, its Gram matrix A enters as

    untouched   A/ρ - s s' τ²/(ρ² + ρ n τ²): a noise variance ρσ² and a random shift of standard deviation τσ,
                integrated out (ρ = 1, τ = 0: A itself); τ² + v² Σ Δ² in place of τ² where parents have moved by Δ,
    shift       the same with τ² + v², for a shift of prior standard deviation vσ,
    scale       the same with ρ times the ratio of variances of the effect,
    soft        A/ρ - A_Z' (A_ZZ + ρ V⁻¹)⁻¹ A_Z/ρ, for coefficients that change by N(0, σ² V),
    hard        not at all; nor where a soft effect draws all parameters anew, which then have an evidence of their own.

Where `ContextDrift.bend` is above 0, log p(S_:j | parents) is a part of the evidence beyond the prior of single targets
(`bend_log`).

A context of few rows keeps them, n x d numbers in place of d x d, and the pieces of A are made from them where a score
needs some (`context_block`).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int8
from scipy.special import gammaln

from bacadi.evidence.collapsed import EffectKind
from bacadi.evidence.compiled import compiled, inlined
from bacadi.model.noise import LOG_2PI

NODE = np.int16  # type of the number of a variable in a list of parents; lists of all chains are most of their memory
LEAST_VARIANCE = 1e-12  # of a change that does not happen
LARGE = 64  # columns from which LAPACK pays
HARD, SHIFT, SCALE, SOFT = (int(EffectKind[name]) for name in ("HARD", "SHIFT", "SCALE", "SOFT"))


class Regression(NamedTuple):
    """Priors of the regression of each node, in the form that compiled code reads; `regression` makes one.

    `precision[j, i]` is Λ for the weight of column i in the equation of j, `precision[j, d]` that of its intercept,
    each to be divided by one of `width_squares`. Every regression has the `n_fixed` columns from d on: none, the
    ones, or the ones and the blocks. With `noise_known` σ_j² is `variance[j]`, else InvGamma(`shape[number of
    columns of parents]`, `scale[j]`).
    """

    n_fixed: int
    noise_known: bool
    width_squares: Float[np.ndarray, " W"]
    precision: Float[np.ndarray, "d D"]
    variance: Float[np.ndarray, " d"]
    shape: Float[np.ndarray, " S"]
    scale: Float[np.ndarray, " d"]
    half_log_precision: Float[np.ndarray, "d D"]
    log_normaliser: Float[np.ndarray, "d S"]


class GramTables(NamedTuple):
    """Everything a local score depends on; column d of all sums belongs to the column of ones.

    A variable i enters the regressions of others by columns `first[i]` to `first[i + 1]`: itself, or features of it,
    which then stand behind the ones and the blocks. Where rows count differently for every node (`ContextData.weight`)
    all sums are by node (G = d), else they are of all nodes together (G = 1); `group` has the index of a node. Context
    k has its Gram matrix in `gram[g, at_gram[k]]` or, where that is -1, its rows in columns `first_row[k]` to
    `first_row[k + 1]` of `few`, to be multiplied by `row_root[g]`, the roots of their weights; the sums of its columns
    are `sums[g, k]`. `total[g, :, :, b]` is the sum over all contexts, the control included, where they are untouched,
    drift by τ² = `drift[b]` and have a noise variance ρ = `ratio[b]` times that of the control, which adds
    `drift_log[g, b]` to the log evidence: the log share of this pair and the determinants of all contexts. All
    coefficients change in every context with a variance of `slope[b]`, and where context k has moved parents, by
    `reach[k, i]` squared standard deviations, τ² is larger by `move[b]` times their sum; that sum is
    `moved_in_total[k]` in `total` where this is of one parent set, else 0. A target has prior odds of `odds[k, j]`, a
    mechanism that is another one because a parent has moved `bend` times r² = Δ²/(1 + Δ²).
    """

    first: Int[np.ndarray, " d+1"]
    gram: Float[np.ndarray, "G C D D"]
    at_gram: Int[np.ndarray, " M"]
    few: Float[np.ndarray, "D N"]
    row_root: Float[np.ndarray, "G N"]
    first_row: Int[np.ndarray, " M+1"]
    sums: Float[np.ndarray, "G M D"]
    total: Float[np.ndarray, "G D D B"]
    rows: Float[np.ndarray, "G K"]
    n_rows: Float[np.ndarray, " G"]
    group: Int[np.ndarray, " d"]
    drift: Float[np.ndarray, " B"]
    ratio: Float[np.ndarray, " B"]
    slope: Float[np.ndarray, " B"]
    move: Float[np.ndarray, " B"]
    reach: Float[np.ndarray, "M d"]
    moved_in_total: Float[np.ndarray, " M"]
    drift_log: Float[np.ndarray, "G B"]
    bend: float
    odds: Float[np.ndarray, "M d"]
    prior: Regression
    kind: Int8[np.ndarray, " T"]
    value: Float[np.ndarray, " T"]
    hard_log_evidence: Float[np.ndarray, "M d"]


def regression(n_fixed: int, precision: Float[np.ndarray, "d D"], noise: tuple[Any, ...]) -> Regression:
    """The priors with the logarithms that every score needs; `noise` is `Conjugate`, its shape by number of columns."""
    (d, size), known = precision.shape, noise[0] is not None
    variance, shape, scale = np.full(d, noise[0] if known else 1.0), np.full(size + 1, noise[1]), np.full(d, noise[2])
    log_normaliser = shape[None, :] * np.log(scale)[:, None] - gammaln(shape)[None, :]
    half_log, width_squares = 0.5 * np.log(precision), np.square(noise[3])
    return Regression(n_fixed, known, width_squares, precision, variance, shape, scale, half_log, log_normaliser)


@compiled
def log_sum(one, other):  # type: ignore[no-untyped-def]
    """log(exp(one) + exp(other))."""
    return max(one, other) + math.log1p(math.exp(-abs(one - other)))


@compiled
def noise_constant(prior, node, n_parents, n_rows):  # type: ignore[no-untyped-def]
    """What the noise adds to log p(y | Z) whatever the residual: the same for all widths and drifts."""
    if prior.noise_known:
        return n_rows * (LOG_2PI + math.log(prior.variance[node]))
    return prior.log_normaliser[node, n_parents] + math.lgamma(prior.shape[n_parents] + 0.5 * n_rows)


@compiled
def regression_log_evidence(prior, columns, matrix, n_rows, noise):  # type: ignore[no-untyped-def]
    """log p(y | Z) without ½ log |Λ| of width 1, from the lower half of the Gram matrix of (Z, y); `noise` is
    `noise_constant`.

    Its upper half is overwritten.
    """
    if len(columns) > LARGE:
        return large_log_evidence(prior, columns, matrix, n_rows, noise)
    log_p = width_log_evidence(prior, 0, columns, matrix, n_rows, noise)
    n_widths = len(prior.width_squares)
    if n_widths == 1:
        return log_p
    for w in range(1, n_widths):
        log_p = log_sum(log_p, width_log_evidence(prior, w, columns, matrix, n_rows, noise))
    return log_p - math.log(n_widths)


@compiled
def large_log_evidence(prior, columns, matrix, n_rows, noise):  # type: ignore[no-untyped-def]
    """The same by LAPACK, which takes a tenth to a quarter of the time where there are a hundred columns or more."""
    size, node, n_widths = len(columns), columns[-1], len(prior.width_squares)
    inner, half = np.empty((size - 1, size - 1)), np.empty(size - 1)
    log_p = -np.inf
    for w in range(n_widths):
        for a in range(size - 1):
            for b in range(a + 1):
                inner[a, b] = matrix[a, b]
            inner[a, a] += prior.precision[node, columns[a]] / prior.width_squares[w]
        factor = np.linalg.cholesky(inner)  # of Gram matrices and Λ, which rounding leaves positive
        log_det, residual = (size - 1) * math.log(prior.width_squares[w]), matrix[size - 1, size - 1]
        for a in range(size - 1):
            value = (matrix[size - 1, a] - np.dot(factor[a, :a], half[:a])) / factor[a, a]
            log_det, residual, half[a] = log_det + 2 * math.log(factor[a, a]), residual - value * value, value
        own = residual_log_evidence(prior, node, size - 1 - prior.n_fixed, max(residual, 0.0), log_det, n_rows, noise)
        log_p = own if w == 0 else log_sum(log_p, own)
    return log_p - math.log(n_widths)


@inlined
def residual_log_evidence(prior, node, n_parents, residual, log_det, n_rows, noise):  # type: ignore[no-untyped-def]
    """log p(y | Z) from r and log |B|, but for ½ log |Λ|."""
    if prior.noise_known:
        return -0.5 * (noise + residual / prior.variance[node] + log_det)
    shape = prior.shape[n_parents] + 0.5 * n_rows
    return noise - shape * math.log(prior.scale[node] + 0.5 * residual) - 0.5 * (n_rows * LOG_2PI + log_det)


@compiled
def width_log_evidence(prior, w, columns, matrix, n_rows, noise):  # type: ignore[no-untyped-def]
    """log p(y | Z) without ½ log |Λ| of width 1, given one of the widths.

    The transposed Cholesky factor overwrites the upper half of the matrix but for its diagonal; one more row of the
    matrix is scratch space.
    """
    size, node = len(columns), columns[-1]
    n_parents = size - 1 - prior.n_fixed
    shrink = 1.0 / prior.width_squares[w]
    log_det, product, residual = 0.0, 1.0, 0.0
    diagonal = matrix[size]
    for a in range(size):
        for b in range(a):
            value = matrix[a, b]
            for c in range(b):
                value -= matrix[c, a] * matrix[c, b]
            matrix[b, a] = value * diagonal[b]
        value = matrix[a, a]
        if a < size - 1:
            value += shrink * prior.precision[node, columns[a]]
        for c in range(a):
            value -= matrix[c, a] * matrix[c, a]
        if a < size - 1:
            if value > 0.0:
                diagonal[a] = 1.0 / math.sqrt(value)
            else:
                # Never below Λ but for rounding, where columns repeat each other: this one then has nothing to add.
                value, diagonal[a] = shrink * prior.precision[node].min(), 0.0
            product *= value * prior.width_squares[w]
            if product > 1e150 or product < 1e-150:  # one logarithm serves most determinants
                log_det, product = log_det + math.log(product), 1.0
        else:
            residual = max(value, 0.0)
    log_det += math.log(product)
    return residual_log_evidence(prior, node, n_parents, residual, log_det, n_rows, noise)


@compiled
def columns_of(tables, node, parents, n_parents):  # type: ignore[no-untyped-def]
    """Columns of the Gram matrix that the regression needs, the response last, and ½ log |Λ|."""
    d, n_fixed, first = tables.hard_log_evidence.shape[1], tables.prior.n_fixed, tables.first
    size = n_fixed
    for a in range(n_parents):
        size += first[parents[a] + 1] - first[parents[a]]
    columns, at = np.empty(size + 1, np.int64), 0
    for a in range(n_parents):
        for column in range(first[parents[a]], first[parents[a] + 1]):
            columns[at] = column
            at += 1
    for a in range(n_fixed):
        columns[at + a] = d + a
    half_log = 0.0
    for a in range(size):
        half_log += tables.prior.half_log_precision[node, columns[a]]
    columns[-1] = node
    return columns, half_log


@compiled
def next_touched(state, k):  # type: ignore[no-untyped-def]
    """The first context from k on whose state is not 0, or their number; most are 0, and are looked at in blocks."""
    m = len(state)
    while k + 32 <= m:
        touched = False
        for a in range(k, k + 32):
            touched |= state[a] != 0
        if touched:
            break
        k += 32
    while k < m and state[k] == 0:
        k += 1
    return k


@compiled
def context_sums(tables, g, k, columns, sums):  # type: ignore[no-untyped-def]
    """Fill in the sums of some columns over context k."""
    own = tables.sums[g, k]
    for a in range(len(columns)):
        sums[a] = own[columns[a]]


@compiled
def context_block(tables, g, k, columns, block):  # type: ignore[no-untyped-def]
    """Fill in the Gram matrix of context k for some columns, and in one more row their sums."""
    size, at = len(columns), tables.at_gram[k]
    context_sums(tables, g, k, columns, block[size])
    if at >= 0:
        gram = tables.gram[g, at]
        for a in range(size):
            for c in range(a + 1):
                block[a, c] = block[c, a] = gram[columns[a], columns[c]]
        return
    first, n = tables.first_row[k], tables.first_row[k + 1] - tables.first_row[k]
    few, root = np.empty((size, n)), tables.row_root[g, first : first + n]
    for a in range(size):
        column = tables.few[columns[a]]
        for r in range(n):
            few[a, r] = root[r] * column[first + r]
        for c in range(a + 1):
            product = 0.0
            for r in range(n):
                product += few[a, r] * few[c, r]
            block[a, c] = block[c, a] = product


@compiled
def moved(tables, k, parents, n_parents):  # type: ignore[no-untyped-def]
    """How far context k has moved the parents: the sum of their squared distances, in standard deviations."""
    far = 0.0
    for a in range(n_parents):
        far += tables.reach[k, parents[a]]
    return far


@compiled
def bend_log(tables, k, node, far, s):  # type: ignore[no-untyped-def]
    """log p(state s | parents) less what the prior of targets has for it, where context k has moved the parents.

    A state other than 0 is that of a target, with odds o, or of a mechanism that bends, with odds β r². Both have the
    same evidence, so that they are one state of odds o + β r², of which `GramEvidence.target_share` is the target's.
    Nothing bends where the target is known.
    """
    odds = tables.odds[k, node]
    if tables.bend == 0 or far == 0 or odds == 0 or odds == np.inf:
        return 0.0
    bent = tables.bend * far / (1 + far)
    log_p = -math.log1p(bent / (1 + odds))
    return log_p + math.log1p(bent / odds) if s > 0 else log_p


@compiled
def bends_log(tables, node, parents, n_parents, state):  # type: ignore[no-untyped-def]
    """`bend_log` of all contexts."""
    log_p = 0.0
    if tables.bend > 0:
        for k in range(len(state)):
            log_p += bend_log(tables, k, node, moved(tables, k, parents, n_parents), state[k])
    return log_p


@compiled
def change_factor(tables, columns, block, ratio, slope, shift):  # type: ignore[no-untyped-def]
    """L with L L' = A_ZZ/ρ + V⁻¹ of a context: its noise variance is ρσ², the coefficients of parents change by
    N(0, slope σ²), the intercept by N(0, shift σ²)."""
    n = len(columns) - 1 - max(tables.prior.n_fixed - 1, 0)
    n_parents = len(columns) - 1 - tables.prior.n_fixed
    lower = np.zeros((n, n))
    for a in range(n):
        for c in range(a):
            entry = block[a, c] / ratio
            for e in range(c):
                entry -= lower[a, e] * lower[c, e]
            lower[a, c] = entry / lower[c, c]
        variance = max(slope if a < n_parents else shift, LEAST_VARIANCE)
        pivot = block[a, a] / ratio + 1.0 / variance
        for e in range(a):
            pivot -= lower[a, e] * lower[a, e]
        lower[a, a] = math.sqrt(max(pivot, 1.0 / variance))  # never below but for rounding
    return lower


@compiled
def change(tables, columns, block, ratio, slope, shift, matrix):  # type: ignore[no-untyped-def]
    """Take from the matrix what changed coefficients explain, A_Z' (A_ZZ + V⁻¹)⁻¹ A_Z with A over ρ, and return
    -½ log |V (…)|."""
    size = len(columns)
    n_parents, n = size - 1 - tables.prior.n_fixed, size - 1 - max(tables.prior.n_fixed - 1, 0)
    rows = np.empty((n, size))
    for a in range(n):
        for e in range(size):
            rows[a, e] = block[a, e] / ratio
    log_det, product = 0.0, 1.0
    # Row by row: what is left of row a of A_Z is also, but for V⁻¹ on its diagonal, what is left of A_ZZ + V⁻¹.
    for a in range(n):
        variance = max(slope if a < n_parents else shift, LEAST_VARIANCE)
        pivot = max(rows[a, a], 0.0) + 1.0 / variance  # never below V⁻¹ but for rounding
        product *= pivot * variance
        if product > 1e150:  # one logarithm serves most determinants
            log_det, product = log_det + math.log(product), 1.0
        inverse = 1.0 / pivot
        for c in range(a + 1, n):
            factor = rows[c, a] * inverse
            for e in range(size):
                rows[c, e] -= factor * rows[a, e]
        for e in range(size):
            factor = rows[a, e] * inverse
            for f in range(e + 1):
                matrix[e, f] -= factor * rows[a, f]
    return -0.5 * (log_det + math.log(product))


@compiled
def is_gone(tables, s):  # type: ignore[no-untyped-def]
    """Whether the rows of a context in state s say nothing of the usual mechanism."""
    return tables.kind[s] == HARD or (tables.kind[s] == SOFT and tables.value[s] == 0)


@compiled
def context_terms(tables, b, k, node, s, soft, more, n_rows, constant):  # type: ignore[no-untyped-def]
    """What becomes of a context in state s that enters `total` as untouched: A/ρ - before s s'; τ² is now larger by
    `more`.

    Returns:
        `weight` and `deflate`: weight A + deflate s s' is to be taken from the sums; then the number of rows and the
        constant as they are after it. A context whose slopes change (`soft` > 0) is deflated by `change`.
    """
    drift, kind, value, n = tables.drift[b], tables.kind[s], tables.value[s], tables.rows[tables.group[node], k + 1]
    usual, counted = tables.ratio[b], drift + tables.move[b] * tables.moved_in_total[k]
    before, weight, after = counted / (usual * (usual + n * counted)), 0.0, 0.0
    if before > 0:
        constant += 0.5 * math.log(1 + n * counted / usual)
    if is_gone(tables, s):
        constant += 0.5 * n * math.log(usual)
        if kind == HARD:
            constant += tables.hard_log_evidence[k, node]
        return 1.0 / usual, -before, n_rows - n, constant
    ratio = usual
    if kind == SCALE:
        ratio = value * usual
        weight = 1.0 / usual - 1.0 / ratio
        constant -= 0.5 * n * math.log(value)
    if soft == 0:
        shift = drift + more + (value * value if kind == SHIFT else 0.0)
        after = shift / (ratio * (ratio + n * shift))
        constant -= 0.5 * math.log(1 + n * shift / ratio)
    return weight, after - before, n_rows, constant


@compiled
def subtract(block, weight, deflate, size, matrix):  # type: ignore[no-untyped-def]
    """Take weight A + deflate s s' from the lower half of a matrix; A is not looked at where it has no weight."""
    if weight == 0:
        for a in range(size):
            ga = deflate * block[size, a]
            for c in range(a + 1):
                matrix[a, c] -= ga * block[size, c]
        return
    for a in range(size):
        ga = deflate * block[size, a]
        for c in range(a + 1):
            matrix[a, c] -= weight * block[a, c] + ga * block[size, c]


@compiled
def pooled(tables, node, parents, n_parents, columns, state):  # type: ignore[no-untyped-def]
    """Lower halves of the Gram matrices of the rows that the mechanism of `node` explains, one for each drift, the
    number of these rows, and the constants of drifts and effects."""
    size, n_drifts, g = len(columns), len(tables.drift), tables.group[node]
    matrices, block, constants = np.empty((n_drifts, size + 1, size)), np.empty((size + 1, size)), np.empty(n_drifts)
    for a in range(size):
        for c in range(a + 1):
            for b in range(n_drifts):
                matrices[b, a, c] = tables.total[g, columns[a], columns[c], b]
    every = tables.slope.max() > 0 or tables.move.max() > 0
    n_rows = tables.n_rows[g]
    constants[:] = tables.drift_log[g]
    k = 0 if every else next_touched(state, 0)
    while k < len(state):
        s = state[k]
        kind, value = tables.kind[s], tables.value[s]
        far = moved(tables, k, parents, n_parents) if every else 0.0
        left, have = n_rows, False
        for b in range(n_drifts):
            soft, more = tables.slope[b], tables.move[b] * far
            if s == 0 and soft == 0 and more == tables.move[b] * tables.moved_in_total[k]:
                continue
            if kind == SOFT:
                soft += value * value
            weight, deflate, left, constants[b] = context_terms(tables, b, k, node, s, soft, more, n_rows, constants[b])
            changes = soft > 0 and not is_gone(tables, s)
            if not have and (weight != 0 or changes):
                context_block(tables, g, k, columns, block)
                have = True
            elif not have:
                context_sums(tables, g, k, columns, block[size])
            if weight != 0 or deflate != 0:
                subtract(block, weight, deflate, size, matrices[b])
            if changes:
                shift = tables.drift[b] + more + (value * value if kind in (SHIFT, SOFT) else 0.0)
                ratio = value * tables.ratio[b] if kind == SCALE else tables.ratio[b]
                constants[b] += change(tables, columns, block, ratio, soft, shift, matrices[b])
        n_rows = left
        k = k + 1 if every else next_touched(state, k + 1)
    return matrices, n_rows, constants


@compiled
def drifting_log_evidence(prior, columns, matrices, n_rows, constants):  # type: ignore[no-untyped-def]
    """log p(y | Z) without ½ log |Λ|, summed over the drifts."""
    noise = noise_constant(prior, columns[-1], len(columns) - 1 - prior.n_fixed, n_rows)
    log_p = constants[0] + regression_log_evidence(prior, columns, matrices[0], n_rows, noise)
    for b in range(1, len(constants)):
        log_p = log_sum(log_p, constants[b] + regression_log_evidence(prior, columns, matrices[b], n_rows, noise))
    return log_p


@compiled
def by_drift(tables, node, parents, n_parents, columns, state):  # type: ignore[no-untyped-def]
    """`pooled`, with the log evidence of each of the drifts, without ½ log |Λ|, in place of the constants."""
    matrices, n_rows, log_p = pooled(tables, node, parents, n_parents, columns, state)
    noise = noise_constant(tables.prior, node, len(columns) - 1 - tables.prior.n_fixed, n_rows)
    for b in range(len(log_p)):
        log_p[b] += regression_log_evidence(tables.prior, columns, matrices[b], n_rows, noise)
    return matrices, n_rows, log_p


@compiled
def local_score(tables, node, parents, n_parents, state):  # type: ignore[no-untyped-def]
    """log p(x_:j | parents, states) of one node, and what bends; the compiled form of `GramEvidence.log_evidence`."""
    columns, half_log = columns_of(tables, node, parents, n_parents)
    matrices, n_rows, constants = pooled(tables, node, parents, n_parents, columns, state)
    score = drifting_log_evidence(tables.prior, columns, matrices, n_rows, constants) + half_log
    score += bends_log(tables, node, parents, n_parents, state)
    k = next_touched(state, 0)
    while k < len(state):
        if tables.kind[state[k]] == SOFT and tables.value[state[k]] == 0:
            g = tables.group[node]
            context_block(tables, g, k, columns, matrices[0])
            n = tables.rows[g, k + 1]
            noise = noise_constant(tables.prior, node, len(columns) - 1 - tables.prior.n_fixed, n)
            score += half_log + regression_log_evidence(tables.prior, columns, matrices[0], n, noise)
        k = next_touched(state, k + 1)
    return score


@compiled
def local_scores(tables, nodes, parents, states):  # type: ignore[no-untyped-def]
    """`local_score` of many requests, parents as masks."""
    scores = np.empty(len(nodes))
    for b in range(len(nodes)):
        chosen = np.flatnonzero(parents[b]).astype(NODE)
        scores[b] = local_score(tables, nodes[b], chosen, len(chosen), states[b])
    return scores
