"""Gradients with rules of their own, against automatic differentiation of the plain formula in double precision."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bacadi.model.mechanism import AbstractMechanism
from bacadi.model.neural import NeuralGaussian, activation
from bacadi.model.noise import InferredNoise
from bacadi.relaxed import squares
from bacadi.relaxed.latent import acyclicity, draw_uniform, edge_logits, soft_bernoulli
from bacadi.relaxed.mechanisms import kept_log_likelihood, raw_rows
from bacadi.relaxed.squares import Kept, Network, context_squares, kept_squares

from ..small import PAPER_NETWORKS, small_data

D, S, K, N, H = 4, 6, 3, 11, 3


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def same_gradients(rule: Callable[..., Any], plain: Callable[..., Any], *arguments: Any) -> None:
    """Value and gradient of a sum weighted unevenly, so that every entry counts by itself."""
    with jax.enable_x64(True):
        arguments = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), arguments)

        def weighted(function: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *given: jnp.sum(jnp.sin(function(*given)))

        every = tuple(range(len(arguments)))
        found, truth = (jax.jit(jax.value_and_grad(weighted(f), argnums=every))(*arguments) for f in (rule, plain))
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(truth), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("size", [1, 3])
def test_sums_of_squares_by_context(size: int) -> None:
    """Five pieces of one or three rows in three contexts."""
    one_hot, x = np.eye(K)[:, [0, 1, 1, 2, 0]], numbers(5 * size, D)

    def plain(coefficients: jax.Array) -> jax.Array:
        return jnp.repeat(one_hot, size, axis=1) @ (x @ coefficients) ** 2

    same_gradients(lambda c: context_squares(jnp.asarray(x), jnp.asarray(one_hot), c), plain, numbers(D, 7))


@pytest.mark.parametrize("unit", ["sigmoid", "tanh", "relu", "gelu", "softplus", "leaky_relu"])
@pytest.mark.parametrize("block", [1, 2, S])
def test_kept_sums_of_squares_of_networks(unit: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All activations, with one, two and all samples at a time."""
    monkeypatch.setattr(squares, "CACHED", block * N * D * H)
    bend, x = activation(NeuralGaussian(activation=unit), jnp), numbers(N, D)
    one_hot = np.eye(K)[:, np.arange(N) % K]

    def plain(kept: Kept) -> jax.Array:
        (weight, bias, slope, output), graphs, keep = kept
        inputs = jnp.einsum("ni,hij,isj->nhsj", x, weight, graphs) + bias[:, None]
        mean = jnp.einsum("nhsj,hj->nsj", bend(inputs), slope) + output
        return jnp.einsum("ksj,kn,nsj->sj", keep, one_hot, (x[:, None] - mean) ** 2)

    network = Network(numbers(H, D, D), numbers(H, D), numbers(H, D, seed=1), numbers(D))
    kept = Kept(network, numbers(D, S, D), numbers(K, S, D))
    same_gradients(lambda kept: kept_squares(bend, jnp.asarray(x), jnp.asarray(one_hot), kept), plain, kept)


@pytest.mark.parametrize(("samples", "size", "blocks"), [(128, 2**12, 4), (7, 2**16, 7), (7, 10, 1), (6, 2**18, 6)])
def test_blocks_are_equal_and_fit(samples: int, size: int, blocks: int) -> None:
    assert squares._n_blocks(samples, size) == blocks


@pytest.mark.parametrize("hidden", [(3,), (3, 2)], ids=["one layer", "two layers"])
def test_kept_likelihood_is_the_sum_over_contexts(hidden: tuple[int, ...]) -> None:
    """With noise inferred; two hidden layers take the plain path."""
    mechanism = PAPER_NETWORKS.mechanism.replace(hidden=hidden, noise=InferredNoise())
    data = small_data((5, 3, 2), D)
    with jax.enable_x64(True):
        double = jnp.dtype("float64")
        rows, theta = raw_rows(data, double), mechanism.init(jax.random.key(0), D, double)
        graphs = jax.nn.sigmoid(jnp.asarray(numbers(D, S, D))) * (1 - jnp.eye(D))[:, None]
        keep = jax.nn.sigmoid(jnp.asarray(numbers(K, S, D)))
    plain = kept_log_likelihood.dispatch(AbstractMechanism)
    arguments = theta, graphs, keep
    same_gradients(
        lambda *a: kept_log_likelihood(mechanism, *a, rows), lambda *a: plain(mechanism, *a, rows), *arguments
    )


@pytest.mark.parametrize("tau", [1.0, 0.3])
def test_soft_samples_are_those_of_logistic_noise(tau: float) -> None:
    uniform = np.random.default_rng(0).uniform(0.001, 0.999, (D, S, D))

    def plain(logits: jax.Array) -> jax.Array:
        return jax.nn.sigmoid((logits[:, None] + jnp.log(uniform / (1 - uniform))) / tau)

    same_gradients(lambda logits: soft_bernoulli(logits, jnp.asarray(uniform), tau), plain, 3 * numbers(D, D))


def test_certain_samples_have_no_gradient() -> None:
    """Logits of ±∞ and such whose exponential is beyond single precision."""
    logits = jnp.array([[jnp.inf, -jnp.inf, 200.0, -200.0]])
    uniform = draw_uniform(jax.random.key(0), (1, 50, 4), jnp.dtype("float32"))
    samples = soft_bernoulli(logits, uniform, 1.0)
    assert (samples == jnp.array([1.0, 0.0, 1.0, 0.0])).all()
    gradient = jax.grad(lambda logits: jnp.sum(soft_bernoulli(logits, uniform, 1.0)))(logits)
    assert (gradient == 0).all()


@pytest.mark.parametrize("d", [1, 2, 5, 8])
def test_gradient_of_acyclicity(d: int) -> None:
    def plain(graph: jax.Array) -> jax.Array:
        return jnp.trace(jnp.linalg.matrix_power(jnp.eye(d) + graph / d, d)) - d

    same_gradients(acyclicity, plain, np.abs(numbers(d, d)))


def test_edges_on_the_diagonal_have_no_probability_and_no_gradient() -> None:
    z = jnp.asarray(numbers(2, D, D), jnp.float32)
    gradient = jax.grad(lambda z: jnp.sum(jax.nn.sigmoid(edge_logits(z, 2.0)) ** 2))(z)
    assert np.isfinite(gradient).all() and (jnp.diagonal(jax.nn.sigmoid(edge_logits(z, 2.0))) == 0).all()


def test_uniform_numbers_are_uniform_and_independent() -> None:
    """A million numbers of 100 keys: 256 bins of equal size, and pairs of neighbours, of keys that follow each other
    and of bits of one number. A sum of squares of 255 normal numbers is above 400 with probability 1e-8; a correlation
    of 10⁶ pairs is beyond 6 / 1000 with probability 2e-9."""
    keys = jax.random.split(jax.random.key(0), 100)
    u = np.asarray(jax.vmap(lambda key: draw_uniform(key, (100, 100), jnp.dtype("float32")))(keys), float)
    assert u.min() > 0 and u.max() < 1
    for bits in (u, u * 2**8 % 1, u * 2**15 % 1):
        counts = np.bincount((bits * 256).astype(int).ravel(), minlength=256)
        assert ((counts - u.size / 256) ** 2 / (u.size / 256)).sum() < 400
    pairs = [(u[:, :-1], u[:, 1:]), (u[..., :-1], u[..., 1:]), (u[:-1], u[1:]), (u, u * 2**8 % 1)]
    assert all(abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.006 for a, b in pairs)
    again = draw_uniform(keys[3], (100, 100), jnp.dtype("float32"))
    np.testing.assert_array_equal(again, u[3].astype(np.float32))
    with jax.enable_x64(True):
        double = draw_uniform(keys[3], (100, 100), jnp.dtype("float64"))
        assert double.dtype == jnp.float64 and abs(float(double.mean()) - 0.5) < 0.02
