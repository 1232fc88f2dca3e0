"""Knowledge by property: order does not matter, constraints hold on all small graphs and masks, contradictions fall."""

from collections.abc import Callable
from itertools import permutations, product

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from bacadi.errors import ConfigError
from bacadi.evidence.collapsed import EffectStates, StructurePrior
from bacadi.graph import all_dags
from bacadi.model.knowledge import Knowledge, Labels, structure_prior
from bacadi.model.priors import (
    AbstractGraphPrior,
    ErdosRenyi,
    OrderedErdosRenyi,
    ScaleFree,
    TargetPrior,
    UniformGraph,
)

D, M = 3, 2
INF, NAN = np.inf, np.nan
LABELS = Labels(("a", "b", "c"), ("ko", "drug"))
GRAPHS = all_dags(D)
GRAPH_PRIORS = [ErdosRenyi(0.5), ErdosRenyi(), ScaleFree(2.5), UniformGraph()]
MASKS = np.array(list(product([0, 1], repeat=D)))
Step = Callable[[Knowledge], Knowledge]


def states(n_effects: int = 2, d: int = D, m: int = M) -> EffectStates:
    """Hard effects of equal share."""
    kind = np.array([0] + [1] * n_effects, np.int8)
    share = np.array([0.0] + [-np.log(max(n_effects, 1))] * n_effects)
    return EffectStates(tuple(f"s{s}" for s in kind), kind, np.zeros(len(kind)), share, np.zeros((m, d)))


def prior_of(known: Knowledge, graph_prior: AbstractGraphPrior | None = None, **more: int) -> StructurePrior:
    return structure_prior(graph_prior or ErdosRenyi(0.5), TargetPrior(), states(), known, **more)


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


@given(st.sets(pairs), st.sets(pairs), st.lists(st.integers(-1, 2), min_size=D, max_size=D), st.integers(0, D))
def test_a_graph_is_impossible_exactly_where_it_breaks_a_constraint(
    forbidden: set, required: set, tiers: list[int], limit: int
) -> None:
    """All 25 DAGs; the constraints are checked one edge at a time, without the arrays. Refused: no graph is left."""

    def allowed(graph: np.ndarray) -> bool:
        edges = [(i, j) for i, j in product(range(D), repeat=2) if graph[i, j]]
        backward = any(tiers[i] > tiers[j] and tiers[j] >= 0 for i, j in edges)
        crowded = any(sum(j == node for _, j in edges) > limit for node in range(D))
        return not (backward or crowded or forbidden & set(edges) or required - set(edges))

    expected = [allowed(graph) for graph in GRAPHS]
    try:
        known = Knowledge.none(D, M).tiers(np.array(tiers)).limit_parents(limit)
        for edge in forbidden:
            known = known.forbid(*edge)
        for edge in required:
            known = known.require(*edge)
    except ConfigError:
        assert not any(expected)
        return
    assert any(expected)
    prior = prior_of(known)
    assert [bool(np.isfinite(prior.log_prob_graph(graph))) for graph in GRAPHS] == expected


def test_along_a_random_order_edges_are_independent() -> None:
    """Σ over orders of Bernoulli products, on all DAGs of three nodes: one edge expected of three pairs."""
    q = 1 / 3
    prior = prior_of(Knowledge.none(D, M), OrderedErdosRenyi(1 / 3))
    expected = np.zeros(len(GRAPHS))
    for order in permutations(range(D)):
        place = np.argsort(order)
        along = np.array([all(place[i] < place[j] for i, j in np.argwhere(graph)) for graph in GRAPHS])
        edges = GRAPHS.sum(axis=(1, 2))
        expected += along * q**edges * (1 - q) ** (3 - edges) / 6
    assert expected.sum() == pytest.approx(1)
    log_p = np.array([prior.log_prob_graph(graph) for graph in GRAPHS])
    np.testing.assert_allclose(softmax(log_p), expected, rtol=1e-12)


@pytest.mark.parametrize("graph_prior", GRAPH_PRIORS)
def test_without_knowledge_the_prior_of_graphs_is_the_model_s(graph_prior: AbstractGraphPrior) -> None:
    """Up to a constant, on all DAGs of three nodes; soft odds are added edge by edge."""
    theirs = np.array([float(graph_prior.log_prob(jnp.asarray(graph, "float32"))) for graph in GRAPHS])
    ours = np.array([prior_of(Knowledge.none(D, M), graph_prior).log_prob_graph(graph) for graph in GRAPHS])
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], atol=1e-5)
    soft = np.arange(9.0).reshape(3, 3) - 4
    opinion = prior_of(Knowledge.none(D, M).with_edges(soft), graph_prior)
    told = np.array([opinion.log_prob_graph(graph) for graph in GRAPHS])
    np.testing.assert_allclose(told - ours, (GRAPHS * soft).sum(axis=(1, 2)), atol=1e-12)
    assert opinion.forbidden.tolist() == np.eye(3, dtype=bool).tolist()


@pytest.mark.parametrize(
    "target_prior", [TargetPrior(), TargetPrior(2.0, (0.5, 3.0)), TargetPrior(discrete_log_odds=-0.7)]
)
def test_without_knowledge_the_prior_of_targets_is_the_model_s(target_prior: TargetPrior) -> None:
    """Up to a constant, on all masks of one context, the states of a target summed out."""
    prior = structure_prior(UniformGraph(), target_prior, states(m=1))
    ours = np.array([log_prob_mask(prior, mask) for mask in MASKS])
    theirs = np.array([float(target_prior.log_prob_targets(jnp.asarray(mask[None], "float32"))) for mask in MASKS])
    np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], atol=1e-5)


def log_prob_mask(prior: StructurePrior, mask: np.ndarray) -> float:
    """log p(targets of context 0) up to a constant: all states that go with the mask, summed."""
    n_states = prior.state_log_prior.shape[2]
    choices = [range(1, n_states) if on else [0] for on in mask]
    first = StructurePrior(
        prior.edge_log_odds,
        prior.out_degree_log,
        prior.max_parents,
        prior.state_log_prior[:1],
        prior.target_count_log[:1],
    )
    return float(logsumexp([first.log_prob_states(np.array([row], np.int8)) for row in product(*choices)]))


odds_cells = st.lists(st.sampled_from([-INF, -1.5, 0.0, 0.4, INF]), min_size=D, max_size=D)


@given(odds_cells, st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.6]), min_size=1, max_size=D + 1))
def test_the_prior_of_the_number_of_targets_holds_exactly(odds: list[float], probs: list[float]) -> None:
    """p(n) is the one given, restricted to possible numbers, and masks of equal n keep the ratio of their odds."""
    possible = [all(not np.isinf(o) or (o > 0) == on for o, on in zip(odds, mask, strict=True)) for mask in MASKS]
    counts = MASKS.sum(axis=1)
    weights = np.array((probs + [0.0] * D)[: D + 1]) * np.isin(range(D + 1), counts[possible])
    with np.errstate(divide="ignore"):
        log_probs = np.log(probs)
    known = Knowledge.none(D, 1).with_targets(np.array([odds]))
    if not weights.any():
        with pytest.raises(ConfigError, match="number of targets allows no such number"):
            known.count_targets(0, log_probs)
        return
    prior = structure_prior(UniformGraph(), TargetPrior(), states(m=1), known.count_targets(0, log_probs))
    mass = softmax([log_prob_mask(prior, mask) for mask in MASKS])
    np.testing.assert_allclose(np.bincount(counts, mass, D + 1), weights / weights.sum(), atol=1e-12)
    assert (mass[~np.array(possible)] == 0).all()
    finite = np.where(np.isinf(odds), 0.0, odds)
    for one, other in product(np.flatnonzero(mass), repeat=2):
        if counts[one] == counts[other]:
            assert np.log(mass[one] / mass[other]) == pytest.approx((MASKS[one] - MASKS[other]) @ finite, abs=1e-9)


@given(cells)
def test_known_targets_leave_no_other_masks(known_cells: list[float]) -> None:
    known = np.array(known_cells).reshape(M, D)
    prior = prior_of(Knowledge.none(D, M).known_targets(known))
    for row in product(range(3), repeat=D):
        chosen = np.array([row, row], np.int8)
        agrees = (np.isnan(known) | (known == (chosen > 0))).all()
        assert np.isfinite(prior.log_prob_states(chosen)) == agrees


def test_candidates_and_no_opinion() -> None:
    known = Knowledge.none(D, M).candidates(1, [2])
    assert known.target_log_odds.tolist() == [[0, 0, 0], [-INF, -INF, 0]]
    assert same(Knowledge.none(D, M).known_targets(None), Knowledge.none(D, M))
    empty = structure_prior(UniformGraph(), TargetPrior(), states(m=0))
    assert empty.log_prob_states(np.zeros((0, D), np.int8)) == 0
    assert np.isfinite(TargetPrior().log_odds(1))


def test_a_limit_for_speed_gives_way_to_required_edges_and_a_known_limit_does_not() -> None:
    both = Knowledge.none(D, M).require(0, 2).require(1, 2)
    assert prior_of(both, max_parents=1).max_parents == 2
    assert prior_of(Knowledge.none(D, M), max_parents=1).max_parents == 1
    assert prior_of(Knowledge.none(D, M)).max_parents == D - 1
    assert prior_of(Knowledge.none(D, M).limit_parents(9).limit_parents(0), max_parents=1).max_parents == 0


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
    (lambda: prior_of(Knowledge.none(D, M + 1)), "3 contexts and 3 variables and the data have 2 and 3"),
    (lambda: structure_prior(UniformGraph(), TargetPrior(), states(0), both_targets()), "no effect"),
]


@pytest.mark.parametrize(("build", "expected"), CONTRADICTIONS, ids=[expected for _, expected in CONTRADICTIONS])
def test_contradictions_are_refused_in_one_sentence(build: Callable[[], object], expected: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        build()
    message = str(refusal.value)
    assert expected in message and "; " in message
    assert message.endswith(".") and ". " not in message and "\n" not in message


def test_a_prior_of_one_s_own_says_what_it_lacks() -> None:
    class Own(AbstractGraphPrior):
        def log_prob(self, graph):
            return jnp.zeros(())

    with pytest.raises(ConfigError, match="graph prior Own does not say"):
        prior_of(Knowledge.none(D, M), Own())
