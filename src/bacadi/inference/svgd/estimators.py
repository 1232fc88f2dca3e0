"""Estimators of log E[Ψ] over p(G|Z) p(I|Γ) and of its gradient, the likelihood part of the score (Appendix A.3).

From particles to discrete structures: Proposition 2 (α → ∞) and Proposition 1 (finite α).

The score by persistent Gibbs chains over the columns of the graph: bounded whatever the data say.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from bacadi.errors import ConfigError
from bacadi.model.model import Model, ModelData
from bacadi.relaxed.latent import (
    Noise,
    Particle,
    Structures,
    edge_scores,
    hard_bernoulli,
    limit_graph,
    limit_targets,
    log_bernoulli,
    off_diagonal,
    soft_bernoulli,
    target_logits,
)

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


Chains = Float[Array, "R C d"]
Pair = tuple[Model, ModelData]
TEMPERING_POWER = 4


class Target(NamedTuple):
    """What chains follow: logits of their entries and log Ψ, by chain and column, of all entries together."""

    logits: Float[Array, "R d"]
    log_psi: Callable[[Chains], Float[Array, "C d"]]
    acyclic: bool


class GibbsEstimator(AbstractEstimator):
    """∇ log E[Ψ] = E_w[∇ log p(G|Z) Ψ(G)] (Fisher's identity) over w(G) ∝ p(G|Z) Ψ(G), targets summed out of Ψ.

    ∂/∂logit_ij = E_w[g_ij] - p_ij and ∂/∂γ_kj = α (E_w[r_kj] - π_kj), with r_kj the probability of a target given the
    column. `n_chains` chains a particle follow w from step to step, `n_sweeps` Gibbs sweeps each: the sources in turn,
    all columns at once. g_ij enters as the probability it was drawn with. A mechanism without parameters does not
    factorise over contexts; then the targets are rows of the chains, like the sources.

    With `acyclic` the expectation is E[1(G is a DAG) Ψ]: chains start empty and never close a cycle, and no penalty
    β E[h] is needed. Up to α = `cold_alpha` Ψ is flattened to Ψ^((α / cold_alpha)⁴), so that chains move freely at
    first. The value is the mean of log p(G|Z) Ψ over the chains, which lacks the entropy of w. Without memory
    (`__call__`) fresh chains first take `n_warmup` sweeps.
    """

    n_chains: int = 4
    n_sweeps: int = 1
    acyclic: bool = True
    cold_alpha: float | None = None
    n_warmup: int = 20

    def start(self, key: Key[Array, ""], particle: Particle, alpha: Alpha, problem: Pair) -> Chains:
        """Chains of p(G|Z), or empty ones, and of p(I|Γ) where the targets cannot be summed out."""
        logits = _logits(particle, alpha, problem)
        if self.acyclic:
            logits = logits.at[: problem[1].n_variables].set(-jnp.inf)
        shape = (logits.shape[0], self.n_chains, logits.shape[1])
        return hard_bernoulli(logits, jax.random.logistic(key, shape, logits.dtype))

    def __call__(self, key: Key[Array, ""], particle: Particle, alpha: Alpha, model: Model, data: ModelData) -> Value:
        key_start, key_warmup, key = jax.random.split(key, 3)
        chains = self.start(key_start, particle, alpha, (model, data))
        chains, _ = _sweeps(key_warmup, chains, self._target(particle, alpha, (model, data)), self.n_warmup)
        return self.update(key, chains, particle, alpha, (model, data))[0]

    def update(
        self, key: Key[Array, ""], memory: Chains, particle: Particle, alpha: Alpha, problem: Pair
    ) -> tuple[Value, Chains]:
        chains, probs = _sweeps(key, memory, self._target(particle, alpha, problem), self.n_sweeps)
        mean = jnp.mean(probs, axis=1)

        def log_joint(particle: Particle) -> Float[Array, ""]:
            logits, log_psi, _ = self._target(particle, alpha, problem)
            finite = jnp.where(jnp.isfinite(logits), logits, 0.0)
            log_p = jnp.where(jnp.isfinite(logits), mean * finite - jax.nn.softplus(finite), 0.0)
            return jnp.sum(jnp.mean(log_psi(chains), axis=0)) + jnp.sum(log_p)

        return jax.value_and_grad(log_joint)(particle), chains

    def _target(self, particle: Particle, alpha: Alpha, problem: Pair) -> Target:
        coldness = 1.0 if self.cold_alpha is None else jnp.minimum(alpha / self.cold_alpha, 1.0) ** TEMPERING_POWER
        log_psi = _log_psi(particle, alpha, problem)
        return Target(_logits(particle, alpha, problem), lambda chains: coldness * log_psi(chains), self.acyclic)


class ChainReading(AbstractReading):
    """Proposition 1 by the chains of `GibbsEstimator`, which follow p(G | Ω, D) already: one draw a chain."""

    def __call__(self, key: Key[Array, ""], particle: Particle, alpha: Alpha, problem: Pair) -> Discrete:
        raise ConfigError("Particles can be read by their chains only with the estimator 'gibbs'; choose it.")

    def read(self, key: Key[Array, ""], memory: PyTree, particle: Particle, alpha: Alpha, problem: Pair) -> Discrete:
        (model, data), d = problem, particle.z.shape[1]
        if not isinstance(memory, jax.Array):
            return self(key, particle, alpha, problem)
        graphs, targets = memory[:d], memory[d:]
        if model.has_parameters:
            logits = target_logits(particle.gamma, alpha, data.known_targets)
            odds = logits[:, None, :] + model.target_odds(particle.theta, particle.theta_int, graphs, data)
            targets = (odds + jax.random.logistic(key, odds.shape, data.dtype) > 0).astype(data.dtype)
        graphs, targets = jnp.moveaxis(graphs, 1, 0), jnp.moveaxis(targets, 1, 0)
        log_joint = jax.vmap(lambda g, i: model.log_joint(particle, g, i, data))(graphs, targets)
        return Discrete(graphs, targets, log_joint)


def _logits(particle: Particle, alpha: Alpha, problem: Pair) -> Float[Array, "R d"]:
    """Logits of all that the chains hold: the rows of G and, without parameters, those of I below them."""
    (model, data), edges = problem, edge_logits(particle, alpha)
    if model.has_parameters:
        return edges
    return jnp.concatenate([edges, target_logits(particle.gamma, alpha, data.known_targets)])


def _log_psi(particle: Particle, alpha: Alpha, problem: Pair) -> Callable[[Chains], Float[Array, "C d"]]:
    """log Ψ by chain and column as a function of the chains."""
    (model, data), theta, theta_int = problem, particle.theta, particle.theta_int
    if model.has_parameters:
        logits = target_logits(particle.gamma, alpha, data.known_targets)
        return lambda chains: model.log_psi_over_targets(theta, theta_int, chains, logits, data)
    d = data.n_variables
    return lambda chains: model.log_psi(theta, theta_int, Structures(chains[:d], chains[d:]), data)


def _sweeps(key: Key[Array, ""], chains: Chains, target: Target, n_sweeps: int) -> tuple[Chains, Chains]:
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

    def sweep(carry: tuple[Chains, Chains], key: Key[Array, ""]) -> tuple[tuple[Chains, Chains], None]:
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
