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
    """S structures that a particle stands for, all alike, and their unnormalised log posterior."""

    graphs: Float[Array, "*L S d d"]
    targets: Float[Array, "*L S M d"]
    log_joint: Float[Array, "*L S"]


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
        return Discrete(graph[None], targets[None], log_joint[None])


class FiniteReading(AbstractReading):
    """Proposition 1: (G, I) from p(G, I | Ω, D) ∝ p(G|Z) p(I|Γ) Ψ at finite α, `n_draws` a particle.

    Both factors are products over columns, so each column is drawn by itself: `n_candidates` of it from p(G_:j|Z),
    one of them chosen with its weight Ψ_j (targets summed out), then the targets from their exact conditional.
    The draws follow p(G, I | Ω, D) as the number of candidates grows.
    """

    n_draws: int = 16
    n_candidates: int = 128

    def __call__(
        self, key: Key[Array, ""], particle: Particle, alpha: Float[Array, ""] | float, problem: tuple[Model, ModelData]
    ) -> Discrete:
        model, data = problem
        key_noise, key_choice, key_target = jax.random.split(key, 3)
        noise = draw_noise(key_noise, self.n_candidates, data)
        logits = target_logits(particle.gamma, alpha, data.known_targets)
        graphs = hard_bernoulli(edge_logits(particle, alpha), noise.graphs)
        theta, theta_int = particle.theta, particle.theta_int
        if model.has_parameters:
            columns = model.log_psi_over_targets(theta, theta_int, graphs, logits, data)
            graphs = _choose(key_choice, columns, graphs, self.n_draws)
            odds = logits[:, None, :] + model.target_odds(theta, theta_int, graphs, data)
            targets = (odds + jax.random.logistic(key_target, odds.shape, data.dtype) > 0).astype(data.dtype)
        else:
            targets = hard_bernoulli(logits, noise.targets)
            columns = model.log_psi(theta, theta_int, Structures(graphs, targets), data)
            graphs, targets = (_choose(key_choice, columns, item, self.n_draws) for item in (graphs, targets))
        graphs, targets = jnp.moveaxis(graphs, 1, 0), jnp.moveaxis(targets, 1, 0)
        log_joint = jax.vmap(lambda g, i: model.log_joint(particle, g, i, data))(graphs, targets)
        return Discrete(graphs, targets, log_joint)


def _choose(
    key: Key[Array, ""], columns: Float[Array, "S d"], items: Float[Array, "a S d"], n_draws: int
) -> Float[Array, "a n d"]:
    """Column j of each draw is that of one of the S items, chosen with probability ∝ exp(columns[s, j])."""
    chosen = jax.random.categorical(key, columns, axis=0, shape=(n_draws, columns.shape[1]))
    return jnp.take_along_axis(items, jnp.broadcast_to(chosen, (items.shape[0], *chosen.shape)), axis=1)
