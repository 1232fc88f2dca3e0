"""From the unnormalised log posterior of every draw to normalised log weights.

A draw whose `log_p` is minus infinity is left out by every function here. Draws of a sampler (MCMC) occur as often as
they are probable and need `uniform`; particles are not a sample and need `posterior` (the paper) or, because a
difference of a few hundred nats between particles leaves all the weight on one of them, `tempered`.
"""

import numpy as np
from jaxtyping import Float

from bacadi.config.choices import Choice, option
from bacadi.errors import ConfigError, InferenceError

_BISECTION_STEPS = 60


def log_sum_exp(log_p: Float[np.ndarray, "..."]) -> float:
    """log sum_i exp(log_p_i) over all entries, safe against overflow; minus infinity if every entry is.

    >>> round(log_sum_exp(np.log([0.25, 0.75])), 12) + 0.0
    0.0
    """
    top = float(np.max(log_p, initial=-np.inf))
    return top + float(np.log(np.sum(np.exp(log_p - top)))) if np.isfinite(top) else top


def posterior(log_p: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The weights of the paper, w_i = p_i / sum_l p_l, as logarithms.

    >>> np.exp(posterior(np.log([1.0, 3.0]))).round(2).tolist()
    [0.25, 0.75]
    """
    log_p = _checked(log_p)
    return log_p - log_sum_exp(log_p)


def uniform(log_p: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The same weight 1 / n for each of the n draws that are not left out.

    >>> np.exp(uniform(np.array([-5.0, -np.inf, -900.0]))).round(2).tolist()
    [0.5, 0.0, 0.5]
    """
    kept = np.isfinite(_checked(log_p))
    return np.where(kept, -np.log(kept.sum()), -np.inf)


def tempered(log_p: Float[np.ndarray, "..."], temperature: float | None = None) -> Float[np.ndarray, "..."]:
    """Flattened weights, w_i proportional to p_i^(1 / T); T = 1 is `posterior`, T = infinity is `uniform`.

    Without a temperature, `pick_temperature` chooses it.

    >>> np.exp(tempered(np.log([1.0, 9.0]), 2.0)).round(2).tolist()
    [0.25, 0.75]
    """
    log_p = _checked(log_p)
    temperature = pick_temperature(log_p) if temperature is None else temperature
    if not temperature > 0:
        raise ConfigError(f"The temperature of the weights is {temperature}; give a number above 0 (1: no tempering).")
    return uniform(log_p) if np.isinf(temperature) else posterior(log_p / temperature)


def effective_sample_size(log_weight: Float[np.ndarray, "..."]) -> float:
    """The number of equally weighted draws that normalised weights are worth, 1 / sum_i w_i^2.

    >>> round(effective_sample_size(np.log([0.5, 0.5])), 9)
    2.0
    """
    return float(np.exp(-log_sum_exp(2 * np.asarray(log_weight))))


def pick_temperature(log_p: Float[np.ndarray, "..."], fraction: float = 0.5) -> float:
    """The smallest T >= 1 whose weights have an effective sample size of at least `fraction` of the draws kept.

    The effective sample size never falls when T rises (its logarithm has a derivative of one sign, because the mean
    of log p under w^2 is at least the mean under w), so bisection on log T finds the value.

    >>> pick_temperature(np.log([0.5, 0.5]))
    1.0
    """
    if not 0 < fraction < 1:
        raise ConfigError(f"The fraction of draws to keep effective is {fraction}; give a number between 0 and 1.")
    log_p = _checked(log_p)
    wanted = fraction * np.isfinite(log_p).sum()

    def enough(temperature: float) -> bool:
        return bool(effective_sample_size(posterior(log_p / temperature)) >= wanted)

    if enough(1.0):
        return 1.0
    low, high = 1.0, 2.0
    while not enough(high):
        low, high = high, 2 * high
    for _ in range(_BISECTION_STEPS):
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if enough(middle) else (middle, high)
    return float(high)


class Tempered(Choice):
    """Weights flattened to p^(1/T), T ≥ 1 the smallest at which as many draws count as `share` of the particles.

    Rows of `log_p` are particles. Draws count by their effective number 1 / Σ w², whether a particle is read as one
    draw or as many.

    >>> np.exp(Tempered(0.5)(np.log([[1.0, 1.0], [1.0, 1.0]]))).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """

    share: float = option(0.5, above=0)

    def __call__(self, log_p: Float[np.ndarray, "L S"]) -> Float[np.ndarray, "L S"]:
        kept = np.isfinite(log_p)
        if not kept.any():
            return posterior(log_p)  # which says so
        fraction = self.share * kept.any(axis=1).sum() / kept.sum()
        return tempered(log_p, pick_temperature(log_p, fraction))


def _checked(log_p: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    log_p = np.asarray(log_p, dtype=np.float64)
    if (bad := np.isnan(log_p) | (log_p == np.inf)).any():
        raise InferenceError(
            f"The log posterior of draw {np.flatnonzero(bad)[0]} is not a number or infinite; "
            "standardise the data or lower the step size."
        )
    if not np.isfinite(log_p).any():
        raise InferenceError(
            f"None of the {log_p.size} draws has a posterior above 0, so they cannot be weighted; "
            "use more steps or more particles."
        )
    return log_p
