"""GIES and GnIES, the searches of other packages: large samples, what is known, what cannot be done."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from bacadi.baselines import GIES, Bootstrap, GnIES
from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError, DataError, InferenceError
from bacadi.graph.equivalence import i_cpdag

from .problems import run

GRAPH = np.array([[0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 1], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]], dtype=np.int8)
TARGETS = np.array([[0, 1, 0, 0, 0], [0, 0, 0, 0, 1]], dtype=np.int8)


def tree_data(targets=TARGETS, counts=(2000, 1000, 1000), hard=True, seed=0) -> ContextData:
    """Weights 1.3 and unit noise; a target is set to N(4, 2²), or has noise N(4, 2²) and keeps its parents."""
    rng = np.random.default_rng(seed)
    context = np.repeat(np.arange(len(counts)), counts)
    hit = np.vstack([np.zeros((1, 5)), targets])[context] == 1
    noise = np.where(hit, rng.normal(4, 2, size=hit.shape), rng.normal(size=hit.shape))
    x = np.zeros(hit.shape)
    for j in range(5):
        x[:, j] = 1.3 * np.where(hit[:, j] & hard, 0.0, x @ GRAPH[:, j]) + noise[:, j]
    return ContextData(x, context, tuple("abcde"), tuple(f"k{k}" for k in range(1, len(counts))), "obs")


@pytest.mark.parametrize("targets", [TARGETS, 0 * TARGETS, TARGETS[::-1].copy(), np.eye(2, 5, 3, dtype=np.int8)])
def test_gies_finds_the_class_of_the_truth_in_large_samples(targets):
    pytest.importorskip("gies")
    found = GIES().estimate(np.random.default_rng(0), tree_data(targets), targets.astype(float))
    np.testing.assert_array_equal(found.graph, i_cpdag(GRAPH, targets))
    np.testing.assert_array_equal(found.targets, targets)


def test_gnies_finds_class_and_union_of_targets_in_large_samples():
    """Noise changes at b and e, which directs the edges at them; Meek's rules direct the rest of this tree."""
    pytest.importorskip("gnies")
    found = GnIES().estimate(np.random.default_rng(0), tree_data(hard=False), None)
    np.testing.assert_array_equal(found.graph, GRAPH)
    np.testing.assert_array_equal(found.targets, np.tile([0, 1, 0, 0, 1], (2, 1)))


def test_gnies_without_a_target_finds_the_observational_class():
    pytest.importorskip("gnies")
    found = GnIES().estimate(np.random.default_rng(0), tree_data(0 * TARGETS), None)
    np.testing.assert_array_equal(found.graph, GRAPH | GRAPH.T)
    assert not found.targets.any()


def test_gnies_does_not_depend_on_the_generator_and_takes_what_is_known():
    pytest.importorskip("gnies")
    data = tree_data(hard=False, counts=(200, 100, 100))
    one, two = (GnIES().estimate(np.random.default_rng(seed), data, None) for seed in (0, 1))
    np.testing.assert_array_equal(one.graph, two.graph)
    np.testing.assert_array_equal(one.targets, two.targets)
    known = np.full((2, 5), np.nan)
    known[0] = [1, 0, 0, 0, 0]
    found = GnIES().estimate(np.random.default_rng(0), data, known)
    assert found.targets[0].tolist() == [1, 0, 0, 0, 0] and found.targets[1, 0] == 1


def test_gies_without_observational_rows_and_a_bootstrap_of_it():
    pytest.importorskip("gies")
    data = tree_data(counts=(0, 1000, 1000))
    found = GIES().estimate(np.random.default_rng(0), data, TARGETS.astype(float))
    np.testing.assert_array_equal(found.graph, GRAPH)
    posterior = run(Bootstrap(GIES(), n_samples=2, jobs=1), tree_data(), TARGETS.astype(float))
    np.testing.assert_array_equal(posterior.most_probable_graph(), GRAPH)


def test_a_larger_penalty_leaves_fewer_edges():
    pytest.importorskip("gies")
    rng, known = np.random.default_rng(0), TARGETS.astype(float)
    assert not GIES(penalty=1e6).estimate(rng, tree_data(), known).graph.any()
    assert GIES().relaxed() == GIES(penalty=2.0) and GnIES().relaxed() == GnIES(penalty=2.0)


def test_what_they_cannot_do_is_said_in_a_sentence():
    rng, data = np.random.default_rng(0), tree_data(counts=(20, 10, 10))
    known = TARGETS.astype(float)
    known[1, 2] = np.nan
    for unknown in (None, known):
        with pytest.raises(ConfigError, match=r"context 'k[12]' are not all known; give them with --targets known"):
            GIES().check(data, unknown)
    always = np.zeros((2, 5))
    always[:, 3] = 1
    with pytest.raises(DataError, match="Column 'd' is a target in every row"):
        GIES().check(tree_data(counts=(0, 10, 10)), always)
    with pytest.raises(DataError, match="Context 'k2' has one row"):
        GnIES().check(tree_data(counts=(20, 10, 1)), None)
    with pytest.raises(DataError, match="Context 'obs' has one row"):
        GnIES().check(tree_data(counts=(1, 10, 10)), None)
    for make in (GIES, GnIES):
        with pytest.raises(ConfigError, match="give a number above 0"):
            make(penalty=0.0)
    pytest.importorskip("gies")
    bound = replace(data, x=np.column_stack([data.x[:, :4], data.context + 1.0]))
    with pytest.raises(InferenceError, match="singular covariance matrix among the columns 'a'"):
        GIES().estimate(rng, bound, TARGETS.astype(float))


@pytest.mark.parametrize("baseline", [GIES(), GnIES()])
def test_a_missing_package_is_named_with_the_remedy(baseline, monkeypatch):
    monkeypatch.setitem(sys.modules, type(baseline).__name__.lower(), None)
    with pytest.raises(ConfigError, match=r"which is not installed; run pip install 'bacadi\[baselines\]'"):
        baseline.estimate(np.random.default_rng(0), tree_data(counts=(20, 10, 10)), TARGETS.astype(float))


def test_the_packages_are_imported_when_they_are_used_and_not_before():
    code = "import sys, bacadi.baselines; assert not {'gies', 'gnies', 'ges'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
