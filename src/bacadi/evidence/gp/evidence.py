"""Gaussian-process evidence: nonlinear mechanisms with their functions integrated out.

Node j with parents P: x_:j = f(x_P) + noise, f ~ GP(0, s² k), noise N(0, s² ρ), over the rows its mechanism explains.
Where the noise is known s = 1 and ρ is its variance; else s² is integrated out (a multivariate t) under a prior of the
noise s²ρ, and ρ, with the kernel where several are offered, is a hyper-parameter fitted before sampling. Hard effects
take rows away; soft ones give them a function of their own; a shift adds value² s² ρ 11' to their covariance; a scale
effect multiplies ρ by its value.

`DenseEvidence` factorises the covariance of the rows: exact, the reference, and quickest for few rows. `features` has
the same evidence by sums of products of features, for all else. `AdditiveEvidence` is for functions that are sums over
single parents, whose features are the same in every parent set, so that one table serves them all.
"""

import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError, NoClosedForm
from bacadi.evidence.collapsed import (
    AbstractEvidence,
    Columns,
    EffectKind,
    EffectStates,
    Graphs,
    ParentSets,
    States,
    never,
)
from bacadi.evidence.compiled import ONE_THREAD
from bacadi.evidence.gp.draw import draw_functions
from bacadi.evidence.gp.factor import DenseFactor, Group, NoisePrior, RowNoise, SortedRows, Terms, split
from bacadi.evidence.gp.linalg import BLOCK
from bacadi.evidence.gp.nystrom import additive_evidence
from bacadi.evidence.gram import GramEvidence, reach
from bacadi.model.kernels import AbstractKernel, Sum
from bacadi.model.noise import log_mean_exp

TABLE_BYTES, FACTOR_BYTES, VALUE_BYTES = 2**29, 2**29, 2**28


Table = tuple[Float[np.ndarray, "K d"], Float[np.ndarray, "..."]]
"""Evidence of all columns given one parent set: of all rows and with context k left out, and of context k alone ([K, d]
where there is a soft state)."""
Request = tuple[int, Bool[np.ndarray, " d"], Int8[np.ndarray, " M"]]


class KernelEvidence(AbstractEvidence):
    """Evidence of Gaussian-process mechanisms: what its two ways, dense and by features, have in common.

    A value depends on its request alone, never on what was asked before or together with it. Of several kernels and
    ratios a middle pair is used until `fit_hyperparameters` finds the likeliest.

    Args:
        kernels: those to choose from, which differ in numbers alone.
        per_node: every node may have its own kernel and ratio.
        groups: the hyper-parameters of every node, where they have been fitted.
    """

    def __init__(
        self,
        data: ContextData,
        states: EffectStates,
        kernels: Sequence[AbstractKernel],
        noise: NoisePrior,
        per_node: bool = False,
        groups: tuple[Group, ...] | None = None,
    ) -> None:
        if len({tuple(map(type, k.parts)) if isinstance(k, Sum) else type(k) for k in kernels}) != 1:
            raise ConfigError("Nodes choose among kernels of one kind; give kernels that differ in numbers alone.")
        self.n_contexts, self.n_variables, self.states = data.n_contexts, data.n_variables, states
        self.rows, self.noise, self._per_node = SortedRows.of(data), noise, per_node
        self.options = tuple(Group(kernel, ratio) for kernel in kernels for ratio in noise.choices)
        self.groups = groups or (self.options[len(self.options) // 2],) * self.n_variables
        self.n_options = len(self.options)
        self.is_fitted = groups is not None or self.n_options == 1
        self._data, self._kernels = data, kernels
        self._kinds: list[int] = states.kind.tolist()
        order = np.argsort(data.context, kind="stable")
        power = np.ones(data.n_contexts + 1) if states.power is None else states.power
        weights = np.ones((1, data.n_rows)) if data.weight is None else data.weight[order].T
        self.weights = weights * np.repeat(power, self.rows.counts)
        counted = self.weights.mean(axis=0)
        self.reach = reach(data, np.array([counted[a:b].sum() for a, b in pairwise(self.rows.start)]))
        block = np.zeros(0) if data.block is None else np.arange(data.block.max() + 1)
        self.blocks = np.empty((data.n_rows, 0)) if data.block is None else (data.block[order, None] == block) * 1.0
        self._values, self._capacity = dict[bytes, float](), VALUE_BYTES // (self.n_variables + self.n_contexts + 200)
        self._prepare(data)

    @abstractmethod
    def _prepare(self, data: ContextData) -> None:
        """Compute what all requests have in common."""

    @abstractmethod
    def evaluate(self, requests: Iterable[Request]) -> list[float]:
        """Values of requests that share parents and group."""

    def noise_of(self, parents: Bool[np.ndarray, " d"], state: Int8[np.ndarray, " M"], drift: int) -> RowNoise:
        """Noise of the rows that the mechanism explains, under one of the drifts."""
        states, every = self.states, np.concatenate([[0], state])  # rows of context 0 are always untouched
        kind, value = states.kind[every], states.value[every]
        scale = np.where(kind == EffectKind.SCALE, value, 1.0)
        scale[(kind == EffectKind.HARD) | (kind == EffectKind.SOFT)] = np.inf
        shift = np.where(kind == EffectKind.SHIFT, value**2, 0.0) + states.drift.stds[drift] ** 2
        scale[1:] *= states.drift.noise_ratios[drift]
        shift[1:] += states.drift.context_moves[drift] ** 2 * (self.reach @ parents)
        shift[0] = 0.0
        return RowNoise(scale, shift)

    def group_of(self, node: int) -> int:
        """The row of `weights` that is the node's."""
        return node % len(self.weights)

    def row_weights(self, node: int) -> Float[np.ndarray, " n"]:
        """As how many each row counts for a node."""
        return self.weights[self.group_of(node)]

    def block_std(self, node: int) -> float:
        """The prior standard deviation of the offset of a block, in units of s."""
        return (split(self.groups[node].kernel)[0] or 1.0) ** 0.5

    @cached_property
    def approximation(self) -> GramEvidence | None:
        # With one width: each more takes as long again, and it is told what it lacks.
        return additive_evidence(self._data, self.states, self.groups, self.noise.middle)

    def target_share(self, node: int, parents: ParentSets) -> Float[np.ndarray, "B M"]:
        return (
            super().target_share(node, parents)
            if self.approximation is None
            else self.approximation.target_share(node, parents)
        )

    @property
    def hyperparameters(self) -> Int[np.ndarray, " d"]:
        return np.array([self.options.index(group) for group in self.groups], np.int64)

    def with_hyperparameters(self, chosen: Int[np.ndarray, " d"]) -> "KernelEvidence":
        return self._with_groups(tuple(self.options[i] for i in chosen), self.states)

    def _with_groups(self, groups: tuple[Group, ...], states: EffectStates) -> "KernelEvidence":
        return type(self)(self._data, states, self._kernels, self.noise, self._per_node, groups)

    def fit_hyperparameters(
        self, graph: Int8[np.ndarray, "d d"], states: Int8[np.ndarray, "M d"], over: Callable[[], bool] = never
    ) -> "KernelEvidence":
        """The likeliest options given the structure: nodes without parents, which say nothing of functions, follow.

        The scale s² of a node is integrated out, so that nodes may well share the rest. What happens where parents have
        moved counts in full: a kernel that is wrong there must not be chosen because the model allows for it.
        """
        plain = replace(self.states, drift=self.states.drift.replace(moves=None))
        options, d, explained = self.options, self.n_variables, graph.any(axis=0)
        requests = np.arange(d), graph.T.astype(bool), np.ascontiguousarray(states.T, np.int8)
        scores = np.full((len(options), d), -np.inf)
        middle = len(options) // 2
        for i in sorted(range(len(options)), key=lambda i: abs(i - middle)):
            if over():
                break
            scores[i] = self._with_groups((options[i],) * d, plain).log_evidences(*requests)
        looked = explained.any() and np.isfinite(scores).any()
        best = int(scores[:, explained].sum(axis=1).argmax()) if looked else middle
        likeliest = np.where(self._per_node & explained & looked, scores.argmax(axis=0), best)
        return self.with_hyperparameters(likeliest)

    def log_evidence(self, node: int, parents: Bool[np.ndarray, " d"], state: Int8[np.ndarray, " M"]) -> float:
        key = b"".join((np.int32(node).tobytes(), parents.tobytes(), state.tobytes()))
        value = self._values.get(key)
        if value is None:
            with ONE_THREAD:
                value = self.evaluate([(node, parents, state)])[0]
            self._keep([key], [value])
        return value

    def log_evidences(self, nodes: np.ndarray, parents: ParentSets, states: Columns) -> Float[np.ndarray, " B"]:
        """`log_evidence` of many requests; the parent sets that are new are worked on in parallel."""
        # Keys of bytes, as in `log_evidence`, are made and compared faster than tuples of arrays.
        node = nodes.astype(np.int32)[:, None].view(np.uint8)
        packed = np.concatenate([node, parents.astype(np.uint8), states.astype(np.uint8)], axis=1)
        keys = [row.tobytes() for row in packed]
        values = [self._values.get(key) for key in keys]
        jobs: dict[tuple[Group, bytes], list[int]] = {}
        for b, value in enumerate(values):
            if value is None:
                jobs.setdefault((self.groups[nodes[b]], parents[b].tobytes()), []).append(b)
        parts = list(jobs.values())
        requests = [[(int(nodes[b]), parents[b], states[b]) for b in part] for part in parts]
        for part, scores in zip(parts, self._map(requests), strict=True):
            for b, score in zip(part, scores, strict=True):
                values[b] = score
            self._keep([keys[b] for b in part], scores)
        return np.array(values, float)

    def _keep(self, keys: list[bytes], values: list[float]) -> None:
        if len(self._values) + len(keys) > self._capacity:
            self._values.clear()
        self._values.update(zip(keys, values, strict=True))

    def draw_parameters(self, rng: np.random.Generator, graphs: Graphs, states: States) -> dict[str, Labelled]:
        with ONE_THREAD:
            return draw_functions(rng, self, graphs, states)

    def _map(self, jobs: list[list[Request]]) -> list[list[float]]:
        if not jobs:
            return []
        with ONE_THREAD:
            if len(jobs) == 1:
                return [self.evaluate(jobs[0])]
            with ThreadPoolExecutor(min(len(jobs), os.cpu_count() or 1)) as pool:
                return list(pool.map(self.evaluate, jobs))


class DenseEvidence(KernelEvidence):
    """The evidence itself; one factorisation per parent set serves all children and states."""

    def _prepare(self, data: ContextData) -> None:
        states = self.states
        states.refuse_certainty(data)
        tail = len(self.rows.x) - int(self.rows.start[1]) + BLOCK
        n_factors = max(FACTOR_BYTES // (4 * tail * (tail + 2 * self.n_variables)), 8)
        self._factor = lru_cache(n_factors)(partial(_factor, self.rows))
        n_tables = TABLE_BYTES // (16 * (self.n_contexts + 1) * self.n_variables + 400)
        self._table = lru_cache(n_tables)(partial(_table, self._factor, self.noise, EffectKind.SOFT in self._kinds))

    def evaluate(self, requests: Iterable[Request]) -> list[float]:
        """Evidence of the rows that left the mechanism, and of those that it explains, from the table unless their
        noise changed or those of two contexts left."""
        values = []
        for node, parents, state in requests:
            key = self.groups[node], parents.tobytes()
            (log_p, soft), contexts = self._table(*key), state.nonzero()[0].tolist()
            value, in_table = 0.0, len(contexts) <= 1
            for k in contexts:
                kind = self._kinds[state[k]]
                if kind == EffectKind.HARD:
                    value += self.states.hard_log_evidence[k, node]
                elif kind == EffectKind.SOFT:
                    value += soft[k + 1, node]
                else:
                    in_table = False
            if in_table:
                value += float(log_p[contexts[0] + 1 if contexts else 0, node])
            else:
                changed = partial(DenseFactor.with_noise, node=node, noise=self.noise_of(parents, state, 0))
                value += float(averaged(self.noise, self._factor, *key, changed))
            values.append(float(value))
        return values


class AdditiveEvidence(KernelEvidence):
    """The evidence of sums of functions of single parents, from tables as linear mechanisms have them.

    Every variable has at most `SINGLE_RANK` features, whatever else is a parent (`nystrom.additive_evidence`).
    """

    costly = False

    def _prepare(self, data: ContextData) -> None:
        refuse_slopes(self.states)
        self._gram = additive_evidence(data, self.states, self.groups, self.noise)
        self.tables = self._gram.tables

    @property
    def approximation(self) -> None:  # type: ignore[override]
        return None

    def evaluate(self, requests: Iterable[Request]) -> list[float]:
        return [self._gram.log_evidence(*request) for request in requests]

    def log_evidence(self, node: int, parents: Bool[np.ndarray, " d"], state: Int8[np.ndarray, " M"]) -> float:
        return self._gram.log_evidence(node, parents, state)

    def log_evidences(self, nodes: np.ndarray, parents: ParentSets, states: Columns) -> Float[np.ndarray, " B"]:
        return self._gram.log_evidences(nodes, parents, states)

    def target_share(self, node: int, parents: ParentSets) -> Float[np.ndarray, "B M"]:
        return self._gram.target_share(node, parents)


def refuse_slopes(states: EffectStates) -> None:
    """Refuse slopes that drift, which functions do not have."""
    if any(states.drift.slopes):
        raise NoClosedForm(
            "Slopes that drift need linear mechanisms or BGe; leave slopes of [model.drift] out, or use --model linear "
            "or bge."
        )


def _factor(rows: SortedRows, group: Group, parents: bytes) -> DenseFactor:
    return DenseFactor(group, rows, np.flatnonzero(np.frombuffer(parents, bool)))


def averaged(
    noise: NoisePrior,
    factor_of: Callable[..., DenseFactor],
    group: Group,
    parents: bytes,
    terms: Callable[[DenseFactor], Terms],
) -> Float[np.ndarray, "..."]:
    """log p of some terms, averaged over what the ratio of a variable may be."""
    ratios = noise.averaged(group.ratio)
    values = [noise.log_density(terms(factor_of(Group(group.kernel, ratio), parents)), ratio) for ratio in ratios]
    return np.asarray(log_mean_exp(values))


def _table(factor_of: Callable[..., Any], noise: NoisePrior, with_soft: bool, group: Group, parents: bytes) -> Table:
    soft = averaged(noise, factor_of, group, parents, DenseFactor.only) if with_soft else np.empty((0, 0))
    return averaged(noise, factor_of, group, parents, DenseFactor.leave_out), soft
