"""The methods by name, the sections that each of them reads, and which one `auto` stands for."""

from bacadi.data.text import closest, quoted
from bacadi.errors import ConfigError
from bacadi.settings.sections import ModelSettings

AUTO = "auto"
SECTIONS_OF: dict[str, tuple[str, ...]] = {
    "svgd": ("model", "svgd"),
    "mcmc": ("model", "mcmc"),
    "exact": ("model", "exact"),
    "jci-pc": ("bootstrap", "jci-pc"),
    "ut-igsp": ("bootstrap", "ut-igsp"),
    "dcdi-g": ("bootstrap", "dcdi-g"),
    "gies": ("bootstrap", "gies"),
    "gnies": ("bootstrap", "gnies"),
}
METHODS = tuple(SECTIONS_OF)
OURS = ("svgd", "mcmc", "exact")
COLLAPSED = ("mcmc", "exact")
BASELINES = ("jci-pc", "ut-igsp", "dcdi-g", "gies", "gnies")


def check_method(method: str) -> None:
    """Refuse a name that stands for no method."""
    if method not in (AUTO, *METHODS):
        near = closest(method, (AUTO, *METHODS))
        every = f"{', '.join((AUTO, *METHODS[:-1]))} or {METHODS[-1]}"
        raise ConfigError(f"There is no method {quoted(method)}{near}; --method takes {every}.")


def has_closed_form(model: ModelSettings) -> bool:
    """Whether parameters can be integrated out: always, but for networks of other layers than one of sigmoids.

    A test holds this to `bacadi.inference.fit.default_method`, which asks the model itself and needs JAX for it.
    """
    if model.mechanism != "nonlinear" or model.kernel != "network":
        return True
    return len(model.hidden) == 1 and model.activation == "sigmoid"


def decided(method: str, model: ModelSettings) -> str:
    """The method itself: `auto` is MCMC where the model has closed-form evidence and SVGD otherwise.

    >>> decided("auto", ModelSettings()), decided("auto", ModelSettings(mechanism="nonlinear", hidden=(8, 8)))
    ('mcmc', 'svgd')
    """
    if method != AUTO:
        return method
    return "mcmc" if has_closed_form(model) else "svgd"
