"""Arrays with named axes, one draw of the posterior, and expectations of functions of a draw.

A posterior in a few lines of plain text.

What a method computed, made into the fields of a `Posterior`: one chain axis, weights, labels, constants.

`Posterior`: weighted draws of graph, intervention targets and parameters, with names. Every method returns one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int8

import bacadi
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError, InferenceError
from bacadi.graph.dag import is_acyclic
from bacadi.posterior import summaries
from bacadi.posterior import weights as rules

if TYPE_CHECKING:
    import pandas as pd

    from bacadi.data.contexts import ContextData


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


def check_parameters(group: str, entries: Mapping[str, Labelled], sizes: Mapping[str, int]) -> None:
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
        full = Labelled(values, dims).full_dims
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


_UNCERTAIN = (0.1, 0.9)
_LISTED = 12


def describe(posterior: "Posterior") -> str:
    """Draws, effective sample size, cyclic draws, edges above 1/2, uncertain edges, most probable targets."""
    p = posterior.edge_probabilities()
    likely = int((p > 0.5).sum())
    uncertain = int(((p > _UNCERTAIN[0]) & (p < _UNCERTAIN[1])).sum())
    chains = f" in {posterior.n_chains} chains" if posterior.n_chains > 1 else ""
    lines = [
        f"{posterior.n_draws} draws{chains}, effective sample size {posterior.effective_sample_size:.1f}, "
        f"{posterior.n_cyclic} cyclic and left out",
        f"{posterior.n_variables} variables: {likely} edges with probability above 0.5, "
        f"{uncertain} uncertain ({_UNCERTAIN[0]} to {_UNCERTAIN[1]})",
    ]
    return "\n".join(lines + _target_lines(posterior))


def _target_lines(posterior: "Posterior") -> list[str]:
    if not posterior.contexts:
        return ["no context beside the observational one"]
    lines = ["most probable targets:"]
    probability = posterior.target_probabilities()
    for context, row in list(zip(posterior.contexts, probability, strict=True))[:_LISTED]:
        likely = [i for i in np.argsort(-row, kind="stable") if row[i] > 0.5]
        named = ", ".join(f"{posterior.variables[i]} ({row[i]:.2f})" for i in likely)
        best = int(np.argmax(row))
        none = f"none above 0.5, the best is {posterior.variables[best]} ({row[best]:.2f})"
        lines.append(f"  {context}: {named or none}")
    if len(posterior.contexts) > _LISTED:
        lines.append(f"  and {len(posterior.contexts) - _LISTED} more contexts")
    return lines


_Draws = tuple[np.ndarray, np.ndarray, np.ndarray | None]
_Entries = dict[str, Labelled]


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
        parameters = {name: Labelled(values[None], dims) for name, (values, dims) in parameters.items()}
        sample_stats = {name: _with_chain(stat) for name, stat in sample_stats.items()}
    acyclic = is_acyclic(graph)
    _refuse_if_none(acyclic)
    stats = {"log_posterior": Labelled(log_p), "acyclic": Labelled(acyclic)}
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
        "n_rows": Labelled(data.counts, ("observational_and_context",)),
        "shift": Labelled(data.scaling.shift, ("node",)),
        "scale": Labelled(data.scaling.scale, ("node",)),
    }


def _as_arrays(entries: _Entries | None) -> _Entries:
    return {name: Labelled(np.asarray(values), tuple(dims)) for name, (values, dims) in (entries or {}).items()}


def _with_chain(stat: Labelled) -> Labelled:
    return Labelled(stat.values[None], stat.dims) if stat.values.ndim == len(stat.dims) + 1 else stat


def _refuse_if_none(acyclic: Bool[np.ndarray, "chain draw"]) -> None:
    if not acyclic.any():
        raise InferenceError(
            f"None of the {acyclic.size} draws is an acyclic graph, so there is no posterior to report; "
            "use more steps, a larger slope of the acyclicity penalty (beta), or more particles."
        )


Weighting = Callable[[np.ndarray], np.ndarray]

# Names in `constant_data` of marginals that a method knows exactly, where its draws are only a sample.
EXACT_EDGES, EXACT_TARGETS = "exact_edge_probability", "exact_target_probability"


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Draws (G, I, Theta)_l with weights w_l that add to 1 over all chains and draws.

    `graph[chain, draw, i, j] = 1` means i -> j; `intervention_target[chain, draw, k, i] = 1` means that context
    `contexts[k]` intervenes on variable i. A draw of log weight minus infinity is left out of every statement.
    `Posterior.from_draws` builds one from what a method computes; the constructor only checks.
    """

    graph: Int8[np.ndarray, "chain draw d d"]
    intervention_target: Int8[np.ndarray, "chain draw M d"]
    log_weight: Float[np.ndarray, "chain draw"]
    variables: tuple[str, ...]
    contexts: tuple[str, ...]
    parameters: dict[str, Labelled] = field(default_factory=dict)
    sample_stats: dict[str, Labelled] = field(default_factory=dict)
    constant_data: dict[str, Labelled] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    observational: str | None = None

    def __post_init__(self) -> None:
        for name in ("variables", "contexts"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name} holds a name twice: {getattr(self, name)}.")
        for name in ("graph", "intervention_target"):
            object.__setattr__(self, name, binary(name, getattr(self, name)))
        object.__setattr__(self, "log_weight", np.asarray(self.log_weight, dtype=np.float64))
        for group in ("parameters", "sample_stats", "constant_data"):
            arrays = {name: Labelled(np.asarray(v), tuple(dims)) for name, (v, dims) in getattr(self, group).items()}
            object.__setattr__(self, group, arrays)
        self._check()

    def _check(self) -> None:
        d, m = len(self.variables), len(self.contexts)
        draws = self.log_weight.shape
        if len(draws) != 2 or self.graph.shape != (*draws, d, d) or self.intervention_target.shape != (*draws, m, d):
            raise ValueError(
                f"graph {self.graph.shape}, intervention_target {self.intervention_target.shape} and log_weight "
                f"{draws} are not [chain, draw, {d}, {d}], [chain, draw, {m}, {d}] and [chain, draw]."
            )
        if not abs(rules.log_sum_exp(self.log_weight)) < 1e-6:
            raise ValueError("The weights do not add to 1; Posterior.from_draws normalises them.")
        sizes = {"source": d, "target": d, "node": d, "context": m, "chain": draws[0], "draw": draws[1]}
        for group in ("parameters", "sample_stats", "constant_data"):
            check_parameters(group, getattr(self, group), sizes)
        if "log_weight" in self.sample_stats:
            raise ValueError("log_weight is a field of its own and no sample_stats entry.")
        if taken := {"graph", "intervention_target"} & set(self.parameters):
            raise ValueError(f"{sorted(taken)[0]} is a field of its own and no parameter.")

    @classmethod
    def from_draws(
        cls,
        data: "ContextData",
        graph: np.ndarray,
        intervention_target: np.ndarray,
        log_p: np.ndarray | None = None,
        weighting: Weighting = rules.posterior,
        **fields: Any,
    ) -> "Posterior":
        """The posterior of what a method computed: cyclic draws get weight 0 and are counted, weights add to 1.

        `log_p` is the unnormalised log posterior of every draw (none: all the same) and stays in
        `sample_stats["log_posterior"]`, so that other weights can be taken later; `weighting` is a function of
        `bacadi.posterior.weights`. Arrays without a chain axis are taken as one chain. `fields` are `parameters`,
        `sample_stats`, `constant_data` and `attrs` of the class; names, context sizes and scaling come from `data`.

        >>> from bacadi.data.contexts import ContextData
        >>> data = ContextData(np.zeros((2, 2)), np.array([0, 1]), ("a", "b"), ("k",), "obs")
        >>> graph = np.array([[[0, 1], [0, 0]], [[0, 1], [1, 0]]])
        >>> posterior = Posterior.from_draws(data, graph, np.ones((2, 1, 2)))
        >>> posterior.weights.tolist(), posterior.n_cyclic
        ([[1.0, 0.0]], 1)
        """

        return cls(**build(data, (graph, intervention_target, log_p), weighting, **fields))

    @property
    def n_chains(self) -> int:
        return self.log_weight.shape[0]

    @property
    def n_draws(self) -> int:
        """Draws of all chains together."""
        return self.log_weight.size

    @property
    def n_variables(self) -> int:
        return len(self.variables)

    @property
    def n_contexts(self) -> int:
        """M, the number of contexts beside the observational one."""
        return len(self.contexts)

    @cached_property
    def weights(self) -> Float[np.ndarray, "chain draw"]:
        return np.exp(self.log_weight)

    @cached_property
    def n_cyclic(self) -> int:
        """Draws whose graph has a directed cycle."""
        return int((~is_acyclic(self.graph)).sum())

    @property
    def effective_sample_size(self) -> float:
        """1 / sum_l w_l^2: the number of equally weighted draws that the draws are worth."""
        return rules.effective_sample_size(self.log_weight)

    def edge_probabilities(self) -> Float[np.ndarray, "d d"]:
        """p(i -> j | D) = sum_l w_l G_l[i, j]."""
        return self._share(EXACT_EDGES, self.graph)

    def target_probabilities(self) -> Float[np.ndarray, "M d"]:
        """p(context k intervenes on i | D) = sum_l w_l I_l[k, i]."""
        return self._share(EXACT_TARGETS, self.intervention_target)

    def _share(self, exact: str, indicator: Int8[np.ndarray, "chain draw a b"]) -> Float[np.ndarray, "a b"]:
        if exact in self.constant_data:
            return self.constant_data[exact].values
        # Rounded, so that what holds in every draw has probability 1 whatever the last bits of the weights add to.
        return np.clip(np.einsum("cd,cdij->ij", self.weights, indicator).round(12), 0.0, 1.0)

    def draws(self) -> Iterator[tuple[float, Draw]]:
        """Weight and draw, one after the other, of all draws that have weight."""
        for chain, draw in np.argwhere(self.weights > 0).tolist():
            at = (chain, draw)
            parameters = {name: parameter.values[at] for name, parameter in self.parameters.items()}
            yield float(self.weights[at]), Draw(self.graph[at], self.intervention_target[at], parameters)

    def expect(self, f: Callable[[Draw], Any]) -> Any:
        """E[f(G, I, Theta) | D] = sum_l w_l f(G_l, I_l, Theta_l), the limit expression of Proposition 2.

        `f` may return a number, an array, or a dict, list or tuple of these. A finite-alpha expectation
        (Proposition 1) is this sum over draws of (G, I) weighted by Psi.

        >>> graph = np.array([[[[0, 1], [0, 0]], [[0, 0], [0, 0]]]], dtype=np.int8)
        >>> posterior = Posterior(graph, np.zeros((1, 2, 0, 2), np.int8), np.log([[0.75, 0.25]]), ("a", "b"), ())
        >>> posterior.expect(lambda draw: {"edges": draw.graph.sum()})
        {'edges': 0.75}
        """
        return weighted_sum((weight, f(draw)) for weight, draw in self.draws())

    def distinct_graphs(self) -> summaries.DistinctGraphs:
        """The graphs that occur with their probabilities, the most probable first."""
        d = self.n_variables
        return summaries.distinct_graphs(self.graph.reshape(-1, d, d), self.weights.ravel())

    def most_probable_graph(self) -> Int8[np.ndarray, "d d"]:
        """The graph of largest total weight; a tie goes to fewer edges, then to the first in reading order."""
        return self.distinct_graphs().graphs[0]

    def consensus_graph(self, threshold: float = 0.5) -> Int8[np.ndarray, "d d"]:
        """An acyclic graph of the edges with probability above the threshold: see `summaries.consensus`."""
        return summaries.consensus(self.edge_probabilities(), threshold, self.variables)

    def edges(self) -> "pd.DataFrame":
        """source, target, probability of every ordered pair, the most probable first."""
        return summaries.edge_table(self)

    def targets(self) -> "pd.DataFrame":
        """context, variable, probability of every pair, the most probable first."""
        return summaries.target_table(self)

    def graphs_table(self, top: int = 10) -> "pd.DataFrame":
        """The `top` most probable graphs: probability, draws, n_edges, edges as text."""
        return summaries.graph_table(self, top)

    def parameter_table(self, name: str) -> "pd.DataFrame":
        """Mean, sd, 5 % and 95 % quantile of each entry, given the edge or the target: see `tables`."""
        return summaries.parameter_table(self, name)

    def effects(self) -> "pd.DataFrame":
        """`parameter_table` of all parameters of interventions together."""
        return summaries.effect_table(self)

    def reweighted(self, log_p: np.ndarray | None = None, weighting: Weighting = rules.posterior) -> "Posterior":
        """The same draws under other weights; cyclic draws stay out.

        Without `log_p` the log posterior stored with the draws is taken, for example to compare
        `posterior.reweighted(weighting=weights.uniform)` with `weights.posterior`.
        """
        if log_p is None and "log_posterior" not in self.sample_stats:
            raise ConfigError(
                "The posterior does not hold the log posterior of its draws, so they cannot be weighted anew; "
                "pass log_p."
            )
        log_p = self.sample_stats["log_posterior"].values if log_p is None else np.asarray(log_p)
        log_p = np.where(is_acyclic(self.graph), log_p, -np.inf)
        sampled = {name: v for name, v in self.constant_data.items() if name not in (EXACT_EDGES, EXACT_TARGETS)}
        return replace(self, log_weight=weighting(log_p), constant_data=sampled)

    def tempered(self, temperature: float | None = None) -> "Posterior":
        """The same draws under `weights.tempered`; no temperature: at least half of the draws stay effective."""
        return self.reweighted(weighting=lambda log_p: rules.tempered(log_p, temperature))

    def describe(self) -> str:
        """A few lines of text: draws, effective sample size, edges, uncertain edges, most probable targets."""
        return describe(self)

    def save(self, path: str | Path) -> None:
        """Write a netCDF file: see `bacadi.posterior.store`."""
        from bacadi.posterior.store import save

        save(self, path)

    @staticmethod
    def load(path: str | Path) -> "Posterior":
        """Read a file that `save` wrote."""
        from bacadi.posterior.store import load

        return load(path)

    def __repr__(self) -> str:
        return (
            f"Posterior({self.n_chains} chain(s), {self.n_draws} draws, {self.n_variables} variables, "
            f"{self.n_contexts} contexts, parameters: {', '.join(self.parameters) or 'none'})"
        )
