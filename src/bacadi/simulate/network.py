"""The true network of a task and the law of its variables under interventions."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Int8

from bacadi.graph import topological_order
from bacadi.simulate.effects import Effects
from bacadi.simulate.mechanisms import AbstractFunctions


@dataclass(frozen=True, eq=False)
class CausalNetwork:
    """x_j = f_j(parents of j) + noise_std_j · ε_j with ε_j ~ N(0, 1), for `graph[i, j] = 1` where i -> j."""

    graph: Int8[np.ndarray, "d d"]
    functions: AbstractFunctions
    noise_std: Float[np.ndarray, " d"]

    def conditional(
        self, node: int, x: Float[np.ndarray, "n d"], context: Int[np.ndarray, " n"], effects: Effects
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Mean and standard deviation of x_node given its parents, row by row; context 0 is observational."""
        mean = self.functions.mean(node, x)
        std = np.broadcast_to(self.noise_std[node], mean.shape).copy()
        for k in np.flatnonzero(effects.targets[:, node]):
            rows = context == k + 1
            own = effects.functions[k]
            kept = mean[rows] if own is None else own.mean(node, x[rows])
            mean[rows] = effects.keeps_parents[k, node] * kept + effects.shift[k, node]
            std[rows] = effects.std[k, node]
        return mean, std

    def sample(
        self, rng: np.random.Generator, context: Int[np.ndarray, " n"], effects: Effects
    ) -> Float[np.ndarray, "n d"]:
        """One sample for each entry of `context`, by ancestral sampling."""
        noise = rng.normal(size=(len(context), len(self.graph)))
        x = np.zeros_like(noise)
        for node in topological_order(self.graph).tolist():
            mean, std = self.conditional(node, x, context, effects)
            x[:, node] = mean + std * noise[:, node]
        return x

    def log_density(
        self, x: Float[np.ndarray, "n d"], context: Int[np.ndarray, " n"], effects: Effects
    ) -> Float[np.ndarray, " n"]:
        """log p(x_n | context) = Σ_j log N(x_nj | mean_nj, std_nj²), in the scale in which the network was drawn."""
        total = np.zeros(len(x))
        for node in range(len(self.graph)):
            mean, std = self.conditional(node, x, context, effects)
            total -= 0.5 * np.log(2 * np.pi) + np.log(std) + 0.5 * ((x[:, node] - mean) / std) ** 2
        return total
