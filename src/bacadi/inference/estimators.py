"""Estimators of log E[Ψ] over p(G|Z) p(I|Γ) and of its gradient, the likelihood part of the score (Appendix A.3)."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from bacadi.model.latent import (
    Noise,
    Particle,
    Structures,
    edge_scores,
    hard_bernoulli,
    log_bernoulli,
    off_diagonal,
    soft_bernoulli,
    target_logits,
)
from bacadi.model.model import Model, ModelData

Alpha = Float[Array, ""] | float
Value = tuple[Float[Array, ""], Particle]


class AbstractEstimator(eqx.Module):
    """(log E[Ψ], ∇ log E[Ψ]) of one particle by Monte Carlo.

    An estimator whose samples go on from step to step keeps them as `memory`, a pytree that is part of the state of
    the run; the others keep nothing.
    """

    @abstractmethod
    def __call__(
        self, key: Key[Array, ""], particle: Particle, alpha: Alpha, model: Model, data: ModelData
    ) -> Value: ...

    def start(self, key: Key[Array, ""], particle: Particle, alpha: Alpha, problem: tuple[Model, ModelData]) -> PyTree:
        """The memory of a fresh particle."""
        return ()

    def update(
        self, key: Key[Array, ""], memory: PyTree, particle: Particle, alpha: Alpha, problem: tuple[Model, ModelData]
    ) -> tuple[Value, PyTree]:
        """The estimate of a step of SVGD and the memory that the next step needs."""
        return self(key, particle, alpha, *problem), memory


def edge_logits(particle: Particle, alpha: Alpha) -> Float[Array, "d d"]:
    """α u_i · v_j, -∞ on the diagonal."""
    return jnp.where(off_diagonal(particle.z.shape[1]), alpha * edge_scores(particle.z), -jnp.inf)


def draw_noise(key: Key[Array, ""], n_samples: int, data: ModelData) -> Noise:
    return Noise.draw(key, (data.n_variables, data.n_contexts, n_samples), data.dtype)


def log_mean_exp(values: Float[Array, "S ..."]) -> Float[Array, "..."]:
    return jax.nn.logsumexp(values, axis=0) - jnp.log(values.shape[0])


def log_expectation(columns: Float[Array, "S d"], by_column: bool) -> Float[Array, ""]:
    """log E[Ψ] from log Ψ of S samples. Columns of (G, I) are independent and Ψ is a product over them, so E[Ψ] is
    the product of the expectations of the columns; taken that way, S samples serve as S^d."""
    if by_column:
        return jnp.sum(log_mean_exp(columns))
    return log_mean_exp(jnp.sum(columns, axis=1))


class RelaxedEstimator(AbstractEstimator):
    """The paper's: G and I are relaxed together by Gumbel-softmax and one gradient serves all four blocks.

    ∇ log E[Ψ] ≈ ∇ log (1/S) Σ_s Ψ(G_s, I_s), or ∇ Σ_j log (1/S) Σ_s Ψ_j(G_s, I_s) with `by_column`, which is the
    same expectation with far less noise. Relaxation biases it; docs/developer/estimators.md has by how much.
    """

    n_samples: int = 32
    temperature: float = 1.0
    by_column: bool = True

    def __call__(self, key: Key[Array, ""], particle: Particle, alpha: Alpha, model: Model, data: ModelData) -> Value:
        noise = draw_noise(key, self.n_samples, data)

        def log_expected_psi(particle: Particle) -> Float[Array, ""]:
            graphs = soft_bernoulli(edge_logits(particle, alpha), noise.graphs, self.temperature)
            logits = target_logits(particle.gamma, alpha, data.known_targets)
            targets = soft_bernoulli(logits, noise.targets, self.temperature)
            columns = model.log_psi(particle.theta, particle.theta_int, Structures(graphs, targets), data)
            return log_expectation(columns, self.by_column)

        return jax.value_and_grad(log_expected_psi)(particle)


class BlockwiseEstimator(AbstractEstimator):
    """The authors' code: each block relaxes only what it must. Z: soft G, hard I; Γ: hard G, soft I; Θ: both hard.

    The blocks share their noise, so that the hard graphs are evaluated once.
    """

    n_samples: int = 32
    temperature: float = 1.0
    by_column: bool = False

    def __call__(self, key: Key[Array, ""], particle: Particle, alpha: Alpha, model: Model, data: ModelData) -> Value:
        noise = draw_noise(key, self.n_samples, data)

        def soft_graphs(z: Array) -> Array:
            return soft_bernoulli(edge_logits(particle._replace(z=z), alpha), noise.graphs, self.temperature)

        def soft_targets(gamma: Array) -> Array:
            return soft_bernoulli(target_logits(gamma, alpha, data.known_targets), noise.targets, self.temperature)

        graphs = hard_bernoulli(edge_logits(particle, alpha), noise.graphs)
        targets = hard_bernoulli(target_logits(particle.gamma, alpha, data.known_targets), noise.targets)

        def log_expected_psi(theta: PyTree, theta_int: PyTree, structures: Structures) -> Float[Array, ""]:
            return log_expectation(model.log_psi(theta, theta_int, structures, data), self.by_column)

        theta, theta_int = particle.theta, particle.theta_int
        value, (grad_theta, grad_theta_int) = jax.value_and_grad(log_expected_psi, argnums=(0, 1))(
            theta, theta_int, Structures(graphs, targets)
        )
        grad_z = jax.grad(lambda z: log_expected_psi(theta, theta_int, Structures(soft_graphs(z), targets)))(particle.z)
        grad_gamma = jax.grad(lambda g: log_expected_psi(theta, theta_int, Structures(graphs, soft_targets(g))))(
            particle.gamma
        )
        return value, Particle(grad_z, grad_gamma, grad_theta, grad_theta_int)


class MarginalEstimator(AbstractEstimator):
    """Exact in the targets and factorised over the columns of the graph; consistent, with bounded gradients.

    log E[Ψ] = Σ_j log E_{G_:j}[ p(θ_j|G_:j) p(x_0j|·) Π_k ((1 - π_kj) p(x_kj|·) + π_kj p(x_kj|Θ_I)) ].
    With weights w_sj ∝ the bracket of sampled column s, ∂/∂logit_ij = E_w[g_ij] - p_ij and
    ∂/∂γ_kj = α (E_w[r_kj] - π_kj). A mechanism without parameters does not factorise over contexts; then the
    targets are sampled together with the column and weighted alike.
    """

    n_samples: int = 32

    def __call__(self, key: Key[Array, ""], particle: Particle, alpha: Alpha, model: Model, data: ModelData) -> Value:
        noise = draw_noise(key, self.n_samples, data)
        graphs = hard_bernoulli(edge_logits(particle, alpha), noise.graphs)
        targets = hard_bernoulli(target_logits(particle.gamma, alpha, data.known_targets), noise.targets)

        def log_expected_psi(particle: Particle) -> Float[Array, ""]:
            logits = target_logits(particle.gamma, alpha, data.known_targets)
            log_p = log_bernoulli(edge_logits(particle, alpha), graphs)
            if model.has_parameters:
                columns = model.log_psi_over_targets(particle.theta, particle.theta_int, graphs, logits, data)
            else:
                columns = model.log_psi(particle.theta, particle.theta_int, Structures(graphs, targets), data)
                log_p = log_p + log_bernoulli(logits, targets)
            # The value of `log_p` cancels and its gradient is the score function of the sampled structures.
            return log_expectation(columns + log_p - jax.lax.stop_gradient(log_p), by_column=True)

        return jax.value_and_grad(log_expected_psi)(particle)
