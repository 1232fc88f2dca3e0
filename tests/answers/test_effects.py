"""Total effects and do-distributions: against closed forms, for every mechanism, in the units of the table."""

from dataclasses import replace

import numpy as np
import pytest

import bacadi
from bacadi import answers
from bacadi.answers.effects import effect_draws, summary
from bacadi.baselines.bootstrap import Bootstrap
from bacadi.baselines.ut_igsp import UTIGSP
from bacadi.config.layers import configuration_table
from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError
from bacadi.graph.dag import transitive_closure
from bacadi.inference.mcmc.method import MCMC
from bacadi.model.effects import HardGaussian
from bacadi.model.model import Model
from bacadi.model.neural import Layer, NeuralGaussian, NeuralTheta
from bacadi.posterior import Posterior
from bacadi.simulate.graphs import erdos_renyi_dag

from .tasks import MECHANISMS, chain_data, chain_posterior, linear_posterior


def random_linear(n: int = 200, d: int = 5, seed: int = 0) -> bacadi.Posterior:
    rng = np.random.default_rng(seed)
    graphs = np.stack([erdos_renyi_dag(rng, d, 1.5) for _ in range(n)]).astype(np.int8)
    data = ContextData(rng.normal(size=(20, d)), np.zeros(20, int), tuple("abcde"[:d]), (), "obs")
    return linear_posterior(graphs, rng.normal(size=(n, d, d)), data)


def test_linear_effects_are_sums_over_paths() -> None:
    posterior = random_linear()
    pairs = np.argwhere(~np.eye(5, dtype=bool))
    found = effect_draws(posterior, pairs)
    weights = posterior.graph[0] * posterior.parameters["weight"].values[0]
    power, total = np.broadcast_to(np.eye(5), weights.shape), np.zeros_like(weights)
    for _ in range(5):
        power = power @ weights
        total = total + power
    np.testing.assert_allclose(found.values, total[:, pairs[:, 0], pairs[:, 1]], atol=1e-10)
    assert (found.path == transitive_closure(posterior.graph[0])[:, pairs[:, 0], pairs[:, 1]]).all()


def test_shares_and_variances_add_up() -> None:
    posterior = random_linear()
    pairs = np.argwhere(~np.eye(5, dtype=bool))
    told = summary(effect_draws(posterior, pairs), pairs)
    np.testing.assert_allclose(told["positive"] + told["negative"] + told["zero_by_graph"], 1, atol=1e-9)
    np.testing.assert_allclose(told["between_graphs"] + told["within_graphs"], told["sd"] ** 2, atol=1e-12)


def test_variance_within_graphs_is_that_of_the_weights() -> None:
    """Two graphs, half and half: one with a -> b ~ N(2, 1), one without; other edges do not matter."""
    rng, n = np.random.default_rng(0), 4000
    graphs = np.zeros((n, 3, 3), np.int8)
    graphs[: n // 2, 0, 1] = 1
    graphs[:, 0, 2] = rng.integers(0, 2, n)
    weights = np.zeros((n, 3, 3))
    weights[:, 0, 1] = 2 + rng.normal(size=n)
    data = ContextData(np.zeros((2, 3)), np.zeros(2, int), ("a", "b", "c"), (), "obs")
    pair = np.array([[0, 1]])
    told = summary(effect_draws(linear_posterior(graphs, weights, data), pair), pair)
    # Standard errors of the two variances are .016 and .03.
    assert told["within_graphs"][0] == pytest.approx(0.5, abs=0.07)
    assert told["between_graphs"][0] == pytest.approx(1.0, abs=0.13)
    assert told["zero_by_graph"][0] == 0.5
    answer = answers.effect(linear_posterior(graphs, weights, data), "a", "b")
    assert "zero by the graph in 50 %" in answer.text
    assert "the sign flips in 1 %" in answer.text


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_effects_of_every_mechanism(mechanism: str) -> None:
    posterior = chain_posterior(mechanism)
    sd = 1.0 if mechanism in ("linear", "bge") else posterior.constant_data["context_std"].values[0]
    a_step, b_step = (1.0, 1.0) if np.ndim(sd) == 0 else (sd[0], sd[1])
    found = answers.effects(posterior).table.set_index(["source", "target"])
    # The posterior is about .1 wide (weights from 80 to 160 rows).
    assert found.loc[("a", "b"), "effect"] == pytest.approx(1.5 * a_step, abs=0.45)
    assert found.loc[("b", "c"), "effect"] == pytest.approx(1.0 * b_step, abs=0.35)
    assert found.loc[("b", "c"), "observed"] == pytest.approx(b_step, abs=0.2)
    assert found.loc[("b", "c"), "observed_in"] == "drug"
    assert found.loc[("a", "c"), "zero_by_graph"] < 0.05
    one = answers.effect(posterior, "b", "c")
    model, drug = one.table.iloc[0], one.table.iloc[1]
    assert model["q05"] < model["effect"] < model["q95"]
    assert drug["evidence"] == "context drug"
    assert ("one standard deviation" in one.text) == (np.ndim(sd) > 0)
    assert answers.effect(posterior, "c", "a").table.iloc[0]["zero_by_graph"] > 0.9


def test_soft_and_mixed_effects_do_not_matter_for_effects() -> None:
    for effect in ("soft", "any"):
        found = answers.effect(chain_posterior("linear", effect), "a", "b").table.iloc[0]
        assert found["effect"] == pytest.approx(1.5, abs=0.3)


def test_do_against_the_closed_form_of_linear_networks() -> None:
    """x_c = x_a + 2 x_b and x_b = 3 x_a + 1, in all draws."""
    graphs = np.broadcast_to(np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], np.int8), (500, 3, 3))
    weights = np.broadcast_to(np.array([[0.0, 3.0, 1.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0]]), (500, 3, 3))
    intercept = np.broadcast_to([0.0, 1.0, 0.0], (500, 3))
    data = ContextData(np.zeros((2, 3)), np.zeros(2, int), ("a", "b", "c"), (), "obs")
    posterior = linear_posterior(graphs, weights, data, intercept=intercept)
    set_a = answers.do(posterior, {"a": 2.0}).table.set_index("variable")
    # 20,000 rows: standard errors of means are .007 and .016, of the standard deviation .011.
    assert set_a.loc["a", "sd"] < 1e-9
    assert set_a.loc["b", "mean"] == pytest.approx(7, abs=0.035)
    assert set_a.loc["c", "mean"] == pytest.approx(16, abs=0.08)
    assert set_a.loc["c", "sd"] == pytest.approx(5**0.5, abs=0.06)
    assert set_a.loc["c", "q95"] == pytest.approx(16 + 1.645 * 5**0.5, abs=0.2)
    both = answers.do(posterior, {"b": 0.0}, {"a": 1.0}, of=["c"]).table
    assert both["variable"].tolist() == ["c"]
    assert both["mean"][0] == pytest.approx(1, abs=0.05)
    shifted = answers.do(posterior, shifts={"b": 1.0}).table.set_index("variable")
    np.testing.assert_allclose(shifted["change"], [0, 1, 2], atol=1e-9)  # the same noise on both sides


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_do_of_every_mechanism(mechanism: str) -> None:
    table = answers.do(chain_posterior(mechanism), {"b": 2.0}, {"c": 1.0}).table.set_index("variable")
    assert table.loc["c", "mean"] == pytest.approx(3.0, abs=0.5)
    assert abs(table.loc["a", "change"]) < 0.05
    assert table.loc["b", "sd"] < 1e-9


def test_answers_are_in_the_units_of_the_table() -> None:
    plain = chain_data()
    scale = np.array([1.0, 100.0, 0.01, 1.0])
    other = replace(plain, x=plain.x * scale + 7).standardized()
    short = MCMC(n_draws=200, n_sweeps=200)
    pair = [answers.effect(bacadi.fit(data, method=short, seed=0), "a", "c").table.iloc[0] for data in (plain, other)]
    assert pair[1]["effect"] == pytest.approx(0.01 * pair[0]["effect"], rel=0.1)
    done = answers.do(bacadi.fit(other, method=short, seed=0), {"b": 207.0}).table.set_index("variable")
    assert done.loc["b", "mean"] == pytest.approx(207)
    assert done.loc["c", "mean"] == pytest.approx(0.02 + 7, abs=0.01)


def test_transformed_columns_say_so() -> None:
    plain = chain_data()
    logs = replace(plain, x=np.exp(plain.x)).transformed("log")
    posterior = bacadi.fit(logs, method=MCMC(n_draws=200, n_sweeps=200), seed=0)
    answer = answers.effect(posterior, "a", "b")
    assert answer.text.endswith("Units: log of a, log of b.")
    assert answer.table["effect"][0] == pytest.approx(1.5, abs=0.3)
    done = answers.do(posterior, {"b": float(np.exp(2.0))}, {"c": 1.0})
    median = done.table.set_index("variable").loc["c", "median"]
    assert np.log(median) == pytest.approx(3, abs=0.4)
    with pytest.raises(ConfigError, match="scale of log, which does not reach the value -1;"):
        answers.do(posterior, {"b": -1.0})


def network_posterior(n: int = 6) -> bacadi.Posterior:
    """Draws of small networks with explicit weights, as particles have them: a -> b -> c."""
    mechanism, data, rng = NeuralGaussian(hidden=(3,)), chain_data(), np.random.default_rng(0)
    graph = np.zeros((4, 4), np.int8)
    graph[0, 1] = graph[1, 2] = 1
    layers = [
        Layer(rng.normal(size=(fan_in, 4, fan_out)), np.zeros((4, fan_out))) for fan_in, fan_out in ((4, 3), (3, 1))
    ]
    parts = mechanism.labelled(NeuralTheta(tuple(layers), np.zeros(4)))
    parameters = {name: Labelled(np.stack([part.values] * n), part.dims) for name, part in parts.items()}
    parameters["effect_mean"] = Labelled(np.full((n, 3, 4), 5.0), ("context", "node"))
    parameters["effect_noise_std"] = Labelled(np.ones((n, 3, 4)), ("context", "node"))
    targets = np.zeros((n, 3, 4), np.int8)
    targets[:, 0, 1] = 1
    attrs = {"configuration": configuration_table(Model(mechanism, HardGaussian()), None)}
    return Posterior.from_draws(data, np.stack([graph] * n), targets, parameters=parameters, attrs=attrs)


def test_networks_with_weights_of_their_own() -> None:
    """All draws are the same network, whose effect on b is known without noise."""
    posterior = network_posterior()
    theta = NeuralGaussian(hidden=(3,)).theta_of({n: v.values[0, 0] for n, v in posterior.parameters.items()}, 4)
    (mean, *_), (std, *_) = (posterior.constant_data[name].values[0] for name in ("context_mean", "context_std"))
    rows = np.zeros((2, 4))
    rows[:, 0] = mean, mean + std
    values = NeuralGaussian(hidden=(3,)).mean(theta, posterior.graph[0, 0], rows)[:, 1]
    found = answers.effect(posterior, "a", "b").table.iloc[0]
    assert found["effect"] == pytest.approx(values[1] - values[0], abs=1e-6)  # the same noise on both sides
    assert len(answers.next_experiment(posterior, ("a", "c")).table) == 7
    assert np.isfinite(answers.do(posterior, {"a": 1.0}).table["mean"]).all()


def test_draws_without_parameters() -> None:
    posterior = replace(network_posterior(), parameters={})
    with pytest.raises(ConfigError, match="hold no parameters of mechanisms"):
        answers.effect(posterior, "a", "b")
    assert len(answers.ancestors(posterior).table) == 12


@pytest.mark.slow
def test_particles() -> None:
    from bacadi.inference.svgd.method import SVGD

    for mechanism in ("linear", "nonlinear"):
        posterior = bacadi.fit(chain_data(), mechanism, SVGD(n_particles=4, n_steps=20), seed=0)
        assert np.isfinite(answers.effects(posterior).table["effect"]).all()
        assert np.isfinite(answers.do(posterior, {"a": 1.0}).table["mean"]).all()
        assert len(answers.next_experiment(posterior).table) == 7
    posterior = bacadi.fit(chain_data(), "bge", SVGD(n_particles=4, n_steps=20), seed=0)
    with pytest.raises(ConfigError, match="hold no parameters"):
        answers.effect(posterior, "a", "b")


def test_baselines() -> None:
    posterior = bacadi.fit(chain_data(), method=Bootstrap(UTIGSP(), n_samples=4, jobs=1), seed=0)
    assert answers.effect(posterior, "b", "c").table["effect"][0] == pytest.approx(1, abs=0.6)
    assert len(answers.next_experiment(posterior).table) == 7


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (lambda p: answers.effect(p, "a", "bb"), "no variable 'bb'"),
        (lambda p: answers.effect(p, "a", "a"), "on itself"),
        (lambda p: answers.do(p), "names no variable"),
        (lambda p: answers.do(p, {"a": 1.0}, {"a": 1.0}), "set and shifted"),
        (lambda p: answers.do(p, {"a": float("nan")}), "finite number"),
        (lambda p: answers.changed(p, "control"), "is the control"),
        (lambda p: answers.changed(p, "drug", "drug"), "with itself"),
        (lambda p: answers.context_did(p, "drugg"), "did you mean 'drug'"),
        (lambda p: answers.next_experiment(p, design=answers.Design(n_rows=0)), "0 rows"),
    ],
)
def test_questions_without_an_answer(question, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        question(chain_posterior())
