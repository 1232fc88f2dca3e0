"""What follows from graph and targets alone: ancestors, what a context did, which mechanisms changed."""

import numpy as np
import pandas as pd
from jaxtyping import Float

from bacadi.answers.answer import Answer, context, share, variable
from bacadi.data.text import quoted
from bacadi.errors import ConfigError
from bacadi.posterior.moved import LIKELY, contexts_of
from bacadi.posterior.posterior import Posterior
from bacadi.posterior.tables import TARGET_LOG_ODDS

HIT, DOWNSTREAM, UNEXPLAINED, UNCHANGED = "hit directly", "moved only downstream", "moved, not explained", "unchanged"
_LISTED = 5

PerContext = Float[np.ndarray, "M d"]


def ancestors(posterior: Posterior, of: str | None = None) -> Answer:
    """Which variables are upstream of one, with P(ancestor); without a name all ordered pairs."""
    p, names = posterior.ancestor_probabilities(), posterior.variables
    if of is None:
        first, last = np.argwhere(~np.eye(len(names), dtype=bool)).T
        table = _ranked({"ancestor": first, "descendant": last}, p[first, last], posterior)
        text = f"{int((p > 0.5).sum())} of {len(table)} ordered pairs are ancestor and descendant with more than 50 %."
        return Answer("ancestors", text, table)
    j = variable(posterior, of)
    others = np.delete(np.arange(len(names)), j)
    table = _ranked({"ancestor": others}, p[others, j], posterior, posterior.edge_probabilities()[others, j])
    return Answer(f"ancestors({of})", _chain(table, "ancestor", f"upstream of {of}"), table)


def descendants(posterior: Posterior, of: str) -> Answer:
    """Which variables are downstream of one, with P(descendant)."""
    p, i = posterior.ancestor_probabilities(), variable(posterior, of)
    others = np.delete(np.arange(posterior.n_variables), i)
    table = _ranked({"descendant": others}, p[i, others], posterior, posterior.edge_probabilities()[i, others])
    return Answer(f"descendants({of})", _chain(table, "descendant", f"downstream of {of}"), table)


def _ranked(
    columns: dict[str, np.ndarray], p: np.ndarray, posterior: Posterior, direct: np.ndarray | None = None
) -> pd.DataFrame:
    table = pd.DataFrame({name: [posterior.variables[v] for v in at.tolist()] for name, at in columns.items()})
    table["probability"] = p
    if direct is not None:
        table["direct"] = direct
    return table.sort_values(["probability", *columns], ascending=[False, *[True] * len(columns)], ignore_index=True)


def _chain(table: pd.DataFrame, column: str, where: str) -> str:
    likely = table[table["probability"] > 0.5]
    if not len(likely):
        best = table.iloc[0]
        return (
            f"No variable is {where} with more than 50 %; the likeliest is {best[column]} ({share(best.probability)})."
        )
    named = [f"{row[column]} ({share(row.probability)})" for _, row in likely.head(_LISTED).iterrows()]
    more = f" and {len(likely) - _LISTED} more" if len(likely) > _LISTED else ""
    return f"Probably {where}: {', '.join(named)}{more}."


def context_did(posterior: Posterior, name: str) -> Answer:
    """What a context did to each variable: hit directly, moved only downstream, moved and not explained, or unchanged.

    A variable is hit where P(target) > ½. Whether others have moved is said by the observed change against the control
    (`contexts_of`): at least half a standard deviation, and beyond chance at a false discovery rate of .05. One that
    has moved is downstream where P(descendant of a target) > ½, and not explained otherwise.
    """
    k, found = context(posterior, name), contexts_of(posterior)
    direct, downstream = found.probability[k], found.downstream[k]
    change, low, high = found.change[k], found.low[k], found.high[k]
    explained = np.where(downstream > LIKELY, DOWNSTREAM, UNEXPLAINED)
    what = np.where(found.hit[k], HIT, np.where(found.moved[k], explained, UNCHANGED))
    table = pd.DataFrame({"variable": list(posterior.variables), "what": what.tolist()})
    table = table.assign(change=change, change_q05=low, change_q95=high)
    table["change_in_sd"] = found.in_sd[k]
    table = table.assign(probability=direct, log_odds=_log_odds(posterior)[k], downstream=downstream)
    place = table["what"].map({word: at for at, word in enumerate((HIT, DOWNSTREAM, UNEXPLAINED, UNCHANGED))})
    table = table.assign(_place=place, _size=-table["change_in_sd"].abs()).sort_values(
        ["_place", "probability", "log_odds", "_size", "variable"], ascending=[True, False, False, True, True]
    )
    table = table.drop(columns=["_place", "_size"]).reset_index(drop=True)
    return Answer(f"context({name})", _did_words(name, table), table)


def _did_words(name: str, table: pd.DataFrame) -> str:
    parts = []
    for word, phrase in (
        (HIT, f"{name} hit {{}} directly"),
        (DOWNSTREAM, "{} moved only downstream"),
        (UNEXPLAINED, "{} moved, which no target explains"),
    ):
        rows = table[table["what"] == word]
        if len(rows):
            named = [f"{r.variable}{_moved(r.change)}" for r in rows.head(_LISTED).itertuples()]
            more = f" and {len(rows) - _LISTED} more" if len(rows) > _LISTED else ""
            parts.append(phrase.format(", ".join(named) + more))
        elif word == HIT:
            parts.append(f"{name} hit no variable with more than 50 %")
    quiet = int((table["what"] == UNCHANGED).sum())
    return f"{'; '.join(parts)}; {quiet} of {len(table)} variables are unchanged."


def _moved(change: float) -> str:
    return "" if np.isnan(change) else f" ({change:+.3g})"


def changed(posterior: Posterior, name: str, other: str | None = None) -> Answer:
    """Which mechanisms changed from `other`, by default the control, to a context: ranked by probability and log odds.

    Between two contexts a mechanism is changed where either makes it a target; log odds of both are joined as if they
    were independent. `change` is the observed difference of the variable itself, which its parents may explain.
    """
    k = context(posterior, name)
    against = posterior.observational or "the rest"
    p, odds, change = posterior.target_probabilities()[k], _log_odds(posterior)[k], _constant(posterior, "change")
    difference = change[k]
    if other is not None and other != posterior.observational:
        m, against = context(posterior, other), other
        if m == k:
            raise ConfigError(f"{quoted(name)} is compared with itself; name two contexts.")
        either = (posterior.intervention_target[:, :, [k, m]] != 0).any(axis=2)
        p = np.clip(np.einsum("cd,cdj->j", posterior.weights, either).round(12), 0.0, 1.0)
        odds, difference = _either(odds, _log_odds(posterior)[m]), change[k] - change[m]
    table = pd.DataFrame({"variable": list(posterior.variables), "probability": p, "log_odds": odds})
    table["change"] = difference
    order = ["probability", "log_odds", "variable"]
    table = table.sort_values(order, ascending=[False, False, True], ignore_index=True)
    likely = table[table["probability"] > 0.5]
    named = ", ".join(f"{r.variable} ({share(r.probability)})" for r in likely.head(_LISTED).itertuples())
    more = f" and {len(likely) - _LISTED} more" if len(likely) > _LISTED else ""
    best = table.iloc[0]
    none = f"no mechanism with more than 50 %; the likeliest is that of {best.variable} ({share(best.probability)})"
    text = f"Between {against} and {name} changed: {f'the mechanism of {named}{more}' if len(likely) else none}."
    return Answer(f"changed({name}{'' if other is None else f', {other}'})", text, table)


def _either(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Log odds of "a or b" of independent events: 1 - p = (1 - p_a)(1 - p_b).

    >>> round(float(_either(np.zeros(1), np.zeros(1))[0]), 3) == round(float(np.log(3)), 3)
    True
    """
    none = -np.logaddexp(0.0, a) - np.logaddexp(0.0, b)
    with np.errstate(divide="ignore"):
        return np.log(-np.expm1(none)) - none


def _constant(posterior: Posterior, name: str) -> PerContext:
    """An array of contexts and variables, NaN where the posterior has none."""
    shape = (posterior.n_contexts, posterior.n_variables)
    found = posterior.constant_data.get(name)
    return np.full(shape, np.nan) if found is None else np.asarray(found.values, float)


def _log_odds(posterior: Posterior) -> PerContext:
    shape = (posterior.n_contexts, posterior.n_variables)
    found = posterior.sample_stats.get(TARGET_LOG_ODDS)
    return np.full(shape, np.nan) if found is None else np.asarray(found.values, float)
