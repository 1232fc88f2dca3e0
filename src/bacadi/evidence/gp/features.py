"""Gaussian-process evidence by features: for many rows, and for all that sums of products can do (`evidence.tables`).

The covariance of a parent set P is replaced by K ≈ FF' (`nystrom`), with so many features that the bound on what they
miss,

    log p(y | FF') - tr(K - FF') / 2ρ ≤ log p(y | K)   (Titsias 2009),

is at most `ERROR` nats, as far as their number goes: some 6 for one parent of the paper's networks, 12 for two, 25 for
three, 40 for four. A function is then a regression on F with coefficients N(0, s²) = N(0, σ²/ρ), and its evidence
follows from the sums F_k'F_k, F_k'y_k, y_k'y_k of the contexts as that of linear mechanisms does, with drift,
coarsening, blocks and weights of rows.
"""

from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int8

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

SUMS_BYTES = 2**30  # at 2,000 rows half of this makes every second set anew


class FeatureSums(NamedTuple):
    """Sums of products, by context, of the C columns Z (features F, ones, blocks) with Z and with all variables, and
    their sums over all contexts as untouched under each of the drifts."""

    gram: Float[np.ndarray, "K C S"]
    total: Float[np.ndarray, "B C S"]


class ColumnSums(NamedTuple):
    """What does not depend on the features: sums of squares of the variables, rows and drifts, by group of nodes with
    the same weights of rows (G = 1 where rows have none)."""

    squares: Float[np.ndarray, "G K d"]
    total_squares: Float[np.ndarray, "G B d"]
    rows: Float[np.ndarray, "G K"]
    drift: Float[np.ndarray, " B"]
    ratio: Float[np.ndarray, " B"]
    drift_log: Float[np.ndarray, "G B"]
    kind: Int8[np.ndarray, " T"]
    value: Float[np.ndarray, " T"]
    hard_log_evidence: Float[np.ndarray, "M d"]


@compiled
def context_sums(z, w, start):  # type: ignore[no-untyped-def]
    """Z_k'W_k of every context, rows sorted by context."""
    sums = np.empty((len(start) - 1, z.shape[1], w.shape[1]))
    for k in range(len(start) - 1):
        sums[k] = np.dot(z[start[k] : start[k + 1]].T, w[start[k] : start[k + 1]])
    return sums


@compiled
def fill(sums, r, response, squares, matrix):  # type: ignore[no-untyped-def]
    """The Gram matrix of the r features, the node, ones and blocks."""
    for a in range(len(sums)):
        at = a if a < r else a + 1
        for b in range(len(sums)):
            matrix[at, b if b < r else b + 1] = sums[a, b]
        matrix[at, r] = matrix[r, at] = sums[a, response]
    matrix[r, r] = squares


@compiled
def node_tables(columns, g, prior, sums, node, touched):  # type: ignore[no-untyped-def]
    """The tables of a node as the response of a regression on the features: variables are the r features and, as number
    r, the node itself. Only contexts that are touched have sums of their own."""
    n_drifts, n_columns, _ = sums.total.shape
    m, r, size = len(touched), len(prior.precision) - 1, n_columns + 1
    total, matrix = np.empty((1, size, size, n_drifts)), np.empty((size, size))
    for b in range(n_drifts):
        fill(sums.total[b], r, n_columns + node, columns.total_squares[g, b, node], matrix)
        total[0, :, :, b] = matrix
    gram, at_gram, n = np.empty((1, touched.sum(), size, size)), np.zeros(m, np.int64), 0
    for k in range(m):
        if touched[k]:
            fill(sums.gram[k + 1], r, n_columns + node, columns.squares[g, k + 1, node], gram[0, n])
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
        self._columns, self._deflate = self._column_sums()
        self._sums, self._lock, self._bytes = OrderedDict[tuple[Any, ...], FeatureSums](), Lock(), 0
        self._prior = lru_cache(None)(self._regression)

    def _column_sums(self) -> tuple[ColumnSums, Float[np.ndarray, "G B K"]]:
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
        self._shares = np.column_stack([np.ones_like(usual), np.repeat(1 / usual[:, None], self.n_contexts, axis=1)])
        total = np.einsum("bk,gkj->gbj", self._shares, squares) - np.einsum("gbk,gkj->gbj", deflate, np.square(sums))
        drifts = np.square(states.drift.stds), usual, np.log(states.drift.probabilities) - 0.5 * changes[..., 1:].sum(2)
        # A soft effect puts a function of its own in place of the usual one, whatever its spread.
        value = np.where(states.kind == EffectKind.SOFT, 0.0, states.value)
        effects = states.kind, value, states.hard_log_evidence
        return ColumnSums(np.array(squares), total, np.array(rows), *drifts, *effects), deflate

    def _regression(self, n_features: int, ratio: float, constant: float) -> Regression:
        """The prior of the regression on so many features, an intercept of variance `constant` s² (0: none) and one of
        each block."""
        n_fixed = 1 + self.blocks.shape[1]
        precision = np.full((n_features + 1, n_features + 1 + n_fixed), ratio)
        precision[:, n_features + 1 :] = ratio / (constant or 1.0)
        used = n_fixed if constant or self.blocks.shape[1] else 0
        noise = self.noise.variance, self.noise.shape, self.noise.scale, (1.0,)
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
        z = np.ascontiguousarray(np.concatenate([features, np.ones((len(features), 1)), self.blocks], axis=1))
        w, at = np.concatenate([z, self.rows.x], axis=1), features.shape[1]
        gram = context_sums(z * self.weights[g][:, None], w, self.rows.start)
        drifted = self._deflate[g][:, None, :] * gram[:, :, at].T  # what drift takes away: [B, C, K]
        total = np.tensordot(self._shares, gram, 1) - drifted @ gram[:, at]
        found = FeatureSums(gram, total)
        with self._lock:
            self._sums[key] = found
            self._bytes += gram.nbytes + total.nbytes
            while self._bytes > SUMS_BYTES and len(self._sums) > 1:
                oldest = self._sums.popitem(last=False)[1]
                self._bytes -= oldest.gram.nbytes + oldest.total.nbytes
        return found

    def _request(
        self, node: int, parents: Bool[np.ndarray, " d"]
    ) -> tuple[ColumnSums, int, Regression, FeatureSums, int]:
        sums, (kernel, ratio) = self.sums(node, parents), self.groups[node]
        n_features = sums.gram.shape[1] - 1 - self.blocks.shape[1]
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
