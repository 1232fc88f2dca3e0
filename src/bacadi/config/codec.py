"""The codec between choices and plain tables: TOML files, presets, `config.json`, attributes and fingerprints are its.

A table mirrors the object: one key per field, a nested table per nested choice, and the key `type` where a choice is
one of several, by the names of `names.NAMES` or as `module:Class` for a class of the user's own. A key that the chosen
class does not have is an unknown key, so nothing without effect passes silently.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

from bacadi.config.choices import REFUSED, Choice, hints_of, rules_of, shown, without_none
from bacadi.config.names import NAMES
from bacadi.data.text import closest, listed, quoted
from bacadi.errors import BacadiError, ConfigError

TYPE = "type"
Table = dict[str, Any]


class Place(NamedTuple):
    """Where a table comes from, for messages, and which modules it may name classes of.

    `modules` is None for what users write themselves, in a file or a flag: any module may be named. What is read back
    from a record may name only the modules that the user lists again.
    """

    source: str
    path: tuple[str, ...] = ()
    modules: tuple[str, ...] | None = None

    def below(self, key: str) -> "Place":
        """The place of a table under `key`."""
        return self._replace(path=(*self.path, key))

    def key(self, name: str) -> str:
        """A key of this table, as messages name it."""
        section = f"of section [{'.'.join(self.path)}] " if self.path else ""
        return f"The key {quoted(name)} {section}in {self.source}"

    @property
    def words(self) -> str:
        """This table, as messages name it."""
        return f"The section [{'.'.join(self.path)}] in {self.source}" if self.path else f"The file {self.source}"


def read_toml(path: Path, noun: str) -> Table:
    """The tables of a TOML file; `noun` says what the file is ("configuration file") where it is refused."""
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"There is no {noun} '{path}'; give the path of a TOML file.") from None
    except tomllib.TOMLDecodeError as failure:
        reason = str(failure).strip().rstrip(".")
        raise ConfigError(f"The {noun} {quoted(path.name)} is not TOML: {reason[:1].lower()}{reason[1:]}.") from None
    except (OSError, ValueError, RecursionError) as failure:
        what = failure.strerror.lower() if isinstance(failure, OSError) and failure.strerror else "not UTF-8 text"
        raise ConfigError(f"The {noun} '{path}' cannot be read ({what}); give a TOML file.") from None


def load(path: str) -> Any:
    """Import `module:Name` and return the object of that name."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def group_of(cls: Any) -> str | None:
    """The group of `NAMES` that a class belongs to: its own path or that of the nearest base that has one.

    >>> from bacadi.model.noise import FixedNoise
    >>> group_of(FixedNoise)
    'bacadi.model.noise:AbstractNoise'
    """
    return next((path for path in map(_path, getattr(cls, "__mro__", ())) if path in NAMES), None)


def named_type(name: Any, group: str, place: Place, key: str = TYPE) -> Any:
    """The class (or function) that a name of a group means, imported now.

    Refuse an unknown name, with the nearest known one, and a class that may not be imported here.
    """
    names = NAMES[group]
    if isinstance(name, str) and name in names:
        return load(names[name])
    if isinstance(name, str) and ":" in name:
        return _own_class(name, group, place, key)
    near = closest(name, list(names)) if isinstance(name, str) else ""
    raise ConfigError(f"{place.key(key)} is {shown(name)}{near}; give one of {', '.join(names)}, or module:Class.")


def _own_class(name: str, group: str, place: Place, key: str) -> Any:
    module, which = name.partition(":")[0], f"{quoted(name)}, which"
    if place.modules is not None and module not in place.modules:
        remedy = f"allow its import with --import {module} if you trust it"
        raise ConfigError(f"{place.key(key)} names the class {which} is not part of bacadi; {remedy}.")
    try:
        cls = load(name)
    except (ImportError, AttributeError, ValueError) as failure:
        raise ConfigError(f"{place.key(key)} names {which} cannot be imported ({failure}).") from failure
    base = load(group) if ":" in group else object
    if isinstance(base, type) and not (isinstance(cls, type) and issubclass(cls, base)):
        raise ConfigError(f"{place.key(key)} names {which} is not a {base.__name__}; derive it from that.")
    return cls


def decode(hint: Any, value: Any, place: Place, key: str = "", group: str | None = None) -> Any:
    """Build what a value of a table means for a field of type `hint`, or refuse it in one sentence.

    Args:
        hint: a `Choice` class, or a tuple, a table (`dict[str, …]`) or an optional of one; `Any` takes what it gets.
        value: a table; for a choice of several also the bare name of its type.
        place: the table that holds the value, under `key`.
        group: the group of `NAMES` to pick from where `hint` does not say it (functions).

    >>> from bacadi.model.noise import AbstractNoise
    >>> decode(AbstractNoise, {"type": "fixed", "std": 1}, Place("the example"))
    FixedNoise(std=1.0)
    """
    inner, optional = without_none(hint)
    if get_origin(inner) is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{place.key(key)} is {shown(value)}; give a list of tables.")
        return tuple(decode(get_args(inner)[0], item, place, f"{key}.{n}") for n, item in enumerate(value, 1))
    if inner is Any and group is None:
        return value
    if optional and isinstance(value, str) and value in ("auto", "none"):
        return None
    group = group or group_of(inner)
    below = place.below(key) if key else place
    if group is not None:
        table = {TYPE: value} if isinstance(value, str) else value
        if not isinstance(table, Mapping) or TYPE not in table:
            raise ConfigError(f"{below.words} has no key 'type'; give one of {', '.join(NAMES[group])}.")
        inner = named_type(table[TYPE], group, below)
        value = {name: item for name, item in table.items() if name != TYPE}
        if not isinstance(inner, type) and not value:
            return inner
    if not isinstance(value, Mapping):
        raise ConfigError(f"{place.key(key)} is {shown(value)}; write its keys below a line [{'.'.join(below.path)}].")
    if get_origin(inner) is dict:
        return {name: decode(get_args(inner)[1], item, below, name) for name, item in value.items()}
    return build(inner, value, below)


def build(cls: Any, table: Mapping[str, Any], place: Place) -> Any:
    """Make an object of a class from the table of its fields; fields that are not given keep their defaults."""
    hints: dict[str, Any] = hints_of(cls) if is_dataclass(cls) else {}  # type: ignore[arg-type]
    for key in table:
        if key not in hints:
            keys = f"the keys are {listed(hints, 99)}" if hints else "it takes none"
            raise ConfigError(f"{place.key(key)} is not known{closest(key, list(hints))}; {keys}.")
    arguments = {key: read_field(cls, key, value, place) for key, value in table.items()}
    try:
        return cls(**arguments)
    except BacadiError as refusal:
        sentence = str(refusal)
        raise ConfigError(f"{place.words} makes no sense: {sentence[:1].lower()}{sentence[1:]}") from None
    except TypeError:
        missing = [entry.name for entry in fields(cls) if entry.name not in arguments]
        raise ConfigError(f"{place.words} lacks a key; give {listed(missing)}.") from None


def read_field(cls: Any, key: str, value: Any, place: Place) -> Any:
    """The value of one field of a class from its value in a table."""
    rule = rules_of(cls).get(key)
    if rule is None:
        group = next(entry.metadata.get("names") for entry in fields(cls) if entry.name == key)
        return decode(hints_of(cls)[key], value, place, key, group)
    if (read := rule.read(value)) is REFUSED:
        raise ConfigError(f"{place.key(key)} is {shown(value)}; give {rule.instead_of(value)}.")
    return read


def encode(choice: Any, none: str = "auto", group: str | None = None, brief: bool = False) -> Any:
    """The plain table of a choice, the inverse of `decode`: all fields, given or default, fit for JSON and TOML.

    Objects that have no name (a schedule of optax, a lambda) are described well enough to tell them apart. A `brief`
    table leaves out what equals the default of its field, so that a field which is added later changes no old table; a
    choice of several keeps its name, so that another default choice changes none either.

    >>> from bacadi.model.noise import InferredNoise
    >>> encode(InferredNoise(1.0, 0.5))
    {'type': 'inferred', 'shape': 1.0, 'scale': 0.5, 'widths': [1.0]}
    >>> encode(InferredNoise(scale=0.5), brief=True)
    {'type': 'inferred', 'scale': 0.5}
    >>> from bacadi.simulate import SyntheticSpec
    >>> encode(SyntheticSpec(n_variables=9), brief=True)["graph"]
    {'type': 'erdos-renyi'}
    """
    if choice is None:
        return none
    if isinstance(choice, bool | int | float | str):
        return choice
    if isinstance(choice, Choice):
        group = group or group_of(type(choice))
        head = {} if group is None else {TYPE: name_of(choice, group)}
        told = [entry for entry in fields(choice) if not (brief and _is_default(choice, entry))]  # type: ignore[arg-type]
        return head | {entry.name: _encode_field(choice, entry, brief) for entry in told}
    if isinstance(choice, tuple | list):
        return [encode(item, brief=brief) for item in choice]
    if isinstance(choice, Mapping):
        return {str(name): encode(item, brief=brief) for name, item in choice.items()}
    return _described(choice)


def _encode_field(choice: Choice, entry: Any, brief: bool) -> Any:
    words = entry.metadata.get("none", "auto"), entry.metadata.get("names")
    return encode(getattr(choice, entry.name), *words, brief=brief)


def _is_default(choice: Choice, entry: Any) -> bool:
    if group_of(type(getattr(choice, entry.name))) is not None or entry.metadata.get("names"):
        return False
    default = entry.default if entry.default_factory is MISSING else entry.default_factory()
    return default is not MISSING and bool(getattr(choice, entry.name) == default)


def name_of(choice: Any, group: str) -> str:
    """The name of an object's class (or of a function) within its group, or `module:Class` outside of it."""
    path = _path(choice if callable(choice) and not isinstance(choice, Choice) else type(choice))
    return next((name for name, known in NAMES[group].items() if known == path), path)


def fingerprint_text(choices: Iterable[Any]) -> str:
    """A canonical text of choices, equal for equal choices."""
    return json.dumps([encode(choice) for choice in choices], sort_keys=True)


def _described(value: Any) -> Any:
    """What is not a `Choice`: a function by its name and what it closes over, an object by its attributes."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if not callable(value):
        return str(value)
    path = _path(value)
    if named := [name for names in NAMES.values() for name, known in names.items() if known == path]:
        return named[0]
    parts = [encode(part) for part in _held_by(value) if part is not value]
    return {"function": path, "closure": parts} if parts else {"function": path}


def _held_by(function: Any) -> list[Any]:
    """The values that a callable computes with: cells of a closure, arguments of a partial, attributes of an object."""
    if isinstance(function, partial):
        return [function.args, function.keywords]
    if not hasattr(function, "__qualname__"):
        return [vars(function)]
    return [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]


def _path(thing: Any) -> str:
    thing = getattr(thing, "func", thing)
    return f"{getattr(thing, '__module__', '?')}:{getattr(thing, '__qualname__', type(thing).__qualname__)}"
