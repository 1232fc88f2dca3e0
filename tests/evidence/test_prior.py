"""The prior of graph and states: constraints hold on all small graphs and masks, and numbers of targets exactly."""

from collections.abc import Callable
from itertools import permutations, product

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from bacadi.errors import ConfigError
from bacadi.evidence.collapsed import EffectStates, StructurePrior, structure_prior
from bacadi.graph.enumerate import all_dags
from bacadi.model.knowledge import Knowledge, Labels
from bacadi.model.model import Model
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
GRAPHS = all_dags(D)
GRAPH_PRIORS = [ErdosRenyi(0.5), ErdosRenyi(), ScaleFree(2.5), UniformGraph()]
MASKS = np.array(list(product([0, 1], repeat=D)))
UNIFORM = Model(graph_prior=UniformGraph())

nodes = st.integers(0, D - 1)
pairs = st.tuples(nodes, nodes).filter(lambda pair: pair[0] != pair[1])
cells = st.lists(st.sampled_from([0.0, 1.0, NAN]), min_size=M * D, max_size=M * D)


def states(n_effects: int = 2, d: int = D, m: int = M) -> EffectStates:
    """Hard effects of equal share."""
    kind = np.array([0] + [1] * n_effects, np.int8)
    share = np.array([0.0] + [-np.log(max(n_effects, 1))] * n_effects)
    return EffectStates(tuple(f"s{s}" for s in kind), kind, np.zeros(len(kind)), share, np.zeros((m, d)))


def prior_of(known: Knowledge, graph_prior: AbstractGraphPrior | None = None, **more: int) -> StructurePrior:
    return structure_prior(Model(graph_prior=graph_prior or ErdosRenyi(0.5)), states(), known, **more)


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
    prior = structure_prior(UNIFORM.replace(target_prior=target_prior), states(m=1))
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
    prior = structure_prior(UNIFORM, states(m=1), known.count_targets(0, log_probs))
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


def test_no_context_and_one_variable() -> None:
    empty = structure_prior(UNIFORM, states(m=0))
    assert empty.log_prob_states(np.zeros((0, D), np.int8)) == 0
    assert np.isfinite(TargetPrior().log_odds(1))


def test_a_limit_for_speed_gives_way_to_required_edges_and_a_known_limit_does_not() -> None:
    both = Knowledge.none(D, M).require(0, 2).require(1, 2)
    assert prior_of(both, max_parents=1).max_parents == 2
    assert prior_of(Knowledge.none(D, M), max_parents=1).max_parents == 1
    assert prior_of(Knowledge.none(D, M)).max_parents == D - 1
    assert prior_of(Knowledge.none(D, M).limit_parents(9).limit_parents(0), max_parents=1).max_parents == 0


def test_a_prior_of_one_s_own_says_what_it_lacks() -> None:
    class Own(AbstractGraphPrior):
        def log_prob(self, graph):
            return jnp.zeros(())

    with pytest.raises(ConfigError, match="graph prior Own does not say"):
        prior_of(Knowledge.none(D, M), Own())


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: prior_of(Knowledge.none(D, M + 1)), "3 contexts and 3 variables and the data have 2 and 3"),
    (lambda: structure_prior(UNIFORM, states(0), both_targets()), "no effect"),
]


def both_targets() -> Knowledge:
    known = Knowledge.none(D, M, Labels(("a", "b", "c"), ("ko", "drug")))
    return known.known_targets(np.array([[1.0, 1, NAN], [NAN] * 3]))


@pytest.mark.parametrize(("build", "expected"), REFUSED, ids=[expected for _, expected in REFUSED])
def test_knowledge_that_does_not_fit_is_refused_in_one_sentence(build: Callable[[], object], expected: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        build()
    message = str(refusal.value)
    assert expected in message and "; " in message
    assert message.endswith(".") and ". " not in message and "\n" not in message
