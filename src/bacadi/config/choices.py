"""Choices: frozen dataclasses whose fields state once what they may be.

A class that derives from `Choice` is a frozen dataclass without saying so. `option` gives a field its default and its
range; the constructor validates it, and the codec, the flags of the command line and the tables of the documentation
read the same statement.
"""

import math
from abc import ABC
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, Self, Union, dataclass_transform, get_args, get_origin, get_type_hints

from bacadi.data.text import quoted
from bacadi.errors import ConfigError

REFUSED = object()
"""What a rule answers to a value that it does not allow."""

LARGEST_COUNT = 10**9
"""The most that any whole number of a choice may be: nobody lives to see so many steps, rows or draws."""

_LARGEST = 10**300
_MAX_SHOWN = 60


def option(default: Any = MISSING, *, none: str = "auto", names: str | None = None, **limits: Any) -> Any:
    """Declare a field of a `Choice` with its default and what it may be.

    Args:
        default: the value where none is given; without it the field has to be given.
        none: the word that files use for None, which TOML does not have.
        names: the group of `names.NAMES` that a function (a schedule, a rule for weights) is picked from.
        limits: those of `Rule`. `above`, `least`, `below` and `most` are bounds of a number, or of every number of a
            tuple; `among` are the values to pick from.
    """
    return field(default=default, metadata={"none": none, "names": names, "limits": limits})


@dataclass_transform(frozen_default=True)
class Choice(ABC):  # noqa: B024
    """Base of everything that can be chosen: mechanisms, effects, priors, methods, specifications of tasks.

    Subclasses are frozen dataclasses, so that equal choices are equal objects; the constructor checks their ranges, and
    that a field `low` (or `…_low`) is at most `high` (`…_high`).

    >>> class Level(Choice):
    ...     alpha: float = option(0.05, above=0, below=1)
    >>> Level(0.5)
    Level(alpha=0.5)
    >>> Level(2.0)
    Traceback (most recent call last):
    bacadi.errors.ConfigError: alpha is 2.0; give a number above 0 and below 1.
    """

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        dataclass(frozen=True)(cls)

    def replace(self, **changes: Any) -> Self:
        """The same choice with other values in some fields."""
        return replace(self, **changes)  # type: ignore[type-var]

    def __post_init__(self) -> None:
        rules = rules_of(type(self))
        for name, rule in rules.items():
            value = getattr(self, name)
            if value is not None and rule.read(value) is REFUSED:
                raise ConfigError(f"{name} is {shown(value)}; give {rule.instead_of(value)}.")
        for low in rules:
            high = f"{low.removesuffix('low')}high"
            if high in rules and (least := getattr(self, low)) > (most := getattr(self, high)):
                raise ConfigError(f"{low} is {least} and {high} is {most}; give {low} <= {high}.")


@dataclass(frozen=True)
class Rule:
    """What a number, a name, a truth value or a list of these may be."""

    kind: type
    many: bool = False
    above: float | None = None
    least: float | None = None
    below: float | None = None
    most: float | None = None
    among: tuple[Any, ...] | None = None
    none: str | None = None

    def read(self, value: Any) -> Any:
        """Return the value in the type that the code wants (None for the word `none`), or `REFUSED`.

        >>> Rule(float, above=0, none="median").read("median"), Rule(float).read(2), Rule(int).read(2.5) is REFUSED
        (None, 2.0, True)
        """
        if self.none is not None and isinstance(value, str) and value == self.none:
            return None
        if not self.many:
            return self._one(value)
        if not isinstance(value, list | tuple):
            return REFUSED
        items = tuple(self._one(item) for item in value)
        return REFUSED if any(item is REFUSED for item in items) else items

    def _one(self, value: Any) -> Any:
        if self.among is not None:
            return value if any(type(value) is type(item) and value == item for item in self.among) else REFUSED
        if self.kind in (bool, str):
            return value if isinstance(value, self.kind) else REFUSED
        numbers = int if self.kind is int else int | float
        if isinstance(value, bool) or not isinstance(value, numbers) or self._is_beyond(value):
            return REFUSED
        low = (self.above is None or value > self.above) and (self.least is None or value >= self.least)
        high = (self.below is None or value < self.below) and (self.most is None or value <= self.most)
        return self.kind(value) if low and high else REFUSED

    def _is_beyond(self, value: float) -> bool:
        """Whether a number is too large to be counted to, or to be computed with."""
        if isinstance(value, int):
            return abs(value) > (LARGEST_COUNT if self.kind is int else _LARGEST)
        return not math.isfinite(value)

    def instead_of(self, value: Any) -> str:
        """`words` for the refusal of a value, with the bound of all counts where that is what it broke."""
        too_large = self.kind is int and isinstance(value, int) and value > LARGEST_COUNT and self.most is None
        return f"{self.words}, {LARGEST_COUNT} at most" if too_large else self.words

    @property
    def words(self) -> str:
        """What is allowed, as the object of "give …".

        >>> Rule(int, least=1, none="auto").words
        'a whole number of at least 1 or "auto"'
        """
        if self.among is not None:
            text = "one of " + ", ".join(str(item) for item in self.among)
        else:
            noun = {int: "whole number", float: "number", bool: "true or false", str: "text"}[self.kind]
            start = f"a list of {noun}s" if self.many else noun if self.kind in (bool, str) else f"a {noun}"
            bounds = [("above", self.above), ("of at least", self.least), ("below", self.below), ("at most", self.most)]
            limits = " and ".join(f"{word} {bound:g}" for word, bound in bounds if bound is not None)
            text = f"{start} {limits}".strip()
        return text if self.none is None else f'{text} or "{self.none}"'


@cache
def hints_of(cls: type) -> dict[str, Any]:
    """Field names and resolved types of a dataclass."""
    hints = get_type_hints(cls)
    return {entry.name: hints[entry.name] for entry in fields(cls)}


@cache
def rules_of(cls: type) -> dict[str, Rule]:
    """The rules of all fields that hold plain values; nested choices check themselves."""
    found = {entry.name: rule_of(hints_of(cls)[entry.name], entry.metadata) for entry in fields(cls)}
    return {name: rule for name, rule in found.items() if rule is not None}


def rule_of(hint: Any, metadata: Any) -> Rule | None:
    """The rule of a field from its type and its `option`, or None where it holds something else than plain values."""
    inner, optional = without_none(hint)
    many = get_origin(inner) is tuple
    kind = get_args(inner)[0] if many else inner
    if kind not in (int, float, bool, str):
        return None
    none = metadata.get("none", "auto") if optional else None
    return Rule(kind, many, none=none, **metadata.get("limits", {}))


def without_none(hint: Any) -> tuple[Any, bool]:
    """A type without its None, and whether it had one."""
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    present = [argument for argument in get_args(hint) if argument is not NoneType]
    return (present[0] if len(present) == 1 else Union[tuple(present)]), len(present) < len(get_args(hint))  # noqa: UP007


def shown(value: Any) -> str:
    """A value as it reads in a message: quoted text, lower-case truth values, long lists cut."""
    if isinstance(value, str):
        return quoted(value)
    text = str(value).lower() if isinstance(value, bool) else str(list(value) if isinstance(value, tuple) else value)
    text = " ".join(text.split())
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"
