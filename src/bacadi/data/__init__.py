"""The edge: tables in, arrays out, and a doctor that says in plain words what is wrong with a table.

What reads tables needs pandas and is loaded on first use: the numeric core takes only `ContextData` from here and
should not wait for it.
"""

from importlib import import_module
from typing import Any

from bacadi.data.contexts import ContextData, Scaling

_TABLES = {
    "Diagnosis": "doctor",
    "Finding": "checks",
    "Severity": "checks",
    "diagnose": "doctor",
    "from_arrays": "tables",
    "from_dataframe": "tables",
    "from_file": "tables",
    "read_table": "tables",
}

__all__ = ["ContextData", "Scaling", *_TABLES]


def __getattr__(name: str) -> Any:
    if name not in _TABLES:
        raise AttributeError(f"module 'bacadi.data' has no attribute '{name}'")
    return getattr(import_module(f"bacadi.data.{_TABLES[name]}"), name)
