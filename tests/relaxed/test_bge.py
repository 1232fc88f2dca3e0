"""BGe against another route to the same number: one-step-ahead predictive densities of a normal-Wishart model."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import multigammaln
from scipy.stats import multivariate_t

from bacadi.data.contexts import ContextData
from bacadi.graph.enumerate import all_dags
from bacadi.graph.equivalence import cpdag
from bacadi.model.integrated import BGe
from bacadi.relaxed.mechanisms import BGeStatistics, log_evidence, prepare


def rows(n: int, d: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 0.3


def statistics(*blocks: np.ndarray) -> BGeStatistics:
    d = blocks[0].shape[1]
    context = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
    names = tuple(f"x{j}" for j in range(d))
    data = ContextData(np.concatenate(blocks), context, names, tuple(f"k{k}" for k in range(1, len(blocks))), "obs")
    return prepare(BGe(), data, jnp.dtype("float64"))


def evidence(graphs: np.ndarray, keep: np.ndarray, stats: BGeStatistics, bge: BGe = BGe()) -> np.ndarray:  # noqa: B008
    """[S, d] for graphs [S, d, d] and keep [K, S, d]."""
    compiled = jax.jit(partial(log_evidence, bge))
    return np.asarray(compiled(jnp.moveaxis(jnp.asarray(graphs, float), 0, 1), jnp.asarray(keep), stats))


def log_subset(x: np.ndarray, members: list[int], bge: BGe) -> float:
    """log p(x of `members`) as a product of Student-t predictives, row by row.

    Prior N(ν; 0, (α_μ W)⁻¹) Wishart(W; α_ω, T) with T = t I on d variables; a subset of l has α_ω - d + l degrees of
    freedom. After n rows the next one is t with α - l + 1 degrees of freedom, α = α_ω - d + l + n.
    """
    size = len(members)
    if size == 0:
        return 0.0
    t = bge.alpha_mu * (bge.alpha_omega_excess - 1) / (bge.alpha_mu + 1)
    mean, kappa, scale, total = np.zeros(size), bge.alpha_mu, t * np.eye(size), 0.0
    alpha = bge.alpha_omega_excess + size
    for value in x[:, members]:
        free = alpha - size + 1
        total += multivariate_t.logpdf(value, mean, scale * (kappa + 1) / (kappa * free), df=free)
        scale = scale + kappa / (kappa + 1) * np.outer(value - mean, value - mean)
        mean = (kappa * mean + value) / (kappa + 1)
        kappa, alpha = kappa + 1, alpha + 1
    return total


def log_subset_closed(x: np.ndarray, members: list[int], bge: BGe) -> float:
    """The same by the ratio of normal-Wishart normalisers (multivariate gamma functions of scipy)."""
    n, size = len(x), len(members)
    if size == 0:
        return 0.0
    t = bge.alpha_mu * (bge.alpha_omega_excess - 1) / (bge.alpha_mu + 1)
    alpha, part = bge.alpha_omega_excess + size, x[:, members]
    centred = part - part.mean(axis=0)
    shift = n * bge.alpha_mu / (n + bge.alpha_mu) * np.outer(part.mean(axis=0), part.mean(axis=0))
    after = t * np.eye(size) + centred.T @ centred + shift
    log_p = -0.5 * n * size * np.log(np.pi) + 0.5 * size * np.log(bge.alpha_mu / (n + bge.alpha_mu))
    log_p += multigammaln((alpha + n) / 2, size) - multigammaln(alpha / 2, size)
    return log_p + 0.5 * alpha * size * np.log(t) - 0.5 * (alpha + n) * np.linalg.slogdet(after)[1]


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("bge", [BGe(), BGe(alpha_mu=0.5, alpha_omega_excess=3.5)], ids=["default", "other"])
def test_evidence_is_a_ratio_of_subset_marginals(bge: BGe) -> None:
    """p(x_j | x_P) = p(x_{P ∪ j}) / p(x_P), each by predictives and by normalisers, for all 25 DAGs of d = 3."""
    x, dags = rows(6, 3), all_dags(3)
    found = evidence(dags, np.ones((1, len(dags), 3)), statistics(x), bge)
    for graph, columns in zip(dags, found, strict=True):
        for j in range(3):
            parents = np.flatnonzero(graph[:, j]).tolist()
            for log_p in (log_subset, log_subset_closed):
                assert columns[j] == pytest.approx(log_p(x, [*parents, j], bge) - log_p(x, parents, bge), rel=1e-9)


@pytest.mark.parametrize("d", [3, 4])
def test_markov_equivalent_graphs_score_alike(d: int) -> None:
    """Every class of d = 3 (11) and of d = 4 (185): the spread within a class is rounding, and classes differ."""
    dags = all_dags(d)
    total = evidence(dags, np.ones((1, len(dags), d)), statistics(rows(9, d))).sum(axis=1)
    classes: dict[bytes, list[float]] = {}
    for graph, score in zip(dags, total, strict=True):
        classes.setdefault(cpdag(graph).tobytes(), []).append(float(score))
    assert len(classes) == {3: 11, 4: 185}[d]  # OEIS A007984
    assert max(np.ptp(scores) for scores in classes.values()) < 1e-8
    assert len({round(scores[0], 6) for scores in classes.values()}) == len(classes)


def test_a_row_of_weight_0_is_a_row_left_out() -> None:
    a, b, dags = rows(5, 3), rows(4, 3, seed=1), all_dags(3)
    keep = np.ones((2, len(dags), 3))
    keep[1, :, 1] = 0
    found = evidence(dags, keep, statistics(a, b))
    alone = evidence(dags, np.ones((1, len(dags), 3)), statistics(a))
    both = evidence(dags, np.ones((1, len(dags), 3)), statistics(np.concatenate([a, b])))
    np.testing.assert_allclose(found[:, 1], alone[:, 1], rtol=1e-10)
    np.testing.assert_allclose(found[:, [0, 2]], both[:, [0, 2]], rtol=1e-10)


def test_fractional_rows_and_parents_lead_smoothly_from_one_graph_to_the_other() -> None:
    stats, graph = statistics(rows(5, 3), rows(4, 3, seed=1)), np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]])
    share = np.linspace(0, 1, 101)

    weights = np.ones((2, len(share), 3)) * np.array([1.0, 0.0])[:, None, None]
    weights[1] = share[:, None]
    by_rows = evidence(np.repeat(graph[None], len(share), axis=0), weights, stats)
    by_parents = evidence(share[:, None, None] * graph, np.ones((2, len(share), 3)), stats)
    for path in (by_rows, by_parents):
        assert np.isfinite(path).all()
        assert np.abs(np.diff(path, n=2, axis=0)).max() < 0.05 * np.ptp(path, axis=0).max() + 1e-9

    def total(graphs: jax.Array, keep: jax.Array) -> jax.Array:
        return log_evidence(BGe(), graphs, keep, stats).sum()

    gradient = jax.jit(jax.grad(total, argnums=(0, 1)))
    for at in (0.0, 0.4, 1.0):
        arguments = (jnp.asarray(at * graph[:, None, :]), jnp.full((2, 1, 3), 0.5 + 0.5 * at))
        gradients = gradient(*arguments)
        assert all(np.isfinite(g).all() for g in gradients)
    with_rows = evidence(graph[None], np.ones((2, 1, 3)), stats)
    np.testing.assert_allclose(by_rows[-1], with_rows[0], rtol=1e-12)
    np.testing.assert_allclose(by_parents[-1], with_rows[0], rtol=1e-12)


def test_no_rows_carry_no_evidence() -> None:
    dags = all_dags(3)
    assert np.abs(evidence(dags, np.zeros((1, len(dags), 3)), statistics(rows(4, 3)))).max() < 1e-12
