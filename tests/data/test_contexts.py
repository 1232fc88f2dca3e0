"""`Scaling` is a group of affine maps; `ContextData` splits, centres and prints its rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bacadi.data.contexts import ContextData, Scaling, mean_shift_z
from bacadi.errors import DataError

RNG = np.random.default_rng(0)


def scalings() -> st.SearchStrategy[Scaling]:
    numbers = st.lists(st.floats(-10, 10), min_size=3, max_size=3).map(np.array)
    return st.builds(lambda shift, log_scale: Scaling(shift, np.exp(log_scale / 5)), numbers, numbers)


def assert_same(first: Scaling, second: Scaling) -> None:
    np.testing.assert_allclose(first.shift, second.shift, atol=1e-9)
    np.testing.assert_allclose(first.scale, second.scale, rtol=1e-9)


@given(scalings(), scalings())
def test_scalings_compose_and_invert(first: Scaling, second: Scaling) -> None:
    x = RNG.normal(size=(4, 3))
    np.testing.assert_allclose(first.compose(second).apply(x), second.apply(first.apply(x)), atol=1e-9)
    np.testing.assert_allclose(first.inverse().apply(x), first.invert(x), atol=1e-9)
    assert_same(first.compose(first.inverse()), Scaling.identity(3))
    assert_same(second.compose(first.relative_to(second)), first)


@given(scalings())
def test_weights_in_original_units_predict_the_same(scaling: Scaling) -> None:
    x, weights = RNG.normal(size=(5, 3)), np.triu(RNG.normal(size=(3, 3)), 1)
    slopes = scaling.invert(x @ weights) - scaling.shift  # predictions of scaled values from scaled parents
    np.testing.assert_allclose((x * scaling.scale) @ scaling.weights(weights), slopes, atol=1e-9)
    assert scaling.weights(weights.astype(np.float32)).dtype == np.float32


def contexts() -> ContextData:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(size=(5, 2)), rng.normal([10.0, 0.0], size=(3, 2))])
    return ContextData(x, np.array([0] * 5 + [2] * 3), ("a", "b"), ("empty", "ko"), "wt")


def test_residuals_have_mean_zero_in_every_context_and_keep_differences() -> None:
    data = contexts()
    residual = data.residuals_within()
    for own, rows in zip(data.by_context(residual), data.by_context(), strict=True):
        np.testing.assert_allclose(own.sum(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(np.diff(own, axis=0), np.diff(rows, axis=0), atol=1e-12)


def test_standardised_within_contexts() -> None:
    data = contexts().standardized_within()
    np.testing.assert_allclose(data.x[data.context == 0].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(data.residuals_within().std(axis=0), 1)
    x = np.array([[1.0, 0.0], [1.0, 2.0], [3.0, 1.0], [3.0, 4.0]])
    decided = ContextData(x, np.array([0, 0, 1, 1]), ("a", "b"), ("ko",), "wt")
    np.testing.assert_allclose(decided.standardized_within().scaling.scale[0], 1)  # varies between contexts only
    with pytest.raises(DataError, match="Column 'a' is constant"):
        ContextData(np.ones((2, 1)), np.zeros(2, dtype=int), ("a",), ()).standardized_within()


def test_z_scores_are_those_of_the_context_means() -> None:
    data = contexts()
    z, (observational, _, ko) = mean_shift_z(data), data.by_context()
    error = np.sqrt(observational.var(axis=0) / 5 + ko.var(axis=0) / 3)
    np.testing.assert_allclose(z[1], abs(ko.mean(axis=0) - observational.mean(axis=0)) / error)
    assert not z[0].any() and z[1, 0] > 4


def test_data_print_what_they_are_and_not_their_numbers() -> None:
    assert repr(contexts()) == "ContextData(8 rows, 2 variables; wt (observational): 5, empty: 0, ko: 3)"
    many = ContextData(np.zeros((20, 1)), np.arange(1, 21), ("a",), tuple(f"c{{{k}}}" for k in range(20)))
    assert "c{0}: 1" in repr(many) and "and 12 more" in repr(many) and len(repr(many)) < 200
    assert repr(Scaling.identity(3)) == "Scaling(3 variables, identity)"
