"""Effects in the collapsed reading: the states they add to a variable in a context, evidence and parameters."""

from collections.abc import Iterable
from functools import singledispatch
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import logsumexp

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.errors import NoClosedForm
from bacadi.evidence.collapsed import EffectKind, EffectStates
from bacadi.model import effects
from bacadi.model.certainty import NO_DRIFT, ContextDrift
from bacadi.model.effects import Effect, HardGaussian, hard_by_width, hard_log_evidence, moments

Power = Float[np.ndarray, " K"] | None
"""As how many a row of each context counts (`Coarsening.power`); None: as one."""


class EffectState(NamedTuple):
    """One state that an effect adds: see `EffectStates`."""

    name: str
    kind: EffectKind
    value: float = 0.0
    share: float = 1.0


def effect_states(
    effect: Effect, data: ContextData, drift: ContextDrift = NO_DRIFT, power: Power = None
) -> EffectStates:
    """All states of a variable in a context under an effect, the untouched mechanism first."""
    hard, none = hard_part(effect), np.zeros((data.n_contexts, data.n_variables))
    every = (EffectState("none", EffectKind.NONE), *states_of(effect))
    names, kinds, values, shares = zip(*every, strict=True)
    evidence = none if hard is None else hard_log_evidence(hard, moments(data, power))
    return EffectStates(
        names, np.array(kinds, np.int8), np.array(values, float), np.log(shares), evidence, drift, power
    )


@singledispatch
def states_of(effect: Effect) -> Iterable[EffectState]:
    """The states that an effect adds, with their shares; register a kind of your own here."""
    raise NoClosedForm(f"{type(effect).__name__} has no closed-form evidence; use method svgd with it.")


@states_of.register
def _(effect: HardGaussian) -> Iterable[EffectState]:
    return [EffectState("hard", EffectKind.HARD)]


@states_of.register
def _(effect: effects.SoftGaussian) -> Iterable[EffectState]:
    values = (*effect.spreads, *([0.0] if effect.renewed else []))
    names = [f"soft {value:g}" if value else "soft" for value in values]
    return [
        EffectState(name, EffectKind.SOFT, value, 1 / len(values)) for name, value in zip(names, values, strict=True)
    ]


@states_of.register
def _(effect: effects.ShiftGaussian) -> Iterable[EffectState]:
    share, stds = 1 / len(effect.widths), [width * effect.prior_std for width in effect.widths]
    return [EffectState(f"shift {std:g}" if share < 1 else "shift", EffectKind.SHIFT, std, share) for std in stds]


@states_of.register
def _(effect: effects.ScaleGaussian) -> Iterable[EffectState]:
    share = 1 / len(effect.ratios)
    return [EffectState(f"scale {ratio:g}", EffectKind.SCALE, ratio, share) for ratio in effect.ratios]


@states_of.register
def _(effect: effects.EffectMixture) -> Iterable[EffectState]:
    shares = effect.shares or (1 / len(effect.effects),) * len(effect.effects)
    parts = zip(effect.effects, shares, strict=True)
    return [state._replace(share=state.share * share) for part, share in parts for state in states_of(part)]


@states_of.register
def _(effect: effects.AutoEffect) -> Iterable[EffectState]:
    return states_of(effect.candidates[0])


def hard_part(effect: Effect) -> HardGaussian | None:
    """The hard effect that there is, on its own or in a mixture."""
    if isinstance(effect, effects.AutoEffect):
        effect = effect.candidates[0]
    parts = effect.effects if isinstance(effect, effects.EffectMixture) else (effect,)
    return next((part for part in parts if isinstance(part, HardGaussian)), None)


def draw_hard_effects(
    rng: np.random.Generator,
    effect: Effect,
    data: ContextData,
    n: int,
    power: Power = None,
    only: Bool[np.ndarray, "n M d"] | None = None,
) -> dict[str, Labelled]:
    """Means and noise of hard effects from p(μ, σ_I | D, targeted), n sets; nothing for the other kinds.

    They do not depend on the mechanism. The width of the prior comes first, then σ_I, then
    μ | σ_I ~ N(shrunken mean, σ_I² / (n_k + 1 / ratio)). With `only` they are drawn there, and 0 elsewhere.
    """
    hard = hard_part(effect)
    if hard is None:
        return {}
    sums, noise = moments(data, power), hard.noise.conjugate()
    offset = sums.mean - hard.mean_prior_mean
    ratios, by_width, log_p = hard_by_width(hard, sums)
    cumulative = np.cumsum(np.exp(log_p - logsumexp(log_p, axis=0)), axis=0)[:-1]
    dims, whole, count = ("context", "node"), (n, *offset.shape), np.broadcast_to(sums.n_rows, offset.shape)
    shape: tuple[int, ...] = whole
    if only is None:
        cumulative = cumulative[:, None]
    else:
        _, k, j = np.nonzero(only)
        count, offset, by_width, cumulative = (array[..., k, j] for array in (count, offset, by_width, cumulative))
        shape = offset.shape

    def labelled(values: Float[np.ndarray, "..."]) -> Labelled:
        if only is None:
            return Labelled(values.astype(np.float32), dims)
        spread = np.zeros(whole, np.float32)
        spread[only] = values
        return Labelled(spread, dims)

    width = (rng.random(shape) > cumulative).sum(axis=0)
    ratio = ratios[width, 0, 0]
    squares = np.take_along_axis(by_width, width if only is None else width[None], axis=0).reshape(shape)
    found = {}
    if noise.variance is None:
        std = np.sqrt((noise.scale + 0.5 * squares) / rng.gamma(noise.shape + 0.5 * count, size=shape))
        found["effect_noise_std"] = labelled(std)
    else:
        std = np.full(shape, noise.variance**0.5)
    precision = count + 1 / ratio
    mean = hard.mean_prior_mean + offset * count / precision + std / np.sqrt(precision) * rng.standard_normal(shape)
    return found | {"effect_mean": labelled(mean)}
