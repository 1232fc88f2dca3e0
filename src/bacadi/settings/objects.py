"""From settings to the objects of the core; equal settings give objects that are equal to JIT."""

from collections.abc import Callable
from functools import lru_cache

import optax

from bacadi.inference.exact import Exact
from bacadi.inference.fit import Method
from bacadi.inference.mcmc.method import MCMC, MoveWeights
from bacadi.inference.svgd.estimators import (
    AbstractEstimator,
    AbstractReading,
    BlockwiseEstimator,
    ChainReading,
    FiniteReading,
    GibbsEstimator,
    LimitReading,
    MarginalEstimator,
    RelaxedEstimator,
)
from bacadi.inference.svgd.kernel import FOUR_TERMS, THREE_TERMS, AdditiveRBF, Bandwidths, ProductRBF
from bacadi.inference.svgd.method import SVGD, Ramp, Tempered, rmsprop
from bacadi.model.model import Model
from bacadi.posterior import weights
from bacadi.relaxed.latent import AbstractExpectedAcyclicity, AcyclicityOfProbs, SampledAcyclicity
from bacadi.settings.objects_model import build_model, present
from bacadi.settings.schema import Settings
from bacadi.settings.sections import ExactSettings, MCMCSettings, SVGDSettings

adam = lru_cache(optax.adam)
sgd = lru_cache(optax.sgd)

_OPTIMIZERS = {"rmsprop": rmsprop, "adam": adam, "sgd": sgd}
_WEIGHTS = {"posterior": weights.posterior, "uniform": weights.uniform}
_KERNELS = {"additive": AdditiveRBF, "product": ProductRBF}
_TERMS = {3: THREE_TERMS, 4: FOUR_TERMS}
_MOVE = "move_"


def build(settings: Settings) -> tuple[Model, Method]:
    """The model and the method that the settings stand for.

    >>> model, method = build(Settings())
    >>> type(model.mechanism).__name__, method.n_particles
    ('LinearGaussian', 20)
    """
    return build_model(settings.model), _BUILDERS[settings.method](settings)


_BUILDERS: dict[str, Callable[[Settings], Method]] = {
    "svgd": lambda settings: _svgd(settings.svgd),
    "mcmc": lambda settings: _mcmc(settings.mcmc),
    "exact": lambda settings: _exact(settings.exact),
}


def _mcmc(chosen: MCMCSettings) -> MCMC:
    moves = {key.removeprefix(_MOVE): value for key, value in vars(chosen).items() if key.startswith(_MOVE)}
    return MCMC(
        n_draws=chosen.draws,
        n_replicas=chosen.replicas,
        n_sweeps=present(chosen.sweeps),
        burn_in=chosen.burn_in,
        n_levels=present(chosen.levels),
        max_temperature=present(chosen.max_temperature),
        moves_per_sweep=present(chosen.moves_per_sweep),
        max_parents=present(chosen.max_parents),
        time_budget=present(chosen.time_budget),
        weights=MoveWeights(**moves),
    )


def _exact(chosen: ExactSettings) -> Exact:
    return Exact(n_draws=chosen.draws, max_pairs=chosen.max_pairs)


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
        latent_dim=present(chosen.latent_dim),
        reading=_reading(chosen),
        weighting=Tempered(chosen.weight_share) if chosen.weights == "tempered" else _WEIGHTS[chosen.weights],
        collapsed=chosen.collapsed,
        target_sweeps=chosen.target_sweeps,
        double=chosen.double,
    )


def _estimator(chosen: SVGDSettings) -> AbstractEstimator:
    if chosen.estimator == "marginal":
        return MarginalEstimator(chosen.samples)
    if chosen.estimator == "gibbs":
        return GibbsEstimator(chosen.chains, chosen.sweeps, chosen.acyclic_chains, present(chosen.cold_alpha))
    kind = RelaxedEstimator if chosen.estimator == "relaxed" else BlockwiseEstimator
    return kind(chosen.samples, chosen.temperature, chosen.by_column)


def _reading(chosen: SVGDSettings) -> AbstractReading:
    if chosen.reading == "finite":
        return FiniteReading(chosen.reading_draws, chosen.reading_candidates)
    return ChainReading() if chosen.reading == "chains" else LimitReading()


def _bandwidths(chosen: SVGDSettings) -> Bandwidths:
    return Bandwidths(
        present(chosen.bandwidth_z),
        present(chosen.bandwidth_gamma),
        present(chosen.bandwidth_theta),
        present(chosen.bandwidth_theta_int),
    )
