"""What a baseline is: a procedure that finds one graph and one set of targets. `graph[i, j] = 1` means i -> j.

A new baseline is a frozen dataclass of its choices with `estimate`; `Bootstrap` makes a posterior of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int8

from bacadi.baselines.gaussian import Fitted, linear_gaussian
from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError, DataError


@dataclass(frozen=True)
class Estimate:
    """What a baseline finds on one (resampled) data set.

    `graph` is a DAG, a CPDAG or an interventional CPDAG: `graph[i, j] = graph[j, i] = 1` is an undirected edge.
    `targets[k, i] = 1` where context k + 1 intervenes on variable i.
    """

    graph: Int8[np.ndarray, "d d"]
    targets: Int8[np.ndarray, "M d"]

    def fitted(self, data: ContextData, dag: Int8[np.ndarray, "d d"]) -> Fitted:
        """Parameters for a DAG of the class and what they explain of `data`; to be overridden by a baseline that
        learns its own mechanisms."""
        return linear_gaussian(data, dag, self.targets)


class AbstractBaseline(ABC):
    """A frozen dataclass of choices that estimates graph and targets; a result depends on the arguments alone.

    What fails because of the rows at hand (a singular matrix) raises an `InferenceError`, and the bootstrap tries
    again with `relaxed()`. A baseline whose graphs are classes of DAGs even where no edge is undirected says so with
    `finds_classes`, for a class is scored against the class of the truth. One that works with known targets alone says
    so with `needs_targets` and refuses others in `check`.
    """

    finds_classes: ClassVar[bool] = False
    needs_targets: ClassVar[bool] = False

    @abstractmethod
    def estimate(
        self, rng: np.random.Generator, data: ContextData, known_targets: Float[np.ndarray, "M d"] | None
    ) -> Estimate:
        """The estimate from these rows; `known_targets` is 1 (target), 0 (none) or NaN (unknown), None: unknown."""

    def check(self, data: ContextData, known_targets: Float[np.ndarray, "M d"] | None) -> Float[np.ndarray, "M d"]:
        """`known_targets` as an array; refuses data that the baseline cannot work with however rows are resampled."""
        return check_inputs(data, known_targets)

    def estimate_many(
        self,
        rng: np.random.Generator,
        resampled: Sequence[ContextData],
        known_targets: Float[np.ndarray, "M d"] | None,
    ) -> list[Estimate]:
        """The estimates of several data sets of one shape; to be overridden where one program can run them all."""
        children = rng.spawn(len(resampled))
        return [self.estimate(child, data, known_targets) for child, data in zip(children, resampled, strict=True)]

    @property
    def batched(self) -> bool:
        """Whether the baseline has its own way to run several data sets together."""
        return type(self).estimate_many is not AbstractBaseline.estimate_many

    def relaxed(self) -> "AbstractBaseline":
        """The same baseline with its level `alpha` halved, as far as it has one: fewer edges, smaller matrices."""
        if not hasattr(self, "alpha"):
            return self
        return replace(self, alpha=self.alpha / 2)  # type: ignore[type-var]


def check_inputs(data: ContextData, known_targets: Float[np.ndarray, "M d"] | None) -> Float[np.ndarray, "M d"]:
    """`known_targets` as an array (NaN where none are given), after a look at the rows that every baseline needs.

    >>> data = ContextData(np.zeros((2, 1)), np.array([0, 1]), ("a",), ("k",), "obs")
    >>> check_inputs(data, None).tolist()
    [[nan]]
    """
    shape = (data.n_contexts, data.n_variables)
    if data.n_rows == 0:
        raise DataError("There are no rows to learn from; give data with at least one row.")
    if (empty := np.flatnonzero(data.counts[1:] == 0)).size:
        raise DataError(f"Context '{data.contexts[empty[0]]}' has no row; leave it out or give it rows.")
    bad = np.argwhere(~np.isfinite(data.x))
    if bad.size:
        row, column = bad[0]
        raise DataError(
            f"Row {row + 1} of column '{data.variables[column]}' is missing or infinite; fill it in or drop the row."
        )
    known = np.full(shape, np.nan) if known_targets is None else np.asarray(known_targets, dtype=float)
    if known.shape != shape:
        raise ConfigError(
            f"The known targets have the shape {known.shape} where contexts x variables is {shape}; "
            "give one row a context and one column a variable."
        )
    if not (np.isnan(known) | (known == 0) | (known == 1)).all():
        raise ConfigError("A known target is neither 1, 0 nor NaN; give 1 (target), 0 (no target) or NaN (unknown).")
    return known
