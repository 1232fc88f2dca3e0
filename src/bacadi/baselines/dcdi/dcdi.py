"""DCDI-G (Brouillard et al., 2020) for unknown targets: its choices, and the networks it learned in NumPy.

`model.py` has the score that is maximised and `train.py` the optimisation, both in JAX, which is imported when a run
starts, so that whoever describes or stores a DCDI-G does without. `graph[i, j] = 1` means i -> j, `targets[k, j] = 1`
that context k + 1 intervenes on j.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from jaxtyping import Float, Int, Int8

from bacadi.baselines.base import AbstractBaseline, Estimate, FittedParameters, KnownTargets
from bacadi.config.choices import option
from bacadi.data.contexts import ContextData, Scaling
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError
from bacadi.model.noise import log_normal

LEAK = 0.25
# The paper scores DCDI-G with the noise of its own model, σ² = .1; the noise of the training is free.
SCORING_STD = 0.1**0.5


class Networks(NamedTuple):
    """One hidden layer of leaky ReLUs for each variable j: `first[i, j, h]` leads from input i to unit h.

    Networks of contexts, or of runs, have one more axis in front. The arrays are JAX's during training, then NumPy's.
    """

    first: Float[Any, "*k d d h"]
    first_bias: Float[Any, "*k d h"]
    second: Float[Any, "*k d h"]
    second_bias: Float[Any, "*k d"]

    def mean(self, graph: Int8[np.ndarray, "d d"], x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """NN_j(G_:j ∘ x) of every variable."""
        value = np.einsum("ni,ijh->njh", x, graph[:, :, None] * self.first) + self.first_bias
        return np.einsum("njh,jh->nj", np.where(value > 0, value, LEAK * value), self.second) + self.second_bias

    def in_data_units(self, graph: Int8[np.ndarray, "d d"], scaling: Scaling) -> "Networks":
        """Rewrite networks of scaled columns for the columns as they are: the first layer takes up the scaling of the
        parents, the second that of the variable."""
        first = self.first / scaling.scale[:, None, None]
        shifted = np.einsum("i,ij,...ijh->...jh", scaling.shift, graph, first)
        second = self.second * scaling.scale[:, None]
        return Networks(first, self.first_bias - shifted, second, self.second_bias * scaling.scale + scaling.shift)

    def n_parameters(self, graph: Int8[np.ndarray, "d d"]) -> Int[np.ndarray, " d"]:
        """Weights along edges and biases of each variable's network."""
        return self.first_bias.shape[-1] * (graph.sum(axis=0) + 2) + 1


class Constants(NamedTuple):
    """The effect of a perfect intervention, read like `Networks`: a mean that depends on no parent."""

    value: Float[Any, "*k d"]

    def mean(self, graph: Int8[np.ndarray, "d d"], x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return np.broadcast_to(self.value, x.shape)

    def in_data_units(self, graph: Int8[np.ndarray, "d d"], scaling: Scaling) -> "Constants":
        return Constants(self.value * scaling.scale + scaling.shift)

    def n_parameters(self, graph: Int8[np.ndarray, "d d"]) -> Int[np.ndarray, " d"]:
        return np.ones(len(graph), dtype=int)


Effect = Networks | Constants


def at(part: Effect, k: int) -> Any:
    """What belongs to one context, or to one run: entry k of the axis in front."""
    return type(part)(*(leaf[k] for leaf in part))


@dataclass(frozen=True)
class NetworkEstimate(Estimate):
    """A DAG and targets with the networks refitted to them.

    `effect` is what a target has in place of its network: its own mean (perfect interventions) or its own networks
    (imperfect), with the noise `effect_std`. `converged` is False if the iterations ran out before the constraint
    held; the graph is then what remained acyclic above the threshold.
    """

    networks: Networks
    effect: Effect
    effect_std: Float[np.ndarray, "M d"]
    converged: bool = True
    iterations: int = 0

    def in_data_units(self, scaling: Scaling) -> Self:
        """Rewrite an estimate from scaled columns for the columns as they are."""
        effect, std = self.effect.in_data_units(self.graph, scaling), self.effect_std * scaling.scale
        return replace(self, networks=self.networks.in_data_units(self.graph, scaling), effect=effect, effect_std=std)

    def log_density(self, x: Float[np.ndarray, "n d"], noise_std: float = SCORING_STD) -> Float[np.ndarray, "n d"]:
        """log N(x_j; NN_j(G_:j ∘ x), noise_std²), entry by entry: the mechanisms without any intervention."""
        return log_normal(x, self.networks.mean(self.graph, x), noise_std)

    def fitted(self, data: ContextData, dag: Int8[np.ndarray, "d d"]) -> FittedParameters:
        """The networks as they are, whatever rows are given: their noise at σ² = .1 and that of effects not below it.

        A lower one would say that a context of one row has no noise at all.
        """
        log_p, std = self.log_density(data.x), np.maximum(self.effect_std, SCORING_STD)
        for k, targets in enumerate(self.targets != 0):
            rows = data.context == k + 1
            x = data.x[rows]
            effect = log_normal(x, at(self.effect, k).mean(self.graph, x), std[k])
            log_p[rows] = np.where(targets, effect, log_p[rows])
        n_parameters = self.networks.n_parameters(self.graph).sum()
        n_parameters += (self.targets * (self.effect.n_parameters(self.graph) + 1)).sum()
        return FittedParameters(self._parameters(std), float(log_p.sum()), int(n_parameters))

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
        if isinstance(self.effect, Constants):
            parameters["effect_mean"] = Labelled(np.where(self.targets, self.effect.value, 0.0), ("context", "node"))
        return parameters


class DCDIG(AbstractBaseline):
    """Maximise E[log f] - λ E‖M‖₀ - λ_R E‖R‖₀ under tr e^σ(Λ) = d, with networks and masks trained together.

    All data sets of a bootstrap are trained in one compiled program. `docs/baselines.md` lists where this departs from
    the original.

    Args:
        sparsity: λ, the price of an edge per row of data.
        target_sparsity: λ_R, the price of a target per row of data.
        perfect: interventions give a target its own mean and noise in a context; otherwise its own network.
        n_hidden: hidden units of a network.
        batch_size: rows of a gradient step.
        rows_per_mask: rows of a batch that share a graph mask: 1 is the original, more is faster and noisier.
        learning_rate: of RMSprop.
        tolerance: the search ends when h = tr e^σ(Λ) - d is at most this.
        first_weight: the first weight μ of h² in the augmented Lagrangian.
        threshold: the probability above which an edge is kept.
        max_iterations: the search ends after this many, converged or not.
        refit_iterations: iterations of the second phase, which trains the networks with the final graph.
        fresh_targets: learn the target masks anew in the second phase; otherwise keep them as the search left them.
        window: iterations between two looks at the held-out rows.
        held_out: the share of rows that decides when a subproblem ends.
    """

    name: ClassVar[str] = "DCDI-G"
    default_samples: ClassVar[int] = 5

    sparsity: float = option(0.05, least=0)
    target_sparsity: float = option(0.05, least=0)
    perfect: bool = True
    n_hidden: int = option(5, least=1)
    batch_size: int = option(64, least=1)
    rows_per_mask: int = option(8, least=1)
    learning_rate: float = option(1e-3, above=0)
    tolerance: float = option(1e-8, above=0)
    first_weight: float = option(1e-8, above=0)
    threshold: float = option(0.5, above=0, below=1)
    max_iterations: int = option(100_000, least=1)
    refit_iterations: int = option(10_000, least=1)
    fresh_targets: bool = True
    window: int = option(100, least=1)
    held_out: float = option(0.2, above=0, below=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size % self.rows_per_mask:
            raise ConfigError(
                f"A batch of {self.batch_size} rows cannot be split into groups of {self.rows_per_mask}; "
                "give a rows_per_mask that divides the batch_size."
            )

    def check(self, data: ContextData, known_targets: KnownTargets) -> Float[np.ndarray, "M d"]:
        known = super().check(data, known_targets)
        data.standardized()  # refuses a constant column
        return known

    def estimate(self, rng: np.random.Generator, data: ContextData, known_targets: KnownTargets) -> NetworkEstimate:
        return self.estimate_many(rng, [data], self.check(data, known_targets))[0]

    def estimate_many(
        self, rng: np.random.Generator, resampled: Sequence[ContextData], known_targets: KnownTargets
    ) -> list[NetworkEstimate]:
        """Train all data sets in one compiled program; they must have the same number of rows in each context.

        A column that resampling made constant is only shifted, where `check` would refuse it.
        """
        known, *_ = [AbstractBaseline.check(self, data, known_targets) for data in resampled]
        if not all(np.array_equal(data.counts, resampled[0].counts) for data in resampled):
            raise ConfigError(
                "The data sets given to DCDI-G differ in the rows of a context; resample within contexts, or call "
                "`estimate` on one at a time."
            )
        from bacadi.baselines.dcdi.train import split_rows, train

        scalings = [_scaling(data) for data in resampled]
        pairs = zip(scalings, resampled, strict=True)
        rows = [split_rows(rng, scaling.apply(data.x), data.context, self.held_out) for scaling, data in pairs]
        estimates = train(self, int(rng.integers(2**31)), rows, known)
        return [estimate.in_data_units(scaling) for estimate, scaling in zip(estimates, scalings, strict=True)]

    def relaxed(self) -> Self:
        """The same with half the learning rate, which is what helps after non-finite values."""
        return self.replace(learning_rate=self.learning_rate / 2)


def _scaling(data: ContextData) -> Scaling:
    """To mean 0 and standard deviation 1; a constant column is only shifted."""
    std = data.x.std(axis=0)
    return Scaling(data.x.mean(axis=0), np.where(std > 0, std, 1.0))
