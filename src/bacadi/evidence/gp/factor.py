"""Linear algebra of Gaussian-process evidence: one factorisation for all children and all states.

With A = K + ρI over all rows, Λ = A⁻¹ and α = Λy, the rows B of one or more contexts given all others have precision
Λ_BB and residual e = Λ_BB⁻¹ α_B. Leaving B out takes away their conditional density,

    log |A_rest| = log |A| + log |Λ_BB|,   quad_rest = y'Λy - α_B' Λ_BB⁻¹ α_B,

and changed noise of rows C ⊂ B puts back a density with covariance (Λ_BB⁻¹)_CC + Δ. Contexts other than 0 stand last,
so that only the last block of L⁻¹ is needed: Λ_TT = W'W with W = (L⁻¹)_TT.

For many rows, K ≈ FF' with features F of fixed rank; then everything follows from F_k'F_k and F_k'y_k of each context.
"""

import math
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from bacadi.evidence.gp.tiles import TILE, altered, factorise, forward, leave_one_out, solve_features
from bacadi.model.kernels import AbstractKernel, Terms

FEW = 0.4  # the share of all rows up to which leaving rows out is cheaper than a factorisation of the others


class Rows(NamedTuple):
    """Rows sorted by context: context k has rows `start[k]` to `start[k + 1]`."""

    x: Float[np.ndarray, "n d"]
    start: Int[np.ndarray, " bounds"]

    @property
    def counts(self) -> Int[np.ndarray, " K"]:
        return np.diff(self.start)


@dataclass(frozen=True)
class Approximation:
    """Above `dense_rows` rows a kernel is replaced by `rank` features, fewer if all they miss is `tolerance` · ρ."""

    dense_rows: int = 1500
    rank: int = 200
    tolerance: float = 1e-8


class Group(NamedTuple):
    """What the evidence of a node depends on beside its parents and states: the kernel and ρ."""

    kernel: AbstractKernel
    ratio: float


class AbstractFactor(ABC):
    """Terms of every column of the data given one parent set."""

    @abstractmethod
    def singles(self) -> Terms:
        """[K], [K], [K, d]: with all rows, and with the rows of context k = 1.. left out."""

    @abstractmethod
    def altered(self, node: int, scale: Float[np.ndarray, " K"], shift: Float[np.ndarray, " K"]) -> Terms:
        """Terms of one column with noise covariance ρ (scale_k I + shift_k 11') in context k; scale ∞ leaves it out."""

    @abstractmethod
    def alone(self) -> Terms:
        """[K], [K], [K, d]: of each context alone, with a function of its own."""


class DenseFactor(AbstractFactor):
    """A = K + ρI itself."""

    def __init__(self, kernel: AbstractKernel, ratio: float, rows: Rows, parents: Int[np.ndarray, " p"]) -> None:
        self._kernel, self._ratio, self._rows, self._parents = kernel, ratio, rows, parents
        first = min(int(rows.start[1]), len(rows.x) - 1) // TILE
        self._w, self._alpha, self._log_det, self._quad = self._factorise(rows.x[:, parents], rows.x, first)
        self._start, self._counts = rows.start - first * TILE, rows.counts

    def _factorise(
        self, inputs: Float[np.ndarray, "n p"], y: Float[np.ndarray, "n c"], first: int
    ) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "tail c"], float, Float[np.ndarray, " c"]]:
        """`factorise` of these rows, filled up to whole tiles; W and α from tile `first` on."""
        n, n_tiles = len(y), -(-len(y) // TILE)
        both = np.zeros((n_tiles * TILE, inputs.shape[1] + y.shape[1]))
        both[:n] = np.concatenate([inputs, y], axis=1)
        tiles = np.ascontiguousarray(both[:, : inputs.shape[1]]).reshape(n_tiles, TILE, inputs.shape[1])
        whole = np.ascontiguousarray(both[:, inputs.shape[1] :])
        return factorise(self._kernel.lower_tiles(tiles), self._ratio, whole, n, first)

    def singles(self) -> Terms:
        n = np.full(len(self._start) - 1, float(len(self._rows.x)))
        n[1:] -= self._counts[1:]
        return Terms(n, *leave_one_out(self._w, self._alpha, self._log_det, self._quad, self._start))

    def altered(self, node: int, scale: Float[np.ndarray, " K"], shift: Float[np.ndarray, " K"]) -> Terms:
        out = np.isinf(scale)
        n_rows, n_out = len(self._rows.x), int(self._counts @ out)
        n = np.asarray(float(n_rows - n_out))
        if n_out > FEW * n_rows and (out | ((scale == 1) & (shift == 0))).all():
            # So little is left that it is better factorised anew than taken apart.
            left = self._rows.x[~np.repeat(out, self._counts)]
            *_, log_det, quad = self._factorise(left[:, self._parents], left[:, node : node + 1], -(-len(left) // TILE))
            return Terms(n, np.asarray(log_det), np.asarray(quad[0]))
        log_det, quad = altered(self._w, self._alpha[:, node], self._start, scale, shift, self._ratio)
        return Terms(n, np.asarray(self._log_det + log_det), np.asarray(self._quad[node] + quad))

    def alone(self) -> Terms:
        counts, start = self._counts, self._rows.start
        log_det, quad = np.zeros(len(counts)), np.zeros((len(counts), self._rows.x.shape[1]))
        for size in set(counts[1:].tolist()) - {0}:  # contexts of one size in one call
            alike = 1 + np.flatnonzero(counts[1:] == size)
            y = self._rows.x[start[alike, None] + np.arange(size)]
            inputs = np.ascontiguousarray(y[..., self._parents])
            root = np.linalg.cholesky(self._kernel.cross(inputs, inputs) + self._ratio * np.eye(size))
            log_det[alike] = 2 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
            quad[alike] = np.square(np.linalg.solve(root, y)).sum(axis=1)
        return Terms(counts.astype(float), log_det, quad)


class FeatureFactor(AbstractFactor):
    """A = FF' + ρI, by sums of products of each context: G_k = F_k'F_k, F_k'y_k, y_k'y_k and sums over rows."""

    def __init__(self, features: Float[np.ndarray, "n r"], ratio: float, rows: Rows) -> None:
        blocks = [slice(a, b) for a, b in zip(rows.start[:-1], rows.start[1:], strict=True)]
        parts = [(features[b], rows.x[b]) for b in blocks]
        self._ratio, self._counts = ratio, rows.counts.astype(float)
        self._gram = np.array([f.T @ f for f, _ in parts])
        self._cross = np.array([f.T @ y for f, y in parts])
        self._squares = np.array([(y**2).sum(axis=0) for _, y in parts])
        self._f_sum, self._y_sum = (np.array([part[i].sum(axis=0) for part in parts]) for i in (0, 1))
        self._gram_total = self._gram.sum(axis=0)

    def terms(self, scale: Float[np.ndarray, " K"], shift: Float[np.ndarray, " K"]) -> Terms:
        """Terms of all columns ([], [] and [d]) by B = ρI + Σ_k F_k'D_k⁻¹F_k with D_k = scale_k I + shift_k 11'."""
        weight, kept = 1 / scale, np.isfinite(scale)
        deflate = np.where(kept, weight * shift / (np.where(kept, scale, 1) + self._counts * shift), 0)
        # Most contexts have weight 1, or all but one 0: only the others are gone through.
        near_total = (weight != 1).sum() < len(weight) / 2
        matrix, left = (self._gram_total.copy(), weight - 1) if near_total else (np.zeros_like(self._gram[0]), weight)
        for k in np.flatnonzero(left):
            matrix += left[k] * self._gram[k]
        matrix -= (self._f_sum.T * deflate) @ self._f_sum
        matrix[np.diag_indices(len(matrix))] += self._ratio
        right = np.tensordot(weight, self._cross, 1) - (self._f_sum.T * deflate) @ self._y_sum
        squares = weight @ self._squares - deflate @ self._y_sum**2
        log_det, explained = solve_features(matrix, right)
        n = self._counts[kept]
        log_det += (n * np.log(self._ratio * scale[kept]) + np.log1p(n * shift[kept] / scale[kept])).sum()
        log_det -= len(matrix) * math.log(self._ratio)
        return Terms(np.asarray(n.sum()), np.asarray(log_det), (squares - explained) / self._ratio)

    def altered(self, node: int, scale: Float[np.ndarray, " K"], shift: Float[np.ndarray, " K"]) -> Terms:
        n, log_det, quad = self.terms(scale, shift)
        return Terms(n, log_det, np.asarray(quad[node]))

    def singles(self) -> Terms:
        scales = np.ones((len(self._counts), len(self._counts)))
        np.fill_diagonal(scales[1:, 1:], np.inf)
        return self._each(scales)

    def alone(self) -> Terms:
        return self._each(np.where(np.eye(len(self._counts), dtype=bool), 1.0, np.inf))

    def _each(self, scales: Float[np.ndarray, "K K"]) -> Terms:
        found = [self.terms(scale, np.zeros(len(scale))) for scale in scales]
        n, log_det, quad = (np.array(part) for part in zip(*found, strict=True))
        return Terms(n, log_det, quad)


def whitened(
    values: Float[np.ndarray, "n c"],
    start: Int[np.ndarray, " bounds"],
    scale: Float[np.ndarray, " K"],
    shift: Float[np.ndarray, " K"],
) -> Float[np.ndarray, "m c"]:
    """D_k^-½ values_k for the contexts with rows left, D_k = scale_k I + shift_k 11'."""
    blocks = []
    for k in np.flatnonzero(np.isfinite(scale) & (np.diff(start) > 0)):
        block = values[start[k] : start[k + 1]]
        along_ones = 1 - 1 / math.sqrt(1 + len(block) * shift[k] / scale[k])
        block = block - along_ones * block.mean(axis=0) if shift[k] else block
        blocks.append(block / math.sqrt(scale[k]) if scale[k] != 1 else block)
    return np.concatenate([*blocks, values[:0]])


def kernel_features(
    kernel: AbstractKernel, x_parents: Float[np.ndarray, "n p"], rank: int, tolerance: float
) -> Float[np.ndarray, "n r"]:
    """F with FF' ≈ K: Nyström features at at most `rank` rows, each where the variance left over is largest.

    Rows are chosen among at most 3 · rank evenly spread ones, until their mean variance left over is below `tolerance`.
    """
    n = len(x_parents)
    candidates = x_parents[np.unique(np.linspace(0, n - 1, min(n, 3 * rank)).astype(int))]
    left, found = kernel.diagonal(candidates), np.zeros((rank, len(candidates)))
    chosen: list[int] = []
    while len(chosen) < min(rank, len(candidates)) and left.mean() > tolerance:
        row = int(np.argmax(left))
        done = found[: len(chosen)]
        column = kernel.cross(candidates[row : row + 1], candidates)[0] - done[:, row] @ done
        found[len(chosen)] = column / math.sqrt(left[row])
        left = np.maximum(left - found[len(chosen)] ** 2, 0)
        chosen.append(row)
    if not chosen:
        return np.zeros((n, 1))
    inverse = np.eye(len(chosen))
    forward(np.ascontiguousarray(found[: len(chosen), chosen].T), inverse)
    return kernel.cross(x_parents, candidates[chosen]) @ inverse.T


def factor_of(group: Group, rows: Rows, parents: Int[np.ndarray, " p"], approximation: Approximation) -> AbstractFactor:
    """The factorisation for one parent set, dense or by features."""
    if len(rows.x) <= approximation.dense_rows:
        return DenseFactor(group.kernel, group.ratio, rows, parents)
    tolerance = approximation.tolerance * group.ratio
    features = kernel_features(group.kernel, rows.x[:, parents], approximation.rank, tolerance)
    return FeatureFactor(features, group.ratio, rows)


def bytes_of_factor(rows: Rows, approximation: Approximation) -> int:
    """About how much memory a factorisation takes: the lower half of W and α over the rows of contexts, or sums."""
    n, d = rows.x.shape
    if n > approximation.dense_rows:
        return 8 * len(rows.counts) * approximation.rank * (approximation.rank + d)
    tail = n - int(rows.start[1]) + TILE
    return 8 * tail * (tail // 2 + TILE + d)


class Recent:
    """A dictionary of bounded size that forgets what was not used for longest; safe between threads."""

    def __init__(self, capacity: int) -> None:
        self._capacity, self._items, self._lock = max(capacity, 8), OrderedDict[Hashable, Any](), Lock()

    def get(self, key: Hashable) -> Any:
        return self.get_all([key])[0]

    def get_all(self, keys: Sequence[Hashable]) -> list[Any]:
        """What is kept under each key, None where nothing is."""
        with self._lock:
            found = [self._items.get(key) for key in keys]
            for key, value in zip(keys, found, strict=True):
                if value is not None:
                    self._items.move_to_end(key)
            return found

    def put(self, key: Hashable, value: Any) -> Any:
        with self._lock:
            self._items[key] = value
            if len(self._items) > self._capacity:
                self._items.popitem(last=False)
        return value
