"""Noise of the nodes of synthetic networks.

How a node follows its parents in synthetic networks: the kind (to draw from) and the functions drawn.

The functions give E[x_j | parents] without noise; a node without parents has mean 0.

What an intervention does to its targets: kinds of effects, and effects drawn from them.

All kinds are one formula: a target j of context k follows

    x_j = keeps_parents_kj · f_kj(parents) + shift_kj + std_kj · ε,   ε ~ N(0, 1),

where f_kj is the function of the unperturbed network unless the effect is fully soft.

The true network of a task and the law of its variables under interventions.

`SyntheticSpec`: all of a synthetic task but its seed. The defaults are the paper's linear Erdős–Rényi task.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from bacadi.errors import ConfigError
from bacadi.graph import topological_order
from bacadi.simulate.graphs import AbstractGraphFamily, ErdosRenyi


@dataclass(frozen=True)
class UniformNoise:
    """Gaussian noise whose *variance* is U[low, high] for each node; `low == high` gives all nodes equal noise.

    >>> UniformNoise(0.25, 0.25).draw_std(np.random.default_rng(0), 2).tolist()
    [0.5, 0.5]
    """

    low: float = 0.05
    high: float = 0.15

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.high:
            raise ConfigError(
                f"Noise variances between {self.low} and {self.high} make no sense; give 0 < low <= high."
            )

    def draw_std(self, rng: np.random.Generator, d: int) -> Float[np.ndarray, " d"]:
        """The noise standard deviation of each of d nodes."""
        return np.sqrt(rng.uniform(self.low, self.high, size=d))


class AbstractFunctions(ABC):
    """The mean of every node given all variables, as one draw from a kind of mechanism."""

    @abstractmethod
    def mean(self, node: int, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """E[x_node | parents] for each row of `x`, which needs correct values in the columns of the parents alone."""


class AbstractMechanism(ABC):
    """A kind of mechanism, from which the functions of a whole graph are drawn."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, graph: Int8[np.ndarray, "d d"]) -> AbstractFunctions:
        """Random functions for all nodes of `graph`."""


@dataclass(frozen=True)
class LinearFunctions(AbstractFunctions):
    """E[x_j | parents] = Σ_i w_ij x_i, with w_ij = 0 where i is no parent of j."""

    weights: Float[np.ndarray, "d d"]

    def mean(self, node: int, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return x @ self.weights[:, node]


@dataclass(frozen=True)
class NeuralFunctions(AbstractFunctions):
    """E[x_j | parents] = b'_j + Σ_h v_jh σ(b_jh + Σ_i u_jih x_i), with u_jih = 0 where i is no parent of j."""

    input_weights: Float[np.ndarray, "d d hidden"]  # node, parent, hidden unit
    input_biases: Float[np.ndarray, "d hidden"]
    output_weights: Float[np.ndarray, "d hidden"]
    output_biases: Float[np.ndarray, " d"]

    def mean(self, node: int, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        inputs = x @ self.input_weights[node] + self.input_biases[node]
        # tanh form of the sigmoid: no overflow for large inputs.
        hidden = 0.5 * (1 + np.tanh(0.5 * inputs))
        return hidden @ self.output_weights[node] + self.output_biases[node]


@dataclass(frozen=True)
class Linear(AbstractMechanism):
    """Linear mechanisms with weights ±U[weight_low, weight_high].

    >>> Linear().draw(np.random.default_rng(0), np.zeros((2, 2), dtype=np.int8)).weights.tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """

    weight_low: float = 0.5
    weight_high: float = 2.0

    def __post_init__(self) -> None:
        if not 0 <= self.weight_low <= self.weight_high:
            raise ConfigError(
                f"Linear weights between {self.weight_low} and {self.weight_high} make no sense; "
                "give 0 <= weight_low <= weight_high, the sign is drawn."
            )

    def draw(self, rng: np.random.Generator, graph: Int8[np.ndarray, "d d"]) -> LinearFunctions:
        weights = signed_uniform(rng, self.weight_low, self.weight_high, graph.shape)
        return LinearFunctions(np.where(graph == 1, weights, 0.0))


@dataclass(frozen=True)
class Neural(AbstractMechanism):
    """One hidden layer of sigmoid units, all weights and biases N(0, weight_std²); a root has mean 0 and no bias.

    >>> functions = Neural().draw(np.random.default_rng(0), np.array([[0, 1], [0, 0]], dtype=np.int8))
    >>> functions.mean(0, np.ones((3, 2))).tolist()
    [0.0, 0.0, 0.0]
    """

    hidden: int = 5
    weight_std: float = 1.0

    def __post_init__(self) -> None:
        if self.hidden < 1 or not self.weight_std > 0:
            raise ConfigError(
                f"A network of {self.hidden} hidden units with weights of standard deviation {self.weight_std} makes "
                "no sense; give hidden >= 1 and weight_std > 0."
            )

    def draw(self, rng: np.random.Generator, graph: Int8[np.ndarray, "d d"]) -> NeuralFunctions:
        d = len(graph)
        child = graph.any(axis=0).astype(float)
        return NeuralFunctions(
            graph.T[:, :, None] * rng.normal(scale=self.weight_std, size=(d, d, self.hidden)),
            rng.normal(scale=self.weight_std, size=(d, self.hidden)),
            child[:, None] * rng.normal(scale=self.weight_std, size=(d, self.hidden)),
            child * rng.normal(scale=self.weight_std, size=d),
        )


def signed_uniform(
    rng: np.random.Generator, low: float, high: float, shape: tuple[int, ...]
) -> Float[np.ndarray, "..."]:
    """±U[low, high], both signs equally likely.

    >>> bool((abs(signed_uniform(np.random.default_rng(0), 1, 2, (100,))) >= 1).all())
    True
    """
    return rng.choice([-1.0, 1.0], size=shape) * rng.uniform(low, high, size=shape)


@dataclass(frozen=True, eq=False)
class Effects:
    """The effects of M contexts; the entries of variables that are no targets mean nothing and are 0."""

    targets: Int8[np.ndarray, "m d"]
    keeps_parents: Bool[np.ndarray, "m d"]
    shift: Float[np.ndarray, "m d"]
    std: Float[np.ndarray, "m d"]
    functions: tuple[AbstractFunctions | None, ...]  # own functions of a context, None: those of the network


class Unperturbed(NamedTuple):
    """What a kind of effect may build on: the noise of the network, and new functions and noise of the same kind."""

    noise_std: Float[np.ndarray, " d"]
    redraw_functions: Callable[[np.random.Generator], AbstractFunctions]
    redraw_noise_std: Callable[[np.random.Generator], Float[np.ndarray, " d"]]


class AbstractEffect(ABC):
    """A kind of effect, from which the effects of all contexts are drawn."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, targets: Int8[np.ndarray, "m d"], base: Unperturbed) -> Effects:
        """Random effects on the given targets, independent over contexts and variables."""


@dataclass(frozen=True)
class Hard(AbstractEffect):
    """x_j ~ N(μ, variance) whatever the parents, μ = z + offset · sign z with z ~ N(0, mean_std²).

    The paper's values are the defaults; a small offset makes weak effects.
    """

    offset: float = 5.0
    mean_std: float = 2.0
    variance: float = 0.5

    def __post_init__(self) -> None:
        _require(
            self.offset >= 0 and self.mean_std >= 0 and self.variance > 0,
            f"A hard effect of offset {self.offset}, mean_std {self.mean_std} and variance {self.variance} makes no "
            "sense; give offset >= 0, mean_std >= 0 and variance > 0.",
        )

    def draw(self, rng: np.random.Generator, targets: Int8[np.ndarray, "m d"], base: Unperturbed) -> Effects:
        z = rng.normal(scale=self.mean_std, size=targets.shape)
        return _hard(targets, z + self.offset * np.sign(z), self.variance)


@dataclass(frozen=True)
class HardAt(AbstractEffect):
    """x_j ~ N(mean, variance) whatever the parents, the same for all targets."""

    mean: float = -5.0
    variance: float = 0.5

    def __post_init__(self) -> None:
        _require(
            np.isfinite(self.mean) and self.variance > 0,
            f"A hard effect at mean {self.mean} with variance {self.variance} makes no sense; "
            "give a finite mean and a variance > 0.",
        )

    def draw(self, rng: np.random.Generator, targets: Int8[np.ndarray, "m d"], base: Unperturbed) -> Effects:
        return _hard(targets, np.full(targets.shape, self.mean, dtype=float), self.variance)


@dataclass(frozen=True)
class Shift(AbstractEffect):
    """x_j = f_j(parents) + s + noise with s = ±U[low, high]: the mechanism stays and is moved."""

    low: float = 1.0
    high: float = 3.0

    def __post_init__(self) -> None:
        _require_range("A shift", self.low, self.high)

    def draw(self, rng: np.random.Generator, targets: Int8[np.ndarray, "m d"], base: Unperturbed) -> Effects:
        shift = signed_uniform(rng, self.low, self.high, targets.shape)
        return _soft(targets, shift, np.broadcast_to(base.noise_std, targets.shape))


@dataclass(frozen=True)
class Scale(AbstractEffect):
    """x_j = f_j(parents) + c · noise with c = U[low, high]: only the noise of the mechanism changes."""

    low: float = 2.0
    high: float = 5.0

    def __post_init__(self) -> None:
        _require_range("A noise factor", self.low, self.high)
        _require(self.low > 0, "A noise factor of 0 leaves no noise; give low > 0.")

    def draw(self, rng: np.random.Generator, targets: Int8[np.ndarray, "m d"], base: Unperturbed) -> Effects:
        factor = rng.uniform(self.low, self.high, size=targets.shape)
        return _soft(targets, np.zeros(targets.shape), factor * base.noise_std)


@dataclass(frozen=True)
class Soft(AbstractEffect):
    """x_j = f'_j(parents) + s + noise': the same parents with a function, noise and intercept ±U[low, high] of its own.

    The intercept makes the effect visible at a target without parents too.
    """

    low: float = 1.0
    high: float = 3.0

    def __post_init__(self) -> None:
        _require_range("An intercept", self.low, self.high)

    def draw(self, rng: np.random.Generator, targets: Int8[np.ndarray, "m d"], base: Unperturbed) -> Effects:
        shift = signed_uniform(rng, self.low, self.high, targets.shape)
        std = np.array([base.redraw_noise_std(rng) for _ in targets]).reshape(targets.shape)
        functions = tuple(base.redraw_functions(rng) for _ in targets)
        return _soft(targets, shift, std, functions)


def _hard(targets: Int8[np.ndarray, "m d"], mean: Float[np.ndarray, "m d"], variance: float) -> Effects:
    nothing = np.zeros(targets.shape, dtype=bool)
    return Effects(targets, nothing, targets * mean, targets * np.sqrt(variance), (None,) * len(targets))


def _soft(
    targets: Int8[np.ndarray, "m d"],
    shift: Float[np.ndarray, "m d"],
    std: Float[np.ndarray, "m d"],
    functions: tuple[AbstractFunctions | None, ...] | None = None,
) -> Effects:
    return Effects(targets, targets != 0, targets * shift, targets * std, functions or (None,) * len(targets))


def _require(condition: bool | np.bool_, message: str) -> None:
    if not condition:
        raise ConfigError(message)


def _require_range(what: str, low: float, high: float) -> None:
    _require(0 <= low <= high < np.inf, f"{what} between {low} and {high} makes no sense; give 0 <= low <= high.")


@dataclass(frozen=True, eq=False)
class CausalNetwork:
    """x_j = f_j(parents of j) + noise_std_j · ε_j with ε_j ~ N(0, 1), for `graph[i, j] = 1` where i -> j."""

    graph: Int8[np.ndarray, "d d"]
    functions: AbstractFunctions
    noise_std: Float[np.ndarray, " d"]

    def conditional(
        self, node: int, x: Float[np.ndarray, "n d"], context: Int[np.ndarray, " n"], effects: Effects
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean and standard deviation of x_node given its parents, row by row; context 0 is observational."""
        mean = self.functions.mean(node, x)
        std = np.broadcast_to(self.noise_std[node], mean.shape).copy()
        for k in np.flatnonzero(effects.targets[:, node]):
            rows = context == k + 1
            own = effects.functions[k]
            kept = mean[rows] if own is None else own.mean(node, x[rows])
            mean[rows] = effects.keeps_parents[k, node] * kept + effects.shift[k, node]
            std[rows] = effects.std[k, node]
        return mean, std

    def sample(
        self, rng: np.random.Generator, context: Int[np.ndarray, " n"], effects: Effects
    ) -> Float[np.ndarray, "n d"]:
        """One sample for each entry of `context`, by ancestral sampling."""
        noise = rng.normal(size=(len(context), len(self.graph)))
        x = np.zeros_like(noise)
        for node in topological_order(self.graph).tolist():
            mean, std = self.conditional(node, x, context, effects)
            x[:, node] = mean + std * noise[:, node]
        return x

    def log_density(
        self, x: Float[np.ndarray, "n d"], context: Int[np.ndarray, " n"], effects: Effects
    ) -> Float[np.ndarray, " n"]:
        """log p(x_n | context) = Σ_j log N(x_nj | mean_nj, std_nj²), in the scale in which the network was drawn."""
        total = np.zeros(len(x))
        for node in range(len(self.graph)):
            mean, std = self.conditional(node, x, context, effects)
            total -= 0.5 * np.log(2 * np.pi) + np.log(std) + 0.5 * ((x[:, node] - mean) / std) ** 2
        return total


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
