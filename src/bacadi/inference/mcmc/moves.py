"""Compiled moves of edges: toggle, reversal, swap of a parent. See `moves` for what they return.

Compiled moves of states: change, swap within a context, change together with an edge. See `moves`.

Compiled moves of an edge together with all states of the nodes it concerns. See `moves` for what they return.

Compiled moves of the collapsed sampler on graph and states, with their Hastings ratios.

A chain is one entry of the first axis of `Chains`; the density it samples is p(G, S) p(D | G, S)^β. Where the prior
is one over causal orders, a chain has one of the orders of its graph, p(G, π) in place of p(G): edges run along it, a
reversal makes both nodes change places, and after every move a node moves within the order. Pairs (i, j) and
(context, variable) are drawn from fixed proposal weights, which therefore cancel in a toggle and enter as a ratio
where a move and its reverse draw different pairs. Every move returns 1 (accepted), 0 (not) or MISSING: a local score is
not in memory, nothing has changed, and the same move is made again once the score is there.
"""

import math

import numpy as np

from bacadi.evidence.compiled import compiled, inner
from bacadi.inference.mcmc.chain import (
    accepts,
    below,
    change_places,
    draw,
    evaluate,
    inserted,
    lend,
    may_lead,
    may_turn,
    move_in_order,
    out_degree_gain,
    set_parents,
    set_state,
    uniform,
    with_parent,
    without_parent,
)

MISSING = -1


@inner
def toggled(target, chains, c, i, j):  # type: ignore[no-untyped-def]
    """Whether the edge i → j may be toggled, the parents of j after it and the change of log p(G)."""
    prior = target.prior
    none = np.empty(0, np.int64)
    if i == j or prior.fixed[i, j] != 0:
        return False, none, 0.0
    if chains.edges[c, i, j] == 1:
        gain = out_degree_gain(target, chains, c, i, -1) - prior.edge_log_odds[i, j]
        return True, without_parent(chains, c, j, i), gain
    if chains.n_parents[c, j] >= prior.max_parents or not may_lead(target, chains, c, i, j):
        return False, none, 0.0
    gain = out_degree_gain(target, chains, c, i, 1) + prior.edge_log_odds[i, j]
    return True, with_parent(chains, c, j, i), gain


@inner
def reversed_edge(target, chains, c, i, j):  # type: ignore[no-untyped-def]
    """Whether i → j may become j → i, the new parents of j and of i, the change of log p(G) and weights."""
    prior = target.prior
    none = np.empty(0, np.int64)
    refused = i == j or chains.edges[c, i, j] == 0 or prior.fixed[i, j] != 0 or prior.fixed[j, i] != 0
    if refused or chains.n_parents[c, i] >= prior.max_parents or not may_turn(target, chains, c, i, j):
        return False, none, none, 0.0
    gain = out_degree_gain(target, chains, c, i, -1) + out_degree_gain(target, chains, c, j, 1)
    gain += prior.edge_log_odds[j, i] - prior.edge_log_odds[i, j]
    gain += target.proposals.edge_log[j, i] - target.proposals.edge_log[i, j]
    return True, without_parent(chains, c, j, i), with_parent(chains, c, i, j), gain


@inner
def toggle_edge(target, memory, request, chains, c, beta):  # type: ignore[no-untyped-def]
    d = chains.edges.shape[1]
    pair = draw(chains.rng, target.proposals.edge_sum)
    i, j = pair // d, pair % d
    possible, new, gain = toggled(target, chains, c, i, j)
    if not possible:
        return 0
    score = evaluate(target, memory, request, j, new, len(new), chains.states[c, j])
    if math.isnan(score):
        return MISSING
    if not accepts(chains, beta * (score - chains.score[c, j]) + gain):
        return 0
    set_parents(chains, c, j, new, score)
    chains.log_prior[c] += gain
    return 1


@inner
def reverse_edge(target, memory, request, chains, c, beta):  # type: ignore[no-untyped-def]
    d = chains.edges.shape[1]
    pair = draw(chains.rng, target.proposals.edge_sum)
    i, j = pair // d, pair % d
    possible, of_j, of_i, gain = reversed_edge(target, chains, c, i, j)
    if not possible:
        return 0
    score_j = evaluate(target, memory, request, j, of_j, len(of_j), chains.states[c, j])
    if math.isnan(score_j):
        return MISSING
    score_i = evaluate(target, memory, request, i, of_i, len(of_i), chains.states[c, i])
    if math.isnan(score_i):
        return MISSING
    log_ratio = beta * (score_j + score_i - chains.score[c, j] - chains.score[c, i]) + gain
    if not accepts(chains, log_ratio):
        return 0
    proposal = target.proposals.edge_log[j, i] - target.proposals.edge_log[i, j]
    set_parents(chains, c, j, of_j, score_j)
    set_parents(chains, c, i, of_i, score_i)
    change_places(chains, c, i, j)
    chains.log_prior[c] += gain - proposal
    return 1


@inner
def swap_parent(target, memory, request, chains, c, beta):  # type: ignore[no-untyped-def]
    """A drawn i takes the place of a random parent of j; the reverse draws the old parent and picks i."""
    d, prior = chains.edges.shape[1], target.prior
    pair = draw(chains.rng, target.proposals.edge_sum)
    i, j = pair // d, pair % d
    if i == j or prior.fixed[i, j] != 0 or chains.edges[c, i, j] == 1 or chains.n_parents[c, j] == 0:
        return 0
    old = chains.parents[c, j, below(chains.rng, chains.n_parents[c, j])]
    if prior.fixed[old, j] != 0 or not may_lead(target, chains, c, i, j):
        return 0
    new = inserted(without_parent(chains, c, j, old), i)
    score = evaluate(target, memory, request, j, new, len(new), chains.states[c, j])
    if math.isnan(score):
        return MISSING
    gain = out_degree_gain(target, chains, c, old, -1) + out_degree_gain(target, chains, c, i, 1)
    gain += prior.edge_log_odds[i, j] - prior.edge_log_odds[old, j]
    proposal = target.proposals.edge_log[old, j] - target.proposals.edge_log[i, j]
    if not accepts(chains, beta * (score - chains.score[c, j]) + gain + proposal):
        return 0
    set_parents(chains, c, j, new, score)
    chains.log_prior[c] += gain
    return 1


@inner
def another_state(chains, c, k, j, n_states):  # type: ignore[no-untyped-def]
    """A state other than the present one, each alike."""
    new = below(chains.rng, n_states - 1)
    return new + 1 if new >= chains.states[c, j, k] else new


@inner
def state_gain(target, chains, c, k, j, new):  # type: ignore[no-untyped-def]
    """Change of log p(S) when variable j takes another state in context k."""
    prior, old = target.prior, chains.states[c, j, k]
    count = chains.n_targets[c, k]
    change = (1 if new > 0 else 0) - (1 if old > 0 else 0)
    gain = prior.target_count_log[k, count + change] - prior.target_count_log[k, count]
    return gain + prior.state_log_prior[k, j, new] - prior.state_log_prior[k, j, old]


@inner
def change_target(target, memory, request, chains, c, beta):  # type: ignore[no-untyped-def]
    d, n_states = chains.edges.shape[1], target.prior.state_log_prior.shape[2]
    pair = draw(chains.rng, target.proposals.target_sum)
    k, j = pair // d, pair % d
    new = another_state(chains, c, k, j, n_states)
    gain = state_gain(target, chains, c, k, j, new)
    if gain == -np.inf:
        return 0
    state = chains.states[c, j].copy()
    state[k] = new
    score = evaluate(target, memory, request, j, chains.parents[c, j], chains.n_parents[c, j], state)
    if math.isnan(score):
        return MISSING
    if not accepts(chains, beta * (score - chains.score[c, j]) + gain):
        return 0
    set_state(chains, c, k, j, new)
    chains.score[c, j] = score
    chains.log_prior[c] += gain
    return 1


@inner
def swap_target(target, memory, request, chains, c, beta):  # type: ignore[no-untyped-def]
    """The state of a random target of context k moves to a drawn variable j that was untouched there."""
    d, prior = chains.edges.shape[1], target.prior
    pair = draw(chains.rng, target.proposals.target_sum)
    k, j = pair // d, pair % d
    if chains.states[c, j, k] != 0 or chains.n_targets[c, k] == 0:
        return 0
    pick = below(chains.rng, chains.n_targets[c, k])
    old = -1
    while pick >= 0:
        old += 1
        if chains.states[c, old, k] > 0:
            pick -= 1
    moved = chains.states[c, old, k]
    gain = prior.state_log_prior[k, j, moved] - prior.state_log_prior[k, j, 0]
    gain += prior.state_log_prior[k, old, 0] - prior.state_log_prior[k, old, moved]
    if not gain > -np.inf:
        return 0
    state_j, state_old = chains.states[c, j].copy(), chains.states[c, old].copy()
    state_j[k], state_old[k] = moved, 0
    score_j = evaluate(target, memory, request, j, chains.parents[c, j], chains.n_parents[c, j], state_j)
    if math.isnan(score_j):
        return MISSING
    score_old = evaluate(target, memory, request, old, chains.parents[c, old], chains.n_parents[c, old], state_old)
    if math.isnan(score_old):
        return MISSING
    proposal = target.proposals.target_log[k, old] - target.proposals.target_log[k, j]
    log_ratio = beta * (score_j + score_old - chains.score[c, j] - chains.score[c, old]) + gain + proposal
    if not accepts(chains, log_ratio):
        return 0
    set_state(chains, c, k, j, moved)
    set_state(chains, c, k, old, 0)
    chains.score[c, j], chains.score[c, old] = score_j, score_old
    chains.log_prior[c] += gain
    return 1


@inner
def toggle_edge_and_target(target, memory, request, chains, c, beta):  # type: ignore[no-untyped-def]
    """An edge into j is toggled and the state of j in a random context changes: an edge can explain a target away."""
    d, n_states = chains.edges.shape[1], target.prior.state_log_prior.shape[2]
    pair = draw(chains.rng, target.proposals.edge_sum)
    i, j = pair // d, pair % d
    k = below(chains.rng, chains.n_targets.shape[1])
    possible, new, gain = toggled(target, chains, c, i, j)
    if not possible:
        return 0
    new_state = another_state(chains, c, k, j, n_states)
    gain += state_gain(target, chains, c, k, j, new_state)
    if gain == -np.inf:
        return 0
    state = chains.states[c, j].copy()
    state[k] = new_state
    score = evaluate(target, memory, request, j, new, len(new), state)
    if math.isnan(score):
        return MISSING
    if not accepts(chains, beta * (score - chains.score[c, j]) + gain):
        return 0
    set_parents(chains, c, j, new, score)
    set_state(chains, c, k, j, new_state)
    chains.log_prior[c] += gain
    return 1


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


(TOGGLE, REVERSE, SWAP_PARENT, SET_TARGET, SWAP_TARGET, EDGE_AND_TARGET, TOGGLE_AND_COLUMN, REVERSE_AND_COLUMNS) = (
    range(8)
)
MOVES = (
    "edge toggle",
    "edge reversal",
    "parent swap",
    "target change",
    "target swap",
    "edge and target",
    "edge toggle with target column",
    "edge reversal with target columns",
)


@inner
def move(target, memory, request, chains, c, beta):  # type: ignore[no-untyped-def]
    """One move of a random kind: the kind and what came of it."""
    kind = draw(chains.rng, target.proposals.move_sum)
    if kind == TOGGLE:
        return kind, toggle_edge(target, memory, request, chains, c, beta)
    if kind == REVERSE:
        return kind, reverse_edge(target, memory, request, chains, c, beta)
    if kind == SWAP_PARENT:
        return kind, swap_parent(target, memory, request, chains, c, beta)
    if kind == SET_TARGET:
        return kind, change_target(target, memory, request, chains, c, beta)
    if kind == SWAP_TARGET:
        return kind, swap_target(target, memory, request, chains, c, beta)
    if kind == EDGE_AND_TARGET:
        return kind, toggle_edge_and_target(target, memory, request, chains, c, beta)
    return kind, change_with_columns(target, memory, request, chains, c, beta, kind == REVERSE_AND_COLUMNS)


@inner
def exchange(chains, counts, betas, parity):  # type: ignore[no-untyped-def]
    """Offer an exchange to every second pair of neighbouring levels."""
    for level in range(parity, len(betas) - 1, 2):
        a, b = chains.at_level[level], chains.at_level[level + 1]
        log_ratio = (betas[level] - betas[level + 1]) * (chains.score[b].sum() - chains.score[a].sum())
        counts.swaps[level, 0] += 1
        counts.swaps[level, 1] += math.exp(min(log_ratio, 0.0))
        if accepts(chains, log_ratio):
            chains.at_level[level], chains.at_level[level + 1] = b, a


@compiled
def advance(target, memory, request, chains, counts, betas, position, until, n_moves):  # type: ignore[no-untyped-def]
    """Go on from `position` = (sweep, level, move) until sweep `until`; False where a score was missing.

    In a sweep level l makes `n_moves[l]` moves, then neighbouring levels may exchange.
    """
    target, memory, request = lend(target), lend(memory), lend(request)  # type: ignore[call-arg]
    chains, counts = lend(chains), lend(counts)  # type: ignore[call-arg]
    saved = np.empty(4, np.uint64)
    while position[0] < until:
        while position[1] < len(betas):
            c, beta = chains.at_level[position[1]], betas[position[1]]
            while position[2] < n_moves[position[1]]:
                saved[:] = chains.rng
                kind, outcome = move(target, memory, request, chains, c, beta)
                if outcome == MISSING:
                    chains.rng[:] = saved
                    return False
                if target.prior.over_orders:
                    move_in_order(chains, c)
                counts.moves[position[1], kind, 0] += 1
                counts.moves[position[1], kind, 1] += outcome
                position[2] += 1
            position[1] += 1
            position[2] = 0
        exchange(chains, counts, betas, position[0] % 2)
        position[0] += 1
        position[1] = 0
    return True
