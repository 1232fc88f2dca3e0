"""Total causal effects: averaged over graphs, their spread by graph, and what the contexts show of them directly.

Of linear mechanisms the effect of i on j is T_ij of T = (I - W)⁻¹, the change of j per unit of i. Of others it is
E[x_j | do(x_i = mean + sd)] - E[x_j | do(x_i = mean)], with mean and standard deviation of i in the control, by
simulation through the drawn functions. In a draw whose graph has no directed path from i to j it is 0 for certain.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from bacadi.answers.answer import Answer, TableUnits, share, variable
from bacadi.data.text import quoted
from bacadi.errors import ConfigError
from bacadi.model.linear import total_effects
from bacadi.model.network import Effects
from bacadi.posterior.networks import DrawnNetworks, units_of
from bacadi.posterior.posterior import Posterior
from bacadi.posterior.summaries import summarise

_DRAWS = 400  # through which effects that have no closed form are simulated
_ROWS, _ALL_ROWS = 50, 20  # rows per draw and value of the cause, for one cause and for all
_NORMAL_90 = 1.645
_SUMMARY = ("effect", "sd", "q05", "q95", "positive", "negative", "zero_by_graph", "between_graphs", "within_graphs")

Pairs = Int[np.ndarray, "p 2"]
PerPair = Float[np.ndarray, "n p"]


class EffectDraws(NamedTuple):
    """The effects of pairs in every draw, whether the graph of the draw has a path, and the weights of the draws."""

    values: PerPair
    path: Bool[np.ndarray, "n p"]
    weights: Float[np.ndarray, " n"]
    networks: DrawnNetworks

    @property
    def per_sd(self) -> bool:
        """Whether an effect is that of one standard deviation of the cause and not of one unit."""
        return not self.networks.is_linear


def effect_draws(posterior: Posterior, pairs: Pairs, modules: Sequence[str] = (), seed: int = 0) -> EffectDraws:
    """The total effects i → j of `pairs` [p, 2] in the draws, on the scale of the table (of its transform, if any).

    >>> graph = np.array([[[[0, 1], [0, 0]]]], dtype=np.int8)
    >>> weight = {"weight": (np.array([[[[0.0, 2.0], [0.0, 0.0]]]]), ("source", "target"))}
    >>> one = Posterior(graph, np.zeros((1, 1, 0, 2)), np.zeros((1, 1)), ("a", "b"), (), weight)
    >>> effect_draws(one, np.array([[0, 1], [1, 0]])).values.tolist()
    [[2.0, 0.0]]
    """
    return effects_in(
        DrawnNetworks.of(posterior, None if "weight" in posterior.parameters else _DRAWS, modules), pairs, seed
    )


def effects_in(networks: DrawnNetworks, pairs: Pairs, seed: int = 0) -> EffectDraws:
    """`effect_draws` of these networks."""
    i, j = pairs.T
    path = networks.ancestors[:, i, j]
    units = TableUnits.of(networks.posterior, networks.units)
    if networks.is_linear:
        values = units.effects(total_effects(networks.linear.weight))[:, i, j]
    else:
        values = units.differences(_simulated(networks, np.unique(i), seed))[:, np.unique(i, return_inverse=True)[1], j]
    return EffectDraws(np.where(path, values, 0.0), path, networks.weights, networks)


def reference(posterior: Posterior) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"]]:
    """Mean and standard deviation of every variable in the control, in the units of the fit.

    Without a control they are those of all rows of the other contexts, within contexts for the standard deviation.
    """
    stored = posterior.constant_data
    if "context_mean" not in stored:
        units = units_of(posterior)
        if "unit_shift" not in stored:
            raise ConfigError(
                "The posterior does not say where its variables were, as files of an earlier version do not; fit again."
            )
        return units.shift, units.scale
    mean, std, rows = (stored[name].values for name in ("context_mean", "context_std", "n_rows"))
    if rows[0] > 1:
        return mean[0], std[0]
    weight = np.where(np.isnan(mean[1:]), 0.0, rows[1:, None])
    total = np.maximum(weight.sum(axis=0), 1)
    within = (weight * np.nan_to_num(std[1:]) ** 2).sum(axis=0) / total
    return (weight * np.nan_to_num(mean[1:])).sum(axis=0) / total, np.sqrt(within)


def _simulated(networks: DrawnNetworks, sources: Int[np.ndarray, " s"], seed: int) -> Float[np.ndarray, "n s d"]:
    """E[x | do(x_i = mean + sd)] - E[x | do(x_i = mean)] of every draw and source, in the units of the networks.

    Both sides have the same noise, so that what the cause does not reach differs by nothing.
    """
    (mean, std), d = reference(networks.posterior), networks.graphs.shape[1]
    low, high = networks.units.apply(mean), networks.units.apply(mean + std)
    n_rows, rng = _ROWS if len(sources) == 1 else _ALL_ROWS, np.random.default_rng(seed)
    effects = doing(np.repeat(sources, 2), np.ravel([[low[i], high[i]] for i in sources]), d)
    context = np.repeat(np.arange(1, 2 * len(sources) + 1), n_rows)
    noise = np.tile(rng.normal(size=(n_rows, d)), (2 * len(sources), 1))
    found = np.zeros((len(networks), len(sources), d))
    for draw in range(len(networks)):
        x = networks.network(draw).sample(rng, context, effects, noise)
        means = x.reshape(len(sources), 2, n_rows, d).mean(axis=2)
        found[draw] = means[:, 1] - means[:, 0]
    return found


def doing(nodes: Int[np.ndarray, " m"], values: Float[np.ndarray, " m"], n_variables: int) -> Effects:
    """One context for each node that is set to a value, whatever its parents.

    >>> doing(np.array([1]), np.array([3.0]), 2).shift.tolist()
    [[0.0, 3.0]]
    """
    targets, shift = np.zeros((len(nodes), n_variables), np.int8), np.zeros((len(nodes), n_variables))
    targets[np.arange(len(nodes)), nodes], shift[np.arange(len(nodes)), nodes] = 1, values
    return Effects(targets, targets == 0, shift, np.zeros_like(shift), (None,) * len(nodes))


def summary(draws: EffectDraws, pairs: Pairs) -> dict[str, Float[np.ndarray, " p"]]:
    """Mean, standard deviation and 90 % interval of each effect over the posterior, and its spread by graph.

    `positive`, `negative` and `zero_by_graph` are the shares of the posterior in which the effect has that sign, or
    there is no path. The variance of the effect is split in two,

        Var τ = Var E[τ | G] + E Var[τ | G]   (`between_graphs`, `within_graphs`),

    where graphs count as equal if the variables between cause and effect have the same parents, all that τ depends
    on; Var[τ | G] is estimated where two draws or more share a graph.
    """
    weight = np.broadcast_to(draws.weights[:, None], draws.values.shape)
    found = summarise(draws.values, weight)
    within = np.array([_within(draws, at, pair) for at, pair in enumerate(pairs.tolist())])
    total = found["sd"] ** 2
    shares = (draws.values > 0, draws.values < 0, ~draws.path)
    columns = [found["mean"], found["sd"], found["q05"], found["q95"]]
    columns += [np.clip((draws.weights @ part).round(12), 0, 1) for part in shares]
    within = np.minimum(within, total)
    return dict(zip(_SUMMARY, [*columns, total - within, within], strict=True))


def _within(draws: EffectDraws, at: int, pair: Sequence[int]) -> float:
    """E Var[τ | G] of one pair."""
    (i, j), used = pair, np.flatnonzero(draws.path[:, at])
    if not len(used):
        return 0.0
    ancestors, codes = draws.networks.ancestors[used], draws.networks.parent_codes[used]
    between = ancestors[:, i, :] & (ancestors[:, :, j] | (np.arange(codes.shape[1]) == j))
    # All that the effect depends on: the parents of the variables on the way.
    _, group, count = np.unique((between * codes).sum(axis=1), return_inverse=True, return_counts=True)
    weight, values, group = draws.weights[used], draws.values[used, at], group.ravel()
    total, squares = np.bincount(group, weight), np.bincount(group, weight**2)
    mean = np.bincount(group, weight * values) / total
    variance = np.bincount(group, weight * (values - mean[group]) ** 2) / total
    several = (count > 1) & (total > 1e-12)
    if not several.any():
        return 0.0
    unbiased = variance[several] / np.maximum(1 - squares[several] / total[several] ** 2, 1e-12)
    return float(np.average(unbiased, weights=total[several]) * total.sum())


class Observed(NamedTuple):
    """The difference of means of each context to the control and its standard error, in the units of the fit."""

    difference: Float[np.ndarray, "M d"]
    error: Float[np.ndarray, "M d"]


def observed(posterior: Posterior) -> Observed | None:
    """Differences of means, None where the posterior does not hold them or there is no control."""
    stored = posterior.constant_data
    if "context_mean" not in stored or stored["n_rows"].values[0] < 2:
        return None
    mean, std, rows = (stored[name].values for name in ("context_mean", "context_std", "n_rows"))
    with np.errstate(divide="ignore", invalid="ignore"):
        square = np.where(np.isnan(std), std[0], std) ** 2 / rows[:, None]
    return Observed(mean[1:] - mean[0], np.sqrt(square[1:] + square[0]))


class Ratio(NamedTuple):
    """What context k shows of the effects of one variable on all others: ratio of changes, half its 90 % interval."""

    k: int
    value: Float[np.ndarray, " d"]
    half: Float[np.ndarray, " d"]
    others: tuple[str, ...]


def ratios(posterior: Posterior, i: int) -> list[Ratio]:
    """The change of every variable over the change of i, in the contexts that probably hit i and moved it.

    The ratio is the effect where i is the only target; `others` names more of them. Its interval is by the delta
    method as if both changes were independent: √(se_j² + r² se_i²) / |change of i|.
    """
    seen, p = observed(posterior), posterior.target_probabilities()
    found = []
    for k in np.flatnonzero(p[:, i] > 0.5).tolist() if seen is not None else []:
        assert seen is not None
        move, error = seen.difference[k, i], seen.error[k, i]
        if not abs(move) > 2 * error:  # a ratio of noise says nothing
            continue
        ratio = seen.difference[k] / move
        half = _NORMAL_90 * np.hypot(seen.error[k], ratio * error) / abs(move)
        scale = TableUnits.of(posterior).scaling.scale
        others = tuple(name for n, name in enumerate(posterior.variables) if p[k, n] > 0.5 and n != i)
        found.append(Ratio(k, ratio * scale / scale[i], half * scale / scale[i], others))
    return found


def counter_check(posterior: Posterior, source: str, target: str, step: float = 1.0) -> pd.DataFrame:
    """What contexts that probably hit the source show of its effect: `ratios` of one target, times `step`."""
    i, j = variable(posterior, source), variable(posterior, target)
    rows = [
        (
            posterior.contexts[k],
            *(step * np.array([value[j], value[j] - half[j], value[j] + half[j]])),
            ", ".join(others),
        )
        for k, value, half, others in ratios(posterior, i)
    ]
    return pd.DataFrame(rows, columns=["context", "observed", "observed_q05", "observed_q95", "other_targets"])


def effects(posterior: Posterior, modules: Sequence[str] = (), seed: int = 0) -> Answer:
    """The total effects of all pairs that some draw connects, the most probable first, each with its counter-check.

    `observed` is what the context `observed_in` shows (`ratios`), one that hits the cause alone where there is one.
    """
    d = posterior.n_variables
    every = np.argwhere(~np.eye(d, dtype=bool))
    draws = effect_draws(posterior, every, modules, seed)
    kept = np.flatnonzero((draws.path & (draws.weights > 0)[:, None]).any(axis=0))
    pairs = every[kept]
    draws = draws._replace(values=draws.values[:, kept], path=draws.path[:, kept])
    names = [[posterior.variables[v] for v in side.tolist()] for side in pairs.T]
    table = pd.DataFrame({"source": names[0], "target": names[1]}).assign(**summary(draws, pairs))
    steps = reference(posterior)[1] if draws.per_sd else np.ones(d)
    sources = np.unique(pairs[:, 0]).tolist()
    best = {i: min(ratios(posterior, i), key=lambda ratio: len(ratio.others), default=None) for i in sources}
    checks = [(best[i], i, j) for i, j in pairs.tolist()]
    table["observed"] = [np.nan if ratio is None else float(steps[i] * ratio.value[j]) for ratio, i, j in checks]
    table["observed_in"] = ["" if ratio is None else posterior.contexts[ratio.k] for ratio, _, _ in checks]
    order = ["zero_by_graph", "source", "target"]
    table = table.sort_values(order, ignore_index=True)
    sure = table[table["zero_by_graph"] < 0.5]
    per = "one standard deviation" if draws.per_sd else "one unit"
    text = f"{len(sure)} of {len(every)} ordered pairs probably have an effect; each is that of {per} of the source."
    return Answer("effects", text + TableUnits.of(posterior).words(posterior.variables, range(d)), table)


def effect(posterior: Posterior, source: str, target: str, modules: Sequence[str] = (), seed: int = 0) -> Answer:
    """The total effect of one variable on another with a 90 % interval, its spread by graph and its counter-check."""
    i, j = variable(posterior, source), variable(posterior, target)
    if i == j:
        raise ConfigError(f"The effect of {quoted(source)} on itself is not defined; name two variables.")
    pairs = np.array([[i, j]])
    draws = effect_draws(posterior, pairs, modules, seed)
    found = {name: float(values[0]) for name, values in summary(draws, pairs).items()}
    step = float(reference(posterior)[1][i]) if draws.per_sd else 1.0
    check = counter_check(posterior, source, target, step)
    rows = [{"evidence": "model", **found}]
    for seen in check.itertuples():
        evidence = f"context {seen.context}" + (f" (also hit: {seen.other_targets})" if seen.other_targets else "")
        rows.append({"evidence": evidence, "effect": seen.observed, "q05": seen.observed_q05, "q95": seen.observed_q95})
    text = _effect_words(source, target, found, draws.per_sd) + _check_words(check)
    units = TableUnits.of(posterior).words(posterior.variables, (i, j))
    return Answer(f"effect({source} -> {target})", text + units, pd.DataFrame(rows))


def _effect_words(source: str, target: str, found: dict[str, float], per_sd: bool) -> str:
    positive, negative, zero = (found[name] for name in ("positive", "negative", "zero_by_graph"))
    if zero == 1:
        return f"{source} has no effect on {target}: no draw has a directed path between them."
    step = "one standard deviation of the control" if per_sd else "1"
    doubt = f"{source} probably has no effect on {target}; on average over all graphs raising it" if zero > 0.5 else ""
    head = (
        f"{doubt or f'Raising {source}'} by {step} changes {target} by {found['effect']:.3g} "
        f"(90 % interval {found['q05']:.3g} to {found['q95']:.3g})"
    )
    flips = min(positive, negative)
    sign = "; the sign never flips" if not flips else f"; the sign flips in {share(flips)} of the posterior"
    total = found["between_graphs"] + found["within_graphs"]
    split = (
        f", and {share(round(found['between_graphs'] / total, 4))} of its variance is between graphs" if total else ""
    )
    return f"{head}{sign}, the effect is zero by the graph in {share(zero)}{split}."


def _check_words(check: pd.DataFrame) -> str:
    if not len(check):
        return " No context shows it directly."
    seen = "; ".join(f"{r.observed:.3g} in {r.context}" for r in check.itertuples())
    return f" The contexts themselves show {seen}."
