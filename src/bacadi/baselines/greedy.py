"""Greedy searches over classes of DAGs, by the packages of their authors.

GIES (Hauser and Bühlmann, 2012; package gies) has to know all targets, GnIES (Gamella, Taeb, Heinze-Deml and Bühlmann,
2022; package gnies) infers them. Both maximise log p(D | best parameters) - `penalty` · ½ log n · parameters; the
penalty 1 is BIC. Both answer with a class of DAGs and do not use the random generator.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float

from bacadi.baselines.base import AbstractBaseline, Estimate, KnownTargets
from bacadi.config.choices import option
from bacadi.data.contexts import ContextData
from bacadi.data.text import listed
from bacadi.errors import ConfigError, DataError, InferenceError


class AbstractGreedySearch(AbstractBaseline):
    """A penalised likelihood, maximised greedily. A sample that fails is tried again with twice the penalty."""

    finds_classes: ClassVar[bool] = True

    penalty: float = option(1.0, above=0)

    def check(self, data: ContextData, known_targets: KnownTargets) -> Float[np.ndarray, "M d"]:
        known = super().check(data, known_targets)
        data.standardized()  # refuses a constant column
        return known

    def relaxed(self) -> Self:
        """The same with twice the penalty: fewer edges, smaller matrices."""
        return self.replace(penalty=2 * self.penalty)

    def _per_parameter(self, data: ContextData) -> float:
        return self.penalty * 0.5 * float(np.log(data.n_rows))

    @contextmanager
    def _singularities_named(self, data: ContextData) -> Iterator[None]:
        """Turn a division by zero or a singular matrix into an `InferenceError`, after which the bootstrap retries."""
        try:
            with np.errstate(divide="raise", invalid="raise", over="raise"):
                yield
        except (FloatingPointError, np.linalg.LinAlgError) as error:
            raise InferenceError(
                f"{self.name} met a singular covariance matrix among the columns {listed(data.variables)}; "
                "give more rows, drop columns that others determine, or raise its penalty."
            ) from error


class GIES(AbstractGreedySearch):
    """Greedy search over interventional classes: hard interventions, every target known.

    The rows of a context count for the variables that it does not set.
    """

    name: ClassVar[str] = "GIES"
    needs: ClassVar[tuple[str, str]] = ("gies", "gies")
    needs_targets: ClassVar[bool] = True

    def check(self, data: ContextData, known_targets: KnownTargets) -> Float[np.ndarray, "M d"]:
        known = super().check(data, known_targets)
        if (unknown := np.flatnonzero(np.isnan(known).any(axis=1))).size:
            raise ConfigError(
                f"GIES has to know every target, and those of context '{data.contexts[unknown[0]]}' are not all known; "
                "give them with --targets known or --targets FILE.csv, or use another method."
            )
        if (always := np.flatnonzero(known.all(axis=0) & (data.counts[0] == 0) & (data.n_contexts > 0))).size:
            raise DataError(
                f"Column '{data.variables[always[0]]}' is a target in every row, so GIES learns nothing about it; "
                "add rows where it is left alone or drop it."
            )
        return known

    def estimate(self, rng: np.random.Generator, data: ContextData, known_targets: KnownTargets) -> Estimate:
        targets = self.check(data, known_targets).astype(np.int8)
        gies, scores = import_module("gies"), import_module("gies.scores.gauss_int_l0_pen")
        of_context = [np.flatnonzero(targets[k - 1]).tolist() if k else [] for k in np.unique(data.context)]
        with self._singularities_named(data):
            score = scores.GaussIntL0Pen(_environments(data), of_context, lmbda=self._per_parameter(data))
            graph, _ = gies.fit(score)
        return Estimate((graph != 0).astype(np.int8), targets)


class GnIES(AbstractGreedySearch):
    """Greedy search for a class and one set of targets I, each change of which is a new search over graphs.

    A variable in I has its own noise in every context, mean and variance (`centered`: the variance only), and keeps its
    parents. GnIES infers which variables are targets somewhere and not where, so all of I are targets in every context:
    the prediction is right about variables and too wide about contexts. Known targets are kept as they are, and a
    variable known to be a target somewhere is in I.
    """

    name: ClassVar[str] = "GnIES"
    needs: ClassVar[tuple[str, str]] = ("gnies", "gnies")

    centered: bool = False

    def check(self, data: ContextData, known_targets: KnownTargets) -> Float[np.ndarray, "M d"]:
        known = super().check(data, known_targets)
        if (single := np.flatnonzero(data.counts == 1)).size:
            name = (data.observational or "the observational one", *data.contexts)[single[0]]
            raise DataError(
                f"Context '{name}' has one row, and GnIES needs a covariance in each; "
                "leave the context out or use another method."
            )
        return known

    def estimate(self, rng: np.random.Generator, data: ContextData, known_targets: KnownTargets) -> Estimate:
        known = self.check(data, known_targets)
        gnies, fixed = import_module("gnies"), set(np.flatnonzero((known == 1).any(axis=0)).tolist())
        options = {"lmbda": self._per_parameter(data), "known_targets": fixed, "center": self.centered}
        with self._singularities_named(data):
            _, graph, inferred = gnies.fit(_environments(data), **options)
        somewhere = np.isin(np.arange(data.n_variables), list(inferred))
        targets = np.where(np.isnan(known), somewhere, known).astype(np.int8)
        return Estimate((graph != 0).astype(np.int8), targets)


def _environments(data: ContextData) -> list[Float[np.ndarray, "n d"]]:
    """The rows of each context that has any, the observational one first."""
    return [rows for rows in data.by_context() if len(rows)]
