"""Normalised weights from unnormalised log posteriors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bacadi.errors import ConfigError, InferenceError
from bacadi.posterior import weights

LOG_P = arrays(np.float64, st.integers(1, 12), elements=st.floats(-1e4, 1e4))


@given(LOG_P, st.floats(0.1, 1e6))
def test_every_rule_gives_weights_that_add_to_one_and_ignores_a_constant(log_p, temperature):
    rules = [weights.posterior, weights.uniform, weights.tempered, lambda p: weights.tempered(p, temperature)]
    for rule in rules:
        assert np.exp(rule(log_p)).sum() == pytest.approx(1)
        np.testing.assert_allclose(np.exp(rule(log_p + 7.0)), np.exp(rule(log_p)), atol=1e-6)


@given(LOG_P)
def test_temperature_one_is_the_posterior_and_infinity_is_uniform(log_p):
    np.testing.assert_array_equal(weights.tempered(log_p, 1.0), weights.posterior(log_p))
    np.testing.assert_array_equal(weights.tempered(log_p, np.inf), weights.uniform(log_p))


@given(LOG_P, st.floats(0.1, 0.9))
def test_picked_temperature_is_the_smallest_that_keeps_the_fraction(log_p, fraction):
    temperature = weights.pick_temperature(log_p, fraction)
    wanted = fraction * len(log_p)
    assert weights.effective_sample_size(weights.tempered(log_p, temperature)) >= wanted - 1e-9
    if temperature > 1:
        cooler = max(1.0, temperature * 0.99)
        assert weights.effective_sample_size(weights.tempered(log_p, cooler)) < wanted + 1e-9


@given(LOG_P)
def test_effective_sample_size_lies_between_one_and_the_number_of_draws(log_p):
    assert 1 - 1e-9 <= weights.effective_sample_size(weights.posterior(log_p)) <= len(log_p) + 1e-9


def test_left_out_draws_stay_out():
    log_p = np.array([[0.0, -np.inf], [-3.0, -1000.0]])
    for rule in (weights.posterior, weights.uniform, weights.tempered):
        assert rule(log_p)[0, 1] == -np.inf
        assert rule(log_p).shape == (2, 2)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_log_posterior_that_is_no_number_is_refused_with_its_draw(bad):
    with pytest.raises(InferenceError, match="draw 1"):
        weights.posterior(np.array([0.0, bad]))


def test_impossible_requests_are_refused():
    with pytest.raises(InferenceError, match="None of the 2 draws"):
        weights.uniform(np.array([-np.inf, -np.inf]))
    with pytest.raises(ConfigError, match="temperature"):
        weights.tempered(np.zeros(2), 0.0)
    with pytest.raises(ConfigError, match="fraction"):
        weights.pick_temperature(np.zeros(2), 1.0)
