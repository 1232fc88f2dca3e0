"""What an intervention does to its target: p(x_j | parents, Θ_I) in place of the mechanism.

An effect is a choice: `evidence.effects` integrates every kind out, `relaxed.density` differentiates hard and soft.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import gammaln, logsumexp

from bacadi.config.choices import Choice, option
from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError
from bacadi.model.noise import LOG_2PI, AbstractNoise, InferredNoise


class Effect(Choice):
    """What a target follows in its context."""


class HardGaussian(Effect):
    """x_j ~ N(μ_kj, σ_I²), parents cut off, with μ_kj ~ N(mean_prior_mean, mean_prior_std²) (Appendix D.1).

    Beside an inferred noise the prior standard deviation is in units of u σ_I, u one of its `widths`.

    For SVGD alone: the paper does not say which density μ (and σ_I) of an untargeted variable has. With `pseudo_prior`
    it is p(μ, σ_I | x_k, targeted), the posterior had it been a target: then targeted and untargeted differ by the
    evidence ∫ p(x_k | μ, σ_I) p(μ, σ_I) alone, as if both had been integrated out, and particles start there. Without,
    the density is 1, as in the authors' code, and means start with a spread of `init_std` around 0.
    """

    noise: AbstractNoise = InferredNoise(1.0, 0.5, (1.0, 30.0))
    mean_prior_mean: float = 0.0
    mean_prior_std: float = option(10.0, above=0)
    pseudo_prior: bool = True
    init_std: float = option(0.1**0.5, above=0)


class SoftGaussian(Effect):
    """The parents stay and the mechanism changes: a target follows the same kind of mechanism with its own Θ.

    Θ_I is one Θ per context: with `renewed` drawn from the mechanism's prior, as if it were another mechanism, and for
    each of `spreads` v the usual one with coefficients changed by N(0, (vσ)²) and the same noise, all equally probable.
    Changes need coefficients, that is linear mechanisms or BGe in closed form; all others have their Θ renewed.
    """

    spreads: tuple[float, ...] = option((1.0,), above=0)
    renewed: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.spreads and not self.renewed:
            raise ConfigError("A soft effect without spreads draws its mechanism anew; set renewed or give spreads.")


class ShiftGaussian(Effect):
    """The mechanism stays and a constant is added: δ_kj ~ N(0, (u prior_std σ_j)²), integrated out, with u one of
    `widths`, each equally probable."""

    prior_std: float = option(5.0, above=0)
    widths: tuple[float, ...] = option((1.0, 30.0), above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.widths:
            raise ConfigError("widths is empty; give at least one number above 0.")


class ScaleGaussian(Effect):
    """The mechanism stays and its noise variance is multiplied by one of `ratios`, each equally probable."""

    ratios: tuple[float, ...] = option((1 / 16, 1 / 4, 4.0, 16.0), above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.ratios:
            raise ConfigError("ratios is empty; give at least one number above 0.")


class EffectMixture(Effect):
    """The kind of effect is unknown for every context and variable: one of `effects`, with probabilities `shares`.

    None for `shares` makes all kinds equally probable.

    >>> EffectMixture((HardGaussian(), SoftGaussian()), (0.7, 0.3)).shares
    (0.7, 0.3)
    """

    effects: tuple[Effect, ...] = (HardGaussian(), ShiftGaussian(), ScaleGaussian(), SoftGaussian())
    shares: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds, shares = [type(effect).__name__ for effect in self.effects], self.shares
        n = len(kinds)
        if shares is not None and (len(shares) != n or min(shares, default=0) <= 0 or not math.isclose(sum(shares), 1)):
            what = f"The shares of a mixture of {n} effects are {list(shares)}"
            raise ConfigError(f"{what}; give {n} numbers above 0 that add to 1.")
        if len(set(kinds)) < n:
            raise ConfigError(f"A mixture of effects names one kind twice ({', '.join(kinds)}); name each kind once.")


class AutoEffect(Effect):
    """The kind is left open: the one of `candidates` that explains the data best, or shifts alone where variances are
    no sign of a target. `inference.auto` chooses before sampling; SVGD and Gaussian processes take the first."""

    candidates: tuple[Effect, ...] = (HardGaussian(), ShiftGaussian(), SoftGaussian())

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.candidates:
            raise ConfigError("candidates is empty; name at least one kind of effect.")


class Moments(NamedTuple):
    """Number, mean and centred sum of squares of every variable in every context but the observational."""

    n_rows: Float[np.ndarray, "M d"]
    mean: Float[np.ndarray, "M d"]
    squares: Float[np.ndarray, "M d"]


def moments(data: ContextData, power: Float[np.ndarray, " K"] | None = None) -> Moments:
    """The sums that hard effects read of the data, each row of context k counting as `power[k]` rows and each cell as
    `data.weight` says."""
    count, mean, squares = np.zeros((3, data.n_contexts, data.n_variables))
    weights = np.ones(data.x.shape) if data.weight is None else data.weight
    for k, (block, weight) in enumerate(zip(data.by_context()[1:], data.by_context(weights)[1:], strict=True)):
        if len(block):
            count[k] = weight.sum(axis=0)
            mean[k] = (weight * block).sum(axis=0) / count[k]
            squares[k] = (weight * (block - mean[k]) ** 2).sum(axis=0)
    share = np.ones((data.n_contexts, 1)) if power is None else power[1:, None]
    return Moments(share * count, mean, share * squares)


def hard_log_evidence(effect: HardGaussian, sums: Moments) -> Float[np.ndarray, "M d"]:
    """log ∫ N(x_k | μ, σ_I²) p(μ, σ_I) dμ dσ_I, with σ_I fixed or inferred."""
    by_width = hard_by_width(effect, sums).log_evidence
    return logsumexp(by_width, axis=0) - np.log(len(by_width))


class HardByWidth(NamedTuple):
    """Of a hard effect, for each of the widths that the prior of its mean may have: the prior variance of the mean in
    units of σ_I², the sum of squares that is left, and the evidence."""

    ratio: Float[np.ndarray, "W 1 1"]
    squares: Float[np.ndarray, "W M d"]
    log_evidence: Float[np.ndarray, "W M d"]


def hard_by_width(effect: HardGaussian, sums: Moments) -> HardByWidth:
    """The evidence of hard effects in closed form, width by width."""
    noise = effect.noise.conjugate()
    ratio = np.square(noise.widths)[:, None, None] * effect.mean_prior_std**2 / (noise.variance or 1.0)
    count, offset = sums.n_rows, sums.mean - effect.mean_prior_mean
    squares = sums.squares + count * offset**2 / (1 + count * ratio)
    log_p = -0.5 * np.log1p(count * ratio) - 0.5 * count * LOG_2PI
    if noise.variance is not None:
        log_p = log_p - 0.5 * count * np.log(noise.variance) - 0.5 * squares / noise.variance
    else:
        shape = noise.shape + 0.5 * count
        log_p = log_p + noise.shape * np.log(noise.scale) - gammaln(noise.shape) + gammaln(shape)
        log_p = log_p - shape * np.log(noise.scale + 0.5 * squares)
    return HardByWidth(ratio, squares, log_p)
