"""From the section `[model]` to the model."""

from collections.abc import Callable
from typing import Any

import jax

from bacadi.model.bge import BGe
from bacadi.model.effect import AbstractEffect, EffectMixture, HardGaussian, ScaleGaussian, ShiftGaussian, SoftGaussian
from bacadi.model.gaussian_process import GaussianProcess
from bacadi.model.kernels import RBF, AdditiveKernel, Constant
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import AnyMechanism
from bacadi.model.model import Model
from bacadi.model.neural import OWN_UNIT_SCALES, NeuralGaussian
from bacadi.model.noise import AbstractNoise, FixedNoise, InferredNoise
from bacadi.model.priors import (
    AbstractGraphPrior,
    ErdosRenyi,
    LatentPrior,
    OrderedErdosRenyi,
    PreferentialAttachment,
    ScaleFree,
    TargetPrior,
    UniformGraph,
)
from bacadi.settings.sections import MIXED, ModelSettings

_BY_EDGES: dict[str, Callable[[float], AbstractGraphPrior]] = {
    "er": ErdosRenyi,
    "ordered": OrderedErdosRenyi,
    "attachment": PreferentialAttachment,
}
_ACTIVATIONS = {
    "sigmoid": jax.nn.sigmoid,
    "tanh": jax.nn.tanh,
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "softplus": jax.nn.softplus,
}
_SMOOTH_KERNELS = {"rbf": RBF, "additive": AdditiveKernel}


def build_model(chosen: ModelSettings) -> Model:
    """The model that the section stands for.

    >>> type(build_model(ModelSettings(effect="any")).effect).__name__
    'EffectMixture'
    """
    return Model(
        mechanism=_mechanism(chosen),
        effect=_effect(chosen, chosen.effect),
        graph_prior=_graph_prior(chosen),
        target_prior=TargetPrior(
            sparsity=chosen.sparsity, gamma_std=chosen.gamma_std, change_of_variables=chosen.change_of_variables
        ),
        latent_prior=LatentPrior(present(chosen.z_std)),
        own_units=chosen.units == "own",
    )


def present(value: Any) -> Any:
    """None for the words that stand for it."""
    return None if isinstance(value, str) else value


def _noise(std: float | str, shape: float, scale: float) -> AbstractNoise:
    return InferredNoise(shape, scale) if isinstance(std, str) else FixedNoise(std)


def _mechanism(chosen: ModelSettings) -> AnyMechanism:
    if chosen.mechanism == "bge":
        return BGe(alpha_mu=chosen.alpha_mu, alpha_omega_excess=chosen.alpha_omega_excess)
    noise = _noise(chosen.noise_std, chosen.noise_shape, chosen.noise_scale)
    if chosen.mechanism == "linear":
        return LinearGaussian(
            noise=noise,
            weight_prior_std=chosen.weight_std,
            intercept_prior_std=chosen.intercept_std if chosen.intercept else None,
            absent_ratio=present(chosen.absent_ratio),
        )
    if chosen.kernel != "network":
        kernels = tuple(_SMOOTH_KERNELS[chosen.kernel](scale) for scale in chosen.lengthscales)
        return GaussianProcess(tuple(Constant(1.0) + k for k in kernels) if chosen.intercept else kernels, noise)
    return NeuralGaussian(
        hidden=chosen.hidden,
        activation=_ACTIVATIONS[chosen.activation],
        noise=noise,
        prior_std=chosen.weight_std,
        absent_ratio=present(chosen.absent_ratio),
        intercept=chosen.intercept,
        input_scales=OWN_UNIT_SCALES if chosen.units == "own" else None,
    )


def _effect(chosen: ModelSettings, kind: str) -> AbstractEffect:
    if kind == "any":
        return EffectMixture(tuple(_effect(chosen, each) for each in MIXED), chosen.shares)
    if kind == "soft":
        return SoftGaussian()
    if kind == "shift":
        return ShiftGaussian(chosen.shift_std)
    if kind == "scale":
        return ScaleGaussian(chosen.scale_ratios)
    return HardGaussian(
        noise=_noise(chosen.effect_noise_std, chosen.effect_noise_shape, chosen.effect_noise_scale),
        mean_prior_mean=chosen.effect_mean,
        mean_prior_std=chosen.effect_mean_std,
        pseudo_prior=chosen.pseudo_prior,
    )


def _graph_prior(chosen: ModelSettings) -> AbstractGraphPrior:
    if chosen.graph_prior == "uniform":
        return UniformGraph()
    if chosen.graph_prior == "sf":
        return ScaleFree(chosen.exponent)
    return _BY_EDGES[chosen.graph_prior](chosen.edges_per_node)
