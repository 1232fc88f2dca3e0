"""Stein variational gradient descent over particles Ω = (Z, Γ, Θ, Θ_I): Algorithm 1 of the paper.

The run of SVGD around its compiled chunks: progress, traces, guard against non-finite values, checkpoints.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key, PyTree

from bacadi.errors import InferenceError
from bacadi.inference.checkpoint import Checkpoint
from bacadi.inference.svgd.estimators import AbstractEstimator, AbstractReading, FiniteReading, RelaxedEstimator
from bacadi.inference.svgd.kernel import AbstractKernel, AdditiveRBF
from bacadi.model.model import Model, ModelData
from bacadi.posterior import weights
from bacadi.relaxed.latent import (
    AbstractExpectedAcyclicity,
    AcyclicityOfProbs,
    Particle,
    acyclicity,
    edge_probs,
    limit_graph,
)

Schedule = Callable[[Int[Array, ""] | int], Float[Array, ""] | float]
CHUNK = 64
"""Most steps that one call of `advance` takes, so that progress, guard and checkpoint get their turn."""


class Ramp(eqx.Module):
    """The paper's annealing schedule: slope · t."""

    slope: float

    def __call__(self, step: Int[Array, ""] | int) -> Float[Array, ""] | float:
        return self.slope * step


@lru_cache
def rmsprop(learning_rate: float) -> optax.GradientTransformation:
    """RMSprop as the authors use it (decay .9, ε inside the root); one object per rate, so nothing recompiles."""
    return optax.rmsprop(learning_rate, decay=0.9, eps=1e-8, eps_in_sqrt=True)


@dataclass(frozen=True)
class Tempered:
    """Weights flattened to p^(1/T), T ≥ 1 the smallest at which as many draws count as `share` of the particles.

    Draws count by their effective number 1 / Σ w², whether a particle stands for one of them or for many.

    >>> np.exp(Tempered(0.5)(np.log([[1.0, 1.0], [1.0, 1.0]]))).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    """

    share: float = 0.5

    def __call__(self, log_p: Float[np.ndarray, "L S"]) -> Float[np.ndarray, "L S"]:
        kept = np.isfinite(log_p)
        if not kept.any():
            return weights.posterior(log_p)  # which says so
        fraction = self.share * kept.any(axis=1).sum() / kept.sum()
        return weights.tempered(log_p, weights.pick_temperature(log_p, fraction))


class SVGD(eqx.Module):
    """All choices of the inference; the defaults are the paper's and, where it gives none, those that measured best
    (docs/developer/svgd.md).

    `alpha` and `beta` are schedules step → value (any optax schedule will do), `optimizer` any optax optimiser,
    `reading` tells which graphs and targets a particle stands for, `weighting` (`Tempered` or one of
    `bacadi.posterior.weights`) how they are weighted by the unnormalised posterior. With `collapsed`, and where the
    model has closed-form evidence, that is p(G, I | D) with Θ and Θ_I integrated out, and `target_sweeps` Gibbs sweeps
    draw the targets anew from p(I | G, D) (0: the particle's stay); else it is the density at the particle. `double`
    computes in float64.
    """

    n_particles: int = 20
    n_steps: int = 2000
    estimator: AbstractEstimator = RelaxedEstimator()
    kernel: AbstractKernel = AdditiveRBF()
    alpha: Schedule = Ramp(0.01)
    beta: Schedule = Ramp(2.0)
    expected_acyclicity: AbstractExpectedAcyclicity = AcyclicityOfProbs()
    optimizer: optax.GradientTransformation = eqx.field(static=True, default=rmsprop(0.01))
    latent_dim: int | None = None
    reading: AbstractReading = FiniteReading()
    weighting: Callable = eqx.field(static=True, default=Tempered())
    collapsed: bool = True
    target_sweeps: int = 3
    double: bool = False


class Problem(NamedTuple):
    """What stays the same from step to step."""

    svgd: SVGD
    model: Model
    data: ModelData
    key: Key[Array, ""]


class State(NamedTuple):
    """What the next step needs. `bad_block` is the block that first went non-finite, -1 while all is well; `memory`
    is what the estimator keeps of each particle."""

    particles: Particle
    optimizer: PyTree
    step: Int[Array, ""]
    bad_block: Int[Array, ""]
    memory: PyTree


class Info(NamedTuple):
    """What a person wants to see of a step: log posterior estimate, E[h], h of the limit graphs, per particle."""

    log_posterior: Float[Array, "*T L"]
    expected_acyclicity: Float[Array, "*T L"]
    limit_acyclicity: Float[Array, "*T L"]


def init(problem: Problem) -> State:
    """Particles around the prior, by the key of the problem alone."""
    keys = jax.random.split(jax.random.fold_in(problem.key, 0), problem.svgd.n_particles)
    model, data, svgd = problem.model, problem.data, problem.svgd
    particles = jax.vmap(lambda key: model.init(key, data, svgd.latent_dim))(keys)
    start = partial(svgd.estimator.start, alpha=svgd.alpha(0), problem=(model, data))
    memory = jax.vmap(lambda key, particle: start(jax.random.fold_in(key, 1), particle))(keys, particles)
    zero, fine = jnp.zeros((), jnp.int32), jnp.full((), -1, jnp.int32)
    return State(particles, svgd.optimizer.init(particles), zero, fine, memory)


def score(
    key: Key[Array, ""], particle: Particle, memory: PyTree, step: Int[Array, ""], problem: Problem
) -> tuple[Particle, Info, PyTree]:
    """∇ log p(Ω | D) of one particle: the priors of Eqs. (7) and (9) and the estimated gradient of log E[Ψ]."""
    svgd, model, data, _ = problem
    alpha, beta = svgd.alpha(step), svgd.beta(step)
    key_psi, key_acyclic = jax.random.split(key)

    def log_prior(z: Array, gamma: Array) -> tuple[Float[Array, ""], Float[Array, ""]]:
        expected = svgd.expected_acyclicity(key_acyclic, z, alpha)
        log_p = model.latent_prior.log_prob(z) + model.graph_prior.log_prob(edge_probs(z, alpha))
        return log_p - beta * expected + model.target_prior.log_prob(gamma, alpha), expected

    (log_p, expected), (grad_z, grad_gamma) = jax.value_and_grad(log_prior, argnums=(0, 1), has_aux=True)(
        particle.z, particle.gamma
    )
    (log_psi, grad), memory = svgd.estimator.update(key_psi, memory, particle, alpha, (model, data))
    grad = grad._replace(z=grad.z + grad_z, gamma=grad.gamma + grad_gamma)
    limit = acyclicity(limit_graph(particle.z).astype(particle.z.dtype))
    return grad, Info(log_p + log_psi, expected, limit), memory


def step(key: Key[Array, ""], state: State, problem: Problem) -> tuple[State, Info]:
    """Move all particles once. A step that would go non-finite is not taken, and the state remembers why."""
    svgd = problem.svgd
    keys = jax.random.split(key, svgd.n_particles)
    # One particle at a time keeps the samples of a particle in cache; the products are large enough by themselves.
    scores, info, memory = jax.lax.map(
        lambda item: score(item[0], item[1], item[2], state.step, problem), (keys, state.particles, state.memory)
    )
    direction = svgd.kernel.stein_direction(state.particles, scores)
    updates, optimizer = svgd.optimizer.update(jax.tree.map(jnp.negative, direction), state.optimizer, state.particles)
    particles = optax.apply_updates(state.particles, updates)
    moved = State(particles, optimizer, state.step + 1, state.bad_block, memory)
    bad = _first_bad_block(moved.particles)
    kept = jax.tree.map(lambda new, old: jnp.where(bad < 0, new, old), moved, state)
    return kept._replace(bad_block=bad), info


def _first_bad_block(particles: Particle) -> Int[Array, ""]:
    finite = [
        jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(block)] or [jnp.asarray(True)]))
        for block in particles
    ]
    bad = ~jnp.stack(finite)
    return jnp.where(jnp.any(bad), jnp.argmax(bad), -1).astype(jnp.int32)


@eqx.filter_jit(donate="all-except-first")
def advance(problem: Problem, state: State, until: Int[Array, ""]) -> tuple[State, Info]:
    """Steps from `state.step` to `until`, at most `CHUNK` of them; stops where a step went non-finite.

    The number of steps is data, not shape: one compilation serves every chunk, whole or broken, so that an
    interrupted and resumed run takes the same steps in the same program as an uninterrupted one. The key of a
    step depends on its number alone.
    """
    start, n = state.step, problem.svgd.n_particles
    trace = Info(*(jnp.zeros((CHUNK, n), problem.data.dtype) for _ in Info._fields))

    def unfinished(carry: tuple[State, Info]) -> Array:
        state, _ = carry
        return (state.step < until) & (state.step < start + CHUNK) & (state.bad_block < 0)

    def body(carry: tuple[State, Info]) -> tuple[State, Info]:
        state, trace = carry
        key = jax.random.fold_in(problem.key, state.step + 1)
        new, info = step(key, state, problem)
        return new, jax.tree.map(lambda buffer, value: buffer.at[state.step - start].set(value), trace, info)

    return jax.lax.while_loop(unfinished, body, (state, trace))


class Progress(NamedTuple):
    """What a person hears of a running fit."""

    step: int
    total: int
    log_posterior: float
    acyclic: int
    seconds: float


Report = Callable[[Progress], None]


class Finished(NamedTuple):
    """The last state and the trace of every step (arrays [step, particle])."""

    state: State
    trace: Info


def run(problem: Problem, report: Report | None = None, checkpoint: Checkpoint | None = None) -> Finished:
    """All steps, from the checkpoint where there is one."""
    state, trace = _start(problem, checkpoint)
    total, begin, saved = problem.svgd.n_steps, time.monotonic(), time.monotonic()
    n = CHUNK // 8
    try:
        while int(state.step) < total:
            done, chunk_begin = int(state.step), time.monotonic()
            until = min(done + n, total)
            state, info = advance(problem, state, jnp.asarray(until, jnp.int32))
            reached = int(state.step)
            _record(trace, info, done, reached)
            if int(state.bad_block) >= 0:
                _refuse(problem, state, checkpoint, trace)
            # About a second a chunk: often enough for a person, seldom enough to cost nothing.
            n = int(np.clip(n / max(time.monotonic() - chunk_begin, 1e-3), 1, CHUNK))
            if report is not None:
                report(_progress(reached, total, trace, time.monotonic() - begin))
            if checkpoint is not None and time.monotonic() - saved > checkpoint.seconds:
                checkpoint.save((state, trace))
                saved = time.monotonic()
    except KeyboardInterrupt:
        # `advance` donates its input, so an interrupt inside it may leave only the last saved state.
        if checkpoint is not None and not any(leaf.is_deleted() for leaf in jax.tree.leaves(state)):
            checkpoint.save((state, trace))
        raise
    return Finished(state, trace)


def _start(problem: Problem, checkpoint: Checkpoint | None) -> tuple[State, Any]:
    state, svgd = init(problem), problem.svgd
    empty: Any = np.full((svgd.n_steps, svgd.n_particles), np.nan)
    trace = Info(*(empty.copy() for _ in Info._fields))
    saved = None if checkpoint is None else checkpoint.load((state, trace))
    if saved is None:
        return state, trace
    return jax.tree.map(lambda new, like: jnp.asarray(new, like.dtype), saved[0], state), saved[1]


def _record(trace: Info, info: Info, start: int, stop: int) -> None:
    for rows, buffer in zip(trace, info, strict=True):
        rows[start:stop] = np.asarray(buffer)[: stop - start]


def _progress(step: int, total: int, trace: Info, seconds: float) -> Progress:
    last = step - 1
    acyclic = int((trace.limit_acyclicity[last] == 0).sum())
    return Progress(step, total, float(trace.log_posterior[last].mean()), acyclic, seconds)


def _refuse(problem: Problem, state: State, checkpoint: Checkpoint | None, trace: Info) -> None:
    block, step = Particle._fields[int(state.bad_block)], int(state.step)
    kept = ""
    if checkpoint is not None:
        checkpoint.save((state._replace(bad_block=jnp.full((), -1, jnp.int32)), trace))
        kept = f"; the state before it is kept in {checkpoint.path}"
    raise InferenceError(
        f"Step {step + 1} of {problem.svgd.n_steps} gave non-finite values in block '{block}'{kept}: "
        "standardise the data, lower the learning rate or slow the annealing of alpha and beta."
    )
