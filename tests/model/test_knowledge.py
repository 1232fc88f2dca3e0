"""Knowledge by property: order does not matter, tiers are forbidden edges, contradictions fall."""

from collections.abc import Callable
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bacadi.errors import ConfigError
from bacadi.model.knowledge import Knowledge, Labels

D, M = 3, 2
INF, NAN = np.inf, np.nan
LABELS = Labels(("a", "b", "c"), ("ko", "drug"))
Step = Callable[[Knowledge], Knowledge]


def same(one: Knowledge, other: Knowledge) -> bool:
    counts = [
        np.zeros((M, D + 1)) if known.target_count_log is None else known.target_count_log for known in (one, other)
    ]
    return (
        np.array_equal(one.edge_log_odds, other.edge_log_odds)
        and np.array_equal(one.target_log_odds, other.target_log_odds)
        and np.array_equal(*counts)
        and one.max_parents == other.max_parents
    )


nodes, context = st.integers(0, D - 1), st.integers(0, M - 1)
pairs = st.tuples(nodes, nodes).filter(lambda pair: pair[0] != pair[1])
whole = st.integers(-3, 3).map(float)  # sums of whole numbers are exact, so that order can be tested by equality
cells = st.lists(st.sampled_from([0.0, 1.0, NAN]), min_size=M * D, max_size=M * D)
steps = st.one_of(
    pairs.map(lambda pair: lambda known: known.forbid(*pair)),
    pairs.map(lambda pair: lambda known: known.require(*pair)),
    st.lists(st.integers(-1, 2), min_size=D, max_size=D).map(lambda tiers: lambda known: known.tiers(np.array(tiers))),
    st.integers(0, D).map(lambda n: lambda known: known.limit_parents(n)),
    st.lists(whole, min_size=D * D, max_size=D * D).map(
        lambda odds: lambda known: known.with_edges(np.array(odds).reshape(D, D))
    ),
    cells.map(lambda known_cells: lambda known: known.known_targets(np.array(known_cells).reshape(M, D))),
    st.tuples(context, st.sets(nodes)).map(lambda given_: lambda known: known.candidates(*given_)),
    st.tuples(st.none() | context, st.lists(whole | st.just(-INF), min_size=1, max_size=D + 1)).map(
        lambda given_: lambda known: known.count_targets(given_[0], np.array(given_[1]))
    ),
)


def applied(chosen: list[Step]) -> Knowledge | None:
    """None where the steps contradict each other."""
    known = Knowledge.none(D, M)
    try:
        for step in chosen:
            known = step(known)
    except ConfigError:
        return None
    return known


@given(st.lists(steps, max_size=4))
def test_the_order_of_combinators_does_not_matter(chosen: list[Step]) -> None:
    """Neither for the result nor for whether it is refused."""
    known = applied(chosen)
    for order in permutations(chosen):
        again = applied(list(order))
        assert (known is None) == (again is None)
        assert known is None or again is None or same(known, again)


@given(st.lists(steps, max_size=2), st.lists(steps, max_size=2))
def test_combining_is_doing_both(one: list[Step], other: list[Step]) -> None:
    known, first, second = applied(one + other), applied(one), applied(other)
    assume(known is not None)
    assert known is not None and first is not None and second is not None
    assert same(first.combined(second), known) and same(second.combined(first), known)
    assert same(known.combined(Knowledge.none(D, M)), known)


@given(st.lists(st.integers(-1, 2), min_size=D, max_size=D))
def test_tiers_are_forbidden_edges(tiers: list[int]) -> None:
    known = Knowledge.none(D, M)
    for i, j in product(range(D), repeat=2):
        if tiers[i] >= 0 and tiers[j] >= 0 and tiers[i] > tiers[j]:
            known = known.forbid(i, j)
    assert same(known, Knowledge.none(D, M).tiers(np.array(tiers)))


def test_candidates_and_no_opinion() -> None:
    known = Knowledge.none(D, M).candidates(1, [2])
    assert known.target_log_odds.tolist() == [[0, 0, 0], [-INF, -INF, 0]]
    assert same(Knowledge.none(D, M).known_targets(None), Knowledge.none(D, M))


def named() -> Knowledge:
    return Knowledge.none(D, M, LABELS)


def both_targets() -> Knowledge:
    return named().known_targets(np.array([[1.0, 1, NAN], [NAN] * 3]))


CONTRADICTIONS: list[tuple[Callable[[], object], str]] = [
    (lambda: named().require(0, 1).forbid(0, 1), "'a' → 'b' is both required and forbidden"),
    (lambda: Knowledge.none(D, M).require(0, 1).forbid(0, 1), "variable 0 → variable 1"),
    (lambda: named().tiers(np.array([1, 0, -1])).require(0, 1), "'a' → 'b' is both"),
    (lambda: named().require(0, 1).require(1, 2).require(2, 0), "cycle 'a' → 'b' → 'c' → 'a'"),
    (lambda: named().require(1, 1), "cycle 'b' → 'b'"),
    (lambda: named().require(0, 2).require(1, 2).limit_parents(1), "'c' 2 parents and at most 1"),
    (lambda: named().limit_parents(-1), "-1"),
    (lambda: both_targets().candidates(0, [1, 2]), "'a' is a known target in context 'ko'"),
    (lambda: both_targets().count_targets(None, np.log([0.5, 0.5])), "context 'ko' 2 targets at least and 3 at most"),
    (lambda: Knowledge.none(D, M).candidates(1, []).count_targets(1, np.array([-INF, 0.0])), "context of index 1"),
    (lambda: named().count_targets(0, np.full(2, -INF)), "context 'ko'"),
    (lambda: named().count_targets(0, np.zeros(5)), "beyond the 3 variables"),
    (lambda: named().count_targets(0, np.array([NAN])), "NaN"),
    (lambda: named().count_targets(2, np.zeros(1)), "no context of index 2"),
    (lambda: named().forbid(0, 3), "no variable of index 3"),
    (lambda: named().candidates(0, [-1]), "no variable of index -1"),
    (lambda: named().tiers(np.array([0, -2, 0])), "tier is -2"),
    (lambda: named().with_edges(np.full((D, D), NAN)), "edges are NaN at [0, 0]"),
    (lambda: named().known_targets(np.full((M, D), 0.5)), "other than 0 and 1"),
    (lambda: named().known_targets(np.full((M, D), 0.5)), "2 x 3 array"),
    (lambda: named().known_targets(np.zeros((1, D))), "2 x 3 array"),
    (lambda: named().known_targets(np.zeros((1, D))), "shape (1, 3)"),
]


@pytest.mark.parametrize(("build", "expected"), CONTRADICTIONS, ids=[expected for _, expected in CONTRADICTIONS])
def test_contradictions_are_refused_in_one_sentence(build: Callable[[], object], expected: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        build()
    message = str(refusal.value)
    assert expected in message and "; " in message
    assert message.endswith(".") and ". " not in message and "\n" not in message
