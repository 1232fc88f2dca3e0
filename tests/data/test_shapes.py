"""Shapes within contexts, dependence of rows, changes between contexts: numbers against what is known of them."""

import numpy as np
import pytest

from bacadi.data.changes import changes, far_rows
from bacadi.data.contexts import ContextData
from bacadi.data.shapes import GAUSSIAN_TAIL, dependence, mixture, shapes

ONE = np.zeros(4000, dtype=int)


# L-moment ratios: Hosking (1990), tables 1 and 2; of Student's t with 3 degrees of freedom: Hosking (2007).
@pytest.mark.parametrize(
    ("draw", "skewness", "tails"),
    [
        (lambda rng: rng.normal(size=4000), 0.0, GAUSSIAN_TAIL),
        (lambda rng: rng.exponential(size=4000), 1 / 3, 1 / 6),
        (lambda rng: rng.uniform(size=4000), 0.0, 0.0),
        (lambda rng: rng.standard_t(3, size=4000), 0.0, 0.261),
    ],
)
def test_l_moments(draw, skewness: float, tails: float) -> None:  # type: ignore[no-untyped-def]
    """Five standard errors (.4 / √n at most): one false alarm in a million."""
    found = shapes(draw(np.random.default_rng(1))[:, None], ONE)
    assert abs(found.skewness[0] - skewness) < 0.035 and abs(found.tails[0] - tails) < 0.035


def test_shapes_are_those_within_contexts() -> None:
    rng = np.random.default_rng(0)
    context = np.repeat([0, 1, 2], 200)
    x = (rng.normal(size=600) * np.array([1, 5, 0.1])[context] + 50 * context)[:, None]
    found = shapes(x, context)
    assert abs(found.skewness[0]) < 0.09 and abs(found.tails[0] - GAUSSIAN_TAIL) < 0.07 and found.far[0] == 0


def test_few_rows_and_clamped_columns_say_nothing() -> None:
    x = np.column_stack([np.random.default_rng(0).normal(size=40), np.repeat([1.0, 2.0], 20)])
    assert np.isnan(shapes(x, np.arange(40)).skewness).all()
    found = shapes(x, np.repeat([0, 1], 20))
    assert found.rows.tolist() == [40, 0] and found.spike[1] == 0


def autoregressive(rng: np.random.Generator, n: int, rho: float, d: int = 4) -> np.ndarray:
    z = rng.normal(size=(n, d))
    for i in range(1, n):
        z[i] = rho * z[i - 1] + np.sqrt(1 - rho**2) * z[i]
    return z


def test_effective_rows_of_autoregressive_rows() -> None:
    """n (1 - ρ) / (1 + ρ), which is n / 19 for ρ = .9 and n / 3 for ρ = .5."""
    rng = np.random.default_rng(0)
    for rho, share in ((0.9, 1 / 19), (0.5, 1 / 3)):
        x = np.concatenate([autoregressive(rng, n, rho) for n in (400, 80, 80)])
        found = dependence(x, np.repeat([0, 1, 2], [400, 80, 80]))
        assert share / 1.6 < found.share[0] < share * 1.6


def test_independent_shuffled_and_sorted_rows_count_in_full() -> None:
    """Four standard errors and at least .1: fewer than one false alarm in 10,000."""
    rng = np.random.default_rng(2)
    walk = autoregressive(rng, 300, 0.95)
    context = np.zeros(300, dtype=int)
    assert dependence(rng.permutation(walk), context).share[0] == 1
    a = np.sort(rng.normal(size=300))
    by_value = dependence(np.column_stack([a, a + 0.3 * rng.normal(size=300)]), context)
    assert by_value.share[0] == 1 and by_value.order.tolist() == [0]
    with_clock = dependence(np.column_stack([walk, 10.0 * np.arange(300)]), context)
    assert with_clock.share[0] < 0.2 and with_clock.order.tolist() == [4]
    assert dependence(np.zeros((3, 2)), np.arange(3)).share.tolist() == [1, 1, 1]


def test_effective_rows_by_context() -> None:
    x = np.concatenate([autoregressive(np.random.default_rng(k), 100, 0.8) for k in range(2)])
    data = ContextData(x, np.repeat([0, 2], 100), tuple("abcd"), ("empty", "ko"), "wt")
    rows = data.effective_rows()
    assert rows.shape == (3,) and rows[1] == 0 and 5 < rows[0] < 25


def test_a_change_spreads_but_not_given_the_others() -> None:
    rng = np.random.default_rng(0)
    context = np.repeat([0, 1], [400, 80])
    x = np.zeros((480, 8))
    for j in range(8):
        x[:, j] = (0.9 * x[:, j - 1] if j else 0) + rng.normal(size=480) + (5 * context if j == 0 else 0)
    found = changes(x, context)
    assert found is not None
    assert (np.abs(found.alone[0]) > 4).sum() >= 6 and np.flatnonzero(np.abs(found.given_others[0]) > 4).tolist() == [0]
    assert changes(x[:20], context[:20]) is None


def test_rows_far_off_and_what_follows_from_them() -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_t(3, size=(500, 3))
    x = np.column_stack([noise[:, 0], noise[:, 0] + noise[:, 1], noise[:, 0] + noise[:, 2]])
    far = far_rows(x, np.zeros(500, dtype=int))
    assert 0.02 < far.mean() < 0.2 and np.abs(noise[~far]).max() < 8
    gaussian = rng.normal(size=(2000, 20))
    assert far_rows(gaussian, np.repeat(np.arange(4), 500)).mean() < 0.01
    assert far_rows(gaussian[:300], np.concatenate([np.zeros(100, int), np.repeat(np.arange(1, 21), 10)])).mean() < 0.05


def test_two_groups_of_rows() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 5))
    assert mixture(x) is None and mixture(np.exp(x)) is None
    found = mixture(x + np.where(np.arange(300) < 90, 5.0, 0.0)[:, None])
    assert found is not None and abs(found - 0.3) < 0.05
