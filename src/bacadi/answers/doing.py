"""The distribution of every variable under an intervention, mixed over graphs and parameters of the draws."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float, Int8

from bacadi.answers.answer import Answer, TableUnits, variable
from bacadi.data.text import quoted
from bacadi.errors import ConfigError
from bacadi.model.network import Effects
from bacadi.posterior.networks import DrawnNetworks
from bacadi.posterior.posterior import Posterior

_DRAWS, _ROWS = 500, 40  # draws that are simulated from, and rows of each
_LEVELS = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}
_LISTED, _MOVED = 5, 0.01  # variables that a sentence names, if they move by this many standard deviations

Sample = Float[np.ndarray, "draws rows d"]


def do(
    posterior: Posterior,
    values: Mapping[str, float] | None = None,
    shifts: Mapping[str, float] | None = None,
    of: Sequence[str] = (),
    *,
    modules: Sequence[str] = (),
    seed: int = 0,
) -> Answer:
    """Mean, standard deviation and quantiles of variables when some are set to `values` and others shifted.

    do(x_i = v) cuts i from its parents; do(x_i += δ) leaves the mechanism and adds δ to it. Values are those of the
    table; a shift of a transformed column is on the transformed scale. `before` is the mean without the intervention
    and `change` the difference, from rows with the same noise.

    Args:
        of: the variables to tell of, all by default.
    """
    values, shifts = dict(values or {}), dict(shifts or {})
    if not values and not shifts:
        raise ConfigError("The intervention names no variable; set one, as in do(A=0), or shift one, as in do(A+=1).")
    if twice := sorted(values.keys() & shifts.keys()):
        raise ConfigError(f"{quoted(twice[0])} is set and shifted at once; do one of the two.")
    for name, value in (*values.items(), *shifts.items()):
        if not np.isfinite(value):
            raise ConfigError(f"{quoted(name)} is given the value {value}; give a finite number.")
    networks = DrawnNetworks.of(posterior, _DRAWS, modules)
    before, after = sample_under(networks, values, shifts, np.random.default_rng(seed))
    wanted = [variable(posterior, name) for name in of] or list(range(posterior.n_variables))
    rows = []
    for j in wanted:
        found = _summary(after[:, :, j], networks.weights)
        mean = float(networks.weights @ before[:, :, j].mean(axis=1))
        rows.append({"variable": posterior.variables[j], **found, "before": mean, "change": found["mean"] - mean})
    table = pd.DataFrame(rows)
    terms = [f"{name}={value:g}" for name, value in values.items()]
    terms += [f"{name}+={value:g}" for name, value in shifts.items()]
    what = f"do({', '.join(terms)})"
    bent = TableUnits.of(posterior).words(posterior.variables, [variable(posterior, name) for name in shifts])
    question = f"{what} -> {', '.join(of)}" if of else what
    return Answer(question, _words(what, table, {*values, *shifts}, bool(of)) + bent, table)


def sample_under(
    networks: DrawnNetworks, values: Mapping[str, float], shifts: Mapping[str, float], rng: np.random.Generator
) -> tuple[Sample, Sample]:
    """Rows of all draws without and with an intervention, with the same noise, in the units of the table."""
    posterior, d = networks.posterior, networks.graphs.shape[1]
    units = TableUnits.of(posterior, networks.units)
    targets, keeps = np.zeros((1, d), np.int8), np.ones((1, d), dtype=bool)
    level = units.table(np.zeros(d))  # any values that exist, for the variables that are not set
    add: Float[np.ndarray, " d"] = np.zeros(d)
    for name, value in values.items():
        at = variable(posterior, name)
        targets[0, at], keeps[0, at], level[at] = 1, False, value
    for name, value in shifts.items():
        at = variable(posterior, name)
        targets[0, at], add[at] = 1, value / units.scaling.scale[at]
    shift = np.where(keeps, add, units.fitted(level))[None, 0] * targets
    context = np.repeat([0, 1], _ROWS)
    found = np.empty((len(networks), 2 * _ROWS, d))
    for draw in range(len(networks)):
        network = networks.network(draw)
        noise = np.tile(rng.normal(size=(_ROWS, d)), (2, 1))
        found[draw] = network.sample(rng, context, _effects(targets, keeps, shift, network.noise_std), noise)
    x = units.table(found)
    return x[:, :_ROWS], x[:, _ROWS:]


def _effects(
    targets: Int8[np.ndarray, "1 d"],
    keeps: np.ndarray,
    shift: Float[np.ndarray, "1 d"],
    noise_std: Float[np.ndarray, " d"] | None,
) -> Effects:
    """A variable that is set has no noise, one that is shifted keeps its own."""
    std = np.where(keeps, np.zeros(shift.shape[1]) if noise_std is None else noise_std, 0.0)
    return Effects(targets, keeps, shift, std, (None,))


def _summary(rows: Float[np.ndarray, "draws rows"], weights: Float[np.ndarray, " draws"]) -> dict[str, float]:
    weight = np.repeat(weights / rows.shape[1], rows.shape[1])
    values = rows.ravel()
    mean = float(weight @ values)
    order = np.argsort(values)
    reached = np.cumsum(weight[order])
    at = np.minimum(np.searchsorted(reached, list(_LEVELS.values())), len(values) - 1)
    quantiles = dict(zip(_LEVELS, values[order][at].tolist(), strict=True))
    return {"mean": mean, "sd": float(np.sqrt(weight @ (values - mean) ** 2)), **quantiles}


def _words(what: str, table: pd.DataFrame, targets: set[str], asked: bool) -> str:
    rows = table.assign(moved=(table["change"] / table["sd"].where(table["sd"] > 0, 1.0)).abs())
    if not asked:
        rows = rows[~rows["variable"].isin(targets) & (rows["moved"] > _MOVED)]
        rows = rows.sort_values("moved", ascending=False).head(_LISTED)
    parts = [
        f"{r.variable} is {r.mean:.3g} on average (90 % of cases {r.q05:.3g} to {r.q95:.3g}), "
        + (f"{r.change:+.2g} against before" if r.moved > _MOVED else "as before")
        for r in rows.itertuples()
    ]
    return f"Under {what} {'; '.join(parts)}." if parts else f"Under {what} no other variable moves."
