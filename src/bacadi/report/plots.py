"""Figures of a posterior as matplotlib `Figure` objects: no pyplot state, no display, no global settings.

Everything is placed by inches from the upper left corner, so that every cell of every heat map has the same size.
"""

from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from bacadi.data.text import replacing
from bacadi.errors import ConfigError
from bacadi.posterior.posterior import Posterior

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS, _INK, _GREY, _LINE = "Blues", "#22303c", "#66727c", "#d5dce2"
_LONGEST_NAME = 14
Matrix = Shaped[np.ndarray, "rows columns"]
Names = tuple[str, ...]
_INCHES_PER_POINT = 1 / 72
_GAP, _MARGIN, _HEADER, _PANEL_TITLE, _FOOTER, _BAR, _MAX_WIDTH = 0.16, 0.2, 0.62, 0.22, 0.24, 0.12, 13.0  # inches


def plot_particles(
    posterior: Posterior, truth_graph: Matrix | None = None, truth_targets: Matrix | None = None, n: int = 6
) -> "Figure":
    """Draw the `n` structures of largest weight beside the truth and the marginal: graphs above, targets below.

    Row i, column j of a graph is the edge i -> j; row k, column i of the targets says whether context k intervenes
    on i. Blue is an edge or a target.

    >>> nothing = np.zeros((1, 1, 2, 2), np.int8), np.zeros((1, 1, 0, 2), np.int8)
    >>> figure = plot_particles(Posterior(*nothing, np.zeros((1, 1)), ("a", "b"), ()))
    >>> [text.get_text() for text in figure.texts][2:]
    ['marginal', 'effective number 1.0', 'structure 1', 'weight 1.000']
    """
    from matplotlib.figure import Figure

    panels = _panels(posterior, truth_graph, truth_targets, n)
    d, m = posterior.n_variables, posterior.n_contexts
    # Wide enough for the note below a panel, narrow enough for six of them on a page.
    cell = max(float(np.clip(1.9 / d, 0.1, 0.26)), 1.0 / d)
    rows, contexts = _Names(posterior.variables, cell), _Names(posterior.contexts, cell)
    grid = _Grid(cell, d, m, rows, contexts, len(panels))
    figure = Figure(figsize=grid.size, dpi=160)
    _text_at(figure, _MARGIN, 0.14, "Posterior over graph and intervention targets", fontsize=11, weight="bold")
    below = "; below: row = context, column = its targets" if m else ""
    _text_at(figure, _MARGIN, 0.36, f"blue: edge from row to column{below}", color=_GREY)
    for position, panel in enumerate(panels):
        _draw_panel(figure, grid, panel, position)
    bar_left = grid.left + grid.across * (grid.panel + _GAP) + 0.04
    _colour_bar(figure, _axes_at(figure, bar_left, _HEADER + _PANEL_TITLE, _BAR, min(grid.panel, 1.6)))
    return figure


def plot_edges(posterior: Posterior) -> "Figure":
    """Draw the probability of every edge; row i, column j is i -> j.

    >>> nothing = np.zeros((1, 1, 2, 2), np.int8), np.zeros((1, 1, 0, 2), np.int8)
    >>> plot_edges(Posterior(*nothing, np.zeros((1, 1)), ("a", "b"), ())).axes[0].get_xlabel()
    'target'
    """
    return _marginal(posterior.edge_probabilities(), (posterior.variables,) * 2, "Edges", ("source", "target"))


def plot_targets(posterior: Posterior) -> "Figure":
    """Draw the probability that a context (row) intervenes on a variable (column).

    >>> nothing = np.zeros((1, 1, 2, 2), np.int8), np.zeros((1, 1, 1, 2), np.int8)
    >>> plot_targets(Posterior(*nothing, np.zeros((1, 1)), ("a", "b"), ("ko",))).axes[0].get_xlabel()
    'variable'
    """
    if not posterior.contexts:
        raise ConfigError("The posterior has no context beside the observational one, so there are no targets to plot.")
    names = posterior.contexts, posterior.variables
    return _marginal(posterior.target_probabilities(), names, "Intervention targets", ("context", "variable"))


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Write a figure in the format that the ending of the name says (png, pdf, svg); whole or not at all.

    >>> import tempfile
    >>> from matplotlib.figure import Figure
    >>> path = Path(tempfile.mkdtemp()) / "empty.png"
    >>> save_figure(Figure(), path)
    >>> path.read_bytes()[1:4]
    b'PNG'
    """
    kind = Path(path).suffix.lstrip(".").lower()
    if kind not in figure.canvas.get_supported_filetypes():
        raise ConfigError(f"A figure cannot be written as '{Path(path).name}'; end the name in .png, .pdf or .svg.")
    with replacing(path) as temporary:
        figure.savefig(temporary, format=kind, facecolor="white")


class _Panel(NamedTuple):
    """One of the small multiples: a graph above its targets."""

    title: str
    graph: Matrix
    targets: Matrix
    note: str
    emphasis: bool = False


def _panels(posterior: Posterior, truth_graph: Matrix | None, truth_targets: Matrix | None, n: int) -> list[_Panel]:
    d, m, panels = posterior.n_variables, posterior.n_contexts, []
    if truth_graph is not None or truth_targets is not None:
        graph = np.zeros((d, d)) if truth_graph is None else np.asarray(truth_graph)
        targets = np.zeros((m, d)) if truth_targets is None else np.asarray(truth_targets)
        panels.append(_Panel("truth", graph, targets, "", emphasis=True))
    size = f"effective number {posterior.effective_sample_size:.1f}"
    panels.append(_Panel("marginal", posterior.edge_probabilities(), posterior.target_probabilities(), size, True))
    weights = posterior.weights.ravel()
    graphs, targets = posterior.graph.reshape(-1, d, d), posterior.intervention_target.reshape(len(weights), m, d)
    for at in np.argsort(-weights, kind="stable")[:n]:
        if weights[at] > 0:
            note = f"weight {weights[at]:.3f}" if weights[at] >= 0.0005 else "weight < 0.001"
            panels.append(_Panel(f"structure {at + 1}", graphs[at], targets[at], note))
    return panels


class _Names:
    """Names along an axis, as they are drawn: shortened, and none where the cells are too small to read them.

    The type fits a cell of `cell` inches and has at most 8 points; below 4.5 points there are no names. `inches` is
    the room that the longest name takes along its own direction.
    """

    def __init__(self, names: Names, cell: float) -> None:
        self.size = min(8.0, 0.8 * cell / _INCHES_PER_POINT)
        self.shown = tuple(_shortened(name) for name in names) if self.size >= 4.5 else ()
        self.inches = max(map(len, self.shown), default=0) * 0.62 * self.size * _INCHES_PER_POINT + 0.06

    def below(self, cell: float, level: float) -> float:
        """Room that names below cells of this width take: `level` inches, or their length if they have to be turned."""
        return self.inches if self.inches > cell else level


def _shortened(name: str) -> str:
    """Start and end of a long name (names often share their start); a dollar sign would begin a formula."""
    name = " ".join(name.split())
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 6]}…{name[-5:]}"
    return name.replace("$", r"\$")


class _Grid:
    """Sizes in inches of a block of panels (graphs above targets) and how many go beside each other."""

    def __init__(self, cell: float, d: int, m: int, rows: _Names, contexts: _Names, n_panels: int) -> None:
        self.cell, self.m, self.rows, self.contexts, self.panel = cell, m, rows, contexts, cell * d
        self.left = _MARGIN + 0.16 + max(rows.inches, contexts.inches)
        fitting = max(1, int((_MAX_WIDTH - self.left) / (self.panel + _GAP)))
        blocks = ceil(n_panels / fitting)
        self.across = ceil(n_panels / blocks)
        targets = _GAP + cell * m if m else 0.0
        self.block_height = _PANEL_TITLE + self.panel + targets + rows.below(cell, 0.16) + _FOOTER
        width = self.left + self.across * (self.panel + _GAP) + _BAR + 0.5 + _MARGIN
        self.size = max(width, 4.9), _HEADER + ceil(n_panels / self.across) * (self.block_height + _GAP) + 0.05


def _draw_panel(figure: "Figure", grid: _Grid, panel: _Panel, position: int) -> None:
    block, column = divmod(position, grid.across)
    left = grid.left + column * (grid.panel + _GAP)
    top = _HEADER + block * (grid.block_height + _GAP)
    middle = left + grid.panel / 2
    _text_at(figure, middle, top + 0.02, panel.title, ha="center", weight="bold" if panel.emphasis else "normal")
    top += _PANEL_TITLE
    parts = [(panel.graph, grid.rows)] + ([(panel.targets, grid.contexts)] if grid.m else [])
    for values, names in parts:
        last = values is parts[-1][0]
        axes = _axes_at(figure, left, top, grid.panel, grid.cell * len(values))
        _heat_map(axes, values, names if column == 0 else None, grid.rows if last else None)
        top += grid.cell * len(values) + (0 if last else _GAP)
    top += grid.rows.below(grid.cell, 0.16)
    _text_at(figure, middle, top + 0.05, panel.note, ha="center", fontsize=7, color=_GREY)


def _marginal(values: Matrix, names: tuple[Names, Names], title: str, labels: tuple[str, str]) -> "Figure":
    """One heat map of probabilities, with numbers in the cells where there is room."""
    from matplotlib.figure import Figure

    n_rows, n_columns = values.shape
    cell = float(np.clip(6.0 / max(n_rows, n_columns), 0.09, 0.42))
    rows, columns = (_Names(axis, cell) for axis in names)
    left, top = _MARGIN + 0.3 + rows.inches, 0.55
    width, height = cell * n_columns, cell * n_rows
    below = columns.below(cell, 0.2) + 0.3 + _MARGIN
    figure = Figure(figsize=(max(left + width + 0.95, 4.0), max(top + height + below, 2.2)), dpi=160)
    _text_at(figure, _MARGIN, 0.14, f"{title}: posterior probability", fontsize=11, weight="bold")
    axes = _axes_at(figure, left, top, width, height)
    _heat_map(axes, values, rows, columns)
    axes.set_ylabel(labels[0], fontsize=8, color=_GREY)
    axes.set_xlabel(labels[1], fontsize=8, color=_GREY)
    for (i, j), value in np.ndenumerate(values):
        if cell >= 0.3 and value >= 0.005:
            ink = "white" if value > 0.55 else _INK
            axes.text(j, i, f"{value:.2f}".removeprefix("0"), ha="center", va="center", fontsize=7, color=ink)
    _colour_bar(figure, _axes_at(figure, left + width + 0.15, top, _BAR, min(max(height, 0.9), 2.0)))
    return figure


def _axes_at(figure: "Figure", left: float, top: float, width: float, height: float) -> "Axes":
    """Axes with their upper left corner `left` and `top` inches from that of the figure."""
    total_width, total_height = figure.get_size_inches()
    bottom = 1 - (top + height) / total_height
    return figure.add_axes((left / total_width, bottom, width / total_width, height / total_height))


def _text_at(figure: "Figure", left: float, top: float, text: str, **style: Any) -> None:
    """Text anchored `left` and `top` inches from the upper left corner of the figure."""
    width, height = figure.get_size_inches()
    figure.text(left / width, 1 - top / height, text, **{"color": _INK, "fontsize": 8, "va": "top", **style})


def _heat_map(axes: "Axes", values: Matrix, rows: _Names | None, columns: _Names | None) -> None:
    """Values in 0..1 as blue cells with thin lines between them; names where they are given."""
    n_rows, n_columns = values.shape
    axes.imshow(values, cmap=_COLOURS, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.set_xticks(np.arange(1, n_columns) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, n_rows) - 0.5, minor=True)
    axes.grid(which="minor", color=_LINE, linewidth=0.4)
    axes.tick_params(which="both", length=0, pad=2, colors=_INK)
    axes.spines[:].set(color=_GREY, linewidth=0.6)
    cell = axes.get_window_extent().width / axes.figure.dpi / max(n_columns, 1)
    turned = columns is not None and columns.inches > cell
    for set_ticks, names, rotation in ((axes.set_xticks, columns, 90 * turned), (axes.set_yticks, rows, 0)):
        if names is None or not names.shown:
            set_ticks([])
        else:
            set_ticks(np.arange(len(names.shown)), names.shown, fontsize=names.size, rotation=rotation)


def _colour_bar(figure: "Figure", axes: "Axes") -> None:
    """The scale from 0 to 1 on its own axes."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    bar = figure.colorbar(ScalarMappable(Normalize(0, 1), _COLOURS), cax=axes, ticks=[0, 0.5, 1])
    bar.outline.set(linewidth=0.6, edgecolor=_GREY)
    bar.ax.tick_params(length=2, labelsize=7, colors=_INK)
    bar.set_label("probability", fontsize=7, color=_INK)
