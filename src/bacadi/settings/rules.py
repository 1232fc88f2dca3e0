"""What a setting may be: a choice, a number, a whole number, yes or no, or a list of numbers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

REFUSED = object()
"""What a rule answers to a value that it does not allow."""


class Rule(Protocol):
    """`read` gives the value in the type that the code wants, or `REFUSED`; `words` says what is allowed."""

    def read(self, value: Any) -> Any: ...

    @property
    def words(self) -> str: ...


@dataclass(frozen=True)
class Choice:
    """One of a few names (or numbers)."""

    options: tuple[str | int, ...]

    def read(self, value: Any) -> Any:
        return value if any(type(value) is type(option) and value == option for option in self.options) else REFUSED

    @property
    def words(self) -> str:
        return "one of " + ", ".join(str(option) for option in self.options)


@dataclass(frozen=True)
class Number:
    """A finite number, above `above`, at least `least` and below `below`, or a word that stands for one.

    >>> Number(above=0, word="median").read(2), Number(above=0).read(-1.0) is REFUSED
    (2.0, True)
    """

    above: float | None = None
    least: float | None = None
    word: str | None = None
    below: float | None = None

    def read(self, value: Any) -> Any:
        if self.word is not None and value == self.word:
            return value
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return REFUSED
        if (self.above is not None and value <= self.above) or (self.least is not None and value < self.least):
            return REFUSED
        return REFUSED if self.below is not None and value >= self.below else float(value)

    @property
    def words(self) -> str:
        bound = "" if self.above is None else f" above {self.above:g}"
        bound += "" if self.least is None else f" of at least {self.least:g}"
        bound += "" if self.below is None else f" and below {self.below:g}"
        return f"a number{bound}" + ("" if self.word is None else f' or "{self.word}"')


@dataclass(frozen=True)
class Whole:
    """A whole number of at least `least`, or a word that stands for one."""

    least: int = 1
    word: str | None = None

    def read(self, value: Any) -> Any:
        if self.word is not None and value == self.word:
            return value
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= self.least
        return value if whole else REFUSED

    @property
    def words(self) -> str:
        return f"a whole number of at least {self.least}" + ("" if self.word is None else f' or "{self.word}"')


@dataclass(frozen=True)
class Flag:
    """true or false."""

    def read(self, value: Any) -> Any:
        return value if isinstance(value, bool) else REFUSED

    @property
    def words(self) -> str:
        return "true or false"


@dataclass(frozen=True)
class Widths:
    """A list of whole numbers from 1 on, such as [5] or [8, 8]; an empty one is a network without hidden layers."""

    def read(self, value: Any) -> Any:
        if not isinstance(value, list | tuple) or any(Whole().read(item) is REFUSED for item in value):
            return REFUSED
        return tuple(value)

    @property
    def words(self) -> str:
        return "a list of whole numbers of at least 1, such as [5]"


@dataclass(frozen=True)
class Numbers:
    """A list of numbers above 0: at least one of them, or `shares` of them that add up to 1.

    >>> Numbers().read([1, 2.5]), Numbers(shares=2).read([0.5, 0.6]) is REFUSED
    ((1.0, 2.5), True)
    """

    shares: int | None = None

    def read(self, value: Any) -> Any:
        if not isinstance(value, list | tuple) or any(Number(above=0).read(item) is REFUSED for item in value):
            return REFUSED
        if self.shares is not None and (len(value) != self.shares or not math.isclose(math.fsum(value), 1)):
            return REFUSED
        return tuple(float(item) for item in value) or REFUSED

    @property
    def words(self) -> str:
        if self.shares is None:
            return "a list of numbers above 0, such as [0.5, 2]"
        return f"a list of {self.shares} numbers above 0 that add up to 1"


def setting(default: Any, rule: Rule, only: Mapping[str, tuple[Any, ...]] | None = None) -> Any:
    """A field of a section. `only` names another key of the section and the values for which this one is of use."""
    return field(default=default, metadata={"rule": rule, "only": only or {}})
