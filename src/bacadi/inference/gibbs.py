"""The score by persistent Gibbs chains over the columns of the graph: bounded whatever the data say."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from bacadi.inference.estimators import AbstractEstimator, Alpha, Value, edge_logits
from bacadi.model.latent import Particle, Structures, hard_bernoulli, target_logits
from bacadi.model.model import Model, ModelData

Chains = Float[Array, "R C d"]
LogPsi = Callable[[Chains], Float[Array, "C d"]]


class GibbsEstimator(AbstractEstimator):
    """∇ log E[Ψ] = E_w[∇ log p(G|Z) Ψ(G)] (Fisher's identity) over w(G) ∝ p(G|Z) Ψ(G), targets summed out of Ψ.

    ∂/∂logit_ij = E_w[g_ij] - p_ij and ∂/∂γ_kj = α (E_w[r_kj] - π_kj), with r_kj the probability of a target given the
    column. `n_chains` chains a particle follow w from step to step, `n_sweeps` Gibbs sweeps each: the sources in turn,
    all columns at once, for w is a product over columns. g_ij enters as the probability it was drawn with. A mechanism
    without parameters does not factorise over contexts; then the targets are rows of the chains, like the sources.

    The value is the mean of log p(G|Z) Ψ over the chains, which lacks the entropy of w. Without memory (`__call__`)
    chains start from p(G|Z), which `n_warmup` sweeps forget.
    """

    n_chains: int = 4
    n_sweeps: int = 1
    n_warmup: int = 20
    acyclic: bool = False
    full_alpha: float = 0.0

    def start(self, key: Key[Array, ""], particle: Particle, alpha: Alpha, problem: tuple[Model, ModelData]) -> Chains:
        """Chains of p(G|Z), and of p(I|Γ) where the targets cannot be summed out."""
        logits = _logits(particle, alpha, *problem)
        if self.acyclic:
            logits = logits.at[: problem[1].n_variables].set(-jnp.inf)
        shape = (logits.shape[0], self.n_chains, logits.shape[1])
        return hard_bernoulli(logits, jax.random.logistic(key, shape, logits.dtype))

    def __call__(self, key: Key[Array, ""], particle: Particle, alpha: Alpha, model: Model, data: ModelData) -> Value:
        key_start, key_warmup, key = jax.random.split(key, 3)
        chains = self.start(key_start, particle, alpha, (model, data))
        cold = self._cold(alpha)
        log_psi = lambda c: cold * _log_psi(particle, alpha, model, data)(c)
        logits = _logits(particle, alpha, model, data)
        chains, _ = _sweeps(key_warmup, chains, logits, log_psi, self.n_warmup, self.acyclic)
        return self.update(key, chains, particle, alpha, (model, data))[0]

    def _cold(self, alpha: Alpha) -> Alpha:
        return jnp.minimum(1.0, alpha / self.full_alpha) ** 4 if self.full_alpha else 1.0

    def update(
        self, key: Key[Array, ""], memory: Chains, particle: Particle, alpha: Alpha, problem: tuple[Model, ModelData]
    ) -> tuple[Value, Chains]:
        cold = self._cold(alpha)
        log_psi = lambda c: cold * _log_psi(particle, alpha, *problem)(c)
        logits = _logits(particle, alpha, *problem)
        chains, probs = _sweeps(key, memory, logits, log_psi, self.n_sweeps, self.acyclic)
        mean = jnp.mean(probs, axis=1)

        def log_joint(particle: Particle) -> Float[Array, ""]:
            logits = _logits(particle, alpha, *problem)
            finite = jnp.where(jnp.isfinite(logits), logits, 0.0)
            log_p = jnp.where(jnp.isfinite(logits), mean * finite - jax.nn.softplus(finite), 0.0)
            return cold * jnp.sum(jnp.mean(_log_psi(particle, alpha, *problem)(chains), axis=0)) + jnp.sum(log_p)

        return jax.value_and_grad(log_joint)(particle), chains


def _logits(particle: Particle, alpha: Alpha, model: Model, data: ModelData) -> Float[Array, "R d"]:
    """Logits of all that the chains hold: the rows of G and, without parameters, those of I below them."""
    edges = edge_logits(particle, alpha)
    if model.has_parameters:
        return edges
    return jnp.concatenate([edges, target_logits(particle.gamma, alpha, data.known_targets)])


def _log_psi(particle: Particle, alpha: Alpha, model: Model, data: ModelData) -> LogPsi:
    """log Ψ by chain and column as a function of the chains."""
    theta, theta_int, d = particle.theta, particle.theta_int, data.n_variables
    if model.has_parameters:
        logits = target_logits(particle.gamma, alpha, data.known_targets)
        return lambda chains: model.log_psi_over_targets(theta, theta_int, chains, logits, data)
    return lambda chains: model.log_psi(theta, theta_int, Structures(chains[:d], chains[d:]), data)


def _sweeps(
    key: Key[Array, ""], chains: Chains, logits: Float[Array, "R d"], log_psi: LogPsi, n_sweeps: int, acyclic: bool
) -> tuple[Chains, Chains]:
    """Chains after `n_sweeps` and the mean over sweeps of the probability of a 1 that each entry was drawn with."""

    def visit(carry: tuple[Chains, Array], item: tuple[Array, Array]) -> tuple[tuple[Chains, Array], Array]:
        (chains, current), (row, noise) = carry, item
        old = chains[row]
        other = log_psi(chains.at[row].set(1 - old))
        odds = logits[row] + jnp.where(old > 0, current - other, other - current)
        if acyclic:
            odds = jnp.where(_ancestors(chains, row), -jnp.inf, odds)
        new = (odds + noise > 0).astype(chains.dtype)
        return (chains.at[row].set(new), jnp.where(new == old, current, other)), jax.nn.sigmoid(odds)

    def sweep(carry: tuple[Chains, Chains], key: Key[Array, ""]) -> tuple[tuple[Chains, Chains], None]:
        chains, total = carry
        noise = jax.random.logistic(key, chains.shape, chains.dtype)
        start = (chains, log_psi(chains))
        (chains, _), probs = jax.lax.scan(visit, start, (jnp.arange(len(chains)), noise))
        return (chains, total + probs / n_sweeps), None

    return jax.lax.scan(sweep, (chains, jnp.zeros_like(chains)), jax.random.split(key, n_sweeps))[0]


def _ancestors(chains: Chains, row: Array) -> Float[Array, "C d"]:
    """Whether j reaches the source `row` by a path that does not use its own edges, by chain."""
    d = chains.shape[2]
    graphs = jnp.moveaxis(chains[:d], 1, 0)
    reach = graphs.at[:, row % d].set(0) + jnp.eye(d, dtype=chains.dtype)
    for _ in range(max(d - 1, 1).bit_length()):
        reach = jnp.minimum(reach @ reach, 1.0)
    return (reach[:, :, row % d] > 0) & (row < d)
