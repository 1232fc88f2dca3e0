"""Noise of the nodes of synthetic networks."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from bacadi.errors import ConfigError


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
