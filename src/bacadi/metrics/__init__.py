"""Metrics of graphs, targets, probabilities and predictions whose truth is known. `graph[i, j] = 1` is i -> j.

`bacadi.metrics.evaluate.evaluate` computes all that apply to a posterior; `metric` adds one of your own to them.
"""

from bacadi.metrics.calibration import Forecasts, brier_score, edge_forecasts, pooled, target_forecasts
from bacadi.metrics.classes import class_distances, expected_sid_bounds, favour_undirected, sid_bounds
from bacadi.metrics.effects import effect_mean_error, total_effect_rmse
from bacadi.metrics.evaluate import Comparison, metric
from bacadi.metrics.likelihood import effect_log_density, interventional_nll, predictive_nll, untargeted
from bacadi.metrics.ranking import average_precision, edge_auprc, target_auprc, target_average_precision
from bacadi.metrics.structure import expected_shd, expected_sid, structural_hamming_distance
