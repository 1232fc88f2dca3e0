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
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int8

from bacadi.data.labelled import Labelled
from bacadi.evidence.prior import StructurePrior


class EffectKind(IntEnum):
    """What an effect does to the mechanism of its target."""

    NONE = 0
    HARD = 1  # parents cut off, a mean and noise of its own
    SHIFT = 2  # mechanism plus a constant
    SCALE = 3  # mechanism with another noise variance
    SOFT = 4  # same parents, new parameters


@dataclass(frozen=True)
class EffectStates:
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


class AbstractEvidence(ABC):
    """Local terms of the collapsed posterior."""

    n_variables: int
    n_contexts: int
    states: EffectStates
    costly: bool = True  # a score takes milliseconds; samplers then ask for fewer of them
    has_hyperparameters: bool = True  # nothing is left to choose before sampling
    tables: Any = None  # `gram.GramTables`, where compiled code can compute scores from them

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
class CollapsedPosterior:
    """Evidence and prior together: the unnormalised log posterior of graph and states."""

    evidence: AbstractEvidence
    prior: StructurePrior

    def log_posterior(self, graph: Int8[np.ndarray, "d d"], states: Int8[np.ndarray, "M d"]) -> float:
        """log p(G, S | D) + const, term by term: the plain path that every faster one is held to."""
        edges = np.asarray(graph, bool)
        local = sum(self.evidence.log_evidence(node, edges[:, node], states[:, node]) for node in range(len(edges)))
        return local + self.prior.log_prob_graph(graph) + self.prior.log_prob_states(states)
