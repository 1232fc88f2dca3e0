"""Adjacency arrays: acyclicity, enumeration, equivalence classes, random DAGs. `graph[i, j] = 1` means i -> j."""

from bacadi.graph.acyclicity import find_cycle, h, is_acyclic, topological_order
from bacadi.graph.enumerate import all_dags, all_digraphs
from bacadi.graph.extensions import (
    chain_components,
    consistent_extensions,
    consistent_union,
    rooted,
    transitive_closure,
)
from bacadi.graph.markov import (
    consistent_extension,
    cpdag,
    i_cpdag,
    markov_equivalent,
    meek_closure,
    skeleton,
    v_structures,
)
from bacadi.graph.random import erdos_renyi_dag, scale_free_dag

__all__ = [
    "all_dags",
    "all_digraphs",
    "chain_components",
    "consistent_extension",
    "consistent_extensions",
    "consistent_union",
    "cpdag",
    "erdos_renyi_dag",
    "find_cycle",
    "h",
    "i_cpdag",
    "is_acyclic",
    "markov_equivalent",
    "meek_closure",
    "rooted",
    "scale_free_dag",
    "skeleton",
    "topological_order",
    "transitive_closure",
    "v_structures",
]
