"""Every move by itself keeps detailed balance, and what a chain carries along is what recomputation gives."""

from dataclasses import replace
from functools import cache
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from bacadi.data.contexts import ContextData
from bacadi.evidence.collapsed import CollapsedPosterior, StructurePrior
from bacadi.evidence.reading import collapse
from bacadi.graph.dag import is_acyclic
from bacadi.graph.enumerate import log_orders
from bacadi.inference.exact.enumeration import enumerate_posterior
from bacadi.inference.exact.local import ExactDraws
from bacadi.inference.mcmc import chain as chains
from bacadi.inference.mcmc.chain import Chains, MoveCounts
from bacadi.inference.mcmc.ladder import Replica, compiled_target, proposals
from bacadi.inference.mcmc.method import MoveWeights
from bacadi.inference.mcmc.start import Orders, Structure, initial
from bacadi.model.effects import EffectMixture, HardGaussian, ShiftGaussian
from bacadi.model.knowledge import Knowledge
from bacadi.model.linear import LinearGaussian
from bacadi.model.model import Model
from bacadi.model.noise import FixedNoise, InferredNoise
from bacadi.model.priors import AbstractGraphPrior, ErdosRenyi, OrderedErdosRenyi, PreferentialAttachment, ScaleFree

from .collapsed_problems import TableEvidence, random_collapsed

NAMES = tuple(MoveWeights.__dataclass_fields__)
N_CHAINS, BETA = 40_000, 0.7
KNOWLEDGE_KINDS = ("tiers", "parents", "known", "candidates", "count")
COLUMN_MOVES = ("toggle_and_column", "reverse_and_redraw")
LINEAR = LinearGaussian(InferredNoise(2.0, 0.5), 1.0, 1.0)
HARD = HardGaussian(FixedNoise(0.5**0.5))
TWO_KINDS = EffectMixture((HardGaussian(InferredNoise(2.0, 0.5), mean_prior_std=1.0), ShiftGaussian(1.0)))


def few_rows(d: int, m: int, n: int = 2) -> ContextData:
    """So few rows that every structure keeps some probability."""
    x = np.random.default_rng(d).normal(size=(n * (m + 1), d))
    names = tuple(f"x{j}" for j in range(d)), tuple(f"k{k}" for k in range(m))
    return ContextData(x, np.repeat(np.arange(m + 1), n), *names, "obs")


def with_random_prior(seed: int, collapsed: CollapsedPosterior, *, counted: bool) -> CollapsedPosterior:
    """The same evidence with a prior that weighs, forbids, requires and counts at random."""
    m, d, n_states = collapsed.prior.state_log_prior.shape
    orders = collapsed.prior.over_orders
    rng = np.random.default_rng(seed)
    prior = random_collapsed(rng, d, m, n_states, constrained=False, counted=counted, over_orders=orders).prior
    odds = prior.edge_log_odds.copy()
    np.fill_diagonal(odds, -np.inf)
    return replace(collapsed, prior=replace(prior, edge_log_odds=odds))


PROBLEMS: dict[str, tuple[CollapsedPosterior, ContextData]] = {
    "three states": (random_collapsed(np.random.default_rng(1), 3, 1, 3, constrained=False), few_rows(3, 1)),
    "constraints": (random_collapsed(np.random.default_rng(22), 4, 1, constrained=True), few_rows(4, 1)),
    "count prior": (random_collapsed(np.random.default_rng(3), 3, 2, counted=True, constrained=False), few_rows(3, 2)),
    "regression": (
        with_random_prior(4, collapse(Model(LINEAR, TWO_KINDS), few_rows(3, 1)), counted=False),
        few_rows(3, 1),
    ),
    "regression, count prior": (
        with_random_prior(5, collapse(Model(LINEAR, HARD), few_rows(3, 2)), counted=True),
        few_rows(3, 2),
    ),
    "regression, four nodes": (
        with_random_prior(7, collapse(Model(LINEAR, HARD), few_rows(4, 1)), counted=False),
        few_rows(4, 1),
    ),
    "regression, no context": (collapse(Model(LINEAR, HARD), few_rows(4, 0)), few_rows(4, 0)),
    "regression, degrees": (collapse(Model(LINEAR, HARD, ScaleFree()), few_rows(4, 1)), few_rows(4, 1)),
    "orders": (random_collapsed(np.random.default_rng(23), 4, 1, constrained=False, over_orders=True), few_rows(4, 1)),
    "regression, orders": (
        with_random_prior(6, collapse(Model(LINEAR, HARD, OrderedErdosRenyi()), few_rows(4, 1)), counted=False),
        few_rows(4, 1),
    ),
}
CASES = [
    (name, kind)
    for name, kind in product(PROBLEMS, NAMES)
    if name.startswith("regression") or kind not in COLUMN_MOVES  # scans need evidence in compiled code
    if "target" not in kind or "no context" not in name
]


def tabled(collapsed: CollapsedPosterior, beta: float) -> CollapsedPosterior:
    """The tempered problem p(G, S) p(D | G, S)^β, every local term in a table."""
    evidence, (m, d, n_states) = collapsed.evidence, collapsed.prior.state_log_prior.shape
    sets = ((np.arange(2**d)[:, None] >> np.arange(d)) & 1).astype(bool)
    digits = (np.arange(n_states**m)[:, None] // n_states ** np.arange(m) % n_states).astype(np.int8)
    table = np.zeros((d, 2**d, n_states**m))
    for j, p in product(range(d), range(2**d)):
        if not sets[p, j]:
            asked = np.full(len(digits), j), np.repeat(sets[p][None], len(digits), axis=0), digits
            table[j, p] = beta * evidence.log_evidences(*asked)
    return replace(collapsed, evidence=TableEvidence(table, m, n_states))


def one_kind(name: str, kind: str) -> chains.CompiledTarget:
    """The target of a problem with moves of one kind alone, which `MoveWeights` refuses: a chain would not get far."""
    target = compiled_target(*PROBLEMS[name], MoveWeights())
    return target._replace(proposals=target.proposals._replace(move_sum=np.cumsum([float(n == kind) for n in NAMES])))


def lopsided(target: chains.CompiledTarget, seed: int) -> chains.CompiledTarget:
    """Proposal weights that differ between pairs and between i → j and j → i; of three candidates scans see two."""
    rng, old = np.random.default_rng(seed), target.proposals
    edges, targets = (
        rng.permuted(np.geomspace(0.1, 1, old.edge_log.size)),
        rng.permuted(np.geomspace(0.1, 1, old.target_log.size)),
    )
    edges, targets = edges.reshape(old.edge_log.shape), targets.reshape(old.target_log.shape)
    np.fill_diagonal(edges, 0.0)
    drawn = proposals(edges, targets, old.move_sum)
    return target._replace(proposals=drawn._replace(near=np.ascontiguousarray(drawn.near[:, :2])))


def keys_of(graphs: np.ndarray, states: np.ndarray, n_states: int) -> np.ndarray:
    """A number for each pair (G, S)."""
    flat = states.reshape(len(states), -1).astype(np.int64) @ n_states ** np.arange(states[0].size)
    return flat * 2 ** graphs[0].size + graphs.reshape(len(graphs), -1).astype(np.int64) @ 2 ** np.arange(
        graphs[0].size
    )


@cache
def draws_of(name: str) -> ExactDraws:
    """Draws of the tempered posterior of a problem, made once for all moves."""
    return enumerate_posterior(tabled(PROBLEMS[name][0], BETA)).draws(np.random.default_rng(11), N_CHAINS)


def many_chains(replica: Replica, chosen: np.ndarray, places: np.ndarray) -> Replica:
    """The replica with a chain for each entry of `chosen`, which says where it starts, and the order of `places`."""
    n, old = len(chosen), replica.chains
    fields = {name: value[chosen] for name, value in old._asdict().items() if name not in ("at_level", "rng")}
    replica.chains = Chains(**fields | {"place": places, "at_level": np.arange(n), "rng": old.rng})
    replica.counts = MoveCounts(np.zeros((n, 8, 2), np.int64), np.zeros((n, 2)))
    replica.betas = np.full(n, BETA)  # neighbours of one temperature exchange places, which changes no chain
    return replica


def one_step(name: str, target: chains.CompiledTarget) -> tuple[np.ndarray, np.ndarray]:
    """Independent draws of the tempered posterior before and after one move."""
    collapsed, before, rng = PROBLEMS[name][0], draws_of(name), np.random.default_rng(12)
    n_states = collapsed.prior.state_log_prior.shape[2]
    one = keys_of(before.graphs, before.states, n_states)
    _, first, chosen = np.unique(one, return_index=True, return_inverse=True)
    starts = [Structure(before.graphs[i], before.states[i]) for i in first]
    places = np.array([random_places(rng, graph) for graph in before.graphs])
    replica = many_chains(Replica.at(collapsed, target, starts, rng), chosen, places)
    replica.advance(1, 1)
    return one, keys_of(replica.chains.edges, replica.chains.states.transpose(0, 2, 1), n_states)


@cache
def all_places(edges: bytes, d: int) -> np.ndarray:
    """The places of the nodes in every causal order of a graph."""
    graph = np.frombuffer(edges, np.int8).reshape(d, d)
    before, after = np.nonzero(graph)
    places = np.array(list(permutations(range(d))))
    return places[(places[:, before] < places[:, after]).all(axis=1)]


def random_places(rng: np.random.Generator, graph: np.ndarray) -> np.ndarray:
    possible = all_places(graph.astype(np.int8).tobytes(), len(graph))
    return possible[rng.integers(len(possible))]


def asymmetry(one: np.ndarray, two: np.ndarray) -> tuple[float, int]:
    """p-value of Bowker's test that x → y is seen as often as y → x, and the number of moves seen.

    Pairs seen fewer than ten times are summed up.
    """
    moved = one != two
    pairs = np.stack([np.minimum(one, two), np.maximum(one, two)], axis=1)[moved]
    _, number = np.unique(pairs, axis=0, return_inverse=True)
    up = np.bincount(number.ravel(), weights=(one < two)[moved])
    both = np.bincount(number.ravel()).astype(float)
    few = both < 10
    up, both = np.append(up[~few], up[few].sum()), np.append(both[~few], both[few].sum())
    up, both = up[both > 0], both[both > 0]
    return float(chi2.sf(((2 * up - both) ** 2 / both).sum(), len(both))), int(moved.sum())


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_move_and_its_way_back_are_as_frequent(name: str, kind: str) -> None:
    """π(x) K(x, y) = π(y) K(y, x), from draws x of π and one move each. False-alarm rate 1e-5 a case."""
    target = lopsided(one_kind(name, kind), 6)
    p_value, moved = asymmetry(*one_step(name, target))
    assert p_value > 1e-5
    assert moved > 200


@pytest.mark.parametrize("kind", ["reverse", "swap_parent", "swap_target", "reverse_and_redraw"])
def test_a_wrong_hastings_ratio_is_found(kind: str) -> None:
    """The test above has power: a ratio that leaves out the proposal weights is found out."""
    name = "regression" if "target" in kind else "regression, no context"
    target = lopsided(one_kind(name, kind), 6)
    even = target.proposals._replace(
        edge_log=np.zeros_like(target.proposals.edge_log), target_log=np.zeros_like(target.proposals.target_log)
    )
    p_value, _ = asymmetry(*one_step(name, target._replace(proposals=even)))
    assert p_value < 1e-8


GRAPHS = {
    "no edge": [],
    "one edge": [(2, 0)],
    "a node between its parent and its children": [(3, 1), (1, 0), (1, 2)],
    "parents in common": [(0, 3), (2, 3)],
    "one order": [(1, 3), (3, 0), (0, 2)],
}


def order_kernel(graph: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Probabilities between causal orders: any node is taken out and put back, anywhere the order stays causal."""
    number, d = {tuple(order): i for i, order in enumerate(places.tolist())}, len(graph)
    kernel = np.zeros((len(places), len(places)))
    for i, node in product(range(len(places)), range(d)):
        rest = [other for other in np.argsort(places[i]).tolist() if other != node]
        put_back = [np.argsort([*rest[:at], node, *rest[at:]]).tolist() for at in range(d)]
        causal = [number[tuple(order)] for order in put_back if tuple(order) in number]
        for j in causal:
            kernel[i, j] += 1 / (d * len(causal))
    return kernel


@pytest.mark.parametrize("prior", [OrderedErdosRenyi(), PreferentialAttachment()], ids=["independent", "preferential"])
@pytest.mark.parametrize("name", GRAPHS)
def test_a_node_moves_to_every_free_place_of_the_order_equally_often(name: str, prior: AbstractGraphPrior) -> None:
    """From every causal order of a graph whose edges stay, one step to every other with its probability.

    Pearson's test over all pairs of orders, false-alarm rate 1e-5 per case. The probabilities are symmetric, so
    that the orders of a graph are visited equally often.
    """
    d, n = 4, 2000
    graph = np.zeros((d, d), np.int8)
    graph[tuple(np.array(GRAPHS[name], int).reshape(-1, 2).T)] = 1
    data, known = few_rows(d, 1), Knowledge.none(d, 1).with_edges(np.where(graph == 1, np.inf, -np.inf))
    collapsed, places = collapse(Model(LINEAR, HARD, prior), data, known), all_places(graph.tobytes(), d)
    kernel = order_kernel(graph, places)
    np.testing.assert_allclose(kernel, kernel.T, atol=1e-12)
    target, rng = compiled_target(collapsed, data, MoveWeights()), np.random.default_rng(13)
    replica = Replica.at(collapsed, target, [Structure(graph, np.zeros((1, d), np.int8))], rng)
    before = np.repeat(np.arange(len(places)), n)
    replica = many_chains(replica, np.zeros(len(before), int), places[before])
    replica.advance(1, 1)
    assert (replica.chains.edges == graph).all()
    after = [np.flatnonzero((places == place).all(axis=1)) for place in replica.chains.place]
    assert all(len(found) == 1 for found in after)  # the order is causal still
    counts = np.zeros(kernel.shape)
    np.add.at(counts, (before, np.concatenate(after)), 1)
    assert not counts[kernel == 0].any()
    expected = n * kernel[kernel > 0]
    freedom = len(expected) - len(places)
    distance = ((counts[kernel > 0] - expected) ** 2 / expected).sum()
    assert distance < (chi2.isf(1e-5, freedom) if freedom else 1e-9)


def check_bookkeeping(replica: Replica, collapsed: CollapsedPosterior) -> None:
    chains, prior = replica.chains, collapsed.prior
    for c in range(len(chains.edges)):
        graph, states = chains.edges[c].astype(np.int8), chains.states[c].T.copy()
        local = [
            collapsed.evidence.log_evidence(j, graph[:, j].astype(bool), states[:, j].copy()) for j in range(len(graph))
        ]
        np.testing.assert_allclose(chains.score[c], local, atol=1e-8)
        expected = prior.log_prob_ordered(graph) + prior.log_prob_states(states)
        np.testing.assert_allclose(chains.log_prior[c], expected, atol=1e-8)
        total = chains.score[c].sum() + chains.log_prior[c] + (log_orders(graph) if prior.over_orders else 0.0)
        np.testing.assert_allclose(total, collapsed.log_posterior(graph, states), atol=1e-8)
        if prior.over_orders:
            assert sorted(chains.place[c]) == list(range(len(graph)))
            assert all(chains.place[c, i] < chains.place[c, j] for i, j in np.argwhere(graph))
        assert np.array_equal(chains.n_targets[c], (states > 0).sum(axis=1))
        for j in range(len(graph)):
            assert chains.parents[c, j, : chains.n_parents[c, j]].tolist() == np.flatnonzero(graph[:, j]).tolist()
    assert sorted(chains.at_level) == list(range(len(chains.edges)))


def bookkeeping_problem(name: str) -> tuple[CollapsedPosterior, ContextData]:
    data = few_rows(5, 3, 4)
    orders = "orders" in name
    if name.startswith("table"):
        return random_collapsed(np.random.default_rng(7), 5, 3, 3, counted=True, over_orders=orders), data
    model = Model(LINEAR, TWO_KINDS, OrderedErdosRenyi() if orders else ErdosRenyi())
    return with_random_prior(8, collapse(model, data), counted=True), data


@pytest.mark.parametrize("name", ["table", "regression", "table, orders", "regression, orders"])
def test_what_chains_carry_along_is_what_recomputation_gives(name: str) -> None:
    """After every sweep of two moves, at all temperatures, with out-degrees, counts and constraints."""
    collapsed, data = bookkeeping_problem(name)
    target, rng = compiled_target(collapsed, data, MoveWeights()), np.random.default_rng(9)
    replica = Replica.at(collapsed, target, initial(rng, Orders(collapsed), data, 4), rng)
    replica.betas = np.geomspace(1, 0.05, 4)
    check_bookkeeping(replica, collapsed)
    for sweep in range(1, 121):
        replica.advance(sweep, 2)
        check_bookkeeping(replica, collapsed)
    replica.advance(1000, 10)
    check_bookkeeping(replica, collapsed)
    accepted = replica.counts.moves[:, :, 1].sum(axis=0)
    assert (accepted > 0)[: 6 if name.startswith("table") else 8].all()


def random_knowledge(seed: int, kinds: frozenset[str], d: int = 5, m: int = 3) -> Knowledge:
    """Constraints of the kinds that do not contradict each other: they leave room for a hidden structure."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(d)
    graph = np.zeros((d, d), bool)
    graph[np.ix_(order, order)] = np.triu(rng.random((d, d)) < 0.4, 1)
    targets = rng.random((m, d)) < 0.3
    known = Knowledge.none(d, m)
    free, kept = ~graph & ~np.eye(d, dtype=bool), rng.random((d, d)) < 0.4
    known = known.with_edges(np.where(free & kept, -np.inf, np.where(graph & kept, np.inf, rng.normal(size=(d, d)))))
    if "tiers" in kinds:
        tier = np.zeros(d, int)
        tier[order] = np.sort(rng.integers(0, 3, d))
        known = known.tiers(tier)
    if "parents" in kinds:
        known = known.limit_parents(max(int(graph.sum(axis=0).max()), 1))
    if "known" in kinds:
        known = known.known_targets(np.where(rng.random((m, d)) < 0.3, targets.astype(float), np.nan))
    if "candidates" in kinds:
        known = known.candidates(0, np.flatnonzero(targets[0] | (rng.random(d) < 0.4)).tolist())
    if "count" in kinds:
        k = int(rng.integers(m))
        log_probs = np.where(rng.random(d + 1) < 0.5, -np.inf, rng.normal(size=d + 1))
        log_probs[targets[k].sum()] = 0.0
        known = known.count_targets(k, log_probs)
    return known


def check_constraints(prior: StructurePrior, known: Knowledge, graphs: np.ndarray, states: np.ndarray) -> None:
    """By the knowledge itself, not by the arrays the sampler reads."""
    odds, of_targets, targets = known.edge_log_odds, known.target_log_odds, states > 0
    assert is_acyclic(graphs).all()
    assert not graphs[:, np.isneginf(odds)].any() and graphs[:, np.isposinf(odds)].all()
    assert known.max_parents is None or graphs.sum(axis=1).max() <= known.max_parents
    assert not targets[:, np.isneginf(of_targets)].any() and targets[:, np.isposinf(of_targets)].all()
    if known.target_count_log is not None:
        counts = targets.sum(axis=2)
        assert (known.target_count_log[np.arange(counts.shape[1]), counts] > -np.inf).all()
    assert all(
        np.isfinite(prior.log_prob_graph(g) + prior.log_prob_states(s)) for g, s in zip(graphs, states, strict=True)
    )


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), kinds=st.frozensets(st.sampled_from(KNOWLEDGE_KINDS)))
def test_no_chain_ever_breaks_a_constraint(seed: int, kinds: frozenset[str]) -> None:
    """At every temperature, from the start on."""
    known = random_knowledge(seed, kinds)
    data = few_rows(5, 3, 3)
    collapsed = collapse(Model(LINEAR, TWO_KINDS), data, known)
    target, rng = compiled_target(collapsed, data, MoveWeights()), np.random.default_rng(10)
    replica = Replica.at(collapsed, target, initial(rng, Orders(collapsed), data, 6), rng)
    replica.betas = np.geomspace(1, 0.01, 6)
    for sweep in range(13):
        replica.advance(sweep, 8)
        states = replica.chains.states.transpose(0, 2, 1)
        check_constraints(collapsed.prior, known, replica.chains.edges.astype(np.int8), states)
