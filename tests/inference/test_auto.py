"""What is left open is chosen by the data: noise of contexts, effects that go one way, how many rows count.

Each test is of data on which the choice is beyond doubt; a choice that is not asked for has to stay away.
"""

from dataclasses import replace

import numpy as np
import pytest

from bacadi.data.contexts import ContextData
from bacadi.inference.auto import EVERYWHERE, LIKELIER, MOVED, UNKNOWN, UNSEEN, Chosen, chosen_model
from bacadi.inference.fit import _problem
from bacadi.model.certainty import Coarsening
from bacadi.model.effects import HardGaussian
from bacadi.model.integrated import AdditiveProcess, AutoMechanism
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import Mechanism
from bacadi.model.model import Model
from bacadi.simulate import Interventions, SyntheticSpec, Task, simulate
from bacadi.simulate.synthetic import HardAt, LinearTruth, NeuralTruth
from bacadi.simulate.violations import MeasurementNoise, drawn_again


def chosen(data: ContextData, known: np.ndarray | None = None, mechanism: Mechanism | None = None) -> Chosen:
    return chosen_model(_problem(data, Model(mechanism=mechanism or LinearGaussian()), None, known, 0))


def task(seed: int, rows: int = 4, mean: float | None = None) -> Task:
    effect = {} if mean is None else {"effect": HardAt(mean, 0.1)}
    return simulate(
        SyntheticSpec(8, n_observational=40, interventions=Interventions(rows_per_context=rows, **effect)), seed
    )


@pytest.mark.parametrize("ratio", [1.0, 0.1])
def test_contexts_of_less_noise_than_the_control_are_seen(ratio: float) -> None:
    truth = task(1)
    scale = np.where(truth.data.context > 0, ratio**0.5, 1.0)[:, None]
    x = drawn_again(truth, scale * np.random.default_rng(2).normal(size=truth.data.x.shape))
    found = chosen(replace(truth.data, x=x))
    gain = found.slopes["noise of contexts"] - found.slopes["same"]
    assert (gain > LIKELIER) == (ratio < 1)
    assert (found.model.drift is not None and found.model.drift.ratios is not None) == (ratio < 1)
    assert any("noise of contexts" in line for line in found.words()) == (ratio < 1)


@pytest.mark.parametrize(("mean", "way"), [(-2.0, -1), (2.0, 1), (None, 0)])
def test_effects_that_all_go_one_way_are_seen(mean: float | None, way: int) -> None:
    found = chosen(task(3, 2, mean).data)
    effect = found.model.effect
    assert np.sign(getattr(effect, "mean_prior_mean", 0.0)) == way
    assert any("nearly all" in line for line in found.words()) == (way != 0)
    assert (found.one_way > LIKELIER) == (way != 0)


@pytest.mark.parametrize("noisy", [False, True])
def test_rows_count_as_fewer_where_the_model_is_seen_to_be_off(noisy: bool) -> None:
    spec = SyntheticSpec(8, n_observational=400, interventions=Interventions(rows_per_context=80))
    found = chosen(simulate(replace(spec, violation=MeasurementNoise() if noisy else None), 5).data)
    assert (found.model.coarsening is not None) == noisy
    if found.model.coarsening is not None:
        gain = max(found.slopes[which] - found.slopes["same"] for which in (MOVED, EVERYWHERE))
        off = UNSEEN * found.networks if found.networks > gain else UNKNOWN * gain
        assert found.model.coarsening == Coarsening(limit=8 * (400 + 8 * 80) / off)
        assert any("count as at most" in line for line in found.words())


def test_known_targets_have_no_way_to_go() -> None:
    truth = task(3, 2, -2.0)
    found = chosen(truth.data, truth.targets.astype(float))
    assert np.isnan(found.one_way) and "ways" not in found.attrs()["chosen"]["nats"]
    assert not isinstance(found.model.effect, HardGaussian) or found.model.effect.mean_prior_mean == 0


def test_networks_are_advised_where_lines_do_not_do() -> None:
    """Sigmoid units bend lines; measurement noise does so as well, and less than mechanisms that change explain."""
    contexts = Interventions(n_contexts=10, rows_per_context=80)
    curved = SyntheticSpec(10, mechanism=NeuralTruth(), n_observational=400, interventions=contexts)
    found = chosen(simulate(curved, 2).data)
    assert found.advises_networks and any("--model nonlinear" in line for line in found.words())
    straight = replace(curved, mechanism=LinearTruth(), violation=MeasurementNoise())
    noisy = chosen(simulate(straight, 3).data)
    assert not noisy.advises_networks and not any("--model nonlinear" in line for line in noisy.words())


def test_knock_outs_to_a_constant_are_hard() -> None:
    """What a knock-out leaves has no noise; that must not speak for the kind of the smallest prior scale."""
    contexts = Interventions(rows_per_context=10, effect=HardAt(-2.0, 1e-6))
    found = chosen(simulate(SyntheticSpec(8, n_observational=100, interventions=contexts), 4).data)
    assert isinstance(found.model.effect, HardGaussian) and found.effects["hard"] > found.effects["soft"]


def chain_of_curves(seed: int) -> ContextData:
    """Eight variables, each two thirds of a sine of the one before; every context sets one of them."""
    rng = np.random.default_rng(seed)
    context = np.repeat(np.arange(9), [400, *[40] * 8])
    x = 0.3 * rng.normal(size=(len(context), 8))
    for j in range(8):
        x[:, j] += rng.normal(size=len(x)) if j == 0 else 2 * np.sin(1.5 * x[:, j - 1])
        x[context == j + 1, j] = 1.5 + 0.3 * rng.normal(size=40)
    names, contexts = tuple(f"x{j}" for j in range(8)), tuple(f"c{k}" for k in range(8))
    return ContextData(x, context, names, contexts, "obs")


@pytest.mark.parametrize("kind", ["lines", "curves", "noisy parents"])
def test_mechanisms_that_are_left_open_are_lines_unless_shape_is_what_they_lack(kind: str) -> None:
    """Noise in the parents bends what is seen of a line, which curves would explain, and is no reason for them."""
    contexts = Interventions(n_contexts=10, rows_per_context=80)
    noise = MeasurementNoise() if kind == "noisy parents" else None
    spec = SyntheticSpec(10, n_observational=400, interventions=contexts, violation=noise)
    data = chain_of_curves(2) if kind == "curves" else simulate(spec, 2).data
    found = chosen(data, mechanism=AutoMechanism())
    assert isinstance(found.model.mechanism, AdditiveProcess) == (kind == "curves")
    assert any("a curve for each" in line for line in found.words()) == (kind == "curves")
    assert found.attrs()["chosen"]["nats"]["mechanisms"]["curves"] == found.curves
    if kind == "lines":
        assert found.model.mechanism == AutoMechanism.lines and found.model == chosen(data).model


def test_weak_causes_have_a_prior_of_their_own() -> None:
    """Weights of a third of the noise, one in three pairs joined: the usual prior takes most of them for unlikely."""
    rng = np.random.default_rng(0)
    weight = np.triu(rng.random((12, 12)) < 0.3, 1) * rng.choice([-0.35, 0.35], size=(12, 12))
    context = np.repeat(np.arange(3), [400, 40, 40])
    x = np.zeros((len(context), 12))
    for j in range(12):
        x[:, j] = x @ weight[:, j] + rng.normal(size=len(x))
        x[context == 1 + j % 2, j] += 6.0 * (j < 2)
    names = tuple(f"x{j}" for j in range(12))
    found = chosen(ContextData(x, context, names, ("a", "b"), "obs"), mechanism=AutoMechanism())
    assert found.model.mechanism == AutoMechanism.weak and any("causes are weak" in line for line in found.words())
