"""Placing heat maps on a figure by inches, so that every cell of every panel has the same size."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Shaped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = "Blues"
INK, GREY, LINE = "#22303c", "#66727c", "#d5dce2"
_LONGEST_NAME = 14
_INCHES_PER_POINT = 1 / 72


@dataclass(frozen=True)
class Names:
    """Names along an axis, as they are drawn: shortened, and none where the cells are too small to read them."""

    shown: tuple[str, ...]
    size: float

    @classmethod
    def fitting(cls, names: tuple[str, ...], cell: float) -> "Names":
        """Names in a type that fits a cell of `cell` inches, at most 8 points, or no names below 4.5 points."""
        size = min(8.0, 0.8 * cell / _INCHES_PER_POINT)
        return cls(tuple(_shortened(name) for name in names) if size >= 4.5 else (), size)

    @property
    def inches(self) -> float:
        """Room that the longest name takes along its own direction."""
        return max((len(name) for name in self.shown), default=0) * 0.62 * self.size * _INCHES_PER_POINT + 0.06

    def turned(self, cell: float) -> bool:
        """Whether names below cells of this width have to stand upright."""
        return bool(self.inches > cell)


def _shortened(name: str) -> str:
    """Start and end of a long name (names often share their start); a dollar sign would begin a formula."""
    name = " ".join(name.split())
    if len(name) > _LONGEST_NAME:
        name = f"{name[: _LONGEST_NAME - 6]}…{name[-5:]}"
    return name.replace("$", r"\$")


def axes_at(figure: "Figure", left: float, top: float, width: float, height: float) -> "Axes":
    """Axes with their upper left corner `left` and `top` inches from that of the figure."""
    total_width, total_height = figure.get_size_inches()
    return figure.add_axes(
        (left / total_width, 1 - (top + height) / total_height, width / total_width, height / total_height)
    )


def text_at(figure: "Figure", left: float, top: float, text: str, **style: Any) -> None:
    """Text anchored `left` and `top` inches from the upper left corner of the figure."""
    width, height = figure.get_size_inches()
    figure.text(left / width, 1 - top / height, text, **{"color": INK, "fontsize": 8, "va": "top", **style})


def heat_map(
    axes: "Axes", values: Shaped[np.ndarray, "rows columns"], rows: Names | None, columns: Names | None
) -> None:
    """Values in 0..1 as blue cells with thin lines between them; names where they are given."""
    n_rows, n_columns = values.shape
    axes.imshow(values, cmap=COLOURS, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    axes.set_xticks(np.arange(1, n_columns) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, n_rows) - 0.5, minor=True)
    axes.grid(which="minor", color=LINE, linewidth=0.4)
    axes.tick_params(which="both", length=0, pad=2, colors=INK)
    for spine in axes.spines.values():
        spine.set_color(GREY)
        spine.set_linewidth(0.6)
    cell = axes.get_window_extent().width / axes.figure.dpi / max(n_columns, 1)
    turned = columns is not None and columns.turned(cell)
    _label(axes, "x", columns, n_columns, 90 if turned else 0)
    _label(axes, "y", rows, n_rows, 0)


def colour_bar(figure: "Figure", axes: "Axes") -> None:
    """The scale from 0 to 1 on axes of its own."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    bar = figure.colorbar(ScalarMappable(Normalize(0, 1), COLOURS), cax=axes, ticks=[0, 0.5, 1])
    bar.outline.set_linewidth(0.6)
    bar.outline.set_edgecolor(GREY)
    bar.ax.tick_params(length=2, labelsize=7, colors=INK)
    bar.set_label("probability", fontsize=7, color=INK)


def _label(axes: "Axes", which: str, names: Names | None, count: int, rotation: int) -> None:
    setter = axes.set_xticks if which == "x" else axes.set_yticks
    if names is None or not names.shown:
        setter([])
    else:
        setter(np.arange(count), names.shown, fontsize=names.size, rotation=rotation)
