"""Held-out likelihood of drawn Gaussian-process mechanisms against the Gaussian process and against the truth."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from bacadi import fit
from bacadi.data.contexts import ContextData
from bacadi.evidence.collapsed import CollapsedPosterior
from bacadi.inference.collapsed import collapsed_problem, posterior_fields
from bacadi.inference.mcmc.method import MCMC
from bacadi.inference.method import Problem
from bacadi.metrics import untargeted
from bacadi.metrics.evaluate import aligned, evaluate
from bacadi.metrics.likelihood import FunctionDensity, density_of, log_rows
from bacadi.model.certainty import NO_DRIFT
from bacadi.model.integrated import BGe, GaussianProcess
from bacadi.model.kernels import RBF, AdditiveKernel, Constant, LinearKernel
from bacadi.model.knowledge import Knowledge
from bacadi.model.model import Model
from bacadi.model.neural import NeuralGaussian
from bacadi.model.noise import FixedNoise, InferredNoise
from bacadi.posterior.posterior import Posterior
from bacadi.simulate import HeldOut, NeuralTruth, RandomErdosRenyi, SyntheticSpec, Task, simulate

D = 5
REST = Constant(1.0) + LinearKernel(0.5)
PAPER = Model.preset("paper", "nonlinear")
SHORT = MCMC(n_sweeps=30, n_levels=4, max_temperature=4.0)


@pytest.fixture(autouse=True)
def _one_thread():
    with threadpool_limits(1):
        yield


def nonlinear_task(seed: int, standardize: bool = False) -> Task:
    held_out = HeldOut(4, 25, 2)
    spec = SyntheticSpec(
        D, graph=RandomErdosRenyi(1), mechanism=NeuralTruth(), standardize=standardize, held_out=held_out
    )
    return simulate(spec, seed)


def drawn_given_the_truth(task: Task, model: Model, n: int) -> tuple[Posterior, Problem, CollapsedPosterior]:
    """Functions from their posterior, graph and targets known."""
    problem = Problem(task.data, model, Knowledge.none(D, task.data.n_contexts))
    collapsed = collapsed_problem(problem)
    graphs, states = (np.repeat(a[None, None], n, axis=1).astype(np.int8) for a in (task.graph, task.targets))
    fields = posterior_fields(np.random.default_rng(0), problem, collapsed, graphs, states)
    return Posterior.from_draws(task.data, graphs, states, **fields), problem, collapsed


def gaussian_process(
    problem: Problem, collapsed: CollapsedPosterior, task: Task, x: np.ndarray, node: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of f_j at rows in the units of the priors, by the covariance of all training rows."""
    kernel, ratio = collapsed.evidence.groups[node]  # type: ignore[attr-defined]
    parents = task.graph[:, node] == 1
    rows = problem.standardized.x[untargeted(task.data.context, task.targets)[:, node] == 1]
    cross = kernel(x[:, parents], rows[:, parents])
    gain = np.linalg.solve(kernel(rows[:, parents], rows[:, parents]) + ratio * np.eye(len(rows)), cross.T).T
    return gain @ rows[:, node], np.sqrt(kernel.diagonal(x[:, parents]) - (gain * cross).sum(axis=1))


@pytest.mark.parametrize(
    ("model", "standardize"),
    [
        (PAPER, False),
        (PAPER.replace(standardize_within=True), True),
        (Model(mechanism=GaussianProcess((REST + RBF(2.0),), FixedNoise(0.3))), True),
    ],
    ids=["network", "network, standardised", "rbf, standardised"],
)
def test_means_are_those_of_the_gaussian_process(model: Model, standardize: bool) -> None:
    """Held-out rows whose parents lie where training rows do: the mean over 400 draws of what the density predicts is
    within .1 (root mean square over rows, units of the priors; a third of the noise), the error of 100 random units."""
    task = nonlinear_task(2, standardize)
    posterior, problem, collapsed = drawn_given_the_truth(task, model, 400)
    density = density_of(posterior, task.data)
    assert isinstance(density, FunctionDensity)
    shift, scale = density.mechanism.units.shift, density.mechanism.units.scale
    assert (scale != 1).any() == model.standardize_within
    x = task.data.x[task.data.context == 0][:40]
    for node in np.flatnonzero(task.graph.any(axis=0)):
        mean, _ = gaussian_process(problem, collapsed, task, (x - shift) / scale, node)
        # log N(x | m, σ²) - log N(0 | m, σ²) is linear in m, so that its mean over draws shows that of m.
        moved = x.copy()
        moved[:, node] = 0.0
        only = np.zeros_like(x)
        only[:, node] = 1.0
        _, at_x = log_rows(posterior, density, x, only)
        _, at_zero = log_rows(posterior, density, moved, only)
        variance = posterior.parameters["noise_std"].values[0, :, node, None].astype(float) ** 2
        far = np.abs(x[:, node]) > 0.1
        found = ((at_x - at_zero) * variance / x[:, node] + x[:, node] / 2).mean(axis=0)
        error = ((found - shift[node]) / scale[node] - mean)[far]
        assert np.sqrt(np.mean(error**2)) < 0.1


def test_rows_of_draws_are_sums_of_densities() -> None:
    task = nonlinear_task(0)
    posterior = fit(task.data, PAPER, method=SHORT, seed=0)
    density = density_of(posterior, task.data)
    assert isinstance(density, FunctionDensity)
    counted = untargeted(task.held_out.context, task.held_out_targets)
    weights, rows = log_rows(posterior, density, task.held_out.x, counted)
    one_by_one = [(density.log_density(draw, task.held_out.x) * counted).sum(axis=1) for _, draw in posterior.draws()]
    np.testing.assert_allclose(rows, one_by_one, rtol=1e-9)
    assert weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("standardize", [False, True])
def test_nonlinear_fits_predict_nearly_as_the_truth(standardize: bool, tmp_path) -> None:
    """Interventions move parents to where there are few data, where functions are uncertain: per row of 5 variables the
    draws lose below 1.5 nats each and below 1 together. A stored posterior says the same."""
    task = nonlinear_task(0, standardize)
    noise = InferredNoise(1.0, 0.5) if standardize else FixedNoise(0.1**0.5)
    mechanism = NeuralGaussian(noise=noise, intercept=standardize)  # standardised columns have lost their origin
    model = PAPER.replace(mechanism=mechanism, standardize_within=standardize)
    posterior = fit(task.data, model, method=SHORT, seed=0)
    found = evaluate(posterior, task)
    truth = found["interventional_nll_of_truth"]
    assert truth - 0.2 < found["predictive_nll"] < truth + 1.0
    assert truth < found["interventional_nll"] < truth + 1.5
    posterior.save(tmp_path / "posterior.nc")
    stored = evaluate(Posterior.load(tmp_path / "posterior.nc"), task)
    assert stored["interventional_nll"] == pytest.approx(found["interventional_nll"], rel=1e-12)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("mechanism", [None, BGe()], ids=["default", "bge"])
def test_linear_fits_predict_nearly_as_the_truth(mechanism: BGe | None, standardize: bool) -> None:
    """Standardised within contexts, whatever the scale of the data: within .3 nats a row of 5 variables.

    Contexts do not drift here; allowing for it costs about .1 nats more with so few rows.
    """
    spec = SyntheticSpec(D, graph=RandomErdosRenyi(1), standardize=standardize, held_out=HeldOut(4, 25, 2))
    task = simulate(spec, seed=1)
    model = Model(drift=NO_DRIFT) if mechanism is None else Model(mechanism=mechanism)
    found = evaluate(fit(task.data, model, method=MCMC(n_sweeps=100), seed=0), task)
    assert found["interventional_nll"] == pytest.approx(found["interventional_nll_of_truth"], abs=0.3)


def test_functions_keep_their_meaning_when_variables_are_reordered() -> None:
    """Additive functions have units of one input each and here a linear part, which are reordered with the rest."""
    task = nonlinear_task(1)
    mechanism = GaussianProcess((REST + AdditiveKernel(), REST + AdditiveKernel(RBF(3.0))))
    posterior, *_ = drawn_given_the_truth(task, Model(mechanism=mechanism), 3)
    order = [3, 0, 4, 2, 1]
    data = task.data
    other = ContextData(data.x[:, order], data.context, tuple(data.variables[i] for i in order), data.contexts, "obs")
    moved = aligned(posterior, other)
    ones = np.ones_like(data.x)
    _, before = log_rows(posterior, density_of(posterior, data), data.x, ones)
    _, after = log_rows(moved, density_of(moved, other), other.x, ones)
    np.testing.assert_allclose(after, before, rtol=1e-9)


def test_networks_without_weights_have_no_density() -> None:
    task = nonlinear_task(0)
    attrs = {"configuration": {"model": {"mechanism": {"type": "nonlinear"}}}}
    bare = Posterior.from_draws(task.data, task.graph[None], task.targets[None], attrs=attrs)
    assert density_of(bare, task.data) is None
    assert "interventional_nll" not in evaluate(bare, task)
