"""A mechanism of your own, linear with heavy-tailed noise: simulated, fitted and evaluated.

    python examples/own_mechanism.py

Three methods are enough; the library batches them over rows, graphs and particles, differentiates and samples them.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.stats import laplace, norm

import bacadi
from bacadi.config.layers import configure
from bacadi.posterior.weights import Tempered
from bacadi.simulate import HeldOut, Interventions, RandomErdosRenyi, SyntheticSpec, simulate
from bacadi.testing import check_mechanism


class LaplaceTheta(NamedTuple):
    weight: jax.Array
    log_scale: jax.Array


class LinearLaplace(bacadi.AbstractMechanism):
    """x_j ~ Laplace(Σ_i G_ij w_ij x_i, s_j) with w_ij ~ N(0, weight_std²) and log s_j ~ N(-1, 1)."""

    weight_std: float = 1.0

    def init(self, key, n_variables, dtype):
        weight = self.weight_std * jax.random.normal(key, (n_variables, n_variables), dtype)
        return LaplaceTheta(weight, jnp.full(n_variables, -1.0, dtype))

    def log_prior(self, theta, graph):
        weights = jnp.sum(graph * norm.logpdf(theta.weight, scale=self.weight_std), axis=0)
        return weights + norm.logpdf(theta.log_scale, -1.0)

    def log_prob(self, theta, graph, x):
        return laplace.logpdf(x, x @ (graph * theta.weight), jnp.exp(theta.log_scale))


def main(n_steps: int = 1000) -> tuple[bacadi.Posterior, dict[str, float]]:
    mechanism = LinearLaplace()
    check_mechanism(mechanism)  # raises and says what is wrong, if anything is
    design = {"interventions": Interventions(rows_per_context=20), "held_out": HeldOut(4, 50, 2)}
    task = simulate(SyntheticSpec(5, RandomErdosRenyi(1), mechanism, **design), seed=0)
    method = configure("svgd", "improved").method.replace(n_steps=n_steps, weighting=Tempered(0.5))
    posterior = bacadi.fit(task.data, bacadi.Model(mechanism=mechanism), method)
    print(posterior.describe())
    print("true edges:", ", ".join(f"x{i + 1} -> x{j + 1}" for i, j in zip(*task.graph.nonzero(), strict=True)))
    print(posterior.edges().head(8).to_string(index=False))
    values = bacadi.evaluate(posterior, task, modules=[LinearLaplace.__module__])
    for name in ("edge_average_precision", "target_average_precision", "predictive_nll", "interventional_nll_of_truth"):
        print(f"{name}: {values[name]:.2f}")
    return posterior, values


if __name__ == "__main__":
    main()
