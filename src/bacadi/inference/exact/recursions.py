"""Sums over all DAGs by dynamic programming over sets of nodes, compiled; positive terms only, as logarithms.

Sets are bits of whole numbers. `within[j, t, X]` = log of the sum of the weights of all parent sets P of j with
t ∈ P ⊆ X, and `within[j, -1, X]` that with P ⊆ X alone.

Without orders: a DAG is a sequence of layers in one way, the first of which holds the nodes without parents and each
of the others the nodes whose parents are all in earlier layers, one at least in the last (Kuipers & Moffa 2017). With
S the nodes placed so far and T ⊆ S the last layer, the ways to place the rest sum to

    B(S, T) = log Σ_{∅ ≠ U ⊆ not S} exp(Σ_{j ∈ U} γ_j(S, T) + B(S ∪ U, U)),   B(all, T) = 0,
    γ_j(S, T) = log Σ_{t ∈ T} exp(within[j, t, S \\ {s ∈ T: s < t}]),

γ_j a sum over the first t of T that is a parent. That are 4^d terms; (S, T) is a number of d digits in base 3,
0 for nodes to come, 1 for S \\ T and 2 for T.

With orders: B(S) = log Σ_{j ∉ S} exp(within[j, -1, S] + B(S ∪ {j})), d 2^d terms.

With B, the posterior is a Markov chain over (S, T) or S from the empty set on, along which probabilities are handed on
(`asked[j, t, X]`: the probability that j is to choose its parents among those that `within[j, t, X]` sums) and graphs
are drawn. Messages B and probabilities of visits are filled in by functions that take the sets S one after the other,
from `first` on to before `last`, so that the caller hears of progress; messages begin with the largest S.
"""

import math

import numpy as np

from bacadi.evidence.compiled import compiled, inner

# What is less probable than e^-70 is left out: all of it together is less than 1e-20.
_LOG_NOTHING = -70.0


@inner
def members(nodes):  # type: ignore[no-untyped-def]
    """The members of a set, in ascending order."""
    found = np.empty(64, np.int64)
    size, j = 0, 0
    while nodes >> j:
        if nodes >> j & 1:
            found[size] = j
            size += 1
        j += 1
    return found[:size]


@inner
def log_add(one, two):  # type: ignore[no-untyped-def]
    """log(exp(one) + exp(two))."""
    high, low = max(one, two), min(one, two)
    return high if low == -np.inf else high + math.log1p(math.exp(low - high))


@inner
def layer_weights(within, placed, last, rest, gamma):  # type: ignore[no-untyped-def]
    """γ_j(S, T) of the nodes j that are not yet placed."""
    for a in range(len(rest)):
        if placed == 0:
            gamma[a] = within[rest[a], -1, 0]
            continue
        total, among, t = -np.inf, placed, 0
        while last >> t:
            if last >> t & 1:
                total = log_add(total, within[rest[a], t, among])
                among ^= 1 << t
            t += 1
        gamma[a] = total


@inner
def next_layers(after, gamma, log_terms):  # type: ignore[no-untyped-def]
    """The terms of B(S, T), by the next layer U as a set of positions in `rest`, with `after[U]` = B(S ∪ U, U), and
    their maximum; the empty layer is -∞."""
    log_terms[0] = 0.0
    for a in range(len(gamma)):
        half = 1 << a
        for u in range(half):
            log_terms[half + u] = log_terms[u] + gamma[a]
    log_terms[0] = -np.inf
    top = -np.inf
    for u in range(1, len(log_terms)):
        log_terms[u] += after[u]
        top = max(top, log_terms[u])
    return top


@inner
def subset_sums(values):  # type: ignore[no-untyped-def]
    """Σ_{a ∈ u} values[a] of all sets u of positions."""
    sums = np.zeros(1 << len(values), np.int64)
    for a in range(len(values)):
        half = 1 << a
        for u in range(half):
            sums[half + u] = sums[u] + values[a]
    return sums


@inner
def log_sum(log_terms, top):  # type: ignore[no-untyped-def]
    """log Σ exp, of terms of which `top` is the largest."""
    if top == -np.inf:
        return top
    total = 0.0
    for u in range(len(log_terms)):
        if log_terms[u] > top + _LOG_NOTHING:
            total += math.exp(log_terms[u] - top)
    return top + math.log(total)


@compiled
def layer_messages(within, message, first, last):  # type: ignore[no-untyped-def]
    """Fill in B(S, T), at Σ_{j ∈ S} 3^j + Σ_{j ∈ T} 3^j."""
    d = len(within)
    digits, everything = 3 ** np.arange(d), (1 << d) - 1
    for placed in range(everything - 1 - first, everything - 1 - last, -1):
        rest, inside = members(everything ^ placed), members(placed)
        gamma, log_terms = np.empty(len(rest)), np.empty(1 << len(rest))
        here = digits[inside].sum()
        after = message[here + 2 * subset_sums(digits[rest])]
        codes, layers = here + subset_sums(digits[inside]), subset_sums(1 << inside)
        for a in range(0 if placed == 0 else 1, len(layers)):
            layer_weights(within, placed, layers[a], rest, gamma)
            message[codes[a]] = log_sum(log_terms, next_layers(after, gamma, log_terms))


@compiled
def layer_visits(within, message, visited, asked, first, last):  # type: ignore[no-untyped-def]
    """Hand on the probabilities of all (S, T), 1 of the empty set, and add up `asked`."""
    d = len(within)
    digits, everything = 3 ** np.arange(d), (1 << d) - 1
    for placed in range(first, last):
        rest, inside = members(everything ^ placed), members(placed)
        gamma, log_terms = np.empty(len(rest)), np.empty(1 << len(rest))
        here = digits[inside].sum()
        following = here + 2 * subset_sums(digits[rest])
        after, passed = message[following], np.zeros(len(following))
        codes, layers = here + subset_sums(digits[inside]), subset_sums(1 << inside)
        for a in range(len(layers)):
            if visited[codes[a]] == 0.0:
                continue
            layer_weights(within, placed, layers[a], rest, gamma)
            next_layers(after, gamma, log_terms)
            log_share = math.log(visited[codes[a]]) - message[codes[a]]
            for u in range(len(log_terms)):
                log_p = log_terms[u] + log_share
                log_terms[u] = math.exp(log_p) if log_p > _LOG_NOTHING else 0.0
            passed += log_terms
            for b in range(len(rest) - 1, -1, -1):
                half = 1 << b
                in_layer = log_terms[half : 2 * half].sum()
                log_terms[:half] += log_terms[half : 2 * half]
                if in_layer > 0.0:
                    ask(within, asked, rest[b], placed, layers[a], in_layer, gamma[b])
        visited[following[1:]] = passed[1:]


@inner
def ask(within, asked, j, placed, last, prob, gamma):  # type: ignore[no-untyped-def]
    """Hand the probability that j follows (S, T) on to the sums of parent sets that γ_j(S, T) has."""
    if placed == 0:
        asked[j, -1, 0] += prob
        return
    among, t = placed, 0
    while last >> t:
        if last >> t & 1:
            asked[j, t, among] += prob * math.exp(within[j, t, among] - gamma)
            among ^= 1 << t
        t += 1


@inner
def choose(rng, log_terms, log_total):  # type: ignore[no-untyped-def]
    """A position with probability exp(log_terms - log_total)."""
    left, chosen = rng.random(), -1
    for u in range(len(log_terms)):
        p = math.exp(log_terms[u] - log_total)
        if p > 0.0:
            chosen = u
            left -= p
            if left < 0.0:
                break
    return chosen


@inner
def draw_parents(rng, weight, held, free, log_total):  # type: ignore[no-untyped-def]
    """P with `held` ⊆ P ⊆ `held` ∪ `free`, by weight."""
    left, chosen, more = rng.random(), -1, free
    while True:
        p = math.exp(weight[held | more] - log_total)
        if p > 0.0:
            chosen = held | more
            left -= p
            if left < 0.0:
                break
        if more == 0:
            break
        more = (more - 1) & free
    return chosen


@compiled
def draw_layers(rng, weight, within, message, n):  # type: ignore[no-untyped-def]
    """The parent sets of all nodes in n independent DAGs."""
    d = len(within)
    digits, everything = 3 ** np.arange(d), (1 << d) - 1
    drawn, log_firsts = np.zeros((n, d), np.int64), np.empty(d)
    for i in range(n):
        placed, last = 0, 0
        while placed != everything:
            rest = members(everything ^ placed)
            gamma, log_terms = np.empty(len(rest)), np.empty(1 << len(rest))
            here = digits[members(placed)].sum()
            layer_weights(within, placed, last, rest, gamma)
            next_layers(message[here + 2 * subset_sums(digits[rest])], gamma, log_terms)
            chosen = choose(rng, log_terms, message[here + digits[members(last)].sum()])
            layer = 0
            for b in members(chosen):
                j = rest[b]
                layer |= 1 << j
                among, firsts = placed, members(last)
                for c in range(len(firsts)):
                    log_firsts[c] = within[j, firsts[c], among]
                    among ^= 1 << firsts[c]
                if placed:
                    c = choose(rng, log_firsts[: len(firsts)], gamma[b])
                    for e in range(len(firsts) - 1, c, -1):
                        among |= 1 << firsts[e]
                    drawn[i, j] = draw_parents(rng, weight[j], 1 << firsts[c], among, log_firsts[c])
            placed, last = placed | layer, layer
    return drawn


@compiled
def order_messages(within, message, first, last):  # type: ignore[no-untyped-def]
    """Fill in B(S)."""
    d = len(within)
    for placed in range(len(message) - 2 - first, len(message) - 2 - last, -1):
        total = -np.inf
        for j in range(d):
            if not placed >> j & 1:
                total = log_add(total, within[j, -1, placed] + message[placed | 1 << j])
        message[placed] = total


@compiled
def order_visits(within, message, visited, asked, first, last):  # type: ignore[no-untyped-def]
    """Hand on the probabilities of all S, 1 of the empty set, and add up `asked`."""
    d = len(within)
    for placed in range(first, last):
        for j in range(d):
            if visited[placed] > 0.0 and not placed >> j & 1:
                p = visited[placed] * math.exp(within[j, -1, placed] + message[placed | 1 << j] - message[placed])
                visited[placed | 1 << j] += p
                asked[j, -1, placed] = p


@compiled
def draw_orders(rng, weight, within, message, n):  # type: ignore[no-untyped-def]
    """The parent sets of all nodes in n independent DAGs, each with an order that is not kept."""
    d = len(within)
    drawn, log_terms = np.zeros((n, d), np.int64), np.empty(d)
    for i in range(n):
        placed = 0
        for _ in range(d):
            for j in range(d):
                placed_before = placed >> j & 1
                log_terms[j] = -np.inf if placed_before else within[j, -1, placed] + message[placed | 1 << j]
            j = choose(rng, log_terms, message[placed])
            drawn[i, j] = draw_parents(rng, weight[j], 0, placed, within[j, -1, placed])
            placed |= 1 << j
    return drawn


@compiled
def log_orders_of(parents):  # type: ignore[no-untyped-def]
    """`graph.enumerate.log_orders` of many DAGs, each as the parent sets of its nodes."""
    n, d = parents.shape
    log_orders, count = np.empty(n), np.empty(1 << d)
    for i in range(n):
        count[:] = 0.0
        count[0] = 1.0
        for prefix in range(len(count) - 1):
            if count[prefix] > 0.0:
                for j in range(d):
                    if not prefix >> j & 1 and not parents[i, j] & ~prefix:
                        count[prefix | 1 << j] += count[prefix]
        log_orders[i] = math.log(count[-1])
    return log_orders
