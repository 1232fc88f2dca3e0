"""Compiled moves of the collapsed sampler on graph and states, with their Hastings ratios.

A chain is one entry of the first axis of `Chains`; the density it samples is p(G, S) p(D | G, S)^β. Where the prior
is one over causal orders, a chain has one of the orders of its graph, p(G, π) in place of p(G): edges run along it, a
reversal makes both nodes change places, and after every move a node moves within the order. Pairs (i, j) and
(context, variable) are drawn from fixed proposal weights, which therefore cancel in a toggle and enter as a ratio
where a move and its reverse draw different pairs. Every move returns 1 (accepted), 0 (not) or MISSING: a local score is
not in memory, nothing has changed, and the same move is made again once the score is there.
"""

import math

import numpy as np

from bacadi.inference.chains import accepts, draw, lend, move_in_order
from bacadi.inference.column_moves import change_with_columns
from bacadi.inference.edge_moves import MISSING, reverse_edge, swap_parent, toggle_edge
from bacadi.inference.target_moves import change_target, swap_target, toggle_edge_and_target
from bacadi.model.compiled import compiled, inner

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
