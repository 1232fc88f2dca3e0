"""`Labelled`: an array that carries the names of its axes, wherever parameters cross a border of the package."""

from typing import Any, NamedTuple


class Labelled(NamedTuple):
    """An array (NumPy or JAX) and the names of its last axes; leading axes without a name count draws.

    In `Posterior.parameters` the axes (chain, draw) come first and are not repeated in `dims`. In
    `Posterior.sample_stats` they come first for a number per draw and are missing for one of the whole run (a trace
    over steps). In `Posterior.constant_data` they never appear. The axes `source`, `target` and `node` run over the
    variables, `context` over the contexts beside the observational one. Any other name is free except `draw` and
    `variable`; xarray and ArviZ need `variable` for the axis along which they stack arrays.

    >>> import numpy as np
    >>> Labelled(np.zeros((2, 10, 3)), ("node",)).full_dims
    ('chain', 'draw', 'node')
    """

    values: Any
    dims: tuple[str, ...] = ()

    @property
    def constant(self) -> bool:
        """Whether the array has no axis of draws: all draws share it."""
        return self.values.ndim == len(self.dims)

    @property
    def per_draw(self) -> bool:
        """Whether the array has the two leading axes (chain, draw)."""
        return self.values.ndim == len(self.dims) + 2

    @property
    def full_dims(self) -> tuple[str, ...]:
        """The names of all axes."""
        return ("chain", "draw", *self.dims) if self.per_draw else self.dims
