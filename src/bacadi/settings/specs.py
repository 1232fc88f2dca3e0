"""Specifications of tasks as TOML: strict tables on one side, the frozen dataclasses of `bacadi.simulate` on the other.

Keys, types and defaults are those of the dataclasses. A new kind of task is one entry of `KINDS`; a new graph family,
mechanism, effect or technical noise is one entry of `CHOICES` and is picked by the key `type` of its table.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np

from bacadi.data.text import closest, listed, quoted
from bacadi.errors import ConfigError
from bacadi.settings.rules import REFUSED, Choice, Flag, Number, Rule, Whole
from bacadi.settings.toml import toml_values
from bacadi.simulate import graphs as families
from bacadi.simulate import grn as grn_noise
from bacadi.simulate import synthetic as effects
from bacadi.simulate import synthetic as mechanisms
from bacadi.simulate.expression import GeneExpressionSpec
from bacadi.simulate.synthetic import SyntheticSpec

Spec = SyntheticSpec | GeneExpressionSpec
KINDS: dict[str, type] = {"synthetic": SyntheticSpec, "expression": GeneExpressionSpec}
CHOICES: dict[type, dict[str, type]] = {
    families.AbstractGraphFamily: {"erdos-renyi": families.ErdosRenyi, "scale-free": families.ScaleFree},
    mechanisms.AbstractMechanism: {"linear": mechanisms.Linear, "neural": mechanisms.Neural},
    effects.AbstractEffect: {
        "hard": effects.Hard,
        "hard-at": effects.HardAt,
        "shift": effects.Shift,
        "scale": effects.Scale,
        "soft": effects.Soft,
    },
    grn_noise.AbstractTechnicalNoise: {
        "outliers": grn_noise.Outliers,
        "library-size": grn_noise.LibrarySize,
        "dropout": grn_noise.Dropout,
        "counts": grn_noise.Counts,
    },
}
_KIND, _TYPE = "kind", "type"
_NOTHING = "auto"  # stands for None, which TOML does not have


class _Place(NamedTuple):
    """Where in which file a table stands, for messages."""

    file: str
    path: tuple[str, ...] = ()

    def below(self, key: str) -> "_Place":
        return _Place(self.file, (*self.path, key))

    def key(self, name: str) -> str:
        return f"The key {quoted(name)} {f'of section {self.section} ' if self.path else ''}in {self.file}"

    @property
    def section(self) -> str:
        return f"[{'.'.join(self.path)}]"

    @property
    def words(self) -> str:
        return f"The section {self.section} in {self.file}" if self.path else f"The specification {self.file}"


def read_spec(path: str | Path) -> Spec:
    """The specification in a TOML file, or a refusal of one sentence that names file and key.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "task.toml"
    >>> _ = path.write_text('kind = "synthetic"\\nn_variables = 9\\n[graph]\\ntype = "scale-free"\\n')
    >>> spec = read_spec(path)
    >>> spec.n_variables, spec.graph, spec.n_observational
    (9, ScaleFree(edges_per_node=2), 100)
    """
    path = Path(path)
    return spec_from(toml_values(path, "specification"), quoted(path.name))


def spec_from(values: Mapping[str, Any], where: str) -> Spec:
    """The specification that nested tables stand for; `where` names their origin in refusals.

    >>> spec_from({"kind": "synthetic", "n_variables": 5, "noise": {"low": 0.1, "high": 0.1}}, "the example").noise
    UniformNoise(low=0.1, high=0.1)
    """
    place = _Place(where)
    spec: Spec = _chosen(KINDS, _KIND, values, place)
    _check_density(spec, place)
    return spec


def values_of(spec: Spec) -> dict[str, Any]:
    """The inverse of `spec_from`: all values, given or default, as tables fit for JSON and TOML.

    >>> values_of(SyntheticSpec(n_variables=5))["graph"]
    {'type': 'erdos-renyi', 'edges_per_node': 2}
    """
    return {_KIND: _name(KINDS, spec), **_table(spec)}


def _chosen(options: dict[str, type], key: str, values: Mapping[str, Any], place: _Place) -> Any:
    """An object of the class that the key `kind` or `type` of a table names."""
    rule = Choice(tuple(options))
    if key not in values:
        raise ConfigError(f"{place.words} has no key {quoted(key)}; give {rule.words}.")
    name = values[key]
    if rule.read(name) is REFUSED:
        near = closest(name, list(options)) if isinstance(name, str) else ""
        raise ConfigError(f"{place.key(key)} is {_shown(name)}{near}; give {rule.words}.")
    return _built(options[name], {other: value for other, value in values.items() if other != key}, place)


def _built(cls: type, values: Mapping[str, Any], place: _Place) -> Any:
    hints = _hints(cls)
    for key in values:
        if key not in hints:
            near = closest(key, list(hints))
            keys = f"the keys are {listed(hints, 99)}" if hints else "it takes none"
            raise ConfigError(f"{place.key(key)} is not known{near}; {keys}.")
    arguments = {key: _read(hints[key], key, value, place) for key, value in values.items()}
    try:
        return cls(**arguments)
    except ConfigError as refusal:
        raise ConfigError(f"{place.words} makes no task: {_inside(str(refusal))}") from None


def _read(hint: Any, key: str, value: Any, place: _Place) -> Any:
    inner, optional = _present(hint)
    if get_origin(inner) is tuple:
        return _read_list(get_args(inner)[0], key, value, place)
    if inner in CHOICES or is_dataclass(inner):
        return _read_section(inner, key, value, place)
    rule = _rule(inner, _NOTHING if optional else None)
    read = rule.read(value)
    if read is REFUSED:
        raise ConfigError(f"{place.key(key)} is {_shown(value)}; give {rule.words}.")
    return None if optional and read == _NOTHING else read


def _read_section(hint: Any, key: str, value: Any, place: _Place) -> Any:
    below = place.below(key)
    if not isinstance(value, dict):
        raise ConfigError(f"{place.key(key)} is no section; write its keys below a line {below.section}.")
    return _chosen(CHOICES[hint], _TYPE, value, below) if hint in CHOICES else _built(hint, value, below)


def _read_list(hint: Any, key: str, value: Any, place: _Place) -> tuple[Any, ...]:
    """One object a table, each below a line of its own with double brackets."""
    below = place.below(key)
    if not isinstance(value, list):
        raise ConfigError(f"{place.key(key)} is no list of sections; write each below a line [{below.section}].")
    return tuple(_read_section(hint, f"{key}.{n}", item, place) for n, item in enumerate(value, 1))


def _rule(hint: Any, word: str | None) -> Rule:
    rules: dict[Any, Rule] = {int: Whole(least=0, word=word), float: Number(word=word), bool: Flag()}
    return rules[hint]


def _check_density(spec: Spec, place: _Place) -> None:
    """A graph family refuses a density only when it draws, and then it knows neither key nor file."""
    try:
        spec.graph.draw(np.random.default_rng(0), spec.n_variables)
    except ConfigError as refusal:
        key = place.below("graph").key("edges_per_node")
        raise ConfigError(f"{key} does not fit n_variables = {spec.n_variables}: {_inside(str(refusal))}") from None
    except (MemoryError, OverflowError, ValueError):  # what NumPy makes of an array that is too large
        raise ConfigError(
            f"{place.key('n_variables')} is {spec.n_variables}, whose graph does not fit into memory; ask for fewer."
        ) from None


def _hints(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {entry.name: hints[entry.name] for entry in fields(cls)}  # type: ignore[arg-type]


def _present(hint: Any) -> tuple[Any, bool]:
    """A type without its None, and whether it had one."""
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    present = [argument for argument in get_args(hint) if argument is not NoneType]
    return present[0], len(present) < len(get_args(hint))


def _table(spec: Any) -> dict[str, Any]:
    return {key: _plain(_present(hint)[0], getattr(spec, key)) for key, hint in _hints(type(spec)).items()}


def _plain(hint: Any, value: Any) -> Any:
    if value is None:
        return _NOTHING
    if isinstance(value, tuple):
        return [_plain(get_args(hint)[0], item) for item in value]
    named = {_TYPE: _name(CHOICES[hint], value)} if hint in CHOICES else {}
    return {**named, **_table(value)} if is_dataclass(value) else value


def _name(options: dict[str, type], chosen: Any) -> str:
    return next(name for name, cls in options.items() if cls is type(chosen))


def _inside(sentence: str) -> str:
    """A sentence fit to stand after a colon."""
    return sentence[:1].lower() + sentence[1:]


def _shown(value: Any) -> str:
    return quoted(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
