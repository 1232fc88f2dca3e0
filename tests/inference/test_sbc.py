"""Data drawn from the model itself: Geweke's joint test, and calibration of probabilities and parameters."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import chisquare, invgamma, norm

from bacadi.data.contexts import ContextData
from bacadi.evidence.collapsed import AbstractEvidence, CollapsedPosterior
from bacadi.evidence.effects import draw_hard_effects
from bacadi.evidence.reading import collapse
from bacadi.graph.dag import topological_order
from bacadi.inference.exact.enumeration import ExactPosterior, enumerate_posterior
from bacadi.inference.mcmc.diagnostics import effective_sample_size
from bacadi.inference.mcmc.ladder import Replica, compiled_target
from bacadi.inference.mcmc.method import MCMC, MoveWeights
from bacadi.inference.mcmc.run import TemperingRun
from bacadi.inference.mcmc.start import Structure
from bacadi.metrics.calibration import (
    Forecasts,
    edge_forecasts,
    expected_calibration_error,
    pooled,
    target_forecasts,
)
from bacadi.model.certainty import NO_DRIFT, ContextDrift
from bacadi.model.effects import HardGaussian
from bacadi.model.linear import LinearGaussian
from bacadi.model.model import Model
from bacadi.model.noise import InferredNoise
from bacadi.model.priors import ErdosRenyi, TargetPrior

SHAPE, SCALE, WEIGHT, INTERCEPT, MEAN = 3.0, 1.0, 3.0, 1.0, 2.0
STRUCTURE = ErdosRenyi(0.6), TargetPrior(discrete_log_odds=-0.4)
NOISE, WIDE = InferredNoise(SHAPE, SCALE), InferredNoise(SHAPE, SCALE, (1.0, 3.0))
MODEL, TWO_WIDTHS = (
    Model(LinearGaussian(noise, WEIGHT, INTERCEPT), HardGaussian(noise, 0.0, MEAN), *STRUCTURE, drift=NO_DRIFT)
    for noise in (NOISE, WIDE)
)
DEFAULT = Model(LinearGaussian(), HardGaussian(), *STRUCTURE, drift=ContextDrift())


class Parameters(NamedTuple):
    """Everything that data are made from, given graph and states."""

    weight: np.ndarray
    intercept: np.ndarray
    noise_std: np.ndarray
    effect_mean: np.ndarray
    effect_noise_std: np.ndarray


class Silent(AbstractEvidence):
    """Evidence of no data: what is left is the prior."""

    def __init__(self, like: AbstractEvidence) -> None:
        self.n_variables, self.n_contexts, self.states = like.n_variables, like.n_contexts, like.states

    def log_evidence(self, node: int, parents: np.ndarray, state: np.ndarray) -> float:
        return 0.0


def named(x: np.ndarray, context: np.ndarray, m: int) -> ContextData:
    return ContextData(x, context, tuple(f"x{j}" for j in range(x.shape[1])), tuple(f"k{k}" for k in range(m)), "obs")


def prior_of(d: int, m: int) -> ExactPosterior:
    collapsed = collapse(MODEL, named(np.zeros((m + 1, d)), np.arange(m + 1), m))
    return enumerate_posterior(CollapsedPosterior(Silent(collapsed.evidence), collapsed.prior))


def prior_parameters(rng: np.random.Generator, d: int, m: int, model: Model = MODEL) -> Parameters:
    mechanism, effect, parts = model.mechanism, model.effect, []
    for noise, shape in ((mechanism.noise, (d,)), (effect.noise, (m, d))):
        std = np.sqrt(noise.scale / rng.gamma(noise.shape, size=shape))
        parts += [std, std * rng.choice(noise.widths, size=shape)]
    std, unit, effect_std, effect_unit = parts
    return Parameters(
        mechanism.weight_prior_std * unit * rng.normal(size=(d, d)),
        mechanism.intercept_prior_std * unit * rng.normal(size=d),
        std,
        effect.mean_prior_std * effect_unit * rng.normal(size=(m, d)),
        effect_std,
    )


def simulated(
    rng: np.random.Generator,
    structure: Structure,
    given: Parameters,
    context: np.ndarray,
    drift: ContextDrift = NO_DRIFT,
) -> ContextData:
    """Rows of every context from graph, targets and parameters; untouched variables drift."""
    graph, states = structure
    x = np.zeros((len(context), len(graph)))
    for j in topological_order(graph):
        parents = graph[:, j] != 0
        x[:, j] = x[:, parents] @ given.weight[parents, j] + given.intercept[j]
        x[:, j] += given.noise_std[j] * rng.normal(size=len(x))
        if any(drift.stds):
            std = given.noise_std[j] * rng.choice(drift.stds, p=drift.probabilities)
            x[:, j] += np.append(0.0, std * rng.normal(size=len(states)))[context]
        for k in np.flatnonzero(states[:, j]):
            rows = context == k + 1
            x[rows, j] = given.effect_mean[k, j] + given.effect_noise_std[k, j] * rng.normal(size=rows.sum())
    return named(x, context, len(states))


def drawn_parameters(
    rng: np.random.Generator, collapsed: CollapsedPosterior, data: ContextData, at: Structure
) -> Parameters:
    found = collapsed.evidence.draw_parameters(rng, at.graph[None], at.states[None])
    found |= draw_hard_effects(rng, MODEL.effect, data, 1)
    return Parameters(*(found[name].values[0].astype(float) for name in Parameters._fields))


def statistics(at: Structure, given: Parameters) -> np.ndarray:
    """Functions of structure and parameters, their prior expectations in `expected`; what is not there counts 0."""
    edge, target = at.graph != 0, at.states > 0
    weight = np.where(edge, given.weight / given.noise_std, 0.0)
    mean = np.where(target, given.effect_mean / given.effect_noise_std, 0.0)
    inverse, effect_inverse = given.noise_std**-2, np.where(target, given.effect_noise_std**-2, 0.0)
    scalars = [
        (at.graph.sum() - 1.0) ** 2,
        weight.sum(),
        (weight**2).sum(),
        (given.intercept / given.noise_std).sum(),
        ((given.intercept / given.noise_std) ** 2).sum(),
        inverse.sum(),
        np.log(given.noise_std).sum(),
        mean.sum(),
        (mean**2).sum(),
        effect_inverse.sum(),
    ]
    return np.concatenate([at.graph.ravel(), target.ravel(), scalars]).astype(float)


def expected(prior: ExactPosterior, d: int) -> np.ndarray:
    edges, targets, probs = prior.edge_marginals, prior.target_marginals, np.exp(prior.dag_log_prob)
    size = prior.dags.sum(axis=(1, 2))
    law = invgamma(SHAPE, scale=SCALE)
    scalars = [
        probs @ (size - 1.0) ** 2,
        0.0,
        edges.sum() * WEIGHT**2,
        0.0,
        d * INTERCEPT**2,
        d * SHAPE / SCALE,
        d * 0.5 * law.expect(np.log),
        0.0,
        targets.sum() * MEAN**2,
        targets.sum() * SHAPE / SCALE,
    ]
    return np.concatenate([edges.ravel(), targets.ravel(), scalars])


def successive(n: int, seed: int, broken: Callable[[Parameters], Parameters] | None = None) -> np.ndarray:
    """Geweke (2004): structure, parameters and data in turn, each given the others; the joint law stays the prior's."""
    d, m, rng = 3, 2, np.random.default_rng(seed)
    context = np.repeat(np.arange(m + 1), [3, 2, 2])
    first = prior_of(d, m).draws(rng, 1)
    at = Structure(first.graphs[0], first.states[0])
    data = simulated(rng, at, prior_parameters(rng, d, m), context)
    found = []
    for _ in range(n):
        collapsed = collapse(MODEL, data)
        replica = Replica.at(collapsed, compiled_target(collapsed, data, MoveWeights()), [at], rng)
        replica.advance(1, 15)
        graph, states, _ = replica.sample()
        at = Structure(graph, np.ascontiguousarray(states))
        given = drawn_parameters(rng, collapsed, data, at)
        given = broken(given) if broken else given
        found.append(statistics(at, given))
        data = simulated(rng, at, given, context)
    return np.array(found)


def worst_deviation(found: np.ndarray) -> tuple[float, float]:
    """The largest deviation from the prior expectation in standard errors by ESS, and the Bonferroni bound of 1e-4."""
    varying = found.std(axis=0) > 0
    values = found[:, varying]
    half = len(values) // 2
    halves = np.ascontiguousarray(values[: 2 * half].reshape(2, half, -1).transpose(2, 0, 1))
    error = values.std(axis=0) / np.sqrt(effective_sample_size(halves))
    z = np.abs(values.mean(axis=0) - expected(prior_of(3, 2), 3)[varying]) / error
    return float(z.max()), float(norm.isf(1e-4 / (2 * len(z))))


@pytest.mark.slow
def test_geweke_joint_distribution() -> None:
    found, bound = worst_deviation(successive(8000, 0))
    assert found < bound


@pytest.mark.slow
def test_geweke_finds_noise_that_is_ten_percent_too_large() -> None:
    found, bound = worst_deviation(successive(4000, 0, lambda given: given._replace(noise_std=1.1 * given.noise_std)))
    assert found > bound


class Checked(NamedTuple):
    """Forecasts of edges and targets of many data sets, and ranks of true parameters among draws."""

    edges: Forecasts
    targets: Forecasts
    ranks: np.ndarray


def exact_marginals(
    collapsed: CollapsedPosterior, data: ContextData, seed: int
) -> tuple[np.ndarray, np.ndarray, Structure]:
    posterior = enumerate_posterior(collapsed)
    draws = posterior.draws(np.random.default_rng(seed), N_RANKED)
    return posterior.edge_marginals, posterior.target_marginals, Structure(draws.graphs, draws.states)


def sampled_marginals(
    collapsed: CollapsedPosterior, data: ContextData, seed: int
) -> tuple[np.ndarray, np.ndarray, Structure]:
    draws = TemperingRun(collapsed, data, MCMC(n_draws=500, n_sweeps=420, n_levels=3, moves_per_sweep=30), seed).go()
    graphs, states = (part.reshape(-1, *part.shape[2:]) for part in (draws.graphs, draws.states))
    at = np.linspace(0, len(graphs) - 1, N_RANKED).astype(int)
    return graphs.mean(axis=0), (states > 0).mean(axis=0), Structure(graphs[at], np.ascontiguousarray(states[at]))


N_RANKED = 63  # so that a rank is one of 64


def is_plain(data: ContextData) -> bool:
    """Whether sums of squares say all of the data that numbers of 16 digits can: spreads of 1e-3 to 1e3, and no column
    that the others determine but for 1e-8 of its variance."""
    spread = data.x.std(axis=0)
    if spread.min() < 1e-3 or spread.max() > 1e3:
        return False
    return np.linalg.eigvalsh(np.corrcoef(data.x.T))[0] > 1e-8


def checked(
    method: Callable, n_sets: int, seed: int, model: Model = MODEL, rows: tuple[int, int] = (200, 60)
) -> Checked:
    """Four variables and three contexts, graph, targets, parameters and data from the prior.

    Data that are not plain are drawn again, all of it: a choice by the data alone leaves the posterior as it is.
    """
    d, m, rng = 4, 3, np.random.default_rng(seed)
    context = np.repeat(np.arange(m + 1), [rows[0], *[rows[1]] * m])
    prior, edges, targets, ranks = prior_of(d, m), [], [], []
    for s in range(n_sets):
        data = None
        while data is None or not is_plain(data):
            drawn = prior.draws(rng, 1)
            truth, given = Structure(drawn.graphs[0], drawn.states[0]), prior_parameters(rng, d, m, model)
            data = simulated(rng, truth, given, context, model.drift)
        collapsed = collapse(model, data)
        edge_probs, target_probs, drawn = method(collapsed, data, s)
        edges.append(edge_forecasts(np.clip(edge_probs, 0, 1), truth.graph))
        targets.append(target_forecasts(np.clip(target_probs, 0, 1), (truth.states > 0).astype(np.int8)))
        found = collapsed.evidence.draw_parameters(rng, *drawn)
        below = (
            found["noise_std"].values[:, 0] < given.noise_std[0],
            found["intercept"].values[:, 1] < given.intercept[1],
        )
        ranks.append([int(part.sum()) for part in below])
    return Checked(pooled(edges), pooled(targets), np.array(ranks))


def check_calibration(found: Checked) -> None:
    """ECE at most .01, and flat ranks of noise and intercept in eight bins at a false-alarm rate of 1e-4 each.

    The ECE of a calibrated forecaster is not 0: with the probabilities of 240 data sets it is .006 for edges and beyond
    .01 in 2 % of cases, with those of 600 data sets .004 and never beyond .01 in 300 simulations.
    """
    assert expected_calibration_error(found.edges) <= 0.01
    assert expected_calibration_error(found.targets) <= 0.01
    for ranks in found.ranks.T:
        assert chisquare(np.bincount(ranks // 8, minlength=8))[1] > 1e-4


def test_enumeration_is_calibrated() -> None:
    check_calibration(checked(exact_marginals, 300, 1))


def test_enumeration_is_calibrated_under_two_widths() -> None:
    check_calibration(checked(exact_marginals, 300, 4, TWO_WIDTHS))


def test_enumeration_is_calibrated_under_the_default_priors() -> None:
    """Few rows, so that forecasts are in doubt: noise over many orders of magnitude tells most graphs apart."""
    check_calibration(checked(exact_marginals, 300, 5, DEFAULT, (12, 4)))


@pytest.mark.slow
def test_enumeration_is_calibrated_on_a_thousand_data_sets() -> None:
    check_calibration(checked(exact_marginals, 1000, 3))


@pytest.mark.slow
def test_sampling_is_calibrated() -> None:
    check_calibration(checked(sampled_marginals, 600, 2))
