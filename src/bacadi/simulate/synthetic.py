"""`SyntheticSpec`: all of a synthetic task but its seed. The defaults are the paper's linear Erdős–Rényi task.

A specification says how the truth is drawn: the graph, the parameters of the mechanisms and their noise, the targets of
the contexts and what happens to them (the law is in `bacadi.model.network`).
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int8

from bacadi.config.choices import Choice, option
from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError
from bacadi.model.linear import LinearGaussian, LinearTheta
from bacadi.model.mechanism import AbstractMechanism, GaussianMechanism, Theta
from bacadi.model.network import CausalNetwork, Effects
from bacadi.model.neural import Layer, NeuralGaussian, NeuralTheta
from bacadi.simulate.task import AbstractSpec, Task, labelled_data, standardized
from bacadi.simulate.violations import AbstractViolation

Graph = Int8[np.ndarray, "d d"]
Targets = Int8[np.ndarray, "m d"]
PerVariable = Float[np.ndarray, " d"]
Values = Float[np.ndarray, "..."]
Parameters = tuple[AbstractMechanism, Theta]


class UniformNoise(Choice):
    """Gaussian noise whose *variance* is U[low, high] for each node; `low == high` gives all nodes equal noise.

    >>> UniformNoise(0.25, 0.25).draw_std(np.random.default_rng(0), 2).tolist()
    [0.5, 0.5]
    """

    low: float = option(0.05, above=0)
    high: float = option(0.15, above=0)

    def draw_std(self, rng: np.random.Generator, d: int) -> PerVariable:
        """Draw the noise standard deviation of each of d nodes."""
        return np.sqrt(rng.uniform(self.low, self.high, size=d))


class AbstractTruth(Choice):
    """How the true parameters of a Gaussian mechanism are drawn."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, graph: Graph, noise_std: PerVariable) -> tuple[GaussianMechanism, Theta]:
        """Draw the parameters of all nodes of `graph`; a node without parents has mean 0."""


# A mechanism of the user's own can take its place, with parameters from `draw_theta` and its own noise.
AbstractTruth.register(AbstractMechanism)  # type: ignore[type-abstract]


class LinearTruth(AbstractTruth):
    """Linear mechanisms with weights ±U[weight_low, weight_high].

    >>> _, theta = LinearTruth().draw(np.random.default_rng(0), np.zeros((2, 2), dtype=np.int8), np.ones(2))
    >>> theta.weight.tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """

    weight_low: float = option(0.5, least=0)
    weight_high: float = option(2.0, least=0)

    def draw(self, rng: np.random.Generator, graph: Graph, noise_std: PerVariable) -> tuple[GaussianMechanism, Theta]:
        weight = signed_uniform(rng, self.weight_low, self.weight_high, graph.shape)
        return LinearGaussian(), LinearTheta(np.where(graph == 1, weight, 0.0), None, np.log(noise_std))


class NeuralTruth(AbstractTruth):
    """One hidden layer of sigmoid units, all weights and biases N(0, weight_std²); a root has mean 0 and no bias.

    >>> graph = np.array([[0, 1], [0, 0]], dtype=np.int8)
    >>> mechanism, theta = NeuralTruth().draw(np.random.default_rng(0), graph, np.ones(2))
    >>> mechanism.mean(theta, graph, np.ones((3, 2)))[:, 0].tolist()
    [0.0, 0.0, 0.0]
    """

    hidden: int = option(5, least=1)
    weight_std: float = option(1.0, above=0)

    def draw(self, rng: np.random.Generator, graph: Graph, noise_std: PerVariable) -> tuple[GaussianMechanism, Theta]:
        d, h = len(graph), self.hidden
        sizes = (d, d, h), (d, h), (d, h), (d,)
        weight, bias, output, constant = (rng.normal(scale=self.weight_std, size=size) for size in sizes)
        child = graph.max(axis=0, initial=0)[:, None]
        first = Layer(graph[:, :, None] * weight.swapaxes(0, 1), bias)
        second = Layer((output * child).T[:, :, None], constant[:, None] * child)
        return NeuralGaussian(hidden=(h,)), NeuralTheta((first, second), np.log(noise_std))


def signed_uniform(rng: np.random.Generator, low: float, high: float, shape: tuple[int, ...]) -> Values:
    """±U[low, high], both signs equally likely.

    >>> bool((abs(signed_uniform(np.random.default_rng(0), 1, 2, (100,))) >= 1).all())
    True
    """
    return rng.choice([-1.0, 1.0], size=shape) * rng.uniform(low, high, size=shape)


class Unperturbed(NamedTuple):
    """What an effect may build on: the parameters of the network and its noise (None if not Gaussian), and how both
    are drawn anew."""

    theta: Theta
    noise_std: PerVariable | None
    noise: UniformNoise
    redraw: Callable[[np.random.Generator, PerVariable], Theta]


class AbstractTrueEffect(Choice):
    """A kind of effect, from which the effects of all contexts are drawn."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, targets: Targets, base: Unperturbed) -> Effects:
        """Draw effects on the given targets, independent over contexts and variables."""


class Hard(AbstractTrueEffect):
    """x_j ~ N(μ, variance) whatever the parents, μ = z + offset · sign z with z ~ N(0, mean_std²).

    The paper's values are the defaults; a small offset makes weak effects.
    """

    offset: float = option(5.0, least=0)
    mean_std: float = option(2.0, least=0)
    variance: float = option(0.5, above=0)

    def draw(self, rng: np.random.Generator, targets: Targets, base: Unperturbed) -> Effects:
        z = rng.normal(scale=self.mean_std, size=targets.shape)
        return hard_effects(targets, z + self.offset * np.sign(z), self.variance)


class HardAt(AbstractTrueEffect):
    """x_j ~ N(mean, variance) whatever the parents, the same for all targets."""

    mean: float = -5.0
    variance: float = option(0.5, above=0)

    def draw(self, rng: np.random.Generator, targets: Targets, base: Unperturbed) -> Effects:
        return hard_effects(targets, float(self.mean), self.variance)


class Shift(AbstractTrueEffect):
    """x_j = f_j(parents) + s + noise with s = ±U[low, high]: the mechanism stays and is moved."""

    low: float = option(1.0, least=0)
    high: float = option(3.0, least=0)

    def draw(self, rng: np.random.Generator, targets: Targets, base: Unperturbed) -> Effects:
        shift = signed_uniform(rng, self.low, self.high, targets.shape)
        return _soft(targets, shift, np.zeros(1) if base.noise_std is None else base.noise_std)


class Scale(AbstractTrueEffect):
    """x_j = f_j(parents) + c · noise with c = U[low, high]: only the noise of the mechanism changes."""

    low: float = option(2.0, above=0)
    high: float = option(5.0, above=0)

    def draw(self, rng: np.random.Generator, targets: Targets, base: Unperturbed) -> Effects:
        if base.noise_std is None:
            raise ConfigError(
                "An effect of type scale multiplies Gaussian noise, which this mechanism does not have; "
                "choose another effect."
            )
        factor = rng.uniform(self.low, self.high, size=targets.shape)
        return _soft(targets, np.zeros(targets.shape), factor * base.noise_std)


class Soft(AbstractTrueEffect):
    """x_j = f'_j(parents) + s + noise': the same parents with new parameters, noise and an intercept ±U[low, high].

    The intercept makes the effect visible at a target without parents too.
    """

    low: float = option(1.0, least=0)
    high: float = option(3.0, least=0)

    def draw(self, rng: np.random.Generator, targets: Targets, base: Unperturbed) -> Effects:
        shift = signed_uniform(rng, self.low, self.high, targets.shape)
        std = np.array([base.noise.draw_std(rng, targets.shape[1]) for _ in targets]).reshape(targets.shape)
        theta = tuple(base.redraw(rng, of_context) for of_context in std)
        return _soft(targets, shift, std, theta)


class Damped(AbstractTrueEffect):
    """x_j = c f_j(parents) + s + noise with c = U[low, high] and s = N(mean, mean_std²), for linear mechanisms.

    Damping and shift belong to a context: all its targets share them, as in the recipe of the iBGe score
    (github.com/jackkuipers/iBGe), whose values are the defaults.
    """

    low: float = option(0.1, least=0)
    high: float = option(1.0, least=0)
    mean: float = 1.0
    mean_std: float = option(0.1, least=0)

    def draw(self, rng: np.random.Generator, targets: Targets, base: Unperturbed) -> Effects:
        if not isinstance(base.theta, LinearTheta) or base.noise_std is None:
            raise ConfigError("An effect of type damped shrinks linear weights; choose linear mechanisms with it.")
        shift = rng.normal(self.mean, self.mean_std, size=(len(targets), 1))
        damping = rng.uniform(self.low, self.high, size=len(targets))
        own = tuple(base.theta._replace(weight=factor * base.theta.weight) for factor in damping)
        return _soft(targets, shift, base.noise_std, own)


def hard_effects(targets: Targets, mean: Float[np.ndarray, "m d"] | float, variance: float) -> Effects:
    """x_j ~ N(mean, variance) at the targets, whatever the parents."""
    nothing = np.zeros(targets.shape, dtype=bool)
    return Effects(targets, nothing, targets * mean, targets * np.sqrt(variance), (None,) * len(targets))


def _soft(targets: Targets, shift: Values, std: Values, theta: tuple[Theta, ...] | None = None) -> Effects:
    return Effects(targets, targets != 0, targets * shift, targets * std, theta or (None,) * len(targets))


class TargetDesign(Choice):
    """Which variables the training contexts target.

    `n_contexts=None` is one context for each variable, context k targeting variable k. Otherwise `targets_per_context`
    variables are drawn for each context, those targeted least often first, so that n_contexts · targets_per_context < d
    leaves variables that are never targeted. `n_without_effect` contexts without any target follow at the end.
    """

    n_contexts: int | None = option(None, least=0)
    targets_per_context: int = option(1, least=0)
    n_without_effect: int = option(0, least=0)
    rows_per_context: int = option(10, least=0)

    def draw_targets(self, rng: np.random.Generator, d: int) -> Targets:
        """Draw the targets of all contexts as a matrix of 0 and 1.

        >>> some = TargetDesign(n_contexts=2, n_without_effect=1)
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
            targets[k, least_used_first[: self.draw_number(rng)]] = 1
        return targets

    def draw_number(self, rng: np.random.Generator) -> int:
        """How many targets the next context has."""
        return self.targets_per_context


class Interventions(TargetDesign):
    """Which variables the training contexts target (see `TargetDesign`), and how.

    A Poisson number of mean `further_targets` is added to `targets_per_context` where `n_contexts` is given.
    """

    effect: AbstractTrueEffect = Hard()
    further_targets: float = option(0.0, least=0)

    def draw_number(self, rng: np.random.Generator) -> int:
        further = int(rng.poisson(self.further_targets)) if self.further_targets else 0
        return self.targets_per_context + further


class HeldOut(Choice):
    """Interventional test data with known targets: each context on at most `targets_per_context` random variables."""

    n_contexts: int = option(10, least=0)
    rows_per_context: int = option(100, least=0)
    targets_per_context: int = option(4, least=0)
    effect: AbstractTrueEffect = HardAt()

    def draw_targets(self, rng: np.random.Generator, d: int) -> Targets:
        """Draw the targets of all contexts as a matrix of 0 and 1.

        >>> HeldOut(n_contexts=2).draw_targets(np.random.default_rng(0), 6).sum(axis=1).tolist()
        [4, 4]
        """
        order = np.argsort(rng.random((self.n_contexts, d)), axis=1)
        return (order < self.targets_per_context).astype(np.int8)


class SyntheticSpec(AbstractSpec):
    """A synthetic task but for its seed: the graph, the mechanisms, the interventions and how much data there are.

    `mechanism` says how true parameters are drawn; an `AbstractMechanism` in its place draws its own, its noise
    included, and `noise` is then not used. A `violation` breaks an assumption of the model in the training rows.

    >>> SyntheticSpec(n_variables=5).interventions.rows_per_context
    10
    """

    mechanism: AbstractTruth | AbstractMechanism = option(
        LinearTruth(), names="bacadi.simulate.synthetic:AbstractTruth"
    )
    noise: UniformNoise = UniformNoise()
    interventions: Interventions = Interventions()
    held_out: HeldOut = HeldOut()
    n_observational: int = option(100, least=0)
    standardize: bool = False
    violation: AbstractViolation | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_size(self.n_observational, self.interventions, self.held_out)
        self._check_targets(self.interventions.targets_per_context)

    def draw(self, seed: int) -> Task:
        streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(7)]
        d = self.n_variables
        graph = self.graph.draw(streams[0], d)
        network = CausalNetwork(graph, *self._parameters(streams[1], graph, self.noise.draw_std(streams[2], d)))

        def redraw(rng: np.random.Generator, noise_std: PerVariable) -> Theta:
            return self._parameters(rng, graph, noise_std)[1]

        base = Unperturbed(network.theta, network.noise_std, self.noise, redraw)
        training, test = self.interventions, self.held_out
        effects = training.effect.draw(streams[3], training.draw_targets(streams[3], d), base)
        data = _sample(streams[4], network, effects, (self.n_observational, training.rows_per_context))
        held_out_effects = test.effect.draw(streams[5], test.draw_targets(streams[5], d), base)
        held_out = _sample(streams[5], network, held_out_effects, (0, test.rows_per_context))
        task = Task(seed, graph, effects, data, held_out_effects, held_out, network, network.noise_std, self)
        task = task if self.violation is None else self.violation.applied(streams[6], task)
        return standardized(task) if self.standardize else task

    def _parameters(self, rng: np.random.Generator, graph: Graph, noise_std: PerVariable) -> Parameters:
        if isinstance(self.mechanism, AbstractMechanism):
            return self.mechanism, self.mechanism.draw_theta(rng, graph)
        return self.mechanism.draw(rng, graph, noise_std)


def _sample(rng: np.random.Generator, network: CausalNetwork, effects: Effects, rows: tuple[int, int]) -> ContextData:
    """Draw `rows[0]` observational rows and `rows[1]` rows of every context."""
    n_contexts = len(effects.targets)
    context = np.repeat(np.arange(n_contexts + 1), [rows[0]] + [rows[1]] * n_contexts)
    return labelled_data(network.sample(rng, context, effects), context, n_contexts, "x")
