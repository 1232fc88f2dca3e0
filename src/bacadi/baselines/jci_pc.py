"""JCI-PC (Mooij, Magliacane and Claassen, 2016, 2020): the PC algorithm over variables and context indicators.

One indicator per context is 1 in its rows. By JCI's assumptions indicators cause variables and never the reverse, and
there are no edges among them, so an edge out of an indicator is a predicted target. The skeleton search is
causal-learn's, the tests are those of `bacadi.baselines.ci`.
"""

from importlib import import_module
from itertools import combinations, compress
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float, Int, Int8, Shaped

from bacadi.baselines.base import AbstractBaseline, Estimate, Graph, KnownTargets, Targets
from bacadi.baselines.ci import JointColumns, PartialCorrelationTest, not_constant, singular_columns
from bacadi.config.choices import option
from bacadi.data.contexts import ContextData
from bacadi.errors import DataError
from bacadi.graph.equivalence import consistent_extension, i_cpdag, meek_closure

Joined = Bool[np.ndarray, "c c"]
Separators = dict[tuple[int, int], set[int]]
_SKELETON = "causallearn.utils.PCUtils.SkeletonDiscovery"


class JCIPC(AbstractBaseline):
    """PC with Fisher's z at level `alpha`; the graph over the variables is the class that the skeleton, the colliders,
    the targets and Meek's rules leave.

    A column or an indicator that is constant in the rows is independent of all others: no edge, no target. Known
    targets are edges that no test removes, known non-targets are removed with the best separator met. Indicators act
    linearly on their targets in these tests: a shift does, a hard intervention on a variable with parents does not,
    so that false edges are found however many rows there are.

    >>> rng = np.random.default_rng(0)
    >>> context = np.repeat([0, 1], 200)
    >>> a = rng.normal(size=400) + 3 * context
    >>> x = np.column_stack([a, a + rng.normal(size=400)])
    >>> found = JCIPC().estimate(rng, ContextData(x, context, ("a", "b"), ("on a",), "none"), None)
    >>> found.graph.tolist(), found.targets.tolist()
    ([[0, 1], [0, 0]], [[1, 0]])
    """

    name: ClassVar[str] = "JCI-PC"
    needs: ClassVar[tuple[str, str]] = ("causallearn", "causal-learn")
    finds_classes: ClassVar[bool] = True

    alpha: float = option(0.01, above=0, below=1)
    max_conditioning: int | None = option(None, least=0, none="none")
    max_tests: int = option(500_000, least=1)

    def check(self, data: ContextData, known_targets: KnownTargets) -> Float[np.ndarray, "M d"]:
        known = super().check(data, known_targets)
        if bound := singular_columns(data.x, data.variables):
            listed = ", ".join(f"'{name}'" for name in bound)
            raise DataError(
                f"The columns {listed} are linear functions of each other, so their correlation matrix is singular; "
                "drop one of them."
            )
        return known

    def estimate(self, rng: np.random.Generator, data: ContextData, known_targets: KnownTargets) -> Estimate:
        known = super().check(data, known_targets)
        indicators = (data.context[:, None] == np.arange(1, data.n_contexts + 1)).astype(float)
        varies, acts = not_constant(data.x), not_constant(indicators)
        graph = np.zeros((data.n_variables, data.n_variables), dtype=np.int8)
        targets = (known == 1).astype(np.int8)
        if varies.any():
            x = np.column_stack([data.x[:, varies], indicators[:, acts]])
            names = (*compress(data.variables, varies), *compress(data.contexts, acts))
            columns = JointColumns(x, names, known[np.ix_(acts, varies)])
            graph[np.ix_(varies, varies)], targets[np.ix_(acts, varies)] = self._search(rng, columns)
        return Estimate(graph, targets)

    def _search(self, rng: np.random.Generator, columns: JointColumns) -> tuple[Graph, Targets]:
        """The class of the variables and the targets of the indicators."""
        d = columns.n_variables
        joined, separators = self._skeleton(columns)
        pdag = meek_closure(_with_colliders(joined, separators, d))
        graph, targets = pdag[:d, :d], pdag[d:, :d]
        try:
            consistent_extension(pdag, rng)
        except ValueError:
            # Tests that contradict each other leave a graph that no DAG has.
            graph = i_cpdag(nearest_dag(graph), targets)
        return graph, targets

    def _skeleton(self, columns: JointColumns) -> tuple[Joined, Separators]:
        """Which columns are joined, and all columns that separated a pair that is not."""
        d = columns.n_variables
        test = PartialCorrelationTest(columns, self.max_tests)
        search = import_module(_SKELETON).skeleton_discovery
        result = search(columns.x, self.alpha, test, stable=True, show_progress=False, max_k=self.max_conditioning)
        joined = result.G.graph != 0
        separators = {
            (a, b): {int(node) for given in result.sepset[a, b] or () for node in given}
            for a, b in combinations(range(len(joined)), 2)
            if not joined[a, b]
        }
        for k, j in np.argwhere(columns.known == 0).tolist():
            if joined[j, d + k]:
                joined[j, d + k] = joined[d + k, j] = False
                separators[j, d + k] = set(test.best_separator(j, d + k))
        return joined, separators


def nearest_dag(pdag: Shaped[np.ndarray, "d d"]) -> Int8[np.ndarray, "d d"]:
    """A DAG with the skeleton of a partially directed graph that has no consistent extension.

    As Dor and Tarsi's algorithm, but the next sink is the node that reverses the fewest directed edges, then the one
    that makes the fewest new v-structures, then the first.

    >>> nearest_dag(np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]])).tolist()
    [[0, 0, 0], [1, 0, 1], [1, 0, 0]]
    """
    edges = pdag != 0
    joined = edges | edges.T
    dag = np.zeros_like(edges)
    left = list(range(len(edges)))
    while left:
        sink = min(left, key=lambda node: _cost_as_sink(edges, node, np.setdiff1d(left, node)))
        left.remove(sink)
        dag[left, sink] = joined[left, sink]
    return dag.astype(np.int8)


def _cost_as_sink(edges: Bool[np.ndarray, "d d"], node: int, others: Int[np.ndarray, " n"]) -> tuple[int, int]:
    out, into = edges[node, others], edges[others, node]
    undirected, parents = others[out & into], others[out | into]
    apart = ~(edges | edges.T)[np.ix_(undirected, parents)]
    return int((out & ~into).sum()), int(apart.sum()) - len(undirected)


def _with_colliders(joined: Joined, separators: Separators, n_variables: int) -> Int8[np.ndarray, "c c"]:
    """Edges out of the indicators, then a -> y <- b wherever y separated no non-adjacent a and b; the first come wins.

    Colliders with an indicator come first, for their other direction is known.
    """
    edges = joined.copy()
    edges[:n_variables, n_variables:] = False
    for a, b in sorted(separators, key=lambda pair: (pair[1] < n_variables, pair)):
        for y in np.flatnonzero(joined[a] & joined[b]).tolist():
            if y not in separators[a, b] and edges[a, y] and edges[b, y]:
                edges[y, a] = edges[y, b] = False
    return edges.astype(np.int8)
