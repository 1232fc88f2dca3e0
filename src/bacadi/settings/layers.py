"""From defaults, preset, configuration file and command-line flags, in this order, to settings."""

from pathlib import Path
from typing import Any

from bacadi.data.text import closest, listed, quoted
from bacadi.errors import ConfigError
from bacadi.settings.flags import flag_values, refuse_idle_flags
from bacadi.settings.methods import AUTO, BASELINES, COLLAPSED, SECTIONS_OF, check_method, decided, has_closed_form
from bacadi.settings.presets import PRESET_NAMES, PRESETS
from bacadi.settings.schema import KNOWLEDGE, SECTIONS, Settings, Values, attribute, checked, refuse_idle
from bacadi.settings.sections import ModelSettings
from bacadi.settings.toml import toml_values

_PAPER, _DEFAULT = "paper", "default"


def resolve(
    preset: str | None = None, file: Path | None = None, flags: dict[str, Any] | None = None, method: str = AUTO
) -> Settings:
    """Settings by precedence: defaults < preset < file < flags (named as on the command line; None is not given).

    Without a preset: `paper` for SVGD, `default` otherwise.

    >>> resolve("authors", flags={"--model": "bge", "--particles": 4}, method="svgd").svgd.particles
    4
    >>> resolve().method, resolve().preset, resolve().model.units
    ('mcmc', 'default', 'own')
    """
    check_method(method)
    chosen = _preset(preset, method)
    given = {flag: value for flag, value in (flags or {}).items() if value is not None}
    from_file = {} if file is None else read_toml(file)
    from_flags = flag_values(given, method)
    named = from_file.get("model", {}) | from_flags.get("model", {})
    from_preset = {} if chosen is None else PRESETS[chosen, named.get("mechanism", ModelSettings.mechanism)]
    layers = (from_preset, from_file, from_flags)
    decision = decided(method, _model(*layers))
    refuse_idle_flags(given, decision, method == AUTO)
    settings = _assembled(decision, chosen, *layers, flag_values(given, decision))
    if file is not None:
        refuse_idle(from_file, settings, quoted(file.name))
    _check_together(settings)
    return settings


def restored(values: dict[str, Any], where: str, method: str, preset: str | None) -> Settings:
    """Settings that `Settings.to_dict` wrote."""
    settings = _assembled(method, preset, checked(values, where))
    _check_together(settings)
    return settings


def read_toml(path: Path) -> Values:
    """The checked values of a configuration file, without what it knows of edges and targets."""
    values = toml_values(path, "configuration file")
    values.pop(KNOWLEDGE, None)
    return checked(values, quoted(path.name))


def knowledge_section(path: Path) -> dict[str, Any] | None:
    """The section `[knowledge]` of a configuration file as it stands there, or None where there is none."""
    section = toml_values(path, "configuration file").get(KNOWLEDGE)
    if section is not None and not isinstance(section, dict):
        raise ConfigError(f"'{KNOWLEDGE}' in {quoted(path.name)} is no section; write its keys below [{KNOWLEDGE}].")
    return section


def _preset(preset: str | None, method: str) -> str | None:
    if method in BASELINES:
        if preset is not None:
            raise ConfigError(f"--preset has no effect with method {method}, which has no presets; remove it.")
        return None
    if preset is None:
        return _PAPER if method == "svgd" else _DEFAULT
    if preset not in PRESET_NAMES:
        near = closest(preset, PRESET_NAMES)
        raise ConfigError(f"There is no preset {quoted(preset)}{near}; --preset takes {listed(PRESET_NAMES)}.")
    return preset


def _model(*layers: Values) -> ModelSettings:
    merged: dict[str, Any] = {}
    for layer in layers:
        merged |= layer.get("model", {})
    return ModelSettings(**merged)


def _assembled(method: str, preset: str | None, *layers: Values) -> Settings:
    """Sections that the method does not read keep their defaults, whatever a preset says of them."""
    merged: Values = {name: {} for name in SECTIONS_OF[method]}
    for layer in layers:
        for section in merged:
            merged[section] |= layer.get(section, {})
    return Settings(method, preset, **{attribute(name): SECTIONS[name](**entries) for name, entries in merged.items()})


def _check_together(settings: Settings) -> None:
    model = settings.model
    if settings.method in COLLAPSED and not has_closed_form(model):
        raise ConfigError(
            f"Networks with hidden = {list(model.hidden)} and activation = {model.activation} have no closed-form "
            f"evidence, which method {settings.method} needs; use one hidden layer of sigmoids or --method svgd."
        )
    if settings.method != "svgd":
        return
    if model.graph_prior in ("ordered", "attachment"):
        raise ConfigError(
            f'graph_prior = "{model.graph_prior}" counts causal orders, which SVGD cannot do; use --method mcmc, or '
            'graph_prior = "er" or "sf".'
        )
    if model.effect not in ("hard", "soft"):
        raise ConfigError(
            f'effect = "{model.effect}" is integrated out, which SVGD cannot do; use --method mcmc, or effect = "hard" '
            'or "soft".'
        )
    if model.mechanism == "nonlinear" and model.kernel != "network":
        raise ConfigError(
            f'kernel = "{model.kernel}" is a Gaussian process, which has no parameters for SVGD; use --method mcmc or '
            'kernel = "network".'
        )
    if model.mechanism == "bge" and model.effect == "soft":
        raise ConfigError(
            'effect = "soft" changes the parameters of a mechanism and bge has none for SVGD; use --method mcmc, '
            'effect = "hard" or another model.'
        )
