"""Posteriors to draw, made without a fit: a tree of causes with doubtful edges, and contexts that each hit one."""

import numpy as np

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.posterior import Posterior
from bacadi.report.words import Run


def made(d: int = 6, m: int = 4, draws: int = 40, names: tuple[str, ...] = (), seed: int = 0) -> Posterior:
    """Two replicas of draws of a tree (each variable has one of the three before as its cause) and stray edges.

    Context k hits variable k, which moves by 3, its effects by 1.5; variable 0 has weights of both signs below it.
    """
    rng = np.random.default_rng(seed)
    variables = names or tuple(f"gene {i}" for i in range(d))
    contexts = tuple(f"ctx {k}" for k in range(m))
    cause = np.array([max(0, j - 1 - int(rng.integers(3))) for j in range(d)])
    tree = np.zeros((d, d), bool)
    tree[cause[1:], np.arange(1, d)] = True
    doubt = np.triu(rng.random((d, d)) < min(1.0, 3 / d), 2) * rng.uniform(0.02, 0.6, (d, d))
    shape = (2, draws)
    graph = np.triu((rng.random((*shape, d, d)) < np.where(tree, 0.99, doubt)), 1)
    graph[..., 0, 1] = True
    targets = np.broadcast_to(np.eye(m, d, dtype=np.int8), (*shape, m, d)).copy()
    targets[0, 0, :1, -1] = 1
    x = rng.normal(size=(40 * (m + 1), d))
    context = np.repeat(np.arange(m + 1), 40)
    for k in range(min(m, d)):
        x[context == k + 1, k] += 3.0
        x[np.ix_(context == k + 1, np.flatnonzero(tree[k]))] -= 1.5
    sign = np.where((np.arange(d)[:, None] + np.arange(d)) % 2, 1.0, -1.0)
    weight = sign * rng.uniform(0.5, 1.0, (d, d)) + 0.05 * rng.normal(size=(*shape, d, d))
    data = ContextData(x, context, variables, contexts, "control")
    return Posterior.from_draws(
        data,
        graph,
        targets,
        parameters={"weight": Labelled(weight, ("source", "target"))},
        sample_stats={
            "edge_error": Labelled(np.full((d, d), 0.012), ("source", "target")),
            "log_posterior": Labelled(rng.normal(size=shape)),
            "log_posterior_ess": Labelled(np.array(70.0)),
        },
        constant_data={
            "known_target": Labelled(np.where(np.eye(m, d) * (np.arange(d) == 0), 1.0, np.nan), ("context", "node"))
        },
        attrs={"converged": True, "method": "mcmc", "seed": 1, "misfit": [], "warnings": []},
    )


def run_of(posterior: Posterior) -> Run:
    """With what a folder would say beside it."""
    log = ({"event": "done", "time": "2026-03-04T05:06:07+00:00", "seconds": 12.0},)
    return Run(posterior, {"data": {"path": "/somewhere/cells.csv", "sha256": "00ff"}}, log)
