"""`ContextData`: samples of the same variables under several contexts, as arrays with labels.

How far contexts move variables: a first look at data that needs no model.
"""

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from jaxtyping import Float, Int

from bacadi.errors import DataError


@dataclass(frozen=True)
class Scaling:
    """The affine map that was applied to the columns: `original = scaled * scale + shift`."""

    shift: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]

    @classmethod
    def identity(cls, n_variables: int) -> Self:
        return cls(np.zeros(n_variables), np.ones(n_variables))

    def apply(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return (x - self.shift) / self.scale

    def invert(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return x * self.scale + self.shift


@dataclass(frozen=True)
class ContextData:
    """Samples `x` of d variables, each row taken in one context.

    `context[n]` is 0 for an observational row and k = 1..M for a row of the context named
    `contexts[k - 1]`, whose intervention targets are to be inferred. Data without an observational
    context have no row with `context == 0`.
    """

    x: Float[np.ndarray, "n d"]
    context: Int[np.ndarray, " n"]
    variables: tuple[str, ...]
    contexts: tuple[str, ...]
    observational: str | None = None
    scaling: Scaling = field(default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.scaling is None:
            object.__setattr__(self, "scaling", Scaling.identity(self.x.shape[1]))
        n, d = self.x.shape
        if self.context.shape != (n,) or len(self.variables) != d:
            raise DataError(
                f"The arrays do not fit together: x is {n} x {d}, context has {len(self.context)} entries, "
                f"{len(self.variables)} variables are named; give one context per row and one name per column."
            )
        if n and not (self.context.min() >= 0 and self.context.max() <= len(self.contexts)):
            raise DataError(
                f"The context numbers run from {self.context.min()} to {self.context.max()} but only "
                f"0 (observational) to {len(self.contexts)} have a name; number the contexts from 1."
            )

    @property
    def n_rows(self) -> int:
        return self.x.shape[0]

    @property
    def n_variables(self) -> int:
        return self.x.shape[1]

    @property
    def n_contexts(self) -> int:
        """M, the number of contexts beside the observational one."""
        return len(self.contexts)

    @property
    def counts(self) -> Int[np.ndarray, " K"]:
        """Rows of each context, the observational one first (K = M + 1)."""
        return np.bincount(self.context, minlength=self.n_contexts + 1)

    def standardized(self) -> "ContextData":
        """The data with every column shifted to mean 0 and scaled to standard deviation 1 over all rows.

        The inverse is recorded in `scaling`, composed with whatever scaling was there before.
        """
        return self._scaled(self.x.mean(axis=0), self.x.std(axis=0))

    def in_own_units(self) -> "ContextData":
        """The data with every column in its own unit: shifted by its observational mean (the mean of all rows where
        there are no observational ones) and scaled by its standard deviation within contexts.

        Interventions move columns far from where they are without, so the spread over all rows says little about a
        mechanism; a column that varies between contexts only is scaled by that spread all the same.
        """
        observational = self.context == 0
        residual = self.x.copy()
        for k in range(self.n_contexts + 1):
            rows = self.context == k
            if rows.any():
                residual[rows] -= self.x[rows].mean(axis=0)
        scale = residual.std(axis=0)
        scale = np.where(scale > 1e-9 * self.x.std(axis=0), scale, self.x.std(axis=0))
        return self._scaled((self.x[observational] if observational.any() else self.x).mean(axis=0), scale)

    def _scaled(self, shift: Float[np.ndarray, " d"], scale: Float[np.ndarray, " d"]) -> "ContextData":
        if (scale == 0).any():
            column = self.variables[int(np.argmin(scale))]
            raise DataError(f"Column '{column}' is constant and cannot be standardised; drop it.")
        combined = Scaling(self.scaling.shift + self.scaling.scale * shift, self.scaling.scale * scale)
        return ContextData(
            (self.x - shift) / scale, self.context, self.variables, self.contexts, self.observational, combined
        )


MOVED = 4.0  # standard errors between the mean of a context and the reference that count as moved


def shifts(data: ContextData) -> Float[np.ndarray, "M d"]:
    """How many standard errors the mean of a variable in a context lies from that of the other rows of reference."""
    observational = data.context == 0
    reference = data.x[observational] if observational.sum() > 2 else data.x
    found = np.zeros((data.n_contexts, data.n_variables))
    for k in range(data.n_contexts):
        block = data.x[data.context == k + 1]
        if len(block):
            # A context of constant values (a knock-out) has no spread of its own; that of the reference stands in.
            error = (reference.var(axis=0) / len(reference)) + np.maximum(block.var(axis=0), 1e-2) / len(block)
            found[k] = np.abs(block.mean(axis=0) - reference.mean(axis=0)) / np.sqrt(error + 1e-300)
    return found
