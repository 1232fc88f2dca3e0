"""Training of DCDI-G: the augmented Lagrangian of Brouillard et al. (2020, appendix on optimisation), B runs at once.

A subproblem (γ and μ fixed) is trained by RMSprop until the Lagrangian of held-out rows no longer falls; then
γ ← γ + μ h, and μ ← 2 μ unless h fell below .9 of what it was. A run is over when a subproblem ends with h at most the
tolerance. All runs advance in one compiled program; one that is over waits for the others.

From arrays to graphs and targets: the two phases of DCDI-G on B data sets of one shape.
"""

from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Float32, Float64, Int, Int8, Key

from bacadi.baselines.dcdi.dcdi import Effects, Layers, NetworkEstimate
from bacadi.baselines.dcdi.model import (
    Constants,
    Known,
    Networks,
    Parameters,
    Penalty,
    Sample,
    Score,
    cyclicity,
    floored,
    masked_probability,
)
from bacadi.data.contexts import Scaling
from bacadi.errors import InferenceError
from bacadi.graph.dag import is_acyclic

if TYPE_CHECKING:
    from bacadi.baselines.dcdi.dcdi import DCDIG


GROWTH, ENOUGH, SLOPE = 2.0, 0.9, 1e-4
LARGEST_GRADIENT = 1e15
WINDOWS = 10  # windows in a compiled chunk


class Settings(eqx.Module):
    """Choices of the optimisation; `window` iterations lie between two looks at the held-out rows."""

    sparsity: float
    target_sparsity: float
    learning_rate: float
    tolerance: float
    first_weight: float
    batch_size: int = eqx.field(static=True)
    window: int = eqx.field(static=True)

    @property
    def optimiser(self) -> optax.GradientTransformation:
        """RMSprop; clipped, because the square of h's gradient overflows float32 while a large graph is still dense."""
        rmsprop = optax.rmsprop(self.learning_rate, decay=0.99, eps=1e-8, eps_in_sqrt=False)
        return optax.chain(optax.clip(LARGEST_GRADIENT), rmsprop)


class Lane(NamedTuple):
    """The data of one run, or of B runs stacked."""

    training: Sample
    held_out: Sample
    known: Known


class Run(NamedTuple):
    """State of one run, or of B stacked. The parameters are one flat vector, so that an update is one fused loop."""

    key: Key[Array, "*B"]
    flat: Float32[Array, "*B p"]
    optimiser: optax.OptState
    multiplier: Float64[Array, "*B"]
    weight: Float64[Array, "*B"]
    last_h: Float64[Array, "*B"]
    history: Float64[Array, "*B 3"]
    over: Bool[Array, "*B"]
    iteration: Int[Array, "*B"]


def start(settings: Settings, key: Key[Array, ""], parameters: Parameters) -> Run:
    """A run at these parameters with γ = 0 and the first μ."""
    flat, _ = ravel_pytree(parameters)
    multiplier, weight, last_h = jnp.asarray([0.0, settings.first_weight, jnp.inf], jnp.float64)
    history = jnp.full(3, jnp.nan, jnp.float64)
    over, iteration = jnp.asarray(False), jnp.asarray(0, jnp.int32)
    return Run(key, flat, settings.optimiser.init(flat), multiplier, weight, last_h, history, over, iteration)


class Trainer(eqx.Module):
    """What all runs share."""

    score: Score
    settings: Settings
    shape: tuple[int, int]  # variables, contexts

    def unravel(self, flat: Float32[Array, " p"]) -> Parameters:
        shapes = jax.eval_shape(lambda: self.score.init(jax.random.key(0), *self.shape, (0.0, 0.0)))
        return ravel_pytree(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes))[1](flat)

    @eqx.filter_jit
    def parameters(self, flat: Float32[Array, "B p"]) -> Parameters:
        return jax.vmap(self.unravel)(flat)

    @eqx.filter_jit
    def advance(self, lanes: Lane, runs: Run) -> Run:
        """`WINDOWS` windows of every run."""
        step = jax.vmap(self._window)
        return jax.lax.scan(lambda runs, _: (step(lanes, runs), None), runs, None, length=WINDOWS)[0]

    def _window(self, lane: Lane, run: Run) -> Run:
        key, key_steps, key_look = jax.random.split(run.key, 3)
        penalty = self._penalty(run)

        def step(carry: tuple, key: Key[Array, ""]) -> tuple[tuple, None]:
            flat, state = carry
            key_rows, key_masks = jax.random.split(key)
            gradient = jax.grad(lambda flat: self._lagrangian(key_masks, flat, lane.known, batch(key_rows), penalty))
            updates, state = self.settings.optimiser.update(gradient(flat), state)
            return (optax.apply_updates(flat, updates), state), None

        def batch(key: Key[Array, ""]) -> Sample:
            rows = jax.random.randint(key, (self.settings.batch_size,), 0, lane.training.x.shape[0])
            return Sample(lane.training.x[rows], lane.training.one_hot[rows])

        keys = jax.random.split(key_steps, self.settings.window)
        (flat, state), _ = jax.lax.scan(step, (run.flat, run.optimiser), keys)
        # One mask a row of the held-out sample, whose size need not be a multiple of a group.
        single = eqx.tree_at(lambda trainer: trainer.score.rows_per_mask, self, 1)
        value = single._lagrangian(key_look, flat, lane.known, lane.held_out, penalty)
        moved = run._replace(
            key=key,
            flat=flat,
            optimiser=state,
            history=jnp.append(run.history[1:], value),
            iteration=run.iteration + self.settings.window,
        )
        moved = self._next_subproblem(lane.known, moved)
        return jax.tree.map(lambda old, new: jnp.where(run.over, old, new), run, moved)

    def _lagrangian(
        self, key: Key[Array, ""], flat: Float32[Array, " p"], known: Known, rows: Sample, penalty: Penalty
    ) -> Float64[Array, ""]:
        return self.score.lagrangian(key, self.unravel(flat), known, rows, penalty)

    def _penalty(self, run: Run) -> Penalty:
        return Penalty(self.settings.sparsity, self.settings.target_sparsity, run.multiplier, run.weight)

    def _next_subproblem(self, known: Known, run: Run) -> Run:
        """The same run, or the next subproblem if the last three looks show no steady fall (NaN: too few looks yet)."""
        first, second, third = run.history
        falling = (first > second) & (second > third) & (first - third > 2 * self.settings.window * SLOPE)
        ended = ~jnp.isnan(run.history).any() & ~falling
        h = cyclicity(masked_probability(self.unravel(run.flat).edge_logit, known.edges))
        following = run._replace(
            optimiser=self.settings.optimiser.init(run.flat),
            multiplier=run.multiplier + run.weight * h,
            weight=jnp.where(h > ENOUGH * run.last_h, GROWTH, 1.0).astype(h.dtype) * run.weight,
            last_h=h,
            history=jnp.full_like(run.history, jnp.nan),
            over=h <= self.settings.tolerance,
        )
        return jax.tree.map(lambda same, new: jnp.where(ended, new, same), run, following)


class Trained(NamedTuple):
    """Parameters of B runs and how each ended; `converged` is False where the iterations ran out first."""

    parameters: Parameters
    converged: Bool[np.ndarray, " B"]
    iterations: Int[np.ndarray, " B"]


def train(trainer: Trainer, lanes: Lane, runs: Run, max_iterations: int, to_the_end: bool = False) -> Trained:
    """Advance all runs until the last is over or `max_iterations` are done, `to_the_end` only until the latter."""
    while not np.asarray(runs.over).all() and np.asarray(runs.iteration).max() < max_iterations:
        runs = trainer.advance(lanes, runs)
        if not np.isfinite(np.asarray(runs.flat)).all():
            raise InferenceError(
                f"DCDI-G gave non-finite values within {np.asarray(runs.iteration).max()} iterations; "
                "look for columns with extreme values or lower its learning rate."
            )
        if to_the_end:
            runs = runs._replace(over=jnp.zeros_like(runs.over))
    parameters = jax.tree.map(np.asarray, trainer.parameters(runs.flat))
    return Trained(parameters, np.asarray(runs.over), np.asarray(runs.iteration))


MIN_ROWS_TO_SPLIT = 3
EDGE_LOGIT, TARGET_LOGIT = 0.0, 0.0


class Rows(NamedTuple):
    """A standardised data set in two parts: what is fitted and what decides when a subproblem ends."""

    training: tuple[Float[np.ndarray, "n d"], Int[np.ndarray, " n"]]
    held_out: tuple[Float[np.ndarray, "h d"], Int[np.ndarray, " h"]]


class Found(NamedTuple):
    """One run: the structure, the networks and effects refitted to it (standardised units) and how the search ended."""

    graph: Int8[np.ndarray, "d d"]
    targets: Int8[np.ndarray, "M d"]
    parameters: Parameters
    converged: bool
    iterations: int

    def in_data_units(self, scaling: Scaling) -> NetworkEstimate:
        """The same for the columns before they were scaled."""
        learned, effect = self.parameters, self.parameters.effect
        std = np.asarray(floored(learned.effect_log_std)) * scaling.scale
        if isinstance(effect, Constants):
            effects = Effects(np.asarray(effect.mean) * scaling.scale + scaling.shift, std)
        else:
            effects = Effects(_layers(effect).in_data_units(self.graph, scaling), std)
        networks = _layers(learned.networks).in_data_units(self.graph, scaling)
        return NetworkEstimate(self.graph, self.targets, networks, effects, self.converged, self.iterations)


def split_rows(
    rng: np.random.Generator, x: Float[np.ndarray, "n d"], context: Int[np.ndarray, " n"], share: float
) -> Rows:
    """Hold out a share of the rows of each context; contexts of fewer than three rows are trained on as a whole."""
    held_out = np.zeros(len(x), dtype=bool)
    for k in np.unique(context):
        rows = rng.permutation(np.flatnonzero(context == k))
        if len(rows) >= MIN_ROWS_TO_SPLIT:
            held_out[rows[: max(1, round(share * len(rows)))]] = True
    seen = held_out if held_out.any() else ~held_out
    return Rows((x[~held_out], context[~held_out]), (x[seen], context[seen]))


def run(choices: "DCDIG", seed: int, data: list[Rows], known: Float[np.ndarray, "M d"]) -> list[Found]:
    """Search with sampled masks, then fit the networks again with the graph that was found."""
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(seed), 3)
        (m, d), n = known.shape, len(data)
        trainer = Trainer(Score(choices.n_hidden, choices.perfect, choices.rows_per_mask), _settings(choices), (d, m))
        free = Known(_copies(np.where(np.eye(d), 0.0, np.nan), n), _copies(known, n))
        lanes = Lane(_stack([r.training for r in data], m), _stack([r.held_out for r in data], m), free)
        first = _initial(trainer, keys[0], n)
        searched = train(trainer, lanes, _start(trainer, keys[1], first), choices.max_iterations)
        parameters, lanes = _second_phase(choices, searched.parameters, lanes)
        runs = _start(trainer, keys[2], parameters)
        refitted = train(trainer, lanes, runs, choices.refit_iterations, to_the_end=True)
        targets = _decided(_probabilities(refitted.parameters, lanes.known)[1])
    graphs = np.asarray(lanes.known.edges).astype(np.int8)
    own = [jax.tree.map(lambda leaf, b=b: leaf[b], refitted.parameters) for b in range(n)]
    return list(map(Found, graphs, targets, own, searched.converged.tolist(), searched.iterations.tolist()))


def _second_phase(choices: "DCDIG", parameters: Parameters, lanes: Lane) -> tuple[Parameters, Lane]:
    """The graph is known now; the targets start afresh, or are known too, as the search left them.

    While the graph is dense its networks predict a variable from its effects too, and target masks that answer to that
    saturate: their gradient vanishes, so that they outlast their reason.
    """
    edges, probability = _probabilities(parameters, lanes.known)
    graphs = np.stack([acyclic_above(edge, choices.threshold) for edge in np.asarray(edges)])
    if choices.fresh_targets:
        parameters = parameters._replace(target_logit=jnp.full_like(parameters.target_logit, TARGET_LOGIT))
        return parameters, lanes._replace(known=Known(jnp.asarray(graphs, jnp.float32), lanes.known.targets))
    targets = jnp.asarray(_decided(probability), jnp.float32)
    return parameters, lanes._replace(known=Known(jnp.asarray(graphs, jnp.float32), targets))


def acyclic_above(probability: Float[np.ndarray, "d d"], threshold: float) -> Int8[np.ndarray, "d d"]:
    """Edges of a probability above the threshold, which is raised from edge to edge until no cycle is left.

    >>> acyclic_above(np.array([[0.0, 0.9, 0.2], [0.8, 0.0, 0.7], [0.0, 0.0, 0.0]]), 0.5).tolist()
    [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    """
    levels = np.concatenate([[threshold], np.sort(probability[probability > threshold])])
    # Fewer edges never make a cycle, so the first acyclic level is found by bisection; the last one has no edge.
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_acyclic(probability > levels[middle]) else (middle + 1, high)
    return (probability > levels[low]).astype(np.int8)


def _settings(choices: "DCDIG") -> Settings:
    return Settings(
        choices.sparsity,
        choices.target_sparsity,
        choices.learning_rate,
        choices.tolerance,
        choices.first_weight,
        choices.batch_size,
        choices.window,
    )


@eqx.filter_jit
def _initial(trainer: Trainer, key: Key[Array, ""], n: int) -> Parameters:
    keys = jax.random.split(key, n)
    return jax.vmap(lambda key: trainer.score.init(key, *trainer.shape, (EDGE_LOGIT, TARGET_LOGIT)))(keys)


@eqx.filter_jit
def _start(trainer: Trainer, key: Key[Array, ""], parameters: Parameters) -> Run:
    keys = jax.random.split(key, len(parameters.edge_logit))
    return jax.vmap(lambda key, own: start(trainer.settings, key, own))(keys, parameters)


@eqx.filter_jit
def _probabilities(parameters: Parameters, known: Known) -> tuple[Float[Array, "B d d"], Float[Array, "B M d"]]:
    edges = masked_probability(parameters.edge_logit, known.edges)
    return edges, masked_probability(parameters.target_logit, known.targets)


def _decided(probability: Float[Array, "B M d"]) -> Int8[np.ndarray, "B M d"]:
    return (np.asarray(probability) > 0.5).astype(np.int8)


def _stack(parts: list[tuple[np.ndarray, np.ndarray]], n_contexts: int) -> Sample:
    # An observational row (context 0) belongs to no column, so that no target mask reaches it.
    one_hot = np.stack([context[:, None] == np.arange(1, n_contexts + 1) for _, context in parts])
    x = np.stack([x for x, _ in parts])
    return Sample(jnp.asarray(x, jnp.float32), jnp.asarray(one_hot, jnp.float32))


def _layers(networks: Networks) -> Layers:
    return Layers(*(np.asarray(leaf, dtype=float) for leaf in networks))


def _copies(array: np.ndarray, n: int) -> Float[Array, "B a d"]:
    return jnp.asarray(np.tile(array, (n, 1, 1)), jnp.float32)
