"""Draws of Gaussian-process mechanisms from their posterior given graph and states, as weights of random units.

With features Φ of the rows (see `Units`), prior variances V of their weights and D the noise of the rows in units of ρ:

    w ~ N(V^½ B⁻¹ b, s² ρ V^½ B⁻¹ V^½),   B = ρI + V^½ Φ'D⁻¹Φ V^½,   b = V^½ Φ'D⁻¹y,   s² from its own posterior.

Offsets of blocks, where there are any, are features that are drawn and not kept.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8
from scipy.linalg import solve_triangular

from bacadi.data.labelled import Labelled
from bacadi.evidence.collapsed import EffectKind, Graphs, States
from bacadi.evidence.gp.factor import NoisePrior, RowNoise, Terms
from bacadi.model.kernels import AbstractKernel, Units

if TYPE_CHECKING:
    from bacadi.evidence.gp.evidence import KernelEvidence


N_UNITS = 100
MAX_BYTES = 2 * 10**8  # of the weights of all draws, in single precision


class NodeRequest(NamedTuple):
    """One node, its states and the noise of the rows it explains, with the features of all rows that its parents put in
    `used` and the prior standard deviations of the weights of all features."""

    node: int
    state: Int8[np.ndarray, " M"]
    noise: RowNoise
    features: Float[np.ndarray, "N used"]
    std: Float[np.ndarray, " C"]
    used: Int[np.ndarray, " used"]


class Fit(NamedTuple):
    """A function given the rows and ρ: the lower root of B, its solution for b, and the terms of log p(y), whose
    determinant is that but for the noise of the rows."""

    ratio: float
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
    for node in range(d):
        for at, request in _requests(rng, evidence, units[kernel_of[node]], node, graphs, states):
            weights, noise_std[at, node], shift[at, :, node] = _draw(rng, evidence, request, len(at))
            if stored:
                weight[at, node] = weights
    functions = _stored(units, kernel_of, weight) if stored else {}
    return functions | {"noise_std": Labelled(noise_std, ("node",))} | evidence.states.labelled(states, shift)


def _requests(
    rng: np.random.Generator, evidence: "KernelEvidence", units: Units, node: int, graphs: Graphs, states: States
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
            same, log_p = at[which == s], evidence.log_drifts(node, parents, state)
            drift = np.zeros(len(same), int)
            if len(log_p) > 1:
                share = np.exp(log_p - log_p.max())
                drift = rng.choice(len(share), size=len(same), p=share / share.sum())
            for b in np.unique(drift).tolist():
                noise = evidence.noise_of(parents, state, b)
                yield same[drift == b], NodeRequest(node, state, noise, features, std, used)


def _prior_std(kernel: AbstractKernel, units: Units, parents: Bool[np.ndarray, " d"]) -> Float[np.ndarray, " C"]:
    """Prior standard deviations of the weights of `Units.features`; 0 where a feature is not in use."""
    hidden, constant, linear = kernel.weight_variances(units, parents)
    variances = [np.broadcast_to(hidden, len(units.bias)), np.array([constant])]
    return np.sqrt(np.concatenate([*variances, linear * parents] if units.linear else variances))


def _draw(
    rng: np.random.Generator, evidence: "KernelEvidence", request: NodeRequest, size: int
) -> tuple[Float[np.ndarray, "size C"], Float[np.ndarray, " size"], Float[np.ndarray, "size M"]]:
    """Weights of the features, standard deviation of the noise and what shift effects add, in each of `size` draws."""
    node, state, noise, features, std, used = request
    y, own, blocks = evidence.rows.x[:, node], evidence.row_weights(node), evidence.blocks * evidence.block_std(node)
    columns = np.column_stack([features * std[used], blocks, y])
    n_rows, gram = _gram(columns, own, evidence.rows.start, noise)
    fits = [_fit(gram, n_rows, ratio) for ratio in evidence.noise.averaged(evidence.groups[node].ratio)]
    drawn, noise_std = np.empty((size, len(gram) - 1)), np.empty(size)
    for fit, at in _shares(rng, evidence.noise, fits, size):
        s2 = evidence.noise.draw_scale(rng, fit.terms, fit.ratio, len(at))
        noise_std[at] = np.sqrt(s2 * fit.ratio)
        spread = noise_std[at] * rng.normal(size=(len(gram) - 1, len(at)))
        drawn[at] = solve_triangular(fit.root, fit.projected[:, None] + spread, lower=True, trans=1).T
    weight = np.zeros((size, len(std)))
    weight[:, used] = std[used] * drawn[:, : len(used)]
    shift = np.zeros((size, len(state)))
    for k in np.flatnonzero(evidence.states.kind[state] == EffectKind.SHIFT):
        # As in a regression on the indicator of the context, given the function.
        block = slice(evidence.rows.start[k + 1], evidence.rows.start[k + 2])
        sums = own[block] @ columns[block]
        residual = sums[-1] - drawn @ sums[:-1]
        precision = own[block].sum() + 1 / noise.shift[k + 1]
        shift[:, k] = residual / precision + noise_std / np.sqrt(precision) * rng.normal(size=size)
    return weight, noise_std, shift


def _fit(gram: Float[np.ndarray, "c c"], n_rows: float, ratio: float) -> Fit:
    root = np.linalg.cholesky(gram[:-1, :-1] + ratio * np.eye(len(gram) - 1))
    projected = solve_triangular(root, gram[:-1, -1], lower=True)
    log_det = 2 * np.log(np.diagonal(root)).sum() + (n_rows - len(root)) * np.log(ratio)
    quad = (gram[-1, -1] - projected @ projected) / ratio
    return Fit(ratio, root, projected, Terms(*map(np.asarray, (n_rows, log_det, quad))))


def _shares(
    rng: np.random.Generator, noise: NoisePrior, fits: list[Fit], size: int
) -> Iterator[tuple[Fit, Int[np.ndarray, " at"]]]:
    """Which of `size` draws are made by each of the fits, by what the rows say of their ratios."""
    log_p = np.array([noise.log_density(fit.terms, fit.ratio) for fit in fits])
    share = np.exp(log_p - log_p.max())
    number = rng.choice(len(fits), size=size, p=share / share.sum()) if len(fits) > 1 else np.zeros(size, int)
    for i in np.unique(number).tolist():
        yield fits[i], np.flatnonzero(number == i)


def _gram(
    columns: Float[np.ndarray, "N c"],
    weight: Float[np.ndarray, " N"],
    start: Int[np.ndarray, " bounds"],
    noise: RowNoise,
) -> tuple[float, Float[np.ndarray, "c c"]]:
    """The rows that are left, and Σ_k columns_k' D_k⁻¹ columns_k with D_k = scale_k I + shift_k 11', rows weighted."""
    n_rows, gram = 0.0, np.zeros((columns.shape[1],) * 2)
    for k in np.flatnonzero(np.isfinite(noise.scale)):
        block, own = columns[start[k] : start[k + 1]], weight[start[k] : start[k + 1]]
        n, sums, scale, shift = own.sum(), own @ block, noise.scale[k], noise.shift[k]
        gram += (block.T * (own / scale)) @ block - np.outer(sums, sums) * shift / (scale * (scale + n * shift))
        n_rows += n
    return n_rows, gram


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
