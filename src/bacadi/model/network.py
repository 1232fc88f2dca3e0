"""A causal network, true or drawn from a posterior, and the law of its variables under interventions.

A target j of context k follows, whatever the kind of its effect,

    x_j = keeps_parents_kj · f_kj(parents) + shift_kj + std_kj · ε,   ε ~ N(0, 1),

where f_kj is the function of the unperturbed network unless the effect is fully soft. Mechanisms without Gaussian noise
have no f: there a target that keeps its parents follows its mechanism, moved by the shift.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int, Int8
from numpy.random import Generator

from bacadi.data.contexts import Scaling
from bacadi.graph.dag import topological_order
from bacadi.model.kernels import FunctionMechanism
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import AbstractMechanism, GaussianMechanism, Theta
from bacadi.model.noise import log_normal

Rows = Float[np.ndarray, "n d"]
Contexts = Int[np.ndarray, " n"]
Column = Float[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class Effects:
    """The effects of M contexts; the entries of variables that are not targets mean nothing and are 0.

    `theta[k]` are parameters of context k's own for its targets, None where they are those of the network.
    """

    targets: Int8[np.ndarray, "m d"]
    keeps_parents: Bool[np.ndarray, "m d"]
    shift: Float[np.ndarray, "m d"]
    std: Float[np.ndarray, "m d"]
    theta: tuple[Theta | None, ...]

    def scaled(self, scaling: Scaling) -> "Effects":
        """Express the effects in scaled units: a mean μ as (μ - shift) / scale, what adds to a mechanism as s / scale.

        >>> five, none = np.full((1, 1), 5.0), np.zeros((1, 1), dtype=bool)
        >>> effects = Effects(np.ones((1, 1), np.int8), none, five, five, (None,))
        >>> effects.scaled(Scaling(np.ones(1), np.full(1, 2.0))).shift.tolist()
        [[2.0]]
        """
        moved = np.where(self.keeps_parents, self.shift, self.shift - scaling.shift) / scaling.scale
        return replace(self, shift=self.targets * moved, std=self.std / scaling.scale)


@dataclass(frozen=True, eq=False)
class CausalNetwork:
    """x_j ~ p(x_j | parents of j, θ_j) of a mechanism with its parameters, for `graph[i, j] = 1` where i -> j."""

    graph: Int8[np.ndarray, "d d"]
    mechanism: AbstractMechanism | FunctionMechanism
    theta: Theta

    @property
    def noise_std(self) -> Float[np.ndarray, " d"] | None:
        """The standard deviation of Gaussian noise, None where the noise is of another kind."""
        if not isinstance(self.mechanism, GaussianMechanism | FunctionMechanism):
            return None
        return np.broadcast_to(np.exp(self.mechanism.log_noise_std(self.theta)), len(self.graph))

    @property
    def weights(self) -> Float[np.ndarray, "d d"] | None:
        """The linear coefficient of each edge, 0 elsewhere; None where an edge is not a single number."""
        return self.graph * self.theta.weight if isinstance(self.mechanism, LinearGaussian) else None

    def conditional(
        self, x: Rows, context: Contexts, effects: Effects, nodes: Sequence[int] | None = None
    ) -> tuple[Rows, Rows]:
        """Mean and standard deviation of each x_nj given its parents; context 0 is observational.

        Where only the columns of `nodes` are wanted, the others may hold anything.
        """
        mean = self._mean(self.theta, x, nodes)
        std = np.broadcast_to(np.exp(self.mechanism.log_noise_std(self.theta)), x.shape).copy()  # type: ignore
        for k in np.flatnonzero(effects.targets.any(axis=1)):
            hit, rows, own = effects.targets[k] != 0, np.flatnonzero(context == k + 1), effects.theta[k]
            kept = mean[rows] if own is None else self._mean(own, x[rows], nodes)
            mean[rows] = np.where(hit, effects.keeps_parents[k] * kept + effects.shift[k], mean[rows])
            std[rows] = np.where(hit, effects.std[k], std[rows])
        return mean, std

    @cached_property
    def _generations(self) -> list[list[int]]:
        return list(generations(self.graph))

    def _mean(self, theta: Theta, x: Rows, nodes: Sequence[int] | None) -> Rows:
        if isinstance(self.mechanism, FunctionMechanism):
            return self.mechanism.mean(theta, self.graph, x, nodes)
        assert isinstance(self.mechanism, GaussianMechanism)
        return self.mechanism.mean(theta, self.graph, x)

    def sample(self, rng: Generator, context: Contexts, effects: Effects, noise: Rows | None = None) -> Rows:
        """Draw one sample for each entry of `context`, parents before children.

        `noise` is that of all variables in standard deviations, drawn where it is not given: rows that share it
        differ by the effects alone. Mechanisms without Gaussian noise draw their own.
        """
        noise = rng.normal(size=(len(context), len(self.graph))) if noise is None else noise
        x = np.zeros_like(noise)
        for nodes in self._generations:
            if isinstance(self.mechanism, GaussianMechanism | FunctionMechanism):
                mean, std = self.conditional(x, context, effects, nodes)
                x[:, nodes] = (mean + std * noise)[:, nodes]
            else:
                x[:, nodes] = np.stack([self._column(rng, j, x, context, effects, noise) for j in nodes], axis=1)
        return x

    def _column(self, rng: Generator, node: int, x: Rows, context: Contexts, effects: Effects, noise: Rows) -> Column:
        """One variable of a mechanism that is not Gaussian."""
        assert isinstance(self.mechanism, AbstractMechanism)
        column = self.mechanism.sample(rng, self.theta, self.graph, x, node)
        for k in np.flatnonzero(effects.targets[:, node]):
            rows, own = context == k + 1, effects.theta[k]
            if not effects.keeps_parents[k, node]:
                column[rows] = effects.std[k, node] * noise[rows, node]
            elif own is not None:
                column[rows] = self.mechanism.sample(rng, own, self.graph, x[rows], node)
            column[rows] += effects.shift[k, node]
        return column

    def log_density(self, x: Rows, context: Contexts, effects: Effects) -> Rows:
        """log p(x_nj | parents, context), in the units in which the network was drawn."""
        if isinstance(self.mechanism, GaussianMechanism | FunctionMechanism):
            return log_normal(x, *self.conditional(x, context, effects))
        log_p = self.mechanism.log_density(self.theta, self.graph, x).copy()
        for k, node in np.argwhere(effects.targets):
            rows, own = context == k + 1, effects.theta[k]
            moved = x[rows]
            moved[:, node] -= effects.shift[k, node]
            if effects.keeps_parents[k, node]:
                theta = self.theta if own is None else own
                log_p[rows, node] = self.mechanism.log_density(theta, self.graph, moved)[:, node]
            else:
                log_p[rows, node] = log_normal(moved[:, node], 0.0, effects.std[k, node])
        return log_p


def generations(graph: Int8[np.ndarray, "d d"]) -> Iterator[list[int]]:
    """Nodes by the length of the longest path to them, so that the nodes of a generation can be drawn at once.

    >>> list(generations(np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], dtype=np.int8)))
    [[0], [1], [2]]
    """
    depth = np.zeros(len(graph), dtype=int)
    for node in topological_order(graph):
        depth[node] = (depth + 1)[graph[:, node] != 0].max(initial=0)
    for generation in range(depth.max(initial=-1) + 1):
        yield np.flatnonzero(depth == generation).tolist()
