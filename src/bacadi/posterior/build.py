"""What a method computed, made into the fields of a `Posterior`: one chain axis, weights, labels, constants."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool

import bacadi
from bacadi.errors import InferenceError
from bacadi.graph.acyclicity import is_acyclic
from bacadi.posterior.draws import Parameter, binary

if TYPE_CHECKING:
    from bacadi.data.context import ContextData
    from bacadi.posterior.posterior import Weighting

_Draws = tuple[np.ndarray, np.ndarray, np.ndarray | None]
_Entries = dict[str, Parameter]


def build(
    data: "ContextData",
    draws: _Draws,
    weighting: "Weighting",
    *,
    parameters: _Entries | None = None,
    sample_stats: _Entries | None = None,
    **rest: Any,
) -> dict[str, Any]:
    """The fields of `Posterior`; `rest` may hold `constant_data` and `attrs`."""
    parameters, sample_stats = _as_arrays(parameters), _as_arrays(sample_stats)
    graph, targets = binary("graph", draws[0]), binary("intervention_target", draws[1])
    log_p = np.zeros(graph.shape[:-2]) if draws[2] is None else np.asarray(draws[2], dtype=np.float64)
    if graph.ndim == 3:
        graph, targets, log_p = graph[None], targets[None], log_p[None]
        parameters = {name: Parameter(values[None], dims) for name, (values, dims) in parameters.items()}
        sample_stats = {name: _with_chain(stat) for name, stat in sample_stats.items()}
    acyclic = is_acyclic(graph)
    _refuse_if_none(acyclic)
    stats = {"log_posterior": Parameter(log_p), "acyclic": Parameter(acyclic)}
    attrs = {"version": bacadi.__version__, "n_cyclic": int((~acyclic).sum())}
    return {
        "graph": graph,
        "intervention_target": targets,
        "log_weight": weighting(np.where(acyclic, log_p, -np.inf)),
        "variables": data.variables,
        "contexts": data.contexts,
        "observational": data.observational,
        "parameters": parameters,
        "sample_stats": stats | sample_stats,
        "constant_data": constants(data) | _as_arrays(rest.pop("constant_data", None)),
        "attrs": attrs | rest.pop("attrs", {}),
        **rest,
    }


def constants(data: "ContextData") -> _Entries:
    """Rows of each context, the observational one first, and the scaling: original = scaled * scale + shift."""
    return {
        "n_rows": Parameter(data.counts, ("observational_and_context",)),
        "shift": Parameter(data.scaling.shift, ("variable",)),
        "scale": Parameter(data.scaling.scale, ("variable",)),
    }


def _as_arrays(entries: _Entries | None) -> _Entries:
    return {name: Parameter(np.asarray(values), tuple(dims)) for name, (values, dims) in (entries or {}).items()}


def _with_chain(stat: Parameter) -> Parameter:
    return Parameter(stat.values[None], stat.dims) if stat.values.ndim == len(stat.dims) + 1 else stat


def _refuse_if_none(acyclic: Bool[np.ndarray, "chain draw"]) -> None:
    if not acyclic.any():
        raise InferenceError(
            f"None of the {acyclic.size} draws is an acyclic graph, so there is no posterior to report; "
            "use more steps, a larger slope of the acyclicity penalty (beta), or more particles."
        )
