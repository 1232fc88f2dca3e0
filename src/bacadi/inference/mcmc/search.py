"""A search over causal orders in compiled code, for evidence with tables: where chains start.

The best permutation is looked for as BOSS does (Andrews, Ramsey, Sanchez-Romero, Camchong & Kummerfeld 2023): one
variable after the other is moved through all places of the order, the parents and states of what it passes are
improved greedily, and it stays where the log posterior is highest, until no variable finds a better place. When two
neighbours exchange places, one loses a candidate and the other gains one; nothing else is searched anew.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from bacadi.evidence.collapsed import never
from bacadi.evidence.compiled import compiled, inner
from bacadi.evidence.gram import local_score
from bacadi.inference.mcmc.chain import CompiledTarget, lend

TOLERANCE = 1e-6  # nats by which a change has to be better
STATE_ROUNDS = 10
CUT = 50.0  # nats below the best score at which a node on its way through the order turns back
# Searches at most, passes that each takes as a rule, and nats within which two of them found the same.
RESTARTS, PASSES, SAME = 8, 4, 1e-3


class Order(NamedTuple):
    """A causal order and the greedy parents and states of all nodes along it; `score` is the part of each node in the
    log posterior, the edges and states of the prior included."""

    order: Int[np.ndarray, " d"]
    place: Int[np.ndarray, " d"]
    parents: Bool[np.ndarray, "d d"]
    states: Int8[np.ndarray, "d M"]
    score: Float[np.ndarray, " d"]


def nothing() -> None:
    """What is told, where nobody listens."""


def along(order: Int[np.ndarray, " d"], target: CompiledTarget) -> Order:
    """The order before its nodes are searched: required parents, and the likeliest states beforehand."""
    prior = target.prior
    states = prior.state_log_prior.argmax(axis=2).T.astype(np.int8)
    parents = np.ascontiguousarray((prior.fixed == 1).T)
    return Order(order.astype(np.int64), np.argsort(order), parents, np.ascontiguousarray(states), np.zeros(len(order)))


@inner
def node_score(target, node, parents, state, chosen):  # type: ignore[no-untyped-def]
    """The part of a node in the log posterior but for what looks at several nodes; `chosen` is scratch space."""
    n, log_prior = 0, 0.0
    for i in range(len(parents)):
        if parents[i]:
            chosen[n] = i
            n += 1
            log_prior += target.prior.edge_log_odds[i, node]
    for k in range(len(state)):
        log_prior += target.prior.state_log_prior[k, node, state[k]]
    return log_prior + local_score(target.tables, node, chosen, n, state)


@inner
def improve_parents(target, found, node, chosen):  # type: ignore[no-untyped-def]
    """Make the single change of a parent that helps most; False if none does."""
    parents, state, prior = found.parents[node], found.states[node], target.prior
    full = parents.sum() >= prior.max_parents
    best, change = found.score[node] + TOLERANCE, -1
    for at in range(found.place[node]):
        i = found.order[at]
        if prior.fixed[i, node] != 0 or (full and not parents[i]):
            continue
        parents[i] = not parents[i]
        score = node_score(target, node, parents, state, chosen)
        parents[i] = not parents[i]
        if score > best:
            best, change = score, i
    if change < 0:
        return False
    parents[change] = not parents[change]
    found.score[node] = best
    return True


@inner
def improve_states(target, found, node, chosen):  # type: ignore[no-untyped-def]
    """Make all single changes of a state that help, together if that helps more than the best one alone."""
    parents, state, log_prior = found.parents[node], found.states[node], target.prior.state_log_prior
    together = np.empty_like(state)
    for _ in range(STATE_ROUNDS):
        together[:] = state
        best, best_k, best_s = found.score[node] + TOLERANCE, -1, 0
        for k in range(len(state)):
            old, best_here = state[k], found.score[node]
            for s in range(log_prior.shape[2]):
                if s == old or log_prior[k, node, s] == -np.inf:
                    continue
                state[k] = s
                score = node_score(target, node, parents, state, chosen)
                if score > best_here:
                    best_here, together[k] = score, s
                if score > best:
                    best, best_k, best_s = score, k, s
            state[k] = old
        if best_k < 0:
            return
        all_of_them = node_score(target, node, parents, together, chosen)
        if all_of_them > best:
            state[:], found.score[node] = together, all_of_them
        else:
            state[best_k], found.score[node] = best_s, best


@inner
def improve(target, found, node, chosen):  # type: ignore[no-untyped-def]
    """Improve states and parents of a node in turn until no single change of a parent helps."""
    improve_states(target, found, node, chosen)
    while improve_parents(target, found, node, chosen):
        improve_states(target, found, node, chosen)


@inner
def anew(target, found, node, other, chosen):  # type: ignore[no-untyped-def]
    """Look for parents and states of a node from `other` as the only parent and no target; kept if that is better.

    A target in a context and a parent that was moved there explain the same rows: neither comes, change by change,
    while the other is there.
    """
    prior, parents, states, score = target.prior, found.parents[node], found.states[node], found.score
    old_parents, old_states, old = parents.copy(), states.copy(), score[node]
    for i in range(len(parents)):
        parents[i] = prior.fixed[i, node] == 1 or i == other
    for k in range(len(states)):
        states[k] = np.argmax(prior.state_log_prior[k, node])
    score[node] = node_score(target, node, parents, states, chosen)
    improve(target, found, node, chosen)
    if score[node] <= old:
        parents[:], states[:], score[node] = old_parents, old_states, old


@inner
def exchange_neighbours(target, found, at, chosen):  # type: ignore[no-untyped-def]
    """Let the nodes at places `at` and `at + 1` change places, and both look for parents anew where that may help.

    False, and nothing done, where an edge between them is required.
    """
    first, second = found.order[at], found.order[at + 1]
    if target.prior.fixed[first, second] == 1:
        return False
    found.order[at], found.order[at + 1] = second, first
    found.place[first], found.place[second] = at + 1, at
    joined = found.parents[second, first]
    if joined:
        found.parents[second, first] = False
        found.score[second] = node_score(target, second, found.parents[second], found.states[second], chosen)
        improve(target, found, second, chosen)
    parents = found.parents[first]
    if target.prior.fixed[second, first] == 0 and parents.sum() < target.prior.max_parents:
        parents[second] = True
        score = node_score(target, first, parents, found.states[first], chosen)
        if score > found.score[first] + TOLERANCE:
            found.score[first] = score
            improve(target, found, first, chosen)
        else:
            parents[second] = False
        if joined:
            anew(target, found, first, second, chosen)
    return True


@inner
def move_to(target, found, node, to, best, chosen, cut):  # type: ignore[no-untyped-def]
    """Move a node step by step to a place, or until the score is `cut` below `best`.

    Returns the best score on the way above `best` and its place, -1 where there is none.
    """
    place, step = -1, 1 if to > found.place[node] else -1
    low = best - cut
    while found.place[node] != to:
        at = found.place[node] if step > 0 else found.place[node] - 1
        if not exchange_neighbours(target, found, at, chosen):
            break
        total = found.score.sum()
        if total > best + TOLERANCE:
            best, place = total, found.place[node]
        if total < low:
            break
    return best, place


@inner
def assign(found, other):  # type: ignore[no-untyped-def]
    """Make an order the copy of another."""
    found.order[:], found.place[:], found.score[:] = other.order, other.place, other.score
    found.parents[:], found.states[:] = other.parents, other.states


@compiled
def search_all(target, found):  # type: ignore[no-untyped-def]
    """Greedy parents and states of all nodes along the order."""
    target, found = lend(target), lend(found)  # type: ignore[call-arg]
    chosen = np.empty(len(found.order), np.int64)
    for node in found.order:
        found.score[node] = node_score(target, node, found.parents[node], found.states[node], chosen)
        improve(target, found, node, chosen)


@compiled
def reconsider(target, found, node):  # type: ignore[no-untyped-def]
    """Give up each target of a node in turn and let parents take its place; whether that helped once.

    A target in a context and a parent that was moved there explain the same rows, so that no single change leads from
    the one to the other.
    """
    target, found = lend(target), lend(found)  # type: ignore[call-arg]
    parents, states, score = found.parents[node], found.states[node], found.score
    chosen, helped = np.empty(len(parents), np.int64), False
    for k in range(len(states)):
        expected = np.argmax(target.prior.state_log_prior[k, node])
        if states[k] == expected:
            continue
        old_parents, old_states, old = parents.copy(), states.copy(), score[node]
        states[k] = expected
        score[node] = node_score(target, node, parents, states, chosen)
        while improve_parents(target, found, node, chosen):
            pass
        improve(target, found, node, chosen)
        if score[node] > old + TOLERANCE:
            helped = True
        else:
            parents[:], states[:], score[node] = old_parents, old_states, old
    return helped


@compiled
def settle(target, found, trial, node):  # type: ignore[no-untyped-def]
    """Move a node to the best of all places; whether it is another than before. `trial` is scratch space."""
    target, found, trial = lend(target), lend(found), lend(trial)  # type: ignore[call-arg]
    chosen, best, place = np.empty(len(found.order), np.int64), found.score.sum(), np.int64(-1)
    for end in (0, len(found.order) - 1):
        assign(trial, found)
        best, better = move_to(target, trial, node, end, best, chosen, CUT)
        if better >= 0:
            place = better
    if place < 0:
        return False
    move_to(target, found, node, place, best, chosen, np.inf)
    return True


def optima(
    rng: np.random.Generator,
    target: CompiledTarget,
    orders: Iterable[Int[np.ndarray, " d"]],
    over: Callable[[], bool] = never,
    tell: Callable[[], object] = nothing,
) -> list[tuple[Int8[np.ndarray, "d d"], Int8[np.ndarray, "M d"]]]:
    """Graph and states of the optima that searches from these orders found, the best first.

    They end when the best was found twice. Where `over` says that there is no time left, the last search stays where it
    is. `tell` is called after every step.
    """
    found: list[Order] = []
    for order in orders:
        found.append(_search(rng, target, order, over, tell))
        found.sort(key=lambda each: -each.score.sum())
        if over() or (len(found) > 1 and found[0].score.sum() - found[1].score.sum() < SAME):
            break
    return [(each.parents.T.astype(np.int8), np.ascontiguousarray(each.states.T)) for each in found]


def _search(
    rng: np.random.Generator,
    target: CompiledTarget,
    order: Int[np.ndarray, " d"],
    over: Callable[[], bool],
    tell: Callable[[], object],
) -> Order:
    found, trial = along(order, target), along(order, target)
    search_all(target, found)
    moved = True
    while moved:
        moved = False
        for node in rng.permutation(len(order)):
            tell()
            if over():
                return found
            moved |= settle(target, found, trial, node)
        for node in range(0 if moved else len(order)):
            tell()
            if over():
                return found
            moved |= reconsider(target, found, node)
    return found
