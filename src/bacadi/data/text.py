"""Small pieces of sentences that every message of the data edge is made of.

Writing a file so that it is either there whole or not there.
"""

import difflib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bacadi.errors import StoreError

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


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path`, renamed to it when the block ends well and removed when it does not.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "note.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     [entry.name for entry in Path(folder).iterdir()]
    ['note.txt']
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        raise StoreError(
            f"'{path}' cannot be written ({error.strerror or error}); choose a folder that can be written to."
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text with the line ends it has."""
    with replacing(path) as temporary:
        temporary.write_bytes(text.encode())
