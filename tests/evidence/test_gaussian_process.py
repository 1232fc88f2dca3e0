"""Gaussian-process evidence against the plain N x N covariance, quadrature and simulated networks."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate
from scipy.special import expit
from scipy.stats import invgamma, multivariate_normal, multivariate_t
from threadpoolctl import threadpool_limits

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError
from bacadi.evidence.collapsed import EffectKind, EffectStates
from bacadi.evidence.gp import draw as functions_gp
from bacadi.evidence.gp import features, nystrom
from bacadi.evidence.gp.evidence import DenseEvidence, KernelEvidence
from bacadi.evidence.gp.factor import Group, NoisePrior, Terms, covariance_panels
from bacadi.evidence.gp.features import FeatureEvidence
from bacadi.evidence.gram import reach
from bacadi.evidence.tables import LARGE
from bacadi.model.certainty import ContextDrift
from bacadi.model.kernels import (
    RBF,
    AbstractKernel,
    AdditiveKernel,
    Constant,
    Functions,
    LinearKernel,
    NetworkKernel,
    Sum,
)

KERNELS: list[AbstractKernel] = [
    NetworkKernel(),
    Constant(2.0) + NetworkKernel(n_hidden=3, weight_std=1.5),
    Constant(0.5) + RBF(lengthscale=1.5, variance=2.0),
    AdditiveKernel(RBF(0.8)) + LinearKernel(0.3) + Constant(1.0),
]
FIXED = NoisePrior(0.1)
NOISES = [FIXED, NoisePrior(None, 1.5, 0.7, ratios=(0.2,))]
WIDE = NoisePrior(None, 1.5, 0.7, widths=(0.5, 2.0), ratios=(0.2,))
KINDS = [EffectKind.NONE, EffectKind.HARD, EffectKind.SHIFT, EffectKind.SCALE, EffectKind.SOFT]
ids = ["NetworkKernel", "NetworkKernel with constant", "RBF", "AdditiveKernel"]


def parts_of(kernel: AbstractKernel) -> tuple[AbstractKernel, ...]:
    return kernel.parts if isinstance(kernel, Sum) else (kernel,)


def constant_of(kernel: AbstractKernel) -> float:
    return sum(part.variance for part in parts_of(kernel) if isinstance(part, Constant))


@pytest.fixture(autouse=True)
def _one_thread():
    """The matrices are small: BLAS threads that wait for each other cost more than they bring on a busy machine."""
    with threadpool_limits(1):
        yield


def states_of(n_contexts: int, d: int) -> EffectStates:
    """One state of every kind but two scale states, with hard evidence that is easy to tell apart."""
    kind = np.array([*KINDS, EffectKind.SCALE], np.int8)
    value = np.array([0.0, 0.0, 3.0, 4.0, 0.0, 0.25])
    hard = np.random.default_rng(5).normal(size=(n_contexts, d))
    return EffectStates(tuple(f"{k.name}{i}" for i, k in enumerate([*KINDS, KINDS[3]])), kind, value, np.zeros(6), hard)


def data_of(counts: list[int], d: int, seed: int = 0) -> ContextData:
    """Rows in mixed order of contexts, each column a wavy function of the one before."""
    rng = np.random.default_rng(seed)
    context = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    x = rng.normal(size=(len(context), d))
    for j in range(1, d):
        x[:, j] = np.sin(1.5 * x[:, j - 1]) + x[:, max(j - 2, 0)] + 0.3 * x[:, j] + 0.2 * context
    names = tuple(f"x{j}" for j in range(d))
    return ContextData(x, context, names, tuple(f"c{k}" for k in range(1, len(counts))), "obs")


def dense(
    data: ContextData, states: EffectStates, group: tuple[AbstractKernel, float], noise: NoisePrior, request: tuple
) -> float:
    """The evidence by its definition: full covariance matrices and densities of scipy, averaged over the widths."""
    (kernel, chosen), (node, parents, state) = group, request
    gram = np.array(kernel(data.x[:, parents], data.x[:, parents]))

    def density(rows: np.ndarray, changes: np.ndarray) -> float:
        """Of some rows, whose noise is `changes` in units of ρ."""
        y, values = data.x[rows, node], []
        for ratio in noise.averaged(chosen):
            covariance = gram[np.ix_(rows, rows)] + ratio * changes
            if noise.variance is not None:
                values.append(multivariate_normal.logpdf(y, np.zeros(len(y)), covariance))
            else:
                shape = noise.scale / ratio / noise.shape * covariance
                values.append(multivariate_t.logpdf(y, np.zeros(len(y)), shape, df=2 * noise.shape))
        return np.logaddexp.reduce(values) - math.log(len(values))

    changes, keep, total = np.eye(len(gram)), np.ones(len(gram), bool), 0.0
    for k, s in enumerate(state, start=1):
        rows, value = np.flatnonzero(data.context == k), states.value[s]
        if states.kind[s] == EffectKind.SHIFT:
            changes[np.ix_(rows, rows)] += value**2
        elif states.kind[s] == EffectKind.SCALE:
            changes[rows, rows] += value - 1
        elif states.kind[s] != EffectKind.NONE:
            keep[rows] = False
        if states.kind[s] == EffectKind.HARD:
            total += states.hard_log_evidence[k - 1, node]
        if states.kind[s] == EffectKind.SOFT and len(rows):
            total += density(rows, np.eye(len(rows)))
    return total + density(np.flatnonzero(keep), changes[np.ix_(keep, keep)])


def random_requests(rng: np.random.Generator, d: int, n_contexts: int, n_states: int, size: int) -> list[tuple]:
    requests = []
    for _ in range(size):
        node = int(rng.integers(d))
        parents = rng.random(d) < 0.4
        parents[node] = False
        state = (rng.integers(n_states, size=n_contexts) * (rng.random(n_contexts) < 0.5)).astype(np.int8)
        requests.append((node, parents, state))
    return requests


def arrays(requests: list[tuple]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    nodes, parents, states = zip(*requests, strict=True)
    return np.array(nodes), np.array(parents), np.array(states)


@pytest.mark.parametrize("units", [expit, lambda a: 0.5 * (1 + np.vectorize(math.erf)(math.sqrt(math.pi / 16) * a))])
@pytest.mark.parametrize("weight_std", [1.0, 1.6])
def test_the_network_kernel_is_the_covariance_of_networks(units: object, weight_std: float) -> None:
    """20,000 networks of 5 units, 6 inputs of 2 parents: each of the 21 covariances within 5 standard errors.

    False-alarm rate 21 · 6e-7 ≈ 1e-5 a case, were the seed not fixed. Logistic units get 2 % of the covariance beside,
    since the kernel is exact for probit units only.
    """
    rng = np.random.default_rng(0)
    x, n = rng.normal(scale=2.0, size=(6, 2)), 20_000
    weight, bias, out = (weight_std * rng.normal(size=size) for size in ((n, 5, 2), (n, 5, 1), (n, 6)))
    f = np.einsum("nh,nhm->nm", out[:, :5], units(weight @ x.T + bias)) + out[:, 5:]  # type: ignore[operator]
    products = f[:, :, None] * f[:, None, :]
    gram = NetworkKernel(weight_std=weight_std)(x, x)
    allowed = 5 * products.std(axis=0) / math.sqrt(n) + (0.02 * gram if units is expit else 0)
    assert (np.abs(products.mean(axis=0) - gram) < allowed).all()


@pytest.mark.parametrize("kernel", KERNELS, ids=ids)
def test_kernels_are_covariances(kernel: AbstractKernel) -> None:
    x = np.random.default_rng(0).normal(size=(30, 3))
    gram = kernel(x, x)
    assert gram.dtype == np.float64
    np.testing.assert_allclose(gram, gram.T, rtol=1e-13)
    np.testing.assert_allclose(kernel.diagonal(x), np.diag(gram), rtol=1e-12)
    assert np.linalg.eigvalsh(gram).min() > -1e-10
    np.testing.assert_allclose(kernel(x[None, :5], x[None, 5:])[0], gram[:5, 5:], rtol=1e-12)
    assert (kernel(x[:, :0], x[:, :0]) == constant_of(kernel)).all()  # no parents: the intercept alone
    assert (kernel.diagonal(x[:, :0]) == constant_of(kernel)).all()
    assert kernel == eval(repr(kernel)) and len({kernel, eval(repr(kernel))}) == 1  # a choice is its numbers


def test_a_sum_of_kernels_is_the_sum_of_covariances() -> None:
    x = np.random.default_rng(0).normal(size=(20, 2))
    parts = [Constant(0.5), LinearKernel(0.3), RBF(2.0)]
    expected = sum(part(x, x) for part in parts)
    for total in (parts[0] + parts[1] + parts[2], parts[2] + (parts[1] + parts[0]), Sum(tuple(reversed(parts)))):
        np.testing.assert_allclose(total(x, x), expected, rtol=1e-14)
        assert total == Sum(tuple(parts))
    assert (parts[0](x, x) == 0.5).all()  # addition leaves the parts as they are
    for wrong in (lambda: RBF() + RBF(), lambda: Sum(()), lambda: Constant() + Constant()):
        with pytest.raises(ConfigError):
            wrong()


@pytest.mark.parametrize("noise", [*NOISES, WIDE], ids=["fixed", "inferred", "widths"])
@pytest.mark.parametrize("kernel", KERNELS, ids=ids)
def test_fast_evidence_is_the_dense_one(kernel: AbstractKernel, noise: NoisePrior) -> None:
    """All kinds of states, none to all contexts changed, a context without rows, rows over several panels."""
    data = data_of([31, 12, 0, 9, 40, 25], d=5)
    states = states_of(5, 5)
    evidence = DenseEvidence(data, states, [kernel], noise)
    for request in random_requests(np.random.default_rng(1), 5, 5, 6, 60):
        expected = dense(data, states, (kernel, noise.choices[0]), noise, request)
        assert evidence.log_evidence(*request) == pytest.approx(expected, abs=1e-7, rel=1e-9)


def test_compiled_networks_are_the_kernel() -> None:
    """To the last digits, for rows that are the same, opposite and far apart, where the arcsine is steepest."""
    x = np.random.default_rng(3).normal(size=(70, 3)) * np.repeat([1e-3, 1.0, 30.0], [20, 30, 20])[:, None]
    x[35:45] = -x[25:35]
    for kernel in (NetworkKernel(3, 2.0, 0.7), Constant(0.4) + NetworkKernel()):
        panels = covariance_panels(Group(kernel, 0.1), x)
        whole = panels.transpose(1, 0, 2).reshape(len(x) + 26, -1)[:70, :70]
        expected = kernel(x, x) + 0.1 * np.eye(70)
        assert np.triu(whole - expected) == pytest.approx(0, abs=1e-13)


@pytest.mark.parametrize("counts", [[1, 1], [0, 3, 2], [48], [96, 48], [47, 2], [5, 0]], ids=str)
def test_any_number_of_rows(counts: list[int]) -> None:
    data, m = data_of(counts, d=3), len(counts) - 1
    states = states_of(m, 3)
    evidence = DenseEvidence(data, states, [NetworkKernel()], FIXED)
    for request in random_requests(np.random.default_rng(2), 3, m, 6, 12):
        left = sum(counts) - sum(counts[k + 1] for k, s in enumerate(request[2]) if s in (1, 4))
        if left:  # scipy has no density of no rows
            expected = dense(data, states, (NetworkKernel(), 0.1), FIXED, request)
            assert evidence.log_evidence(*request) == pytest.approx(expected, abs=1e-8)


BOTH = pytest.mark.parametrize("kind", [FeatureEvidence, DenseEvidence])


@pytest.fixture
def _all_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many features as there are rows, until rounding is all that is left."""
    monkeypatch.setattr(features, "ERROR", 1e-10)
    monkeypatch.setattr(nystrom, "ROUNDING", 0.0)


@BOTH
@pytest.mark.usefixtures("_all_features")
@pytest.mark.parametrize("noise", NOISES, ids=["fixed", "inferred"])
def test_no_rows_left_or_few(noise: NoisePrior, kind: type[KernelEvidence]) -> None:
    """Hard effects in all contexts but some: with no rows left their own evidence is all there is."""
    data, states = data_of([0, 30, 20, 10, 5], d=3), states_of(4, 3)
    evidence = kind(data, states, [NetworkKernel()], noise)
    parents = np.array([True, False, False])
    for hard in ([1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 1, 1], [0, 1, 0, 0]):
        request = (2, parents, np.array(hard, np.int8))
        expected = states.hard_log_evidence[:, 2].sum()
        if not all(hard):
            expected = dense(data, states, (NetworkKernel(), noise.choices[0]), noise, request)
        assert evidence.log_evidence(*request) == pytest.approx(expected, abs=1e-5)


@pytest.mark.usefixtures("_all_features")
@pytest.mark.parametrize("noise", [*NOISES, WIDE], ids=["fixed", "inferred", "widths"])
@pytest.mark.parametrize("kernel", KERNELS, ids=ids)
def test_features_of_full_rank_are_the_dense_evidence(kernel: AbstractKernel, noise: NoisePrior) -> None:
    data, states = data_of([31, 12, 0, 9, 15], d=4), states_of(4, 4)
    requests = arrays(random_requests(np.random.default_rng(3), 4, 4, 6, 40))
    by_features, exact = (kind(data, states, [kernel], noise) for kind in (FeatureEvidence, DenseEvidence))
    np.testing.assert_allclose(by_features.log_evidences(*requests), exact.log_evidences(*requests), atol=1e-5)


@pytest.mark.parametrize(("noise", "most"), [(NOISES[1], 0.3), (FIXED, 1.0)], ids=["inferred", "fixed"])
def test_the_error_of_features_at_600_rows(noise: NoisePrior, most: float) -> None:
    """Up to 3 parents: the largest error over nodes, parent sets and states, in nats; the bound of the module is on one
    side alone. A fixed noise far below what is left over makes all errors larger, by the ratio of the two."""
    data, states = data_of([300, 100, 100, 100], d=6), states_of(3, 6)
    requests = [r for r in random_requests(np.random.default_rng(4), 6, 3, 6, 40) if r[1].sum() <= 3]
    kernel, asked = Constant(1.0) + NetworkKernel(input_scale=0.5), arrays(requests)
    found = [kind(data, states, [kernel], noise).log_evidences(*asked) for kind in (FeatureEvidence, DenseEvidence)]
    error = np.abs(found[0] - found[1])
    assert error.max() < most and np.median(error) < 0.06


@pytest.mark.parametrize("noise", [*NOISES, WIDE])
@pytest.mark.parametrize("rows", [30, 3])
def test_the_approximation_is_the_evidence_of_functions_that_add_up(noise: NoisePrior, rows: int) -> None:
    """A linear kernel is the sum of those of single parents, so that nothing is lost: all kinds of effects, contexts
    that keep their sums or their rows. Of several widths of the noise the approximation has one."""
    data, states, kernels = data_of([40, rows, rows, rows], 5), states_of(3, 5), [LinearKernel(0.7) + Constant(2.0)]
    evidence, one = (DenseEvidence(data, states, kernels, of) for of in (noise, noise.middle))
    every, rng = nystrom.additive_evidence(data, states, evidence.groups, noise), np.random.default_rng(2)
    for _ in range(40):
        parents, state = rng.random(5) < 0.5, rng.integers(0, 6, 3).astype(np.int8)
        node = int(rng.integers(5))
        parents[node] = False
        for cheap, exact in ((every, evidence), (evidence.approximation, one)):
            found, expected = (each.log_evidence(node, parents, state) for each in (cheap, exact))
            assert found == pytest.approx(expected, abs=1e-6)


def test_the_approximation_of_one_parent_is_the_evidence() -> None:
    data, states = data_of([60, 20, 20], 4), states_of(2, 4)
    evidence = DenseEvidence(data, states, [NetworkKernel(input_scale=0.3) + Constant(1.0)], NOISES[1])
    for parent in range(3):
        parents = np.arange(4) == parent
        for state in np.array([[0, 0], [1, 0], [2, 3]], np.int8):
            found = evidence.approximation.log_evidence(3, parents, state)
            assert found == pytest.approx(evidence.log_evidence(3, parents, state), abs=0.05)


@pytest.mark.usefixtures("_all_features")
@pytest.mark.parametrize("certain", ["drift", "moves", "power", "weight", "block"])
def test_what_keeps_from_certainty_is_exact_in_features(certain: str) -> None:
    """Drift, moves of parents, coarsening, weights of rows and blocks against the N x N covariance; then with a context
    that is a target's, whose rows and moves are gone."""
    data, states, noise = data_of([14, 6, 5], d=3), states_of(2, 3), NoisePrior(None, 1.5, 0.7, ratios=(0.2,))
    kernel, rng = Constant(0.8) + RBF(1.3), np.random.default_rng(5)
    weight, power, extra = np.ones(25), np.ones(3), np.zeros((25, 25))
    drifts, far = [(0.0, 0.0, 1.0)], np.zeros(3)
    if certain == "drift":
        drifts = [(0.0, 0.0, 0.3), (0.5, 0.0, 0.7)]
        states = replace(states, drift=ContextDrift((0.0, 0.5), (0.0, 0.0), (0.3, 0.7)))
    elif certain == "moves":
        drifts = [(0.0, 0.0, 0.5), (0.2, 0.4, 0.5)]
        states = replace(states, drift=ContextDrift((0.0, 0.2), (0.0, 0.0), None, moves=(0.0, 0.4)))
        data = replace(data, x=data.x + 3.0 * (data.context == 1)[:, None] * np.array([1.0, 0.0, 0.0]))
        far[1:] = reach(data, data.counts.astype(float))[:, :2].sum(axis=1)
        assert far[1] > 1
    elif certain == "power":
        power = np.array([0.5, 0.7, 1.0])
        states = replace(states, power=power)
    elif certain == "weight":
        data = replace(data, weight=rng.uniform(0.2, 1.0, data.x.shape))
        weight = data.weight[:, 2]
    else:
        data = replace(data, block=rng.integers(0, 2, 25))
        extra = 0.8 * (data.block[:, None] == data.block)
    evidence = FeatureEvidence(data, states, [kernel], noise)
    parents, y, inputs = np.array([True, True, False]), data.x[:, 2], data.x[:, :2]
    assert states.kind[1] == EffectKind.HARD
    for state in ([0, 0], [1, 0]):
        left, terms = np.append(0, state)[data.context] == 0, []
        n = (weight * power[data.context])[left]
        for std, move, share in drifts:
            shift = np.append(0.0, std**2 + move**2 * far[1:])[data.context]
            covariance = kernel(inputs, inputs) + extra + 0.2 * shift * (data.context[:, None] == data.context)
            # Rows that count as n: their precision is n times as large, and n of them are in the determinant.
            root = np.sqrt(n)[:, None]
            matrix = 0.2 * np.eye(len(n)) + root * covariance[np.ix_(left, left)] * root.T
            quad = (root[:, 0] * y[left]) @ np.linalg.solve(matrix, root[:, 0] * y[left])
            log_det = np.linalg.slogdet(matrix / 0.2)[1] + n.sum() * math.log(0.2)
            log_p = noise.log_density(Terms(np.asarray(n.sum()), np.asarray(log_det), np.asarray(quad)), 0.2)
            terms.append(float(log_p) + math.log(share))
        plain = np.logaddexp.reduce(terms) + states.hard_log_evidence[0, 2] * state[0]
        assert evidence.log_evidence(2, parents, np.array(state, np.int8)) == pytest.approx(plain, abs=1e-6)


def test_many_columns_are_the_dense_evidence() -> None:
    """Regressions of more than `LARGE` columns are left to LAPACK: here, on the features of three parents."""
    data, states = data_of([300, 50, 50], d=4), states_of(2, 4)
    requests = [(3, np.arange(4) < 3, np.array(state, np.int8)) for state in ([0, 0], [1, 0], [2, 3], [4, 0])]
    kernel = Constant(1.0) + NetworkKernel(input_scale=1.0)
    by_features = FeatureEvidence(data, states, [kernel], WIDE)
    assert by_features.sums(3, requests[0][1]).z.shape[1] > LARGE
    exact = DenseEvidence(data, states, [kernel], WIDE)
    found = by_features.log_evidences(*arrays(requests))
    np.testing.assert_allclose(found, exact.log_evidences(*arrays(requests)), atol=0.1)


def test_inferred_noise_is_an_integral_over_its_scale() -> None:
    data, kernel, noise = data_of([8, 5], d=2), Constant(1.0) + RBF(), NoisePrior(None, 2.0, 0.6, ratios=(0.3,))
    evidence = DenseEvidence(data, states_of(1, 2), [kernel], noise)
    covariance = kernel(data.x[:, :1], data.x[:, :1]) + 0.3 * np.eye(13)

    def integrand(log_s2: float) -> float:
        s2 = math.exp(log_s2)
        log_prior = invgamma.logpdf(0.3 * s2, noise.shape, scale=noise.scale) + log_s2 + math.log(0.3)
        return math.exp(multivariate_normal.logpdf(data.x[:, 1], np.zeros(13), s2 * covariance) + log_prior + 20)

    total = math.log(integrate.quad(integrand, -8, 8, epsabs=0, epsrel=1e-10, limit=200)[0]) - 20
    found = evidence.log_evidence(1, np.array([True, False]), np.zeros(1, np.int8))
    assert found == pytest.approx(total, abs=1e-8)


@BOTH
def test_a_value_depends_on_its_request_alone(kind: type[KernelEvidence]) -> None:
    """Bit for bit: one by one, in a batch, in another order, asked again, and by another object."""
    data, states = data_of([40, 10, 10, 30], d=5), states_of(3, 5)
    requests = random_requests(np.random.default_rng(6), 5, 3, 6, 50)
    order = np.random.default_rng(7).permutation(50)
    one, other = (kind(data, states, [NetworkKernel()], FIXED) for _ in range(2))
    single = np.array([one.log_evidence(*request) for request in requests])
    batch = other.log_evidences(*(part[order] for part in arrays(requests)))
    assert batch.dtype == np.float64
    assert (batch == single[order]).all()
    assert (one.log_evidences(*arrays(requests)) == single).all()
    assert other.log_evidences(*(part[:0] for part in arrays(requests))).shape == (0,)


def test_hyperparameters_are_chosen_for_all_nodes_or_each() -> None:
    """Columns of little and of much noise given their parent get small and large ratios; a root follows the most."""
    rng = np.random.default_rng(8)
    cause = rng.normal(size=(4, 120))
    little = [np.sin(2 * cause[i]) + 0.05 * rng.normal(size=120) for i in (0, 1)]
    x = np.stack([*cause, *little, np.sin(2 * cause[0]) + rng.normal(size=120)], axis=1)
    data = ContextData(x, np.zeros(120, int), tuple("abcdefg"), (), "obs").standardized()
    kernels = [Constant(1.0) + RBF(0.7), Constant(1.0) + RBF(3.0)]
    graph = np.zeros((7, 7), np.int8)
    graph[[0, 1, 0], [4, 5, 6]] = 1
    open_ = [
        DenseEvidence(data, states_of(0, 7), kernels, NoisePrior(), per_node=per_node) for per_node in (False, True)
    ]
    one, each = (evidence.fit_hyperparameters(graph, np.zeros((0, 7), np.int8)).groups for evidence in open_)
    assert not any(evidence.is_fitted for evidence in open_) and set(open_[0].groups) == {Group(kernels[1], 0.01)}
    assert open_[0].fit_hyperparameters(0 * graph, np.zeros((0, 7), np.int8)).groups == open_[0].groups
    for group in (*one, each[4], each[5]):
        assert group.ratio <= 0.03 and group.kernel == kernels[0]
    assert each[6].ratio >= 0.3
    assert set(each[:4]) == set(one)


def values_of(drawn: dict[str, Labelled]) -> dict[str, np.ndarray]:
    return {name: np.asarray(item.values) for name, item in drawn.items()}


@BOTH
@pytest.mark.parametrize("noise", NOISES, ids=["fixed", "inferred"])
@pytest.mark.parametrize("kernel", KERNELS, ids=ids)
def test_drawn_functions_follow_the_posterior(
    kernel: AbstractKernel, noise: NoisePrior, kind: type[KernelEvidence]
) -> None:
    """A shift, a scale and a hard effect on node 2 of 0, 1 -> 2 with the default 100 units, 1000 draws.

    Root mean squares over the rows: the mean of f agrees with that of the Gaussian process within .1 (a third of the
    noise), its standard deviation within 15 %: the error of 100 units, that of 1000 draws is a tenth of it. The mean of
    s² agrees within 5 standard errors and 5 %, that of the shift within 5 standard errors and .1.
    """
    data, states = data_of([60, 20, 20, 20], d=3), states_of(3, 3)
    evidence = kind(data, states, [kernel], noise)
    graph, state = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], np.int8), np.array([1, 2, 3], np.int8)
    graphs = np.repeat(graph[None], 1000, axis=0)
    columns = np.zeros((1000, 3, 3), np.int8)
    columns[:, :, 2] = state
    draws = values_of(evidence.draw_parameters(np.random.default_rng(0), graphs, columns))
    functions = Functions.of(draws, draws)
    x, ratio = data.x, noise.choices[0]
    keep, gram = data.context != 1, kernel(x[:, :2], x[:, :2])
    block = (data.context[:, None] == data.context) & (data.context == 2)
    covariance = gram + ratio * (np.diag(np.where(data.context == 3, 4.0, 1.0)) + 9.0 * block)
    gain = np.linalg.solve(covariance[np.ix_(keep, keep)], gram[keep]).T
    quad = x[keep, 2] @ np.linalg.solve(covariance[np.ix_(keep, keep)], x[keep, 2])
    s2 = (noise.scale / ratio + quad / 2) / (noise.shape + keep.sum() / 2 - 1) if noise.variance is None else 1.0
    std = np.sqrt(s2 * np.diag(gram - gain @ gram[keep]))

    f = functions.values(graphs, x, 2)
    assert np.sqrt(np.mean((f.mean(axis=0) - gain @ x[keep, 2]) ** 2)) < 0.1
    assert np.sqrt(np.mean((f.std(axis=0) - std) ** 2)) < 0.15 * np.sqrt(np.mean(std**2))
    found = draws["noise_std"][:, 2] ** 2 / ratio
    assert found.mean() == pytest.approx(s2, rel=0.05 if s2 == 1.0 else 5 * math.sqrt(2 / 98 / 1000) + 0.05)
    assert (functions.values(graphs, x, 0).std(axis=1) < 1e-6).all()  # a root has no function but its intercept
    if constant_of(kernel) == 0:
        assert (draws["output_weight"][:, 0] == 0).all() and (draws["output_bias"][:, 0] == 0).all()
    # The shift a of context 2 has prior N(0, 9 ρ s²): its posterior mean is 9 ρ 1'A⁻¹y over the rows of the context.
    weight = np.linalg.solve(covariance[np.ix_(keep, keep)], x[keep, 2])[data.context[keep] == 2]
    shift = draws["effect_shift"][:, 1, 2].astype(float)
    assert shift.mean() == pytest.approx(9 * ratio * weight.sum(), abs=5 * shift.std() / math.sqrt(1000) + 0.1)
    assert not draws["effect_shift"][:, :, :2].any() and not draws["effect_shift"][:, [0, 2]].any()
    assert draws["effect_noise_ratio"][0, :, 2].tolist() == [1, 1, 4]


@BOTH
def test_drawn_functions_have_the_ratios_that_the_rows_speak_for(kind: type[KernelEvidence]) -> None:
    """Two widths of which the rows prefer neither much, 4000 draws: the mean of the noise variance is that of both,
    each by its share, within 5 % (five standard errors are 3 %, the rest is the error of 100 units)."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(25, 2))
    x[:, 1] += 2 * np.sin(1.5 * x[:, 0])
    data, states = ContextData(x, np.zeros(25, int), ("a", "b"), (), "obs"), states_of(0, 2)
    kernel, noise = Constant(1.0) + RBF(0.7), NoisePrior(None, 1.5, 0.7, widths=(3**-0.5, 10**0.5), ratios=(1.0,))
    graphs = np.repeat(np.array([[0, 1], [0, 0]], np.int8)[None], 4000, axis=0)
    evidence, parents, none = kind(data, states, [kernel], noise), np.array([True, False]), np.zeros(0, np.int8)
    draws = values_of(evidence.draw_parameters(rng, graphs, np.zeros((4000, 0, 2), np.int8)))
    log_p, means, gram = [], [], kernel(x[:, :1], x[:, :1])
    for ratio in noise.averaged(1.0):
        one = replace(noise, widths=(1.0,), ratios=(ratio,))
        log_p.append(DenseEvidence(data, states, [kernel], one).log_evidence(1, parents, none))
        quad = x[:, 1] @ np.linalg.solve(gram + ratio * np.eye(25), x[:, 1])
        means.append((noise.scale + ratio * quad / 2) / (noise.shape + 25 / 2 - 1))
    share, found = np.exp(log_p - np.logaddexp.reduce(log_p)), np.mean(draws["noise_std"][:, 1].astype(float) ** 2)
    assert found == pytest.approx(share @ means, rel=0.05)
    assert min(abs(found / mean - 1) for mean in means) > 0.1, (share, means)


def test_draws_depend_on_the_generator_alone() -> None:
    data, states = data_of([30, 10], d=3), states_of(1, 3)
    rng = np.random.default_rng(1)
    graphs = np.triu(rng.integers(2, size=(5, 3, 3)), 1).astype(np.int8)
    columns = rng.integers(6, size=(5, 1, 3)).astype(np.int8)
    kernels = [Constant(1.0) + RBF(1.0), Constant(1.0) + RBF(2.0)]
    one, other = (
        values_of(
            DenseEvidence(data, states, kernels, NoisePrior(ratios=(0.1, 1.0))).draw_parameters(
                np.random.default_rng(2), graphs, columns
            )
        )
        for _ in range(2)
    )
    assert all((one[name] == other[name]).all() for name in one)
    assert {one[name].dtype for name in ("output_weight", "output_bias", "noise_std")} == {np.dtype("float32")}


@pytest.mark.parametrize("kernel", [NetworkKernel(), AdditiveKernel()], ids=["network", "additive"])
def test_large_posteriors_get_fewer_units_or_none(kernel: AbstractKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for 20 numbers a function: 20 units of a network; an additive kernel has 16 for each of 3 inputs."""
    monkeypatch.setattr(functions_gp, "MAX_BYTES", 4 * 20 * 5 * 3)
    evidence = DenseEvidence(data_of([30, 10], d=3), states_of(1, 3), [kernel], FIXED)
    graphs, columns = np.zeros((5, 3, 3), np.int8), np.zeros((5, 1, 3), np.int8)
    drawn = evidence.draw_parameters(np.random.default_rng(0), graphs, columns)
    if isinstance(kernel, NetworkKernel):
        assert drawn["output_weight"].values.shape == (5, 3, 20) and drawn["hidden_weight"].constant
    else:
        assert "output_weight" not in drawn and "hidden_weight" not in drawn
    assert drawn["noise_std"].values == pytest.approx(math.sqrt(0.1))


def test_senseless_choices_are_refused() -> None:
    for choice in (
        lambda: RBF(0.0),
        lambda: Constant(-1) + NetworkKernel(),
        lambda: NoisePrior(0),
        lambda: NoisePrior(None, 1, 0),
        lambda: NoisePrior(ratios=()),
        lambda: NoisePrior(widths=()),
    ):
        with pytest.raises(ConfigError):
            choice()
    with pytest.raises(ConfigError, match="one kind"):
        DenseEvidence(data_of([3], 2), states_of(0, 2), [RBF(), NetworkKernel()], FIXED)
