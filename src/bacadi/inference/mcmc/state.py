"""The state of a run as a checkpoint holds it, validated.

A file may come from anywhere, and compiled code follows every index in it and believes every count. A checkpoint holds
the arrays of all replicas (`0.chains.edges`, …) or, before there are any, the searches for their starts that came to an
end, one per row (`start.node`, …). Names, shapes and types were compared before.
"""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from bacadi.evidence.collapsed import CollapsedPosterior, StructurePrior
from bacadi.graph.dag import is_acyclic
from bacadi.inference.mcmc.draws import PACKED, from_arrays, unpacked_graphs, unpacked_states
from bacadi.inference.mcmc.ladder import Lacks
from bacadi.inference.mcmc.start import Local, Searched

Arrays = dict[str, np.ndarray]

SEARCH = ("replica", "node", "before", "score", "parents", "state")
LISTS = (
    *PACKED,
    "known.keys",
    "known.values",
    "asked.keys",
    "asked.values",
    *(f"lacks.{name}" for name in Lacks._fields),
    *(f"start.{name}" for name in SEARCH),
)
"""Arrays that may have any length."""


class Limits(NamedTuple):
    """The numbers of a run that bound those of its state."""

    n_replicas: int
    n_sweeps: int
    n_draws: int
    n_moves: Int[np.ndarray, " L"]


def of_replica(saved: Arrays, r: int) -> Arrays:
    """The arrays of one replica."""
    return {name.removeprefix(f"{r}."): array for name, array in saved.items() if name.startswith(f"{r}.")}


def searches(saved: Arrays, n: int) -> list[Searched]:
    """The searches of each of n replicas."""
    found: list[Searched] = [{} for _ in range(n)]
    for replica, node, before, score, parents, state in zip(*(saved[f"start.{name}"] for name in SEARCH), strict=True):
        found[replica][int(node), before.astype(bool).tobytes()] = Local(float(score), parents.astype(bool), state)
    return found


def faults(saved: Arrays, collapsed: CollapsedPosterior, limits: Limits) -> Iterator[str]:
    """What makes no sense in a checkpoint; what follows a fault may be meaningless itself."""
    if not (np.isfinite(saved["seconds"]).all() and (saved["seconds"] >= 0).all()):
        yield "the time is no time"
    if ((saved["hyperparameters"] < 0) | (saved["hyperparameters"] >= collapsed.evidence.n_options)).any():
        yield "there are no such hyper-parameters"
    if "sweep" not in saved:
        yield from _of_searches(saved, collapsed.prior, limits.n_replicas)
        return
    sweep, total, burn_in, wanted = saved["sweep"].tolist()
    if not (0 <= sweep <= total <= limits.n_sweeps and 0 <= burn_in <= total and 1 <= wanted <= limits.n_draws):
        yield "the number of a sweep is out of range"
    for r in range(limits.n_replicas):
        arrays = of_replica(saved, r)
        parts = _of_structures(arrays, collapsed.prior, limits), _of_chains(arrays, collapsed.prior)
        yield from chain(*parts, _of_known(arrays), _of_ladder(arrays, sweep, limits))


def _of_searches(saved: Arrays, prior: StructurePrior, n_replicas: int) -> Iterator[str]:
    replica, node, before, score, parents, state = (saved[f"start.{name}"] for name in SEARCH)
    if len({len(saved[f"start.{name}"]) for name in SEARCH}) != 1:
        yield "the searches are not as many everywhere"
    if ((replica < 0) | (replica >= n_replicas) | (node < 0) | (node >= len(prior.edge_log_odds))).any():
        yield "a number of a search is out of range"
    if (before > 1).any() or (parents > (before | prior.required.T[node])).any():
        yield "the parents of a search are none"
    m, _, n_states = prior.state_log_prior.shape
    if ((state < 0) | (state >= n_states)).any() or not np.isfinite(score).all():
        yield "the states or the score of a search are none"
    if (prior.state_log_prior[np.arange(m), node[:, None], state.astype(int)] == -np.inf).any():
        yield "a search breaks what is known"


def _of_structures(arrays: Arrays, prior: StructurePrior, limits: Limits) -> Iterator[str]:
    """Of graphs and states, those of the chains and those that were drawn."""
    n_edges, edges, n_touched, touched, states, log_p = (arrays[name] for name in PACKED)
    if not len(n_edges) == len(n_touched) == len(log_p) <= 2 * limits.n_draws or arrays["every"] < 1:
        yield "the number of draws is out of range"
    if (n_edges < 0).any() or (n_touched < 0).any() or n_edges.sum() != len(edges) or n_touched.sum() != len(touched):
        yield "the draws are not as long as they say"
    m, d, n_states = prior.state_log_prior.shape
    outside = ((edges < 0) | (edges >= d * d)).any() or ((touched < 0) | (touched >= m * d)).any()
    if outside or len(states) != len(touched) or ((states < 0) | (states >= n_states)).any():
        yield "a draw is out of range"
    # One after the other: as matrices all draws together may not fit into the memory.
    for graph, of in zip(
        arrays["chains.edges"].astype(np.int8), arrays["chains.states"].transpose(0, 2, 1), strict=True
    ):
        yield from _of_structure(graph, of, prior)
    for draw in from_arrays(arrays):
        yield from _of_structure(unpacked_graphs([draw], d)[0], unpacked_states([draw], (m, d))[0], prior)


def _of_structure(graph: np.ndarray, states: np.ndarray, prior: StructurePrior) -> Iterator[str]:
    if ((graph != 0) & (graph != 1)).any() or not is_acyclic(graph):
        yield "a graph has a cycle or is none"
    if prior.log_prob_ordered(graph) == -np.inf:
        yield "a graph breaks what is known"
    if ((states < 0) | (states >= prior.state_log_prior.shape[2])).any():
        yield "a state is out of range"
    if prior.log_prob_states(states) == -np.inf:
        yield "a state breaks what is known"


def _of_chains(arrays: Arrays, prior: StructurePrior) -> Iterator[str]:
    """Of what follows from graphs and states, and of the orders."""
    edges, states = arrays["chains.edges"], arrays["chains.states"]
    parents, n_parents, place = (arrays[f"chains.{name}"] for name in ("parents", "n_parents", "place"))
    n, d, _ = edges.shape
    if ((parents < 0) | (parents >= d)).any() or (n_parents != edges.sum(axis=1)).any():
        yield "a list of parents is out of range"
    c, j, at = np.nonzero(np.arange(d) < n_parents[:, :, None])
    listed = np.zeros((n, d, d), np.int16)
    np.add.at(listed, (c, parents[c, j, at], j), 1)
    if (listed != edges).any() or (arrays["chains.n_targets"] != (states > 0).sum(axis=1)).any():
        yield "lists of parents or targets do not fit the graphs"
    backwards = edges.astype(bool) & (place[:, :, None] > place[:, None, :])
    if (np.sort(place, axis=1) != np.arange(d)).any() or (prior.over_orders and backwards.any()):
        yield "an order is none"
    numbers = (arrays["chains.score"], arrays["chains.log_prior"], arrays["draws.log_posterior"])
    if not all(np.isfinite(array).all() for array in numbers) or not arrays["chains.rng"].any():
        yield "a score is no number"


def _of_known(arrays: Arrays) -> Iterator[str]:
    """Of the scores that an approximation was told: a table of a power of two, not full, or it is searched forever."""
    keys, values = arrays["known.keys"], arrays["known.values"]
    lacks = Lacks(*(arrays[f"lacks.{name}"] for name in Lacks._fields))
    if not len(keys) or len(keys) & (len(keys) - 1) or len(keys) != len(values) or (keys != 0).all():
        yield "the scores that are known are none"
    if len(arrays["asked.keys"]) != len(arrays["asked.values"]) or (arrays["asked.keys"] == 0).any():
        yield "the scores that were asked for are none"
    numbers = values, lacks.by, arrays["known.lack"], arrays["asked.values"]
    if len({len(column) for column in lacks}) > 1 or not all(np.isfinite(array).all() for array in numbers):
        yield "what lacks is no number"
    if ((lacks.node < 0) | (lacks.node >= len(arrays["known.lack"]))).any():
        yield "what lacks is of no node"


def _of_ladder(arrays: Arrays, sweep: int, limits: Limits) -> Iterator[str]:
    """Of temperatures, counts and the place in the run."""
    betas, moved, n = arrays["betas"], arrays["counts.moves"], len(limits.n_moves)
    if (np.sort(arrays["chains.at_level"]) != np.arange(n)).any():
        yield "a level is out of range"
    if betas[0] != 1 or not ((betas > 0) & (betas <= 1)).all() or (np.diff(betas) > 0).any():
        yield "the temperatures are none"
    counts = [moved, arrays["counts.swaps"], *(arrays[f"seen.{name}"] for name in ("edges", "targets", "n"))]
    if (
        any(not (array >= 0).all() or np.isinf(array).any() for array in counts)
        or (moved[..., 1] > moved[..., 0]).any()
    ):
        yield "a count is out of range"
    at, level, move = arrays["position"].tolist()
    if at != sweep or not (0 <= level <= n and 0 <= move <= limits.n_moves.max()):
        yield "the place in a sweep is out of range"
