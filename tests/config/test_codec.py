"""The codec: decode undoes encode for every choice that has a name; what a file gets wrong is said with its place."""

import json
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bacadi.config.choices import Choice, Rule, hints_of, option, rules_of, without_none
from bacadi.config.codec import Place, build, decode, encode, fingerprint_text, group_of, load, name_of, read_toml
from bacadi.config.names import MECHANISM, METHOD, MODEL, NAMES
from bacadi.errors import BacadiError, ConfigError
from bacadi.model.effects import AutoEffect, Effect, HardGaussian, ScaleGaussian
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import Mechanism
from bacadi.model.model import Model
from bacadi.model.noise import AbstractNoise, FixedNoise, InferredNoise

# beartype, which the tests check types with, looks at one item of a tuple at random.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
PLACE = Place("'my.toml'")
NAMED = [(group, name) for group, names in NAMES.items() for name in names]
# All modules are imported now: what libraries do while they are imported is no part of drawing an example.
THINGS = {group: {name: load(path) for name, path in names.items()} for group, names in NAMES.items()}


def values_of(rule: Rule) -> st.SearchStrategy[Any]:
    """Valid plain values; bounds that exclude are kept away from."""
    if rule.among is not None:
        one: st.SearchStrategy[Any] = st.sampled_from(rule.among)
    elif rule.kind is bool:
        one = st.booleans()
    elif rule.kind is str:
        one = st.sampled_from(["x", "some text"])
    else:
        low = rule.above if rule.least is None else rule.least
        high = rule.below if rule.most is None else rule.most
        if rule.kind is int:
            one = st.integers(int(low or 0) + 1, int(high or 50) if high is None or high > 2 else 1)
        else:
            low = -5.0 if low is None else float(low)
            one = st.floats(low, low + 9.0 if high is None else float(high), exclude_min=True, exclude_max=True)
    one = one.filter(lambda value: rule._one(value) is value or rule._one(value) == value)
    made = st.lists(one, min_size=2, max_size=3).map(tuple) if rule.many else one
    return made if rule.none is None else st.none() | made


def made_of(hint: Any, group: str | None, depth: int) -> st.SearchStrategy[Any]:
    """Values of a field that holds choices or functions."""
    inner, optional = without_none(hint)
    if get_origin(inner) is tuple:
        return st.lists(made_of(get_args(inner)[0], group, depth), min_size=1, max_size=2).map(tuple)
    group = group or group_of(inner)
    if inner is Any and group is None:
        one = st.booleans() | st.integers(0, 9) | st.floats(0, 1) | st.sampled_from(["uniform", "posterior"])
    elif group is None:
        one = choices_of(inner, depth)
    else:
        things = [thing for thing in THINGS[group].values() if depth > 0 or not nests(thing, group)]
        one = st.one_of([choices_of(thing, depth) for thing in things])
    return st.none() | one if optional else one


def nests(thing: Any, group: str) -> bool:
    """Whether a choice holds choices of its own group (a mixture of effects, a sum of kernels)."""
    hints = hints_of(thing).values() if is_dataclass(thing) else ()
    inner = [get_args(hint)[0] if get_origin(hint) is tuple else hint for hint in hints]
    return any(isinstance(hint, type) and group_of(hint) == group for hint in inner)


@cache
def choices_of(thing: Any, depth: int = 1) -> st.SearchStrategy[Any]:
    """Objects of a class with random valid values; combinations that the class refuses are left out."""
    if not isinstance(thing, type):
        return st.just(thing)
    parts = {}
    for entry in fields(thing):
        rule = rules_of(thing).get(entry.name)
        drawn = (
            values_of(rule)
            if rule is not None
            else made_of(hints_of(thing)[entry.name], entry.metadata.get("names"), depth - 1)
        )
        # Rules that join fields (shares that add to 1, low below high) are met by the defaults.
        parts[entry.name] = st.just(getattr(_default(thing), entry.name)) | drawn if _default(thing) else drawn
    return st.fixed_dictionaries(parts).map(lambda given: _built(thing, given)).filter(lambda made: made is not None)


@cache
def _default(thing: Any) -> Any:
    try:
        return thing()
    except TypeError:
        return None


def _built(thing: Any, given: dict[str, Any]) -> Any:
    try:
        return thing(**given)
    except BacadiError:
        return None


@pytest.mark.parametrize(("group", "name"), NAMED, ids=[f"{group.split(':')[-1]} {name}" for group, name in NAMED])
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(data=st.data())
def test_decode_undoes_encode(group: str, name: str, data: st.DataObject) -> None:
    made = data.draw(choices_of(THINGS[group][name]))
    table = json.loads(json.dumps(encode(made, group=group)))
    assert (table if isinstance(table, str) else table["type"]) == name
    again = decode(load(group) if ":" in group else Any, table, PLACE, "key", group)
    assert again == made and encode(again, group=group) == encode(made, group=group)
    assert fingerprint_text([again]) == fingerprint_text([made])


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(choices_of(Model, 3))
def test_a_model_survives_json(model: Model) -> None:
    assert build(load(MODEL), json.loads(json.dumps(encode(model))), PLACE) == model


@pytest.mark.parametrize(("group", "name"), NAMED, ids=[f"{group.split(':')[-1]} {name}" for group, name in NAMED])
def test_every_name_is_that_of_its_class(group: str, name: str) -> None:
    thing = THINGS[group][name]
    if not isinstance(thing, type):
        assert name_of(thing, group) == name
        return
    assert issubclass(thing, Choice)
    if ":" in group:
        assert issubclass(thing, load(group)) and group_of(thing) == group
    default = _default(thing)
    assert default is None or name_of(default, group) == name


def refused(hint: Any, table: Any, place: Place = PLACE, key: str = "noise") -> str:
    with pytest.raises(ConfigError) as refusal:
        decode(hint, table, place, key)
    message = str(refusal.value)
    assert "\n" not in message and message.endswith(".") and ". " not in message
    return message


BROKEN: list[tuple[Any, tuple[str, ...]]] = [
    ({"type": "fixed", "sdt": 1}, ("'sdt'", "[model.noise]", "'my.toml'", "did you mean 'std'")),
    ({"type": "fixed", "shape": 1}, ("'shape'", "[model.noise]", "not known", "'std'")),
    ({"type": "fixt", "std": 1}, ("'type'", "[model.noise]", "'fixt'", "did you mean 'fixed'", "fixed, inferred")),
    ("fixt", ("'type'", "[model.noise]", "'fixt'", "did you mean 'fixed'")),
    ({"type": 3}, ("'type'", "is 3", "fixed, inferred")),
    ({"std": 1}, ("[model.noise]", "no key 'type'", "fixed, inferred")),
    ({"type": "fixed", "std": 0}, ("'std'", "is 0", "above 0")),
    ({"type": "fixed", "std": "wide"}, ("'std'", "'wide'", "a number above 0")),
    ({"type": "fixed"}, ("[model.noise]", "lacks a key", "'std'")),
    (3, ("[model.noise]", "no key 'type'")),
]


@pytest.mark.parametrize(("table", "expected"), BROKEN, ids=[str(table) for table, _ in BROKEN])
def test_what_is_wrong_is_said_with_file_section_and_key(table: Any, expected: tuple[str, ...]) -> None:
    message = refused(AbstractNoise, table, PLACE.below("model"))
    for fragment in expected:
        assert fragment in message


def test_more_refusals() -> None:
    assert "give a list of tables" in refused(tuple[Effect, ...], "hard", key="effects")
    assert "write its keys below a line [latent_prior]" in refused(type(Model().latent_prior), 3, key="latent_prior")
    mixture = {"type": "any", "effects": ["hard", {"type": "scale", "ratio": [2]}]}
    assert "'ratio' of section [effect.effects.2]" in refused(Effect, mixture, key="effect")
    twice = refused(Effect, {"type": "any", "effects": ["hard", "hard"]}, key="effect")
    assert "[effect] in 'my.toml' makes no sense" in twice and "names one kind twice" in twice


def test_a_name_alone_is_a_choice_of_defaults() -> None:
    assert decode(Mechanism, "linear", PLACE, "mechanism") == LinearGaussian()
    assert decode(Effect, {"type": "any", "effects": ["hard", "scale"]}, PLACE).effects == (
        HardGaussian(),
        ScaleGaussian(),
    )


@pytest.mark.parametrize(
    ("cls", "key", "word"),
    [
        ("bacadi.model.linear:LinearGaussian", "intercept_prior_std", "none"),
        ("bacadi.model.neural:NeuralGaussian", "input_scales", "none"),
        ("bacadi.model.priors:LatentPrior", "z_std", "auto"),
        ("bacadi.inference.svgd.kernel:Bandwidths", "z", "median"),
        ("bacadi.inference.svgd.method:SVGD", "latent_dim", "auto"),
        ("bacadi.inference.mcmc.method:MCMC", "time_budget", "none"),
    ],
)
def test_files_have_a_word_for_none(cls: str, key: str, word: str) -> None:
    thing = load(cls)
    made = build(thing, {key: word}, PLACE)
    assert getattr(made, key) is None and encode(made)[key] == word
    for other in {"auto", "none", "median"} - {word}:
        with pytest.raises(ConfigError, match=f'"{word}"'):
            build(thing, {key: other}, PLACE)


class OwnNoise(FixedNoise):
    """A class of a user's own."""

    extra: int = option(1, least=0)


OWN = f"{__name__}:OwnNoise"


def test_a_class_of_the_user_s_own_is_allowed_where_they_name_it() -> None:
    made = decode(AbstractNoise, {"type": OWN, "std": 2.0, "extra": 3}, PLACE, "noise")
    assert made == OwnNoise(2.0, 3) and encode(made) == {"type": OWN, "std": 2.0, "extra": 3}
    assert "'ekstra'" in refused(AbstractNoise, {"type": OWN, "std": 2.0, "ekstra": 3})


def test_a_class_named_by_a_record_needs_leave_to_be_imported() -> None:
    record = PLACE._replace(modules=())
    message = refused(AbstractNoise, {"type": OWN, "std": 2.0}, record)
    assert OWN[:30] in message and f"--import {__name__}" in message
    trusted = PLACE._replace(modules=(__name__,))
    assert decode(AbstractNoise, {"type": OWN, "std": 2.0}, trusted, "noise") == OwnNoise(2.0)
    # What bacadi has itself is no matter of trust.
    assert decode(AbstractNoise, {"type": "fixed", "std": 2.0}, record, "noise") == FixedNoise(2.0)


def test_other_classes_and_missing_modules_are_refused(tmp_path: Path) -> None:
    assert "is not a AbstractNoise" in refused(AbstractNoise, {"type": "pathlib:Path"})
    assert "cannot be imported" in refused(AbstractNoise, {"type": "no.such.module:Thing"})
    assert "cannot be imported" in refused(AbstractNoise, {"type": "pathlib:Nothing"})
    assert "cannot be imported" in refused(AbstractNoise, {"type": ":Nothing"})


def test_toml_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.toml").write_text("[model\n")
    (tmp_path / "latin.toml").write_bytes("a = 'ä'".encode("latin-1"))
    (tmp_path / "marked.toml").write_bytes(b"\xef\xbb\xbfa = 1\n")
    with pytest.raises(ConfigError, match=r"^The configuration file 'broken\.toml' is not TOML: .*line 1"):
        read_toml(tmp_path / "broken.toml", "configuration file")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        read_toml(tmp_path / "latin.toml", "preset")
    with pytest.raises(ConfigError, match="There is no preset"):
        read_toml(tmp_path / "none.toml", "preset")
    assert read_toml(tmp_path / "marked.toml", "preset") == {"a": 1}


def test_fingerprints_are_equal_exactly_for_equal_choices() -> None:
    golden = (
        '[{"absent_ratio": "none", "init_std": 0.3, "intercept_prior_std": 10.0, '
        '"noise": {"scale": 1e-06, "shape": 0.1, "type": "inferred", "widths": [1.0, 30.0]}, "type": "linear", '
        '"weight_prior_std": 10.0}, 3, "auto"]'
    )
    assert fingerprint_text([LinearGaussian(), 3, None]) == golden
    texts = [
        fingerprint_text([choice])
        for choice in (
            LinearGaussian(),
            LinearGaussian(FixedNoise(1.0)),
            LinearGaussian(FixedNoise(2.0)),
            LinearGaussian(InferredNoise(1.0, 0.2)),
            LinearGaussian(intercept_prior_std=None),
            Model(),
            Model(standardize_within=False),
        )
    ]
    assert len(set(texts)) == len(texts)
    assert fingerprint_text([Model(effect=AutoEffect())]) == fingerprint_text([Model()])


def test_methods_and_mechanisms_have_tables() -> None:
    assert encode(Model())["mechanism"]["type"] == "linear" and group_of(LinearGaussian) == MECHANISM
    assert encode(THINGS[METHOD]["mcmc"]())["type"] == "mcmc"
