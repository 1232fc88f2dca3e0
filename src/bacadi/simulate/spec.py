"""`SyntheticSpec`: all of a synthetic task but its seed. The defaults are the paper's linear Erdős–Rényi task."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int8

from bacadi.errors import ConfigError
from bacadi.simulate.effects import AbstractEffect, Hard, HardAt
from bacadi.simulate.families import AbstractGraphFamily, ErdosRenyi
from bacadi.simulate.mechanisms import AbstractMechanism, Linear
from bacadi.simulate.noise import UniformNoise


@dataclass(frozen=True)
class Interventions:
    """Which variables the training contexts target, and how.

    `n_contexts=None` is one context for each variable, context k targeting variable k. Otherwise `targets_per_context`
    variables are drawn for each context, those targeted least often first, so that n_contexts · targets_per_context < d
    leaves variables that are never targeted. `n_without_effect` contexts without any target follow at the end.
    """

    n_contexts: int | None = None
    targets_per_context: int = 1
    n_without_effect: int = 0
    rows_per_context: int = 10
    effect: AbstractEffect = field(default_factory=Hard)

    def __post_init__(self) -> None:
        require_counts(self, "n_contexts", "targets_per_context", "n_without_effect", "rows_per_context")

    def draw_targets(self, rng: np.random.Generator, d: int) -> Int8[np.ndarray, "m d"]:
        """The targets of all contexts as a matrix of 0 and 1.

        >>> some = Interventions(n_contexts=2, n_without_effect=1)
        >>> some.draw_targets(np.random.default_rng(0), 3).sum(axis=1).tolist()
        [1, 1, 0]
        """
        n = d if self.n_contexts is None else self.n_contexts
        targets = np.zeros((n + self.n_without_effect, d), dtype=np.int8)
        if self.n_contexts is None and self.targets_per_context == 1:
            np.fill_diagonal(targets, 1)
            return targets
        for k in range(n):
            least_used_first = np.lexsort((rng.random(d), targets.sum(axis=0)))
            targets[k, least_used_first[: self.targets_per_context]] = 1
        return targets


@dataclass(frozen=True)
class HeldOut:
    """Interventional test data with known targets: each context on at most `targets_per_context` random variables."""

    n_contexts: int = 10
    rows_per_context: int = 100
    targets_per_context: int = 4
    effect: AbstractEffect = field(default_factory=HardAt)

    def __post_init__(self) -> None:
        require_counts(self, "n_contexts", "rows_per_context", "targets_per_context")

    def draw_targets(self, rng: np.random.Generator, d: int) -> Int8[np.ndarray, "m d"]:
        """The targets of all contexts as a matrix of 0 and 1.

        >>> HeldOut(n_contexts=2).draw_targets(np.random.default_rng(0), 6).sum(axis=1).tolist()
        [4, 4]
        """
        order = np.argsort(rng.random((self.n_contexts, d)), axis=1)
        return (order < self.targets_per_context).astype(np.int8)


@dataclass(frozen=True)
class SyntheticSpec:
    """A synthetic task but for its seed: the graph, the mechanisms, the interventions and how much data there are.

    >>> SyntheticSpec(n_variables=5, graph=ErdosRenyi(1)).interventions.rows_per_context
    10
    """

    n_variables: int = 20
    graph: AbstractGraphFamily = field(default_factory=ErdosRenyi)
    mechanism: AbstractMechanism = field(default_factory=Linear)
    noise: UniformNoise = field(default_factory=UniformNoise)
    interventions: Interventions = field(default_factory=Interventions)
    held_out: HeldOut = field(default_factory=HeldOut)
    n_observational: int = 100
    standardize: bool = False

    def __post_init__(self) -> None:
        require_counts(self, "n_variables", "n_observational")
        if self.n_variables < 1:
            raise ConfigError("A task without variables makes no sense; give n_variables >= 1.")
        if self.interventions.targets_per_context > self.n_variables:
            raise ConfigError(
                f"{self.interventions.targets_per_context} targets per context are more than the {self.n_variables} "
                "variables; ask for fewer targets."
            )


def require_counts(config: object, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        if value is not None and value < 0:
            raise ConfigError(f"{name} = {value} is no number of things; give 0 or more.")
