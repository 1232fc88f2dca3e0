"""Yardsticks for graphs and targets whose truth is known. `graph[i, j] = 1` means i -> j."""

from bacadi.metrics.ranking import (
    average_precision,
    edge_auprc,
    prevalence,
    target_auprc,
    target_average_precision,
)
from bacadi.metrics.structure import (
    expected_shd,
    expected_sid,
    structural_hamming_distance,
    structural_intervention_distance,
)

__all__ = [
    "average_precision",
    "edge_auprc",
    "expected_shd",
    "expected_sid",
    "prevalence",
    "structural_hamming_distance",
    "structural_intervention_distance",
    "target_auprc",
    "target_average_precision",
]
