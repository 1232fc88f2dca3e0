"""The choices of `MCMC`: parallel tempering over graph and states; `run` carries it out."""

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Int

from bacadi.config.choices import Choice, option
from bacadi.data.labelled import Labelled
from bacadi.evidence.collapsed import CollapsedPosterior
from bacadi.inference.checkpoint import checkpoint_of
from bacadi.inference.collapsed import (
    AbstractCollapsedMethod,
    collapsed_so_far,
    drawn_targets,
    flat,
    posterior_fields,
)
from bacadi.inference.conditionals import local_choices, log_odds, most_choices, most_draws
from bacadi.inference.method import STARTING, Monitor, Problem
from bacadi.model.integrated import GaussianProcess
from bacadi.model.model import Model
from bacadi.model.neural import NeuralGaussian
from bacadi.posterior import weights
from bacadi.posterior.posterior import Posterior

if TYPE_CHECKING:
    from bacadi.inference.mcmc.run import Finish
    from bacadi.inference.mcmc.start import Structure

# What diagnostics, tables and the file of a posterior cost (benchmarks/budgets.py).
_SECONDS_PER_PAIR, _SECONDS_PER_BYTE, _LOOK_SECONDS = 2e-5, 1e-8, 0.3
# Draws come from the coldest level, where most moves are refused; it makes so many times the moves of the hottest.
COLD_MOVES, COLD_LEVELS = 8.0, 1.5


class MoveWeights(Choice):
    """How often each move is proposed, relative to the others; the order is that of `moves.MOVES`.

    Networks, which are sampled through an approximation, have ten times the `edge_and_target`.
    """

    add_or_drop: float = option(4.0, above=0)
    reverse: float = option(4.0, least=0)
    swap_parent: float = option(4.0, least=0)
    change_target: float = option(2.0, above=0)
    swap_target: float = option(2.0, least=0)
    edge_and_target: float = option(1.0, least=0)
    toggle_and_column: float = option(0.1, least=0)
    reverse_and_redraw: float = option(0.3, least=0)


class MCMC(AbstractCollapsedMethod):
    """Parallel tempering; None stands for a choice by the number of variables d and the cost of a score.

    A sweep is `moves_per_sweep` moves (2 d, and up to eight times as many at the coldest) at each of `n_levels`
    temperatures (4 + 2.7 √d), then exchanges. `n_sweeps` of each replica include the share `burn_in`, in which the
    spacing of the temperatures and, without `max_temperature`, the hottest of them are adapted. Without `n_sweeps`
    there are as many as it takes: 840, then twice as many whenever the diagnostics find fault with more than one in
    100,000 edges and targets, at most 6720.
    With `time_budget` (seconds) all work, from reading the data to writing the results, ends by then, whatever the
    number of sweeps; the search for starts takes at most a quarter of it, and the burn-in the same share as otherwise.
    The numbers in brackets are those of linear models; `plan` has those of models whose scores take
    milliseconds. Of more than 300 variables and contexts there are fewer draws than `n_draws`, as many as 1.5 GB hold
    with their parameters; the diagnostics look at all.

    >>> MCMC(n_draws=200).n_replicas
    2
    """

    can_extend = True

    n_draws: int = option(1000, least=1)
    n_replicas: int = option(2, least=2)
    n_sweeps: int | None = option(None, least=1)
    burn_in: float = option(0.4, above=0, below=1)
    n_levels: int | None = option(None, least=2)
    max_temperature: float | None = option(None, above=1)
    moves_per_sweep: int | None = option(None, least=1)
    max_parents: int | None = option(None, least=1, none="none")
    time_budget: float | None = option(None, above=0, none="none")
    weights: MoveWeights = MoveWeights()

    def fit(self, problem: Problem, monitor: Monitor) -> Posterior:
        """Draw graphs and states by parallel tempering, then the parameters of each draw."""
        from bacadi.inference.mcmc.run import TemperingRun, pooled
        from bacadi.inference.spread import SpreadRun

        collapsed = collapsed_so_far(problem, self.max_parents)
        checkpoint, finish = checkpoint_of(monitor, problem, self), partial(seconds_to_finish, problem)
        work = collapsed, problem.standardized, self, problem.seed, monitor, checkpoint, finish, problem.extends
        run = TemperingRun(*work) if monitor.machines is None else SpreadRun(problem, monitor.machines, *work)
        draws, collapsed = run.go(), run.collapsed
        if problem.extends is not None:
            draws = pooled(problem.extends, draws)
        found, draws = draws.diagnostics(), draws.thinned()
        graphs, states = draws.graphs, draws.states
        rng = np.random.default_rng(np.random.SeedSequence(problem.seed).spawn(self.n_replicas + 1)[-1])
        data = problem.data
        odds = log_odds(collapsed, flat(graphs), flat(states))
        return Posterior.from_draws(
            data,
            graphs,
            drawn_targets(rng, collapsed.evidence, graphs, states),
            draws.log_posterior,
            weighting=weights.uniform,
            sample_stats=found.to_stats()
            | odds.to_stats()
            | {"acceptance": Labelled(draws.acceptance, ("chain", "move"))},
            attrs={
                "converged": found.converged,
                "warnings": found.words(data.variables, data.contexts),
                "n_sweeps": draws.n_sweeps,
                "n_sweeps_planned": draws.n_planned,
                "n_sweeps_recorded": draws.n_recorded,
            },
            **posterior_fields(rng, problem, collapsed, graphs, states),
        )

    def opening(self, model: Model | None = None) -> str:
        return STARTING if is_compiled(model) else "compiling the sampler, once, for one to two minutes"

    def plan(self, d: int, costly: bool) -> "LadderPlan":
        """The numbers to run with. Scores that cost milliseconds, and have no approximation, leave no time for high
        temperatures, where few of them are asked for twice; a short ladder then explores around the structures that the
        start found."""
        ladder = (
            LadderPlan(350, 350, 6, max(5 * d, 50), 4.0)
            if costly
            else LadderPlan(840, 6720, round(4 + 2.7 * d**0.5), max(2 * d, 20), None)
        )
        if self.n_sweeps is not None:
            ladder = ladder._replace(n_sweeps=self.n_sweeps, max_sweeps=self.n_sweeps)
        names = ("n_levels", "moves_per_sweep", "max_temperature")
        return ladder._replace(**{name: getattr(self, name) for name in names if getattr(self, name) is not None})


def seconds_to_finish(problem: Problem, collapsed: CollapsedPosterior, structures: Sequence["Structure"]) -> "Finish":
    """How long it takes from the last sweep to the end: diagnostics, parameters of the draws, files.

    Measured on a few structures, once the code for them is loaded; the rest is a matter of size. Where scores are
    costly, what structures have in common is made once, and the time is by the choices of single nodes that differ.
    """
    from bacadi.inference.mcmc.run import Finish

    (d, m), evidence = (problem.data.n_variables, problem.data.n_contexts), collapsed.evidence
    if not evidence.costly:
        structures = structures[:32]
    graphs, states = (np.stack([structure[part] for structure in structures]) for part in (0, 1))
    for n in (1, 4, 32):
        few, begin = np.linspace(0, len(graphs) - 1, min(n, len(graphs))).astype(int), time.monotonic()
        fields = posterior_fields(np.random.default_rng(0), problem, collapsed, graphs[None, few], states[None, few])
        took, begin = time.monotonic() - begin, time.monotonic()
        log_odds(collapsed, graphs[few], states[few])
        odds = time.monotonic() - begin
        if took + odds > _LOOK_SECONDS:
            break
    size = sum(labelled.values.nbytes for labelled in fields["parameters"].values()) / len(few)
    # Structures of all temperatures share less than draws do, so that this is more than enough for their odds.
    share, more = 1 / len(few), most_draws(d) / len(few)
    if evidence.costly:
        looked, every = (
            sum(len(choices.parents) for choices in local_choices(graphs[at], states[at])) for at in (few, slice(None))
        )
        share, more = every / looked / len(graphs), min(more, max(most_choices(evidence) / looked, 1.0))
    fixed = 0.5 + _SECONDS_PER_PAIR * d * (d + m) + odds * more
    return Finish(fixed, 1.1 * (took * share + _SECONDS_PER_BYTE * size))


class LadderPlan(NamedTuple):
    """The numbers of a run: sweeps at first and at most; a `max_temperature` of None is adapted."""

    n_sweeps: int
    max_sweeps: int
    n_levels: int
    moves_per_sweep: int
    max_temperature: float | None

    def level_moves(self) -> Int[np.ndarray, " L"]:
        """The moves of a sweep at each level, the coldest first.

        >>> LadderPlan(1, 1, 4, 10, None).level_moves().tolist()
        [80, 45, 28, 19]
        """
        more = (COLD_MOVES - 1) * np.exp(-np.arange(self.n_levels) / COLD_LEVELS)
        return (self.moves_per_sweep * (1 + more)).astype(np.int64)


def is_compiled(model: Model | None = None) -> bool:
    """Whether numba's cache holds the sampler, and the Gaussian processes of a model that needs them."""
    from bacadi.evidence.compiled import is_cached
    from bacadi.inference.mcmc import moves

    if model is None or not isinstance(model.mechanism, NeuralGaussian | GaussianProcess):
        return is_cached(moves.advance)
    from bacadi.evidence.gp import linalg

    return is_cached(moves.advance) and is_cached(linalg.factorise)
