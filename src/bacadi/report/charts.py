"""The graph, what moved, effects with intervals, and whether to believe it: convergence, predictive checks, shams."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bacadi.errors import ConfigError
from bacadi.inference.residuals import FALSE_ALARMS, FAMILIES
from bacadi.posterior import Posterior
from bacadi.posterior.moved import LIKELY, contexts_of
from bacadi.report.canvas import (
    BAR,
    GREY,
    INK,
    LINE,
    MARGIN,
    NEGATIVE,
    POSITIVE,
    AxisNames,
    axes_at,
    cells,
    outline,
    plain,
    text_at,
    tidy,
)
from bacadi.report.found import Edge, likely_edges
from bacadi.report.heatmaps import context_order
from bacadi.report.layout import BOX_HEIGHT, causal_order, lay_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INCH = 96.0  # pixels of a layout
_ROW, _MOST_ROWS, _PANEL = 0.17, 60, (2.5, 1.7)  # inches, rows, inches
_FAR = 4.0  # standard deviations at which colours end


def plot_graph(posterior: Posterior, least: float = 0.1) -> "Figure":
    """Draw the graph in layers, causes above effects; an edge is as wide as it is probable.

    Blue and solid is a positive weight, vermilion and broken a negative one, grey one whose 90 % interval holds 0 or
    that has none. Edges below the probability `least` are left out, and the least probable where there are very many.

    >>> graph, nothing = np.array([[[[0, 1], [0, 0]]]], np.int8), np.zeros((1, 1, 0, 2), np.int8)
    >>> len(plot_graph(Posterior(graph, nothing, np.zeros((1, 1)), ("rain", "wet"), ())).axes[0].patches)
    3
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
    from matplotlib.path import Path

    order = causal_order(posterior)
    edges = {(edge.source, edge.target): edge for edge in _edges(posterior, least, 4 * len(order) + 100)}
    drawing = lay_out({ends: edge.probability for ends, edge in edges.items()}, order, posterior.variables)
    (width, height), top = np.array(drawing.size) / _INCH, 0.5
    figure = Figure(figsize=(max(width + 0.2, 6.2), height + top), dpi=160)
    text_at(figure, MARGIN, 0.14, "Graph: width is probability", fontsize=11, weight="bold")
    sides = f"p ≥ {least:g}; blue, solid: positive; vermilion, broken: negative; grey: sign open or unknown"
    text_at(figure, MARGIN, 0.36, sides, color=GREY)
    axes = axes_at(figure, (figure.get_size_inches()[0] - width) / 2, top, width, height)
    axes.set(xlim=(0, drawing.size[0]), ylim=(drawing.size[1], 0))
    axes.axis("off")
    for (i, j), curve in zip(drawing.edges.tolist(), drawing.curves, strict=True):
        edge = edges[int(order[i]), int(order[j])]
        colour, dashes = {1: (POSITIVE, "-"), -1: (NEGATIVE, (0, (4, 2))), 0: (GREY, "-")}[edge.sign]
        path = Path(curve, [Path.MOVETO] + [Path.CURVE4] * (len(curve) - 1))
        wide = 0.4 + 1.6 * edge.probability
        arrow = FancyArrowPatch(path=path, arrowstyle="-|>", mutation_scale=6, shrinkA=0, shrinkB=0, color=colour)
        arrow.set(linewidth=wide, linestyle=dashes, alpha=0.35 + 0.65 * edge.probability, zorder=1)
        axes.add_patch(arrow)
    names = [plain(posterior.variables[i]) for i in order]
    for name, (x, y), wide in zip(names, drawing.centre, drawing.width, strict=True):
        corner, style = (x - wide / 2, y - BOX_HEIGHT / 2), "round,pad=0,rounding_size=6"
        box = FancyBboxPatch(corner, wide, BOX_HEIGHT, boxstyle=style, facecolor="white", edgecolor=GREY, linewidth=0.8)
        axes.add_patch(box)
        axes.text(x, y, name, ha="center", va="center", fontsize=8, color=INK, zorder=3)
    return figure


def _edges(posterior: Posterior, least: float, most: int) -> list[Edge]:
    return likely_edges(posterior.edges(), posterior.variables, least, most)


def plot_changes(posterior: Posterior) -> "Figure":
    """Draw what moved and what was hit: per context (row) the change of each variable, and frames around targets.

    Colours are changes in standard deviations of the control, from vermilion with a bar (down) to blue (up); changes
    whose 90 % interval holds 0 are left white.

    >>> nothing = np.zeros((1, 1, 2, 2), np.int8), np.zeros((1, 1, 1, 2), np.int8)
    >>> plot_changes(Posterior(*nothing, np.zeros((1, 1)), ("a", "b"), ("ko",)))
    Traceback (most recent call last):
    bacadi.errors.ConfigError: The posterior holds no changes against the control, so there is nothing to plot.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.figure import Figure

    found = contexts_of(posterior)
    if not np.isfinite(found.in_sd).any():
        raise ConfigError("The posterior holds no changes against the control, so there is nothing to plot.")
    order = causal_order(posterior)
    rows = context_order(found.probability[:, order])
    in_sd, moved, hit = (values[np.ix_(rows, order)] for values in (found.in_sd, found.moved, found.hit))
    shown = np.where(moved, in_sd, 0.0)
    cell = float(np.clip(6.0 / max(shown.shape), 0.09, 0.42))
    across, down = (
        AxisNames(tuple(names[i] for i in at), cell)
        for names, at in ((posterior.variables, order), (posterior.contexts, rows))
    )
    left, top, width, height = MARGIN + 0.3 + down.inches, 0.8, cell * shown.shape[1], cell * shown.shape[0]
    figure = Figure(
        figsize=(max(left + width + 1.1, 5.6), top + max(height, 1.2) + across.below(cell, 0.2) + 0.5), dpi=160
    )
    text_at(figure, MARGIN, 0.14, "What moved and what was hit", fontsize=11, weight="bold")
    text_at(figure, MARGIN, 0.36, "colour: change against the control (bar: down); frame: a likely target", color=GREY)
    colours = LinearSegmentedColormap.from_list("change", [NEGATIVE, "white", POSITIVE])
    axes = axes_at(figure, left, top, width, height)
    cells(axes, shown, (down, across), colours, _FAR)
    for row, column in np.argwhere(shown < 0):
        axes.plot([column - 0.22, column + 0.22], [row, row], color=INK, linewidth=0.9 * min(1.0, 5 * cell))
    outline(axes, np.argwhere(hit), cell, INK)
    axes.set_ylabel("context", fontsize=8, color=GREY)
    axes.set_xlabel("variable", fontsize=8, color=GREY)
    bar = axes_at(figure, left + width + 0.15, top, BAR, min(max(height, 0.9), 2.0))
    scale = figure.colorbar(
        ScalarMappable(Normalize(-_FAR, _FAR), colours), cax=bar, ticks=[-_FAR, 0, _FAR], extend="both"
    )
    scale.ax.tick_params(length=2, labelsize=7, colors=INK)
    scale.set_label("standard deviations", fontsize=7, color=INK)
    return figure


def plot_effects(posterior: Posterior) -> "Figure":
    """Draw sizes with 90 % intervals: weights of likely edges, and changes of likely targets against the control.

    >>> nothing = np.zeros((1, 1, 2, 2), np.int8), np.zeros((1, 1, 1, 2), np.int8)
    >>> plot_effects(Posterior(*nothing, np.zeros((1, 1)), ("a", "b"), ("ko",)))
    Traceback (most recent call last):
    bacadi.errors.ConfigError: No likely edge has a weight and no likely target a change, so there is nothing to plot.
    """
    from matplotlib.figure import Figure

    edges = [e for e in _edges(posterior, LIKELY, posterior.n_variables**2) if np.isfinite(e.weight)]
    weights = [
        (f"{plain(posterior.variables[e.source])} → {plain(posterior.variables[e.target])}", e.weight, e.low, e.high)
        for e in edges
    ]
    table = posterior.targets()
    table = table[(table["probability"] > LIKELY) & np.isfinite(table["change_in_sd"]) & (table["change"] != 0)]
    changes = []
    for row in table.itertuples():
        unit = row.change_in_sd / row.change
        name = f"{plain(row.context)}: {plain(row.variable)}"
        changes.append((name, row.change_in_sd, row.change_q05 * unit, row.change_q95 * unit))
    panels = [("weight of the edge", weights), ("change in standard deviations of the control", changes)]
    panels = [(label, sorted(rows[:_MOST_ROWS], key=lambda row: -row[1])) for label, rows in panels if rows]
    if not panels:
        raise ConfigError("No likely edge has a weight and no likely target a change, so there is nothing to plot.")
    tallest = max(len(rows) for _, rows in panels)
    names = 0.35 + 0.062 * max(len(row[0]) for _, rows in panels for row in rows)
    figure = Figure(figsize=(MARGIN + len(panels) * (names + 2.6), 1.15 + _ROW * tallest), dpi=160)
    text_at(figure, MARGIN, 0.14, "Effects with 90 % intervals", fontsize=11, weight="bold")
    more = max(len(weights), len(changes)) > _MOST_ROWS
    text_at(
        figure, MARGIN, 0.36, f"of edges and targets above {LIKELY}" + f", the first {_MOST_ROWS}" * more, color=GREY
    )
    for number, (label, rows) in enumerate(panels):
        left = MARGIN + number * (names + 2.6) + names
        axes = axes_at(figure, left, 0.62, 2.3, _ROW * len(rows))
        for at, (_, mean, low, high) in enumerate(rows):
            colour, marker = (POSITIVE, "o") if mean > 0 else (NEGATIVE, "s")
            axes.plot([low, high], [at, at], color=colour, linewidth=1.2, marker="|", markersize=5, markeredgewidth=0.8)
            axes.plot([mean], [at], marker=marker, color=colour, markersize=2.6, linestyle="none")
        axes.axvline(0, color=GREY, linewidth=0.6)
        axes.set_yticks(range(len(rows)), [row[0] for row in rows], fontsize=7)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        tidy(axes, label)
    return figure


def plot_convergence(posterior: Posterior) -> "Figure":
    """Draw whether the draws can be trusted: traces by replica, replicas against each other, and R-hat.

    Of particles (SVGD) it draws the traces over the steps.

    >>> nothing = np.zeros((2, 20, 2, 2), np.int8), np.zeros((2, 20, 1, 2), np.int8)
    >>> even = np.full((2, 20), -np.log(40))
    >>> figure = plot_convergence(Posterior(*nothing, even, ("a", "b"), ("ko",), attrs={"converged": False}))
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['edges', 'other replicas']
    """
    from matplotlib.figure import Figure

    panels = _of_chains(posterior) if "converged" in posterior.attrs else _of_particles(posterior)
    if not panels:
        raise ConfigError("The draws are not those of a chain or of moving particles, so that nothing could converge.")
    figure = Figure(figsize=(2 * (_PANEL[0] + 0.8) + 0.1, 0.86 + (_PANEL[1] + 0.7) * ((len(panels) + 1) // 2)), dpi=160)
    text_at(figure, MARGIN, 0.14, "Convergence", fontsize=11, weight="bold")
    text_at(figure, MARGIN, 0.36, plain(posterior.verdict(), 110), color=GREY)
    for number, panel in enumerate(panels):
        row, column = divmod(number, 2)
        axes = axes_at(figure, 0.75 + column * (_PANEL[0] + 0.75), 0.78 + row * (_PANEL[1] + 0.7), *_PANEL)
        panel(axes, posterior)
    return figure


def _of_chains(posterior: Posterior) -> Sequence[Callable[["Axes", Posterior], None]]:
    stats = posterior.sample_stats
    rhats = [stats[name].values for name in ("edge_rhat", "target_rhat") if name in stats]
    panels = [_trace_of_score] * ("log_posterior" in stats) + [_trace_of_edges]
    return panels + [_replicas] * (posterior.n_chains > 1) + [_rhat] * any(np.isfinite(v).any() for v in rhats)


def _of_particles(posterior: Posterior) -> Sequence[Callable[["Axes", Posterior], None]]:
    names = [name for name, entry in posterior.sample_stats.items() if entry.dims == ("step", "particle")]
    return [partial(_trace_of_steps, name=name) for name in names]


def _trace_of_steps(axes: "Axes", posterior: Posterior, name: str) -> None:
    axes.plot(posterior.sample_stats[name].values, color=POSITIVE, linewidth=0.7, alpha=0.7)
    axes.set_ylabel(name.removesuffix("_trace").replace("_", " "), fontsize=8, color=GREY)
    tidy(axes, "step, a line for each particle")


def _trace_of_score(axes: "Axes", posterior: Posterior) -> None:
    _traces(axes, posterior, posterior.sample_stats["log_posterior"].values, "log posterior")


def _trace_of_edges(axes: "Axes", posterior: Posterior) -> None:
    _traces(axes, posterior, posterior.graph.sum(axis=(2, 3)), "edges")


def _traces(axes: "Axes", posterior: Posterior, values: np.ndarray, label: str) -> None:
    for chain, trace in enumerate(np.where(posterior.weights > 0, values, np.nan)):
        colour = (POSITIVE, NEGATIVE, GREY, INK)[chain % 4]
        axes.plot(trace, color=colour, linewidth=0.7, linestyle=("-", (0, (3, 1)))[chain % 2], alpha=0.9)
        axes.plot([], [], color=colour, linestyle=("-", (0, (3, 1)))[chain % 2], label=f"replica {chain + 1}")
    if posterior.n_chains > 1:
        axes.legend(fontsize=6, frameon=False, loc="lower right", bbox_to_anchor=(1.03, 0.97), ncols=4)
    axes.set_ylabel(label, fontsize=8, color=GREY)
    tidy(axes, "draw")


def _replicas(axes: "Axes", posterior: Posterior) -> None:
    """Probabilities in the first replica against the mean of the others."""
    axes.plot([0, 1], [0, 1], color=LINE, linewidth=1)
    for draws, colour, marker, label in (
        (posterior.graph, POSITIVE, "o", "edges"),
        (posterior.intervention_target, NEGATIVE, "^", "targets"),
    ):
        p = draws.mean(axis=1).reshape(posterior.n_chains, -1)
        varying = (p.max(axis=0) > 0) & (p.min(axis=0) < 1)
        style: dict[str, Any] = {"marker": marker, "color": colour, "markerfacecolor": "none", "linestyle": "none"}
        axes.plot(p[0, varying], p[1:, varying].mean(axis=0), label=label, markersize=4, **style)
    axes.legend(fontsize=6, frameon=False, loc="upper left")
    axes.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04))
    axes.set_ylabel("other replicas", fontsize=8, color=GREY)
    tidy(axes, "probability in replica 1")


def _rhat(axes: "Axes", posterior: Posterior) -> None:
    stats, top = posterior.sample_stats, 1.3
    for name, colour, hatch in (("edge_rhat", POSITIVE, None), ("target_rhat", NEGATIVE, "////")):
        values = stats[name].values if name in stats else np.zeros(0)
        values = values[~np.isnan(values)].clip(0.99, top)
        style: dict[str, Any] = {"color": colour, "hatch": hatch, "linewidth": 1.0, "facecolor": "none"}
        bins = np.linspace(0.99, top, 32).tolist()
        axes.hist(values, bins=bins, histtype="step", label=name.split("_")[0] + "s", **style)
    if "log_posterior_rhat" in stats:
        axes.axvline(
            min(float(stats["log_posterior_rhat"].values), top),
            color=INK,
            linewidth=1.2,
            linestyle=(0, (1, 1)),
            label="log posterior",
        )
    axes.set_yscale("symlog", linthresh=1)
    axes.legend(fontsize=6, frameon=False, loc="upper right")
    axes.set_ylabel("pairs", fontsize=8, color=GREY)
    tidy(axes, f"R-hat of what varies, up to {top}")


def plot_shams(posterior: Posterior) -> "Figure":
    """Draw how many targets are named per hundred pairs in each sham, where none is right, and in the data.

    >>> nothing = np.zeros((1, 1, 2, 2), np.int8), np.zeros((1, 1, 1, 2), np.int8)
    >>> plot_shams(Posterior(*nothing, np.zeros((1, 1)), ("a", "b"), ("ko",)))
    Traceback (most recent call last):
    bacadi.errors.ConfigError: No shams were fitted; add --shams 5 to `bacadi fit`.
    """
    from matplotlib.figure import Figure

    record = posterior.attrs.get("shams")
    if not record:
        raise ConfigError("No shams were fitted; add --shams 5 to `bacadi fit`.")
    whose = {"labels": "permuted labels", "control": "pieces of the control", "data": "the data"}
    rows = [(whose.get(sham["kind"], sham["kind"]), sham) for sham in [*record["shams"], record["real"]]]
    figure = Figure(figsize=(6.2, 1.2 + 0.26 * len(rows)), dpi=160)
    text_at(figure, MARGIN, 0.14, "Shams: targets named where there are none", fontsize=11, weight="bold")
    text_at(figure, MARGIN, 0.36, "filled: probability above .9; open: above .5", color=GREY)
    axes = axes_at(figure, 1.75, 0.65, 3.9, 0.26 * len(rows))
    for at, (_, sham) in enumerate(rows):
        share = 100 / max(sham["pairs"], 1)
        colour = INK if at == len(rows) - 1 else NEGATIVE
        axes.barh(at, sham["likely"] * share, height=0.6, facecolor="white", edgecolor=colour)
        axes.barh(at, sham["certain"] * share, height=0.6, facecolor=colour, edgecolor=colour)
        text = f"{sham['likely']} of {sham['pairs']}"
        axes.annotate(text, (sham["likely"] * share, at), (4, 0), textcoords="offset points", va="center", fontsize=7)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.margins(x=0.16)
    tidy(axes, "targets named per 100 pairs of context and variable")
    return figure


def plot_checks(posterior: Posterior) -> "Figure":
    """Draw the predictive checks: p-values of each family against those of a model that fits (the diagonal).

    A point above the broken line speaks against the model after correction for the number of statistics, if its size is
    of some consequence.

    >>> nothing = np.zeros((1, 1, 2, 2), np.int8), np.zeros((1, 1, 1, 2), np.int8)
    >>> plot_checks(Posterior(*nothing, np.zeros((1, 1)), ("a", "b"), ("ko",)))
    Traceback (most recent call last):
    bacadi.errors.ConfigError: The fit was not checked against its residuals (mcmc and exact with linear models are).
    """
    from matplotlib.figure import Figure

    stats = posterior.sample_stats
    # Where every p-value is 1 nothing was looked at: means, where the model has drift.
    names = [n for n in FAMILIES if f"residual_{n}_p" in stats and np.nanmin(stats[f"residual_{n}_p"].values) < 1]
    if not names:
        raise ConfigError("The fit was not checked against its residuals (mcmc and exact with linear models are).")
    side, step = 1.35, (2.0, 1.95)
    figure = Figure(figsize=(4 * step[0] + 0.3, 0.85 + step[1] * -(-len(names) // 4)), dpi=160)
    text_at(figure, MARGIN, 0.14, "Predictive checks of what is left unexplained", fontsize=11, weight="bold")
    words = "dots on the line: a model that fits; filled: speaks against it; broken line: limit for so many statistics"
    text_at(figure, MARGIN, 0.36, words, color=GREY)
    for number, name in enumerate(names):
        row, column = divmod(number, 4)
        axes = axes_at(figure, 0.55 + column * step[0], 0.85 + row * step[1], side, side)
        size, p = (np.asarray(stats[f"residual_{name}{end}"].values, float) for end in ("", "_p"))
        if name == "correlation":
            size, p = (values[np.triu_indices(len(values), 1)] for values in (size, p))
        size, p = (values.ravel()[np.isfinite(p.ravel())] for values in (size, p))
        _quantiles(axes, np.maximum(p, 1e-12), np.abs(size) >= FAMILIES[name].least)
        axes.set_title(name.replace("_", " ").replace("log variance ratio", "variance"), fontsize=8, color=INK, pad=3)
        if column == 0:
            axes.set_ylabel("−log10 p", fontsize=7, color=GREY)
        tidy(axes, "expected" if number + 4 >= len(names) else "")
    return figure


def _quantiles(axes: "Axes", p: np.ndarray, matters: np.ndarray) -> None:
    order, n = np.argsort(p), max(len(p), 1)
    expected, observed = -np.log10((np.arange(len(p)) + 0.5) / n), -np.log10(p[order])
    limit = -np.log10(FALSE_ALARMS / n / len(FAMILIES))
    beyond = (observed > limit) & matters[order]
    top = max(limit, observed.max(initial=0.0)) * 1.08
    axes.plot([0, top], [0, top], color=LINE, linewidth=1)
    axes.axhline(limit, color=GREY, linewidth=0.7, linestyle=(0, (3, 2)))
    for chosen, face in ((~beyond, "white"), (beyond, NEGATIVE)):
        colour = NEGATIVE if face == NEGATIVE else POSITIVE
        style: dict[str, Any] = {"marker": "o", "markersize": 3, "linestyle": "none", "markeredgecolor": colour}
        axes.plot(expected[chosen], observed[chosen], markerfacecolor=face, markeredgewidth=0.7, **style)
    axes.set(xlim=(0, max(expected.max(initial=1.0) * 1.1, 1.0)), ylim=(0, top))
