"""How far each variable of a context is from the control, whatever the kind of its effect."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled

_BORROWED = 2.0  # rows that the control's variance counts for in that of a context, which may have a single row


class Changes(NamedTuple):
    """Of every context and variable: the difference in means, a 90 % interval, and the difference in standard
    deviations of the control."""

    change: Float[np.ndarray, "M d"]
    q05: Float[np.ndarray, "M d"]
    q95: Float[np.ndarray, "M d"]
    in_sd: Float[np.ndarray, "M d"]

    def labelled(self) -> dict[str, Labelled]:
        """As constants of a posterior."""
        names = ("change", "change_q05", "change_q95", "change_in_sd")
        return {name: Labelled(values, ("context", "node")) for name, values in zip(names, self, strict=True)}


def changes(data: ContextData) -> Changes:
    """The posterior of E[x_j | context k] - E[x_j | control] under normal laws of their own in both, flat priors.

    Nothing is assumed of graph and effect: of a hard effect it is its mean less that of the control, of a shift the
    constant and what changes in the parents, of a scale effect about 0. The interval is Student's (Welch), with the
    variance of a context drawn to that of the control as by two more rows. Without a control all other rows take its
    place; what no row tells is NaN.

    >>> x = np.array([[0.0], [1.0], [2.0], [1.0], [11.0], [9.0], [10.0]])
    >>> found = changes(ContextData(x, np.array([0, 0, 0, 0, 1, 1, 1]), ("a",), ("ko",), "wt"))
    >>> found.change.tolist(), found.q05.round(1).tolist(), found.in_sd.round(1).tolist()
    ([[9.0]], [[7.7]], [[11.0]])
    """
    n = data.n_contexts
    shape = (n, data.n_variables)
    mean, half, std = np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
    for k in range(1, n + 1):
        reference = data.context == 0
        control = data.x[reference if reference.any() else data.context != k]
        rows = data.x[data.context == k]
        if len(rows) and len(control) > 1:
            mean[k - 1], half[k - 1], std[k - 1] = _difference(rows, control)
    with np.errstate(divide="ignore", invalid="ignore"):
        return Changes(mean, mean - half, mean + half, np.where(std > 0, mean / std, np.nan))


def _difference(
    rows: Float[np.ndarray, "n d"], control: Float[np.ndarray, "m d"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Difference in means, half of its 90 % interval, and the standard deviation of the control."""
    of_control = control.var(axis=0, ddof=1)
    squares = ((rows - rows.mean(axis=0)) ** 2).sum(axis=0)
    freedom = len(rows) - 1 + _BORROWED, len(control) - 1.0
    errors = (squares + _BORROWED * of_control) / freedom[0] / len(rows), of_control / len(control)
    total = errors[0] + errors[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        together = total**2 / (errors[0] ** 2 / freedom[0] + errors[1] ** 2 / freedom[1])
    half = stdtrit(np.where(total > 0, together, 1.0), 0.95) * np.sqrt(total)
    return rows.mean(axis=0) - control.mean(axis=0), half, np.sqrt(of_control)
