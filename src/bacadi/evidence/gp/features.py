"""Gaussian-process evidence by features: for many rows, and for all that sums of products can do (`evidence.tables`).

The covariance of a parent set P is replaced by K ≈ FF' (`nystrom`), with so many features that the bound on what they
miss,

    log p(y | FF') - tr(K - FF') / 2ρ ≤ log p(y | K)   (Titsias 2009),

is at most `ERROR` nats for the ρ that was chosen, u² times as many for ρ/u² (`NoisePrior.averaged`), as far as their
number goes. It is a bound on one side alone, but so small that the other is near, too: on networks of the paper's
recipe (d = 50, 1,200 rows, ρ = .1) log p(y | FF') is within .11 nats of log p(y | K), by 5 to 7 features for one
parent, 29 to 43 for two, 58 to 140 for three, and on functions that bend far more than K has it within .09 (ten times
the bound: 2.5). A function is then a regression on F with coefficients N(0, s²) = N(0, σ²/ρ), and its evidence follows
from the sums F_k'F_k, F_k'y_k and y_k'y_k of the contexts as that of linear mechanisms does, with drift, coarsening,
blocks and weights of rows. Only contexts that are touched need sums of their own, which are made from the rows where a
score asks for them.
"""

from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from bacadi.data.contexts import ContextData
from bacadi.errors import NoClosedForm
from bacadi.evidence.collapsed import EffectKind
from bacadi.evidence.compiled import compiled
from bacadi.evidence.gp.evidence import KernelEvidence, Request
from bacadi.evidence.gp.factor import split
from bacadi.evidence.gp.nystrom import ERROR, kernel_features
from bacadi.evidence.tables import (
    NODE,
    GramTables,
    Regression,
    drift_log_evidences,
    local_score,
    regression,
)

SUMS_BYTES = 2**30


class FeatureSums(NamedTuple):
    """The C columns Z (features F, ones, blocks) of all rows, times the roots of the weights of these, so that the ones
    are the roots; the sums of Z by context, and Z'Z of all contexts as untouched under each of the drifts."""

    z: Float[np.ndarray, "n C"]
    sums: Float[np.ndarray, "K C"]
    total: Float[np.ndarray, "B C C"]


class ColumnSums(NamedTuple):
    """What does not depend on the features: the rows, sorted by context from `start` on; sums and sums of squares of
    the variables, rows and drifts, by group of nodes with the same weights of rows (G = 1 where rows have none). Under
    drift b the rows of context k count `share[b, k]`, and `deflate` times the products of their sums is taken away."""

    x: Float[np.ndarray, "d n"]
    start: Int[np.ndarray, " bounds"]
    sums: Float[np.ndarray, "G K d"]
    squares: Float[np.ndarray, "G K d"]
    total_squares: Float[np.ndarray, "G B d"]
    rows: Float[np.ndarray, "G K"]
    share: Float[np.ndarray, "B K"]
    deflate: Float[np.ndarray, "G B K"]
    drift: Float[np.ndarray, " B"]
    ratio: Float[np.ndarray, " B"]
    drift_log: Float[np.ndarray, "G B"]
    kind: Int8[np.ndarray, " T"]
    value: Float[np.ndarray, " T"]
    hard_log_evidence: Float[np.ndarray, "M d"]


@compiled
def context_sums(z, ones, start):  # type: ignore[no-untyped-def]
    """The sums of the rows of each context, which are multiplied by the roots of their weights twice."""
    sums = np.zeros((len(start) - 1, z.shape[1]))
    for k in range(len(sums)):
        for row in range(start[k], start[k + 1]):
            for c in range(z.shape[1]):
                sums[k, c] += z[row, ones] * z[row, c]
    return sums


@compiled
def fill(products, response, squares, r, matrix):  # type: ignore[no-untyped-def]
    """The Gram matrix of the r features, the node, ones and blocks."""
    n = len(products)
    for a in range(n):
        at = a if a < r else a + 1
        for b in range(r):
            matrix[at, b] = products[a, b]
        for b in range(r, n):
            matrix[at, b + 1] = products[a, b]
        matrix[at, r] = matrix[r, at] = response[a]
    matrix[r, r] = squares


@compiled
def node_tables(columns, g, prior, sums, node, touched):  # type: ignore[no-untyped-def]
    """The tables of a node as the response of a regression on the features: variables are the r features and, as number
    r, the node itself. Only contexts that are touched have sums of their own."""
    n_drifts, n_columns, _ = sums.total.shape
    m, r, size, start = len(touched), len(prior.precision) - 1, n_columns + 1, columns.start
    products = np.empty((m + 1, n_columns))
    for k in range(m + 1):
        rows = sums.z[start[k] : start[k + 1]]
        y = columns.x[node, start[k] : start[k + 1]] * rows[:, r]
        products[k] = np.dot(y, rows)
    total, matrix = np.empty((1, size, size, n_drifts)), np.empty((size, size))
    for b in range(n_drifts):
        response = np.zeros(n_columns)
        for k in range(m + 1):
            response += columns.share[b, k] * products[k]
            response -= columns.deflate[g, b, k] * columns.sums[g, k, node] * sums.sums[k]
        fill(sums.total[b], response, columns.total_squares[g, b, node], r, matrix)
        total[0, :, :, b] = matrix
    gram, at_gram, n = np.empty((1, touched.sum(), size, size)), np.zeros(m, np.int64), 0
    for k in range(m):
        if touched[k]:
            rows = sums.z[start[k + 1] : start[k + 2]]
            fill(np.dot(rows.T, rows), products[k + 1], columns.squares[g, k + 1, node], r, gram[0, n])
            at_gram[k], n = n, n + 1
    hard, none = np.zeros((m, r + 1)), np.zeros((m, r + 1))
    hard[:, r] = columns.hard_log_evidence[:, node]
    rows, drift_log = columns.rows[g : g + 1], columns.drift_log[g : g + 1]
    few = np.empty((size, 0)), np.empty((1, 0)), np.zeros(m + 1, np.int64)
    n_rows, group = np.array([rows.sum()]), np.zeros(r + 1, np.int64)
    drifts = columns.drift, columns.ratio, np.zeros(n_drifts), np.zeros(n_drifts), none, drift_log
    effects = columns.kind, columns.value, hard
    return GramTables(
        np.arange(r + 2), gram, at_gram, *few, total, rows, n_rows, group, *drifts, 0.0, none, prior, *effects
    )


@compiled
def feature_scores(columns, g, prior, sums, node, states):  # type: ignore[no-untyped-def]
    """The evidence of a node in each of several columns of states."""
    touched = np.zeros(states.shape[1], np.bool_)
    for s in range(len(states)):
        touched |= states[s] > 0
    tables = node_tables(columns, g, prior, sums, node, touched)
    r = tables.hard_log_evidence.shape[1] - 1
    parents, scores = np.arange(r).astype(NODE), np.empty(len(states))
    for s in range(len(states)):
        scores[s] = local_score(tables, r, parents, r, states[s])
    return scores


@compiled
def feature_drifts(columns, g, prior, sums, node, state):  # type: ignore[no-untyped-def]
    """log p of each of the drifts, up to a constant."""
    tables = node_tables(columns, g, prior, sums, node, state > 0)
    r = tables.hard_log_evidence.shape[1] - 1
    return drift_log_evidences(tables, r, np.arange(r).astype(NODE), state)


class FeatureEvidence(KernelEvidence):
    """The evidence of the process with covariance FF'; see the module for the formulas."""

    def _prepare(self, data: ContextData) -> None:
        states = self.states
        if any(states.drift.slopes) or states.drift.follows_parents:
            raise NoClosedForm(
                "Slopes that drift and mechanisms that bend need linear mechanisms or BGe; leave slopes, moves and "
                "bend of [model.drift] out, or use --model linear or bge."
            )
        self._columns = self._column_sums()
        self._sums, self._lock, self._bytes = OrderedDict[tuple[Any, ...], FeatureSums](), Lock(), 0
        self._prior = lru_cache(None)(self._regression)

    def _column_sums(self) -> ColumnSums:
        x, start, states = self.rows.x, self.rows.start, self.states
        squares, sums, rows = [], [], []
        for weight in self.weights:
            parts = [(x[a:b], weight[a:b]) for a, b in pairwise(start)]
            squares.append([own @ part**2 for part, own in parts])
            sums.append([own @ part for part, own in parts])
            rows.append([own.sum() for _, own in parts])
        n, usual = np.array(rows)[:, None, :], states.drift.noise_ratios
        variance, ratio = np.square(states.drift.stds)[None, :, None], usual[None, :, None]
        deflate, changes = (
            variance / (ratio * (ratio + n * variance)),
            n * np.log(ratio) + np.log1p(n * variance / ratio),
        )
        deflate[..., 0] = 0.0  # the control is what contexts differ from
        share = np.column_stack([np.ones_like(usual), np.repeat(1 / usual[:, None], self.n_contexts, axis=1)])
        total = np.einsum("bk,gkj->gbj", share, squares) - np.einsum("gbk,gkj->gbj", deflate, np.square(sums))
        drifts = np.square(states.drift.stds), usual, np.log(states.drift.probabilities) - 0.5 * changes[..., 1:].sum(2)
        # A soft effect puts a function of its own in place of the usual one, whatever its spread.
        value = np.where(states.kind == EffectKind.SOFT, 0.0, states.value)
        effects = states.kind, value, states.hard_log_evidence
        of_rows = np.ascontiguousarray(x.T), start, np.array(sums), np.array(squares), total, np.array(rows)
        return ColumnSums(*of_rows, share, deflate, *drifts, *effects)

    def _regression(self, n_features: int, ratio: float, constant: float) -> Regression:
        """The prior of the regression on so many features, an intercept of variance `constant` s² (0: none) and one of
        each block."""
        n_fixed = 1 + self.blocks.shape[1]
        precision = np.full((n_features + 1, n_features + 1 + n_fixed), ratio)
        precision[:, n_features + 1 :] = ratio / (constant or 1.0)
        used = n_fixed if constant or self.blocks.shape[1] else 0
        noise = self.noise.variance, self.noise.shape, self.noise.scale, self.noise.widths
        return regression(used, precision, noise)

    def sums(self, node: int, parents: Bool[np.ndarray, " d"]) -> FeatureSums:
        """The sums of a parent set, made once while there is room for them."""
        kernel, ratio = self.groups[node]
        g = self.group_of(node)
        key = g, kernel, ratio, parents.tobytes()
        with self._lock:
            if key in self._sums:
                self._sums.move_to_end(key)
                return self._sums[key]
        features = kernel_features(split(kernel)[1], self.rows.x[:, parents], 2 * ERROR * ratio)
        root = np.sqrt(self.weights[g])[:, None]
        z = np.concatenate([root * features, root, root * self.blocks], axis=1)
        found = FeatureSums(z, *self._totals(z, features.shape[1], g))
        with self._lock:
            self._sums[key] = found
            self._bytes += z.nbytes + found.total.nbytes
            while self._bytes > SUMS_BYTES and len(self._sums) > 1:
                oldest = self._sums.popitem(last=False)[1]
                self._bytes -= oldest.z.nbytes + oldest.total.nbytes
        return found

    def _totals(
        self, z: Float[np.ndarray, "n C"], ones: int, g: int
    ) -> tuple[Float[np.ndarray, "K C"], Float[np.ndarray, "B C C"]]:
        """Sums of the rows by context, and their products in all as untouched under each of the drifts."""
        start, share, deflate = self.rows.start, self._columns.share, self._columns.deflate[g]
        sums = context_sums(z, ones, start)
        total = np.empty((len(share), z.shape[1], z.shape[1]))
        for b, of_context in enumerate(share):
            rows = z if (of_context == 1).all() else z * np.sqrt(np.repeat(of_context, self.rows.counts))[:, None]
            total[b] = rows.T @ rows - (sums.T * deflate[b]) @ sums
        return sums, total

    def _request(
        self, node: int, parents: Bool[np.ndarray, " d"]
    ) -> tuple[ColumnSums, int, Regression, FeatureSums, int]:
        sums, (kernel, ratio) = self.sums(node, parents), self.groups[node]
        n_features = sums.z.shape[1] - 1 - self.blocks.shape[1]
        prior = self._prior(n_features, ratio, split(kernel)[0])
        return self._columns, self.group_of(node), prior, sums, node

    def evaluate(self, requests: Iterable[Request]) -> list[float]:
        by_node: dict[int, list[int]] = {}
        every = list(requests)
        for at, (node, _, _) in enumerate(every):
            by_node.setdefault(node, []).append(at)
        values = np.empty(len(every))
        for node, places in by_node.items():
            states = np.array([every[at][2] for at in places], np.int8).reshape(len(places), self.n_contexts)
            values[places] = feature_scores(*self._request(node, every[places[0]][1]), states)
        return values.tolist()

    def log_drifts(self, node: int, parents: Bool[np.ndarray, " d"], state: Int8[np.ndarray, " M"]) -> np.ndarray:
        return feature_drifts(*self._request(node, parents), np.asarray(state, np.int8))
