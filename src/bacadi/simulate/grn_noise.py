"""Technical noise of single-cell sequencing, as in SERGIO: each kind is one step from levels to what is measured.

A step is prepared once on the training cells (`prepare`), so that what belongs to a gene or to the instrument is the
same for all cells of a task, held-out ones included. All steps leave a level of 0 at 0. The defaults are typical of the
settings in which SERGIO is used; none of them is part of the paper's benchmark.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from bacadi.errors import ConfigError

Step = Callable[[np.random.Generator, np.ndarray], np.ndarray]


class AbstractTechnicalNoise(ABC):
    """A kind of technical noise."""

    @abstractmethod
    def prepare(self, rng: np.random.Generator, x: Float[np.ndarray, "n d"]) -> Step:
        """The step `(rng, cells) -> cells` with all that does not belong to a single cell fixed; `x` are all cells."""


@dataclass(frozen=True)
class Outliers(AbstractTechnicalNoise):
    """x_j · f_j in every cell: f_j ~ LogNormal(log_mean, log_std²) with probability `share` for each gene j, else 1.

    >>> step = Outliers(share=1.0, log_mean=0.0, log_std=0.0).prepare(np.random.default_rng(0), np.ones((2, 3)))
    >>> step(np.random.default_rng(0), np.ones((1, 3))).tolist()
    [[1.0, 1.0, 1.0]]
    """

    share: float = 0.01
    log_mean: float = 0.8
    log_std: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ConfigError(f"A share of {self.share} outlier genes makes no sense; give 0 <= share <= 1.")
        _require_log_normal("An outlier factor", self.log_mean, self.log_std)

    def prepare(self, rng: np.random.Generator, x: Float[np.ndarray, "n d"]) -> Step:
        d = x.shape[1]
        factor = np.where(rng.random(d) < self.share, rng.lognormal(self.log_mean, self.log_std, size=d), 1.0)
        return lambda _, cells: cells * factor


@dataclass(frozen=True)
class LibrarySize(AbstractTechnicalNoise):
    """L · x_j / Σ_i x_i with L ~ LogNormal(log_mean, log_std²) for each cell; a cell without expression stays as it is.

    >>> step = LibrarySize(0.0, 0.0).prepare(np.random.default_rng(0), np.ones((2, 2)))
    >>> step(np.random.default_rng(0), np.array([[1.0, 3.0], [0.0, 0.0]])).tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """

    log_mean: float = 4.6
    log_std: float = 0.4

    def __post_init__(self) -> None:
        _require_log_normal("A library size", self.log_mean, self.log_std)

    def prepare(self, rng: np.random.Generator, x: Float[np.ndarray, "n d"]) -> Step:
        def step(rng: np.random.Generator, cells: np.ndarray) -> np.ndarray:
            size = rng.lognormal(self.log_mean, self.log_std, size=(len(cells), 1))
            total = cells.sum(axis=1, keepdims=True)
            return cells * (size / np.where(total > 0, total, 1.0))

        return step


@dataclass(frozen=True)
class Dropout(AbstractTechnicalNoise):
    """x_j is kept with probability 1 / (1 + exp(-shape · (log(1 + x_j) - m))) and measured as 0 otherwise.

    m is the given percentile of log(1 + x) over all genes and training cells.

    >>> step = Dropout(shape=1e6, percentile=50).prepare(np.random.default_rng(0), np.array([[1.0, 2.0, 3.0]]))
    >>> step(np.random.default_rng(0), np.array([[1.0, 2.5, 3.0]])).tolist()
    [[0.0, 2.5, 3.0]]
    """

    shape: float = 6.5
    percentile: float = 82.0

    def __post_init__(self) -> None:
        if not (0 < self.shape < np.inf and 0 <= self.percentile <= 100):
            raise ConfigError(
                f"A dropout of shape {self.shape} at percentile {self.percentile} makes no sense; "
                "give shape > 0 and 0 <= percentile <= 100."
            )

    def prepare(self, rng: np.random.Generator, x: Float[np.ndarray, "n d"]) -> Step:
        middle = np.percentile(np.log1p(x), self.percentile) if x.size else 0.0

        def step(rng: np.random.Generator, cells: np.ndarray) -> np.ndarray:
            # tanh form of the sigmoid: no overflow for large shapes.
            kept = 0.5 * (1 + np.tanh(0.5 * self.shape * (np.log1p(cells) - middle)))
            return np.where(rng.random(cells.shape) < kept, cells, 0.0)

        return step


@dataclass(frozen=True)
class Counts(AbstractTechnicalNoise):
    """The number of molecules (UMI) read: Poisson(x_j)."""

    def prepare(self, rng: np.random.Generator, x: Float[np.ndarray, "n d"]) -> Step:
        return lambda rng, cells: rng.poisson(cells).astype(float)


def _require_log_normal(what: str, log_mean: float, log_std: float) -> None:
    if not (np.isfinite(log_mean) and 0 <= log_std < np.inf):
        raise ConfigError(
            f"{what} of log mean {log_mean} and log standard deviation {log_std} makes no sense; "
            "give a finite log_mean and log_std >= 0."
        )
