"""Arrays with named axes, one draw of the posterior, and expectations of functions of a draw."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int8


class Parameter(NamedTuple):
    """An array and the names of its axes.

    In `Posterior.parameters` the axes (chain, draw) come first and are not repeated in `dims`. In
    `Posterior.sample_stats` they come first for a number per draw and are missing for one of the whole run (a trace
    over steps). In `Posterior.constant_data` they never appear. The names `source`, `target` and `variable` stand
    for the variables, `context` for the contexts beside the observational one; any other name is free.
    """

    values: np.ndarray
    dims: tuple[str, ...] = ()

    @property
    def per_draw(self) -> bool:
        """Whether the array has the two leading axes (chain, draw)."""
        return self.values.ndim == len(self.dims) + 2

    @property
    def full_dims(self) -> tuple[str, ...]:
        return ("chain", "draw", *self.dims) if self.per_draw else self.dims


class Draw(NamedTuple):
    """One draw: `graph[i, j] = 1` for i -> j, `targets[k, i] = 1` if context k + 1 intervenes on i, parameters."""

    graph: Int8[np.ndarray, "d d"]
    targets: Int8[np.ndarray, "M d"]
    parameters: dict[str, np.ndarray]


def binary(name: str, array: np.ndarray) -> Int8[np.ndarray, "..."]:
    """The array as int8, or ValueError if it holds anything but zeros and ones."""
    array = np.asarray(array)
    if not ((array == 0) | (array == 1)).all():
        raise ValueError(f"{name} holds a value that is neither 0 nor 1.")
    return array.astype(np.int8)


def check_parameters(group: str, entries: Mapping[str, Parameter], sizes: Mapping[str, int]) -> None:
    """Raise ValueError where an array does not fit its axes or two arrays disagree about the length of an axis."""
    known = dict(sizes)
    for name, (values, dims) in entries.items():
        where = f"{group} '{name}'"
        if not name.isidentifier() or name in known:
            raise ValueError(f"{where}: the name must be an identifier that names no axis.")
        if len(set(dims)) < len(dims) or "draw" in dims:
            raise ValueError(f"{where}: the axes {dims} repeat a name or list 'draw', which is implied.")
        if values.dtype.kind not in "biuf":
            raise ValueError(f"{where}: the type {values.dtype} is no number or truth value.")
        full = Parameter(values, dims).full_dims
        if values.ndim != len(full) or (group == "parameters" and len(full) == len(dims)):
            raise ValueError(f"{where}: an array of shape {values.shape} does not have the axes {dims}.")
        if group == "constant_data" and len(full) > len(dims):
            raise ValueError(f"{where}: a constant has no axes beside {dims}, but its shape is {values.shape}.")
        for axis, length in zip(full, values.shape, strict=True):
            if known.setdefault(axis, length) != length:
                raise ValueError(f"{where}: the axis '{axis}' has {length} entries where {known[axis]} are expected.")


def weighted_sum(terms: Iterable[tuple[float, Any]]) -> Any:
    """sum_i w_i t_i, where a term is a number, an array, or a dict, list or tuple of such.

    >>> weighted_sum([(0.25, {"a": 4.0}), (0.75, {"a": 0.0})])
    {'a': 1.0}
    """
    total = None
    for position, (weight, term) in enumerate(terms):
        total = _scaled(term, weight) if position == 0 else _added(total, _scaled(term, weight))
    return _unwrapped(total)


def _scaled(tree: Any, weight: float) -> Any:
    return _map(lambda leaf: np.asarray(leaf) * weight, tree)


def _added(left: Any, right: Any) -> Any:
    return _map(np.add, left, right)


def _unwrapped(tree: Any) -> Any:
    return _map(lambda leaf: leaf.item() if np.ndim(leaf) == 0 else leaf, tree)


def _map(function: Any, tree: Any, *others: Any) -> Any:
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: _map(function, tree[key], *(other[key] for other in others)) for key in tree}
    if isinstance(tree, list | tuple):
        items = [_map(function, *parts) for parts in zip(tree, *others, strict=True)]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    return function(tree, *others)
