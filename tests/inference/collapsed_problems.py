"""Small collapsed problems of random numbers, for tests of whatever needs `CollapsedPosterior` and nothing else."""

from itertools import product

import numpy as np

from bacadi.evidence.collapsed import AbstractEvidence, CollapsedPosterior, EffectKind, EffectStates, StructurePrior
from bacadi.graph.enumerate import all_dags


class TableEvidence(AbstractEvidence):
    """A number for each node, parent set and column of states: `table[j, parents as bits, states as digits]`."""

    def __init__(self, table: np.ndarray, m: int, n_states: int) -> None:
        self.table, self.n_variables, self.n_contexts = table, len(table), m
        self.states = EffectStates(
            names=tuple(["none", *(f"soft {s}" for s in range(1, n_states))]),
            kind=np.array([EffectKind.NONE, *[EffectKind.SOFT] * (n_states - 1)], np.int8),
            value=np.zeros(n_states),
            log_share=np.array([0.0, *[-np.log(max(n_states - 1, 1))] * (n_states - 1)]),
            hard_log_evidence=np.zeros((m, len(table))),
        )

    def log_evidence(self, node: int, parents: np.ndarray, state: np.ndarray) -> float:
        digits = int(state.astype(int) @ self.states.n_states ** np.arange(self.n_contexts))
        return float(self.table[node, int(parents.astype(int) @ 2 ** np.arange(self.n_variables)), digits])


def random_collapsed(
    rng: np.random.Generator,
    d: int,
    m: int,
    n_states: int = 2,
    *,
    constrained: bool = True,
    counted: bool = False,
    over_orders: bool = False,
) -> CollapsedPosterior:
    """Random local terms of standard deviation 1.5, so that every structure keeps some probability, and random priors.

    `constrained`: an edge required, another forbidden, at most d - 2 parents (and at least 1), a target known and a
    state excluded; `counted`: a random prior on the number of targets of every context, never all d of them.
    """
    evidence = TableEvidence(rng.normal(0, 1.5, (d, 2**d, n_states**m)), m, n_states)
    odds, state_prior = rng.normal(-0.5, 0.7, (d, d)), rng.normal(0, 0.7, (m, d, n_states))
    count = rng.normal(0, 1, (m, d + 1)) if counted else np.zeros((m, d + 1))
    if counted:
        count[:, d] = -np.inf
    if constrained and d > 2:
        first, second, third = rng.permutation(d)[:3]
        odds[first, second], odds[third, first] = np.inf, -np.inf
        if m > 0:
            state_prior[0, first, 0], state_prior[m - 1, second, n_states - 1] = -np.inf, -np.inf
    out_degree = rng.normal(0, 0.5, d)
    limit = max(d - 2, 1) if constrained else d
    return CollapsedPosterior(evidence, StructurePrior(odds, out_degree, limit, state_prior, count, over_orders))


def brute_force(collapsed: CollapsedPosterior) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All DAGs, all states, and `CollapsedPosterior.log_posterior` [DAG, states] of every pair, one after the other."""
    m, d, n_states = collapsed.prior.state_log_prior.shape
    dags = all_dags(d)
    states = np.array(list(product(range(n_states), repeat=m * d)), np.int8).reshape(n_states ** (m * d), m, d)
    return dags, states, np.array([[collapsed.log_posterior(g, s) for s in states] for g in dags])


def relabelled(collapsed: CollapsedPosterior, order: np.ndarray) -> CollapsedPosterior:
    """The same problem with variable order[j] called j."""
    d, prior, evidence = len(order), collapsed.prior, collapsed.evidence
    assert isinstance(evidence, TableEvidence)
    sets = (np.arange(2**d)[:, None] >> np.arange(d)) & 1
    old_bits = sets @ 2**order
    table = evidence.table[order][:, old_bits]
    return CollapsedPosterior(
        TableEvidence(table, evidence.n_contexts, evidence.states.n_states),
        StructurePrior(
            prior.edge_log_odds[np.ix_(order, order)],
            prior.out_degree_log,
            prior.max_parents,
            prior.state_log_prior[:, order],
            prior.target_count_log,
            prior.over_orders,
        ),
    )
