"""The thirty data sets on which UT-IGSP is held to another implementation (see golden_ut_igsp.json).

Drawn by `RandomState`, whose stream NumPy has frozen, and apart from `bacadi.simulate`, so that a change there does not
make the stored numbers stale.
"""

from typing import NamedTuple

import numpy as np

from bacadi.baselines.ci import StructureTests
from bacadi.baselines.ut_igsp import PermutationSearch, ScoredGraph
from bacadi.data.contexts import ContextData

N_TASKS, ALPHA, ALPHA_INV = 30, 1e-3, 1e-3


class Shape(NamedTuple):
    d: int
    rows: int
    rows_per_context: int


SHAPES = (Shape(6, 500, 100), Shape(8, 100, 30), Shape(12, 150, 25))


class ReferenceTask(NamedTuple):
    data: ContextData
    graph: np.ndarray
    targets: np.ndarray
    orders: list[list[int]]


def reference_task(seed: int) -> ReferenceTask:
    """A linear Gaussian network, one hard intervention on each variable, and five orders to start from."""
    rng = np.random.RandomState(seed)
    d, n0, nk = SHAPES[seed % len(SHAPES)]
    rank = rng.permutation(d)
    graph = ((rank[:, None] < rank[None, :]) & (rng.rand(d, d) < 3 / (d - 1))).astype(np.int8)
    weights = graph * rng.uniform(0.5, 2, (d, d)) * rng.choice([-1, 1], (d, d))
    context = np.repeat(np.arange(d + 1), [n0] + [nk] * d)
    x = rng.normal(0, 0.5, (len(context), d))
    shift = rng.choice([-3.0, 3.0], d)
    for node in np.argsort(rank):
        natural = x @ weights[:, node] + x[:, node]
        x[:, node] = np.where(context == node + 1, shift[node] + x[:, node], natural)
    names = tuple(f"x{i}" for i in range(d))
    data = ContextData(x, context, names, tuple(f"on {name}" for name in names), "none")
    return ReferenceTask(data, graph, np.eye(d, dtype=np.int8), [rng.permutation(d).tolist() for _ in range(5)])


def our_search(task: ReferenceTask, tests: StructureTests, edges_first: bool) -> ScoredGraph:
    """The best graph from the task's orders, no target known."""
    rules = PermutationSearch(tests, np.zeros(task.targets.shape, dtype=bool), edges_first)
    rng = np.random.default_rng(0)
    runs = [rules.descend(rng, rules.imap(order)) for order in task.orders]
    return min(runs, key=rules.key)


def table(x: np.ndarray, context: np.ndarray, n_contexts: int | None = None) -> ContextData:
    """Rows with invented names; context 0 is the observational one."""
    n_contexts = int(max(context)) if n_contexts is None else n_contexts
    names = tuple(f"x{i}" for i in range(x.shape[1]))
    return ContextData(x, np.asarray(context), names, tuple(f"c{k + 1}" for k in range(n_contexts)), "none")
