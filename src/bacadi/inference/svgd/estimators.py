"""Estimators of Eq. (12), the score (its likelihood part ∇ log E[Ψ]), and readers of particles as discrete structures.

A reader follows Eq. (13), Proposition 2 (α → ∞), or Eq. (6), Proposition 1 (finite α), a ratio of expectations over
p(G | Z) p(I | Γ): E[f | Ω, D] = E[f(G, I) Ψ] / E[Ψ]. Draws of (G, I) from p(G, I | Ω, D) ∝ p(G|Z) p(I|Γ) Ψ turn it
into a plain mean, which `Posterior.expect` takes.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from bacadi.config.choices import Choice, option
from bacadi.relaxed import latent
from bacadi.relaxed.density import Density
from bacadi.relaxed.latent import Alpha, Graphs, Particle, RandomKey, Structures, target_logits

Chains = Float[Array, "R C d"]
TEMPERING_POWER = 4


class Psi(NamedTuple):
    """An estimate of log E[Ψ] of one particle, its gradient, and what the estimator keeps until the next step."""

    log_psi: Float[Array, ""]
    grad: Particle
    chains: PyTree


class AbstractEstimator(Choice):
    """log E[Ψ] and ∇ log E[Ψ] of one particle by Monte Carlo.

    An estimator whose samples go on from step to step keeps them as `chains`, a pytree that is part of the state of
    the run; the others keep nothing.
    """

    def start(self, key: RandomKey, particle: Particle, alpha: Alpha, density: Density) -> PyTree:
        """The chains of a fresh particle."""
        return ()

    @abstractmethod
    def __call__(self, key: RandomKey, particle: Particle, chains: PyTree, alpha: Alpha, density: Density) -> Psi: ...


def draw_noise(key: RandomKey, n_samples: int, density: Density) -> Structures:
    """The numbers that `soft_bernoulli` and `hard_bernoulli` make graphs and targets of."""
    d = density.n_variables
    uniform = latent.draw_uniform(key, (d + density.n_contexts, n_samples, d), density.dtype)
    return Structures(uniform[:d], uniform[d:])


def log_mean_exp(values: Float[Array, "S ..."]) -> Float[Array, "..."]:
    """log (1/S) Σ_s exp(values_s)."""
    return jax.nn.logsumexp(values, axis=0) - jnp.log(values.shape[0])


def log_expectation(columns: Float[Array, "S d"], by_column: bool) -> Float[Array, ""]:
    """log E[Ψ] from log Ψ of S samples. Columns of (G, I) are independent and Ψ is a product over them, so E[Ψ] is
    the product of the expectations of the columns; taken that way, S samples serve as S^d."""
    return jnp.sum(log_mean_exp(columns)) if by_column else log_mean_exp(jnp.sum(columns, axis=1))


class RelaxedEstimator(AbstractEstimator):
    """The paper's: G and I are relaxed together by Gumbel-softmax and one gradient serves all four blocks.

    ∇ log E[Ψ] ≈ ∇ log (1/S) Σ_s Ψ(G_s, I_s), or ∇ Σ_j log (1/S) Σ_s Ψ_j(G_s, I_s) with `by_column`, which is the
    same expectation with far less noise. Relaxation biases it; docs/developer/estimators.md has by how much.
    """

    n_samples: int = option(32, least=1)
    temperature: float = option(1.0, above=0)
    by_column: bool = True

    def __call__(self, key: RandomKey, particle: Particle, chains: PyTree, alpha: Alpha, density: Density) -> Psi:
        noise = draw_noise(key, self.n_samples, density)

        def log_expected_psi(particle: Particle) -> Float[Array, ""]:
            graphs = latent.soft_bernoulli(latent.edge_logits(particle.z, alpha), noise.graphs, self.temperature)
            logits = target_logits(particle.gamma, alpha, density.known_targets)
            targets = latent.soft_bernoulli(logits, noise.targets, self.temperature)
            columns = density.log_psi(particle.theta, particle.theta_int, Structures(graphs, targets))
            return log_expectation(columns, self.by_column)

        return Psi(*jax.value_and_grad(log_expected_psi)(particle), chains)


class BlockwiseEstimator(AbstractEstimator):
    """The authors' code: each block relaxes only what it must. Z: soft G, hard I; Γ: hard G, soft I; Θ: both hard.

    The blocks share their noise, so that the hard graphs are evaluated once.
    """

    n_samples: int = option(32, least=1)
    temperature: float = option(1.0, above=0)
    by_column: bool = False

    def __call__(self, key: RandomKey, particle: Particle, chains: PyTree, alpha: Alpha, density: Density) -> Psi:
        noise, known = draw_noise(key, self.n_samples, density), density.known_targets
        graphs = latent.hard_bernoulli(latent.edge_logits(particle.z, alpha), noise.graphs)
        targets = latent.hard_bernoulli(target_logits(particle.gamma, alpha, known), noise.targets)

        parameters = particle.theta, particle.theta_int

        def log_expected_psi(parameters: tuple[PyTree, PyTree], structures: Structures) -> Float[Array, ""]:
            return log_expectation(density.log_psi(*parameters, structures), self.by_column)

        def by_graphs(z: Array) -> Float[Array, ""]:
            logits = latent.edge_logits(z, alpha)
            soft = latent.soft_bernoulli(logits, noise.graphs, self.temperature)
            return log_expected_psi(parameters, Structures(soft, targets))

        def by_targets(gamma: Array) -> Float[Array, ""]:
            soft = latent.soft_bernoulli(target_logits(gamma, alpha, known), noise.targets, self.temperature)
            return log_expected_psi(parameters, Structures(graphs, soft))

        value, of_parameters = jax.value_and_grad(log_expected_psi)(parameters, Structures(graphs, targets))
        grad = Particle(jax.grad(by_graphs)(particle.z), jax.grad(by_targets)(particle.gamma), *of_parameters)
        return Psi(value, grad, chains)


class ChainTarget(NamedTuple):
    """What chains follow: logits of their entries and log Ψ, by chain and column, of all entries together."""

    logits: Float[Array, "R d"]
    log_psi: Callable[[Chains], Float[Array, "C d"]]
    acyclic: bool


class GibbsEstimator(AbstractEstimator):
    """∇ log E[Ψ] = E_w[∇ log p(G|Z) Ψ(G)] (Fisher's identity) over w(G) ∝ p(G|Z) Ψ(G), targets summed out of Ψ.

    ∂/∂logit_ij = E_w[g_ij] - p_ij and ∂/∂γ_kj = α (E_w[r_kj] - π_kj), with r_kj the probability of a target given the
    column: bounded whatever the data say. `n_chains` chains per particle follow w from step to step, `n_sweeps` Gibbs
    sweeps each: the sources in turn, all columns at once. g_ij enters as the probability it was drawn with. A
    mechanism without parameters does not factorise over contexts; then the targets are rows of the chains, like the
    sources.

    With `acyclic` the expectation is E[1(G is a DAG) Ψ]: chains start empty and never close a cycle, and no penalty
    β E[h] is needed. Up to α = `cold_alpha` Ψ is flattened to Ψ^((α / cold_alpha)⁴), so that chains move freely at
    first. The value is the mean of log p(G|Z) Ψ over the chains, which lacks the entropy of w.
    """

    n_chains: int = option(4, least=1)
    n_sweeps: int = option(1, least=1)
    acyclic: bool = True
    cold_alpha: float | None = option(None, above=0, none="none")

    def start(self, key: RandomKey, particle: Particle, alpha: Alpha, density: Density) -> Chains:
        """Chains of p(G|Z), or empty ones, and of p(I|Γ) where the targets cannot be summed out."""
        logits = _chain_logits(particle, alpha, density)
        if self.acyclic:
            logits = logits.at[: density.n_variables].set(-jnp.inf)
        shape = (logits.shape[0], self.n_chains, logits.shape[1])
        return latent.hard_bernoulli(logits, latent.draw_uniform(key, shape, logits.dtype))

    def __call__(self, key: RandomKey, particle: Particle, chains: Chains, alpha: Alpha, density: Density) -> Psi:
        chains, probs = _gibbs_sweeps(key, chains, self._target(particle, alpha, density), self.n_sweeps)
        mean = jnp.mean(probs, axis=1)

        def log_joint(particle: Particle) -> Float[Array, ""]:
            logits, log_psi, _ = self._target(particle, alpha, density)
            finite = jnp.where(jnp.isfinite(logits), logits, 0.0)
            log_p = jnp.where(jnp.isfinite(logits), mean * finite - jax.nn.softplus(finite), 0.0)
            return jnp.sum(jnp.mean(log_psi(chains), axis=0)) + jnp.sum(log_p)

        return Psi(*jax.value_and_grad(log_joint)(particle), chains)

    def _target(self, particle: Particle, alpha: Alpha, density: Density) -> ChainTarget:
        coldness = 1.0 if self.cold_alpha is None else jnp.minimum(alpha / self.cold_alpha, 1.0) ** TEMPERING_POWER
        theta, theta_int, d = particle.theta, particle.theta_int, density.n_variables

        def log_psi(chains: Chains) -> Float[Array, "C d"]:
            if not density.has_parameters:
                return coldness * density.log_psi(theta, theta_int, Structures(chains[:d], chains[d:]))
            logits = target_logits(particle.gamma, alpha, density.known_targets)
            return coldness * density.log_psi_over_targets(theta, theta_int, chains, logits)

        return ChainTarget(_chain_logits(particle, alpha, density), log_psi, self.acyclic)


def _chain_logits(particle: Particle, alpha: Alpha, density: Density) -> Float[Array, "R d"]:
    """Logits of all that the chains hold: the rows of G and, without parameters, those of I below them."""
    edges = latent.edge_logits(particle.z, alpha)
    if density.has_parameters:
        return edges
    return jnp.concatenate([edges, target_logits(particle.gamma, alpha, density.known_targets)])


def _gibbs_sweeps(key: RandomKey, chains: Chains, target: ChainTarget, n_sweeps: int) -> tuple[Chains, Chains]:
    """Chains after `n_sweeps` and the mean over sweeps of the probability of a 1 that each entry was drawn with."""

    def visit(carry: tuple[Chains, Array], item: tuple[Array, Array]) -> tuple[tuple[Chains, Array], Array]:
        (chains, current), (row, noise) = carry, item
        old = chains[row]
        other = target.log_psi(chains.at[row].set(1 - old))
        odds = target.logits[row] + jnp.where(old > 0, current - other, other - current)
        if target.acyclic:
            odds = jnp.where(_would_close_cycle(chains, row), -jnp.inf, odds)
        new = (odds + noise > 0).astype(chains.dtype)
        return (chains.at[row].set(new), jnp.where(new == old, current, other)), jax.nn.sigmoid(odds)

    def sweep(carry: tuple[Chains, Chains], key: RandomKey) -> tuple[tuple[Chains, Chains], None]:
        chains, total = carry
        noise = jax.random.logistic(key, chains.shape, chains.dtype)
        (chains, _), probs = jax.lax.scan(visit, (chains, target.log_psi(chains)), (jnp.arange(len(chains)), noise))
        return (chains, total + probs / n_sweeps), None

    return jax.lax.scan(sweep, (chains, jnp.zeros_like(chains)), jax.random.split(key, n_sweeps))[0]


def _would_close_cycle(chains: Chains, row: Int[Array, ""]) -> Bool[Array, "C d"]:
    """Whether j reaches the source `row` without its own edges, by chain.

    A cycle through the source leaves it by one edge only, so its edges may be drawn independently of each other.
    """
    d = chains.shape[2]
    source = jnp.minimum(row, d - 1)  # rows below the graph are targets, which close no cycle
    graphs = jnp.moveaxis(chains[:d].at[source].set(0), 1, 0)
    return (jax.vmap(descendants)(graphs)[:, :, source] > 0) & (row < d)


def descendants(graph: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """[i, j] = 1 where a directed path leads from i to j, or i = j."""
    d = graph.shape[0]
    reach = jnp.minimum(graph + jnp.eye(d, dtype=graph.dtype), 1.0)
    for _ in range(max(d - 1, 1).bit_length()):
        reach = jnp.minimum(reach @ reach, 1.0)
    return reach


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
        graph = latent.limit_graph(particle.z).astype(density.dtype)
        targets = latent.limit_targets(particle.gamma, density.known_targets).astype(density.dtype)
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
        log_p = latent.log_bernoulli(latent.edge_logits(particle.z, alpha), candidates.graphs)
        if density.has_parameters:
            log_p = log_p + density.log_psi_over_targets(theta, theta_int, candidates.graphs, logits)
            repeated = _repeated(candidates.graphs)
        else:
            log_p = log_p + latent.log_bernoulli(logits, candidates.targets)
            log_p = log_p + density.log_psi(theta, theta_int, candidates)
            repeated = _repeated(jnp.concatenate(candidates))
        log_p = jnp.where(repeated, -jnp.inf, log_p)
        chain = jax.vmap(lambda k: _choose_columns(k, candidates.graphs, log_p, self.n_sweeps))
        columns = chain(jax.random.split(key_chain, self.n_draws))
        graphs, targets = (jnp.take_along_axis(item, columns[None], axis=1) for item in candidates)
        return _with_targets(key_target, particle, Structures(graphs, targets), alpha, density)

    def _candidates(self, key: RandomKey, particle: Particle, alpha: Alpha, density: Density) -> Structures:
        """For every column: the empty one, that of the limit graph, its neighbours, and samples of p(G_:j|Z); the
        targets beside them are those of the limit or sampled, too."""
        noise, dtype = draw_noise(key, self.n_candidates, density), density.dtype
        d, logits = density.n_variables, target_logits(particle.gamma, alpha, density.known_targets)
        limit = latent.limit_graph(particle.z).astype(dtype)[:, None, :]
        neighbours = jnp.abs(limit - jnp.eye(d, dtype=dtype)[:, :, None]) * latent.off_diagonal(d)[:, None, :]
        sampled = latent.hard_bernoulli(latent.edge_logits(particle.z, alpha), noise.graphs)
        graphs = jnp.concatenate([jnp.zeros_like(limit), limit, neighbours, sampled], axis=1)
        fixed = latent.limit_targets(particle.gamma, density.known_targets).astype(dtype)[:, None, :]
        fixed = jnp.broadcast_to(fixed, (density.n_contexts, d + 2, d))
        return Structures(graphs, jnp.concatenate([fixed, latent.hard_bernoulli(logits, noise.targets)], axis=1))


class FromChains(AbstractReader):
    """Proposition 1 by the chains of `GibbsEstimator`, which follow p(G | Ω, D) already: one draw per chain."""

    def read(self, key: RandomKey, particle: Particle, chains: Chains, alpha: Alpha, density: Density) -> Discrete:
        d = density.n_variables
        return _with_targets(key, particle, Structures(chains[:d], chains[d:]), alpha, density)


def _with_targets(key: RandomKey, particle: Particle, drawn: Structures, alpha: Alpha, density: Density) -> Discrete:
    """The structures with targets from p(I | G, Ω, D) where Θ is explicit, and their log joint density."""
    graphs, targets = drawn
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


def _choose_columns(key: RandomKey, candidates: Graphs, log_p: Float[Array, "S d"], n_sweeps: int) -> Int[Array, " d"]:
    """One candidate for every column such that they make a DAG, with probability ∝ Π_j exp(log_p), by annealed
    Gibbs sampling over columns. Candidate 0 is the empty column, so there is always one that closes no cycle."""
    (d, n, _), dtype = candidates.shape, log_p.dtype
    uniform = latent.draw_uniform(key, (n_sweeps * d, n + 1), dtype)
    order = jnp.argsort(uniform[:, -1].reshape(n_sweeps, d), axis=1).reshape(-1)
    coldness = jnp.repeat(jnp.minimum(jnp.geomspace(1e-3, 1e3, n_sweeps, dtype=dtype), 1.0), d)

    def update(columns: Int[Array, " d"], item: tuple[Array, Array, Array]) -> tuple[Int[Array, " d"], None]:
        j, cold, uniform = item
        graph = jnp.take_along_axis(candidates, columns[None, None, :], axis=1)[:, 0].at[:, j].set(0)
        closes_cycle = descendants(graph)[j] @ candidates[:, :, j] > 0
        gumbel = -jnp.log(-jnp.log(uniform))
        choice = jnp.argmax(jnp.where(closes_cycle, -jnp.inf, cold * log_p[:, j] + gumbel))
        return columns.at[j].set(choice.astype(columns.dtype)), None

    return jax.lax.scan(update, jnp.zeros(d, jnp.int32), (order, coldness, uniform[:, :-1]))[0]
