"""Parameters that go with an estimate in a posterior: linear Gaussian ones, unless the baseline brings its own."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int8

from bacadi.baselines.gaussian import fit_gaussian
from bacadi.data.context import ContextData
from bacadi.posterior.draws import Parameter


class Fitted(NamedTuple):
    """Parameters of a DAG and its targets by the names of a posterior, and log p(rows | them) of the rows at hand.

    The names and axes are those of `bacadi.model`, for `bacadi.metrics` finds the density by them. `n_parameters` is
    what a weight by posterior counts.
    """

    parameters: dict[str, Parameter]
    log_likelihood: float
    n_parameters: int


def linear_gaussian(data: ContextData, dag: Int8[np.ndarray, "d d"], targets: Int8[np.ndarray, "M d"]) -> Fitted:
    """The most likely linear Gaussian parameters: see `fit_gaussian`.

    A variable has an intercept and a noise, an edge a weight, a target a mean and a spread.

    >>> data = ContextData(np.array([[0.0], [2.0]]), np.array([0, 0]), ("a",), (), "obs")
    >>> linear_gaussian(data, np.zeros((1, 1), np.int8), np.zeros((0, 1), np.int8)).n_parameters
    2
    """
    fit = fit_gaussian(data, dag, targets)
    parameters = {
        "weight": Parameter(fit.weight, ("source", "target")),
        "intercept": Parameter(fit.intercept, ("variable",)),
        "noise_std": Parameter(fit.noise_std, ("variable",)),
        "effect_mean": Parameter(fit.effect_mean, ("context", "variable")),
        "effect_noise_std": Parameter(fit.effect_noise_std, ("context", "variable")),
    }
    return Fitted(parameters, fit.log_likelihood, 2 * data.n_variables + int(dag.sum()) + 2 * int(targets.sum()))
