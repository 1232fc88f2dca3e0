"""`fit`: from data and a model to the posterior, by any method."""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from bacadi.config.codec import encode
from bacadi.config.layers import configuration_table, configure, name_of_method
from bacadi.data.contexts import ContextData
from bacadi.data.imputation import completed
from bacadi.errors import ConfigError
from bacadi.evidence.reading import is_collapsible
from bacadi.inference.collapsed import AbstractCollapsedMethod
from bacadi.inference.completion import complete
from bacadi.inference.mcmc.method import MCMC
from bacadi.inference.method import AbstractMethod, Monitor, Problem
from bacadi.inference.residuals import check_fit
from bacadi.model.integrated import AutoMechanism
from bacadi.model.knowledge import Knowledge, Labels
from bacadi.model.model import Model
from bacadi.posterior.pooling import pooled
from bacadi.posterior.posterior import Posterior

COMPLETIONS = 5
"""How often missing cells are completed; more would change intervals by a few per cent (Rubin 1987)."""

_NUMBERS = ("n_draws", "n_particles", "n_samples")


def fit(
    data: ContextData,
    model: Model | str | None = None,
    method: AbstractMethod | str | None = None,
    *,
    seed: int = 0,
    known_targets: Float[np.ndarray, "M d"] | None = None,
    knowledge: Knowledge | None = None,
    monitor: Monitor | None = None,
    extends: Posterior | None = None,
) -> Posterior:
    """The posterior of graph, targets and parameters given the data; equal arguments give equal posteriors.

    Args:
        data: samples with their contexts, from `from_dataframe`, `from_file` or `from_arrays`. Cells that are missing
            (NaN) are completed several times, and the draws of all completions are pooled.
        model: a `Model`, or the name of a mechanism ("linear", "additive", "nonlinear", "bge") with its preset. Without
            one: the paper's linear model for SVGD; otherwise lines, or curves where these explain the data
            clearly better, and effects of the kind that does, with everything else inferred.
        method: a method, or its name on the command line ("mcmc", "exact", "svgd", "jci-pc", …). Without one: MCMC on
            the collapsed posterior where the model has closed-form evidence, SVGD otherwise.
        seed: makes the run repeatable bit for bit on one machine.
        known_targets: contexts x variables, 1 for a known target, 0 for a variable known not to be one, NaN for what
            is to be inferred.
        knowledge: more of the kind: edges, limits of parents, likely targets and their number.
        monitor: who hears of the progress and where the run keeps its checkpoint.
        extends: an earlier posterior of the same data, model and method (MCMC); the new draws are added to its own.

    >>> from bacadi.inference.mcmc.method import MCMC
    >>> from bacadi.simulate import SyntheticSpec, simulate
    >>> data = simulate(SyntheticSpec(n_variables=5), seed=0).data
    >>> posterior = fit(data, method=MCMC(n_draws=20, n_sweeps=20))
    >>> posterior.edge_probabilities().shape
    (5, 5)
    """
    if not isinstance(data, ContextData):
        raise ConfigError(
            f"data is a {type(data).__name__}; make it with bacadi.from_dataframe(table, context=…, observational=…)."
        )
    model, method = resolve(model, method)
    if data.missing:
        return _fit_completed(data, model, method, seed, known_targets, knowledge, monitor, extends)
    problem = _problem(data, model, knowledge, known_targets, seed, extends)
    method.check(problem)
    monitor = monitor or Monitor()
    problem, chosen = method.settled(problem, monitor)
    posterior = method.fit(problem, monitor)
    # Particles and bootstrap samples are no draws of the posterior: what they leave unexplained may be their own fault.
    checked = check_fit(problem, posterior) if isinstance(method, AbstractCollapsedMethod) else None
    attrs: dict[str, Any] = chosen | {
        "method": name_of_method(method),
        "seed": seed,
        "configuration": configuration_table(problem.model if method.reads_model else None, method),
    }
    if checked is None:
        return replace(posterior, attrs=posterior.attrs | attrs)
    attrs["misfit"] = checked.words
    return replace(posterior, sample_stats=posterior.sample_stats | checked.to_stats(), attrs=posterior.attrs | attrs)


def _fit_completed(
    data: ContextData,
    model: Model,
    method: AbstractMethod,
    seed: int,
    known_targets: Float[np.ndarray, "M d"] | None,
    knowledge: Knowledge | None,
    monitor: Monitor | None,
    extends: Posterior | None,
) -> Posterior:
    """The posteriors of several completions of data with missing cells, pooled; together as many draws as of one.

    A run of several fits keeps no checkpoint, so that one that was interrupted starts over.
    """
    if extends is not None:
        raise ConfigError("A run on completed data cannot be extended; start a new one with more sweeps.")
    share = {name: -(-getattr(method, name) // COMPLETIONS) for name in _NUMBERS if hasattr(method, name)}
    if budget := getattr(method, "time_budget", None):
        share["time_budget"] = budget / COMPLETIONS
    part, watched = method.replace(**share), replace(monitor or Monitor(), checkpoint=None)
    if isinstance(model.mechanism, AutoMechanism):
        model = model.replace(mechanism=model.mechanism.lines)  # cells are completed by lines
    rng = np.random.default_rng(seed)
    problem = _problem(completed(rng, data), model, knowledge, known_targets, seed)
    method.check(problem)
    # What the model leaves open is chosen once, so that all parts are posteriors of one model; not on cells that one
    # Gaussian for all contexts has completed, where hard targets look like shifts, or like slopes that drift.
    if method.reads_model:
        guess = method.settled(problem, watched)[0].model.replace(drift=model.drift, coarsening=model.coarsening)
        problem = replace(problem, data=complete(rng, data, replace(problem, model=guess)))
    problem, chosen = method.settled(problem, watched)
    posteriors = []
    for n in range(COMPLETIONS):
        rng = np.random.default_rng([seed, n])
        complete_data = complete(rng, data, problem) if method.reads_model else completed(rng, data)
        # Time budgets count from when the work began, so only the first part knows of it.
        given = watched if n == 0 else replace(watched, begun=None)
        arguments: dict[str, Any] = {"known_targets": known_targets, "knowledge": knowledge, "monitor": given}
        posteriors.append(fit(complete_data, problem.model, part, seed=seed, **arguments))
    posterior = pooled(posteriors)
    told = f"{data.missing:.1%} of the cells are missing and were completed {COMPLETIONS} times."
    about = {"missing": data.missing, "columns": [*posterior.attrs.get("columns", []), told]}
    about["configuration"] = configuration_table(problem.model if method.reads_model else None, method)
    return replace(posterior, attrs=posterior.attrs | chosen | about)


def _problem(
    data: ContextData,
    model: Model,
    knowledge: Knowledge | None,
    known_targets: Float[np.ndarray, "M d"] | None,
    seed: int,
    extends: Posterior | None = None,
) -> Problem:
    knowledge = knowledge or Knowledge.none(data.n_variables, data.n_contexts, Labels(data.variables, data.contexts))
    return Problem(data, model, knowledge.known_targets(known_targets), seed, extends)


def resolve(model: Model | str | None, method: AbstractMethod | str | None) -> tuple[Model, AbstractMethod]:
    """Model and method as objects: names and what is not given are resolved as on the command line."""
    for thing, kind, noun in ((model, Model, "model"), (method, AbstractMethod, "method")):
        if thing is not None and not isinstance(thing, kind | str):
            raise ConfigError(f"{noun} is a {type(thing).__name__}; give a {kind.__name__} or a name such as 'linear'.")
    if isinstance(model, Model):
        if method is None:
            return model, default_method(model)
        if isinstance(method, AbstractMethod):
            return model, method
        mechanism = encode(model.mechanism)["type"]
        return model, configure(method, flags={"--model": mechanism} if ":" not in mechanism else {}).method
    name = name_of_method(method) if isinstance(method, AbstractMethod) else method or "auto"
    if isinstance(method, AbstractMethod) and ":" in name:
        name = "auto"  # a baseline of the user's own goes with the usual model
    chosen: Any = configure(name, flags={"--model": model} if model is not None else {})
    return chosen.model or Model(), method if isinstance(method, AbstractMethod) else chosen.method


def default_method(model: Model) -> AbstractMethod:
    """MCMC where the model has closed-form evidence, SVGD otherwise."""
    if is_collapsible(model):
        return MCMC()
    from bacadi.inference.svgd.method import SVGD

    return SVGD()
