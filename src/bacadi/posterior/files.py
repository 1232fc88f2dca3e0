"""Writing a file so that it is either there whole or not there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bacadi.errors import StoreError


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
