"""Parameters of SVGD are in the units of the data: other units of the columns give the same fit in other units."""

from dataclasses import replace

import numpy as np
import pytest

from bacadi.inference.fit import fit
from bacadi.inference.svgd.estimators import LimitGraphs, RelaxedEstimator
from bacadi.inference.svgd.method import SVGD
from bacadi.model.effects import HardGaussian, SoftGaussian
from bacadi.model.linear import LinearGaussian
from bacadi.model.model import Model
from bacadi.model.neural import NeuralGaussian
from bacadi.model.noise import FixedNoise
from bacadi.posterior.posterior import Posterior

from ...small import small_data

# α starts above 0 and weights are those of the point, so that a few steps move the particles and no draw is random.
METHOD = SVGD(
    n_particles=3, n_steps=4, estimator=RelaxedEstimator(4), reader=LimitGraphs(), collapsed=False, double=True
)
DATA = small_data((6, 4, 5))
SCALE, SHIFT = np.array([10.0, 0.2, 3.0]), np.array([-4.0, 0.0, 7.0])
FIXED = Model(LinearGaussian(FixedNoise(0.5), 2.0, None), HardGaussian(FixedNoise(0.7)))


def in_other_units(model: Model, shift: np.ndarray) -> tuple[Posterior, Posterior]:
    """Fits to the data and to shift + SCALE · data."""
    return fit(DATA, model, METHOD, seed=3), fit(replace(DATA, x=shift + SCALE * DATA.x), model, METHOD, seed=3)


def values(posterior: Posterior, name: str) -> np.ndarray:
    return np.asarray(posterior.parameters[name].values[0])


def close(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("model", [Model(), FIXED], ids=["noise inferred", "noise fixed"])
@pytest.mark.parametrize("shift", [np.zeros(3), SHIFT], ids=["scaled", "scaled and shifted"])
def test_linear_parameters_follow_the_units_of_the_columns(model: Model, shift: np.ndarray) -> None:
    one, other = in_other_units(model, shift)
    np.testing.assert_array_equal(other.graph, one.graph)
    np.testing.assert_allclose(other.log_weight, one.log_weight, atol=1e-6)
    weight, ratio = values(one, "weight"), SCALE[None, :] / SCALE[:, None]
    close(values(other, "weight"), weight * ratio)
    # x'_j = shift_j + scale_j x_j has the intercept of x_j in new units, less what parents add by their own shift.
    moved = np.einsum("lij,lij,i->lj", one.graph[0], weight * ratio, shift)
    close(values(other, "intercept"), shift + SCALE * values(one, "intercept") - moved)
    close(values(other, "noise_std"), SCALE * values(one, "noise_std"))
    close(values(other, "effect_mean"), shift + SCALE * values(one, "effect_mean"))
    close(values(other, "effect_noise_std"), SCALE * values(one, "effect_noise_std"))
    close(other.constant_data["unit_scale"].values, SCALE * one.constant_data["unit_scale"].values)


def test_a_known_noise_is_reported_in_the_units_of_the_data() -> None:
    posterior = fit(DATA, FIXED, METHOD)
    scale = posterior.constant_data["unit_scale"].values
    close(values(posterior, "noise_std"), np.broadcast_to(0.5 * scale, (3, 3)))
    close(values(posterior, "effect_noise_std"), np.broadcast_to(0.7 * scale, (3, 2, 3)))
    raw = fit(DATA, FIXED.replace(standardize_within=False), METHOD)
    assert not {"noise_std", "effect_noise_std", "intercept"} & set(raw.parameters)


def test_soft_effects_follow_the_units_of_the_columns() -> None:
    one, other = in_other_units(Model(effect=SoftGaussian()), np.zeros(3))
    close(values(other, "effect_weight"), values(one, "effect_weight") * SCALE[None, :] / SCALE[:, None])
    close(values(other, "effect_intercept"), values(one, "effect_intercept") * SCALE)
    close(values(other, "effect_noise_std"), values(one, "effect_noise_std") * SCALE)


def test_networks_follow_the_units_of_the_columns() -> None:
    """The function of the parents is the same: f'(shift + scale · x) = shift + scale · f(x) for every particle."""
    mechanism = NeuralGaussian(hidden=(2,))
    one, other = in_other_units(Model(mechanism=mechanism), SHIFT)
    x = np.random.default_rng(0).normal(size=(5, 3))
    for draw, graph in enumerate(one.graph[0]):
        theta, moved = (
            mechanism.theta_of({name: np.asarray(part.values[0, draw]) for name, part in p.parameters.items()}, 3)
            for p in (one, other)
        )
        close(mechanism.mean(moved, graph, SHIFT + SCALE * x), SHIFT + SCALE * mechanism.mean(theta, graph, x))
        close(moved.log_noise_std, theta.log_noise_std + np.log(SCALE))
