"""A consistent estimator of log E[Ψ], to hold those of the package against where enumeration is out of reach."""

import jax
from jaxtyping import Array, Float, Key, PyTree

from bacadi.config.choices import option
from bacadi.inference.svgd.estimators import AbstractEstimator, Alpha, Psi, draw_noise, log_expectation
from bacadi.relaxed.density import Density
from bacadi.relaxed.latent import Particle, Structures, edge_logits, hard_bernoulli, log_bernoulli, target_logits


class MarginalEstimator(AbstractEstimator):
    """Exact in the targets and factorised over the columns of the graph; consistent, with bounded gradients.

    log E[Ψ] = Σ_j log E_{G_:j}[ p(θ_j|G_:j) p(x_0j|·) Π_k ((1 - π_kj) p(x_kj|·) + π_kj p(x_kj|Θ_I)) ].
    With weights w_sj ∝ the bracket of sampled column s, ∂/∂logit_ij = E_w[g_ij] - p_ij and
    ∂/∂γ_kj = α (E_w[r_kj] - π_kj). A mechanism without parameters does not factorise over contexts; then the
    targets are sampled together with the column and weighted in the same way.
    """

    n_samples: int = option(32, least=1)

    def __call__(self, key: Key[Array, ""], particle: Particle, chains: PyTree, alpha: Alpha, density: Density) -> Psi:
        noise, known = draw_noise(key, self.n_samples, density), density.known_targets
        graphs = hard_bernoulli(edge_logits(particle.z, alpha), noise.graphs)
        targets = hard_bernoulli(target_logits(particle.gamma, alpha, known), noise.targets)

        def log_expected_psi(particle: Particle) -> Float[Array, ""]:
            logits = target_logits(particle.gamma, alpha, known)
            log_p = log_bernoulli(edge_logits(particle.z, alpha), graphs)
            if density.has_parameters:
                columns = density.log_psi_over_targets(particle.theta, particle.theta_int, graphs, logits)
            else:
                columns = density.log_psi(particle.theta, particle.theta_int, Structures(graphs, targets))
                log_p = log_p + log_bernoulli(logits, targets)
            # The value of `log_p` cancels and its gradient is the score function of the sampled structures.
            return log_expectation(columns + log_p - jax.lax.stop_gradient(log_p), by_column=True)

        return Psi(*jax.value_and_grad(log_expected_psi)(particle), chains)
