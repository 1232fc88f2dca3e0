"""Linear and BGe evidence against the N×N Gaussian or Student t, against BGe in JAX, against integrals of Ψ over the
parameters, and parameter draws against their closed form."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import invgamma, kstest, multivariate_normal, multivariate_t, norm

from bacadi.data.contexts import ContextData
from bacadi.errors import NoClosedForm
from bacadi.evidence.collapsed import EffectKind, EffectStates
from bacadi.evidence.effects import effect_states
from bacadi.evidence.gp.features import FeatureEvidence
from bacadi.evidence.gram import reach
from bacadi.evidence.reading import RowsEvidence, collapse, evidence_of
from bacadi.graph.enumerate import all_dags
from bacadi.graph.equivalence import cpdag
from bacadi.model.certainty import FUNCTIONS, NO_DRIFT, Coarsening, ContextDrift
from bacadi.model.effects import EffectMixture, HardGaussian, ScaleGaussian, ShiftGaussian, SoftGaussian
from bacadi.model.integrated import BGe, GaussianProcess
from bacadi.model.linear import LinearGaussian, LinearTheta
from bacadi.model.mechanism import Mechanism
from bacadi.model.model import Model
from bacadi.model.neural import NeuralGaussian
from bacadi.model.noise import FixedNoise, InferredNoise
from bacadi.relaxed.density import Density, HardTheta
from bacadi.relaxed.latent import Structures
from bacadi.relaxed.mechanisms import log_evidence, prepare

D, M = 4, 4
HARD = HardGaussian(FixedNoise(0.5**0.5))
SPREAD = 0.8
SOFT = SoftGaussian((SPREAD,))
KINDS = EffectMixture((HARD, ShiftGaussian(1.5, (1.0,)), ScaleGaussian((0.25, 4.0)), SOFT))
DRIFT = ContextDrift((0.0, 0.4, 2.0), (0.0, 0.0, 0.0), (0.5, 0.2, 0.3))
SLOPES = ContextDrift((0.0, 0.4, 2.0), (0.7, 0.0, 0.5), (0.5, 0.2, 0.3))
MOVES = DRIFT.replace(moves=(0.7, 0.0, 0.5), bend=0.6)
RATIOS = DRIFT.replace(ratios=(0.3, 1.0, 5.0))
RENEWED = SoftGaussian((), True)


def some_data(seed: int, counts: tuple[int, ...] = (12, 6, 5, 1, 4), d: int = D) -> ContextData:
    """Correlated columns away from 0; one context has a single row, two of the others have moved a column far."""
    rng = np.random.default_rng(seed)
    context = np.repeat(np.arange(len(counts)), counts)
    x = rng.normal(size=(len(context), d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)
    x[context == 1, 0] += 5.0
    x[context == 4, -1] -= 8.0
    names = tuple(f"x{j}" for j in range(d)), tuple(f"k{k}" for k in range(1, len(counts)))
    return ContextData(x, context, *names, "obs")


class Textbook(NamedTuple):
    """Prior variances of weights and intercept in units of σ² (None: no intercept), and σ² or its InvGamma(a, b)."""

    weight: float
    intercept: float | None
    noise: Callable[[int], tuple[float, ...]]  # of the number of parents


FIXED, INFERRED = FixedNoise(0.7), InferredNoise(2.5, 0.4)
MODELS: dict[str, tuple[Mechanism, Textbook]] = {
    "known noise": (LinearGaussian(FIXED, 1.3, None), Textbook(1.3**2 / 0.49, None, lambda _: (0.49,))),
    "known noise, intercept": (LinearGaussian(FIXED, 1.3, 3.0), Textbook(1.3**2 / 0.49, 9 / 0.49, lambda _: (0.49,))),
    "noise inferred": (LinearGaussian(INFERRED, 1.3, None), Textbook(1.69, None, lambda _: (2.5, 0.4))),
    "noise inferred, intercept": (LinearGaussian(INFERRED, 1.3, 3.0), Textbook(1.69, 9.0, lambda _: (2.5, 0.4))),
    # Geiger, Heckerman 2002: T = t I, t = α_μ (α_ω - d - 1) / (α_μ + 1) = .75 · 2 / 1.75 with α_ω = d + 3.
    "BGe": (BGe(0.75, 3.0), Textbook(7 / 6, 4 / 3, lambda size: ((3.0 + size + 1) / 2, 3 / 7))),
}


def dense(book: Textbook, y: np.ndarray, z: np.ndarray, added: np.ndarray) -> float:
    """log density of y with covariance σ² (Z V Z' + added), σ² known or inverse gamma."""
    cov = book.weight * z @ z.T + (0.0 if book.intercept is None else book.intercept) + added
    noise = book.noise(z.shape[1])
    if len(y) == 0:
        return 0.0
    if len(noise) == 1:
        return float(multivariate_normal(np.zeros(len(y)), noise[0] * cov).logpdf(y))
    return float(multivariate_t(np.zeros(len(y)), noise[1] / noise[0] * cov, df=2 * noise[0]).logpdf(y))


def reference(
    book: Textbook, data: ContextData, states: EffectStates, node: int, parents: np.ndarray, state: np.ndarray
) -> float:
    """The evidence from matrices as large as there are rows, the mean over all drifts."""
    drift = states.drift
    every = drift.stds, drift.slopes, drift.noise_ratios, drift.context_moves
    values = [drifting(book, data, states, node, parents, state, each) for each in zip(*every, strict=True)]
    return float(np.logaddexp.reduce(np.log(drift.probabilities) + values)) + bent(data, states, node, parents, state)


def bent(data: ContextData, states: EffectStates, node: int, parents: np.ndarray, state: np.ndarray) -> float:
    """log p(states | parents) less that of the prior of targets, to whose odds those of a mechanism that bends add."""
    if states.target_odds is None:
        return 0.0
    odds, far = states.target_odds[:, node], reach(data, data.counts.astype(float))[:, parents].sum(axis=1)
    more = odds + states.drift.bend * far / (1 + far)
    probs = np.where(state > 0, more, 1.0) / (1 + more), np.where(state > 0, odds, 1.0) / (1 + odds)
    return float((np.log(probs[0]) - np.log(probs[1])).sum())


def drifting(
    book: Textbook,
    data: ContextData,
    states: EffectStates,
    node: int,
    parents: np.ndarray,
    state: np.ndarray,
    drift: tuple[float, float, float, float],
) -> float:
    """The evidence where every context but the observational one has a shift and a change of coefficients, with these
    standard deviations in units of σ, a noise variance that is the third number times σ², and one more shift, of the
    fourth number times by how much the parents have moved."""
    of_row = np.concatenate([[0], state])[data.context]
    kind, value = states.kind[of_row], states.value[of_row]
    y, z = data.x[:, node], data.x[:, parents]
    own = (kind != EffectKind.HARD) & ((kind != EffectKind.SOFT) | (value > 0))
    added = np.diag(np.where(kind == EffectKind.SCALE, value, 1.0) * np.where(data.context > 0, drift[2], 1.0))
    same = data.context[:, None] == data.context[None, :]
    added += np.where(same & (kind == EffectKind.SHIFT)[:, None], (value**2)[:, None], 0.0)
    changed = same & (kind == EffectKind.SOFT)[:, None]
    added += np.where(changed, (value**2)[:, None] * (z @ z.T + (book.intercept is not None)), 0.0)
    # Without an intercept, none is left that could change beside the slopes.
    moves = same & (data.context > 0)[:, None]
    alone = moves & ~changed if book.intercept is None else moves
    moved = reach(data, data.counts.astype(float))[:, parents].sum(axis=1)
    shift = drift[0] ** 2 + drift[3] ** 2 * np.concatenate([[0.0], moved])[data.context][:, None]
    added += np.where(alone, shift, 0.0) + np.where(moves, drift[1] ** 2 * (z @ z.T), 0.0)
    total = dense(book, y[own], z[own], added[np.ix_(own, own)])
    for k, s in enumerate(state):
        rows = data.context == k + 1
        if states.kind[s] == EffectKind.HARD:
            total += states.hard_log_evidence[k, node]
        if states.kind[s] == EffectKind.SOFT and states.value[s] == 0:
            total += dense(book, y[rows], z[rows], np.eye(rows.sum()))
    return total


def requests(seed: int, n: int, states: EffectStates, m: int = M) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random nodes, parents and columns of states; the first columns hold one kind of effect alone."""
    rng = np.random.default_rng(seed)
    nodes = rng.integers(D, size=n)
    parents = rng.random((n, D)) < 0.5
    parents[np.arange(n), nodes] = False
    columns = rng.integers(states.n_states, size=(n, m)).astype(np.int8)
    columns[: states.n_states] = np.arange(states.n_states)[:, None]
    return nodes, parents, columns


@pytest.mark.parametrize(
    "drift",
    [NO_DRIFT, DRIFT, SLOPES, RATIOS, SLOPES.replace(ratios=(0.3, 1.0, 5.0), moves=(0.2, 0.0, 0.4)), MOVES],
    ids=["none", "drift", "slopes", "ratios", "all", "moves"],
)
@pytest.mark.parametrize("name", MODELS)
def test_evidence_is_the_dense_gaussian_or_t(name: str, drift: ContextDrift) -> None:
    mechanism, book = MODELS[name]
    states = effect_states(KINDS, data := some_data(1), drift)
    if drift.bend:
        states = replace(states, target_odds=np.linspace(0.05, 3.0, M * D).reshape(M, D))
    if any(drift.slopes) and book.intercept is None:
        with pytest.raises(NoClosedForm, match="intercept"):
            evidence_of(mechanism, data, states)
        return
    evidence, (nodes, parents, columns) = evidence_of(mechanism, data, states), requests(2, 60, states)
    found = [evidence.log_evidence(int(j), p, s) for j, p, s in zip(nodes, parents, columns, strict=True)]
    expected = [reference(book, data, states, int(j), p, s) for j, p, s in zip(nodes, parents, columns, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(evidence.log_evidences(nodes, parents, columns), found)


def test_a_row_of_power_two_counts_as_two_rows() -> None:
    """Whole powers are rows written so many times, for mechanisms, drift and effects alike."""
    data = some_data(1)
    times = np.array([1, 2, 1, 3, 2])
    twice = ContextData(
        np.repeat(data.x, times[data.context], axis=0),
        np.repeat(data.context, times[data.context]),
        data.variables,
        data.contexts,
        "obs",
    )
    written, powered = (
        evidence_of(LinearGaussian(), rows, effect_states(KINDS, rows, ContextDrift(), power))
        for rows, power in ((twice, None), (data, times.astype(float)))
    )
    asked = requests(3, 60, written.states)
    np.testing.assert_allclose(powered.log_evidences(*asked), written.log_evidences(*asked), rtol=1e-9)


def test_a_cell_of_weight_zero_is_a_row_less_for_its_variable_alone() -> None:
    """Weights by cell: rows of weight 0 are left out where the variable is explained and stay where it explains."""
    data, rng = some_data(9, (12, 6, 5, 4, 7)), np.random.default_rng(2)
    out = rng.random(data.x.shape) < 0.2
    weighed = replace(data, weight=np.where(out, 0.0, 1.0))
    weighed = replace(weighed, weight=np.where(data.context[:, None] == 3, 1.0, weighed.weight))
    effects = EffectMixture((HardGaussian(), ShiftGaussian(), SoftGaussian((SPREAD,), True)))
    for mechanism, _ in MODELS.values():
        for node in range(D):
            fewer = data.rows(weighed.weight[:, node] > 0)
            own, left = (
                evidence_of(mechanism, part, effect_states(effects, part, ContextDrift((0.3,), (0.0,), (1.0,))))
                for part in (weighed, fewer)
            )
            for state in rng.integers(own.states.n_states, size=(5, M)).astype(np.int8):
                parents = (rng.random(D) < 0.5) & (np.arange(D) != node)
                assert own.log_evidence(node, parents, state) == pytest.approx(left.log_evidence(node, parents, state))


class OfRows(Mechanism):
    """A mechanism that knows nothing but the rows it is given."""

    def log_evidence(self, node: int, parents: np.ndarray, x: np.ndarray) -> float:
        return -0.5 * float(np.square(x[:, node]).sum())


def test_coarsening_and_drift_need_sums_of_products() -> None:
    data = some_data(1)
    for part in ({"drift": ContextDrift((0.5,), (0.0,), (1.0,))}, {"coarsening": Coarsening(20.0)}):
        with pytest.raises(NoClosedForm, match="linear"):
            collapse(Model(mechanism=OfRows(), **part), data)
        assert isinstance(collapse(Model(mechanism=NeuralGaussian(), **part), data).evidence, FeatureEvidence)
    with pytest.raises(NoClosedForm, match="Slopes"):
        collapse(Model(mechanism=NeuralGaussian(), drift=ContextDrift((0.5,), (0.1,), (1.0,))), data)
    assert collapse(Model(), data).evidence.states.drift == ContextDrift()
    assert collapse(Model(mechanism=NeuralGaussian()), data).evidence.states.drift == FUNCTIONS
    assert collapse(Model(mechanism=GaussianProcess()), data).evidence.states.drift == NO_DRIFT


def one_width(width: float) -> LinearGaussian:
    return LinearGaussian(InferredNoise(2.5, 0.4), 0.05 * width, 0.2 * width)


def test_several_widths_are_the_mean_of_each_and_draws_come_from_both() -> None:
    """p(y | Z) = ½ Σ_u p(y | Z, u), for all kinds of effects, and E[w | y] = Σ_u p(u | y) E[w | y, u] in draws.

    The means are those of 20,000 draws, five standard errors apart at most (false-alarm rate 1e-6 each).
    """
    data, n = some_data(3, (9, 6, 5, 4, 7)), 20_000
    states, two = effect_states(KINDS, data), LinearGaussian(InferredNoise(2.5, 0.4, (1.0, 4.0)), 0.05, 0.2)
    mixed, *single = (evidence_of(mechanism, data, states) for mechanism in (two, one_width(1.0), one_width(4.0)))
    parents = np.isin(np.arange(D), [0, 2])
    for state in np.random.default_rng(4).integers(0, states.n_states, (20, M)).astype(np.int8):
        log_p = [evidence.log_evidence(3, parents, state) for evidence in single]
        if ((states.kind[state] == EffectKind.SOFT) & (states.value[state] == 0)).any():
            continue  # there every context has a width of its own
        assert mixed.log_evidence(3, parents, state) == pytest.approx(np.logaddexp(*log_p) - np.log(2))
    graph, state = np.zeros((n, D, D), np.int8), np.zeros((n, M, D), np.int8)
    graph[:, [0, 2], 3] = 1
    log_p = np.array([evidence.log_evidence(3, parents, state[0, :, 3]) for evidence in single])
    share = np.exp(log_p - np.logaddexp(*log_p))
    assert 0.02 < share[1] < 0.98
    means, errors = [], []
    for evidence in (mixed, *single):
        drawn = evidence.draw_parameters(np.random.default_rng(5), graph, state)
        values = np.column_stack([drawn["weight"].values[:, [0, 2], 3], drawn["noise_std"].values[:, 3]])
        means.append(values.mean(axis=0))
        errors.append(values.std(axis=0) / n**0.5)
    assert (np.abs(means[1] - means[2]) > 10 * errors[0]).any()  # the widths differ
    assert (np.abs(means[0] - share @ means[1:]) < 5 * 2**0.5 * errors[0]).all()


@pytest.mark.parametrize("name", MODELS)
def test_repeated_and_shuffled_rows(name: str) -> None:
    """The tables do not grow with the rows, and rows count as often as they occur, in whatever order."""
    mechanism, book = MODELS[name]
    data, rng = some_data(3), np.random.default_rng(0)
    at = rng.permutation(np.repeat(np.arange(data.n_rows), 5))
    many = ContextData(data.x[at], data.context[at], data.variables, data.contexts, "obs")
    states = effect_states(KINDS, many)
    evidence, small = evidence_of(mechanism, many, states), evidence_of(mechanism, data, effect_states(KINDS, data))
    assert evidence.tables.gram.nbytes == small.tables.gram.nbytes
    for j, p, s in zip(*requests(4, 12, states), strict=True):
        expected = reference(book, many, states, int(j), p, s)
        np.testing.assert_allclose(evidence.log_evidence(int(j), p, s), expected, rtol=1e-8)


def test_bge_is_that_of_the_differentiable_reading() -> None:
    data, mechanism = some_data(5), BGe(0.75, 3.0)
    states = effect_states(HARD, data)
    nodes, parents, columns = requests(6, 40, states)
    found = evidence_of(mechanism, data, states).log_evidences(nodes, parents, columns)
    hard = (columns * states.hard_log_evidence[:, nodes].T).sum(axis=1)
    with jax.enable_x64(True):
        statistics = prepare(mechanism, data, jnp.dtype("float64"))
        graphs, keep = np.zeros((D, 40, D)), np.ones((M + 1, 40, D))
        for b, j in enumerate(nodes):
            graphs[:, b, j], keep[1:, b, j] = parents[b], 1 - columns[b]
        other = np.asarray(log_evidence(mechanism, jnp.asarray(graphs), jnp.asarray(keep), statistics))
    np.testing.assert_allclose(found - hard, other[np.arange(40), nodes], rtol=1e-9)


def test_bge_scores_markov_equivalent_graphs_alike() -> None:
    data = some_data(7, (15,), 4)
    evidence = evidence_of(BGe(0.75, 3.0), data, effect_states(HARD, data))
    by_class: dict[bytes, list[float]] = {}
    for graph in all_dags(4):
        edges, none = graph.astype(bool), np.zeros((4, 0), np.int8)
        score = evidence.log_evidences(np.arange(4), np.ascontiguousarray(edges.T), none).sum()
        by_class.setdefault(np.asarray(cpdag(graph), np.int8).tobytes(), []).append(score)
    assert len(by_class) == 185  # Markov equivalence classes of four variables (Gillispie, Perlman 2002)
    assert max(np.ptp(scores) for scores in by_class.values()) < 1e-9
    assert np.ptp([scores[0] for scores in by_class.values()]) > 1


@pytest.mark.parametrize("graph", all_dags(2))
def test_known_noise_collapse_is_the_integral_of_psi(graph: np.ndarray) -> None:
    """∫∫ Ψ dθ dμ, column by column, by the trapezoid rule: the two readings are one model."""
    data = some_data(8, (9, 5), 2)
    data = ContextData(data.x / data.x.std(), data.context, data.variables, data.contexts, "obs")
    hard = HardGaussian(FixedNoise(0.8), 0.3, 2.0)
    model = Model(LinearGaussian(FixedNoise(0.6), 1.2, None), hard, drift=NO_DRIFT)
    collapsed = collapse(model, data)
    weights, means = np.linspace(-9, 9, 451), np.linspace(-13, 13, 451)
    with jax.enable_x64(True):
        density = Density.of(model, data, dtype=jnp.dtype("float64"))

        def psi(targets: jnp.ndarray, weight: jnp.ndarray, mean: jnp.ndarray) -> jnp.ndarray:
            theta = LinearTheta(jnp.full((2, 2), weight), None, None)
            structures = Structures(jnp.asarray(graph, float)[:, None, :], targets[:, None, :])
            return density.log_psi(theta, HardTheta(jnp.full((1, 2), mean), None), structures)[0]

        over = jax.jit(jax.vmap(jax.vmap(psi, in_axes=(None, None, 0)), in_axes=(None, 0, None)))
        for state in product((0, 1), repeat=2):
            log_psi = np.asarray(over(jnp.asarray([state], float), weights, means))
            for j in range(2):
                of_mean = np.trapezoid(np.exp(log_psi[:, :, j]), means, axis=1)
                # Without an edge the weight has no density and Ψ does not depend on it.
                value = np.trapezoid(of_mean, weights) if graph[:, j].any() else of_mean[0]
                column = np.array([state[j]], np.int8)
                found = collapsed.evidence.log_evidence(j, graph[:, j].astype(bool), column)
                np.testing.assert_allclose(found, np.log(value), rtol=1e-6)


def test_inferred_noise_collapse_is_the_integral_of_psi() -> None:
    data = some_data(9, (14,), 2)
    model = Model(LinearGaussian(InferredNoise(2.5, 0.4), 1.2, None), HARD)
    graph = np.array([[0, 1], [0, 0]], np.int8)
    found = collapse(model, data).evidence.log_evidence(1, graph[:, 1].astype(bool), np.zeros(0, np.int8))
    weights, log_stds = np.linspace(-12, 12, 2401), np.linspace(-3, 3, 301)
    with jax.enable_x64(True):
        density = Density.of(model, data, dtype=jnp.dtype("float64"))

        def psi(weight: jnp.ndarray, log_std: jnp.ndarray) -> jnp.ndarray:
            theta = LinearTheta(jnp.full((2, 2), weight), None, jnp.full(2, log_std))
            structures = Structures(jnp.asarray(graph, float)[:, None, :], jnp.zeros((0, 1, 2)))
            effect = HardTheta(jnp.zeros((0, 2)), None)
            return density.log_psi(theta, effect, structures)[0, 1]

        values = np.asarray(jax.jit(jax.vmap(jax.vmap(psi, in_axes=(None, 0)), in_axes=(0, None)))(weights, log_stds))
    np.testing.assert_allclose(found, np.log(np.trapezoid(np.trapezoid(np.exp(values), log_stds), weights)), rtol=1e-6)


@pytest.mark.parametrize("name", ["known noise, intercept", "noise inferred"])
def test_a_function_of_rows_gives_the_same(name: str) -> None:
    mechanism, book = MODELS[name]
    data = some_data(10)
    states = effect_states(EffectMixture((HARD, RENEWED)), data)

    def of_rows(node: int, parents: np.ndarray, rows: np.ndarray) -> float:
        return dense(book, rows[:, node], rows[:, parents], np.eye(len(rows)))

    asked = requests(11, 30, states)
    one = RowsEvidence(of_rows, data, states).log_evidences(*asked)
    np.testing.assert_allclose(one, evidence_of(mechanism, data, states).log_evidences(*asked), rtol=1e-9)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("scale", [1e8, 1e-8])
def test_collinear_columns_of_any_scale_have_a_finite_evidence(name: str, scale: float) -> None:
    """A score that is no number would be taken for one that is missing, and asked for again for ever."""
    data = some_data(12)
    x = scale * np.column_stack([data.x[:, 0], data.x[:, 0], data.x[:, 0] + data.x[:, 1], data.x[:, 1]])
    same = ContextData(x, data.context, data.variables, data.contexts, "obs")
    states = effect_states(KINDS, same)
    asked = requests(13, 200, states)
    assert np.isfinite(evidence_of(MODELS[name][0], same, states).log_evidences(*asked)).all()


class Moments(NamedTuple):
    """The posterior of coefficients: mean, covariance in units of σ², and σ² or its InvGamma(a, b)."""

    mean: np.ndarray
    cov: np.ndarray
    noise: tuple[float, ...]


def closed_form(book: Textbook, y: np.ndarray, z: np.ndarray, added: np.ndarray) -> Moments:
    """Weighted least squares with the prior, from the rows; `added` is the covariance of the rows over σ²."""
    n_parents = z.shape[1]
    variance = [book.weight] * n_parents
    if book.intercept is not None:
        z, variance = np.column_stack([z, np.ones(len(z))]), [*variance, book.intercept]
    inverse, noise = np.linalg.inv(added), book.noise(n_parents)
    cov = np.linalg.inv(z.T @ inverse @ z + np.diag(1 / np.array(variance)))
    mean = cov @ z.T @ inverse @ y
    if len(noise) == 1:
        return Moments(mean, cov, noise)
    return Moments(mean, cov, (noise[0] + len(y) / 2, noise[1] + (y @ inverse @ y - mean @ z.T @ inverse @ y) / 2))


def check_draws(coefficients: np.ndarray, noise_std: np.ndarray, expected: Moments) -> None:
    """Coefficients over σ are Gaussian with the covariance, σ² follows its law; false-alarm rate 1e-4 a call."""
    n, size = coefficients.shape
    if len(expected.noise) == 1:
        np.testing.assert_allclose(noise_std, expected.noise[0] ** 0.5, rtol=1e-6)
    else:
        assert kstest(noise_std.astype(float) ** 2, invgamma(expected.noise[0], scale=expected.noise[1]).cdf)[1] > 5e-5
    if size:
        root = np.linalg.cholesky(np.linalg.inv(expected.cov))
        standard = ((coefficients - expected.mean) / noise_std[:, None]) @ root
        products = np.einsum("na,nb->ab", standard, standard) / n - np.eye(size)
        limit = norm.isf(5e-5 / (2 * (size + size * size)))
        assert np.abs(standard.mean(axis=0)).max() < limit / n**0.5
        assert np.abs(products).max() < limit * (2 / n) ** 0.5


@pytest.mark.parametrize("name", MODELS)
def test_parameter_draws_have_their_closed_form(name: str) -> None:
    """Node 3 with parents 0 and 2 is hit by a shift, a scale, a hard and a soft effect at once; node 1 is a root."""
    mechanism, book = MODELS[name]
    data, n = some_data(14, (9, 6, 5, 4, 7)), 20_000
    states = effect_states(KINDS, data)
    evidence = evidence_of(mechanism, data, states)
    graph, state = np.zeros((D, D), np.int8), np.zeros((M, D), np.int8)
    graph[[0, 2], 3] = 1
    named = {name: at for at, name in enumerate(states.names)}
    state[:, 3] = [named["shift"], named["scale 4"], named["hard"], named["soft"]]
    drawn = evidence.draw_parameters(
        np.random.default_rng(15), np.repeat(graph[None], n, axis=0), np.repeat(state[None], n, axis=0)
    )
    values = {name: np.asarray(item.values, float) for name, item in drawn.items()}
    zero = np.zeros((n, D))
    rows, c = data.context < 3, data.context
    added = np.diag(np.where(c == 2, 4.0, 1.0)) + 1.5**2 * np.outer(c == 1, c == 1)
    own = closed_form(book, data.x[rows, 3], data.x[rows][:, [0, 2]], added[np.ix_(rows, rows)])
    constant = values.get("intercept", zero)[:, 3:] if book.intercept is not None else zero[:, :0]
    check_draws(np.column_stack([values["weight"][:, [0, 2], 3], constant]), values["noise_std"][:, 3], own)
    root = closed_form(book, data.x[:, 1], data.x[:, :0], np.eye(data.n_rows))
    constant = values.get("intercept", zero)[:, 1:2] if book.intercept is not None else zero[:, :0]
    check_draws(constant, values["noise_std"][:, 1], root)
    soft = closed_form(book, data.x[c == 4, 3], data.x[c == 4][:, [0, 2]], np.eye(7))
    assert (values["effect_context"] == 3).all() and (values["effect_node"] == 3).all()
    constant = values["effect_intercept"] if book.intercept is not None else zero[:, :0]
    coefficients = np.column_stack([values["effect_weight"][:, 0, [0, 2]], constant])
    check_draws(coefficients, values["effect_own_noise_std"][:, 0], soft)
    mean = data.x @ values["weight"][:, :, 3].T + values.get("intercept", zero)[:, 3]
    residual = (data.x[:, 3][:, None] - mean)[c == 1].sum(axis=0)
    precision = 6 + 1 / 1.5**2
    standard = (values["effect_shift"][:, 0, 3] - residual / precision) / values["noise_std"][:, 3] * precision**0.5
    assert kstest(standard, "norm")[1] > 1e-4
    assert values["effect_noise_ratio"][0, :, 3].tolist() == [1, 4, 1, 1]
    assert not values["weight"][:, graph == 0].any() and not values["effect_shift"][:, 1:].any()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kinds", [("soft", "shift"), ("shift", "soft")], ids=" then ".join)
def test_soft_and_shift_draws_have_their_closed_form_in_every_context(name: str, kinds: tuple[str, str]) -> None:
    """Node 3 with parents 0 and 2 is hit in every context, softly and by a shift in turn, node 1 the other way round.

    Contexts differ in their rows, so that a draw from those of another one is found out.
    """
    mechanism, book = MODELS[name]
    data, n = some_data(16, (9, 6, 5, 4, 7)), 10_000
    states, c = effect_states(KINDS, data), data.context
    soft, shift = states.names.index("soft"), states.names.index("shift")
    graph, state = np.zeros((D, D), np.int8), np.zeros((M, D), np.int8)
    graph[[0, 2], 3] = 1
    state[:, 3] = [states.names.index(kinds[k % 2]) for k in range(M)]
    state[:, 1] = soft + shift - state[:, 3]
    drawn = evidence_of(mechanism, data, states).draw_parameters(
        np.random.default_rng(17), np.repeat(graph[None], n, axis=0), np.repeat(state[None], n, axis=0)
    )
    values = {name: np.asarray(item.values, float) for name, item in drawn.items()}
    intercept = values.get("intercept", np.zeros((n, D)))
    for node, parents in ((3, [0, 2]), (1, [])):
        shifted = np.append(False, state[:, node] == shift)[c]
        rows = shifted | (c == 0)
        added = np.eye(data.n_rows) + 1.5**2 * np.where(shifted, c[:, None] == c, False)
        own = closed_form(book, data.x[rows, node], data.x[rows][:, parents], added[np.ix_(rows, rows)])
        constant = [] if book.intercept is None else [intercept[:, node]]
        coefficients = np.column_stack([values["weight"][:, parents, node], *constant])
        check_draws(coefficients, values["noise_std"][:, node], own)
        residuals = data.x[:, node] - values["weight"][:, :, node] @ data.x.T - intercept[:, node, None]
        for k in range(M):
            here = c == k + 1
            if state[k, node] == shift:
                precision = here.sum() + 1 / 1.5**2
                centred = values["effect_shift"][:, k, node] - residuals[:, here].sum(axis=1) / precision
                check_draws(
                    centred[:, None],
                    values["noise_std"][:, node],
                    Moments(np.zeros(1), np.eye(1) / precision, own.noise),
                )
                assert not ((values["effect_context"][0] == k) & (values["effect_node"][0] == node)).any()
            else:
                expected = closed_form(book, data.x[here, node], data.x[here][:, parents], np.eye(here.sum()))
                (at,) = np.flatnonzero((values["effect_context"][0] == k) & (values["effect_node"][0] == node))
                constant = [] if book.intercept is None else [values["effect_intercept"][:, at]]
                coefficients = np.column_stack([values["effect_weight"][:, at][:, parents], *constant])
                check_draws(coefficients, values["effect_own_noise_std"][:, at], expected)
                assert not values["effect_shift"][:, k, node].any()


@pytest.mark.parametrize("ratio", [1.0, 0.25])
@pytest.mark.parametrize("name", MODELS)
def test_changed_and_drifting_mechanisms_have_their_closed_form(name: str, ratio: float) -> None:
    """Node 3 with parents 0 and 2 changes its coefficients in context 1 and drifts by .6 σ in all contexts, whose noise
    variance is `ratio` times that of the control.

    The joint Gaussian of usual coefficients and changes, in units of σ, has as its design the usual regressors beside
    those of context 1 alone.
    """
    mechanism, book = MODELS[name]
    data, n, drift = some_data(18, (9, 8, 5, 4, 7)), 20_000, 0.6
    states = effect_states(KINDS, data, ContextDrift((drift,), (0.0,), (1.0,), ratios=(ratio,)))
    graph, state = np.zeros((D, D), np.int8), np.zeros((M, D), np.int8)
    graph[[0, 2], 3], state[0, 3] = 1, states.names.index(f"soft {SPREAD:g}")
    drawn = evidence_of(mechanism, data, states).draw_parameters(
        np.random.default_rng(19), np.repeat(graph[None], n, axis=0), np.repeat(state[None], n, axis=0)
    )
    values, c = {name: np.asarray(item.values, float) for name, item in drawn.items()}, data.context
    z, variance, change = data.x[:, [0, 2]], [book.weight] * 2, [SPREAD**2] * 2
    if book.intercept is not None:
        z = np.column_stack([z, np.ones(len(z))])
        variance, change = [*variance, book.intercept], [*change, SPREAD**2 + drift**2]
    design = np.column_stack([z, z * (c == 1)[:, None]])
    drifts = c > 1
    added = np.diag(np.where(c > 0, ratio, 1.0)) + drift**2 * np.outer(drifts, drifts) * (c[:, None] == c)
    prior, inverse = np.diag(1 / np.array([*variance, *change])), np.linalg.inv(added)
    cov = np.linalg.inv(design.T @ inverse @ design + prior)
    mean, y, noise = cov @ design.T @ inverse @ data.x[:, 3], data.x[:, 3], book.noise(2)
    if len(noise) > 1:
        noise = (noise[0] + len(y) / 2, noise[1] + (y @ inverse @ y - mean @ design.T @ inverse @ y) / 2)
    usual, own = values["weight"][:, [0, 2], 3], values["effect_weight"][:, 0, [0, 2]]
    if book.intercept is not None:
        usual = np.column_stack([usual, values["intercept"][:, 3]])
        own = np.column_stack([own, values["effect_intercept"][:, 0]])
    own_std = values["effect_own_noise_std"][:, 0]
    np.testing.assert_allclose(ratio**0.5 * values["noise_std"][:, 3], own_std, rtol=1e-6)
    if ratio != 1:
        assert (values["noise_ratio"] == ratio).all()
    check_draws(np.column_stack([usual, own - usual]), values["noise_std"][:, 3], Moments(mean, cov, noise))
