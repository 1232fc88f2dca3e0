"""Choices: ranges are checked on construction, choices are frozen values, and a rule says in words what it allows."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from bacadi.config.choices import REFUSED, Choice, Rule, hints_of, option, rules_of, shown
from bacadi.errors import ConfigError


class Inner(Choice):
    """A nested choice."""

    rate: float = option(0.5, above=0)


class Sample(Choice):
    """One field of every kind."""

    number: float = option(1.0, above=0, below=2)
    share: float = option(0.5, least=0, most=1)
    count: int = option(3, least=1)
    name: str = option("a", among=("a", "b"))
    flag: bool = False
    many: tuple[float, ...] = option((1.0,), above=0)
    perhaps: float | None = option(None, above=0, none="median")
    inner: Inner = Inner()
    function: Any = option(max, names="schedule")


class Range(Choice):
    """Two ends."""

    rate_low: float = 0.0
    rate_high: float = 1.0


GIVEN: list[tuple[dict[str, Any], str]] = [
    ({"number": 0.0}, "number is 0.0; give a number above 0 and below 2."),
    ({"number": 2}, "number is 2; give a number above 0 and below 2."),
    ({"number": float("nan")}, "number is nan; give a number above 0 and below 2."),
    ({"number": float("inf")}, "number is inf; give a number above 0 and below 2."),
    ({"number": "one"}, "number is 'one'; give a number above 0 and below 2."),
    ({"number": True}, "number is true; give a number above 0 and below 2."),
    ({"share": 1.5}, "share is 1.5; give a number of at least 0 and at most 1."),
    ({"count": 0}, "count is 0; give a whole number of at least 1."),
    ({"count": 2.5}, "count is 2.5; give a whole number of at least 1."),
    ({"count": True}, "count is true; give a whole number of at least 1."),
    ({"name": "c"}, "name is 'c'; give one of a, b."),
    ({"flag": 1}, "flag is 1; give true or false."),
    ({"many": (1.0, -1.0)}, "many is [1.0, -1.0]; give a list of numbers above 0."),
    ({"many": 1.0}, "many is 1.0; give a list of numbers above 0."),
    ({"perhaps": -1.0}, 'perhaps is -1.0; give a number above 0 or "median".'),
]


@pytest.mark.parametrize(("given", "sentence"), GIVEN, ids=[sentence for _, sentence in GIVEN])
def test_values_out_of_range_are_refused_in_one_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Sample(**given)
    assert str(refusal.value) == sentence
    with pytest.raises(ConfigError):
        Sample().replace(**given)


def test_values_within_the_range_are_taken_as_they_are() -> None:
    made = Sample(1.5, 0, 7, "b", True, (2.0, 3.0), 0.1, Inner(2.0), min)
    assert made.replace() == made and made.inner.rate == 2.0 and made.function is min
    assert Sample(share=1.0).share == 1.0 and Sample(perhaps=None).perhaps is None


def test_ends_of_a_range_are_in_order() -> None:
    assert Range(0.5, 0.5).rate_low == 0.5
    with pytest.raises(ConfigError, match=r"^rate_low is 2\.0 and rate_high is 1\.0; give rate_low <= rate_high\.$"):
        Range(2.0)


def test_choices_are_frozen_values() -> None:
    one, same, other = Sample(), Sample(), Sample(number=1.5)
    assert one == same and hash(one) == hash(same) and one != other and len({one, same, other}) == 2
    assert Inner() != Range()
    with pytest.raises(FrozenInstanceError):
        one.number = 2.0  # type: ignore[misc]
    assert one.replace(inner=Inner(0.1)) != one and one.inner == Inner()


def test_rules_are_those_of_plain_fields() -> None:
    assert set(hints_of(Sample)) - set(rules_of(Sample)) == {"inner", "function"}
    assert rules_of(Sample)["many"] == Rule(float, many=True, above=0)


@pytest.mark.parametrize(
    ("rule", "value", "read"),
    [
        (Rule(float), 2, 2.0),
        (Rule(int), 2, 2),
        (Rule(float, many=True), [1, 2.5], (1.0, 2.5)),
        (Rule(float, none="auto"), "auto", None),
        (Rule(float, many=True, none="none"), "none", None),
        (Rule(int, among=(3, 4)), 4, 4),
        (Rule(str), "a", "a"),
    ],
)
def test_reading_gives_the_type_that_the_code_wants(rule: Rule, value: Any, read: Any) -> None:
    found = rule.read(value)
    assert found == read and type(found) is type(read)


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (Rule(int), 2.0),
        (Rule(int), "2"),
        (Rule(float), "auto"),
        (Rule(float, none="median"), "auto"),
        (Rule(int, among=(3, 4)), 3.0),
        (Rule(int, among=(1, 2)), True),
        (Rule(str), 1),
        (Rule(bool), 0),
        (Rule(float, many=True), [1, "2"]),
        (Rule(float), None),
    ],
)
def test_what_a_rule_refuses(rule: Rule, value: Any) -> None:
    assert rule.read(value) is REFUSED


def test_long_values_are_cut() -> None:
    assert shown(tuple(range(100))).endswith("…") and len(shown(tuple(range(100)))) == 60
    assert (shown(True), shown("a"), shown((1, 2))) == ("true", "'a'", "[1, 2]")
