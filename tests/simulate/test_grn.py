"""The Langevin equation and its regulation against closed forms, and what a knock-out does to other genes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bacadi.errors import ConfigError
from bacadi.simulate import GeneExpressionSpec, Langevin, RandomScaleFree, RegulatoryNetwork
from bacadi.simulate.grn import Cells

SHORT = Langevin(time=10.0, step=0.02)
LINE = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=np.int8)


def network_of(strengths, basal, langevin=SHORT):
    strengths, basal = np.array(strengths, dtype=float), np.array(basal, dtype=float)
    return RegulatoryNetwork((strengths != 0).astype(np.int8), strengths, basal, 2.0, langevin)


def cells_of(network, n, knocked_out=(), cell_type=0):
    d = len(network.graph)
    out = np.zeros((n, d), dtype=bool)
    out[:, list(knocked_out)] = True
    return Cells(np.full(n, cell_type), out, np.tile(network.half_responses(), (n, 1)))


def sample(network, n, knocked_out=(), seed=0, time=None):
    cells = cells_of(network, n, knocked_out)
    return network.sample(np.random.default_rng(seed), cells, time or network.langevin.time)


def descendants(graph, gene):
    reached = np.linalg.matrix_power(np.eye(len(graph)) + graph, len(graph))[gene] > 0
    reached[gene] = False
    return reached


@pytest.mark.parametrize(("basal", "decay", "noise"), [(20.0, 0.8, 1.0), (40.0, 2.0, 1.0), (5.0, 0.8, 0.3)])
def test_a_master_regulator_has_the_stationary_mean_and_variance_of_the_linear_equation(basal, decay, noise):
    """Mean b/λ and variance q²b/λ, the latter times 1 / (1 - λ step / 2) for Euler–Maruyama; b is so large that 0 is
    out of reach. Bands of 5 standard errors, false-alarm rate 6e-7 each."""
    n, step = 20_000, 0.02
    network = network_of([[0.0]], [[basal]], Langevin(decay, noise, step))
    x = sample(network, n, time=8 / decay)[:, 0]
    mean, variance = basal / decay, noise**2 * basal / decay / (1 - decay * step / 2)
    assert abs(x.mean() - mean) < 5 * np.sqrt(variance / n)
    kurtosis = 6 * noise**2 / (4 * mean)  # excess of the Gamma law that x + b/λ follows
    assert abs(x.var() / variance - 1) < 5 * np.sqrt((2 + kurtosis) / n)


def test_a_weak_master_regulator_follows_the_law_of_the_reflected_equation():
    """Clipped at 0, x + b/λ follows Gamma(4b/q²λ, scale q²/2) cut off below b/λ. The Kolmogorov–Smirnov distance may be
    3/√n (false-alarm rate 3e-8) and .02 for the steps that end at exactly 0; without the cut it would be .1."""
    basal, n = 1.0, 10_000
    x = sample(network_of([[0.0]], [[basal]], Langevin(step=0.005)), n, time=8.0)[:, 0]
    level = basal / 0.8
    law = stats.gamma(4 * level, scale=0.5)
    cut, whole = (lambda v: 1 - law.sf(v + level) / law.sf(level)), (lambda v: law.cdf(v + level))
    assert stats.kstest(x, cut).statistic < 0.02 + 3 / np.sqrt(n)
    assert stats.kstest(x, whole).statistic > 0.08


def test_before_the_steady_state_the_variance_is_smaller_as_the_equation_says():
    """q²b/λ (1 - e^(-2λt)) after time t from the mean. Bands of 5 standard errors, false-alarm rate 6e-7 each, and
    1.5 % more of the variance for the time step."""
    n = 20_000
    x = sample(network_of([[0.0]], [[40.0]], Langevin(step=0.01)), n, time=0.3)[:, 0]
    assert abs(x.var() / (50 * -np.expm1(-2 * 0.8 * 0.3)) - 1) < 0.015 + 5 * np.sqrt(2 / n)
    assert abs(x.mean() - 50) < 5 * np.sqrt(50 / n)


def test_production_is_the_sum_over_regulators():
    network = network_of([[0, 0, 3], [0, 0, -2], [0, 0, 0]], [[1, 2, 0], [3, 2, 0]])
    x, half = np.array([[2.0, 1.0, 7.0], [0.0, 0.0, 7.0]]), np.array([1.0, 3.0, 5.0])
    expected = 3 * 4 / (1 + 4) + 2 * (1 - 1 / (9 + 1))
    np.testing.assert_allclose(network.production(x, half, network.basal), [[1, 2, expected], [3, 2, 2]])


def test_half_responses_are_means_over_cell_types_found_from_the_regulators_down():
    network = network_of([[0, 4], [0, 0]], [[0.8, 0], [2.4, 0]])
    half = network.half_responses()
    response = (1 / (4 + 1) + 9 / (4 + 9)) / 2
    np.testing.assert_allclose(half, [2, 4 * response / 0.8])
    np.testing.assert_allclose(network.levels(half)[:, 0], [1, 3])


def test_without_noise_cells_stay_at_the_noise_free_steady_state():
    rng = np.random.default_rng(0)
    spec = GeneExpressionSpec(n_variables=8, langevin=replace(SHORT, noise=0.0))
    network = spec.draw_network(rng, spec.graph.draw(rng, 8))
    x = sample(network, 3, knocked_out=(2,))
    np.testing.assert_allclose(
        x, np.tile(network.levels(network.half_responses(), np.arange(8) == 2)[0], (3, 1)), atol=1e-9
    )


@given(st.integers(0, 10_000))
def test_on_a_tree_knock_outs_move_the_noise_free_levels_by_the_sign_of_the_path(seed):
    rng = np.random.default_rng(seed)
    spec = GeneExpressionSpec(n_variables=7, graph=RandomScaleFree(1))
    network = spec.draw_network(rng, spec.graph.draw(rng, 7))
    half, gene = network.half_responses(), int(rng.integers(7))
    change = network.levels(half, np.arange(7) == gene) - network.levels(half)
    # The only path from the gene to another one carries the product of its signs.
    sign = np.linalg.inv(np.eye(7) - np.sign(network.strengths))[gene]
    np.testing.assert_array_equal(np.sign(np.round(change, 12)), np.tile(-np.sign(sign), (10, 1)))


def test_a_knocked_out_gene_stays_at_0_and_nothing_upstream_moves():
    """With the same random numbers, genes that are no descendants have the very same trajectories."""
    rng = np.random.default_rng(1)
    spec = GeneExpressionSpec(n_variables=10, langevin=replace(SHORT, time=2.0))
    network = spec.draw_network(rng, spec.graph.draw(rng, 10))
    wild_type = sample(network, 50)
    for gene in range(10):
        knocked = sample(network, 50, knocked_out=(gene,))
        below = descendants(network.graph, gene)
        assert (knocked[:, gene] == 0).all()
        others = ~below & (np.arange(10) != gene)
        np.testing.assert_array_equal(knocked[:, others], wild_type[:, others])
        assert (knocked[:, below] != wild_type[:, below]).any(axis=0).all()


def test_downstream_genes_respond_with_the_right_sign():
    """g1 activates g2 and represses g3, g2 activates g4, g3 represses g5. z > 5 in the stated direction: a gene that
    did not respond would pass with probability 3e-7."""
    strengths = np.zeros((5, 5))
    strengths[0, 1], strengths[0, 2], strengths[1, 3], strengths[2, 4] = 4, -4, 4, -4
    network = network_of(strengths, [[2, 0, 0, 0, 0]])
    n = 1000
    wild_type, knocked = sample(network, n, seed=1), sample(network, n, knocked_out=(0,), seed=2)
    z = (knocked.mean(axis=0) - wild_type.mean(axis=0)) / np.sqrt((knocked.var(axis=0) + wild_type.var(axis=0)) / n)
    assert (z * [-1, -1, 1, -1, -1] > 5).all()
    assert (knocked[:, 1] < 1e-3).all()  # its only activator is gone


def test_a_gene_that_nothing_produces_dies_out_and_half_responses_of_0_do_no_harm():
    network = network_of(np.where(LINE == 1, 3.0, 0.0), [[2, 0, 0]])
    out = np.array([True, False, False])
    np.testing.assert_array_equal(network.half_responses(out), 0)
    cells = cells_of(network, 5, knocked_out=(0,))._replace(half_responses=np.zeros((5, 3)))
    np.testing.assert_array_equal(network.sample(np.random.default_rng(0), cells, 1.0), 0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Langevin(decay=0), "decay is 0; give a number above 0"),
        (lambda: Langevin(noise=-1), "noise is -1; give a number of at least 0"),
        (lambda: Langevin(step=2), "time step"),
        (lambda: Langevin(time=0), "time = 0"),
        (lambda: Langevin(knock_out_time=-1), "knock_out_time = -1"),
        (lambda: Langevin(time=np.nan), "time is nan"),
    ],
)
def test_bad_dynamics_are_refused_in_one_sentence(make, words):
    with pytest.raises(ConfigError, match=words) as error:
        make()
    assert "\n" not in str(error.value)
