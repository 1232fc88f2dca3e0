"""Heat maps: probabilities of edges and targets in causal order, and the distinct structures with their weights."""

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bacadi.data.text import counted
from bacadi.errors import ConfigError
from bacadi.posterior import Posterior
from bacadi.report.canvas import (
    BAR,
    GREY,
    INK,
    MARGIN,
    AxisNames,
    Matrix,
    axes_at,
    colour_bar,
    heat_map,
    outline,
    text_at,
)
from bacadi.report.layout import Names, causal_order

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KNOWN = "known_target"
_GAP, _HEADER, _PANEL_TITLE, _FOOTER, _MAX_WIDTH = 0.16, 0.62, 0.22, 0.24, 13.0  # inches


def plot_structures(
    posterior: Posterior, truth_graph: Matrix | None = None, truth_targets: Matrix | None = None, n: int = 6
) -> "Figure":
    """Draw the `n` structures of largest weight beside the truth and the marginal: graphs above, targets below.

    Draws of the same graph and targets are one structure, whose weight is the sum of theirs. Row i, column j of a graph
    is the edge i -> j; row k, column i of the targets says whether context k intervenes on i. Blue is an edge or a
    target; what differs from the first structure is outlined.

    >>> nothing = np.zeros((1, 1, 2, 2), np.int8), np.zeros((1, 1, 0, 2), np.int8)
    >>> figure = plot_structures(Posterior(*nothing, np.zeros((1, 1)), ("a", "b"), ()))
    >>> [text.get_text() for text in figure.texts][2:]
    ['marginal', '1 structure', 'structure 1', 'weight 1.000']
    """
    from matplotlib.figure import Figure

    panels = _panels(posterior, truth_graph, truth_targets, n)
    d, m = posterior.n_variables, posterior.n_contexts
    # Wide enough for the note below a panel, narrow enough for six of them on a page.
    cell = max(float(np.clip(1.9 / d, 0.03, 0.26)), 1.0 / d)
    rows, contexts = AxisNames(posterior.variables, cell), AxisNames(posterior.contexts, cell)
    grid = _Grid(cell, d, m, rows, contexts, len(panels))
    least = 6.7 if any(panel.usual for panel in panels) else 4.9  # inches of the line below the title
    figure = Figure(figsize=(max(grid.size[0], least), grid.size[1]), dpi=160)
    text_at(figure, MARGIN, 0.14, "Posterior over graph and intervention targets", fontsize=11, weight="bold")
    below = "; below: row = context, column = its targets" if m else ""
    framed = "; outlined: differs from structure 1" if any(panel.usual for panel in panels) else ""
    text_at(figure, MARGIN, 0.36, f"blue: edge from row to column{below}{framed}", color=GREY)
    for position, panel in enumerate(panels):
        _draw_panel(figure, grid, panel, position)
    bar_left = grid.left + grid.across * (grid.panel + _GAP) + 0.04
    colour_bar(figure, axes_at(figure, bar_left, _HEADER + _PANEL_TITLE, BAR, min(grid.panel, 1.6)))
    return figure


def plot_edges(posterior: Posterior) -> "Figure":
    """Draw the probability of every edge; row i, column j is i -> j, variables are in causal order.

    Above the diagonal edges follow the order; what is below goes against it in some draws.

    >>> graph, nothing = np.array([[[[0, 0], [1, 0]]]], np.int8), np.zeros((1, 1, 0, 2), np.int8)
    >>> figure = plot_edges(Posterior(graph, nothing, np.zeros((1, 1)), ("wet", "rain"), ()))
    >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
    ['rain', 'wet']
    """
    order = causal_order(posterior)
    names = tuple(posterior.variables[i] for i in order)
    values = posterior.edge_probabilities()[np.ix_(order, order)]
    return _marginal(_Marginal(values, (names, names), "Edges", ("source", "target")))


def plot_targets(posterior: Posterior) -> "Figure":
    """Draw the probability that a context (row) intervenes on a variable (column); known targets are outlined.

    Variables are in causal order, and contexts in that of their likeliest target.

    >>> nothing = np.zeros((1, 1, 2, 2), np.int8), np.zeros((1, 1, 1, 2), np.int8)
    >>> plot_targets(Posterior(*nothing, np.zeros((1, 1)), ("a", "b"), ("ko",))).axes[0].get_xlabel()
    'variable'
    """
    if not posterior.contexts:
        raise ConfigError("The posterior has no context beside the observational one, so there are no targets to plot.")
    order = causal_order(posterior)
    p = posterior.target_probabilities()[:, order]
    rows = context_order(p)
    names = tuple(posterior.contexts[k] for k in rows), tuple(posterior.variables[i] for i in order)
    known = KNOWN in posterior.constant_data and posterior.constant_data[KNOWN].values[np.ix_(rows, order)] == 1
    return _marginal(_Marginal(p[rows], names, "Intervention targets", ("context", "variable"), known))


def context_order(probability: Matrix) -> np.ndarray:
    """Contexts in the order of their likeliest target, those without a likely one last, so that targets step down.

    >>> context_order(np.array([[0.0, 0.1], [0.0, 0.9], [0.8, 0.0]])).tolist()
    [2, 1, 0]
    """
    first = np.where(probability.max(axis=1, initial=0.0) > 0.5, probability.argmax(axis=1), probability.shape[1])
    return np.argsort(first, kind="stable")


class _Panel(NamedTuple):
    """One of the small multiples: a graph above its targets."""

    title: str
    graph: Matrix
    targets: Matrix
    note: str
    emphasis: bool = False
    usual: tuple[Matrix, Matrix] | None = None


def _panels(posterior: Posterior, truth_graph: Matrix | None, truth_targets: Matrix | None, n: int) -> list[_Panel]:
    d, m, panels = posterior.n_variables, posterior.n_contexts, []
    if truth_graph is not None or truth_targets is not None:
        graph = np.zeros((d, d)) if truth_graph is None else np.asarray(truth_graph)
        targets = np.zeros((m, d)) if truth_targets is None else np.asarray(truth_targets)
        panels.append(_Panel("truth", graph, targets, "", emphasis=True))
    structures = posterior.structures()
    size = counted(len(structures.weights), "structure")
    panels.append(_Panel("marginal", posterior.edge_probabilities(), posterior.target_probabilities(), size, True))
    for at, weight in enumerate(structures.weights[:n]):
        note = f"weight {weight:.3f}" if weight >= 0.0005 else "weight < 0.001"
        first = (structures.graphs[0], structures.targets[0]) if at else None
        panels.append(_Panel(f"structure {at + 1}", structures.graphs[at], structures.targets[at], note, usual=first))
    return panels


class _Grid:
    """Sizes in inches of a block of panels (graphs above targets) and how many go beside each other."""

    def __init__(self, cell: float, d: int, m: int, rows: AxisNames, contexts: AxisNames, n_panels: int) -> None:
        self.cell, self.m, self.rows, self.contexts, self.panel = cell, m, rows, contexts, cell * d
        self.left = MARGIN + 0.16 + max(rows.inches, contexts.inches)
        fitting = max(1, int((_MAX_WIDTH - self.left) / (self.panel + _GAP)))
        blocks = ceil(n_panels / fitting)
        self.across = ceil(n_panels / blocks)
        targets = _GAP + cell * m if m else 0.0
        self.block_height = _PANEL_TITLE + self.panel + targets + rows.below(cell, 0.16) + _FOOTER
        width = self.left + self.across * (self.panel + _GAP) + BAR + 0.5 + MARGIN
        self.size = width, _HEADER + ceil(n_panels / self.across) * (self.block_height + _GAP) + 0.05


def _draw_panel(figure: "Figure", grid: _Grid, panel: _Panel, position: int) -> None:
    block, column = divmod(position, grid.across)
    left = grid.left + column * (grid.panel + _GAP)
    top = _HEADER + block * (grid.block_height + _GAP)
    middle = left + grid.panel / 2
    text_at(figure, middle, top + 0.02, panel.title, ha="center", weight="bold" if panel.emphasis else "normal")
    top += _PANEL_TITLE
    parts = [(panel.graph, grid.rows)] + ([(panel.targets, grid.contexts)] if grid.m else [])
    for values, names in parts:
        last = values is parts[-1][0]
        axes = axes_at(figure, left, top, grid.panel, grid.cell * len(values))
        heat_map(axes, values, names if column == 0 else None, grid.rows if last else None)
        if panel.usual is not None:
            outline(axes, np.argwhere(values != panel.usual[last and grid.m > 0]), grid.cell)
        top += grid.cell * len(values) + (0 if last else _GAP)
    top += grid.rows.below(grid.cell, 0.16)
    text_at(figure, middle, top + 0.05, panel.note, ha="center", fontsize=7, color=GREY)


class _Marginal(NamedTuple):
    """What a heat map of probabilities shows."""

    values: Matrix
    names: tuple[Names, Names]
    title: str
    labels: tuple[str, str]
    known: Matrix | bool = False


def _marginal(shown: _Marginal) -> "Figure":
    """One heat map of probabilities, with numbers in the cells where there is room."""
    from matplotlib.figure import Figure

    values, (n_rows, n_columns) = shown.values, shown.values.shape
    cell = float(np.clip(6.0 / max(n_rows, n_columns), 0.09, 0.42))
    rows, columns = (AxisNames(axis, cell) for axis in shown.names)
    left, top = MARGIN + 0.3 + rows.inches, 0.55
    width, height = cell * n_columns, cell * n_rows
    below = columns.below(cell, 0.2) + 0.3 + MARGIN
    figure = Figure(figsize=(max(left + width + 0.95, 4.0), max(top + height + below, 2.2)), dpi=160)
    text_at(figure, MARGIN, 0.14, f"{shown.title}: posterior probability", fontsize=11, weight="bold")
    axes = axes_at(figure, left, top, width, height)
    heat_map(axes, values, rows, columns)
    axes.set_ylabel(shown.labels[0], fontsize=8, color=GREY)
    axes.set_xlabel(shown.labels[1], fontsize=8, color=GREY)
    for (i, j), value in np.ndenumerate(values):
        if cell >= 0.3 and value >= 0.005:
            ink = "white" if value > 0.55 else INK
            axes.text(j, i, f"{value:.2f}".removeprefix("0"), ha="center", va="center", fontsize=7, color=ink)
    if np.any(shown.known):
        outline(axes, np.argwhere(shown.known), cell)
        text_at(figure, MARGIN, 0.34, "outlined: known before the fit", color=GREY)
    colour_bar(figure, axes_at(figure, left + width + 0.15, top, BAR, min(max(height, 0.9), 2.0)))
    return figure
