"""From the particles of SVGD to a `Posterior`: their graphs and targets, what these weigh, and parameters by name."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int8

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError
from bacadi.evidence.collapsed import Collapsed
from bacadi.graph.dag import is_acyclic
from bacadi.inference.mcmc.start import settle
from bacadi.inference.svgd.estimators import AbstractReading, Discrete
from bacadi.inference.svgd.method import Finished, Problem, State
from bacadi.model.knowledge import Knowledge
from bacadi.model.mechanism import AbstractMechanism
from bacadi.model.model import Model, ModelData
from bacadi.posterior.posterior import Posterior, Weighting
from bacadi.relaxed.latent import Particle, limit_graph


class Draws(NamedTuple):
    """What L particles stand for, S structures each, with the log density that weighs them; -∞ for a cyclic graph."""

    graphs: Int8[np.ndarray, "L S d d"]
    targets: Int8[np.ndarray, "L S M d"]
    log_p: Float[np.ndarray, "L S"]


def to_posterior(problem: Problem, finished: Finished, data: ContextData, attrs: dict[str, Any]) -> Posterior:
    """Read the particles as weighted draws: one chain, or one chain a particle where a particle stands for several.

    Under the collapsed posterior (see `SVGD`) every draw has a weight of its own; otherwise the draws of a particle
    share its weight.
    """
    draws, (values, dims) = _read(problem, finished), _stacked_values(problem.model, finished.state.particles)
    collapsed = _collapsed(problem, data) if problem.svgd.collapsed else None
    rule: Weighting = partial(_by_particle, problem.svgd.weighting)
    if collapsed is not None:
        rng, rule = np.random.default_rng(_seed(problem)), problem.svgd.weighting
        draws = collapse_draws(rng, collapsed, draws, problem.svgd.target_sweeps)
    n_draws, weighting = draws.log_p.shape[1], rule
    values = {name: jnp.repeat(leaf[:, None], n_draws, axis=1) for name, leaf in values.items()}
    if n_draws == 1:  # particles are the draws of one chain
        draws, values = jax.tree.map(lambda leaf: np.swapaxes(leaf, 0, 1), (draws, values))
        weighting = _transposed(rule)
    return Posterior.from_draws(
        data,
        *draws,
        weighting,
        parameters={name: Labelled(np.asarray(leaf), dims[name]) for name, leaf in values.items()},
        sample_stats=_statistics(finished),
        constant_data={"known_target": Labelled(np.asarray(problem.data.known_targets), ("context", "node"))},
        attrs={"n_cyclic_particles": _cyclic_particles(finished), "collapsed_weights": collapsed is not None} | attrs,
    )


def collapse_draws(rng: np.random.Generator, collapsed: Collapsed, draws: Draws, n_sweeps: int) -> Draws:
    """The same graphs with targets from p(I | G, D) and log p(G, I | D), parameters and effects integrated out.

    Given the graph, log p(I | D) is a sum over variables. `n_sweeps` Gibbs sweeps over the contexts run from the
    targets of the draw, all variables of all draws at once.
    """
    shape, (m, d) = draws.log_p.shape, draws.targets.shape[-2:]
    acyclic = is_acyclic(draws.graphs)
    graphs, targets = draws.graphs[acyclic], draws.targets[acyclic]
    n = len(graphs)
    parents, states = graphs.swapaxes(1, 2).reshape(n * d, d) > 0, targets.swapaxes(1, 2).reshape(n * d, m)
    columns = _Columns(collapsed, parents, states)
    columns.sweep(rng, n_sweeps)
    redrawn, log_p = draws.targets.copy(), np.full(shape, -np.inf)
    redrawn[acyclic] = columns.states.reshape(n, d, m).swapaxes(1, 2)
    prior = collapsed.prior
    pairs = zip(graphs, redrawn[acyclic], strict=True)
    log_prior = np.array([prior.log_prob_graph(g) + prior.log_prob_states(i) for g, i in pairs])
    log_p[acyclic] = columns.log_p.reshape(n, d).sum(axis=1) + log_prior
    return Draws(draws.graphs, redrawn, log_p)


class _Columns:
    """Columns of draws, variables in turn: parents, states in the contexts and log evidence of each."""

    def __init__(self, collapsed: Collapsed, parents: np.ndarray, states: np.ndarray) -> None:
        self.evidence, d = collapsed.evidence, parents.shape[1]
        self.nodes = np.tile(np.arange(d), len(parents) // d)
        self.parents, self.states = np.ascontiguousarray(parents), np.ascontiguousarray(states)
        with np.errstate(invalid="ignore"):
            log_odds = collapsed.prior.state_log_prior[..., 1] - collapsed.prior.state_log_prior[..., 0]
        self.log_odds = log_odds[:, self.nodes]
        self.log_p = self._evidence(self.states)

    def _evidence(self, states: np.ndarray) -> Float[np.ndarray, " B"]:
        return self.evidence.log_evidences(self.nodes, self.parents, states)

    def sweep(self, rng: np.random.Generator, n_sweeps: int) -> None:
        for k in np.tile(np.arange(self.states.shape[1]), n_sweeps):
            flipped = self.states.copy()
            flipped[:, k] ^= 1
            other = self._evidence(flipped)
            gain = np.where(flipped[:, k] > 0, other - self.log_p, self.log_p - other)
            target = self.log_odds[k] + gain + rng.logistic(size=len(gain)) > 0
            changed = target != (self.states[:, k] > 0)
            self.states[:, k] = target
            self.log_p = np.where(changed, other, self.log_p)


def _collapsed(problem: Problem, data: ContextData) -> Collapsed | None:
    """The collapsed reading of the model with what is known of targets, or None where there is none."""
    known = Knowledge.none(data.n_variables, data.n_contexts).known_targets(
        np.asarray(problem.data.known_targets, float)
    )
    try:
        return settle(problem.model.explicit().collapse(data, known), data)
    except ConfigError:
        return None


def _seed(problem: Problem) -> list[int]:
    """The key of the problem as a seed, so that equal fits stay equal."""
    return [*np.asarray(jax.random.key_data(problem.key)).ravel().tolist(), problem.svgd.n_steps]


def _read(problem: Problem, finished: Finished) -> Draws:
    svgd, step = problem.svgd, finished.state.step
    keys = jax.random.split(jax.random.fold_in(problem.key, svgd.n_steps + 1), svgd.n_particles)
    pair, alpha = (problem.model, problem.data), jnp.asarray(svgd.alpha(step))
    discrete = _read_all(svgd.reading, pair, keys, finished.state, alpha)
    graphs, targets = (np.asarray(leaf).astype(np.int8) for leaf in (discrete.graphs, discrete.targets))
    return Draws(graphs, targets, np.asarray(discrete.log_joint, float))


@eqx.filter_jit
def _read_all(
    reading: AbstractReading, pair: tuple[Model, ModelData], keys: Array, state: State, alpha: Array
) -> Discrete:
    # One particle at a time, as in a step: a reading may weigh as many samples as a score.
    items = (keys, state.memory, state.particles)
    return jax.lax.map(lambda item: reading.read(item[0], item[1], item[2], alpha, pair), items)


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


def _transposed(rule: Weighting) -> Weighting:
    """The rule for an array [draw, particle]."""
    return lambda log_p: rule(log_p.T).T


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


def _statistics(finished: Finished) -> dict[str, Labelled]:
    log_posterior, expected, limit = (np.asarray(values) for values in finished.trace)
    return {
        "energy_trace": Labelled(-log_posterior, ("step", "particle")),
        "expected_acyclicity_trace": Labelled(expected, ("step", "particle")),
        "acyclic_trace": Labelled(limit == 0, ("step", "particle")),
    }
