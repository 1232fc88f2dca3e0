"""Where the variables of a graph stand and how its edges run: layers from the orders of the draws (Sugiyama, 1981).

Positions are computed once, of all edges that may ever be shown; what a reader hides or shows moves nothing. The unit
is one pixel of a page at its usual size; y grows downwards, so that causes stand above their effects.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import isotonic_regression
from scipy.sparse import csr_array

from bacadi.graph.dag import depths, topological_order
from bacadi.posterior import Posterior
from bacadi.posterior.orientation import thinned
from bacadi.posterior.summaries import consensus

LONGEST_NAME = 14
BOX_HEIGHT, CHARACTER = 24.0, 7.4
_LAYER, _GAP, _PADDING, _WAYPOINT, _MARGIN = 74.0, 14.0, 24.0, 11.0, 20.0
_BACKBONE, _LEAST_FOR_ORDER, _DRAWS, _ENTRIES = 0.3, 0.05, 200, 4e6
_SWEEPS, _SETTLING = 24, 12

Square = Float[np.ndarray, "d d"]
Names = tuple[str, ...]


class Drawing(NamedTuple):
    """A graph as it is drawn.

    Attributes:
        size: width and height.
        centre: of the box of each variable.
        width: of the boxes, which are `BOX_HEIGHT` high.
        edges: pairs (source, target), the most probable first.
        curves: of each edge a chain of cubic Bézier curves, 1 + 3 s points from the source to the target.
    """

    size: tuple[float, float]
    centre: Float[np.ndarray, "d 2"]
    width: Float[np.ndarray, " d"]
    edges: Int[np.ndarray, "e 2"]
    curves: list[Float[np.ndarray, "points 2"]]


def shortened(name: str, longest: int = LONGEST_NAME) -> str:
    """Start and end of a long name on one line, since names often share their start.

    >>> shortened("a rather long name of a gene")
    'a rather… gene'
    """
    name = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return name if len(name) <= longest else f"{name[: longest - 6]}…{name[-5:]}"


def causal_order(posterior: Posterior) -> Int[np.ndarray, " d"]:
    """The variables in an order that likely edges follow: causes before their effects.

    A topological order of the acyclic graph of the most probable edges; where that leaves a choice, the variable that
    stands higher in the draws on average goes first.

    >>> graph = np.array([[[[0, 0], [1, 0]]]], dtype=np.int8)
    >>> causal_order(Posterior(graph, np.zeros((1, 1, 0, 2), np.int8), np.zeros((1, 1)), ("wet", "rain"), ())).tolist()
    [1, 0]
    """
    draws = thinned(posterior.structures(), int(np.clip(_ENTRIES / posterior.n_variables**2, 20, _DRAWS)))
    graphs = np.tril(draws.graphs) if posterior.n_cyclic else draws.graphs  # cyclic draws of weight: rare, any order
    first = np.argsort(draws.weights @ depths(graphs), kind="stable")
    names = tuple(posterior.variables[i] for i in first)
    p = posterior.edge_probabilities()[np.ix_(first, first)]
    return first[topological_order(consensus(p, _LEAST_FOR_ORDER, names))]


def lay_out(probability: Mapping[tuple[int, int], float], order: Int[np.ndarray, " n"], names: Names) -> Drawing:
    """Draw some variables with all edges given, by their numbers in the posterior; the drawing counts by `order`.

    >>> lay_out({(1, 0): 0.9}, np.array([1, 0]), ("wet", "rain")).edges.tolist()
    [[0, 1]]
    """
    place = {int(i): at for at, i in enumerate(order)}
    p = np.zeros((len(order),) * 2)
    for (i, j), value in probability.items():
        p[place[i], place[j]] = value
    return layered(p, tuple(names[i] for i in order), float(p[p > 0].min(initial=1.0)))


def layered(probability: Square, names: Names, least: float, width: float = 1120.0) -> Drawing:
    """Place the variables in layers and lead all edges of at least the probability `least` around them.

    Variables must come in a causal order. An edge of the likely acyclic graph leads to a lower layer, no layer is wider
    than `width`, and variables without any edge stand in rows below. Neighbours in a layer are ordered by sweeps of
    barycentres, and edges over several layers keep a lane of their own.

    >>> drawing = layered(np.array([[0, 0.9], [0, 0]]), ("rain", "wet"), 0.1)
    >>> drawing.edges.tolist(), bool(drawing.centre[0, 1] < drawing.centre[1, 1])
    ([[0, 1]], True)
    """
    d = len(names)
    box = np.array([_PADDING + CHARACTER * len(shortened(name)) for name in names])
    source, target = np.nonzero((probability >= least) & ~np.eye(d, dtype=bool))
    edges = np.stack([source, target], axis=1)[np.argsort(-probability[source, target], kind="stable")]
    backbone = consensus(probability, min(_BACKBONE, max(least, 1e-9)) if least < 1 else 0.0, names)
    layer = _layers(backbone, edges, box, width)
    web = _Web(layer, edges, probability, box)
    web.order()
    x = web.place()
    x -= (x - web.room / 2).min(initial=0.0) - _MARGIN
    size = float((x + web.room / 2).max(initial=0.0)) + _MARGIN, (layer.max(initial=0) + 1) * _LAYER
    centre = np.stack([x[:d], (web.layer[:d] + 0.5) * _LAYER], axis=1)
    return Drawing(size, centre, box, edges, _curves(web, x, box))


def _layers(graph: np.ndarray, edges: np.ndarray, box: np.ndarray, width: float) -> Int[np.ndarray, " d"]:
    """The layer of each variable: below all its parents, no layer wider than allowed, the unconnected at the end."""
    d, taken = len(graph), np.zeros(2 * len(graph) + 2)
    layer, connected = np.zeros(d, dtype=np.int64), np.zeros(d, dtype=bool)
    connected[edges.ravel()] = True

    def put(node: int, at: int) -> None:
        while taken[at] and taken[at] + box[node] + _GAP > width:
            at += 1
        layer[node] = at
        taken[at] += box[node] + _GAP

    for node in topological_order(graph).tolist():
        if connected[node]:
            put(node, 1 + max((int(layer[i]) for i in np.flatnonzero(graph[:, node])), default=-1))
    # Roots stand just above their first effect and not all in the first row.
    for node in np.flatnonzero(connected & ~graph.any(axis=0) & graph.any(axis=1)):
        wanted = int(layer[graph[node] != 0].min()) - 1
        while wanted > layer[node] and taken[wanted] + box[node] + _GAP > width:
            wanted -= 1
        taken[[layer[node], wanted]] += np.array([-1, 1]) * (box[node] + _GAP)
        layer[node] = wanted
    last = int(layer[connected].max()) + 1 if connected.any() else 0
    for node in np.flatnonzero(~connected).tolist():
        put(node, last)
    return np.unique(layer, return_inverse=True)[1].reshape(-1)


class _Web:
    """Variables and waypoints of long edges as points in layers, with links between neighbouring layers."""

    def __init__(self, layer: np.ndarray, edges: np.ndarray, probability: Square, box: np.ndarray) -> None:
        points, links, weights, self.paths = list(layer), [], [], []
        for i, j in edges.tolist():
            step = 1 if layer[j] >= layer[i] else -1
            way = [i]
            for between in range(layer[i] + step, layer[j], step):
                points.append(between)
                way.append(len(points) - 1)
            way.append(j)
            self.paths.append(way)
            if layer[i] != layer[j]:
                links += list(pairwise(way))
                # Lanes of long edges are kept straight before others.
                weights += [probability[i, j] * (3.0 if len(way) > 2 else 1.0)] * (len(way) - 1)
        n, d = len(points), len(layer)
        self.layer = np.array(points, dtype=np.int64)
        self.room = np.full(n, _WAYPOINT)
        self.room[:d] = box + _GAP
        self.links = np.array(links, dtype=np.int64).reshape(-1, 2)
        both, share = np.concatenate([self.links, self.links[:, ::-1]]), np.array(weights * 2)
        above = self.layer[both[:, 1]] < self.layer[both[:, 0]]
        self.points = [np.flatnonzero(self.layer == level) for level in range(self.layer.max(initial=0) + 1)]
        self.rows = [points.copy() for points in self.points]
        # Weights of links of the points of each layer: to the layer above, to that below, and to both.
        self.pulls = []
        for chosen in (above, ~above, np.ones_like(above)):
            pull = csr_array((share[chosen], both[chosen].T), shape=(n, n))
            self.pulls.append([pull[points] for points in self.points])

    def order(self) -> None:
        """Sort each layer by the barycentre of its neighbours, downwards and upwards; keep the fewest crossings."""
        best, fewest = [row.copy() for row in self.rows], self._crossings()
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            place = self._places()
            for level in range(len(self.rows)) if down else range(len(self.rows) - 1, -1, -1):
                points = self.points[level]
                wanted = _barycentre(self.pulls[0 if down else 1][level], place, place[points])
                self.rows[level] = row = points[np.lexsort((place[points], wanted))]
                place[row] = (np.arange(len(row)) + 0.5) / len(row)
            crossings = self._crossings()
            if crossings < fewest:
                best, fewest = [row.copy() for row in self.rows], crossings
            if not fewest:
                break
        self.rows = best

    def _places(self) -> Float[np.ndarray, " n"]:
        """Of each point, which share of its layer stands left of it."""
        place = np.zeros(len(self.layer))
        for row in self.rows:
            place[row] = (np.arange(len(row)) + 0.5) / max(len(row), 1)
        return place

    def _crossings(self) -> int:
        place, (a, b) = self._places(), self.links.T
        lower = self.layer[a] > self.layer[b]
        top, bottom = np.where(lower, b, a), np.where(lower, a, b)
        total = 0
        for level in range(len(self.rows)):
            at = self.layer[top] == level
            x, y = place[top[at]], place[bottom[at]]
            total += int(((x[:, None] < x) & (y[:, None] > y)).sum())
        return total

    def place(self) -> Float[np.ndarray, " n"]:
        """x of every point: near its neighbours, in the order of its layer, without overlaps (isotonic regression)."""
        x = np.zeros(len(self.layer))
        offsets = []
        for row in self.rows:
            room = self.room[row]
            offset = np.concatenate([[0.0], np.cumsum((room[1:] + room[:-1]) / 2)])[: len(row)]
            offsets.append(offset)
            x[row] = offset - offset.mean() if len(row) else offset
        sorting = [np.searchsorted(points, row) for points, row in zip(self.points, self.rows, strict=True)]
        pulls = [pull[at] for pull, at in zip(self.pulls[2], sorting, strict=True)]
        weights = [np.maximum(pull.sum(axis=1), 0.1) for pull in pulls]
        for sweep in range(_SETTLING):
            for level in range(len(self.rows)) if sweep % 2 == 0 else range(len(self.rows) - 1, -1, -1):
                row, offset = self.rows[level], offsets[level]
                if pulls[level].nnz:
                    wanted = _barycentre(pulls[level], x, x[row])
                    x[row] = isotonic_regression(wanted - offset, weights=weights[level]).x + offset
        return x


def _barycentre(pull: "csr_array", at: np.ndarray, own: np.ndarray) -> Float[np.ndarray, " n"]:
    """The mean place of the neighbours of each point, its own where it has none."""
    total = pull.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, pull @ at / total, own)


def _curves(web: _Web, x: np.ndarray, box: np.ndarray) -> list[np.ndarray]:
    """Curves that leave a box below and enter the next above, each at a place of its own along the side."""
    y = (web.layer + 0.5) * _LAYER
    sides: dict[tuple[int, int], list[tuple[float, int, int]]] = {}
    heading = []
    for number, way in enumerate(web.paths):
        first, last = (
            int(np.sign(web.layer[b] - web.layer[a])) or 1 for a, b in ((way[0], way[1]), (way[-1], way[-2]))
        )
        heading.append((first, last))
        sides.setdefault((way[0], first), []).append((x[way[1]], number, 0))
        sides.setdefault((way[-1], last), []).append((x[way[-2]], number, 1))
    port = np.zeros((len(web.paths), 2))
    for (node, _), ends in sides.items():
        ends.sort()
        spread = min(10.0, 0.7 * box[node] / len(ends))
        for place, (_, number, end) in enumerate(ends):
            port[number, end] = x[node] + spread * (place - (len(ends) - 1) / 2)
    curves = []
    for number, way in enumerate(web.paths):
        points = np.stack([x[way], y[way]], axis=1)
        points[0], points[-1] = (
            (port[number, end], y[way[at]] + heading[number][end] * BOX_HEIGHT / 2) for end, at in ((0, 0), (1, -1))
        )
        curve = [points[0]]
        for start, end in pairwise(points):
            middle = (start[1] + end[1]) / 2 if start[1] != end[1] else start[1] + 0.6 * (_LAYER - BOX_HEIGHT)
            curve += [np.array([start[0], middle]), np.array([end[0], middle]), end]
        curves.append(np.array(curve))
    return curves
