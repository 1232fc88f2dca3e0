"""What a baseline is: a procedure that estimates one graph and one set of targets. `graph[i, j] = 1` means i -> j.

A new baseline is a frozen dataclass of its choices with `estimate`; `Bootstrap` makes a posterior of it.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int8

from bacadi.baselines.gaussian import FittedParameters, fit_gaussian
from bacadi.config.choices import Choice
from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError, DataError

# The parameter of a posterior that holds the classes of DAGs beside the DAGs drawn from them; the metrics score it.
CLASS_PARAMETER = "cpdag"

# One row per context and one column per variable: 1 (target), 0 (not a target) or NaN (unknown). None: all unknown.
KnownTargets = Float[np.ndarray, "M d"] | None


@dataclass(frozen=True)
class Estimate:
    """The answer of a baseline to one (resampled) data set.

    `graph` is a DAG, a CPDAG or an interventional CPDAG: `graph[i, j] = graph[j, i] = 1` is an undirected edge.
    `targets[k, i] = 1` where context k + 1 intervenes on variable i.
    """

    graph: Int8[np.ndarray, "d d"]
    targets: Int8[np.ndarray, "M d"]

    def fitted(self, data: ContextData, dag: Int8[np.ndarray, "d d"]) -> FittedParameters:
        """Parameters for a DAG of the class, with their log-likelihood on `data`.

        Linear Gaussian by maximum likelihood; a baseline that learns its own mechanisms overrides this.
        """
        return fit_gaussian(data, dag, self.targets)


class AbstractBaseline(Choice):
    """A frozen dataclass of choices that estimates graph and targets; a result depends on the arguments alone.

    What fails because of the rows at hand (a singular matrix) raises an `InferenceError`, and the bootstrap tries
    again with `relaxed()`. The class attributes say how a baseline is to be treated:

    - `name`: how messages refer to it.
    - `default_samples`: the number of bootstrap samples where the user gives none.
    - `finds_classes`: its graphs are classes of DAGs even where no edge is undirected, so that they are scored against
      the class of the truth.
    - `needs_targets`: it works only with known targets, and `check` refuses unknown ones.
    """

    name: ClassVar[str] = "the baseline"
    default_samples: ClassVar[int] = 20
    finds_classes: ClassVar[bool] = False
    needs_targets: ClassVar[bool] = False

    @abstractmethod
    def estimate(self, rng: np.random.Generator, data: ContextData, known_targets: KnownTargets) -> Estimate:
        """Estimate graph and targets from these rows."""

    def check(self, data: ContextData, known_targets: KnownTargets) -> Float[np.ndarray, "M d"]:
        """Return `known_targets` as an array; refuse data that the baseline cannot use however rows are resampled."""
        if data.n_rows == 0:
            raise DataError("There are no rows to learn from; give data with at least one row.")
        if (empty := np.flatnonzero(data.counts[1:] == 0)).size:
            raise DataError(f"Context '{data.contexts[empty[0]]}' has no row; leave it out or give it rows.")
        if (bad := np.argwhere(~np.isfinite(data.x))).size:
            row, column = bad[0]
            name = data.variables[column]
            raise DataError(f"Row {row + 1} of column '{name}' is missing or infinite; fill it in or drop the row.")
        shape = (data.n_contexts, data.n_variables)
        known = np.full(shape, np.nan) if known_targets is None else np.asarray(known_targets, dtype=float)
        if known.shape != shape:
            raise ConfigError(
                f"The known targets have the shape {known.shape} where contexts x variables is {shape}; "
                "give one row per context and one column per variable."
            )
        if not (np.isnan(known) | (known == 0) | (known == 1)).all():
            raise ConfigError(
                "A known target is neither 1, 0 nor NaN; give 1 (target), 0 (not a target) or NaN (unknown)."
            )
        return known

    def estimate_many(
        self, rng: np.random.Generator, resampled: Sequence[ContextData], known_targets: KnownTargets
    ) -> Sequence[Estimate]:
        """Estimate from several data sets of one shape; overridden where one program can run them all."""
        children = rng.spawn(len(resampled))
        return [self.estimate(child, data, known_targets) for child, data in zip(children, resampled, strict=True)]

    @property
    def batched(self) -> bool:
        """Whether the baseline has its own way to run several data sets together."""
        return type(self).estimate_many is not AbstractBaseline.estimate_many

    def relaxed(self) -> "AbstractBaseline":
        """The same baseline with its level `alpha` halved, if it has one: fewer edges, smaller matrices."""
        if not hasattr(self, "alpha"):
            return self
        return self.replace(alpha=self.alpha / 2)


def package(module: str, method: str, distribution: str | None = None) -> Any:
    """Import a module of an optional dependency where it is first used, or say how to install it.

    Args:
        module: what to import.
        method: the baseline that needs it, for the message.
        distribution: the name pip knows it by, where that is not `module`.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{method} needs the package {distribution or module}, which is not installed; "
            "run pip install 'bacadi[baselines]'."
        ) from error
