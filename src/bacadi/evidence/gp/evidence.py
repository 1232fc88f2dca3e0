"""Gaussian-process evidence: nonlinear mechanisms with their functions integrated out.

Node j with parents P: x_:j = f(x_P) + noise, f ~ GP(0, s² k), noise N(0, s² ρ), over the rows its mechanism explains.
Where the noise is known s = 1 and ρ is its variance; else s² is integrated out (a multivariate t) under a prior of the
noise s²ρ, and ρ, with the kernel where several are offered, is a hyper-parameter fitted before sampling. Hard effects
take rows away; soft ones give them a function of their own; a shift adds value² s² ρ 11' to their covariance; a scale
effect multiplies ρ by its value.
"""

import os
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError, NoClosedForm
from bacadi.evidence.collapsed import AbstractEvidence, EffectKind, EffectStates
from bacadi.evidence.gp.draw import draw_functions
from bacadi.evidence.gp.factor import (
    AbstractFactor,
    Approximation,
    Group,
    NoisePrior,
    SortedRows,
    Terms,
    bytes_of_factor,
    factor_of,
)
from bacadi.model.integrated import GaussianProcess
from bacadi.model.kernels import AbstractKernel, Constant, NetworkKernel, Sum
from bacadi.model.neural import SIGMOID, NeuralGaussian

TABLE_BYTES, FACTOR_BYTES, VALUE_BYTES = 2**29, 2**29, 2**28


class LRU:
    """A dictionary of bounded size that drops what was not used for longest; safe between threads."""

    def __init__(self, capacity: int) -> None:
        self._capacity, self._items, self._lock = max(capacity, 8), OrderedDict[Hashable, Any](), Lock()

    def get(self, key: Hashable) -> Any:
        return self.get_all([key])[0]

    def get_all(self, keys: Sequence[Hashable]) -> list[Any]:
        """The value under each key, None where there is none."""
        with self._lock:
            values = [self._items.get(key) for key in keys]
            for key, value in zip(keys, values, strict=True):
                if value is not None:
                    self._items.move_to_end(key)
            return values

    def put(self, key: Hashable, value: Any) -> Any:
        with self._lock:
            self._items[key] = value
            if len(self._items) > self._capacity:
                self._items.popitem(last=False)
        return value


class OneThread:
    """A context with BLAS on one thread: the parallelism is over parent sets, and results do not depend on the machine.

    Replicas enter it at the same time and the limit is one for the whole process, so that the last to leave lifts it.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._limit = Lock(), 0, None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._limit = _blas().limit(limits=1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._limit is not None:
                self._limit.restore_original_limits()


_blas = cache(ThreadpoolController)
ONE_THREAD = OneThread()


class Table(NamedTuple):
    """Evidence of all columns given one parent set: of all rows and with context k left out, of context k alone."""

    log_p: Float[np.ndarray, "K d"]
    soft: Float[np.ndarray, "..."]  # [K, d] where there is a soft state


Request = tuple[int, Bool[np.ndarray, " d"], Int8[np.ndarray, " M"]]


class Hyperparameters(NamedTuple):
    """The options, whether each node may have its own, those of the nodes now, and whether they have been fitted."""

    options: tuple[Group, ...]
    per_node: bool
    groups: tuple[Group, ...]
    fitted: bool = False


class KernelEvidence(AbstractEvidence):
    """Evidence of Gaussian-process mechanisms; one factorisation per parent set serves all children and states.

    A value depends on its request alone, never on what was asked before or together with it.
    """

    def __init__(
        self,
        rows: SortedRows,
        states: EffectStates,
        noise: NoisePrior,
        approximation: Approximation,
        hyperparameters: Hyperparameters,
    ) -> None:
        self.rows, self.states, self.noise, self.approximation = rows, states, noise, approximation
        self.hyperparameters, self.groups = hyperparameters, hyperparameters.groups
        self.has_hyperparameters = hyperparameters.fitted or len(hyperparameters.options) == 1
        self.n_contexts, self.n_variables = len(rows.start) - 2, rows.x.shape[1]
        self._number = [self.groups.index(group) for group in self.groups]
        self._kinds: list[int] = states.kind.tolist()
        self._scale = np.where(states.kind == EffectKind.SCALE, states.value, 1.0)
        self._scale[(states.kind == EffectKind.HARD) | (states.kind == EffectKind.SOFT)] = np.inf
        self._shift = np.where(states.kind == EffectKind.SHIFT, states.value**2, 0.0)
        k = self.n_contexts + 1
        self._tables = LRU(TABLE_BYTES // (16 * k * self.n_variables + 400))
        self._factors = LRU(FACTOR_BYTES // bytes_of_factor(rows, approximation))
        self._values = LRU(VALUE_BYTES // (self.n_variables + self.n_contexts + 200))

    @classmethod
    def from_data(
        cls,
        data: ContextData,
        states: EffectStates,
        kernel: AbstractKernel | Sequence[AbstractKernel],
        noise: NoisePrior,
        approximation: Approximation = Approximation(),  # noqa: B008
        per_node: bool = False,
    ) -> "KernelEvidence":
        """The evidence of `data`. Of several kernels and ratios a middle pair is used until `fit_hyperparameters` finds
        the likeliest, for all nodes or with `per_node` for each."""
        kernels = (kernel,) if isinstance(kernel, AbstractKernel) else tuple(kernel)
        if len({tuple(map(type, k.parts)) if isinstance(k, Sum) else type(k) for k in kernels}) != 1:
            raise ConfigError("Nodes choose among kernels of one kind; give kernels that differ in numbers alone.")
        options = tuple(Group(k, ratio) for k in kernels for ratio in noise.choices)
        middle = (options[len(options) // 2],) * data.n_variables
        return cls(SortedRows.of(data), states, noise, approximation, Hyperparameters(options, per_node, middle))

    def fit_hyperparameters(self, graph: Int8[np.ndarray, "d d"], states: Int8[np.ndarray, "M d"]) -> "KernelEvidence":
        """The likeliest options given the structure: nodes without parents, which say nothing of functions, follow.

        The scale s² of a node is integrated out, so that nodes may well share the rest.
        """
        options, d, explained = self.hyperparameters.options, self.n_variables, graph.any(axis=0)
        requests = np.arange(d), graph.T.astype(bool), np.ascontiguousarray(states.T, np.int8)
        scores = np.array([self._with(groups=(option,) * d).log_evidences(*requests) for option in options])
        best = int((scores * explained).sum(axis=1).argmax()) if explained.any() else len(options) // 2
        likeliest = np.where(self.hyperparameters.per_node & explained, scores.argmax(axis=0), best)
        return self._with(groups=tuple(options[i] for i in likeliest), fitted=True)

    def _with(self, **changes: Any) -> "KernelEvidence":
        hyperparameters = self.hyperparameters._replace(**changes)
        return KernelEvidence(self.rows, self.states, self.noise, self.approximation, hyperparameters)

    def log_evidence(self, node: int, parents: Bool[np.ndarray, " d"], state: Int8[np.ndarray, " M"]) -> float:
        return float(self.log_evidences(np.array([node]), parents[None], state[None])[0])

    def log_evidences(
        self, nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B d"], states: Int8[np.ndarray, "B M"]
    ) -> Float[np.ndarray, " B"]:
        """`log_evidence` of many requests; the parent sets that are new are worked on in parallel."""
        keys = _keys(nodes, parents, states)
        values = self._values.get_all(keys)
        jobs: dict[tuple[int, bytes], list[int]] = {}
        for b, value in enumerate(values):
            if value is None:
                jobs.setdefault((self._number[nodes[b]], parents[b].tobytes()), []).append(b)
        parts = list(jobs.values())
        requests = [[(int(nodes[b]), parents[b], states[b]) for b in part] for part in parts]
        for part, scores in zip(parts, self._map(requests), strict=True):
            for b, score in zip(part, scores, strict=True):
                values[b] = self._values.put(keys[b], score)
        return np.array(values, float)

    def factor(self, number: int, parents: Bool[np.ndarray, " d"]) -> AbstractFactor:
        """The factorisation of one parent set under the group of node `number`."""
        key = (number, parents.tobytes())
        factor = self._factors.get(key)
        if factor is None:
            factor = factor_of(self.groups[number], self.rows, np.flatnonzero(parents), self.approximation)
            self._factors.put(key, factor)
        return factor

    def noise_of(self, state: Int8[np.ndarray, " M"]) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"]]:
        """Noise of the rows of each context that the mechanism explains, in units of ρ: factor (∞: none) and shift."""
        contexts = np.concatenate([[0], state])  # rows of context 0 are always untouched
        return self._scale[contexts], self._shift[contexts]

    def draw_parameters(
        self, rng: np.random.Generator, graphs: Int8[np.ndarray, "n d d"], states: Int8[np.ndarray, "n M d"]
    ) -> dict[str, Labelled]:
        with ONE_THREAD:
            return draw_functions(rng, self, graphs, states)

    def _effects(self, table: Table, node: int, state: Int8[np.ndarray, " M"]) -> tuple[float, int | None]:
        """Evidence of the rows that left the mechanism, and the row of the table for the others if there is one."""
        constant, row, contexts = 0.0, 0, state.nonzero()[0].tolist()
        in_table = len(contexts) <= 1
        for k in contexts:
            kind = self._kinds[state[k]]
            if kind == EffectKind.HARD:
                constant += self.states.hard_log_evidence[k, node]
            elif kind == EffectKind.SOFT:
                constant += table.soft[k + 1, node]
            else:
                in_table = False
            row = k + 1
        return constant, row if in_table else None

    def _evaluate(self, requests: Iterable[Request]) -> list[float]:
        """Values of requests that share parents and group."""
        values = []
        for node, parents, state in requests:
            table = self._table(self._number[node], parents)
            value, row = self._effects(table, node, state)
            if row is None:
                terms = self.factor(self._number[node], parents).with_noise(node, *self.noise_of(state))
                value += float(self.noise.log_density(terms, self.groups[node].ratio))
            else:
                value += float(table.log_p[row, node])
            values.append(float(value))
        return values

    def _table(self, number: int, parents: Bool[np.ndarray, " d"]) -> Table:
        key = (number, parents.tobytes())
        table = self._tables.get(key)
        if table is None:
            factor = self.factor(number, parents)
            ratio = self.groups[number].ratio
            soft = self._density(factor.only(), ratio) if EffectKind.SOFT in self._kinds else np.empty((0, 0))
            table = self._tables.put(key, Table(self._density(factor.leave_out(), ratio), soft))
        return table

    def _density(self, terms: Terms, ratio: float) -> Float[np.ndarray, "K d"]:
        return self.noise.log_density(Terms(terms.n_rows[:, None], terms.log_det[:, None], terms.quad), ratio)

    def _map(self, jobs: list[list[Request]]) -> list[list[float]]:
        if not jobs:
            return []
        with ONE_THREAD:
            if len(jobs) == 1:
                return [self._evaluate(jobs[0])]
            with ThreadPoolExecutor(min(len(jobs), os.cpu_count() or 1)) as pool:
                return list(pool.map(self._evaluate, jobs))


def _keys(
    nodes: Int[np.ndarray, " B"], parents: Bool[np.ndarray, "B d"], states: Int8[np.ndarray, "B M"]
) -> list[bytes]:
    """One key per request: bytes are made and compared faster than tuples of arrays."""
    node = nodes.astype(np.int32)[:, None].view(np.uint8)
    packed = np.concatenate([node, parents.astype(np.uint8), states.astype(np.uint8)], axis=1)
    return [row.tobytes() for row in packed]


def gaussian_process_evidence(mechanism: GaussianProcess, data: ContextData, states: EffectStates) -> KernelEvidence:
    """The evidence of Gaussian processes over one of the mechanism's kernels."""
    noise = NoisePrior(*mechanism.noise.conjugate())
    return KernelEvidence.from_data(data, states, mechanism.kernels, noise, per_node=mechanism.per_node)


def network_evidence(mechanism: NeuralGaussian, data: ContextData, states: EffectStates) -> KernelEvidence:
    """Networks of one hidden layer of sigmoids, integrated out as the Gaussian process of their own covariance.

    Beside an inferred noise the inputs have one of the mechanism's `input_scales`. Without them columns are in the
    units of the prior, and ρ = scale / shape: at the mean precision of the noise, functions have their prior variance.
    """
    if len(mechanism.hidden) != 1 or mechanism.activation != SIGMOID:
        raise NoClosedForm(
            "Only networks of one hidden layer of sigmoid units have a closed-form covariance; "
            "use those, a GaussianProcess, or method svgd."
        )
    network, noise = NetworkKernel(mechanism.hidden[0], mechanism.prior_std), NoisePrior(*mechanism.noise.conjugate())
    scales = mechanism.input_scales if noise.variance is None else None
    if scales is None:
        noise = replace(noise, ratios=(noise.scale / noise.shape,))
    networks = [replace(network, input_scale=scale) for scale in scales or (1.0,)]
    kernels = [Constant(1.0) + kernel if mechanism.intercept else kernel for kernel in networks]
    return KernelEvidence.from_data(data, states, kernels, noise)
