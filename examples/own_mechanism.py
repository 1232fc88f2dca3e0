"""A mechanism of your own: linear with heavy-tailed noise, so that outliers do not make edges.

    python examples/own_mechanism.py

Three methods are enough; the library batches them over rows, graphs and particles and differentiates them.
"""

import jax
import jax.numpy as jnp

import bacadi
from bacadi.model.mechanism import AbstractMechanism
from bacadi.simulate import ErdosRenyi, SyntheticSpec, simulate
from bacadi.testing import check_mechanism


class LinearLaplace(AbstractMechanism):
    """x_j ~ Laplace(Σ_i G_ij θ_ij x_i, scale) with θ_ij ~ N(0, 1)."""

    scale: float = 0.25

    def init(self, key, n_variables, dtype):
        return 0.3 * jax.random.normal(key, (n_variables, n_variables), dtype)

    def log_prior(self, theta, graph):
        return jnp.sum(graph * jax.scipy.stats.norm.logpdf(theta), axis=0)

    def log_prob(self, theta, graph, x):
        return jax.scipy.stats.laplace.logpdf(x, x @ (graph * theta), self.scale)


def main(n_steps: int = 1000) -> bacadi.Posterior:
    mechanism = LinearLaplace()
    check_mechanism(mechanism)  # raises and says what is wrong, if anything is
    task = simulate(SyntheticSpec(n_variables=5, graph=ErdosRenyi(1)), seed=3)
    method = bacadi.SVGD(n_steps=n_steps, estimator=bacadi.RelaxedEstimator(n_samples=32))
    posterior = bacadi.fit(task.data, bacadi.Model(mechanism=mechanism), method)
    print(posterior.describe())
    print("true edges:", [f"x{i + 1} -> x{j + 1}" for i, j in zip(*task.graph.nonzero(), strict=True)])
    print(posterior.edges().head(8).to_string(index=False))
    return posterior


if __name__ == "__main__":
    main()
