"""`GeneExpressionSpec`: all of a gene-expression task but its seed. The defaults are the paper's task.

Our protocol differs from the authors' where theirs changes the mechanisms (see `GeneExpressionSpec.as_published`).

From a `GeneExpressionSpec` to a network, its knock-outs and the cells measured in each context.
"""

from dataclasses import dataclass, field, replace
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int8

from bacadi.errors import ConfigError
from bacadi.simulate.graphs import AbstractGraphFamily, ScaleFree
from bacadi.simulate.grn import AbstractTechnicalNoise, Cells, Langevin, RegulatoryNetwork
from bacadi.simulate.synthetic import Effects, Interventions, require_counts


@dataclass(frozen=True)
class Regulation:
    """Interaction strengths |k_ij| ~ U[strength_low, strength_high] and Hill coefficient n.

    Each regulator i has a probability p_i ~ Beta(activation_a, activation_b), and its edges activate with probability
    p_i. The default Beta is U-shaped: most regulators mainly activate or mainly repress.
    """

    strength_low: float = 1.0
    strength_high: float = 5.0
    activation_a: float = 0.2588
    activation_b: float = 0.2499
    hill: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.strength_low <= self.strength_high < np.inf:
            raise ConfigError(
                f"Interaction strengths between {self.strength_low} and {self.strength_high} make no sense; "
                "give 0 < strength_low <= strength_high, the sign is drawn."
            )
        if not (0 < self.activation_a < np.inf and 0 < self.activation_b < np.inf):
            raise ConfigError(
                f"Beta({self.activation_a}, {self.activation_b}) is no distribution of the share of activation; "
                "give activation_a > 0 and activation_b > 0."
            )
        if not 0 < self.hill < np.inf:
            raise ConfigError(f"A Hill coefficient of {self.hill} makes no sense; give hill > 0.")

    def draw(self, rng: np.random.Generator, graph: Int8[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
        """The signed strength k_ij of every edge i -> j, 0 elsewhere."""
        share = rng.beta(self.activation_a, self.activation_b, size=(len(graph), 1))
        sign = np.where(rng.random(graph.shape) < share, 1.0, -1.0)
        return np.where(graph == 1, sign * rng.uniform(self.strength_low, self.strength_high, size=graph.shape), 0.0)


@dataclass(frozen=True)
class CellTypes:
    """`n` cell types, in each of which every master regulator has its own basal rate U[basal_low, basal_high]."""

    n: int = 10
    basal_low: float = 1.0
    basal_high: float = 3.0

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ConfigError(f"{self.n} cell types leave no cell; give n >= 1.")
        if not 0 < self.basal_low <= self.basal_high < np.inf:
            raise ConfigError(
                f"Basal rates between {self.basal_low} and {self.basal_high} make no sense; "
                "give 0 < basal_low <= basal_high."
            )

    def draw(self, rng: np.random.Generator, graph: Int8[np.ndarray, "d d"]) -> Float[np.ndarray, "c d"]:
        """The basal rate of every gene in every cell type, 0 for genes with regulators."""
        return (graph.sum(axis=0) == 0) * rng.uniform(self.basal_low, self.basal_high, size=(self.n, len(graph)))


@dataclass(frozen=True)
class KnockOuts:
    """Which genes the training contexts knock out; the counts mean the same as in `Interventions`."""

    n_contexts: int | None = 10
    targets_per_context: int = 1
    n_without_effect: int = 0
    rows_per_context: int = 10

    def __post_init__(self) -> None:
        require_counts(self, "n_contexts", "targets_per_context", "n_without_effect", "rows_per_context")

    def draw_targets(self, rng: np.random.Generator, d: int) -> Int8[np.ndarray, "m d"]:
        """The knocked-out genes of all contexts as a matrix of 0 and 1.

        >>> KnockOuts(n_contexts=2).draw_targets(np.random.default_rng(0), 5).sum(axis=1).tolist()
        [1, 1]
        """
        design = Interventions(self.n_contexts, self.targets_per_context, self.n_without_effect)
        return design.draw_targets(rng, d)


@dataclass(frozen=True)
class HeldOutKnockOuts:
    """Test contexts that knock out sets of genes which no training context knocks out, each set once.

    `repeat_training` tests on new cells of the training knock-outs instead, and the other counts of contexts and
    targets are then not used.
    """

    n_contexts: int = 10
    rows_per_context: int = 100
    targets_per_context: int = 1
    repeat_training: bool = False

    def __post_init__(self) -> None:
        require_counts(self, "n_contexts", "rows_per_context")
        if self.targets_per_context < 1:
            raise ConfigError(
                f"targets_per_context = {self.targets_per_context} knocks out nothing; knock out 1 gene or more."
            )

    def draw_targets(self, rng: np.random.Generator, training: Int8[np.ndarray, "m d"]) -> Int8[np.ndarray, "h d"]:
        """The knocked-out genes of all contexts as a matrix of 0 and 1.

        >>> training = np.eye(4, dtype=np.int8)[:2]
        >>> HeldOutKnockOuts(2).draw_targets(np.random.default_rng(0), training).sum(axis=0).tolist()
        [0, 0, 1, 1]
        """
        if self.repeat_training:
            return training.copy()
        d, size = training.shape[1], self.targets_per_context
        used = {frozenset(np.flatnonzero(row).tolist()) for row in training}
        free = comb(d, size) - sum(len(genes) == size for genes in used)
        if self.n_contexts > free:
            raise ConfigError(
                f"{self.n_contexts} held-out contexts are more than the {free} ways to knock out {size} of {d} genes "
                "that training leaves; ask for fewer contexts or for more targets per context."
            )
        chosen = [] if free > 10 * self.n_contexts else _shuffled_sets(rng, d, size, used)[: self.n_contexts]
        while len(chosen) < self.n_contexts:
            genes = frozenset(rng.choice(d, size, replace=False).tolist())
            if genes not in used and genes not in chosen:
                chosen.append(genes)
        targets = np.zeros((self.n_contexts, d), dtype=np.int8)
        for k, genes in enumerate(chosen):
            targets[k, sorted(genes)] = 1
        return targets


@dataclass(frozen=True)
class GeneExpressionSpec:
    """A gene-expression task but for its seed.

    Half responses are those of the wild type, so that the mechanisms of genes which are not knocked out are the same in
    all contexts; `half_responses_by_context` recomputes them in each. `technical_noise` is applied in its order.

    >>> GeneExpressionSpec().as_published().langevin.knock_out_time
    0.3
    """

    n_variables: int = 20
    graph: AbstractGraphFamily = field(default_factory=ScaleFree)
    regulation: Regulation = field(default_factory=Regulation)
    cell_types: CellTypes = field(default_factory=CellTypes)
    langevin: Langevin = field(default_factory=Langevin)
    knock_outs: KnockOuts = field(default_factory=KnockOuts)
    held_out: HeldOutKnockOuts = field(default_factory=HeldOutKnockOuts)
    n_observational: int = 100
    technical_noise: tuple[AbstractTechnicalNoise, ...] = ()
    half_responses_by_context: bool = False
    standardize: bool = False

    def __post_init__(self) -> None:
        require_counts(self, "n_observational")
        if self.n_variables < 1:
            raise ConfigError("A task without genes makes no sense; give n_variables >= 1.")
        for design in (self.knock_outs, self.held_out):
            if design.targets_per_context > self.n_variables:
                raise ConfigError(
                    f"{design.targets_per_context} targets per context are more than the {self.n_variables} genes; "
                    "ask for fewer targets."
                )

    def as_published(self) -> "GeneExpressionSpec":
        """The same task by the authors' protocol.

        Half responses are recomputed in each context, the cells of a knock-out are followed for only .3 time units
        from its noise-free steady state, data are standardised over the pooled contexts, and the held-out contexts are
        the training knock-outs again (with new cells).
        """
        return replace(
            self,
            langevin=replace(self.langevin, knock_out_time=0.3),
            held_out=replace(self.held_out, repeat_training=True),
            half_responses_by_context=True,
            standardize=True,
        )

    def draw_network(self, rates: np.random.Generator, graph: Int8[np.ndarray, "d d"]) -> RegulatoryNetwork:
        """Random rates for all genes and edges of `graph`."""
        strengths = self.regulation.draw(rates, graph)
        return RegulatoryNetwork(
            graph, strengths, self.cell_types.draw(rates, graph), self.regulation.hill, self.langevin
        )


def _shuffled_sets(rng: np.random.Generator, d: int, size: int, used: set[frozenset[int]]) -> list[frozenset[int]]:
    sets = [frozenset(genes) for genes in combinations(range(d), size) if frozenset(genes) not in used]
    return [sets[k] for k in rng.permutation(len(sets))]


class Measured(NamedTuple):
    """Cells of the contexts 0 (wild type) and 1..M, with the type of each cell."""

    x: Float[np.ndarray, "n d"]
    context: Int[np.ndarray, " n"]
    cell_type: Int[np.ndarray, " n"]


class Expression(NamedTuple):
    """All that is drawn for a gene-expression task."""

    network: RegulatoryNetwork
    effects: Effects
    data: Measured
    held_out_effects: Effects
    held_out: Measured


def express(spec: GeneExpressionSpec, seed: int) -> Expression:
    """The network, knock-outs and cells of a specification and a seed.

    >>> spec = GeneExpressionSpec(n_variables=4)
    >>> from dataclasses import replace
    >>> from bacadi.simulate.expression import HeldOutKnockOuts, KnockOuts
    >>> spec = replace(spec, knock_outs=KnockOuts(2), held_out=HeldOutKnockOuts(2, rows_per_context=5))
    >>> express(spec, seed=0).data.x.shape
    (120, 4)
    """
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(8)]
    graph = spec.graph.draw(streams[0], spec.n_variables)
    network = spec.draw_network(streams[1], graph)
    targets = spec.knock_outs.draw_targets(streams[3], spec.n_variables)
    data = _grow(streams[4], spec, network, targets, (spec.n_observational, spec.knock_outs.rows_per_context))
    held_out_targets = spec.held_out.draw_targets(streams[5], targets)
    held_out = _grow(streams[5], spec, network, held_out_targets, (0, spec.held_out.rows_per_context))
    for noise in spec.technical_noise:
        step = noise.prepare(streams[2], data.x)
        data = data._replace(x=step(streams[6], data.x))
        held_out = held_out._replace(x=step(streams[7], held_out.x))
    return Expression(network, knock_out_effects(targets), data, knock_out_effects(held_out_targets), held_out)


def knock_out_effects(targets: Int8[np.ndarray, "m d"]) -> Effects:
    """A knock-out as an effect: x_j = 0 without noise, whatever the regulators."""
    nothing = np.zeros(targets.shape)
    return Effects(targets, nothing.astype(bool), nothing, nothing, (None,) * len(targets))


def _grow(
    rng: np.random.Generator,
    spec: GeneExpressionSpec,
    network: RegulatoryNetwork,
    targets: Int8[np.ndarray, "m d"],
    rows: tuple[int, int],
) -> Measured:
    """`rows[0]` cells of the wild type and `rows[1]` cells of every context."""
    n_cells = [rows[0]] + [rows[1]] * len(targets)
    context = np.repeat(np.arange(len(n_cells)), n_cells)
    knocked_out = np.vstack([np.zeros((1, spec.n_variables)), targets]) == 1
    if spec.half_responses_by_context:
        half = np.array([network.half_responses(genes) for genes in knocked_out])
    else:
        half = np.broadcast_to(network.half_responses(), knocked_out.shape)
    cell_type = _balanced_types(rng, spec.cell_types.n, n_cells)
    cells = Cells(cell_type, knocked_out[context], half[context])
    time = spec.langevin.time, spec.langevin.knock_out_time or spec.langevin.time
    x = np.zeros(cells.knocked_out.shape)
    for group, duration in zip((context == 0, context > 0), time, strict=True):
        x[group] = network.sample(rng, Cells(*(field[group] for field in cells)), duration)
    return Measured(x, context, cell_type)


def _balanced_types(rng: np.random.Generator, n_types: int, n_cells: list[int]) -> Int[np.ndarray, " n"]:
    """Cell types in turn within each context, in random order: their numbers of cells differ by at most 1."""
    return np.concatenate([np.resize(rng.permutation(n_types), n) for n in n_cells])
