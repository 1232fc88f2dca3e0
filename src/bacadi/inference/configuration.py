"""Choices as data: a nested description of the objects that make up a run, for the record and the fingerprint."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def configuration(choice: Any) -> Any:
    """Nested dictionaries of class and field names, fit for JSON.

    >>> from bacadi.model.priors import LatentPrior
    >>> configuration(LatentPrior(0.5))
    {'class': 'LatentPrior', 'z_std': 0.5}
    """
    if choice is None or isinstance(choice, bool | int | float | str):
        return choice
    if is_dataclass(choice) and not isinstance(choice, type):
        return _described(choice, [field.name for field in fields(choice)])
    if isinstance(choice, tuple) and hasattr(choice, "_fields"):  # an optax optimiser is a pair of functions
        return _described(choice, choice._fields)
    if isinstance(choice, tuple | list):
        return [configuration(item) for item in choice]
    if isinstance(choice, dict):
        return {str(key): configuration(value) for key, value in choice.items()}
    if callable(choice):
        return _function(choice)
    return np.asarray(choice).tolist()


def _described(choice: Any, names: Any) -> dict[str, Any]:
    return {"class": type(choice).__name__} | {name: configuration(getattr(choice, name)) for name in names}


def _function(function: Callable) -> Any:
    """The name of a function with what it closes over: schedules and optimisers keep their numbers there."""
    name = getattr(function, "__qualname__", type(function).__qualname__)
    cells = getattr(function, "__closure__", None)
    if not cells:
        return name
    closed = zip(function.__code__.co_freevars, (cell.cell_contents for cell in cells), strict=True)
    return {"class": name} | {variable: configuration(value) for variable, value in closed if value is not function}
