"""Priors of graph, targets and latents (Eq. (8), p_β(Z), Eq. (9), p(I | Γ), Eq. (10), p(Γ), and Appendix D.1).

Densities are written once for NumPy and JAX arrays. A graph prior offers `log_prob` (smooth in a relaxed graph, for
SVGD), `edge_log_odds` with `out_degree_log` (for MCMC and enumeration), or both.
"""

import math
from functools import cache
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int8

from bacadi.config.choices import Choice, option
from bacadi.graph.enumerate import calibrated_log_odds, log_normaliser, log_subsets
from bacadi.model.noise import Values, namespace


class AbstractGraphPrior(Choice):
    """log p(G) up to a constant; `graph[i, j]` is i → j."""


@runtime_checkable
class SmoothPrior(Protocol):
    """A graph prior that SVGD can use."""

    def log_prob(self, graph: Values) -> Values:
        """log p(G) up to a constant, smooth in a relaxed graph."""


@runtime_checkable
class CountingPrior(Protocol):
    """A graph prior that MCMC and enumeration can use, by what each edge and each degree adds.

    log p(G) = |G| edge_log_odds + Σ_i out_degree_log[out-degree of i] + const, and with `over_orders` this is
    log p(G, π) of each causal order π of G, so that a graph is the likelier the more orders it has. A prior that
    derives from this class says only what is not 0.
    """

    over_orders: bool = False

    def edge_log_odds(self, d: int) -> float:
        """What one edge adds to log p(G) among d variables."""
        return 0.0

    def out_degree_log(self, d: int) -> Float[np.ndarray, " {d}"]:
        """What a variable with 0, 1, …, d - 1 children adds to log p(G)."""
        return np.zeros(d)


class ErdosRenyi(AbstractGraphPrior, CountingPrior):
    """p(G) ∝ q^|G| (1 - q)^(C(d,2) - |G|): given a causal order, independent edges, `edges_per_node` d in expectation.

    Over all DAGs more edges are expected (50 in place of 40 among 20 variables): graphs of many edges have few orders,
    which do not count here.
    q never exceeds ½: with so few variables that more edges are expected, an edge is as likely as none.
    """

    edges_per_node: float = option(2.0, above=0)

    def log_prob(self, graph: Values) -> Values:
        d = graph.shape[0]
        pairs, q, edges = d * (d - 1) / 2, self.edge_prob(d), namespace(graph).sum(graph)
        return edges * math.log(q) + (pairs - edges) * math.log1p(-q)

    def edge_prob(self, d: int) -> float:
        """q, the probability of an edge between two of d variables."""
        return min(self.edges_per_node * d / max(d * (d - 1) / 2, 1.0), 0.5)

    def edge_log_odds(self, d: int) -> float:
        q = self.edge_prob(d)
        return math.log(q) - math.log1p(-q)


class ScaleFree(AbstractGraphPrior, CountingPrior):
    """The paper's prior of scale-free graphs, p(G) ∝ Π_i (1 + out-degree of i)^(-exponent).

    Sets of many children are far more numerous than sets of few, and it does not make up for that: among 20
    variables it expects 76 edges and hardly a hub. `PreferentialAttachment` has the degrees it means.
    """

    exponent: float = option(3.0, least=0)

    def log_prob(self, graph: Values) -> Values:
        xp = namespace(graph)
        return -self.exponent * xp.sum(xp.log1p(xp.sum(graph, axis=1)))

    def out_degree_log(self, d: int) -> Float[np.ndarray, " {d}"]:
        return -self.exponent * np.log1p(np.arange(d))


class UniformGraph(AbstractGraphPrior, CountingPrior):
    """Every graph is as likely as any other."""

    def log_prob(self, graph: Values) -> Values:
        return namespace(graph).zeros((), dtype=graph.dtype)


class AbstractOrderPrior(AbstractGraphPrior, CountingPrior):
    """p(G, π) ∝ y^|G| Π_i law(number of children of i) for every causal order π of G, so that G is the likelier the
    more orders it has; y is such that `edges_per_node` d edges are expected.

    Random graphs are commonly drawn along a random order: that is what `ErdosRenyi` and `ScaleFree`, which know
    nothing of orders, only seem to do. `out_degree_log` is the logarithm of law(k), k = 0 … d - 1; law(k) = 1 unless a
    prior says otherwise. For MCMC and enumeration: orders have no smooth form.
    """

    over_orders = True

    edges_per_node: float = option(2.0, above=0)

    def edge_log_odds(self, d: int) -> float:
        return _calibrated(self, d)[0]

    def log_prob_along_order(self, graph: Int8[np.ndarray, "d d"]) -> float:
        """log p(G | π), the same for each causal order π of G.

        >>> graph = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]], np.int8)
        >>> round(OrderedErdosRenyi().log_prob_along_order(graph), 3), round(-3 * math.log(2), 3)
        (-2.079, -2.079)
        """
        children = np.asarray(graph).sum(axis=1)
        edge_log_odds, log_normaliser = _calibrated(self, len(graph))
        law = self.out_degree_log(len(graph))[children].sum()
        return float(children.sum() * edge_log_odds + law - log_normaliser)


@cache
def _calibrated(prior: AbstractOrderPrior, d: int) -> tuple[float, float]:
    """The edge log-odds that give as many edges as are expected, and the logarithm of what p(G | π) is divided by."""
    log_law = prior.out_degree_log(d)
    odds = calibrated_log_odds(log_law, prior.edges_per_node * d)
    return odds, log_normaliser(log_law, odds)


class OrderedErdosRenyi(AbstractOrderPrior):
    """Independent edges along a random causal order: law(k) = 1."""


class PreferentialAttachment(AbstractOrderPrior):
    """Scale-free graphs, hubs early in the order: law(k) = p(k) / C(d-1, k).

    p(k) = 2m(m+1) / ((k+m)(k+m+1)(k+m+2)), k^-3 for hubs, are the degrees of preferential attachment with
    m = `edges_per_node` parents for each variable that joins (Dorogovtsev, Mendes and Samukhin 2000).
    """

    def out_degree_log(self, d: int) -> Float[np.ndarray, " {d}"]:
        m, k = self.edges_per_node, np.arange(d)
        return np.log(2 * m * (m + 1) / ((k + m) * (k + m + 1) * (k + m + 2))) - log_subsets(d - 1)


class AutoGraphPrior(ErdosRenyi):
    """Edges spread evenly over causes, or crowded on a few that have many effects: the one that explains the data
    better, chosen before sampling (`inference.hubs`). SVGD takes the first."""

    @property
    def even(self) -> ErdosRenyi:
        return ErdosRenyi(self.edges_per_node)

    @property
    def hubs(self) -> PreferentialAttachment:
        return PreferentialAttachment(self.edges_per_node)


class LatentPrior(Choice):
    """The Gaussian factor of Eq. (8), p_β(Z): entries of variance η_Z² = 1/d unless `z_std` says otherwise."""

    z_std: float | None = option(None, above=0)

    def std(self, d: int) -> float:
        """η_Z among d variables."""
        return d**-0.5 if self.z_std is None else self.z_std

    def log_prob(self, z: Values) -> Values:
        return -0.5 * namespace(z).sum(z**2) / self.std(z.shape[1]) ** 2


class TargetPrior(Choice):
    """Eq. (10), p(Γ): sparse masks, sharp masks and a Gaussian for stability, all products over (k, i).

    log p(γ_ki) = -λ σ_α(γ_ki) + log Beta(σ_α(γ_ki); ζ₁, ζ₂) + log N(γ_ki; 0, gamma_std²) + const,
    with ζ = (1/d, (d-1)/d) by default: one target per context in expectation. `change_of_variables` adds the
    Jacobian of σ_α that a density of γ would need and the paper leaves out. `discrete_log_odds` are the log odds of
    a target where targets are discrete and Γ is not there; None derives them from ζ and λ.
    """

    sparsity: float = option(1.0, least=0)
    sharpness: tuple[float, ...] | None = option(None, above=0)
    gamma_std: float = option(0.1**0.5, above=0)
    change_of_variables: bool = False
    discrete_log_odds: float | None = None

    def zeta(self, d: int) -> tuple[float, float]:
        """(ζ₁, ζ₂) among d variables."""
        return (1 / d, (d - 1) / d) if self.sharpness is None else (self.sharpness[0], self.sharpness[1])

    def log_prob(self, gamma: Values, alpha: Values) -> Values:
        """log p(Γ) + const of all contexts together."""
        xp, (zeta_1, zeta_2) = namespace(gamma), self.zeta(gamma.shape[1])
        log_p, log_not_p = -xp.logaddexp(-alpha * gamma, 0.0), -xp.logaddexp(alpha * gamma, 0.0)
        power = 0.0 if self.change_of_variables else 1.0
        sharp = (zeta_1 - power) * log_p + (zeta_2 - power) * log_not_p
        return xp.sum(sharp - self.sparsity * xp.exp(log_p) - 0.5 * (gamma / self.gamma_std) ** 2)

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

    def log_prob_targets(self, targets: Values) -> Values:
        """log p(I) of discrete targets: Bernoulli(ζ₁ / (ζ₁ + ζ₂)), the mean of the Beta factor, times exp(-λ |I|)."""
        n, size = namespace(targets).sum(targets), math.prod(targets.shape)
        if self.discrete_log_odds is not None:
            log_on, log_off = (-np.logaddexp(0.0, -odds) for odds in (self.discrete_log_odds, -self.discrete_log_odds))
            return n * float(log_on) + (size - n) * float(log_off)
        zeta_1, zeta_2 = self.zeta(targets.shape[1])
        mean = zeta_1 / (zeta_1 + zeta_2)
        return n * (math.log(mean) - self.sparsity) + ((size - n) * math.log1p(-mean) if mean < 1 else 0.0)
