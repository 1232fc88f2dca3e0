"""Adjacency arrays: acyclicity, enumeration, equivalence classes, random DAGs. `graph[i, j] = 1` means i -> j."""

from bacadi.graph.dag import find_cycle, h, is_acyclic, topological_order
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
    rooted,
    skeleton,
    transitive_closure,
    v_structures,
)

__all__ = [
    "all_dags",
    "all_digraphs",
    "chain_components",
    "consistent_extension",
    "consistent_extensions",
    "consistent_union",
    "cpdag",
    "find_cycle",
    "h",
    "i_cpdag",
    "is_acyclic",
    "markov_equivalent",
    "meek_closure",
    "rooted",
    "skeleton",
    "topological_order",
    "transitive_closure",
    "v_structures",
]
