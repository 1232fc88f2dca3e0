"""From defaults, preset, configuration file and command-line flags, in this order, to settings."""

from pathlib import Path
from typing import Any

from bacadi.data.words import closest, listed, quoted
from bacadi.errors import ConfigError
from bacadi.settings.presets import PRESET_NAMES, PRESETS
from bacadi.settings.rules import REFUSED
from bacadi.settings.schema import ModelSettings, Settings, SVGDSettings, Values, checked, refuse_idle, rule_of
from bacadi.settings.toml import toml_values

FLAGS = {"--model": ("model", "mechanism"), "--particles": ("svgd", "particles"), "--steps": ("svgd", "steps")}


def resolve(preset: str = "paper", file: Path | None = None, flags: dict[str, Any] | None = None) -> Settings:
    """Settings by precedence: defaults < preset < file < flags (named as on the command line; None is not given).

    >>> resolve("authors", flags={"--model": "bge", "--particles": 4}).svgd.particles
    4
    """
    if preset not in PRESET_NAMES:
        near = closest(preset, PRESET_NAMES)
        raise ConfigError(f"There is no preset {quoted(preset)}{near}; --preset takes {listed(PRESET_NAMES)}.")
    from_file = {} if file is None else read_toml(file)
    from_flags = _flags(flags or {})
    named = from_file.get("model", {}) | from_flags["model"]
    mechanism: str = named.get("mechanism", ModelSettings.mechanism)
    settings = _assembled(PRESETS[preset, mechanism], from_file, from_flags)
    if file is not None:
        refuse_idle(from_file, settings, quoted(file.name))
    _check_together(settings)
    return settings


def restored(values: dict[str, Any], where: str) -> Settings:
    """Settings that `Settings.to_dict` wrote."""
    settings = _assembled(checked(values, where))
    _check_together(settings)
    return settings


def read_toml(path: Path) -> Values:
    """The checked values of a configuration file."""
    return checked(toml_values(path, "configuration file"), quoted(path.name))


def _flags(flags: dict[str, Any]) -> Values:
    found: Values = {"model": {}, "svgd": {}}
    for flag, value in flags.items():
        if value is None:
            continue
        section, key = FLAGS[flag]
        rule = rule_of(section, key)
        if rule.read(value) is REFUSED:
            near = closest(value, rule.options) if isinstance(value, str) else ""  # type: ignore[attr-defined]
            raise ConfigError(f"{flag} is {quoted(value) if near else value}{near}; give {rule.words}.")
        found[section][key] = rule.read(value)
    return found


def _assembled(*layers: Values) -> Settings:
    merged: Values = {"model": {}, "svgd": {}}
    for layer in layers:
        for section, entries in layer.items():
            merged[section] |= entries
    return Settings(ModelSettings(**merged["model"]), SVGDSettings(**merged["svgd"]))


def _check_together(settings: Settings) -> None:
    if settings.model.mechanism == "bge" and settings.model.effect == "soft":
        raise ConfigError(
            'effect = "soft" changes the parameters of a mechanism and bge has none; '
            'use effect = "hard" or another model.'
        )
