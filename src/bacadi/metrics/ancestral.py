"""Who influences whom, directly or not: the same yardsticks on ancestors in place of parents."""

import numpy as np
from jaxtyping import Float, Shaped

from bacadi.graph import transitive_closure
from bacadi.metrics.structure import structural_hamming_distance, weighted_mean


def ancestor_probabilities(
    graphs: Shaped[np.ndarray, "n d d"], weights: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "d d"]:
    """p(i is an ancestor of j) = Σ_n w_n [i ⇝ j in G_n] / Σ_n w_n, to be ranked by `average_precision`.

    >>> chain = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    >>> ancestor_probabilities(np.stack([chain, 0 * chain]), np.array([0.5, 0.5])).tolist()
    [[0.0, 0.5, 0.5], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]]
    """
    return np.einsum("n,nij->ij", weights / weights.sum(), transitive_closure(graphs))


def expected_ancestral_shd(
    graphs: Shaped[np.ndarray, "n d d"], weights: Float[np.ndarray, " n"], truth: Shaped[np.ndarray, "d d"]
) -> float:
    """The mean number of pairs about which graph and truth disagree: i ⇝ j, j ⇝ i or neither.

    >>> chain = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]])
    >>> expected_ancestral_shd(chain[None], np.ones(1), 0 * chain)
    3.0
    """
    closures = transitive_closure(graphs)
    return float(weighted_mean(structural_hamming_distance, closures, weights, transitive_closure(truth)))
