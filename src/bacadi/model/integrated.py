"""Mechanisms whose parameters are integrated out: BGe and Gaussian processes. They have evidence and no density."""

from typing import ClassVar

from bacadi.config.choices import option
from bacadi.errors import ConfigError
from bacadi.model.kernels import RBF, AbstractKernel, AdditiveKernel, Constant, LinearKernel, NetworkKernel, Sum
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import Mechanism
from bacadi.model.noise import AbstractNoise, InferredNoise, of_functions, scale_free


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
    sampling, with the kernel where there are several: one pair for all variables, or with `per_node` one for each. ρ of
    a variable is then the one fitted over the square of one of the `widths` of the noise, averaged in every score.

    >>> GaussianProcess((RBF(0.5), RBF(2.0))).kernels[0].lengthscale
    0.5
    """

    kernels: tuple[AbstractKernel, ...] = tuple(Constant(1.0) + RBF(scale) for scale in (1.0, 2.0, 4.0))
    noise: AbstractNoise = of_functions()
    per_node: bool = False


def curves(linear: float, input_scale: float) -> AbstractKernel:
    """The covariance of an intercept and, for each parent, a line of variance `linear` and a network of one input."""
    return Constant(1.0) + LinearKernel(linear) + AdditiveKernel(NetworkKernel(input_scale=input_scale))


class AdditiveProcess(Mechanism):
    """x_j = b_j + Σ_{i in P} f_ij(x_i) + ε_j: a smooth function of each parent by itself, with f ~ GP(0, s_j² k).

    What a parent does then may bend and level off, and does not depend on the other parents. A function has so few
    features that a score costs what that of a linear mechanism does. By default it is a line and a network of a
    single input, whose covariance is one of `kernels`; ε_j ~ N(0, s_j² ρ) with ρ one of `ratios`, both chosen before
    sampling and the same for all variables. With `FixedNoise` s = 1 and ρ is its variance.

    >>> len(AdditiveProcess().kernels)
    3
    """

    kernels: tuple[AbstractKernel, ...] = (curves(0.01, 0.3), curves(1.0, 0.3), curves(1.0, 1.0))
    ratios: tuple[float, ...] = option((0.1, 1.0, 10.0), above=0)
    noise: AbstractNoise = InferredNoise(1.0, 0.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        for kernel in self.kernels:
            parts = kernel.parts if isinstance(kernel, Sum) else (kernel,)
            if not all(isinstance(part, Constant | LinearKernel | AdditiveKernel) for part in parts):
                raise ConfigError("Kernels of additive mechanisms have constant, linear and additive parts alone.")

    def straight(self) -> "AdditiveProcess":
        """Lines with the same priors, to tell what curves explain from what these priors do."""
        return self.replace(kernels=tuple(Constant(1.0) + LinearKernel(variance) for variance in (0.1, 1.0, 10.0)))


class AutoMechanism(Mechanism):
    """Lines, lines whose prior expects weak causes, or curves: chosen by evidence before sampling (`inference.auto`).

    The widths of `lines` are those of variables that are mostly determined by their direct causes. Where noise is most
    of everything, weights are no larger than its standard deviation, and a prior that is ten times as wide takes them
    for unlikely.

    >>> AutoMechanism().weak.noise.widths
    (0.05, 1.0, 30.0)
    """

    lines: ClassVar[LinearGaussian] = LinearGaussian()
    weak: ClassVar[LinearGaussian] = LinearGaussian(noise=scale_free().replace(widths=(0.05, 1.0, 30.0)))
    curves: ClassVar[AdditiveProcess] = AdditiveProcess()
