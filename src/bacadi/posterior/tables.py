"""`edges.csv` and `targets.csv`: every pair with its probability, log odds, and the size of what it stands for."""

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int

from bacadi.data.labelled import Labelled
from bacadi.evidence.collapsed import EffectKind
from bacadi.posterior import summaries

if TYPE_CHECKING:
    import pandas as pd

    from bacadi.posterior.posterior import Posterior

EDGE_LOG_ODDS, TARGET_LOG_ODDS, EFFECT_KIND = "edge_log_odds", "target_log_odds", "effect_kind"
"""Names in `sample_stats` of what belongs to the weights of the draws."""
_CHANGE = ("change", "change_q05", "change_q95", "change_in_sd")
_WEIGHT = ("weight", "weight_q05", "weight_q95")


def edges_table(posterior: "Posterior", given_adjacent: Float[np.ndarray, "d d"]) -> "pd.DataFrame":
    """See `Posterior.edges`."""
    variables = posterior.variables
    odds = _matrix(posterior.sample_stats, EDGE_LOG_ODDS, (len(variables),) * 2)
    order = ranked({"source": variables, "target": variables}, posterior.edge_probabilities(), odds)
    i, j = order[order[:, 0] != order[:, 1]].T
    columns = {"source": _names(variables, i), "target": _names(variables, j)}
    columns |= {"probability": posterior.edge_probabilities()[i, j], "given_adjacent": given_adjacent[i, j]}
    columns["log_odds"] = odds[i, j]
    found = _weight_summary(posterior)
    columns |= {name: found[part][i, j] for name, part in zip(_WEIGHT, ("mean", "q05", "q95"), strict=True)}
    return _frame(columns, ("source", "target"))


def targets_table(posterior: "Posterior") -> "pd.DataFrame":
    """See `Posterior.targets`."""
    variables, contexts, p = posterior.variables, posterior.contexts, posterior.target_probabilities()
    odds = _matrix(posterior.sample_stats, TARGET_LOG_ODDS, p.shape)
    k, j = ranked({"context": contexts, "variable": variables}, p, odds).T
    columns = {"context": _names(contexts, k), "variable": _names(variables, j)}
    columns |= {"probability": p[k, j], "log_odds": odds[k, j]}
    columns |= {name: _matrix(posterior.constant_data, name, p.shape)[k, j] for name in _CHANGE}
    kind = posterior.sample_stats.get(EFFECT_KIND)
    words = ["", *(kind.name.lower() for kind in EffectKind if kind)]
    columns["kind"] = ["" if kind is None else words[int(of)] for of in (k if kind is None else kind.values[k, j])]
    return _frame(columns, ("context", "variable", "kind"))


def ranked(
    names: dict[str, tuple[str, ...]], probability: Float[np.ndarray, "a b"], log_odds: Float[np.ndarray, "a b"]
) -> Int[np.ndarray, "n 2"]:
    """All pairs, the most probable first; ties by log odds where there are any, then by name."""
    first, second = names.values()

    def key(pair: tuple[int, int]) -> tuple[float, float, str, str]:
        odds = float(log_odds[pair])
        return -float(probability[pair]), 0.0 if odds != odds else -odds, first[pair[0]], second[pair[1]]

    pairs = sorted(product(range(len(first)), range(len(second))), key=key)
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _weight_summary(posterior: "Posterior") -> dict[str, Float[np.ndarray, "d d"]]:
    """Mean and 90 % interval of the weight of each edge, given the edge; NaN where no draw has it or there is none."""
    d = posterior.n_variables
    found = {part: np.full((d, d), np.nan) for part in ("mean", "q05", "q95")}
    weight = posterior.parameters.get("weight")
    if weight is None or weight.dims != ("source", "target"):
        return found
    i, j = np.nonzero((posterior.graph * (posterior.weights > 0)[:, :, None, None]).any(axis=(0, 1)))
    share = posterior.weights[:, :, None] * posterior.graph[:, :, i, j]
    n = posterior.n_draws
    summary = summaries.summarise(weight.values[:, :, i, j].reshape(n, -1), share.reshape(n, -1))
    for part, values in found.items():
        values[i, j] = summary[part]
    return found


def _matrix(group: dict[str, Labelled], name: str, shape: tuple[int, ...]) -> Float[np.ndarray, "a b"]:
    """An array of the posterior, or NaN where it has none."""
    return np.asarray(group[name].values, float) if name in group else np.full(shape, np.nan)


def _names(names: tuple[str, ...], at: Int[np.ndarray, " n"]) -> list[str]:
    return [names[i] for i in at.tolist()]


def _frame(columns: dict[str, Any], texts: tuple[str, ...]) -> "pd.DataFrame":
    import pandas

    return pandas.DataFrame(columns).astype({name: "str" if name in texts else "float64" for name in columns})
