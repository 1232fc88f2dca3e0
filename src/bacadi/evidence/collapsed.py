"""The collapsed reading of the model: p(G, I | D) with mechanism parameters and effects integrated out.

Every variable has a state in every context: 0 where its mechanism is untouched, s ≥ 1 where an effect of kind s acts on
it. Then

    log p(G, S | D) = Σ_j log p(x_:j | parents of j, S_:j) + log p(G) + log p(S) + const,

a sum of local terms coupled by acyclicity alone. `AbstractEvidence` gives the local terms, `StructurePrior` the rest;
samplers and enumeration need nothing else. Everything here is NumPy in float64.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.data.text import counted
from bacadi.errors import ConfigError, NoClosedForm
from bacadi.graph.enumerate import log_orders
from bacadi.model.certainty import NO_DRIFT, ContextDrift
from bacadi.model.knowledge import Knowledge, Labels
from bacadi.model.model import Model
from bacadi.model.priors import CountingPrior

ParentSets = Bool[np.ndarray, "B d"]
Columns = Int8[np.ndarray, "B M"]
"""Of many requests for local terms: the parents of a node as a mask, and its states in the contexts."""
Graphs = Int8[np.ndarray, "n d d"]
States = Int8[np.ndarray, "n M d"]
"""Of n draws: the graph, and the states of all variables in all contexts."""


class EffectKind(IntEnum):
    """What an effect does to the mechanism of its target."""

    NONE = 0
    HARD = 1  # parents cut off, a mean and noise of its own
    SHIFT = 2  # mechanism plus a constant
    SCALE = 3  # mechanism with another noise variance
    SOFT = 4  # same parents, new parameters


@dataclass(frozen=True)
class EffectStates:
    """The states of a variable in a context; state 0 is the untouched mechanism, which `drift` moves all the same.

    `value[s]` is the prior standard deviation of a shift in units of the noise, or the ratio of variances of a scale
    effect (a scale effect of unknown ratio is one state for each ratio of a grid). `log_share[s]` is the log prior
    probability of the state given that the variable is a target. `hard_log_evidence[k, j]` is the log density of
    the rows of context k of variable j under a hard effect, its mean (and noise) integrated out. `power[k]` is as how
    many rows each row of context k counts, the observational one first (None: as one). `target_odds[k, j]` are the
    prior odds that j is a target in context k, which `ContextDrift.bend` is held to (None: nothing bends).
    """

    names: tuple[str, ...]
    kind: Int8[np.ndarray, " T"]
    value: Float[np.ndarray, " T"]
    log_share: Float[np.ndarray, " T"]
    hard_log_evidence: Float[np.ndarray, "M d"]
    drift: ContextDrift = NO_DRIFT
    power: Float[np.ndarray, " K"] | None = None
    target_odds: Float[np.ndarray, "M d"] | None = None

    @property
    def n_states(self) -> int:
        """T, the untouched mechanism included."""
        return len(self.names)

    @property
    def bends(self) -> tuple[float, Float[np.ndarray, "M d"]]:
        """`ContextDrift.bend` and the odds it is held to; 0 where nothing bends."""
        if self.target_odds is None:
            return 0.0, np.ones_like(self.hard_log_evidence)
        return float(self.drift.bend), self.target_odds

    def refuse_certainty(self, data: ContextData) -> None:
        """Refuse drift, coarsening and blocks where the evidence knows nothing of them."""
        if self.drift.is_any or self.power is not None:
            raise NoClosedForm(
                "Drift between contexts and coarsening need linear mechanisms, BGe, networks or Gaussian processes; "
                "leave [model.drift] and [model.coarsening] out, or use --model linear, bge or nonlinear."
            )
        if data.block is not None:
            raise NoClosedForm(
                "Blocks need linear mechanisms, BGe, networks or Gaussian processes; leave --block out, or use --model "
                "linear, bge or nonlinear."
            )

    def labelled(self, states: States, shift: Float[np.ndarray, "n M d"]) -> dict[str, Labelled]:
        """What draws of states say of shift effects (the constants they add) and of scale effects (their ratios)."""
        found = {}
        if EffectKind.SHIFT in self.kind:
            found["effect_shift"] = Labelled(shift, ("context", "node"))
        if EffectKind.SCALE in self.kind:
            ratio = np.where(self.kind == EffectKind.SCALE, self.value, 1.0)[states]
            found["effect_noise_ratio"] = Labelled(ratio.astype(np.float32), ("context", "node"))
        return found


@dataclass(frozen=True)
class StructurePrior:
    """log p(G) + log p(S) with all constraints, as arrays.

    log p(G) = Σ_{i → j} edge_log_odds[i, j] + Σ_i out_degree_log[out-degree of i], for acyclic graphs without a
    forbidden edge (-∞), with every required one (+∞, which adds 0) and at most `max_parents` parents per node. With
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
        """Edges that never exist."""
        return np.isneginf(self.edge_log_odds)

    @property
    def required(self) -> Bool[np.ndarray, "d d"]:
        """Edges that always exist."""
        return np.isposinf(self.edge_log_odds)

    def log_prob_graph(self, graph: Int8[np.ndarray, "d d"]) -> float:
        """log p(G) up to a constant; -∞ where a constraint is broken. Acyclicity is not checked."""
        return self.log_prob_ordered(graph) + (log_orders(graph) if self.over_orders else 0.0)

    def log_prob_ordered(self, graph: Int8[np.ndarray, "d d"]) -> float:
        """`log_prob_graph` without the number of orders: of the graph with one of them."""
        edges = np.asarray(graph, bool)
        broken = (edges & self.forbidden) | (self.required & ~edges)
        if broken.any() or edges.sum(axis=0).max() > self.max_parents:
            return -np.inf
        soft = np.where(np.isfinite(self.edge_log_odds), self.edge_log_odds, 0.0)
        return float(soft[edges].sum() + self.out_degree_log[edges.sum(axis=1)].sum())

    def log_prob_states(self, states: Int8[np.ndarray, "M d"]) -> float:
        """log p(S) up to a constant."""
        m, d = states.shape
        single = self.state_log_prior[np.arange(m)[:, None], np.arange(d)[None, :], states].sum()
        return float(single + self.target_count_log[np.arange(m), (states > 0).sum(axis=1)].sum())


def structure_prior(
    model: Model, states: EffectStates, knowledge: Knowledge | None = None, max_parents: int | None = None
) -> StructurePrior:
    """The prior of graph and states: log odds of the priors plus those of the knowledge.

    `max_parents` is a limit for the sake of speed where the knowledge names none: it gives way to required edges, and
    None is no limit. A prior p(n) of the number of targets holds exactly whatever the log odds of single targets are:
    p(S_k) = p(n) Π odds / e_n(odds), with e_n the sum of Π odds over all sets of n targets that are possible.
    """
    graph_prior, (m, d) = model.graph_prior, states.hard_log_evidence.shape
    if not isinstance(graph_prior, CountingPrior):
        raise NoClosedForm(
            f"The graph prior {type(graph_prior).__name__} does not say what an edge and an out-degree add to "
            "log p(G); give it edge_log_odds and out_degree_log, or use SVGD."
        )
    known = Knowledge.none(d, m) if knowledge is None else knowledge
    if (known.n_contexts, known.n_variables) != (m, d):
        raise ConfigError(
            f"The knowledge is of {counted(known.n_contexts, 'context')} and {counted(known.n_variables, 'variable')} "
            f"and the data have {m} and {d}; make it for these data."
        )
    edges = graph_prior.edge_log_odds(d) + known.edge_log_odds
    np.fill_diagonal(edges, -np.inf)
    odds = model.target_prior.log_odds(d) + known.target_log_odds
    limit, of_states = _parent_limit(known, max_parents), _state_prior(odds, states, known.labels)
    of_counts = _count_prior(odds, known.target_count_log)
    return StructurePrior(edges, graph_prior.out_degree_log(d), limit, of_states, of_counts, graph_prior.over_orders)


def _parent_limit(known: Knowledge, default: int | None) -> int:
    limit = known.n_variables - 1
    if known.max_parents is not None:
        return min(known.max_parents, limit)
    required = int(np.isposinf(known.edge_log_odds).sum(axis=0).max())
    return limit if default is None else min(max(default, required), limit)


def _state_prior(odds: Float[np.ndarray, "M d"], states: EffectStates, labels: Labels) -> Float[np.ndarray, "M d T"]:
    """0 for state 0 and log odds + log share for the others; a known target (odds of +∞) has no state 0."""
    known = np.isposinf(odds)
    if states.n_states == 1 and known.any():
        k, j = np.argwhere(known)[0].tolist()
        raise ConfigError(
            f"In {labels.context(k)} {labels.variable(j)} is a known target and the model has no effect that could act "
            "on it; choose an effect or drop the target."
        )
    log_prior = np.where(known, 0.0, odds)[:, :, None] + states.log_share
    log_prior[:, :, 0] = np.where(known, -np.inf, 0.0)
    return log_prior


def _count_prior(odds: Float[np.ndarray, "M d"], log_p: Float[np.ndarray, "M K"] | None) -> Float[np.ndarray, "M K"]:
    """log p(n) - log e_n(odds) for n = 0..d, which is -∞ where no set of n targets is possible.

    e_n follows one variable after the other: e_n(with j) = e_n(without j) + odds_j e_{n-1}(without j).
    """
    m, d = odds.shape
    if log_p is None:
        return np.zeros((m, d + 1))
    total = np.full((m, d + 1), -np.inf)
    total[:, 0] = 0.0
    for column in odds.T[:, :, None]:
        one_more = np.concatenate([np.full((m, 1), -np.inf), total[:, :-1]], axis=1)
        known = np.isposinf(column)
        total = np.where(known, one_more, np.logaddexp(total, one_more + np.where(known, 0.0, column)))
    return np.subtract(log_p, total, out=np.full((m, d + 1), -np.inf), where=~np.isneginf(total))


def never() -> bool:
    """What is asked whether time is over, where there is time without end."""
    return False


class AbstractEvidence(ABC):
    """Local terms of the collapsed posterior."""

    n_variables: int
    n_contexts: int
    states: EffectStates
    costly: bool = True  # a score takes milliseconds; samplers then ask for fewer of them
    is_fitted: bool = True  # nothing is left to choose before sampling
    n_options: int = 1  # of hyper-parameters to choose from
    tables: Any = None  # `gram.GramTables`, where compiled code can compute scores from them

    @property
    def approximation(self) -> "AbstractEvidence | None":
        """Evidence with tables that says nearly the same, where this one has none and is costly: chains that are there
        to help others sample it, and proposals that it finds hopeless are not looked at."""
        return None

    @abstractmethod
    def log_evidence(self, node: int, parents: Bool[np.ndarray, " d"], state: Int8[np.ndarray, " M"]) -> float:
        """log p(all rows of column `node` | its parents, its state in each context), the parameters integrated out."""

    def log_evidences(self, nodes: np.ndarray, parents: ParentSets, states: Columns) -> Float[np.ndarray, " B"]:
        """`log_evidence` of many requests; override it where a batch is cheaper than one after the other."""
        requests = zip(nodes.tolist(), parents, states, strict=True)
        return np.array([self.log_evidence(*request) for request in requests], float)

    def fit_hyperparameters(
        self, graph: Int8[np.ndarray, "d d"], states: Int8[np.ndarray, "M d"], over: Callable[[], bool] = never
    ) -> "AbstractEvidence":
        """The evidence with what is left to choose as this structure has it likeliest (empirical Bayes).

        Where `over` says that there is no time left, the likeliest of what was looked at by then.
        """
        return self

    @property
    def hyperparameters(self) -> Int[np.ndarray, " h"]:
        """The numbers of the options chosen; empty where there is no choice."""
        return np.zeros(0, np.int64)

    def with_hyperparameters(self, chosen: Int[np.ndarray, " h"]) -> "AbstractEvidence":
        """The evidence with the options of these numbers, each below `n_options`."""
        return self

    def target_share(self, node: int, parents: ParentSets) -> Float[np.ndarray, "B M"]:
        """The probability that a state of the node other than 0 is that of a target, given its parents; the rest is
        that of a mechanism which bends (`ContextDrift.bend`)."""
        return np.ones((len(parents), self.n_contexts))

    def draw_parameters(self, rng: np.random.Generator, graphs: Graphs, states: States) -> dict[str, Labelled]:
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
        orders = log_orders(graph) if self.prior.over_orders else 0.0
        return self.log_posterior_along_order(graph, states) + orders

    def log_posterior_along_order(self, graph: Int8[np.ndarray, "d d"], states: Int8[np.ndarray, "M d"]) -> float:
        """`log_posterior` without the number of orders, which takes long to count: of the graph with one of them."""
        edges = np.asarray(graph, bool)
        local = sum(self.evidence.log_evidence(node, edges[:, node], states[:, node]) for node in range(len(edges)))
        return local + self.prior.log_prob_ordered(graph) + self.prior.log_prob_states(states)
