"""The run of SVGD around its compiled chunks: progress, traces, guard against non-finite values, checkpoints."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bacadi.errors import InferenceError
from bacadi.inference.checkpoint import Checkpoint
from bacadi.inference.svgd import CHUNK, Info, Problem, State, advance, init
from bacadi.model.latent import Particle


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
