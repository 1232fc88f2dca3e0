"""Priors of graph, targets and latents (paper, Eqs. 7 to 9 and Appendix D.1)."""

import math
from abc import abstractmethod
from typing import NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import gammaln

from bacadi.errors import ConfigError
from bacadi.graph.counting import calibrated_log_odds


class AbstractGraphPrior(eqx.Module):
    """log p(G) up to a constant, smooth in a relaxed graph (`graph[i, j]` is i → j).

    The collapsed reading needs log p(G) = |G| edge_log_odds + Σ_i out_degree_log[out-degree of i] + const; a prior
    that is not of this form serves SVGD alone.
    """

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


class AbstractDegreePrior(AbstractGraphPrior):
    """p(G) ∝ y^|G| Π_i law(out-degree of i), with y such that DAGs have `edges_per_node` d edges in expectation.

    Not `calibrated`, y is what it would be without the demand of acyclicity, as in the formulas of the paper. DAGs of
    many edges are more numerous than those of a fixed order: with 20 variables and 2 edges per node the paper's priors
    expect 50 (Erdős-Rényi) and 76 edges (scale-free) and not the 40 it speaks of.
    """

    edges_per_node: float = 2.0
    calibrated: bool = True

    @abstractmethod
    def log_law(self, degree: Float[Array | np.ndarray, "..."], d: int) -> Float[Array | np.ndarray, "..."]:
        """log law(degree) among d variables, smooth in the degree."""

    def plain_log_odds(self, d: int) -> float:
        """log y where it is not calibrated."""
        return 0.0

    def log_prob(self, graph: Float[Array, "d d"]) -> Float[Array, ""]:
        d, degree = graph.shape[0], jnp.sum(graph, axis=1)
        return jnp.sum(degree) * self.edge_log_odds(d) + jnp.sum(self.log_law(degree, d))

    def edge_log_odds(self, d: int) -> float:
        if not self.calibrated:
            return self.plain_log_odds(d)
        return calibrated_log_odds(tuple(self.out_degree_log(d).tolist()), self.edges_per_node * d)

    def out_degree_log(self, d: int) -> Float[np.ndarray, " {d}"]:
        return np.asarray(self.log_law(np.arange(d, dtype=float), d))


class ErdosRenyi(AbstractDegreePrior):
    """p(G) ∝ q^|G| (1 - q)^(C(d,2) - |G|), y = q/(1 - q): edges that know nothing of each other but acyclicity.

    With so few variables that more edges are asked for than half of the pairs, a pair is as likely joined as not.
    """

    def log_law(self, degree: Float[Array | np.ndarray, "..."], d: int) -> Float[Array | np.ndarray, "..."]:
        return 0.0 * degree

    def plain_log_odds(self, d: int) -> float:
        q = min(self.edges_per_node * d / max(d * (d - 1) / 2, 1.0), 0.5)
        return math.log(q) - math.log1p(-q)


class ScaleFree(AbstractDegreePrior):
    """The paper's prior of scale-free graphs: law(k) = (1 + k)^(-exponent)."""

    exponent: float = 3.0

    def log_law(self, degree: Float[Array | np.ndarray, "..."], d: int) -> Float[Array | np.ndarray, "..."]:
        return -self.exponent * (jnp if isinstance(degree, Array) else np).log1p(degree)


class PreferentialAttachment(AbstractDegreePrior):
    """The out-degrees of scale-free graphs, each set of so many children as likely as any other.

    law(k) = p(k) / C(d-1, k), with the degrees of preferential attachment with m = `edges_per_node` parents for each
    variable that joins, p(k) = 2m(m+1) / ((k+m)(k+m+1)(k+m+2)) (Dorogovtsev, Mendes and Samukhin 2000): k^-3 for hubs.
    """

    def log_law(self, degree: Float[Array | np.ndarray, "..."], d: int) -> Float[Array | np.ndarray, "..."]:
        xp, log_gamma = (jnp, jax.scipy.special.gammaln) if isinstance(degree, Array) else (np, gammaln)
        m = self.edges_per_node
        log_p = math.log(2 * m * (m + 1)) - xp.log((degree + m) * (degree + m + 1) * (degree + m + 2))
        return log_p - (log_gamma(float(d)) - log_gamma(degree + 1) - log_gamma(d - degree))


class UniformGraph(AbstractGraphPrior):
    """Every graph is as likely as any other."""

    def log_prob(self, graph: Float[Array, "d d"]) -> Float[Array, ""]:
        return jnp.zeros((), graph.dtype)

    def edge_log_odds(self, d: int) -> float:
        return 0.0

    def out_degree_log(self, d: int) -> Float[np.ndarray, " {d}"]:
        return np.zeros(d)


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
