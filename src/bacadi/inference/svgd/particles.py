"""From the particles of SVGD to a `Posterior`: their graphs and targets, what these weigh, and parameters by name."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int8

from bacadi.data.contexts import Scaling
from bacadi.data.labelled import Labelled
from bacadi.errors import NoClosedForm
from bacadi.evidence.collapsed import CollapsedPosterior
from bacadi.graph.dag import is_acyclic
from bacadi.inference.collapsed import collapsed_problem
from bacadi.inference.method import Problem
from bacadi.inference.svgd.estimators import Discrete
from bacadi.model.mechanism import AbstractMechanism
from bacadi.model.model import Model
from bacadi.model.neural import NeuralGaussian
from bacadi.posterior.posterior import Posterior
from bacadi.relaxed.latent import Particle, limit_graph

if TYPE_CHECKING:
    from bacadi.inference.svgd.method import Descent, Info, State

Weighting = Callable[[np.ndarray], np.ndarray]


class ParticleDraws(NamedTuple):
    """What L particles are read as, S structures each, with the log density that weighs them; -∞ for a cyclic graph."""

    graphs: Int8[np.ndarray, "L S d d"]
    targets: Int8[np.ndarray, "L S M d"]
    log_p: Float[np.ndarray, "L S"]


def to_posterior(descent: "Descent", state: "State", trace: "Info", problem: Problem) -> Posterior:
    """Read the particles as weighted draws: one chain, or one chain per particle where a particle is several draws.

    Under the collapsed posterior (see `SVGD`) every draw has a weight of its own; otherwise the draws of a particle
    share its weight. Parameters are in the units of the data given.
    """
    svgd, draws = descent.svgd, _read(descent, state)
    collapsed = collapsed_posterior(problem) if svgd.collapsed else None
    rule: Weighting = partial(_by_particle, svgd.weighting)
    if collapsed is not None:
        rng = np.random.default_rng([*np.asarray(jax.random.key_data(descent.key)).ravel().tolist(), svgd.n_steps])
        draws, rule = collapse_draws(rng, collapsed, draws, svgd.target_sweeps), svgd.weighting
    parameters = _parameters(descent, state.particles, draws.graphs, problem.scaling)
    one_each = draws.log_p.shape[1] == 1
    if one_each:  # particles are the draws of one chain
        draws = ParticleDraws(*(np.swapaxes(leaf, 0, 1) for leaf in draws))
        parameters = {name: Labelled(part.values.swapaxes(0, 1), part.dims) for name, part in parameters.items()}
    known = Labelled(np.asarray(descent.density.known_targets), ("context", "node"))
    limits = np.asarray(jax.vmap(limit_graph)(state.particles.z))
    attrs = {"n_cyclic_particles": int((~is_acyclic(limits)).sum()), "collapsed_weights": collapsed is not None}
    constants = {"known_target": known} | problem.unit_constants()
    fields: Any = {"parameters": parameters, "sample_stats": _statistics(trace), "constant_data": constants}
    weighting = (lambda log_p: rule(log_p.T).T) if one_each else rule
    return Posterior.from_draws(problem.data, *draws, weighting=weighting, attrs=attrs, **fields)


def collapsed_posterior(problem: Problem) -> CollapsedPosterior | None:
    """The collapsed reading of the Θ that particles have, with what is known of targets; None where there is none."""
    try:
        return collapsed_problem(replace(problem, model=as_particle_model(problem.model)))
    except NoClosedForm:
        return None


def as_particle_model(model: Model) -> Model:
    """The model of the Θ that particles have: the biases of networks give roots a mean of their own."""
    if not isinstance(model.mechanism, NeuralGaussian):
        return model
    return model.replace(mechanism=model.mechanism.replace(intercept=True))


def collapse_draws(
    rng: np.random.Generator, collapsed: CollapsedPosterior, draws: ParticleDraws, n_sweeps: int
) -> ParticleDraws:
    """The same graphs with targets from p(I | G, D) and log p(G, I | D), parameters and effects integrated out.

    Given the graph, log p(I | D) is a sum over variables. `n_sweeps` Gibbs sweeps over the contexts run from the
    targets of the draw, all variables of all draws at once: p(target | rest) has the log odds of the prior plus the
    gain in evidence.
    """
    shape, (m, d) = draws.log_p.shape, draws.targets.shape[-2:]
    acyclic = is_acyclic(draws.graphs)
    graphs, targets = draws.graphs[acyclic], draws.targets[acyclic]
    n, prior = len(graphs), collapsed.prior
    nodes, parents = np.tile(np.arange(d), n), graphs.swapaxes(1, 2).reshape(n * d, d) > 0
    states = np.ascontiguousarray(targets.swapaxes(1, 2).reshape(n * d, m))
    with np.errstate(invalid="ignore"):
        log_odds = (prior.state_log_prior[..., 1] - prior.state_log_prior[..., 0])[:, nodes]
    now = collapsed.evidence.log_evidences(nodes, parents, states)
    for k in np.tile(np.arange(m), n_sweeps):
        flipped = states.copy()
        flipped[:, k] ^= 1
        other = collapsed.evidence.log_evidences(nodes, parents, flipped)
        gain = np.where(flipped[:, k] > 0, other - now, now - other)
        target = log_odds[k] + gain + rng.logistic(size=len(gain)) > 0
        now = np.where(target != (states[:, k] > 0), other, now)
        states[:, k] = target
    redrawn, log_p = draws.targets.copy(), np.full(shape, -np.inf)
    redrawn[acyclic] = states.reshape(n, d, m).swapaxes(1, 2)
    pairs = zip(graphs, redrawn[acyclic], strict=True)
    log_prior = np.array([prior.log_prob_graph(g) + prior.log_prob_states(i) for g, i in pairs])
    log_p[acyclic] = now.reshape(n, d).sum(axis=1) + log_prior
    return ParticleDraws(draws.graphs, redrawn, log_p)


def _read(descent: "Descent", state: "State") -> ParticleDraws:
    svgd = descent.svgd
    keys = jax.random.split(jax.random.fold_in(descent.key, svgd.n_steps + 1), svgd.n_particles)
    discrete = _read_all(descent, keys, state, jnp.asarray(svgd.alpha(state.step)))
    graphs, targets = (np.asarray(leaf).astype(np.int8) for leaf in (discrete.graphs, discrete.targets))
    return ParticleDraws(graphs, targets, np.asarray(discrete.log_joint, float))


# It runs once, and compiling is most of it.
@eqx.filter_jit(compiler_options={"xla_backend_optimization_level": 1})  # type: ignore[call-overload]
def _read_all(descent: "Descent", keys: Array, state: "State", alpha: Array) -> Discrete:
    # One particle at a time, as in a step: a reader may weigh as many samples as a score.
    reader, density, items = descent.svgd.reader, descent.density, (keys, state.particles, state.chains)
    return jax.lax.map(lambda item: reader.read(item[0], item[1], item[2], alpha, density), items)


def _parameters(
    descent: "Descent", particles: Particle, graphs: Int8[np.ndarray, "L S d d"], scaling: Scaling
) -> dict[str, Labelled]:
    """Θ and Θ_I of every draw by name, in original units wherever the mechanism knows how to convert them."""
    mechanism, effect = descent.density.model.mechanism, descent.density.effect
    theta, theta_int = jax.tree.map(np.asarray, (particles.theta, particles.theta_int))

    def labelled(particle: int, graph: np.ndarray) -> dict[str, Labelled]:
        own, other = jax.tree.map(lambda leaf: leaf[particle], (theta, theta_int))
        parts = effect.labelled(effect.rescaled(other, graph, scaling))
        if isinstance(mechanism, AbstractMechanism):
            rescaled = mechanism.rescaled(own, graph, scaling)
            parts = mechanism.labelled(own if rescaled is None else rescaled) | parts
        return parts

    every = [[labelled(number, graph) for graph in of_particle] for number, of_particle in enumerate(graphs)]
    first, dtype = every[0][0], descent.density.dtype
    stacked = {name: np.array([[draw[name].values for draw in row] for row in every], dtype) for name in first}
    return {name: Labelled(values, first[name].dims) for name, values in stacked.items()}


def _by_particle(weighting: Weighting, log_p: Float[np.ndarray, "L n"]) -> Float[np.ndarray, "L n"]:
    """Log weights of several draws per particle: particles by `weighting` of their mean log posterior, the draws of a
    particle equally, for they follow p(G, I | Ω, D) already. Draws that are left out (log_p = -∞) count nowhere."""
    kept = np.isfinite(log_p)
    n = kept.sum(axis=1, keepdims=True)
    mean = np.where(kept, log_p, 0.0).sum(axis=1, keepdims=True) / np.maximum(n, 1)
    particle = weighting(np.where(n > 0, mean, -np.inf))
    return np.where(kept, particle - np.log(np.maximum(n, 1)), -np.inf)


def _statistics(trace: Any) -> dict[str, Labelled]:
    log_posterior, expected, limit = (np.asarray(values) for values in trace)
    traces = {"energy": -log_posterior, "expected_acyclicity": expected, "acyclic": limit == 0}
    return {f"{name}_trace": Labelled(values, ("step", "particle")) for name, values in traces.items()}
