"""h(G) on all graphs of d = 4, its expectation by enumeration, and the limits of the relaxations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bacadi.graph.dag import is_acyclic
from bacadi.graph.enumerate import all_digraphs
from bacadi.relaxed.latent import (
    AcyclicityOfProbs,
    SampledAcyclicity,
    acyclicity,
    edge_probs,
    limit_graph,
    limit_targets,
)

FLOAT = jnp.dtype("float32")


def h(graphs: np.ndarray) -> np.ndarray:
    """tr[(I + G/d)^d] - d in double precision."""
    d = graphs.shape[-1]
    return np.trace(np.linalg.matrix_power(np.eye(d) + graphs / d, d), axis1=-2, axis2=-1) - d


def test_acyclicity_is_zero_exactly_on_dags_of_four_nodes() -> None:
    """All 4096 digraphs; both implementations agree and a cyclic graph is at least a two-cycle away from 0."""
    graphs = all_digraphs(4)
    ours = np.asarray(jax.jit(jax.vmap(acyclicity))(jnp.asarray(graphs, FLOAT)))
    acyclic = is_acyclic(graphs)
    assert acyclic.sum() == 543  # OEIS A003024
    assert (ours[acyclic] == 0).all() and (ours[~acyclic] > 4**-4 / 2).all()
    np.testing.assert_allclose(ours, h(graphs), atol=2e-5)


@pytest.mark.parametrize("d", [1, 2, 5, 8])
def test_acyclicity_is_the_trace_of_a_matrix_power(d: int) -> None:
    graph = np.random.default_rng(d).uniform(size=(d, d)) * (1 - np.eye(d))
    expected = np.trace(np.linalg.matrix_power(np.eye(d) + graph / d, d)) - d
    assert float(acyclicity(jnp.asarray(graph, FLOAT))) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_acyclicity_has_a_finite_gradient_at_the_empty_graph() -> None:
    gradient = jax.grad(acyclicity)(jnp.zeros((4, 4)))
    assert np.isfinite(gradient).all() and (np.asarray(gradient) == np.eye(4)).all()


def test_expected_acyclicity_of_three_nodes_is_exact_at_the_probabilities() -> None:
    """Closed walks of up to 3 steps use no edge twice, so E[h(G)] = h(E[G]) at d = 3, by enumeration."""
    z, alpha, key = jax.random.normal(jax.random.key(0), (2, 3, 3)), 0.8, jax.random.key(1)
    p = np.asarray(edge_probs(z, alpha))
    graphs = all_digraphs(3)
    mass = np.where(graphs == 1, p, 1 - p)[:, ~np.eye(3, dtype=bool)].prod(axis=1)
    assert mass.sum() == pytest.approx(1, abs=1e-6)
    assert float(AcyclicityOfProbs()(key, z, alpha)) == pytest.approx(float(mass @ h(graphs)), rel=1e-5)
    cold = SampledAcyclicity(n_samples=4000, temperature=0.01)(key, z, alpha)
    # h lies in [0, 1.3], so its mean over 4000 draws has a standard error below .011: 5 of them, false alarm 6e-7.
    assert abs(float(cold) - float(mass @ h(graphs))) < 0.055


def test_limits_of_the_relaxations() -> None:
    z, gamma = jax.random.normal(jax.random.key(0), (2, 3, 2)), jnp.array([[0.2, -0.1, 0.3]])
    np.testing.assert_allclose(edge_probs(z, 1e6), limit_graph(z), atol=1e-6)
    known = jnp.array([[jnp.nan, 1.0, 0.0]])
    assert limit_targets(gamma, known).tolist() == [[True, True, False]]
