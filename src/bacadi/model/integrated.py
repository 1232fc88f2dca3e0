"""Mechanisms whose parameters are integrated out: BGe and Gaussian processes. They have evidence and no density."""

from bacadi.config.choices import option
from bacadi.model.kernels import RBF, AbstractKernel, Constant
from bacadi.model.mechanism import Mechanism
from bacadi.model.noise import AbstractNoise, InferredNoise


class BGe(Mechanism):
    """Normal-Wishart marginal likelihood; Markov equivalent graphs score the same on observational data.

    With parents P of size l, N rows, R = T + Σ x x' - s s'/(N + α_μ), s = Σ x, T = t I (prior mean 0):

        log p(x_j | x_P) = -N/2 log π + ½ log(α_μ / (N + α_μ)) + log Γ((N + α_ω - d + l + 1)/2)
                           - log Γ((α_ω - d + l + 1)/2) + (α_ω - d + 2l + 1)/2 · log t
                           - (N + α_ω - d + l + 1)/2 · log |R_{P∪j}| + (N + α_ω - d + l)/2 · log |R_P|.

    Defaults: α_μ = .1, α_ω = d + 2. t is a noise that every variable has beforehand: with the usual α_μ = 1, t = ½,
    variables that are explained but for less than 1 % lose to denser graphs. BGe has no parameters of its own, so it
    offers evidence in both readings (`relaxed.mechanisms`, `evidence.gram`) and no density.

    >>> BGe(alpha_mu=1.0).prior_scale
    0.5
    """

    alpha_mu: float = option(0.1, above=0)
    alpha_omega_excess: float = option(2.0, above=1)

    @property
    def prior_scale(self) -> float:
        """t of T = t I."""
        return self.alpha_mu * (self.alpha_omega_excess - 1) / (self.alpha_mu + 1)


class GaussianProcess(Mechanism):
    """x_j = f_j(parents) + ε_j with f_j ~ GP(0, s_j² k) and ε_j ~ N(0, s_j² ρ_j), over one of the `kernels`.

    With `FixedNoise` s = 1 and ρ is its variance; with `InferredNoise` s² is integrated out and ρ fitted before
    sampling, with the kernel where there are several: one pair for all variables, or with `per_node` one for each.

    >>> GaussianProcess((RBF(0.5), RBF(2.0))).kernels[0].lengthscale
    0.5
    """

    kernels: tuple[AbstractKernel, ...] = tuple(Constant(1.0) + RBF(scale) for scale in (1.0, 2.0, 4.0))
    noise: AbstractNoise = InferredNoise(1.0, 0.5)
    per_node: bool = False
