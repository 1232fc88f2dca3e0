"""What is known beforehand of edges, targets and effects.

Knowledge of edges and targets is log odds that are added to those of the prior: 0 has no opinion, -∞ forbids, +∞
requires. Adding is commutative, so the order in which knowledge is given does not matter. What contradicts itself is
refused at once.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from bacadi.data.contexts import Scaling
from bacadi.data.text import counted, quoted
from bacadi.errors import ConfigError
from bacadi.graph.dag import find_cycle


@dataclass(frozen=True)
class Labels:
    """Names for messages; without them variables and contexts go by their index.

    >>> Labels(("a", "b")).edge(0, 1), Labels().context(2)
    ("'a' → 'b'", 'the context of index 2')
    """

    variables: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ()

    def variable(self, i: int) -> str:
        """The name of a variable, quoted, or its index."""
        return quoted(self.variables[i]) if self.variables else f"variable {i}"

    def context(self, k: int) -> str:
        """The name of a context, quoted, or its index."""
        return f"context {quoted(self.contexts[k])}" if self.contexts else f"the context of index {k}"

    def edge(self, i: int, j: int) -> str:
        """An edge by its names."""
        return f"{self.variable(i)} → {self.variable(j)}"


UNNAMED = Labels()


@dataclass(frozen=True, eq=False)
class KnownEffects:
    """Hard effects that are known: variable j follows N(mean[k, j], std[k, j]²) in context k; NaN where it is not."""

    mean: Float[np.ndarray, "M d"]
    std: Float[np.ndarray, "M d"]

    @property
    def known(self) -> Bool[np.ndarray, "M d"]:
        """Where an effect is known."""
        return ~np.isnan(self.mean)

    def scaled(self, scaling: Scaling) -> "KnownEffects":
        """The same effects in scaled units.

        >>> five = np.full((1, 1), 5.0)
        >>> KnownEffects(five, five).scaled(Scaling(np.ones(1), np.full(1, 2.0))).mean.tolist()
        [[2.0]]
        """
        return KnownEffects((self.mean - scaling.shift) / scaling.scale, self.std / scaling.scale)


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Constraints and soft opinions on graph and targets; row k is the context named `ContextData.contexts[k]`.

    `edge_log_odds[i, j]` speaks of i → j and `target_log_odds[k, j]` of j as a target in context k: 0 no opinion,
    -∞ never, +∞ always, finite values are added to the log odds of the prior. `max_parents` limits the parents of a
    node. `target_count_log[k, n]` is log p(n targets in context k); None leaves the number to the log odds. `effects`
    are hard effects that are known, in the units of the data; their variables are certain targets.

    >>> known = Knowledge.none(3, 1).require(0, 1).tiers(np.array([0, 0, 1])).limit_parents(2)
    >>> known.edge_log_odds.tolist()
    [[0.0, inf, 0.0], [0.0, 0.0, 0.0], [-inf, -inf, 0.0]]
    """

    edge_log_odds: Float[np.ndarray, "d d"]
    max_parents: int | None
    target_log_odds: Float[np.ndarray, "M d"]
    target_count_log: Float[np.ndarray, "M d+1"] | None
    labels: Labels = UNNAMED
    effects: KnownEffects | None = None

    def __post_init__(self) -> None:
        _refuse_no_numbers(self)
        _refuse_impossible_graphs(self)
        _refuse_impossible_counts(self)

    @classmethod
    def none(cls, n_variables: int, n_contexts: int, labels: Labels = UNNAMED) -> "Knowledge":
        """No opinion on anything."""
        return cls(np.zeros((n_variables, n_variables)), None, np.zeros((n_contexts, n_variables)), None, labels)

    @property
    def n_variables(self) -> int:
        """d, the number of variables."""
        return self.target_log_odds.shape[1]

    @property
    def n_contexts(self) -> int:
        """M, the number of contexts beside the observational one."""
        return self.target_log_odds.shape[0]

    @property
    def beyond_certain_targets(self) -> bool:
        """Whether anything is known beside certain targets, non-targets and effects: edges, limits, odds, numbers."""
        odds = self.target_log_odds
        about_graph = self.edge_log_odds.any() or self.max_parents is not None
        return bool(about_graph or self.target_count_log is not None or np.isfinite(odds[odds != 0]).any())

    def certain_targets(self) -> Float[np.ndarray, "M d"]:
        """1 for a certain target, 0 for a certain non-target, NaN for what is open: the inverse of `known_targets`."""
        return np.where(np.isinf(self.target_log_odds), self.target_log_odds > 0, np.nan)

    def forbid(self, i: int, j: int) -> "Knowledge":
        """No edge i → j."""
        return self.with_edges(self._single_edge(i, j, -np.inf))

    def require(self, i: int, j: int) -> "Knowledge":
        """Always the edge i → j."""
        return self.with_edges(self._single_edge(i, j, np.inf))

    def tiers(self, tier_of: Int[np.ndarray, " d"]) -> "Knowledge":
        """No edge from a later tier into an earlier one; a variable of tier -1 stands outside the order."""
        if (tier_of < -1).any():
            raise ConfigError(f"A tier is {tier_of.min()}; number tiers from 0 on and write -1 for no tier.")
        backward = (tier_of[:, None] > tier_of[None, :]) & (tier_of[None, :] >= 0)
        return self.with_edges(np.where(backward, -np.inf, 0.0))

    def with_edges(self, log_odds: Float[np.ndarray, "d d"]) -> "Knowledge":
        """Add log odds of edges."""

        def clash(i: int, j: int) -> str:
            return f"The edge {self.labels.edge(i, j)} is both required and forbidden (by name or by the tiers)"

        return replace(self, edge_log_odds=_added(self.edge_log_odds, log_odds, clash))

    def limit_parents(self, n: int) -> "Knowledge":
        """At most n parents a node; the strictest limit holds."""
        return replace(self, max_parents=n if self.max_parents is None else min(n, self.max_parents))

    def known_targets(self, known: Float[np.ndarray, "M d"] | None) -> "Knowledge":
        """1 is a target, 0 is none, NaN is unknown, as everywhere; None knows nothing."""
        if known is None:
            return self
        wanted = f"a {self.n_contexts} x {self.n_variables} array (contexts x variables) of 0, 1 and NaN for unknown"
        if known.shape != self.target_log_odds.shape:
            raise ConfigError(f"Known targets are an array of shape {known.shape}; give {wanted}.")
        if not np.isin(known[~np.isnan(known)], (0, 1)).all():
            raise ConfigError(f"Known targets hold a number other than 0 and 1; give {wanted}.")
        return self.with_targets(np.where(np.isnan(known), 0.0, np.where(known == 1, np.inf, -np.inf)))

    def candidates(self, k: int, variables: Iterable[int]) -> "Knowledge":
        """In context k nothing but these variables may be a target."""
        log_odds = np.zeros_like(self.target_log_odds)
        log_odds[self._context(k)] = -np.inf
        log_odds[k, [self._variable(j) for j in variables]] = 0.0
        return self.with_targets(log_odds)

    def with_targets(self, log_odds: Float[np.ndarray, "M d"]) -> "Knowledge":
        """Add log odds of targets."""

        def clash(k: int, j: int) -> str:
            place = f"{self.labels.variable(j)} is a known target in {self.labels.context(k)}"
            return f"The knowledge says that {place} and that it cannot be one"

        return replace(self, target_log_odds=_added(self.target_log_odds, log_odds, clash))

    def count_targets(self, k: int | None, log_probs: Float[np.ndarray, " n"]) -> "Knowledge":
        """Context k (None: every context) has 0, 1, 2, … targets with these log probabilities, more with none."""
        possible = self.n_variables + 1
        if not np.isneginf(log_probs[possible:]).all():
            limit = f"the {counted(self.n_variables, 'variable')} that there are"
            raise ConfigError(f"The prior of the number of targets goes beyond {limit}; shorten it.")
        given, before = np.full(possible, -np.inf), self.target_count_log
        given[: len(log_probs)] = log_probs[:possible]
        counts = np.zeros((self.n_contexts, possible)) if before is None else before.copy()
        counts[slice(None) if k is None else self._context(k)] += given
        return replace(self, target_count_log=counts)

    def with_effects(self, effects: KnownEffects) -> "Knowledge":
        """Hard effects that are known; the variables they act on are certain targets.

        >>> one = KnownEffects(np.array([[5.0, np.nan]]), np.array([[0.7, np.nan]]))
        >>> Knowledge.none(2, 1).with_effects(one).certain_targets().tolist()
        [[1.0, nan]]
        """
        shape, known = self.target_log_odds.shape, effects.known
        if effects.mean.shape != shape or effects.std.shape != shape:
            raise ConfigError(f"Known effects are arrays of shape {effects.mean.shape}; give one of shape {shape}.")
        fine = np.isfinite(effects.mean) & np.isfinite(effects.std) & (effects.std > 0)
        for k, j in np.argwhere((known | ~np.isnan(effects.std)) & ~fine).tolist():
            place = f"{self.labels.variable(j)} in {self.labels.context(k)}"
            raise ConfigError(f"The effect on {place} has no mean or no standard deviation above 0; give both.")
        if self.effects is not None:
            before, both = self.effects, known & self.effects.known
            differ = (before.mean != effects.mean) | (before.std != effects.std)
            for k, j in np.argwhere(both & differ).tolist():
                place = f"{self.labels.variable(j)} in {self.labels.context(k)}"
                raise ConfigError(f"The effect on {place} is given twice and differs; keep one of the two.")
            effects = KnownEffects(
                *(np.where(known, *pair) for pair in zip(_pair(effects), _pair(before), strict=True))
            )
        return replace(self.with_targets(np.where(known, np.inf, 0.0)), effects=effects)

    def scaled(self, scaling: Scaling) -> "Knowledge":
        """The same knowledge for data in scaled units."""
        return self if self.effects is None else replace(self, effects=self.effects.scaled(scaling))

    def combined(self, other: "Knowledge") -> "Knowledge":
        """Both together."""
        both = self.with_edges(other.edge_log_odds).with_targets(other.target_log_odds)
        if other.effects is not None:
            both = both.with_effects(other.effects)
        if other.target_count_log is not None:
            for k, log_probs in enumerate(other.target_count_log):
                both = both.count_targets(k, log_probs)
        return both if other.max_parents is None else both.limit_parents(other.max_parents)

    def _single_edge(self, i: int, j: int, value: float) -> Float[np.ndarray, "d d"]:
        log_odds = np.zeros_like(self.edge_log_odds)
        log_odds[self._variable(i), self._variable(j)] = value
        return log_odds

    def _variable(self, i: int) -> int:
        return _index(i, self.n_variables, "variable")

    def _context(self, k: int) -> int:
        return _index(k, self.n_contexts, "context")


def _pair(effects: KnownEffects) -> tuple[np.ndarray, np.ndarray]:
    return effects.mean, effects.std


def _added(one: np.ndarray, other: np.ndarray, clash: Callable[[int, int], str]) -> np.ndarray:
    """The sum of log odds; what one requires and the other forbids is refused with the sentence of the first cell."""
    against = np.isinf(one) & np.isinf(other) & (one != other)
    if against.any():
        raise ConfigError(f"{clash(*np.argwhere(against)[0].tolist())}; drop one of the two.")
    return one + other


def _index(index: int, size: int, noun: str) -> int:
    if not 0 <= index < size:
        raise ConfigError(f"There is no {noun} of index {index}; the {counted(size, noun)} are counted from 0.")
    return index


def _refuse_no_numbers(known: Knowledge) -> None:
    for what, log_odds in (("edges", known.edge_log_odds), ("targets", known.target_log_odds)):
        for cell in np.argwhere(np.isnan(log_odds)).tolist():
            raise ConfigError(f"The log odds of {what} are NaN at {cell}; give 0 where there is no opinion.")
    counts = known.target_count_log
    if counts is not None and (np.isnan(counts) | np.isposinf(counts)).any():
        raise ConfigError("The log prior of the number of targets holds NaN or +∞; give logarithms of probabilities.")


def _refuse_impossible_graphs(known: Knowledge) -> None:
    required = np.isposinf(known.edge_log_odds)
    if (cycle := find_cycle(required)) is not None:
        path = " → ".join(known.labels.variable(i) for i in (*cycle, cycle[0]))
        raise ConfigError(f"The required edges form the cycle {path}; drop one of them.")
    limit, parents = known.max_parents, required.sum(axis=0)
    if limit is not None and limit < 0:
        raise ConfigError(f"The limit of parents is {limit}; give a whole number from 0 on.")
    if limit is not None and parents.max() > limit:
        most = f"{known.labels.variable(int(parents.argmax()))} {counted(int(parents.max()), 'parent')}"
        remedy = "raise the limit of parents or drop a required edge"
        raise ConfigError(f"The required edges give {most} and at most {limit} may be; {remedy}.")


def _refuse_impossible_counts(known: Knowledge) -> None:
    if known.target_count_log is None:
        return
    sure = np.isposinf(known.target_log_odds).sum(axis=1)
    open_ = (~np.isneginf(known.target_log_odds)).sum(axis=1)
    for k, log_probs in enumerate(known.target_count_log):
        if np.isneginf(log_probs[sure[k] : open_[k] + 1]).all():
            possible = f"{counted(int(sure[k]), 'target')} at least and {int(open_[k])} at most are possible"
            clash = "the prior of the number of targets allows no such number; make them agree"
            raise ConfigError(f"In {known.labels.context(k)} {possible} and {clash}.")
