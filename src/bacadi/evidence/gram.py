"""Evidence of linear Gaussian mechanisms and of BGe from one Gram matrix per context.

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

    untouched   A - s s' τ²/(1 + n τ²): a random shift of standard deviation τσ, integrated out (τ = 0: A itself),
    shift       the same with τ² + v², for a shift of prior standard deviation vσ,
    scale       A/ρ - s s' τ²/(ρ² + ρ n τ²), for a noise variance ρσ²,
    soft        A - A_Z' (A_ZZ + V⁻¹)⁻¹ A_Z, for coefficients that change by N(0, σ² V),
    hard        not at all; nor where a soft effect draws all parameters anew, which then have an evidence of their own.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8
from scipy.special import gammaln

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.errors import NoClosedForm
from bacadi.evidence.collapsed import AbstractEvidence, Columns, EffectKind, EffectStates, Graphs, ParentSets, States
from bacadi.evidence.compiled import compiled
from bacadi.model.integrated import BGe
from bacadi.model.linear import LinearGaussian
from bacadi.model.noise import LOG_2PI

LEAST_VARIANCE = 1e-12  # of a change that does not happen
HARD, SHIFT, SCALE, SOFT = (int(EffectKind[name]) for name in ("HARD", "SHIFT", "SCALE", "SOFT"))


class Regression(NamedTuple):
    """Priors of the regression of each node, in the form that compiled code reads; `regression` makes one.

    `precision[j, i]` is Λ for the weight of i in the equation of j, `precision[j, d]` that of its intercept, each to be
    divided by one of `width_squares`. Every regression has the `n_fixed` columns from d on: none, the
    ones, or the ones and the blocks. With `noise_known` σ_j² is `variance[j]`, else InvGamma(`shape[number of
    parents]`, `scale[j]`).
    """

    n_fixed: int
    noise_known: bool
    width_squares: Float[np.ndarray, " W"]
    precision: Float[np.ndarray, "d D"]
    variance: Float[np.ndarray, " d"]
    shape: Float[np.ndarray, " d+1"]
    scale: Float[np.ndarray, " d"]
    half_log_precision: Float[np.ndarray, "d D"]
    log_normaliser: Float[np.ndarray, "d d+1"]


class GramTables(NamedTuple):
    """Everything a local score depends on; column d of `gram` belongs to the column of ones.

    Where rows count differently for every node (`ContextData.weight`) all sums are by node (G = d), else they are of
    all nodes together (G = 1); `group` has the index of a node. `total[g, b]` is the sum over contexts that are all
    untouched and drift by τ² = `drift[b]`, which adds `drift_log[g, b]` to the log evidence: the log share of this τ
    and the determinants of all contexts. Where context k has moved a parent by `reach[k, i]`, all coefficients change
    there with a variance of `slope[b]` times the largest reach.
    """

    gram: Float[np.ndarray, "G K D D"]
    total: Float[np.ndarray, "G B D D"]
    rows: Float[np.ndarray, "G K"]
    n_rows: Float[np.ndarray, " G"]
    group: Int[np.ndarray, " d"]
    drift: Float[np.ndarray, " B"]
    slope: Float[np.ndarray, " B"]
    reach: Float[np.ndarray, "M d"]
    drift_log: Float[np.ndarray, "G B"]
    prior: Regression
    kind: Int8[np.ndarray, " T"]
    value: Float[np.ndarray, " T"]
    hard_log_evidence: Float[np.ndarray, "M d"]


def regression(n_fixed: int, precision: Float[np.ndarray, "d D"], noise: tuple[Any, ...]) -> Regression:
    """The priors with the logarithms that every score needs; `noise` is `Conjugate`, its shape by number of parents."""
    d, known = len(precision), noise[0] is not None
    variance, shape, scale = np.full(d, noise[0] if known else 1.0), np.full(d + 1, noise[1]), np.full(d, noise[2])
    log_normaliser = shape[None, :] * np.log(scale)[:, None] - gammaln(shape)[None, :]
    half_log, width_squares = 0.5 * np.log(precision), np.square(noise[3])
    return Regression(n_fixed, known, width_squares, precision, variance, shape, scale, half_log, log_normaliser)


@compiled
def regression_log_evidence(prior, columns, matrix, n_rows):  # type: ignore[no-untyped-def]
    """log p(y | Z) without ½ log |Λ| of width 1, from the lower half of the Gram matrix of (Z, y).

    Its upper half is overwritten.
    """
    log_p = width_log_evidence(prior, 0, columns, matrix, n_rows)
    n_widths = len(prior.width_squares)
    if n_widths == 1:
        return log_p
    for w in range(1, n_widths):
        other = width_log_evidence(prior, w, columns, matrix, n_rows)
        log_p = max(log_p, other) + math.log1p(math.exp(-abs(log_p - other)))
    return log_p - math.log(n_widths)


@compiled
def width_log_evidence(prior, w, columns, matrix, n_rows):  # type: ignore[no-untyped-def]
    """log p(y | Z) without ½ log |Λ| of width 1, given one of the widths.

    The transposed Cholesky factor overwrites the upper half of the matrix but for its diagonal.
    """
    size, node = len(columns), columns[-1]
    n_parents = size - 1 - prior.n_fixed
    shrink = 1.0 / prior.width_squares[w]
    log_det, product = 0.0, 1.0
    diagonal = np.empty(size)
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
    if prior.noise_known:
        variance = prior.variance[node]
        return -0.5 * (n_rows * (LOG_2PI + math.log(variance)) + residual / variance + log_det)
    shape = prior.shape[n_parents] + 0.5 * n_rows
    log_p = prior.log_normaliser[node, n_parents] + math.lgamma(shape)
    return log_p - shape * math.log(prior.scale[node] + 0.5 * residual) - 0.5 * (n_rows * LOG_2PI + log_det)


@compiled
def columns_of(tables, node, parents, n_parents):  # type: ignore[no-untyped-def]
    """Columns of the Gram matrix that the regression needs, the response last, and ½ log |Λ|."""
    d, n_fixed = tables.hard_log_evidence.shape[1], tables.prior.n_fixed
    columns = np.empty(n_parents + n_fixed + 1, np.int64)
    half_log = 0.0
    for a in range(n_parents + n_fixed):
        columns[a] = parents[a] if a < n_parents else d + a - n_parents
        half_log += tables.prior.half_log_precision[node, columns[a]]
    columns[-1] = node
    return columns, half_log


@compiled
def gather(gram, columns, matrix):  # type: ignore[no-untyped-def]
    """Copy the lower half of the columns of a Gram matrix that a regression needs."""
    for a in range(len(columns)):
        for b in range(a + 1):
            matrix[a, b] = gram[columns[a], columns[b]]


@compiled
def farthest(tables, k, columns):  # type: ignore[no-untyped-def]
    """How far context k has moved the parent that it has moved most."""
    far = 0.0
    for a in range(len(columns) - 1 - tables.prior.n_fixed):
        far = max(far, tables.reach[k, columns[a]])
    return far


@compiled
def change_factor(tables, k, columns, ratio, slope, shift):  # type: ignore[no-untyped-def]
    """L with L L' = A_ZZ/ρ + V⁻¹ of context k, and log |V (A_ZZ/ρ + V⁻¹)|: its noise variance is ρσ², the coefficients
    of parents change by N(0, slope σ²), the intercept by N(0, shift σ²)."""
    gram, n = tables.gram[tables.group[columns[-1]], k + 1], len(columns) - 1 - max(tables.prior.n_fixed - 1, 0)
    n_parents = len(columns) - 1 - tables.prior.n_fixed
    lower, log_det = np.zeros((n, n)), 0.0
    for a in range(n):
        for c in range(a):
            entry = gram[columns[a], columns[c]] / ratio
            for e in range(c):
                entry -= lower[a, e] * lower[c, e]
            lower[a, c] = entry / lower[c, c]
        variance = max(slope if a < n_parents else shift, LEAST_VARIANCE)
        pivot = gram[columns[a], columns[a]] / ratio + 1.0 / variance
        for e in range(a):
            pivot -= lower[a, e] * lower[a, e]
        pivot = max(pivot, 1.0 / variance)  # never below but for rounding
        lower[a, a] = math.sqrt(pivot)
        log_det += math.log(pivot * variance)
    return lower, log_det


@compiled
def change(tables, k, columns, ratio, slope, shift, matrix):  # type: ignore[no-untyped-def]
    """Take from the matrix what changed coefficients explain, A_Z' (A_ZZ + V⁻¹)⁻¹ A_Z with A over ρ, and return
    -½ log |V (…)|."""
    gram, size = tables.gram[tables.group[columns[-1]], k + 1], len(columns)
    n_parents, n = size - 1 - tables.prior.n_fixed, size - 1 - max(tables.prior.n_fixed - 1, 0)
    rows = np.empty((n, size))
    for a in range(n):
        for e in range(size):
            rows[a, e] = gram[columns[a], columns[e]] / ratio
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
def pooled(tables, b, node, columns, state, matrix):  # type: ignore[no-untyped-def]
    """Gram matrix of the rows that the mechanism of `node` explains under the drift b, their number, and the constants
    of drift and effects."""
    ones, size, drift, slope = tables.hard_log_evidence.shape[1], len(columns), tables.drift[b], tables.slope[b]
    g = tables.group[node]
    gather(tables.total[g, b], columns, matrix)
    n_rows, constant = tables.n_rows[g], tables.drift_log[g, b]
    for k in range(len(state)):
        s = state[k]
        soft = slope * farthest(tables, k, columns) if slope > 0 else 0.0
        if s == 0 and soft == 0:
            continue
        gram, n, kind, value = tables.gram[g, k + 1], tables.rows[g, k + 1], tables.kind[s], tables.value[s]
        # The context enters `total` as untouched: A - before s s'.
        before, weight, deflate = drift / (1 + n * drift), 0.0, 0.0
        if before > 0:
            constant += 0.5 * math.log(1 + n * drift)
        ratio, gone = 1.0, kind == HARD or (kind == SOFT and value == 0)
        shift = value * value + drift if kind in (SHIFT, SOFT) else drift
        if gone:
            weight = 1.0
            n_rows -= n
            if kind == HARD:
                constant += tables.hard_log_evidence[k, node]
        elif kind == SCALE:
            ratio = value
            weight = 1.0 - 1.0 / ratio
            constant -= 0.5 * n * math.log(ratio)
        elif kind == SOFT:
            soft += value * value
        if not gone and soft == 0:
            deflate = shift / (ratio * (ratio + n * shift))
            constant -= 0.5 * math.log(1 + n * shift / ratio)
        if weight != 0 or deflate != before:
            for a in range(size):
                ga = (deflate - before) * gram[columns[a], ones]
                for c in range(a + 1):
                    matrix[a, c] -= weight * gram[columns[a], columns[c]] + ga * gram[columns[c], ones]
        if not gone and soft > 0:
            constant += change(tables, k, columns, ratio, soft, shift, matrix)
    return n_rows, constant


@compiled
def drift_log_evidence(tables, b, node, columns, state, matrix):  # type: ignore[no-untyped-def]
    """log p(y | Z, τ) p(τ) of one drift, without ½ log |Λ|; the matrix is scratch space."""
    n_rows, constant = pooled(tables, b, node, columns, state, matrix)
    return constant + regression_log_evidence(tables.prior, columns, matrix, n_rows)


@compiled
def local_score(tables, node, parents, n_parents, state):  # type: ignore[no-untyped-def]
    """log p(x_:j | parents, states) of one node; the compiled form of `GramEvidence.log_evidence`."""
    columns, half_log = columns_of(tables, node, parents, n_parents)
    matrix = np.empty((len(columns), len(columns)))
    score = drift_log_evidence(tables, 0, node, columns, state, matrix)
    for b in range(1, len(tables.drift)):
        other = drift_log_evidence(tables, b, node, columns, state, matrix)
        score = max(score, other) + math.log1p(math.exp(-abs(score - other)))
    score += half_log
    for k in range(len(state)):
        if tables.kind[state[k]] == SOFT and tables.value[state[k]] == 0:
            g = tables.group[node]
            gather(tables.gram[g, k + 1], columns, matrix)
            score += half_log + regression_log_evidence(tables.prior, columns, matrix, tables.rows[g, k + 1])
    return score


@compiled
def local_scores(tables, nodes, parents, states):  # type: ignore[no-untyped-def]
    """`local_score` of many requests, parents as masks."""
    scores = np.empty(len(nodes))
    for b in range(len(nodes)):
        chosen = np.flatnonzero(parents[b])
        scores[b] = local_score(tables, nodes[b], chosen, len(chosen), states[b])
    return scores


@compiled
def draw_index(rng, log_p):  # type: ignore[no-untyped-def]
    """An index with probability proportional to exp(log_p)."""
    cumulative = np.cumsum(np.exp(log_p - log_p.max()))
    return np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")


@compiled
def draw_regression(rng, prior, columns, matrix, n_rows):  # type: ignore[no-untyped-def]
    """σ and coefficients from their posterior, given the Gram matrix of (Z, y)."""
    size, node = len(columns) - 1, columns[-1]
    log_p = np.array([width_log_evidence(prior, w, columns, matrix, n_rows) for w in range(len(prior.width_squares))])
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
def draw_mechanism(rng, tables, node, columns, state):  # type: ignore[no-untyped-def]
    """The usual mechanism of a node from its posterior: the drift, σ and the coefficients."""
    matrix = np.empty((len(columns), len(columns)))
    n_drifts = len(tables.drift)
    log_p = np.array([drift_log_evidence(tables, b, node, columns, state, matrix) for b in range(n_drifts)])
    b = draw_index(rng, log_p)
    n_rows, _ = pooled(tables, b, node, columns, state, matrix)
    std, coefficients = draw_regression(rng, tables.prior, columns, matrix, n_rows)
    return b, std, coefficients


@compiled
def draw_soft(rng, tables, k, node, columns, value, usual):  # type: ignore[no-untyped-def]
    """σ and coefficients that a soft effect has put in place of the usual ones: drawn anew, or changed."""
    b, std, coefficients = usual
    square, g = value * value, tables.group[node]
    gram = tables.gram[g, k + 1]
    if value == 0:
        matrix = np.empty((len(columns), len(columns)))
        gather(gram, columns, matrix)
        return draw_regression(rng, tables.prior, columns, matrix, tables.rows[g, k + 1])
    own = coefficients.copy()
    slope = square + tables.slope[b] * farthest(tables, k, columns)
    lower, _ = change_factor(tables, k, columns, 1.0, slope, square + tables.drift[b])
    n = len(lower)
    if n > 0:
        left = np.empty(n)
        for a in range(n):
            left[a] = gram[columns[a], node]
            for c in range(len(coefficients)):
                left[a] -= coefficients[c] * gram[columns[a], columns[c]]
        half = np.linalg.solve(lower, left)
        for a in range(n):
            half[a] += std * rng.standard_normal()
        own[:n] += np.linalg.solve(lower.T.copy(), half)
    return std, own


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
    own, where = np.zeros((n, n_slots, d + 2), np.float32), np.full((n, n_slots, 2), -1, np.int16)
    for at in range(n):
        slot = 0
        for node in range(d):
            parents, state = np.flatnonzero(graphs[at, :, node]), states[at, :, node].copy()
            columns, _ = columns_of(tables, node, parents, len(parents))
            usual = draw_mechanism(rng, tables, node, columns, state)
            b, std, coefficients = usual
            noise_std[at, node] = std
            for a in range(len(parents)):
                weight[at, parents[a], node] = coefficients[a]
            if tables.prior.n_fixed > 0:
                intercept[at, node] = coefficients[len(parents)]
            for k in range(m):
                kind, value = tables.kind[state[k]], tables.value[state[k]]
                if kind == SHIFT:
                    g = tables.group[node]
                    gram, residual = tables.gram[g, k + 1], tables.gram[g, k + 1, node, d]
                    for a in range(len(coefficients)):
                        residual -= coefficients[a] * gram[columns[a], d]
                    precision = tables.rows[g, k + 1] + 1 / (value**2 + tables.drift[b])
                    shift[at, k, node] = residual / precision + std / math.sqrt(precision) * rng.standard_normal()
                elif kind == SOFT:
                    own_std, changed = draw_soft(rng, tables, k, node, columns, value, usual)
                    for a in range(len(parents)):
                        own[at, slot, parents[a]] = changed[a]
                    if tables.prior.n_fixed > 0:
                        own[at, slot, d] = changed[len(parents)]
                    own[at, slot, d + 1] = own_std
                    where[at, slot, 0], where[at, slot, 1] = k, node
                    slot += 1
    return weight, intercept, noise_std, shift, own, where


class GramEvidence(AbstractEvidence):
    """Linear Gaussian evidence with known or inferred noise, or BGe; see the module for the formulas."""

    costly = False

    def __init__(self, data: ContextData, states: EffectStates, prior: Regression) -> None:
        if any(states.drift.slopes) and not prior.n_fixed:
            raise NoClosedForm("Slopes that drift need a mechanism with an intercept; give one, or slopes of 0.")
        self.n_variables, self.n_contexts, self.states = data.n_variables, data.n_contexts, states
        blocks = data.block[:, None] == np.arange(n_blocks(data)) if data.block is not None else data.x[:, :0]
        design = np.column_stack([data.x, np.ones(data.n_rows), blocks])
        weights = np.ones((1, data.n_rows)) if data.weight is None else data.weight.T
        power = np.ones(data.n_contexts + 1) if states.power is None else states.power
        parts = list(zip(data.by_context(design), power, strict=True))
        gram, rows = np.empty((len(weights), len(parts), *(design.shape[1],) * 2)), np.empty((len(weights), len(parts)))
        for g, weight in enumerate(weights):
            for k, ((block, times), own) in enumerate(zip(parts, data.by_context(weight), strict=True)):
                gram[g, k], rows[g, k] = times * (block.T * own) @ block, times * own.sum()
        square, slope, n = np.square(states.drift.stds), np.square(states.drift.slopes), rows[:, None, 1:]
        variance = square[None, :, None]
        sums = gram[:, 1:, :, data.n_variables]
        total = gram.sum(axis=1)[:, None] - np.einsum("gbk,gki,gkj->gbij", variance / (1 + n * variance), sums, sums)
        drift_log = np.log(states.drift.probabilities) - 0.5 * np.log1p(n * variance).sum(axis=2)
        group = np.arange(data.n_variables) % len(weights)
        far = np.ones(rows[0, 1:].shape + data.x.shape[1:])
        drifts = square, slope, far if states.drift.everywhere else reach(data, rows.mean(axis=0)), drift_log
        effects = states.kind, states.value, states.hard_log_evidence
        self.tables = GramTables(gram, total, rows, rows.sum(axis=1), group, *drifts, prior, *effects)

    def log_evidence(self, node: int, parents: Bool[np.ndarray, " d"], state: Int8[np.ndarray, " M"]) -> float:
        chosen = np.flatnonzero(parents)
        return float(local_score(self.tables, node, chosen, len(chosen), np.asarray(state, np.int8)))

    def log_evidences(self, nodes: np.ndarray, parents: ParentSets, states: Columns) -> Float[np.ndarray, " B"]:
        return local_scores(self.tables, np.asarray(nodes, np.int64), parents, states)

    def draw_parameters(self, rng: np.random.Generator, graphs: Graphs, states: States) -> dict[str, Labelled]:
        weight, intercept, noise_std, shift, own, where = draw_mechanisms(rng, self.tables, graphs, states)
        drawn = {"weight": Labelled(weight, ("source", "target")), "noise_std": Labelled(noise_std, ("node",))}
        if self.tables.prior.n_fixed:
            drawn["intercept"] = Labelled(intercept, ("node",))
        drawn |= self.states.labelled(states, shift)
        if SOFT in self.states.kind:
            d = self.n_variables
            drawn["effect_context"] = Labelled(where[..., 0], ("slot",))
            drawn["effect_node"] = Labelled(where[..., 1], ("slot",))
            drawn["effect_weight"] = Labelled(own[..., :d], ("slot", "source"))
            drawn["effect_intercept"] = Labelled(own[..., d], ("slot",))
            drawn["effect_own_noise_std"] = Labelled(own[..., d + 1], ("slot",))
        return drawn


def reach(data: ContextData, rows: Float[np.ndarray, " K"]) -> Float[np.ndarray, "M d"]:
    """How far each context takes each variable out of where the control has it: Δ²/(1 + Δ²), 0 where it stays.

    Δ² is the squared distance of the means in standard deviations within contexts, less what chance explains (two
    standard errors, of so many independent rows).

    >>> x = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0], [9.0, 0.0], [11.0, 0.0]])
    >>> data = ContextData(x, np.array([0, 0, 0, 1, 1]), ("a", "b"), ("ko",), "wt")
    >>> reach(data, np.array([3.0, 2.0])).round(2).tolist()
    [[0.99, 0.0]]
    """
    control = data.context == 0
    reference = data.x[control] if control.any() else data.x
    within = data.residuals_within().var(axis=0)
    scale = np.where(within > 0, within, data.x.var(axis=0))
    n_reference = rows[0] if control.any() else rows.sum()
    far = np.zeros((data.n_contexts, data.n_variables))
    for k, block in enumerate(data.by_context()[1:]):
        if len(block):
            square = np.square(block.mean(axis=0) - reference.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
            far[k] = np.maximum(square - 4 * (1 / rows[k + 1] + 1 / n_reference), 0.0)
    return far / (1 + far)


def n_blocks(data: ContextData) -> int:
    """How many blocks there are, each with an offset of its own in every regression."""
    return 0 if data.block is None else int(data.block.max()) + 1


def linear_evidence(mechanism: LinearGaussian, data: ContextData, states: EffectStates) -> GramEvidence:
    """The evidence of linear mechanisms; prior precisions are in units of the noise, also where σ is known."""
    d, noise, intercept = data.n_variables, mechanism.noise.conjugate(), mechanism.intercept_prior_std
    unit = 1.0 if noise.variance is None else noise.variance
    precision = np.full((d, d + 1 + n_blocks(data)), unit / mechanism.weight_prior_std**2)
    if intercept is not None:
        precision[:, d:] = unit / intercept**2
    n_fixed = precision.shape[1] - d if intercept is not None or n_blocks(data) else 0
    return GramEvidence(data, states, regression(n_fixed, precision, noise))


def bge_evidence(mechanism: BGe, data: ContextData, states: EffectStates) -> GramEvidence:
    """BGe as a regression: Λ is t for weights and α_μ for the intercept, σ² ~ InvGamma by the number of parents."""
    d, t = data.n_variables, mechanism.prior_scale
    precision = np.full((d, d + 1 + n_blocks(data)), t)
    precision[:, d:] = mechanism.alpha_mu
    shape = 0.5 * (mechanism.alpha_omega_excess + np.arange(d + 1) + 1)
    return GramEvidence(data, states, regression(1 + n_blocks(data), precision, (None, shape, 0.5 * t, (1.0,))))
