"""Linear algebra of Gaussian-process evidence: one factorisation for all children and all states.

With A = K + ρI over all rows, Λ = A⁻¹ and α = Λy, the rows B of one or more contexts given all others have precision
Λ_BB and residual e = Λ_BB⁻¹ α_B. Leaving B out takes away their conditional density,

    log |A_rest| = log |A| + log |Λ_BB|,   quad_rest = y'Λy - α_B' Λ_BB⁻¹ α_B,

and changed noise of rows C ⊂ B puts back a density with covariance (Λ_BB⁻¹)_CC + Δ. The rows of context 0, whose noise
never changes, come first, so that only the last block of Λ is needed.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln

from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError
from bacadi.evidence.gp import linalg
from bacadi.evidence.gp.linalg import BLOCK
from bacadi.model.kernels import AbstractKernel, Constant, NetworkKernel, Sum
from bacadi.model.noise import LOG_2PI

FEW = 0.4
"""The share of all rows up to which leaving rows out is cheaper than a factorisation of the others."""
STRIP = 8 * BLOCK
"""So many columns of a covariance matrix are computed at a time, which nearly halves the work of a symmetric one."""


class SortedRows(NamedTuple):
    """Rows sorted by context: context k has rows `start[k]` to `start[k + 1]`."""

    x: Float[np.ndarray, "n d"]
    start: Int[np.ndarray, " bounds"]

    @classmethod
    def of(cls, data: ContextData) -> "SortedRows":
        order = np.argsort(data.context, kind="stable")
        return cls(np.ascontiguousarray(data.x[order], float), np.concatenate([[0], np.cumsum(data.counts)]))

    @property
    def counts(self) -> Int[np.ndarray, " K"]:
        """Rows of each context."""
        return np.diff(self.start)


class Group(NamedTuple):
    """The hyper-parameters of a node: its kernel and ρ, the variance of its noise in units of s²."""

    kernel: AbstractKernel
    ratio: float


class RowNoise(NamedTuple):
    """Noise covariance ρ (scale_k I + shift_k 11') of the rows of each context; a scale of ∞ leaves them out."""

    scale: Float[np.ndarray, " K"]
    shift: Float[np.ndarray, " K"]


class Terms(NamedTuple):
    """Rows, log determinant and quadratic form of Gaussians, with the scale s² taken out: y ~ N(0, s² A)."""

    n_rows: Float[np.ndarray, "..."]
    log_det: Float[np.ndarray, "..."]
    quad: Float[np.ndarray, "..."]


@dataclass(frozen=True)
class NoisePrior:
    """y ~ N(0, s² A) with noise of variance s²ρ: known (s = 1, ρ = `variance`), or InverseGamma(shape, scale).

    An unknown s² is integrated out for each ρ: s² ~ InverseGamma(a, c), a = shape and c = scale/ρ, gives

    log p = log Γ(a + n/2) - log Γ(a) + a log c - (a + n/2) log(c + ½ y'A⁻¹y) - ½ (n log 2π + log |A|).

    One of `ratios` is chosen before sampling; ρ of a variable is this one over the square of one of `widths`, equally
    likely, over which p is averaged.
    """

    variance: float | None = None
    shape: float = 1.0
    scale: float = 0.5
    widths: tuple[float, ...] = (1.0,)
    ratios: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0)

    def __post_init__(self) -> None:
        numbers = self.shape, self.scale, *self.choices, *self.widths
        if not (self.choices and self.widths and min(numbers) > 0):
            raise ConfigError(
                f"{self} is no prior of the noise; give numbers above 0, and a ratio and a width at least."
            )

    @property
    def choices(self) -> tuple[float, ...]:
        """The values of ρ to choose from."""
        return self.ratios if self.variance is None else (self.variance,)

    def averaged(self, ratio: float) -> tuple[float, ...]:
        """The values of ρ of a variable where `ratio` has been chosen.

        >>> NoisePrior(widths=(0.5, 1.0)).averaged(0.1)
        (0.4, 0.1)
        """
        return tuple(ratio / width**2 for width in self.widths)

    @property
    def middle(self) -> "NoisePrior":
        """The prior with the middle one of the widths alone."""
        return replace(self, widths=(self.widths[len(self.widths) // 2],))

    def log_density(self, terms: Terms, ratio: float) -> Float[np.ndarray, "..."]:
        """log p(y), s² integrated out where it is unknown."""
        gaussian = -0.5 * (terms.n_rows * LOG_2PI + terms.log_det)
        if self.variance is not None:
            return np.asarray(gaussian - 0.5 * terms.quad)
        shape, scale = self.shape + 0.5 * terms.n_rows, self.scale / ratio
        log_p = gammaln(shape) - gammaln(self.shape) + self.shape * math.log(scale)
        return np.asarray(log_p - shape * np.log(scale + 0.5 * terms.quad) + gaussian)

    def draw_scale(self, rng: np.random.Generator, terms: Terms, ratio: float, size: int) -> Float[np.ndarray, " size"]:
        """s² given y: 1 where the noise is known, else InverseGamma(a + n/2, c + ½ y'A⁻¹y)."""
        if self.variance is not None:
            return np.ones(size)
        return (self.scale / ratio + 0.5 * terms.quad) / rng.gamma(self.shape + 0.5 * terms.n_rows, size=size)


class DenseFactor:
    """Terms of every column of the data given one parent set, by A = K + ρI itself."""

    def __init__(self, group: Group, rows: SortedRows, parents: Int[np.ndarray, " p"]) -> None:
        self._group, self._rows, self._parents, self._counts = group, rows, parents, rows.counts
        first = min(int(rows.start[1]), len(rows.x) - 1) // BLOCK
        self._start = rows.start - first * BLOCK
        panels = covariance_panels(group, rows.x[:, parents])
        of_rows = padded(rows.x), first, len(rows.x) - first * BLOCK
        self._precision, self._alpha, self._log_det, self._quad = linalg.factorise(panels, *of_rows)

    def leave_out(self) -> Terms:
        """[K, 1], [K, 1], [K, d]: with all rows, and with the rows of context k = 1.. left out."""
        n = float(len(self._rows.x)) - self._counts
        n[0] = len(self._rows.x)
        log_det, quad = linalg.leave_out(self._precision, self._alpha, self._log_det, self._quad, self._start)
        return Terms(n[:, None], log_det[:, None], quad)

    def only(self) -> Terms:
        """[K, 1], [K, 1], [K, d]: of each context alone, with a function of its own."""
        counts, start = self._counts, self._rows.start
        log_det, quad = np.zeros(len(counts)), np.zeros((len(counts), self._rows.x.shape[1]))
        for size in set(counts[1:].tolist()) - {0}:  # contexts of one size in one call
            contexts = 1 + np.flatnonzero(counts[1:] == size)
            y = self._rows.x[start[contexts, None] + np.arange(size)]
            inputs = np.ascontiguousarray(y[..., self._parents])
            root = np.linalg.cholesky(self._group.kernel(inputs, inputs) + self._group.ratio * np.eye(size))
            log_det[contexts] = 2 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
            quad[contexts] = np.square(np.linalg.solve(root, y)).sum(axis=1)
        return Terms(counts[:, None].astype(float), log_det[:, None], quad)

    def with_noise(self, node: int, noise: RowNoise) -> Terms:
        """Terms of one column with the noise of its rows changed."""
        (scale, shift), left_out = noise, np.isinf(noise.scale)
        n_rows, n_out = len(self._rows.x), int(self._counts @ left_out)
        n = np.asarray(float(n_rows - n_out))
        if n_out > FEW * n_rows and (left_out | ((scale == 1) & (shift == 0))).all():
            # So little is left that it is better factorised anew than taken apart.
            left = self._rows.x[~np.repeat(left_out, self._counts)]
            panels = covariance_panels(self._group, left[:, self._parents])
            log_det, quad = linalg.solve(panels, padded(left[:, node : node + 1]))
            return Terms(n, np.asarray(log_det), np.asarray(quad[0]))
        gain = linalg.with_noise(self._precision, self._alpha[:, node], self._start, scale, shift, self._group.ratio)
        return Terms(n, np.asarray(self._log_det + gain[0]), np.asarray(self._quad[node] + gain[1]))


def padded(y: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "N c"]:
    """`y` with rows of 0 up to a multiple of BLOCK."""
    whole = np.zeros((len(y) + -len(y) % BLOCK, y.shape[1]))
    whole[: len(y)] = y
    return whole


def covariance_panels(group: Group, inputs: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "panels N block"]:
    """The column panels of K + ρI, filled up with rows of variance 1 that are independent of all others."""
    n, x = len(inputs), padded(inputs)
    constant, kernel = split(group.kernel)
    if isinstance(kernel, NetworkKernel) and inputs.shape[1]:
        # One call that lets go of the interpreter's lock, which replicas would spend most of their time waiting for.
        panels = linalg.network_panels(
            np.ascontiguousarray(kernel.directions(x).T), kernel.arc_variance, kernel.mean_variance + constant
        )
    else:
        panels = np.empty((len(x) // BLOCK, len(x), BLOCK))
        for begin in range(0, len(x), STRIP):
            end = min(begin + STRIP, len(x))
            strip = group.kernel(x[:end], x[begin:end]).reshape(end, -1, BLOCK)
            panels[begin // BLOCK : end // BLOCK, :end] = strip.transpose(1, 0, 2)
    panels[-1:, n:], panels[-1:, :, BLOCK - len(x) + n :] = 0.0, 0.0
    _add_to_diagonal(panels, np.where(np.arange(len(x)) < n, group.ratio, 1.0))
    return panels


def split(kernel: AbstractKernel) -> tuple[float, AbstractKernel | None]:
    """The variance of the constant part, 0 where there is none, and the rest."""
    parts = kernel.parts if isinstance(kernel, Sum) else (kernel,)
    constant = sum(part.variance for part in parts if isinstance(part, Constant))
    rest = tuple(part for part in parts if not isinstance(part, Constant))
    return float(constant), (rest[0] if len(rest) == 1 else Sum(rest) if rest else None)


def _add_to_diagonal(panels: Float[np.ndarray, "panels N block"], values: Float[np.ndarray, " N"]) -> None:
    row = np.arange(len(values))
    panels[row // BLOCK, row, row % BLOCK] += values
