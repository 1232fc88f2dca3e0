"""All sections of a configuration together: reading values by their rules, and refusing what is unknown or idle."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from bacadi.data.text import closest, listed, quoted
from bacadi.errors import ConfigError
from bacadi.settings.methods import BASELINES, SECTIONS_OF
from bacadi.settings.rules import REFUSED, Rule
from bacadi.settings.sections import ExactSettings, MCMCSettings, ModelSettings, SVGDSettings
from bacadi.settings.sections_baselines import (
    BootstrapSettings,
    DCDIGSettings,
    GIESSettings,
    GnIESSettings,
    JCIPCSettings,
    UTIGSPSettings,
)

SECTIONS: dict[str, type] = {
    "model": ModelSettings,
    "svgd": SVGDSettings,
    "mcmc": MCMCSettings,
    "exact": ExactSettings,
    "bootstrap": BootstrapSettings,
    "jci-pc": JCIPCSettings,
    "ut-igsp": UTIGSPSettings,
    "dcdi-g": DCDIGSettings,
    "gies": GIESSettings,
    "gnies": GnIESSettings,
}
KNOWLEDGE = "knowledge"
"""The section that speaks of names in the data: `bacadi.settings.knowledge` reads it once they are there."""

_EVERY_SECTION = ", ".join(f"[{name}]" for name in (*SECTIONS, KNOWLEDGE))
_METHOD = "method"
Values = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Settings:
    """The method and all sections; equal settings build equal models and methods. A baseline has no preset.

    >>> Settings().svgd.steps
    2000
    """

    method: str = "svgd"
    preset: str | None = "paper"
    model: ModelSettings = field(default_factory=ModelSettings)
    svgd: SVGDSettings = field(default_factory=SVGDSettings)
    mcmc: MCMCSettings = field(default_factory=MCMCSettings)
    exact: ExactSettings = field(default_factory=ExactSettings)
    bootstrap: BootstrapSettings = field(default_factory=BootstrapSettings)
    jci_pc: JCIPCSettings = field(default_factory=JCIPCSettings)
    ut_igsp: UTIGSPSettings = field(default_factory=UTIGSPSettings)
    dcdi_g: DCDIGSettings = field(default_factory=DCDIGSettings)
    gies: GIESSettings = field(default_factory=GIESSettings)
    gnies: GnIESSettings = field(default_factory=GnIESSettings)

    @property
    def is_baseline(self) -> bool:
        return self.method in BASELINES

    def section(self, name: str) -> Any:
        """The section of this name, as it stands in a file."""
        return getattr(self, attribute(name))

    def to_dict(self) -> Values:
        """The sections that the method reads, as nested dictionaries fit for JSON and TOML."""
        return {name: asdict(self.section(name)) for name in SECTIONS_OF[self.method]}


def attribute(section: str) -> str:
    """The field of `Settings` that holds a section."""
    return section.replace("-", "_")


def checked(values: dict[str, Any], where: str) -> Values:
    """The values of all sections in the types that the code wants, or a refusal that names key and place."""
    found: Values = {}
    for section, entries in values.items():
        if section not in SECTIONS:
            raise ConfigError(_unknown_section(section, entries, where))
        if not isinstance(entries, dict):
            raise ConfigError(f"'{section}' in {where} is no section; write its keys below a line [{section}].")
        found[section] = {key: _read(section, key, value, where) for key, value in entries.items()}
    return found


def rule_of(section: str, key: str) -> Rule:
    """The rule of a key that exists."""
    return _fields(section)[key].metadata["rule"]


def refuse_idle(values: Values, settings: Settings, where: str) -> None:
    """Refuse what was given and what the other choices make useless, for it would mislead whoever reads it."""
    for section, entries in values.items():
        if section not in SECTIONS_OF[settings.method]:
            users = [method for method, sections in SECTIONS_OF.items() if section in sections]
            raise ConfigError(
                f"The section [{section}] in {where} has no effect with method {settings.method}, only with "
                f"{' or '.join(users)}; remove it or use --method {users[0]}."
            )
        chosen = settings.section(section)
        for key in entries:
            for other, useful in _fields(section)[key].metadata["only"].items():
                found = settings.method if other == _METHOD else getattr(chosen, other)
                if found not in useful:
                    raise ConfigError(
                        f"The key '{key}' in {where} has no effect with {other} = {found}, only with "
                        f"{' or '.join(useful)}; remove it or change {other}."
                    )


def _read(section: str, key: str, value: Any, where: str) -> Any:
    known = _fields(section)
    if key not in known:
        raise ConfigError(_unknown_key(section, key, where))
    rule = known[key].metadata["rule"]
    read = rule.read(value)
    if read is REFUSED:
        shown = quoted(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else value
        raise ConfigError(f"The key '{key}' of section [{section}] in {where} is {shown}; give {rule.words}.")
    return read


def _unknown_key(section: str, key: str, where: str) -> str:
    start = f"The key {quoted(key)} of section [{section}] in {where} is not known"
    homes = [name for name in SECTIONS if key in _fields(name)]
    if homes:
        return f"{start}; it belongs in the section [{homes[0]}]."
    return f"{start}{closest(key, list(_fields(section)))}; the keys are {listed(_fields(section), 99)}."


def _unknown_section(section: str, entries: Any, where: str) -> str:
    if not isinstance(entries, dict):
        homes = [f"[{name}]" for name in SECTIONS if section in _fields(name)]
        every_key = [key for name in SECTIONS for key in _fields(name)]
        remedy = f"write it below a line {homes[0]}" if homes else "keys stand below a line such as [model]"
        return f"The key {quoted(section)} in {where} stands in no section{closest(section, every_key)}; {remedy}."
    near = closest(section, [*SECTIONS, KNOWLEDGE])
    return f"The section {quoted(section)} in {where} is not known{near}; the sections are {_EVERY_SECTION}."


def _fields(section: str) -> dict[str, Any]:
    return {entry.name: entry for entry in fields(SECTIONS[section])}
