"""Priors of graph, targets and latents (paper, Eqs. 7 to 9 and Appendix D.1)."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class AbstractGraphPrior(eqx.Module):
    """log p(G) up to a constant, smooth in a relaxed graph (`graph[i, j]` is i → j)."""

    @abstractmethod
    def log_prob(self, graph: Float[Array, "d d"]) -> Float[Array, ""]: ...


class ErdosRenyi(AbstractGraphPrior):
    """p(G) ∝ q^|G| (1 - q)^(C(d,2) - |G|): independent edges, `edges_per_node` d of them in expectation.

    q never exceeds ½: with so few variables that more edges are expected, an edge is as likely as none.
    """

    edges_per_node: float = 2.0

    def log_prob(self, graph: Float[Array, "d d"]) -> Float[Array, ""]:
        d = graph.shape[0]
        pairs = d * (d - 1) / 2
        q = min(self.edges_per_node * d / max(pairs, 1.0), 0.5)
        edges = jnp.sum(graph)
        return edges * jnp.log(q) + (pairs - edges) * jnp.log1p(-q)


class ScaleFree(AbstractGraphPrior):
    """p(G) ∝ Π_i (1 + out-degree of i)^(-exponent)."""

    exponent: float = 3.0

    def log_prob(self, graph: Float[Array, "d d"]) -> Float[Array, ""]:
        return -self.exponent * jnp.sum(jnp.log1p(jnp.sum(graph, axis=1)))


class UniformGraph(AbstractGraphPrior):
    """Every graph is as likely as any other."""

    def log_prob(self, graph: Float[Array, "d d"]) -> Float[Array, ""]:
        return jnp.zeros((), graph.dtype)


class LatentPrior(eqx.Module):
    """The Gaussian factor of p(Z), Eq. (7): entries of variance η_Z² = 1/d unless `z_std` says otherwise."""

    z_std: float | None = None

    def std(self, d: int) -> float:
        return d**-0.5 if self.z_std is None else self.z_std

    def log_prob(self, z: Float[Array, "2 d r"]) -> Float[Array, ""]:
        return -0.5 * jnp.sum(z**2) / self.std(z.shape[1]) ** 2


class TargetPrior(eqx.Module):
    """p(Γ), Eq. (9): sparse masks, sharp masks and a Gaussian for stability, all products over (k, i).

    log p(γ_ki) = -λ σ_α(γ_ki) + log Beta(σ_α(γ_ki); ζ₁, ζ₂) + log N(γ_ki; 0, gamma_std²) + const,
    with ζ = (1/d, (d-1)/d) by default: one target a context in expectation. `change_of_variables` adds the
    Jacobian of σ_α that a density of γ would need and the paper leaves out.
    """

    sparsity: float = 1.0
    sharpness: tuple[float, float] | None = None
    gamma_std: float = 0.1**0.5
    change_of_variables: bool = False

    def zeta(self, d: int) -> tuple[float, float]:
        return (1 / d, (d - 1) / d) if self.sharpness is None else self.sharpness

    def log_prob(self, gamma: Float[Array, "M d"], alpha: Float[Array, ""] | float) -> Float[Array, ""]:
        zeta_1, zeta_2 = self.zeta(gamma.shape[1])
        log_p, log_not_p = jax.nn.log_sigmoid(alpha * gamma), jax.nn.log_sigmoid(-alpha * gamma)
        power = 0.0 if self.change_of_variables else 1.0
        sharp = (zeta_1 - power) * log_p + (zeta_2 - power) * log_not_p
        sparse = -self.sparsity * jax.nn.sigmoid(alpha * gamma)
        return jnp.sum(sharp + sparse - 0.5 * (gamma / self.gamma_std) ** 2)

    def log_prob_targets(self, targets: Float[Array, "M d"]) -> Float[Array, ""]:
        """log p(I) of discrete targets: Bernoulli(ζ₁ / (ζ₁ + ζ₂)), the mean of the Beta factor, times exp(-λ |I|)."""
        zeta_1, zeta_2 = self.zeta(targets.shape[1])
        mean = zeta_1 / (zeta_1 + zeta_2)
        return jnp.sum(targets * (jnp.log(mean) - self.sparsity) + (1 - targets) * jnp.log1p(-mean))
