"""Gene-expression tasks: the paper's design, our protocol and the authors', technical noise, refusals."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from bacadi.errors import ConfigError
from bacadi.graph.dag import is_acyclic
from bacadi.simulate import (
    CellTypes,
    Dropout,
    GeneExpressionSpec,
    HeldOutKnockOuts,
    KnockOuts,
    Langevin,
    LibrarySize,
    MoleculeCounts,
    Outliers,
    RandomErdosRenyi,
    Regulation,
    RegulatoryNetwork,
    simulate,
)

SMALL = GeneExpressionSpec(
    n_variables=6,
    langevin=Langevin(time=4.0, step=0.04),
    knock_outs=KnockOuts(n_contexts=3),
    held_out=HeldOutKnockOuts(n_contexts=3, rows_per_context=20),
)


def test_the_paper_design():
    task = simulate(replace(GeneExpressionSpec(), langevin=SMALL.langevin), 1)
    assert task.data.counts.tolist() == [100] + [10] * 10
    assert task.held_out.counts.tolist() == [0] + [100] * 10
    assert is_acyclic(task.graph)
    assert task.graph.sum() == 37
    assert task.data.variables[0] == "g1"
    sizes = np.abs(task.network.strengths)
    np.testing.assert_array_equal(sizes > 0, task.graph == 1)
    assert ((sizes[task.graph == 1] >= 1) & (sizes[task.graph == 1] <= 5)).all()
    masters = task.graph.sum(axis=0) == 0
    assert ((task.network.basal[:, masters] >= 1) & (task.network.basal[:, masters] <= 3)).all()
    assert (task.network.basal[:, ~masters] == 0).all()
    assert (task.data.x >= 0).all()
    assert np.isfinite(task.data.x).all()


def test_tasks_of_earlier_versions_are_drawn_again():
    """Values of version 0.1.0 at commit 41905ca: the last cell, and the sum over held-out cells."""
    held_out = HeldOutKnockOuts(2, rows_per_context=5)
    task = simulate(GeneExpressionSpec(6, langevin=Langevin(time=1.0), knock_outs=KnockOuts(3), held_out=held_out), 11)
    cell = [0.5572879386, 3.1104567216, 7.275982199, 4.9637339049, 0.0, 2.4881502267]
    np.testing.assert_allclose(task.data.x[-1], cell, atol=1e-9)
    assert task.held_out.x.sum() == pytest.approx(112.4098266, rel=1e-8)


def test_knocked_out_genes_are_0_in_their_context_and_expressed_elsewhere():
    task = simulate(SMALL, 2)
    for data, targets in [(task.data, task.targets), (task.held_out, task.held_out_targets)]:
        for k, row in enumerate(targets):
            assert (data.x[data.context == k + 1][:, row == 1] == 0).all()
    assert (task.data.x[task.data.context == 0].mean(axis=0) > 0).all()
    assert not task.effects.keeps_parents.any()
    assert not task.effects.std.any()


def test_held_out_knock_outs_are_others():
    for seed in range(5):
        task = simulate(replace(SMALL, langevin=Langevin(time=0.1, step=0.1)), seed)
        both = np.vstack([task.targets, task.held_out_targets])
        assert both.sum(axis=0).tolist() == [1] * 6
    pairs = HeldOutKnockOuts(n_contexts=15, targets_per_context=2)
    drawn = pairs.draw_targets(np.random.default_rng(0), np.eye(6, dtype=np.int8))
    assert len(np.unique(drawn, axis=0)) == 15
    assert (drawn.sum(axis=1) == 2).all()
    many = HeldOutKnockOuts(n_contexts=10, targets_per_context=3)
    drawn = many.draw_targets(np.random.default_rng(0), np.zeros((1, 30), dtype=np.int8))
    assert len(np.unique(drawn, axis=0)) == 10


def test_every_context_has_all_cell_types():
    task = simulate(SMALL, 3)
    assert task.cell_type.shape == (task.data.n_rows,)
    assert task.held_out_cell_type.shape == (task.held_out.n_rows,)
    for k in range(4):
        counts = np.bincount(task.cell_type[task.data.context == k], minlength=10)
        assert counts.max() == counts.min()


@pytest.mark.parametrize(
    "spec", [SMALL, SMALL.as_published(), replace(SMALL, technical_noise=(Outliers(0.5), MoleculeCounts()))]
)
def test_a_task_is_a_function_of_spec_and_seed(spec):
    first, second, other = simulate(spec, 3), simulate(spec, 3), simulate(spec, 4)
    np.testing.assert_array_equal(first.data.x, second.data.x)
    np.testing.assert_array_equal(first.held_out.x, second.held_out.x)
    assert (first.data.x != other.data.x).any()


def test_more_cells_keep_the_network_and_the_knock_outs():
    few, many = simulate(SMALL, 3), simulate(replace(SMALL, n_observational=7), 3)
    np.testing.assert_array_equal(few.network.strengths, many.network.strengths)
    np.testing.assert_array_equal(few.network.basal, many.network.basal)
    np.testing.assert_array_equal(few.targets, many.targets)
    np.testing.assert_array_equal(few.held_out_targets, many.held_out_targets)


def test_regulators_mainly_activate_or_mainly_repress():
    """Two edges of one regulator agree with probability E[p² + (1 - p)²] = 1 - 2ab / ((a + b)(a + b + 1)); an edge
    activates with probability a / (a + b). Bands of 5 standard errors, false-alarm rate 6e-7 each."""
    rng, n = np.random.default_rng(0), 1500
    graph = np.zeros((n, n), dtype=np.int8)
    graph[:, :2] = 1
    sign = np.sign(Regulation().draw(rng, graph)[:, :2])
    a, b = 0.2588, 0.2499
    agree, active = 1 - 2 * a * b / ((a + b) * (a + b + 1)), a / (a + b)
    assert abs((sign[:, 0] == sign[:, 1]).mean() - agree) < 5 * np.sqrt(agree * (1 - agree) / n)
    assert abs((sign[:, 0] > 0).mean() - active) < 5 * np.sqrt(active * (1 - active) / n)


def test_the_published_protocol_has_its_stated_differences():
    ours, theirs = simulate(SMALL, 5), simulate(SMALL.as_published(), 5)
    np.testing.assert_array_equal(ours.network.strengths, theirs.network.strengths)
    np.testing.assert_array_equal(ours.targets, theirs.targets)
    np.testing.assert_array_equal(theirs.held_out_targets, theirs.targets)
    np.testing.assert_allclose(theirs.data.x.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(theirs.data.x.std(axis=0), 1)
    np.testing.assert_array_equal(theirs.data.scaling.scale, theirs.held_out.scaling.scale)
    original = theirs.data.scaling.invert(theirs.data.x)
    np.testing.assert_allclose(original[theirs.data.context == 0], ours.data.x[ours.data.context == 0], atol=1e-9)
    for k, row in enumerate(theirs.targets):
        np.testing.assert_allclose(original[theirs.data.context == k + 1][:, row == 1], 0, atol=1e-12)


def test_recomputed_half_responses_hide_the_knock_out_from_genes_further_down():
    """g1 and g2 activate g3, g3 activates g4. With one cell type a recomputed half response is the level itself, so g4
    is produced at half its maximum whatever happens to g3; with the wild type's it falls."""
    strengths = np.zeros((4, 4))
    strengths[0, 2] = strengths[1, 2] = strengths[2, 3] = 4.0
    basal = np.array([[2.0, 2.0, 0.0, 0.0]])
    network = RegulatoryNetwork((strengths > 0).astype(np.int8), strengths, basal, 2.0, Langevin())
    out = np.array([True, False, False, False])
    wild_type, own = network.half_responses(), network.half_responses(out)
    np.testing.assert_allclose(network.levels(wild_type)[0, 3], 0.5 * 4 / 0.8)
    np.testing.assert_allclose(network.levels(own, out)[0, 3], 0.5 * 4 / 0.8)
    # g3 falls to half its level: the Hill response of g4 from 1/2 to 1/5.
    np.testing.assert_allclose(network.levels(wild_type, out)[0, 3], 0.2 * 4 / 0.8)


@pytest.mark.parametrize("by_context", [False, True], ids=["of the wild type", "recomputed"])
def test_cells_of_every_context_have_the_half_responses_of_the_specification(by_context):
    """Without noise cells stay at the steady state, in which half responses show; held-out contexts have their own."""
    spec = replace(SMALL, langevin=Langevin(noise=0.0, time=4.0, step=0.04), half_responses_by_context=by_context)
    task = simulate(spec, 9)
    network, differs = task.network, 0
    for data, types, targets in (
        (task.data, task.cell_type, task.targets),
        (task.held_out, task.held_out_cell_type, task.held_out_targets),
    ):
        for k in np.unique(data.context):
            out = targets[k - 1] == 1 if k else np.zeros(6, bool)
            own, wild_type = network.half_responses(out), network.half_responses()
            rows = data.context == k
            levels = network.levels(own if by_context else wild_type, out)[types[rows]]
            np.testing.assert_allclose(data.x[rows], levels, atol=1e-9)
            differs += not np.allclose(network.levels(own, out), network.levels(wild_type, out))
    assert differs > 1


def test_a_short_knock_out_varies_less_than_the_steady_state():
    """Within a cell type the variance of an untouched gene is 1 - e^(-2λ·.3) = .38 of its stationary value. From 1,000
    cells each, both ends of the band are more than 5 standard errors off: false-alarm rate 6e-7."""
    spec = GeneExpressionSpec(
        n_variables=2,
        graph=RandomErdosRenyi(0),
        cell_types=CellTypes(1, 20, 20),
        langevin=Langevin(time=8.0, step=0.02, knock_out_time=0.3),
        knock_outs=KnockOuts(n_contexts=1, rows_per_context=1000),
        held_out=HeldOutKnockOuts(n_contexts=0),
        n_observational=1000,
    )
    task = simulate(spec, 0)
    other = int(np.flatnonzero(task.targets[0] == 0)[0])
    x, k = task.data.x[:, other], task.data.context
    assert 0.25 < x[k == 1].var() / x[k == 0].var() < 0.55


def test_outlier_genes_are_the_same_for_all_cells():
    """log f of 2,000 genes: mean and standard deviation within 5 standard errors, false-alarm rate 6e-7 each."""
    rng, n = np.random.default_rng(0), 2000
    step = Outliers(share=1.0, log_mean=0.8, log_std=0.5).prepare(rng, np.ones((2, n)))
    factors = step(rng, np.ones((3, n)))
    np.testing.assert_array_equal(factors[0], factors[2])
    assert abs(np.log(factors[0]).mean() - 0.8) < 5 * 0.5 / np.sqrt(n)
    assert abs(np.log(factors[0]).std() / 0.5 - 1) < 5 / np.sqrt(2 * n)
    rare = Outliers(share=0.3, log_mean=5.0).prepare(rng, np.ones((2, n)))(rng, np.ones((1, n)))
    assert abs((rare != 1).mean() - 0.3) < 5 * np.sqrt(0.3 * 0.7 / n)


def test_library_sizes_are_log_normal_and_keep_the_composition():
    rng, n = np.random.default_rng(0), 5000
    x = rng.uniform(1, 2, size=(n, 4))
    y = LibrarySize(4.6, 0.4).prepare(rng, x)(rng, x)
    assert stats.kstest(np.log(y.sum(axis=1)), stats.norm(4.6, 0.4).cdf).pvalue > 1e-6  # the false-alarm rate
    np.testing.assert_allclose(y / y.sum(axis=1, keepdims=True), x / x.sum(axis=1, keepdims=True))


def test_dropout_keeps_a_level_with_its_logistic_probability():
    """Shares kept within 5 standard errors, false-alarm rate 6e-7 each; at the percentile itself it is one half."""
    rng, n = np.random.default_rng(0), 20_000
    step = Dropout(shape=2.0, percentile=50).prepare(rng, np.array([[1.0, 2.0, 4.0]]))
    y = step(rng, np.tile([1.0, 2.0, 4.0], (n, 1)))
    kept = 1 / (1 + np.exp(-2.0 * (np.log1p([1.0, 2.0, 4.0]) - np.log1p(2.0))))
    assert kept[1] == 0.5
    assert (np.abs((y > 0).mean(axis=0) - kept) < 5 * np.sqrt(kept * (1 - kept) / n)).all()
    assert set(np.unique(y)) == {0.0, 1.0, 2.0, 4.0}


def test_counts_are_poisson():
    """Mean and variance both equal the level: 5 standard errors, false-alarm rate 6e-7 each."""
    rng, n = np.random.default_rng(0), 20_000
    y = MoleculeCounts().prepare(rng, np.ones((1, 1)))(rng, np.full((n, 1), 3.0))
    assert abs(y.mean() - 3) < 5 * np.sqrt(3 / n)
    assert abs(y.var() / 3 - 1) < 5 * np.sqrt((2 + 1 / 3) / n)
    np.testing.assert_array_equal(y, np.round(y))


def test_technical_noise_of_a_task_keeps_knock_outs_at_0_and_the_clean_levels_behind_it():
    noise = (Outliers(), LibrarySize(), Dropout(), MoleculeCounts())
    clean, noisy = simulate(SMALL, 7), simulate(replace(SMALL, technical_noise=noise), 7)
    np.testing.assert_array_equal(clean.network.strengths, noisy.network.strengths)
    np.testing.assert_array_equal(noisy.data.x, np.round(noisy.data.x))
    assert (noisy.data.x[clean.data.x == 0] == 0).all()
    assert (noisy.held_out.x[clean.held_out.x == 0] == 0).all()
    sizes = replace(SMALL, technical_noise=(LibrarySize(0.0, 0.0),))
    np.testing.assert_allclose(simulate(sizes, 7).data.x, clean.data.x / clean.data.x.sum(axis=1, keepdims=True))


def test_standardised_tasks_keep_the_original_scale():
    plain, scaled = simulate(SMALL, 8), simulate(replace(SMALL, standardize=True), 8)
    for original, standardised in [(plain.data, scaled.data), (plain.held_out, scaled.held_out)]:
        np.testing.assert_allclose(standardised.scaling.invert(standardised.x), original.x, atol=1e-9)


def test_no_contexts_and_no_wild_type():
    empty = replace(SMALL, knock_outs=KnockOuts(n_contexts=0), held_out=HeldOutKnockOuts(n_contexts=0))
    assert simulate(empty, 0).data.counts.tolist() == [100]
    only = simulate(replace(SMALL, n_observational=0), 0).data
    assert only.observational is None
    assert only.counts.tolist() == [0, 10, 10, 10]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GeneExpressionSpec(n_variables=0), "n_variables is 0; give a whole number of at least 1"),
        (lambda: GeneExpressionSpec(n_observational=-1), "n_observational is -1"),
        (lambda: KnockOuts(n_contexts=-2), "n_contexts is -2"),
        (lambda: HeldOutKnockOuts(rows_per_context=-1), "rows_per_context is -1"),
        (lambda: HeldOutKnockOuts(targets_per_context=0), "targets_per_context is 0"),
        (lambda: replace(SMALL, knock_outs=KnockOuts(targets_per_context=7)), "7 targets per context"),
        (lambda: Regulation(strength_low=0), "strength_low"),
        (lambda: Regulation(activation_a=0), "activation_a is 0; give a number above 0"),
        (lambda: Regulation(hill=-1), "hill is -1"),
        (lambda: CellTypes(n=0), "n is 0"),
        (lambda: CellTypes(basal_low=2, basal_high=1), "basal_low <= basal_high"),
        (lambda: Outliers(share=2), "share is 2; give a number of at least 0 and at most 1"),
        (lambda: Outliers(log_std=-1), "log_std is -1"),
        (lambda: LibrarySize(log_mean=np.inf), "log_mean is inf"),
        (lambda: Dropout(percentile=101), "percentile is 101"),
        (lambda: simulate(replace(SMALL, knock_outs=KnockOuts(n_contexts=4)), 0), "3 held-out contexts .* 2 ways"),
        (lambda: simulate(replace(SMALL, n_variables=3, graph=RandomErdosRenyi(2)), 0), "room for 3 edges"),
        (lambda: simulate(SMALL, -1), "seed"),
        (lambda: simulate(SMALL, 0).log_density(), "no density"),
    ],
)
def test_bad_specifications_are_refused_in_one_sentence(make, words):
    with pytest.raises(ConfigError, match=words) as error:
        make()
    assert "\n" not in str(error.value)
