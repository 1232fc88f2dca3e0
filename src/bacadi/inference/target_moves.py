"""Compiled moves of states: change, swap within a context, change together with an edge. See `moves`."""

import math

import numpy as np

from bacadi.inference.chains import accepts, below, draw, evaluate, set_parents, set_state
from bacadi.inference.edge_moves import MISSING, toggled
from bacadi.model.compiled import inner


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
