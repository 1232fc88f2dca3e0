"""Figures as matplotlib `Figure` objects: no pyplot state, no display, no global settings."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from bacadi.data.text import replacing
from bacadi.errors import ConfigError
from bacadi.posterior.posterior import Posterior
from bacadi.report.layout import GREY, INK, Names, axes_at, colour_bar, heat_map, text_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GAP = 0.16
_MARGIN = 0.2
_HEADER = 0.62
_PANEL_TITLE = 0.22
_FOOTER = 0.24
_BAR = 0.12
_MAX_WIDTH = 13.0


class _Panel(NamedTuple):
    """One column of the small multiples: a graph above its targets."""

    title: str
    graph: Shaped[np.ndarray, "d d"]
    targets: Shaped[np.ndarray, "M d"]
    note: str
    emphasis: bool = False


@dataclass(frozen=True)
class _Grid:
    """Sizes in inches of one block of panels (graphs above targets) and how many go beside each other."""

    cell: float
    d: int
    m: int
    rows: Names
    contexts: Names
    n_panels: int

    @property
    def panel(self) -> float:
        return self.cell * self.d

    @property
    def left(self) -> float:
        return _MARGIN + 0.16 + max(self.rows.inches, self.contexts.inches)

    @property
    def column_names(self) -> float:
        return self.rows.inches if self.rows.turned(self.cell) else 0.16

    @property
    def targets_height(self) -> float:
        return self.cell * self.m

    @property
    def across(self) -> int:
        fitting = max(1, int((_MAX_WIDTH - self.left) / (self.panel + _GAP)))
        blocks = -(-self.n_panels // fitting)
        return -(-self.n_panels // blocks)

    @property
    def block_height(self) -> float:
        below = _GAP + self.targets_height if self.m else 0.0
        return _PANEL_TITLE + self.panel + below + self.column_names + _FOOTER

    @property
    def size(self) -> tuple[float, float]:
        blocks = -(-self.n_panels // self.across)
        width = self.left + self.across * (self.panel + _GAP) + _BAR + 0.5 + _MARGIN
        return max(width, 4.9), _HEADER + blocks * (self.block_height + _GAP) + 0.05


def plot_particles(
    posterior: Posterior,
    truth_graph: Shaped[np.ndarray, "d d"] | None = None,
    truth_targets: Shaped[np.ndarray, "M d"] | None = None,
    n: int = 6,
) -> "Figure":
    """The `n` draws of largest weight beside the truth and the marginal: graphs above, targets below.

    Row i, column j of a graph is the edge i -> j; row k, column i of the targets says whether context k intervenes
    on i. Blue is an edge or a target.
    """
    from matplotlib.figure import Figure

    panels = _panels(posterior, truth_graph, truth_targets, n)
    d, m = posterior.n_variables, posterior.n_contexts
    # Wide enough for the note below a panel, narrow enough for six of them on a page.
    cell = max(float(np.clip(1.9 / d, 0.1, 0.26)), 1.0 / d)
    rows, contexts = Names.fitting(posterior.variables, cell), Names.fitting(posterior.contexts, cell)
    grid = _Grid(cell, d, m, rows, contexts, len(panels))
    figure = Figure(figsize=grid.size, dpi=160)
    text_at(figure, _MARGIN, 0.14, "Posterior over graph and intervention targets", fontsize=11, weight="bold")
    below = "; below: row = context, column = its targets" if m else ""
    text_at(figure, _MARGIN, 0.36, f"blue: edge from row to column{below}", color=GREY)
    for position, panel in enumerate(panels):
        _draw_panel(figure, grid, panel, position)
    bar_left = grid.left + grid.across * (grid.panel + _GAP) + 0.04
    colour_bar(figure, axes_at(figure, bar_left, _HEADER + _PANEL_TITLE, _BAR, min(grid.panel, 1.6)))
    return figure


def plot_edges(posterior: Posterior) -> "Figure":
    """The probability of every edge; row i, column j is i -> j."""
    labels = ("source", "target")
    return _marginal(posterior.edge_probabilities(), (posterior.variables, posterior.variables), "Edges", labels)


def plot_targets(posterior: Posterior) -> "Figure":
    """The probability that a context (row) intervenes on a variable (column)."""
    if not posterior.contexts:
        raise ConfigError("The posterior has no context beside the observational one, so there are no targets to plot.")
    names = (posterior.contexts, posterior.variables)
    return _marginal(posterior.target_probabilities(), names, "Intervention targets", ("context", "variable"))


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Write a figure as the format that the ending of the name says (png, pdf, svg); whole or not at all."""
    kind = Path(path).suffix.lstrip(".").lower()
    supported = figure.canvas.get_supported_filetypes()
    if kind not in supported:
        raise ConfigError(f"A figure cannot be written as '{Path(path).name}'; end the name in .png, .pdf or .svg.")
    with replacing(path) as temporary:
        figure.savefig(temporary, format=kind, facecolor="white")


def _panels(
    posterior: Posterior, truth_graph: np.ndarray | None, truth_targets: np.ndarray | None, n: int
) -> list[_Panel]:
    d, m = posterior.n_variables, posterior.n_contexts
    blank = np.zeros((m, d))
    panels = []
    if truth_graph is not None or truth_targets is not None:
        graph = np.zeros((d, d)) if truth_graph is None else np.asarray(truth_graph)
        targets = blank if truth_targets is None else np.asarray(truth_targets)
        panels.append(_Panel("truth", graph, targets, "", emphasis=True))
    size = f"effective number {posterior.effective_sample_size:.1f}"
    panels.append(_Panel("marginal", posterior.edge_probabilities(), posterior.target_probabilities(), size, True))
    weights = posterior.weights.ravel()
    graphs, targets = posterior.graph.reshape(-1, d, d), posterior.intervention_target.reshape(len(weights), m, d)
    best = [at for at in np.argsort(-weights, kind="stable")[:n] if weights[at] > 0]
    for at in best:
        panels.append(_Panel(f"structure {at + 1}", graphs[at], targets[at], _weight_text(weights[at])))
    return panels


def _weight_text(weight: float) -> str:
    return f"weight {weight:.3f}" if weight >= 0.0005 else "weight < 0.001"


def _draw_panel(figure: "Figure", grid: _Grid, panel: _Panel, position: int) -> None:
    block, column = divmod(position, grid.across)
    left = grid.left + column * (grid.panel + _GAP)
    top = _HEADER + block * (grid.block_height + _GAP)
    middle = left + grid.panel / 2
    text_at(figure, middle, top + 0.02, panel.title, ha="center", weight="bold" if panel.emphasis else "normal")
    top += _PANEL_TITLE
    first = column == 0
    below = None if grid.m else grid.rows
    heat_map(axes_at(figure, left, top, grid.panel, grid.panel), panel.graph, grid.rows if first else None, below)
    top += grid.panel
    if grid.m:
        top += _GAP
        axes = axes_at(figure, left, top, grid.panel, grid.targets_height)
        heat_map(axes, panel.targets, grid.contexts if first else None, grid.rows)
        top += grid.targets_height
    text_at(figure, middle, top + grid.column_names + 0.05, panel.note, ha="center", fontsize=7, color=GREY)


def _marginal(
    values: Float[np.ndarray, "rows columns"],
    names: tuple[tuple[str, ...], tuple[str, ...]],
    title: str,
    labels: tuple[str, str],
) -> "Figure":
    from matplotlib.figure import Figure

    n_rows, n_columns = values.shape
    cell = float(np.clip(6.0 / max(n_rows, n_columns), 0.09, 0.42))
    rows, columns = Names.fitting(names[0], cell), Names.fitting(names[1], cell)
    left, top = _MARGIN + 0.3 + rows.inches, 0.55
    width, height = cell * n_columns, cell * n_rows
    below = (columns.inches if columns.turned(cell) else 0.2) + 0.3 + _MARGIN
    figure = Figure(figsize=(max(left + width + 0.95, 4.0), max(top + height + below, 2.2)), dpi=160)
    text_at(figure, _MARGIN, 0.14, f"{title}: posterior probability", fontsize=11, weight="bold")
    axes = axes_at(figure, left, top, width, height)
    heat_map(axes, values, rows, columns)
    axes.set_ylabel(labels[0], fontsize=8, color=GREY)
    axes.set_xlabel(labels[1], fontsize=8, color=GREY)
    if cell >= 0.3:
        for (i, j), value in np.ndenumerate(values):
            if value >= 0.005:
                ink = "white" if value > 0.55 else INK
                axes.text(j, i, f"{value:.2f}".removeprefix("0"), ha="center", va="center", fontsize=7, color=ink)
    colour_bar(figure, axes_at(figure, left + width + 0.15, top, _BAR, min(max(height, 0.9), 2.0)))
    return figure
