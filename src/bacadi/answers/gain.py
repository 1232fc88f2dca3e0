"""The next experiment: the expected information gain of candidates, by Monte Carlo over the draws.

The gain of an experiment e about a hypothesis H (the graph, or one effect) is the mutual information of H and the new
rows y, given the data so far:

    EIG(e) = E[ log p(y | H, e) - log p(y | e) ],   H from its posterior, y from its prediction under H.

Draws are the hypotheses. Parameters of a variable depend on the graph through its parents alone, so p(y | G, e) is a
product over variables j of the mean of p(y_j | parents, θ_j) over draws in which j has these parents, at most 64 of
them; variables whose parents are certain, and targets that an experiment sets, cancel. p(y | e) is the sum over all
draws, and y is simulated from draws. The standard error told is that of the simulated data sets. Beside it the inner
means have a bias: where K draws share the parents of a variable it is of the order of (e^I - 1) / K nats, I the
information of y about the parameters given the parents, and too high where the rows were simulated from one of the K.
It is small for parents that are likely and n_rows well below the rows so far. No gain is told beyond the entropy of
the graphs drawn, at most the logarithm of their number.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp

from bacadi.answers.answer import Answer, context, variable
from bacadi.answers.effects import EffectDraws, effects_in, reference
from bacadi.answers.laws import log_likelihoods
from bacadi.data.text import counted
from bacadi.errors import ConfigError
from bacadi.evidence.effects import hard_part
from bacadi.model.network import Effects
from bacadi.posterior.networks import DrawnNetworks, recorded_effect, units_of
from bacadi.posterior.posterior import Posterior

_LINEAR, _OTHER = (1000, 200), (200, 200)  # draws that are hypotheses, data sets simulated, at most
_MOST_ROWS, _MOST_VALUES = 4000, 6_000_000  # rows per candidate where they are read one by one; values in any case
_LEAST_SETS, _SHARED = 20, 64  # data sets at least; draws over which the parameters of a variable are averaged
_MOST_CANDIDATES = 40
_STEPS = 8  # in which an effect is known after the experiment, beside that there is none
_NO_PRIOR = 5.0, 1.0  # spread of means and noise of hard effects in standard deviations, where a model has none


@dataclass(frozen=True)
class Design:
    """What the next experiment would be like.

    Attributes:
        n_rows: rows of it; by default the median of the contexts so far.
        mean: where a variable would be set, in standard deviations from the mean of the control; by default drawn from
            the prior that the model has for means of hard effects (at its smallest width), or N(0, 5²) without one.
        std: the noise around it, in the same unit; by default as the prior has it.
        variables: those that can be set; by default all, or the forty whose edges are most in doubt.
        contexts: those that can be repeated; by default all, up to forty.
    """

    n_rows: int | None = None
    mean: float | None = None
    std: float | None = None
    variables: tuple[str, ...] | None = None
    contexts: tuple[str, ...] | None = None


class Gain(NamedTuple):
    """Mean and standard error of an information gain, in nats."""

    mean: float
    error: float


def next_experiment(
    posterior: Posterior,
    about: tuple[str, str] | None = None,
    design: Design | None = None,
    *,
    modules: Sequence[str] = (),
    seed: int = 0,
) -> Answer:
    """The expected information gain of each candidate about the graph, or about the effect `about` = (source, target).

    Candidates set one variable (a hard intervention) or repeat a context, whose targets are as uncertain as the draws
    have them. An effect is known in steps: none at all, or which eighth of its posterior.
    """
    design = design or Design()
    if not posterior.weights.any() or posterior.n_variables < 2:
        raise ConfigError("There is one variable only, so that no experiment can tell more of a graph; give more.")
    probe = DrawnNetworks.of(posterior, 1, modules)
    limit, n_sets = _LINEAR if probe.is_linear else _OTHER
    networks = DrawnNetworks.of(posterior, limit, modules)
    n_rows = _rows(posterior, design)
    room = _MOST_VALUES // (n_rows * posterior.n_variables) if probe.is_linear else _MOST_ROWS // n_rows
    n_sets = int(np.clip(room, _LEAST_SETS, n_sets))
    rng = np.random.default_rng(seed)
    question = _Question.of(networks, about, seed)
    simulation = _Simulation(networks, rng, n_rows, n_sets)
    rows, left_out = [], []
    for i in _settable(posterior, design):
        gain = question.gain(simulation.setting(i, *_strength(posterior, design, i)), (i,))
        rows.append((f"set {posterior.variables[i]}", *gain))
    for k in _repeatable(posterior, design):
        try:
            gain = question.gain(simulation.repeating(k), ())
        except ConfigError as error:  # soft effects whose parameters were not drawn
            left_out.append(str(error))
            continue
        rows.append((f"repeat {posterior.contexts[k]}", *gain))
    table = pd.DataFrame(rows, columns=["experiment", "gain", "standard_error"])
    entropy = question.entropy
    table["share"] = np.clip(table["gain"] / entropy, 0.0, 1.0) if entropy > 0 else 0.0
    table["n_rows"] = n_rows
    table = table.sort_values(["gain", "experiment"], ascending=[False, True], ignore_index=True)
    what = "the graph" if about is None else f"the effect of {about[0]} on {about[1]}"
    text = _words(table, what, entropy) + (f" Left out: {left_out[0]}" if left_out else "")
    name = "next" if about is None else f"next(effect({about[0]} -> {about[1]}))"
    return Answer(name, text, table)


def _words(table: pd.DataFrame, what: str, entropy: float) -> str:
    if entropy < 1e-9:
        return f"There is nothing left to learn about {what}: all draws agree."
    if not len(table):
        return f"There is no candidate for an experiment about {what}."
    best = table.iloc[0]
    rival = table.iloc[1] if len(table) > 1 else None
    text = (
        f"Of the candidates with {counted(int(best.n_rows), 'new row')} each, to {best.experiment} tells most about "
        f"{what}: {best.gain:.2f} ± {best.standard_error:.2f} nats of the {entropy:.2f} that are open"
    )
    if rival is not None and best.gain - rival.gain < 2 * np.hypot(best.standard_error, rival.standard_error):
        return f"{text}; to {rival.experiment} is as good within the error."
    return f"{text}."


class NewRows(NamedTuple):
    """Simulated data sets of an experiment, the draw that each is from, and what every draw says of its effects."""

    x: Float[np.ndarray, "B n d"]
    draw: Int[np.ndarray, " B"]
    effects: list[Effects] | None


@dataclass(frozen=True, eq=False)
class _Simulation:
    networks: DrawnNetworks
    rng: np.random.Generator
    n_rows: int
    n_sets: int

    def setting(self, i: int, level: tuple[float, float], noise: float) -> NewRows:
        """Variable i set to N(mean, noise²) with a mean from N(level), in the units of the fit."""
        d = self.networks.graphs.shape[1]
        targets, flat = np.zeros((1, d), np.int8), np.zeros((1, d))
        targets[0, i] = 1
        mean = self.rng.normal(*level, size=self.n_sets)

        def effects(draw: int, number: int) -> Effects:
            shift = np.where(targets != 0, mean[number], flat)
            return Effects(targets, targets == 0, shift, np.full((1, d), noise), (None,)).scaled(self.networks.units)

        return NewRows(*self._sets(effects), None)

    def repeating(self, k: int) -> NewRows:
        """Context k again, with the targets and effects that each draw has for it."""
        every = [_one_context(effects, k) for effects in self._effects]
        return NewRows(*self._sets(lambda draw, number: every[draw]), every)

    @cached_property
    def _effects(self) -> list[Effects]:
        return [self.networks.effects(draw) for draw in range(len(self.networks))]

    def _sets(self, effects: Callable[[int, int], Effects]) -> tuple[np.ndarray, np.ndarray]:
        weights, context = self.networks.weights, np.ones(self.n_rows, int)
        places = (np.arange(self.n_sets) + self.rng.random()) / self.n_sets
        draw = np.minimum(np.searchsorted(np.cumsum(weights), places), len(weights) - 1)
        pairs = [(self.networks.network(at), effects(at, number)) for number, at in enumerate(draw.tolist())]
        return np.stack([network.sample(self.rng, context, effect) for network, effect in pairs]), draw


def _one_context(effects: Effects, k: int) -> Effects:
    parts = effects.targets[k : k + 1], effects.keeps_parents[k : k + 1], effects.shift[k : k + 1]
    return Effects(*parts, effects.std[k : k + 1], (effects.theta[k],))


@dataclass(frozen=True, eq=False)
class _Question:
    """What is to be learned: `hypothesis[l]` numbers what draw l says of it, and `own[l, j]` is whether it rests on
    the parameters of j in that draw, beside the parents of j."""

    networks: DrawnNetworks
    hypothesis: Int[np.ndarray, " S"]
    own: Bool[np.ndarray, "S d"]

    @classmethod
    def of(cls, networks: DrawnNetworks, about: tuple[str, str] | None, seed: int) -> "_Question":
        """The graph, or in which step an effect is."""
        n, d = networks.graphs.shape[:2]
        if about is None:
            packed = np.packbits(networks.graphs.reshape(n, -1), axis=1)
            return cls(networks, np.unique(packed, axis=0, return_inverse=True)[1].ravel(), np.zeros((n, d), bool))
        i, j = (variable(networks.posterior, name) for name in about)
        if i == j:
            raise ConfigError(f"The effect of '{about[0]}' on itself is not defined; name two variables.")
        draws = effects_in(networks, np.array([[i, j]]), seed)
        up = networks.ancestors[:, :, j] | (np.arange(d) == j)
        return cls(networks, _steps(draws), networks.ancestors[:, i, :] & up)

    @property
    def entropy(self) -> float:
        """-Σ p log p of the hypotheses in the draws, in nats: what there is to learn."""
        p = np.bincount(self.hypothesis, self.networks.weights)
        return float(-np.sum(p[p > 0] * np.log(p[p > 0])))

    def gain(self, new: NewRows, targets: tuple[int, ...]) -> Gain:
        """log p(y | H) - log p(y) on average over the data sets, and its standard error."""
        log_p = self._log_predictive(new, targets)
        weighted = log_p + np.log(self.networks.weights)[:, None]
        total, found = logsumexp(weighted, axis=0), np.empty(len(new.draw))
        mass = np.log(np.bincount(self.hypothesis, self.networks.weights))
        for b, draw in enumerate(new.draw.tolist()):
            h = self.hypothesis[draw]
            found[b] = logsumexp(weighted[self.hypothesis == h, b]) - mass[h] - total[b]
        return Gain(float(found.mean()), float(found.std(ddof=1) / np.sqrt(len(found))))

    def _log_predictive(self, new: NewRows, targets: tuple[int, ...]) -> Float[np.ndarray, "S B"]:
        """log p(y | what draw l knows): its graph, and its parameters where the hypothesis rests on them."""
        n, d = self.own.shape
        groups = self.networks.parent_groups
        nodes = [j for j in range(d) if j not in targets and (len(groups[j].parents) > 1 or self.own[:, j].any())]
        wanted = {j: self._wanted(groups[j].of_draw, self.own[:, j]) for j in nodes}
        found = np.zeros((n, len(new.draw)))
        for node, log_p in log_likelihoods(self.networks, new.x, wanted, new.effects).items():
            of_draw, draws, own = groups[node].of_draw, wanted[node], self.own[:, node]
            marginal = np.empty((len(groups[node].parents), log_p.shape[1]))
            for group in range(len(marginal)):
                at = np.flatnonzero(of_draw[draws] == group)[:_SHARED]
                weight = self.networks.weights[draws[at], None]
                marginal[group] = logsumexp(log_p[at], axis=0, b=weight / weight.sum())
            found += marginal[of_draw]
            found[own] += log_p[np.searchsorted(draws, np.flatnonzero(own))] - marginal[of_draw[own]]
        return found

    @staticmethod
    def _wanted(of_draw: Int[np.ndarray, " S"], own: Bool[np.ndarray, " S"]) -> Int[np.ndarray, " s"]:
        """The draws whose parameters of a variable are looked at: all that are `own`, and some of every group."""
        order = np.argsort(of_draw, kind="stable")
        starts = np.flatnonzero(np.diff(of_draw[order], prepend=-1))
        rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
        return np.sort(np.union1d(order[rank < _SHARED], np.flatnonzero(own)))


def _steps(draws: EffectDraws) -> Int[np.ndarray, " S"]:
    """0 where there is no path, else 1 to 8 by the size of the effect, in steps of equal weight."""
    steps, path = np.zeros(len(draws.weights), int), np.flatnonzero(draws.path[:, 0])
    if len(path):
        order = path[np.argsort(draws.values[path, 0], kind="stable")]
        middle = np.cumsum(draws.weights[order]) - 0.5 * draws.weights[order]
        steps[order] = 1 + np.minimum((middle / draws.weights[order].sum() * _STEPS).astype(int), _STEPS - 1)
    return np.unique(steps, return_inverse=True)[1]


def _rows(posterior: Posterior, design: Design) -> int:
    if design.n_rows is not None:
        if design.n_rows < 1:
            raise ConfigError(f"An experiment of {design.n_rows} rows tells nothing; give at least 1.")
        return design.n_rows
    rows = posterior.constant_data["n_rows"].values if "n_rows" in posterior.constant_data else np.zeros(1)
    seen = rows[1:][rows[1:] > 0] if (rows[1:] > 0).any() else rows[rows > 0]
    return int(np.median(seen)) if len(seen) else 1


def _strength(posterior: Posterior, design: Design, i: int) -> tuple[tuple[float, float], float]:
    """Mean and spread of the level that variable i is set to, and the noise around it, in the units of the fit."""
    mean, std = (float(part[i]) for part in reference(posterior))
    effect = recorded_effect(posterior)
    hard = None if effect is None else hard_part(effect)
    if hard is None:
        centre, spread, noise = mean, _NO_PRIOR[0] * std, _NO_PRIOR[1] * std
    else:
        units, known = units_of(posterior), hard.noise.conjugate()
        noise = float(np.sqrt(known.variance or known.scale / known.shape) * units.scale[i])
        unit = units.scale[i] if known.variance is not None else min(known.widths) * noise
        centre = float(units.shift[i] + units.scale[i] * hard.mean_prior_mean)
        spread = float(hard.mean_prior_std * unit)
    if design.mean is not None:
        centre, spread = mean + design.mean * std, 0.0
    if design.std is not None:
        noise = design.std * std
    return (centre, spread), noise


def _settable(posterior: Posterior, design: Design) -> list[int]:
    if design.variables is not None:
        return [variable(posterior, name) for name in design.variables]
    p = posterior.edge_probabilities()
    doubt = p * (1 - p)
    order = np.argsort(-(doubt.sum(axis=0) + doubt.sum(axis=1)), kind="stable")
    return sorted(order[:_MOST_CANDIDATES].tolist())


def _repeatable(posterior: Posterior, design: Design) -> list[int]:
    if design.contexts is not None:
        return [context(posterior, name) for name in design.contexts]
    return list(range(min(posterior.n_contexts, _MOST_CANDIDATES)))
