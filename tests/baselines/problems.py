"""A bootstrap of data and known targets, called as `bacadi.fit` calls it."""

import numpy as np

from bacadi.baselines import Bootstrap
from bacadi.data.contexts import ContextData
from bacadi.inference.method import Monitor, Problem
from bacadi.model.knowledge import Knowledge
from bacadi.model.model import Model
from bacadi.posterior.posterior import Posterior


def problem(data: ContextData, known: np.ndarray | None = None, seed: int = 0) -> Problem:
    """Data with known targets (1, 0, NaN) and a model that no baseline reads."""
    knowledge = Knowledge.none(data.n_variables, data.n_contexts).known_targets(known)
    return Problem(data, Model(), knowledge, seed)


def run(
    bootstrap: Bootstrap,
    data: ContextData,
    known: np.ndarray | None = None,
    seed: int = 0,
    monitor: Monitor | None = None,
) -> Posterior:
    """Check, then fit."""
    question = problem(data, known, seed)
    bootstrap.check(question)
    return bootstrap.fit(question, monitor or Monitor())
