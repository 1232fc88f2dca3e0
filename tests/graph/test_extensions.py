"""Members of equivalence classes against their enumeration and against sempler; chain components; ancestors."""

from collections import defaultdict

import networkx as nx
import numpy as np
import pytest

from bacadi.graph.dag import transitive_closure
from bacadi.graph.enumerate import all_dags, all_digraphs
from bacadi.graph.equivalence import chain_components, consistent_union, cpdag, i_cpdag, orientations_by_source
from bacadi.simulate.graphs import erdos_renyi_dag

from ..members import consistent_extensions
from .test_markov import classes, colliders

# Edges of a DAG of 7 nodes, of its CPDAG and the size of its class; a variable that is the only target of the only
# context, edges of the interventional CPDAG and the size of that class. From sempler 0.2.14 (`utils.dag_to_cpdag`,
# `mec`, `dag_to_icpdag`, `imec`) on DAGs drawn at random; a class of fewer than 8 members was passed over.
SEMPLER = [
    (
        "20 24 30 31 36 41 50 53 56 60 61",
        "20 24 30 31 35 36 41 42 50 53 56 60 61 63 65",
        12,
        4,
        "20 24 30 31 35 36 41 50 53 56 60 61 63 65",
        6,
    ),
    ("15 20 21 30 34 36 61 62", "12 15 16 20 21 26 30 34 36 43 51 61 62 63", 12, 2, "15 20 21 30 34 36 43 61 62 63", 3),
    (
        "20 21 23 26 30 36 40 42 43 46 50 51 52 53 54 56",
        "02 03 04 05 12 15 20 21 23 24 25 26 30 32 34 35 36 40 42 43 45 46 50 51 52 53 54 56 62 63 64 65",
        256,
        3,
        "12 15 20 21 23 24 25 26 30 36 40 42 43 45 46 50 51 52 53 54 56",
        10,
    ),
    (
        "20 31 32 34 41 42 46 50 51 65",
        "20 23 24 31 32 34 41 42 43 46 50 51 56 64 65",
        10,
        6,
        "20 23 24 31 32 34 41 42 43 46 50 51 65",
        6,
    ),
    ("04 14 16 25 31 36", "04 13 14 16 25 31 36 52 61 63", 12, 1, "04 14 16 25 31 36 52", 2),
    (
        "02 03 13 14 32 40 43 51 54 56 60 63",
        "02 03 13 14 15 32 40 41 43 45 51 54 56 60 63 65",
        8,
        1,
        "02 03 13 14 32 40 43 51 54 56 60 63 65",
        2,
    ),
]


def from_edges(text, d=7):
    graph = np.zeros((d, d), dtype=np.int8)
    for i, j in text.split():
        graph[int(i), int(j)] = 1
    return graph


def listed(pdag):
    """All extensions as bytes, after a check that none is there twice."""
    found = [dag.tobytes() for dag in consistent_extensions(pdag)]
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_extensions_of_a_cpdag_are_the_members_of_its_class(d):
    for members in classes(d):
        assert listed(cpdag(members[0])) == {dag.tobytes() for dag in members}


@pytest.mark.parametrize("targets", [[[1, 0, 0, 0]], [[1, 1, 0, 0]], [[0, 1, 1, 0], [0, 0, 1, 1]]])
def test_extensions_of_an_interventional_cpdag_are_the_members_of_its_class(targets):
    for members in classes(4, np.array(targets)):
        assert listed(i_cpdag(members[0], np.array(targets))) == {dag.tobytes() for dag in members}


@pytest.mark.parametrize("d", [2, 3])
def test_extensions_of_any_partially_directed_graph_are_the_dags_that_fit(d):
    """Also graphs that are no CPDAG, such as one with background knowledge."""
    for pdag in all_digraphs(d):
        check_against_definition(pdag)


def test_extensions_of_graphs_of_four_nodes_are_the_dags_that_fit():
    for pdag in all_digraphs(4)[::17]:
        check_against_definition(pdag)


def check_against_definition(pdag):
    arrows, joined = pdag * (1 - pdag.T), (pdag + pdag.T) > 0
    fits = [
        dag
        for dag in by_skeleton(len(pdag))[joined.tobytes()]
        if (dag >= arrows).all() and colliders(dag) == colliders(arrows, joined)
    ]
    if not fits:
        with pytest.raises(ValueError, match="no consistent extension"):
            next(consistent_extensions(pdag))
        return
    assert listed(pdag) == {dag.tobytes() for dag in fits}
    np.testing.assert_array_equal(consistent_union(pdag), np.any(fits, axis=0))


def test_extensions_under_knowledge_are_the_members_that_agree_with_it():
    """Some undirected edges of a CPDAG are given the direction they have in one member."""
    rng = np.random.default_rng(3)
    for d in (5, 6, 6, 7):
        for _ in range(6):
            members = list(consistent_extensions(cpdag(erdos_renyi_dag(rng, d, 1.7))))
            chosen, union = members[rng.integers(len(members))], np.any(members, axis=0)
            known = np.triu(union & union.T) & (rng.random((d, d)) < 0.25)
            known = (known | known.T) & (chosen == 1)
            agreeing = {dag.tobytes() for dag in members if (dag >= known).all()}
            assert listed((union & ~known.T).astype(np.int8)) == agreeing


def by_skeleton(d):
    found = defaultdict(list)
    for dag in all_dags(d):
        found[((dag + dag.T) > 0).tobytes()].append(dag)
    return found


@pytest.mark.parametrize(("dag", "essential", "size", "target", "interventional", "remaining"), SEMPLER)
def test_classes_equal_those_of_sempler(dag, essential, size, target, interventional, remaining):
    dag, targets = from_edges(dag), np.eye(7, dtype=int)[[target]]
    np.testing.assert_array_equal(cpdag(dag), from_edges(essential))
    np.testing.assert_array_equal(i_cpdag(dag, targets), from_edges(interventional))
    assert len(listed(cpdag(dag))) == size
    assert len(listed(i_cpdag(dag, targets))) == remaining


def test_a_clique_has_as_many_extensions_as_orders_and_a_tree_as_many_as_nodes():
    assert len(listed(1 - np.eye(5, dtype=int))) == 120
    star = np.zeros((9, 9), dtype=int)
    star[0, 1:] = star[1:, 0] = 1
    assert len(listed(star)) == 9


def test_chain_components_are_the_parts_of_the_undirected_graph():
    rng = np.random.default_rng(0)
    for _ in range(20):
        pdag = cpdag(erdos_renyi_dag(rng, 12, 1))
        expected = nx.connected_components(nx.from_numpy_array(pdag * pdag.T))
        assert [nodes.tolist() for nodes in chain_components(pdag)] == sorted(map(sorted, expected))


def test_every_source_of_a_component_is_offered_once():
    path = np.eye(4, k=1, dtype=int) + np.eye(4, k=-1, dtype=int)
    roots = dict(orientations_by_source(path, np.arange(4)))
    assert sorted(roots) == [0, 1, 2, 3]
    np.testing.assert_array_equal(np.argwhere(roots[1]), [[1, 0], [1, 2], [2, 3]])


def test_transitive_closure_equals_that_of_networkx():
    rng = np.random.default_rng(0)
    graphs = np.stack([erdos_renyi_dag(rng, 9) for _ in range(5)] + [rng.integers(0, 2, (9, 9))])
    for graph, closure in zip(graphs, transitive_closure(graphs), strict=True):
        expected = nx.transitive_closure(nx.from_numpy_array(graph, create_using=nx.DiGraph), reflexive=False)
        np.testing.assert_array_equal(closure, nx.to_numpy_array(expected) > 0)
