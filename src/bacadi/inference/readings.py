"""From particles to discrete structures: Proposition 2 (α → ∞) and Proposition 1 (finite α)."""

from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from bacadi.inference.estimators import draw_noise, edge_logits
from bacadi.model.latent import Particle, Structures, hard_bernoulli, limit_graph, limit_targets, target_logits
from bacadi.model.model import Model, ModelData


class Discrete(NamedTuple):
    """S structures of one particle, their unnormalised log posterior, and their weight within the particle."""

    graphs: Float[Array, "*L S d d"]
    targets: Float[Array, "*L S M d"]
    log_joint: Float[Array, "*L S"]
    log_weight: Float[Array, "*L S"]


class AbstractReading(eqx.Module):
    """Which (G, I) a particle stands for."""

    @abstractmethod
    def __call__(
        self, key: Key[Array, ""], particle: Particle, alpha: Float[Array, ""] | float, problem: tuple[Model, ModelData]
    ) -> Discrete: ...


class LimitReading(AbstractReading):
    """Proposition 2: one graph G_∞(Z) and one set of targets I_∞(Γ) a particle."""

    def __call__(
        self, key: Key[Array, ""], particle: Particle, alpha: Float[Array, ""] | float, problem: tuple[Model, ModelData]
    ) -> Discrete:
        model, data = problem
        graph = limit_graph(particle.z).astype(data.dtype)
        targets = limit_targets(particle.gamma, data.known_targets).astype(data.dtype)
        log_joint = model.log_joint(particle, graph, targets, data)
        return Discrete(graph[None], targets[None], log_joint[None], jnp.zeros(1, data.dtype))


class SampledReading(AbstractReading):
    """Proposition 1: (G, I) drawn from p(G|Z) p(I|Γ) at finite α and weighted by Ψ within each particle.

    E[f] = E_Ω[ E_{G,I}[f Ψ] / E_{G,I}[Ψ] ], with the inner ratio estimated from `n_samples` draws.
    """

    n_samples: int = 64

    def __call__(
        self, key: Key[Array, ""], particle: Particle, alpha: Float[Array, ""] | float, problem: tuple[Model, ModelData]
    ) -> Discrete:
        model, data = problem
        noise = draw_noise(key, self.n_samples, data)
        graphs = hard_bernoulli(edge_logits(particle, alpha), noise.graphs)
        targets = hard_bernoulli(target_logits(particle.gamma, alpha, data.known_targets), noise.targets)
        log_psi = jnp.sum(model.log_psi(particle.theta, particle.theta_int, Structures(graphs, targets), data), axis=1)
        graphs, targets = jnp.moveaxis(graphs, 1, 0), jnp.moveaxis(targets, 1, 0)
        prior = jax.vmap(model.graph_prior.log_prob)(graphs) + jax.vmap(model.target_prior.log_prob_targets)(targets)
        return Discrete(graphs, targets, log_psi + prior, log_psi - jax.nn.logsumexp(log_psi))
