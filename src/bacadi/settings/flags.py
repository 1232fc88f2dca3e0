"""Command-line flags that stand for keys of a configuration, and the methods for which they do."""

from typing import Any

from bacadi.data.text import closest, quoted
from bacadi.errors import ConfigError
from bacadi.settings.methods import AUTO, BASELINES, OURS
from bacadi.settings.rules import REFUSED, Choice
from bacadi.settings.schema import Values, rule_of
from bacadi.settings.sections_baselines import IN_PROCESSES

_Home = tuple[str, str]
FLAGS: dict[str, dict[str, _Home]] = {
    "--model": {method: ("model", "mechanism") for method in OURS},
    "--particles": {"svgd": ("svgd", "particles")},
    "--steps": {"svgd": ("svgd", "steps")},
    "--draws": {"mcmc": ("mcmc", "draws"), "exact": ("exact", "draws")},
    "--sweeps": {"mcmc": ("mcmc", "sweeps")},
    "--time-budget": {"mcmc": ("mcmc", "time_budget")},
    "--replicas": {"mcmc": ("mcmc", "replicas")},
    "--samples": {method: ("bootstrap", "samples") for method in BASELINES},
    "--jobs": {method: ("bootstrap", "jobs") for method in IN_PROCESSES},
}
"""For each flag the methods that it means something to and, for each of these, section and key."""


def flag_values(given: dict[str, Any], method: str) -> Values:
    """The values of the flags by section, or a refusal; `auto` reads only those that every method of ours shares."""
    found: Values = {}
    for flag, value in given.items():
        homes = FLAGS[flag]
        read = _read(flag, value, next(iter(homes.values())))
        shared = homes.get("svgd") if set(OURS) <= set(homes) else None
        home = shared if method == AUTO else homes.get(method)
        if home is not None:
            found.setdefault(home[0], {})[home[1]] = read
    return found


def refuse_idle_flags(given: dict[str, Any], method: str, by_auto: bool) -> None:
    """Refuse a flag that means nothing to the method."""
    for flag in given:
        if method not in FLAGS[flag]:
            users = list(FLAGS[flag])
            whose = f"{method}, which auto chose here" if by_auto else method
            raise ConfigError(
                f"{flag} has no effect with method {whose}, only with {' or '.join(users)}; "
                f"remove it or use --method {users[0]}."
            )


def _read(flag: str, value: Any, home: _Home) -> Any:
    rule = rule_of(*home)
    read = rule.read(value)
    if read is REFUSED:
        near = closest(value, rule.options) if isinstance(rule, Choice) else ""  # type: ignore[arg-type]
        # The words that a key may have in a file ("auto") mean the same as leaving the flag out.
        words = rule.words.split(' or "')[0]
        raise ConfigError(f"{flag} is {quoted(value) if isinstance(value, str) else value}{near}; give {words}.")
    return read
