"""Equivalence classes against their enumeration over all DAGs of up to four nodes."""

from collections import defaultdict

import numpy as np
import pytest

from bacadi.graph.enumerate import all_dags, all_digraphs
from bacadi.graph.equivalence import (
    compelled,
    consistent_extension,
    cpdag,
    i_cpdag,
    meek_closure,
    skeleton,
    v_structures,
)
from bacadi.simulate.graphs import erdos_renyi_dag


def colliders(dag, joined=None):
    """Unshielded colliders by their definition, written apart from the package."""
    d = len(dag)
    joined = dag + dag.T if joined is None else joined
    return frozenset(
        (i, j, k)
        for j in range(d)
        for i in range(d)
        for k in range(i + 1, d)
        if dag[i, j] and dag[k, j] and not joined[i, k]
    )


def class_key(dag, targets=()):
    """Hauser and Bühlmann (2012), Theorem 10: skeleton and v-structures of the DAG, and the skeletons after cutting
    the edges into each context's targets."""
    cuts = []
    for row in targets:
        cut = dag * (1 - np.asarray(row))[None, :]
        cuts.append(((cut + cut.T) > 0).tobytes())
    return ((dag + dag.T) > 0).tobytes(), colliders(dag), tuple(cuts)


def classes(d, targets=()):
    members = defaultdict(list)
    for dag in all_dags(d):
        members[class_key(dag, targets)].append(dag)
    return list(members.values())


@pytest.mark.parametrize(("d", "count"), [(2, 2), (3, 11), (4, 185)])
def test_cpdag_is_the_union_of_its_class(d, count):
    found = classes(d)
    # Number of Markov classes: Gillispie and Perlman (2001), Table 1.
    assert len(found) == count
    for members in found:
        union = np.any(members, axis=0).astype(np.int8)
        for dag in members:
            np.testing.assert_array_equal(cpdag(dag), union)


@pytest.mark.parametrize(
    "targets",
    [
        [[1, 0, 0, 0]],
        [[1, 1, 0, 0]],
        [[1, 1, 1, 1]],
        [[0, 0, 0, 0]],
        [[1, 0, 0, 0], [0, 0, 1, 1]],
        [[0, 1, 1, 0], [0, 0, 1, 1]],
        np.eye(4, dtype=int),
    ],
)
def test_interventional_cpdag_is_the_union_of_its_class(targets):
    targets = np.array(targets)
    for members in classes(4, targets):
        union = np.any(members, axis=0).astype(np.int8)
        for dag in members[:3]:
            np.testing.assert_array_equal(i_cpdag(dag, targets), union)


def test_every_node_targeted_alone_identifies_the_dag():
    for dag in all_dags(4)[::7]:
        np.testing.assert_array_equal(i_cpdag(dag, np.eye(4, dtype=int)), dag)


def test_no_context_gives_the_observational_cpdag():
    for dag in all_dags(4)[::7]:
        np.testing.assert_array_equal(i_cpdag(dag, np.zeros((0, 4), dtype=int)), cpdag(dag))


@pytest.mark.parametrize(("d", "edges_per_node"), [(1, 0), (5, 1.5), (9, 2.5), (9, 4), (30, 2)])
def test_compelled_edges_of_many_dags_are_those_of_all_four_rules_of_meek(d, edges_per_node):
    rng = np.random.default_rng(3)
    dags = np.stack([erdos_renyi_dag(rng, d, edges_per_node) for _ in range(60)]) != 0
    hit = rng.random((len(dags), 2, d)) < rng.choice([0, 0.1, 0.3], (len(dags), 1, 1))
    shown = (hit[:, :, :, None] ^ hit[:, :, None, :]).any(axis=1)
    for dag, pairs, directed in zip(dags, shown, compelled(dags, shown), strict=True):
        known = dag & pairs
        for i, j, k in v_structures(dag):
            known[i, j] = known[k, j] = True
        np.testing.assert_array_equal(skeleton(dag) & ~directed.T, meek_closure(skeleton(dag) & ~known.T))
    assert compelled(dags[:0], shown[:0]).shape == (0, d, d)


def test_v_structures_and_skeleton():
    for dag in all_dags(4)[::5]:
        assert frozenset(map(tuple, v_structures(dag).tolist())) == colliders(dag)
        np.testing.assert_array_equal(skeleton(dag), (dag + dag.T) > 0)


@pytest.mark.parametrize(("d", "every"), [(2, 1), (3, 2), (4, 20)])
def test_extensions_of_a_cpdag_are_members_and_all_are_reached(d, every):
    rng = np.random.default_rng(0)
    for members in classes(d)[::-every]:
        expected = {dag.tobytes() for dag in members}
        # The rarest of at most 24 members is drawn with probability 1/24 or more: 300 draws miss it with 3e-6,
        # over all members and classes looked at below 1e-3.
        found = {consistent_extension(cpdag(members[0]), rng).tobytes() for _ in range(300)}
        assert found == expected


def test_extension_exists_exactly_when_a_dag_fits():
    """All partially directed graphs of three nodes, against the definition."""
    rng = np.random.default_rng(0)
    for pdag in all_digraphs(3):
        arrows = pdag * (1 - pdag.T)
        fits = [
            dag
            for dag in all_dags(3)
            if ((dag + dag.T) > 0).tobytes() == ((pdag + pdag.T) > 0).tobytes()
            and (dag >= arrows).all()
            and colliders(dag) == colliders(arrows, pdag + pdag.T)
        ]
        if fits:
            assert consistent_extension(pdag, rng).tobytes() in {dag.tobytes() for dag in fits}
        else:
            with pytest.raises(ValueError, match="no consistent extension"):
                consistent_extension(pdag, rng)


def test_relabelling_permutes_the_cpdag():
    rng = np.random.default_rng(1)
    for _ in range(10):
        dag = erdos_renyi_dag(rng, 12, 2)
        targets = rng.integers(0, 2, (3, 12))
        order = rng.permutation(12)
        block = np.ix_(order, order)
        np.testing.assert_array_equal(cpdag(dag[block]), cpdag(dag)[block])
        np.testing.assert_array_equal(i_cpdag(dag[block], targets[:, order]), i_cpdag(dag, targets)[block])


def test_extension_of_a_large_cpdag_is_in_its_class():
    rng = np.random.default_rng(2)
    for _ in range(5):
        dag = erdos_renyi_dag(rng, 30, 2)
        extension = consistent_extension(cpdag(dag), rng)
        np.testing.assert_array_equal(cpdag(extension), cpdag(dag))
