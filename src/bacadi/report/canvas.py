"""What all figures share: a page measured in inches, names along axes, heat maps, colours that survive grey.

Figures are matplotlib `Figure` objects: no pyplot state, no display, no global settings. Everything is placed by inches
from the upper left corner, so that every cell of every heat map has the same size. Blue and vermilion (Okabe and Ito)
are told apart by the colour-blind; where a sign matters in grey, lines are solid or broken and numbers carry it too.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Shaped

from bacadi.data.text import replacing
from bacadi.errors import ConfigError
from bacadi.report.layout import LONGEST_NAME, Names, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS, INK, GREY, LINE = "Blues", "#22303c", "#66727c", "#d5dce2"
POSITIVE, NEGATIVE = "#0072B2", "#D55E00"
MARGIN, BAR = 0.2, 0.12  # inches
_INCHES_PER_POINT = 1 / 72
Matrix = Shaped[np.ndarray, "rows columns"]


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


class AxisNames:
    """Names along an axis, as they are drawn: shortened, and none where the cells are too small to read them.

    The type fits a cell of `cell` inches and has at most 8 points; below 4.5 points there are no names. `inches` is
    the room that the longest name takes along its own direction.
    """

    def __init__(self, names: Names, cell: float) -> None:
        self.size = min(8.0, 0.8 * cell / _INCHES_PER_POINT)
        self.shown = tuple(plain(name) for name in names) if self.size >= 4.5 else ()
        self.inches = max(map(len, self.shown), default=0) * 0.62 * self.size * _INCHES_PER_POINT + 0.06

    def below(self, cell: float, level: float) -> float:
        """Room that names below cells of this width take: `level` inches, or their length if they have to be turned."""
        return self.inches if self.inches > cell else level


def axes_at(figure: "Figure", left: float, top: float, width: float, height: float) -> "Axes":
    """Axes with their upper left corner `left` and `top` inches from that of the figure."""
    total_width, total_height = figure.get_size_inches()
    bottom = 1 - (top + height) / total_height
    return figure.add_axes((left / total_width, bottom, width / total_width, height / total_height))


def text_at(figure: "Figure", left: float, top: float, text: str, **style: Any) -> None:
    """Text anchored `left` and `top` inches from the upper left corner of the figure."""
    width, height = figure.get_size_inches()
    figure.text(left / width, 1 - top / height, text, **{"color": INK, "fontsize": 8, "va": "top", **style})


def plain(name: str, longest: int = LONGEST_NAME) -> str:
    """A name as matplotlib draws it verbatim: short, and without a dollar sign, which would begin a formula."""
    return shortened(name, longest).replace("$", r"\$")


def outline(axes: "Axes", cells: Matrix, cell: float, colour: str = NEGATIVE) -> None:
    """Draw a frame around cells (row, column) of a heat map, visible on white and on dark blue."""
    from matplotlib.patches import Rectangle

    for line, width in (("white", 2.4), (colour, 1.2)):
        for row, column in cells:
            frame = Rectangle(
                (column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=line, linewidth=width * min(1.0, 6 * cell)
            )
            frame.set_clip_on(False)
            axes.add_patch(frame)


def heat_map(axes: "Axes", values: Matrix, rows: AxisNames | None, columns: AxisNames | None) -> None:
    """Values in 0..1 as blue cells with thin lines between them; names where they are given."""
    cells(axes, values, (rows, columns), COLOURS)


def cells(
    axes: "Axes",
    values: Matrix,
    names: tuple[AxisNames | None, AxisNames | None],
    colours: Any,
    ends: float | None = None,
) -> None:
    """Values as coloured cells, from 0 to 1 or from -`ends` to `ends`, with names of rows and columns."""
    (n_rows, n_columns), (rows, columns) = values.shape, names
    low, high = (0.0, 1.0) if ends is None else (-ends, ends)
    axes.imshow(values, cmap=colours, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
    axes.set_xticks(np.arange(1, n_columns) - 0.5, minor=True)
    axes.set_yticks(np.arange(1, n_rows) - 0.5, minor=True)
    axes.grid(which="minor", color=LINE, linewidth=0.4 if n_columns <= 30 else 0.2)
    axes.tick_params(which="both", length=0, pad=2, colors=INK)
    axes.spines[:].set(color=GREY, linewidth=0.6)
    cell = axes.get_window_extent().width / axes.figure.dpi / max(n_columns, 1)
    turned = columns is not None and columns.inches > cell
    for set_ticks, labels, rotation in ((axes.set_xticks, columns, 90 * turned), (axes.set_yticks, rows, 0)):
        if labels is None or not labels.shown:
            set_ticks([])
        else:
            set_ticks(np.arange(len(labels.shown)), labels.shown, fontsize=labels.size, rotation=rotation)


def tidy(axes: "Axes", label: str) -> None:
    """Thin axes without a box, small numbers, and a label below."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(color=GREY, linewidth=0.6)
    axes.tick_params(length=2, labelsize=7, colors=INK, width=0.6)
    axes.set_xlabel(label, fontsize=8, color=GREY)


def colour_bar(figure: "Figure", axes: "Axes") -> None:
    """The scale from 0 to 1 on its own axes."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    bar = figure.colorbar(ScalarMappable(Normalize(0, 1), COLOURS), cax=axes, ticks=[0, 0.5, 1])
    bar.outline.set(linewidth=0.6, edgecolor=GREY)
    bar.ax.tick_params(length=2, labelsize=7, colors=INK)
    bar.set_label("probability", fontsize=7, color=INK)
