"""Pictures of the page as SVG text: the graph, what moved per context, traces of the sampler.

Colours are classes, which the style sheet gives for light and dark; there is no style in an attribute, so that the page
can forbid it. Text from the data is escaped here.
"""

from collections.abc import Iterable
from html import escape

import numpy as np
from jaxtyping import Float

from bacadi.posterior.moved import Contexts
from bacadi.report.found import Edge
from bacadi.report.layout import BOX_HEIGHT, Drawing, Names, shortened
from bacadi.report.words import number, probability

CELL, _LABEL, _CHARACTER = 14, 11, 6.6
_STEPS = (0.5, 1.0, 2.0, 4.0)
_SIGNS = {1: "up", -1: "down", 0: "open"}


def markers() -> str:
    """The heads of arrows, defined once for all pictures of a page."""
    head = '<marker id="{0}-head" viewBox="0 0 10 10" refX="9.5" refY="5" markerWidth="9" markerHeight="9" orient="auto" markerUnits="userSpaceOnUse"><path class="head {0}" d="M0 1L10 5L0 9z"/></marker>'  # noqa: E501
    heads = "".join(head.format(name) for name in _SIGNS.values())
    return f'<svg class="defs" width="0" height="0" aria-hidden="true" focusable="false"><defs>{heads}</defs></svg>'


def edge_words(edge: Edge, names: Names) -> str:
    """What a reader hears of an edge.

    >>> edge_words(Edge(0, 1, 0.97, -0.5, -0.8, -0.2), ("rain", "dust"))
    'rain → dust: probability 0.97, weight −0.5 (90 % interval −0.8 to −0.2)'
    """
    words = f"{names[edge.source]} → {names[edge.target]}: probability {probability(edge.probability)}"
    if np.isfinite(edge.weight):
        words += f", weight {number(edge.weight)} (90 % interval {number(edge.low)} to {number(edge.high)})"
    return words


def graph(drawing: Drawing, edges: dict[tuple[int, int], Edge], names: Names, variables: Iterable[int]) -> str:
    """The graph; edge g elements carry `data-p`, `data-s`, `data-t`, node g elements `data-v`, all by number.

    Args:
        drawing: the layout, whose own numbers count the variables of this picture.
        edges: what is known of each edge, by the numbers of the whole posterior.
        names: of all variables.
        variables: the number of each variable of the picture in the posterior.
    """
    of = list(variables)
    width, height = (int(np.ceil(side)) for side in drawing.size)
    lines, boxes = [], []
    for (i, j), curve in zip(drawing.edges.tolist(), drawing.curves, strict=True):
        edge = edges[of[i], of[j]]
        sign, path = _SIGNS[edge.sign], _path(curve)
        label = escape(edge_words(edge, names), quote=True)
        lines.append(
            f'<g class="edge {sign}" role="img" tabindex="-1" aria-label="{label}" data-p="{edge.probability:.4f}" '
            f'data-s="{edge.source}" data-t="{edge.target}"><path class="hit" d="{path}"/><path class="line" '
            f'd="{path}" stroke-width="{0.8 + 2.4 * edge.probability:.1f}" marker-end="url(#{sign}-head)"/></g>'
        )
    for at, ((x, y), wide) in enumerate(zip(drawing.centre, drawing.width, strict=True)):
        name = names[of[at]]
        full = f"<title>{escape(name)}</title>" if shortened(name) != name else ""
        boxes.append(
            f'<g class="node" data-v="{of[at]}">{full}<rect x="{x - wide / 2:.0f}" y="{y - BOX_HEIGHT / 2:.0f}" '
            f'width="{wide:.0f}" height="{BOX_HEIGHT:.0f}" rx="7"/><text x="{x:.0f}" y="{y + 4:.0f}">'
            f"{escape(shortened(name))}</text></g>"
        )
    return (
        f'<svg class="graph" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="group" '
        f'aria-label="Graph of {len(of)} variables; arrow keys go from edge to edge, the most probable first">'
        f'<g class="edges">{"".join(lines)}</g><g class="nodes">{"".join(boxes)}</g></svg>'
    )


def _path(curve: Float[np.ndarray, "points 2"]) -> str:
    points = [f"{x:.0f} {y:.0f}" for x, y in curve]
    return f"M{points[0]}C{' '.join(points[1:])}"


def changes(found: Contexts, rows: np.ndarray, order: np.ndarray, names: tuple[Names, Names]) -> str:
    """What moved and what was hit: contexts by variables, one path for each colour.

    Args:
        found: changes and targets.
        rows, order: contexts and variables in the order shown.
        names: of all contexts and of all variables.
    """
    contexts, variables = names
    left = 12 + _CHARACTER * max((len(shortened(contexts[k])) for k in rows), default=0)
    top = 12 + _CHARACTER * max((len(shortened(variables[j])) for j in order), default=0)
    colours: dict[str, list[str]] = {}
    bars, frames = [], []
    for y, k in enumerate(rows):
        for x, j in enumerate(order):
            at_x, at_y = left + x * CELL, top + y * CELL
            if found.moved[k, j]:
                sign = "up" if found.in_sd[k, j] > 0 else "down"
                step = int(np.searchsorted(_STEPS, abs(found.in_sd[k, j]), side="right"))
                colours.setdefault(f"{sign}{step}", []).append(f"M{at_x:.0f} {at_y:.0f}h13v13h-13z")
                if sign == "down":
                    bars.append(f"M{at_x + 3:.0f} {at_y + 6.5:.1f}h7")
            if found.hit[k, j]:
                frames.append(f"M{at_x:.0f} {at_y:.0f}h13v13h-13z")
    width, height = left + CELL * len(order) + 6, top + CELL * len(rows) + 6
    grid = "".join(f"M{left:.0f} {top + y * CELL - 0.5:.1f}H{width - 7:.0f}" for y in range(len(rows) + 1))
    grid += "".join(f"M{left + x * CELL - 0.5:.1f} {top:.0f}V{height - 7:.0f}" for x in range(len(order) + 1))
    cells = "".join(f'<path class="cell {name}" d="{"".join(paths)}"/>' for name, paths in sorted(colours.items()))
    across = "".join(
        f'<text transform="translate({left + x * CELL + 10:.0f} {top - 5:.0f}) rotate(-90)">'
        f"{escape(shortened(variables[j]))}</text>"
        for x, j in enumerate(order)
    )
    down = "".join(
        f'<text class="row" x="{left - 6:.0f}" y="{top + y * CELL + 11:.0f}" data-k="{k}">'
        f"{escape(shortened(contexts[k]))}</text>"
        for y, k in enumerate(rows)
    )
    order_of = f'data-rows="{" ".join(map(str, rows))}" data-columns="{" ".join(map(str, order))}"'
    label = "Which variables moved in which context, and what was hit; the table of targets has the same"
    place = f'data-left="{left:.0f}" data-top="{top:.0f}" data-cell="{CELL}"'
    marks = f'<path class="bars" d="{"".join(bars)}"/><path class="frames" d="{"".join(frames)}"/>'
    return (
        f'<svg class="changes" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" '
        f'role="img" aria-label="{label}" {place} {order_of}><path class="grid" d="{grid}"/>{cells}{marks}'
        f"{across}{down}</svg>"
    )


def traces(values: Float[np.ndarray, "chain draw"], label: str) -> str:
    """A number of every draw, a line for each replica; of very many draws some."""
    width, height, left = 560, 150, 64
    step = max(1, values.shape[1] // 500)
    shown = values[:, ::step]
    usable = shown[np.isfinite(shown)]
    if usable.size == 0 or shown.shape[1] < 2:
        return ""
    low, high = float(usable.min()), float(usable.max())
    span = (high - low) or 1.0
    lines = ""
    for chain, trace in enumerate(shown):
        x = left + np.arange(len(trace)) * (width - left - 10) / (len(trace) - 1)
        y = 10 + (high - trace) / span * (height - 30)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True) if np.isfinite(b))
        lines += f'<polyline class="trace chain{chain % 4}" points="{points}"/>'
    axis = f'<path class="axis" d="M{left - 4} 10V{height - 20}H{width - 10}"/>'
    marks = "".join(
        f'<text class="mark" x="{left - 8}" y="{at}">{value:,.{0 if span >= 10 else 1}f}</text>'
        for value, at in ((high, 14), (low, height - 17))
        if high > low or at == 14
    )
    return (
        f'<svg class="traces" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(label, quote=True)} of the draws, one line for each replica, from {number(low)} to '
        f'{number(high)}">{axis}{marks}{lines}<text x="{(left + width) / 2:.0f}" y="{height - 4}">draw</text></svg>'
    )


def bars(shares: Float[np.ndarray, " n"], labels: list[str]) -> str:
    """Weights as bars with their labels, one below the other."""
    row, left, width = 22, 110, 420
    rects = ""
    for at, (share, label) in enumerate(zip(shares.tolist(), labels, strict=True)):
        long = share * (width - left - 70)
        rects += (
            f'<text class="row" x="{left - 8}" y="{row * at + 15}">{escape(label)}</text>'
            f'<rect class="bar" x="{left}" y="{row * at + 4}" width="{max(long, 1):.1f}" height="14"/>'
            f'<text x="{left + long + 8:.1f}" y="{row * at + 15}">{probability(share)}</text>'
        )
    height = row * len(labels) + 4
    return (
        f'<svg class="bars" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="Weights of the most probable structures: {", ".join(probability(float(s)) for s in shares)}">'
        f"{rects}</svg>"
    )
