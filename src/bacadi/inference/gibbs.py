"""The score by persistent Gibbs chains over the columns of the graph: bounded whatever the data say."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from bacadi.errors import ConfigError
from bacadi.inference.estimators import AbstractEstimator, Alpha, Value, edge_logits
from bacadi.inference.readings import AbstractReading, Discrete, descendants
from bacadi.model.latent import Particle, Structures, hard_bernoulli, target_logits
from bacadi.model.model import Model, ModelData

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
