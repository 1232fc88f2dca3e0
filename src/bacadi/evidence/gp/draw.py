"""Draws of Gaussian-process mechanisms from their posterior given graph and states, as weights of random units.

With features Φ of the rows (see `Units`), prior variances V of their weights and D the noise of the rows in units of ρ:

    w ~ N(V^½ B⁻¹ b, s² ρ V^½ B⁻¹ V^½),   B = ρI + V^½ Φ'D⁻¹Φ V^½,   b = V^½ Φ'D⁻¹y,   s² from its own posterior.

D depends on how contexts drift, which is drawn together with ρ. Offsets of blocks, where there are any, are features
that are drawn and not kept.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8
from scipy.linalg import solve_triangular

from bacadi.data.labelled import Labelled
from bacadi.evidence.collapsed import EffectKind, Graphs, States
from bacadi.evidence.gp.factor import RowNoise, Terms
from bacadi.model.kernels import AbstractKernel, Units

if TYPE_CHECKING:
    from bacadi.evidence.gp.evidence import KernelEvidence


N_UNITS = 100
MAX_BYTES = 2 * 10**8  # of the weights of all draws, in single precision


class NodeRequest(NamedTuple):
    """One node, its states and the noise of the rows it explains under each of the drifts, with the features of all
    rows that its parents put in `used` and the prior standard deviations of the weights of all features."""

    node: int
    state: Int8[np.ndarray, " M"]
    noises: Sequence[RowNoise]
    features: Float[np.ndarray, "N used"]
    std: Float[np.ndarray, " C"]
    used: Int[np.ndarray, " used"]


class Fit(NamedTuple):
    """A function given the rows, ρ and their noise: the lower root of B, its solution for b, the terms of log p(y)."""

    ratio: float
    noise: RowNoise
    root: Float[np.ndarray, "c c"]
    projected: Float[np.ndarray, " c"]
    terms: Terms


def draw_functions(
    rng: np.random.Generator, evidence: "KernelEvidence", graphs: Graphs, states: States
) -> dict[str, Labelled]:
    """Mechanisms as `Functions` reads them, `noise_std`, `effect_shift` and `effect_noise_ratio`, in single precision.

    Mechanisms that soft effects put in place of the usual ones are not drawn. Where the weights of all draws would take
    more than 200 MB there are fewer units, and no functions at all for an additive kernel, which cannot do with fewer.
    """
    n, d = len(graphs), evidence.n_variables
    kernels = list(dict.fromkeys(group.kernel for group in evidence.groups))
    kernel_of = np.array([kernels.index(group.kernel) for group in evidence.groups])
    n_units = min(N_UNITS, max(MAX_BYTES // (4 * n * d), 1))
    units = [kernel.units(rng, d, n_units) for kernel in kernels]
    n_features = len(units[0].bias) + 1 + d * int(units[0].linear)
    stored = 4 * n * d * len(units[0].bias) <= MAX_BYTES
    weight, noise_std = np.zeros((n if stored else 0, d, n_features), np.float32), np.empty((n, d), np.float32)
    shift = np.zeros((n, evidence.n_contexts, d), np.float32)

    def fill(node: int, rng: np.random.Generator) -> None:
        for at, request in _requests(evidence, units[kernel_of[node]], node, graphs, states):
            weights, noise_std[at, node], shift[at, :, node] = _draw(rng, evidence, request, len(at))
            if stored:
                weight[at, node] = weights

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(fill, range(d), rng.spawn(d)))
    functions = _stored(units, kernel_of, weight) if stored else {}
    return functions | {"noise_std": Labelled(noise_std, ("node",))} | evidence.states.labelled(states, shift)


def _requests(
    evidence: "KernelEvidence", units: Units, node: int, graphs: Graphs, states: States
) -> Iterator[tuple[Int[np.ndarray, " size"], NodeRequest]]:
    """What is to be drawn for a node, each once, with the draws that want it."""
    different, number = np.unique(graphs[:, :, node], axis=0, return_inverse=True)
    for i, column in enumerate(different):
        parents, at = column == 1, np.flatnonzero(number == i)
        std = _prior_std(evidence.groups[node].kernel, units, parents)
        used = np.flatnonzero(std)
        features = units.features(evidence.rows.x, parents)[:, used]
        of_states, which = np.unique(states[at, :, node], axis=0, return_inverse=True)
        for s, state in enumerate(of_states):
            noises = [evidence.noise_of(parents, state, b) for b in range(len(evidence.states.drift.stds))]
            yield at[which == s], NodeRequest(node, state, noises, features, std, used)


def _prior_std(kernel: AbstractKernel, units: Units, parents: Bool[np.ndarray, " d"]) -> Float[np.ndarray, " C"]:
    """Prior standard deviations of the weights of `Units.features`; 0 where a feature is not in use."""
    hidden, constant, linear = kernel.weight_variances(units, parents)
    variances = [np.broadcast_to(hidden, len(units.bias)), np.array([constant])]
    return np.sqrt(np.concatenate([*variances, linear * parents] if units.linear else variances))


def _draw(
    rng: np.random.Generator, evidence: "KernelEvidence", request: NodeRequest, size: int
) -> tuple[Float[np.ndarray, "size C"], Float[np.ndarray, " size"], Float[np.ndarray, "size M"]]:
    """Weights of the features, standard deviation of the noise and what shift effects add, in each of `size` draws."""
    node, state, noises, features, std, used = request
    y, own, blocks = evidence.rows.x[:, node], evidence.row_weights(node), evidence.blocks * evidence.block_std(node)
    columns = np.column_stack([features * std[used], blocks, y])
    sums = RowSums.of(columns, own, evidence.rows.start)
    ratios = evidence.noise.averaged(evidence.groups[node].ratio)
    fits = [fit for noise in noises for fit in _fits(columns, own, sums, noise, ratios)]
    drawn, noise_std, shift = np.empty((size, columns.shape[1] - 1)), np.empty(size), np.zeros((size, len(state)))
    shifted = np.flatnonzero(evidence.states.kind[state] == EffectKind.SHIFT)
    for fit, at in _shares(rng, evidence, fits, size):
        s2 = evidence.noise.draw_scale(rng, fit.terms, fit.ratio, len(at))
        noise_std[at] = np.sqrt(s2 * fit.ratio)
        spread = noise_std[at] * rng.normal(size=(columns.shape[1] - 1, len(at)))
        drawn[at] = solve_triangular(fit.root, fit.projected[:, None] + spread, lower=True, trans=1).T
        for k in shifted:
            # As in a regression on the indicator of the context, given the function.
            residual = sums.sums[k + 1, -1] - drawn[at] @ sums.sums[k + 1, :-1]
            precision = sums.rows[k + 1] + 1 / fit.noise.shift[k + 1]
            shift[at, k] = residual / precision + noise_std[at] / np.sqrt(precision) * rng.normal(size=len(at))
    weight = np.zeros((size, len(std)))
    weight[:, used] = std[used] * drawn[:, : len(used)]
    return weight, noise_std, shift


class RowSums(NamedTuple):
    """The number of rows of each context and the sums of their columns, rows weighted."""

    rows: Float[np.ndarray, " K"]
    sums: Float[np.ndarray, "K c"]
    counts: Int[np.ndarray, " K"]

    @classmethod
    def of(
        cls, columns: Float[np.ndarray, "N c"], weight: Float[np.ndarray, " N"], start: Int[np.ndarray, " bounds"]
    ) -> "RowSums":
        counts = np.diff(start)
        indicator = (np.arange(len(counts))[:, None] == np.repeat(np.arange(len(counts)), counts)) * weight
        return cls(indicator.sum(axis=1), indicator @ columns, counts)


def _fits(
    columns: Float[np.ndarray, "N c"],
    weight: Float[np.ndarray, " N"],
    of: RowSums,
    noise: RowNoise,
    ratios: Sequence[float],
) -> Iterator[Fit]:
    """From Σ_k columns_k' D_k⁻¹ columns_k with D_k = scale_k I + shift_k 11', rows weighted."""
    left = np.isfinite(noise.scale)
    rows, sums, scale, shift = of.rows[left], of.sums[left], noise.scale[left], noise.shift[left]
    share = weight * np.repeat(np.where(left, 1 / noise.scale, 0.0), of.counts)
    gram = (columns.T * share) @ columns - (sums.T * (shift / (scale * (scale + rows * shift)))) @ sums
    n_rows, size = float(rows.sum()), columns.shape[1] - 1
    of_noise = rows @ np.log(scale) + np.log1p(rows * shift / scale).sum()
    for ratio in ratios:
        # One more row, of y, is the solution for b; what is left of y'D⁻¹y is not asked for, and must not be negative.
        root = np.linalg.cholesky(gram + np.diag(np.append(np.full(size, ratio), 1.0)))
        projected, root = root[-1, :-1], root[:-1, :-1]
        log_det = of_noise + 2 * np.log(np.diagonal(root)).sum() + (n_rows - size) * np.log(ratio)
        quad = (gram[-1, -1] - projected @ projected) / ratio
        yield Fit(ratio, noise, root, projected, Terms(*map(np.asarray, (n_rows, log_det, quad))))


def _shares(
    rng: np.random.Generator, evidence: "KernelEvidence", fits: list[Fit], size: int
) -> Iterator[tuple[Fit, Int[np.ndarray, " at"]]]:
    """Which of `size` draws are made by each of the fits, by what the rows say of their drifts and ratios."""
    log_p = np.array([evidence.noise.log_density(fit.terms, fit.ratio) for fit in fits])
    log_p += np.repeat(np.log(evidence.states.drift.probabilities), len(evidence.noise.widths))
    share = np.exp(log_p - log_p.max())
    number = rng.choice(len(fits), size=size, p=share / share.sum()) if len(fits) > 1 else np.zeros(size, int)
    for i in np.unique(number).tolist():
        yield fits[i], np.flatnonzero(number == i)


def _stored(
    units: list[Units], kernel_of: Int[np.ndarray, " d"], weight: Float[np.ndarray, "n d C"]
) -> dict[str, Labelled]:
    """The arrays that `Functions` reads; the scales of the units are part of the output weights."""
    n_hidden = len(units[0].bias)
    scale = np.array([unit.scale for unit in units], np.float32)[kernel_of]
    found = {
        "output_weight": Labelled(weight[:, :, :n_hidden] * scale, ("node", "unit")),
        "output_bias": Labelled(weight[:, :, n_hidden], ("node",)),
        "hidden_weight": Labelled(np.array([unit.weight for unit in units]), ("kernel", "unit", "source")),
        "hidden_bias": Labelled(np.array([unit.bias for unit in units]), ("kernel", "unit")),
        "hidden_logistic": Labelled(np.array(bool(units[0].logistic)), ()),
        "hidden_kernel": Labelled(kernel_of, ("node",)),
    }
    if units[0].linear:
        found["linear_weight"] = Labelled(weight[:, :, n_hidden + 1 :].transpose(0, 2, 1), ("source", "target"))
    return found
