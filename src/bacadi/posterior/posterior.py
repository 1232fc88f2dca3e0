"""`Posterior`: weighted draws of graph, intervention targets and parameters, with names. Every method returns one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

import bacadi
from bacadi.data.contrasts import contrasts, levels
from bacadi.data.labelled import Labelled
from bacadi.data.transforms import Transforms
from bacadi.errors import ConfigError, InferenceError
from bacadi.graph.dag import is_acyclic
from bacadi.posterior import store, summaries, tables
from bacadi.posterior import weights as rules
from bacadi.posterior.html import posterior_html
from bacadi.posterior.orientation import Draws, Orientation, distinct, what_orients

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bacadi.data.contexts import ContextData

Weighting = Callable[[np.ndarray], np.ndarray]
"""A rule of `bacadi.posterior.weights`: from unnormalised log posteriors to log weights that add to 1."""

# Names in `constant_data` of marginals that a method knows exactly, where its draws are only a sample.
EXACT_EDGES, EXACT_TARGETS = "exact_edge_probability", "exact_target_probability"

# Where the maps of columns are kept: their names in `attrs`, their knots in `constant_data`.
TRANSFORMS, KNOTS = "transforms", "transform_knots"

# The groups of named arrays, and the names in them that are fields of `Posterior`.
_FIELDS_IN = {"parameters": ("graph", "intervention_target"), "sample_stats": ("log_weight",), "constant_data": ()}
_UNCERTAIN = (0.1, 0.9)
_MAX_DESCRIBED, _MAX_NAMED = 12, 3
_LEAST_CONTEXT = 0.05


class Draw(NamedTuple):
    """One draw: `graph[i, j] = 1` for i -> j, `targets[k, i] = 1` if context k + 1 intervenes on i, parameters."""

    graph: Int8[np.ndarray, "d d"]
    targets: Int8[np.ndarray, "M d"]
    parameters: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """Draws (G, I, Theta)_l with weights w_l that add to 1 over all chains and draws.

    `graph[chain, draw, i, j] = 1` means i -> j; `intervention_target[chain, draw, k, i] = 1` means that context
    `contexts[k]` intervenes on variable i. A draw of log weight minus infinity is left out of every statement.
    `Posterior.from_draws` builds one from what a method computes; the constructor converts and validates, once.

    Attributes:
        parameters: arrays (chain, draw, ...) of the model; see `Labelled` for the names of axes.
        sample_stats: diagnostics, per draw (chain, draw, ...) or of the whole run. They are a function of data and
            seed: no wall-clock times, so that equal runs write equal arrays.
        constant_data: what was given (rows per context, scaling, known targets) or is known exactly.
        attrs: numbers, texts and JSON values about the run.
        observational: name of the observational context, if there is one.
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
        converted: dict[str, Any] = {"log_weight": np.asarray(self.log_weight, dtype=np.float64)}
        for name in ("graph", "intervention_target"):
            converted[name] = _binary(name, getattr(self, name))
        for name in ("variables", "contexts"):
            converted[name] = tuple(getattr(self, name))
        for group in _FIELDS_IN:
            entries = getattr(self, group).items()
            converted[group] = {name: Labelled(np.asarray(values), tuple(dims)) for name, (values, dims) in entries}
        for name, value in converted.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        for kind, names in (("variables", self.variables), ("contexts", self.contexts)):
            if len(set(names)) < len(names):
                raise ValueError(f"{kind} holds a name twice: {names}.")
        d, m, draws = self.n_variables, self.n_contexts, self.log_weight.shape
        if len(draws) != 2 or self.graph.shape != (*draws, d, d) or self.intervention_target.shape != (*draws, m, d):
            raise ValueError(
                f"graph {self.graph.shape}, intervention_target {self.intervention_target.shape} and log_weight "
                f"{draws} are not [chain, draw, {d}, {d}], [chain, draw, {m}, {d}] and [chain, draw]."
            )
        if not abs(rules.log_sum_exp(self.log_weight)) < 1e-6:
            raise ValueError("The weights do not add to 1; Posterior.from_draws normalises them.")
        for group in _FIELDS_IN:
            lengths = {"source": d, "target": d, "node": d, "context": m, "chain": draws[0], "draw": draws[1]}
            for name, entry in getattr(self, group).items():
                _check_entry(group, name, entry, lengths)

    @classmethod
    def from_draws(
        cls,
        data: "ContextData",
        graph: np.ndarray,
        intervention_target: np.ndarray,
        log_p: np.ndarray | None = None,
        weighting: Weighting | None = None,
        *,
        parameters: Mapping[str, Labelled] | None = None,
        sample_stats: Mapping[str, Labelled] | None = None,
        constant_data: Mapping[str, Labelled] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> "Posterior":
        """Build the posterior of what a method computed: cyclic draws get weight 0 and are counted.

        Names, rows per context and scaling come from `data`. Arrays without a chain axis are taken as one chain.

        Args:
            log_p: unnormalised log posterior of each draw; without it all draws have the same weight. It stays in
                `sample_stats["log_posterior"]`, so that the draws can be weighted anew.
            weighting: function of `bacadi.posterior.weights`, required with `log_p`. There is no default because the
                wrong one is not noticed: draws of a sampler (MCMC) occur as often as they are probable and need
                `weights.uniform`, since `weights.posterior` would count the posterior twice (a sample of p^2), while
                particles and bootstrap samples occur at another rate and need `weights.posterior` or `tempered`.

        >>> from bacadi.data.contexts import ContextData
        >>> data = ContextData(np.zeros((2, 2)), np.array([0, 1]), ("a", "b"), ("k",), "obs")
        >>> graph = np.array([[[0, 1], [0, 0]], [[0, 1], [1, 0]]])
        >>> posterior = Posterior.from_draws(data, graph, np.ones((2, 1, 2)))
        >>> posterior.weights.tolist(), posterior.n_cyclic
        ([[1.0, 0.0]], 1)
        """
        if log_p is not None and weighting is None:
            raise TypeError("log_p needs a weighting: weights.uniform for MCMC, weights.posterior for particles.")
        graph, targets = np.asarray(graph), np.asarray(intervention_target)
        log_p = np.zeros(graph.shape[:-2]) if log_p is None else np.asarray(log_p, dtype=np.float64)
        per_draw = [dict(group or {}) for group in (parameters, sample_stats)]
        if graph.ndim == 3:
            graph, targets, log_p = graph[None], targets[None], log_p[None]
            per_draw = [{name: _as_one_chain(entry) for name, entry in group.items()} for group in per_draw]
        acyclic = is_acyclic(graph)
        if not acyclic.any():
            raise InferenceError(
                f"None of the {acyclic.size} draws is an acyclic graph, so there is no posterior to report; "
                "use more steps, a larger slope of the acyclicity penalty (beta), or more particles."
            )
        log_weight = (weighting or rules.uniform)(np.where(acyclic, log_p, -np.inf))
        stats = {"log_posterior": Labelled(log_p), "acyclic": Labelled(acyclic)} | per_draw[1]
        # Rows per context, the observational one first, and the scaling: original = scaled * scale + shift.
        constants = {"n_rows": Labelled(data.counts, ("observational_and_context",))}
        constants |= {name: Labelled(getattr(data.scaling, name), ("node",)) for name in ("shift", "scale")}
        constants |= contrasts(data).labelled() | levels(data).labelled()
        about: dict[str, Any] = {"version": bacadi.__version__, "n_cyclic": int((~acyclic).sum())}
        if not data.transforms.is_identity:
            constants[KNOTS] = Labelled(data.transforms.stored_knots(), ("node", "value_and_score", "knot"))
            about[TRANSFORMS] = list(data.transforms.names)
            about["columns"] = data.transforms.words(data.variables)
        groups = per_draw[0], stats, constants | dict(constant_data or {})
        about |= attrs or {}
        return cls(graph, targets, log_weight, data.variables, data.contexts, *groups, about, data.observational)

    @property
    def n_chains(self) -> int:
        """The number of chains."""
        return self.log_weight.shape[0]

    @property
    def n_draws(self) -> int:
        """Draws of all chains together."""
        return self.log_weight.size

    @property
    def n_variables(self) -> int:
        """d, the number of variables."""
        return len(self.variables)

    @property
    def n_contexts(self) -> int:
        """M, the number of contexts beside the observational one."""
        return len(self.contexts)

    @cached_property
    def weights(self) -> Float[np.ndarray, "chain draw"]:
        """w_l, which add to 1 over all chains and draws."""
        return np.exp(self.log_weight)

    @cached_property
    def acyclic(self) -> Bool[np.ndarray, "chain draw"]:
        """Whether the graph of each draw has no directed cycle."""
        return is_acyclic(self.graph)

    @property
    def n_cyclic(self) -> int:
        """Draws whose graph has a directed cycle."""
        return int((~self.acyclic).sum())

    @property
    def effective_sample_size(self) -> float:
        """1 / sum_l w_l^2: the number of equally weighted draws that the draws are worth."""
        return rules.effective_sample_size(self.log_weight)

    def transforms(self) -> Transforms:
        """The maps from the values given to those that were fitted, before any scaling; `inverse` leads back.

        Weights and effects are in the unit of the transformed values.
        """
        if TRANSFORMS not in self.attrs:
            return Transforms.identity(self.n_variables)
        return Transforms.restored(tuple(self.attrs[TRANSFORMS]), self.constant_data[KNOTS].values)

    def edge_probabilities(self) -> Float[np.ndarray, "d d"]:
        """p(i -> j | D) = sum_l w_l G_l[i, j]."""
        return self._marginals(EXACT_EDGES, self.graph)

    def target_probabilities(self) -> Float[np.ndarray, "M d"]:
        """p(context k intervenes on i | D) = sum_l w_l I_l[k, i]."""
        return self._marginals(EXACT_TARGETS, self.intervention_target)

    def ancestor_probabilities(self) -> Float[np.ndarray, "d d"]:
        """p(i is an ancestor of j | D) = sum_l w_l [a directed path leads from i to j in G_l]."""
        kept = self.weights > 0
        return np.clip(summaries.ancestor_probabilities(self.graph[kept], self.weights[kept]).round(12), 0.0, 1.0)

    def _marginals(self, exact: str, indicator: Int8[np.ndarray, "chain draw a b"]) -> Float[np.ndarray, "a b"]:
        if exact in self.constant_data:
            return self.constant_data[exact].values
        # Rounded, so that what holds in every draw has probability 1 whatever the last bits of the weights add to.
        return np.clip(np.einsum("cd,cdij->ij", self.weights, indicator).round(12), 0.0, 1.0)

    def adjacent_probabilities(self) -> Float[np.ndarray, "d d"]:
        """p(i -> j or j -> i | D), symmetric."""
        p, odd = self.edge_probabilities(), ~self.acyclic & (self.weights > 0)
        both = np.einsum("l,lij,lji->ij", self.weights[odd], self.graph[odd], self.graph[odd])
        return np.clip((p + p.T - both).round(12), 0.0, 1.0)

    def _given_adjacent(self) -> Float[np.ndarray, "d d"]:
        """p(i -> j | i and j adjacent, D); NaN where they never are."""
        with np.errstate(invalid="ignore"):
            return np.clip((self.edge_probabilities() / self.adjacent_probabilities()).round(12), 0.0, 1.0)

    def orientation(self) -> Orientation:
        """What orients each edge i -> j, as arrays [i, j]; cyclic draws have no CPDAG and are left out.

        The class of a graph is that of its conditional independences, with contexts that change mechanisms in any way.
        """
        d = self.n_variables
        found = self._what_orients(np.argwhere(np.ones((d, d), dtype=bool)))
        return Orientation(*(array.reshape(*array.shape[:-1], d, d) for array in found))

    def _what_orients(self, pairs: Int[np.ndarray, "p 2"]) -> Orientation:
        every = (self.graph, self.intervention_target)
        graphs, targets = (array.reshape(self.n_draws, *array.shape[2:]) for array in every)
        return what_orients(Draws(graphs, targets, (self.weights * self.acyclic).ravel()), pairs)

    def draws(self) -> Iterator[tuple[float, Draw]]:
        """Yield weight and draw of all draws that have weight."""
        for at in map(tuple, np.argwhere(self.weights > 0).tolist()):
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
        return summaries.weighted_sum((weight, f(draw)) for weight, draw in self.draws())

    def distinct_graphs(self) -> summaries.DistinctGraphs:
        """The graphs that occur with their probabilities, the most probable first."""
        return summaries.distinct_graphs(self.graph.reshape(-1, *self.graph.shape[2:]), self.weights.ravel())

    def structures(self) -> Draws:
        """The pairs of graph and targets that occur, each once with the weight of all its draws, the heaviest first.

        >>> graph = np.array([[[[0, 1], [0, 0]], [[0, 0], [0, 0]], [[0, 1], [0, 0]]]], dtype=np.int8)
        >>> posterior = Posterior(graph, np.zeros((1, 3, 0, 2), np.int8), np.full((1, 3), -np.log(3)), ("a", "b"), ())
        >>> posterior.structures().weights.round(2).tolist()
        [0.67, 0.33]
        """
        every = (self.graph, self.intervention_target)
        graphs, targets = (array.reshape(self.n_draws, *array.shape[2:]) for array in every)
        merged = distinct(Draws(graphs, targets, self.weights.ravel()))
        order = np.argsort(-merged.weights, kind="stable")
        return Draws(*(array[order] for array in merged))

    def most_probable_graph(self) -> Int8[np.ndarray, "d d"]:
        """The graph of largest total weight; a tie goes to fewer edges, then to the first in reading order."""
        return self.distinct_graphs().graphs[0]

    def consensus_graph(self, threshold: float = 0.5) -> Int8[np.ndarray, "d d"]:
        """An acyclic graph of the edges with probability above the threshold: see `summaries.consensus`."""
        return summaries.consensus(self.edge_probabilities(), threshold, self.variables)

    def edges(self) -> "pd.DataFrame":
        """source, target, probability of every ordered pair; the most probable first, ties by log odds, then by name.

        `given_adjacent` is p(source -> target | source and target adjacent), NaN where they never are. `log_odds` is
        log p - log (1 - p) from conditional probabilities (`inference.conditionals`), which goes on where shares of
        draws end; `weight`, `weight_q05` and `weight_q95` are mean and 90 % interval of the weight given the edge.
        What the method or the mechanism does not have is NaN.
        """
        return tables.edges_table(self, self._given_adjacent())

    def directions(self, threshold: float = 0.5) -> "pd.DataFrame":
        """One row for each pair that is adjacent with at least the threshold's probability, the most probable first.

        source -> target is the likelier direction (a tie goes by name); `adjacent` is p(adjacent | D), `direction` is
        p(source -> target | adjacent, D). The other columns say what orients the edge, as probabilities given
        source -> target: `structure`, `contexts` as text (each context that tells the direction itself with at
        least 0.05, the most probable first), `propagated` and `undetermined`. See `Orientation`: structure and
        contexts may hold together, and where undetermined is 1 only the form of the model or the prior prefers a
        direction. Cyclic draws count for `adjacent` and `direction` only, if they have weight at all.

        >>> graph = np.array([[[[0, 1], [0, 0]]]], dtype=np.int8)
        >>> posterior = Posterior(graph, np.array([[[[0, 1]]]]), np.zeros((1, 1)), ("rain", "wet"), ("hose",))
        >>> posterior.directions().to_numpy().tolist()
        [['rain', 'wet', 1.0, 1.0, 0.0, 'hose (1.00)', 0.0, 0.0]]
        """
        pairs = self._adjacent_pairs(threshold)
        found, direction, adjacent = self._what_orients(pairs), self._given_adjacent(), self.adjacent_probabilities()
        rows: list[tuple[Any, ...]] = []
        for at, (i, j) in enumerate(pairs.tolist()):
            contexts = sorted(zip((-found.contexts[:, at]).tolist(), self.contexts, strict=True))
            text = ", ".join(f"{name} ({-p:.2f})" for p, name in contexts if -p >= _LEAST_CONTEXT)
            what = found.structure[at], text, found.propagated[at], found.undetermined[at]
            rows.append((self.variables[i], self.variables[j], adjacent[i, j], direction[i, j], *what))
        columns = ["source", "target", "adjacent", "direction", "structure", "contexts", "propagated", "undetermined"]
        types = {name: "str" if name in ("source", "target", "contexts") else "float64" for name in columns}
        return _pandas().DataFrame(rows, columns=columns).astype(types)

    def _adjacent_pairs(self, threshold: float) -> Int[np.ndarray, "p 2"]:
        """The pairs that reach the threshold in their likelier direction, the most probable first, ties by name."""
        summaries.check_threshold(threshold)
        p, adjacent, names = self.edge_probabilities().round(12), self.adjacent_probabilities(), self.variables
        pairs = []
        for i, j in np.argwhere(np.triu(adjacent >= threshold, k=1)).tolist():
            backwards = (-p[j, i], names[j]) < (-p[i, j], names[i])
            pairs.append((j, i) if backwards else (i, j))
        pairs.sort(key=lambda pair: (-adjacent[pair], names[pair[0]], names[pair[1]]))
        return np.array(pairs, dtype=np.int64).reshape(-1, 2)

    def targets(self) -> "pd.DataFrame":
        """context, variable, probability of every pair; the most probable first, ties by log odds, then by name.

        `log_odds` as in `edges`; `change`, `change_q05` and `change_q95` are the difference to the control with its
        90 % interval and `change_in_sd` the same in standard deviations (`data.contrasts`), target or not; `kind` is
        the likeliest kind of effect, had there been one.
        """
        return tables.targets_table(self)

    def graphs_table(self, top: int = 10) -> "pd.DataFrame":
        """probability, draws, n_edges and the edges as text of the `top` most probable graphs."""
        rows = [
            (float(p), int(n), int(graph.sum()), summaries.edge_text(graph, self.variables))
            for graph, p, n in zip(*(column[:top] for column in self.distinct_graphs()), strict=True)
        ]
        return _pandas().DataFrame(rows, columns=["probability", "draws", "n_edges", "edges"])

    def parameter_table(self, name: str) -> "pd.DataFrame":
        """One row per entry of a parameter: the names of its axes, then the columns of `parameter_summary`.

        The axis `node` becomes the column `variable`; pairs of a variable with itself are left out.
        """
        if name not in self.parameters:
            options = ", ".join(sorted(self.parameters)) or "none"
            raise ConfigError(f"The posterior has no parameter '{name}'; ask for one that it has: {options}.")
        values, dims = self.parameters[name]
        names = dict.fromkeys(("source", "target", "node"), self.variables) | {"context": self.contexts}
        labels = [names.get(dim, range(size)) for dim, size in zip(dims, values.shape[2:], strict=True)]
        columns = ["variable" if dim == "node" else dim for dim in dims]
        table = _pandas().DataFrame(list(product(*labels)), columns=columns)
        table = table.assign(**{column: array.ravel() for column, array in self.parameter_summary(name).items()})
        if {"source", "target"} <= set(dims):
            table = table[table["source"] != table["target"]].reset_index(drop=True)
        return table

    def parameter_summary(self, name: str) -> dict[str, Float[np.ndarray, "*dims"]]:
        """Probability, weighted mean, standard deviation, 5 % and 95 % quantile: `summaries.summarise` of a parameter.

        An entry of an edge is described given that the edge is there, an entry of an intervention given that the
        variable is a target: draw l has the weight w_l G_l[i, j] or w_l I_l[k, j] (or both) for that entry.
        `probability` is the sum of these weights, 1 if nothing is conditioned on; what no draw describes is NaN.
        """
        values, dims = self.parameters[name]
        axis = {dim: 2 + position for position, dim in enumerate(dims)}
        every = [0, 1, *axis.values()]
        factors: list[Any] = [np.ones(values.shape), every, self.weights, [0, 1]]
        if {"source", "target"} <= set(dims):
            factors += [self.graph, [0, 1, axis["source"], axis["target"]]]
        if "context" in dims and ("node" in dims or "target" in dims):
            factors += [self.intervention_target, [0, 1, axis["context"], axis["node" if "node" in dims else "target"]]]
        weight = np.einsum(*factors, every)
        return summaries.summarise(*(array.reshape(self.n_draws, *values.shape[2:]) for array in (values, weight)))

    def effects(self) -> "pd.DataFrame":
        """`parameter_table` of every parameter that has a context, one below the other."""
        names = [name for name, entry in self.parameters.items() if "context" in entry.dims]
        if not names:
            columns = ["parameter", "context", "variable", "probability", "mean", "sd", "q05", "q95"]
            return _pandas().DataFrame(columns=columns)
        table = _pandas().concat({name: self.parameter_table(name) for name in names}, names=["parameter", None])
        return table.reset_index(level="parameter").reset_index(drop=True)

    def reweighted(self, weighting: Weighting, log_p: np.ndarray | None = None) -> "Posterior":
        """The same draws under other weights; cyclic draws stay out.

        There is no default rule, as in `from_draws`: draws of MCMC need `weights.uniform`, particles and bootstrap
        samples `weights.posterior` or `tempered`. Without `log_p` the log posterior stored with the draws is taken.
        """
        if log_p is None and "log_posterior" not in self.sample_stats:
            raise ConfigError(
                "The posterior does not hold the log posterior of its draws, so they cannot be weighted anew; "
                "pass log_p."
            )
        log_p = self.sample_stats["log_posterior"].values if log_p is None else np.asarray(log_p)
        of_old = (EXACT_EDGES, EXACT_TARGETS, tables.EDGE_LOG_ODDS, tables.TARGET_LOG_ODDS, tables.EFFECT_KIND)
        kept = [
            {n: v for n, v in group.items() if n not in of_old} for group in (self.sample_stats, self.constant_data)
        ]
        log_weight = weighting(np.where(self.acyclic, log_p, -np.inf))
        return replace(self, log_weight=log_weight, sample_stats=kept[0], constant_data=kept[1])

    def tempered(self, temperature: float | None = None) -> "Posterior":
        """The same draws under `weights.tempered`; no temperature: at least half of the draws stay effective."""
        return self.reweighted(weighting=lambda log_p: rules.tempered(log_p, temperature))

    def verdict(self) -> str:
        """In one line whether the draws can be trusted as draws of the posterior; of the model it says nothing."""
        if EXACT_EDGES in self.constant_data:
            return f"exact: probabilities are sums over all graphs, beside them {self.n_draws} draws"
        made, planned = (self.attrs.get(name, 0) for name in ("n_sweeps", "n_sweeps_planned"))
        ended = f"; the time budget ended the run after {made} of {planned} sweeps" if made < planned else ""
        if "converged" not in self.attrs:
            cyclic = f", {self.n_cyclic} cyclic and left out" if self.n_cyclic else ""
            return (
                f"{self.n_draws} draws, effective sample size of their weights {self.effective_sample_size:.1f}{cyclic}"
            )
        chains = f"{self.n_draws} draws of {self.n_chains} replicas"
        if not self.attrs["converged"]:
            return f"NOT CONVERGED: {chains} disagree or are too few, see the warnings{ended}"
        ess = self.sample_stats["log_posterior_ess"].values
        return f"converged: {chains} agree, worth {float(ess):.0f} independent draws{ended}"

    def describe(self) -> str:
        """A few lines of text: the verdicts on draws and model, edges, directions, most probable targets."""
        p, (low, high) = self.edge_probabilities(), _UNCERTAIN
        lines = [
            self.verdict(),
            *self._describe_model(),
            f"{self.n_variables} variables: {(p > 0.5).sum()} edges with probability above 0.5, "
            f"{((p > low) & (p < high)).sum()} uncertain ({low} to {high})",
            *self._describe_directions(),
            "most probable targets:" if self.contexts else "no context beside the observational one",
        ]
        odds = self.sample_stats.get(tables.TARGET_LOG_ODDS)
        for k, row in enumerate(self.target_probabilities()[:_MAX_DESCRIBED]):
            order = np.lexsort((np.zeros(len(row)) if odds is None else -odds.values[k], -row))
            ranked = [(f"{self.variables[i]} ({row[i]:.2f})", row[i]) for i in order]
            likely = ", ".join(text for text, probability in ranked if probability > 0.5)
            lines.append(f"  {self.contexts[k]}: {likely or f'none above 0.5, the best is {ranked[0][0]}'}")
        if self.n_contexts > _MAX_DESCRIBED:
            lines.append(f"  and {self.n_contexts - _MAX_DESCRIBED} more contexts")
        return "\n".join(lines)

    def _describe_model(self) -> list[str]:
        """A line on whether the model fits, where that was looked at."""
        if "misfit" not in self.attrs:
            return []
        if self.attrs["misfit"]:
            return [
                "THE MODEL DOES NOT FIT: what it leaves unexplained is no independent Gaussian noise, see the warnings"
            ]
        return ["nothing that the model leaves unexplained speaks against it"]

    def _describe_directions(self) -> list[str]:
        """A line on the adjacent pairs whose direction is undetermined with at least 1/2, if there are any."""
        pairs = self._adjacent_pairs(0.5)
        undirected = pairs[self._what_orients(pairs).undetermined >= 0.5]
        open_pairs = [f"{self.variables[i]} - {self.variables[j]}" for i, j in undirected]
        if not open_pairs:
            return []
        named = ", ".join(open_pairs[:_MAX_NAMED]) + (", ..." if len(open_pairs) > _MAX_NAMED else "")
        count = f"{len(open_pairs)} of {len(pairs)} adjacent pairs"
        return [f"{count} have a direction that neither independences nor contexts tell ({named})"]

    def save(self, path: str | Path) -> None:
        """Write a netCDF file, whole or not at all: see `bacadi.posterior.store` for its layout."""
        store.write(path, self._content())

    def to_datatree(self) -> "xr.DataTree":
        """The groups posterior, sample_stats and constant_data as labelled arrays, which ArviZ reads; needs xarray."""
        return store.to_datatree(self._content())

    def _content(self) -> store.FileContent:
        graph = Labelled(self.graph, ("source", "target"))
        targets = Labelled(self.intervention_target, ("context", "node"))
        groups = {
            "posterior": {"graph": graph, "intervention_target": targets, **self.parameters},
            "sample_stats": {"log_weight": Labelled(self.log_weight), **self.sample_stats},
            "constant_data": self.constant_data,
        }
        return store.FileContent(self.variables, self.contexts, self.observational, groups, self.attrs)

    @classmethod
    def load(cls, path: str | Path) -> "Posterior":
        """Read a file that `save` wrote; `StoreError` says what is wrong with any other."""
        variables, contexts, observational, groups, attrs = store.read(path)
        parameters, sample_stats = groups["posterior"], groups["sample_stats"]
        graph, targets = (parameters.pop(name).values for name in ("graph", "intervention_target"))
        log_weight = sample_stats.pop("log_weight").values
        named = (parameters, sample_stats, groups["constant_data"])
        return cls(graph, targets, log_weight, variables, contexts, *named, attrs, observational)

    def __repr__(self) -> str:
        return f"Posterior({self.n_draws} draws, {self.n_variables} variables, {self.n_contexts} contexts)"

    def _repr_html_(self) -> str:
        return posterior_html(self)


def _binary(name: str, array: np.ndarray) -> Int8[np.ndarray, "..."]:
    """Convert to int8; ValueError if the array holds anything but zeros and ones."""
    array = np.asarray(array)
    if not ((array == 0) | (array == 1)).all():
        raise ValueError(f"{name} holds a value that is neither 0 nor 1.")
    return array.astype(np.int8, copy=False)


def _as_one_chain(entry: Labelled) -> Labelled:
    """Add the axis of chains to an array that has an axis of draws only."""
    values = np.asarray(entry.values)
    return Labelled(values[None], entry.dims) if values.ndim == len(entry.dims) + 1 else entry


def _check_entry(group: str, name: str, entry: Labelled, lengths: dict[str, int]) -> None:
    """Validate one named array; `lengths` collects the length of each axis, which all arrays of a group share."""
    values, dims = entry
    where = f"{group} '{name}'"
    repeated = len(set(dims)) < len(dims) or {"draw", "variable"} & set(dims)
    fits = entry.per_draw or (entry.constant and group != "parameters")
    for wrong, what in (
        (name in _FIELDS_IN[group], "the name is that of a field of its own"),
        (not name.isidentifier() or name in lengths, "the name must be an identifier that names no axis"),
        (repeated, f"the axes {dims} repeat a name or list the reserved 'draw' or 'variable' (use 'node')"),
        (values.dtype.kind not in "biuf", f"the type {values.dtype} is no number or truth value"),
        (not fits, f"an array of shape {values.shape} does not have the axes {dims}"),
        (entry.per_draw and group == "constant_data", f"a constant of shape {values.shape} has axes beside {dims}"),
    ):
        if wrong:
            raise ValueError(f"{where}: {what}.")
    for axis, length in zip(entry.full_dims, values.shape, strict=True):
        if lengths.setdefault(axis, length) != length:
            raise ValueError(f"{where}: the axis '{axis}' has {length} entries where {lengths[axis]} are expected.")


def _pandas() -> Any:
    """Import pandas when a table is asked for, so that importing this package stays fast."""
    import pandas

    return pandas
