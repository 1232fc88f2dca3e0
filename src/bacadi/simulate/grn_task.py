"""From a `GeneExpressionSpec` to a network, its knock-outs and the cells measured in each context."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int8

from bacadi.simulate.effects import Effects
from bacadi.simulate.grn import Cells, RegulatoryNetwork
from bacadi.simulate.grn_spec import GeneExpressionSpec


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
    >>> from bacadi.simulate.grn_spec import HeldOutKnockOuts, KnockOuts
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
