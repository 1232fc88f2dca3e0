"""BGe: linear Gaussian mechanisms with all parameters integrated out (Appendix C; Kuipers, Moffa, Heckerman 2014)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from bacadi.data.contexts import ContextData
from bacadi.evidence.collapsed import AbstractEvidence, States
from bacadi.model.mechanism import AbstractMarginalMechanism

LOG_PI = 1.1447298858494002


class BGeStatistics(eqx.Module):
    """Sums over the rows of each context: number, Σ x and Σ x x'."""

    count: Float[Array, " K"]
    total: Float[Array, "K d"]
    product: Float[Array, "K d d"]


class BGe(AbstractMarginalMechanism):
    """Normal-Wishart marginal likelihood; Markov equivalent graphs score alike on observational data.

    With parents P of size l, N rows, R = T + Σ x x' - s s'/(N + α_μ), s = Σ x, T = t I (prior mean 0):

        log p(x_j | x_P) = -N/2 log π + ½ log(α_μ / (N + α_μ)) + log Γ((N + α_ω - d + l + 1)/2)
                           - log Γ((α_ω - d + l + 1)/2) + (α_ω - d + 2l + 1)/2 · log t
                           - (N + α_ω - d + l + 1)/2 · log |R_{P∪j}| + (N + α_ω - d + l)/2 · log |R_P|.

    A row may count fractionally (relaxed targets) and parents may be relaxed: R_P becomes D R D + I - D² with
    D = diag(G_:j), which is R_P on 0/1 graphs and positive definite between. Defaults: α_μ = 1, α_ω = d + 2.
    """

    alpha_mu: float = 1.0
    alpha_omega_excess: float = 2.0

    def prepare(self, data: ContextData, dtype: jnp.dtype) -> BGeStatistics:
        blocks = [data.x[data.context == k] for k in range(data.n_contexts + 1)]
        total, product = np.stack([b.sum(axis=0) for b in blocks]), np.stack([b.T @ b for b in blocks])
        return BGeStatistics(jnp.asarray(data.counts, dtype), jnp.asarray(total, dtype), jnp.asarray(product, dtype))

    def log_evidence(
        self, graphs: Float[Array, "d S d"], keep: Float[Array, "K S d"], statistics: BGeStatistics
    ) -> Float[Array, "S d"]:
        over_nodes = jax.vmap(self._node, in_axes=(1, 1, 0, None))
        over_samples = jax.vmap(over_nodes, in_axes=(1, 1, None, None))
        return over_samples(graphs, keep, jnp.arange(graphs.shape[0]), statistics)

    def evidence(self, data: ContextData, states: States) -> AbstractEvidence:
        """The same evidence as a regression: Λ is t for weights and α_μ for the intercept, σ² ~ InvGamma by parents."""
        from bacadi.evidence.gram import GramEvidence, regression

        d, t = data.n_variables, self._prior_scale()
        precision = np.full((d, d + 1), t)
        precision[:, d] = self.alpha_mu
        shape = 0.5 * (self.alpha_omega_excess + np.arange(d + 1) + 1)
        return GramEvidence(data, states, regression(True, precision, None, shape, np.full(d, 0.5 * t)))

    def _prior_scale(self) -> float:
        """t of T = t I."""
        return self.alpha_mu * (self.alpha_omega_excess - 1) / (self.alpha_mu + 1)

    def _node(
        self, parents: Float[Array, " d"], keep: Float[Array, " K"], node: Array, statistics: BGeStatistics
    ) -> Float[Array, ""]:
        d = len(parents)
        n = keep @ statistics.count
        total = keep @ statistics.total
        t = self._prior_scale()
        matrix = jnp.tensordot(keep, statistics.product, 1) - jnp.outer(total, total) / (n + self.alpha_mu)
        matrix = matrix + t * jnp.eye(d, dtype=matrix.dtype)

        masked = parents[:, None] * matrix * parents[None, :] + jnp.diag(1 - parents**2)
        factor = jnp.linalg.cholesky(masked)
        log_det = 2 * jnp.sum(jnp.log(jnp.diagonal(factor)))
        projected = solve_triangular(factor, parents * matrix[:, node], lower=True)
        schur = matrix[node, node] - projected @ projected

        size = jnp.sum(parents)
        free = self.alpha_omega_excess + size  # α_ω - d + l
        constant = (
            -0.5 * n * LOG_PI
            + 0.5 * jnp.log(self.alpha_mu / (n + self.alpha_mu))
            + gammaln((n + free + 1) / 2)
            - gammaln((free + 1) / 2)
            + 0.5 * (free + size + 1) * jnp.log(t)
        )
        # log |R_{P∪j}| = log |R_P| + log of the Schur complement, so one factorisation serves both.
        return constant - 0.5 * log_det - 0.5 * (n + free + 1) * jnp.log(schur)
