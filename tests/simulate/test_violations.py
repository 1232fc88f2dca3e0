"""Violations break what they say and nothing else; false-alarm rates of the statistical tests are below 1e-4."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kurtosis

from bacadi.errors import ConfigError
from bacadi.simulate import Interventions, SyntheticSpec, Task, simulate
from bacadi.simulate.expression import GeneExpressionSpec
from bacadi.simulate.violations import (
    AbstractViolation,
    Autocorrelated,
    ContextShifts,
    Exponentiated,
    HeavyTails,
    HiddenCause,
    MeasurementNoise,
    MissingCells,
    ZeroedCells,
    drawn_again,
)

CLEAN = SyntheticSpec(6, n_observational=4000, interventions=Interventions(rows_per_context=200))


def broken(violation: AbstractViolation) -> tuple[Task, Task]:
    return simulate(CLEAN, 3), simulate(replace(CLEAN, violation=violation), 3)


def noise_of(task: Task) -> np.ndarray:
    """Residuals of the true mechanisms, in units of their noise."""
    mean, std = task.network.conditional(task.data.x, task.data.context, task.effects)  # type: ignore[union-attr]
    return (task.data.x - mean) / std


@pytest.mark.parametrize("violation", [cls() for cls in AbstractViolation.__subclasses__()], ids=repr)
def test_truth_and_held_out_rows_stay(violation: AbstractViolation) -> None:
    clean, task = broken(violation)
    np.testing.assert_array_equal(task.graph, clean.graph)
    np.testing.assert_array_equal(task.targets, clean.targets)
    np.testing.assert_array_equal(task.held_out.x, clean.held_out.x)
    np.testing.assert_array_equal(task.data.context, clean.data.context)
    assert not np.array_equal(task.data.x, clean.data.x)
    np.testing.assert_array_equal(simulate(replace(CLEAN, violation=violation), 3).data.x, task.data.x)


def test_cells_go_by_their_share_and_the_others_stay() -> None:
    for violation, is_gone in ((ZeroedCells(), lambda x: x == 0), (MissingCells(0.1), np.isnan)):
        clean, task = broken(violation)
        gone = is_gone(task.data.x)
        assert abs(gone.mean() - violation.share) < 5 * 0.5 / gone.size**0.5
        np.testing.assert_array_equal(task.data.x[~gone], clean.data.x[~gone])


def test_noise_is_heavy_or_depends_on_the_row_before_with_the_same_variance() -> None:
    _, heavy = broken(HeavyTails(5.0))
    assert kurtosis(noise_of(heavy).ravel()) > 1.5 and abs(noise_of(heavy).std() - 1) < 0.05
    _, slow = broken(Autocorrelated())
    noise, same = noise_of(slow), np.diff(slow.data.context) == 0
    lag = (noise[1:] * noise[:-1])[same].mean()
    assert abs(lag - 0.9) < 0.1 and abs(noise.std() - 1) < 0.1


def test_contexts_shift_where_nothing_is_cut_off() -> None:
    clean, task = broken(ContextShifts(2.0))
    noise, context = noise_of(task), task.data.context
    means = np.array([noise[context == k].mean(axis=0) for k in range(task.data.n_contexts + 1)])
    cut = np.vstack([np.zeros((1, 6)), clean.targets]) != 0
    assert abs(means[cut]).max() < 0.4 and 1.2 < means[~cut].std() < 3.0


def test_measurement_noise_and_a_hidden_cause() -> None:
    clean, task = broken(MeasurementNoise(0.5))
    control = clean.data.context == 0
    added = (task.data.x - clean.data.x)[control]
    np.testing.assert_allclose(added.var(axis=0) / clean.data.x[control].var(axis=0), 0.5, rtol=0.15)
    _, hidden = broken(HiddenCause(3))
    correlation = np.corrcoef(noise_of(hidden)[control].T) - np.eye(6)
    assert (abs(correlation) > 0.1).sum() == 6


def test_exponentiated_columns_are_positive_and_in_the_same_order() -> None:
    clean, task = broken(Exponentiated())
    assert (task.data.x > 0).all()
    np.testing.assert_array_equal(np.argsort(task.data.x, axis=0), np.argsort(clean.data.x, axis=0))


def test_the_same_noise_gives_the_same_rows_and_other_networks_are_refused() -> None:
    clean = simulate(CLEAN, 3)
    np.testing.assert_allclose(drawn_again(clean, noise_of(clean)), clean.data.x, atol=1e-9)
    with pytest.raises(ConfigError, match="Gaussian noise"):
        drawn_again(simulate(GeneExpressionSpec(), 0), np.zeros((1, 1)))
