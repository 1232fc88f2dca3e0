"""The moves of the collapsed sampler: each proposes a change of graph or states and says what its way back costs.

A proposal writes the change into `work` and returns whether it is possible at all; one function, `chain.decide`, does
the rest. Pairs (i, j) and (context, variable) are drawn from fixed weights. They therefore cancel where a move
and its way back draw the same pair, and enter the ratio of Hastings as a quotient where they draw different ones.
"""

import math

import numpy as np

from bacadi.evidence.compiled import compiled, inlined, inner
from bacadi.evidence.tables import next_touched
from bacadi.inference.mcmc import chain as ops

MOVES = range(8)
ADD_OR_DROP, REVERSE, SWAP_PARENT, SET_TARGET, SWAP_TARGET, EDGE_AND_TARGET, TOGGLE_AND_COLUMN, REDRAW = MOVES
"""The moves, in the order of `MoveWeights`; the last two also draw states anew, the last one parents, too."""


@inner
def draw_pair(chain, cumulative):  # type: ignore[no-untyped-def]
    """A pair (i, j), or a context k and a variable j, from the weights of edges or of targets."""
    pair, d = ops.draw(chain.rng, cumulative), len(chain.place)
    return pair // d, pair % d


@inner
def toggle(prior, chain, work, i, j):  # type: ignore[no-untyped-def]
    """Remove the edge i → j or add it."""
    if i == j or prior.fixed[i, j] != 0:
        return False
    if chain.edges[i, j] == 1:
        ops.drop_parent(prior, chain, work, ops.touch(chain, work, j), i)
        return True
    if chain.n_parents[j] >= prior.max_parents or not ops.may_lead(prior, chain, work, i, j):
        return False
    ops.add_parent(prior, chain, work, ops.touch(chain, work, j), i)
    return True


@inner
def find(weight, first, end, mark):  # type: ignore[no-untyped-def]
    """The place of `mark` in the cumulative sums of weights from `first` to `end`; beyond them, the last above 0."""
    found = first
    for at in range(first, end):
        if weight[at] > 0.0:
            found = at
            if mark < weight[at]:
                return at
        mark -= weight[at]
    return found


@inlined
def add_or_drop(problem, chain, work):  # type: ignore[no-untyped-def]
    """Add an edge or take one away, each in half of the cases.

    A new edge is drawn with the weight w_ij of its pair among all pairs, one to be dropped with its weight v_ij among
    the edges there are: to add it has the ratio (v_ij / Σ v of the new graph) / (w_ij / Σ w), and to drop it the
    inverse. A certain edge has a small v, so that one of the few that are in doubt is mostly drawn.
    """
    _, prior, weights = problem.target
    adds = ops.uniform(chain.rng) < 0.5
    rest = 0.0
    for total in work.drop_block:
        rest += total
    if adds:
        i, j = draw_pair(chain, weights.edge_sum)
        if i == j or chain.edges[i, j] == 1:
            return False
        rest += weights.drop[i, j]
    else:
        mark, i, j = ops.uniform(chain.rng) * rest, -1, -1
        if rest <= 0.0:
            return False
        block = find(work.drop_block, 0, len(work.drop_block), mark)
        for before in work.drop_block[:block]:
            mark -= before
        first = block * ops.BLOCK
        j = find(work.drop, first, min(first + ops.BLOCK, len(work.drop)), mark)
        for before in work.drop[first:j]:
            mark -= before
        for a in range(chain.n_parents[j]):
            if mark >= 0.0:
                i = chain.parents[j, a]
                mark -= weights.drop[i, j]
    to_drop, to_add = math.log(weights.drop[i, j] / rest), weights.edge_log[i, j] - math.log(weights.edge_sum[-1])
    work.log_proposal[0] = to_drop - to_add if adds else to_add - to_drop
    return toggle(prior, chain, work, i, j)


@inner
def reverse(prior, weight, chain, work, i, j):  # type: ignore[no-untyped-def]
    """Turn i → j into j → i; the way back draws (j, i), so the ratio is w_ji / w_ij.

    The smaller node comes first, so that Gibbs scans on the way there and back visit both nodes in the same order.
    """
    if i == j or chain.edges[i, j] == 0 or prior.fixed[i, j] != 0 or prior.fixed[j, i] != 0:
        return False
    if chain.n_parents[i] >= prior.max_parents or not ops.may_turn(prior, chain, work, i, j):
        return False
    ops.touch(chain, work, min(i, j))
    ops.touch(chain, work, max(i, j))
    ops.drop_parent(prior, chain, work, 0 if j < i else 1, i)
    ops.add_parent(prior, chain, work, 0 if i < j else 1, j)
    work.log_proposal[0] += weight[j, i] - weight[i, j]
    work.turned[0] = True
    return True


@inner
def change_state(problem, chain, work, slot, k):  # type: ignore[no-untyped-def]
    """Another state of the node of a slot in context k, each with the same probability: the way back has it, too."""
    prior, old = problem.target.prior, work.state[slot, k]
    new = ops.below(chain.rng, prior.state_log_prior.shape[2] - 1)
    new += new >= old
    count = chain.n_targets[k]
    work.log_prior[0] += prior.target_count_log[k, count + (new > 0) - (old > 0)] - prior.target_count_log[k, count]
    ops.set_state(prior, work, slot, k, new)


@inner
def context_of(chain, i):  # type: ignore[no-untyped-def]
    """A random context, in half of the cases one of those where i is a target, if there are any."""
    m, n = len(chain.n_targets), 0
    if ops.uniform(chain.rng) < 0.5:
        k = next_touched(chain.states[i], 0)
        while k < m:
            n += 1
            k = next_touched(chain.states[i], k + 1)
    if n == 0:
        return ops.below(chain.rng, m)
    k = -1
    for _ in range(1 + ops.below(chain.rng, n)):
        k = next_touched(chain.states[i], k + 1)
    return k


@inlined
def swap_parent(problem, chain, work, i, j):  # type: ignore[no-untyped-def]
    """i takes the place of a random parent of j.

    The way back draws the old parent and picks i among as many parents, so the ratio is w_old,j / w_ij.
    """
    prior, weight = problem.target.prior, problem.target.proposals.edge_log
    if i == j or prior.fixed[i, j] != 0 or chain.edges[i, j] == 1 or chain.n_parents[j] == 0:
        return False
    old = chain.parents[j, ops.below(chain.rng, chain.n_parents[j])]
    if prior.fixed[old, j] != 0 or not ops.may_lead(prior, chain, work, i, j):
        return False
    slot = ops.touch(chain, work, j)
    ops.drop_parent(prior, chain, work, slot, old)
    ops.add_parent(prior, chain, work, slot, i)
    work.log_proposal[0] = weight[old, j] - weight[i, j]
    return True


@inlined
def swap_target(problem, chain, work, k, j):  # type: ignore[no-untyped-def]
    """The state of a random target of context k moves to a variable j that was untouched there.

    The way back draws the old target and picks j among as many targets, so the ratio is w_k,old / w_kj. The number of
    targets stays the same, and so does its prior.
    """
    prior, weight = problem.target.prior, problem.target.proposals.target_log
    if chain.states[j, k] != 0 or chain.n_targets[k] == 0:
        return False
    pick, old = ops.below(chain.rng, chain.n_targets[k]), -1
    while pick >= 0:
        old += 1
        pick -= chain.states[old, k] > 0
    moved = chain.states[old, k]
    ops.set_state(prior, work, ops.touch(chain, work, j), k, moved)
    ops.set_state(prior, work, ops.touch(chain, work, old), k, 0)
    work.log_proposal[0] = weight[k, old] - weight[k, j]
    return True


@inner
def mark_blocked(prior, chain, work, slot_i, slot_j):  # type: ignore[no-untyped-def]
    """In `work.below`: which nodes may not become parents of i and j when i → j turns; False where it cannot turn.

    Without the edges into both, let D_i and D_j be the nodes below each. Once j → i is there, parents of i are outside
    D_i and those of j outside D_i and D_j; with i → j it is the other way round. Marked are 1 for what is always closed
    to a node and 2 for what is closed while the node is the upper one. Along an order the places of both say the same.
    """
    i, j, d = work.node[slot_i], work.node[slot_j], len(chain.place)
    if not prior.over_orders:
        descendants, below_i, below_j = ops.descendants, work.below[slot_i], work.below[slot_j]
        descendants(chain, work, i, j, below_i)
        descendants(chain, work, j, i, below_j)
        for c in range(d):
            if below_i[c] != below_j[c]:
                below_i[c], below_j[c] = 2 - below_i[c], 2 - below_j[c]
        return True
    for c in range(d):
        if chain.edges[i, c] == 1 and chain.place[c] < chain.place[j]:
            return False
        mark = 1 if chain.place[c] >= chain.place[j] else 2 if chain.place[c] >= chain.place[i] else 0
        work.below[0, c] = work.below[1, c] = mark
    return True


@inlined
def reverse_and_redraw(problem, chain, work, beta, i, j):  # type: ignore[no-untyped-def]
    """Turn i → j and draw the other parents of both nodes anew, then their states (after Grzegorczyk & Husmeier 2008).

    Parents come from one Gibbs scan over the candidates of a node, in place of a sum over all sets of parents. The
    ratio is that of the edge times q(scans back) / q(scans there), as in `redraw_columns`. Parents that are no
    candidates stay, so that the turn is impossible where one of them is closed then.
    """
    prior, weight = problem.target.prior, problem.target.proposals.edge_log
    if i == j or chain.edges[i, j] == 0 or prior.fixed[i, j] != 0 or prior.fixed[j, i] != 0:
        return False
    ops.touch(chain, work, min(i, j))
    ops.touch(chain, work, max(i, j))
    if not mark_blocked(prior, chain, work, 0 if i < j else 1, 1 if i < j else 0):
        return False
    there, back = bool(0), bool(1)  # not False and True: a constant as an argument is compiled for on its own
    for slot in range(2):
        parents, column, lower = work.parents[slot], work.state[slot], work.node[slot] == i
        n, possible = led_parents(prior, problem.target.proposals.near, work, slot, parents, work.n_parents[slot], j, i)
        if not possible:
            return False
        log_q, n, _ = scan_parents(problem, chain, work, beta, slot, parents, n, column, lower, there)
        work.n_parents[slot] = n
        work.log_proposal[0] -= log_q
    work.log_prior[0] += ops.parents_gain(prior, chain, work)
    redraw_columns(problem, chain, work, beta)
    for slot in range(2):
        parents, lower = work.old_parents, work.node[slot] == j
        parents[:] = work.parents[slot]
        n, _ = led_parents(prior, problem.target.proposals.near, work, slot, parents, work.n_parents[slot], i, j)
        log_q, _, _ = scan_parents(problem, chain, work, beta, slot, parents, n, work.state[slot], lower, back)
        work.log_proposal[0] += log_q
    work.log_proposal[0] += weight[j, i] - weight[i, j]
    work.turned[0] = True
    return True


@inner
def led_parents(prior, near, work, slot, parents, n_parents, upper, lower):  # type: ignore[no-untyped-def]
    """Where the scan over the parents of a node begins when the edge is to lead from `upper` to `lower`: those it had,
    less what is closed then; returns their number, and False where a parent that is no candidate is closed."""
    node, size = work.node[slot], 0
    n_parents = ops.remove(parents, n_parents, upper if node == lower else lower)
    for a in range(n_parents):
        parent = parents[a]
        closed = work.below[slot, parent]
        if closed == 1 or (closed == 2 and node == upper):
            if prior.fixed[parent, node] != 0 or not (near[node] == parent).any():
                return 0, False
        else:
            parents[size] = parent
            size += 1
    if node == lower:
        if size >= prior.max_parents:
            return 0, False
        size = ops.insert(parents, size, upper)
    return size, True


@inner
def scan_parents(problem, chain, work, beta, slot, parents, n, column, lower, back):  # type: ignore[no-untyped-def]
    """One Gibbs scan over the candidate parents of a node, given its states; the other end of the edge stays.

    `lower` is whether the edge leads into this node. Parents are drawn into `parents`; on the way back the scan is led
    to those of the chain and only its probability is wanted.

    Returns:
        The log probability of the scan, the number of parents and their score.
    """
    prior, near = problem.target.prior, problem.target.proposals.near
    node, end, other = work.node[slot], work.node[1 - slot], work.other_parents
    log_q, score = 0.0, ops.evaluate(problem, node, parents, n, column)
    for at in range(near.shape[1]):
        c = near[node, at]
        closed = work.below[slot, c]
        if c == end or prior.fixed[c, node] != 0 or closed == 1 or (closed == 2 and not lower):
            continue
        other[:n] = parents[:n]
        n_other = ops.remove(other, n, c)
        inside = n_other < n
        toggle = inside != (chain.edges[c, node] == 1)
        if not inside:
            if n >= prior.max_parents:
                if back and toggle:
                    return -np.inf, n, score
                continue
            n_other = ops.insert(other, n, c)
        score_other = ops.evaluate(problem, node, other, n_other, column)
        odds = prior.edge_log_odds[c, node]
        log_ratio = beta * (score_other - score) + (-odds if inside else odds)
        log_stay = -math.log1p(math.exp(log_ratio)) if log_ratio < 30 else -log_ratio
        if not back:
            toggle = math.log(1.0 - ops.uniform(chain.rng)) >= log_stay
        log_q += log_ratio + log_stay if toggle else log_stay
        if toggle:
            parents[:n_other] = other[:n_other]
            n, score = n_other, score_other
    return log_q, n, score


@inlined
def redraw_columns(problem, chain, work, beta):  # type: ignore[no-untyped-def]
    """Draw the states of the nodes that a change of an edge concerns anew, one Gibbs scan per node.

    The ratio is that of the edge times q(scans back) / q(scans there). The scans back start at the new states, have the
    old parents and are led to the old states, in the same order of nodes and contexts.
    """
    work.n_targets[:] = chain.n_targets
    for back in (False, True):
        for a in range(work.n_nodes[0]):
            node, parents, n_parents, column = work.node[a], work.parents[a], work.n_parents[a], work.state[a]
            if back:
                work.column[:] = column
                parents, n_parents, column = chain.parents[node], chain.n_parents[node], work.column
            log_q, log_prior, score = scan_column(problem, chain, work, beta, node, parents, n_parents, column, back)
            if back:
                work.log_proposal[0] += log_q
            else:
                work.log_proposal[0] -= log_q
                work.log_prior[0] += log_prior
                work.score[a] = score


@inner
def scan_column(problem, chain, work, beta, node, parents, n_parents, column, back):  # type: ignore[no-untyped-def]
    """One Gibbs scan over the states of a node in its near contexts, given its parents and the states of the others.

    States are drawn into `column`; on the way back the scan is led to those of the chain and only its probability is
    wanted. `work.n_targets` is kept up to date.

    Returns:
        The log probability of the scan, the change of log p(S) and the score of the last column.
    """
    prior, near = problem.target.prior, problem.target.proposals.near_contexts
    log_q, log_prior = 0.0, 0.0
    score = ops.evaluate(problem, node, parents, n_parents, column)
    for at in range(near.shape[1]):
        k = near[node, at]
        now = column[k]
        others = work.n_targets[k] - (now > 0)
        top = -np.inf
        for s in range(len(work.option_score)):
            work.option_log_p[s] = prior.state_log_prior[k, node, s]
            if work.option_log_p[s] == -np.inf:
                continue
            column[k] = s
            work.option_score[s] = score if s == now else ops.evaluate(problem, node, parents, n_parents, column)
            work.option_log_p[s] += prior.target_count_log[k, others + (s > 0)] + beta * work.option_score[s]
            top = max(top, work.option_log_p[s])
        total = 0.0
        for s in range(len(work.option_score)):
            total += math.exp(work.option_log_p[s] - top)
        new = chain.states[node, k] if back else draw_state(chain.rng, work.option_log_p, top, total)
        log_q += work.option_log_p[new] - top - math.log(total)
        log_prior += prior.state_log_prior[k, node, new] - prior.state_log_prior[k, node, now]
        log_prior += prior.target_count_log[k, others + (new > 0)] - prior.target_count_log[k, others + (now > 0)]
        column[k], work.n_targets[k], score = new, others + (new > 0), work.option_score[new]
    return log_q, log_prior, score


@inner
def draw_state(rng, log_p, top, total):  # type: ignore[no-untyped-def]
    """A state s with probability exp(log_p[s] - top) / total."""
    mark, state = ops.uniform(rng) * total, 0
    mark -= math.exp(log_p[0] - top)
    while mark > 0 and state < len(log_p) - 1:
        state += 1
        mark -= math.exp(log_p[state] - top)
    return state


@inlined
def propose(problem, chain, work, beta, kind):  # type: ignore[no-untyped-def]
    """Write a proposal of the given kind into `work`; False where what was drawn is not possible.

    A change of a target draws the same pair on the way back: the ratio is 1. It also comes together with an edge, the
    state of j changed in a random context: an edge i → j can explain a target away, above all where i is one.
    """
    _, prior, weights = problem.target
    work.n_nodes[0], work.log_prior[0], work.log_proposal[0], work.turned[0] = 0, 0.0, 0.0, False
    if kind in (SET_TARGET, SWAP_TARGET):
        k, j = draw_pair(chain, weights.target_sum)
        if kind == SWAP_TARGET:
            return swap_target(problem, chain, work, k, j)
        change_state(problem, chain, work, ops.touch(chain, work, j), k)
        return True
    if kind == ADD_OR_DROP:
        return add_or_drop(problem, chain, work)
    i, j = draw_pair(chain, weights.edge_sum)
    if kind == SWAP_PARENT:
        return swap_parent(problem, chain, work, i, j)
    k = context_of(chain, i) if kind == EDGE_AND_TARGET else 0
    if kind == REDRAW:
        return reverse_and_redraw(problem, chain, work, beta, i, j)
    if kind == REVERSE:
        possible = reverse(prior, weights.edge_log, chain, work, i, j)
    else:
        possible = toggle(prior, chain, work, i, j)
    if possible and kind == EDGE_AND_TARGET:
        change_state(problem, chain, work, 0, k)
    elif possible and kind == TOGGLE_AND_COLUMN:
        redraw_columns(problem, chain, work, beta)
    return possible


@inlined
def exchange(problem, guess, work, chains, counts, betas, parity, screened):  # type: ignore[no-untyped-def]
    """Offer an exchange to every second pair of neighbouring levels; False, and nothing done, where a score is missing.

    Chains a and b at β and β' swap levels with probability min(1, exp((β - β') (log p(D | b) - log p(D | a)))). Where
    only the first level has the scores of `problem`, it is exp(β (p(b) - p(a)) - β' (q(b) - q(a))) for the first two,
    with p and q for the scores of a chain at either.
    """
    for level in range(parity, len(betas) - 1, 2):
        a, b = chains.at_level[level], chains.at_level[level + 1]
        differ = screened and level == 0
        if differ:
            at_first = ops.chain_scores(problem, ops.chain_at(chains, b), work.exchanged[1])
            at_second = ops.chain_scores(guess, ops.chain_at(chains, a), work.exchanged[0])
            if math.isnan(at_first) or math.isnan(at_second):
                return False
            log_ratio = betas[0] * (at_first - chains.score[a].sum()) - betas[1] * (chains.score[b].sum() - at_second)
        else:
            log_ratio = (betas[level] - betas[level + 1]) * (chains.score[b].sum() - chains.score[a].sum())
        counts.swaps[level, 0] += 1
        counts.swaps[level, 1] += math.exp(min(log_ratio, 0.0))
        if ops.accepts(chains.rng, log_ratio):
            chains.at_level[level], chains.at_level[level + 1] = b, a
            if differ:
                chains.score[a], chains.score[b] = work.exchanged[0], work.exchanged[1]
    return True


@compiled
def advance(problem, guess, work, chains, counts, betas, position, until, n_moves):  # type: ignore[no-untyped-def]
    """Go on from `position` = (sweep, level, move) until sweep `until`; False where a score was missing.

    In a sweep level l makes `n_moves[l]` moves, then neighbouring levels may exchange. Before each move the random
    state is saved: a move that lacks a score leaves nothing behind and is made again as if for the first time. Scores
    are those of `guess`, but for the first level where its memory differs from that of `problem`.
    """
    lend = ops.lend
    problem, guess, work = lend(problem), lend(guess), lend(work)  # type: ignore[call-arg]
    chains, counts = lend(chains), lend(counts)  # type: ignore[call-arg]
    approximate = guess.memory.inline != problem.memory.inline
    while position[0] < until:
        while position[1] < len(betas):
            level = position[1]
            chain, beta = ops.chain_at(chains, chains.at_level[level]), betas[level]
            screened = approximate and level == 0
            ops.weigh_all_edges(problem.target.proposals.drop, chain, work)
            while position[2] < n_moves[level]:
                work.rng[:] = chain.rng
                kind = ops.draw(chain.rng, problem.target.proposals.move_sum)
                possible = propose(guess, chain, work, beta, kind)
                outcome = ops.decide(problem, guess, chain, work, beta, screened) if possible else ops.REJECTED
                if outcome == ops.MISSING:
                    chain.rng[:] = work.rng
                    return False
                if problem.target.prior.over_orders:
                    ops.move_in_order(chain)
                counts.moves[level, kind, 0] += 1
                counts.moves[level, kind, 1] += outcome
                position[2] += 1
            position[1] += 1
            position[2] = 0
        if not exchange(problem, guess, work, chains, counts, betas, position[0] % 2, approximate):
            return False
        position[0] += 1
        position[1] = 0
    return True
