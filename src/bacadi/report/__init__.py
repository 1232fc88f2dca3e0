"""Figures of a posterior, and a page for a person who was not there."""

from bacadi.report.canvas import save_figure
from bacadi.report.charts import plot_changes, plot_checks, plot_convergence, plot_effects, plot_graph, plot_shams
from bacadi.report.heatmaps import plot_edges, plot_structures, plot_targets

PLOTS = {
    "graph": plot_graph,
    "edges": plot_edges,
    "targets": plot_targets,
    "changes": plot_changes,
    "effects": plot_effects,
    "structures": plot_structures,
    "convergence": plot_convergence,
    "checks": plot_checks,
    "shams": plot_shams,
}
"""Figures by the names that `bacadi plot` knows."""
