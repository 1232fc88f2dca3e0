"""Where the variables of each context are and how far from the control, whatever the kind of its effect."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled

_BORROWED = 2.0  # rows that the control's variance counts for in that of a context, which may have a single row

Row = Float[np.ndarray, " d"]


class Contrasts(NamedTuple):
    """Of every context and variable: the difference to the control in the unit of the table, its 90 % interval, and
    the difference in standard deviations of the control, on the scale that is fitted."""

    change: Float[np.ndarray, "M d"]
    q05: Float[np.ndarray, "M d"]
    q95: Float[np.ndarray, "M d"]
    in_sd: Float[np.ndarray, "M d"]

    def labelled(self) -> dict[str, Labelled]:
        """As constants of a posterior."""
        names = ("change", "change_q05", "change_q95", "change_in_sd")
        return {name: Labelled(values, ("context", "node")) for name, values in zip(names, self, strict=True)}


class Levels(NamedTuple):
    """Mean and standard deviation of every variable in every context, the observational one first, on the scale that
    is fitted; NaN where no row (for a standard deviation: no two rows) tells."""

    mean: Float[np.ndarray, "K d"]
    std: Float[np.ndarray, "K d"]

    def labelled(self) -> dict[str, Labelled]:
        """As constants of a posterior."""
        dims = ("observational_and_context", "node")
        return {"context_mean": Labelled(self.mean, dims), "context_std": Labelled(self.std, dims)}


def levels(data: ContextData) -> Levels:
    """The first two moments of each context, of the cells that are not missing.

    >>> data = ContextData(np.array([[0.0], [2.0], [5.0]]), np.array([0, 0, 1]), ("a",), ("ko",), "wt")
    >>> levels(data).mean.tolist(), levels(data).std.round(3).tolist()
    ([[1.0], [5.0]], [[1.414], [nan]])
    """
    mean, std = np.full((2, data.n_contexts + 1, data.n_variables), np.nan)
    for k, rows in enumerate(data.by_context()):
        count = (~np.isnan(rows)).sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean[k] = np.nansum(rows, axis=0) / count
            squares = np.nansum((rows - mean[k]) ** 2, axis=0)
            std[k] = np.sqrt(squares / np.where(count > 1, count - 1, np.nan))
    return Levels(mean, std)


def contrasts(data: ContextData) -> Contrasts:
    """The posterior of E[x_j | context k] - E[x_j | control] under normal laws of their own in both, flat priors.

    Nothing is assumed of graph and effect: of a hard effect it is its mean less that of the control, of a shift the
    constant and what changes in the parents, of a scale effect about 0. The interval is Student's (Welch), with the
    variance of a context drawn to that of the control as by two more rows. Where columns are transformed, means are
    medians of the values given, and it is these that are compared. Without a control all other rows take its place;
    what no row tells is NaN.

    >>> x = np.array([[0.0], [1.0], [2.0], [1.0], [11.0], [9.0], [10.0]])
    >>> found = contrasts(ContextData(x, np.array([0, 0, 0, 0, 1, 1, 1]), ("a",), ("ko",), "wt"))
    >>> found.change.tolist(), found.q05.round(1).tolist(), found.in_sd.round(1).tolist()
    ([[9.0]], [[7.7]], [[11.0]])
    """
    found = np.full((4, data.n_contexts, data.n_variables), np.nan)
    reference = data.context == 0
    for k in range(1, data.n_contexts + 1):
        control, rows = data.x[reference if reference.any() else data.context != k], data.x[data.context == k]
        if not len(rows) or len(control) < 2:
            continue
        at, step, half, std = _difference(rows, control)
        zero = _original(data, at)
        for part, moved in enumerate((step, step - half, step + half)):
            found[part, k - 1] = _original(data, at + moved) - zero
        with np.errstate(divide="ignore", invalid="ignore"):
            found[3, k - 1] = np.where(std > 0, step / std, np.nan)
    return Contrasts(*found)


def _difference(rows: Float[np.ndarray, "n d"], control: Float[np.ndarray, "m d"]) -> tuple[Row, Row, Row, Row]:
    """Mean of the control, difference to it, half of its 90 % interval, standard deviation of the control."""
    count, of_control = ((~np.isnan(values)).sum(axis=0).astype(float) for values in (rows, control))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, own = (np.nansum(values, axis=0) / n for values, n in ((control, of_control), (rows, count)))
        variance = np.nansum((control - mean) ** 2, axis=0) / (of_control - 1)
        squares = np.nansum((rows - own) ** 2, axis=0)
        freedom = count - 1 + _BORROWED, of_control - 1
        errors = (squares + _BORROWED * variance) / freedom[0] / count, variance / of_control
        total = errors[0] + errors[1]
        together = total**2 / (errors[0] ** 2 / freedom[0] + errors[1] ** 2 / freedom[1])
        half = stdtrit(np.where(total > 0, together, 1.0), 0.95) * np.sqrt(total)
        return mean, own - mean, half, np.sqrt(variance)


def _original(data: ContextData, values: Row) -> Row:
    """Values of the scale that is fitted, as the table has them."""
    unscaled = data.scaling.invert(values)
    transforms = getattr(data, "transforms", None)
    return unscaled if transforms is None else transforms.inverse(unscaled)
