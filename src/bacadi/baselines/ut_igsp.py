"""UT-IGSP: greedy sparsest permutation search with unknown intervention targets (Squires, Wang and Uhler, 2020).

From the minimal I-map of an order, covered edges are reversed while that makes the graph sparser or leaves fewer of its
mechanisms changed: Solus, Wang and Uhler (2021) for the search, Wang et al. (2017) and Yang et al. (2018) for
interventions. A graph is the tuple of its nodes' parents, each a bit mask.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int8

from bacadi.baselines.base import AbstractBaseline, Estimate, KnownTargets
from bacadi.baselines.ci import GaussianTests, StructureTests, mask_of, members
from bacadi.config.choices import option
from bacadi.data.contexts import ContextData
from bacadi.errors import DataError
from bacadi.graph.equivalence import i_cpdag

Parents = tuple[int, ...]
Known = Bool[np.ndarray, "M d"]

# Equally good graphs that one search may hold while it looks for a better one. On the paper's tasks it holds a few
# tens; a complete graph, all of whose orders are as good, has thousands within four reversals.
_GRAPHS = 200


class ScoredGraph(NamedTuple):
    """A graph of the search, with its edges and its changed mechanisms that no known target explains."""

    parents: Parents
    edges: int
    changes: int


class PermutationSearch:
    """The search's rules: which graph scores what, and which graphs are one reversal away.

    `known[k, i]` is true where context k + 1 is known to intervene on variable i. Up to `depth` reversals in a row may
    leave the score as it is.
    """

    def __init__(self, tests: StructureTests, known: Known, edges_first: bool, depth: int = 4) -> None:
        self._tests, self._edges_first, self._depth = tests, edges_first, depth
        self._targeted = [mask_of(column) for column in known.T]

    def scored(self, parents: Parents) -> ScoredGraph:
        edges = sum(mask.bit_count() for mask in parents)
        return ScoredGraph(parents, edges, sum(self._cost(*node) for node in enumerate(parents)))

    def key(self, graph: ScoredGraph) -> tuple[int, ...]:
        """What is minimised: edges plus changed mechanisms, or edges first."""
        return graph[1:] if self._edges_first else (graph.edges + graph.changes,)

    def imap(self, order: Sequence[int]) -> ScoredGraph:
        """The graph whose parents of j are the earlier i dependent on j given all others earlier: a minimal I-map."""
        parents, earlier = [0] * len(order), 0
        for node in order:
            parents[node] = self._boundary(node, earlier)
            earlier |= 1 << node
        return self.scored(tuple(parents))

    def descend(self, rng: np.random.Generator, graph: ScoredGraph) -> ScoredGraph:
        """Reverse covered edges while this improves the score, over up to `depth` reversals that keep it."""
        while (better := self._improve(rng, graph)) is not None:
            graph = better
        return graph

    def _improve(self, rng: np.random.Generator, start: ScoredGraph) -> ScoredGraph | None:
        """The best neighbour that scores better, of the first graph with one in a depth-first walk of equal graphs."""
        seen, stack, goal = {start.parents}, [(start, 0)], self.key(start)
        while stack:
            graph, depth = stack.pop()
            nearby = list(self._neighbours(graph))
            best = min(nearby, key=self.key, default=graph)
            if self.key(best) < goal:
                return best
            if depth == self._depth:
                continue
            equal = [other for other in nearby if self.key(other) == goal and other.parents not in seen]
            for pick in rng.permutation(len(equal))[: _GRAPHS - len(seen)]:
                seen.add(equal[pick].parents)
                stack.append((equal[pick], depth + 1))
        return None

    def _neighbours(self, graph: ScoredGraph) -> Iterator[ScoredGraph]:
        """The graphs after reversing an edge i -> j that is covered, pa(j) = pa(i) + i, unless a target shows it."""
        for j, mask in enumerate(graph.parents):
            for i in members(mask).tolist():
                if mask == graph.parents[i] | 1 << i and not self._direction_shown(i, j, mask):
                    yield self._reverse(graph, i, j)

    def _direction_shown(self, i: int, j: int, parents: int) -> bool:
        """Whether a context known to act on i and not on j leaves p(j | parents) as it was: then j does not cause i."""
        acting = self._targeted[i] & ~self._targeted[j]
        return bool(acting) and bool(acting & ~self._tests.changed(j, parents))

    def _reverse(self, graph: ScoredGraph, i: int, j: int) -> ScoredGraph:
        """i -> j turned round; the common parents that the new order makes superfluous for i or j are dropped."""
        common = graph.parents[i]
        of_i, of_j = common | 1 << j, common
        for k in members(common).tolist():
            others = common & ~(1 << k)
            if self._tests.independent(i, k, others | 1 << j):
                of_i &= ~(1 << k)
            if self._tests.independent(j, k, others):
                of_j &= ~(1 << k)
        changed = {i: of_i, j: of_j}
        parents = tuple(changed.get(node, mask) for node, mask in enumerate(graph.parents))
        _, edges, changes = graph
        for node, mask in changed.items():
            edges += mask.bit_count() - graph.parents[node].bit_count()
            changes += self._cost(node, mask) - self._cost(node, graph.parents[node])
        return ScoredGraph(parents, edges, changes)

    def _cost(self, node: int, parents: int) -> int:
        return (self._tests.changed(node, parents) & ~self._targeted[node]).bit_count()

    def _boundary(self, node: int, earlier: int) -> int:
        if earlier.bit_count() - 1 > self._tests.most_given:
            earlier = self._grow(node, earlier)
        candidates = members(earlier).tolist()
        return sum(1 << i for i in candidates if not self._tests.independent(i, node, earlier & ~(1 << i)))

    def _grow(self, node: int, earlier: int) -> int:
        """Earlier nodes, added while dependent given those added: where rows are too few to condition on all."""
        grown, before = 0, -1
        while grown != before:
            before = grown
            for i in members(earlier & ~grown).tolist():
                if grown.bit_count() <= self._tests.most_given and not self._tests.independent(i, node, grown):
                    grown |= 1 << i
        return grown


def minimum_degree_order(rng: np.random.Generator, tests: StructureTests) -> list[int]:
    """An order that keeps the I-map sparse: last comes a node with fewest neighbours, which are then joined, and so on.

    Neighbours are dependent given all other variables, marginally where the rows are too few for that.
    """
    d = tests.n_variables
    joined, left = np.zeros((d, d), dtype=bool), np.ones(d, dtype=bool)
    for i, j in combinations(range(d), 2):
        given = ((1 << d) - 1) & ~(1 << i | 1 << j) if d - 2 <= tests.most_given else 0
        joined[i, j] = joined[j, i] = not tests.independent(i, j, given)
    order: list[int] = []
    while left.any():
        degree = np.where(left, (joined & left).sum(axis=1), d + 1)
        node = int(rng.choice(np.flatnonzero(degree == degree.min())))
        neighbours = joined[node] & left
        joined |= neighbours[:, None] & neighbours[None, :]
        np.fill_diagonal(joined, False)
        left[node] = False
        order.insert(0, node)
    return order


def adjacency(parents: Parents) -> Int8[np.ndarray, "d d"]:
    """The array of a tuple of parent sets, graph[i, j] = 1 where i -> j.

    >>> adjacency((0, 1)).tolist()
    [[0, 1], [0, 0]]
    """
    return _columns(parents, len(parents))


def changed_mechanisms(tests: StructureTests, parents: Parents, n_contexts: int) -> Int8[np.ndarray, "M d"]:
    """Entry (k, i) is 1 where variable i given its parents is distributed otherwise in context k + 1."""
    return _columns([tests.changed(*node) for node in enumerate(parents)], n_contexts)


def _columns(masks: Sequence[int], n: int) -> Int8[np.ndarray, "n d"]:
    """The bit masks as columns of n entries."""
    return np.array([[mask >> i & 1 for mask in masks] for i in range(n)], dtype=np.int8).reshape(n, len(masks))


class UTIGSP(AbstractBaseline):
    """The graph with fewest edges plus changed mechanisms, |G| + Σ_k |{i : p_k(x_i | pa_i) ≠ p_0(x_i | pa_i)}|.

    Edges come from partial correlations at level `alpha` over the observational rows, changed mechanisms (the targets)
    from Gaussian tests at level `alpha_inv` of each context against these rows. The best of `n_starts` random orders is
    kept, and what it says is the interventional CPDAG of its graph and targets.

    Known targets explain the changes at their variables, and an edge that such a target shows to be right is not
    reversed: IGSP where all are known. A variable known to be untouched is reported so, and a change there still counts
    against the graph.

    `edges_first` counts changes only between graphs with the same number of edges; `minimum_degree` starts from orders
    that keep the first graph sparse. `published()` has both and five starts.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(400, 2)) * [1.0, 0.5]
    >>> context = np.repeat([0, 1], 200)
    >>> x[context == 1, 0] += 3.0
    >>> x[:, 1] += x[:, 0]
    >>> found = UTIGSP().estimate(rng, ContextData(x, context, ("a", "b"), ("on a",), "none"), None)
    >>> found.graph.tolist(), found.targets.tolist()
    ([[0, 1], [0, 0]], [[1, 0]])
    """

    name: ClassVar[str] = "UT-IGSP"
    finds_classes: ClassVar[bool] = True

    alpha: float = option(1e-3, above=0, below=1)
    alpha_inv: float = option(1e-4, above=0, below=1)
    n_starts: int = option(300, least=1)
    depth: int = option(4, least=0)
    edges_first: bool = False
    minimum_degree: bool = False

    @classmethod
    def published(cls, alpha: float = 1e-3, alpha_inv: float = 1e-3) -> "UTIGSP":
        """The search settings of the package behind the published results."""
        return cls(alpha, alpha_inv, n_starts=5, edges_first=True, minimum_degree=True)

    def check(self, data: ContextData, known_targets: KnownTargets) -> Float[np.ndarray, "M d"]:
        known = super().check(data, known_targets)
        if data.counts[0] == 0:
            raise DataError(
                "UT-IGSP compares every context with the observational one, which has no row; "
                "name the observational context or use another method."
            )
        return known

    def estimate(self, rng: np.random.Generator, data: ContextData, known_targets: KnownTargets) -> Estimate:
        known = self.check(data, known_targets)
        tests = GaussianTests(data, self.alpha, self.alpha_inv)
        best = self.search(rng, tests, known)
        changed = changed_mechanisms(tests, best.parents, data.n_contexts)
        targets = np.where(np.isnan(known), changed, known).astype(np.int8)
        return Estimate(i_cpdag(adjacency(best.parents), targets), targets)

    def search(self, rng: np.random.Generator, tests: StructureTests, known: Float[np.ndarray, "M d"]) -> ScoredGraph:
        """The best DAG over all starts, the first of several, for any tests (an oracle, say)."""
        rules = PermutationSearch(tests, known == 1, self.edges_first, self.depth)

        def local_optimum() -> ScoredGraph:
            order = minimum_degree_order(rng, tests) if self.minimum_degree else rng.permutation(tests.n_variables)
            return rules.descend(rng, rules.imap([int(node) for node in order]))

        return min((local_optimum() for _ in range(self.n_starts)), key=rules.key)
