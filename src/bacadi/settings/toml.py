"""Reading TOML files, with refusals in one sentence."""

import tomllib
from pathlib import Path
from typing import Any

from bacadi.data.text import quoted
from bacadi.errors import ConfigError


def toml_values(path: Path, noun: str) -> dict[str, Any]:
    """The tables of a TOML file; `noun` says what the file is ("configuration file") where it is refused."""
    try:
        content = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"There is no {noun} '{path}'; give the path of a TOML file.") from None
    except (OSError, UnicodeDecodeError) as failure:
        what = failure.strerror.lower() if isinstance(failure, OSError) and failure.strerror else "not UTF-8 text"
        raise ConfigError(f"The {noun} '{path}' cannot be read ({what}); give a TOML file.") from None
    try:
        return tomllib.loads(content)
    except tomllib.TOMLDecodeError as failure:
        reason = str(failure).strip().rstrip(".")
        raise ConfigError(f"The {noun} {quoted(path.name)} is not TOML: {reason[:1].lower()}{reason[1:]}.") from None
