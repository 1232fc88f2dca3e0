"""What DCDI-G learned, in the units of the data: a DAG, targets, networks and effects, and the likelihood they give.

DCDI-G (Brouillard et al. 2020) for unknown targets: `graph[i, j] = 1` means i -> j, `targets[k, j] = 1` a target.

JAX is imported when a run starts, so that the other baselines do without it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Float, Int8

from bacadi.baselines.base import AbstractBaseline, Estimate, check_inputs
from bacadi.baselines.gaussian import Fitted, log_normal
from bacadi.data.contexts import ContextData, Scaling
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError

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

    def _parameters(self, effect_std: Float[np.ndarray, "M d"]) -> dict[str, Labelled]:
        """Names and axes by which a posterior of `NeuralGaussian` stores its networks, and the slope of their units."""
        first, first_bias, second, second_bias = self.networks
        parameters = {
            "layer_1_weight": Labelled(first, ("source", "target", "unit_1")),
            "layer_1_bias": Labelled(first_bias, ("target", "unit_1")),
            "layer_2_weight": Labelled(second.T[:, :, None], ("unit_1", "target", "unit_2")),
            "layer_2_bias": Labelled(second_bias[:, None], ("target", "unit_2")),
            "negative_slope": Labelled(np.array(LEAK)),
            "noise_std": Labelled(np.full(len(self.graph), SCORING_STD), ("node",)),
            "effect_noise_std": Labelled(np.where(self.targets, effect_std, 0.0), ("context", "node")),
        }
        if not isinstance(self.effects.mean, Layers):
            means = np.where(self.targets, self.effects.mean, 0.0)
            parameters["effect_mean"] = Labelled(means, ("context", "node"))
        return parameters

    def _n_parameters(self) -> int:
        """Weights and biases of the networks along edges, and a noise and a mean (or a network) a target."""
        of_network = self.networks.first_bias.shape[1] * (self.graph.sum(axis=0) + 2) + 1
        of_effect = of_network if isinstance(self.effects.mean, Layers) else np.ones_like(of_network)
        return int(of_network.sum() + (self.targets * (of_effect + 1)).sum())


@dataclass(frozen=True)
class DCDIG(AbstractBaseline):
    """Maximise E[log f] - λ E‖M‖₀ - λ_R E‖R‖₀ under tr e^σ(Λ) = d, with networks and masks trained together.

    `perfect` interventions give a target its own mean and noise in a context; imperfect ones a network of its own.
    λ = `sparsity` and λ_R = `target_sparsity` count per row of data. The search ends when h = tr e^σ(Λ) - d is at most
    `tolerance`, or after `max_iterations`; `first_weight` is the first weight μ of h², and `window` the iterations
    between two looks at the held-out rows. Every `rows_per_mask` rows of a batch share a graph mask: 1 is the original,
    more is faster and noisier. Networks are trained `refit_iterations` more with the final graph, and with
    `fresh_targets` the target masks are learned anew with it; without, they stay as the search left them.
    `docs/baselines.md` lists where this departs from the original.
    """

    sparsity: float = 0.05
    target_sparsity: float = 0.05
    perfect: bool = True
    n_hidden: int = 5
    batch_size: int = 64
    rows_per_mask: int = 8
    learning_rate: float = 1e-3
    tolerance: float = 1e-8
    first_weight: float = 1e-8
    threshold: float = 0.5
    max_iterations: int = 100_000
    refit_iterations: int = 10_000
    fresh_targets: bool = True
    window: int = 100
    held_out: float = 0.2

    def __post_init__(self) -> None:
        for name in (
            "n_hidden",
            "batch_size",
            "rows_per_mask",
            "learning_rate",
            "max_iterations",
            "refit_iterations",
            "window",
        ):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} = {getattr(self, name)} makes no sense for DCDI-G; give more than 0.")
        if self.sparsity < 0 or self.target_sparsity < 0 or not (0 < self.held_out < 1 and 0 < self.threshold < 1):
            raise ConfigError(
                "A sparsity coefficient of DCDI-G is negative, or its held_out share or threshold lies outside (0, 1); "
                "give coefficients of 0 or more and shares between 0 and 1."
            )
        if self.batch_size % self.rows_per_mask:
            raise ConfigError(
                f"A batch of {self.batch_size} rows cannot be split into groups of {self.rows_per_mask}; "
                "give a rows_per_mask that divides the batch_size."
            )

    def estimate(
        self, rng: np.random.Generator, data: ContextData, known_targets: Float[np.ndarray, "M d"] | None
    ) -> NetworkEstimate:
        self.check(data, known_targets)
        return self._run(rng, [data], known_targets)[0]

    def check(self, data: ContextData, known_targets: Float[np.ndarray, "M d"] | None) -> Float[np.ndarray, "M d"]:
        known = check_inputs(data, known_targets)
        data.standardized()  # refuses a column that is constant
        return known

    def estimate_many(
        self,
        rng: np.random.Generator,
        resampled: Sequence[ContextData],
        known_targets: Float[np.ndarray, "M d"] | None,
    ) -> list[Estimate]:
        """All data sets in one compiled program; they must have the same number of rows in each context."""
        return list(self._run(rng, resampled, known_targets)) if resampled else []

    def _run(
        self,
        rng: np.random.Generator,
        resampled: Sequence[ContextData],
        known_targets: Float[np.ndarray, "M d"] | None,
    ) -> list[NetworkEstimate]:
        known, *_ = [check_inputs(data, known_targets) for data in resampled]
        if not all(np.array_equal(data.counts, resampled[0].counts) for data in resampled):
            raise ConfigError(
                "The data sets given to DCDI-G differ in the rows of a context; resample within contexts, or call "
                "`estimate` on one at a time."
            )
        from bacadi.baselines.dcdi.train import run, split_rows

        scalings = [_scaling(data) for data in resampled]
        rows = [
            split_rows(rng, scaling.apply(data.x), data.context, self.held_out)
            for scaling, data in zip(scalings, resampled, strict=True)
        ]
        found = run(self, int(rng.integers(2**31)), rows, known)
        return [one.in_data_units(scaling) for one, scaling in zip(found, scalings, strict=True)]

    def relaxed(self) -> Self:
        """The same with half the learning rate, which is what helps after non-finite values."""
        return replace(self, learning_rate=self.learning_rate / 2)


def _scaling(data: ContextData) -> Scaling:
    """To mean 0 and standard deviation 1; a column that resampling made constant is only shifted."""
    std = data.x.std(axis=0)
    return Scaling(data.x.mean(axis=0), np.where(std > 0, std, 1.0))
