"""What an intervention does to its target: p(x_j | parents, Θ_I) in place of the mechanism.

An effect is a choice: `evidence.effects` integrates every kind out, `relaxed.density` differentiates hard and soft.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from bacadi.config.choices import Choice, option
from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError
from bacadi.model.noise import AbstractNoise, InferredNoise


class Effect(Choice):
    """What a target follows in its context."""


class HardGaussian(Effect):
    """x_j ~ N(μ_kj, σ_I²), parents cut off, with μ_kj ~ N(mean_prior_mean, mean_prior_std²) (Appendix D.1).

    Beside an inferred noise the prior standard deviation is in units of u σ_I, u one of its `widths`.

    For SVGD alone: the paper does not say which density the mean of an untargeted variable has. With `pseudo_prior` it
    follows p(μ | x_k, targeted), its posterior had it been a target: then targeted and untargeted differ by the
    evidence ∫ p(x_k | μ) p(μ) dμ alone, as if μ had been integrated out, and means start from that posterior. Without,
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
