"""Text in and out: the words that messages are made of, small tables of names, files that are written whole or not."""

import csv
import difflib
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from bacadi.errors import DataError, StoreError

_MAX_QUOTED, _QUOTED_END = 60, 24
_TEMPORARY = ".bacadi-"


def quoted(value: object) -> str:
    """The value between quotes on one line; of a long one the middle is left out, because names differ at the end.

    >>> quoted("wild type")
    "'wild type'"
    """
    text = "".join(character if character.isprintable() else " " for character in str(value))
    if len(text) > _MAX_QUOTED:
        text = f"{text[: _MAX_QUOTED - _QUOTED_END - 1]}…{text[-_QUOTED_END:]}"
    return f"'{text}'"


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


def printable(text: str) -> str:
    """Text that a terminal shows as it is: control characters but the end of a line are spelt out.

    >>> print(printable(chr(27) + "[31m"))
    \\x1b[31m
    """
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def duration(seconds: float) -> str:
    """A length of time in words, as exact as a person wants it.

    >>> duration(40), duration(200), duration(20_000)
    ('40 seconds', '3 minutes', '5.6 hours')
    """
    if seconds < 90:
        return counted(round(seconds), "second")
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def closest(value: str, names: Sequence[str]) -> str:
    """Suggest a name for a misspelt one, as words to put after it; empty when no name is close.

    >>> closest("contxt", ["a", "context"])
    " (did you mean 'context'?)"
    """
    by_lower = {name.strip().lower(): name for name in names}
    near = difflib.get_close_matches(value.strip().lower(), list(by_lower), n=1, cutoff=0.6)
    return f" (did you mean {quoted(by_lower[near[0]])}?)" if near else ""


def read_rows(path: str | Path, noun: str) -> list[tuple[int, list[str]]]:
    """Line number and stripped cells of every row of a small CSV table that is not blank, the header included.

    For tables of names, which stay text; tables of numbers are read by `data.tables.read_table`. A file that cannot be
    read, is not UTF-8 or is not CSV is refused; whether the rows make sense is for the caller to say.

    Args:
        path: the file, in UTF-8 with or without a byte order mark.
        noun: what the file is to the user, for the refusal: "targets file".

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "targets.csv"
    >>> _ = path.write_text("context,variable\\n\\nko, a\\n")
    >>> read_rows(path, "targets file")
    [(1, ['context', 'variable']), (3, ['ko', 'a'])]
    """
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as failure:
        reason = (failure.strerror or "").lower() if isinstance(failure, OSError) else "it is not UTF-8 text"
        raise DataError(f"The {noun} '{path}' cannot be read ({reason}); give a CSV file in UTF-8.") from None
    rows = split_rows(text, ",", f"the {noun} {quoted(path.name)}")
    return [(first, [cell.strip() for cell in cells]) for first, _, cells in rows]


def split_rows(text: str, delimiter: str, where: str) -> Iterator[tuple[int, int, list[str]]]:
    """First line, last line and cells of every row that has more than white space and delimiters in it.

    Spreadsheets like to append rows of nothing but delimiters; a quoted cell may run over several lines. `where` names
    the file in the refusal of quotes that do not match.

    >>> list(split_rows('a,b\\n,\\n1,"two\\nlines"', ",", "the text"))
    [(1, 1, ['a', 'b']), (3, 4, ['1', 'two\\nlines'])]
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    first = 1
    try:
        for cells in reader:
            if any(map(str.strip, cells)):
                yield first, reader.line_num, cells
            first = reader.line_num + 1
    except csv.Error:
        remedy = "close or remove the quote there"
        raise DataError(f"The quotes in {where} do not match from line {first} on; {remedy}.") from None


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary file beside `path`, renamed to it when the block ends well and removed when it does not.

    The file is new and its name cannot be guessed, so that nobody else's file is written to; a link at `path` is
    replaced and not followed. `sweep` removes what a killed process left behind.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "note.txt") as temporary:
    ...         _ = temporary.write_text("whole")
    ...     [entry.name for entry in Path(folder).iterdir()]
    ['note.txt']
    """
    path = Path(path)
    temporary = path.with_name(f"{_TEMPORARY}{token_hex(8)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.open("xb").close()
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        remedy = "make room or choose a folder that can be written to"
        raise StoreError(f"'{path}' cannot be written ({error.strerror or error}); {remedy}.") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove temporary files that a killed process left in a folder; nobody else may be writing there."""
    for entry in folder.glob(f"{_TEMPORARY}*.tmp"):
        with suppress(OSError):
            entry.unlink()


def write_text(path: str | Path, text: str) -> None:
    """Write a file of UTF-8 text whole or not at all, with the line ends that the text has.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "new folder" / "note.txt"
    >>> write_text(path, "a\\n")
    >>> path.read_bytes()
    b'a\\n'
    """
    with replacing(path) as temporary:
        temporary.write_bytes(text.encode())
