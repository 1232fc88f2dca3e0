"""`GeneExpressionSpec`: all of a gene-expression task but its seed. The defaults are the paper's task.

Our protocol differs from the authors' where theirs changes the mechanisms (see `GeneExpressionSpec.as_published`).
"""

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int8
from numpy.random import Generator

from bacadi.config.choices import Choice, option
from bacadi.errors import ConfigError
from bacadi.simulate.graphs import AbstractGraphFamily, RandomScaleFree
from bacadi.simulate.grn import AbstractTechnicalNoise, Cells, Langevin, RegulatoryNetwork
from bacadi.simulate.synthetic import TargetDesign, Targets, hard_effects
from bacadi.simulate.task import AbstractSpec, Task, labelled_data, standardized


class Regulation(Choice):
    """Interaction strengths |k_ij| ~ U[strength_low, strength_high] and Hill coefficient n.

    Each regulator i has a probability p_i ~ Beta(activation_a, activation_b), and its edges activate with probability
    p_i. The default Beta is U-shaped: most regulators mainly activate or mainly repress.
    """

    strength_low: float = option(1.0, above=0)
    strength_high: float = option(5.0, above=0)
    activation_a: float = option(0.2588, above=0)
    activation_b: float = option(0.2499, above=0)
    hill: float = option(2.0, above=0)

    def draw(self, rng: Generator, graph: Int8[np.ndarray, "d d"]) -> Float[np.ndarray, "d d"]:
        """Draw the signed strength k_ij of every edge i -> j, 0 elsewhere."""
        share = rng.beta(self.activation_a, self.activation_b, size=(len(graph), 1))
        sign = np.where(rng.random(graph.shape) < share, 1.0, -1.0)
        return np.where(graph == 1, sign * rng.uniform(self.strength_low, self.strength_high, size=graph.shape), 0.0)


class CellTypes(Choice):
    """`n` cell types, in each of which every master regulator has its own basal rate U[basal_low, basal_high]."""

    n: int = option(10, least=1)
    basal_low: float = option(1.0, above=0)
    basal_high: float = option(3.0, above=0)

    def draw(self, rng: Generator, graph: Int8[np.ndarray, "d d"]) -> Float[np.ndarray, "c d"]:
        """Draw the basal rate of every gene in every cell type, 0 for genes with regulators."""
        return (graph.sum(axis=0) == 0) * rng.uniform(self.basal_low, self.basal_high, size=(self.n, len(graph)))


class KnockOuts(TargetDesign):
    """Which genes the training contexts knock out; the counts mean the same as in `TargetDesign`."""

    n_contexts: int | None = option(10, least=0)


class HeldOutKnockOuts(Choice):
    """Test contexts that knock out sets of genes which no training context knocks out, each set once.

    `repeat_training` tests on new cells of the training knock-outs instead, and the other counts of contexts and
    targets are then not used.
    """

    n_contexts: int = option(10, least=0)
    rows_per_context: int = option(100, least=0)
    targets_per_context: int = option(1, least=1)
    repeat_training: bool = False

    def draw_targets(self, rng: Generator, training: Int8[np.ndarray, "m d"]) -> Int8[np.ndarray, "h d"]:
        """Draw the knocked-out genes of all contexts as a matrix of 0 and 1.

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
        sets = [] if free > 10 * self.n_contexts else _shuffled_sets(rng, d, size, used)[: self.n_contexts]
        while len(sets) < self.n_contexts:
            genes = frozenset(rng.choice(d, size, replace=False).tolist())
            if genes not in used and genes not in sets:
                sets.append(genes)
        knocked_out = [[gene in genes for gene in range(d)] for genes in sets]
        return np.array(knocked_out, dtype=np.int8).reshape(self.n_contexts, d)


class GeneExpressionSpec(AbstractSpec):
    """A gene-expression task but for its seed.

    Half responses are those of the wild type, so that the mechanisms of genes which are not knocked out are the same in
    all contexts; `half_responses_by_context` recomputes them in each. `technical_noise` is applied in its order.

    >>> GeneExpressionSpec().as_published().langevin.knock_out_time
    0.3
    """

    graph: AbstractGraphFamily = RandomScaleFree()
    regulation: Regulation = Regulation()
    cell_types: CellTypes = CellTypes()
    langevin: Langevin = Langevin()
    knock_outs: KnockOuts = KnockOuts()
    held_out: HeldOutKnockOuts = HeldOutKnockOuts()
    n_observational: int = option(100, least=0)
    technical_noise: tuple[AbstractTechnicalNoise, ...] = ()
    half_responses_by_context: bool = False
    standardize: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_size(self.n_observational + self.cell_types.n, self.knock_outs, self.held_out)
        self._check_targets(self.knock_outs.targets_per_context, self.held_out.targets_per_context)

    def as_published(self) -> "GeneExpressionSpec":
        """The same task by the authors' protocol.

        Half responses are recomputed in each context, the cells of a knock-out are followed for only .3 time units
        from its noise-free steady state, data are standardised over the pooled contexts, and the held-out contexts are
        the training knock-outs again (with new cells).
        """
        short, same = self.langevin.replace(knock_out_time=0.3), self.held_out.replace(repeat_training=True)
        return self.replace(langevin=short, held_out=same, half_responses_by_context=True, standardize=True)

    def draw(self, seed: int) -> Task:
        streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(8)]
        graph = self.graph.draw(streams[0], self.n_variables)
        network = self.draw_network(streams[1], graph)
        targets = self.knock_outs.draw_targets(streams[3], self.n_variables)
        cells = self._grow(streams[4], network, targets, (self.n_observational, self.knock_outs.rows_per_context))
        held_out_targets = self.held_out.draw_targets(streams[5], targets)
        held_out = self._grow(streams[5], network, held_out_targets, (0, self.held_out.rows_per_context))
        for noise in self.technical_noise:
            step = noise.prepare(streams[2], cells.x)
            cells = cells._replace(x=step(streams[6], cells.x))
            held_out = held_out._replace(x=step(streams[7], held_out.x))
        # A knock-out is a hard effect: x_j = 0 without noise, whatever the regulators.
        effects, held_out_effects = (hard_effects(genes, 0.0, 0.0) for genes in (targets, held_out_targets))
        data = labelled_data(cells.x, cells.context, len(targets), "g")
        test = labelled_data(held_out.x, held_out.context, len(held_out_targets), "g")
        types = cells.cell_type, held_out.cell_type
        task = Task(seed, graph, effects, data, held_out_effects, test, network, None, self, *types)
        return standardized(task) if self.standardize else task

    def draw_network(self, rng: Generator, graph: Int8[np.ndarray, "d d"]) -> RegulatoryNetwork:
        """Draw the rates of all genes and edges of `graph`."""
        strengths, basal = self.regulation.draw(rng, graph), self.cell_types.draw(rng, graph)
        return RegulatoryNetwork(graph, strengths, basal, self.regulation.hill, self.langevin)

    def _grow(self, rng: Generator, network: RegulatoryNetwork, targets: Targets, rows: tuple[int, int]) -> "Measured":
        """Simulate `rows[0]` cells of the wild type and `rows[1]` cells of every context."""
        n_cells = [rows[0]] + [rows[1]] * len(targets)
        context = np.repeat(np.arange(len(n_cells)), n_cells)
        knocked_out = np.vstack([np.zeros((1, self.n_variables)), targets]) == 1
        if self.half_responses_by_context:
            half = np.array([network.half_responses(genes) for genes in knocked_out])
        else:
            half = np.broadcast_to(network.half_responses(), knocked_out.shape)
        # Types in turn within each context, in random order: their numbers of cells differ by at most 1.
        cell_type = np.concatenate([np.resize(rng.permutation(self.cell_types.n), n) for n in n_cells])
        cells = Cells(cell_type, knocked_out[context], half[context])
        time = self.langevin.time, self.langevin.knock_out_time or self.langevin.time
        x = np.zeros(cells.knocked_out.shape)
        for group, duration in zip((context == 0, context > 0), time, strict=True):
            x[group] = network.sample(rng, Cells(*(field[group] for field in cells)), duration)
        return Measured(x, context, cell_type)


def _shuffled_sets(rng: Generator, d: int, size: int, used: set[frozenset[int]]) -> list[frozenset[int]]:
    sets = [frozenset(genes) for genes in combinations(range(d), size) if frozenset(genes) not in used]
    return [sets[k] for k in rng.permutation(len(sets))]


class Measured(NamedTuple):
    """Cells of the contexts 0 (wild type) and 1..M, with the type of each cell."""

    x: Float[np.ndarray, "n d"]
    context: Int[np.ndarray, " n"]
    cell_type: Int[np.ndarray, " n"]
