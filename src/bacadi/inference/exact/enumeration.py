"""The collapsed posterior of at most five variables: all DAGs, one by one, the states of the variables summed out.

log p(G, S | D) is a sum over nodes j of score_j(parents, column), with the column S_:j of the states of j in all
contexts, plus what looks at several nodes at once: the out-degrees, added for each DAG, and the number of targets in a
context. The latter is carried along as a count: with n the targets of nodes before j in each context whose prior on
the number of targets is not constant,

    B_j(G, n) = log Σ_c exp(score_j(G_:j, c) + B_{j+1}(G, n + [c > 0])),   B_d(G, n) = Σ_k log p(n_k),

and log p(G | D) = B_0(G, 0) + out-degrees + const. B_j depends on the parents of the nodes from j on alone, so it is
made once for all DAGs that share them; without a prior on the number of targets n is empty and B a plain sum.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8
from scipy.special import logsumexp

from bacadi.errors import ConfigError, InferenceError
from bacadi.evidence.collapsed import CollapsedPosterior, StructurePrior
from bacadi.graph.enumerate import all_dags, log_orders
from bacadi.inference.exact.local import Choices, ExactDraws, all_choices, local_scores

# Terms of sums over counts of targets, some 0.1 µs each: a minute at most.
MAX_COUNT_TERMS = 300_000_000
_LOG_TINY = float(np.log(1e-12))


class Options(NamedTuple):
    """The `Choices` of a node. Columns share a pattern if they make it a target in the same ones of the K contexts
    that have a prior on counts."""

    parents: Bool[np.ndarray, "P d"]
    columns: Int8[np.ndarray, "C M"]
    patterns: Int[np.ndarray, "t K"]
    pattern_of: Int[np.ndarray, " C"]


class Suffixes(NamedTuple):
    """The parent sets of nodes j, ..., d - 1 that some DAG has: that of j, and the id of the suffix from j + 1 on.
    Sorted by `rest`, in which every id occurs; the suffixes of node 0 are the DAGs."""

    row: Int[np.ndarray, " U"]
    rest: Int[np.ndarray, " U"]


class Node(NamedTuple):
    """A node's terms: `scores[p, c]` = log evidence + log prior, and `log_sum[p, t]`, the sum over a pattern;
    `share[p, k]` of its states other than 0 are those of targets."""

    options: Options
    suffixes: Suffixes
    scores: Float[np.ndarray, "P C"]
    log_sum: Float[np.ndarray, "P t"]
    share: Float[np.ndarray, "P M"]

    def branches(self, j: int, after: np.ndarray) -> Iterator[tuple[int, tuple[slice, ...], np.ndarray]]:
        """For each pattern t: t, where it leads among the counts, and log Σ_{c in t} score_j + B_{j+1}(n + t)."""
        for t, pattern in enumerate(self.options.patterns.tolist()):
            window = (slice(None), *(slice(step, step + j + 1) for step in pattern))
            log_sum = self.log_sum[self.suffixes.row, t].reshape(-1, *[1] * len(pattern))
            yield t, window, log_sum + after[window][self.suffixes.rest]


class ExactPosterior(NamedTuple):
    """p(G, S | D) over all `dags` and all states.

    `log_evidence` = log Σ_{G, S} exp(`CollapsedPosterior.log_posterior`), `messages[j]` is B_j, and
    `pattern_probs[j][p, t]` the probability that j has parent set p and pattern t.
    """

    prior: StructurePrior
    dags: Int8[np.ndarray, "n d d"]
    dag_log_prob: Float[np.ndarray, " n"]
    log_evidence: float
    nodes: tuple[Node, ...]
    messages: tuple[np.ndarray, ...]
    pattern_probs: tuple[np.ndarray, ...]

    @property
    def edge_marginals(self) -> Float[np.ndarray, "d d"]:
        """p(i → j | D)."""
        return np.minimum(np.tensordot(np.exp(self.dag_log_prob), self.dags.astype(float), axes=1), 1.0)

    @property
    def state_marginals(self) -> Float[np.ndarray, "M d T"]:
        """p(S_kj = s | D)."""
        marginals = np.zeros_like(self.prior.state_log_prior)
        for j, (node, probs) in enumerate(self._local_probs()):
            for s in range(marginals.shape[-1]):
                marginals[:, j, s] = probs.sum(axis=0) @ (node.options.columns == s)
        return np.minimum(marginals, 1.0)

    def _local_probs(self) -> Iterator[tuple[Node, Float[np.ndarray, "P C"]]]:
        """Of every node p(parents, column | D)."""
        for node, probs in zip(self.nodes, self.pattern_probs, strict=True):
            # p(column | parents, pattern, D), in which no other node has a say; 0 in a pattern without probability.
            log_sum = node.log_sum[:, node.options.pattern_of]
            within = np.exp(node.scores - np.where(np.isfinite(log_sum), log_sum, 0.0))
            yield node, probs[:, node.options.pattern_of] * within

    @property
    def target_marginals(self) -> Float[np.ndarray, "M d"]:
        """p(j is a target in context k | D)."""
        columns = [(probs @ (node.options.columns > 0) * node.share).sum(axis=0) for node, probs in self._local_probs()]
        # A known target is one for certain, whatever the rounding of its states.
        return np.where(self.state_marginals[:, :, 0] == 0, 1.0, np.minimum(np.stack(columns, axis=1), 1.0))

    def log_prob(self, graph: Int8[np.ndarray, "d d"], states: Int8[np.ndarray, "M d"]) -> float:
        """log p(G, S | D), normalised; -∞ where G is no DAG or a constraint is broken."""
        if not (self.dags == graph).all(axis=(1, 2)).any():
            return -np.inf
        count = self.prior.target_count_log[np.arange(len(states)), (states > 0).sum(axis=1)].sum()
        log_p = float(_log_shape(self.prior, graph[None])[0]) + count - self.log_evidence
        for j, node in enumerate(self.nodes):
            row = (node.options.parents == graph[:, j].astype(bool)).all(axis=1)
            column = (node.options.columns == states[:, j]).all(axis=1)
            log_p += node.scores[row][:, column].sum() if column.any() else -np.inf
        return float(log_p)

    def draws(self, rng: np.random.Generator, n: int) -> ExactDraws:
        """n independent pairs (G, S) from p(G, S | D)."""
        probs = np.exp(self.dag_log_prob)
        dag = rng.choice(len(self.dags), n, p=probs / probs.sum())
        chosen: list[np.ndarray] = []
        for _ in self.nodes:
            column = np.zeros(n, int)
            for members, log_p in self._conditionals(dag, chosen):
                column[members] = rng.choice(len(log_p), len(members), p=np.exp(log_p - logsumexp(log_p)))
            chosen.append(column)
        return self._pairs(dag, chosen, np.full(n, -np.log(n)))

    def weighted(self, limit: int) -> ExactDraws | None:
        """All pairs (G, S) with their weights, or None where there are more than `limit`.

        DAGs, and columns of states given the DAG and the columns before, of probability < 1e-12 are left out.
        """
        dag = np.flatnonzero(self.dag_log_prob >= _LOG_TINY)
        log_weight, chosen = self.dag_log_prob[dag], list[np.ndarray]()
        for _ in self.nodes:
            parts, size = [], 0
            for members, log_p in self._conditionals(dag, chosen):
                columns, n = np.flatnonzero(log_p >= _LOG_TINY), len(members)
                size += n * len(columns)
                if size > limit:
                    return None
                parts.append((np.repeat(members, len(columns)), np.tile(columns, n), np.tile(log_p[columns], n)))
            origin, column, log_p = (np.concatenate(part) for part in zip(*parts, strict=True))
            dag, log_weight = dag[origin], log_weight[origin] + log_p
            chosen = [*(earlier[origin] for earlier in chosen), column]
        return self._pairs(dag, chosen, log_weight - logsumexp(log_weight))

    def _pairs(self, dag: np.ndarray, chosen: list[np.ndarray], log_weight: np.ndarray) -> ExactDraws:
        graphs = self.dags[dag]
        states = np.stack([node.options.columns[c] for node, c in zip(self.nodes, chosen, strict=True)], axis=2)
        log_prob = np.array([self.log_prob(*pair) for pair in zip(graphs, states, strict=True)])
        return ExactDraws(graphs, states, log_weight, log_prob)

    def _conditionals(self, dag: np.ndarray, chosen: list[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """log p(column of node j | DAG, `chosen` columns of the nodes before, D), once for all pairs that share it."""
        suffix, counts = dag, np.zeros((len(dag), self.messages[0].ndim - 1), int)
        for node, column in zip(self.nodes, chosen, strict=False):
            suffix = node.suffixes.rest[suffix]
            counts = counts + node.options.patterns[node.options.pattern_of[column]]
        node, before, after = self.nodes[len(chosen)], *self.messages[len(chosen) : len(chosen) + 2]
        added = node.options.patterns[node.options.pattern_of]
        places, place_of = np.unique(np.column_stack([suffix, counts]), axis=0, return_inverse=True)
        order = np.argsort(place_of, kind="stable")
        groups = np.split(order, np.cumsum(np.bincount(place_of))[:-1])
        for place, members in zip(places, groups, strict=True):
            reached = after[(node.suffixes.rest[place[0]], *(place[1:] + added).T)]
            yield members, node.scores[node.suffixes.row[place[0]]] + reached - before[tuple(place)]


def enumerate_posterior(collapsed: CollapsedPosterior) -> ExactPosterior:
    """p(G, S | D) of d ≤ 5 variables, by all DAGs and all columns of states."""
    prior = collapsed.prior
    coupled = np.flatnonzero((prior.target_count_log != prior.target_count_log[:, :1]).any(axis=1))
    options = [_options(choices, coupled) for choices in all_choices(prior, collapsed.evidence.costly)]
    dags, suffixes = _all_suffixes([option.parents for option in options])
    _check_counts(suffixes, [option.patterns for option in options])
    nodes = tuple(_node(j, collapsed, *local) for j, local in enumerate(zip(options, suffixes, strict=True)))
    messages = _messages(prior.target_count_log[coupled], nodes)
    constant = np.delete(prior.target_count_log, coupled, axis=0)[:, 0].sum()
    log_p = messages[0].reshape(-1) + _log_shape(prior, dags) + constant
    log_evidence = float(logsumexp(log_p))
    if not np.isfinite(log_evidence):
        raise InferenceError(f"All of {len(dags)} DAGs have probability 0; loosen the constraints on targets.")
    probs = _pattern_probs(np.exp(log_p - log_evidence), nodes, messages)
    return ExactPosterior(prior, dags, log_p - log_evidence, log_evidence, nodes, messages, probs)


def _log_shape(prior: StructurePrior, dags: Int8[np.ndarray, "n d d"]) -> Float[np.ndarray, " n"]:
    """What a graph adds to log p(G) beyond its edges."""
    log_p = prior.out_degree_log[dags.sum(axis=2)].sum(axis=1)
    return log_p + np.array([log_orders(dag) for dag in dags]) if prior.over_orders else log_p


def _options(choices: Choices, coupled: np.ndarray) -> Options:
    patterns, pattern_of = np.unique((choices.columns[:, coupled] > 0).astype(int), axis=0, return_inverse=True)
    return Options(*choices, patterns, pattern_of.reshape(-1))


def _all_suffixes(parents: Sequence[Bool[np.ndarray, "_ d"]]) -> tuple[Int8[np.ndarray, "n d d"], list[Suffixes]]:
    """The DAGs that the parent sets allow, and their suffixes, each once."""
    d = len(parents)
    dags, bits = all_dags(d), 2 ** np.arange(d)
    row_of = np.full((d, 2**d), -1)
    for j in range(d):
        row_of[j, parents[j] @ bits] = np.arange(len(parents[j]))
    rows = row_of[np.arange(d), np.einsum("i,nij->nj", bits, dags)]
    dags, rows = dags[(rows >= 0).all(axis=1)], rows[(rows >= 0).all(axis=1)]
    if len(dags) == 0:
        raise ConfigError(f"No DAG of {d} variables meets the constraints on edges; forbid, require or limit fewer.")
    suffix, suffixes = np.zeros(len(dags), int), list[Suffixes]()
    for j in reversed(range(d)):
        keys, first, suffix = np.unique(suffix * len(parents[j]) + rows[:, j], return_index=True, return_inverse=True)
        rest, row = np.divmod(keys, len(parents[j]))
        suffixes.insert(0, Suffixes(row, rest))
    return dags[first], suffixes


def _check_counts(suffixes: Sequence[Suffixes], patterns: Sequence[Int[np.ndarray, "_ K"]]) -> None:
    k, pairs = patterns[0].shape[1], zip(suffixes, patterns, strict=True)
    size = sum(len(suffix.row) * len(pattern) * (j + 1) ** k for j, (suffix, pattern) in enumerate(pairs))
    if size > MAX_COUNT_TERMS:
        raise ConfigError(
            f"A prior on the number of targets in {k} contexts needs sums of {size} terms and exact inference takes "
            f"at most {MAX_COUNT_TERMS}; use --method mcmc, or give that prior to fewer contexts."
        )


def _node(j: int, collapsed: CollapsedPosterior, options: Options, suffixes: Suffixes) -> Node:
    parents, columns, patterns, pattern_of = options
    scores = np.concatenate([local_scores(j, collapsed, row[None], columns) for row in parents])
    log_sum = [logsumexp(scores[:, pattern_of == t], axis=1) for t in range(len(patterns))]
    share = collapsed.evidence.target_share(j, parents)
    return Node(options, suffixes, scores, np.stack(log_sum, axis=1), share)


def _messages(count_log: Float[np.ndarray, "K _"], nodes: Sequence[Node]) -> tuple[np.ndarray, ...]:
    """B_0, ..., B_d, each an array [suffix, count in the first coupled context, count in the second, ...]."""
    messages = [sum(np.ix_(np.zeros(1), *count_log), np.zeros(()))]
    for j in reversed(range(len(nodes))):
        message = np.array(-np.inf)
        for _, _, branch in nodes[j].branches(j, messages[0]):
            message = np.logaddexp(message, branch)
        messages.insert(0, message)
    return tuple(messages)


def _pattern_probs(
    dag_probs: Float[np.ndarray, " n"], nodes: Sequence[Node], messages: Sequence[np.ndarray]
) -> tuple[np.ndarray, ...]:
    """p(parents of j, pattern of j | D) of every node, the probability of the DAGs handed on from node to node."""
    mass, probs = dag_probs.reshape(messages[0].shape), []
    for j, node in enumerate(nodes):
        here, passed = np.zeros(node.log_sum.shape), np.zeros(messages[j + 1].shape)
        normaliser = np.where(np.isfinite(messages[j]), messages[j], 0.0)
        first = np.searchsorted(node.suffixes.rest, np.arange(len(passed)))
        for t, window, branch in node.branches(j, messages[j + 1]):
            part = mass * np.exp(branch - normaliser)
            here[:, t] = np.bincount(node.suffixes.row, part.reshape(len(part), -1).sum(axis=1), len(here))
            passed[window] += np.add.reduceat(part, first, axis=0)
        probs.append(here)
        mass = passed
    return tuple(probs)
