"""Shams: data in which no context has a target, made of the data at hand, and how many targets are named in them.

The cheapest calibration there is. What a method names in shams it would also name in the data without any reason.

- *labels*: the contexts of all rows are permuted (within blocks, where the data have blocks), so that all contexts are
  alike. It tells of tails, spikes and other shapes that the model takes for effects. What a context moves far away is
  first brought back to where the control is: mixed among others it would be a heavy tail that the data do not have.
- *control*: pieces of the control, rows in a row, pose as contexts. It also tells of drifts and of rows that resemble
  their neighbours, which a permutation destroys.

Fits of shams are short: of structures without targets a search finds the likeliest at once.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from bacadi.data.contexts import ContextData
from bacadi.data.contrasts import contrasts
from bacadi.data.text import counted
from bacadi.errors import ConfigError
from bacadi.inference.fit import fit, resolve
from bacadi.inference.mcmc.method import MCMC
from bacadi.inference.method import AbstractMethod
from bacadi.model.knowledge import Knowledge, Labels
from bacadi.model.model import Model
from bacadi.posterior.posterior import Posterior

LABELS, CONTROL = "labels", "control"
_SWEEPS, _DRAWS = 240, 200
_MIN_ROWS = 8  # of a piece of the control; with fewer there is nothing to be certain of
_LIKELY, _CERTAIN = 0.5, 0.9
_FAR = 2.0  # standard deviations of the control


@dataclass(frozen=True)
class Sham:
    """What was named in one sham: pairs of context and variable with p > .5 and with p > .9, of `pairs`."""

    kind: str
    likely: int
    certain: int
    pairs: int

    @classmethod
    def of(cls, kind: str, posterior: Posterior) -> "Sham":
        """Count the names of a posterior."""
        p = posterior.target_probabilities()
        return cls(kind, int((p > _LIKELY).sum()), int((p > _CERTAIN).sum()), p.size)


@dataclass(frozen=True)
class Shams:
    """What was named in all shams, and in the data themselves."""

    shams: tuple[Sham, ...]
    real: Sham

    def named(self, kind: str | None = None) -> int:
        """Pairs with p > .5 in all shams, or in those of a kind."""
        return sum(sham.likely for sham in self.shams if kind in (None, sham.kind))

    def words(self) -> list[str]:
        """Sentences for a person: counts by kind, then what was named in the data."""
        whose = {LABELS: "permuted labels", CONTROL: "pieces of the control as contexts"}
        lines = []
        for kind, name in whose.items():
            some = [sham for sham in self.shams if sham.kind == kind]
            if some:
                total, certain = sum(s.likely for s in some), sum(s.certain for s in some)
                pairs = sum(s.pairs for s in some)
                lines.append(
                    f"{counted(len(some), 'sham')} with {name}: {counted(total, 'target')} named (p > {_LIKELY}) of "
                    f"{pairs} pairs, {certain} of them with p > {_CERTAIN}"
                )
        real = self.real
        lines.append(
            f"the data themselves: {counted(real.likely, 'target')} named of {real.pairs} pairs, {real.certain} with "
            f"p > {_CERTAIN}"
        )
        return lines

    def warnings(self) -> list[str]:
        """What to do where shams name targets; nothing where they name none."""
        if not self.named():
            return []
        share = self.named() / sum(sham.pairs for sham in self.shams)
        expected = share * self.real.pairs
        control_only = not self.named(LABELS)
        remedy = (
            "rows of a context depend on each other or drift (--thin, --block)"
            if control_only
            else "change columns or effects (bacadi check names remedies; --transform, --effect) until shams name none"
        )
        return [
            f"Shams, in which no context has a target, name {counted(self.named(), 'target')}, so that about "
            f"{expected:.1f} of the {self.real.likely} named in the data mean nothing; {remedy}."
        ]

    def record(self) -> dict[str, Any]:
        """As plain values for attributes and logs."""
        rows = [vars(sham) for sham in self.shams]
        return {"shams": rows, "real": vars(self.real), "words": self.words(), "warnings": self.warnings()}


def sham(
    data: ContextData,
    model: Model | str | None = None,
    method: AbstractMethod | str | None = None,
    *,
    n_shams: int = 5,
    seed: int = 0,
    knowledge: Knowledge | None = None,
    real: Posterior | None = None,
) -> Shams:
    """Fit shams of the data with the same model, and the data themselves unless their posterior is given.

    Args:
        data: samples with their contexts.
        model: as in `fit`.
        method: as in `fit`; MCMC runs are shortened.
        n_shams: how many have permuted labels; half as many are made of the control, where it has enough rows.
        seed: makes shams and fits repeatable.
        knowledge: what is known of edges is kept, what is known of targets is not, since shams have none.
        real: the posterior of the data.

    >>> from bacadi.simulate import SyntheticSpec, simulate
    >>> data = simulate(SyntheticSpec(n_variables=5), seed=0).data
    >>> found = sham(data, method=MCMC(n_sweeps=40), n_shams=2)
    >>> [of.kind for of in found.shams]
    ['labels', 'labels', 'control']
    """
    if n_shams < 1:
        raise ConfigError(f"{n_shams} shams tell nothing; give 1 or more.")
    if data.n_contexts == 0:
        raise ConfigError("The data have no context beside the observational one, so there is no target to name.")
    model, method = resolve(model, method)
    shams, quick = list(sham_data(data, n_shams, seed)), shortened(method)

    def one(task: tuple[int, tuple[str, ContextData]]) -> Sham:
        number, (kind, of) = task
        return Sham.of(kind, fit(of, model, quick, seed=seed + number, knowledge=_without_targets(knowledge, of)))

    # A fit has a thread per replica, and what it computes does not hold the interpreter.
    with ThreadPoolExecutor(max((os.cpu_count() or 2) // 2, 1)) as pool:
        found = tuple(pool.map(one, enumerate(shams)))
    if real is None:
        real = fit(data, model, quick, seed=seed, knowledge=knowledge)
    return Shams(found, Sham.of("data", real))


def shortened(method: AbstractMethod) -> AbstractMethod:
    """A method with the numbers for shams: few sweeps and draws of MCMC, others as they are."""
    if not isinstance(method, MCMC):
        return method
    sweeps = min(_SWEEPS, method.n_sweeps or _SWEEPS)
    return method.replace(n_sweeps=sweeps, n_draws=min(_DRAWS, method.n_draws), time_budget=None)


def sham_data(data: ContextData, n: int, seed: int) -> Iterator[tuple[str, ContextData]]:
    """n shams with permuted labels, then half as many from the control where it has rows for two pieces."""
    rng = np.random.default_rng([seed, 1])
    for _ in range(n):
        yield LABELS, replace(data, x=brought_back(rng, data), context=_permuted(rng, data))
    rows = np.flatnonzero(data.context == 0)
    size = int(np.median(data.counts[1:]))
    size = max(min(size, len(rows) // 3), _MIN_ROWS)
    pieces = min(data.n_contexts, len(rows) // (2 * size))  # half of the control stays what it is
    for _ in range((n + 1) // 2 if pieces else 0):
        yield CONTROL, _of_control(data, np.roll(rows, int(rng.integers(len(rows)))), size, pieces)


def brought_back(rng: np.random.Generator, data: ContextData) -> Float[np.ndarray, "n d"]:
    """The rows, with what contexts move far from the control, or spread far more or less, at its mean and spread.

    The other cells stay as they are. Of a single row a value of the control takes the place.
    """
    x, moved = data.x.copy(), contrasts(data)
    control = data.x[data.context == 0] if (data.context == 0).any() else data.x
    mean, std = np.nanmean(control, axis=0), np.nanstd(control, axis=0)
    for k in range(1, data.n_contexts + 1):
        rows = np.flatnonzero(data.context == k)
        far = np.abs(moved.in_sd[k - 1]) > (_FAR if len(rows) > 1 else 2 * _FAR)
        own_mean, own_std = np.nanmean(x[rows], axis=0), np.nanstd(x[rows], axis=0)
        if len(rows) >= _MIN_ROWS:
            with np.errstate(divide="ignore", invalid="ignore"):
                far |= np.abs(np.log(own_std / std)) > np.log(_FAR + 1)
        for j in np.flatnonzero(far & (std > 0)):
            if own_std[j] > 0:
                x[rows, j] = mean[j] + (x[rows, j] - own_mean[j]) * std[j] / own_std[j]
            else:
                x[rows, j] = rng.choice(control[:, j], len(rows))
    return x


def _permuted(rng: np.random.Generator, data: ContextData) -> Int[np.ndarray, " n"]:
    """The contexts of the rows, exchanged at random within blocks."""
    block = getattr(data, "block", None)
    context = data.context.copy()
    for label in [None] if block is None else np.unique(block):
        rows = np.arange(data.n_rows) if block is None else np.flatnonzero(block == label)
        context[rows] = rng.permutation(context[rows])
    return context


def _of_control(data: ContextData, rows: Int[np.ndarray, " n"], size: int, pieces: int) -> ContextData:
    """The rows of the control alone, the first pieces as contexts."""
    context = np.zeros(len(rows), data.context.dtype)
    context[: size * pieces] = 1 + np.arange(size * pieces) // size
    names = tuple(f"piece {k + 1}" for k in range(pieces))
    return replace(data.rows(rows), context=context, contexts=names)


def _without_targets(knowledge: Knowledge | None, data: ContextData) -> Knowledge | None:
    if knowledge is None:
        return None
    none = Knowledge.none(data.n_variables, data.n_contexts, Labels(data.variables, data.contexts))
    return replace(none, edge_log_odds=knowledge.edge_log_odds, max_parents=knowledge.max_parents)
