"""Empirical Bayes for Gaussian processes: which kernel and noise ratio each node has, chosen before sampling.

Evidence of a node depends on its parents, which are not known yet; a guess stands in for them: variables that few
contexts move come early in a causal order, and each node takes greedily, of those before it, what explains it.

The scale s² of a node is integrated out, so that nodes may well share the rest. Chosen for each node, options follow
its noise: on the networks of the paper (20 variables) graphs then had a quarter more edges than with one for all.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float

from bacadi.data.context import ContextData
from bacadi.data.shifts import MOVED, shifts
from bacadi.model.collapsed import EffectKind
from bacadi.model.factors_gp import Group

if TYPE_CHECKING:
    from bacadi.model.gaussian_process import KernelEvidence, Table

MIN_GAIN = 2.0  # of log evidence for another parent of the guess
ROUNDS = 2  # of a guess, and options for it


def chosen_groups(alone: Mapping[Group, "KernelEvidence"], data: ContextData, per_node: bool) -> list[Group]:
    """The group of each node: the best for all together, or the best for each that the guess explains at all.

    `alone` has, for every group, the evidence in which all nodes are of it.
    """
    options = list(alone)
    order = np.argsort((shifts(data) > MOVED).sum(axis=0), kind="stable")
    best, choice = len(options) // 2, np.zeros(data.n_variables, int)
    for _ in range(ROUNDS):
        parents = guessed_parents(alone[options[best]], order)
        scores = np.array([np.diagonal(_scores(evidence, parents)) for evidence in alone.values()])
        explained = parents.any(axis=1)  # without parents there is nothing to learn of functions
        best = int(scores[:, explained].sum(axis=1).argmax()) if explained.any() else best
        choice = np.where(per_node & explained, scores.argmax(axis=0), best)
    return [options[i] for i in choice]


def guessed_parents(evidence: "KernelEvidence", order: np.ndarray) -> Bool[np.ndarray, "d d"]:
    """Row j: the parents that a forward search finds for node j among the variables before it."""
    d = evidence.n_variables
    found = np.zeros((d, d), bool)
    for place, node in enumerate(order.tolist()):
        score, options = _scores(evidence, found[node][None])[0, node], set(order[:place].tolist())
        while options:
            tried = np.repeat(found[node][None], len(options), axis=0)
            tried[np.arange(len(options)), list(options)] = True
            scores = _scores(evidence, tried)[:, node]
            best = int(scores.argmax())
            if scores[best] < score + MIN_GAIN:
                break
            found[node], score = tried[best], scores[best]
            options -= set(np.flatnonzero(found[node]).tolist())
    return found


def _scores(evidence: "KernelEvidence", parents: Bool[np.ndarray, "B d"]) -> Float[np.ndarray, "B d"]:
    """Evidence of all columns given each parent set. A context counts as a hard target where that is likelier, so that
    rows a mechanism does not explain do not spoil it."""
    hard = evidence.states.hard_log_evidence if EffectKind.HARD in evidence.states.kind else None

    def score(table: "Table") -> Float[np.ndarray, " d"]:
        gains = table.log_p[1:] - table.log_p[0]
        return table.log_p[0] + (0.0 if hard is None else np.maximum(gains + hard, 0).sum(axis=0))

    return np.array([score(table) for table in evidence.tables(parents, 0)])
