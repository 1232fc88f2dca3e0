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
from bacadi.evidence.scan import addition_scores, state_scores
from bacadi.evidence.tables import NODE, local_score, next_touched
from bacadi.inference.mcmc.chain import CompiledTarget, lend

TOLERANCE = 1e-6  # nats by which a change has to be better
STATE_ROUNDS = 10
SHORT = 32  # changes on a short list
LIKE = 10.0  # times the last gain that is hoped for, at most, in a search that short lists serve
CUT = 50.0  # nats below the best score at which a node on its way through the order turns back
SCORE, IMPROVE, SETTLE, RECONSIDER, REVERSE = range(5)
"""The steps of a search at one node."""

# Searches at most, passes that each takes as a rule, and nats within which two of them found the same. The optimum of
# an approximation is not that of the evidence, and not worth as many searches.
RESTARTS, PASSES, SAME = 8, 4, 1e-3
RESTARTS_APPROXIMATE = 2


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
def listed(parents, chosen):  # type: ignore[no-untyped-def]
    """Write the parents of a mask into `chosen`; returns their number."""
    n, i = 0, next_touched(parents, 0)
    while i < len(parents):
        chosen[n] = i
        n += 1
        i = next_touched(parents, i + 1)
    return n


@inner
def prior_part(prior, node, chosen, n, state):  # type: ignore[no-untyped-def]
    """What n parents and the states of a node add to log p(G, S); state 0 adds nothing."""
    log_prior = 0.0
    for a in range(n):
        log_prior += prior.edge_log_odds[chosen[a], node]
    k = next_touched(state, 0)
    while k < len(state):
        log_prior += prior.state_log_prior[k, node, state[k]]
        k = next_touched(state, k + 1)
    return log_prior


@inner
def node_score(target, node, parents, state, chosen):  # type: ignore[no-untyped-def]
    """The part of a node in the log posterior but for what looks at several nodes; `chosen` is scratch space."""
    n = listed(parents, chosen)
    log_prior = prior_part(target.prior, node, chosen, n, state)
    return log_prior + local_score(target.tables, node, chosen, n, state)


@inner
def shorten(short, scores, names):  # type: ignore[no-untyped-def]
    """Keep the names of the largest scores on the short list; the number of its entries is its last one."""
    size, n, top = len(short) - 1, 0, np.empty(len(short) - 1)
    for c in range(len(names)):
        if n == size and scores[c] <= top[n - 1]:
            continue
        at = n if n < size else n - 1
        n = at + 1
        while at > 0 and top[at - 1] < scores[c]:
            top[at], short[at] = top[at - 1], short[at - 1]
            at -= 1
        top[at], short[at] = scores[c], names[c]
    short[size] = n


@inner
def improve_parents(target, found, node, chosen, short, every):  # type: ignore[no-untyped-def]
    """Make the single change of a parent that helps most; False if none does.

    New parents are looked for among all that may be, which makes the short list, or on the short list alone.
    """
    parents, state, prior = found.parents[node], found.states[node], target.prior
    n, n_more, place = listed(parents, chosen), 0, found.place[node]
    more, every = np.empty(len(parents), np.int64), every or place <= 3 * SHORT
    for at in range(place if every else short[-1]):
        i = found.order[at] if every else short[at]
        if prior.fixed[i, node] == 0 and not parents[i] and n < prior.max_parents:
            more[n_more] = i
            n_more += 1
    more, scores = more[:n_more], np.empty(n_more)
    addition_scores(target.tables, node, chosen, n, state, more, scores)
    log_prior = prior_part(prior, node, chosen, n, state)
    best, change = found.score[node] + TOLERANCE, -1
    for c in range(n_more):
        scores[c] += log_prior + prior.edge_log_odds[more[c], node]
        if scores[c] > best:
            best, change = scores[c], more[c]
    if every:
        shorten(short, scores, more)
    kept = chosen[:n].copy()
    for i in kept:
        if prior.fixed[i, node] == 0:
            parents[i] = False
            score = node_score(target, node, parents, state, chosen)
            parents[i] = True
            if score > best:
                best, change = score, i
    if change < 0:
        return False
    parents[change] = not parents[change]
    found.score[node] = best
    return True


@inner
def improve_states(target, found, node, chosen, short, every):  # type: ignore[no-untyped-def]
    """Make all single changes of a state that help, together if that helps more than the best one alone; False if none
    does.

    They are looked for in all contexts, which makes the short list where contexts are many, then on it alone.
    """
    parents, state, log_prior = found.parents[node], found.states[node], target.prior.state_log_prior
    together, many, changed = np.empty_like(state), len(state) > 3 * SHORT, False
    every = every or not many
    for _ in range(STATE_ROUNDS if len(state) > 0 else 0):
        together[:] = state
        contexts = np.arange(len(state)) if every else short[: short[-1]].copy()
        scores, gains = np.empty((len(contexts), log_prior.shape[2])), np.empty(len(contexts))
        n = listed(parents, chosen)
        state_scores(target.tables, node, chosen, n, state, contexts, scores)
        usual = prior_part(target.prior, node, chosen, n, state)
        best, best_k, best_s = found.score[node] + TOLERANCE, -1, 0
        for c in range(len(contexts)):
            k = contexts[c]
            old, best_here, gains[c] = state[k], found.score[node], -np.inf
            for s in range(log_prior.shape[2]):
                if s == old or log_prior[k, node, s] == -np.inf:
                    continue
                score = scores[c, s] + usual + log_prior[k, node, s] - log_prior[k, node, old]
                gains[c] = max(gains[c], score)
                if score > best_here:
                    best_here, together[k] = score, s
                if score > best:
                    best, best_k, best_s = score, k, s
        if every and many:
            shorten(short, gains, contexts)
            every = False
        if best_k < 0:
            return changed
        changed = True
        all_of_them = node_score(target, node, parents, together, chosen)
        if all_of_them > best:
            state[:], found.score[node] = together, all_of_them
        else:
            state[best_k], found.score[node] = best_s, best
    return changed


@inner
def has_many(found, node):  # type: ignore[no-untyped-def]
    """Whether a node may have so many parents or contexts that short lists serve its search."""
    return found.place[node] > 3 * SHORT or len(found.states[node]) > 3 * SHORT


@inner
def improve(target, found, node, chosen, least):  # type: ignore[no-untyped-def]
    """Improve states and parents of a node in turn until no single change of a parent helps.

    Where there are many to look at, all are looked at once and then those on short lists, until none of them helps;
    then all again, unless the score is below `least` and of no use. What is as far below that ten gains like the last
    would not do is given up: gains fall from one change to the next.
    """
    few, contexts = np.empty(SHORT + 1, np.int64), np.empty(SHORT + 1, np.int64)
    improve_by(target, found, node, chosen, least, few, contexts, True)


@inner
def improve_by(target, found, node, chosen, least, few, contexts, full):  # type: ignore[no-untyped-def]
    """`improve` by these short lists of parents and contexts, which are made first if `full` and otherwise stay."""
    many, every = has_many(found, node), full
    while True:
        before = found.score[node]
        moved = improve_states(target, found, node, chosen, contexts, every) and many
        moved |= improve_parents(target, found, node, chosen, few, every)
        if moved:
            every = not many
            if many and found.score[node] + LIKE * (found.score[node] - before) < least:
                return
        elif every or not full or found.score[node] < least:
            return
        else:
            every = True


@inner
def anew(target, found, node, other, chosen, few, contexts, full):  # type: ignore[no-untyped-def]
    """Look for parents and states of a node from `other` as the only parent (-1: none) and no target, by short lists as
    in `improve_by`; kept if that is better.

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
    improve_by(target, found, node, chosen, old - CUT, few, contexts, full)
    if score[node] <= old:
        parents[:], states[:], score[node] = old_parents, old_states, old


@inner
def exchange_neighbours(target, found, at, chosen, spare):  # type: ignore[no-untyped-def]
    """Let the nodes at places `at` and `at + 1` change places, and both look for parents anew where that may help.

    False, and nothing done, where an edge between them is required. What would end more than `spare` below the present
    score need not be looked at to its end.
    """
    first, second = found.order[at], found.order[at + 1]
    if target.prior.fixed[first, second] == 1:
        return False
    found.order[at], found.order[at + 1] = second, first
    found.place[first], found.place[second] = at + 1, at
    joined, parents, before = found.parents[second, first], found.parents[first], found.score[first]
    if target.prior.fixed[second, first] == 0 and listed(parents, chosen) < target.prior.max_parents:
        parents[second] = True
        score = node_score(target, first, parents, found.states[first], chosen)
        if score > found.score[first] + TOLERANCE:
            found.score[first] = score
            improve(target, found, first, chosen, -np.inf)
        else:
            parents[second] = False
        if joined:
            few, contexts = np.empty(SHORT + 1, np.int64), np.empty(SHORT + 1, np.int64)
            anew(target, found, first, second, chosen, few, contexts, True)
    if joined:
        least = found.score[second] - spare - (found.score[first] - before)
        found.parents[second, first] = False
        found.score[second] = node_score(target, second, found.parents[second], found.states[second], chosen)
        improve(target, found, second, chosen, least)
    return True


@inner
def move_to(target, found, node, to, best, chosen, cut):  # type: ignore[no-untyped-def]
    """Move a node step by step to a place, or until the score is `cut` below `best`.

    Returns the best score on the way above `best` and its place, -1 where there is none.
    """
    place, step = -1, 1 if to > found.place[node] else -1
    low, total = best - cut, found.score.sum()
    while found.place[node] != to:
        at = found.place[node] if step > 0 else found.place[node] - 1
        other = found.order[at + 1 if step > 0 else at]
        before = found.score[node] + found.score[other]
        if not exchange_neighbours(target, found, at, chosen, total - low):
            break
        total += found.score[node] + found.score[other] - before
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


@inner
def move_best(target, found, trial, node, chosen):  # type: ignore[no-untyped-def]
    """Move a node to the best of all places; whether it is another than before. `trial` is scratch space."""
    best, place = found.score.sum(), np.int64(-1)
    for end in (0, len(found.order) - 1):
        assign(trial, found)
        best, better = move_to(target, trial, node, end, best, chosen, CUT)
        if better >= 0:
            place = better
    if place >= 0:
        move_to(target, found, node, place, best, chosen, np.inf)
    return place >= 0


@inner
def give_up_targets(target, found, node, chosen):  # type: ignore[no-untyped-def]
    """Give up each target of a node in turn and let parents take its place; whether that helped once.

    A target in a context and a parent that was moved there explain the same rows, so that no single change leads from
    the one to the other.
    """
    parents, states, score = found.parents[node], found.states[node], found.score
    short, helped = np.empty(SHORT + 1, np.int64), False
    for k in range(len(states)):
        expected = np.argmax(target.prior.state_log_prior[k, node])
        if states[k] == expected:
            continue
        old_parents, old_states, old = parents.copy(), states.copy(), score[node]
        states[k] = expected
        score[node] = node_score(target, node, parents, states, chosen)
        while improve_parents(target, found, node, chosen, short, True):
            pass
        improve(target, found, node, chosen, old - CUT)
        if score[node] > old + TOLERANCE:
            helped = True
        else:
            parents[:], states[:], score[node] = old_parents, old_states, old
    return helped


@inner
def list_of_both(found, trial, node, other, each, few, contexts):  # type: ignore[no-untyped-def]
    """Short lists for `each`: the parents that one of two nodes has and that stand before it in the trial, the two
    themselves, and the contexts that one of them is touched in."""
    n, size = 0, len(few) - 1
    for i in range(len(found.order)):
        either = found.parents[node, i] or found.parents[other, i] or i in (node, other)
        if either and n < size and trial.place[i] < trial.place[each]:
            few[n] = i
            n += 1
    few[size], n = n, 0
    for k in range(found.states.shape[1]):
        if n < size and (found.states[node, k] > 0 or found.states[other, k] > 0):
            contexts[n] = k
            n += 1
    contexts[size] = n


@inner
def reverse_edges(target, found, trial, node, chosen):  # type: ignore[no-untyped-def]
    """Let a node stand right before each of its parents in turn, both looking for parents and states anew; whether that
    helped once. `trial` is scratch space.

    Step by step the node would have to pass what lies between the two, and would turn back where that is, as things
    are, a parent as well: two nodes that have taken each other's parents and targets stay as they are. Where there are
    many to look at, they look at what one of them has, and at all where that comes near.
    """
    prior, helped = target.prior, False
    for other in np.flatnonzero(found.parents[node]):
        if not found.parents[node, other] or prior.fixed[other, node] == 1 or prior.fixed[node, other] == -1:
            continue
        assign(trial, found)
        begin, may = found.place[other], True
        for at in range(found.place[node] - 1, begin - 1, -1):
            passed = found.order[at]
            may &= prior.fixed[passed, node] != 1
            trial.order[at + 1], trial.place[passed], trial.parents[node, passed] = passed, at + 1, False
        if not may:
            continue
        trial.order[begin], trial.place[node] = node, begin
        few, contexts = np.empty(SHORT + 1, np.int64), np.empty(SHORT + 1, np.int64)
        for each, only in ((node, -1), (other, node)):
            if only >= 0 and listed(trial.parents[each], chosen) < prior.max_parents:
                trial.parents[each, only] = True
            trial.score[each] = node_score(target, each, trial.parents[each], trial.states[each], chosen)
            list_of_both(found, trial, node, other, each, few, contexts)
            improve_by(target, trial, each, chosen, -np.inf, few, contexts, False)
            anew(target, trial, each, only, chosen, few, contexts, False)
        if has_many(found, node) and trial.score.sum() > found.score.sum() - CUT:
            improve(target, trial, node, chosen, -np.inf)
            improve(target, trial, other, chosen, -np.inf)
        if trial.score.sum() > found.score.sum() + TOLERANCE:
            assign(found, trial)
            helped = True
    return helped


@compiled
def take_step(target, found, trial, node, step):  # type: ignore[no-untyped-def]
    """One of the steps of a search at a node, in one function: each that Python calls compiles all of them anew."""
    target, found, trial = lend(target), lend(found), lend(trial)  # type: ignore[call-arg]
    chosen = np.empty(len(found.order), NODE)
    if step == SETTLE:
        return move_best(target, found, trial, node, chosen)
    if step == RECONSIDER:
        return give_up_targets(target, found, node, chosen)
    if step == REVERSE:
        return reverse_edges(target, found, trial, node, chosen)
    found.score[node] = node_score(target, node, found.parents[node], found.states[node], chosen)
    if step == IMPROVE:
        improve(target, found, node, chosen, -np.inf)
    return False


def optima(
    rng: np.random.Generator,
    target: CompiledTarget,
    orders: Iterable[Int[np.ndarray, " d"]],
    over: Callable[[], bool] = never,
    tell: Callable[[], object] = nothing,
) -> list[tuple[Int8[np.ndarray, "d d"], Int8[np.ndarray, "M d"]]]:
    """Graph and states of the optima that searches from these orders found, the best first.

    They end when the best was found twice; its edges are then reversed where that helps. Where `over` says that there
    is no time left, the last search stays where it is. `tell` is called after every step.
    """
    found: list[Order] = []
    for order in orders:
        found.append(along(order, target))
        search_all(target, found[-1], over, tell)
        _climb(rng, target, found[-1], over, tell)
        found.sort(key=lambda each: -each.score.sum())
        if over() or (len(found) > 1 and found[0].score.sum() - found[1].score.sum() < SAME):
            break
    while _helps(target, found[0], REVERSE, range(len(found[0].order)), over, tell):
        _climb(rng, target, found[0], over, tell)
    return [(each.parents.T.astype(np.int8), np.ascontiguousarray(each.states.T)) for each in found]


def search_all(
    target: CompiledTarget, found: Order, over: Callable[[], bool] = never, tell: Callable[[], object] = nothing
) -> None:
    """Greedy parents and states of all nodes along the order, while there is time."""
    for node in found.order:
        tell()
        take_step(target, found, found, node, SCORE if over() else IMPROVE)


def _climb(
    rng: np.random.Generator,
    target: CompiledTarget,
    found: Order,
    over: Callable[[], bool],
    tell: Callable[[], object],
) -> None:
    """Move nodes to better places and, where that is of no more use, reconsider their targets, until nothing helps."""
    d = len(found.order)
    while _helps(target, found, SETTLE, rng.permutation(d).tolist(), over, tell) or _helps(
        target, found, RECONSIDER, range(d), over, tell
    ):
        pass


def _helps(
    target: CompiledTarget,
    found: Order,
    step: int,
    nodes: Iterable[int],
    over: Callable[[], bool],
    tell: Callable[[], object],
) -> bool:
    """Take a step at all nodes, while there is time; whether that helped once and there is time for more."""
    trial, helped = along(found.order, target), False
    for node in nodes:
        tell()
        if over():
            return False
        helped |= bool(take_step(target, found, trial, node, step))
    return helped
