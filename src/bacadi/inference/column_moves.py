"""Compiled moves of an edge together with all states of the nodes it concerns. See `moves` for what they return."""

import math

import numpy as np

from bacadi.inference.chains import accepts, change_places, draw, evaluate, set_parents, uniform
from bacadi.inference.edge_moves import MISSING, reversed_edge, toggled
from bacadi.model.compiled import inner


@inner
def scan_column(target, memory, request, chains, beta, node, parents, column, counts, goal):  # type: ignore[no-untyped-def]
    """One Gibbs scan over the states of a node, context by context: log probability of the scan and the last score.

    With an empty `goal` states are drawn; else the scan is led to `goal` and only its probability is wanted. `column`
    and `counts` (targets in each context) are brought up to date.
    """
    n_states = target.prior.state_log_prior.shape[2]
    scores, log_p = np.empty(n_states), np.empty(n_states)
    log_q = 0.0
    score = evaluate(target, memory, request, node, parents, len(parents), column)
    for k in range(len(column)):
        now = column[k]
        others = counts[k] - (1 if now > 0 else 0)
        top = -np.inf
        for s in range(n_states):
            log_p[s] = target.prior.state_log_prior[k, node, s]
            if log_p[s] == -np.inf:
                continue
            log_p[s] += target.prior.target_count_log[k, others + (1 if s > 0 else 0)]
            column[k] = s
            scores[s] = score if s == now else evaluate(target, memory, request, node, parents, len(parents), column)
            if math.isnan(scores[s]):
                return np.nan, np.nan
            log_p[s] += beta * scores[s]
            top = max(top, log_p[s])
        total = 0.0
        for s in range(n_states):
            total += math.exp(log_p[s] - top)
        if len(goal) > 0:
            chosen = goal[k]
        else:
            mark, chosen = uniform(chains.rng) * total, 0
            mark -= math.exp(log_p[0] - top)
            while mark > 0 and chosen < n_states - 1:
                chosen += 1
                mark -= math.exp(log_p[chosen] - top)
        log_q += log_p[chosen] - top - math.log(total)
        column[k] = chosen
        counts[k] = others + (1 if chosen > 0 else 0)
        score = scores[chosen]
    return log_q, score


@inner
def column_prior(target, column, node):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(len(column)):
        total += target.prior.state_log_prior[k, node, column[k]]
    return total


@inner
def count_prior(target, counts):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(len(counts)):
        total += target.prior.target_count_log[k, counts[k]]
    return total


@inner
def change_with_columns(target, memory, request, chains, c, beta, reverse):  # type: ignore[no-untyped-def]
    """An edge is toggled or reversed and the states of the nodes it concerns are drawn anew, one Gibbs scan a node.

    The probabilities of the scan there and of the scan back (same order of nodes and contexts) are part of the ratio.
    """
    d = chains.edges.shape[1]
    none = np.empty(0, np.int8)
    pair = draw(chains.rng, target.proposals.edge_sum)
    i, j = pair // d, pair % d
    of_i = np.empty(0, np.int64)
    proposal = 0.0
    if reverse:
        possible, of_j, of_i, gain = reversed_edge(target, chains, c, i, j)
        proposal = target.proposals.edge_log[j, i] - target.proposals.edge_log[i, j]
    else:
        possible, of_j, gain = toggled(target, chains, c, i, j)
    if not possible:
        return 0
    first, second = (min(i, j), max(i, j)) if reverse else (j, j)
    n_nodes = 2 if reverse else 1
    columns, scores = np.empty((2, chains.states.shape[2]), np.int8), np.empty(2)
    counts = chains.n_targets[c].copy()
    log_forward, log_back, before, after = 0.0, 0.0, 0.0, 0.0
    for a in range(n_nodes):
        node = first if a == 0 else second
        columns[a] = chains.states[c, node]
        before += beta * chains.score[c, node] + column_prior(target, columns[a], node)
        new = of_j if node == j else of_i
        log_q, scores[a] = scan_column(target, memory, request, chains, beta, node, new, columns[a], counts, none)
        if math.isnan(log_q):
            return MISSING
        log_forward += log_q
        after += beta * scores[a] + column_prior(target, columns[a], node)
    before += count_prior(target, chains.n_targets[c])
    after += count_prior(target, counts)
    back_counts = counts.copy()
    for a in range(n_nodes):
        node = first if a == 0 else second
        old = chains.parents[c, node, : chains.n_parents[c, node]]
        log_q, _ = scan_column(
            target, memory, request, chains, beta, node, old, columns[a].copy(), back_counts, chains.states[c, node]
        )
        if math.isnan(log_q):
            return MISSING
        log_back += log_q
    if not accepts(chains, after - before + gain + log_back - log_forward):
        return 0
    change = -count_prior(target, chains.n_targets[c]) + count_prior(target, counts)
    for a in range(n_nodes):
        node = first if a == 0 else second
        change += column_prior(target, columns[a], node) - column_prior(target, chains.states[c, node], node)
        chains.states[c, node] = columns[a]
        set_parents(chains, c, node, of_j if node == j else of_i, scores[a])
    if reverse:
        change_places(chains, c, i, j)
    chains.n_targets[c] = counts
    chains.log_prior[c] += change + gain - proposal
    return 1
