"""Gaussian-process evidence by features: for many rows, and for all that sums of products can do (`evidence.tables`).

The covariance of a parent set P is replaced by K ≈ FF' (`nystrom`), with so many features that the bound on what they
miss,

    log p(y | FF') - tr(K - FF') / 2ρ ≤ log p(y | K)   (Titsias 2009),

is at most `ERROR` nats for the ρ that was chosen, u² times as many for ρ/u² (`NoisePrior.averaged`), as far as their
number goes. It is a bound on one side alone, but so small that the other is near, too: on networks of the paper's
recipe (d = 50, 1,200 rows, ρ = .1) log p(y | FF') is within .11 nats of log p(y | K), by 5 to 7 features for one
parent, 29 to 43 for two, 58 to 140 for three, and on functions that bend far more than K has it within .09 (ten times
the bound: 2.5). A function is then a regression on F with coefficients N(0, s²) = N(0, σ²/ρ), and its evidence follows
from the sums F_k'F_k, F_k'y_k and y_k'y_k of the contexts as that of linear mechanisms does, with drift, moves of the
parents, coarsening, blocks and weights of rows. Only contexts that are touched need sums of their own, which are made
from the rows where a score asks for them.
"""

from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache, partial
from itertools import pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from bacadi.data.contexts import ContextData
from bacadi.evidence.collapsed import EffectKind
from bacadi.evidence.compiled import compiled, row_by_row
from bacadi.evidence.gp.evidence import KernelEvidence, Request, refuse_slopes
from bacadi.evidence.gp.factor import NoisePrior, split
from bacadi.evidence.gp.nystrom import ERROR, kernel_features
from bacadi.evidence.tables import (
    NODE,
    GramTables,
    Regression,
    local_score,
    regression,
)

SUMS_BYTES = 2**30


class FeatureSums(NamedTuple):
    """The C columns Z (features F, ones, blocks) of all rows, times the roots of the weights of these, so that the ones
    are the roots; the sums of Z by context, and Z'Z of all contexts as untouched under each of the drifts. Contexts
    have moved the parents by `far`, and under drift b `deflate` times the products of their sums is taken away."""

    z: Float[np.ndarray, "n C"]
    sums: Float[np.ndarray, "K C"]
    far: Float[np.ndarray, " M"]
    deflate: Float[np.ndarray, "B K"]
    drift_log: Float[np.ndarray, " B"]
    total: Float[np.ndarray, "B C C"]


class ColumnSums(NamedTuple):
    """What does not depend on the features: the rows, sorted by context from `start` on; sums and sums of squares of
    the variables and rows, by group of nodes with the same weights of rows (G = 1 where rows have none), and the drifts
    as `GramTables` has them. Under drift b the rows of context k count `share[b, k]`."""

    x: Float[np.ndarray, "d n"]
    start: Int[np.ndarray, " bounds"]
    sums: Float[np.ndarray, "G K d"]
    squares: Float[np.ndarray, "G K d"]
    rows: Float[np.ndarray, "G K"]
    share: Float[np.ndarray, "B K"]
    drift: Float[np.ndarray, " B"]
    ratio: Float[np.ndarray, " B"]
    move: Float[np.ndarray, " B"]
    bend: float
    odds: Float[np.ndarray, "M d"]
    kind: Int8[np.ndarray, " T"]
    value: Float[np.ndarray, " T"]
    hard_log_evidence: Float[np.ndarray, "M d"]


@compiled
def sums_by_context(z, ones, start):  # type: ignore[no-untyped-def]
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
    products, of_columns = np.empty((m + 1, n_columns)), np.empty((1, m, size))
    for k in range(m + 1):
        rows = sums.z[start[k] : start[k + 1]]
        y = columns.x[node, start[k] : start[k + 1]] * rows[:, r]
        products[k] = np.dot(y, rows)
        if k > 0:
            of_columns[0, k - 1, :r], of_columns[0, k - 1, r + 1 :] = sums.sums[k, :r], sums.sums[k, r:]
            of_columns[0, k - 1, r] = columns.sums[g, k, node]
    total, matrix = np.empty((1, size, size, n_drifts)), np.empty((size, size))
    for b in range(n_drifts):
        response, squares = np.zeros(n_columns), 0.0
        for k in range(m + 1):
            share, taken, own = columns.share[b, k], sums.deflate[b, k], columns.sums[g, k, node]
            response += share * products[k] - taken * own * sums.sums[k]
            squares += share * columns.squares[g, k, node] - taken * own * own
        fill(sums.total[b], response, squares, r, matrix)
        total[0, :, :, b] = matrix
    gram, at_gram, n = np.empty((1, touched.sum(), size, size)), np.zeros(m, np.int64), 0
    for k in range(m):
        if touched[k]:
            rows = sums.z[start[k + 1] : start[k + 2]]
            fill(np.dot(rows.T, rows), products[k + 1], columns.squares[g, k + 1, node], r, gram[0, n])
            at_gram[k], n = n, n + 1
    hard, odds, reach = np.zeros((m, r + 1)), np.ones((m, r + 1)), np.zeros((m, r + 1))
    hard[:, r], odds[:, r] = columns.hard_log_evidence[:, node], columns.odds[:, node]
    if r > 0:
        reach[:, 0] = sums.far  # of all features together
    rows, drift_log = columns.rows[g : g + 1], sums.drift_log.reshape((1, n_drifts))
    few = np.empty((size, 0)), np.empty((1, 0)), np.zeros(m + 1, np.int64), of_columns
    n_rows, group = np.array([rows.sum()]), np.zeros(r + 1, np.int64)
    drifts = columns.drift, columns.ratio, np.zeros(n_drifts), columns.move, reach, sums.far, drift_log
    effects = columns.kind, columns.value, hard
    bends = columns.bend, odds
    return GramTables(
        np.arange(r + 2), gram, at_gram, *few, total, rows, n_rows, group, *drifts, *bends, prior, *effects
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


def prior_of_features(n_blocks: int, noise: NoisePrior, n_features: int, ratio: float, constant: float) -> Regression:
    """The prior of the regression on so many features, an intercept of variance `constant` s² (0: none) and one of each
    block."""
    n_fixed = 1 + n_blocks
    precision = np.full((n_features + 1, n_features + 1 + n_fixed), ratio)
    precision[:, n_features + 1 :] = ratio / (constant or 1.0)
    used = n_fixed if constant or n_blocks else 0
    return regression(used, precision, (noise.variance, noise.shape, noise.scale, noise.widths))


class FeatureEvidence(KernelEvidence):
    """The evidence of the process with covariance FF'; see the module for the formulas."""

    def _prepare(self, data: ContextData) -> None:
        refuse_slopes(self.states)
        self._columns = self._column_sums()
        self._sums, self._lock, self._bytes = OrderedDict[tuple[Any, ...], FeatureSums](), Lock(), 0
        self._prior = lru_cache(None)(partial(prior_of_features, self.blocks.shape[1], self.noise))

    def _column_sums(self) -> ColumnSums:
        x, start, states = self.rows.x, self.rows.start, self.states
        squares, sums, rows = [], [], []
        for weight in self.weights:
            parts = [(x[a:b], weight[a:b]) for a, b in pairwise(start)]
            squares.append([own @ part**2 for part, own in parts])
            sums.append([own @ part for part, own in parts])
            rows.append([own.sum() for _, own in parts])
        drift, ratio = states.drift, states.drift.noise_ratios
        share = np.column_stack([np.ones_like(ratio), np.repeat(1 / ratio[:, None], self.n_contexts, axis=1)])
        drifts = np.square(drift.stds), ratio, np.square(drift.context_moves)
        # A soft effect puts a function of its own in place of the usual one, whatever its spread.
        value = np.where(states.kind == EffectKind.SOFT, 0.0, states.value)
        effects = states.kind, value, states.hard_log_evidence
        of_rows = np.ascontiguousarray(x.T), start, np.array(sums), np.array(squares), np.array(rows)
        return row_by_row(ColumnSums(*of_rows, share, *drifts, *states.bends, *effects))  # type: ignore[no-any-return]

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
        root, r = np.sqrt(self.weights[g])[:, None], features.shape[1]
        z = np.empty((len(features), r + 1 + self.blocks.shape[1]))
        np.multiply(root, features, out=z[:, :r])
        z[:, r : r + 1], z[:, r + 1 :] = root, root * self.blocks
        found = self._summed(z, r, g, self.reach @ parents)
        with self._lock:
            if key not in self._sums:  # another thread may have made the same
                self._bytes += z.nbytes + found.total.nbytes
            self._sums[key] = found
            while self._bytes > SUMS_BYTES and len(self._sums) > 1:
                oldest = self._sums.popitem(last=False)[1]
                self._bytes -= oldest.z.nbytes + oldest.total.nbytes
        return found

    def _summed(self, z: Float[np.ndarray, "n C"], ones: int, g: int, far: Float[np.ndarray, " M"]) -> FeatureSums:
        """The sums of contexts that have moved the parents by `far`, as untouched under each of the drifts."""
        start, of = self.rows.start, self._columns
        share, drift, ratio, move = of.share, of.drift, of.ratio, of.move
        sums, n, far_too = sums_by_context(z, ones, start), of.rows[g], np.concatenate([[0.0], far])
        variance, usual = drift[:, None] + move[:, None] * far_too, ratio[:, None]
        deflate = variance / (usual * (usual + n * variance))
        deflate[:, 0] = 0.0  # the control is what contexts differ from
        changes = n * np.log(usual) + np.log1p(n * variance / usual)
        drift_log = np.log(self.states.drift.probabilities) - 0.5 * changes[:, 1:].sum(axis=1)
        total = np.empty((len(share), z.shape[1], z.shape[1]))
        for b, of_context in enumerate(share):
            if b == 0 or (of_context != share[b - 1]).any():
                rows = z if (of_context == 1).all() else z * np.sqrt(np.repeat(of_context, self.rows.counts))[:, None]
                product = rows.T @ rows
            total[b] = product - (sums.T * deflate[b]) @ sums if deflate[b].any() else product
        return FeatureSums(z, sums, far, deflate, drift_log, total)

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
