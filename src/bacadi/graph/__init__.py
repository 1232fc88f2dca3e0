"""Adjacency arrays: acyclicity, enumeration, equivalence classes. `graph[i, j] = 1` means i -> j."""

from bacadi.graph.dag import find_cycle, is_acyclic, topological_order, transitive_closure
from bacadi.graph.enumerate import all_dags, all_digraphs
from bacadi.graph.equivalence import (
    chain_components,
    consistent_extension,
    consistent_extensions,
    consistent_union,
    cpdag,
    i_cpdag,
    markov_equivalent,
    meek_closure,
    orientations_by_source,
    skeleton,
    v_structures,
)
