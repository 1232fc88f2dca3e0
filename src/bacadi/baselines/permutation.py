"""Greedy sparsest permutation: from the minimal I-map of an order, by reversing covered edges, to a sparser graph.

A graph is the tuple of its nodes' parents, each a bit mask. Solus, Wang and Uhler (2021) for the search, Wang et al.
(2017) and Yang et al. (2018) for interventions, Squires, Wang and Uhler (2020) for unknown targets.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Int8

from bacadi.baselines.ci_tests import StructureTests, mask_of, members

Parents = tuple[int, ...]


class Limits(NamedTuple):
    """How far a search looks for a better graph among equally good ones."""

    depth: int  # reversals in a row that do not improve the score
    graphs: int  # graphs looked at before the search gives up


class Score(NamedTuple):
    """What is minimised: edges plus changed mechanisms that no known target explains, or edges first."""

    edges: int
    changes: int
    edges_first: bool

    @property
    def key(self) -> tuple[int, ...]:
        return (self.edges, self.changes) if self.edges_first else (self.edges + self.changes,)


class Found(NamedTuple):
    parents: Parents
    score: Score


class PermutationSearch:
    """The search's rules: which graph scores what, and which graphs are one reversal away.

    `known[k, i]` is true where context k + 1 is known to intervene on variable i.
    """

    def __init__(self, tests: StructureTests, known: Bool[np.ndarray, "M d"], edges_first: bool) -> None:
        self._tests = tests
        self._edges_first = edges_first
        self._targeted = [mask_of(column) for column in known.T]

    def score(self, parents: Parents) -> Score:
        edges = sum(mask.bit_count() for mask in parents)
        return Score(edges, sum(self._cost(*node) for node in enumerate(parents)), self._edges_first)

    def imap(self, order: Sequence[int]) -> Found:
        """The graph whose parents of j are the earlier i dependent on j given all others earlier: a minimal I-map."""
        parents, earlier = [0] * len(order), 0
        for node in order:
            parents[node] = self._boundary(node, earlier)
            earlier |= 1 << node
        return Found(tuple(parents), self.score(tuple(parents)))

    def descend(self, rng: np.random.Generator, found: Found, limits: Limits) -> Found:
        """Reverse covered edges while this improves the score, over up to `limits.depth` reversals that keep it."""
        while (better := self._improve(rng, found, limits)) is not None:
            found = better
        return found

    def _improve(self, rng: np.random.Generator, start: Found, limits: Limits) -> Found | None:
        """The best neighbour that scores better, of the first graph with one in a depth-first walk of equal graphs."""
        seen = {start.parents}
        stack = [(start, 0)]
        while stack:
            found, depth = stack.pop()
            nearby = list(self._neighbours(found))
            best = min(nearby, key=lambda other: other.score.key, default=found)
            if best.score.key < start.score.key:
                return best
            if depth == limits.depth:
                continue
            equal = [other for other in nearby if other.score.key == start.score.key and other.parents not in seen]
            for pick in rng.permutation(len(equal))[: limits.graphs - len(seen)]:
                seen.add(equal[pick].parents)
                stack.append((equal[pick], depth + 1))
        return None

    def _neighbours(self, found: Found) -> Iterator[Found]:
        """The graphs after reversing an edge i -> j that is covered, pa(j) = pa(i) + i, and not settled by a target."""
        for j, mask in enumerate(found.parents):
            for i in members(mask).tolist():
                if mask == found.parents[i] | 1 << i and not self._settled(i, j, mask):
                    yield self._reverse(found, i, j)

    def _settled(self, i: int, j: int, parents: int) -> bool:
        """Whether a context known to act on i, not on j, leaves j given its parents as it was: i causes j, not j i."""
        acting = self._targeted[i] & ~self._targeted[j]
        return bool(acting) and bool(acting & ~self._tests.changed(j, parents))

    def _reverse(self, found: Found, i: int, j: int) -> Found:
        """i -> j turned round; the common parents that the new order makes superfluous for i or j are dropped."""
        common = found.parents[i]
        of_i, of_j = common | 1 << j, common
        for k in members(common).tolist():
            others = common & ~(1 << k)
            if self._tests.independent(i, k, others | 1 << j):
                of_i &= ~(1 << k)
            if self._tests.independent(j, k, others):
                of_j &= ~(1 << k)
        changed = {i: of_i, j: of_j}
        parents = tuple(changed.get(node, mask) for node, mask in enumerate(found.parents))
        edges, changes = found.score.edges, found.score.changes
        for node, mask in changed.items():
            edges += mask.bit_count() - found.parents[node].bit_count()
            changes += self._cost(node, mask) - self._cost(node, found.parents[node])
        return Found(parents, Score(edges, changes, self._edges_first))

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
    everything = (1 << d) - 1
    joined = np.zeros((d, d), dtype=bool)
    for i in range(d):
        for j in range(i):
            given = everything & ~(1 << i | 1 << j) if d - 2 <= tests.most_given else 0
            joined[i, j] = joined[j, i] = not tests.independent(i, j, given)
    left = np.ones(d, dtype=bool)
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
    graph = np.zeros((len(parents), len(parents)), dtype=np.int8)
    for node, mask in enumerate(parents):
        graph[members(mask), node] = 1
    return graph


def changed_mechanisms(tests: StructureTests, parents: Parents, n_contexts: int) -> Int[np.ndarray, "M d"]:
    """Entry (k, i) is 1 where variable i given its parents is distributed otherwise in context k + 1."""
    found = np.zeros((n_contexts, len(parents)), dtype=np.int8)
    for node, mask in enumerate(parents):
        found[members(tests.changed(node, mask)), node] = 1
    return found
