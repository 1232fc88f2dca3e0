"""Compiled moves of edges: toggle, reversal, swap of a parent. See `moves` for what they return."""

import math

import numpy as np

from bacadi.inference.chains import (
    accepts,
    below,
    change_places,
    draw,
    evaluate,
    inserted,
    may_lead,
    may_turn,
    out_degree_gain,
    set_parents,
    with_parent,
    without_parent,
)
from bacadi.model.compiled import inner

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
