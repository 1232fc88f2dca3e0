"""`ContextData`, samples of the same variables under several contexts, and `Scaling`, the units they are in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from jaxtyping import Float, Int, Shaped

from bacadi.data.shapes import Dependence, dependence
from bacadi.data.text import closest, quoted
from bacadi.data.transforms import Transforms, by_column, fit_transforms
from bacadi.errors import ConfigError, DataError


@dataclass(frozen=True)
class Scaling:
    """An affine map per column: `original = shift + scale * scaled`.

    The one type for units: of standardised data, of priors that are set per unit of noise, of a posterior's parameters.

    >>> kelvin_to_celsius = Scaling(np.array([273.15]), np.array([1.0]))
    >>> kelvin_to_celsius.apply(np.array([[300.15]])).round(6).tolist(), kelvin_to_celsius
    ([[27.0]], Scaling(1 variable))
    """

    shift: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]

    @classmethod
    def identity(cls, n_variables: int) -> Self:
        """The map that changes nothing.

        >>> Scaling.identity(2)
        Scaling(2 variables, identity)
        """
        return cls(np.zeros(n_variables), np.ones(n_variables))

    def apply(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Convert from original to scaled units: (x - shift) / scale."""
        return (x - self.shift) / self.scale

    def invert(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """Convert from scaled to original units: shift + scale · x."""
        return x * self.scale + self.shift

    def inverse(self) -> "Scaling":
        """The map the other way round: `s.inverse().apply` does what `s.invert` does.

        >>> Scaling(np.array([1.0]), np.array([2.0])).inverse().apply(np.array([[3.0]])).tolist()
        [[7.0]]
        """
        return Scaling(-self.shift / self.scale, 1 / self.scale)

    def compose(self, other: "Scaling") -> "Scaling":
        """First this map, then `other`, which scales what is scaled already.

        >>> twice = Scaling(np.array([1.0]), np.array([2.0])).compose(Scaling(np.array([3.0]), np.array([4.0])))
        >>> twice.shift.tolist(), twice.scale.tolist()  # 1 + 2 · (3 + 4 · scaled)
        ([7.0], [8.0])
        """
        return Scaling(self.shift + self.scale * other.shift, self.scale * other.scale)

    def relative_to(self, base: "Scaling") -> "Scaling":
        """The map from the units of `base` to these: `base.compose(own.relative_to(base))` is `own`.

        >>> own, base = Scaling(np.array([7.0]), np.array([8.0])), Scaling(np.array([1.0]), np.array([2.0]))
        >>> own.relative_to(base).shift.tolist(), own.relative_to(base).scale.tolist()
        ([3.0], [4.0])
        """
        return Scaling((self.shift - base.shift) / base.scale, self.scale / base.scale)

    def weights(self, weights: Float[np.ndarray, "*batch d d"]) -> Float[np.ndarray, "*batch d d"]:
        """Express linear weights of scaled variables in original units: w_ij · scale_j / scale_i for the edge i → j.

        >>> Scaling(np.zeros(2), np.array([1.0, 10.0])).weights(np.array([[0.0, 3.0], [0.0, 0.0]])).tolist()
        [[0.0, 30.0], [0.0, 0.0]]
        """
        return weights * (self.scale / self.scale[:, None]).astype(weights.dtype)

    def __repr__(self) -> str:
        d = len(self.shift)
        same = ", identity" if not self.shift.any() and (self.scale == 1).all() else ""
        return f"Scaling({d} variable{'s' * (d != 1)}{same})"


@dataclass(frozen=True, eq=False)
class ContextData:
    """Samples `x` of d variables, each row taken in one context.

    `context[n]` is 0 for an observational row and k = 1..M for a row of the context named
    `contexts[k - 1]`, whose intervention targets are to be inferred. Data without an observational
    context have no row with `context == 0`. `x` is what was given, mapped by `transforms` and then scaled, so that
    `transforms.inverse(scaling.invert(x))` leads back; `original` does that. `block[n]` is the block of a row (batch,
    donor, day), named `blocks[block[n]]`, None where there are none. A missing cell is NaN; `fit` completes it.
    `aims` says which variables a context is meant to hit, where the source of the data says so: whether it did is for
    `fit` to find out, unless `--targets known` takes it for granted.
    `weight[n, j]`, at most 1, is how much row n counts in what the mechanism of j has to explain (None: fully); `fit`
    sets it where tails are heavy.

    >>> x = np.array([[0.0, 1.0], [2.0, 1.5], [5.0, 0.5]])
    >>> data = ContextData(x, np.array([0, 0, 1]), ("a", "b"), ("ko",), "wt")
    >>> data
    ContextData(3 rows, 2 variables; wt (observational): 2, ko: 1)
    >>> data.counts.tolist(), data.n_contexts
    ([2, 1], 1)
    """

    x: Float[np.ndarray, "n d"]
    context: Int[np.ndarray, " n"]
    variables: tuple[str, ...]
    contexts: tuple[str, ...]
    observational: str | None = None
    scaling: Scaling = field(default=None)  # type: ignore[assignment]
    transforms: Transforms = field(default=None)  # type: ignore[assignment]
    block: Int[np.ndarray, " n"] | None = None
    blocks: tuple[str, ...] = ()
    weight: Float[np.ndarray, "n d"] | None = None
    aims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n, d = self.x.shape
        if self.scaling is None:
            object.__setattr__(self, "scaling", Scaling.identity(d))
        if self.transforms is None:
            object.__setattr__(self, "transforms", Transforms.identity(d))
        if self.context.shape != (n,) or len(self.variables) != d:
            given = f"context has {len(self.context)} entries, {len(self.variables)} variables are named"
            remedy = "give one context per row and one name per column"
            raise DataError(f"The arrays do not fit together: x is {n} x {d}, {given}; {remedy}.")
        if n and not (self.context.min() >= 0 and self.context.max() <= len(self.contexts)):
            what = f"The context numbers run from {self.context.min()} to {self.context.max()}"
            named = f"0 (observational) to {len(self.contexts)} have a name"
            raise DataError(f"{what} but only {named}; number the contexts from 1.")
        if self.block is not None and self.block.shape != (n,):
            raise DataError(f"There are {n} rows and {len(self.block)} entries of block; give the block of every row.")

    @property
    def n_rows(self) -> int:
        """The number of samples in all contexts."""
        return self.x.shape[0]

    @property
    def n_variables(self) -> int:
        """d, the number of variables."""
        return self.x.shape[1]

    @property
    def n_contexts(self) -> int:
        """M, the number of contexts besides the observational one."""
        return len(self.contexts)

    @property
    def counts(self) -> Int[np.ndarray, " K"]:
        """Rows per context, the observational one first (K = M + 1)."""
        return np.bincount(self.context, minlength=self.n_contexts + 1)

    def by_context(self, values: Shaped[np.ndarray, "n ..."] | None = None) -> list[Shaped[np.ndarray, "rows ..."]]:
        """Split `x`, or another array with one entry per row, into one array per context k = 0..M; some may be empty.

        >>> data = ContextData(np.array([[1.0], [2.0], [3.0]]), np.array([2, 0, 2]), ("a",), ("ko", "drug"), "wt")
        >>> [rows.ravel().tolist() for rows in data.by_context()]
        [[2.0], [], [1.0, 3.0]]
        """
        values = self.x if values is None else values
        return [values[self.context == k] for k in range(self.n_contexts + 1)]

    @property
    def missing(self) -> float:
        """The share of cells without a value."""
        return float(np.isnan(self.x).mean()) if self.x.size else 0.0

    def original(self) -> Float[np.ndarray, "n d"]:
        """The values as they were given: neither scaled nor transformed."""
        return self.transforms.inverse(self.scaling.invert(self.x))

    def transformed(self, how: str | Mapping[str, str]) -> "ContextData":
        """The data with each column mapped by none, log, log1p, asinh, normal-scores, or what "auto" picks for it.

        One name is for all columns, a mapping for those it names. It is the values given that are mapped, whatever
        transform or scaling there was before.

        >>> x = np.array([[1.0, 5.0], [10.0, 6.0], [100.0, 9.0]])
        >>> data = ContextData(x, np.array([0, 0, 1]), ("a", "b"), ("ko",), "wt").transformed({"a": "log"})
        >>> data.x.round(2).tolist(), data.transforms.names
        ([[0.0, 5.0], [2.3, 6.0], [4.61, 9.0]], ('log', 'none'))
        """
        original = self.original()
        names = by_column(how, self.variables)
        maps = fit_transforms(original, self.context, names, self.variables)
        return replace(self, x=maps.forward(original), scaling=Scaling.identity(self.n_variables), transforms=maps)

    def only(self, variables: Sequence[str]) -> "ContextData":
        """The data of some variables, in the order given.

        >>> data = ContextData(np.array([[1.0, 2.0, 3.0]]), np.array([0]), ("a", "b", "c"), (), "wt")
        >>> data.only(["c", "a"]).x.tolist()
        [[3.0, 1.0]]
        """
        for name in variables:
            if name not in self.variables:
                raise ConfigError(f"There is no variable {quoted(name)}{closest(name, self.variables)}; name a column.")
        at = np.array([self.variables.index(name) for name in variables], dtype=int)
        scaling = Scaling(self.scaling.shift[at], self.scaling.scale[at])
        kept, weight = self.transforms.at(at), None if self.weight is None else self.weight[:, at]
        return replace(
            self, x=self.x[:, at], variables=tuple(variables), scaling=scaling, transforms=kept, weight=weight
        )

    def without(self, variables: Sequence[str]) -> "ContextData":
        """The data without some variables.

        >>> data = ContextData(np.array([[1.0, 2.0, 3.0]]), np.array([0]), ("a", "b", "c"), (), "wt")
        >>> data.without(["b"]).variables
        ('a', 'c')
        """
        self.only(variables)
        return self.only([name for name in self.variables if name not in variables])

    def rows(self, at: Shaped[np.ndarray, " m"]) -> "ContextData":
        """The data of some rows, by position or by a mask."""
        block, weight = (None if part is None else part[at] for part in (self.block, self.weight))
        return replace(self, x=self.x[at], context=self.context[at], block=block, weight=weight)

    def thinned(self, step: int) -> "ContextData":
        """Every `step`-th row of each context, from its first, in the order of the rows.

        >>> data = ContextData(np.arange(5.0)[:, None], np.array([0, 1, 0, 0, 1]), ("a",), ("ko",), "wt")
        >>> data.thinned(2).x.ravel().tolist()
        [0.0, 1.0, 3.0]
        """
        return self.rows(every_nth(self.context, step))

    @cached_property
    def dependence(self) -> Dependence:
        """How the rows of a context depend on each other in their order: see `shapes.dependence`."""
        return dependence(self.x, self.context)

    def effective_rows(self) -> Float[np.ndarray, " K"]:
        """How many independent rows each context is worth, the observational one first: see `shapes.dependence`.

        >>> rng = np.random.default_rng(0)
        >>> walk = np.cumsum(rng.normal(size=(300, 2)), axis=0)
        >>> bool(ContextData(walk, np.zeros(300, int), ("a", "b"), (), "wt").effective_rows()[0] < 30)
        True
        """
        return self.counts * self.dependence.share

    def residuals_within(self) -> Float[np.ndarray, "n d"]:
        """Each row minus the mean of its context: what varies for other reasons than the interventions.

        With blocks, minus what an intercept per context and one per block explain together (least squares).

        >>> data = ContextData(np.array([[1.0], [3.0], [9.0]]), np.array([0, 0, 1]), ("a",), ("ko",), "wt")
        >>> data.residuals_within().ravel().tolist()
        [-1.0, 1.0, 0.0]
        """
        residual = self.x.astype(float)
        if self.block is not None:
            groups = [np.unique(labels, return_inverse=True)[1] for labels in (self.context, self.block)]
            design = np.hstack([np.eye(group.max() + 1)[group] for group in groups])
            return residual - design @ np.linalg.lstsq(design, residual, rcond=None)[0]
        for k in np.unique(self.context):
            residual[self.context == k] -= self.x[self.context == k].mean(axis=0)
        return residual

    def standardized(self) -> "ContextData":
        """The data with every column shifted to mean 0 and scaled to standard deviation 1 over all rows.

        The inverse is recorded in `scaling`, composed with whatever scaling was there before.

        >>> data = ContextData(np.array([[1.0], [5.0]]), np.array([0, 1]), ("a",), ("ko",), "wt").standardized()
        >>> data.x.tolist(), data.scaling.invert(data.x).tolist()
        ([[-1.0], [1.0]], [[1.0], [5.0]])
        """
        if self.missing:
            return self._scaled(Scaling(np.nanmean(self.x, axis=0), np.nanstd(self.x, axis=0)))
        return self._scaled(Scaling(self.x.mean(axis=0), self.x.std(axis=0)))

    def standardized_within(self, keep_origin: bool = False) -> "ContextData":
        """The data with every column shifted by its observational mean (the mean of all rows where there are no
        observational ones) and scaled by its standard deviation within contexts; scaled alone with `keep_origin`.

        Interventions move columns far from where they are without, so the spread over all rows says little about a
        mechanism; a column that varies only between contexts is scaled by that spread all the same.

        >>> x = np.array([[1.0], [3.0], [99.0], [101.0]])
        >>> ContextData(x, np.array([0, 0, 1, 1]), ("a",), ("ko",), "wt").standardized_within().x.ravel().tolist()
        [-1.0, 1.0, 97.0, 99.0]
        """
        replicated = self.counts[self.context] > 1  # a single row has no residual
        replicated = replicated if replicated.any() else np.ones_like(replicated)
        within, overall = self.residuals_within()[replicated].std(axis=0), self.x.std(axis=0)
        observational = self.context == 0
        reference = self.x[observational] if observational.any() else self.x
        shift = np.zeros(self.n_variables) if keep_origin else reference.mean(axis=0)
        return self._scaled(Scaling(shift, np.where(within > 1e-9 * overall, within, overall)))

    def _scaled(self, step: Scaling) -> "ContextData":
        if (step.scale == 0).any():
            column = self.variables[int(np.argmin(step.scale))]
            raise DataError(f"Column '{column}' is constant and cannot be standardised; drop it.")
        return replace(self, x=step.apply(self.x), scaling=self.scaling.compose(step))

    def __repr__(self) -> str:
        names = (f"{self.observational} (observational):", *(f"{name}:" for name in self.contexts))
        shown = [f"{name} {n}" for name, n in zip(names, self.counts, strict=True)][0 if self.counts[0] else 1 :]
        more = f", and {len(shown) - 8} more" if len(shown) > 8 else ""
        contexts = ", ".join(shown[:8]) or "no context"
        return f"ContextData({self.n_rows} rows, {self.n_variables} variables; {contexts}{more})"


def every_nth(labels: Shaped[np.ndarray, " n"], step: int) -> Shaped[np.ndarray, " n"]:
    """A mask of every `step`-th row of each label, from its first.

    >>> every_nth(np.array(["a", "b", "a", "a"]), 2).tolist()
    [True, True, False, True]
    """
    if type(step) is not int or step < 1:
        raise ConfigError(f"Every {step}-th row cannot be taken; give a whole number from 1 on.")
    kept = np.zeros(len(labels), dtype=bool)
    for label in dict.fromkeys(labels.tolist()):
        kept[np.flatnonzero(labels == label)[::step]] = True
    return kept


def mean_shift_z(data: ContextData) -> Float[np.ndarray, "M d"]:
    """|z| of the difference in means between each context and the observational rows (all rows if fewer than three).

    z = (mean_k - mean_ref) / sqrt(var_ref / n_ref + var_k / n_k), 0 for a context without rows. A first look at which
    variables a context moves, directly or through their ancestors, that needs no model.

    >>> x = np.array([[0.0, 1.0], [1.0, 0.0], [-1.0, -1.0], [9.0, 0.0], [11.0, 0.0]])
    >>> mean_shift_z(ContextData(x, np.array([0, 0, 0, 1, 1]), ("a", "b"), ("ko",), "wt")).round(1).tolist()
    [[11.8, 0.0]]
    """
    observational, *contexts = data.by_context()
    reference = observational if len(observational) > 2 else data.x
    z = np.zeros((data.n_contexts, data.n_variables))
    for k, rows in enumerate(contexts):
        if len(rows):
            # A context of constant values (a knock-out) has no variance; the floor keeps its z finite.
            spread = rows.var(axis=0) if len(rows) > 1 else reference.var(axis=0)
            error = (reference.var(axis=0) / len(reference)) + np.maximum(spread, 1e-2) / len(rows)
            z[k] = np.abs(rows.mean(axis=0) - reference.mean(axis=0)) / np.sqrt(error + 1e-300)
    return z
