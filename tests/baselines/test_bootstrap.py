"""The DAG bootstrap: what is resampled, how estimates become draws, weights, retries, and its Gaussian parameters."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from scipy.optimize import minimize

from bacadi.baselines import JCIPC, AbstractBaseline, Bootstrap, Estimate
from bacadi.baselines.base import FittedParameters
from bacadi.baselines.bootstrap import AverageLikelihoodWeights, PosteriorWeights, UniformWeights, resampled
from bacadi.baselines.dcdi.dcdi import DCDIG
from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError, InferenceError
from bacadi.graph.dag import is_acyclic
from bacadi.inference.method import Monitor
from bacadi.metrics.evaluate import evaluate
from bacadi.metrics.likelihood import FittedDensity
from bacadi.posterior.posterior import Draw
from bacadi.simulate import SyntheticSpec, simulate
from bacadi.simulate.graphs import RandomErdosRenyi, erdos_renyi_dag

from ..members import consistent_extensions
from .problems import problem, run

UNDIRECTED = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=np.int8)
TASK = simulate(SyntheticSpec(n_variables=3, graph=RandomErdosRenyi(1)), seed=0)


class Fixed(AbstractBaseline):
    """Always the same answer."""

    graph: tuple[tuple[int, ...], ...] = ((0, 1, 0), (1, 0, 0), (0, 0, 0))

    def estimate(self, rng, data, known_targets):
        targets = np.zeros((data.n_contexts, data.n_variables), dtype=np.int8)
        return Estimate(np.array(self.graph, dtype=np.int8), targets)


class Coin(AbstractBaseline):
    """An edge 0 -> 1 or none, at random."""

    def estimate(self, rng, data, known_targets):
        graph = np.zeros((3, 3), dtype=np.int8)
        graph[0, 1] = rng.random() < 0.5
        return Estimate(graph, np.zeros((data.n_contexts, 3), dtype=np.int8))


class Failing(AbstractBaseline):
    """Fails until alpha is at most `works_at`, and always on samples whose first row is below `never_below`."""

    alpha: float = 1.0
    works_at: float = 1.0
    never_below: float = -1e300

    def estimate(self, rng, data, known_targets):
        if self.alpha > self.works_at or data.x[0, 0] < self.never_below:
            raise InferenceError("The matrix of column 'x0' is singular; drop it.")
        return Fixed().estimate(rng, data, known_targets)


class Together(Fixed):
    """All samples as one program."""

    calls: ClassVar[list] = []

    def estimate_many(self, rng, resampled, known_targets):
        self.calls.append(len(resampled))
        return super().estimate_many(rng, resampled, known_targets)


def fit(baseline, n_samples=6, **options):
    jobs = None if baseline.batched else 1
    return run(Bootstrap(baseline, n_samples=n_samples, jobs=jobs, **options), TASK.data)


def fit_gaussian(data, graph, targets) -> FittedParameters:
    return Estimate(graph, targets).fitted(data, graph)


def values_of(fitted):
    return {name: parameter.values for name, parameter in fitted.parameters.items()}


def test_rows_are_drawn_with_replacement_within_each_context():
    data = TASK.data
    sample = resampled(np.random.default_rng(0), data)
    np.testing.assert_array_equal(sample.context, data.context)
    for k in range(data.n_contexts + 1):
        own = {row.tobytes() for row in data.x[data.context == k]}
        drawn = [row.tobytes() for row in sample.x[data.context == k]]
        assert set(drawn) <= own
        assert len(set(drawn)) < len(drawn)


def test_a_class_is_drawn_from_and_kept_beside_its_members():
    posterior = fit(Fixed(), n_samples=40)
    assert posterior.n_cyclic == 0
    members = {dag.tobytes() for dag in consistent_extensions(UNDIRECTED)}
    assert {graph.tobytes() for graph in posterior.graph[0]} == members
    assert (posterior.parameters["cpdag"].values == UNDIRECTED).all()
    values = evaluate(posterior, TASK)
    assert values["expected_sid_lower"] <= values["expected_sid"] <= values["expected_sid_upper"]


def test_dags_stay_as_they_are_and_are_no_classes():
    chain = ((0, 1, 0), (0, 0, 1), (0, 0, 0))
    posterior = fit(Fixed(chain))
    assert "cpdag" not in posterior.parameters
    assert (posterior.graph == np.array(chain)).all()


def test_a_pair_found_often_counts_once_by_posterior_and_often_by_uniform_weights():
    by = {
        weights: fit(Coin(), n_samples=30, weights=weights)
        for weights in (PosteriorWeights(), AverageLikelihoodWeights())
    }
    uniform = fit(Coin(), n_samples=30, weights=UniformWeights())
    with_edge = uniform.graph[0, :, 0, 1] == 1
    assert 0 < with_edge.sum() < 30
    assert np.isclose(uniform.edge_probabilities()[0, 1], with_edge.mean())
    for weights, posterior in by.items():
        np.testing.assert_array_equal(posterior.graph, uniform.graph)
        total = np.array([posterior.weights[0, with_edge].sum(), posterior.weights[0, ~with_edge].sum()])
        targets = np.zeros((3, 3), dtype=np.int8)
        fits = [fit_gaussian(TASK.data, graph, targets) for graph in (np.triu(UNDIRECTED), 0 * UNDIRECTED)]
        gain = fits[0].log_likelihood - fits[1].log_likelihood
        if isinstance(weights, PosteriorWeights):
            # One weight more costs half a log of the number of rows.
            assert np.isclose(np.log(total[0] / total[1]), gain - 0.5 * np.log(TASK.data.n_rows))
        else:
            assert abs(np.log(total[0] / total[1]) - gain / TASK.data.n_rows) < 0.2


def test_any_number_of_jobs_gives_the_same_posterior():
    by_jobs = [Bootstrap(JCIPC(alpha=0.05), n_samples=4, jobs=jobs) for jobs in (1, 2)]
    one, two = (run(bootstrap, TASK.data, seed=5) for bootstrap in by_jobs)
    other = run(by_jobs[0], TASK.data, seed=6)
    for name in ("graph", "intervention_target", "log_weight"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    for name, parameter in one.parameters.items():
        np.testing.assert_array_equal(parameter.values, two.parameters[name].values)
    assert not np.array_equal(one.sample_stats["log_posterior"].values, other.sample_stats["log_posterior"].values)


def test_a_failed_sample_is_tried_again_with_a_smaller_level():
    posterior = fit(Failing(works_at=0.125))
    assert (posterior.sample_stats["n_retries"].values == 3).all()
    assert posterior.attrs["n_dropped"] == 0


def test_a_sample_that_fails_ten_times_is_dropped_and_counted():
    middle = float(np.median(TASK.data.x[TASK.data.context == 0, 0]))
    heard = []
    bootstrap = Bootstrap(Failing(never_below=middle), n_samples=12, jobs=1)
    posterior = run(bootstrap, TASK.data, monitor=Monitor(heard.append))
    assert 0 < posterior.attrs["n_dropped"] < 12
    assert posterior.n_draws + posterior.attrs["n_dropped"] == 12
    assert [progress.step for progress in heard] == list(range(1, 13))
    n_dropped = posterior.attrs["n_dropped"]
    assert heard[-1].entries == {"dropped": n_dropped} and heard[-1].total == 12
    assert heard[-1].phase == "bootstrap" and heard[-1].note == f"{n_dropped} failed"


def test_if_every_sample_fails_the_reason_is_given():
    with pytest.raises(InferenceError, match=r"None of the 6 bootstrap samples .* column 'x0' is singular"):
        fit(Failing(works_at=0.0))


def test_a_cyclic_answer_is_a_failure():
    with pytest.raises(InferenceError, match="stands for no DAG"):
        fit(Fixed(((0, 1, 0), (0, 0, 1), (1, 0, 0))), n_samples=1)


def test_a_baseline_that_runs_samples_together_is_called_once():
    Together.calls.clear()
    posterior = fit(Together())
    assert Together.calls == [6] and posterior.n_draws == 6


@pytest.mark.parametrize("options", [{"n_samples": 0}, {"max_retries": -1}])
def test_senseless_choices_are_refused(options):
    with pytest.raises(ConfigError):
        Bootstrap(Fixed(), **options)


def test_no_process_is_no_bootstrap():
    with pytest.raises(ConfigError, match="jobs is 0"):
        Bootstrap(Fixed(), jobs=0)


def test_a_bootstrap_says_what_it_runs_and_how_often():
    assert Bootstrap(JCIPC()).opening() == "running JCI-PC on 20 bootstrap samples"
    together = "running DCDI-G on 5 bootstrap samples together, which takes minutes"
    assert Bootstrap(DCDIG()).opening() == together
    assert "on 7 bootstrap samples" in Bootstrap(Fixed(), n_samples=7).opening()


def test_knowledge_beyond_certain_targets_is_refused():
    known = problem(TASK.data)
    with pytest.raises(ConfigError, match="more than certain targets"):
        Bootstrap(Fixed()).check(replace(known, knowledge=known.knowledge.limit_parents(1)))


def test_parameters_are_those_of_the_metrics_and_make_a_likelihood():
    data, rng = TASK.data, np.random.default_rng(0)
    for _ in range(5):
        graph = erdos_renyi_dag(rng, 3, 0.7)
        targets = (rng.random((3, 3)) < 0.4).astype(np.int8)
        found, draw = values_of(fit_gaussian(data, graph, targets)), Draw(graph, targets, {})
        expected = FittedDensity(data)
        np.testing.assert_allclose(found["weight"], expected.weights(draw), atol=1e-9)
        np.testing.assert_allclose(found["noise_std"], [node.noise_std for node in expected.nodes(draw)])
        np.testing.assert_allclose(found["intercept"], [node.intercept for node in expected.nodes(draw)], atol=1e-9)
    posterior = fit(Fixed())
    assert evaluate(posterior, TASK)["interventional_nll"] > 0
    assert is_acyclic(posterior.graph).all()


def test_no_other_parameters_are_more_likely():
    data, graph = TASK.data, np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], dtype=np.int8)
    targets = np.array([[0, 0, 1], [0, 0, 0], [0, 0, 0]], dtype=np.int8)
    found = values_of(fit_gaussian(data, graph, targets))
    free = data.context != 1

    def loss(values):
        residual = data.x[free, 2] - data.x[free][:, :2] @ values[:2] - values[2]
        return 0.5 * np.sum(residual**2) / np.exp(2 * values[3]) + free.sum() * values[3]

    best = minimize(loss, np.zeros(4))
    ours = loss(np.array([*found["weight"][:2, 2], found["intercept"][2], np.log(found["noise_std"][2])]))
    assert ours <= best.fun + 1e-6
    np.testing.assert_allclose(found["effect_mean"][0, 2], data.x[data.context == 1, 2].mean())


def test_one_row_of_an_effect_has_a_finite_density():
    x = np.random.default_rng(0).normal(size=(20, 2))
    data = ContextData(x, np.array([0] * 19 + [1]), ("a", "b"), ("k",), "obs")
    found = fit_gaussian(data, np.zeros((2, 2), np.int8), np.array([[1, 0]], np.int8))
    values = values_of(found)
    assert values["effect_noise_std"][0, 0] == values["noise_std"][0]
    assert found.log_likelihood < 0
