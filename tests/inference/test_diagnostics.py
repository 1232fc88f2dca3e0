"""R-hat and effective sample size against an independent program, and the verdict on chains whose state is known."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bacadi.inference.mcmc.diagnostics import MIN_DRAWS, Criteria, Diagnostics, diagnose
from bacadi.posterior import Posterior

SHAPE = (2, 500)
VARIABLES, CONTEXTS = ("a", "b", "c", "d", "e"), ("k1", "k2")
D, M = len(VARIABLES), len(CONTEXTS)


def indicators(rng: np.random.Generator, p: np.ndarray, keep: float, shape: tuple[int, int] = SHAPE) -> np.ndarray:
    """Stationary 0/1 chains of mean p: a value is kept or drawn anew, so that the autocorrelation is keep^lag."""
    x = (rng.random((*shape, *p.shape)) < p).astype(np.int8)
    kept = rng.random((*shape, *p.shape)) < keep
    for t in range(1, shape[1]):
        x[:, t] = np.where(kept[:, t], x[:, t - 1], x[:, t])
    return x


def scores(rng: np.random.Generator, keep: float, shape: tuple[int, int] = SHAPE) -> np.ndarray:
    """A stationary Gaussian chain with autocorrelation keep^lag."""
    x = rng.normal(size=shape)
    for t in range(1, shape[1]):
        x[:, t] = keep * x[:, t - 1] + np.sqrt(1 - keep**2) * x[:, t]
    return x


def probabilities(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Nine of ten between 1e-4 and .1, evenly by magnitude, the others anywhere: most edges are rare."""
    rare = 10.0 ** -rng.uniform(1, 4, (rows, columns))
    return np.where(rng.random((rows, columns)) < 0.1, rng.random((rows, columns)), rare)


def fine_run(rng: np.random.Generator, d: int, keep: float, shape: tuple[int, int] = SHAPE) -> tuple[np.ndarray, ...]:
    """Arguments of `diagnose` from chains at their stationary distribution."""
    graphs = indicators(rng, probabilities(rng, d, d) * (1 - np.eye(d)), keep, shape)
    targets = indicators(rng, probabilities(rng, M, d), keep, shape)
    return graphs, targets, scores(rng, keep, shape), np.full((shape[0], 3), 0.3)


def false_alarms(d: int, keep: float, shape: tuple[int, int], runs: int) -> float:
    rng = np.random.default_rng(0)
    return float(np.mean([not diagnose(*fine_run(rng, d, keep, shape)).converged for _ in range(runs)]))


def with_mode(run: tuple[np.ndarray, ...], mode: np.ndarray) -> tuple[np.ndarray, ...]:
    """a -> b in the draws of mode 1 and b -> a in the others; the log posterior does not see it."""
    graphs = run[0].copy()
    graphs[:, :, 0, 1], graphs[:, :, 1, 0] = mode, 1 - mode
    return (graphs, *run[1:])


def of_one(x: np.ndarray) -> Diagnostics:
    """With x as log posterior and, made 0/1, as the only edge."""
    graphs = np.zeros((*x.shape, 2, 2), np.int8)
    graphs[:, :, 0, 1] = x > 0.8
    return diagnose(graphs, np.zeros((*x.shape, 0, 2), np.int8), x, np.zeros((len(x), 0)))


def test_golden_values_of_arviz_stats() -> None:
    """arviz-stats 0.8.0: array_stats.rhat(x) and array_stats.ess(x, method="bulk") of x and of x > 0.8.

    Chains that differ in location, and in spread. Multiples of 1/64 have no rounding, which could break ties of ranks.
    """
    t = np.arange(60)
    first, second = np.sin(0.7 * t**1.5) + np.cos(0.13 * t), np.sin(1.1 * t**1.3) + 0.01 * t
    x = np.stack([first, second, np.cos(2.3 * t**1.2) * 1.5])
    x = np.round(64 * x) / 64
    moved, wide = of_one(x + np.array([[0], [0], [1]])), of_one(x * np.array([[1], [2], [4]]))
    assert moved.log_posterior_rhat == pytest.approx(1.154965143543, abs=1e-9)
    assert moved.log_posterior_ess == pytest.approx(14.153714993347, abs=1e-7)
    assert moved.edges.rhat[0, 1] == pytest.approx(1.077515827607, abs=1e-9)
    assert moved.edges.ess[0, 1] == pytest.approx(27.161633427611, abs=1e-7)
    assert wide.log_posterior_rhat == pytest.approx(1.419483019753, abs=1e-9)
    assert wide.log_posterior_ess == pytest.approx(88.482452584819, abs=1e-7)
    assert wide.edges.ess[0, 1] == pytest.approx(71.553821548333, abs=1e-7)


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.9])
def test_effective_sample_size_of_a_known_autocorrelation(keep: float) -> None:
    """ESS = S (1 - keep) / (1 + keep), for 40 indicators within 10 % in the median (they spread by less than 20 %)."""
    x = indicators(np.random.default_rng(1), np.full((1, 40), 0.4), keep, (2, 4000))
    found = diagnose(np.zeros((2, 4000, 40, 40), np.int8), x, np.zeros((2, 4000)), np.zeros((2, 0)))
    assert np.median(found.targets.ess) == pytest.approx(8000 * (1 - keep) / (1 + keep), rel=0.1)


def test_ranks_of_an_indicator_change_nothing() -> None:
    x = indicators(np.random.default_rng(2), np.array([0.3, 0.9]), 0.7)
    for i in range(2):
        found = of_one(x[:, :, i].astype(float))
        assert found.log_posterior_rhat == pytest.approx(found.edges.rhat[0, 1], abs=1e-12)
        assert found.log_posterior_ess == pytest.approx(found.edges.ess[0, 1], rel=1e-9)


def test_many_indicators_are_as_each_alone() -> None:
    rng = np.random.default_rng(3)
    p = probabilities(rng, 30, 30)
    x, empty = indicators(rng, p, 0.5, (2, 60)), np.zeros((2, 60, 0, 30), np.int8)
    every = diagnose(x, empty, np.zeros((2, 60)), np.zeros((2, 0))).edges
    for i, j in ((0, 0), (17, 4), (29, 29), *np.argwhere(p > 0.3)[:5]):
        alone = np.zeros_like(x)
        alone[:, :, i, j] = x[:, :, i, j]
        one = diagnose(alone, empty, np.zeros((2, 60)), np.zeros((2, 0))).edges
        np.testing.assert_array_equal(every.rhat[i, j], one.rhat[i, j])
        np.testing.assert_array_equal(every.ess[i, j], one.ess[i, j])
        assert every.difference[i, j] == one.difference[i, j]


def test_what_all_draws_agree_on_is_left_out_and_what_replicas_disagree_on_is_infinite() -> None:
    graphs = np.zeros((3, 60, D, D), np.int8)
    graphs[:, :, 3, 4] = 1
    targets = np.zeros((3, 60, M, D), np.int8)
    fine = diagnose(graphs, targets, np.full((3, 60), -7.0), np.full((3, 2), 0.2))
    assert fine.converged and np.isnan(fine.edges.rhat).all() and np.isnan(fine.targets.ess).all()
    assert (fine.log_posterior_rhat, fine.log_posterior_ess) == (1.0, 180.0)
    targets[2, :, 1, 2] = 1
    apart = diagnose(graphs, targets, np.full((3, 60), -7.0), np.full((3, 2), 0.2))
    assert not apart.converged
    assert np.isnan(apart.edges.rhat).all() and np.isnan(apart.targets.rhat).sum() == M * D - 1
    assert apart.targets.rhat[1, 2] == np.inf
    assert apart.targets.difference[1, 2] == 1.0 and apart.targets.difference.sum() == 1.0
    assert apart.words(VARIABLES, CONTEXTS)[0] == (
        "Not converged: the probability of 'c' being a target in context 'k2' differs by 1.00 between replicas; "
        "run longer with --sweeps or --time-budget."
    )


def test_rounding_of_the_log_posterior_is_no_difference() -> None:
    noise = 1e-11 * (np.arange(2)[:, None] + np.random.default_rng(4).random((2, 100)))
    assert of_one(-1234.5 + noise).log_posterior_rhat == 1.0


def test_replicas_at_different_constants() -> None:
    found = of_one(np.repeat([[-1234.1], [-1234.7]], 100, axis=1))
    assert found.log_posterior_rhat == np.inf and not found.converged


def test_few_false_alarms_where_chains_are_fine() -> None:
    """2 x 500 draws worth 333, 100 edges and 20 targets: 1 alarm in 1000 runs of `false_alarms`, here 60.

    At d = 20 it counts 0 alarms in 100 runs worth 1000 and 333 draws and 7 in 100 worth 198, where 40 uncertain edges
    have standard errors of .035. If the true rate were 1 %, this test would fail with probability .003.
    """
    assert false_alarms(10, 0.5, SHAPE, 60) <= 0.05


def test_plain_limits_on_rhat_and_ess_of_all_edges_would_alarm() -> None:
    """Why they are no criteria: in each of 10 fine runs some edge is above 1.01, in most below 100 effective draws."""
    rng = np.random.default_rng(5)
    found = [diagnose(*fine_run(rng, 20, 0.6)) for _ in range(10)]
    assert all(np.nanmax(f.edges.rhat) > 1.01 for f in found)
    assert np.mean([np.nanmin(f.edges.ess) < 100 for f in found]) > 0.5
    assert np.mean([f.converged for f in found]) >= 0.8


def test_rhat_of_fine_log_posteriors() -> None:
    """200 effective draws in two replicas: a third above 1.01 (532 of 1500), almost none above 1.05 (4)."""
    rng = np.random.default_rng(1)
    rhat = np.array([of_one(scores(rng, 0.67)).log_posterior_rhat for _ in range(100)])
    assert 0.2 < np.mean(rhat > 1.01) < 0.5 and np.mean(rhat > 1.05) <= 0.02


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(lambda rng: np.repeat([[0], [1]], SHAPE[1], axis=1), id="each replica in its own"),
        pytest.param(lambda rng: rng.random(SHAPE) < [[0.3], [0.73]], id="different shares"),
        pytest.param(lambda rng: indicators(rng, np.array(0.5), 0.98), id="few switches"),
        pytest.param(lambda rng: np.arange(SHAPE[1]) > [[300], [250]], id="drift"),
    ],
)
def test_two_modes_of_equal_score_are_caught(mode: Callable[[np.random.Generator], np.ndarray]) -> None:
    rng = np.random.default_rng(6)
    for _ in range(10):
        found = diagnose(*with_mode(fine_run(rng, D, 0.5), mode(rng).astype(np.int8)))
        assert not found.converged
        assert "'a' → 'b'" in found.words(VARIABLES, CONTEXTS)[0] or "'b' → 'a'" in found.words(VARIABLES, CONTEXTS)[0]


def test_replicas_of_different_score_are_caught() -> None:
    rng = np.random.default_rng(7)
    graphs, targets, score, swaps = fine_run(rng, D, 0.5)
    found = diagnose(graphs, targets, score + np.array([[0.0], [1.5]]), swaps)
    assert found.log_posterior_rhat > 1.05
    assert any(line.startswith("Not converged: the log posterior") for line in found.words(VARIABLES, CONTEXTS))


def test_words_for_every_criterion() -> None:
    graphs, targets, score, swaps = fine_run(np.random.default_rng(8), D, 0.3)
    assert diagnose(graphs, targets, score, swaps).words(VARIABLES, CONTEXTS) == []
    cold = swaps.copy()
    cold[:, 1] = 0.004
    (sentence,) = diagnose(graphs, targets, score, cold).words(VARIABLES, CONTEXTS)
    assert sentence.startswith("Not converged: temperatures 2 and 3 exchange states in 0.4 % of the attempts")
    (sentence,) = diagnose(graphs[:1], targets[:1], score[:1], swaps[:1]).words(VARIABLES, CONTEXTS)
    assert sentence == "Not checked: 1 replica cannot show a missed mode; run 2."
    few = MIN_DRAWS - 1
    (sentence,) = diagnose(graphs[:, :few], targets[:, :few], score[:, :few], swaps).words(VARIABLES, CONTEXTS)
    assert sentence.startswith(f"Not converged: {few} draws per replica cannot be judged")
    short = diagnose(graphs[:, :30], targets[:, :30], score[:, :30], swaps).words(VARIABLES, CONTEXTS)
    assert any(line.startswith("Too few independent draws: the log posterior") for line in short)
    strict = Criteria(max_difference=0.0, max_error=0.0)
    lines = replace(diagnose(graphs, targets, score, swaps), criteria=strict).words(VARIABLES, CONTEXTS)
    assert len(lines) == 4 and all(line.endswith("run longer with --sweeps or --time-budget.") for line in lines)
    assert "other edges beyond 0.00" in lines[0] and "standard error" in lines[1] and "being a target" in lines[3]


def test_stats_go_into_a_posterior_and_its_file(tmp_path: Path) -> None:
    graphs, targets, score, swaps = fine_run(np.random.default_rng(9), D, 0.3, (2, 50))
    found = diagnose(np.triu(graphs, 1), targets, score, swaps)
    posterior = Posterior(np.triu(graphs, 1), targets, np.full((2, 50), -np.log(100)), VARIABLES, CONTEXTS)
    replace(posterior, sample_stats=found.to_stats()).save(tmp_path / "posterior.nc")
    stats = Posterior.load(tmp_path / "posterior.nc").sample_stats
    assert stats["edge_rhat"].dims == ("source", "target") and stats["target_ess"].dims == ("context", "node")
    assert stats["swap_rate"].dims == ("chain", "level")
    for name, stat in found.to_stats().items():
        np.testing.assert_array_equal(stats[name].values, stat.values)


def test_a_few_of_very_many_edges_in_doubt_end_a_run_and_are_named() -> None:
    """One in 100,000 edges and targets may be left; the same two edges of few variables ask for more draws, and so does
    a log posterior that has not settled."""
    d, halves = 450, np.arange(100) < 50
    graphs, quick = np.zeros((2, 100, d, d), np.int8), scores(np.random.default_rng(0), 0.0, (2, 100))
    graphs[0, :, 0, 1], graphs[0, :, 2, 3] = halves, halves
    rest = np.zeros((2, 100, 0, d), np.int8), quick, np.full((2, 3), 0.3)
    many, few = diagnose(graphs, *rest), diagnose(graphs[:, :, :5, :5], rest[0][..., :5], *rest[1:])
    assert not many.converged and "(1 other edge beyond" in many.words(tuple(map(str, range(d))), ())[0]
    assert not many.is_worth_more and not few.converged and few.is_worth_more
    stuck = diagnose(graphs, rest[0], np.cumsum(quick, axis=1), rest[2])
    assert stuck.is_worth_more
