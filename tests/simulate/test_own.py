"""A mechanism of one's own in simulated tasks: named in a TOML file, drawn from its density, and evaluated."""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from bacadi.config.codec import encode
from bacadi.errors import ConfigError
from bacadi.metrics.evaluate import evaluate
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import AbstractMechanism
from bacadi.posterior import Posterior
from bacadi.simulate import (
    HeldOut,
    Interventions,
    RandomErdosRenyi,
    Shift,
    SyntheticSpec,
    read_spec,
    read_task,
    simulate,
    write_task,
)
from bacadi.simulate.files import decode_spec
from bacadi.simulate.synthetic import Hard, Scale, Soft

D, SCALE = 5, 0.3


class LaplaceTheta(NamedTuple):
    weight: jax.Array
    origin: jax.Array


class FarLaplace(AbstractMechanism):
    """x_j ~ Laplace(origin_j + Σ_i G_ij θ_ij x_i, scale), far from 0 compared with its scale."""

    scale: float = SCALE

    def init(self, key, n_variables, dtype):
        weight = jax.random.normal(key, (n_variables, n_variables), dtype)
        return LaplaceTheta(weight, jnp.linspace(-300, 500, n_variables, dtype=dtype))

    def log_prior(self, theta, graph):
        return jnp.sum(graph * jax.scipy.stats.norm.logpdf(theta.weight), axis=0)

    def log_prob(self, theta, graph, x):
        return jax.scipy.stats.laplace.logpdf(x, theta.origin + x @ (graph * theta.weight), self.scale)


def spec_with(effect, rows=150):
    interventions, held_out = Interventions(rows_per_context=rows, effect=effect), HeldOut(3, 20, 2, Hard())
    return SyntheticSpec(D, RandomErdosRenyi(1), FarLaplace(), interventions=interventions, held_out=held_out)


def residuals(task, theta, x):
    return x - theta.origin - x @ (task.graph * theta.weight)


@pytest.mark.parametrize("effect", [Hard(), Shift(), Soft()])
def test_samples_follow_the_density_of_the_mechanism(effect):
    """Kolmogorov-Smirnov over all untargeted cells and over all targeted ones, false-alarm rate 1e-6 each."""
    task = simulate(spec_with(effect), seed=1)
    x, k = task.data.x, task.data.context
    hit = np.vstack([np.zeros((1, D)), task.targets])[k] == 1
    untouched = residuals(task, task.network.theta, x)[~hit]
    assert stats.kstest(untouched, stats.laplace(scale=SCALE).cdf).pvalue > 1e-6
    noise = []
    for context, node in np.argwhere(task.targets):
        rows, own = x[k == context + 1], task.effects.theta[context]
        mean = x[k == context + 1][:, node] - residuals(task, task.network.theta if own is None else own, rows)[:, node]
        kept = mean if task.effects.keeps_parents[context, node] else 0.0
        noise.append(rows[:, node] - kept - task.effects.shift[context, node])
    law = stats.norm(scale=0.5**0.5) if isinstance(effect, Hard) else stats.laplace(scale=SCALE)
    assert stats.kstest(np.concatenate(noise), law.cdf).pvalue > 1e-6


@pytest.mark.parametrize(("centre", "scale"), [(0.0, 1.0), (1e4, 1e-2), (-3.0, 1e3)])
def test_quantiles_are_good_to_a_thousandth_in_distribution(centre, scale):
    """The CDF at the value drawn for a probability p is p, wherever the density lies and however narrow it is."""
    p = np.linspace(0.001, 0.999, 997)

    class Fixed(np.random.Generator):
        def random(self, n):
            return p

    theta = LaplaceTheta(np.zeros((1, 1)), np.array([centre]))
    drawn = FarLaplace(scale).sample(
        Fixed(np.random.PCG64()), theta, np.zeros((1, 1), np.int8), np.zeros((len(p), 1)), 0
    )
    np.testing.assert_allclose(stats.laplace(centre, scale).cdf(drawn), p, atol=1e-3)


def test_log_density_is_that_of_what_was_drawn():
    """Written out for each effect: Laplace where the mechanism acts, moved by a shift, normal where it does not."""
    for effect in (Hard(), Shift(), Soft()):
        task = simulate(spec_with(effect, rows=5), seed=2)
        x, context = task.data.x, task.data.context
        expected = stats.laplace(scale=SCALE).logpdf(residuals(task, task.network.theta, x))
        for k, node in np.argwhere(task.targets):
            rows, own = context == k + 1, task.effects.theta[k]
            theta = task.network.theta if own is None else own
            shift, std = task.effects.shift[k, node], task.effects.std[k, node]
            moved = residuals(task, theta, x[rows])[:, node] - shift
            kept = stats.laplace(scale=SCALE).logpdf(moved)
            expected[rows, node] = stats.norm(shift, std).logpdf(x[rows, node]) if effect == Hard() else kept
        np.testing.assert_allclose(task.log_density(), expected.sum(axis=1), rtol=1e-9)


def test_an_effect_on_gaussian_noise_is_refused_without_it():
    with pytest.raises(ConfigError, match="Gaussian noise"):
        simulate(spec_with(Scale()), seed=0)


OWN = '''
"""A mechanism of the user's own, in a file of its own."""
from tests_of_own import FarLaplace


class Mine(FarLaplace):
    pass
'''


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with a mechanism, on the path."""
    (tmp_path / "tests_of_own.py").write_text(Path(__file__).read_text(encoding="utf-8"))
    (tmp_path / "mine_of_test_own.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "mine_of_test_own:Mine"


def test_a_mechanism_is_named_in_a_file_and_evaluated(mine: str, tmp_path: Path) -> None:
    path = tmp_path / "task.toml"
    path.write_text(
        f'type = "synthetic"\nn_variables = 5\n[graph]\ntype = "erdos-renyi"\nedges_per_node = 1\n'
        f'[held_out]\nn_contexts = 3\nrows_per_context = 20\n[mechanism]\ntype = "{mine}"\nscale = 0.5\n'
    )
    spec = read_spec(path)
    assert type(spec.mechanism).__name__ == "Mine" and spec.mechanism.scale == 0.5
    assert decode_spec(encode(spec), "here") == spec and encode(spec)["mechanism"]["type"] == mine
    task = simulate(spec, seed=0)
    write_task(task, tmp_path / "task")
    stored = read_task(tmp_path / "task")
    assert stored.network is None and stored.noise_std is None
    np.testing.assert_array_equal(stored.data.x, task.data.x)
    labelled = spec.mechanism.labelled(task.network.theta)
    parameters = {name: part._replace(values=np.asarray(part.values)[None]) for name, part in labelled.items()}
    attrs = {"configuration": {"model": {"mechanism": encode(spec.mechanism)}}}
    truth = Posterior.from_draws(task.data, task.graph[None], task.targets[None], parameters=parameters, attrs=attrs)
    values = evaluate(truth, task, modules=[mine.split(":")[0]])
    assert values["interventional_nll"] == pytest.approx(-task.log_density(held_out=True).reshape(3, 20).mean())
    assert values["interventional_nll"] == pytest.approx(values["interventional_nll_of_truth"])
    with pytest.warns(UserWarning, match="--import mine_of_test_own"):
        assert "interventional_nll" not in evaluate(truth, task)


def test_a_mechanism_of_the_package_draws_its_own_parameters_too() -> None:
    table = {"type": "synthetic", "mechanism": {"type": "bacadi.model.linear:LinearGaussian", "init_std": 1.0}}
    spec = decode_spec(table, "here")
    assert spec.mechanism == LinearGaussian(init_std=1.0) and decode_spec(encode(spec), "here") == spec
    task = simulate(spec, seed=0)
    np.testing.assert_array_equal(task.weights != 0, task.graph == 1)
    np.testing.assert_allclose(task.noise_std, np.sqrt(0.1 / 2))


def test_other_classes_are_no_mechanisms() -> None:
    with pytest.raises(ConfigError, match=r"not a AbstractTruth"):
        decode_spec({"type": "synthetic", "mechanism": {"type": "bacadi.simulate.synthetic:Hard"}}, "here")
