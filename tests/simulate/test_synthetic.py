"""The paper's recipe, what goes beyond it, and the laws that the samples follow."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats

from bacadi.errors import ConfigError
from bacadi.graph.dag import is_acyclic
from bacadi.simulate import (
    HeldOut,
    Interventions,
    LinearTruth,
    NeuralTruth,
    RandomErdosRenyi,
    RandomScaleFree,
    Shift,
    SyntheticSpec,
    simulate,
)
from bacadi.simulate.synthetic import Damped, Hard, HardAt, Scale, Soft, UniformNoise

SMALL = SyntheticSpec(n_variables=6, graph=RandomErdosRenyi(1.5))
EFFECTS = [Hard(), HardAt(), Shift(), Scale(), Soft()]


def with_effect(effect, mechanism=None, rows=10):
    interventions = Interventions(effect=effect, rows_per_context=rows)
    return replace(SMALL, interventions=interventions, mechanism=mechanism or LinearTruth())


@pytest.mark.parametrize("graph", [RandomErdosRenyi(), RandomScaleFree()])
@pytest.mark.parametrize("mechanism", [LinearTruth(), NeuralTruth()])
def test_the_paper_recipe(graph, mechanism):
    task = simulate(SyntheticSpec(graph=graph, mechanism=mechanism), seed=1)
    assert task.data.counts.tolist() == [100] + [10] * 20
    assert task.held_out.counts.tolist() == [0] + [100] * 10
    assert is_acyclic(task.graph)
    np.testing.assert_array_equal(task.targets, np.eye(20))
    np.testing.assert_array_equal(task.held_out_targets.sum(axis=1), 4)
    means = task.effects.shift[task.targets == 1]
    assert (np.abs(means) >= 5).all()
    np.testing.assert_allclose(task.effects.std[task.targets == 1], np.sqrt(0.5))
    assert (task.held_out_effects.shift[task.held_out_targets == 1] == -5).all()
    assert ((task.network.noise_std**2 >= 0.05) & (task.network.noise_std**2 <= 0.15)).all()
    assert np.isfinite(task.data.x).all()
    assert task.data.observational == "obs"
    assert task.held_out.observational is None


def test_linear_weights_stand_on_the_edges():
    task = simulate(SyntheticSpec(), seed=2)
    weights = task.network.theta.weight
    np.testing.assert_array_equal(weights != 0, task.graph == 1)
    sizes = np.abs(weights[task.graph == 1])
    assert sizes.min() >= 0.5
    assert sizes.max() <= 2


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("mechanism", [LinearTruth(), NeuralTruth()])
def test_a_task_is_a_function_of_spec_and_seed(effect, mechanism):
    spec = with_effect(effect, mechanism)
    first, second, other = simulate(spec, 3), simulate(spec, 3), simulate(spec, 4)
    np.testing.assert_array_equal(first.data.x, second.data.x)
    np.testing.assert_array_equal(first.held_out.x, second.held_out.x)
    assert (first.data.x != other.data.x).any()


GOLDEN = [
    (
        LinearTruth(),
        Hard(),
        [-5.5832340182, 0.0896662093, -25.0967478559, -9.9126275308, -0.0971445939, 0.0202371342],
        (5.20396159, -77.907032),
    ),
    (
        NeuralTruth(),
        Soft(),
        [1.4648911589, 0.0896662093, 2.0438405556, 2.9330620231, 1.7057077269, 0.0202371342],
        (31.41237072, -51.472807),
    ),
    (
        NeuralTruth(hidden=3),
        Scale(),
        [-0.6016517761, 0.0896662093, 0.2992288701, 0.0799481462, 0.2572706199, 0.0202371342],
        (35.90225646, -113.46399),
    ),
]


@pytest.mark.parametrize(("mechanism", "effect", "row", "held_out"), GOLDEN)
def test_tasks_of_earlier_versions_are_drawn_again(mechanism, effect, row, held_out):
    """Values of version 0.1.0 at commit 41905ca: the last row of a context; Σ x and Σ log p of held-out rows."""
    interventions, test = Interventions(4, 2, 1, 7, effect), HeldOut(3, 9, 2, effect)
    task = simulate(SyntheticSpec(6, RandomErdosRenyi(1.5), mechanism, UniformNoise(), interventions, test), seed=11)
    np.testing.assert_allclose(task.data.x[-8], row, atol=1e-9)
    assert (task.held_out.x.sum(), task.log_density(held_out=True).sum()) == pytest.approx(held_out, rel=1e-7)


def test_more_rows_keep_the_network():
    few, many = simulate(with_effect(Hard(), rows=5), 3), simulate(with_effect(Hard(), rows=50), 3)
    np.testing.assert_array_equal(few.graph, many.graph)
    np.testing.assert_array_equal(few.weights, many.weights)
    np.testing.assert_array_equal(few.effects.shift, many.effects.shift)


def test_linear_samples_have_the_closed_form_mean_and_covariance():
    """x = (I - W^T)^-1 ε row by row. The means of six variables lie in 5 standard errors (false-alarm rate 4e-6); the
    covariance matrix is within 10 % of its norm (about ten standard errors at 20,000 rows)."""
    spec = replace(SMALL, n_observational=20_000)
    task = simulate(spec, 5)
    x = task.data.x[task.data.context == 0]
    mix = np.linalg.inv(np.eye(6) - task.weights)
    covariance = mix.T @ np.diag(task.network.noise_std**2) @ mix
    assert (np.abs(x.mean(axis=0)) < 5 * np.sqrt(np.diag(covariance) / len(x))).all()
    assert np.linalg.norm(np.cov(x.T) - covariance) < 0.1 * np.linalg.norm(covariance)


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("mechanism", [LinearTruth(), NeuralTruth()])
def test_standardised_residuals_of_every_context_are_standard_normal(effect, mechanism):
    """Kolmogorov-Smirnov over all rows and nodes, false-alarm rate 1e-6 each."""
    task = simulate(with_effect(effect, mechanism, rows=100), 6)
    for data, effects in [(task.data, task.effects), (task.held_out, task.held_out_effects)]:
        mean, std = task.network.conditional(data.x, data.context, effects)
        assert stats.kstest(((data.x - mean) / std).ravel(), "norm").pvalue > 1e-6


def rows_of(task, k):
    return task.data.x[task.data.context == k + 1]


def test_what_each_effect_does_to_its_target():
    """Means and spreads at a root, where they are known; bands of 6 standard errors, false-alarm rate 2e-9 each."""
    n = 2000
    for effect in EFFECTS:
        task = simulate(with_effect(effect, rows=n), 7)
        root = int(np.flatnonzero(task.graph.sum(axis=0) == 0)[0])
        x = rows_of(task, root)[:, root]
        std = task.effects.std[root, root]
        assert abs(x.mean() - task.effects.shift[root, root]) < 6 * std / np.sqrt(n)
        assert abs(x.std() / std - 1) < 6 / np.sqrt(2 * n)
    hard = simulate(with_effect(Hard(), rows=n), 7)
    for node in range(6):
        for parent in np.flatnonzero(hard.graph[:, node]):
            x = rows_of(hard, node)
            assert abs(np.corrcoef(x[:, parent], x[:, node])[0, 1]) < 6 / np.sqrt(n)


def test_kinds_of_effects_in_their_numbers():
    task = {type(e).__name__: simulate(with_effect(e), 8) for e in EFFECTS}
    noise, hit = task["Shift"].network.noise_std, np.eye(6, dtype=bool)
    np.testing.assert_allclose(task["Shift"].effects.std[hit], noise)
    assert ((np.abs(task["Shift"].effects.shift[hit]) >= 1) & (np.abs(task["Shift"].effects.shift[hit]) <= 3)).all()
    assert (task["Scale"].effects.shift == 0).all()
    assert ((task["Scale"].effects.std[hit] >= 2 * noise) & (task["Scale"].effects.std[hit] <= 5 * noise)).all()
    assert not task["Hard"].effects.keeps_parents.any()
    assert task["Soft"].effects.keeps_parents[hit].all()
    own = task["Soft"].effects.theta
    assert len(own) == 6
    assert (own[0].weight != task["Soft"].weights).any()
    np.testing.assert_array_equal(own[0].weight != 0, task["Soft"].graph == 1)
    assert all(theta is None for theta in task["Shift"].effects.theta)


def test_damped_effects_shrink_the_weights_of_their_context():
    """Shift and damping are the same for all targets of a context; Poisson numbers of targets in 6 standard errors."""
    design = Interventions(n_contexts=300, rows_per_context=2, effect=Damped(), further_targets=1.0)
    task = simulate(replace(SMALL, n_variables=40, interventions=design), 9)
    effects, counts = task.effects, task.targets.sum(axis=1)
    assert counts.min() == 1 and abs(counts.mean() - 2) < 6 / np.sqrt(300) and effects.keeps_parents[counts > 1].any()
    edges, several = task.graph == 1, int(counts.argmax())
    ratios = np.array([theta.weight[edges] / task.weights[edges] for theta in effects.theta])
    np.testing.assert_allclose(ratios, ratios[:, :1] + 0 * ratios)
    assert ratios.min() >= 0.1 and ratios.max() <= 1 and ratios[:, 0].std() > 0.2
    assert len(set(effects.shift[several][task.targets[several] == 1])) == 1
    with pytest.raises(ConfigError, match="shrinks linear weights"):
        simulate(with_effect(Damped(), NeuralTruth()), 3)


def test_means_of_hard_effects_are_gaussian_beyond_their_offset():
    """μ = z + offset · sign z with z ~ N(0, mean_std²): Kolmogorov-Smirnov and the spread of 3,600 draws of z, and
    their signs, in bands of 5 standard errors; false-alarm rate 6e-7 each."""
    d = 60
    interventions = Interventions(effect=Hard(offset=3.0, mean_std=0.7), n_contexts=d, targets_per_context=d)
    task = simulate(replace(SMALL, n_variables=d, interventions=interventions), 15)
    means = task.effects.shift.ravel()
    z = np.sign(means) * (np.abs(means) - 3)
    assert (np.abs(means) >= 3).all() and means.size == d * d
    assert stats.kstest(z / 0.7, "norm").pvalue > 6e-7
    assert abs(z.std() / 0.7 - 1) < 5 / np.sqrt(2 * z.size)
    assert abs(np.sign(means).mean()) < 5 / np.sqrt(z.size)


def test_weak_effects_are_weak():
    weak = simulate(with_effect(Hard(offset=0.1, mean_std=0.1)), 9)
    assert np.abs(weak.effects.shift).max() < 1


def test_designs():
    def targets(**kwargs):
        return simulate(replace(SMALL, interventions=Interventions(**kwargs)), 0).targets

    partial = targets(n_contexts=4)
    assert partial.sum(axis=1).tolist() == [1] * 4
    assert partial.sum(axis=0).max() == 1
    several = targets(n_contexts=4, targets_per_context=3)
    assert several.sum(axis=1).tolist() == [3] * 4
    assert several.sum(axis=0).tolist() == [2] * 6
    idle = targets(n_without_effect=2)
    assert idle.sum(axis=1).tolist() == [1] * 6 + [0, 0]
    assert targets(n_contexts=0).shape == (0, 6)


def test_a_context_without_effect_looks_like_the_observational_one():
    """Two-sample Kolmogorov-Smirnov over six variables, false-alarm rate 1e-6 each."""
    spec = replace(
        SMALL,
        n_observational=1000,
        interventions=Interventions(n_contexts=1, n_without_effect=1, rows_per_context=1000),
    )
    task = simulate(spec, 1)
    idle, plain = task.data.x[task.data.context == 2], task.data.x[task.data.context == 0]
    assert all(stats.ks_2samp(idle[:, j], plain[:, j]).pvalue > 1e-6 for j in range(6))


def test_log_density_against_scipy():
    """A linear network with hard interventions is jointly Gaussian: mean and covariance in closed form."""
    task = simulate(SMALL, 11)
    weights, noise = task.weights, task.network.noise_std
    ours = task.log_density(held_out=True)
    for k in range(task.held_out.n_contexts):
        rows = task.held_out.context == k + 1
        hit = task.held_out_targets[k] == 1
        mix = np.linalg.inv(np.eye(6) - np.where(hit[None, :], 0, weights))
        mean = np.where(hit, -5.0, 0.0) @ mix
        covariance = mix.T @ np.diag(np.where(hit, 0.5, noise**2)) @ mix
        expected = stats.multivariate_normal(mean, covariance).logpdf(task.held_out.x[rows])
        np.testing.assert_allclose(ours[rows], expected, rtol=1e-8, atol=1e-6)


@pytest.mark.parametrize("effect", EFFECTS)
def test_standardised_tasks_keep_the_truth_in_the_original_scale(effect):
    spec = with_effect(effect)
    plain, scaled = simulate(spec, 12), simulate(replace(spec, standardize=True), 12)
    np.testing.assert_allclose(scaled.data.x.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(scaled.data.x.std(axis=0), 1)
    for original, standardised in [(plain.data, scaled.data), (plain.held_out, scaled.held_out)]:
        np.testing.assert_allclose(standardised.scaling.invert(standardised.x), original.x, atol=1e-9)
    jacobian = np.log(scaled.data.scaling.scale).sum()
    np.testing.assert_allclose(scaled.log_density(), plain.log_density() + jacobian)


def test_equal_noise_and_no_observational_rows():
    task = simulate(replace(SMALL, noise=UniformNoise(0.1, 0.1), n_observational=0), 0)
    np.testing.assert_allclose(task.network.noise_std, np.sqrt(0.1))
    assert task.data.observational is None
    assert task.data.counts[0] == 0


def test_roots_of_networks_have_mean_zero():
    task = simulate(replace(SMALL, mechanism=NeuralTruth(hidden=3)), 13)
    x = np.random.default_rng(0).normal(size=(4, 6))
    mean = task.network.mechanism.mean(task.network.theta, task.graph, x)
    for node in range(6):
        assert (mean[:, node] == 0).all() == (task.graph[:, node].sum() == 0)


def test_functions_read_the_parents_alone():
    rng = np.random.default_rng(0)
    for mechanism in (LinearTruth(), NeuralTruth()):
        task = simulate(replace(SMALL, mechanism=mechanism), 14)
        mean = partial(task.network.mechanism.mean, task.network.theta, task.graph)
        x = rng.normal(size=(5, 6))
        for node in range(6):
            changed = np.where(task.graph[:, node] == 1, x, rng.normal(size=x.shape))
            np.testing.assert_array_equal(mean(x)[:, node], mean(changed)[:, node])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SyntheticSpec(n_variables=0), "n_variables is 0; give a whole number of at least 1"),
        (lambda: SyntheticSpec(n_observational=-1), "n_observational is -1"),
        (lambda: Interventions(n_contexts=-2), "n_contexts is -2"),
        (lambda: HeldOut(rows_per_context=-1), "rows_per_context is -1"),
        (lambda: replace(SMALL, interventions=Interventions(targets_per_context=7)), "7 targets per context"),
        (lambda: UniformNoise(0, 1), "low is 0; give a number above 0"),
        (lambda: UniformNoise(2, 1), "low is 2 and high is 1; give low <= high"),
        (lambda: LinearTruth(2, 1), "give weight_low <= weight_high"),
        (lambda: NeuralTruth(hidden=0), "hidden is 0; give a whole number of at least 1"),
        (lambda: NeuralTruth(weight_std=0), "weight_std is 0"),
        (lambda: Hard(variance=0), "variance is 0; give a number above 0"),
        (lambda: HardAt(mean=np.inf), "mean is inf"),
        (lambda: Shift(3, 1), "low <= high"),
        (lambda: Scale(0, 1), "low is 0; give a number above 0"),
        (lambda: Soft(-1, 1), "low is -1"),
        (lambda: simulate(SyntheticSpec(n_variables=4), 0), "room for 6 edges"),
        (lambda: simulate(SMALL, -1), "seed"),
    ],
)
def test_bad_specifications_are_refused_in_one_sentence(make, words):
    with pytest.raises(ConfigError, match=words) as error:
        make()
    assert "\n" not in str(error.value)
