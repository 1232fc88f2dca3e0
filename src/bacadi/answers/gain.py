"""The next experiment: the expected information gain of candidates, by Monte Carlo over the draws.

The gain of an experiment e about a hypothesis H (the graph, or one effect) is the mutual information of H and the new
rows y, given the data so far:

    EIG(e) = E[ log p(y | H, e) - log p(y | e) ],   H from its posterior, y from its prediction under H.

Draws are the hypotheses. Parameters of a variable depend on the graph through its parents alone, so p(y | G, e) is a
product over variables j of the mean of p(y_j | parents, θ_j) over the draws in which j has these parents (`laws`);
variables whose parents are certain, and targets that an experiment sets, cancel. p(y | e) is the sum over all draws,
and y is simulated from draws. The standard error told is that of the simulated data sets. Beside it the inner means
have a bias. Where K draws share the parents of a variable it is of the order of (e^I - 1) / K nats, with I the
information that y has about the parameters, and upwards, since y was simulated from one of the K; where K is large and
mechanisms are linear, coefficients are integrated out and it is far smaller. So gains are too high where few draws
share parents, or where an experiment is much stronger than those so far. No gain is beyond the entropy of the graphs
drawn, at most the logarithm of their number.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from scipy.special import logsumexp

from bacadi.answers.answer import Answer, context, variable
from bacadi.answers.effects import EffectDraws, effects_in, reference
from bacadi.answers.laws import laws_of
from bacadi.data.text import counted
from bacadi.errors import ConfigError
from bacadi.evidence.effects import hard_part
from bacadi.model.network import Effects
from bacadi.posterior.networks import DrawnNetworks, recorded_effect, units_of
from bacadi.posterior.posterior import Posterior

_LINEAR, _OTHER = (1000, 200), (200, 200)  # draws that are hypotheses, data sets simulated, at most
_MOST_ROWS, _MOST_VALUES = 2000, 6_000_000  # rows per candidate where they are read one by one; values in any case
_LEAST_SETS = 20
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
    question = _Question.of(networks, about, seed)
    simulation = _Simulation(networks, np.random.default_rng(seed), n_rows, n_sets)
    settings = [_strength(posterior, design, i) for i in _settable(posterior, design)]
    contexts, left_out = _repeatable(posterior, design), ""
    try:
        if contexts:
            simulation.told(contexts[0])
    except ConfigError as error:  # soft effects whose parameters were not drawn
        if design.contexts is not None:
            raise
        contexts, left_out = [], f" Repeats of contexts are left out: {error}"
    experiments: list[Setting | int] = [*settings, *contexts]
    names = [f"set {posterior.variables[one.node]}" for one in settings]
    names += [f"repeat {posterior.contexts[k]}" for k in contexts]
    rows = []
    for name, experiment, new in zip(names, experiments, simulation.rows(experiments), strict=True):
        rows.append((name, *question.gain(new, (experiment.node,) if isinstance(experiment, Setting) else ())))
    table = pd.DataFrame(rows, columns=["experiment", "gain", "standard_error"])
    entropy = question.entropy
    table["share"] = np.clip(table["gain"] / entropy, 0.0, 1.0) if entropy > 0 else 0.0
    table["n_rows"] = n_rows
    table = table.sort_values(["gain", "experiment"], ascending=[False, True], ignore_index=True)
    what = "the graph" if about is None else f"the effect of {about[0]} on {about[1]}"
    text = _words(table, what, entropy) + left_out
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


class Setting(NamedTuple):
    """A variable set to N(mean, noise²), with a mean from N(centre, spread²), in the units of the fit."""

    node: int
    centre: float
    spread: float
    noise: float


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

    def rows(self, experiments: Sequence[Setting | int]) -> Iterator[NewRows]:
        """Data sets of each experiment, a `Setting` or the number of a context to repeat; some at a time, for memory.

        All have the same draws, so that experiments differ by less than their standard errors say.
        """
        d, weights = self.networks.graphs.shape[1], self.networks.weights
        places = (np.arange(self.n_sets) + self.rng.random()) / self.n_sets
        draw = np.minimum(np.searchsorted(np.cumsum(weights), places), len(weights) - 1)
        size = max(_MOST_VALUES // (self.n_sets * self.n_rows * d), 1)
        for start in range(0, len(experiments), size):
            some = experiments[start : start + size]
            context = np.repeat(np.arange(1, len(some) + 1), self.n_rows)
            x = np.empty((len(draw), len(some), self.n_rows, d))
            for number, at in enumerate(draw.tolist()):
                effects = _joined([self._effects_of(experiment, at) for experiment in some])
                x[number] = self.networks.network(at).sample(self.rng, context, effects).reshape(x.shape[1:])
            for column, experiment in enumerate(some):
                told = None if isinstance(experiment, Setting) else self.told(experiment)
                yield NewRows(x[:, column], draw, told)

    def told(self, k: int) -> list[Effects]:
        """What every draw says of context k."""
        return [_context_of(effects, k) for effects in self._every]

    def _effects_of(self, experiment: Setting | int, draw: int) -> Effects:
        if not isinstance(experiment, Setting):
            return _context_of(self._every[draw], experiment)
        targets = np.zeros((1, self.networks.graphs.shape[1]), np.int8)
        targets[0, experiment.node] = 1
        shift = targets * self.rng.normal(experiment.centre, experiment.spread)
        return Effects(targets, targets == 0, shift, targets * experiment.noise, (None,)).scaled(self.networks.units)

    @cached_property
    def _every(self) -> list[Effects]:
        return [self.networks.effects(draw) for draw in range(len(self.networks))]


def _context_of(effects: Effects, k: int) -> Effects:
    """The effects of one context."""
    rows = slice(k, k + 1)
    parts = effects.targets[rows], effects.keeps_parents[rows], effects.shift[rows], effects.std[rows]
    return Effects(*parts, (effects.theta[k],))


def _joined(every: Sequence[Effects]) -> Effects:
    """The effects of several contexts."""
    names = ("targets", "keeps_parents", "shift", "std")
    parts = {name: np.concatenate([getattr(effects, name) for effects in every]) for name in names}
    return Effects(**parts, theta=tuple(theta for effects in every for theta in effects.theta))


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
        laws, groups = laws_of(self.networks, new.x, new.effects), self.networks.parent_groups
        found = np.zeros((len(self.own), len(new.draw)))
        for node, of_node in enumerate(groups):
            own = np.flatnonzero(self.own[:, node])
            if node in targets or (len(of_node.parents) == 1 and not len(own)):
                continue
            log_p = laws.marginal(node)[of_node.of_draw]
            if len(own):
                log_p[own] = laws.log_likelihood(node, own)
            found += log_p
        return found


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


def _strength(posterior: Posterior, design: Design, i: int) -> Setting:
    """How variable i would be set: as the user says, or as the prior of the model has it."""
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
    return Setting(i, centre, spread, noise)


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
