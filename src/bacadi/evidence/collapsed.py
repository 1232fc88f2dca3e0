"""The collapsed reading of the model: p(G, I | D) with mechanism parameters and effects integrated out.

Every variable has a state in every context: 0 where its mechanism is untouched, s ≥ 1 where an effect of kind s acts on
it. Then

    log p(G, S | D) = Σ_j log p(x_:j | parents of j, S_:j) + log p(G) + log p(S) + const,

a sum of local terms coupled by acyclicity alone. `AbstractEvidence` gives the local terms, `StructurePrior` the rest;
samplers and enumeration need nothing else. Everything here is NumPy in float64.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from jaxtyping import Bool, Float, Int8

from bacadi.data.labelled import Labelled
from bacadi.graph.enumerate import log_orders


class EffectKind(IntEnum):
    """What an effect does to the mechanism of its target."""

    NONE = 0
    HARD = 1  # parents cut off, a mean and noise of its own
    SHIFT = 2  # mechanism plus a constant
    SCALE = 3  # mechanism with another noise variance
    SOFT = 4  # same parents, new parameters


@dataclass(frozen=True)
class States:
    """The states of a variable in a context; state 0 is the untouched mechanism.

    `value[s]` is the prior standard deviation of a shift in units of the noise, or the ratio of variances of a scale
    effect (a scale effect of unknown ratio is one state for each ratio of a grid). `log_share[s]` is the log prior
    probability of the state given that the variable is a target. `hard_log_evidence[k, j]` is the log density of
    the rows of context k of variable j under a hard effect, its mean (and noise) integrated out.
    """

    names: tuple[str, ...]
    kind: Int8[np.ndarray, " T"]
    value: Float[np.ndarray, " T"]
    log_share: Float[np.ndarray, " T"]
    hard_log_evidence: Float[np.ndarray, "M d"]

    @property
    def n_states(self) -> int:
        return len(self.names)

    def effects(self) -> list[tuple[str, int, float, float]]:
        """Name, kind, value and log share of every state but the untouched one."""
        columns = (self.names, self.kind.tolist(), self.value.tolist(), self.log_share.tolist())
        return list(zip(*columns, strict=True))[1:]


class AbstractEvidence(ABC):
    """Local terms of the collapsed posterior."""

    n_variables: int
    n_contexts: int
    states: States
    costly: bool = True  # a score takes milliseconds; samplers then ask for fewer of them
    has_hyperparameters: bool = True  # nothing is left to choose before sampling

    @abstractmethod
    def log_evidence(self, node: int, parents: Bool[np.ndarray, " d"], state: Int8[np.ndarray, " M"]) -> float:
        """log p(all rows of column `node` | its parents, its state in each context), the parameters integrated out."""

    def log_evidences(
        self, nodes: np.ndarray, parents: Bool[np.ndarray, "B d"], states: Int8[np.ndarray, "B M"]
    ) -> Float[np.ndarray, " B"]:
        """`log_evidence` of many requests; override it where a batch is cheaper than one after the other."""
        requests = zip(nodes.tolist(), parents, states, strict=True)
        return np.array([self.log_evidence(*request) for request in requests], float)

    def fit_hyperparameters(
        self, graph: Int8[np.ndarray, "d d"], states: Int8[np.ndarray, "M d"]
    ) -> "AbstractEvidence":
        """The evidence with what is left to choose as this structure has it likeliest (empirical Bayes)."""
        return self

    def draw_parameters(
        self, rng: np.random.Generator, graphs: Int8[np.ndarray, "n d d"], states: Int8[np.ndarray, "n M d"]
    ) -> dict[str, Labelled]:
        """Parameters of the mechanisms from p(Θ | G, S, D), one set a draw, and the constants that give them meaning;
        nothing where there is none to be had."""
        return {}


@dataclass(frozen=True)
class StructurePrior:
    """log p(G) + log p(S) with all constraints, as arrays.

    log p(G) = Σ_{i → j} edge_log_odds[i, j] + Σ_i out_degree_log[out-degree of i], for acyclic graphs without a
    forbidden edge (-∞), with every required one (+∞, which adds 0) and at most `max_parents` parents a node. With
    `over_orders` this is log p(G, π) for each causal order π of G, so that p(G) is as many times as large.
    log p(S) = Σ_kj state_log_prior[k, j, S_kj] + Σ_k target_count_log[k, number of targets in context k]; a state
    of -∞ never occurs.
    """

    edge_log_odds: Float[np.ndarray, "d d"]
    out_degree_log: Float[np.ndarray, " d"]
    max_parents: int
    state_log_prior: Float[np.ndarray, "M d T"]
    target_count_log: Float[np.ndarray, "M d+1"]
    over_orders: bool = False

    @property
    def forbidden(self) -> Bool[np.ndarray, "d d"]:
        return np.isneginf(self.edge_log_odds)

    @property
    def required(self) -> Bool[np.ndarray, "d d"]:
        return np.isposinf(self.edge_log_odds)

    def log_prob_graph(self, graph: Int8[np.ndarray, "d d"]) -> float:
        """log p(G) up to a constant; -∞ where a constraint is broken. Acyclicity is not checked."""
        return self.log_prob_ordered(graph) + (log_orders(graph) if self.over_orders else 0.0)

    def log_prob_ordered(self, graph: Int8[np.ndarray, "d d"]) -> float:
        """`log_prob_graph` without the number of orders: of the graph with one of them."""
        edges = np.asarray(graph, bool)
        if (
            (edges & self.forbidden).any()
            or (self.required & ~edges).any()
            or edges.sum(axis=0).max() > self.max_parents
        ):
            return -np.inf
        soft = np.where(np.isfinite(self.edge_log_odds), self.edge_log_odds, 0.0)
        return float(soft[edges].sum() + self.out_degree_log[edges.sum(axis=1)].sum())

    def log_prob_states(self, states: Int8[np.ndarray, "M d"]) -> float:
        """log p(S) up to a constant."""
        m, d = states.shape
        single = self.state_log_prior[np.arange(m)[:, None], np.arange(d)[None, :], states].sum()
        return float(single + self.target_count_log[np.arange(m), (states > 0).sum(axis=1)].sum())


@dataclass(frozen=True)
class Collapsed:
    """Evidence and prior together: the unnormalised log posterior of graph and states."""

    evidence: AbstractEvidence
    prior: StructurePrior

    def log_posterior(self, graph: Int8[np.ndarray, "d d"], states: Int8[np.ndarray, "M d"]) -> float:
        """log p(G, S | D) + const, term by term: the plain path that every faster one is held to."""
        edges = np.asarray(graph, bool)
        local = sum(self.evidence.log_evidence(node, edges[:, node], states[:, node]) for node in range(len(edges)))
        return local + self.prior.log_prob_graph(graph) + self.prior.log_prob_states(states)
