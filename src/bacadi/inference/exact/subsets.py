"""The collapsed posterior of more variables than can be enumerated: sums over all DAGs, by sets of nodes.

Where nothing looks at several nodes at once, the states are summed out of every node alone and

    p(G | D) ∝ Π_j weight_j(parents of j),   log weight_j(P) = log Σ_c exp(score_j(P, c)),

times the number of orders of G where the prior is over orders. `recursions` sums this over all DAGs and hands back the
probability with which a node is to choose its parents among the sets P with t ∈ P ⊆ X, for all X and all t or none, so
that

    p(parents of j = P | D) = weight_j(P) Σ_{t ∈ P, or none} Σ_{X ⊇ P} asked[j, t, X] / exp(within[j, t, X]).

Only sums over columns are kept of the local terms; those of a parent set that is drawn are made again.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8
from scipy.special import logsumexp

from bacadi.errors import ConfigError, InferenceError
from bacadi.evidence.collapsed import CollapsedPosterior, StructurePrior
from bacadi.graph.enumerate import MAX_DAG_NODES
from bacadi.inference.exact.local import Choices, ExactDraws, all_choices, local_scores
from bacadi.inference.exact.recursions import (
    draw_layers,
    draw_orders,
    layer_messages,
    layer_visits,
    log_orders_of,
    order_messages,
    order_visits,
)
from bacadi.inference.method import Monitor, Progress

# Without orders 4^d terms and 3^d numbers, with orders d 2^d local terms and draws of up to 2^d terms each: about a
# minute and half a gigabyte. One variable more takes four times, or twice, as long.
MAX_NODES, MAX_ORDERED_NODES = 15, 18
_BATCH, _COSTLY_BATCH = 2**18, 2**12  # local terms at a time: a fraction of a second

Tell = Callable[[str, int, int], None]
"""Hears of progress: phase, step and steps."""


class Sums(NamedTuple):
    """What is kept of a node's local terms: log Σ_c exp(score_j(P, c)), and p(S_kj = s | P, D)."""

    log_weight: Float[np.ndarray, " P"]
    state_probs: Float[np.ndarray, "P M T"]


class SubsetPosterior(NamedTuple):
    """p(G, S | D) as sums over sets of nodes.

    `log_evidence` = log Σ_{G, S} exp(`CollapsedPosterior.log_posterior`), `parent_probs[j][p]` the probability that j
    has its parent set p; `weight[j, P]` is log weight_j(P) less its maximum over P, with P as bits.
    """

    collapsed: CollapsedPosterior
    choices: tuple[Choices, ...]
    sums: tuple[Sums, ...]
    weight: Float[np.ndarray, "d sets"]
    within: Float[np.ndarray, "d _ sets"]
    messages: Float[np.ndarray, " _"]
    log_evidence: float
    parent_probs: tuple[Float[np.ndarray, " P"], ...]

    @property
    def edge_marginals(self) -> Float[np.ndarray, "d d"]:
        """p(i → j | D)."""
        columns = [probs @ node.parents for probs, node in zip(self.parent_probs, self.choices, strict=True)]
        return np.minimum(np.stack(columns, axis=1), 1.0)

    @property
    def state_marginals(self) -> Float[np.ndarray, "M d T"]:
        """p(S_kj = s | D)."""
        pairs = zip(self.parent_probs, self.sums, strict=True)
        return np.minimum(np.stack([np.tensordot(p, node.state_probs, 1) for p, node in pairs], axis=1), 1.0)

    @property
    def target_marginals(self) -> Float[np.ndarray, "M d"]:
        """p(j is a target in context k | D)."""
        columns = []
        for j, (probs, node, sums) in enumerate(zip(self.parent_probs, self.choices, self.sums, strict=True)):
            share = self.collapsed.evidence.target_share(j, node.parents)
            columns.append(probs @ (sums.state_probs[:, :, 1:].sum(axis=2) * share))
        # A known target is one for certain, whatever the rounding of its states.
        return np.where(self.state_marginals[:, :, 0] == 0, 1.0, np.minimum(np.stack(columns, axis=1), 1.0))

    def draws(self, rng: np.random.Generator, n: int) -> ExactDraws:
        """n independent pairs (G, S) from p(G, S | D)."""
        prior, d = self.collapsed.prior, len(self.choices)
        draw = draw_orders if prior.over_orders else draw_layers
        sets = draw(rng, self.weight, self.within, self.messages, n)
        states = np.zeros((n, len(prior.state_log_prior), d), np.int8)
        log_prob = np.full(n, _constant(prior) - self.log_evidence)
        if prior.over_orders:
            graphs, graph_of = np.unique(sets, axis=0, return_inverse=True)
            log_prob += log_orders_of(graphs)[graph_of.reshape(-1)]
        for j, (parents, columns) in enumerate(self.choices):
            row_of = np.empty(2**d, int)
            row_of[_bits(parents)] = np.arange(len(parents))
            rows, place = np.unique(row_of[sets[:, j]], return_inverse=True)
            groups = np.split(np.argsort(place, kind="stable"), np.cumsum(np.bincount(place))[:-1])
            scored = (scores for batch in _batches(j, self.collapsed, parents[rows], columns) for scores in batch)
            for group, scores in zip(groups, scored, strict=True):
                column = rng.choice(len(columns), len(group), p=np.exp(scores - logsumexp(scores)))
                states[group, :, j], log_prob[group] = columns[column], log_prob[group] + scores[column]
        graphs = ((sets[:, None, :] >> np.arange(d)[:, None]) & 1).astype(np.int8)
        return ExactDraws(graphs, states, np.full(n, -np.log(n)), log_prob)


def check_subsets(prior: StructurePrior) -> None:
    """Refuse what cannot be summed by sets of nodes: too many variables, and priors that look at several at once."""
    d, limit = prior.state_log_prior.shape[1], MAX_ORDERED_NODES if prior.over_orders else MAX_NODES
    if d > limit:
        raise ConfigError(
            f"--method exact sums over all graphs of at most {limit} variables with this graph prior and the data have "
            f"{d}; use --method mcmc."
        )
    if (prior.out_degree_log != prior.out_degree_log[0]).any():
        raise ConfigError(
            f"The graph prior looks at how many children a variable has, which --method exact cannot sum over with {d} "
            f"variables, only with {MAX_DAG_NODES} at most; use --method mcmc or another graph prior."
        )
    if any((counts[1:] != counts[:-1]).any() for counts in _possible_counts(prior)):
        raise ConfigError(
            f"The prior on the number of targets ties variables together, which --method exact cannot sum over with "
            f"{d} of them, only with {MAX_DAG_NODES} at most; use --method mcmc or leave that number open."
        )


def sum_over_subsets(collapsed: CollapsedPosterior, monitor: Monitor) -> SubsetPosterior:
    """p(G, S | D), by dynamic programming over sets of nodes."""
    prior, d, begin = collapsed.prior, collapsed.evidence.n_variables, time.monotonic()
    check_subsets(prior)
    choices = all_choices(prior, collapsed.evidence.costly)

    def tell(phase: str, step: int, total: int) -> None:
        monitor.tell(Progress(step, total, time.monotonic() - begin, phase))

    sums = _all_sums(collapsed, choices, tell)
    weight = np.full((d, 2**d), -np.inf)
    for j, node in enumerate(choices):
        weight[j, _bits(node.parents)] = sums[j].log_weight
    highest = np.maximum(weight.max(axis=1, keepdims=True), np.finfo(float).min)
    weight -= highest
    within = _within(weight, prior.over_orders)
    messages = _messages(within, prior.over_orders, tell)
    if not np.isfinite(messages[0]):
        raise InferenceError(f"No DAG of {d} variables has a probability above 0; loosen the constraints on edges.")
    asked = _asked(within, messages, prior.over_orders, tell)
    probs = [p[_bits(node.parents)] for p, node in zip(_parent_probs(weight, within, asked), choices, strict=True)]
    log_evidence = float(messages[0] + highest.sum() + _constant(prior))
    return SubsetPosterior(collapsed, tuple(choices), sums, weight, within, messages, log_evidence, tuple(probs))


def _all_sums(collapsed: CollapsedPosterior, choices: Sequence[Choices], tell: Tell) -> tuple[Sums, ...]:
    done, total = 0, sum(len(parents) for parents, _ in choices)
    n_states, sums = collapsed.prior.state_log_prior.shape[2], []
    for j, node in enumerate(choices):
        parts = []
        for scores in _batches(j, collapsed, *node):
            parts.append(_summed_out(scores, node.columns, n_states))
            done += len(scores)
            tell("scoring parent sets", done, total)
        sums.append(Sums(*(np.concatenate(part) for part in zip(*parts, strict=True))))
    return tuple(sums)


def _messages(within: Float[np.ndarray, "d _ sets"], over_orders: bool, tell: Tell) -> Float[np.ndarray, " _"]:
    messages = np.zeros((2 if over_orders else 3) ** len(within))
    for chunk in _chunks(len(within), "summing over all graphs", tell):
        (order_messages if over_orders else layer_messages)(within, messages, *chunk)
    return messages


def _asked(
    within: Float[np.ndarray, "d _ sets"], messages: Float[np.ndarray, " _"], over_orders: bool, tell: Tell
) -> Float[np.ndarray, "d _ sets"]:
    visited, asked = np.zeros(len(messages)), np.zeros(within.shape)
    visited[0] = 1.0
    for chunk in _chunks(len(within), "adding up probabilities", tell):
        (order_visits if over_orders else layer_visits)(within, messages, visited, asked, *chunk)
    return asked


def _chunks(d: int, phase: str, tell: Tell) -> Iterator[tuple[int, int]]:
    """All sets but that of all nodes, which leaves nothing to do, in parts; whoever listens hears of each."""
    total = 2**d - 1
    size = max(total // 64, 64)
    for first in range(0, total, size):
        last = min(first + size, total)
        yield first, last
        tell(phase, last, total)


def _possible_counts(prior: StructurePrior) -> list[Float[np.ndarray, " _"]]:
    """log p(n targets) of every context, for those n that its states allow."""
    possible = prior.state_log_prior > -np.inf
    least, most = (~possible[:, :, 0]).sum(axis=1), possible[:, :, 1:].any(axis=2).sum(axis=1)
    return [log_p[a : b + 1] for log_p, a, b in zip(prior.target_count_log, least, most, strict=True)]


def _constant(prior: StructurePrior) -> float:
    """What every graph and all states share: that of out-degrees and numbers of targets."""
    counts = sum(float(log_p[0]) for log_p in _possible_counts(prior))
    return counts + len(prior.out_degree_log) * float(prior.out_degree_log[0])


def _batches(
    j: int, collapsed: CollapsedPosterior, parents: Bool[np.ndarray, "P d"], columns: Int8[np.ndarray, "C M"]
) -> Iterator[Float[np.ndarray, "_ C"]]:
    """`local_scores`, of some parent sets after the other."""
    size = max((_COSTLY_BATCH if collapsed.evidence.costly else _BATCH) // len(columns), 1)
    for first in range(0, len(parents), size):
        yield local_scores(j, collapsed, parents[first : first + size], columns)


def _summed_out(scores: Float[np.ndarray, "P C"], columns: Int8[np.ndarray, "C M"], n_states: int) -> Sums:
    log_weight = logsumexp(scores, axis=1)
    probs = np.exp(scores - np.where(np.isfinite(log_weight), log_weight, 0.0)[:, None])
    return Sums(log_weight, np.stack([probs @ (columns == s) for s in range(n_states)], axis=2))


def _bits(sets: Bool[np.ndarray, "n d"]) -> Int[np.ndarray, " n"]:
    return sets @ 2 ** np.arange(sets.shape[1])


def _holding(t: int, log_values: Float[np.ndarray, "... sets"]) -> Float[np.ndarray, "... sets"]:
    """-∞ for the sets that do not hold t."""
    return np.where(np.arange(log_values.shape[-1]) >> t & 1, log_values, -np.inf)


def _within(weight: Float[np.ndarray, "d sets"], over_orders: bool) -> Float[np.ndarray, "d _ sets"]:
    """log Σ_{P ⊆ X} of the weights: of sets that hold t, for each t, and last of all sets."""
    held = [] if over_orders else [_holding(t, weight) for t in range(len(weight))]
    within = np.stack([*held, weight], axis=1)
    for i in range(len(weight)):
        halves = within.reshape(-1, 2, 2**i)
        np.logaddexp(halves[:, 1], halves[:, 0], out=halves[:, 1])
    return within


def _parent_probs(
    weight: Float[np.ndarray, "d sets"], within: Float[np.ndarray, "d _ sets"], asked: Float[np.ndarray, "d _ sets"]
) -> Iterator[Float[np.ndarray, " sets"]]:
    """p(parents of j = P | D) of every node j, by sums over X ⊇ P."""
    for j in range(len(weight)):
        share = np.full(within[j].shape, -np.inf)
        np.log(asked[j], out=share, where=asked[j] > 0)
        np.subtract(share, within[j], out=share, where=asked[j] > 0)
        for i in range(len(weight)):
            halves = share.reshape(-1, 2, 2**i)
            np.logaddexp(halves[:, 0], halves[:, 1], out=halves[:, 0])
        for t in range(len(share) - 1):
            share[t] = _holding(t, share[t])
        yield np.exp(weight[j] + np.logaddexp.reduce(share, axis=0))
