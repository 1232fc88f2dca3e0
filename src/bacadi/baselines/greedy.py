"""What the baselines of other packages share: their import, rows by context, and failures in one sentence.

GIES (Hauser and Bühlmann, 2012) by the package gies: a greedy search over classes of DAGs, all targets known.

GnIES (Gamella, Taeb, Heinze-Deml and Bühlmann, 2022) by the package gnies: a greedy search, targets unknown.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float

from bacadi.baselines.base import AbstractBaseline, Estimate, check_inputs
from bacadi.data.contexts import ContextData
from bacadi.data.text import listed
from bacadi.errors import ConfigError, DataError, InferenceError


def package(module: str, method: str, name: str | None = None) -> Any:
    """A module of another package, imported when it is first used, or how to get it; `name` where pip has another."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{method} needs the package {name or module}, which is not installed; run pip install 'bacadi[baselines]'."
        ) from error


def environments(data: ContextData) -> dict[int, Float[np.ndarray, "n d"]]:
    """The rows of each context that has any, 0 for the observational one.

    >>> data = ContextData(np.array([[1.0], [2.0], [3.0]]), np.array([1, 0, 1]), ("a",), ("k",), "obs")
    >>> {k: x.ravel().tolist() for k, x in environments(data).items()}
    {0: [2.0], 1: [1.0, 3.0]}
    """
    return {int(k): data.x[data.context == k] for k in np.unique(data.context)}


def check_penalty(penalty: float, method: str) -> None:
    """Refuse a penalty that is none."""
    if not 0 < penalty < np.inf:
        raise ConfigError(f"The penalty of {method} is {penalty}; give a number above 0, 1 for BIC.")


@contextmanager
def singularities_named(method: str, data: ContextData) -> Iterator[None]:
    """A division by zero or a singular matrix as an `InferenceError`, so that the bootstrap tries a larger penalty."""
    try:
        with np.errstate(divide="raise", invalid="raise", over="raise"):
            yield
    except (FloatingPointError, np.linalg.LinAlgError) as error:
        raise InferenceError(
            f"{method} met a singular covariance matrix among the columns {listed(data.variables)}; "
            "give more rows, drop columns that others determine, or raise its penalty."
        ) from error


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
