"""A posterior in a notebook: the verdict and small heat maps of edges and targets, as one piece of HTML."""

from html import escape
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from bacadi.posterior.posterior import Posterior

_MOST = 30
_TABLE = "border-collapse:collapse;font-size:11px;margin:4px 24px 8px 0"
_CELL = "width:22px;height:18px;padding:0 2px;text-align:center;border:1px solid #eee"
_NAME = "padding:0 6px;text-align:right;white-space:nowrap"
_ACROSS = "padding:4px 2px;writing-mode:vertical-rl;transform:rotate(180deg);white-space:nowrap"


def posterior_html(posterior: "Posterior") -> str:
    """Verdict, size and two heat maps: P(edge) from row to column, P(target) by context; labels are escaped.

    Of more than thirty variables or contexts those with the largest probabilities are shown.
    """
    lines = posterior.describe().splitlines()
    edges, targets = posterior.edge_probabilities(), posterior.target_probabilities()
    names = posterior.variables
    shown = _largest(np.maximum(edges.max(axis=0, initial=0), edges.max(axis=1, initial=0)))
    maps = [heat_map("edge, row → column", names, names, edges, shown, shown)]
    if posterior.contexts:
        rows, columns = _largest(targets.max(axis=1)), _largest(targets.max(axis=0))
        maps.append(heat_map("target, by context", posterior.contexts, names, targets, rows, columns))
    return (
        f"<div><p><b>{escape(lines[0])}</b><br>{escape(repr(posterior))}</p>"
        f'<div style="display:flex;flex-wrap:wrap">{"".join(maps)}</div></div>'
    )


def heat_map(
    title: str,
    first: tuple[str, ...],
    second: tuple[str, ...],
    p: Float[np.ndarray, "a b"],
    rows: list[int],
    columns: list[int],
) -> str:
    """A table whose cells are the darker the more probable; probabilities from .05 on are written out.

    >>> "0.50" in heat_map("edge", ("<a>",), ("b",), np.array([[0.5]]), [0], [0])
    True
    """
    left_out = len(first) - len(rows) + len(second) - len(columns)
    more = f" ({len(rows)} × {len(columns)} of {len(first)} × {len(second)})" if left_out else ""
    head = "".join(f'<th style="{_ACROSS}">{escape(second[j])}</th>' for j in columns)
    body = [
        f'<tr><th style="{_NAME}">{escape(first[i])}</th>{"".join(_cell(float(p[i, j])) for j in columns)}</tr>'
        for i in rows
    ]
    caption = f'<caption style="text-align:left">{escape(title)}{more}</caption>'
    return f'<table style="{_TABLE}">{caption}<tr><th></th>{head}</tr>{"".join(body)}</table>'


def _cell(p: float) -> str:
    shade = round(255 - 205 * p)
    colour = f"background:rgb({shade},{round(255 - 130 * p)},255);color:{'#fff' if p > 0.6 else '#222'}"
    return f'<td style="{_CELL};{colour}" title="{p:.4f}">{f"{p:.2f}" if p >= 0.05 else ""}</td>'


def _largest(score: Float[np.ndarray, " n"]) -> list[int]:
    """The positions of the largest scores, in their own order."""
    return sorted(np.argsort(-score, kind="stable")[:_MOST].tolist())
