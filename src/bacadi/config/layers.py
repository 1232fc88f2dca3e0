"""From defaults, preset, configuration file and flags, in this order of precedence, to model and method.

Layers are tables: each is merged over the one below, and the result is decoded once. A layer that picks another `type`
starts from the defaults of that class. Presets are TOML files with tables by mechanism (`all`, `linear`, …), each with
the sections `model` and one per method.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from bacadi.config.choices import REFUSED, rules_of, shown
from bacadi.config.codec import TYPE, Place, Table, build, decode, encode, load, name_of, named_type, read_toml
from bacadi.config.names import BASELINE, EFFECT, FLAGS, MECHANISM, METHOD, MODEL, NAMES
from bacadi.data.text import closest, listed, quoted
from bacadi.errors import ConfigError

AUTO, SVGD, BOOTSTRAP = "auto", "svgd", "bootstrap"
BY_EVIDENCE = (AUTO, "mcmc", "exact")  # methods that may choose by evidence what the model leaves open
KNOWLEDGE, DATA = "knowledge", "data"
SECTIONS = ("model", "method", DATA, KNOWLEDGE)
PRESETS = ("default", "paper", "authors", "improved")


def method_names() -> tuple[str, ...]:
    """What `--method` takes: our methods and every baseline that can be bootstrapped."""
    return (*(name for name in NAMES[METHOD] if name != BOOTSTRAP), *NAMES[BASELINE])


class Configuration(NamedTuple):
    """What to run: a `Model` (None for a baseline, which brings its own), a method, and how they were chosen."""

    model: Any
    method: Any
    name: str
    preset: str | None
    knowledge: Table

    def table(self) -> Table:
        """The plain tables of model and method, as `config.json` and the attributes of a posterior record them."""
        return configuration_table(self.model, self.method)


def configuration_table(model: Any, method: Any) -> Table:
    """The plain tables of a model (or None) and a method."""
    return ({} if model is None else {"model": encode(model)}) | {"method": encode(method)}


def configure(
    method: str = AUTO,
    preset: str | None = None,
    file: Path | tuple[Table, str] | None = None,
    flags: Mapping[str, Any] | None = None,
    standardized: bool = False,
) -> Configuration:
    """Model and method by precedence: defaults < preset < file < flags (named as on the command line; None: not given).

    Without a preset: `paper` for SVGD, `default` otherwise and for columns that are `standardized`, which the noise of
    the paper does not fit. Sections that stand in another file (a study) are given in place of the file, with the words
    that name them in refusals.

    >>> configure("svgd", "authors", flags={"--model": "bge", "--particles": 4}).method.n_particles
    4
    >>> configure("svgd").preset, configure("svgd", standardized=True).preset
    ('paper', 'default')
    >>> chosen = configure()
    >>> chosen.name, chosen.preset, chosen.model.standardize_within
    ('mcmc', 'default', True)
    """
    given = {flag: value for flag, value in (flags or {}).items() if value is not None}
    if isinstance(file, tuple):
        tables, place = file[0], Place(file[1])
    else:
        tables = {} if file is None else read_sections(file)
        place = Place("the defaults" if file is None else quoted(file.name))
    name = _method_name(method, tables, place)
    if name in NAMES[BASELINE] or name == BOOTSTRAP:
        _refuse_for_baselines(name, preset, given, tables, place)
        chosen = _method(name, {}, tables, given, place, False)
        return Configuration(None, chosen, name, None, tables.get(KNOWLEDGE, {}))
    preset = _preset_name(preset, name, standardized)
    effect = given.pop("--effect", None)
    # The preset `default` leaves the mechanism open where the method can choose it by evidence.
    usual = AUTO if preset == PRESETS[0] and name in BY_EVIDENCE else None
    model = _model(preset, _with_effect(tables, effect, place), given.get("--model"), usual, place)
    by_auto = name == AUTO
    if by_auto:
        name = name_of_method(load("bacadi.inference.fit:default_method")(model))
    overlay = _preset_tables(preset, name_of(model.mechanism, MECHANISM)).get(name, {})
    chosen = _method(name, overlay, tables, given, place, by_auto)
    return Configuration(model, chosen, name, preset, tables.get(KNOWLEDGE, {}))


def restored(table: Mapping[str, Any], place: Place) -> tuple[Any, Any]:
    """Model (or None) and method from the tables that `configuration_table` wrote."""
    model = build(load(MODEL), table["model"], place.below("model")) if "model" in table else None
    return model, decode(load(METHOD), table["method"], place, "method")


def name_of_method(method: Any) -> str:
    """What the command line calls a method: its name, or that of the baseline it bootstraps."""
    name = name_of(method, METHOD)
    return name_of(method.baseline, BASELINE) if name == BOOTSTRAP else name


def read_sections(path: Path) -> Table:
    """The sections of a configuration file."""
    tables = read_toml(path, "configuration file")
    for section, entries in tables.items():
        if section not in SECTIONS:
            every, near = ", ".join(f"[{name}]" for name in SECTIONS), closest(section, SECTIONS)
            kind = "section" if isinstance(entries, dict) else "key"
            raise ConfigError(f"The {kind} {quoted(section)} in {quoted(path.name)} is not known{near}; give {every}.")
        if not isinstance(entries, dict):
            raise ConfigError(f"'{section}' in {quoted(path.name)} is no section; write its keys below [{section}].")
    return tables


def merged(lower: Any, upper: Any) -> Any:
    """One layer over another: tables key by key, unless the upper one picks another `type`.

    >>> merged({"type": "a", "x": 1, "y": 2}, {"x": 3}), merged({"type": "a", "x": 1}, "b")
    ({'type': 'a', 'x': 3, 'y': 2}, {'type': 'b'})
    """
    if isinstance(lower, Mapping) and TYPE in lower and isinstance(upper, str):
        upper = {TYPE: upper}
    if not isinstance(lower, Mapping) or not isinstance(upper, Mapping):
        return upper
    if upper.get(TYPE, lower.get(TYPE)) != lower.get(TYPE):
        return dict(upper)
    return {key: merged(lower.get(key), upper[key]) if key in upper else lower[key] for key in {**lower, **upper}}


def _model(preset: str, tables: Table, flag: str | None, usual: str | None, place: Place) -> Any:
    """Decode the model; which tables of the preset apply depends on the mechanism that file or flag picks, or else on
    the usual one."""
    cls, given = load(MODEL), tables.get("model", {})
    mechanism = given.get("mechanism", {})
    of_file = mechanism.get(TYPE) if isinstance(mechanism, dict) else mechanism
    if flag is not None:
        named_type(flag, MECHANISM, Place("the command line"), "--model")
        if of_file not in (None, flag):
            what = f"--model is {flag} and the section [model.mechanism] in {place.source} is of type {of_file}"
            raise ConfigError(f"{what}; keep one of the two.")
    defaults = encode(cls())
    chosen = flag or of_file or (usual if not mechanism else None) or defaults["mechanism"][TYPE]
    table = merged(defaults, {"mechanism": {TYPE: chosen}})
    table = merged(table, _preset_tables(preset, chosen).get("model", {}))
    return build(cls, merged(table, given), place.below("model"))


def _with_effect(tables: Table, effect: str | None, place: Place) -> Table:
    """The tables with the effect of the flag in place of that of the file, unless both name one."""
    if effect is None:
        return tables
    named_type(effect, EFFECT, Place("the command line"), "--effect")
    model = tables.get("model", {})
    given = model.get("effect", {})
    of_file = given.get(TYPE) if isinstance(given, dict) else given
    if of_file not in (None, effect):
        what = f"--effect is {effect} and the section [model.effect] in {place.source} is of type {of_file}"
        raise ConfigError(f"{what}; keep one of the two.")
    return tables | {"model": model | {"effect": given if of_file else {TYPE: effect}}}


def _method(name: str, overlay: Table, tables: Table, flags: Mapping[str, Any], place: Place, by_auto: bool) -> Any:
    table: Table = {TYPE: name, **overlay}
    if name in NAMES[BASELINE]:
        table = {TYPE: BOOTSTRAP, "baseline": {TYPE: name}}
    given = dict(tables.get("method", {}))
    if given.get(TYPE) in NAMES[BASELINE]:
        given[TYPE] = BOOTSTRAP
    table = merged(table, given)
    cls = named_type(table[TYPE], METHOD, place.below("method"))
    for flag, value in flags.items():
        if flag != "--model":
            table[FLAGS[flag]] = _flag_value(flag, value, cls, name, by_auto)
    return decode(load(METHOD), table, place, "method")


def _flag_value(flag: str, value: Any, cls: Any, name: str, by_auto: bool) -> Any:
    field = FLAGS[flag]
    if not _reads(name, cls, field):
        whose = f"{name}, which auto chose here" if by_auto else name
        users = [other for other in method_names() if _reads(other, _class_of(other), field) and other != name]
        what = f"{flag} has no effect with method {whose}, only with {' or '.join(users)}"
        raise ConfigError(f"{what}; remove it or use --method {users[0]}.")
    rule = rules_of(cls)[field]
    if rule.read(value) is REFUSED:
        # The word that files use for None means the same as leaving the flag out.
        raise ConfigError(f"{flag} is {shown(value)}; give {replace(rule, none=None).instead_of(value)}.")
    return value


def _reads(name: str, cls: Any, field: str) -> bool:
    """Whether a field of a method has an effect: a baseline that runs all samples together has no use for processes."""
    together = field == "jobs" and name in NAMES[BASELINE] and load(NAMES[BASELINE][name])().batched
    return field in rules_of(cls) and not together


def _class_of(method: str) -> Any:
    return load(NAMES[METHOD][BOOTSTRAP if method in NAMES[BASELINE] else method])


def _method_name(method: str, tables: Table, place: Place) -> str:
    given = tables.get("method", {})
    of_file = given.get(TYPE)
    if of_file == BOOTSTRAP and isinstance(given.get("baseline"), dict):
        of_file = given["baseline"].get(TYPE, BOOTSTRAP)
    if method == AUTO:
        return of_file if isinstance(of_file, str) else AUTO
    names = (AUTO, *method_names())
    if method not in names and ":" not in method:
        every, near = f"{', '.join(names[:-1])} or {names[-1]}", closest(method, names)
        raise ConfigError(f"There is no method {quoted(method)}{near}; --method takes {every}.")
    if of_file not in (None, method) and not (of_file == BOOTSTRAP and method in NAMES[BASELINE]):
        what = f"The section [method] in {place.source} is of type {of_file} and has no effect with method {method}"
        raise ConfigError(f"{what}; remove it or use --method {of_file}.")
    return method


def _refuse_for_baselines(name: str, preset: str | None, flags: Mapping[str, Any], tables: Table, place: Place) -> None:
    if preset is not None:
        raise ConfigError(f"--preset has no effect with method {name}, which has no presets; remove it.")
    if "--model" in flags:
        raise ConfigError(f"--model has no effect with method {name}, only with mcmc, exact or svgd; remove it.")
    if "--effect" in flags:
        raise ConfigError(f"--effect is of no use to method {name}, only to mcmc, exact or svgd; remove it.")
    if "model" in tables:
        raise ConfigError(f"The section [model] in {place.source} has no effect with method {name}; remove it.")


def _preset_name(preset: str | None, method: str, standardized: bool) -> str:
    if preset is None:
        return "paper" if method == SVGD and not standardized else "default"
    if preset not in PRESETS:
        near = closest(preset, PRESETS)
        raise ConfigError(f"There is no preset {quoted(preset)}{near}; --preset takes {listed(PRESETS)}.")
    return preset


@lru_cache
def _preset_tables(preset: str, mechanism: str) -> Table:
    """The sections of a preset for a mechanism: what it says of all, then what it says of this one."""
    tables = read_toml(Path(str(files("bacadi.config") / "presets" / f"{preset}.toml")), "preset")
    return merged(tables.get("all", {}), tables.get(mechanism, {}))
