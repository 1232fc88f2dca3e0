"""What contexts hit and moved, as arrays: what answers, pictures, pages and sentences share."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.sparse import csr_array
from scipy.special import stdtr, stdtrit

from bacadi.posterior.orientation import Draws, thinned
from bacadi.posterior.posterior import Posterior

LIKELY, MOVED, FALSE_SHARE = 0.5, 0.5, 0.05
"""A probability to speak of, a change in standard deviations of the control to speak of, and the share of chance
findings among changes."""
_DRAWS, _ENTRIES = 200, 4e6


class Contexts(NamedTuple):
    """Of every context and variable: probability of a target, change against the control, and whether it moved.

    Attributes:
        probability: that the context hit the variable.
        change, low, high: difference to the control in the unit of the table, with a 90 % interval.
        in_sd: the same in standard deviations of the control.
        moved: the change is at least `MOVED` standard deviations, and beyond chance: of all that are called moved, a
            share of `FALSE_SHARE` is expected to be none.
        downstream: probability that the variable is an effect of some target of the context, in the same draw.
    """

    probability: Float[np.ndarray, "M d"]
    change: Float[np.ndarray, "M d"]
    low: Float[np.ndarray, "M d"]
    high: Float[np.ndarray, "M d"]
    in_sd: Float[np.ndarray, "M d"]
    moved: Bool[np.ndarray, "M d"]
    downstream: Float[np.ndarray, "M d"]

    @property
    def hit(self) -> Bool[np.ndarray, "M d"]:
        """Whether a target is likely."""
        return self.probability > LIKELY


def contexts_of(posterior: Posterior) -> Contexts:
    """What each context hit and moved; changes are NaN where the posterior holds none.

    >>> graph, targets = np.array([[[[0, 1], [0, 0]]]], dtype=np.int8), np.array([[[[1, 0]]]], dtype=np.int8)
    >>> contexts_of(Posterior(graph, targets, np.zeros((1, 1)), ("a", "b"), ("ko",))).downstream.tolist()
    [[0.0, 1.0]]
    """
    p = posterior.target_probabilities()
    stored = posterior.constant_data
    change, low, high, in_sd = (
        np.asarray(stored[name].values, float) if name in stored else np.full(p.shape, np.nan)
        for name in ("change", "change_q05", "change_q95", "change_in_sd")
    )
    draws = thinned(posterior.structures(), int(np.clip(_ENTRIES / max(posterior.n_variables**2, 1), 20, _DRAWS)))
    downstream = np.einsum("l,lkj->kj", draws.weights, _reached(draws)).clip(0, 1)
    with np.errstate(invalid="ignore"):
        moved = _discoveries(_p_values(posterior, (change, low, high))) & (np.abs(in_sd) >= MOVED)
    return Contexts(p, change, low, high, in_sd, moved, downstream)


def _reached(draws: Draws) -> Bool[np.ndarray, "n M d"]:
    """Whether a directed path leads from some target of a context to a variable, draw by draw."""
    found = np.zeros(draws.targets.shape, dtype=bool)
    for graph, targets, reached in zip(draws.graphs, draws.targets != 0, found, strict=True):
        edges = csr_array(graph, dtype=np.int32)
        while True:
            further = (reached | targets).astype(np.int32) @ edges > 0
            if (further == reached).all():
                break
            reached[:] = further
    return found


def _p_values(posterior: Posterior, interval: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Float[np.ndarray, "M d"]:
    """Two-sided p-values of no change: 90 % intervals are Student's, with the freedom of the rows of a context."""
    change, low, high = interval
    rows = posterior.constant_data.get("n_rows")
    freedom = np.full((len(change), 1), 10.0) if rows is None else rows.values[1:, None] + 1.0
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.abs(change) / np.where(change > 0, change - low, high - change)
    return 2 * stdtr(freedom, -np.where(np.isnan(ratio), 0.0, ratio) * stdtrit(freedom, 0.95))


def _discoveries(p: Float[np.ndarray, "M d"]) -> Bool[np.ndarray, "M d"]:
    """Which hypotheses Benjamini and Hochberg (1995) reject at the false discovery rate `FALSE_SHARE`.

    >>> _discoveries(np.array([[0.001, 0.04, 0.9]])).tolist()
    [[True, False, False]]
    """
    ordered = np.sort(p.ravel())
    fits = ordered <= FALSE_SHARE * (np.arange(p.size) + 1) / max(p.size, 1)
    return p <= (ordered[fits].max() if fits.any() else -1.0)
