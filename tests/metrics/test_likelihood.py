"""Held-out likelihoods against SciPy, against the model's own densities and against the truth of a task."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from bacadi.config.codec import encode
from bacadi.data.contexts import ContextData, Scaling
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError, DataError
from bacadi.metrics import Comparison, effect_log_density, interventional_nll, predictive_nll, untargeted
from bacadi.metrics.evaluate import evaluate, held_out_likelihood
from bacadi.metrics.likelihood import BGeNode, FittedDensity, MechanismDensity, density_of
from bacadi.model.integrated import BGe
from bacadi.model.linear import LinearGaussian, LinearTheta
from bacadi.model.neural import NeuralGaussian
from bacadi.model.noise import FixedNoise, InferredNoise
from bacadi.posterior.posterior import Draw, Posterior
from bacadi.relaxed.mechanisms import log_evidence, prepare
from bacadi.simulate import Effects, HeldOut, RandomErdosRenyi, Shift, SyntheticSpec, simulate
from bacadi.simulate.graphs import erdos_renyi_dag

D = 4


def some_data(seed=0, n=30):
    rng = np.random.default_rng(seed)
    context = np.repeat([0, 1, 2], n // 3)
    names = tuple("abcd")
    return ContextData(rng.normal(size=(n, D)) @ rng.normal(size=(D, D)) + 1, context, names, ("k1", "k2"), "obs")


def some_draw(seed=0, parameters=None):
    rng = np.random.default_rng(seed)
    targets = np.array([[1, 0, 0, 0], [0, 0, 1, 1]], dtype=np.int8)
    return Draw(erdos_renyi_dag(rng, D, 1.2), targets, parameters or {})


def values(named):
    return {name: np.asarray(item.values) for name, item in named.items()}


def test_linear_density_equals_scipy_and_the_model():
    rng, x = np.random.default_rng(0), some_data().x
    mechanism = LinearGaussian(noise=InferredNoise(), intercept_prior_std=1.0)
    with jax.enable_x64(True):
        theta = LinearTheta(jnp.asarray(rng.normal(size=(D, D))), jnp.asarray(rng.normal(size=D)), jnp.zeros(D) - 0.3)
        draw = some_draw(parameters=values(mechanism.labelled(theta)))
        graph = jnp.asarray(draw.graph, float)
        model = np.asarray(jax.vmap(lambda row: mechanism.log_prob(theta, graph, row))(jnp.asarray(x)))
    ours = MechanismDensity(LinearGaussian()).log_density(draw, x)
    mean = x @ (draw.graph * np.asarray(theta.weight)) + np.asarray(theta.intercept)
    np.testing.assert_allclose(ours, stats.norm.logpdf(x, mean, np.exp(-0.3)), rtol=1e-10)
    np.testing.assert_allclose(ours, model, rtol=1e-9)


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "relu", "gelu", "softplus", "leaky_relu"])
def test_network_density_equals_the_model(activation):
    """The density is found by what a posterior stores: the configuration of the model and named parameters."""
    data = some_data()
    mechanism = NeuralGaussian(hidden=(3, 2), activation=activation, negative_slope=0.25)
    with jax.enable_x64(True):
        theta = mechanism.init(jax.random.key(0), D, jnp.dtype("float64"))
        theta = jax.tree.map(lambda leaf: leaf + 0.1, theta)
        draw = some_draw(parameters=values(mechanism.labelled(theta)))
        graph = jnp.asarray(draw.graph, float)
        model = np.asarray(jax.vmap(lambda row: mechanism.log_prob(theta, graph, row))(jnp.asarray(data.x)))
    attrs = {"configuration": {"model": {"mechanism": encode(mechanism)}}}
    parameters = {name: Labelled(np.asarray(v)[None], dims) for name, (v, dims) in mechanism.labelled(theta).items()}
    drawn = Posterior.from_draws(data, draw.graph[None], draw.targets[None], parameters=parameters, attrs=attrs)
    density = density_of(drawn, data)
    assert isinstance(density, MechanismDensity) and density.mechanism == mechanism
    np.testing.assert_allclose(density.log_density(draw, data.x), model, rtol=1e-6, atol=1e-6)


def marginal(data, bge):
    return FittedDensity(data, lambda *node: BGeNode.fit(bge, *node))


def test_marginal_density_is_the_ratio_of_evidences_of_the_model():
    """p(x | data) = p(data and x) / p(data), node by node over the rows where the node is no target."""
    data, draw = some_data(), some_draw()
    mechanism = BGe(alpha_mu=0.7, alpha_omega_excess=3.0)
    keep = np.concatenate([np.ones((1, 1, D)), 1.0 - draw.targets[:, None]])
    new = np.random.default_rng(5).normal(size=(3, D))

    def evidence(x, context):
        # The new row is observational: no node is a target in it.
        extended = ContextData(x, context, data.variables, data.contexts, "obs")
        statistics = prepare(mechanism, extended, jnp.dtype("float64"))
        graph = jnp.asarray(draw.graph, float)[:, None, :]
        return np.asarray(log_evidence(mechanism, graph, jnp.asarray(keep), statistics))[0]

    with jax.enable_x64(True):
        without = evidence(data.x, data.context)
        ratios = [evidence(np.vstack([data.x, row]), np.append(data.context, 0)) - without for row in new]
    ours = marginal(data, mechanism).log_density(draw, new)
    np.testing.assert_allclose(ours, ratios, rtol=1e-8)


def test_marginal_density_of_a_root_is_a_student_t():
    data = some_data()
    draw = Draw(np.zeros((D, D), np.int8), np.zeros((2, D), np.int8), {})
    x = np.linspace(-3, 3, 5)[:, None] * np.ones(D)
    column = data.x[:, 1]
    n, mean = len(column), column.sum() / (len(column) + 1)
    spread = 0.5 + column @ column - (n + 1) * mean**2
    df = n + 3
    scale = np.sqrt(spread * (n + 2) / (n + 1) / df)
    np.testing.assert_allclose(
        marginal(data, BGe(alpha_mu=1.0)).log_density(draw, x)[:, 1],
        stats.t.logpdf(x[:, 1], df, mean, scale),
        rtol=1e-10,
    )


def test_maximum_likelihood_parameters_maximise_the_likelihood():
    """No parameters found by a numerical optimiser are better, and those in closed form are as good."""
    data, draw = some_data(), some_draw(1)
    fitted = FittedDensity(data)
    node = int(np.argmax(draw.graph.sum(axis=0)))
    parents = np.flatnonzero(draw.graph[:, node])
    rows = data.x[untargeted(data.context, draw.targets)[:, node] == 1]
    assert len(parents) >= 2 and 0 < len(rows) < data.n_rows

    def loss(p):
        return -stats.norm.logpdf(rows[:, node], rows[:, parents] @ p[2:] + p[0], np.exp(p[1])).sum()

    best = optimize.minimize(loss, np.zeros(2 + len(parents)), tol=1e-10)
    closed = fitted.nodes(draw)[node]
    assert closed.noise_std == pytest.approx(np.exp(best.x[1]), rel=1e-3)
    np.testing.assert_allclose(np.append(closed.intercept, closed.weight), np.delete(best.x, 1), atol=2e-3)
    ours = -fitted.log_density(draw, rows)[:, node].sum()
    assert ours <= best.fun + 1e-6
    np.testing.assert_allclose(fitted.weights(draw)[parents, node], closed.weight)


def test_maximum_likelihood_with_too_few_rows_stays_finite():
    data = some_data(n=6)
    full = Draw(np.triu(np.ones((D, D), np.int8), 1), np.ones((2, D), np.int8), {})
    assert np.isfinite(FittedDensity(data).log_density(full, data.x + 1)).all()
    no_observational = ContextData(data.x[2:], data.context[2:], data.variables, data.contexts)
    assert np.isfinite(FittedDensity(no_observational).log_density(full, data.x)).all()
    constant = ContextData(np.ones((3, D)), np.zeros(3, int), data.variables, data.contexts, "obs")
    assert np.isfinite(FittedDensity(constant).log_density(full, constant.x)).all()


def test_draws_share_what_was_learned():
    fitted, draw = FittedDensity(some_data()), some_draw()
    first = fitted.nodes(draw)
    assert all(a is b for a, b in zip(first, fitted.nodes(draw), strict=True))
    other = Draw(draw.graph, 0 * draw.targets, {})
    assert fitted.nodes(other)[0] is not first[0] and fitted.nodes(other)[1] is first[1]


def test_unknown_noise_is_refused_in_words():
    with pytest.raises(DataError, match="noise_std"):
        MechanismDensity(LinearGaussian()).log_density(some_draw(parameters={"weight": np.ones((D, D))}), some_data().x)


def test_mechanisms_that_are_not_ours_are_neither_guessed_at_nor_imported(tmp_path, monkeypatch):
    """A posterior may come from a stranger: a module that it names is imported only if the user lists it."""
    (tmp_path / "stranger.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    task = simulate(SyntheticSpec(n_variables=4, graph=RandomErdosRenyi(1), held_out=HeldOut(2, 5, 1)), seed=0)
    old, network = {"class": "LinearGaussian"}, {"type": "nonlinear", "activation": "mine"}
    for mechanism in ({"type": "own"}, {"type": "stranger:Own"}, network, old):
        attrs = {"configuration": {"model": {"mechanism": mechanism}}}
        posterior = Posterior.from_draws(task.data, task.graph[None], task.targets[None], attrs=attrs)
        with pytest.raises(ConfigError, match="configuration of the posterior"):
            density_of(posterior, task.data)
        with pytest.warns(UserWarning, match="Likelihoods are left out") as caught:
            values = evaluate(posterior, task)
        assert len(caught) == 1 and "expected_sid" in values and not any("nll" in name for name in values)


def test_a_known_noise_in_other_units_is_one_per_variable():
    """σ = .3 in the units of the priors is .3 s_j in those of the data, where the parameters of a posterior are."""
    rng, data, draw = np.random.default_rng(3), some_data(), some_draw()
    mechanism, scaling = LinearGaussian(noise=FixedNoise(0.3)), Scaling(rng.normal(size=D), rng.uniform(1, 5, D))
    theta = LinearTheta(rng.normal(size=(D, D)), rng.normal(size=D))
    parameters = values(mechanism.labelled(mechanism.rescaled(theta, draw.graph, scaling)))
    ours = MechanismDensity(mechanism).log_density(draw._replace(parameters=parameters), data.x)
    expected = mechanism.log_density(theta, draw.graph, scaling.apply(data.x)) - np.log(scaling.scale)
    np.testing.assert_allclose(ours, expected, rtol=1e-9)


@given(st.integers(0, 10**6))
def test_averages_over_draws_and_contexts(seed):
    rng = np.random.default_rng(seed)
    log_p, weights = rng.normal(size=(4, 9)) * 3, rng.random(4)
    context = np.array([1] * 2 + [2] * 3 + [5] * 4)
    w = weights / weights.sum()
    inside = [np.mean(w @ log_p[:, context == k]) for k in (1, 2, 5)]
    outside = [np.mean(np.log(w @ np.exp(log_p[:, context == k]))) for k in (1, 2, 5)]
    assert interventional_nll(log_p, weights, context) == pytest.approx(-np.mean(inside))
    assert predictive_nll(log_p, weights, context) == pytest.approx(-np.mean(outside))
    # Jensen: the logarithm of a mean is no smaller than the mean of logarithms.
    assert predictive_nll(log_p, weights, context) <= interventional_nll(log_p, weights, context) + 1e-12


def test_a_draw_without_weight_does_not_count_and_small_densities_do_not_vanish():
    log_p = np.array([[-2000.0, -2001.0], [-np.inf, 5.0]])
    context, weights = np.array([1, 1]), np.array([1.0, 0.0])
    assert interventional_nll(log_p, weights, context) == predictive_nll(log_p, weights, context) == 2000.5
    assert predictive_nll(log_p[:, :1], np.ones(2), context[:1]) == pytest.approx(2000 + np.log(2))


def test_no_rows_and_bad_weights_are_refused():
    with pytest.raises(DataError, match="no held-out rows"):
        interventional_nll(np.zeros((1, 0)), np.ones(1), np.zeros(0, int))
    with pytest.raises(DataError, match="weights"):
        predictive_nll(np.zeros((1, 1)), np.array([-1.0]), np.ones(1, int))


def test_effects_count_at_their_targets_in_their_own_context():
    """The context of a row is counted from 1, the row of the targets from 0: a shift by one would be seen here."""
    targets = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1]], dtype=np.int8)
    keeps, std = np.zeros((3, D), bool), targets * np.array([[1.0], [2.0], [3.0]])
    keeps[2, 3] = True
    effects = Effects(targets, keeps, 5.0 * targets, std, (None,) * 3)
    x = np.full((4, D), 4.0)
    log_p = effect_log_density(x, np.array([0, 2, 1, 3]), effects)
    expected = np.zeros((4, D))
    expected[1, 1], expected[2, 0], expected[3, 2] = (stats.norm.logpdf(4, 5, s) for s in (2, 1, 3))
    np.testing.assert_allclose(log_p, expected)
    knocked_out = Effects(targets, keeps, 0.0 * std, 0.0 * std, (None,) * 3)
    assert not effect_log_density(x, np.array([1, 2, 3, 3]), knocked_out).any()


@pytest.mark.parametrize("standardize", [False, True])
def test_the_truth_as_a_posterior_scores_as_the_truth(standardize):
    """True weights and noise as parameters give the log density of the task, whatever its scale."""
    spec = SyntheticSpec(n_variables=6, graph=RandomErdosRenyi(1), standardize=standardize, held_out=HeldOut(3, 20, 2))
    task = simulate(spec, seed=3)
    scaling, weights = task.data.scaling, task.weights
    scaled = weights * scaling.scale[:, None] / scaling.scale
    intercept = (scaling.shift @ weights - scaling.shift) / scaling.scale
    parameters = {
        "weight": Labelled(scaled[None], ("source", "target")),
        "intercept": Labelled(intercept[None], ("node",)),
        "noise_std": Labelled((task.network.noise_std / scaling.scale)[None], ("node",)),
    }
    posterior = Posterior.from_draws(task.data, task.graph[None], task.targets[None], parameters=parameters)
    found = held_out_likelihood(Comparison(posterior, task))
    mean = -task.log_density(held_out=True).reshape(3, 20).mean()
    assert found["interventional_nll"] == pytest.approx(mean)
    assert found["predictive_nll"] == pytest.approx(mean)
    assert found["interventional_nll_of_truth"] == pytest.approx(mean)


def test_effects_that_keep_the_parents_count_for_nothing():
    spec = SyntheticSpec(n_variables=5, graph=RandomErdosRenyi(1), held_out=HeldOut(2, 10, 5, effect=Shift()))
    task = simulate(spec, seed=0)
    posterior = Posterior.from_draws(task.data, task.graph[None], task.targets[None])
    found = held_out_likelihood(Comparison(posterior, task))
    assert found["interventional_nll"] == found["interventional_nll_of_truth"] == 0
