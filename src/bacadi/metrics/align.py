"""A posterior brought into the order and the scale of a task: names decide, not positions."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from bacadi.data.context import ContextData, Scaling
from bacadi.errors import DataError
from bacadi.posterior.draws import Parameter
from bacadi.posterior.posterior import Posterior


def aligned(posterior: Posterior, data: ContextData) -> Posterior:
    """The posterior with variables and contexts in the order of `data`, which has to hold the same names.

    >>> graph = np.array([[[[0, 1], [0, 0]]]], dtype=np.int8)
    >>> posterior = Posterior(graph, np.zeros((1, 1, 0, 2), np.int8), np.zeros((1, 1)), ("b", "a"), ())
    >>> aligned(posterior, ContextData(np.zeros((1, 2)), np.zeros(1, int), ("a", "b"), (), "obs")).graph.tolist()
    [[[[0, 0], [1, 0]]]]
    """
    if (posterior.variables, posterior.contexts) == (data.variables, data.contexts):
        return posterior
    variables = _order("variables", posterior.variables, data.variables)
    contexts = _order("contexts", posterior.contexts, data.contexts)
    orders = {"source": variables, "target": variables, "variable": variables, "context": contexts}
    parameters, sample_stats, constant_data = (
        {name: _reordered(value, orders) for name, value in group.items()}
        for group in (posterior.parameters, posterior.sample_stats, posterior.constant_data)
    )
    return replace(
        posterior,
        graph=posterior.graph[:, :, variables][:, :, :, variables],
        intervention_target=posterior.intervention_target[:, :, contexts][:, :, :, variables],
        variables=data.variables,
        contexts=data.contexts,
        parameters=parameters,
        sample_stats=sample_stats,
        constant_data=constant_data,
    )


@dataclass(frozen=True)
class Scales:
    """The scale in which a posterior's parameters are, seen from that of a task: posterior = (task - shift) / scale."""

    shift: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]

    @classmethod
    def of(cls, posterior: Posterior, data: ContextData) -> "Scales":
        """Read off the scaling stored with the posterior.

        Data in memory carry the scaling since they were drawn, a table does not; a posterior whose scaling is the
        identity is therefore taken to be in the scale of the task's data as they stand.
        """
        same = cls(np.zeros(data.n_variables), np.ones(data.n_variables))
        stored = posterior.constant_data
        if "shift" not in stored or "scale" not in stored:
            return same
        own = Scaling(stored["shift"].values, stored["scale"].values)
        if np.allclose(own.shift, 0) and np.allclose(own.scale, 1):
            return same
        task = data.scaling
        return cls((own.shift - task.shift) / task.scale, own.scale / task.scale)

    def data(self, data: ContextData) -> ContextData:
        """The data of a task in the scale of the posterior."""
        return replace(data, x=(data.x - self.shift) / self.scale)

    def weights(self, weights: Float[np.ndarray, "*batch d d"]) -> Float[np.ndarray, "*batch d d"]:
        """Linear weights of the posterior in the scale of the task: w_ij · scale_j / scale_i."""
        return weights * self.scale / self.scale[:, None]


def _order(what: str, have: tuple[str, ...], wanted: tuple[str, ...]) -> list[int]:
    if set(have) != set(wanted):
        other = sorted(set(have) ^ set(wanted))[0]
        raise DataError(
            f"Posterior and task do not have the same {what} ('{other}' is in only one of them); "
            "give the task whose data the posterior was fitted to."
        )
    return [have.index(name) for name in wanted]


def _reordered(parameter: Parameter, orders: dict[str, list[int]]) -> Parameter:
    values, dims = parameter
    for axis, name in enumerate(dims, start=values.ndim - len(dims)):
        if name in orders:
            values = np.take(values, orders[name], axis=axis)
    return Parameter(values, dims)
