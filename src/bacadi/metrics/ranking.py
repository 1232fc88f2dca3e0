"""How well probabilities of edges and targets rank the true ones first.

Average precision is the measure of this project; the trapezoid under the precision-recall curve is the paper's AUPRC,
which interpolates linearly and gives an empty answer (1 + prevalence) / 2.
"""

import numpy as np
from jaxtyping import Bool, Float, Shaped

from bacadi.errors import DataError

# Scores that differ by less than this share of themselves are equal.
TIE = 1e-12


def prevalence(truth: Shaped[np.ndarray, "d d"]) -> float:
    """The share of true edges among all ordered pairs i ≠ j: what a random ranking scores as average precision.

    Not a number for a single variable, which has no pair.

    >>> prevalence(np.array([[0, 1], [0, 0]]))
    0.5
    """
    pairs = _off_diagonal(truth)
    return float((pairs != 0).mean()) if len(pairs) else float("nan")


def average_precision(scores: Float[np.ndarray, "d d"], truth: Shaped[np.ndarray, "d d"]) -> float:
    """Average precision of edge scores off the diagonal: AP = Σ_t (recall_t - recall_{t-1}) precision_t.

    Not a number if there is no true edge.

    >>> truth = np.array([[0, 1], [0, 0]])
    >>> average_precision(np.array([[0.0, 0.2], [0.7, 0.0]]), truth)
    0.5
    """
    return _step_area(_off_diagonal(scores), _off_diagonal(truth) != 0)


def edge_auprc(probabilities: Float[np.ndarray, "d d"], truth: Shaped[np.ndarray, "d d"]) -> float:
    """The paper's AUPRC of edges: the trapezoid under the precision-recall curve over all d² entries.

    >>> truth = np.array([[0, 1], [0, 0]])
    >>> edge_auprc(np.zeros((2, 2)), truth), edge_auprc(truth.astype(float), truth)
    (0.625, 1.0)
    """
    return _trapezoid_area(probabilities.ravel(), truth.ravel() != 0)


def target_prevalence(truth: Shaped[np.ndarray, "m d"]) -> float:
    """The share of true targets among all contexts and variables: what a random ranking scores as average precision.

    Not a number if there is no context.

    >>> target_prevalence(np.eye(2))
    0.5
    """
    return float((truth != 0).mean()) if truth.size else float("nan")


def top_target_accuracy(probabilities: Float[np.ndarray, "m d"], truth: Shaped[np.ndarray, "m d"]) -> float:
    """The share of contexts whose most probable variable is a true target, contexts without targets left out.

    Of several equally probable variables one is taken at random, so the context counts the share of targets in them.
    Not a number if no context has a target.

    >>> top_target_accuracy(np.array([[0.9, 0.1], [0.5, 0.5]]), np.eye(2))
    0.75
    """
    hit = truth.any(axis=1)
    if not hit.any():
        return float("nan")
    top = probabilities[hit] >= (1 - TIE) * probabilities[hit].max(axis=1, keepdims=True)
    return float(((top & (truth[hit] != 0)).sum(axis=1) / top.sum(axis=1)).mean())


def target_average_precision(scores: Float[np.ndarray, "m d"], truth: Shaped[np.ndarray, "m d"]) -> float:
    """Average precision of target scores over all contexts and variables; not a number if there is no target.

    >>> target_average_precision(np.array([[0.9, 0.1], [0.2, 0.8]]), np.eye(2))
    1.0
    """
    return _step_area(scores.ravel(), truth.ravel() != 0)


def target_auprc(probabilities: Float[np.ndarray, "m d"], truth: Shaped[np.ndarray, "m d"]) -> float:
    """The paper's INTV-AUPRC: the trapezoid under the precision-recall curve over all contexts and variables.

    >>> target_auprc(np.zeros((2, 2)), np.eye(2))
    0.75
    """
    return _trapezoid_area(probabilities.ravel(), truth.ravel() != 0)


def _off_diagonal(matrix: Shaped[np.ndarray, "d d"]) -> Shaped[np.ndarray, " n"]:
    return matrix[~np.eye(len(matrix), dtype=bool)]


def _curve(scores: Float[np.ndarray, " n"], truth: Bool[np.ndarray, " n"]) -> Float[np.ndarray, "2 t"]:
    """Precision and recall at each distinct score from high to low, after the start (precision 1, recall 0)."""
    if np.isnan(scores).any():
        raise DataError("A score is not a number, so the entries cannot be ranked; give a probability for every entry.")
    if not truth.any():
        return np.full((2, 2), np.nan)
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    # Equal scores enter together: only the last of a run of ties is a point of the curve. Sums of the same weights in
    # another order differ in the last bits and are ties too.
    ends = np.append(np.flatnonzero(ranked[:-1] - ranked[1:] > TIE * np.abs(ranked[:-1])), len(scores) - 1)
    hits = np.cumsum(truth[order])[ends]
    return np.stack([np.append(1.0, hits / (ends + 1)), np.append(0.0, hits / hits[-1])])


def _step_area(scores: Float[np.ndarray, " n"], truth: Bool[np.ndarray, " n"]) -> float:
    precision, recall = _curve(scores, truth)
    return float(np.diff(recall) @ precision[1:])


def _trapezoid_area(scores: Float[np.ndarray, " n"], truth: Bool[np.ndarray, " n"]) -> float:
    return float(np.trapezoid(*_curve(scores, truth)))
