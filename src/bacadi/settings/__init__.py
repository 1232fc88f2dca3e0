"""Settings: strings, presets and TOML files on one side, the objects of the core on the other.

Reading and checking settings needs no JAX; `build` brings it in.
"""

from typing import TYPE_CHECKING

from bacadi.settings.layers import resolve, restored
from bacadi.settings.presets import PRESET_NAMES, PRESETS
from bacadi.settings.schema import MECHANISMS, ModelSettings, Settings, SVGDSettings

if TYPE_CHECKING:
    from bacadi.inference.svgd import SVGD
    from bacadi.model.model import Model

__all__ = [
    "MECHANISMS",
    "PRESETS",
    "PRESET_NAMES",
    "ModelSettings",
    "SVGDSettings",
    "Settings",
    "build",
    "resolve",
    "restored",
]


def build(settings: Settings) -> "tuple[Model, SVGD]":
    """The model and the method that the settings stand for: see `bacadi.settings.objects`."""
    from bacadi.settings.objects import build as build_objects

    return build_objects(settings)
