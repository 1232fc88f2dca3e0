"""`fit` as a whole: every kind of model and data, repeatability, compilation, precision, the guard."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError, InferenceError
from bacadi.inference.fit import fit
from bacadi.inference.method import Monitor, Problem, Progress
from bacadi.inference.svgd.estimators import BlockwiseEstimator, FiniteAlpha, LimitGraphs, RelaxedEstimator
from bacadi.inference.svgd.kernel import Bandwidths, SteinKernel
from bacadi.inference.svgd.method import SVGD, Descent, Info, Ramp, State, init, run
from bacadi.inference.svgd.particles import to_posterior
from bacadi.model.effects import HardGaussian, SoftGaussian
from bacadi.model.knowledge import Knowledge
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import AbstractMechanism
from bacadi.model.model import Model
from bacadi.model.noise import InferredNoise
from bacadi.posterior.posterior import Posterior
from bacadi.relaxed.density import Density
from bacadi.relaxed.latent import SampledAcyclicity

from ..small import PAPER, PAPER_BGE, PAPER_NETWORKS, small_data
from .svgd.enumeration import exact_log_expected_psi
from .svgd.reference import MarginalEstimator

DATA = small_data((5, 2, 2))
SHORT = SVGD(n_particles=6, n_steps=12, estimator=RelaxedEstimator(4), reader=LimitGraphs())
COMPILED: list[str] = []


def _remember(event: str, seconds: float, **details: Any) -> None:
    if event.endswith("backend_compile_duration"):
        COMPILED.append(str(details.get("fun_name", event)))


jax.monitoring.register_event_duration_secs_listener(_remember)


def same_bits(a: Posterior, b: Posterior) -> bool:
    pairs = [(a.graph, b.graph), (a.intervention_target, b.intervention_target), (a.log_weight, b.log_weight)]
    pairs += [(a.parameters[name].values, b.parameters[name].values) for name in a.parameters]
    return all(np.array_equal(x, y) for x, y in pairs)


class Weights(NamedTuple):
    weight: Any


class Own(AbstractMechanism):
    """A mechanism as a user would write it: three methods and nothing else."""

    def init(self, key, n_variables, dtype):
        return Weights(0.1 * jax.random.normal(key, (n_variables, n_variables), dtype))

    def log_prior(self, theta, graph):
        return -0.5 * jnp.sum(graph * theta.weight**2, axis=0)

    def log_prob(self, theta, graph, x):
        return -0.5 * (x - jnp.sin(x) @ (graph * theta.weight)) ** 2


NETWORK = PAPER_NETWORKS.mechanism.replace(hidden=(2,))
MODELS = {
    "default": Model(),
    "default, soft": Model(effect=SoftGaussian()),
    "linear, all inferred": PAPER.replace(
        mechanism=LinearGaussian(InferredNoise(), 1.0, intercept_prior_std=1.0),
        effect=HardGaussian(noise=InferredNoise(), pseudo_prior=True),
    ),
    "linear, soft": PAPER.replace(effect=SoftGaussian()),
    "neural, hard": PAPER.replace(mechanism=NETWORK),
    "neural, soft": PAPER.replace(mechanism=NETWORK, effect=SoftGaussian()),
    "BGe": PAPER_BGE,
    "own": PAPER.replace(mechanism=Own(), effect=SoftGaussian()),
    "own, standardised": Model(mechanism=Own(), effect=SoftGaussian()),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_every_model_can_be_fitted(model: Model) -> None:
    """After three steps particles are where they began; a seed whose six graphs are all cyclic would be refused."""
    posterior = fit(DATA, model, SHORT, seed=1)
    assert posterior.graph.shape == (1, 6, 3, 3) and posterior.intervention_target.shape == (1, 6, 2, 3)
    assert all(np.isfinite(p.values).all() and p.values.shape[:2] == (1, 6) for p in posterior.parameters.values())
    assert np.isfinite(posterior.sample_stats["energy_trace"].values).all()
    assert posterior.weights.sum() == pytest.approx(1)


METHODS = {
    "blockwise": SVGD(
        n_particles=6, n_steps=3, estimator=BlockwiseEstimator(4), expected_acyclicity=SampledAcyclicity(4)
    ),
    "marginal": SVGD(
        n_particles=6,
        n_steps=3,
        estimator=MarginalEstimator(4),
        kernel=SteinKernel(Bandwidths(None, None, None, None), 3),
        optimizer=optax.adam(1e-2),
        alpha=optax.linear_schedule(0.1, 1.0, 3),
    ),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_other_choices_of_the_method(method: SVGD) -> None:
    assert np.isfinite(fit(DATA, method=method).sample_stats["energy_trace"].values).all()


def test_observational_data_alone() -> None:
    posterior = fit(small_data((6,)), method=SHORT)
    assert posterior.intervention_target.shape == (1, 6, 0, 3) and posterior.n_contexts == 0


def test_no_observational_context() -> None:
    posterior = fit(small_data((0, 4, 3)), method=SHORT)
    assert posterior.target_probabilities().shape == (2, 3)


def test_no_rows_are_refused() -> None:
    empty = ContextData(np.zeros((0, 2)), np.zeros(0, int), ("a", "b"), (), None)
    with pytest.raises(ConfigError, match="no rows"):
        fit(empty, method=SHORT)


def test_known_targets_are_honoured_by_every_draw() -> None:
    """Context 1 known whole, context 2 in part; the rest is inferred. The second fit is read by samples."""
    known = np.array([[1.0, 0.0, 0.0], [np.nan, 1.0, np.nan]])
    certain = ~np.isnan(known)
    for reader in (SHORT.reader, FiniteAlpha(8, 16)):
        targets = fit(DATA, method=SHORT.replace(reader=reader), known_targets=known).intervention_target
        assert (targets[..., certain] == known[certain]).all()
        assert targets.shape[1] == 6 if reader is SHORT.reader else targets.shape[:2] == (6, 8)


def test_same_seed_same_bits_and_other_seed_other_particles() -> None:
    first, again, other = (fit(DATA, method=SHORT, seed=seed) for seed in (1, 1, 2))
    assert same_bits(first, again)
    assert not np.array_equal(first.parameters["weight"].values, other.parameters["weight"].values)


def test_a_second_fit_on_other_data_compiles_nothing_and_differs() -> None:
    """The authors' code read the data of the first fit in the second one."""
    first = fit(DATA, method=SHORT)
    COMPILED.clear()
    second = fit(small_data((5, 2, 2), seed=9), method=SHORT)
    assert COMPILED == []
    assert not np.array_equal(first.parameters["weight"].values, second.parameters["weight"].values)


def test_double_precision_stays_inside_the_fit() -> None:
    posterior = fit(DATA, method=SHORT.replace(double=True))
    assert posterior.parameters["weight"].values.dtype == np.float64
    assert jnp.zeros(1).dtype == jnp.float32


def test_single_and_double_precision_agree() -> None:
    """log E[Ψ] and its gradient at one particle, by enumeration, in both precisions."""
    data = small_data((4, 1))
    single = Density.of(PAPER, data)
    particle = single.init(jax.random.key(0))
    few = jax.jit(jax.value_and_grad(exact_log_expected_psi(0.5, single)))(particle)
    with jax.enable_x64(True):
        double = Density.of(PAPER, data, dtype=jnp.dtype("float64"))
        wide = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), jnp.float64), particle)
        many = jax.jit(jax.value_and_grad(exact_log_expected_psi(0.5, double)))(wide)
    for a, b in zip(jax.tree.leaves(few), jax.tree.leaves(many), strict=True):
        assert b.dtype == np.float64
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3)


def test_progress_is_reported() -> None:
    heard: list[Progress] = []
    fit(DATA, method=SHORT, monitor=Monitor(report=heard.append))
    assert heard[-1].step == heard[-1].total == SHORT.n_steps
    assert [p.step for p in heard] == sorted({p.step for p in heard})
    assert all(0 <= p.entries["acyclic"] <= 6 and np.isfinite(p.entries["log_posterior"]) for p in heard)


class NanAt(eqx.Module):
    """A schedule with a hole."""

    step: int

    def __call__(self, step):
        return jnp.where(step == self.step, jnp.nan, 0.01 * step)


def nan_in_theta(at: int) -> optax.GradientTransformation:
    """Gradient descent whose update of Θ is not a number at one step."""

    def update(updates, count, params=None):
        theta = jax.tree.map(lambda leaf: jnp.where(count == at, jnp.nan, -1e-3 * leaf), updates.theta)
        rest = jax.tree.map(lambda leaf: -1e-3 * leaf, updates)
        return rest._replace(theta=theta), count + 1

    return optax.GradientTransformation(lambda params: jnp.zeros((), jnp.int32), update)


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        (SHORT.replace(alpha=NanAt(5)), r"^Step 6 of 12 gave non-finite values in block 'z'"),
        (
            SVGD(n_particles=6, n_steps=12, estimator=RelaxedEstimator(4), optimizer=nan_in_theta(9)),
            r"^Step 10 of 12 gave non-finite values in block 'theta'",
        ),
    ],
    ids=["z", "theta"],
)
def test_the_guard_names_step_and_block_and_keeps_the_last_good_state(method: SVGD, sentence: str, tmp_path) -> None:
    path = tmp_path / "state.npz"
    with pytest.raises(InferenceError, match=sentence) as caught:
        fit(DATA, method=method, monitor=Monitor(checkpoint=path))
    assert str(path) in str(caught.value)
    with np.load(path, allow_pickle=False) as saved:
        arrays = dict(saved)
    particles = [values for name, values in arrays.items() if ".particles" in name]
    assert particles and all(np.isfinite(values).all() for values in particles)
    step = next(values for name, values in arrays.items() if name.endswith(".step"))
    assert int(step) == int(str(caught.value).split()[1]) - 1


def forced(z: np.ndarray) -> tuple[Descent, State, Info, Problem]:
    """A run that has ended with the given Z."""
    method = SVGD(n_particles=len(z), n_steps=1, alpha=Ramp(1.0), reader=LimitGraphs())
    descent = Descent(method, Density.of(PAPER, DATA), jax.random.key(0))
    state = init(descent)
    state = state._replace(particles=state.particles._replace(z=jnp.asarray(z, jnp.float32)))
    trace = Info(*(np.zeros((1, len(z))) for _ in Info._fields))
    return descent, state, trace, Problem(DATA, PAPER, Knowledge.none(3, 2))


def test_cyclic_particles_are_counted_and_left_out() -> None:
    """u·v > 0 everywhere is the full graph, both ways; u·v < 0 the empty one."""
    z = np.ones((3, 2, 3, 1))
    z[1, 0] = -1
    posterior = to_posterior(*forced(z))
    assert posterior.n_cyclic == 2 and posterior.weights.tolist() == [[0, 1, 0]]
    assert (posterior.edge_probabilities() == 0).all()


def test_no_acyclic_particle_is_an_error_with_a_remedy() -> None:
    with pytest.raises(InferenceError, match=r"None of the 2 draws is an acyclic graph.*more steps"):
        to_posterior(*forced(np.ones((2, 2, 3, 1))))


def test_finite_alpha_gives_dags_even_where_every_limit_graph_is_cyclic() -> None:
    descent, *rest = forced(np.ones((2, 2, 3, 1)))
    posterior = to_posterior(descent._replace(svgd=descent.svgd.replace(reader=FiniteAlpha(4, 16))), *rest)
    assert posterior.n_cyclic == 0 and posterior.graph.shape == (2, 4, 3, 3)
    assert posterior.attrs["n_cyclic_particles"] == 2


def test_the_trace_is_that_of_every_step() -> None:
    state, trace = run(Descent(SHORT, Density.of(PAPER, DATA), jax.random.key(0)), Monitor())
    assert int(state.step) == 12 and trace.log_posterior.shape == (12, 6)
    assert np.isfinite(np.stack(trace)).all()
