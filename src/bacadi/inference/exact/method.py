"""The method `exact`: the collapsed posterior itself, by a list of all graphs or by sums over sets of nodes."""

import numpy as np

from bacadi.config.choices import option
from bacadi.data.labelled import Labelled
from bacadi.evidence.collapsed import structure_prior
from bacadi.evidence.effects import effect_states
from bacadi.evidence.reading import PROBE, collapse
from bacadi.graph.enumerate import MAX_DAG_NODES
from bacadi.inference.collapsed import AbstractCollapsedMethod, collapsed_problem, drawn_targets, posterior_fields
from bacadi.inference.conditionals import MAX_DRAWS, log_odds
from bacadi.inference.exact.enumeration import ExactPosterior, enumerate_posterior
from bacadi.inference.exact.local import all_choices
from bacadi.inference.exact.subsets import SubsetPosterior, check_subsets, sum_over_subsets
from bacadi.inference.method import Monitor, Problem
from bacadi.model.model import Model
from bacadi.posterior.posterior import EXACT_EDGES, EXACT_TARGETS, Posterior

REPEATS = 2000
"""How many draws of parameters listed pairs get in all, beside one each."""


class Exact(AbstractCollapsedMethod):
    """Sums over all graphs of at most 15 variables and all of their targets.

    At most five variables: the posterior lists every (graph, states) with its probability where there are at most
    `max_pairs` of them, likely ones several times, so that their parameters are drawn as often. Otherwise it holds
    `n_draws` independent draws and the exact marginals beside them.
    More than five: no prior on the number of targets or of children; at most 18 where the graph prior is over orders.
    """

    n_draws: int = option(10_000, least=1)
    max_pairs: int = option(20_000, least=0)

    def check(self, problem: Problem) -> None:
        super().check(problem)
        states = effect_states(problem.model.effect, problem.standardized)
        prior = structure_prior(problem.model, states, problem.knowledge)
        if problem.data.n_variables > MAX_DAG_NODES:
            check_subsets(prior)
        all_choices(prior, collapse(problem.model, PROBE).evidence.costly)

    def fit(self, problem: Problem, monitor: Monitor) -> Posterior:
        """List all graphs and states, or draw from them."""
        collapsed, rng = collapsed_problem(problem), np.random.default_rng(problem.seed)
        exact: ExactPosterior | SubsetPosterior
        if problem.data.n_variables <= MAX_DAG_NODES:
            exact = enumerate_posterior(collapsed)
            listed = exact.weighted(self.max_pairs)
            draws = exact.draws(rng, self.n_draws) if listed is None else listed.repeated(min(self.n_draws, REPEATS))
        else:
            exact = sum_over_subsets(collapsed, monitor)
            draws = exact.draws(rng, self.n_draws)
        graphs, states = draws.graphs[None], draws.states[None]
        fields = posterior_fields(rng, problem, collapsed, graphs, states)
        fields["constant_data"][EXACT_EDGES] = Labelled(exact.edge_marginals, ("source", "target"))
        fields["constant_data"][EXACT_TARGETS] = Labelled(exact.target_marginals, ("context", "node"))
        # Listed pairs have weights that matter, all of them; of independent draws some are enough.
        n = MAX_DRAWS if np.ptp(draws.log_weight) == 0 else len(draws.log_weight)
        odds = log_odds(collapsed, draws.graphs, draws.states, draws.log_weight, n)
        weight, attrs = draws.log_weight[None], {"log_evidence": exact.log_evidence}
        return Posterior.from_draws(
            problem.data,
            graphs,
            drawn_targets(rng, collapsed.evidence, graphs, states),
            draws.log_prob[None],
            weighting=lambda _: weight,
            sample_stats=odds.to_stats(),
            attrs=attrs,
            **fields,
        )

    def opening(self, model: Model | None = None) -> str:
        return "summing over all graphs"
