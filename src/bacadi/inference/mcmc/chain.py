"""Chains of the collapsed sampler as compiled code sees them: arrays, random numbers, scores, the present structure."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int8, UInt8, UInt64
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from bacadi.evidence.compiled import compiled, inner
from bacadi.evidence.gram import GramTables, Regression, local_score


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
    """Fixed weights of pairs, as logarithms and as cumulative sums in reading order, and of moves."""

    edge_log: Float[np.ndarray, "d d"]
    edge_sum: Float[np.ndarray, " dd"]
    target_log: Float[np.ndarray, "M d"]
    target_sum: Float[np.ndarray, " Md"]
    move_sum: Float[np.ndarray, " 8"]


class Memory(NamedTuple):
    """Scores by hash (open addressing, key 0 is empty), for evidence that is not computed in compiled code."""

    inline: bool
    keys: UInt64[np.ndarray, " H"]
    values: Float[np.ndarray, " H"]
    node_hash: UInt64[np.ndarray, "d d+1"]
    state_hash: UInt64[np.ndarray, "d M T"]


class Request(NamedTuple):
    """The score that was missing: node, parents, states and key."""

    node: Int[np.ndarray, " 1"]
    parents: UInt8[np.ndarray, " d"]
    state: Int8[np.ndarray, " M"]
    key: UInt64[np.ndarray, " 1"]


class Target(NamedTuple):
    """All that is fixed during a run."""

    tables: GramTables
    prior: PriorTables
    proposals: Proposals


def no_tables() -> GramTables:
    """Tables for evidence that is not computed in compiled code, where nothing reads them."""
    empty = np.zeros((1, 1))
    prior = Regression(False, True, empty, np.ones(1), np.ones(1), np.ones(1), empty, empty)
    return GramTables(np.zeros((1, 1, 1)), empty, np.zeros(1), prior, np.zeros(1, np.int8), np.zeros(1), empty)


class Chains(NamedTuple):
    """One replica: L chains, one a temperature; chain `at_level[l]` holds level l, level 0 being the posterior.

    `place` are the places of the nodes in a causal order of the graph, kept up where the prior is one over orders.
    """

    edges: UInt8[np.ndarray, "L d d"]
    parents: Int[np.ndarray, "L d P"]
    n_parents: Int[np.ndarray, "L d"]
    states: Int8[np.ndarray, "L d M"]
    n_targets: Int[np.ndarray, "L M"]
    score: Float[np.ndarray, "L d"]
    log_prior: Float[np.ndarray, " L"]
    place: Int[np.ndarray, "L d"]
    at_level: Int[np.ndarray, " L"]
    rng: UInt64[np.ndarray, " 4"]


class Counts(NamedTuple):
    """How often moves were proposed and accepted at each level; how often an exchange between a level and the next
    was offered and the sum of the probabilities to accept it."""

    moves: Int[np.ndarray, "L 8 2"]
    swaps: Float[np.ndarray, "L 2"]


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
    """xoshiro256++ (Blackman, Vigna 2019): a state of four words can be copied, so that a move can be repeated."""
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
    return (next_bits(s) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inner
def below(s, n):  # type: ignore[no-untyped-def]
    return min(int(uniform(s) * n), n - 1)


@inner
def draw(s, cumulative):  # type: ignore[no-untyped-def]
    mark = uniform(s) * cumulative[-1]
    low, high = 0, len(cumulative) - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > mark:
            high = middle
        else:
            low = middle + 1
    return low


@inner
def hash_of(memory, node, parents, n_parents, state):  # type: ignore[no-untyped-def]
    key = memory.node_hash[node, memory.node_hash.shape[1] - 1]
    for a in range(n_parents):
        key ^= memory.node_hash[node, parents[a]]
    for k in range(len(state)):
        key ^= memory.state_hash[node, k, state[k]]
    return key


@compiled
def slot_of(keys, key):  # type: ignore[no-untyped-def]
    """Where the key stands, or the free place where it belongs."""
    mask = np.uint64(len(keys) - 1)
    slot = key & mask
    while keys[slot] != np.uint64(0) and keys[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return slot


@compiled
def rehash(keys, values, new_keys, new_values):  # type: ignore[no-untyped-def]
    for at in range(len(keys)):
        if keys[at] != np.uint64(0):
            slot = slot_of(new_keys, keys[at])
            new_keys[slot], new_values[slot] = keys[at], values[at]


@inner
def evaluate(target, memory, request, node, parents, n_parents, state):  # type: ignore[no-untyped-def]
    """The local score of a node, or NaN with the request filled in where it is not in memory."""
    if memory.inline:
        return local_score(target.tables, node, parents, n_parents, state)
    key = hash_of(memory, node, parents, n_parents, state)
    slot = slot_of(memory.keys, key)
    if memory.keys[slot] == key:
        return memory.values[slot]
    request.node[0], request.key[0] = node, key
    request.parents[:] = 0
    for a in range(n_parents):
        request.parents[parents[a]] = 1
    request.state[:] = state
    return np.nan


@inner
def is_ancestor(chains, c, ancestor, node):  # type: ignore[no-untyped-def]
    """Whether a directed path leads from `ancestor` to `node`."""
    d = chains.n_parents.shape[1]
    seen = np.zeros(d, np.uint8)
    stack = np.empty(d, np.int64)
    stack[0], size = node, 1
    while size > 0:
        size -= 1
        current = stack[size]
        for a in range(chains.n_parents[c, current]):
            parent = chains.parents[c, current, a]
            if parent == ancestor:
                return True
            if seen[parent] == 0:
                seen[parent] = 1
                stack[size] = parent
                size += 1
    return False


@inner
def may_lead(target, chains, c, i, j):  # type: ignore[no-untyped-def]
    """Whether an edge i → j closes no cycle, and runs along the order where there is one."""
    if target.prior.over_orders:
        return chains.place[c, i] < chains.place[c, j]
    return not is_ancestor(chains, c, j, i)


@inner
def may_turn(target, chains, c, i, j):  # type: ignore[no-untyped-def]
    """Whether i → j may become j → i: no other path leads from i to j, and they may change places in the order.

    They may not where a node between them is a child of i or a parent of j.
    """
    if target.prior.over_orders:
        for between in range(chains.edges.shape[1]):
            joined = chains.edges[c, i, between] == 1 or chains.edges[c, between, j] == 1
            if joined and chains.place[c, i] < chains.place[c, between] < chains.place[c, j]:
                return False
        return True
    # Another path enters j through another of its parents.
    for a in range(chains.n_parents[c, j]):
        other = chains.parents[c, j, a]
        if other != i and is_ancestor(chains, c, i, other):
            return False
    return True


@inner
def change_places(chains, c, i, j):  # type: ignore[no-untyped-def]
    chains.place[c, i], chains.place[c, j] = chains.place[c, j], chains.place[c, i]


@inner
def move_in_order(chains, c):  # type: ignore[no-untyped-def]
    """A Gibbs step over the causal orders of the graph: a random node moves to a random place between its last parent
    and its first child."""
    place, d = chains.place[c], chains.place.shape[1]
    node = below(chains.rng, d)
    low, high = 0, d - 1
    for a in range(chains.n_parents[c, node]):
        low = max(low, place[chains.parents[c, node, a]] + 1)
    for child in range(d):
        if chains.edges[c, node, child] == 1:
            high = min(high, place[child] - 1)
    old, new = place[node], low + below(chains.rng, high - low + 1)
    for other in range(d):
        if old < place[other] <= new:
            place[other] -= 1
        elif new <= place[other] < old:
            place[other] += 1
    place[node] = new


@inner
def inserted(parents, parent):  # type: ignore[no-untyped-def]
    """Sorted parents and one more: a score depends on the set alone, to the last bit."""
    new = np.empty(len(parents) + 1, np.int64)
    size = 0
    while size < len(parents) and parents[size] < parent:
        new[size] = parents[size]
        size += 1
    new[size] = parent
    for a in range(size, len(parents)):
        new[a + 1] = parents[a]
    return new


@inner
def with_parent(chains, c, node, parent):  # type: ignore[no-untyped-def]
    n = chains.n_parents[c, node]
    return inserted(chains.parents[c, node, :n], parent)


@inner
def without_parent(chains, c, node, parent):  # type: ignore[no-untyped-def]
    n = chains.n_parents[c, node]
    new = np.empty(n - 1, np.int64)
    size = 0
    for a in range(n):
        if chains.parents[c, node, a] != parent:
            new[size] = chains.parents[c, node, a]
            size += 1
    return new


@inner
def out_degree_gain(target, chains, c, node, change):  # type: ignore[no-untyped-def]
    if not target.prior.by_degree:
        return 0.0
    degree = 0
    for j in range(chains.edges.shape[1]):
        degree += chains.edges[c, node, j]
    table = target.prior.out_degree_log
    return table[degree + change] - table[degree]


@inner
def set_parents(chains, c, node, new, score):  # type: ignore[no-untyped-def]
    for a in range(chains.n_parents[c, node]):
        chains.edges[c, chains.parents[c, node, a], node] = 0
    for a in range(len(new)):
        chains.parents[c, node, a] = new[a]
        chains.edges[c, new[a], node] = 1
    chains.n_parents[c, node] = len(new)
    chains.score[c, node] = score


@inner
def set_state(chains, c, k, node, new):  # type: ignore[no-untyped-def]
    chains.n_targets[c, k] += (1 if new > 0 else 0) - (1 if chains.states[c, node, k] > 0 else 0)
    chains.states[c, node, k] = new


@inner
def accepts(chains, log_ratio):  # type: ignore[no-untyped-def]
    return math.log(1.0 - uniform(chains.rng)) < log_ratio
