"""Choices as data: a nested description of the objects that make up a run, for the record and the fingerprint."""

from dataclasses import fields, is_dataclass
from typing import Any


def configuration(choice: Any) -> Any:
    """Nested dictionaries of class and field names, fit for JSON.

    >>> from bacadi.model.priors import ErdosRenyi
    >>> configuration(ErdosRenyi())
    {'class': 'ErdosRenyi', 'edges_per_node': 2.0}
    """
    if is_dataclass(choice) and not isinstance(choice, type):
        return {"class": type(choice).__name__} | {
            field.name: configuration(getattr(choice, field.name)) for field in fields(choice)
        }
    if isinstance(choice, tuple) and hasattr(choice, "_fields"):  # an optax optimiser is a pair of functions
        return {"class": type(choice).__name__} | {name: configuration(getattr(choice, name)) for name in choice._fields}
    if isinstance(choice, tuple | list):
        return [configuration(item) for item in choice]
    if choice is None or isinstance(choice, bool | int | float | str):
        return choice
    return getattr(choice, "__qualname__", type(choice).__qualname__)
