"""Held-out interventional likelihood (I-NLL of the appendix): targets and effects of the held-out contexts are known.

All functions read `log_p[l, n]`, the log density of held-out row n under draw l: see `bacadi.metrics.predictive`.
"""

import numpy as np
from jaxtyping import Float, Int, Int8
from scipy.special import logsumexp

from bacadi.errors import DataError
from bacadi.simulate.effects import Effects

LOG_2PI = float(np.log(2 * np.pi))


def interventional_nll(
    log_p: Float[np.ndarray, "draws n"], weights: Float[np.ndarray, " draws"], context: Int[np.ndarray, " n"]
) -> float:
    """The paper's I-NLL = -1/K Σ_k 1/n_k Σ_{n in k} Σ_l w_l log p(x_n | draw l): a mean over contexts, per sample.

    It asks every draw to be good: a draw of weight .01 that rules out a row can outweigh all others.

    >>> interventional_nll(np.array([[-1.0, -3.0], [-2.0, -2.0]]), np.array([0.5, 0.5]), np.array([1, 2]))
    2.0
    """
    weights, log_p = _with_weight(weights, log_p)
    return -_mean_over_contexts(weights @ log_p, context)


def predictive_nll(
    log_p: Float[np.ndarray, "draws n"], weights: Float[np.ndarray, " draws"], context: Int[np.ndarray, " n"]
) -> float:
    """The same with the logarithm outside: -1/K Σ_k 1/n_k Σ_{n in k} log Σ_l w_l p(x_n | draw l).

    It scores the prediction that the draws make together, and is never larger than `interventional_nll`.

    >>> round(np.exp(-predictive_nll(np.log([[0.2], [0.6]]), np.array([0.5, 0.5]), np.array([1]))).item(), 6)
    0.4
    """
    weights, log_p = _with_weight(weights, log_p)
    return -_mean_over_contexts(logsumexp(log_p + np.log(weights)[:, None], axis=0), context)


def effect_log_density(
    x: Float[np.ndarray, "n d"], context: Int[np.ndarray, " n"], effects: Effects
) -> Float[np.ndarray, "n d"]:
    """log N(x_nj | shift_kj, std_kj²) where j is the target of a hard effect with noise in the row's context, else 0.

    A point mass (a knocked-out gene) has no density and an effect that keeps the parents is no density of its own, so
    those targets count for nothing, alike for all methods.
    """
    hard = (effects.targets != 0) & ~effects.keeps_parents & (effects.std > 0)
    std = np.where(hard, effects.std, 1.0)
    log_p = np.zeros(x.shape)
    rows, k = context > 0, context[context > 0] - 1
    standard = (x[rows] - effects.shift[k]) / std[k]
    log_p[rows] = np.where(hard[k], -0.5 * (LOG_2PI + standard**2) - np.log(std[k]), 0.0)
    return log_p


def untargeted(context: Int[np.ndarray, " n"], targets: Int8[np.ndarray, "m d"]) -> Float[np.ndarray, "n d"]:
    """1 where a variable is no target in the context of the row; context 0 has no targets and row k - 1 is context k.

    >>> untargeted(np.array([0, 2, 1]), np.array([[1, 0], [0, 1]], dtype=np.int8)).tolist()
    [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """
    hit = np.vstack([np.zeros((1, targets.shape[1])), targets != 0])
    return 1.0 - hit[context]


def _with_weight(
    weights: Float[np.ndarray, " draws"], log_p: Float[np.ndarray, "draws n"]
) -> tuple[Float[np.ndarray, " kept"], Float[np.ndarray, "kept n"]]:
    """Normalised weights of the draws that have one: 0 times a density of 0 is nothing, not undefined."""
    if not (weights >= 0).all() or not weights.sum() > 0:
        raise DataError("The weights of the draws are negative, not numbers or all zero; give one weight >= 0 a draw.")
    kept = weights > 0
    return weights[kept] / weights.sum(), log_p[kept]


def _mean_over_contexts(values: Float[np.ndarray, " n"], context: Int[np.ndarray, " n"]) -> float:
    _, inverse, counts = np.unique(context, return_inverse=True, return_counts=True)
    if not len(counts):
        raise DataError("There are no held-out rows, so a likelihood is not defined; give held-out data.")
    return float((np.bincount(inverse.ravel(), weights=values) / counts).mean())
