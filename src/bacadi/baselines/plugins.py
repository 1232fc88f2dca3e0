"""What the baselines of other packages share: their import, rows by context, and failures in one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
from jaxtyping import Float

from bacadi.data.context import ContextData
from bacadi.data.words import listed
from bacadi.errors import ConfigError, InferenceError


def package(module: str, method: str, name: str | None = None) -> Any:
    """A module of another package, imported when it is first used, or how to get it; `name` where pip has another."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{method} needs the package {name or module}, which is not installed; run pip install 'bacadi[baselines]'."
        ) from error


def environments(data: ContextData) -> dict[int, Float[np.ndarray, "n d"]]:
    """The rows of each context that has any, 0 for the observational one.

    >>> data = ContextData(np.array([[1.0], [2.0], [3.0]]), np.array([1, 0, 1]), ("a",), ("k",), "obs")
    >>> {k: x.ravel().tolist() for k, x in environments(data).items()}
    {0: [2.0], 1: [1.0, 3.0]}
    """
    return {int(k): data.x[data.context == k] for k in np.unique(data.context)}


def check_penalty(penalty: float, method: str) -> None:
    """Refuse a penalty that is none."""
    if not 0 < penalty < np.inf:
        raise ConfigError(f"The penalty of {method} is {penalty}; give a number above 0, 1 for BIC.")


@contextmanager
def singularities_named(method: str, data: ContextData) -> Iterator[None]:
    """A division by zero or a singular matrix as an `InferenceError`, so that the bootstrap tries a larger penalty."""
    try:
        with np.errstate(divide="raise", invalid="raise", over="raise"):
            yield
    except (FloatingPointError, np.linalg.LinAlgError) as error:
        raise InferenceError(
            f"{method} met a singular covariance matrix among the columns {listed(data.variables)}; "
            "give more rows, drop columns that others determine, or raise its penalty."
        ) from error
