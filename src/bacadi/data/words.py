"""Small pieces of sentences that every message of the data edge is made of."""

import difflib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

LINE_INDEX = "file line"
"""Name of the index of a table read from a text file: its labels are line numbers of that file, the header being 1."""

ARRAY_INDEX = "array row"
"""Name of the index of a table put together from arrays: its labels are `context[row]`."""

_MAX_QUOTED = 40


def quoted(value: object) -> str:
    """The value between quotes on one line, shortened when it is long.

    >>> quoted("wild type")
    "'wild type'"
    """
    text = "".join(character if character.isprintable() else " " for character in str(value))
    return f"'{text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 1] + '…'}'"


def listed(values: Iterable[object], limit: int = 6) -> str:
    """A readable list of quoted values, cut after `limit`.

    >>> listed(["a", "b", "c"])
    "'a', 'b' and 'c'"
    >>> listed("abcdefgh", limit=2)
    "'a', 'b' and 6 more"
    """
    items = [quoted(value) for value in values]
    if len(items) > limit:
        items = [*items[:limit], f"{len(items) - limit} more"]
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else "none"


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 row`, `2 rows`.

    >>> counted(1, "row"), counted(12, "row")
    ('1 row', '12 rows')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def closest(value: str, known: Sequence[str]) -> str:
    """A suggestion for a misspelt name, ready to be put after it, empty when nothing known is near.

    >>> closest("contxt", ["a", "context"])
    " (did you mean 'context'?)"
    """
    by_lower = {name.strip().lower(): name for name in known}
    near = difflib.get_close_matches(value.strip().lower(), list(by_lower), n=1, cutoff=0.6)
    return f" (did you mean {quoted(by_lower[near[0]])}?)" if near else ""


def row_name(index: "pd.Index", position: int) -> str:
    """How to call the row at `position`: by file line, or by index label for a frame.

    >>> import pandas as pd
    >>> row_name(pd.RangeIndex(2, 5, name=LINE_INDEX), 0), row_name(pd.Index(["cell_1"]), 0)
    ('line 2', "the row with index label 'cell_1'")
    """
    label = index[position]
    if index.name == LINE_INDEX:
        return f"line {label}"
    if index.name == ARRAY_INDEX:
        return f"array row {label}"
    return f"the row with index label {quoted(label) if isinstance(label, str) else label}"
