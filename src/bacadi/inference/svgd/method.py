"""Stein variational gradient descent over particles Ω = (Z, Γ, Θ, Θ_I): Algorithm 1 of the paper."""

import time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PyTree

from bacadi.config.choices import Choice, option
from bacadi.errors import ConfigError, InferenceError
from bacadi.evidence.reading import PROBE
from bacadi.inference.checkpoint import Checkpoint, checkpoint_of
from bacadi.inference.method import AbstractMethod, Monitor, Problem, Progress
from bacadi.inference.svgd import estimators
from bacadi.inference.svgd.kernel import SteinKernel
from bacadi.inference.svgd.particles import to_posterior
from bacadi.model.effects import HardGaussian
from bacadi.model.model import Model
from bacadi.posterior.posterior import Posterior
from bacadi.posterior.weights import Tempered
from bacadi.relaxed import latent
from bacadi.relaxed.density import Density
from bacadi.relaxed.latent import Particle, RandomKey

CHUNK = 64
"""Most steps that one call of `advance` takes, so that progress, guard and checkpoint get their turn."""


class Ramp(Choice):
    """The paper's annealing schedule: slope · t."""

    slope: float = option(least=0)

    def __call__(self, step: Int[Array, ""] | int) -> Float[Array, ""] | float:
        return self.slope * step


class RMSprop(Choice):
    """RMSprop as the authors use it: decay .9, ε inside the root."""

    learning_rate: float = option(0.01, above=0)

    def build(self) -> optax.GradientTransformation:
        return optax.rmsprop(self.learning_rate, decay=0.9, eps=1e-8, eps_in_sqrt=True)


class Adam(Choice):
    """Adam with optax's defaults."""

    learning_rate: float = option(0.01, above=0)

    def build(self) -> optax.GradientTransformation:
        return optax.adam(self.learning_rate)


class SGD(Choice):
    """Plain gradient descent."""

    learning_rate: float = option(0.01, above=0)

    def build(self) -> optax.GradientTransformation:
        return optax.sgd(self.learning_rate)


class SVGD(AbstractMethod):
    """All choices of the inference; the defaults are the paper's and, where it gives none, those that measured best
    (docs/developer/svgd.md).

    `alpha` and `beta` are schedules step → value (any optax schedule will do), `optimizer` one of `RMSprop`, `Adam`,
    `SGD` or any optax optimiser, `reader` says which graphs and targets a particle is read as, `weighting` (`Tempered`
    or a function of `bacadi.posterior.weights`) how they are weighted by the unnormalised posterior. With `collapsed`,
    and where the model has closed-form evidence, that is p(G, I | D) with Θ and Θ_I integrated out, and `target_sweeps`
    Gibbs sweeps draw the targets anew from p(I | G, D) (0: the particle's stay); else it is the density at the
    particle. `double` computes in float64.
    """

    n_particles: int = option(20, least=1)
    n_steps: int = option(2000, least=1)
    estimator: estimators.AbstractEstimator = estimators.RelaxedEstimator()
    kernel: SteinKernel = SteinKernel()
    alpha: Any = option(Ramp(0.01), names="schedule")
    beta: Any = option(Ramp(2.0), names="schedule")
    expected_acyclicity: latent.AbstractExpectedAcyclicity = latent.AcyclicityOfProbs()
    optimizer: Any = option(RMSprop(0.01), names="optimizer")
    latent_dim: int | None = option(None, least=1)
    reader: estimators.AbstractReader = estimators.FiniteAlpha()
    weighting: Any = option(Tempered(0.5), names="weighting")
    collapsed: bool = True
    target_sweeps: int = option(3, least=0)
    double: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.reader, estimators.FromChains) and not isinstance(self.estimator, estimators.GibbsEstimator):
            raise ConfigError("Particles can be read by their chains only with the estimator 'gibbs'; choose it.")

    takes_effects = True
    results_version = 2

    @property
    def n_results(self) -> int:
        return self.n_particles

    def check(self, problem: Problem) -> None:
        super().check(problem)
        Density.of(problem.model, PROBE)  # refuses a model without a differentiable reading
        if problem.knowledge.effects is not None and not isinstance(problem.model.effect, HardGaussian):
            raise ConfigError(
                'The knowledge gives hard effects and the model has others; give it effect = "hard" or drop them.'
            )

    def fit(self, problem: Problem, monitor: Monitor) -> Posterior:
        """Move particles around the prior to the posterior and read them as weighted draws."""
        data, model = problem.standardized, problem.model
        with jax.enable_x64(self.double):
            dtype = jnp.dtype("float64" if self.double else "float32")
            density = Density.of(model, data, problem.known_targets, dtype, problem.scaled_knowledge.effects)
            descent = Descent(self, density, jax.random.key(problem.seed))
            state, trace = run(descent, monitor, checkpoint_of(monitor, problem, self))
            return to_posterior(descent, state, trace, problem)

    def opening(self, model: Model | None = None) -> str:
        return "compiling, for up to half a minute"


class Descent(NamedTuple):
    """What stays the same from step to step."""

    svgd: SVGD
    density: Density
    key: RandomKey

    @property
    def optimizer(self) -> optax.GradientTransformation:
        """The optax transformation of the method."""
        chosen = self.svgd.optimizer
        return chosen.build() if isinstance(chosen, RMSprop | Adam | SGD) else chosen


class State(NamedTuple):
    """What the next step needs. `bad_block` is the block that first went non-finite, -1 while all is well; `chains`
    is what the estimator keeps of each particle."""

    particles: Particle
    optimizer: PyTree
    step: Int[Array, ""]
    bad_block: Int[Array, ""]
    chains: PyTree


class Info(NamedTuple):
    """What a person wants to see of a step: log posterior estimate, E[h], h of the limit graphs, per particle."""

    log_posterior: Float[Array, "*T L"]
    expected_acyclicity: Float[Array, "*T L"]
    limit_acyclicity: Float[Array, "*T L"]


@eqx.filter_jit(compiler_options={"xla_backend_optimization_level": 0})  # type: ignore[call-overload]
def init(descent: Descent) -> State:
    """Particles around the prior, by the key of the descent alone."""
    svgd, density, key = descent
    keys = jax.random.split(jax.random.fold_in(key, 0), svgd.n_particles)
    particles = jax.vmap(lambda key: density.init(key, svgd.latent_dim))(keys)

    def start(key: RandomKey, particle: Particle) -> PyTree:
        return svgd.estimator.start(jax.random.fold_in(key, 1), particle, svgd.alpha(0), density)

    zero, fine = jnp.zeros((), jnp.int32), jnp.full((), -1, jnp.int32)
    return State(particles, descent.optimizer.init(particles), zero, fine, jax.vmap(start)(keys, particles))


def score(
    key: RandomKey, particle: Particle, chains: PyTree, step: Int[Array, ""], descent: Descent
) -> tuple[Particle, Info, PyTree]:
    """Eq. (12), the score ∇ log p(Ω | D) of one particle: the priors of Eq. (8), p_β(Z), and Eq. (10), p(Γ), and the
    estimated gradient of log E[Ψ]."""
    svgd, density, _ = descent
    model, alpha, beta = density.model, svgd.alpha(step), svgd.beta(step)
    key_psi, key_acyclic = jax.random.split(key)

    def log_prior(z: Array, gamma: Array) -> tuple[Float[Array, ""], Float[Array, ""]]:
        expected = svgd.expected_acyclicity(key_acyclic, z, alpha)
        log_graph = model.graph_prior.log_prob(latent.edge_probs(z, alpha))  # type: ignore[attr-defined]
        log_p = model.latent_prior.log_prob(z) + log_graph
        return log_p - beta * expected + model.target_prior.log_prob(gamma, alpha), expected

    with_grad = jax.value_and_grad(log_prior, argnums=(0, 1), has_aux=True)
    (log_p, expected), (grad_z, grad_gamma) = with_grad(particle.z, particle.gamma)
    log_psi, grad, chains = svgd.estimator(key_psi, particle, chains, alpha, density)
    grad = grad._replace(z=grad.z + grad_z, gamma=grad.gamma + grad_gamma)
    limit = latent.acyclicity(latent.limit_graph(particle.z).astype(particle.z.dtype))
    return grad, Info(log_p + log_psi, expected, limit), chains


def step(key: RandomKey, state: State, descent: Descent) -> tuple[State, Info]:
    """Move all particles once. A step that would go non-finite is not taken, and the state remembers why."""
    svgd = descent.svgd
    keys = jax.random.split(key, svgd.n_particles)
    # One particle at a time keeps the samples of a particle in cache; the products are large enough by themselves.
    items = keys, state.particles, state.chains
    scores, info, chains = jax.lax.map(lambda item: score(item[0], item[1], item[2], state.step, descent), items)
    downhill = jax.tree.map(jnp.negative, svgd.kernel.stein_direction(state.particles, scores))
    updates, optimizer = descent.optimizer.update(downhill, state.optimizer, state.particles)
    particles = optax.apply_updates(state.particles, updates)
    moved = State(particles, optimizer, state.step + 1, state.bad_block, chains)
    bad = jnp.array([sum(jnp.sum(~jnp.isfinite(leaf)) for leaf in jax.tree.leaves(block)) for block in particles]) > 0
    first = jnp.where(jnp.any(bad), jnp.argmax(bad), -1).astype(jnp.int32)
    kept = jax.tree.map(lambda new, old: jnp.where(first < 0, new, old), moved, state)
    return kept._replace(bad_block=first), info


@eqx.filter_jit(donate="all-except-first")
def advance(descent: Descent, state: State, until: Int[Array, ""]) -> tuple[State, Info]:
    """Steps from `state.step` to `until`, at most `CHUNK` of them; stops where a step went non-finite.

    The number of steps is data, not shape: one compilation serves every chunk, whole or broken, so that an
    interrupted and resumed run takes the same steps in the same program as an uninterrupted one. The key of a
    step depends on its number alone.
    """
    start, n = state.step, descent.svgd.n_particles
    trace = Info(*(jnp.zeros((CHUNK, n), descent.density.dtype) for _ in Info._fields))

    def unfinished(carry: tuple[State, Info]) -> Array:
        state, _ = carry
        return (state.step < until) & (state.step < start + CHUNK) & (state.bad_block < 0)

    def body(carry: tuple[State, Info]) -> tuple[State, Info]:
        state, trace = carry
        key = jax.random.fold_in(descent.key, state.step + 1)
        new, info = step(key, state, descent)
        return new, jax.tree.map(lambda buffer, value: buffer.at[state.step - start].set(value), trace, info)

    return jax.lax.while_loop(unfinished, body, (state, trace))


def run(descent: Descent, monitor: Monitor, checkpoint: Checkpoint | None = None) -> tuple[State, Info]:
    """All steps, from the checkpoint where there is one: the last state and the trace of all steps [step, particle]."""
    state, trace = _start(descent, checkpoint)
    total, begin, saved = descent.svgd.n_steps, time.monotonic(), time.monotonic()
    n = CHUNK // 8
    try:
        while int(state.step) < total:
            done, chunk_begin = int(state.step), time.monotonic()
            state, info = advance(descent, state, jnp.asarray(min(done + n, total), jnp.int32))
            for rows, buffer in zip(trace, info, strict=True):
                rows[done : int(state.step)] = np.asarray(buffer)[: int(state.step) - done]
            if int(state.bad_block) >= 0:
                _refuse(descent, state, checkpoint, trace)
            # About a second per chunk: often enough for a person, seldom enough to cost nothing.
            n = int(np.clip(n / max(time.monotonic() - chunk_begin, 1e-3), 1, CHUNK))
            monitor.tell(_progress(int(state.step), total, trace, time.monotonic() - begin))
            if checkpoint is not None and time.monotonic() - saved > checkpoint.seconds:
                checkpoint.save((state, trace))
                saved = time.monotonic()
    except KeyboardInterrupt:
        # `advance` donates its input, so an interrupt inside it may leave only the last saved state.
        if checkpoint is not None and not any(leaf.is_deleted() for leaf in jax.tree.leaves(state)):
            checkpoint.save((state, trace))
        raise
    return state, trace


def _start(descent: Descent, checkpoint: Checkpoint | None) -> tuple[State, Any]:
    state, svgd = init(descent), descent.svgd
    empty: Any = np.full((svgd.n_steps, svgd.n_particles), np.nan)
    trace = Info(*(empty.copy() for _ in Info._fields))
    saved = None if checkpoint is None else checkpoint.load((state, trace))
    if saved is None:
        return state, trace
    step, bad_block = int(saved[0].step), int(saved[0].bad_block)
    finite = all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(saved[0].particles))
    if checkpoint is not None and not (0 <= step <= svgd.n_steps and bad_block == -1 and finite):
        raise checkpoint.refusal("a step is out of range, or a particle is no number")
    return jax.tree.map(lambda new, like: jnp.asarray(new, like.dtype), saved[0], state), saved[1]


def _progress(step: int, total: int, trace: Info, seconds: float) -> Progress:
    log_posterior = float(trace.log_posterior[step - 1].mean())
    acyclic = int((trace.limit_acyclicity[step - 1] == 0).sum())
    note = f"log posterior {log_posterior:.0f}, {acyclic} acyclic"
    return Progress(step, total, seconds, "fitting", note, {"log_posterior": log_posterior, "acyclic": acyclic})


def _refuse(descent: Descent, state: State, checkpoint: Checkpoint | None, trace: Info) -> None:
    block, kept = Particle._fields[int(state.bad_block)], ""
    if checkpoint is not None:
        checkpoint.save((state._replace(bad_block=jnp.full((), -1, jnp.int32)), trace))
        kept = f"; the state before it is kept in {checkpoint.path}"
    raise InferenceError(
        f"Step {int(state.step) + 1} of {descent.svgd.n_steps} gave non-finite values in block '{block}'{kept}: "
        "standardise the data, lower the learning rate or slow the annealing of alpha and beta."
    )
