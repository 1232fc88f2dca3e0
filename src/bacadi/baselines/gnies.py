"""GnIES (Gamella, Taeb, Heinze-Deml and Bühlmann, 2022) by the package gnies: a greedy search, targets unknown."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float

from bacadi.baselines.base import AbstractBaseline, Estimate, check_inputs
from bacadi.baselines.plugins import check_penalty, environments, package, singularities_named
from bacadi.data.context import ContextData
from bacadi.errors import DataError


@dataclass(frozen=True)
class GnIES(AbstractBaseline):
    """Greedily the class and the one set of targets I of largest log likelihood less `penalty` · ½ log n a parameter.

    A variable in I has a noise of its own in every context, mean and variance (`centered`: the variance alone), and
    keeps its parents. GnIES tells which variables are targets somewhere and not where, so all of I are targets in every
    context: the prediction is right about variables and too wide about contexts. Targets that are known stand as they
    are, and a variable known to be a target somewhere is in I. Every change of I is a search over graphs of its own.
    """

    finds_classes: ClassVar[bool] = True

    penalty: float = 1.0
    centered: bool = False

    def __post_init__(self) -> None:
        check_penalty(self.penalty, "GnIES")

    def check(self, data: ContextData, known_targets: Float[np.ndarray, "M d"] | None) -> Float[np.ndarray, "M d"]:
        known = check_inputs(data, known_targets)
        data.standardized()  # refuses a column that is constant
        names = (data.observational or "the observational one", *data.contexts)
        if (single := np.flatnonzero(data.counts == 1)).size:
            raise DataError(
                f"Context '{names[single[0]]}' has one row, and GnIES needs a covariance in each; "
                "leave the context out or use another method."
            )
        return known

    def estimate(
        self, rng: np.random.Generator, data: ContextData, known_targets: Float[np.ndarray, "M d"] | None
    ) -> Estimate:
        known = self.check(data, known_targets)
        gnies = package("gnies", "GnIES")
        with singularities_named("GnIES", data):
            _, graph, found = gnies.fit(
                list(environments(data).values()),
                lmbda=self.penalty * 0.5 * np.log(data.n_rows),
                known_targets=set(np.flatnonzero((known == 1).any(axis=0)).tolist()),
                center=self.centered,
            )
        somewhere = np.isin(np.arange(data.n_variables), list(found))
        targets = np.where(np.isnan(known), somewhere, known).astype(np.int8)
        return Estimate((graph != 0).astype(np.int8), targets)

    def relaxed(self) -> Self:
        """The same with twice the penalty: fewer edges, smaller matrices."""
        return replace(self, penalty=2 * self.penalty)
