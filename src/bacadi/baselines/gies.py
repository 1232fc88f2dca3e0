"""GIES (Hauser and Bühlmann, 2012) by the package gies: a greedy search over classes of DAGs, all targets known."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float

from bacadi.baselines.base import AbstractBaseline, Estimate, check_inputs
from bacadi.baselines.plugins import check_penalty, environments, package, singularities_named
from bacadi.data.context import ContextData
from bacadi.errors import ConfigError, DataError


@dataclass(frozen=True)
class GIES(AbstractBaseline):
    """Greedily the largest log p(D | best parameters) - `penalty` · ½ log n · parameters; the answer is a class.

    Interventions are hard and every target is known; the row of a context counts for the variables it does not set.
    """

    finds_classes: ClassVar[bool] = True
    needs_targets: ClassVar[bool] = True

    penalty: float = 1.0

    def __post_init__(self) -> None:
        check_penalty(self.penalty, "GIES")

    def check(self, data: ContextData, known_targets: Float[np.ndarray, "M d"] | None) -> Float[np.ndarray, "M d"]:
        known = check_inputs(data, known_targets)
        if np.isnan(known).any():
            k = int(np.flatnonzero(np.isnan(known).any(axis=1))[0])
            raise ConfigError(
                f"GIES has to know every target, and those of context '{data.contexts[k]}' are not all known; "
                "give them with --targets known or --targets FILE.csv, or use another method."
            )
        data.standardized()  # refuses a column that is constant
        always = known.all(axis=0) & (data.counts[0] == 0)
        if data.n_contexts and always.any():
            name = data.variables[int(np.flatnonzero(always)[0])]
            raise DataError(
                f"Column '{name}' is a target in every row, so GIES learns nothing about it; "
                "add rows where it is left alone or drop it."
            )
        return known

    def estimate(
        self, rng: np.random.Generator, data: ContextData, known_targets: Float[np.ndarray, "M d"] | None
    ) -> Estimate:
        targets = self.check(data, known_targets).astype(np.int8)
        gies, scores = package("gies", "GIES"), package("gies.scores.gauss_int_l0_pen", "GIES")
        rows = environments(data)
        named = [np.flatnonzero(targets[k - 1]).tolist() if k else [] for k in rows]
        with singularities_named("GIES", data):
            weight = self.penalty * 0.5 * np.log(data.n_rows)
            graph, _ = gies.fit(scores.GaussIntL0Pen(list(rows.values()), named, lmbda=weight))
        return Estimate((graph != 0).astype(np.int8), targets)

    def relaxed(self) -> Self:
        """The same with twice the penalty: fewer edges, smaller matrices."""
        return replace(self, penalty=2 * self.penalty)
