"""The local terms of exact inference: all parent sets and all columns of states that the prior leaves to a node.

A column S_:j holds the states of node j in all contexts; score_j(parents, column) = log evidence + log prior of both.
"""

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int8

from bacadi.errors import ConfigError, InferenceError
from bacadi.evidence.collapsed import CollapsedPosterior, StructurePrior

# Local terms of linear models (1.3 µs each) and of others (20 µs at least): a minute, and minutes.
MAX_LOCAL_TERMS, MAX_COSTLY_TERMS = 40_000_000, 4_000_000


class ExactDraws(NamedTuple):
    """Pairs (G, S), their normalised log weights and log p(G, S | D)."""

    graphs: Int8[np.ndarray, "n d d"]
    states: Int8[np.ndarray, "n M d"]
    log_weight: Float[np.ndarray, " n"]
    log_prob: Float[np.ndarray, " n"]

    def repeated(self, n: int) -> "ExactDraws":
        """The same law with a pair of weight w listed ⌈w n⌉ times, each with its share of w.

        One draw of parameters for a pair that has half of the weight would say nothing of their spread.
        """
        times = np.ceil(np.exp(self.log_weight) * n).astype(int)
        shared = self._replace(log_weight=self.log_weight - np.log(np.maximum(times, 1)))
        return ExactDraws(*(np.repeat(part, np.maximum(times, 1), axis=0) for part in shared))


class Choices(NamedTuple):
    """What the prior leaves to a node: its parents as masks, and its states in all contexts."""

    parents: Bool[np.ndarray, "P d"]
    columns: Int8[np.ndarray, "C M"]


def all_choices(prior: StructurePrior, costly: bool) -> list[Choices]:
    """The choices of every node, or a refusal where there are more than can be scored in a minute or some."""
    m, d, _ = prior.state_log_prior.shape
    sets = ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(bool)
    sets = sets[sets.sum(axis=1) <= prior.max_parents]
    parents, states = [], []
    for j in range(d):
        broken = sets[:, j] | (sets & prior.forbidden[:, j] | ~sets & prior.required[:, j]).any(axis=1)
        parents.append(sets[~broken])
        states.append([np.flatnonzero(prior.state_log_prior[k, j] > -np.inf) for k in range(m)])
    if empty := [(k, j) for k in range(m) for j in range(d) if not len(states[j][k])]:
        raise ConfigError("No state is left to variable {1} in context {0}; allow one.".format(*empty[0]))
    _check_terms(parents, states, MAX_COSTLY_TERMS if costly else MAX_LOCAL_TERMS)
    columns = [np.array(list(product(*node)), np.int8).reshape(prod(len(s) for s in node), m) for node in states]
    return [Choices(*node) for node in zip(parents, columns, strict=True)]


def _check_terms(parents: Sequence[np.ndarray], states: Sequence[Sequence[np.ndarray]], limit: int) -> None:
    n_terms = sum(len(p) * prod(len(s) for s in node) for p, node in zip(parents, states, strict=True))
    if n_terms > limit:
        raise ConfigError(
            f"Exact inference over {len(states)} variables and {len(states[0])} contexts needs {n_terms} local terms "
            f"and takes at most {limit}; use --method mcmc, limit the parents, or leave the targets of fewer contexts "
            "open."
        )


def local_scores(
    j: int, collapsed: CollapsedPosterior, parents: Bool[np.ndarray, "P d"], columns: Int8[np.ndarray, "C M"]
) -> Float[np.ndarray, "P C"]:
    """score_j of all pairs of these parents and columns."""
    prior, (p, c) = collapsed.prior, (len(parents), len(columns))
    requests = np.full(p * c, j), np.repeat(parents, c, axis=0), np.tile(columns, (p, 1))
    log_evidence = collapsed.evidence.log_evidences(*requests).reshape(p, c)
    log_odds = np.where(np.isfinite(prior.edge_log_odds[:, j]), prior.edge_log_odds[:, j], 0.0)
    log_states = prior.state_log_prior[np.arange(columns.shape[1]), j, columns].sum(axis=1)
    scores = log_evidence + (parents @ log_odds)[:, None] + log_states
    if np.isnan(scores).any() or np.isposinf(scores).any():
        raise InferenceError(f"The evidence of variable {j} is not a number or infinite; standardise the data.")
    return scores
