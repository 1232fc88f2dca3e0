"""Priors of graph, targets and latents (paper, Eqs. 7 to 9 and Appendix D.1)."""

import math
from abc import abstractmethod
from typing import NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bacadi.errors import ConfigError
from bacadi.graph.enumerate import calibrated_log_odds, log_subsets


class AbstractGraphPrior(eqx.Module):
    """log p(G) up to a constant, smooth in a relaxed graph (`graph[i, j]` is i → j).

    The collapsed reading needs log p(G) = |G| edge_log_odds + Σ_i out_degree_log[out-degree of i] + const, and with
    `over_orders` the log of the number of causal orders of G; a prior that is not of this form serves SVGD alone.
    """

    @property
    def over_orders(self) -> bool:
        return False

    @abstractmethod
    def log_prob(self, graph: Float[Array, "d d"]) -> Float[Array, ""]: ...

    def edge_log_odds(self, d: int) -> float:
        """What one edge adds to log p(G) among d variables."""
        self._refuse_collapse()

    def out_degree_log(self, d: int) -> Float[np.ndarray, " {d}"]:
        """What a variable with 0, 1, …, d - 1 children adds to log p(G)."""
        self._refuse_collapse()

    def _refuse_collapse(self) -> NoReturn:
        raise ConfigError(
            f"The graph prior {type(self).__name__} does not say what an edge and an out-degree add to log p(G); "
            "give it edge_log_odds and out_degree_log, or use SVGD."
        )


class ErdosRenyi(AbstractGraphPrior):
    """p(G) ∝ q^|G| (1 - q)^(C(d,2) - |G|): given a causal order, independent edges, `edges_per_node` d in expectation.

    Over all DAGs more edges are expected (50 in place of 40 among 20 variables): graphs of many edges have few orders,
    which do not count here.
    q never exceeds ½: with so few variables that more edges are expected, an edge is as likely as none.
    """

    edges_per_node: float = 2.0

    def log_prob(self, graph: Float[Array, "d d"]) -> Float[Array, ""]:
        d = graph.shape[0]
        pairs, q = d * (d - 1) / 2, self.edge_prob(d)
        edges = jnp.sum(graph)
        return edges * jnp.log(q) + (pairs - edges) * jnp.log1p(-q)

    def edge_prob(self, d: int) -> float:
        """q, the probability of an edge between two of d variables."""
        return min(self.edges_per_node * d / max(d * (d - 1) / 2, 1.0), 0.5)

    def edge_log_odds(self, d: int) -> float:
        q = self.edge_prob(d)
        return math.log(q) - math.log1p(-q)

    def out_degree_log(self, d: int) -> Float[np.ndarray, " {d}"]:
        return np.zeros(d)


class ScaleFree(AbstractGraphPrior):
    """The paper's prior of scale-free graphs, p(G) ∝ Π_i (1 + out-degree of i)^(-exponent).

    Sets of many children are far more numerous than sets of few, and it does not make up for that: among 20
    variables it expects 76 edges and hardly a hub. `PreferentialAttachment` has the degrees it means.
    """

    exponent: float = 3.0

    def log_prob(self, graph: Float[Array, "d d"]) -> Float[Array, ""]:
        return -self.exponent * jnp.sum(jnp.log1p(jnp.sum(graph, axis=1)))

    def edge_log_odds(self, d: int) -> float:
        return 0.0

    def out_degree_log(self, d: int) -> Float[np.ndarray, " {d}"]:
        return -self.exponent * np.log1p(np.arange(d))


class UniformGraph(AbstractGraphPrior):
    """Every graph is as likely as any other."""

    def log_prob(self, graph: Float[Array, "d d"]) -> Float[Array, ""]:
        return jnp.zeros((), graph.dtype)

    def edge_log_odds(self, d: int) -> float:
        return 0.0

    def out_degree_log(self, d: int) -> Float[np.ndarray, " {d}"]:
        return np.zeros(d)


class AbstractOrderPrior(AbstractGraphPrior):
    """p(G, π) ∝ y^|G| Π_i law(number of children of i) for every causal order π of G, so that G is the likelier the
    more orders it has; y is such that `edges_per_node` d edges are expected.

    Random graphs are commonly drawn along a random order: that is what `ErdosRenyi` and `ScaleFree`, which know
    nothing of orders, only seem to do. For MCMC and enumeration: orders have no smooth form.
    """

    edges_per_node: float = 2.0

    @property
    def over_orders(self) -> bool:
        return True

    def log_prob(self, graph: Float[Array, "d d"]) -> NoReturn:
        raise ConfigError(
            f"The number of causal orders is not smooth in a graph, so {type(self).__name__} is not for SVGD; "
            "use ErdosRenyi or ScaleFree with it."
        )

    def edge_log_odds(self, d: int) -> float:
        return calibrated_log_odds(self.out_degree_log(d), self.edges_per_node * d)


class OrderedErdosRenyi(AbstractOrderPrior):
    """Independent edges along a random causal order: law(k) = 1."""

    def out_degree_log(self, d: int) -> Float[np.ndarray, " {d}"]:
        return np.zeros(d)


class PreferentialAttachment(AbstractOrderPrior):
    """Scale-free graphs, hubs early in the order: law(k) = p(k) / C(d-1, k).

    p(k) = 2m(m+1) / ((k+m)(k+m+1)(k+m+2)), k^-3 for hubs, are the degrees of preferential attachment with
    m = `edges_per_node` parents for each variable that joins (Dorogovtsev, Mendes and Samukhin 2000).
    """

    def out_degree_log(self, d: int) -> Float[np.ndarray, " {d}"]:
        m, k = self.edges_per_node, np.arange(d)
        return np.log(2 * m * (m + 1) / ((k + m) * (k + m + 1) * (k + m + 2))) - log_subsets(d - 1)


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
    Jacobian of σ_α that a density of γ would need and the paper leaves out. `discrete_log_odds` are the log odds of
    a target where targets are discrete and Γ is not there; None derives them from ζ and λ.
    """

    sparsity: float = 1.0
    sharpness: tuple[float, float] | None = None
    gamma_std: float = 0.1**0.5
    change_of_variables: bool = False
    discrete_log_odds: float | None = None

    def zeta(self, d: int) -> tuple[float, float]:
        return (1 / d, (d - 1) / d) if self.sharpness is None else self.sharpness

    def log_prob(self, gamma: Float[Array, "M d"], alpha: Float[Array, ""] | float) -> Float[Array, ""]:
        zeta_1, zeta_2 = self.zeta(gamma.shape[1])
        log_p, log_not_p = jax.nn.log_sigmoid(alpha * gamma), jax.nn.log_sigmoid(-alpha * gamma)
        power = 0.0 if self.change_of_variables else 1.0
        sharp = (zeta_1 - power) * log_p + (zeta_2 - power) * log_not_p
        sparse = -self.sparsity * jax.nn.sigmoid(alpha * gamma)
        return jnp.sum(sharp + sparse - 0.5 * (gamma / self.gamma_std) ** 2)

    def log_odds(self, d: int) -> float:
        """log p(target) - log p(no target) among d variables: log ζ₁/ζ₂ - λ unless `discrete_log_odds` says otherwise.

        >>> round(TargetPrior().log_odds(20), 3)
        -3.944
        """
        if self.discrete_log_odds is not None:
            return self.discrete_log_odds
        zeta_1, zeta_2 = self.zeta(d)
        # A variable that is alone would be a target for certain (ζ₂ = 0): data could never say otherwise.
        return math.log(zeta_1 / (zeta_2 or zeta_1)) - self.sparsity

    def log_prob_targets(self, targets: Float[Array, "M d"]) -> Float[Array, ""]:
        """log p(I) of discrete targets: Bernoulli(ζ₁ / (ζ₁ + ζ₂)), the mean of the Beta factor, times exp(-λ |I|)."""
        if self.discrete_log_odds is not None:
            log_on, log_off = jax.nn.log_sigmoid(self.discrete_log_odds), jax.nn.log_sigmoid(-self.discrete_log_odds)
            return jnp.sum(targets * log_on + (1 - targets) * log_off)
        zeta_1, zeta_2 = self.zeta(targets.shape[1])
        mean = zeta_1 / (zeta_1 + zeta_2)
        return jnp.sum(targets * (jnp.log(mean) - self.sparsity) + (1 - targets) * jnp.log1p(-mean))
