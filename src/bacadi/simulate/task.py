"""`simulate`: from a specification and a seed to a task whose truth is known."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int, Int8

from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError
from bacadi.simulate.expression import GeneExpressionSpec, express
from bacadi.simulate.grn import RegulatoryNetwork
from bacadi.simulate.synthetic import CausalNetwork, Effects, SyntheticSpec, Unperturbed

OBSERVATIONAL = "obs"


@dataclass(frozen=True, eq=False)
class Task:
    """Training data of several contexts, held-out interventional data, and the truth behind both.

    `network` and the effects are in the scale in which they were drawn; `data.scaling` says how the data were scaled.
    The cell types, one number a row, are a hidden cause of gene expression and None for other tasks.
    """

    spec: SyntheticSpec | GeneExpressionSpec
    seed: int
    network: CausalNetwork | RegulatoryNetwork
    effects: Effects
    data: ContextData
    held_out_effects: Effects
    held_out: ContextData
    cell_type: Int[np.ndarray, " n"] | None = None
    held_out_cell_type: Int[np.ndarray, " h"] | None = None

    @property
    def graph(self) -> Int8[np.ndarray, "d d"]:
        """The true graph, `graph[i, j] = 1` for i -> j."""
        return self.network.graph

    @property
    def targets(self) -> Int8[np.ndarray, "m d"]:
        """The true targets of the training contexts; row k belongs to `data.contexts[k]`."""
        return self.effects.targets

    @property
    def held_out_targets(self) -> Int8[np.ndarray, "h d"]:
        """The targets of the held-out contexts, which a method is told; row k belongs to `held_out.contexts[k]`."""
        return self.held_out_effects.targets

    def log_density(self) -> Float[np.ndarray, " n"]:
        """log p(x | context) of each training row under the truth, in the scale of `data`."""
        return self._log_density(self.data, self.effects)

    def held_out_log_density(self) -> Float[np.ndarray, " n"]:
        """log p(x | context) of each held-out row under the truth: the best that a method can reach on average."""
        return self._log_density(self.held_out, self.held_out_effects)

    def _log_density(self, data: ContextData, effects: Effects) -> Float[np.ndarray, " n"]:
        if not isinstance(self.network, CausalNetwork):
            raise ConfigError("Simulated gene expression has no density in closed form; use a synthetic task for it.")
        original = data.scaling.invert(data.x)
        # Change of variables: the density of scaled = (original - shift) / scale has the factor Π scale.
        return self.network.log_density(original, data.context, effects) + np.log(data.scaling.scale).sum()


def simulate(spec: SyntheticSpec | GeneExpressionSpec, seed: int) -> Task:
    """The task of a specification and a seed; equal arguments give equal tasks.

    Graph, mechanisms, interventions and samples have random streams of their own, so that specifications which differ
    only in, say, the number of rows share the network.

    >>> task = simulate(SyntheticSpec(), seed=0)
    >>> task.data.n_rows, task.data.n_contexts, task.held_out.n_rows
    (300, 20, 1000)
    >>> simulate(GeneExpressionSpec(), seed=0).data.n_rows
    200
    """
    if seed < 0:
        raise ConfigError(f"The seed {seed} is negative; give 0 or more.")
    task = _expression(spec, seed) if isinstance(spec, GeneExpressionSpec) else _synthetic(spec, seed)
    if not spec.standardize:
        return task
    data = task.data.standardized()
    return replace(task, data=data, held_out=_scaled_alike(task.held_out, data))


def _synthetic(spec: SyntheticSpec, seed: int) -> Task:
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(6)]
    d = spec.n_variables
    graph = spec.graph.draw(streams[0], d)
    network = CausalNetwork(graph, spec.mechanism.draw(streams[1], graph), spec.noise.draw_std(streams[2], d))
    base = Unperturbed(
        network.noise_std, lambda rng: spec.mechanism.draw(rng, graph), lambda rng: spec.noise.draw_std(rng, d)
    )
    training, test = spec.interventions, spec.held_out
    effects = training.effect.draw(streams[3], training.draw_targets(streams[3], d), base)
    data = _sample(streams[4], network, effects, (spec.n_observational, training.rows_per_context))
    held_out_effects = test.effect.draw(streams[5], test.draw_targets(streams[5], d), base)
    held_out = _sample(streams[5], network, held_out_effects, (0, test.rows_per_context))
    return Task(spec, seed, network, effects, data, held_out_effects, held_out)


def _expression(spec: GeneExpressionSpec, seed: int) -> Task:
    drawn = express(spec, seed)
    n_contexts, n_held_out = len(drawn.effects.targets), len(drawn.held_out_effects.targets)
    data = _labelled(drawn.data.x, drawn.data.context, n_contexts, "g")
    held_out = _labelled(drawn.held_out.x, drawn.held_out.context, n_held_out, "g")
    types = drawn.data.cell_type, drawn.held_out.cell_type
    return Task(spec, seed, drawn.network, drawn.effects, data, drawn.held_out_effects, held_out, *types)


def _sample(rng: np.random.Generator, network: CausalNetwork, effects: Effects, rows: tuple[int, int]) -> ContextData:
    """Data of `rows[0]` observational rows and `rows[1]` rows for every context."""
    n_contexts = len(effects.targets)
    context = np.repeat(np.arange(n_contexts + 1), [rows[0]] + [rows[1]] * n_contexts)
    return _labelled(network.sample(rng, context, effects), context, n_contexts, "x")


def _labelled(x: Float[np.ndarray, "n d"], context: Int[np.ndarray, " n"], n_contexts: int, letter: str) -> ContextData:
    return ContextData(
        x,
        context,
        variables=tuple(f"{letter}{j + 1}" for j in range(x.shape[1])),
        contexts=tuple(f"c{k + 1}" for k in range(n_contexts)),
        observational=OBSERVATIONAL if (context == 0).any() else None,
    )


def _scaled_alike(data: ContextData, like: ContextData) -> ContextData:
    x = like.scaling.apply(data.x)
    return ContextData(x, data.context, data.variables, data.contexts, data.observational, like.scaling)
