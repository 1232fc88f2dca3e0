"""Statements about graphs: the distinct ones among weighted draws, and an acyclic consensus of edge probabilities.

The posterior as pandas tables with the names of variables and contexts.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from bacadi.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

    from bacadi.posterior.posterior import Posterior


# Sums of the same weights in another order differ in the last bits; what agrees to this many digits is a tie.
_TIE_DIGITS = 12


class DistinctGraphs(NamedTuple):
    """Graphs that differ from each other, the most probable first."""

    graphs: Int8[np.ndarray, "n d d"]
    probability: Float[np.ndarray, " n"]
    draws: Int[np.ndarray, " n"]


def distinct_graphs(graphs: Int8[np.ndarray, "n d d"], weights: Float[np.ndarray, " n"]) -> DistinctGraphs:
    """The distinct graphs of positive weight with their total weight and number of draws.

    Ties are broken by the number of edges (fewer first), then by the adjacency matrix read row by row.
    """
    kept = weights > 0
    graphs, weights = graphs[kept], weights[kept]
    d = graphs.shape[-1]
    rows = graphs.reshape(len(graphs), d * d)
    packed, inverse, counts = np.unique(np.packbits(rows, axis=1), axis=0, return_inverse=True, return_counts=True)
    total = np.bincount(inverse.ravel(), weights=weights, minlength=len(packed))
    unpacked = np.unpackbits(packed, axis=1, count=d * d).astype(np.int8).reshape(-1, d, d)
    # np.unique sorts by the bytes, so the position is the third key.
    order = np.lexsort((np.arange(len(packed)), unpacked.sum(axis=(1, 2)), -total.round(_TIE_DIGITS)))
    return DistinctGraphs(unpacked[order], total[order], counts[order])


def consensus(
    probability: Float[np.ndarray, "d d"], threshold: float = 0.5, names: tuple[str, ...] | None = None
) -> Int8[np.ndarray, "d d"]:
    """A directed acyclic graph with a large sum of (p_ij - threshold) over its edges.

    Greedy: go through the edges with p_ij > threshold from the most probable to the least (ties by name) and keep
    an edge unless it closes a directed cycle with those kept before.

    What holds: the graph is acyclic; each edge has p_ij > threshold; every edge left out although p_ij > threshold
    closes a cycle of edges at least as probable as itself. If {p_ij > threshold} is acyclic the result is that graph
    and the sum is the largest possible. It always is for threshold >= 1 - 1/d when p comes from acyclic draws (a
    cycle of L edges has at most L - 1 of them in any draw). Otherwise the sum need not be the largest: that problem
    (maximum acyclic subgraph) is NP-hard.

    >>> consensus(np.array([[0, 0.9, 0], [0, 0, 0.8], [0.7, 0, 0]])).tolist()
    [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    """
    check_threshold(threshold)
    d = len(probability)
    label = names if names is not None else tuple(range(d))
    candidates = [(i, j) for i, j in np.argwhere(probability > threshold).tolist() if i != j]
    candidates.sort(key=lambda edge: (-round(float(probability[edge]), _TIE_DIGITS), label[edge[0]], label[edge[1]]))
    graph = np.zeros((d, d), dtype=np.int8)
    reaches = np.eye(d, dtype=bool)
    for i, j in candidates:
        if not reaches[j, i]:
            graph[i, j] = 1
            reaches |= np.outer(reaches[:, i], reaches[j])
    return graph


def check_threshold(threshold: float) -> None:
    """Refuse a threshold that is no probability."""
    if not 0 <= threshold <= 1:
        raise ConfigError(f"The threshold is {threshold}, but edges are compared by probability; give 0 to 1.")


_QUANTILES = {"q05": 0.05, "q95": 0.95}
_SUMMARY = ["probability", "mean", "sd", *_QUANTILES]


def edge_table(posterior: "Posterior") -> "pd.DataFrame":
    """source, target, probability of every ordered pair; the most probable first, ties by name."""
    names = posterior.variables
    probability = posterior.edge_probabilities()
    rows = [(s, t, probability[i, j]) for i, s in enumerate(names) for j, t in enumerate(names) if i != j]
    return _ranked(rows, ["source", "target", "probability"])


def target_table(posterior: "Posterior") -> "pd.DataFrame":
    """context, variable, probability of every pair; the most probable first, ties by name."""
    probability = posterior.target_probabilities()
    rows = [
        (context, variable, probability[k, i])
        for k, context in enumerate(posterior.contexts)
        for i, variable in enumerate(posterior.variables)
    ]
    return _ranked(rows, ["context", "variable", "probability"])


def graph_table(posterior: "Posterior", top: int) -> "pd.DataFrame":
    """probability, draws, n_edges and the edges as text of the `top` most probable graphs."""
    import pandas as pd

    found = posterior.distinct_graphs()
    rows = [
        (float(p), int(n), int(graph.sum()), edge_text(graph, posterior.variables))
        for graph, p, n in zip(found.graphs[:top], found.probability[:top], found.draws[:top], strict=True)
    ]
    return pd.DataFrame(rows, columns=["probability", "draws", "n_edges", "edges"])


def edge_text(graph: np.ndarray, names: tuple[str, ...]) -> str:
    """The edges of one graph in words.

    >>> edge_text(np.array([[0, 1], [0, 0]]), ("rain", "wet"))
    'rain -> wet'
    """
    return ", ".join(f"{names[i]} -> {names[j]}" for i, j in np.argwhere(graph))


def parameter_table(posterior: "Posterior", name: str) -> "pd.DataFrame":
    """Weighted mean, standard deviation and 5 % and 95 % quantiles of every entry of a parameter.

    An entry of an edge is described given that the edge is there, an entry of an intervention given that the
    variable is a target; `probability` is the weight of the draws it is described by (1 if nothing is conditioned
    on), and entries that no draw describes are not a number.
    """
    import pandas as pd

    if name not in posterior.parameters:
        known = ", ".join(sorted(posterior.parameters)) or "none"
        raise ConfigError(f"The posterior has no parameter '{name}'; ask for one that it has: {known}.")
    dims = posterior.parameters[name].dims
    summary = summarise(posterior, name)
    labels = [_axis_labels(posterior, dim, size) for dim, size in zip(dims, summary["mean"].shape, strict=True)]
    index = pd.MultiIndex.from_product(labels, names=dims) if dims else pd.RangeIndex(1)
    table = pd.DataFrame({column: np.atleast_1d(values).ravel() for column, values in summary.items()}, index=index)
    table = table.reset_index(drop=not dims)
    if {"source", "target"} <= set(dims):
        table = table[table["source"] != table["target"]].reset_index(drop=True)
    return table


def effect_table(posterior: "Posterior") -> "pd.DataFrame":
    """`parameter_table` of every parameter that has a context, one below the other."""
    import pandas as pd

    tables = [
        parameter_table(posterior, name).assign(parameter=name)
        for name, parameter in posterior.parameters.items()
        if "context" in parameter.dims
    ]
    if not tables:
        return pd.DataFrame(columns=["parameter", "context", "variable", *_SUMMARY])
    table = pd.concat(tables, ignore_index=True)
    return table[["parameter", *(column for column in table.columns if column != "parameter")]]


def summarise(posterior: "Posterior", name: str) -> dict[str, np.ndarray]:
    """The columns of `parameter_table` as arrays of the shape of the parameter."""
    values, dims = posterior.parameters[name]
    draws = posterior.n_draws
    flat = values.reshape(draws, *values.shape[2:]).astype(np.float64)
    used = np.broadcast_to(_condition(posterior, dims), flat.shape)
    weight = used * posterior.weights.reshape(draws, *[1] * len(dims))
    used = weight > 0
    flat = np.where(used, flat, 0.0)
    probability = np.clip(weight.sum(axis=0), 0.0, 1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        weight = weight / weight.sum(axis=0)
    mean = (weight * flat).sum(axis=0)
    sd = np.sqrt((weight * (flat - mean) ** 2).sum(axis=0))
    return {"probability": probability, "mean": mean, "sd": sd, **_quantiles(flat, weight, used)}


def _quantiles(
    values: Float[np.ndarray, "n *dims"], weight: Float[np.ndarray, "n *dims"], used: Bool[np.ndarray, "n *dims"]
) -> dict[str, Float[np.ndarray, "*dims"]]:
    """The smallest value at which the weight of the values up to it reaches the level."""
    order = np.argsort(np.where(used, values, np.inf), axis=0, kind="stable")
    values = np.take_along_axis(values, order, axis=0)
    reached = np.cumsum(np.take_along_axis(weight, order, axis=0), axis=0)
    none = ~used.any(axis=0)
    columns = {}
    for name, level in _QUANTILES.items():
        # A hair below the level, so that rounding of the running sum does not skip a value that reaches it.
        at = np.argmax(reached >= level - 1e-12, axis=0)
        columns[name] = np.where(none, np.nan, np.take_along_axis(values, at[None], axis=0)[0])
    return columns


def _condition(posterior: "Posterior", dims: tuple[str, ...]) -> Bool[np.ndarray, "n *ones"]:
    """For every draw, which entries of an array with axes `dims` mean something; broadcasts against the array."""
    condition = np.ones((posterior.n_draws, *[1] * len(dims)), dtype=bool)
    if {"source", "target"} <= set(dims):
        condition = condition & _aligned(posterior.graph, ("source", "target"), dims)
    if "context" in dims and ("node" in dims or "target" in dims):
        node = "node" if "node" in dims else "target"
        condition = condition & _aligned(posterior.intervention_target, ("context", node), dims)
    return condition


def _aligned(array: np.ndarray, own: tuple[str, str], dims: tuple[str, ...]) -> np.ndarray:
    """[chain, draw, *own] as a boolean [draws, *dims] with length 1 along the axes that are not its own."""
    flat = array.reshape(array.shape[0] * array.shape[1], *array.shape[2:]).astype(bool)
    if dims.index(own[0]) > dims.index(own[1]):
        flat = flat.swapaxes(1, 2)
    missing = tuple(1 + axis for axis, name in enumerate(dims) if name not in own)
    return np.expand_dims(flat, missing)


def _axis_labels(posterior: "Posterior", dim: str, size: int) -> list[str] | range:
    if dim in ("source", "target", "node"):
        return list(posterior.variables)
    return list(posterior.contexts) if dim == "context" else range(size)


def _ranked(rows: list[tuple[str, str, float]], columns: list[str]) -> "pd.DataFrame":
    import pandas as pd

    rows = sorted(rows, key=lambda row: (-row[2], row[0], row[1]))
    table = pd.DataFrame(rows, columns=columns)
    return table.astype({columns[0]: "str", columns[1]: "str", "probability": "float64"})
