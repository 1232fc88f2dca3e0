"""Settings: strings, presets and TOML files on one side, the objects of the core on the other.

Reading and checking settings needs no JAX; `build` brings it in.
"""

from typing import TYPE_CHECKING

from bacadi.settings.layers import knowledge_section, resolve, restored
from bacadi.settings.methods import BASELINES, METHODS
from bacadi.settings.presets import PRESET_NAMES, PRESETS
from bacadi.settings.schema import Settings
from bacadi.settings.sections import MECHANISMS, MCMCSettings, ModelSettings, SVGDSettings

if TYPE_CHECKING:
    from bacadi.baselines import Bootstrap
    from bacadi.inference.fit import Method
    from bacadi.model.model import Model

__all__ = [
    "BASELINES",
    "MECHANISMS",
    "METHODS",
    "PRESETS",
    "PRESET_NAMES",
    "MCMCSettings",
    "ModelSettings",
    "SVGDSettings",
    "Settings",
    "build",
    "build_baseline",
    "knowledge_section",
    "resolve",
    "restored",
]


def build(settings: Settings) -> "tuple[Model, Method]":
    """The model and the method that the settings stand for: see `bacadi.settings.objects`."""
    from bacadi.settings.objects import build as build_objects

    return build_objects(settings)


def build_baseline(settings: Settings) -> "Bootstrap":
    """The bootstrapped baseline that the settings stand for: see `bacadi.settings.objects_baselines`."""
    from bacadi.settings.objects_baselines import build_baseline as build_objects

    return build_objects(settings)
