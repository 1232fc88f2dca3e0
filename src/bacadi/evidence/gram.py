"""Evidence of linear Gaussian mechanisms and of BGe from one Gram matrix per context.

Node j with regressors Z (its parents, and a column of ones where the model has an intercept) and prior precision Λ of
their coefficients in units of the noise, over n rows:

    B = Z'Z + Λ,   r = y'y - y'Z B⁻¹ Z'y,
    σ² known:            log p(y | Z) = -n/2 log 2πσ² - r/2σ² - ½ log |B| + ½ log |Λ|,
    σ² ~ InvGamma(a, b): log p(y | Z) = -n/2 log 2π + a log b - log Γ(a) + log Γ(a + n/2) - (a + n/2) log(b + r/2)
                                        - ½ log |B| + ½ log |Λ|.

Where Λ is one of several (`InferredNoise.widths`), p(y | Z) is the mean of theirs.

Only sums of products enter, so the cost does not depend on the number of rows. An effect changes what its context adds
to them: nothing (hard, soft), its Gram matrix less s s' v²/(1 + n v²) with s the column sums (a shift of prior standard
deviation vσ, integrated out) or its Gram matrix over the ratio of variances (scale).
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int8
from scipy.special import gammaln

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.evidence.collapsed import AbstractEvidence, Columns, EffectKind, EffectStates, Graphs, ParentSets, States
from bacadi.evidence.compiled import compiled
from bacadi.model.integrated import BGe
from bacadi.model.linear import LinearGaussian
from bacadi.model.noise import LOG_2PI

HARD, SHIFT, SCALE, SOFT = (int(EffectKind[name]) for name in ("HARD", "SHIFT", "SCALE", "SOFT"))


class Regression(NamedTuple):
    """Priors of the regression of each node, in the form that compiled code reads; `regression` makes one.

    `precision[j, i]` is Λ for the weight of i in the equation of j, `precision[j, d]` that of its intercept, each to be
    divided by one of `width_squares`. With `noise_known` σ_j² is `variance[j]`, else InvGamma(`shape[number of
    parents]`, `scale[j]`).
    """

    intercept: bool
    noise_known: bool
    width_squares: Float[np.ndarray, " W"]
    precision: Float[np.ndarray, "d d+1"]
    variance: Float[np.ndarray, " d"]
    shape: Float[np.ndarray, " d+1"]
    scale: Float[np.ndarray, " d"]
    half_log_precision: Float[np.ndarray, "d d+1"]
    log_normaliser: Float[np.ndarray, "d d+1"]


class GramTables(NamedTuple):
    """Everything a local score depends on; the last column of `gram` belongs to the column of ones."""

    gram: Float[np.ndarray, "K d+1 d+1"]
    total: Float[np.ndarray, "d+1 d+1"]
    rows: Float[np.ndarray, " K"]
    prior: Regression
    kind: Int8[np.ndarray, " T"]
    value: Float[np.ndarray, " T"]
    hard_log_evidence: Float[np.ndarray, "M d"]


def regression(intercept: bool, precision: Float[np.ndarray, "d d+1"], noise: tuple[Any, ...]) -> Regression:
    """The priors with the logarithms that every score needs; `noise` is `Conjugate`, its shape by number of parents."""
    d, known = len(precision), noise[0] is not None
    variance, shape, scale = np.full(d, noise[0] if known else 1.0), np.full(d + 1, noise[1]), np.full(d, noise[2])
    log_normaliser = shape[None, :] * np.log(scale)[:, None] - gammaln(shape)[None, :]
    half_log, width_squares = 0.5 * np.log(precision), np.square(noise[3])
    return Regression(intercept, known, width_squares, precision, variance, shape, scale, half_log, log_normaliser)


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
    n_parents = size - 2 if prior.intercept else size - 1
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
    last = tables.gram.shape[1] - 1
    size = n_parents + (2 if tables.prior.intercept else 1)
    columns = np.empty(size, np.int64)
    half_log = 0.0
    for a in range(n_parents):
        columns[a] = parents[a]
        half_log += tables.prior.half_log_precision[node, parents[a]]
    if tables.prior.intercept:
        columns[n_parents] = last
        half_log += tables.prior.half_log_precision[node, last]
    columns[size - 1] = node
    return columns, half_log


@compiled
def gather(gram, columns, matrix):  # type: ignore[no-untyped-def]
    """Copy the lower half of the columns of a Gram matrix that a regression needs."""
    for a in range(len(columns)):
        for b in range(a + 1):
            matrix[a, b] = gram[columns[a], columns[b]]


@compiled
def pooled(tables, node, columns, state, matrix):  # type: ignore[no-untyped-def]
    """Gram matrix of the rows that the mechanism of `node` explains, their number and the constants of the effects."""
    last, size = tables.gram.shape[1] - 1, len(columns)
    gather(tables.total, columns, matrix)
    n_rows, constant = tables.rows.sum(), 0.0
    for k in range(len(state)):
        s = state[k]
        if s == 0:
            continue
        gram, n, kind, value = tables.gram[k + 1], tables.rows[k + 1], tables.kind[s], tables.value[s]
        if kind == SHIFT:
            weight, deflate = 0.0, value * value / (1 + n * value * value)
            constant -= 0.5 * math.log(1 + n * value * value)
        elif kind == SCALE:
            weight, deflate = 1.0 - 1.0 / value, 0.0
            constant -= 0.5 * n * math.log(value)
        else:
            weight, deflate = 1.0, 0.0
            n_rows -= n
            if kind == HARD:
                constant += tables.hard_log_evidence[k, node]
        for a in range(size):
            ga = deflate * gram[columns[a], last]
            for b in range(a + 1):
                matrix[a, b] -= weight * gram[columns[a], columns[b]] + ga * gram[columns[b], last]
    return n_rows, constant


@compiled
def local_score(tables, node, parents, n_parents, state):  # type: ignore[no-untyped-def]
    """log p(x_:j | parents, states) of one node; the compiled form of `GramEvidence.log_evidence`."""
    columns, half_log = columns_of(tables, node, parents, n_parents)
    matrix = np.empty((len(columns), len(columns)))
    n_rows, score = pooled(tables, node, columns, state, matrix)
    score += half_log + regression_log_evidence(tables.prior, columns, matrix, n_rows)
    for k in range(len(state)):
        if tables.kind[state[k]] == SOFT:
            gather(tables.gram[k + 1], columns, matrix)
            score += half_log + regression_log_evidence(tables.prior, columns, matrix, tables.rows[k + 1])
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
def draw_regression(rng, prior, columns, matrix, n_rows):  # type: ignore[no-untyped-def]
    """σ and coefficients from their posterior, given the Gram matrix of (Z, y)."""
    size, node = len(columns) - 1, columns[-1]
    n_parents = size - 1 if prior.intercept else size
    log_p = np.array([width_log_evidence(prior, w, columns, matrix, n_rows) for w in range(len(prior.width_squares))])
    cumulative = np.cumsum(np.exp(log_p - log_p.max()))
    w = np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right")
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
        shape = prior.shape[n_parents] + 0.5 * n_rows
        std = math.sqrt((prior.scale[node] + 0.5 * residual) / rng.standard_gamma(shape))
    for a in range(size):
        half[a] += std * rng.standard_normal()
    return std, np.linalg.solve(factor.T.copy(), half) if size > 0 else half


@compiled
def draw_mechanisms(rng, tables, graphs, states, soft):  # type: ignore[no-untyped-def]
    """Weights, intercepts, noise and shifts of all nodes for every draw, float32.

    The mechanisms are the usual ones, one for all contexts ([n, 1, ...]), or with `soft` those that soft effects put in
    their place, one a context ([n, M, ...]). The constant that a shift effect adds has its posterior given the usual
    mechanism.
    """
    (n, m, d), last = states.shape, tables.gram.shape[1] - 1
    n_kinds = m if soft else 1
    weight, shift = np.zeros((n, n_kinds, d, d), np.float32), np.zeros((n, m, d), np.float32)
    intercept, noise_std = np.zeros((n, n_kinds, d), np.float32), np.zeros((n, n_kinds, d), np.float32)
    for at in range(n):
        for node in range(d):
            parents, state = np.flatnonzero(graphs[at, :, node]), states[at, :, node].copy()
            columns, _ = columns_of(tables, node, parents, len(parents))
            matrix = np.empty((len(columns), len(columns)))
            for k in range(n_kinds):
                if soft and tables.kind[state[k]] != SOFT:
                    continue
                if soft:
                    gather(tables.gram[k + 1], columns, matrix)
                    n_rows = tables.rows[k + 1]
                else:
                    n_rows, _ = pooled(tables, node, columns, state, matrix)
                std, coefficients = draw_regression(rng, tables.prior, columns, matrix, n_rows)
                noise_std[at, k, node] = std
                for a in range(len(parents)):
                    weight[at, k, parents[a], node] = coefficients[a]
                if tables.prior.intercept:
                    intercept[at, k, node] = coefficients[len(parents)]
            for k in range(0 if soft else m):
                if tables.kind[state[k]] == SHIFT:
                    gram, residual = tables.gram[k + 1], tables.gram[k + 1, node, last]
                    for a in range(len(coefficients)):
                        residual -= coefficients[a] * gram[columns[a], last]
                    precision = tables.rows[k + 1] + 1 / tables.value[state[k]] ** 2
                    shift[at, k, node] = residual / precision + std / math.sqrt(precision) * rng.standard_normal()
    return weight, intercept, noise_std, shift


class GramEvidence(AbstractEvidence):
    """Linear Gaussian evidence with known or inferred noise, or BGe; see the module for the formulas."""

    costly = False

    def __init__(self, data: ContextData, states: EffectStates, prior: Regression) -> None:
        self.n_variables, self.n_contexts, self.states = data.n_variables, data.n_contexts, states
        design = np.column_stack([data.x, np.ones(data.n_rows)])
        gram = np.stack([block.T @ block for block in data.by_context(design)])
        effects = states.kind, states.value, states.hard_log_evidence
        self.tables = GramTables(gram, gram.sum(axis=0), data.counts.astype(float), prior, *effects)

    def log_evidence(self, node: int, parents: Bool[np.ndarray, " d"], state: Int8[np.ndarray, " M"]) -> float:
        chosen = np.flatnonzero(parents)
        return float(local_score(self.tables, node, chosen, len(chosen), np.asarray(state, np.int8)))

    def log_evidences(self, nodes: np.ndarray, parents: ParentSets, states: Columns) -> Float[np.ndarray, " B"]:
        return local_scores(self.tables, np.asarray(nodes, np.int64), parents, states)

    def draw_parameters(self, rng: np.random.Generator, graphs: Graphs, states: States) -> dict[str, Labelled]:
        weight, intercept, noise_std, shift = draw_mechanisms(rng, self.tables, graphs, states, False)
        drawn = {"weight": Labelled(weight[:, 0], ("source", "target"))}
        drawn["noise_std"] = Labelled(noise_std[:, 0], ("node",))
        if self.tables.prior.intercept:
            drawn["intercept"] = Labelled(intercept[:, 0], ("node",))
        drawn |= self.states.labelled(states, shift)
        if SOFT in self.states.kind:
            weight, intercept, noise_std, _ = draw_mechanisms(rng, self.tables, graphs, states, True)
            drawn["effect_weight"] = Labelled(weight, ("context", "source", "target"))
            drawn["effect_intercept"] = Labelled(intercept, ("context", "node"))
            drawn["effect_own_noise_std"] = Labelled(noise_std, ("context", "node"))
        return drawn


def linear_evidence(mechanism: LinearGaussian, data: ContextData, states: EffectStates) -> GramEvidence:
    """The evidence of linear mechanisms; prior precisions are in units of the noise, also where σ is known."""
    d, noise, intercept = data.n_variables, mechanism.noise.conjugate(), mechanism.intercept_prior_std
    unit = 1.0 if noise.variance is None else noise.variance
    precision = np.full((d, d + 1), unit / mechanism.weight_prior_std**2)
    if intercept is not None:
        precision[:, d] = unit / intercept**2
    return GramEvidence(data, states, regression(intercept is not None, precision, noise))


def bge_evidence(mechanism: BGe, data: ContextData, states: EffectStates) -> GramEvidence:
    """BGe as a regression: Λ is t for weights and α_μ for the intercept, σ² ~ InvGamma by the number of parents."""
    d, t = data.n_variables, mechanism.prior_scale
    precision = np.full((d, d + 1), t)
    precision[:, d] = mechanism.alpha_mu
    shape = 0.5 * (mechanism.alpha_omega_excess + np.arange(d + 1) + 1)
    return GramEvidence(data, states, regression(True, precision, (None, shape, 0.5 * t, (1.0,))))
