import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bacadi.errors import ConfigError
from bacadi.graph.dag import find_cycle, is_acyclic, topological_order
from bacadi.graph.enumerate import all_dags, all_digraphs

digraphs = st.integers(1, 7).flatmap(lambda d: arrays(np.int8, (d, d), elements=st.integers(0, 1)))


def h(graphs: np.ndarray) -> np.ndarray:
    """tr[(I + G/d)^d] - d, zero exactly for acyclic graphs (Yu et al., 2019)."""
    d = graphs.shape[-1]
    return np.trace(np.linalg.matrix_power(np.eye(d) + graphs / d, d), axis1=-2, axis2=-1) - d


@pytest.mark.parametrize(("d", "count"), [(1, 1), (2, 3), (3, 25), (4, 543), (5, 29281)])
def test_number_of_dags_is_oeis_a003024(d, count):
    dags = all_dags(d)
    assert len(dags) == count
    assert len(np.unique(dags.reshape(count, -1), axis=0)) == count
    assert is_acyclic(dags).all()


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_dags_are_the_acyclic_digraphs(d):
    graphs = all_digraphs(d)
    acyclic = {graph.tobytes() for graph in graphs[is_acyclic(graphs)]}
    assert acyclic == {graph.tobytes() for graph in all_dags(d)}


def test_h_is_zero_exactly_for_the_acyclic_graphs_of_four_nodes():
    graphs = all_digraphs(4)
    values = h(graphs)
    # The smallest positive value belongs to a single 4-cycle: 4 closed walks of weight (1/4)^4.
    assert (is_acyclic(graphs) == (np.abs(values) < 1e-9)).all()
    assert values[~is_acyclic(graphs)].min() >= 4 / 4**4 - 1e-9


@given(digraphs)
def test_agrees_with_networkx(graph):
    expected = nx.is_directed_acyclic_graph(nx.from_numpy_array(graph, create_using=nx.DiGraph))
    assert bool(is_acyclic(graph)) == expected
    assert (abs(float(h(graph))) < 1e-9) == expected
    cycle = find_cycle(graph)
    assert (cycle is None) == expected
    if cycle is None:
        place = np.argsort(topological_order(graph))
        assert all(place[i] < place[j] for i, j in np.argwhere(graph))
    else:
        assert len(set(cycle)) == len(cycle)
        assert all(graph[i, j] for i, j in zip(cycle, cycle[1:] + cycle[:1], strict=True))
        with pytest.raises(ValueError, match="cycle"):
            topological_order(graph)


def test_batches_and_types():
    batch = np.zeros((2, 3, 4, 4), dtype=bool)
    batch[1, 2, 0, 1] = batch[1, 2, 1, 0] = True
    assert is_acyclic(batch).tolist() == [[True] * 3, [True, True, False]]


def test_the_lists_are_read_only_and_bounded():
    with pytest.raises(ValueError, match="read-only"):
        all_dags(3)[0, 0, 1] = 1
    with pytest.raises(ConfigError, match="1 to 5 nodes"):
        all_dags(6)
    with pytest.raises(ConfigError, match="1 to 4 nodes"):
        all_digraphs(5)
