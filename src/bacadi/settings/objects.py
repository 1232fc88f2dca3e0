"""From settings to the objects of the core; equal settings give objects that are equal to JIT."""

from functools import lru_cache

import jax
import optax

from bacadi.inference.estimators import AbstractEstimator, BlockwiseEstimator, MarginalEstimator, RelaxedEstimator
from bacadi.inference.kernels import FOUR_TERMS, THREE_TERMS, AdditiveRBF, Bandwidths, ProductRBF
from bacadi.inference.readings import AbstractReading, FiniteReading, LimitReading
from bacadi.inference.svgd import SVGD, Ramp, rmsprop
from bacadi.model.acyclicity import AbstractExpectedAcyclicity, AcyclicityOfProbs, SampledAcyclicity
from bacadi.model.bge import BGe
from bacadi.model.effect import AbstractEffect, HardGaussian, SoftGaussian
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import AnyMechanism
from bacadi.model.model import Model
from bacadi.model.neural import NeuralGaussian
from bacadi.model.noise import AbstractNoise, FixedNoise, InferredNoise
from bacadi.model.priors import AbstractGraphPrior, ErdosRenyi, LatentPrior, ScaleFree, TargetPrior, UniformGraph
from bacadi.posterior import weights
from bacadi.settings.schema import ModelSettings, Settings, SVGDSettings

adam = lru_cache(optax.adam)
sgd = lru_cache(optax.sgd)

_OPTIMIZERS = {"rmsprop": rmsprop, "adam": adam, "sgd": sgd}
_WEIGHTS = {"posterior": weights.posterior, "tempered": weights.tempered, "uniform": weights.uniform}
_ACTIVATIONS = {
    "sigmoid": jax.nn.sigmoid,
    "tanh": jax.nn.tanh,
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "softplus": jax.nn.softplus,
}
_KERNELS = {"additive": AdditiveRBF, "product": ProductRBF}
_TERMS = {3: THREE_TERMS, 4: FOUR_TERMS}


def build(settings: Settings) -> tuple[Model, SVGD]:
    """The model and the method that the settings stand for.

    >>> model, method = build(Settings())
    >>> type(model.mechanism).__name__, method.n_particles
    ('LinearGaussian', 20)
    """
    return _model(settings.model), _svgd(settings.svgd)


def _model(chosen: ModelSettings) -> Model:
    return Model(
        mechanism=_mechanism(chosen),
        effect=_effect(chosen),
        graph_prior=_graph_prior(chosen),
        target_prior=TargetPrior(
            sparsity=chosen.sparsity, gamma_std=chosen.gamma_std, change_of_variables=chosen.change_of_variables
        ),
        latent_prior=LatentPrior(None if isinstance(chosen.z_std, str) else chosen.z_std),
    )


def _noise(std: float | str) -> AbstractNoise:
    return InferredNoise() if isinstance(std, str) else FixedNoise(std)


def _mechanism(chosen: ModelSettings) -> AnyMechanism:
    if chosen.mechanism == "bge":
        return BGe(alpha_mu=chosen.alpha_mu, alpha_omega_excess=chosen.alpha_omega_excess)
    noise = _noise(chosen.noise_std)
    if chosen.mechanism == "linear":
        return LinearGaussian(
            noise=noise,
            weight_prior_std=chosen.weight_std,
            intercept_prior_std=chosen.intercept_std if chosen.intercept else None,
            mask_prior=chosen.mask_prior,
        )
    return NeuralGaussian(
        hidden=chosen.hidden,
        activation=_ACTIVATIONS[chosen.activation],
        noise=noise,
        prior_std=chosen.weight_std,
        mask_prior=chosen.mask_prior,
    )


def _effect(chosen: ModelSettings) -> AbstractEffect:
    if chosen.effect == "soft":
        return SoftGaussian()
    return HardGaussian(
        noise=_noise(chosen.effect_noise_std),
        mean_prior_mean=chosen.effect_mean,
        mean_prior_std=chosen.effect_mean_std,
        pseudo_prior=chosen.pseudo_prior,
    )


def _graph_prior(chosen: ModelSettings) -> AbstractGraphPrior:
    if chosen.graph_prior == "er":
        return ErdosRenyi(chosen.edges_per_node)
    return ScaleFree(chosen.exponent) if chosen.graph_prior == "sf" else UniformGraph()


def _svgd(chosen: SVGDSettings) -> SVGD:
    expected: AbstractExpectedAcyclicity = AcyclicityOfProbs()
    if chosen.acyclicity == "sampled":
        expected = SampledAcyclicity(chosen.acyclicity_samples, chosen.acyclicity_temperature)
    return SVGD(
        n_particles=chosen.particles,
        n_steps=chosen.steps,
        estimator=_estimator(chosen),
        kernel=_KERNELS[chosen.kernel](_bandwidths(chosen), _TERMS[chosen.kernel_terms]),
        alpha=Ramp(chosen.alpha),
        beta=Ramp(chosen.beta),
        expected_acyclicity=expected,
        optimizer=_OPTIMIZERS[chosen.optimizer](chosen.learning_rate),
        latent_dim=None if isinstance(chosen.latent_dim, str) else chosen.latent_dim,
        reading=_reading(chosen),
        weighting=_WEIGHTS[chosen.weights],
        double=chosen.double,
    )


def _estimator(chosen: SVGDSettings) -> AbstractEstimator:
    if chosen.estimator == "marginal":
        return MarginalEstimator(chosen.samples)
    kind = RelaxedEstimator if chosen.estimator == "relaxed" else BlockwiseEstimator
    return kind(chosen.samples, chosen.temperature, chosen.by_column)


def _reading(chosen: SVGDSettings) -> AbstractReading:
    if chosen.reading == "finite":
        return FiniteReading(chosen.reading_draws, chosen.reading_candidates)
    return LimitReading()


def _bandwidths(chosen: SVGDSettings) -> Bandwidths:
    def tau(value: float | str) -> float | None:
        return None if isinstance(value, str) else value

    return Bandwidths(
        tau(chosen.bandwidth_z),
        tau(chosen.bandwidth_gamma),
        tau(chosen.bandwidth_theta),
        tau(chosen.bandwidth_theta_int),
    )
