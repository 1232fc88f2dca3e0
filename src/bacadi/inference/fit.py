"""`fit`: from data and a model to the posterior."""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError
from bacadi.inference.checkpoint import Checkpoint
from bacadi.inference.configuration import configuration
from bacadi.inference.exact import Exact
from bacadi.inference.mcmc.method import MCMC
from bacadi.inference.svgd.method import SVGD, Problem, run
from bacadi.inference.svgd.particles import to_posterior
from bacadi.model.effect import HardGaussian
from bacadi.model.knowledge import Knowledge, Labels
from bacadi.model.linear import LinearGaussian
from bacadi.model.model import Model
from bacadi.model.noise import InferredNoise
from bacadi.posterior.posterior import Posterior


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
    from bacadi.inference.collapsed import Collapse, fit_exact, fit_mcmc

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
        data = data.standardized_within()
    with jax.enable_x64(method.double):
        dtype = jnp.dtype("float64" if method.double else "float32")
        problem = Problem(method, model, model.prepare(data, known_targets, dtype), jax.random.key(seed))
        arrays = (data.x, data.context, np.asarray(problem.data.known_targets))
        finished = run(problem, monitor.report, _checkpoint(monitor, [model, method, seed], arrays))
        return to_posterior(problem, finished, data, {})


def _checkpoint(monitor: Monitor, choices: list, arrays: tuple[np.ndarray, ...]) -> Checkpoint | None:
    """Where the run keeps its state, recognised by its choices and data."""
    if monitor.checkpoint is None:
        return None
    digest = hashlib.sha256()
    digest.update(json.dumps(configuration(choices)).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return Checkpoint(monitor.checkpoint, digest.hexdigest(), monitor.checkpoint_seconds)
