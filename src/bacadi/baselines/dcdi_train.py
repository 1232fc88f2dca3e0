"""Training of DCDI-G: the augmented Lagrangian of Brouillard et al. (2020, appendix on optimisation), B runs at once.

A subproblem (γ and μ fixed) is trained by RMSprop until the Lagrangian of held-out rows no longer falls; then
γ ← γ + μ h, and μ ← 2 μ unless h fell below .9 of what it was. A run is over when a subproblem ends with h at most the
tolerance. All runs advance in one compiled program; one that is over waits for the others.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float32, Float64, Int, Key

from bacadi.baselines.dcdi_model import Known, Parameters, Penalty, Sample, Score, cyclicity, masked_probability
from bacadi.errors import InferenceError

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
