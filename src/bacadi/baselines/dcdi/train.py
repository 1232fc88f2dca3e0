"""Training of DCDI-G: the augmented Lagrangian of Brouillard et al. (2020, appendix on optimisation), B runs at once.

A subproblem (γ and μ fixed) is trained by RMSprop until the Lagrangian of held-out rows no longer falls; then
γ ← γ + μ h, and μ ← 2 μ unless h fell below .9 of what it was. A run is over when a subproblem ends with h at most the
tolerance. All runs advance in one compiled program; one that is over waits for the others.

There are two phases: `train` searches with sampled masks, then fits the networks again with the graph that was found.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Float32, Float64, Int, Int8, Key

from bacadi.baselines.dcdi import model
from bacadi.baselines.dcdi.dcdi import DCDIG, NetworkEstimate, at
from bacadi.baselines.dcdi.model import ContextRows, Masks, Parameters, Penalty, PRNGKey
from bacadi.errors import InferenceError
from bacadi.graph.dag import is_acyclic

GROWTH, ENOUGH, SLOPE = 2.0, 0.9, 1e-4
LARGEST_GRADIENT = 1e15
WINDOWS = 10  # windows in a compiled chunk
MIN_ROWS_TO_SPLIT = 3


Part = tuple[Float[np.ndarray, "n d"], Int[np.ndarray, " n"]]
Split = tuple[Part, Part]


def split_rows(rng: np.random.Generator, x: np.ndarray, context: Int[np.ndarray, " n"], share: float) -> Split:
    """Hold out a share of the rows of each context; contexts of fewer than three rows are trained on as a whole.

    What is fitted comes first, then what decides when a subproblem ends.
    """
    held_out = np.zeros(len(x), dtype=bool)
    for k in np.unique(context):
        rows = rng.permutation(np.flatnonzero(context == k))
        if len(rows) >= MIN_ROWS_TO_SPLIT:
            held_out[rows[: max(1, round(share * len(rows)))]] = True
    seen = held_out if held_out.any() else ~held_out
    return (x[~held_out], context[~held_out]), (x[seen], context[seen])


class Lane(NamedTuple):
    """The data of one run, or of B runs stacked."""

    training: ContextRows
    held_out: ContextRows
    known: Masks


class TrainingRun(NamedTuple):
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


class Trainer(eqx.Module):
    """What all runs share; nothing of it is an array, so that it is part of the compiled program."""

    choices: DCDIG
    n_variables: int
    n_contexts: int

    @property
    def optimiser(self) -> optax.GradientTransformation:
        """RMSprop; clipped, because the square of h's gradient overflows float32 while a large graph is still dense."""
        rmsprop = optax.rmsprop(self.choices.learning_rate, decay=0.99, eps=1e-8, eps_in_sqrt=False)
        return optax.chain(optax.clip(LARGEST_GRADIENT), rmsprop)

    @eqx.filter_jit
    def initial(self, key: PRNGKey, n: int) -> Parameters:
        """First parameters of n runs."""
        return jax.vmap(self._initial)(jax.random.split(key, n))

    @eqx.filter_jit
    def start(self, key: PRNGKey, parameters: Parameters) -> TrainingRun:
        """Runs at these parameters with γ = 0 and the first μ."""

        def one(key: PRNGKey, parameters: Parameters) -> TrainingRun:
            flat, _ = ravel_pytree(parameters)
            multiplier, weight, last_h = jnp.asarray([0.0, self.choices.first_weight, jnp.inf], jnp.float64)
            history = jnp.full(3, jnp.nan, jnp.float64)
            over, iteration = jnp.asarray(False), jnp.asarray(0, jnp.int32)
            return TrainingRun(
                key, flat, self.optimiser.init(flat), multiplier, weight, last_h, history, over, iteration
            )

        return jax.vmap(one)(jax.random.split(key, len(parameters.edge_logit)), parameters)

    @eqx.filter_jit
    def parameters(self, flat: Float32[Array, "B p"]) -> Parameters:
        """The parameters of all runs."""
        return jax.vmap(self._unravel)(flat)

    def train(self, lanes: Lane, runs: TrainingRun, max_iterations: int, to_the_end: bool = False) -> TrainingRun:
        """Advance all runs until the last is over or `max_iterations` are done, `to_the_end` only until the latter."""
        while not np.asarray(runs.over).all() and np.asarray(runs.iteration).max() < max_iterations:
            runs = self.advance(lanes, runs)
            if not np.isfinite(np.asarray(runs.flat)).all():
                raise InferenceError(
                    f"DCDI-G gave non-finite values within {np.asarray(runs.iteration).max()} iterations; "
                    "look for columns with extreme values or lower its learning rate."
                )
            if to_the_end:
                runs = runs._replace(over=jnp.zeros_like(runs.over))
        return runs

    @eqx.filter_jit
    def advance(self, lanes: Lane, runs: TrainingRun) -> TrainingRun:
        """`WINDOWS` windows of every run."""
        step = jax.vmap(self._window)
        return jax.lax.scan(lambda runs, _: (step(lanes, runs), None), runs, None, length=WINDOWS)[0]

    def _window(self, lane: Lane, run: TrainingRun) -> TrainingRun:
        """`window` steps of one run and a look at its held-out rows; a run that is over stays as it is."""
        choices = self.choices
        key, key_steps, key_look = jax.random.split(run.key, 3)
        penalty = Penalty(choices.sparsity, choices.target_sparsity, run.multiplier, run.weight)

        def loss(key: PRNGKey, flat: Float32[Array, " p"], rows: ContextRows, per_mask: int) -> Float64[Array, ""]:
            return model.lagrangian(key, self._unravel(flat), lane.known, rows, penalty, per_mask)

        def step(carry: tuple, key: PRNGKey) -> tuple[tuple, None]:
            flat, state = carry
            key_rows, key_masks = jax.random.split(key)
            picks = jax.random.randint(key_rows, (choices.batch_size,), 0, lane.training.x.shape[0])
            batch = ContextRows(lane.training.x[picks], lane.training.one_hot[picks])
            gradient = jax.grad(lambda flat: loss(key_masks, flat, batch, choices.rows_per_mask))(flat)
            updates, state = self.optimiser.update(gradient, state)
            return (optax.apply_updates(flat, updates), state), None

        keys = jax.random.split(key_steps, choices.window)
        (flat, state), _ = jax.lax.scan(step, (run.flat, run.optimiser), keys)
        # One mask per row of the held-out sample, whose size need not be a multiple of a group.
        history = jnp.append(run.history[1:], loss(key_look, flat, lane.held_out, 1))
        iteration = run.iteration + choices.window
        moved = run._replace(key=key, flat=flat, optimiser=state, history=history, iteration=iteration)
        moved = self._next_subproblem(lane.known, moved)
        return jax.tree.map(lambda old, new: jnp.where(run.over, old, new), run, moved)

    def _next_subproblem(self, known: Masks, run: TrainingRun) -> TrainingRun:
        """The same run, or the next subproblem if the last three looks show no steady fall (NaN: too few looks yet)."""
        first, second, third = run.history
        falling = (first > second) & (second > third) & (first - third > 2 * self.choices.window * SLOPE)
        ended = ~jnp.isnan(run.history).any() & ~falling
        h = model.cyclicity(known.probabilities(self._unravel(run.flat))[0])
        following = run._replace(
            optimiser=self.optimiser.init(run.flat),
            multiplier=run.multiplier + run.weight * h,
            weight=jnp.where(h > ENOUGH * run.last_h, GROWTH, 1.0).astype(h.dtype) * run.weight,
            last_h=h,
            history=jnp.full_like(run.history, jnp.nan),
            over=h <= self.choices.tolerance,
        )
        return jax.tree.map(lambda same, new: jnp.where(ended, new, same), run, following)

    def _initial(self, key: PRNGKey) -> Parameters:
        sizes = self.n_variables, self.n_contexts, self.choices.n_hidden
        return model.initial_parameters(key, *sizes, self.choices.perfect)

    def _unravel(self, flat: Float32[Array, " p"]) -> Parameters:
        shapes = jax.eval_shape(self._initial, jax.random.key(0))
        return ravel_pytree(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes))[1](flat)


def train(choices: DCDIG, seed: int, data: list[Split], known: Float[np.ndarray, "M d"]) -> list[NetworkEstimate]:
    """Estimate from B data sets of one shape, in their units: search with sampled masks, then refit the networks."""
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(seed), 3)
        (m, d), n = known.shape, len(data)
        trainer = Trainer(choices, d, m)
        masks = Masks(_copies(np.where(np.eye(d), 0.0, np.nan), n), _copies(known, n))
        training, held_out = (_stacked(part, m) for part in zip(*data, strict=True))
        lanes = Lane(training, held_out, masks)
        searched = trainer.train(lanes, trainer.start(keys[1], trainer.initial(keys[0], n)), choices.max_iterations)
        parameters, lanes = _second_phase(choices, trainer.parameters(searched.flat), lanes)
        refitted = trainer.train(lanes, trainer.start(keys[2], parameters), choices.refit_iterations, to_the_end=True)
        return _estimates(trainer.parameters(refitted.flat), lanes.known, searched)


def _estimates(parameters: Parameters, known: Masks, searched: TrainingRun) -> list[NetworkEstimate]:
    """One estimate per run, in NumPy; whether and when the search converged is that of the first phase."""
    graphs = np.asarray(known.edges).astype(np.int8)
    targets = _decided(_probabilities(known, parameters)[1])
    trained = parameters.networks, parameters.effect, model.floored(parameters.effect_log_std)
    networks, effect, std = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=float), trained)
    ends = enumerate(zip(searched.over.tolist(), searched.iteration.tolist(), strict=True))
    return [NetworkEstimate(graphs[b], targets[b], at(networks, b), at(effect, b), std[b], *end) for b, end in ends]


def _second_phase(choices: DCDIG, parameters: Parameters, lanes: Lane) -> tuple[Parameters, Lane]:
    """The graph is known now; the targets start afresh, or are known too, as the search left them.

    While the graph is dense its networks predict a variable from its effects too, and target masks that answer to that
    saturate: their gradient vanishes, so that they outlast their reason.
    """
    edges, targets = _probabilities(lanes.known, parameters)
    graphs = np.stack([acyclic_above(edge, choices.threshold) for edge in np.asarray(edges)])
    known = Masks(jnp.asarray(graphs, jnp.float32), lanes.known.targets)
    if choices.fresh_targets:
        parameters = parameters._replace(target_logit=jnp.zeros_like(parameters.target_logit))
    else:
        known = known._replace(targets=jnp.asarray(_decided(targets), jnp.float32))
    return parameters, lanes._replace(known=known)


def acyclic_above(probability: Float[np.ndarray, "d d"], threshold: float) -> Int8[np.ndarray, "d d"]:
    """Edges of a probability above the threshold, which is raised from edge to edge until no cycle is left.

    >>> acyclic_above(np.array([[0.0, 0.9, 0.2], [0.8, 0.0, 0.7], [0.0, 0.0, 0.0]]), 0.5).tolist()
    [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    """
    levels = np.concatenate([[threshold], np.sort(probability[probability > threshold])])
    # Fewer edges never make a cycle, so the first acyclic level is found by bisection; the last one has no edge.
    first = bisect_left(levels, True, key=lambda level: bool(is_acyclic(probability > level)))
    return (probability > levels[first]).astype(np.int8)


_probabilities = eqx.filter_jit(Masks.probabilities)


def _decided(probability: Float[Array, "B M d"]) -> Int8[np.ndarray, "B M d"]:
    return (np.asarray(probability) > 0.5).astype(np.int8)


def _stacked(parts: Sequence[Part], n_contexts: int) -> ContextRows:
    # An observational row (context 0) belongs to no column, so that no target mask reaches it.
    one_hot = np.stack([context[:, None] == np.arange(1, n_contexts + 1) for _, context in parts])
    return ContextRows(jnp.asarray(np.stack([x for x, _ in parts]), jnp.float32), jnp.asarray(one_hot, jnp.float32))


def _copies(array: np.ndarray, n: int) -> Float[Array, "B a d"]:
    return jnp.asarray(np.tile(array, (n, 1, 1)), jnp.float32)
