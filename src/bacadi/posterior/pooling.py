"""Posteriors of several completions of the same data as one: their draws side by side, with equal weight."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bacadi.data.labelled import Labelled
from bacadi.posterior.posterior import EXACT_EDGES, EXACT_TARGETS, Posterior

_ADDED, _LARGEST = ("_ess", "n_sweeps"), ("_rhat",)


def pooled(posteriors: Sequence[Posterior]) -> Posterior:
    """The mixture of posteriors with equal weights: chains of all, one after the other.

    Probabilities that are known exactly are averaged; of diagnostics of a whole run effective sample sizes are added,
    the largest R-hat and otherwise the mean is kept; the pool has converged where every part has.

    >>> graph = np.array([[[[0, 1], [0, 0]]]], dtype=np.int8)
    >>> parts = [Posterior(g, np.zeros((1, 1, 0, 2)), np.zeros((1, 1)), ("a", "b"), ()) for g in (graph, 0 * graph)]
    >>> float(pooled(parts).edge_probabilities()[0, 1])
    0.5
    """
    longest = max(p.log_weight.shape[1] for p in posteriors)
    posteriors = [_padded(p, longest) for p in posteriors]
    first, m = posteriors[0], len(posteriors)
    parameters, sample_stats, constant_data = (
        {
            name: _joined(group, name, [getattr(p, group)[name] for p in posteriors])
            for name in _shared(posteriors, group)
        }
        for group in ("parameters", "sample_stats", "constant_data")
    )
    return replace(
        first,
        graph=np.concatenate([p.graph for p in posteriors]),
        intervention_target=np.concatenate([p.intervention_target for p in posteriors]),
        log_weight=np.concatenate([p.log_weight for p in posteriors]) - np.log(m),
        parameters=parameters,
        sample_stats=sample_stats,
        constant_data=constant_data,
        attrs=_attrs([p.attrs for p in posteriors]),
    )


def _padded(posterior: Posterior, n_draws: int) -> Posterior:
    """The posterior with as many draws per chain, those that are added without weight."""
    more = n_draws - posterior.log_weight.shape[1]
    if not more:
        return posterior

    def pad(values: np.ndarray, value: float = 0) -> np.ndarray:
        return np.pad(values, [(0, 0), (0, more)] + [(0, 0)] * (values.ndim - 2), constant_values=value)

    groups: dict[str, Any] = {
        group: {
            name: Labelled(pad(entry.values), entry.dims) if entry.per_draw else entry
            for name, entry in getattr(posterior, group).items()
        }
        for group in ("parameters", "sample_stats")
    }
    return replace(
        posterior,
        graph=pad(posterior.graph),
        intervention_target=pad(posterior.intervention_target),
        log_weight=pad(posterior.log_weight, -np.inf),
        **groups,
    )


def _shared(posteriors: Sequence[Posterior], group: str) -> list[str]:
    """Names that all posteriors have in a group, in arrays that can be joined."""
    entries = [getattr(p, group) for p in posteriors]

    def fit_together(name: str) -> bool:
        parts = [entry.get(name) for entry in entries]
        whole = [part for part in parts if part is not None]
        return len(whole) == len(parts) and len({(part.dims, part.values.shape) for part in whole}) == 1

    return [name for name in entries[0] if fit_together(name)]


def _joined(group: str, name: str, parts: list[Labelled]) -> Labelled:
    values, dims = [part.values for part in parts], parts[0].dims
    if group == "constant_data":
        return Labelled(np.mean(values, axis=0), dims) if name in (EXACT_EDGES, EXACT_TARGETS) else parts[0]
    if parts[0].per_draw or "chain" in dims[:1]:
        return Labelled(np.concatenate(values), dims)
    if values[0].dtype.kind == "b":
        return Labelled(np.all(values, axis=0), dims)
    rule = np.sum if name.endswith(_ADDED) else np.max if name.endswith(_LARGEST) else np.mean
    return Labelled(rule(values, axis=0), dims)


def _attrs(every: list[dict[str, Any]]) -> dict[str, Any]:
    attrs = dict(every[0])
    if "converged" in attrs:
        attrs["converged"] = all(one["converged"] for one in every)
    if "n_cyclic" in attrs:
        attrs["n_cyclic"] = sum(one["n_cyclic"] for one in every)
    if "warnings" in attrs:
        attrs["warnings"] = list(dict.fromkeys(message for one in every for message in one["warnings"]))
    return attrs
