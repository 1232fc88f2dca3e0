"""Figures of a posterior."""

from bacadi.report.plots import plot_edges, plot_particles, plot_targets, save_figure
