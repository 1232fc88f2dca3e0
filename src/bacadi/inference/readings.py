"""From particles to discrete structures: Proposition 2 (α → ∞) and Proposition 1 (finite α)."""

from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from bacadi.inference.estimators import Alpha, draw_noise, edge_logits
from bacadi.model.latent import (
    Particle,
    Structures,
    hard_bernoulli,
    limit_graph,
    limit_targets,
    log_bernoulli,
    off_diagonal,
    target_logits,
)
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

    def read(
        self, key: Key[Array, ""], memory: PyTree, particle: Particle, alpha: Alpha, problem: tuple[Model, ModelData]
    ) -> Discrete:
        """The same with the memory of the estimator at hand, for readings that want it."""
        return self(key, particle, alpha, problem)


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
    """Proposition 1 at finite α: `n_draws` a particle from p(G, I | Ω, D) ∝ p(G|Z) p(I|Γ) Ψ, restricted to DAGs.

    All factors are products over columns, so that given the rest of the graph a column has the conditional
    p(G_:j|Z) Ψ_j over the columns that close no cycle. A Gibbs sampler runs over them, from the empty graph and with a
    temperature that falls to 1 in the first half of its sweeps; a column is one of `n_candidates` sampled from
    p(G_:j|Z), the empty one, that of the limit graph and its neighbours. Targets are summed out of Ψ_j and drawn from
    their exact conditional in the end; where they cannot be (no parameters), they are sampled with the column.
    """

    n_draws: int = 16
    n_candidates: int = 128
    n_sweeps: int = 12

    def __call__(
        self, key: Key[Array, ""], particle: Particle, alpha: Float[Array, ""] | float, problem: tuple[Model, ModelData]
    ) -> Discrete:
        model, data = problem
        key_noise, key_chain, key_target = jax.random.split(key, 3)
        theta, theta_int = particle.theta, particle.theta_int
        logits = target_logits(particle.gamma, alpha, data.known_targets)
        candidates = self._candidates(key_noise, particle, alpha, data)
        log_p = log_bernoulli(edge_logits(particle, alpha), candidates.graphs)
        if model.has_parameters:
            log_p = log_p + model.log_psi_over_targets(theta, theta_int, candidates.graphs, logits, data)
            repeated = _repeated(candidates.graphs)
        else:
            log_p = log_p + log_bernoulli(logits, candidates.targets)
            log_p = log_p + model.log_psi(theta, theta_int, candidates, data)
            repeated = _repeated(jnp.concatenate(candidates))
        weight = jnp.where(repeated, -jnp.inf, log_p)
        chain = jax.vmap(lambda k: _choose_columns(k, candidates.graphs, weight, self.n_sweeps))
        chosen = chain(jax.random.split(key_chain, self.n_draws))
        graphs, targets = (jnp.take_along_axis(item, chosen[None], axis=1) for item in candidates)
        if model.has_parameters:
            odds = logits[:, None, :] + model.target_odds(theta, theta_int, graphs, data)
            targets = (odds + jax.random.logistic(key_target, odds.shape, data.dtype) > 0).astype(data.dtype)
        graphs, targets = jnp.moveaxis(graphs, 1, 0), jnp.moveaxis(targets, 1, 0)
        log_joint = jax.vmap(lambda g, i: model.log_joint(particle, g, i, data))(graphs, targets)
        return Discrete(graphs, targets, log_joint)

    def _candidates(
        self, key: Key[Array, ""], particle: Particle, alpha: Float[Array, ""] | float, data: ModelData
    ) -> Structures:
        """For every column: the empty one, that of the limit graph, its neighbours, and samples of p(G_:j|Z); the
        targets beside them are those of the limit or sampled, too."""
        noise = draw_noise(key, self.n_candidates, data)
        d, logits = data.n_variables, target_logits(particle.gamma, alpha, data.known_targets)
        limit = limit_graph(particle.z).astype(data.dtype)[:, None, :]
        neighbours = jnp.abs(limit - jnp.eye(d, dtype=data.dtype)[:, :, None]) * off_diagonal(d)[:, None, :]
        sampled = hard_bernoulli(edge_logits(particle, alpha), noise.graphs)
        graphs = jnp.concatenate([jnp.zeros_like(limit), limit, neighbours, sampled], axis=1)
        fixed = limit_targets(particle.gamma, data.known_targets).astype(data.dtype)[:, None, :]
        fixed = jnp.broadcast_to(fixed, (data.n_contexts, d + 2, d))
        return Structures(graphs, jnp.concatenate([fixed, hard_bernoulli(logits, noise.targets)], axis=1))


def _repeated(columns: Float[Array, "a S d"]) -> Bool[Array, "S d"]:
    """Which candidates of a column stood before: a column counts by its weight, not by how often it was proposed."""
    same = jnp.all(columns[:, :, None, :] == columns[:, None, :, :], axis=0)
    return jnp.any(jnp.tril(jnp.moveaxis(same, 2, 0), -1), axis=2).T


def _choose_columns(
    key: Key[Array, ""], candidates: Float[Array, "d S d"], log_weight: Float[Array, "S d"], n_sweeps: int
) -> Int[Array, " d"]:
    """One candidate for every column such that they make a DAG, with probability ∝ Π_j exp(log_weight), by annealed
    Gibbs sampling over columns. Candidate 0 is the empty column, so there is always one that closes no cycle."""
    d = candidates.shape[0]
    key_order, key_choice = jax.random.split(key)
    order = jax.vmap(lambda k: jax.random.permutation(k, d))(jax.random.split(key_order, n_sweeps)).reshape(-1)
    coldness = jnp.repeat(jnp.minimum(jnp.geomspace(1e-3, 1e3, n_sweeps, dtype=log_weight.dtype), 1.0), d)

    def update(chosen: Int[Array, " d"], item: tuple[Array, Array, Array]) -> tuple[Int[Array, " d"], None]:
        j, cold, key = item
        graph = jnp.take_along_axis(candidates, chosen[None, None, :], axis=1)[:, 0].at[:, j].set(0)
        closes_cycle = descendants(graph)[j] @ candidates[:, :, j] > 0
        choice = jax.random.categorical(key, jnp.where(closes_cycle, -jnp.inf, cold * log_weight[:, j]))
        return chosen.at[j].set(choice.astype(chosen.dtype)), None

    keys = jax.random.split(key_choice, len(order))
    return jax.lax.scan(update, jnp.zeros(d, jnp.int32), (order, coldness, keys))[0]


def descendants(graph: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """[i, j] = 1 where a directed path leads from i to j, or i = j."""
    d = graph.shape[0]
    reach = jnp.minimum(graph + jnp.eye(d, dtype=graph.dtype), 1.0)
    for _ in range(max(d - 1, 1).bit_length()):
        reach = jnp.minimum(reach @ reach, 1.0)
    return reach
