"""Scores of single changes from one set of sums against the plain ones; rows in place of Gram matrices."""

from dataclasses import replace

import numpy as np
import pytest

from bacadi.data.contexts import ContextData
from bacadi.evidence import gram
from bacadi.evidence.collapsed import AbstractEvidence
from bacadi.evidence.effects import effect_states
from bacadi.evidence.reading import evidence_of
from bacadi.evidence.scan import single_changes
from bacadi.model.certainty import NO_DRIFT, ContextDrift
from bacadi.model.effects import Effect, EffectMixture, HardGaussian, ScaleGaussian, ShiftGaussian, SoftGaussian
from bacadi.model.integrated import BGe
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import Mechanism
from bacadi.model.noise import FixedNoise, InferredNoise

D, M = 7, 40
DRIFT = ContextDrift((0.0, 0.4, 2.0), (0.0, 0.0, 0.0), (0.5, 0.2, 0.3))
SLOPES = ContextDrift((0.0, 0.4, 2.0), (0.7, 0.0, 0.5), (0.5, 0.2, 0.3))
MOVES = DRIFT.replace(moves=(0.7, 0.0, 0.5), bend=0.6)
MIXTURE = EffectMixture((HardGaussian(), ShiftGaussian(1.5, (1.0,)), ScaleGaussian((0.25, 4.0))))
SOFT = EffectMixture((HardGaussian(), SoftGaussian((0.8,))))

CASES: dict[str, tuple[Mechanism, Effect, ContextDrift]] = {
    "noise inferred": (LinearGaussian(InferredNoise(), 1.0, 2.0), MIXTURE, DRIFT),
    "noise known": (LinearGaussian(FixedNoise(0.7), 1.0, None), MIXTURE, DRIFT),
    "BGe": (BGe(), HardGaussian(), NO_DRIFT),
    "soft": (LinearGaussian(InferredNoise(), 1.0, 2.0), SOFT, DRIFT),
    "drawn anew": (LinearGaussian(InferredNoise(), 1.0, 2.0), SoftGaussian((), True), DRIFT),
    "slopes": (LinearGaussian(InferredNoise(), 1.0, 2.0), MIXTURE, SLOPES),
    "moves": (LinearGaussian(InferredNoise(), 1.0, 2.0), MIXTURE, MOVES),
    "bends": (LinearGaussian(InferredNoise(), 1.0, 2.0), MIXTURE, DRIFT.replace(bend=0.5)),
}


def data_of(weighed: bool, repeats: bool) -> ContextData:
    """Contexts of one to five rows; rows that count differently for every variable, a column that repeats another."""
    rng = np.random.default_rng(1)
    context = np.concatenate([np.zeros(30, int), np.repeat(np.arange(1, M + 1), 1 + np.arange(M) % 5)])
    x = rng.normal(size=(len(context), D)) @ rng.normal(size=(D, D)) + 3 * rng.normal(size=(M + 1, D))[context]
    if repeats:
        x[:, 4] = x[:, 2]
    names = tuple(f"x{j}" for j in range(D)), tuple(f"k{k}" for k in range(M))
    data = ContextData(x, context, *names, "obs")
    return replace(data, weight=rng.uniform(0.2, 1, x.shape)) if weighed else data


def evidence(name: str, data: ContextData, few: float, monkeypatch: pytest.MonkeyPatch) -> AbstractEvidence:
    mechanism, effect, drift = CASES[name]
    monkeypatch.setattr(gram, "FEW", few)
    states = effect_states(effect, data, drift)
    if drift.bend:
        states = replace(states, target_odds=np.linspace(0.05, 3.0, M * D).reshape(M, D))
    return evidence_of(mechanism, data, states)


def requests(n: int, n_states: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes, parents and states, most of which are 0."""
    rng = np.random.default_rng(2)
    nodes, parents = rng.integers(D, size=n), rng.random((n, D)) < 0.3
    parents[np.arange(n), nodes] = False
    states = np.where(rng.random((n, M)) < 0.15, rng.integers(n_states, size=(n, M)), 0).astype(np.int8)
    return nodes, parents, states


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_rows_give_the_scores_of_gram_matrices(name: str, weighed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    data = data_of(weighed, repeats=False)
    sums, rows, both = (evidence(name, data, few, monkeypatch) for few in (0.0, 10.0, 0.5))
    assert sums.tables.few.size == 0 and rows.tables.gram.size == 0
    assert both.tables.few.size > 0 and both.tables.gram.size > 0
    asked = requests(40, sums.states.n_states)
    for other in (rows, both):
        np.testing.assert_allclose(other.log_evidences(*asked), sums.log_evidences(*asked), rtol=1e-9)
        found, expected = (
            each.draw_parameters(np.random.default_rng(0), asked[1][None, :D].astype(np.int8), asked[2][:D].T[None])
            for each in (other, sums)
        )
        for key, (values, _) in expected.items():
            np.testing.assert_allclose(found[key].values, values, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("few", [0.0, 10.0])
@pytest.mark.parametrize("data", [(False, False), (True, False), (False, True)], ids=["plain", "weighed", "repeats"])
@pytest.mark.parametrize("name", CASES)
def test_single_changes_are_those_of_the_plain_scores(
    name: str, data: tuple[bool, bool], few: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = evidence(name, data_of(*data), few, monkeypatch)
    nodes, *rest = requests(6, of.states.n_states)
    for node, parents, state in zip(nodes.tolist(), *rest, strict=True):
        toggled, of_state = np.empty((1, D)), np.empty((1, M, of.states.n_states))
        single_changes(of.tables, node, parents[None], state[None], toggled, of_state)
        now = of.log_evidence(node, parents, state)
        for i in range(D):
            other = parents.copy()
            other[i] ^= i != node
            expected = of.log_evidence(node, other, state) - now
            np.testing.assert_allclose(toggled[0, i], expected, atol=1e-6)
        for k in range(0, M, 7):
            for s in range(of.states.n_states):
                column = state.copy()
                column[k] = s
                expected = of.log_evidence(node, parents, column) - now
                np.testing.assert_allclose(of_state[0, k, s], expected, atol=1e-6)
