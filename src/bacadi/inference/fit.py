"""`fit`: from data and a model to the posterior."""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bacadi.data.context import ContextData
from bacadi.errors import ConfigError
from bacadi.graph.acyclicity import is_acyclic
from bacadi.inference.checkpoint import Checkpoint
from bacadi.inference.configuration import configuration
from bacadi.inference.exact import Exact
from bacadi.inference.loop import Finished, run
from bacadi.inference.mcmc import MCMC
from bacadi.inference.readings import Discrete
from bacadi.inference.svgd import SVGD, Problem
from bacadi.model.effect import HardGaussian
from bacadi.model.knowledge import Knowledge, Labels
from bacadi.model.latent import Particle, limit_graph
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import AbstractMechanism
from bacadi.model.model import Model
from bacadi.model.noise import InferredNoise
from bacadi.posterior.draws import Parameter
from bacadi.posterior.posterior import Posterior, Weighting


@dataclass(frozen=True)
class Monitor:
    """Who hears of a running fit and where it keeps its checkpoint; both are optional."""

    report: Callable[[Any], None] | None = None
    checkpoint: Path | None = None
    checkpoint_seconds: float = 60.0


Method = SVGD | MCMC | Exact


def fit(
    data: ContextData,
    model: Model | None = None,
    method: Method | None = None,
    *,
    seed: int = 0,
    known_targets: Float[np.ndarray, "M d"] | None = None,
    knowledge: Knowledge | None = None,
    monitor: Monitor | None = None,
) -> Posterior:
    """The posterior of graph, targets and parameters given the data.

    Without a model: the paper's linear one for SVGD; otherwise linear mechanisms and hard effects with noise,
    intercept, means and effect noise inferred and priors in the own unit of each column. Without a method: MCMC on the
    collapsed posterior where the model has closed-form evidence, SVGD otherwise. `known_targets` (contexts x variables)
    is 1 for a known target, 0 for a variable known to be none and NaN for what is to be inferred; `knowledge` holds
    more of the kind. Equal arguments give equal posteriors, bit for bit on one machine.

    >>> from bacadi.simulate import SyntheticSpec, simulate
    >>> data = simulate(SyntheticSpec(n_variables=5), seed=0).data
    >>> posterior = fit(data, method=MCMC(n_draws=20, n_sweeps=20))
    >>> posterior.edge_probabilities().shape
    (5, 5)
    """
    if data.n_rows == 0:
        raise ConfigError("There are no rows to learn from; give data with at least one row.")
    monitor = monitor or Monitor()
    model = model or (Model() if isinstance(method, SVGD) else default_model())
    method = method or default_method(model)
    begin = time.monotonic()
    known = _known(data, known_targets, knowledge)
    if isinstance(method, SVGD):
        posterior = _fit_svgd(data, model, method, seed, known, monitor)
    else:
        posterior = _fit_collapsed(data, model, method, seed, known, monitor)
    attrs = {
        "method": type(method).__name__.lower(),
        "seed": seed,
        "configuration": {"model": configuration(model), "method": configuration(method)},
        "wall_time": time.monotonic() - begin,
    }
    return replace(posterior, attrs=posterior.attrs | attrs)


def default_model() -> Model:
    """Linear mechanisms with everything inferred, for a user who knows nothing of the scale of the data."""
    return Model(
        mechanism=LinearGaussian(noise=InferredNoise(1.0, 0.1), weight_prior_std=5.0, intercept_prior_std=10.0),
        effect=HardGaussian(noise=InferredNoise(1.0, 0.5)),
        own_units=True,
    )


def default_method(model: Model) -> Method:
    """MCMC where the model has closed-form evidence, SVGD otherwise."""
    probe = ContextData(np.zeros((2, 1)), np.array([0, 1]), ("x",), ("k",), "obs")
    try:
        model.mechanism.evidence(probe, model.effect.states(probe))
        model.graph_prior.edge_log_odds(2)
    except ConfigError:
        return SVGD()
    return MCMC()


def _known(data: ContextData, known_targets: Float[np.ndarray, "M d"] | None, knowledge: Knowledge | None) -> Knowledge:
    labels = Labels(data.variables, data.contexts)
    return (knowledge or Knowledge.none(data.n_variables, data.n_contexts, labels)).known_targets(known_targets)


def _fit_collapsed(
    data: ContextData, model: Model, method: MCMC | Exact, seed: int, known: Knowledge, monitor: Monitor
) -> Posterior:
    # Compiled code is loaded only where it is needed.
    from bacadi.inference.collapsed_fit import Collapse, fit_exact, fit_mcmc

    if isinstance(method, Exact):
        return fit_exact(Collapse.of(model, data, known, None), data, method, seed)
    collapse = Collapse.of(model, data, known, method.max_parents)
    counts = np.zeros(0) if known.target_count_log is None else known.target_count_log
    arrays = (known.edge_log_odds, known.target_log_odds, counts)
    checkpoint = _checkpoint(monitor, [model, method, seed, known.max_parents], (data.x, data.context, *arrays))
    return fit_mcmc(collapse, data, method, seed, monitor.report, checkpoint)


def _fit_svgd(
    data: ContextData, model: Model, method: SVGD, seed: int, known: Knowledge, monitor: Monitor
) -> Posterior:
    known_targets = np.where(np.isinf(known.target_log_odds), known.target_log_odds > 0, np.nan)
    if known.edge_log_odds.any() or known.max_parents is not None or known.target_count_log is not None:
        raise ConfigError(
            "SVGD knows nothing of forbidden, required or likely edges, limits of parents and numbers of targets; "
            "use method mcmc or exact, or leave this knowledge out."
        )
    if np.isfinite(known.target_log_odds[known.target_log_odds != 0]).any():
        raise ConfigError("SVGD takes known targets, not likely ones; use method mcmc or exact.")
    if model.own_units:
        data = data.in_own_units()
    with jax.enable_x64(method.double):
        dtype = jnp.dtype("float64" if method.double else "float32")
        problem = Problem(method, model, model.prepare(data, known_targets, dtype), jax.random.key(seed))
        arrays = (data.x, data.context, np.asarray(problem.data.known_targets))
        finished = run(problem, monitor.report, _checkpoint(monitor, [model, method, seed], arrays))
        return to_posterior(problem, finished, data, {})


def to_posterior(problem: Problem, finished: Finished, data: ContextData, attrs: dict) -> Posterior:
    """Read the particles as weighted draws: one chain, or one chain a particle where a particle stands for several."""
    discrete, (values, dims) = _read(problem, finished), _stacked_values(problem.model, finished.state.particles)
    n_draws = discrete.log_joint.shape[1]
    values = {name: jnp.repeat(leaf[:, None], n_draws, axis=1) for name, leaf in values.items()}
    weighting: Weighting = partial(_by_particle, problem.svgd.weighting)
    if n_draws == 1:  # particles are the draws of one chain
        discrete, values = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), (discrete, values))
        weighting = problem.svgd.weighting
    return Posterior.from_draws(
        data,
        np.asarray(discrete.graphs).astype(np.int8),
        np.asarray(discrete.targets).astype(np.int8),
        np.asarray(discrete.log_joint, float),
        weighting,
        parameters={name: Parameter(np.asarray(leaf), dims[name]) for name, leaf in values.items()},
        sample_stats=_statistics(finished),
        constant_data={"known_target": Parameter(np.asarray(problem.data.known_targets), ("context", "variable"))},
        attrs={"n_cyclic_particles": _cyclic_particles(finished)} | attrs,
    )


def _read(problem: Problem, finished: Finished) -> Discrete:
    svgd, step = problem.svgd, finished.state.step
    keys = jax.random.split(jax.random.fold_in(problem.key, svgd.n_steps + 1), svgd.n_particles)
    return _read_all(problem, keys, finished.state.particles, jnp.asarray(svgd.alpha(step)))


@eqx.filter_jit
def _read_all(problem: Problem, keys: Array, particles: Particle, alpha: Array) -> Discrete:
    pair = (problem.model, problem.data)
    # One particle at a time, as in a step: a reading may weigh as many samples as a score.
    return jax.lax.map(lambda item: problem.svgd.reading(item[0], item[1], alpha, pair), (keys, particles))


def _stacked_values(model: Model, particles: Particle) -> tuple[dict[str, Array], dict[str, tuple[str, ...]]]:
    """Values of Θ and Θ_I under their names, particles as the first axis, and the names of the other axes."""
    dims: dict[str, tuple[str, ...]] = {}

    def values(particle: Particle) -> dict[str, Array]:
        mechanism = model.mechanism
        named = mechanism.named(particle.theta) if isinstance(mechanism, AbstractMechanism) else {}
        named = named | model.effect.named(particle.theta_int, mechanism)
        dims.update({name: item.dims for name, item in named.items()})
        return {name: item.values for name, item in named.items()}

    return jax.vmap(values)(particles), dims


def _by_particle(weighting: Weighting, log_p: Float[np.ndarray, "L n"]) -> Float[np.ndarray, "L n"]:
    """Log weights of several draws a particle: particles by `weighting` of their mean log posterior, the draws of a
    particle alike, for they follow p(G, I | Ω, D) already. Draws that are left out (log_p = -∞) count nowhere."""
    kept = np.isfinite(log_p)
    n = kept.sum(axis=1, keepdims=True)
    mean = np.where(kept, log_p, 0.0).sum(axis=1, keepdims=True) / np.maximum(n, 1)
    particle = weighting(np.where(n > 0, mean, -np.inf))
    return np.where(kept, particle - np.log(np.maximum(n, 1)), -np.inf)


def _cyclic_particles(finished: Finished) -> int:
    """How many particles stand for a cyclic graph as α → ∞."""
    limits = np.asarray(jax.vmap(limit_graph)(finished.state.particles.z))
    return int((~is_acyclic(limits)).sum())


def _statistics(finished: Finished) -> dict[str, Parameter]:
    log_posterior, expected, limit = (np.asarray(values) for values in finished.trace)
    return {
        "energy_trace": Parameter(-log_posterior, ("step", "particle")),
        "expected_acyclicity_trace": Parameter(expected, ("step", "particle")),
        "acyclic_trace": Parameter(limit == 0, ("step", "particle")),
    }


def _checkpoint(monitor: Monitor, choices: list, arrays: tuple[np.ndarray, ...]) -> Checkpoint | None:
    """Where the run keeps its state, recognised by its choices and data."""
    if monitor.checkpoint is None:
        return None
    digest = hashlib.sha256()
    digest.update(json.dumps(configuration(choices)).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return Checkpoint(monitor.checkpoint, digest.hexdigest(), monitor.checkpoint_seconds)
