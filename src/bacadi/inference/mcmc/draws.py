"""Draws as a run keeps them, in memory and in checkpoints: the places of edges and targets and nothing of what is not.

At a thousand variables a graph of two thousand edges is 8 kB then, and a megabyte as a matrix.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int8, Int32, Shaped

from bacadi.evidence.collapsed import Graphs, States
from bacadi.inference.mcmc.diagnostics import Diagnostics, Varying, diagnose_varying

MOST_BYTES = 1.5e9
"""What the arrays of a posterior may take: at d = 1,000 variables and contexts they are 14 MB a draw."""


class PackedDraw(NamedTuple):
    """Graph, states and log posterior of a draw; `edges` and `touched` are places in the arrays [d, d] and [M, d]."""

    edges: Int32[np.ndarray, " E"]
    touched: Int32[np.ndarray, " T"]
    states: Int8[np.ndarray, " T"]
    log_posterior: float


PACKED = ("draws.n_edges", "draws.edges", "draws.n_touched", "draws.touched", "draws.states", "draws.log_posterior")
"""The names of draws in a checkpoint: lengths and then entries of all draws one after the other."""


def packed(graph: Shaped[np.ndarray, "d d"], states: Int8[np.ndarray, "M d"], log_posterior: float) -> PackedDraw:
    """Keep what is not 0.

    >>> draw = packed(np.array([[0, 1], [0, 0]]), np.array([[2, 0]], np.int8), -1.5)
    >>> draw.edges.tolist(), draw.touched.tolist(), draw.states.tolist()
    ([1], [0], [2])
    """
    touched = np.flatnonzero(states)
    return PackedDraw(
        np.flatnonzero(graph).astype(np.int32),
        touched.astype(np.int32),
        np.ascontiguousarray(states).ravel()[touched],
        log_posterior,
    )


def to_arrays(draws: Sequence[PackedDraw]) -> dict[str, np.ndarray]:
    """The draws as arrays of a checkpoint."""
    edges, touched, states = zip(*(draw[:3] for draw in draws), strict=True) if draws else ((), (), ())
    values = (
        np.array([len(each) for each in edges], np.int64),
        np.concatenate([np.zeros(0, np.int32), *edges]),
        np.array([len(each) for each in touched], np.int64),
        np.concatenate([np.zeros(0, np.int32), *touched]),
        np.concatenate([np.zeros(0, np.int8), *states]),
        np.array([draw.log_posterior for draw in draws], float),
    )
    return dict(zip(PACKED, values, strict=True))


def from_arrays(arrays: dict[str, np.ndarray]) -> list[PackedDraw]:
    """The draws of the arrays of a checkpoint."""
    n_edges, edges, n_touched, touched, states, log_p = (arrays[name] for name in PACKED)
    parts = (
        np.split(edges, np.cumsum(n_edges)[:-1]),
        *(np.split(of, np.cumsum(n_touched)[:-1]) for of in (touched, states)),
    )
    return [PackedDraw(*draw) for draw in zip(*parts, log_p.tolist(), strict=True)] if len(log_p) else []


class ChainDraws(NamedTuple):
    """What a run recorded on d variables and M contexts, `shape` = (M, d), the draws of each replica; how many of the
    sweeps planned it made, how many of these after the burn-in."""

    draws: list[list[PackedDraw]]
    shape: tuple[int, int]
    swap_rates: Float[np.ndarray, "R L-1"]
    acceptance: Float[np.ndarray, "R 8"]
    n_sweeps: int
    n_planned: int
    n_recorded: int

    @property
    def graphs(self) -> Int8[np.ndarray, "R n d d"]:
        """All graphs as matrices."""
        d = self.shape[1]
        return np.stack([unpacked_graphs(draws, d) for draws in self.draws])

    @property
    def states(self) -> Int8[np.ndarray, "R n M d"]:
        """All states as matrices."""
        return np.stack([unpacked_states(draws, self.shape) for draws in self.draws])

    @property
    def log_posterior(self) -> Float[np.ndarray, "R n"]:
        """The log posterior of every draw."""
        return np.array([[draw.log_posterior for draw in draws] for draws in self.draws])

    def diagnostics(self) -> Diagnostics:
        """How far the draws can be trusted."""
        m, d = self.shape
        varying = varying_of(self.draws, 0, (d, d)), varying_of(self.draws, 1, (m, d))
        return diagnose_varying(*varying, self.log_posterior, self.swap_rates)

    def thinned(self) -> "ChainDraws":
        """As many of the draws, evenly spaced, as a posterior has room for: graph, targets, weights and two parameters
        of every effect."""
        m, d = self.shape
        most = max(int(MOST_BYTES / (d * (5 * d + 9 * m) * len(self.draws))), 1)
        return self._replace(draws=[evenly(draws, most) for draws in self.draws])


def unpacked_graphs(draws: Sequence[PackedDraw], d: int) -> Graphs:
    """Graphs as matrices."""
    graphs = np.zeros((len(draws), d * d), np.int8)
    for at, draw in enumerate(draws):
        graphs[at, draw.edges] = 1
    return graphs.reshape(len(draws), d, d)


def unpacked_states(draws: Sequence[PackedDraw], shape: tuple[int, int]) -> States:
    """States as matrices."""
    states = np.zeros((len(draws), shape[0] * shape[1]), np.int8)
    for at, draw in enumerate(draws):
        states[at, draw.touched] = draw.states
    return states.reshape(len(draws), *shape)


def varying_of(draws: list[list[PackedDraw]], part: int, shape: tuple[int, int]) -> Varying:
    """The edges (part 0) or targets (part 1) that occur in some draw, and which of the draws have them."""
    at = np.unique(np.concatenate([draw[part] for of_replica in draws for draw in of_replica]))
    columns = np.zeros((len(draws), len(draws[0]), len(at)), np.int8)
    for r, of_replica in enumerate(draws):
        for n, draw in enumerate(of_replica):
            columns[r, n, np.searchsorted(at, draw[part])] = 1
    return Varying(columns, at, shape)


def evenly(draws: list[PackedDraw], n: int) -> list[PackedDraw]:
    """`n` of the draws, or all, evenly spaced, the last one among them."""
    return [draws[i] for i in places(len(draws), n)]


def places(n: int, wanted: int) -> np.ndarray:
    """The places of `wanted` things, or of all, evenly spaced among n, the last one among them."""
    return np.arange(n) if n <= wanted else np.linspace(0, n - 1, wanted + 1).round().astype(int)[1:]
