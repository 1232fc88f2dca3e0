"""Evidence of linear Gaussian mechanisms and of BGe from one Gram matrix per context; `tables` has the formulas."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.errors import NoClosedForm
from bacadi.evidence.collapsed import AbstractEvidence, Columns, EffectStates, Graphs, ParentSets, States
from bacadi.evidence.compiled import row_by_row
from bacadi.evidence.draw import draw_mechanisms
from bacadi.evidence.tables import NODE, SOFT, GramTables, Regression, local_score, local_scores, regression
from bacadi.model.integrated import BGe
from bacadi.model.linear import LinearGaussian

FEW = 0.1  # rows of a context per column, at most, where it keeps them in place of its Gram matrix


class GramEvidence(AbstractEvidence):
    """Linear Gaussian evidence with known or inferred noise, or BGe; see the module for the formulas.

    With `features` every variable enters the regressions of others by its own features in place of itself: mechanisms
    that are sums of functions of single parents.
    """

    costly = False

    def __init__(
        self,
        data: ContextData,
        states: EffectStates,
        prior: Regression,
        features: Sequence[Float[np.ndarray, "n _"]] | None = None,
    ) -> None:
        if any(states.drift.slopes) and not prior.n_fixed:
            raise NoClosedForm("Slopes that drift need a mechanism with an intercept; give one, or slopes of 0.")
        self.n_variables, self.n_contexts, self.states = data.n_variables, data.n_contexts, states
        blocks = data.block[:, None] == np.arange(n_blocks(data)) if data.block is not None else data.x[:, :0]
        design = np.column_stack([data.x, np.ones(data.n_rows), blocks, *(features or [])])
        first = np.arange(data.n_variables + 1)
        if features is not None:
            first = design.shape[1] - np.append(np.cumsum([part.shape[1] for part in features[::-1]])[::-1], 0)
        weights = np.ones((1, data.n_rows)) if data.weight is None else data.weight.T
        power = np.ones(data.n_contexts + 1) if states.power is None else states.power
        drift = states.drift
        square, slope, ratio = np.square(drift.stds), np.square(drift.slopes), drift.noise_ratios
        move = np.square(drift.context_moves)
        sums = _summed(design, data, weights * power[data.context], (square, ratio))
        rows, n = sums.rows, sums.rows[:, None, 1:]
        changes = n * np.log(ratio)[:, None] + np.log1p(n * (square / ratio)[:, None])
        drift_log = np.log(drift.probabilities) - 0.5 * changes.sum(axis=2)
        group = np.arange(data.n_variables) % len(weights)
        far = reach(data, rows.mean(axis=0))
        drifts = square, ratio, slope, move, far, np.zeros(data.n_contexts), drift_log
        effects = states.kind, states.value, states.hard_log_evidence
        self.tables = row_by_row(
            GramTables(first, *sums, rows.sum(axis=1), group, *drifts, *states.bends, prior, *effects)
        )

    def log_evidence(self, node: int, parents: Bool[np.ndarray, " d"], state: Int8[np.ndarray, " M"]) -> float:
        chosen = np.flatnonzero(parents).astype(NODE)
        return float(local_score(self.tables, node, chosen, len(chosen), np.asarray(state, np.int8)))

    def log_evidences(self, nodes: np.ndarray, parents: ParentSets, states: Columns) -> Float[np.ndarray, " B"]:
        return local_scores(self.tables, np.asarray(nodes, np.int64), parents, states)

    def target_share(self, node: int, parents: ParentSets) -> Float[np.ndarray, "B M"]:
        bend, odds = self.tables.bend, self.tables.odds[:, node]
        if bend == 0:
            return super().target_share(node, parents)
        far = parents.astype(float) @ self.tables.reach.T
        free = (odds > 0) & (odds < np.inf)
        return np.where(free, 1 / (1 + bend * far / (1 + far) / np.where(free, odds, 1.0)), 1.0)

    def draw_parameters(self, rng: np.random.Generator, graphs: Graphs, states: States) -> dict[str, Labelled]:
        weight, intercept, noise_std, noise_ratio, shift, own, where = draw_mechanisms(rng, self.tables, graphs, states)
        drawn = {"weight": Labelled(weight, ("source", "target")), "noise_std": Labelled(noise_std, ("node",))}
        if self.tables.prior.n_fixed:
            drawn["intercept"] = Labelled(intercept, ("node",))
        if (self.tables.ratio != 1).any():
            drawn["noise_ratio"] = Labelled(noise_ratio, ("node",))
        drawn |= self.states.labelled(states, shift)
        if SOFT in self.states.kind:
            d = self.n_variables
            drawn["effect_context"] = Labelled(where[..., 0], ("slot",))
            drawn["effect_node"] = Labelled(where[..., 1], ("slot",))
            drawn["effect_weight"] = Labelled(own[..., :d], ("slot", "source"))
            drawn["effect_intercept"] = Labelled(own[..., d], ("slot",))
            drawn["effect_own_noise_std"] = Labelled(own[..., d + 1], ("slot",))
        return drawn


class _Sums(NamedTuple):
    """Fields of `GramTables`, from the second on."""

    gram: Float[np.ndarray, "G C D D"]
    at_gram: Int[np.ndarray, " M"]
    few: Float[np.ndarray, "D N"]
    row_root: Float[np.ndarray, "G N"]
    first_row: Int[np.ndarray, " M+1"]
    sums: Float[np.ndarray, "G M D"]
    total: Float[np.ndarray, "G D D B"]
    rows: Float[np.ndarray, "G K"]


def _summed(
    design: Float[np.ndarray, "n D"],
    data: ContextData,
    weights: Float[np.ndarray, "G n"],
    drifts: tuple[Float[np.ndarray, " B"], Float[np.ndarray, " B"]],
) -> _Sums:
    """Gram matrices of contexts, or their rows where these are few, and the sums of all contexts under each drift, its
    τ² and ρ."""
    size, at = design.shape[1], [np.flatnonzero(data.context == k) for k in range(data.n_contexts + 1)]
    is_few = np.array([len(rows) <= FEW * size for rows in at[1:]], bool)
    at_gram = np.where(is_few, -1, np.cumsum(~is_few) - 1)
    kept = np.concatenate([np.zeros(0, int), *(rows for rows, few in zip(at[1:], is_few, strict=True) if few)])
    gram = np.empty((len(weights), int((~is_few).sum()), size, size))
    rows, sums = np.empty((len(weights), len(at))), np.empty((len(weights), data.n_contexts, size))
    total = np.zeros((len(weights), size, size, len(drifts[0])))
    for g, weight in enumerate(weights):
        control, every = np.zeros((2, size, size))
        for k, of in enumerate(at):
            block, own = design[of], weight[of]
            rows[g, k] = own.sum()
            if k > 0 and is_few[k - 1]:
                sums[g, k - 1] = own @ block
                continue
            matrix = (block.T * own) @ block
            if k == 0:
                control = matrix
            else:
                every += matrix
                sums[g, k - 1], gram[g, at_gram[k - 1]] = matrix[data.n_variables], matrix
        every += (design[kept].T * weight[kept]) @ design[kept]
        for b, (variance, ratio) in enumerate(zip(*drifts, strict=True)):
            shares = variance / (ratio * (ratio + rows[g, 1:] * variance))
            total[g, :, :, b] = control + every / ratio - (sums[g].T * shares) @ sums[g]
    first = np.concatenate(
        [[0], np.cumsum([len(rows) if few else 0 for rows, few in zip(at[1:], is_few, strict=True)])]
    )
    few = np.ascontiguousarray(design[kept].T)
    return _Sums(gram, at_gram, few, np.sqrt(weights[:, kept]), first.astype(np.int64), sums, total, rows)


def reach(data: ContextData, rows: Float[np.ndarray, " K"]) -> Float[np.ndarray, "M d"]:
    """How far each context takes each variable out of where the control has it: Δ², the squared distance of the means
    in standard deviations within contexts, less what chance explains (two standard errors of so many rows).

    >>> x = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0], [9.0, 0.0], [11.0, 0.0]])
    >>> data = ContextData(x, np.array([0, 0, 0, 1, 1]), ("a", "b"), ("ko",), "wt")
    >>> reach(data, np.array([3.0, 2.0])).round(1).tolist()
    [[121.7, 0.0]]
    """
    control = data.context == 0
    reference = data.x[control] if control.any() else data.x
    within = data.residuals_within().var(axis=0)
    scale = np.where(within > 0, within, data.x.var(axis=0))
    n_reference = rows[0] if control.any() else rows.sum()
    far = np.zeros((data.n_contexts, data.n_variables))
    for k, block in enumerate(data.by_context()[1:]):
        if len(block):
            square = np.square(block.mean(axis=0) - reference.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
            far[k] = np.maximum(square - 4 * (1 / rows[k + 1] + 1 / n_reference), 0.0)
    return far


def n_blocks(data: ContextData) -> int:
    """How many blocks there are, each with an offset of its own in every regression."""
    return 0 if data.block is None else int(data.block.max()) + 1


def linear_evidence(mechanism: LinearGaussian, data: ContextData, states: EffectStates) -> GramEvidence:
    """The evidence of linear mechanisms; prior precisions are in units of the noise, also where σ is known."""
    d, noise, intercept = data.n_variables, mechanism.noise.conjugate(), mechanism.intercept_prior_std
    unit = 1.0 if noise.variance is None else noise.variance
    precision = np.full((d, d + 1 + n_blocks(data)), unit / mechanism.weight_prior_std**2)
    if intercept is not None:
        precision[:, d:] = unit / intercept**2
    n_fixed = precision.shape[1] - d if intercept is not None or n_blocks(data) else 0
    return GramEvidence(data, states, regression(n_fixed, precision, noise))


def bge_evidence(mechanism: BGe, data: ContextData, states: EffectStates) -> GramEvidence:
    """BGe as a regression: Λ is t for weights and α_μ for the intercept, σ² ~ InvGamma by the number of parents."""
    d, t = data.n_variables, mechanism.prior_scale
    precision = np.full((d, d + 1 + n_blocks(data)), t)
    precision[:, d:] = mechanism.alpha_mu
    shape = 0.5 * (mechanism.alpha_omega_excess + np.arange(precision.shape[1] + 1) + 1)
    return GramEvidence(data, states, regression(1 + n_blocks(data), precision, (None, shape, 0.5 * t, (1.0,))))
