"""The collapsed posterior itself, for few variables: all DAGs, the states of the variables summed out exactly.

log p(G, S | D) is a sum over nodes j of score_j(parents, column), with the column S_:j of the states of j in all
contexts, plus what looks at several nodes at once: the out-degrees, added for each DAG, and the number of targets in a
context. The latter is carried along as a count: with n the targets of nodes before j in each context whose prior on
the number of targets is not constant,

    B_j(G, n) = log Σ_c exp(score_j(G_:j, c) + B_{j+1}(G, n + [c > 0])),   B_d(G, n) = Σ_k log p(n_k),

and log p(G | D) = B_0(G, 0) + out-degrees + const. B_j depends on the parents of the nodes from j on alone, so it is
made once for all DAGs that share them; without a prior on the number of targets n is empty and B a plain sum.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8
from scipy.special import logsumexp

from bacadi.config.choices import option
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError, InferenceError
from bacadi.evidence.collapsed import CollapsedPosterior, StructurePrior
from bacadi.graph.enumerate import MAX_DAG_NODES, all_dags, log_orders
from bacadi.inference.collapsed import AbstractCollapsedMethod, collapsed_problem, posterior_fields
from bacadi.inference.method import Monitor, Problem
from bacadi.model.model import Model
from bacadi.posterior.posterior import EXACT_EDGES, EXACT_TARGETS, Posterior

# Calls of the evidence, and terms of sums over counts of targets (some 0.1 µs each): a minute at most.
MAX_LOCAL_TERMS, MAX_COUNT_TERMS = 4_000_000, 300_000_000
_LOG_TINY = float(np.log(1e-12))


class Exact(AbstractCollapsedMethod):
    """Enumeration of all graphs of at most five variables, targets summed out.

    The posterior lists every (graph, states) with its probability where there are at most `max_pairs` of them;
    otherwise it holds `n_draws` independent draws and the exact marginals beside them.
    """

    n_draws: int = option(10_000, least=1)
    max_pairs: int = option(20_000, least=0)

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.data.n_variables > MAX_DAG_NODES:
            raise ConfigError(
                f"--method exact lists all graphs of at most {MAX_DAG_NODES} variables and the data have "
                f"{problem.data.n_variables}; use --method mcmc."
            )

    def fit(self, problem: Problem, monitor: Monitor) -> Posterior:
        """List all graphs and states, or draw from them."""
        collapsed = collapsed_problem(problem)
        exact, rng = enumerate_posterior(collapsed), np.random.default_rng(problem.seed)
        draws = exact.weighted(self.max_pairs) or exact.draws(rng, self.n_draws)
        graphs, states = draws.graphs[None], draws.states[None]
        log_p = np.array([exact.log_prob(*pair) for pair in zip(draws.graphs, draws.states, strict=True)])
        fields = posterior_fields(rng, problem, collapsed, graphs, states)
        fields["constant_data"][EXACT_EDGES] = Labelled(exact.edge_marginals, ("source", "target"))
        fields["constant_data"][EXACT_TARGETS] = Labelled(exact.target_marginals, ("context", "node"))
        weight, attrs = draws.log_weight[None], {"log_evidence": exact.log_evidence}
        return Posterior.from_draws(
            problem.data, graphs, states > 0, log_p[None], weighting=lambda _: weight, attrs=attrs, **fields
        )

    def opening(self, model: Model | None = None) -> str:
        return "listing all graphs"


class ExactDraws(NamedTuple):
    """Pairs (G, S) and their normalised log weights."""

    graphs: Int8[np.ndarray, "n d d"]
    states: Int8[np.ndarray, "n M d"]
    log_weight: Float[np.ndarray, " n"]


class Options(NamedTuple):
    """Parent sets and columns of states that the prior leaves to a node. Columns share a pattern if they make it a
    target in the same ones of the K contexts that have a prior on counts."""

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
    """A node's terms: `scores[p, c]` = log evidence + log prior, and `log_sum[p, t]`, the sum over a pattern."""

    options: Options
    suffixes: Suffixes
    scores: Float[np.ndarray, "P C"]
    log_sum: Float[np.ndarray, "P t"]

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
        for j, (node, probs) in enumerate(zip(self.nodes, self.pattern_probs, strict=True)):
            # p(column | parents, pattern, D), in which no other node has a say; 0 in a pattern without probability.
            log_sum = node.log_sum[:, node.options.pattern_of]
            within = np.exp(node.scores - np.where(np.isfinite(log_sum), log_sum, 0.0))
            weight = (probs[:, node.options.pattern_of] * within).sum(axis=0)
            for s in range(marginals.shape[-1]):
                marginals[:, j, s] = weight @ (node.options.columns == s)
        return np.minimum(marginals, 1.0)

    @property
    def target_marginals(self) -> Float[np.ndarray, "M d"]:
        """p(j is a target in context k | D)."""
        return np.minimum(self.state_marginals[:, :, 1:].sum(axis=2), 1.0)

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
        return ExactDraws(self.dags[dag], self._states(chosen), np.full(n, -np.log(n)))

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
        return ExactDraws(self.dags[dag], self._states(chosen), log_weight - logsumexp(log_weight))

    def _states(self, chosen: list[np.ndarray]) -> Int8[np.ndarray, "n M d"]:
        return np.stack([node.options.columns[c] for node, c in zip(self.nodes, chosen, strict=True)], axis=2)

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
    options = _all_options(prior, coupled)
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


def _all_options(prior: StructurePrior, coupled: np.ndarray) -> list[Options]:
    m, d, _ = prior.state_log_prior.shape
    sets = ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(bool)
    sets = sets[sets.sum(axis=1) <= prior.max_parents]
    parents, states = [], []
    for j in range(d):
        broken = sets[:, j] | (sets & prior.forbidden[:, j] | ~sets & prior.required[:, j]).any(axis=1)
        parents.append(sets[~broken])
        states.append([np.flatnonzero(prior.state_log_prior[k, j] > -np.inf) for k in range(m)])
    n_terms = sum(len(p) * prod(len(s) for s in node) for p, node in zip(parents, states, strict=True))
    if n_terms > MAX_LOCAL_TERMS:
        raise ConfigError(
            f"Exact inference over {d} variables and {m} contexts needs {n_terms} local terms and takes at most "
            f"{MAX_LOCAL_TERMS}; use MCMC, or leave the targets of fewer contexts open."
        )
    if empty := [(k, j) for k in range(m) for j in range(d) if not len(states[j][k])]:
        raise ConfigError("No state is left to variable {1} in context {0}; allow one.".format(*empty[0]))
    columns = [np.array(list(product(*node)), np.int8).reshape(prod(len(s) for s in node), m) for node in states]
    patterns = [np.unique((c[:, coupled] > 0).astype(int), axis=0, return_inverse=True) for c in columns]
    return [Options(p, c, t, of.reshape(-1)) for p, c, (t, of) in zip(parents, columns, patterns, strict=True)]


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
            f"at most {MAX_COUNT_TERMS}; use MCMC, or give that prior to fewer contexts."
        )


def _node(j: int, collapsed: CollapsedPosterior, options: Options, suffixes: Suffixes) -> Node:
    prior, (parents, columns, patterns, pattern_of) = collapsed.prior, options
    nodes, tiled = np.full(len(columns), j), (np.tile(p, (len(columns), 1)) for p in parents)
    log_evidence = np.stack([collapsed.evidence.log_evidences(nodes, p, columns) for p in tiled])
    log_odds = np.where(np.isfinite(prior.edge_log_odds[:, j]), prior.edge_log_odds[:, j], 0.0)
    log_states = prior.state_log_prior[np.arange(columns.shape[1]), j, columns].sum(axis=1)
    scores = log_evidence + (parents @ log_odds)[:, None] + log_states
    if np.isnan(scores).any() or np.isposinf(scores).any():
        raise InferenceError(f"The evidence of variable {j} is not a number or infinite; standardise the data.")
    log_sum = [logsumexp(scores[:, pattern_of == t], axis=1) for t in range(len(patterns))]
    return Node(options, suffixes, scores, np.stack(log_sum, axis=1))


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
