"""What DCDI-G learned, in the units of the data: a DAG, targets, networks and effects, and the likelihood they give."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int8

from bacadi.baselines.base import Estimate
from bacadi.baselines.fitted import Fitted
from bacadi.baselines.gaussian import log_normal
from bacadi.data.context import ContextData, Scaling
from bacadi.posterior.draws import Parameter

LEAK = 0.25
# The paper scores DCDI-G with the noise of its own model, σ² = .1; the noise of the training is free.
SCORING_STD = 0.1**0.5


class Layers(NamedTuple):
    """One hidden layer of leaky ReLUs for each variable j; effects of contexts have an axis more in front."""

    first: Float[np.ndarray, "*k d d h"]
    first_bias: Float[np.ndarray, "*k d h"]
    second: Float[np.ndarray, "*k d h"]
    second_bias: Float[np.ndarray, "*k d"]

    def in_data_units(self, graph: Int8[np.ndarray, "d d"], scaling: Scaling) -> "Layers":
        """Networks of scaled columns, rewritten for the columns as they are."""
        first = self.first / scaling.scale[:, None, None]
        shifted = np.einsum("i,ij,...ijh->...jh", scaling.shift, graph, first)
        second = self.second * scaling.scale[:, None]
        return Layers(first, self.first_bias - shifted, second, self.second_bias * scaling.scale + scaling.shift)

    def mean(self, graph: Int8[np.ndarray, "d d"], x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """NN_j(G_:j ∘ x) of every variable."""
        value = np.einsum("ni,ijh->njh", x, graph[:, :, None] * self.first) + self.first_bias
        return np.einsum("njh,jh->nj", np.where(value > 0, value, LEAK * value), self.second) + self.second_bias

    def of_context(self, k: int) -> "Layers":
        return Layers(*(leaf[k] for leaf in self))


@dataclass(frozen=True)
class Effects:
    """What stands for a target: its own mean (perfect interventions) or its own networks (imperfect), and a noise."""

    mean: Float[np.ndarray, "M d"] | Layers
    std: Float[np.ndarray, "M d"]

    def mean_in(self, k: int, graph: Int8[np.ndarray, "d d"], x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """The means that context k + 1 gives its targets in rows x."""
        if isinstance(self.mean, Layers):
            return self.mean.of_context(k).mean(graph, x)
        return np.broadcast_to(self.mean[k], x.shape)


@dataclass(frozen=True)
class NetworkEstimate(Estimate):
    """A DAG and targets with the networks refitted to them, in the units of the data.

    `converged` is False if the iterations ran out before the constraint held; the graph is then what remained acyclic
    above the threshold.
    """

    networks: Layers
    effects: Effects
    converged: bool = True
    iterations: int = 0

    def log_density(self, x: Float[np.ndarray, "n d"], noise_std: float = SCORING_STD) -> Float[np.ndarray, "n d"]:
        """log N(x_j; NN_j(G_:j ∘ x), noise_std²), entry by entry: the mechanisms without any intervention."""
        return log_normal(x, self.networks.mean(self.graph, x), noise_std)

    def fitted(self, data: ContextData, dag: Int8[np.ndarray, "d d"]) -> Fitted:
        """The networks as they are, whatever rows are given: their noise at σ² = .1 and that of effects not below it.

        A lower one would say that a context of one row has no noise at all.
        """
        log_p, std = self.log_density(data.x), np.maximum(self.effects.std, SCORING_STD)
        for k, targets in enumerate(self.targets != 0):
            rows = data.context == k + 1
            x = data.x[rows]
            effect = log_normal(x, self.effects.mean_in(k, self.graph, x), std[k])
            log_p[rows] = np.where(targets, effect, log_p[rows])
        return Fitted(self._parameters(std), float(log_p.sum()), self._n_parameters())

    def _parameters(self, effect_std: Float[np.ndarray, "M d"]) -> dict[str, Parameter]:
        """Names and axes by which a posterior of `NeuralGaussian` stores its networks, and the slope of their units."""
        first, first_bias, second, second_bias = self.networks
        parameters = {
            "layer_1_weight": Parameter(first, ("source", "target", "unit_1")),
            "layer_1_bias": Parameter(first_bias, ("target", "unit_1")),
            "layer_2_weight": Parameter(second.T[:, :, None], ("unit_1", "target", "unit_2")),
            "layer_2_bias": Parameter(second_bias[:, None], ("target", "unit_2")),
            "negative_slope": Parameter(np.array(LEAK)),
            "noise_std": Parameter(np.full(len(self.graph), SCORING_STD), ("variable",)),
            "effect_noise_std": Parameter(np.where(self.targets, effect_std, 0.0), ("context", "variable")),
        }
        if not isinstance(self.effects.mean, Layers):
            means = np.where(self.targets, self.effects.mean, 0.0)
            parameters["effect_mean"] = Parameter(means, ("context", "variable"))
        return parameters

    def _n_parameters(self) -> int:
        """Weights and biases of the networks along edges, and a noise and a mean (or a network) a target."""
        of_network = self.networks.first_bias.shape[1] * (self.graph.sum(axis=0) + 2) + 1
        of_effect = of_network if isinstance(self.effects.mean, Layers) else np.ones_like(of_network)
        return int(of_network.sum() + (self.targets * (of_effect + 1)).sum())
