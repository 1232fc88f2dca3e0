"""Figures of a study as matplotlib `Figure` objects: boxes, growth curves, reliability, a posterior beside the truth.

Methods differ by colour (Okabe and Ito, told apart by the colour-blind), by marker and, where there is room, by name:
nothing is lost in grey. Published medians are open diamonds with their 5 to 95 % range.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bacadi.benchmark.records import DONE, Record
from bacadi.benchmark.study import Study, TaskSet
from bacadi.benchmark.tables import HIGH_IS_GOOD, MARKS, NOT_COMPARABLE, Numbers, Pairs, label_of, published_of
from bacadi.data.text import replacing
from bacadi.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F6A00", "#000000")
MARKERS = ("o", "s", "^", "v", "D", "P", "X", "*")
_INK, _GREY, _LINE = "#22303c", "#66727c", "#d5dce2"
_FEWEST_FOR_A_BOX, _FEWEST_OF_A_BIN = 5, 4
_USUAL = ("mcmc", "jci-pc", "ut-igsp", "svgd", "dcdi-g", "exact", "gies", "gnies")
_TYPE = {"font.family": "DejaVu Sans", "font.size": 8, "axes.edgecolor": _GREY, "svg.hashsalt": "bacadi"}
_TYPE |= {
    "axes.labelcolor": _INK,
    "xtick.color": _GREY,
    "ytick.color": _GREY,
    "text.color": _INK,
    "svg.fonttype": "none",
}


class _Group(NamedTuple):
    """A method in a panel: its records, and how it is drawn."""

    title: str
    records: list[Record]
    tasks: TaskSet
    published: str | None
    style: int

    def values(self, metric: str) -> np.ndarray:
        """The values of a metric that are numbers."""
        found = np.array([record.value(metric) for record in self.records])
        return found[np.isfinite(found)]

    def stated(self, metric: str) -> Numbers | None:
        """What was published of it, where that can be compared."""
        place = (*self.tasks.published, self.published or "", metric)
        return None if metric in NOT_COMPARABLE else published_of(*place)

    @property
    def colour(self) -> str:
        """The colour of the method."""
        return COLOURS[self.style % len(COLOURS)]

    @property
    def marker(self) -> str:
        """The marker of the method."""
        return MARKERS[self.style % len(MARKERS)]


def draw(study: Study, pairs: Pairs) -> "Figure":
    """The figure of a study from its fits and their records."""
    if not any(record is not None and record.reason == DONE for _, record in pairs):
        raise ConfigError(f"There is no record of '{study.title}' yet; run it with `bacadi bench run`.")
    kinds: dict[str, Any] = {"box": boxes, "line": lines, "reliability": reliability, "posterior": posterior}
    if study.figure.kind not in kinds:
        raise ConfigError(f"The study '{study.title}' has no figure; `bacadi bench table` makes its table.")
    import matplotlib

    with matplotlib.rc_context(_TYPE):  # type: ignore[arg-type]
        figure: Figure = kinds[study.figure.kind](study, pairs)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # type: ignore[arg-type]  # placed once, whatever format is written first
    return figure


def save(figure: "Figure", path: Path) -> None:
    """Write a figure whole or not at all, in the format of the file name's ending; equal figures give equal bytes."""
    import matplotlib

    formats = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    if path.suffix not in formats:
        raise ConfigError(f"A figure cannot be written as '{path.suffix}'; end the file with {', '.join(formats)}.")
    with matplotlib.rc_context(_TYPE), replacing(path) as temporary:  # type: ignore[arg-type]
        options: Any = {"format": path.suffix[1:], "metadata": formats[path.suffix]}
        figure.savefig(temporary, dpi=160, facecolor="white", **options)


def _groups(study: Study, pairs: Pairs) -> dict[str, list[_Group]]:
    """Methods by panel. Sets of tasks with the same published setting share a panel."""
    styles = _styles(study)
    name_of: dict[tuple[str, ...], str] = {}
    panels: dict[str, dict[str, _Group]] = {}
    for tasks in study.tasks:
        key = tasks.published or (tasks.label,)
        panels.setdefault(name_of.setdefault(key, tasks.label), {})
    for entry in study.methods:
        for fit, record in pairs:
            if fit.entry.title == entry.title and record is not None and record.reason == DONE:
                panel = panels[name_of[fit.tasks.published or (fit.tasks.label,)]]
                mark = MARKS[fit.protocol] if fit.protocol else ""
                new = _Group(entry.title + mark, [], fit.tasks, entry.published, styles[entry.title])
                panel.setdefault(entry.title, new).records.append(record)
    return {name: list(panel.values()) for name, panel in panels.items() if panel}


def _styles(study: Study) -> dict[str, int]:
    """The number of colour and marker of every method: its own in all studies, unless a method occurs twice."""
    names = [entry.method for entry in study.methods]
    if len(set(names)) < len(names) or not set(names) <= set(_USUAL):
        return {entry.title: number for number, entry in enumerate(study.methods)}
    return {entry.title: _USUAL.index(entry.method) for entry in study.methods}


def _new(width: float, height: float, title: str, below: str = "") -> "Figure":
    """An empty figure with its title in the upper left corner."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=160, layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold", color=_INK)
    if below:
        figure.supxlabel(below, x=0.01, ha="left", fontsize=7, color=_GREY)
    return figure


def _plain_axes(axes: "Axes", axis: str) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=axis, color=_LINE, linewidth=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.tick_params(length=2)


def boxes(study: Study, pairs: Pairs) -> "Figure":
    """A row of panels for each set of tasks, a panel for each metric, a line for each method.

    Of one method alone there is one row, with a line for each set of tasks.
    """
    metrics, panels = study.figure.metrics or study.metrics, _groups(study, pairs)
    if all(len(groups) == 1 for groups in panels.values()):  # of one method the sets of tasks are the lines
        title = next(iter(panels.values()))[0].title
        panels = {title: [group._replace(title=name) for name, (group,) in panels.items()]}
    height = sum(0.75 + 0.27 * len(groups) for groups in panels.values()) + 0.75
    note = (
        "one dot per task; line: median, box: quartiles, whiskers: 5 to 95 %; open diamond: published, with 5 to 95 %"
    )
    longest = max(len(group.title) for groups in panels.values() for group in groups)
    figure = _new(1.0 + 0.055 * longest + 1.75 * len(metrics), height, study.title, note)
    ratios = [0.75 + 0.27 * len(groups) for groups in panels.values()]
    grid = figure.subplots(len(panels), len(metrics), squeeze=False, height_ratios=ratios, sharex="col")
    for number, (name, groups) in enumerate(panels.items()):
        row = grid[number]
        for axes, metric in zip(row, metrics, strict=True):
            _box_panel(axes, groups, metric, metric in study.figure.log)
            if number == 0:
                better = "higher is better" if metric in HIGH_IS_GOOD else "lower is better"
                axes.set_title(f"{label_of(metric)}\n", fontsize=9)
                axes.text(
                    0.5, 1.02, better, transform=axes.transAxes, ha="center", va="bottom", fontsize=7, color=_GREY
                )
            if axes is row[0]:
                axes.set_yticks(range(len(groups)), [group.title for group in groups], color=_INK)
                axes.set_ylabel(name, fontweight="bold")
            else:
                axes.set_yticks(range(len(groups)), [""] * len(groups))
    for axes, metric in zip(grid[-1], metrics, strict=True):  # panels of a column share the axis
        if metric in study.figure.log:
            _logarithmic(axes.xaxis, axes.get_xlim())
        elif metric in HIGH_IS_GOOD:
            axes.set_xlim(-0.03, 1.03)
    return figure


def _box_panel(axes: "Axes", groups: list[_Group], metric: str, log: bool) -> None:
    _plain_axes(axes, "x")
    axes.use_sticky_edges = False
    if log:
        axes.set_xscale("log")
    for height, group in enumerate(groups):
        values, colour = group.values(metric), group.colour
        if len(values) >= _FEWEST_FOR_A_BOX:
            low, first, last, high = np.quantile(values, [0.05, 0.25, 0.75, 0.95])
            axes.barh(height, last - first, 0.5, first, facecolor=f"{colour}33", edgecolor=colour, linewidth=0.8)
            for end, quartile in ((low, first), (high, last)):
                axes.plot([end, quartile], [height] * 2, color=colour, linewidth=0.8)
                axes.plot([end] * 2, [height - 0.12, height + 0.12], color=colour, linewidth=0.8)
        if len(values):
            axes.plot(
                [np.median(values)] * 2,
                [height - 0.25, height + 0.25],
                color=colour,
                linewidth=2.2,
                solid_capstyle="butt",
            )
        # Dots side by side and not by chance, so that the figure is the same every time.
        spread = (np.arange(len(values)) % 5 - 2) * 0.05
        axes.plot(values, height + spread, group.marker, color=colour, markersize=3, alpha=0.75, markeredgewidth=0)
        _published(axes, group.stated(metric), height)
    axes.set_ylim(len(groups) - 0.4, -0.5)


def _published(axes: "Axes", stated: Numbers | None, height: float) -> None:
    if stated is None or "median" not in stated.by_name:
        return
    numbers, at = stated.by_name, height + 0.36
    if {"p05", "p95"} <= set(numbers):
        axes.plot([numbers["p05"], numbers["p95"]], [at, at], color=_GREY, linewidth=0.8)
    axes.plot(numbers["median"], at, "D", color="white", markeredgecolor=_INK, markersize=4, markeredgewidth=0.9)


def lines(study: Study, pairs: Pairs) -> "Figure":
    """A panel for each metric: medians against where the sets of tasks stand, with 5 to 95 %."""
    metrics = study.figure.metrics or study.metrics
    note, styles = "medians, bars: 5 to 95 % of the tasks", _styles(study)
    figure = _new(1.0 + 2.5 * len(metrics), 3.1, study.title, note)
    for axes, metric in zip(figure.subplots(1, len(metrics), squeeze=False)[0], metrics, strict=True):
        _plain_axes(axes, "both")
        for entry in study.methods:
            points = _points(pairs, entry.title, metric)
            if not len(points):
                continue
            at, median, low, high = points.T
            number = styles[entry.title]
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            bars = np.maximum([median - low, high - median], 0.0)
            options: Any = {"color": colour, "marker": marker, "markersize": 4.5, "linewidth": 1.3, "capsize": 2}
            axes.errorbar(at, median, bars, label=entry.title, elinewidth=0.8, **options)
        axes.set_title(label_of(metric), fontsize=9)
        axes.set_xlabel(study.figure.axis)
        if study.figure.log_axis:
            axes.set_xscale("log")
            _plain_ticks(axes, sorted({tasks.at for tasks in study.tasks if tasks.at is not None}))
        if metric in study.figure.log:
            axes.set_yscale("log")
            _logarithmic(axes.yaxis, axes.get_ylim())
        elif metric in HIGH_IS_GOOD:
            axes.set_ylim(-0.03, 1.03)
        else:
            axes.set_ylim(bottom=0)
    axes.legend(framealpha=0.85, edgecolor="none", fontsize=7, loc="best")
    return figure


def _logarithmic(axis: Any, limits: tuple[float, float]) -> None:
    """Plain numbers on a logarithmic axis, as many as there is room for."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    decades = np.log10(limits[1] / limits[0])
    if decades < 0.4:
        axis.set_major_locator(MaxNLocator(4))
    else:
        axis.set_major_locator(
            LogLocator(subs=(1.0, 2.0, 5.0) if decades < 1.3 else (1.0, 3.0) if decades < 2.5 else (1.0,))
        )
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _plain_ticks(axes: "Axes", at: Sequence[float]) -> None:
    """The places themselves on a logarithmic axis, and no powers of ten beside them."""
    axes.set_xticks(at, [f"{value:g}" for value in at])
    axes.set_xticks([], minor=True)


def _points(pairs: Pairs, title: str, metric: str) -> np.ndarray:
    """Rows of place, median, 5 % and 95 % of a method."""
    by_place: dict[float, list[float]] = {}
    for fit, record in pairs:
        if fit.entry.title == title and fit.tasks.at is not None and record is not None and record.reason == DONE:
            by_place.setdefault(fit.tasks.at, []).append(record.value(metric))
    finite = {at: [value for value in values if np.isfinite(value)] for at, values in sorted(by_place.items())}
    return np.array([[at, *np.quantile(values, [0.5, 0.05, 0.95])] for at, values in finite.items() if values])


def reliability(study: Study, pairs: Pairs) -> "Figure":
    """Frequencies against probabilities, of edges above and of targets below, a column for each set of tasks."""
    panels = _groups(study, pairs)
    note = "all tasks together, in ten bins; the larger a mark, the more pairs it stands for"
    figure = _new(max(0.9 + 2.3 * len(panels), 4.4), 5.4, study.title, note)
    grid = figure.subplots(2, len(panels), squeeze=False, sharex=True, sharey=True)
    for column, (name, groups) in enumerate(panels.items()):
        for axes, what in zip(grid[:, column], ("edges", "targets"), strict=True):
            _plain_axes(axes, "both")
            axes.plot([0, 1], [0, 1], color=_GREY, linewidth=0.8, linestyle="--")
            for group in groups:
                curve = pooled_curve(group.records, what)
                if len(curve):
                    probability, frequency, n = curve.T
                    sizes = 4 + 5 * np.log10(np.maximum(n, 1))
                    axes.plot(probability, frequency, color=group.colour, linewidth=1)
                    axes.scatter(
                        probability, frequency, sizes, color=group.colour, marker=group.marker, label=group.title
                    )
            axes.set_aspect("equal")
            axes.set_xlim(-0.04, 1.04)
            axes.set_ylim(-0.04, 1.04)
            axes.set_title(f"{name}, {what}", fontsize=8)
    for axes in grid[-1]:
        axes.set_xlabel("probability")
    for axes in grid[:, 0]:
        axes.set_ylabel("frequency")
    grid[0, 0].legend(frameon=False, fontsize=7, loc="upper left")
    return figure


def pooled_curve(records: Sequence[Record], what: str, n_bins: int = 10) -> np.ndarray:
    """Rows of mean probability, frequency and number over all records, by bin of probability; tiny bins are left out.

    >>> one = Record({}, 0, "mcmc", {}, 0, 1, details={"reliability": {"edges": [[0.25, 0.5, 2], [0.95, 1.0, 4]]}})
    >>> other = Record({}, 1, "mcmc", {}, 0, 1, details={"reliability": {"edges": [[0.22, 0.0, 2]]}})
    >>> pooled_curve([one, other], "edges").tolist()
    [[0.235, 0.25, 4.0], [0.95, 1.0, 4.0]]
    """
    rows = [row for record in records for row in record.details.get("reliability", {}).get(what, [])]
    table = np.array(rows, float).reshape(len(rows), 3)
    bins, found = np.minimum((table[:, 0] * n_bins).astype(int), n_bins - 1), []
    for number in np.unique(bins):
        part = table[bins == number]
        n = part[:, 2].sum()
        if n < _FEWEST_OF_A_BIN:
            continue
        found.append([*(part[:, :2] * part[:, 2:]).sum(axis=0) / n, n])
    return np.array(found).reshape(len(found), 3)


_MOST_GRAPHS, _LEAST_PROBABILITY = 5, 0.005


def posterior(study: Study, pairs: Pairs) -> "Figure":
    """Truth, marginals and the most probable graphs of the first task, a row for each method: edges, then targets."""
    shown = [
        (fit.entry.title, record) for fit, record in pairs if record is not None and "probabilities" in record.details
    ]
    first = {title: record for title, record in reversed(shown)}  # the first task of each method
    ordered = [(entry.title, first[entry.title]) for entry in study.methods if entry.title in first]
    if not ordered:
        raise ConfigError(f"No record of '{study.title}' has probabilities of edges; run it with fewer variables.")
    graphs_of = {title: _probable(record) for title, record in ordered}
    n_graphs = max(map(len, graphs_of.values()))
    note = "row → column: an edge, or (right) a context and its target; the darker, the more probable"
    figure = _new(1.0 + 1.15 * (4 + n_graphs), 0.9 + 1.35 * len(ordered), study.title, note)
    grid = figure.subplots(len(ordered), 4 + n_graphs, squeeze=False)
    for row, (title, record) in zip(grid, ordered, strict=True):
        known = record.details["probabilities"]
        panels = [("true edges", known["true_edges"]), ("probability", known["edges"])]
        for graph in graphs_of[title]:
            matrix = np.zeros(np.shape(known["edges"]))
            matrix[tuple(np.array(graph["edges"], int).reshape(-1, 2).T)] = 1
            panels.append((f"graph, p = {graph['probability']:.2f}", matrix))
        panels += [("", None)] * (2 + n_graphs - len(panels))
        panels += [("true targets", known["true_targets"]), ("probability", known["targets"])]
        for axes, (name, matrix) in zip(row, panels, strict=True):
            _heat(axes, name, matrix)
        row[0].set_ylabel(title, fontweight="bold", visible=True)
    return figure


def _probable(record: Record) -> list[dict[str, Any]]:
    """The graphs of a record that are worth a panel."""
    graphs = record.details.get("graphs", [])[:_MOST_GRAPHS]
    return [graph for graph in graphs if graph["probability"] >= _LEAST_PROBABILITY]


def _heat(axes: "Axes", name: str, matrix: Any) -> None:
    if matrix is None or not np.size(matrix):
        axes.set_axis_off()
        return
    cells = np.array(matrix, float)
    axes.imshow(cells, cmap="Blues", vmin=0, vmax=1.15, interpolation="nearest")
    axes.set_xticks(np.arange(-0.5, cells.shape[1]), [])
    axes.set_yticks(np.arange(-0.5, cells.shape[0]), [])
    axes.tick_params(length=0)
    axes.grid(color=_LINE, linewidth=0.6)
    axes.set_title(name, fontsize=7, color=_GREY)
