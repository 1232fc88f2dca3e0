"""What an intervention does to its targets: kinds of effects, and effects drawn from them.

All kinds are one formula: a target j of context k follows

    x_j = keeps_parents_kj · f_kj(parents) + shift_kj + std_kj · ε,   ε ~ N(0, 1),

where f_kj is the function of the unperturbed network unless the effect is fully soft.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int8

from bacadi.errors import ConfigError
from bacadi.simulate.mechanisms import AbstractFunctions, signed_uniform


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
