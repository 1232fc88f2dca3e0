"""All members of an equivalence class, one by one."""

import numpy as np

from bacadi.graph.equivalence import chain_components, consistent_union, orientations_by_source


def consistent_extensions(pdag):
    """Every DAG with the skeleton, the v-structures and the directed edges of a partially directed graph, once each.

    Of a CPDAG these are the members of the Markov class, of an interventional CPDAG those of its class.
    """
    closed = consistent_union(pdag)
    yield from all_parts(closed, chain_components(closed))


def all_parts(pdag, parts):
    """The graph with every one of these chain components directed in every way; the rest stays as it is."""
    if not parts:
        yield pdag
        return
    nodes, *others = parts
    if len(nodes) == 1:
        yield from all_parts(pdag, others)
        return
    for _, graph in orientations_by_source(pdag, nodes):
        inside = [nodes[part] for part in chain_components(graph[np.ix_(nodes, nodes)])]
        yield from all_parts(graph, inside + others)
