"""Mechanisms as Gaussian processes: smooth functions of the parents, integrated out; for mcmc and exact alone."""

from typing import NoReturn

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError
from bacadi.evidence.collapsed import AbstractEvidence, States
from bacadi.model.kernels import RBF, AbstractKernel, Constant
from bacadi.model.mechanism import AbstractMarginalMechanism
from bacadi.model.noise import AbstractNoise, InferredNoise


class GaussianProcess(AbstractMarginalMechanism):
    """x_j = f_j(parents) + ε_j with f_j ~ GP(0, s_j² k) and ε_j ~ N(0, s_j² ρ_j), over one of the `kernels`.

    With `FixedNoise` s = 1 and ρ is its variance; with `InferredNoise` s² is integrated out and ρ fitted before
    sampling, with the kernel where there are several: one pair for all variables, or with `per_node` one for each.

    >>> GaussianProcess((RBF(0.5), RBF(2.0))).kernels[0].lengthscale
    0.5
    """

    kernels: tuple[AbstractKernel, ...] = (Constant(1.0) + RBF(),)
    noise: AbstractNoise = InferredNoise(1.0, 0.5)
    per_node: bool = False

    # What follows moves to the dispatch in evidence/.
    def evidence(self, data: ContextData, states: States) -> AbstractEvidence:
        from bacadi.evidence.gp.evidence import gaussian_process_evidence

        return gaussian_process_evidence(self, data, states)

    def prepare(self, data: ContextData, dtype: jnp.dtype) -> PyTree:
        self._refuse()

    def log_evidence(
        self, graphs: Float[Array, "d S d"], keep: Float[Array, "K S d"], statistics: PyTree
    ) -> Float[Array, "S d"]:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ConfigError(
            "A GaussianProcess is integrated out and has no parameters for SVGD; use method mcmc or exact with it, "
            "or NeuralGaussian with SVGD."
        )
