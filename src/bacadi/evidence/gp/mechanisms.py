"""Networks and Gaussian processes as mechanisms: their kernels and noise, and which evidence reads them."""

from collections.abc import Sequence
from dataclasses import replace

from bacadi.data.contexts import ContextData
from bacadi.errors import NoClosedForm
from bacadi.evidence.collapsed import EffectStates
from bacadi.evidence.gp.evidence import AdditiveEvidence, DenseEvidence, KernelEvidence
from bacadi.evidence.gp.factor import NoisePrior
from bacadi.evidence.gp.features import FeatureEvidence
from bacadi.model.integrated import AdditiveProcess, GaussianProcess
from bacadi.model.kernels import AbstractKernel, Constant, NetworkKernel
from bacadi.model.neural import SIGMOID, NeuralGaussian

DENSE_ROWS = 200
"""Up to so many rows the covariance itself is factorised, which takes a run no longer than features do."""


def kernel_evidence(
    data: ContextData,
    states: EffectStates,
    kernels: Sequence[AbstractKernel],
    noise: NoisePrior,
    per_node: bool = False,
) -> KernelEvidence:
    """The evidence of processes over one of the kernels: dense for few rows, where the model asks for no more."""
    plain = not states.drift.is_any and states.power is None and data.block is None and data.weight is None
    evidence = DenseEvidence if plain and data.n_rows <= DENSE_ROWS else FeatureEvidence
    return evidence(data, states, kernels, noise, per_node)


def gaussian_process_evidence(mechanism: GaussianProcess, data: ContextData, states: EffectStates) -> KernelEvidence:
    """The evidence of Gaussian processes over one of the mechanism's kernels."""
    noise = NoisePrior(*mechanism.noise.conjugate())
    return kernel_evidence(data, states, mechanism.kernels, noise, mechanism.per_node)


def additive_process_evidence(mechanism: AdditiveProcess, data: ContextData, states: EffectStates) -> AdditiveEvidence:
    """The evidence of sums of functions of single parents."""
    noise = NoisePrior(*mechanism.noise.conjugate(), mechanism.ratios)
    return AdditiveEvidence(data, states, mechanism.kernels, noise)


def network_evidence(mechanism: NeuralGaussian, data: ContextData, states: EffectStates) -> KernelEvidence:
    """Networks of one hidden layer of sigmoids, integrated out as the Gaussian process of their own covariance.

    Beside an inferred noise the inputs have one of the mechanism's `input_scales`. Without them columns are in the
    units of the prior, and ρ = scale / shape: at the mean precision of the noise, functions have their prior variance.
    """
    if len(mechanism.hidden) != 1 or mechanism.activation != SIGMOID:
        raise NoClosedForm(
            "Only networks of one hidden layer of sigmoid units have a closed-form covariance; "
            "use those, a GaussianProcess, or method svgd."
        )
    network = NetworkKernel(mechanism.hidden[0], mechanism.prior_std)
    noise = NoisePrior(*mechanism.noise.conjugate())
    scales = mechanism.input_scales if noise.variance is None else None
    if scales is None:
        noise = replace(noise, ratios=(noise.scale / noise.shape,))
    networks = [replace(network, input_scale=scale) for scale in scales or (1.0,)]
    kernels = [Constant(1.0) + kernel if not mechanism.keeps_origin else kernel for kernel in networks]
    return kernel_evidence(data, states, kernels, noise)
