"""Bayesian causal discovery from multi-context data with unknown intervention targets.

Public names are loaded on first use, so that `import bacadi` and the command line start fast
and the doctor for data files never waits for JAX.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public name -> module that defines it.
_PUBLIC = {
    "BacadiError": "bacadi.errors",
    "ContextData": "bacadi.data.context",
    "SyntheticSpec": "bacadi.simulate.spec",
    "Task": "bacadi.simulate.task",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'bacadi' has no attribute '{name}'")
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
