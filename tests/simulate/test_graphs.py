import numpy as np
import pytest

from bacadi.errors import ConfigError
from bacadi.graph.dag import is_acyclic
from bacadi.simulate.graphs import erdos_renyi_dag, scale_free_dag


@pytest.mark.parametrize(("d", "edges"), [(20, 37), (50, 97), (2, 1), (1, 0)])
def test_scale_free_edges_are_fixed(d, edges):
    """37 and 97 edges are what the authors' tasks have at d = 20 and 50."""
    graph = scale_free_dag(np.random.default_rng(3), d, min(2, d - 1))
    assert graph.sum() == edges
    assert is_acyclic(graph)


def test_scale_free_hubs_are_parents():
    rng = np.random.default_rng(0)
    graphs = np.stack([scale_free_dag(rng, 30) for _ in range(50)])
    assert graphs.sum(axis=1).max() == 2
    assert np.median(graphs.sum(axis=2).max(axis=1)) > 8


def test_scale_free_weights_are_one_plus_children():
    """With one parent each, the third node takes the first (weight 2) over the second (weight 1) in 2/3 of the draws.

    That makes a star of three nodes. False-alarm rate of the band of 5 standard errors: 6e-7.
    """
    rng = np.random.default_rng(0)
    n = 2000
    star = sum(int(scale_free_dag(rng, 3, 1).sum(axis=1).max() == 2) for _ in range(n))
    assert abs(star / n - 2 / 3) < 5 * np.sqrt(2 / 9 / n)


def test_erdos_renyi_has_2d_edges_in_expectation():
    """False-alarm rate of the bands of 5 standard errors: below 1e-6 for the mean."""
    rng = np.random.default_rng(0)
    graphs = np.stack([erdos_renyi_dag(rng, 20) for _ in range(400)])
    assert is_acyclic(graphs).all()
    counts = graphs.sum(axis=(1, 2))
    variance = 190 * (40 / 190) * (150 / 190)
    assert abs(counts.mean() - 40) < 5 * np.sqrt(variance / 400)
    # Labels are random: each ordered pair is an edge equally often, 40 / 380 (7 standard errors over 380 pairs: 1e-9).
    share = graphs.mean(axis=0)[~np.eye(20, dtype=bool)]
    assert np.abs(share - 40 / 380).max() < 7 * np.sqrt(40 / 380 * 340 / 380 / 400)


@pytest.mark.parametrize("draw", [erdos_renyi_dag, scale_free_dag])
def test_a_graph_is_a_function_of_the_generator(draw):
    np.testing.assert_array_equal(draw(np.random.default_rng(5), 10), draw(np.random.default_rng(5), 10))
    assert (draw(np.random.default_rng(5), 10) != draw(np.random.default_rng(6), 10)).any()


def test_too_many_edges_are_refused():
    with pytest.raises(ConfigError, match="room for 6 edges"):
        erdos_renyi_dag(np.random.default_rng(0), 4, 2)
    with pytest.raises(ConfigError, match="0 to 3"):
        scale_free_dag(np.random.default_rng(0), 4, 4)
    assert erdos_renyi_dag(np.random.default_rng(0), 5, 2).sum() == 10
    assert erdos_renyi_dag(np.random.default_rng(0), 1, 0).sum() == 0
