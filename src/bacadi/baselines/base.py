"""What a baseline is: a procedure that estimates one graph and one set of targets. `graph[i, j] = 1` means i -> j.

A new baseline is a `Choice` with `estimate`; `Bootstrap` makes a method of it. Its parameters are the linear Gaussian
ones of maximum likelihood unless it brings its own: in the rows where variable j is not a target, and in those of a
context k that targets it,

    x_j = Σ_i w_ij x_i + b_j + σ_j ε,      x_j = μ_kj + s_kj ε,

so that each variable is regressed on its parents over the rows where nothing intervenes on it, and each effect is a
mean and a standard deviation (Hauser and Bühlmann, 2014).
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int8

from bacadi.config.choices import Choice
from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError, DataError
from bacadi.model.noise import log_normal

Graph = Int8[np.ndarray, "d d"]
Targets = Int8[np.ndarray, "M d"]
Rows = Float[np.ndarray, "n d"]
Column = Float[np.ndarray, " n"]

# A residual variance below this share of the column's variance is due to too few rows, not a property of the data.
MIN_VARIANCE_SHARE = 1e-6


class FittedParameters(NamedTuple):
    """Parameters of a DAG and its targets, and log p(rows | parameters) of the rows at hand.

    Names and axes are those of `bacadi.model`, because `bacadi.metrics` finds the density by them. `n_parameters` is
    the number that BIC counts.
    """

    parameters: dict[str, Labelled]
    log_likelihood: float
    n_parameters: int


class LinearNode(NamedTuple):
    """x_j ~ N(weight · x_parents + intercept, noise_std²)."""

    weight: Float[np.ndarray, " p"]
    intercept: float
    noise_std: float

    def log_density(self, parents: Float[np.ndarray, "n p"], column: Column) -> Column:
        """log p(x_j | x_parents), row by row."""
        return log_normal(column, parents @ self.weight + self.intercept, self.noise_std)


def fit_node(x: Rows, node: int, parents: Bool[np.ndarray, " d"], rows: Bool[np.ndarray, " n"]) -> LinearNode:
    """Fit (w, b) of a variable by least squares and σ² = 1/n Σ residual² over the marked rows; over all if none is.

    With too few rows for the parents σ² would be 0; it is at least `MIN_VARIANCE_SHARE` of the column's variance.

    >>> x = np.array([[0.0, 1.0], [2.0, 2.0], [4.0, 3.0], [0.0, 9.0]])
    >>> node = fit_node(x, 1, np.array([True, False]), np.array([True, True, True, False]))
    >>> round(float(node.weight[0]), 6), round(node.intercept, 6), round(node.noise_std, 4)
    (0.5, 1.0, 0.0031)
    """
    used = x[rows] if rows.any() else x
    inputs, column = used[:, parents], used[:, node]
    centre, middle = inputs.mean(axis=0), column.mean()
    # Centred columns carry the intercept and keep the regression well conditioned far from the origin.
    weight = np.linalg.lstsq(inputs - centre, column - middle, rcond=None)[0]
    least_std = np.sqrt(MIN_VARIANCE_SHARE * (x[:, node].var() or 1.0))
    noise_std = max(np.std(column - inputs @ weight), least_std)
    return LinearNode(weight, float(middle - centre @ weight), float(noise_std))


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

    graph: Graph
    targets: Targets

    def fitted(self, data: ContextData, dag: Graph) -> FittedParameters:
        """Parameters for a DAG of the class, with their log-likelihood on `data`.

        Linear Gaussian by maximum likelihood, each variable without the rows where it is a target; a baseline that
        learns its own mechanisms overrides this. The standard deviation of an effect is at least the noise of its
        variable: one row has none, and its density would be infinite. A variable counts two parameters (intercept,
        noise), an edge one, a target two (mean, noise).

        >>> data = ContextData(np.array([[0.0, 1.0], [2.0, 2.0], [4.0, 9.0]]), np.array([0, 0, 1]), ("a", "b"), ("k",))
        >>> graph = np.array([[0, 1], [0, 0]], np.int8)
        >>> fit = Estimate(graph, np.array([[0, 1]], np.int8)).fitted(data, graph)
        >>> fit.parameters["weight"].values.round(6).tolist(), fit.parameters["effect_mean"].values.tolist()
        ([[0.0, 0.5], [0.0, 0.0]], [[0.0, 9.0]])
        >>> fit.n_parameters
        7
        """
        d, x = data.n_variables, data.x
        hit = np.vstack([np.zeros((1, d), dtype=bool), self.targets != 0])[data.context]
        weight, intercept, noise_std = np.zeros((d, d)), np.zeros(d), np.ones(d)
        effect_mean, effect_std, log_likelihood = np.zeros(self.targets.shape), np.zeros(self.targets.shape), 0.0
        for j in range(d):
            parents, free = dag[:, j] != 0, ~hit[:, j]
            node = fit_node(x, j, parents, free)
            weight[parents, j], intercept[j], noise_std[j] = node
            log_likelihood += float(node.log_density(x[free][:, parents], x[free, j]).sum())
            for k in np.flatnonzero(self.targets[:, j]):
                rows = x[data.context == k + 1, j]
                effect_mean[k, j], effect_std[k, j] = rows.mean(), max(rows.std(), node.noise_std)
                log_likelihood += float(log_normal(rows, effect_mean[k, j], effect_std[k, j]).sum())
        parameters = {
            "weight": Labelled(weight, ("source", "target")),
            "intercept": Labelled(intercept, ("node",)),
            "noise_std": Labelled(noise_std, ("node",)),
            "effect_mean": Labelled(effect_mean, ("context", "node")),
            "effect_noise_std": Labelled(effect_std, ("context", "node")),
        }
        return FittedParameters(parameters, log_likelihood, 2 * d + int(dag.sum()) + 2 * int(self.targets.sum()))


class AbstractBaseline(Choice):
    """A frozen dataclass of choices that estimates graph and targets; a result depends on the arguments alone.

    What fails because of the rows at hand (a singular matrix) raises an `InferenceError`, and the bootstrap tries
    again with `relaxed()`. The class attributes say how a baseline is to be treated:

    - `name`: how messages refer to it.
    - `default_samples`: the number of bootstrap samples where the user gives none.
    - `finds_classes`: its graphs are classes of DAGs even where no edge is undirected, so that they are scored against
      the class of the truth.
    - `needs_targets`: it works only with known targets, and `check` refuses unknown ones.
    - `needs`: the module of an optional package, imported where it is first used, and the name that pip knows it by.
    - `results_version`: as that of a method.
    """

    results_version: ClassVar[int] = 1
    name: ClassVar[str] = "the baseline"
    default_samples: ClassVar[int] = 20
    finds_classes: ClassVar[bool] = False
    needs_targets: ClassVar[bool] = False
    needs: ClassVar[tuple[str, str] | None] = None

    @abstractmethod
    def estimate(self, rng: np.random.Generator, data: ContextData, known_targets: KnownTargets) -> Estimate:
        """Estimate graph and targets from these rows."""

    def check(self, data: ContextData, known_targets: KnownTargets) -> Float[np.ndarray, "M d"]:
        """Return `known_targets` as an array; refuse data that the baseline cannot use however rows are resampled."""
        module, distribution = self.needs or ("", "")
        if module and find_spec(module) is None:
            what = f"{self.name} needs the package {distribution}, which is not installed"
            raise ConfigError(f"{what}; run pip install 'bacadi[baselines]'.")
        if data.n_rows == 0:
            raise DataError("There are no rows to learn from; give data with at least one row.")
        if (empty := np.flatnonzero(data.counts[1:] == 0)).size:
            raise DataError(f"Context '{data.contexts[empty[0]]}' has no row; leave it out or give it rows.")
        if (bad := np.argwhere(~np.isfinite(data.x))).size:
            where = f"Row {bad[0, 0] + 1} of column '{data.variables[bad[0, 1]]}'"
            raise DataError(f"{where} is missing or infinite; fill it in or drop the row.")
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
        return [self.estimate(rng, data, known_targets) for data in resampled]

    @property
    def batched(self) -> bool:
        """Whether the baseline has its own way to run several data sets together."""
        return type(self).estimate_many is not AbstractBaseline.estimate_many

    def relaxed(self) -> "AbstractBaseline":
        """The same baseline with its level `alpha` halved, if it has one: fewer edges, smaller matrices."""
        return self.replace(alpha=self.alpha / 2) if hasattr(self, "alpha") else self
