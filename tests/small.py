"""Small data and the paper's models, for tests of every package."""

import numpy as np

from bacadi.data.contexts import ContextData
from bacadi.model.model import Model

VARIABLES = ("a", "b", "c", "d")
EDGE_COLUMNS = (
    *("source", "target", "probability", "given_adjacent", "log_odds"),
    *("weight", "weight_q05", "weight_q95"),
)
TARGET_COLUMNS = (
    *("context", "variable", "probability", "log_odds"),
    *("change", "change_q05", "change_q95", "change_in_sd", "kind"),
)
"""The columns of the two tables: those that are there stay where they are, others may follow."""
PAPER = Model.preset("paper")
"""Linear mechanisms, σ² = .1, weights N(0, 1), no intercepts; hard effects, σ_I² = .5; columns as they are."""
PAPER_NETWORKS = Model.preset("paper", "nonlinear")
PAPER_BGE = Model.preset("paper", "bge")


def small_data(counts: tuple[int, ...] = (3, 1, 2), d: int = 3, seed: int = 0) -> ContextData:
    """Few rows, so that Ψ differs little between structures and Monte Carlo can be exact about it."""
    rng = np.random.default_rng(seed)
    context = np.repeat(np.arange(len(counts)), counts)
    x = 0.7 * rng.normal(size=(len(context), d))
    x[:, 1] += 0.5 * x[:, 0]
    contexts = tuple(f"k{k}" for k in range(1, len(counts)))
    return ContextData(x, context, VARIABLES[:d], contexts, "obs" if counts[0] else None)
