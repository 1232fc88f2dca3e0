"""How a node follows its parents in synthetic networks: the kind (to draw from) and the functions drawn.

The functions give E[x_j | parents] without noise; a node without parents has mean 0.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int8

from bacadi.errors import ConfigError


class AbstractFunctions(ABC):
    """The mean of every node given all variables, as one draw from a kind of mechanism."""

    @abstractmethod
    def mean(self, node: int, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """E[x_node | parents] for each row of `x`, which needs correct values in the columns of the parents alone."""


class AbstractMechanism(ABC):
    """A kind of mechanism, from which the functions of a whole graph are drawn."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, graph: Int8[np.ndarray, "d d"]) -> AbstractFunctions:
        """Random functions for all nodes of `graph`."""


@dataclass(frozen=True)
class LinearFunctions(AbstractFunctions):
    """E[x_j | parents] = Σ_i w_ij x_i, with w_ij = 0 where i is no parent of j."""

    weights: Float[np.ndarray, "d d"]

    def mean(self, node: int, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return x @ self.weights[:, node]


@dataclass(frozen=True)
class NeuralFunctions(AbstractFunctions):
    """E[x_j | parents] = b'_j + Σ_h v_jh σ(b_jh + Σ_i u_jih x_i), with u_jih = 0 where i is no parent of j."""

    input_weights: Float[np.ndarray, "d d hidden"]  # node, parent, hidden unit
    input_biases: Float[np.ndarray, "d hidden"]
    output_weights: Float[np.ndarray, "d hidden"]
    output_biases: Float[np.ndarray, " d"]

    def mean(self, node: int, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        inputs = x @ self.input_weights[node] + self.input_biases[node]
        # tanh form of the sigmoid: no overflow for large inputs.
        hidden = 0.5 * (1 + np.tanh(0.5 * inputs))
        return hidden @ self.output_weights[node] + self.output_biases[node]


@dataclass(frozen=True)
class Linear(AbstractMechanism):
    """Linear mechanisms with weights ±U[weight_low, weight_high].

    >>> Linear().draw(np.random.default_rng(0), np.zeros((2, 2), dtype=np.int8)).weights.tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """

    weight_low: float = 0.5
    weight_high: float = 2.0

    def __post_init__(self) -> None:
        if not 0 <= self.weight_low <= self.weight_high:
            raise ConfigError(
                f"Linear weights between {self.weight_low} and {self.weight_high} make no sense; "
                "give 0 <= weight_low <= weight_high, the sign is drawn."
            )

    def draw(self, rng: np.random.Generator, graph: Int8[np.ndarray, "d d"]) -> LinearFunctions:
        weights = signed_uniform(rng, self.weight_low, self.weight_high, graph.shape)
        return LinearFunctions(np.where(graph == 1, weights, 0.0))


@dataclass(frozen=True)
class Neural(AbstractMechanism):
    """One hidden layer of sigmoid units, all weights and biases N(0, weight_std²); a root has mean 0 and no bias.

    >>> functions = Neural().draw(np.random.default_rng(0), np.array([[0, 1], [0, 0]], dtype=np.int8))
    >>> functions.mean(0, np.ones((3, 2))).tolist()
    [0.0, 0.0, 0.0]
    """

    hidden: int = 5
    weight_std: float = 1.0

    def __post_init__(self) -> None:
        if self.hidden < 1 or not self.weight_std > 0:
            raise ConfigError(
                f"A network of {self.hidden} hidden units with weights of standard deviation {self.weight_std} makes "
                "no sense; give hidden >= 1 and weight_std > 0."
            )

    def draw(self, rng: np.random.Generator, graph: Int8[np.ndarray, "d d"]) -> NeuralFunctions:
        d = len(graph)
        child = graph.any(axis=0).astype(float)
        return NeuralFunctions(
            graph.T[:, :, None] * rng.normal(scale=self.weight_std, size=(d, d, self.hidden)),
            rng.normal(scale=self.weight_std, size=(d, self.hidden)),
            child[:, None] * rng.normal(scale=self.weight_std, size=(d, self.hidden)),
            child * rng.normal(scale=self.weight_std, size=d),
        )


def signed_uniform(
    rng: np.random.Generator, low: float, high: float, shape: tuple[int, ...]
) -> Float[np.ndarray, "..."]:
    """±U[low, high], both signs equally likely.

    >>> bool((abs(signed_uniform(np.random.default_rng(0), 1, 2, (100,))) >= 1).all())
    True
    """
    return rng.choice([-1.0, 1.0], size=shape) * rng.uniform(low, high, size=shape)
