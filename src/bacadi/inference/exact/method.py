"""The method `exact`: the collapsed posterior itself, by enumeration."""

import numpy as np

from bacadi.config.choices import option
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError
from bacadi.graph.enumerate import MAX_DAG_NODES
from bacadi.inference.collapsed import AbstractCollapsedMethod, collapsed_problem, posterior_fields
from bacadi.inference.exact.enumeration import enumerate_posterior
from bacadi.inference.method import Monitor, Problem
from bacadi.model.model import Model
from bacadi.posterior.posterior import EXACT_EDGES, EXACT_TARGETS, Posterior


class Exact(AbstractCollapsedMethod):
    """Enumeration of all graphs of at most five variables, targets summed out.

    The posterior lists every (graph, states) with its probability where there are at most `max_pairs` of them;
    otherwise it holds `n_draws` independent draws and the exact marginals beside them.
    """

    n_draws: int = option(10_000, least=1)
    max_pairs: int = option(20_000, least=0)

    def check(self, problem: Problem) -> None:
        super().check(problem)
        if problem.data.n_variables > MAX_DAG_NODES:
            raise ConfigError(
                f"--method exact lists all graphs of at most {MAX_DAG_NODES} variables and the data have "
                f"{problem.data.n_variables}; use --method mcmc."
            )

    def fit(self, problem: Problem, monitor: Monitor) -> Posterior:
        """List all graphs and states, or draw from them."""
        collapsed = collapsed_problem(problem)
        exact, rng = enumerate_posterior(collapsed), np.random.default_rng(problem.seed)
        draws = exact.weighted(self.max_pairs) or exact.draws(rng, self.n_draws)
        graphs, states = draws.graphs[None], draws.states[None]
        fields = posterior_fields(rng, problem, collapsed, graphs, states)
        fields["constant_data"][EXACT_EDGES] = Labelled(exact.edge_marginals, ("source", "target"))
        fields["constant_data"][EXACT_TARGETS] = Labelled(exact.target_marginals, ("context", "node"))
        weight, attrs = draws.log_weight[None], {"log_evidence": exact.log_evidence}
        return Posterior.from_draws(
            problem.data, graphs, states > 0, draws.log_prob[None], weighting=lambda _: weight, attrs=attrs, **fields
        )

    def opening(self, model: Model | None = None) -> str:
        return "listing all graphs"
