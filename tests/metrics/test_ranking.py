import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import auc, average_precision_score, precision_recall_curve

from bacadi.errors import DataError
from bacadi.metrics import average_precision, edge_auprc, target_auprc, target_average_precision
from bacadi.metrics.ranking import prevalence, top_target_accuracy
from bacadi.simulate.graphs import erdos_renyi_dag


def trapezoid(truth, scores):
    precision, recall, _ = precision_recall_curve(truth.ravel(), scores.ravel())
    return auc(recall, precision)


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 5, 50]))
def test_equals_scikit_learn(seed, levels):
    """With few levels most scores are tied, as for the shares of a handful of particles."""
    rng = np.random.default_rng(seed)
    truth = erdos_renyi_dag(rng, 7)
    scores = rng.integers(0, levels + 1, (7, 7)) / levels
    off = ~np.eye(7, dtype=bool)
    assert average_precision(scores, truth) == pytest.approx(average_precision_score(truth[off], scores[off]))
    assert edge_auprc(scores, truth) == pytest.approx(trapezoid(truth, scores))
    targets = np.eye(7, dtype=int)[:5]
    assert target_auprc(scores[:5], targets) == pytest.approx(trapezoid(targets, scores[:5]))
    expected = average_precision_score(targets.ravel(), scores[:5].ravel())
    assert target_average_precision(scores[:5], targets) == pytest.approx(expected)


def test_an_empty_answer_has_the_trapezoid_of_one_plus_density_halves():
    truth = erdos_renyi_dag(np.random.default_rng(0), 20)
    density = truth.sum() / 400
    assert edge_auprc(np.zeros((20, 20)), truth) == pytest.approx((1 + density) / 2)
    assert average_precision(np.zeros((20, 20)), truth) == pytest.approx(prevalence(truth))


def test_the_truth_is_ranked_perfectly_and_the_diagonal_does_not_count():
    truth = erdos_renyi_dag(np.random.default_rng(1), 10)
    scores = truth.astype(float)
    assert average_precision(scores, truth) == edge_auprc(scores, truth) == 1
    np.fill_diagonal(scores, 2.0)
    assert average_precision(scores, truth) == 1
    assert edge_auprc(scores, truth) < 1


def test_direction_matters():
    truth = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]])
    assert average_precision(truth.astype(float), truth) == 1
    assert average_precision(truth.T.astype(float), truth) < 0.6


def test_no_true_entry_gives_not_a_number_and_no_warning():
    nothing = np.zeros((3, 3))
    for metric in (average_precision, edge_auprc, target_auprc, target_average_precision):
        assert np.isnan(metric(nothing, nothing))


def test_scores_that_are_not_numbers_are_refused():
    with pytest.raises(DataError, match="not a number"):
        average_precision(np.full((2, 2), np.nan), np.array([[0, 1], [0, 0]]))


def test_sums_of_the_same_weights_in_another_order_tie():
    """.1 + .2 + .3 and .3 + .2 + .1 differ in the last bit; neither is the better answer."""
    forward, backward = 0.1 + 0.2 + 0.3, 0.3 + 0.2 + 0.1
    assert forward != backward
    truth = np.array([[0, 1], [0, 0]])
    for scores in ([[0, forward], [backward, 0]], [[0, backward], [forward, 0]]):
        assert average_precision(np.array(scores), truth) == 0.5
    for scores in ([[forward, backward]], [[backward, forward]]):
        assert top_target_accuracy(np.array(scores), truth[:1]) == 0.5
    tiny = np.array([[0, 2e-300], [1e-300, 0]])
    assert average_precision(tiny, truth) == 1
