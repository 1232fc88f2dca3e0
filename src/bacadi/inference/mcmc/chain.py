"""A chain of the collapsed sampler in compiled code: its arrays, its random numbers, one proposal, one Metropolis step.

A chain samples p(G, S) p(D | G, S)^β. A move (`moves`) writes what would change into a `Work` by `touch`, `add_parent`,
`drop_parent` and `set_state`, which also add up the change of the prior; `decide` scores, accepts and commits it. Where
the prior is one over causal orders, a chain carries one of the orders of its graph, p(G, π) in place of p(G): edges run
along it, a reversal exchanges the places of both nodes, and after every move one node moves within the order.

Where the evidence is costly and has an approximation with tables, the coldest level alone samples the evidence itself,
and asks for it only where the approximation does not refuse a proposal before (`decide`); all others sample
p(G, S) q(D | G, S)^β with q the approximation, at no cost.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8, Int16, UInt8, UInt64
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from bacadi.evidence.compiled import compiled, inlined, inner
from bacadi.evidence.tables import NODE, GramTables, Regression, local_score, next_touched

MISSING, REJECTED, ACCEPTED = -1, 0, 1
# Log probability at which a proposal is looked at, at the least, whatever a cheap score says of it: one that changes
# states alone, whose scores cost little once its parents are known, and one that changes parents.
DOUBTFUL, HOPELESS = -4.5, -6.5
BLOCK = 32  # nodes whose weights of edges are summed together


class PriorTables(NamedTuple):
    """`StructurePrior` for compiled code: `fixed` is 1 for a required edge, -1 for a forbidden one, else 0."""

    edge_log_odds: Float[np.ndarray, "d d"]
    fixed: Int8[np.ndarray, "d d"]
    over_orders: bool
    by_degree: bool
    out_degree_log: Float[np.ndarray, " d"]
    max_parents: int
    state_log_prior: Float[np.ndarray, "M d T"]
    target_count_log: Float[np.ndarray, "M d+1"]


class Proposals(NamedTuple):
    """Fixed weights of pairs, as logarithms and as cumulative sums in reading order, and of moves; `drop` are those of
    edges to be taken away, `near` and `near_contexts` the candidate parents and contexts of each node that scans look
    at."""

    edge_log: Float[np.ndarray, "d d"]
    edge_sum: Float[np.ndarray, " dd"]
    target_log: Float[np.ndarray, "M d"]
    target_sum: Float[np.ndarray, " Md"]
    move_sum: Float[np.ndarray, " 8"]
    drop: Float[np.ndarray, "d d"]
    near: Int[np.ndarray, "d C"]
    near_contexts: Int[np.ndarray, "d K"]


class CompiledTarget(NamedTuple):
    """All that is fixed during a run: the tables of the evidence, the prior and the weights of the proposals."""

    tables: GramTables
    prior: PriorTables
    proposals: Proposals


class Memory(NamedTuple):
    """Scores by hash, key 0 being empty; the key of a request is the exclusive or of one random word per parent and
    per state other than 0 (Zobrist hashing).

    With `inline` the evidence is compiled: a score that is missing is computed, and takes the place of another of the
    same slot. Most proposals at cold levels are refused and come again, so that most scores are there. Otherwise all
    scores are kept (open addressing), and one that is missing is asked for. What is computed as an approximation is
    `known_values` where the key is among `known_keys`, and elsewhere corrected by what it is expected to lack
    (`expected_lack`).
    """

    inline: bool
    keys: UInt64[np.ndarray, " H"]
    values: Float[np.ndarray, " H"]
    node_hash: UInt64[np.ndarray, "d d+1"]
    state_hash: UInt64[np.ndarray, "d M T"]
    known_keys: UInt64[np.ndarray, " Q"]
    known_values: Float[np.ndarray, " Q"]
    lack: Float[np.ndarray, "d _ _"]


class ScoreRequest(NamedTuple):
    """The score that was missing: node, parents and states; its key, and the complement of that without the states."""

    node: Int[np.ndarray, " 1"]
    parents: UInt8[np.ndarray, " d"]
    state: Int8[np.ndarray, " M"]
    key: UInt64[np.ndarray, " 2"]


class SamplingProblem(NamedTuple):
    """What compiled code samples from: the target, the scores in memory and the request for one that is missing."""

    target: CompiledTarget
    memory: Memory
    request: ScoreRequest


class Chains(NamedTuple):
    """One replica: L chains, one per temperature; chain `at_level[l]` is at level l, level 0 being the posterior.

    `place` holds the places of the nodes in a causal order of the graph, kept up where the prior is one over orders.
    A view of one chain (`chain_at`) has the same fields without the first axis, but for `log_prior` [1]; all chains
    share their random numbers.
    """

    edges: UInt8[np.ndarray, "*L d d"]
    parents: Int16[np.ndarray, "*L d P"]
    n_parents: Int[np.ndarray, "*L d"]
    states: Int8[np.ndarray, "*L d M"]
    n_targets: Int[np.ndarray, "*L M"]
    score: Float[np.ndarray, "*L d"]
    log_prior: Float[np.ndarray, " L"]
    place: Int[np.ndarray, "*L d"]
    at_level: Int[np.ndarray, " levels"]
    rng: UInt64[np.ndarray, " 4"]


class Work(NamedTuple):
    """One proposal, in arrays that are allocated once: at most two nodes change.

    Slot a < `n_nodes` holds the new parents (sorted), states and score of `node[a]`; a score of NaN is still to be
    computed. `log_prior` is the change of log p(G, S), `log_proposal` the log probability to propose the way back less
    that of the way there; with `turned` both nodes exchange their places in the order. `drop` and `drop_block` are sums
    of weights of the edges into each node and into each block of nodes (`weigh_edges`), `exchanged` the scores of two
    chains at the level of the other. The other arrays are scratch space: of a search for ancestors, of the nodes that
    may not become parents, of Gibbs scans, and of the random state to which a move that has to be repeated returns.
    """

    n_nodes: Int[np.ndarray, " 1"]
    node: Int[np.ndarray, " 2"]
    parents: Int16[np.ndarray, "2 d"]
    n_parents: Int[np.ndarray, " 2"]
    state: Int8[np.ndarray, "2 M"]
    score: Float[np.ndarray, " 2"]
    log_prior: Float[np.ndarray, " 1"]
    log_proposal: Float[np.ndarray, " 1"]
    turned: Bool[np.ndarray, " 1"]
    seen: UInt8[np.ndarray, " d"]
    below: UInt8[np.ndarray, "2 d"]
    stack: Int[np.ndarray, " d"]
    old_parents: Int16[np.ndarray, " d"]
    other_parents: Int16[np.ndarray, " d"]
    column: Int8[np.ndarray, " M"]
    n_targets: Int[np.ndarray, " M"]
    option_score: Float[np.ndarray, " T"]
    option_log_p: Float[np.ndarray, " T"]
    drop: Float[np.ndarray, " d"]
    drop_block: Float[np.ndarray, " q"]
    exchanged: Float[np.ndarray, "2 d"]
    rng: UInt64[np.ndarray, " 4"]


class MoveCounts(NamedTuple):
    """How often moves were proposed and accepted at each level; how often an exchange between a level and the next
    was offered and the sum of the probabilities to accept it."""

    moves: Int[np.ndarray, "L 8 2"]
    swaps: Float[np.ndarray, "L 2"]


def no_tables() -> GramTables:
    """Tables for evidence that is not computed in compiled code, where nothing reads them."""
    empty = np.zeros((1, 1))
    prior = Regression(0, True, np.ones(1), empty, np.ones(1), np.ones(1), np.ones(1), empty, empty)
    gram, one, group = np.zeros((1, 1, 1, 1)), np.zeros(1), np.zeros(1, np.int64)
    sums = gram, group, empty, empty, group, gram[0], gram, empty
    drifts = one, one, one, one, empty, one, empty
    return GramTables(group, *sums, one, group, *drifts, 0.0, empty, prior, np.zeros(1, np.int8), one, empty)


def new_work(d: int, m: int, n_states: int) -> Work:
    """Room for the proposals on d variables and m contexts."""
    sums = n_states, n_states, d, -(-d // BLOCK)
    shapes = (1, 2, (2, d), 2, (2, m), 2, 1, 1, 1, d, (2, d), d, d, d, m, m, *sums, (2, d), 4)
    kinds = (
        "i8",
        "i8",
        NODE,
        "i8",
        "i1",
        *["f8"] * 3,
        "?",
        "u1",
        "u1",
        "i8",
        NODE,
        NODE,
        "i1",
        "i8",
        *["f8"] * 5,
        "u8",
    )
    return Work(*(np.zeros(shape, kind) for shape, kind in zip(shapes, kinds, strict=True)))


@intrinsic
def lend(typing_context, value):  # type: ignore[no-untyped-def]
    """The same arrays, in however nested tuples, without a count of references.

    Compiled functions count a reference to every array of every argument when they begin and end, which costs more
    than most moves. `advance` holds the arrays for as long as it runs, so what it calls need not count.
    """

    def stripped(context, builder, kind, item):  # type: ignore[no-untyped-def]
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value=item)
            array.meminfo = cgutils.get_null_value(array.meminfo.type)
            array.parent = cgutils.get_null_value(array.parent.type)
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            for at, part in enumerate(kind):  # type: ignore[arg-type,var-annotated]
                inner = stripped(context, builder, part, builder.extract_value(item, at))
                item = builder.insert_value(item, inner, at)
        return item

    def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
        return stripped(context, builder, signature.args[0], args[0])

    return value(value), generate


@inner
def next_bits(s):  # type: ignore[no-untyped-def]
    """xoshiro256++ (Blackman, Vigna 2019) in place of numba's generator, whose state compiled code cannot copy: that of
    four words is saved before a move, put back where a score was missing, and stored in a checkpoint."""
    total = s[0] + s[3]
    result = ((total << np.uint64(23)) | (total >> np.uint64(41))) + s[0]
    t = s[1] << np.uint64(17)
    s[2] ^= s[0]
    s[3] ^= s[1]
    s[1] ^= s[2]
    s[0] ^= s[3]
    s[2] ^= t
    s[3] = (s[3] << np.uint64(45)) | (s[3] >> np.uint64(19))
    return result


@inner
def uniform(s):  # type: ignore[no-untyped-def]
    """A number in [0, 1) with 53 random bits."""
    return (next_bits(s) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inner
def below(s, n):  # type: ignore[no-untyped-def]
    """One of 0, …, n - 1."""
    return min(int(uniform(s) * n), n - 1)


@inner
def draw(s, cumulative):  # type: ignore[no-untyped-def]
    """An index with probability in proportion to its weight, by bisection in the cumulative sums of the weights."""
    mark = uniform(s) * cumulative[-1]
    low, high = 0, len(cumulative) - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > mark:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def slot_of(keys, key):  # type: ignore[no-untyped-def]
    """Where the key is, or the free place where it belongs."""
    mask = np.uint64(len(keys) - 1)
    slot = key & mask
    while keys[slot] != np.uint64(0) and keys[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return slot


@compiled
def rehash(keys, values, new_keys, new_values):  # type: ignore[no-untyped-def]
    """Copy all scores into another table."""
    for at in range(len(keys)):
        if keys[at] != np.uint64(0):
            slot = slot_of(new_keys, keys[at])
            new_keys[slot], new_values[slot] = keys[at], values[at]


@inner
def expected_lack(memory, node, parents, n_parents, state, of_parents):  # type: ignore[no-untyped-def]
    """What an approximation is expected to lack: a constant, so much for each parent and each touched context, and for
    each pair of a parent with another or with a touched context, by a regression on what it was seen to lack
    (`ladder.expected_lacks`). What is left hardly depends on the states: `known_values` of the complement of the key
    without these, or a little where nothing is known given these parents."""
    of_node, d = memory.lack[node], len(memory.lack)
    single = of_node[d]
    lack, k = single[node], next_touched(state, 0)
    for a in range(n_parents):
        lack += single[parents[a]]
        for b in range(a):
            lack += of_node[parents[b], parents[a]]
    while k < len(state):
        lack += single[d + k]
        for a in range(n_parents):
            lack += of_node[parents[a], d + k]
        k = next_touched(state, k + 1)
    known = slot_of(memory.known_keys, of_parents)
    return lack + (memory.known_values[known] if memory.known_keys[known] == of_parents else of_node[node, node])


@inlined
def evaluate(problem, node, parents, n_parents, state):  # type: ignore[no-untyped-def]
    """The local score of a node, or NaN with the request filled in where it is not in memory (or not a number)."""
    target, memory, request = problem
    key = memory.node_hash[node, memory.node_hash.shape[1] - 1]
    for a in range(n_parents):
        key ^= memory.node_hash[node, parents[a]]
    of_parents = ~key
    k = next_touched(state, 0)
    while k < len(state):
        key ^= memory.state_hash[node, k, state[k]]
        k = next_touched(state, k + 1)
    slot = key & np.uint64(len(memory.keys) - 1) if memory.inline else slot_of(memory.keys, key)
    if memory.keys[slot] == key:
        return memory.values[slot]
    score = np.nan
    if memory.inline:
        known = np.uint64(0)
        if len(memory.known_keys) > 1:
            known = slot_of(memory.known_keys, key)
        if memory.known_keys[known] == key:
            score = memory.known_values[known]
        else:
            score = local_score(target.tables, node, parents, n_parents, state)
            if len(memory.known_keys) > 1:
                score += expected_lack(memory, node, parents, n_parents, state, of_parents)
        memory.keys[slot], memory.values[slot] = key, score
    if not math.isnan(score):
        return score
    # Not before: what the other node of a proposal lacks may stand in the request.
    request.node[0], request.key[0], request.key[1] = node, key, of_parents
    request.parents[:] = 0
    for a in range(n_parents):
        request.parents[parents[a]] = 1
    request.state[:] = state
    return np.nan


@inner
def called(problem, node, parents, n_parents, state):  # type: ignore[no-untyped-def]
    """`evaluate`, not compiled into its callers: they are many, and seldom come this far."""
    return evaluate(problem, node, parents, n_parents, state)


@inlined
def chain_at(chains, c):  # type: ignore[no-untyped-def]
    """Chain c, without a copy."""
    edges, parents, n_parents, states, n_targets, score, log_prior, place, at_level, rng = chains
    structure = edges[c], parents[c], n_parents[c], states[c], n_targets[c]
    return Chains(*structure, score[c], log_prior[c : c + 1], place[c], at_level, rng)


@inner
def touch(chain, work, node):  # type: ignore[no-untyped-def]
    """Take a node into the proposal, as it is; returns its slot."""
    slot = work.n_nodes[0]
    work.n_nodes[0] += 1
    work.node[slot], work.n_parents[slot], work.score[slot] = node, chain.n_parents[node], np.nan
    for a in range(chain.n_parents[node]):
        work.parents[slot, a] = chain.parents[node, a]
    for k in range(len(chain.n_targets)):
        work.state[slot, k] = chain.states[node, k]
    return slot


@inner
def out_degree_gain(prior, chain, node, change):  # type: ignore[no-untyped-def]
    """Change of log p(G) by the number of children of a node."""
    if not prior.by_degree:
        return 0.0
    degree = 0
    for j in range(len(chain.place)):
        degree += chain.edges[node, j]
    return prior.out_degree_log[degree + change] - prior.out_degree_log[degree]


@inner
def insert(parents, n_parents, parent):  # type: ignore[no-untyped-def]
    """Put a parent into a sorted list; returns their number. A score depends on the set, to the last bit."""
    at = n_parents
    while at > 0 and parents[at - 1] > parent:
        parents[at] = parents[at - 1]
        at -= 1
    parents[at] = parent
    return n_parents + 1


@inner
def remove(parents, n_parents, parent):  # type: ignore[no-untyped-def]
    """Take a parent from a list, if it is there; returns their number."""
    size = 0
    for a in range(n_parents):
        if parents[a] != parent:
            parents[size] = parents[a]
            size += 1
    return size


@inner
def add_parent(prior, chain, work, slot, parent):  # type: ignore[no-untyped-def]
    """Give the node of a slot one more parent."""
    work.n_parents[slot] = insert(work.parents[slot], work.n_parents[slot], parent)
    work.log_prior[0] += out_degree_gain(prior, chain, parent, 1) + prior.edge_log_odds[parent, work.node[slot]]


@inner
def drop_parent(prior, chain, work, slot, parent):  # type: ignore[no-untyped-def]
    """Take a parent from the node of a slot."""
    work.n_parents[slot] = remove(work.parents[slot], work.n_parents[slot], parent)
    work.log_prior[0] += out_degree_gain(prior, chain, parent, -1) - prior.edge_log_odds[parent, work.node[slot]]


@inner
def parents_gain(prior, chain, work):  # type: ignore[no-untyped-def]
    """Change of log p(G) by all parents that the nodes of a proposal gain and lose."""
    gain = 0.0
    work.stack[:] = 0
    for slot in range(work.n_nodes[0]):
        node = work.node[slot]
        for a in range(chain.n_parents[node]):
            gain -= prior.edge_log_odds[chain.parents[node, a], node]
            work.stack[chain.parents[node, a]] -= 1
        for a in range(work.n_parents[slot]):
            gain += prior.edge_log_odds[work.parents[slot, a], node]
            work.stack[work.parents[slot, a]] += 1
    for i in range(len(chain.place) if prior.by_degree else 0):
        if work.stack[i] != 0:
            gain += out_degree_gain(prior, chain, i, work.stack[i])
    return gain


@inner
def set_state(prior, work, slot, k, new):  # type: ignore[no-untyped-def]
    """Change a state of the node of a slot; the caller adds what the number of targets in context k changes."""
    log_prior = prior.state_log_prior[k, work.node[slot]]
    work.log_prior[0] += log_prior[new] - log_prior[work.state[slot, k]]
    work.state[slot, k] = new


@inner
def accepts(rng, log_ratio):  # type: ignore[no-untyped-def]
    """True with probability min(1, exp(log_ratio))."""
    return math.log(1.0 - uniform(rng)) < log_ratio


@inner
def least_looked_at(chain, work):  # type: ignore[no-untyped-def]
    """The log probability at which a proposal is looked at, at the least; the same for its way back.

    Parents that come together with a state are doubtful: an edge and the target that it explains away are what the
    approximation confuses.
    """
    for a in range(work.n_nodes[0]):
        node, n = work.node[a], work.n_parents[a]
        same = n == chain.n_parents[node]
        for b in range(n if same else 0):
            same &= work.parents[a, b] == chain.parents[node, b]
        if not same and (work.state[a] == chain.states[node]).all():
            return HOPELESS
    return DOUBTFUL


@inlined
def decide(problem, guess, chain, work, beta, screened):  # type: ignore[no-untyped-def]
    """One Metropolis step (Hastings 1970): accept the proposal with probability

        min(1, exp(β Δ log p(D | G, S) + Δ log p(G, S) + log q(back) - log q(there))),

    and commit it. A score that is not in memory makes the ratio NaN: nothing has changed then, and the same move is
    made again, with the same random numbers, once the score is there.

    `guess` has the scores of this level. With `screened` they only stand for those of `problem`: with r the ratio above
    by cheap scores, a proposal is looked at with probability a(r) = min(1, max(r, l)), l the least, then accepted by
    the ratio of the scores themselves times a(1/r) / a(r), which leaves the target as it is (Christen & Fox 2005).
    """
    if work.log_prior[0] == -np.inf:
        return REJECTED
    gain, rest = 0.0, work.log_prior[0] + work.log_proposal[0]
    for a in range(work.n_nodes[0]):
        node = work.node[a]
        if math.isnan(work.score[a]):
            work.score[a] = evaluate(guess, node, work.parents[a], work.n_parents[a], work.state[a])
        before = chain.score[node]
        if screened:
            before = called(guess, node, chain.parents[node], chain.n_parents[node], chain.states[node])
        gain += work.score[a] - before
    log_ratio = beta * gain + rest
    if math.isnan(log_ratio):
        return MISSING
    if screened:
        least = least_looked_at(chain, work)
        there, back = min(max(log_ratio, least), 0.0), min(max(-log_ratio, least), 0.0)
        if not accepts(chain.rng, there):
            return REJECTED
        gain = 0.0
        for a in range(work.n_nodes[0]):
            work.score[a] = called(problem, work.node[a], work.parents[a], work.n_parents[a], work.state[a])
            gain += work.score[a] - chain.score[work.node[a]]
        log_ratio = beta * gain + rest + back - there
        if math.isnan(log_ratio):
            return MISSING
    if not accepts(chain.rng, log_ratio):
        return REJECTED
    commit(chain, work)
    for a in range(work.n_nodes[0]):
        weigh_edges(problem.target.proposals.drop, chain, work, work.node[a])
    return ACCEPTED


@inner
def chain_scores(problem, chain, scores):  # type: ignore[no-untyped-def]
    """The scores of all nodes of a chain; NaN where one is missing."""
    for node in range(len(scores)):
        scores[node] = called(problem, node, chain.parents[node], chain.n_parents[node], chain.states[node])
        if math.isnan(scores[node]):
            return np.nan
    return scores.sum()


@compiled
def rescore(guess, chains):  # type: ignore[no-untyped-def]
    """Give all chains but that of the first level the scores of an approximation that has changed."""
    for c in chains.at_level[1:]:
        chain_scores(guess, chain_at(chains, c), chains.score[c])


@inner
def weigh_edges(drop, chain, work, node):  # type: ignore[no-untyped-def]
    """Sum the weights of the edges into a node anew, and those of its block: no sum depends on those before it."""
    total = 0.0
    for a in range(chain.n_parents[node]):
        total += drop[chain.parents[node, a], node]
    work.drop[node] = total
    first, total = node - node % BLOCK, 0.0
    for other in range(first, min(first + BLOCK, len(work.drop))):
        total += work.drop[other]
    work.drop_block[node // BLOCK] = total


@inner
def weigh_all_edges(drop, chain, work):  # type: ignore[no-untyped-def]
    """Sum the weights of the edges into all nodes of a chain, before its moves begin."""
    work.drop[:] = 0.0
    for node in range(len(work.drop)):
        weigh_edges(drop, chain, work, node)


@inlined
def commit(chain, work):  # type: ignore[no-untyped-def]
    """Make the proposal the state of the chain."""
    for a in range(work.n_nodes[0]):
        node = work.node[a]
        for b in range(chain.n_parents[node]):
            chain.edges[chain.parents[node, b], node] = 0
        for b in range(work.n_parents[a]):
            chain.parents[node, b] = work.parents[a, b]
            chain.edges[work.parents[a, b], node] = 1
        for k in range(len(chain.n_targets)):
            chain.n_targets[k] += (work.state[a, k] > 0) - (chain.states[node, k] > 0)
            chain.states[node, k] = work.state[a, k]
        chain.n_parents[node], chain.score[node] = work.n_parents[a], work.score[a]
    if work.turned[0]:
        i, j = work.node[0], work.node[1]
        chain.place[i], chain.place[j] = chain.place[j], chain.place[i]
    chain.log_prior[0] += work.log_prior[0]


@inner
def is_ancestor(chain, work, ancestor, node):  # type: ignore[no-untyped-def]
    """Whether a directed path leads from `ancestor` to `node`."""
    work.seen[:] = 0
    work.stack[0], size = node, 1
    while size > 0:
        size -= 1
        current = work.stack[size]
        for a in range(chain.n_parents[current]):
            parent = chain.parents[current, a]
            if parent == ancestor:
                return True
            if work.seen[parent] == 0:
                work.seen[parent] = 1
                work.stack[size] = parent
                size += 1
    return False


@inner
def may_lead(prior, chain, work, i, j):  # type: ignore[no-untyped-def]
    """Whether an edge i → j closes no cycle, and runs along the order where there is one."""
    if prior.over_orders:
        return chain.place[i] < chain.place[j]
    return not is_ancestor(chain, work, j, i)


@inner
def may_turn(prior, chain, work, i, j):  # type: ignore[no-untyped-def]
    """Whether i → j may become j → i: no other path leads from i to j, and they may exchange places in the order.

    They may not where a node between them is a child of i or a parent of j.
    """
    if prior.over_orders:
        for between in range(len(chain.place)):
            joined = chain.edges[i, between] == 1 or chain.edges[between, j] == 1
            if joined and chain.place[i] < chain.place[between] < chain.place[j]:
                return False
        return True
    # Another path enters j through another of its parents.
    for a in range(chain.n_parents[j]):
        other = chain.parents[j, a]
        if other != i and is_ancestor(chain, work, i, other):
            return False
    return True


@inner
def descendants(chain, work, node, left_out, found):  # type: ignore[no-untyped-def]
    """Mark a node and what lies below it in the graph without the edges into `node` and `left_out`."""
    found[:] = 0
    found[node] = 1
    work.stack[0], size = node, 1
    while size > 0:
        size -= 1
        current = work.stack[size]
        child = next_touched(chain.edges[current], 0)
        while child < len(found):
            if found[child] == 0 and child != left_out:
                found[child] = 1
                work.stack[size] = child
                size += 1
            child = next_touched(chain.edges[current], child + 1)


@inlined
def move_in_order(chain):  # type: ignore[no-untyped-def]
    """A Gibbs step over the causal orders of the graph: a random node moves to a random place between its last parent
    and its first child. All these orders are equally likely given the graph, so the step is never refused."""
    place, d = chain.place, len(chain.place)
    node = below(chain.rng, d)
    low, high = 0, d - 1
    for a in range(chain.n_parents[node]):
        low = max(low, place[chain.parents[node, a]] + 1)
    for child in range(d):
        if chain.edges[node, child] == 1:
            high = min(high, place[child] - 1)
    old, new = place[node], low + below(chain.rng, high - low + 1)
    for other in range(d):
        if old < place[other] <= new:
            place[other] -= 1
        elif new <= place[other] < old:
            place[other] += 1
    place[node] = new
