"""Log odds of edges and targets from conditional probabilities, so that .999 and 1 - 10⁻³⁰ differ.

Shares of draws say nothing beyond one in the number of draws. The probability p_l of an edge or a target given the rest
of draw l is known in closed form, and its mean over draws is the same marginal; hence

    log odds = log Σ_l w_l p_l - log Σ_l w_l (1 - p_l),

which agrees with the share of draws where that says anything and goes on where it is 0 or 1. It knows the modes that
were visited and no others.

- Target j of context k: the state of j in k, all states summed, given the graph and all other states.
- Edge i → j: none, i → j or j → i, of those without a cycle, given all other edges and the states.

Both need the local score of one node with one parent or one state changed, and draws share most of their nodes'
parents and states, so that few scores are computed for many draws.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8
from scipy.special import logsumexp

from bacadi.data.labelled import Labelled
from bacadi.evidence.collapsed import AbstractEvidence, CollapsedPosterior, EffectKind, Graphs, States, StructurePrior
from bacadi.evidence.scan import single_changes

MAX_DRAWS = 200
MAX_SCORES, MAX_COSTLY_SCORES, MAX_NUMBERS = 300_000, 4_000, 2e7
"""Scores that are computed at most, but for three sets of parents and states of each node, and numbers that an array
over draws and pairs may have; there are fewer draws where this asks for it."""
_CHUNK = 200_000

PerDraw = Float[np.ndarray, "n d d"]


class LogOdds(NamedTuple):
    """Log odds of edges (NaN on the diagonal) and targets, and the kind of effect that is likeliest at each pair."""

    edges: Float[np.ndarray, "d d"]
    targets: Float[np.ndarray, "M d"]
    kind: Int8[np.ndarray, "M d"]

    def to_stats(self) -> dict[str, Labelled]:
        """As arrays of a posterior's `sample_stats`."""
        return {
            "edge_log_odds": Labelled(self.edges, ("source", "target")),
            "target_log_odds": Labelled(self.targets, ("context", "node")),
            "effect_kind": Labelled(self.kind, ("context", "node")),
        }


def log_odds(
    collapsed: CollapsedPosterior,
    graphs: Graphs,
    states: States,
    log_weight: Float[np.ndarray, " n"] | None = None,
    max_draws: int = MAX_DRAWS,
) -> LogOdds:
    """Log odds of all edges and targets over draws; without weights all draws count the same.

    At most `max_draws` evenly spaced draws are used, fewer where too many scores would be needed.
    """
    at, local = _chosen(collapsed.evidence, graphs, states, max_draws)
    log_weight = np.zeros(len(at)) if log_weight is None else log_weight[at]
    graphs, states = graphs[at], states[at]
    prior, (n, m, d) = collapsed.prior, states.shape
    gain, targets = np.zeros((n, d, d)), np.zeros((2, m, d))
    of_state = np.zeros((m, d, collapsed.evidence.states.n_states))
    n_targets = (states > 0).sum(axis=2)
    for node in range(d):
        found = _scores(collapsed.evidence, node, local[node])
        inverse, own = local[node].inverse, graphs[:, :, node] != 0
        gain[:, :, node] = np.where(own, -1.0, 1.0) * found.toggled[inverse]
        others = n_targets - (states[:, :, node] > 0)
        log_p = found.of_state[inverse] + prior.state_log_prior[:, node]
        counted = prior.target_count_log[np.arange(m), others], prior.target_count_log[np.arange(m), others + 1]
        log_p += np.stack([counted[0], *[counted[1]] * (log_p.shape[2] - 1)], axis=2)
        log_p -= logsumexp(log_p, axis=2, keepdims=True)
        changed = _log_sum(log_p[:, :, 1:], 2)
        share = collapsed.evidence.target_share(node, local[node].parents)[inverse]
        bent = np.log1p(-share, out=np.full_like(share, -np.inf), where=share < 1)
        targets[0, :, node] = logsumexp(log_weight[:, None] + changed + np.log(share), axis=0)
        targets[1, :, node] = logsumexp(log_weight[:, None] + np.logaddexp(log_p[:, :, 0], changed + bent), axis=0)
        of_state[:, node] = logsumexp(log_weight[:, None, None] + log_p, axis=0)
    edges = _edge_log_odds(prior, graphs, gain, log_weight)
    with np.errstate(invalid="ignore"):
        return LogOdds(edges, targets[0] - targets[1], _likeliest_kind(of_state, collapsed.evidence.states.kind))


class _LocalChoices(NamedTuple):
    """The different parents and states that a node has in some draws, and which of them each draw has."""

    parents: Bool[np.ndarray, "U d"]
    state: Int8[np.ndarray, "U M"]
    inverse: Int[np.ndarray, " n"]


class _LocalScores(NamedTuple):
    """Of each local choice: what the score gains with one parent more or less, and with another state in a context."""

    toggled: Float[np.ndarray, "U d"]
    of_state: Float[np.ndarray, "U M T"]


def most_draws(d: int, max_draws: int = MAX_DRAWS) -> int:
    """Draws that are used at most: fewer than `max_draws` where matrices of d variables would fill the memory."""
    return max(min(max_draws, int(MAX_NUMBERS / d**2)), 1)


def most_choices(evidence: AbstractEvidence) -> float:
    """Local choices that are looked at, at most, though one draw always is."""
    d, each = evidence.n_variables, evidence.n_variables + evidence.n_contexts * (evidence.states.n_states - 1)
    return max(MAX_COSTLY_SCORES / each, d) if evidence.costly else max(MAX_SCORES / each, 3 * d)


def local_choices(graphs: Graphs, states: States) -> list[_LocalChoices]:
    """The local choices of all nodes in some draws."""
    return [_distinct(graphs[:, :, node], states[:, :, node]) for node in range(graphs.shape[1])]


def _chosen(
    evidence: AbstractEvidence, graphs: Graphs, states: States, max_draws: int
) -> tuple[Int[np.ndarray, " used"], list[_LocalChoices]]:
    """The draws that are used, and the local choices of all nodes in them."""
    d = evidence.n_variables
    n = min(len(graphs), most_draws(d, max_draws))
    while True:
        at = np.linspace(0, len(graphs) - 1, n).round().astype(int)
        local = local_choices(graphs[at], states[at])
        if n == 1 or sum(len(choices.parents) for choices in local) <= most_choices(evidence):
            return at, local
        n = max(n // 2, 1)


def _distinct(parents: Int8[np.ndarray, "n d"], state: Int8[np.ndarray, "n M"]) -> _LocalChoices:
    rows = np.concatenate([parents, state], axis=1)
    different, inverse = np.unique(rows, axis=0, return_inverse=True)
    d = parents.shape[1]
    return _LocalChoices(different[:, :d] != 0, np.ascontiguousarray(different[:, d:]), inverse.ravel())


def _scores(evidence: AbstractEvidence, node: int, local: _LocalChoices) -> _LocalScores:
    """Scores of a node with each parent toggled and each state changed, less that of the choice itself."""
    d, m, n_states = evidence.n_variables, evidence.n_contexts, evidence.states.n_states
    if evidence.tables is not None:
        found = _LocalScores(np.empty((len(local.parents), d)), np.empty((len(local.parents), m, n_states)))
        single_changes(evidence.tables, node, local.parents, local.state, *found)
        return found
    n, per_choice = len(local.parents), 1 + d + m * n_states
    scores = np.empty((n, per_choice))
    step = max(_CHUNK // per_choice, 1)
    for first in range(0, n, step):
        some = slice(first, first + step)
        parents = np.repeat(local.parents[some, None], per_choice, axis=1)
        states = np.repeat(local.state[some, None], per_choice, axis=1)
        parents[:, np.arange(1, d + 1), np.arange(d)] ^= True
        k, s = (index.ravel() for index in np.indices((m, n_states)))
        states[:, np.arange(1 + d, per_choice), k] = s
        asked = np.ones(parents.shape[:2], bool)
        asked[:, 1 + node] = False  # no variable is its own parent
        asked[:, 1 + d :] = states[:, 0][:, k] != s
        score = np.zeros(asked.shape)
        nodes = np.full(asked.sum(), node)
        score[asked] = evidence.log_evidences(nodes, parents[asked], states[asked])
        scores[some] = np.where(asked, score - score[:, :1], 0.0)
    return _LocalScores(scores[:, 1 : d + 1], scores[:, d + 1 :].reshape(n, m, n_states))


def _edge_log_odds(
    prior: StructurePrior, graphs: Graphs, gain: PerDraw, log_weight: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "d d"]:
    """Log odds of edges; `gain[l, i, j]` is the score of j with i among its parents less that without."""
    has = graphs != 0
    log_p = gain + np.where(np.isfinite(prior.edge_log_odds), prior.edge_log_odds, 0.0)
    children = has.sum(axis=2, keepdims=True) - has  # without the edge in question
    degree = prior.out_degree_log
    log_p += degree[np.minimum(children + 1, len(degree) - 1)] - degree[children]
    around = _surroundings(graphs)
    if prior.over_orders:
        log_p += _log_share_of_orders(around)
    parents = has.sum(axis=1, keepdims=True) - has
    log_p[around.back | prior.forbidden | (parents >= prior.max_parents)] = -np.inf
    required = prior.required
    nothing = np.where(required | required.T, -np.inf, np.zeros_like(log_p))
    log_p = np.where(required.T, -np.inf, log_p)
    other = np.logaddexp(nothing, log_p.transpose(0, 2, 1))
    total = np.logaddexp(log_p, other)
    weight = log_weight[:, None, None]
    with np.errstate(invalid="ignore"):
        odds = _log_sum(weight + log_p - total, 0) - _log_sum(weight + other - total, 0)
    np.fill_diagonal(odds, np.nan)
    return odds


class _Surroundings(NamedTuple):
    """Of each pair (i, j) in each draw, the edge between them taken away: whether j leads to i, so that i → j closes a
    cycle; the number of descendants of i and of ancestors of j."""

    back: Bool[np.ndarray, "n d d"]
    descendants: Int[np.ndarray, "n d d"]
    ancestors: Int[np.ndarray, "n d d"]


def _surroundings(graphs: Graphs) -> _Surroundings:
    d = graphs.shape[1]
    edges = graphs.astype(np.float32)
    reach = np.minimum(edges + np.eye(d, dtype=np.float32), 1)  # by paths of any length, none included
    for _ in range(max(d - 1, 1).bit_length()):
        reach = np.minimum(reach @ reach, 1)
    ways = edges @ reach  # children of i from which v is reached
    from_above = reach @ edges  # parents of j that are reached from u
    longer = (edges @ (reach - np.eye(d, dtype=np.float32))) > 0  # paths of two or more edges
    descendants = np.repeat((ways > 0).sum(axis=2)[:, :, None], d, axis=2)
    ancestors = np.repeat((from_above > 0).sum(axis=1)[:, None, :], d, axis=1)
    at, i, j = np.nonzero(graphs)
    descendants[at, i, j] = ((ways[at, i] - reach[at, j]) > 0).sum(axis=1)
    ancestors[at, i, j] = ((from_above[at, :, j] - reach[at, :, i]) > 0).sum(axis=1)
    return _Surroundings(longer.transpose(0, 2, 1), descendants, ancestors)


def _log_share_of_orders(around: _Surroundings) -> PerDraw:
    """log of the share of the causal orders without the edge that have i before j, where no path says which is first.

    Counting orders is hard; by the approximation of Brüggemann, Sørensen, Lerche and Carlsen (2004) the odds are
    (D_i + 1)(A_j + 1) to (A_i + 1)(D_j + 1), D and A the numbers of descendants and ancestors.
    """
    # The entry (j, i) of `ancestors` is that of i without an edge j → i; there is none where i → j is looked at.
    first = np.log1p(around.descendants) + np.log1p(around.ancestors)
    second = first.transpose(0, 2, 1)
    share = first - np.logaddexp(first, second)
    leads = around.back.transpose(0, 2, 1)  # i leads to j: every order has i first
    return np.where(leads, 0.0, share)


def _likeliest_kind(of_state: Float[np.ndarray, "M d T"], kinds: Int8[np.ndarray, " T"]) -> Int8[np.ndarray, "M d"]:
    """The kind whose states are likeliest together, of those that are targets; 0 where there is none."""
    m, d, _ = of_state.shape
    every = [kind for kind in EffectKind if kind in kinds and kind != EffectKind.NONE]
    if not every:
        return np.zeros((m, d), np.int8)
    by_kind = np.stack([_log_sum(of_state[:, :, kinds == kind], 2) for kind in every])
    return np.array(every, np.int8)[np.argmax(by_kind, axis=0)]


def _log_sum(values: np.ndarray, axis: int) -> np.ndarray:
    """log Σ exp along an axis, which may be empty."""
    if values.shape[axis] == 0:
        return np.full(np.delete(values.shape, axis), -np.inf)
    return logsumexp(values, axis=axis)
