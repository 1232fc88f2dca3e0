"""Mechanisms as Gaussian processes: smooth functions of the parents, integrated out; for mcmc and exact alone."""

from bacadi.model.kernels import RBF, AbstractKernel, Constant
from bacadi.model.mechanism import Mechanism
from bacadi.model.noise import AbstractNoise, InferredNoise


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
