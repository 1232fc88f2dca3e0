"""The sections of a configuration, `[model]` and `[svgd]`: every key with its default and what it may be.

The defaults are those of the classes that `build` makes of them. Strings that stand for choices live here alone.
"""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from bacadi.data.words import closest, listed, quoted
from bacadi.errors import ConfigError
from bacadi.settings.rules import REFUSED, Choice, Flag, Number, Rule, Whole, Widths, setting

MECHANISMS = ("linear", "nonlinear", "bge")
_LINEAR, _NEURAL, _BGE = ({"mechanism": (name,)} for name in MECHANISMS)
_PARAMETRIC = {"mechanism": ("linear", "nonlinear")}
_HARD = {"effect": ("hard",)}
_RELAXING = {"estimator": ("relaxed", "blockwise")}
_SAMPLED = {"acyclicity": ("sampled",)}
_FINITE = {"reading": ("finite",)}


@dataclass(frozen=True)
class ModelSettings:
    """`[model]`: mechanism, effect of interventions, priors of graph and targets."""

    mechanism: str = setting("linear", Choice(MECHANISMS))
    noise_std: float | str = setting(0.1**0.5, Number(above=0, word="inferred"), _PARAMETRIC)
    weight_std: float = setting(1.0, Number(above=0), _PARAMETRIC)
    mask_prior: bool = setting(True, Flag(), _PARAMETRIC)
    intercept: bool = setting(False, Flag(), _LINEAR)
    intercept_std: float = setting(10.0, Number(above=0), _LINEAR)
    hidden: tuple[int, ...] = setting((5,), Widths(), _NEURAL)
    activation: str = setting("sigmoid", Choice(("sigmoid", "tanh", "relu", "gelu", "softplus")), _NEURAL)
    alpha_mu: float = setting(1.0, Number(above=0), _BGE)
    alpha_omega_excess: float = setting(2.0, Number(above=1), _BGE)
    effect: str = setting("hard", Choice(("hard", "soft")))
    effect_noise_std: float | str = setting(0.5**0.5, Number(above=0, word="inferred"), _HARD)
    effect_mean: float = setting(0.0, Number(), _HARD)
    effect_mean_std: float = setting(10.0, Number(above=0), _HARD)
    pseudo_prior: bool = setting(True, Flag(), _HARD)
    graph_prior: str = setting("er", Choice(("er", "sf", "uniform")))
    edges_per_node: float = setting(2.0, Number(above=0), {"graph_prior": ("er",)})
    exponent: float = setting(3.0, Number(least=0), {"graph_prior": ("sf",)})
    sparsity: float = setting(1.0, Number(least=0))
    gamma_std: float = setting(0.1**0.5, Number(above=0))
    change_of_variables: bool = setting(False, Flag())
    z_std: float | str = setting("auto", Number(above=0, word="auto"))


@dataclass(frozen=True)
class SVGDSettings:
    """`[svgd]`: particles, steps, estimator of the score, annealing, kernel, how particles are read and weighted.

    `alpha` and `beta` are the slopes of the annealing schedules: α_t = alpha · t, β_t = beta · t.
    """

    particles: int = setting(20, Whole())
    steps: int = setting(2000, Whole())
    estimator: str = setting("relaxed", Choice(("relaxed", "blockwise", "marginal")))
    samples: int = setting(32, Whole())
    temperature: float = setting(1.0, Number(above=0), _RELAXING)
    by_column: bool = setting(True, Flag(), _RELAXING)
    optimizer: str = setting("rmsprop", Choice(("rmsprop", "adam", "sgd")))
    learning_rate: float = setting(0.01, Number(above=0))
    alpha: float = setting(0.01, Number(above=0))
    beta: float = setting(2.0, Number(least=0))
    kernel: str = setting("additive", Choice(("additive", "product")))
    kernel_terms: int = setting(4, Choice((3, 4)))
    bandwidth_z: float | str = setting(0.276, Number(above=0, word="median"))
    bandwidth_gamma: float | str = setting(1.64, Number(above=0, word="median"))
    bandwidth_theta: float | str = setting(226.0, Number(above=0, word="median"))
    bandwidth_theta_int: float | str = setting(226.0, Number(above=0, word="median"))
    acyclicity: str = setting("probs", Choice(("probs", "sampled")))
    acyclicity_samples: int = setting(32, Whole(), _SAMPLED)
    acyclicity_temperature: float = setting(1.0, Number(above=0), _SAMPLED)
    latent_dim: int | str = setting("auto", Whole(word="auto"))
    weights: str = setting("tempered", Choice(("posterior", "tempered", "uniform")))
    reading: str = setting("finite", Choice(("limit", "finite")))
    reading_draws: int = setting(16, Whole(), _FINITE)
    reading_candidates: int = setting(128, Whole(), _FINITE)
    double: bool = setting(False, Flag())


SECTIONS: dict[str, type] = {"model": ModelSettings, "svgd": SVGDSettings}
Values = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Settings:
    """All sections together; equal settings build equal models and methods.

    >>> Settings().svgd.steps
    2000
    """

    model: ModelSettings = field(default_factory=ModelSettings)
    svgd: SVGDSettings = field(default_factory=SVGDSettings)

    def to_dict(self) -> Values:
        """Nested dictionaries fit for JSON and TOML."""
        return asdict(self)


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
    """Refuse a key that was given and that the other settings make useless, for it would mislead whoever reads it."""
    for section, entries in values.items():
        chosen = getattr(settings, section)
        for key in entries:
            for other, useful in _fields(section)[key].metadata["only"].items():
                if getattr(chosen, other) not in useful:
                    raise ConfigError(
                        f"The key '{key}' in {where} has no effect with {other} = {getattr(chosen, other)}, only with "
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
    for other in SECTIONS:
        if key in _fields(other):
            return f"{start}; it belongs in the section [{other}]."
    return f"{start}{closest(key, list(_fields(section)))}; the keys are {listed(_fields(section), 99)}."


def _unknown_section(section: str, entries: Any, where: str) -> str:
    if not isinstance(entries, dict):
        homes = [f"[{name}]" for name in SECTIONS if section in _fields(name)]
        every_key = [key for name in SECTIONS for key in _fields(name)]
        remedy = f"write it below a line {homes[0]}" if homes else "keys stand below a line [model] or [svgd]"
        return f"The key {quoted(section)} in {where} stands in no section{closest(section, every_key)}; {remedy}."
    near = closest(section, list(SECTIONS))
    return f"The section {quoted(section)} in {where} is not known{near}; the sections are [model] and [svgd]."


def _fields(section: str) -> dict[str, Any]:
    return {entry.name: entry for entry in fields(SECTIONS[section])}
