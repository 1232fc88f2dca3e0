"""Do a few causes have many of the effects? What an open prior of graphs (`AutoGraphPrior`) becomes.

Graphs of hubs and graphs whose edges are spread evenly are told apart by two short runs of one ladder of chains, one
under each prior p(G | π), π a causal order. A structure that was found under one prior says little of the other: where
the data leave much open, hubs are not seen until the prior looks for them. Compared are the means over the draws of

    log p(D, S | G) + log p(G | π),

for even edges with the density that the graph itself has, so that hubs are no way to say that edges are few. Evidence
that takes milliseconds is replaced by its approximation.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from jaxtyping import Int8

from bacadi.data.contexts import ContextData
from bacadi.evidence.collapsed import CollapsedPosterior, never
from bacadi.evidence.compiled import ONE_THREAD
from bacadi.evidence.reading import collapse
from bacadi.inference.completion import searched
from bacadi.inference.mcmc.ladder import Replica, compiled_target, tables_of
from bacadi.inference.mcmc.method import MCMC
from bacadi.inference.mcmc.run import START_TEMPERATURE
from bacadi.inference.mcmc.start import Structure
from bacadi.inference.method import Problem
from bacadi.model.priors import AutoGraphPrior, ErdosRenyi

FEWEST = 8  # variables: among fewer no cause has so many effects that it tells
MOST = 200  # variables up to which chains are run; with more, a structure found under one prior has long decided
SWEEPS = 60  # of a run, of which the second half counts
CLEARLY = 5.0  # nats by which hubs have to explain the data better: as likely beforehand as 1 in 150


def gain(
    problem: Problem, even: CollapsedPosterior, start: Structure | None = None, over: Callable[[], bool] = never
) -> float:
    """By how many nats a prior of hubs explains the data better; NaN where that cannot be told.

    `even` is the collapsed posterior of the problem, whose open prior is read as even edges.
    """
    model, data = problem.model, problem.standardized
    prior = model.graph_prior
    assert isinstance(prior, AutoGraphPrior)
    if data.n_variables < FEWEST:
        return math.nan
    if tables_of(even.evidence) is None or over():
        return math.nan
    cheap = even.evidence.approximation or even.evidence
    with_hubs = collapse(model.replace(graph_prior=prior.hubs), data, problem.scaled_knowledge)
    both = [replace(one, evidence=cheap) for one in (even, with_hubs)]
    if start is None:
        start = searched(np.random.default_rng(0), both[0], data, over=over)
    with ThreadPoolExecutor(2) as pool:
        of_even, of_hubs = pool.map(lambda one: _draws(one, data, start, over), both)
    if over():
        return math.nan
    found = np.mean([rest + prior.hubs.log_prob_along_order(graph) for graph, rest in of_hubs])
    return float(found - np.mean([rest + _log_prob_of_density(graph) for graph, rest in of_even]))


def _draws(
    collapsed: CollapsedPosterior, data: ContextData, start: Structure, over: Callable[[], bool]
) -> list[tuple[Int8[np.ndarray, "d d"], float]]:
    """Graphs of a short run and log p(G, S | D) without the prior of the graph; the start where variables are many."""
    d, method = data.n_variables, MCMC(n_sweeps=SWEEPS)
    plan, prior = method.plan(d, costly=False), collapsed.prior
    target = compiled_target(collapsed, data, method.weights)
    replica = Replica.at(collapsed, target, [start] * plan.n_levels, np.random.default_rng(0))
    replica.heat(START_TEMPERATURE)
    draws = []
    with ONE_THREAD:
        for sweep in range(1, SWEEPS + 1 if d <= MOST else 1):
            if not over():
                replica.advance(sweep, plan.level_moves(), over)
            if sweep > SWEEPS / 2:
                draws.append(replica.sample())
    return [(graph, log_p - prior.log_prob_ordered(graph)) for graph, _, log_p in draws or [replica.sample()]]


def _log_prob_of_density(graph: Int8[np.ndarray, "d d"]) -> float:
    """log p(G | π) of independent edges that are as many as the graph has."""
    return float(ErdosRenyi(max(int(graph.sum()), 1) / len(graph)).log_prob(graph))
