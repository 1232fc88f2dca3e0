"""What a stranger writes: a mechanism, a baseline and a method with one more option, each in a few lines."""

import jax
import jax.numpy as jnp
import numpy as np

from bacadi.baselines import AbstractBaseline, Estimate
from bacadi.config.choices import option
from bacadi.inference.mcmc.method import MCMC
from bacadi.model.mechanism import AbstractMechanism


class UnitLinear(AbstractMechanism):
    """x_j ~ N(Σ_i G_ij θ_ij x_i, 1) with θ_ij ~ N(0, weight_std²)."""

    weight_std: float = option(1.0, above=0)

    def init(self, key, n_variables, dtype):
        return self.weight_std * jax.random.normal(key, (n_variables, n_variables), dtype)

    def log_prior(self, theta, graph):
        return jnp.sum(graph * jax.scipy.stats.norm.logpdf(theta, scale=self.weight_std), axis=0)

    def log_prob(self, theta, graph, x):
        return jax.scipy.stats.norm.logpdf(x, x @ (graph * theta), 1.0)

    def log_evidence(self, node, parents, x):
        covariance = np.eye(len(x)) + self.weight_std**2 * x[:, parents] @ x[:, parents].T
        _, log_det = np.linalg.slogdet(covariance)
        square = x[:, node] @ np.linalg.solve(covariance, x[:, node])
        return -0.5 * (len(x) * np.log(2 * np.pi) + log_det + square)


class FarMeans(AbstractBaseline):
    """No edges; a variable is a target where the mean of a context lies far from the observational one."""

    threshold: float = option(3.0, above=0)

    def estimate(self, rng, data, known_targets):
        observational, *contexts = data.by_context()
        far = np.array([abs(rows.mean(0) - observational.mean(0)) for rows in contexts])
        graph = np.zeros((data.n_variables, data.n_variables), np.int8)
        return Estimate(graph, (far > self.threshold * observational.std(0)).astype(np.int8))


class PatientMCMC(MCMC):
    """MCMC with one more option."""

    patience: int = option(1, least=1)

    def plan(self, d, costly):
        return super().plan(d, costly)._replace(n_sweeps=60 * self.patience)
