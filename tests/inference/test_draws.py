"""Draws kept by their entries: back as matrices, through a checkpoint, judged as whole arrays are."""

import numpy as np
import pytest

from bacadi.inference.mcmc import draws as kept
from bacadi.inference.mcmc.diagnostics import diagnose
from bacadi.inference.mcmc.draws import ChainDraws, from_arrays, packed, to_arrays

R, N, M, D = 2, 40, 3, 5


def some_draws(seed: int = 0) -> tuple[ChainDraws, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    graphs = np.triu(rng.random((R, N, D, D)) < 0.3, 1).astype(np.int8)
    states = np.where(rng.random((R, N, M, D)) < 0.4, rng.integers(3, size=(R, N, M, D)), 0).astype(np.int8)
    states[0, 0] = graphs[1, 3] = 0
    log_p = rng.normal(size=(R, N))
    draws = [[packed(graphs[r, n], states[r, n], float(log_p[r, n])) for n in range(N)] for r in range(R)]
    return ChainDraws(draws, (M, D), np.full((R, 2), 0.5), np.zeros((R, 8)), N, N, N), graphs, states


def test_they_are_what_they_were_and_pass_through_a_checkpoint() -> None:
    draws, graphs, states = some_draws()
    again = draws._replace(draws=[from_arrays(to_arrays(of)) for of in draws.draws])
    for each in (draws, again):
        np.testing.assert_array_equal(each.graphs, graphs)
        np.testing.assert_array_equal(each.states, states)
    np.testing.assert_array_equal(again.log_posterior, draws.log_posterior)
    assert from_arrays(to_arrays([])) == []


def test_diagnostics_are_those_of_whole_arrays() -> None:
    draws, graphs, states = some_draws()
    found = draws.diagnostics()
    expected = diagnose(graphs, (states > 0).astype(np.int8), draws.log_posterior, draws.swap_rates)
    for name, value in expected.to_stats().items():
        np.testing.assert_array_equal(found.to_stats()[name].values, value.values)
    # As it was computed of whole arrays, one place at a time.
    np.testing.assert_allclose(found.edges.difference, np.ptp(graphs.mean(axis=1), axis=0))
    p, ess = graphs.mean(axis=(0, 1)), found.edges.ess
    assert (np.isnan(ess) == ((p == 0) | (p == 1))).all()
    np.testing.assert_allclose(found.edges.error[~np.isnan(ess)], np.sqrt(p * (1 - p) / ess)[~np.isnan(ess)])


def test_a_posterior_gets_as_many_as_it_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    draws, graphs, _ = some_draws()
    assert draws.thinned().graphs.shape == graphs.shape
    monkeypatch.setattr(kept, "MOST_BYTES", 8.0 * R * D * (5 * D + 9 * M))
    few = draws.thinned()
    assert few.graphs.shape == (R, 8, D, D)
    np.testing.assert_array_equal(few.graphs[:, -1], graphs[:, -1])
