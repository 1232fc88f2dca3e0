"""What holds for every baseline alone and bootstrapped: shapes, determinism, known targets, odd data, named errors."""

import warnings
from importlib.util import find_spec

import numpy as np
import pytest

from bacadi.baselines import GIES, JCIPC, UTIGSP, AbstractBaseline, Bootstrap, GnIES
from bacadi.baselines.dcdi.dcdi import DCDIG
from bacadi.data.contexts import ContextData
from bacadi.errors import BacadiError, ConfigError, DataError
from bacadi.graph.dag import is_acyclic
from bacadi.graph.equivalence import consistent_union
from bacadi.metrics.evaluate import evaluate
from bacadi.posterior.posterior import Posterior
from bacadi.simulate import SyntheticSpec, simulate
from bacadi.simulate.graphs import RandomErdosRenyi

from .problems import run


def needs(package):
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} of the extra baselines is not installed")


BASELINES = [
    pytest.param(JCIPC(alpha=0.05), id="jci-pc"),
    pytest.param(UTIGSP(n_starts=5), id="ut-igsp"),
    # Far from convergence: what holds for every answer has to hold for this one too.
    pytest.param(DCDIG(window=10, max_iterations=100, refit_iterations=100), id="dcdi-g"),
    pytest.param(GIES(), id="gies", marks=needs("gies")),
    pytest.param(GnIES(), id="gnies", marks=needs("gnies")),
]
TASK = simulate(SyntheticSpec(n_variables=4, graph=RandomErdosRenyi(1)), seed=1)


def known_to(baseline: AbstractBaseline, data: ContextData):
    """Context k sets variable k - 1, to a baseline that has to know; None to all others."""
    if not baseline.needs_targets:
        return None
    return np.eye(data.n_contexts, data.n_variables)


def odd_data(change=None, counts=(40, 10, 10), d=4):
    rng = np.random.default_rng(0)
    context = np.repeat(np.arange(len(counts)), counts)
    x = rng.normal(size=(len(context), d))
    x[:, 1] += x[:, 0]
    for k in range(1, len(counts)):
        x[context == k, (k - 1) % d] += 6
    if change is not None:
        change(x, context)
    contexts = tuple(f"k{k}" for k in range(1, len(counts)))
    return ContextData(x, context, tuple(f"x{j}" for j in range(d)), contexts, "obs")


def constant_column(x, context):
    x[:, 2] = 3.0


def constant_in_a_context(x, context):
    x[context == 1, 0] = 0.0


def duplicated_rows(x, context):
    for k in np.unique(context):
        x[context == k] = x[context == k][0]
    x[: len(x) // 2] += np.random.default_rng(1).normal(size=(len(x) // 2, x.shape[1]))


ODD = {
    "constant column": odd_data(constant_column),
    "constant in a context": odd_data(constant_in_a_context),
    "duplicated rows": odd_data(duplicated_rows),
    "one row in a context": odd_data(counts=(40, 1, 1)),
    "more variables than rows in a context": odd_data(counts=(30, 3, 3), d=8),
    "more variables than rows": odd_data(counts=(5, 1, 1), d=9),
    "no context but the observational one": odd_data(counts=(30,)),
    "two variables": odd_data(counts=(20, 10), d=2),
}


def three_samples(baseline: AbstractBaseline) -> Bootstrap:
    """In this process; a baseline that runs all samples together has no processes to count."""
    return Bootstrap(baseline, n_samples=3, jobs=None if baseline.batched else 1)


@pytest.mark.parametrize("baseline", BASELINES)
def test_an_estimate_is_a_class_of_dags_and_targets(baseline: AbstractBaseline):
    found = baseline.estimate(np.random.default_rng(0), TASK.data, known_to(baseline, TASK.data))
    assert found.graph.shape == (4, 4) and found.graph.dtype == np.int8
    assert found.targets.shape == TASK.targets.shape and found.targets.dtype == np.int8
    assert set(np.unique(found.graph)) <= {0, 1} and set(np.unique(found.targets)) <= {0, 1}
    assert not found.graph.diagonal().any()
    np.testing.assert_array_equal(consistent_union(found.graph), found.graph)


@pytest.mark.parametrize("baseline", BASELINES)
def test_equal_arguments_give_equal_estimates_and_leave_the_data_alone(baseline: AbstractBaseline):
    before = TASK.data.x.copy()
    known = known_to(baseline, TASK.data)
    one, two = (baseline.estimate(np.random.default_rng(3), TASK.data, known) for _ in range(2))
    np.testing.assert_array_equal(one.graph, two.graph)
    np.testing.assert_array_equal(one.targets, two.targets)
    np.testing.assert_array_equal(TASK.data.x, before)


@pytest.mark.parametrize("baseline", BASELINES)
def test_known_targets_hold_in_every_draw(baseline: AbstractBaseline):
    known = np.full(TASK.targets.shape, 0.0 if baseline.needs_targets else np.nan)
    known[0], known[1, 3] = [0, 1, 0, 0], 1
    posterior = run(three_samples(baseline), TASK.data, known)
    assert (posterior.intervention_target[..., 0, :] == [0, 1, 0, 0]).all()
    assert (posterior.intervention_target[..., 1, 3] == 1).all()


@pytest.mark.parametrize("baseline", BASELINES)
def test_a_bootstrap_is_a_posterior_like_any_other(baseline: AbstractBaseline, tmp_path):
    known = known_to(baseline, TASK.data)
    posterior, again = (run(three_samples(baseline), TASK.data, known, seed=2) for _ in range(2))
    np.testing.assert_array_equal(posterior.log_weight, again.log_weight)
    np.testing.assert_array_equal(posterior.graph, again.graph)
    assert is_acyclic(posterior.graph).all() and np.isclose(posterior.weights.sum(), 1)
    values = evaluate(posterior, TASK)
    assert np.isfinite(values["interventional_nll"]) and 0 <= values["target_average_precision"] <= 1
    posterior.save(tmp_path / "posterior.nc")
    stored = Posterior.load(tmp_path / "posterior.nc")
    np.testing.assert_array_equal(stored.edge_probabilities(), posterior.edge_probabilities())
    assert stored.attrs["n_dropped"] == posterior.attrs["n_dropped"]
    assert len(posterior.describe()) > 0 and len(posterior.effects()) > 0


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("name", ODD)
def test_odd_data_give_an_answer_or_one_sentence(baseline: AbstractBaseline, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            known = known_to(baseline, ODD[name])
            posterior = run(three_samples(baseline), ODD[name], known)
        except BacadiError as error:
            assert "'x" in str(error) or "'k" in str(error)
        else:
            assert np.isfinite(posterior.edge_probabilities()).all()


@pytest.mark.parametrize("baseline", BASELINES)
def test_what_cannot_be_used_is_named(baseline: AbstractBaseline):
    data, rng = odd_data(), np.random.default_rng(0)
    empty = ContextData(
        data.x[data.context != 2], data.context[data.context != 2], data.variables, data.contexts, "obs"
    )
    with pytest.raises(DataError, match="'k2' has no row"):
        baseline.estimate(rng, empty, None)
    x = data.x.copy()
    x[7, 1] = np.nan
    with pytest.raises(DataError, match="Row 8 of column 'x1'"):
        baseline.estimate(rng, ContextData(x, data.context, data.variables, data.contexts, "obs"), None)
    with pytest.raises(DataError, match="no rows"):
        baseline.estimate(rng, ContextData(x[:0], data.context[:0], data.variables, (), "obs"), None)
    with pytest.raises(ConfigError, match="shape"):
        baseline.estimate(rng, data, np.zeros((1, 1)))
    with pytest.raises(ConfigError, match="neither 1, 0 nor NaN"):
        baseline.estimate(rng, data, np.full((2, 4), 0.5))


@pytest.mark.parametrize("baseline", BASELINES)
def test_the_relaxed_baseline_has_half_the_level(baseline: AbstractBaseline):
    relaxed = baseline.relaxed()
    assert type(relaxed) is type(baseline)
    if hasattr(baseline, "alpha"):
        assert relaxed.alpha == baseline.alpha / 2
