"""The Gibbs estimator: its gradient against enumeration at d = 3, its bounds, and its chains as part of a run.

Each estimate is the mean of 40 independent batches and is held to the exact number within 5 standard errors taken from
the spread of the batches, as in `test_estimators`: with about 200 numbers compared the false-alarm rate is below .3 %.
"""

from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bacadi.errors import ConfigError
from bacadi.graph.dag import is_acyclic
from bacadi.inference.checkpoint import Checkpoint
from bacadi.inference.method import Monitor, Problem, Progress
from bacadi.inference.svgd.estimators import FromChains, GibbsEstimator
from bacadi.inference.svgd.method import SVGD, Descent, Info, Ramp, State, advance, init, run
from bacadi.inference.svgd.particles import to_posterior
from bacadi.model.knowledge import Knowledge
from bacadi.model.model import Model
from bacadi.relaxed.density import Density
from bacadi.relaxed.latent import Particle

from ...small import PAPER, small_data
from .enumeration import everything, log_mass, log_psi
from .test_estimators import ALPHA, CASES, LINEAR, MARGINAL, assert_within, estimated, exact, once, tiny_problem


def exact_over_dags(particle: Particle, density: Density) -> Particle:
    """∇ log Σ_G Σ_I p(G | Z) p(I | Γ) Ψ(G, I) over acyclic G alone."""
    every = everything(density)
    dags = jnp.asarray(is_acyclic(np.asarray(every.graphs).astype(int)))

    def log_sum(particle: Particle) -> jax.Array:
        log_p = log_mass(particle, ALPHA, every) + log_psi(particle, density, every)
        return jax.nn.logsumexp(log_p, where=dags)

    return eqx.filter_jit(jax.grad(log_sum))(particle)


@pytest.mark.parametrize("case", ["linear, two contexts", "neural", "soft effect", "no observational rows", "BGe"])
def test_gradient_is_consistent_in_all_blocks(case: str) -> None:
    """Chains forget p(G|Z) within 20 sweeps of three variables; what is left of it is far under the error."""
    model, counts = CASES[case]
    particle, density = tiny_problem(model, counts)
    (_, gradient), (_, error) = estimated(GibbsEstimator(50, 20, acyclic=False), particle, density, 1)
    assert_within((gradient, error), exact(particle, density)[1])


@pytest.mark.parametrize("case", ["linear, one context", "observational rows only", "BGe"])
def test_gradient_over_dags_is_consistent_in_all_blocks(case: str) -> None:
    model, counts = CASES[case]
    particle, density = tiny_problem(model, counts)
    (_, gradient), (_, error) = estimated(GibbsEstimator(50, 20), particle, density, 1)
    assert_within((gradient, error), exact_over_dags(particle, density))


def test_chains_that_are_kept_follow_the_particle() -> None:
    """400 steps of one sweep from a start far off: edges as often as in w(G) ∝ p(G|Z) E_I[Ψ], by enumeration."""
    particle, density = tiny_problem(LINEAR)
    estimator, every = GibbsEstimator(20, acyclic=False), everything(density)
    mass = jax.nn.softmax(log_mass(particle, ALPHA, every) + log_psi(particle, density, every))

    @eqx.filter_jit
    def mean_graph(key: jax.Array) -> jax.Array:
        def step(chains: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
            chains = estimator(key, particle, chains, ALPHA, density).chains
            return chains, jnp.mean(chains, axis=1)

        full = jnp.broadcast_to(1 - jnp.eye(3)[:, None, :], (3, 20, 3))
        return jnp.mean(jax.lax.scan(step, full, jax.random.split(key, 420))[1][20:], axis=0)

    batches = jax.vmap(mean_graph)(jax.random.split(jax.random.key(3), 40))
    assert_within((jnp.mean(batches, 0), jnp.std(batches, 0, ddof=1) / 40**0.5), jnp.tensordot(mass, every.graphs, 1))


@pytest.mark.parametrize("model", [LINEAR, MARGINAL], ids=["linear", "BGe"])
def test_gradients_of_structure_are_bounded(model: Model) -> None:
    """|∂/∂logit| ≤ 1, hence |∂/∂γ| ≤ α and |∂/∂u_ir| ≤ α Σ_j |v_jr|, for data as far off as one likes."""
    particle, _ = tiny_problem(model)
    density = Density.of(model, replace(small_data((3, 1)), x=1e3 * small_data((3, 1)).x))
    _, gradient = eqx.filter_jit(once)(GibbsEstimator(), jax.random.key(0), particle, density)
    assert (np.abs(gradient.gamma) <= ALPHA + 1e-5).all()
    assert (np.abs(gradient.z[0]) <= ALPHA * np.abs(particle.z[1]).sum(axis=0) + 1e-5).all()
    assert (np.abs(gradient.z[1]) <= ALPHA * np.abs(particle.z[0]).sum(axis=0) + 1e-5).all()


@pytest.mark.parametrize("model", [LINEAR, MARGINAL], ids=["linear", "BGe"])
def test_known_targets_and_missing_self_loops_stay(model: Model) -> None:
    particle, density = tiny_problem(model, (3, 1), np.array([[1.0, 0.0, np.nan]]))
    estimator = GibbsEstimator()
    chains = estimator.start(jax.random.key(0), particle, ALPHA, density)
    value, gradient, chains = eqx.filter_jit(estimator)(jax.random.key(1), particle, chains, ALPHA, density)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((value, gradient)))
    assert (np.asarray(gradient.gamma)[0, :2] == 0).all()
    assert (np.asarray(chains)[np.arange(3), :, np.arange(3)] == 0).all()
    if not density.has_parameters:
        assert (np.asarray(chains)[3, :, :2] == [1, 0]).all()


def test_edges_without_weight_have_no_gradient() -> None:
    """With θ = 0, and a prior of θ that does not depend on G, data say nothing of an edge: E_w[g] = p."""
    constant = LINEAR.replace(mechanism=LINEAR.mechanism.replace(absent_ratio=1.0))
    particle, density = tiny_problem(constant, (4,))
    flat = particle._replace(theta=jax.tree.map(jnp.zeros_like, particle.theta))
    _, gradient = eqx.filter_jit(once)(GibbsEstimator(200, acyclic=False), jax.random.key(0), flat, density)
    np.testing.assert_allclose(gradient.z, 0, atol=1e-5)


DATA = small_data((5, 2, 2))
METHOD = SVGD(n_particles=5, n_steps=20, estimator=GibbsEstimator(2), beta=Ramp(0.05))


def descent(seed: int = 0) -> Descent:
    return Descent(METHOD, Density.of(PAPER, DATA), jax.random.key(seed))


def same(a: tuple[State, Info], b: tuple[State, Info]) -> bool:
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.array_equal(x, y) for x, y in pairs)


def test_chains_belong_to_the_state_and_move() -> None:
    state = init(descent())
    assert state.chains.shape == (5, 3, 2, 3)
    before = np.asarray(state.chains)
    after, _ = advance(descent(), state, jnp.asarray(8, jnp.int32))
    assert (np.asarray(after.chains) != before).any() and set(np.unique(after.chains)) <= {0.0, 1.0}


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    checkpoint = Checkpoint(tmp_path / "state.npz", "print", 0.0)
    with pytest.raises(KeyboardInterrupt):
        run(descent(), Monitor(stop), checkpoint)
    with np.load(checkpoint.path) as saved:
        assert any("chains" in name for name in saved.files)
    assert same(run(descent(), Monitor(), checkpoint), run(descent(), Monitor()))


def test_a_run_finds_a_strong_edge_and_reads_it_from_its_chains() -> None:
    """80 rows of b = 2 a + noise and c apart: every chain links a and b, and none closes a cycle."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3))
    x[:, 1] = 2 * x[:, 0] + 0.3 * rng.normal(size=80)
    method = METHOD.replace(n_steps=150, estimator=GibbsEstimator(cold_alpha=5.0), alpha=Ramp(0.05), beta=Ramp(0.0))
    data = replace(small_data((80,)), x=x)
    told = Descent(method.replace(reader=FromChains()), Density.of(PAPER, data), jax.random.key(1))
    posterior = to_posterior(told, *run(told, Monitor()), Problem(data, PAPER, Knowledge.none(3, 0)))
    assert posterior.graph.shape == (5, 4, 3, 3) and posterior.n_cyclic == 0
    assert (posterior.graph[..., 0, 1] + posterior.graph[..., 1, 0] == 1).all()


@pytest.mark.parametrize("model", [LINEAR, MARGINAL], ids=["linear", "BGe"])
def test_the_reader_of_chains_carries_the_joint_of_its_draws(model: Model) -> None:
    particle, density = tiny_problem(model)
    chains = GibbsEstimator(acyclic=False).start(jax.random.key(2), particle, ALPHA, density)
    read = eqx.filter_jit(FromChains().read)(jax.random.key(0), particle, chains, ALPHA, density)
    assert read.graphs.shape == (4, 3, 3) and read.targets.shape == (4, 1, 3)
    joint = eqx.filter_jit(density.log_joint)(particle, read.graphs[1], read.targets[1])
    assert abs(float(read.log_joint[1] - joint)) < 1e-3


def test_chains_are_wanted_by_their_reader() -> None:
    with pytest.raises(ConfigError, match="estimator 'gibbs'"):
        SVGD(reader=FromChains())


def test_flattened_psi_leaves_the_prior_at_first() -> None:
    """At α = 0 Ψ counts nothing: chains follow p(G|Z), all edges with probability ½ (1000 chains, 5 standard errors of
    6 numbers, false-alarm rate 4e-6)."""
    particle, density = tiny_problem(LINEAR)
    estimator = GibbsEstimator(1000, acyclic=False, cold_alpha=10.0)
    chains = estimator.start(jax.random.key(0), particle, 0.0, density)
    chains = eqx.filter_jit(estimator)(jax.random.key(1), particle, chains, 0.0, density).chains
    off = ~np.eye(3, dtype=bool)
    assert (np.abs(np.asarray(chains).mean(axis=1)[off] - 0.5) < 5 * 0.5 / 1000**0.5).all()
