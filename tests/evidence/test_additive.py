"""Evidence of additive mechanisms against the plain N x N covariance, and the functions that are drawn from it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_t

from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError, NoClosedForm
from bacadi.evidence.collapsed import EffectKind, EffectStates
from bacadi.evidence.gp.evidence import AdditiveEvidence, DenseEvidence
from bacadi.evidence.gp.factor import NoisePrior
from bacadi.evidence.gram import reach
from bacadi.evidence.reading import collapse
from bacadi.inference.exact.method import Exact
from bacadi.inference.fit import fit
from bacadi.inference.mcmc.method import MCMC
from bacadi.model.certainty import MOVES, NO_COARSENING, SLOPES, ContextDrift
from bacadi.model.effects import HardGaussian
from bacadi.model.integrated import AdditiveProcess, GaussianProcess, curves
from bacadi.model.kernels import RBF, AdditiveKernel, Constant, Functions, LinearKernel, NetworkKernel
from bacadi.model.model import Model

KERNEL = curves(1.0, 1.0)
NOISE = NoisePrior(None, 1.0, 0.5, ratios=(0.3,))


def data_of(counts: list[int], d: int = 4, seed: int = 0) -> ContextData:
    """Every variable a curve of the one before; each context but the control has moved the first."""
    rng = np.random.default_rng(seed)
    context = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    x = rng.normal(size=(len(context), d))
    x[:, 0] += 2.0 * context
    for j in range(1, d):
        x[:, j] = 2 * np.tanh(x[:, j - 1]) + 0.5 * x[:, j]
    names = tuple(f"x{j}" for j in range(d))
    return ContextData(x, context, names, tuple(f"c{k}" for k in range(1, len(counts))), "obs")


def states_of(data: ContextData, drift: ContextDrift | None = None) -> EffectStates:
    kind = np.array([EffectKind.NONE, EffectKind.HARD, EffectKind.SHIFT, EffectKind.SOFT], np.int8)
    hard = np.random.default_rng(5).normal(size=(data.n_contexts, data.n_variables))
    value = np.array([0.0, 0.0, 3.0, 0.0])
    states = EffectStates(("none", "hard", "shift", "soft"), kind, value, np.zeros(4), hard)
    return states if drift is None else replace(states, drift=drift)


def requests(d: int, m: int, n_states: int, size: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    nodes, parents = rng.integers(d, size=size), rng.random((size, d)) < 0.5
    parents[np.arange(size), nodes] = False
    states = rng.integers(n_states, size=(size, m)) * (rng.random((size, m)) < 0.5)
    return nodes, parents, states.astype(np.int8)


def test_features_say_what_the_covariance_says() -> None:
    """At most six features per variable: within .1 nats of the process itself, most much nearer."""
    data = data_of([60, 20, 20])
    states = states_of(data)
    asked = requests(4, 2, 4)
    plain = DenseEvidence(data, states, [KERNEL], NOISE).log_evidences(*asked)
    found = AdditiveEvidence(data, states, [KERNEL], NOISE).log_evidences(*asked)
    assert np.abs(found - plain).max() < 0.1 and np.median(np.abs(found - plain)) < 0.005


def test_mechanisms_that_move_with_their_parents_agree_with_the_whole_covariance() -> None:
    """Drift and moves are shifts of every context, averaged over the drifts, in any parent set."""
    data = data_of([60, 20, 20])
    drift = MOVES.replace(bend=0.0)
    states = states_of(data, drift)
    evidence, far = AdditiveEvidence(data, states, [KERNEL], NOISE), reach(data, np.array([60.0, 20.0, 20.0]))
    for node, parents, state in zip(*requests(4, 2, 2, 20), strict=True):
        keep, hard = np.ones(data.n_rows, bool), 0.0
        for k in np.flatnonzero(state):
            keep[data.context == k + 1], hard = False, hard + states.hard_log_evidence[k, node]
        x = data.x[:, parents]
        log_p = []
        for std, move, share in zip(drift.stds, drift.context_moves, drift.probabilities, strict=True):
            covariance = np.array(KERNEL(x, x)) + NOISE.ratios[0] * np.eye(data.n_rows)
            for k in range(2):
                own = (data.context == k + 1).astype(float)
                covariance += NOISE.ratios[0] * (std**2 + move**2 * (far[k] @ parents)) * np.outer(own, own)
            covariance *= NOISE.scale / NOISE.ratios[0] / NOISE.shape
            y, among = data.x[keep, node], covariance[np.ix_(keep, keep)]
            log_p.append(np.log(share) + multivariate_t.logpdf(y, np.zeros(len(y)), among, df=2 * NOISE.shape))
        assert evidence.log_evidence(int(node), parents, state) == pytest.approx(hard + logsumexp(log_p), abs=0.1)


def test_functions_are_those_of_the_data() -> None:
    data = data_of([300, 40], d=2)
    evidence = AdditiveEvidence(data, states_of(data, MOVES), [KERNEL], NOISE)
    graphs = np.repeat([[[0, 1], [0, 0]]], 50, axis=0).astype(np.int8)
    drawn = evidence.draw_parameters(np.random.default_rng(0), graphs, np.zeros((50, 1, 2), np.int8))
    values = {name: labelled.values for name, labelled in drawn.items()}
    functions = Functions.of(values, {name: values[name] for name in ("output_weight", "output_bias", "linear_weight")})
    x = np.column_stack([np.linspace(-1.5, 1.5, 9), np.zeros(9)])
    found = functions.values(graphs, x, 1)
    assert np.abs(found.mean(axis=0) - 2 * np.tanh(x[:, 0])).max() < 0.2
    assert values["noise_std"][:, 1].mean() == pytest.approx(0.5, abs=0.07)


@pytest.mark.parametrize("drift", [None, MOVES], ids=["drift", "moves"])
def test_sampling_agrees_with_sums_over_all_graphs(drift: ContextDrift | None) -> None:
    """Three variables, few rows, so that much is in doubt; the largest of 12 errors is below .05 but for one in 10^3
    (1,000 draws, of which a quarter are independent)."""
    data = data_of([12, 3, 3], d=3, seed=3)
    mechanism = AdditiveProcess(kernels=(KERNEL,), ratios=(0.3,))
    model = Model(mechanism=mechanism, effect=HardGaussian(), drift=drift, coarsening=NO_COARSENING)
    exact, sampled = (fit(data, model, method, seed=1) for method in (Exact(n_draws=2000), MCMC(n_sweeps=1500)))
    for of in ("edge_probabilities", "target_probabilities"):
        assert np.abs(getattr(exact, of)() - getattr(sampled, of)()).max() < 0.06


def test_curves_tell_what_lines_cannot() -> None:
    data = data_of([200, 40, 40])
    known = collapse(Model(mechanism=AdditiveProcess((KERNEL,), (0.3,)), effect=HardGaussian()), data)
    lines = collapse(Model(mechanism=AdditiveProcess((KERNEL,), (0.3,)).straight(), effect=HardGaussian()), data)
    parents, state = np.array([True, False, False, False]), np.zeros(2, np.int8)
    assert known.evidence.log_evidence(1, parents, state) > lines.evidence.log_evidence(1, parents, state) + 50


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ConfigError, match="additive parts alone"):
        AdditiveProcess(kernels=(Constant(1.0) + RBF(),))
    with pytest.raises(ConfigError, match="rbf or network"):
        AdditiveKernel(LinearKernel())
    with pytest.raises(NoClosedForm, match="Slopes"):
        collapse(Model(mechanism=AdditiveProcess(), drift=SLOPES), data_of([9, 9]))


def test_a_sum_over_parents_is_the_sum_of_its_parts() -> None:
    x, kernel = np.random.default_rng(0).normal(size=(5, 3)), NetworkKernel(input_scale=0.5)
    apart = sum(kernel(x[:, i : i + 1], x[:, i : i + 1]) for i in range(3))
    np.testing.assert_allclose(AdditiveKernel(kernel)(x, x), apart)
    np.testing.assert_allclose(AdditiveKernel(kernel).diagonal(x), np.diag(apart))
    assert (AdditiveKernel(kernel)(x[:, :0], x[:, :0]) == 0).all()


def test_the_process_that_it_stands_for_is_offered_as_such() -> None:
    """`GaussianProcess` with the same kernels is the reference: the same model by its covariance."""
    data = data_of([30, 10])
    model = Model(
        mechanism=AdditiveProcess((KERNEL,), (0.3,)), effect=HardGaussian(), drift=ContextDrift((0.0,), (0.0,), (1.0,))
    )
    other = model.replace(mechanism=GaussianProcess((KERNEL,)))
    evidence = collapse(other, data).evidence
    at = [option.ratio for option in evidence.options].index(0.3)
    evidence = evidence.with_hyperparameters(np.full(4, at))
    parents, state = np.array([True, False, True, False]), np.array([0], np.int8)
    one = collapse(model.replace(coarsening=NO_COARSENING), data).evidence.log_evidence(1, parents, state)
    assert one == pytest.approx(evidence.log_evidence(1, parents, state), abs=0.05)
