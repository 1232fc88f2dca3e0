"""Scores of all single changes at a node from one set of sums: one more parent, another state in one context.

Let L L' = B be the factor of the regression of y on its parents Z, v = L⁻¹ Z'y and r = y'y - v'v. With one more
regressor x of precision λ the factor has one more row, and (`regression_log_evidence` has the rest)

    u = L⁻¹ Z'x,   s = x'x + λ - u'u,   log |B| grows by log s,   r falls by (x'y - u'v)²/s,

so that a candidate costs p² operations in place of p³, and the sums of all candidates are read row by row instead of
entry by entry. A change of state takes one context from the sums or gives it back; all others stay as they are.
"""

import math

import numpy as np

from bacadi.evidence.compiled import compiled
from bacadi.evidence.tables import (
    LOG_2PI,
    NODE,
    SOFT,
    bend_log,
    bends_log,
    columns_of,
    context_block,
    context_terms,
    drifting_log_evidence,
    local_score,
    moved,
    next_touched,
    pooled,
    subtract,
)

NOTHING = 40.0  # nats below the largest term of a sum at which another adds nothing to it


@compiled
def has_scan(tables):  # type: ignore[no-untyped-def]
    """Whether contexts add to the sums apart from each other: no slope changes in any of them."""
    return tables.slope.max() == 0 and not (tables.kind == SOFT).any()


@compiled
def has_single_columns(tables):  # type: ignore[no-untyped-def]
    """Whether every variable enters a regression by one column, and moves of parents add nothing to it."""
    return tables.move.max() == 0 and tables.first[-1] - tables.first[0] == len(tables.first) - 1


@compiled
def addition_scores(tables, node, parents, n_parents, state, candidates, scores):  # type: ignore[no-untyped-def]
    """`scores[c]`: log p(x_:j | parents and candidate c, states), as `local_score` has it but for rounding."""
    more = np.empty(n_parents + 1, NODE)
    if not has_scan(tables) or not has_single_columns(tables):
        for c in range(len(candidates)):
            more[:n_parents] = parents[:n_parents]
            at = n_parents
            while at > 0 and more[at - 1] > candidates[c]:
                more[at] = more[at - 1]
                at -= 1
            more[at] = candidates[c]
            scores[c] = local_score(tables, node, more, n_parents + 1, state)
        return
    columns, half_log = columns_of(tables, node, parents, n_parents)
    matrices, n_rows, constants = pooled(tables, node, parents, n_parents, columns, state)
    cross = _cross(tables, columns, state, candidates)
    prior, size = tables.prior, len(columns)
    n_widths, part = len(prior.width_squares), np.empty(size)
    n_parts = len(constants) * n_widths
    lower, share, log_p = np.empty((n_parts, size, size)), np.empty(n_parts), np.empty(n_parts)
    for at in range(n_parts):
        b, w = at // n_widths, at % n_widths
        log_det = _factor(prior, columns, matrices[b], prior.width_squares[w], lower[at])
        share[at] = constants[b] - 0.5 * (log_det + math.log(prior.width_squares[w]))
    shape, variance, scale = prior.shape[n_parents + 1] + 0.5 * n_rows, prior.variance[node], prior.scale[node]
    common = half_log - math.log(n_widths) - 0.5 * n_rows * LOG_2PI
    if prior.noise_known:
        common -= 0.5 * n_rows * math.log(variance)
    else:
        common += prior.log_normaliser[node, n_parents + 1] + math.lgamma(shape)
    for c in range(len(candidates)):
        i, top = candidates[c], -np.inf
        for at in range(n_parts):
            b, square, factor = at // n_widths, prior.width_squares[at % n_widths], lower[at]
            left, rest = cross[b, size, c] + prior.precision[node, i] / square, cross[b, size - 1, c]
            for a in range(size - 1):
                entry = cross[b, a, c]
                for e in range(a):
                    entry -= factor[a, e] * part[e]
                part[a] = entry * factor[a, a]
                left -= part[a] * part[a]
                rest -= part[a] * factor[size - 1, a]
            residual = factor[size - 1, size - 1]
            if left > 0:
                residual -= rest * rest / left
            else:  # but for rounding it never is: the column repeats others, as in `width_log_evidence`
                left = prior.precision[node].min() / square
            residual = max(residual, 0.0)
            noise = 0.5 * residual / variance if prior.noise_known else shape * math.log(scale + 0.5 * residual)
            log_p[at] = share[at] - 0.5 * math.log(left) - noise
            top = max(top, log_p[at])
        total = 0.0
        for at in range(n_parts):
            if log_p[at] > top - NOTHING:
                total += math.exp(log_p[at] - top)
        scores[c] = common + prior.half_log_precision[node, i] + top + math.log(total)
        if tables.bend > 0:
            more[:n_parents], more[n_parents] = parents[:n_parents], i
            scores[c] += bends_log(tables, node, more, n_parents + 1, state)


@compiled
def _cross(tables, columns, state, candidates):  # type: ignore[no-untyped-def]
    """Sums of products of each candidate with the columns of a regression, and last with itself, for each drift."""
    size, n_drifts, n, node = len(columns), len(tables.drift), len(candidates), columns[-1]
    g, cross = tables.group[node], np.empty((len(tables.drift), len(columns) + 1, len(candidates)))
    for a in range(size):
        total = tables.total[g, columns[a]]
        for c in range(n):
            for b in range(n_drifts):
                cross[b, a, c] = total[candidates[c], b]
    for c in range(n):
        for b in range(n_drifts):
            cross[b, size, c] = tables.total[g, candidates[c], candidates[c], b]
    block, pair = np.empty((size + 1, size)), np.empty(size + 2)
    k = next_touched(state, 0)
    while k < len(state):
        context_block(tables, g, k, columns, block)
        for c in range(n):
            _products(tables, g, k, columns, candidates[c], pair)
            for b in range(n_drifts):
                weight, deflate, _, _ = context_terms(tables, b, k, node, state[k], 0.0, 0.0, 0.0, 0.0)
                for a in range(size):
                    cross[b, a, c] -= weight * pair[a] + deflate * block[size, a] * pair[size + 1]
                cross[b, size, c] -= weight * pair[size] + deflate * pair[size + 1] * pair[size + 1]
        k = next_touched(state, k + 1)
    return cross


@compiled
def _products(tables, g, k, columns, i, pair):  # type: ignore[no-untyped-def]
    """Sums over context k of products of variable i with some columns, with itself, and its own sum."""
    size, at = len(columns), tables.at_gram[k]
    pair[: size + 1], pair[size + 1] = 0.0, tables.sums[g, k, i]
    if at >= 0:
        gram = tables.gram[g, at, i]
        for a in range(size):
            pair[a] = gram[columns[a]]
        pair[size] = gram[i]
        return
    own = tables.few[i]
    for r in range(tables.first_row[k], tables.first_row[k + 1]):
        value = tables.row_root[g, r] * tables.row_root[g, r] * own[r]
        for a in range(size):
            pair[a] += value * tables.few[columns[a], r]
        pair[size] += value * own[r]


@compiled
def _factor(prior, columns, matrix, square, lower):  # type: ignore[no-untyped-def]
    """The factor L of the regression with the inverse of its diagonal in its place, v in the last row and r in its
    corner; returns log |B| in units of the width."""
    size, node, log_det = len(columns), columns[-1], 0.0
    for a in range(size):
        for c in range(a):
            entry = matrix[a, c]
            for e in range(c):
                entry -= lower[a, e] * lower[c, e]
            lower[a, c] = entry * lower[c, c]
        pivot = matrix[a, a]
        if a < size - 1:
            pivot += prior.precision[node, columns[a]] / square
        for e in range(a):
            pivot -= lower[a, e] * lower[a, e]
        if a == size - 1:
            lower[a, a] = pivot
        elif pivot > 0:
            lower[a, a] = 1 / math.sqrt(pivot)
            log_det += math.log(pivot * square)
        else:
            lower[a, a] = 0.0
            log_det += math.log(prior.precision[node].min())
    return log_det


@compiled
def state_scores(tables, node, parents, n_parents, state, contexts, scores):  # type: ignore[no-untyped-def]
    """`scores[c, s]`: log p(x_:j | parents, states) with state s in context `contexts[c]`, as `local_score` has it but
    for rounding."""
    n_states = len(tables.kind)
    if not has_scan(tables):
        column = state.copy()
        for c in range(len(contexts)):
            k = contexts[c]
            for s in range(n_states):
                column[k] = s
                scores[c, s] = local_score(tables, node, parents, n_parents, column)
            column[k] = state[k]
        return
    columns, half_log = columns_of(tables, node, parents, n_parents)
    matrices, n_rows, constants = pooled(tables, node, parents, n_parents, columns, state)
    size, g, n_drifts = len(columns), tables.group[node], len(constants)
    block, changed, log_p = np.empty((size + 1, size)), np.empty_like(matrices), np.empty(n_drifts)
    bends = bends_log(tables, node, parents, n_parents, state)
    now = half_log + drifting_log_evidence(tables.prior, columns, matrices, n_rows, constants) + bends
    for c in range(len(contexts)):
        k = contexts[c]
        context_block(tables, g, k, columns, block)
        far = moved(tables, k, parents, n_parents)
        others = bends - bend_log(tables, k, node, far, state[k])
        for s in range(n_states):
            if s == state[k]:
                scores[c, s] = now
                continue
            rows = n_rows
            for b in range(n_drifts):
                old_weight, old_deflate, gone, old = 0.0, 0.0, 0.0, 0.0
                more = tables.move[b] * far
                is_moved = more != tables.move[b] * tables.moved_in_total[k]
                if state[k] != 0 or is_moved:
                    old_weight, old_deflate, gone, old = context_terms(
                        tables, b, k, node, state[k], 0.0, more, 0.0, 0.0
                    )
                weight, deflate, rows, log_p[b] = 0.0, 0.0, n_rows - gone, constants[b] - old
                if s != 0 or is_moved:
                    weight, deflate, rows, log_p[b] = context_terms(tables, b, k, node, s, 0.0, more, rows, log_p[b])
                for a in range(size):
                    for e in range(a + 1):
                        changed[b, a, e] = matrices[b, a, e]
                subtract(block, weight - old_weight, deflate - old_deflate, size, changed[b])
            scores[c, s] = half_log + drifting_log_evidence(tables.prior, columns, changed, rows, log_p)
            scores[c, s] += others + bend_log(tables, k, node, far, s)


@compiled
def single_changes(tables, node, parents, states, toggled, of_state):  # type: ignore[no-untyped-def]
    """What the score of a node gains with one parent more or less (`toggled[u, i]`) and with state s in context k
    (`of_state[u, k, s]`), for each of several parent sets, as masks, and states."""
    contexts, chosen = np.arange(states.shape[1]), np.empty(parents.shape[1], NODE)
    fewer, others, scores = chosen.copy(), np.empty(parents.shape[1], np.int64), np.empty(parents.shape[1])
    for u in range(len(parents)):
        n, n_others = 0, 0
        for i in range(parents.shape[1]):
            if parents[u, i]:
                chosen[n] = i
                n += 1
            elif i != node:
                others[n_others] = i
                n_others += 1
        now = local_score(tables, node, chosen, n, states[u])
        toggled[u] = 0.0
        addition_scores(tables, node, chosen, n, states[u], others[:n_others], scores)
        for c in range(n_others):
            toggled[u, others[c]] = scores[c] - now
        for a in range(n):
            fewer[:a], fewer[a : n - 1] = chosen[:a], chosen[a + 1 : n]
            toggled[u, chosen[a]] = local_score(tables, node, fewer, n - 1, states[u]) - now
        state_scores(tables, node, chosen, n, states[u], contexts, of_state[u])
        for k in contexts:
            of_state[u, k, states[u, k]] = now
        of_state[u] -= now
