"""DCDI-G (Brouillard et al. 2020) for unknown targets: `graph[i, j] = 1` means i -> j, `targets[k, j] = 1` a target.

JAX is imported when a run starts, so that the other baselines do without it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from jaxtyping import Float

from bacadi.baselines.base import AbstractBaseline, Estimate, check_inputs
from bacadi.baselines.dcdi_estimate import NetworkEstimate
from bacadi.data.context import ContextData, Scaling
from bacadi.errors import ConfigError


@dataclass(frozen=True)
class DCDIG(AbstractBaseline):
    """Maximise E[log f] - λ E‖M‖₀ - λ_R E‖R‖₀ under tr e^σ(Λ) = d, with networks and masks trained together.

    `perfect` interventions give a target its own mean and noise in a context; imperfect ones a network of its own.
    λ = `sparsity` and λ_R = `target_sparsity` count per row of data. The search ends when h = tr e^σ(Λ) - d is at most
    `tolerance`, or after `max_iterations`; `first_weight` is the first weight μ of h², and `window` the iterations
    between two looks at the held-out rows. Every `rows_per_mask` rows of a batch share a graph mask: 1 is the original,
    more is faster and noisier. Networks are trained `refit_iterations` more with the final graph, and with
    `fresh_targets` the target masks are learned anew with it; without, they stay as the search left them.
    `docs/baselines.md` lists where this departs from the original.
    """

    sparsity: float = 0.05
    target_sparsity: float = 0.05
    perfect: bool = True
    n_hidden: int = 5
    batch_size: int = 64
    rows_per_mask: int = 8
    learning_rate: float = 1e-3
    tolerance: float = 1e-8
    first_weight: float = 1e-8
    threshold: float = 0.5
    max_iterations: int = 100_000
    refit_iterations: int = 10_000
    fresh_targets: bool = True
    window: int = 100
    held_out: float = 0.2

    def __post_init__(self) -> None:
        for name in (
            "n_hidden",
            "batch_size",
            "rows_per_mask",
            "learning_rate",
            "max_iterations",
            "refit_iterations",
            "window",
        ):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} = {getattr(self, name)} makes no sense for DCDI-G; give more than 0.")
        if self.sparsity < 0 or self.target_sparsity < 0 or not (0 < self.held_out < 1 and 0 < self.threshold < 1):
            raise ConfigError(
                "A sparsity coefficient of DCDI-G is negative, or its held_out share or threshold lies outside (0, 1); "
                "give coefficients of 0 or more and shares between 0 and 1."
            )
        if self.batch_size % self.rows_per_mask:
            raise ConfigError(
                f"A batch of {self.batch_size} rows cannot be split into groups of {self.rows_per_mask}; "
                "give a rows_per_mask that divides the batch_size."
            )

    def estimate(
        self, rng: np.random.Generator, data: ContextData, known_targets: Float[np.ndarray, "M d"] | None
    ) -> NetworkEstimate:
        self.check(data, known_targets)
        return self._run(rng, [data], known_targets)[0]

    def check(self, data: ContextData, known_targets: Float[np.ndarray, "M d"] | None) -> Float[np.ndarray, "M d"]:
        known = check_inputs(data, known_targets)
        data.standardized()  # refuses a column that is constant
        return known

    def estimate_many(
        self,
        rng: np.random.Generator,
        resampled: Sequence[ContextData],
        known_targets: Float[np.ndarray, "M d"] | None,
    ) -> list[Estimate]:
        """All data sets in one compiled program; they must have the same number of rows in each context."""
        return list(self._run(rng, resampled, known_targets)) if resampled else []

    def _run(
        self,
        rng: np.random.Generator,
        resampled: Sequence[ContextData],
        known_targets: Float[np.ndarray, "M d"] | None,
    ) -> list[NetworkEstimate]:
        known, *_ = [check_inputs(data, known_targets) for data in resampled]
        if not all(np.array_equal(data.counts, resampled[0].counts) for data in resampled):
            raise ConfigError(
                "The data sets given to DCDI-G differ in the rows of a context; resample within contexts, or call "
                "`estimate` on one at a time."
            )
        from bacadi.baselines.dcdi_run import run, split_rows

        scalings = [_scaling(data) for data in resampled]
        rows = [
            split_rows(rng, scaling.apply(data.x), data.context, self.held_out)
            for scaling, data in zip(scalings, resampled, strict=True)
        ]
        found = run(self, int(rng.integers(2**31)), rows, known)
        return [one.in_data_units(scaling) for one, scaling in zip(found, scalings, strict=True)]

    def relaxed(self) -> Self:
        """The same with half the learning rate, which is what helps after non-finite values."""
        return replace(self, learning_rate=self.learning_rate / 2)


def _scaling(data: ContextData) -> Scaling:
    """To mean 0 and standard deviation 1; a column that resampling made constant is only shifted."""
    std = data.x.std(axis=0)
    return Scaling(data.x.mean(axis=0), np.where(std > 0, std, 1.0))
