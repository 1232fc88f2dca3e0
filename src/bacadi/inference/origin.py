"""Have the columns an origin? What an open intercept of networks (`NeuralGaussian.intercept`) becomes.

In the paper's recipe a variable without causes has mean 0, and one with causes hardly ever has, since networks have
biases: where 0 means something, means tell which variables have no causes. Measurements hardly ever have such a zero,
and centred columns have lost it. So it is asked only where means look like that, some of them 0 as far as can be told
and most of them not, and decided by the log posteriors of the best structures with and without means of their own.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from bacadi.data.contexts import ContextData
from bacadi.evidence.collapsed import never
from bacadi.inference.collapsed import collapsed_problem
from bacadi.inference.completion import searched
from bacadi.inference.mcmc.start import Structure, with_likely_states
from bacadi.inference.method import Problem
from bacadi.model.model import Model
from bacadi.model.neural import NeuralGaussian

NEAR, FAR = 3.5, 5.0  # standard errors from 0: within the one there is a mean at least, beyond the other half of them
CENTRED = 1e-6  # standard deviations from 0, of means of columns that somebody has centred


class Asked(NamedTuple):
    """By how many nats columns with an origin explain the data better, and for the reading that does so the best
    structure and the hyper-parameters."""

    gain: float
    structure: Structure
    hyperparameters: Int[np.ndarray, " d"]


def asked(problem: Problem, model: Model, over: Callable[[], bool] = never) -> Asked | None:
    """What speaks for an origin; None where that is not asked, or time is over."""
    if not model.standardize_within or not _may_have_origin(problem.data):
        return None
    problems = [replace(problem, model=_with(model, own)) for own in (True, False)]
    readings = [collapsed_problem(each, over=over) for each in problems]
    structures, log_p = list[Structure](), np.zeros((2, 2))
    for each, collapsed in zip(problems, readings, strict=True):
        cheap = replace(collapsed, evidence=collapsed.evidence.approximation or collapsed.evidence)
        before = structures[-1] if structures else None
        structures.append(searched(np.random.default_rng(0), cheap, each.standardized, before, over))
    # Each at both structures, so that the second search, which goes on from the first, is of no advantage.
    for reading, collapsed in enumerate(readings):
        for at, structure in enumerate(structures):
            structure = with_likely_states(collapsed, structure, over)
            log_p[reading, at] = collapsed.log_posterior_along_order(*structure)
    if over():
        return None
    best = log_p.max(axis=1)
    better = int(best[1] > best[0])
    return Asked(
        float(best[1] - best[0]),
        structures[int(log_p[better].argmax())],
        readings[better].evidence.hyperparameters,
    )


def _with(model: Model, intercept: bool) -> Model:
    assert isinstance(model.mechanism, NeuralGaussian)
    return model.replace(mechanism=model.mechanism.replace(intercept=intercept))


def _may_have_origin(data: ContextData) -> bool:
    """Whether some means of the control are 0 as far as can be told and half of them are not; never for columns that
    are centred.

    >>> x = np.random.default_rng(0).normal(size=(50, 3)) + np.array([0.0, 5.0, -3.0])
    >>> data = ContextData(x, np.zeros(50, int), ("a", "b", "c"), (), "wt")
    >>> _may_have_origin(data), _may_have_origin(data.standardized()), _may_have_origin(replace(data, x=x + 9))
    (True, False, False)
    """
    control = data.x[data.context == 0]
    if len(control) < 3 or (np.abs(data.x.mean(axis=0)) <= CENTRED * data.x.std(axis=0)).all():
        return False
    error = control.std(axis=0, ddof=1) / math.sqrt(len(control))
    off = np.abs(control.mean(axis=0)) / np.maximum(error, 1e-300)
    return bool(off.min() < NEAR and np.median(off) > FAR)
