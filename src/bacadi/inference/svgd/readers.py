"""From particles to discrete structures: Proposition 2, Eq. (13) (α → ∞), and Proposition 1, Eq. (6) (finite α).

Proposition 1 is a ratio of expectations over p(G | Z) p(I | Γ): E[f | Ω, D] = E[f(G, I) Ψ] / E[Ψ]. Draws of (G, I) from
p(G, I | Ω, D) ∝ p(G|Z) p(I|Γ) Ψ turn it into a plain mean, which `Posterior.expect` takes.
"""

from abc import abstractmethod
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from bacadi.config.choices import Choice, option
from bacadi.inference.svgd.estimators import Chains, descendants, draw_noise, edge_logits
from bacadi.relaxed.density import Density
from bacadi.relaxed.latent import (
    Alpha,
    Particle,
    RandomKey,
    Structures,
    hard_bernoulli,
    limit_graph,
    limit_targets,
    log_bernoulli,
    off_diagonal,
    target_logits,
)


class Discrete(NamedTuple):
    """S structures that a particle is read as, all of the same weight, and their unnormalised log posterior."""

    graphs: Float[Array, "*L S d d"]
    targets: Float[Array, "*L S M d"]
    log_joint: Float[Array, "*L S"]


class AbstractReader(Choice):
    """Which (G, I) a particle is read as."""

    @abstractmethod
    def read(self, key: RandomKey, particle: Particle, chains: PyTree, alpha: Alpha, density: Density) -> Discrete:
        """Structures of one particle; `chains` are those of the estimator."""


class LimitGraphs(AbstractReader):
    """Proposition 2: one graph G_∞(Z) and one set of targets I_∞(Γ) per particle."""

    def read(self, key: RandomKey, particle: Particle, chains: PyTree, alpha: Alpha, density: Density) -> Discrete:
        graph = limit_graph(particle.z).astype(density.dtype)
        targets = limit_targets(particle.gamma, density.known_targets).astype(density.dtype)
        return Discrete(graph[None], targets[None], density.log_joint(particle, graph, targets)[None])


class FiniteAlpha(AbstractReader):
    """Proposition 1 at finite α: `n_draws` per particle from p(G, I | Ω, D) ∝ p(G|Z) p(I|Γ) Ψ, restricted to DAGs.

    All factors are products over columns, so that given the rest of the graph a column has the conditional
    p(G_:j|Z) Ψ_j over the columns that close no cycle. A Gibbs sampler runs over them, from the empty graph and with a
    temperature that falls to 1 in the first half of its sweeps; a column is one of `n_candidates` sampled from
    p(G_:j|Z), the empty one, that of the limit graph and its neighbours. Targets are summed out of Ψ_j and drawn from
    their exact conditional in the end; where they cannot be (no parameters), they are sampled with the column.
    """

    n_draws: int = option(16, least=1)
    n_candidates: int = option(128, least=1)
    n_sweeps: int = option(12, least=1)

    def read(self, key: RandomKey, particle: Particle, chains: PyTree, alpha: Alpha, density: Density) -> Discrete:
        key_noise, key_chain, key_target = jax.random.split(key, 3)
        theta, theta_int = particle.theta, particle.theta_int
        logits = target_logits(particle.gamma, alpha, density.known_targets)
        candidates = self._candidates(key_noise, particle, alpha, density)
        log_p = log_bernoulli(edge_logits(particle, alpha), candidates.graphs)
        if density.has_parameters:
            log_p = log_p + density.log_psi_over_targets(theta, theta_int, candidates.graphs, logits)
            repeated = _repeated(candidates.graphs)
        else:
            log_p = log_p + log_bernoulli(logits, candidates.targets)
            log_p = log_p + density.log_psi(theta, theta_int, candidates)
            repeated = _repeated(jnp.concatenate(candidates))
        weight = jnp.where(repeated, -jnp.inf, log_p)
        chain = jax.vmap(lambda k: _choose_columns(k, candidates.graphs, weight, self.n_sweeps))
        columns = chain(jax.random.split(key_chain, self.n_draws))
        graphs, targets = (jnp.take_along_axis(item, columns[None], axis=1) for item in candidates)
        return _with_targets(key_target, particle, Structures(graphs, targets), alpha, density)

    def _candidates(self, key: RandomKey, particle: Particle, alpha: Alpha, density: Density) -> Structures:
        """For every column: the empty one, that of the limit graph, its neighbours, and samples of p(G_:j|Z); the
        targets beside them are those of the limit or sampled, too."""
        noise, dtype = draw_noise(key, self.n_candidates, density), density.dtype
        d, logits = density.n_variables, target_logits(particle.gamma, alpha, density.known_targets)
        limit = limit_graph(particle.z).astype(dtype)[:, None, :]
        neighbours = jnp.abs(limit - jnp.eye(d, dtype=dtype)[:, :, None]) * off_diagonal(d)[:, None, :]
        sampled = hard_bernoulli(edge_logits(particle, alpha), noise.graphs)
        graphs = jnp.concatenate([jnp.zeros_like(limit), limit, neighbours, sampled], axis=1)
        fixed = limit_targets(particle.gamma, density.known_targets).astype(dtype)[:, None, :]
        fixed = jnp.broadcast_to(fixed, (density.n_contexts, d + 2, d))
        return Structures(graphs, jnp.concatenate([fixed, hard_bernoulli(logits, noise.targets)], axis=1))


class FromChains(AbstractReader):
    """Proposition 1 by the chains of `GibbsEstimator`, which follow p(G | Ω, D) already: one draw per chain."""

    def read(self, key: RandomKey, particle: Particle, chains: Chains, alpha: Alpha, density: Density) -> Discrete:
        d = density.n_variables
        return _with_targets(key, particle, Structures(chains[:d], chains[d:]), alpha, density)


def _with_targets(
    key: RandomKey, particle: Particle, structures: Structures, alpha: Alpha, density: Density
) -> Discrete:
    """The structures with targets from p(I | G, Ω, D) where Θ is explicit, and their log joint density."""
    graphs, targets = structures
    if density.has_parameters:
        logits = target_logits(particle.gamma, alpha, density.known_targets)
        odds = logits[:, None, :] + density.target_odds(particle.theta, particle.theta_int, graphs)
        targets = (odds + jax.random.logistic(key, odds.shape, density.dtype) > 0).astype(density.dtype)
    graphs, targets = jnp.moveaxis(graphs, 1, 0), jnp.moveaxis(targets, 1, 0)
    log_joint = jax.vmap(lambda g, i: density.log_joint(particle, g, i))(graphs, targets)
    return Discrete(graphs, targets, log_joint)


def _repeated(columns: Float[Array, "a S d"]) -> Bool[Array, "S d"]:
    """Which candidates of a column stood before: a column counts by its weight, not by how often it was proposed."""
    same = jnp.all(columns[:, :, None, :] == columns[:, None, :, :], axis=0)
    return jnp.any(jnp.tril(jnp.moveaxis(same, 2, 0), -1), axis=2).T


def _choose_columns(
    key: RandomKey, candidates: Float[Array, "d S d"], log_weight: Float[Array, "S d"], n_sweeps: int
) -> Int[Array, " d"]:
    """One candidate for every column such that they make a DAG, with probability ∝ Π_j exp(log_weight), by annealed
    Gibbs sampling over columns. Candidate 0 is the empty column, so there is always one that closes no cycle."""
    d = candidates.shape[0]
    key_order, key_choice = jax.random.split(key)
    order = jax.vmap(lambda k: jax.random.permutation(k, d))(jax.random.split(key_order, n_sweeps)).reshape(-1)
    coldness = jnp.repeat(jnp.minimum(jnp.geomspace(1e-3, 1e3, n_sweeps, dtype=log_weight.dtype), 1.0), d)

    def update(columns: Int[Array, " d"], item: tuple[Array, Array, Array]) -> tuple[Int[Array, " d"], None]:
        j, cold, key = item
        graph = jnp.take_along_axis(candidates, columns[None, None, :], axis=1)[:, 0].at[:, j].set(0)
        closes_cycle = descendants(graph)[j] @ candidates[:, :, j] > 0
        choice = jax.random.categorical(key, jnp.where(closes_cycle, -jnp.inf, cold * log_weight[:, j]))
        return columns.at[j].set(choice.astype(columns.dtype)), None

    keys = jax.random.split(key_choice, len(order))
    return jax.lax.scan(update, jnp.zeros(d, jnp.int32), (order, coldness, keys))[0]
