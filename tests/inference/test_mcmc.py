"""Parallel tempering against enumeration, run by run the same, and independent of threads and interruptions."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from scipy.stats import binom, norm

from bacadi.data.contexts import ContextData
from bacadi.errors import InferenceError, StoreError
from bacadi.evidence.collapsed import AbstractEvidence, CollapsedPosterior
from bacadi.evidence.effects import draw_hard_effects, effect_states
from bacadi.evidence.reading import collapse
from bacadi.evidence.tables import NODE
from bacadi.inference.checkpoint import Checkpoint
from bacadi.inference.collapsed import collapsed_problem, posterior_fields
from bacadi.inference.exact.enumeration import enumerate_posterior
from bacadi.inference.mcmc import ladder, run
from bacadi.inference.mcmc.chain import Memory, expected_lack
from bacadi.inference.mcmc.diagnostics import diagnose
from bacadi.inference.mcmc.draws import ChainDraws
from bacadi.inference.mcmc.ladder import Lacks, Replica, expected_lacks
from bacadi.inference.mcmc.method import MCMC
from bacadi.inference.mcmc.run import TemperingRun
from bacadi.inference.method import Monitor, Problem, Progress
from bacadi.model.effects import Effect, EffectMixture, HardGaussian, ScaleGaussian, ShiftGaussian, SoftGaussian
from bacadi.model.integrated import BGe
from bacadi.model.knowledge import Knowledge
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import Mechanism
from bacadi.model.model import Model
from bacadi.model.neural import NeuralGaussian
from bacadi.model.noise import FixedNoise, InferredNoise

from .collapsed_problems import TableEvidence, random_collapsed

MECHANISMS: dict[str, Mechanism] = {
    "linear, known noise": LinearGaussian(FixedNoise(0.7), 1.0, None),
    "linear, noise inferred": LinearGaussian(InferredNoise(), 1.0, 2.0),
    "BGe": BGe(),
    "network": NeuralGaussian(noise=FixedNoise(0.7), intercept=False),
}
HARD = HardGaussian(InferredNoise(), mean_prior_std=3.0)
EFFECTS: dict[str, Effect] = {
    "hard": HARD,
    "shift": ShiftGaussian(2.0),
    "scale": ScaleGaussian((0.25, 4.0)),
    "soft": SoftGaussian(),
    "mixture": EffectMixture((HARD, ShiftGaussian(2.0), SoftGaussian())),
}
COMBINATIONS = list(product(MECHANISMS, EFFECTS))
FAST = [
    ("linear, known noise", "hard"),
    ("linear, known noise", "scale"),
    ("linear, noise inferred", "mixture"),
    ("linear, noise inferred", "shift"),
    ("BGe", "soft"),
    ("network", "hard"),
]
SHORT = MCMC(n_draws=4000, n_sweeps=3400, n_levels=3, moves_per_sweep=12)
TEN_TIMES = replace(SHORT, n_draws=40_000, n_sweeps=34_000)
LONG = MCMC(n_draws=240_000, n_sweeps=200_000, n_levels=3, moves_per_sweep=6)
QUICK = MCMC(n_draws=60, n_sweeps=150, n_levels=3, moves_per_sweep=8)

Sampled = tuple[CollapsedPosterior, ContextData]


def small_data(seed: int, d: int = 4, m: int = 2, rows: int = 5) -> ContextData:
    """Linear data with weak dependence, one variable moved in each context."""
    rng = np.random.default_rng(seed)
    context = np.repeat(np.arange(m + 1), [2 * rows, *[rows] * m])
    x = 0.7 * rng.normal(size=(len(context), d)) @ (np.eye(d) + np.triu(rng.normal(0, 0.6, (d, d)), 1))
    for k in range(1, m + 1):
        x[context == k, rng.integers(d)] += rng.normal(0, 1.5)
    return ContextData(x, context, tuple(f"x{j}" for j in range(d)), tuple(f"k{k}" for k in range(m)), "obs")


def table_problem(seed: int) -> Sampled:
    """Scores by request from outside of compiled code, with constraints, some with a count prior or one over orders."""
    rng, orders = np.random.default_rng(seed), seed % 3 == 2
    return random_collapsed(rng, 4, 2, 2 + seed % 2, counted=seed % 4 > 1, over_orders=orders), small_data(seed)


def model_problem(mechanism: str, effect: str, seed: int) -> Sampled:
    data = small_data(seed)
    return collapse(Model(MECHANISMS[mechanism], EFFECTS[effect]), data), data


def deviations(problem: Sampled, method: MCMC, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Every edge and target marginal less the exact one: in Monte-Carlo standard errors, and as it is.

    The error is √(p (1 - p) / ESS) with the exact p. Where so few draws are expected to differ that no Gaussian
    describes their number, four effective draws are granted besides.
    """
    draws, exact = TemperingRun(*problem, method, seed).go(), enumerate_posterior(problem[0])
    targets = (draws.states > 0).astype(np.int8)
    found = diagnose(draws.graphs, targets, draws.log_posterior, draws.swap_rates)
    p = np.concatenate([exact.edge_marginals.ravel(), exact.target_marginals.ravel()])
    mean = np.concatenate([draws.graphs.mean(axis=(0, 1)).ravel(), targets.mean(axis=(0, 1)).ravel()])
    ess = np.concatenate([found.edges.ess.ravel(), found.targets.ess.ravel()])
    ess = np.where(np.isnan(ess), found.log_posterior_ess, ess)
    spread = np.sqrt(p * (1 - p) / ess)
    granted = np.where(ess * p * (1 - p) < 10, 4 / ess, 0.0)
    beyond = np.maximum(np.abs(mean - p) - granted, 0.0)
    error = np.divide(beyond, spread, out=np.where(beyond > 1e-9, np.inf, 0.0), where=spread > 1e-9)
    return error, np.abs(mean - p)


def check_all(problems: Sequence[Sampled]) -> None:
    """All marginals together within the Bonferroni bound of a false-alarm rate of 1e-3, and few problems near it.

    That rate rests on the effective sample size, which a short run overestimates for a rare state visited in bursts.
    A problem beyond the bound is therefore sampled again, ten times as long: a bias of the sampler stays and is then
    three times as many errors, a burst averages out.

    A problem is near it if one of its marginals is beyond the Bonferroni bound of the problem alone at a rate of 5 %
    (3.1 errors). Marginals of one problem depend on each other and problems do not, so that the number of such
    problems is at most binomial; it may be what has a false-alarm rate of 1e-3 again: 2 of 4 problems, 5 of 20. One
    problem alone may be near it.
    """
    errors = [deviations(problem, SHORT, seed)[0] for seed, problem in enumerate(problems)]
    bound = norm.isf(1e-3 / (2 * sum(map(len, errors))))
    for seed, problem in enumerate(problems):
        if errors[seed].max() >= bound:
            errors[seed] = deviations(problem, TEN_TIMES, 1000 + seed)[0]
            assert errors[seed].max() < bound
    near = sum(error.max() >= norm.isf(0.05 / (2 * len(error))) for error in errors)
    assert near <= binom.isf(1e-3, len(problems), 0.05)


def test_scores_from_outside_agree_with_enumeration() -> None:
    check_all([table_problem(seed) for seed in range(4)])


class Misled(TableEvidence):
    """Scores from outside, with an approximation that has nothing to do with them."""

    @cached_property
    def approximation(self) -> AbstractEvidence:
        return collapse(Model(MECHANISMS["linear, noise inferred"], SoftGaussian()), small_data(3)).evidence


def test_an_approximation_that_is_wrong_changes_no_probability() -> None:
    """It screens proposals, is sampled by all levels but the first, and exchanges states with it."""
    problems = []
    for seed in (0, 2):  # two states, as the approximation has; a prior on the number of targets, and over orders
        collapsed, data = table_problem(seed)
        evidence = Misled(collapsed.evidence.table, 2, 2)
        problems.append((replace(collapsed, evidence=evidence), data))
    check_all(problems)


def test_what_an_approximation_lacks_is_learnt_from_what_it_was_seen_to_lack() -> None:
    """Parents, contexts and pairs of them add to it: a regression finds that, and compiled code reads it as it is."""
    rng, (n, d, m) = np.random.default_rng(3), (600, 4, 3)
    parents, state = rng.integers(0, 2, (n, d)).astype(np.uint8), rng.integers(0, 2, (n, m)).astype(np.int8)
    node = rng.integers(0, 2, n)
    parents[np.arange(n), node] = 0
    by = (
        2.0
        + parents[:, 3]
        - 3.0 * parents[:, 2] * parents[:, 3]
        + 0.5 * state[:, 1]
        + parents[:, 2] * state[:, 1]
        + node
    )
    expected, rest = expected_lacks(Lacks(node, parents, state, np.arange(1, n + 1).astype(np.uint64), by))
    assert np.abs(rest).max() < 0.1 and not expected[2:].any()
    words = np.zeros((d, d + 1), np.uint64), np.zeros((d, m, 2), np.uint64)
    scores, known = ((np.zeros(2, np.uint64), np.zeros(2)) for _ in range(2))
    memory = Memory(True, *scores, *words, *known, expected)
    for at in range(20):
        chosen = np.flatnonzero(parents[at]).astype(NODE)
        found = expected_lack_of(memory, int(node[at]), chosen, len(chosen), state[at], np.uint64(7))
        assert found == pytest.approx(by[at] - rest[at] + expected[node[at], node[at], node[at]], abs=1e-9)


@njit
def expected_lack_of(memory, node, parents, n_parents, state, key):  # type: ignore[no-untyped-def]
    return expected_lack(memory, node, parents, n_parents, state, key)


@pytest.mark.parametrize(("mechanism", "effect"), FAST)
def test_marginals_agree_with_enumeration(mechanism: str, effect: str) -> None:
    check_all([model_problem(mechanism, effect, 100)])


@pytest.mark.slow
def test_scores_from_outside_agree_with_enumeration_on_twenty_problems() -> None:
    check_all([table_problem(seed) for seed in range(20)])


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "effect"), COMBINATIONS)
def test_marginals_agree_with_enumeration_on_twenty_problems(mechanism: str, effect: str) -> None:
    check_all([model_problem(mechanism, effect, 200 + seed) for seed in range(20)])


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "effect"), COMBINATIONS)
def test_a_long_run_is_within_a_two_hundredth(mechanism: str, effect: str) -> None:
    assert deviations(model_problem(mechanism, effect, 300), LONG, 0)[1].max() < 0.005


def same(one: ChainDraws, two: ChainDraws) -> bool:
    arrays = ((each.graphs, each.states, each.log_posterior, *each[1:]) for each in (one, two))
    return all(np.array_equal(a, b) for a, b in zip(*arrays, strict=True))


RUNS: dict[str, Callable[[], Sampled]] = {
    "table": lambda: table_problem(2),
    "regression": lambda: model_problem("linear, noise inferred", "mixture", 5),
    "network": lambda: model_problem("network", "hard", 5),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_seed_decides_and_nothing_else(name: str) -> None:
    one, two, other = (TemperingRun(*RUNS[name](), QUICK, seed).go() for seed in (3, 3, 4))
    assert same(one, two) and not same(one, other)


@pytest.mark.parametrize("name", RUNS)
def test_threads_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = TemperingRun(*RUNS[name](), QUICK, 3).go()
    monkeypatch.setattr(run, "ThreadPoolExecutor", lambda n: ThreadPoolExecutor(1))
    assert same(threads, TemperingRun(*RUNS[name](), QUICK, 3).go())


def test_a_memory_that_has_to_grow_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    roomy, make = TemperingRun(*table_problem(2), QUICK, 3).go(), ladder.empty_memory

    def tiny(*arguments: object, **options: object) -> object:
        return make(*arguments, **options)._replace(keys=np.zeros(2, np.uint64), values=np.zeros(2))

    monkeypatch.setattr(ladder, "empty_memory", tiny)
    assert same(roomy, TemperingRun(*table_problem(2), QUICK, 3).go())


class StopAt:
    """Interrupts a run when it reports the wanted sweep or a later one."""

    def __init__(self, sweep: int) -> None:
        self.sweep = sweep

    def __call__(self, progress: Progress) -> None:
        if progress.step >= self.sweep:
            raise KeyboardInterrupt


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("sweep", [1, 30, 70, 100])
def test_an_interrupted_run_goes_on_bit_for_bit(name: str, sweep: int, tmp_path: Path) -> None:
    """In the burn-in, while the ladder is adapted, and after it; chunks of sweeps differ, too."""
    checkpoint = Checkpoint(tmp_path / "run.npz", "the run", 1e9)
    with pytest.raises(KeyboardInterrupt):
        TemperingRun(*RUNS[name](), QUICK, 3, Monitor(StopAt(sweep)), checkpoint).go()
    resumed = TemperingRun(*RUNS[name](), QUICK, 3, None, checkpoint).go()
    assert same(resumed, TemperingRun(*RUNS[name](), QUICK, 3).go())


def test_a_checkpoint_of_another_version_is_refused(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "run.npz", "the run", 1e9)
    with pytest.raises(KeyboardInterrupt):
        TemperingRun(*RUNS["table"](), QUICK, 3, Monitor(StopAt(30)), checkpoint).go()
    with np.load(checkpoint.path) as saved:
        arrays = {name: saved[name] for name in saved.files if name not in ("fingerprint", "0.chains.place")}
    checkpoint.save_arrays(arrays)
    with pytest.raises(StoreError, match="does not fit this version"):
        TemperingRun(*RUNS["table"](), QUICK, 3, None, checkpoint).go()


OWN_UNITS = {
    "intercept": LinearGaussian(InferredNoise(), 1.0, 2.0),
    "no intercept": LinearGaussian(InferredNoise(), 1.0, None),
    "BGe": BGe(),
}


@pytest.mark.parametrize("name", OWN_UNITS)
def test_parameters_predict_the_same_in_the_units_of_the_data(name: str) -> None:
    """Mean, noise, shift, hard mean and soft mechanism of one draw, in own units and in those of the data."""
    data = small_data(8)
    scale, shift = np.array([3.0, 0.2, 1.0, 10.0]), np.array([4.0, -2.0, 0.5, 30.0])
    data = ContextData(data.x * scale + shift, data.context, data.variables, data.contexts, "obs")
    effect = EFFECTS["mixture"]
    problem = Problem(data, Model(OWN_UNITS[name], effect, standardize_within=True), Knowledge.none(4, 2))
    collapsed = collapsed_problem(problem)
    graphs = np.triu(np.ones((1, 1, 4, 4), np.int8), 1)
    states = np.array([0, 1, 2, 3, 3, 2, 1, 0], np.int8).reshape(1, 1, 2, 4)
    drawn = posterior_fields(np.random.default_rng(0), problem, collapsed, graphs, states)["parameters"]
    given = {name: item.values[0, 0] for name, item in drawn.items()}
    rng, u = np.random.default_rng(0), problem.standardized.x
    own = collapsed.evidence.draw_parameters(rng, graphs[0], states[0])
    own |= draw_hard_effects(rng, effect, problem.standardized, 1)
    own_values = {name: item.values[0].astype(float) for name, item in own.items()}
    to_data = problem.scaling.invert
    unit = problem.scaling.scale
    zero = np.zeros(4)
    np.testing.assert_allclose(to_data(u), data.x)
    mean = u @ own_values["weight"] + own_values.get("intercept", zero)
    np.testing.assert_allclose(data.x @ given["weight"] + given["intercept"], to_data(mean), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(given["noise_std"], own_values["noise_std"] * unit, rtol=1e-5)
    np.testing.assert_allclose(given["effect_shift"], own_values["effect_shift"] * unit, rtol=1e-5)
    np.testing.assert_allclose(given["effect_mean"], to_data(own_values["effect_mean"]), rtol=1e-4)
    soft = effect_states(effect, data).names.index("soft")
    for k, j in np.argwhere(states[0, 0] == soft):
        mean = u @ own_values["effect_weight"][k][:, j] + own_values["effect_intercept"][k, j]
        found = data.x @ given["effect_weight"][k][:, j] + given["effect_intercept"][k, j]
        np.testing.assert_allclose(found, mean * unit[j] + problem.scaling.shift[j], rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", RUNS)
def test_an_interrupt_in_the_middle_of_a_chunk_changes_nothing(name, tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path / "run.npz", "the run", 1e9)
    plain = Replica.advance

    def advance(self, until, n_moves, over):
        plain(self, until, n_moves)
        if until > 80:
            raise KeyboardInterrupt
        return True

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Replica, "advance", advance)
        TemperingRun(*RUNS[name](), QUICK, 3, None, checkpoint).go()
    resumed = TemperingRun(*RUNS[name](), QUICK, 3, None, checkpoint).go()
    assert same(resumed, TemperingRun(*RUNS[name](), QUICK, 3).go())


def without_a_number(name: str, where: str) -> Sampled:
    """Evidence that is NaN for variable 3, or for the variable where 2 is among its parents."""
    collapsed, data = RUNS[name]()
    evidence = collapsed.evidence
    if isinstance(evidence, TableEvidence):
        evidence.table[3, slice(None) if where == "start" else (np.arange(16) & 4) > 0] = np.nan
    else:
        evidence.tables.total[:, 3, slice(None) if where == "start" else 2] = np.nan
    return collapsed, data


@pytest.mark.parametrize("where", ["start", "move"])
@pytest.mark.parametrize("name", ["table", "regression"])
def test_evidence_that_is_not_a_number_is_an_error(name: str, where: str) -> None:
    with pytest.raises(InferenceError, match=r"The evidence of variable number 3 given parents .* is nan"):
        TemperingRun(*without_a_number(name, where), QUICK, 3).go()


def test_searches_for_starts_are_saved_without_contexts_too() -> None:
    """Where compiling takes longer than the time between two checkpoints there is none of them yet."""
    data = ContextData(np.random.default_rng(0).normal(size=(9, 2)), np.zeros(9, int), ("a", "b"), (), "obs")
    saved = TemperingRun(collapse(Model(), data), data, MCMC(), 0)._start_arrays([])
    assert saved["start.state"].shape == (0, 0) and saved["start.parents"].shape == (0, 2)
