"""How much a prior of noise and weights claims: all graphs of five variables, observational rows alone.

    python benchmarks/noise_priors.py --tasks 25

For each prior and each kind of task, means over the tasks: the posterior probability of the true Markov class; the nats
by which the best graph beats the best member of that class; and of classes with several members the nats between
their likeliest and least likely member, which the data cannot tell apart, so that all of it is the prior's doing.
"""

import argparse
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from bacadi import BGe, ContextData, ErdosRenyi, InferredNoise, LinearGaussian, Model
from bacadi.evidence.reading import collapse
from bacadi.graph.enumerate import all_dags

D = 5
PRIORS = {
    "b = .1, s = 5": LinearGaussian(InferredNoise(1.0, 0.1), 5.0),
    "b = 1e-3, s = 5": LinearGaussian(InferredNoise(1.0, 1e-3), 5.0),
    "b = 1e-6, s = 5": LinearGaussian(InferredNoise(0.1, 1e-6), 5.0),
    "b = 1e-6, s = 20": LinearGaussian(InferredNoise(0.1, 1e-6), 20.0),
    "b = 1e-6, s = 600": LinearGaussian(InferredNoise(0.1, 1e-6), 600.0),
    "b = 1e-6, s = 10 or 300": LinearGaussian(),
    "b = 1e-6, s = 10, 100 or 1000": LinearGaussian(InferredNoise(0.1, 1e-6, (1.0, 10.0, 100.0))),
    "BGe, t = .5": BGe(alpha_mu=1.0),
    "BGe, t = .09": BGe(),
    "BGe, t = .01": BGe(alpha_mu=0.01),
}


class Kind(NamedTuple):
    """Rows, range of noise variances, range of weights, and the probability of an edge along the order."""

    n_rows: int
    noise: tuple[float, float]
    weights: tuple[float, float]
    edge: float = 0.5


KINDS = {
    "2,000 rows": Kind(2000, (0.05, 0.15), (0.5, 2.0)),
    "200 rows": Kind(200, (0.05, 0.15), (0.5, 2.0)),
    "some noise next to nothing": Kind(2000, (0.0005, 0.15), (0.5, 4.0), 0.8),
    "all noise next to nothing": Kind(300, (1e-6, 1e-3), (0.5, 2.0), 0.8),
    "weak weights": Kind(200, (0.5, 1.5), (0.25, 1.0)),
}


def markov_classes(dags: np.ndarray) -> np.ndarray:
    """The number of the Markov class of each graph: equal skeletons and v-structures."""
    joined = dags | dags.transpose(0, 2, 1)
    pairs = np.triu_indices(D, 1)
    parts = [joined[:, *pairs]]
    parts += [dags[:, pairs[0], j] & dags[:, pairs[1], j] & ~joined[:, *pairs] for j in range(D)]
    return np.unique(np.concatenate(parts, axis=1), axis=0, return_inverse=True)[1].ravel()


def tasks(kind: Kind, n: int) -> Iterator[tuple[np.ndarray, ContextData]]:
    """Graphs and their data, columns in random order and standardised."""
    for seed in range(100, 100 + n):
        rng = np.random.default_rng(seed)
        graph = np.triu(rng.random((D, D)) < kind.edge, 1)
        weight = np.where(graph, rng.choice([-1, 1], (D, D)) * rng.uniform(*kind.weights, (D, D)), 0.0)
        noise = rng.normal(size=(kind.n_rows, D)) * np.sqrt(rng.uniform(*kind.noise, D))
        x = noise @ np.linalg.inv(np.eye(D) - weight)
        order = rng.permutation(D)
        x = x[:, order]
        x = (x - x.mean(axis=0)) / x.std(axis=0)
        yield graph[np.ix_(order, order)], ContextData(x, np.zeros(len(x), int), tuple("abcde"), (), "obs")


def log_posteriors(mechanism: LinearGaussian | BGe, data: ContextData, parents: np.ndarray) -> np.ndarray:
    """log p(G | D) of all graphs, given the parents of their nodes as numbers; edges as likely as at d = 20."""
    collapsed = collapse(Model(mechanism, graph_prior=ErdosRenyi(1.0)), data)
    nodes, sets = (part.ravel() for part in np.meshgrid(np.arange(D), np.arange(2**D), indexing="ij"))
    masks = ((sets[:, None] >> np.arange(D)) & 1).astype(bool)
    masks[np.arange(len(nodes)), nodes] = False
    scores = collapsed.evidence.log_evidences(nodes, masks, np.zeros((len(nodes), 0), np.int8)).reshape(D, 2**D)
    log_p = scores[np.arange(D), parents].sum(axis=1) - 1.0 * np.bitwise_count(parents).sum(axis=1)
    return log_p - logsumexp(log_p)


def main() -> None:
    """Print a table for every kind of task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=25)
    n = parser.parse_args().tasks
    dags = all_dags(D).astype(bool)
    parents, classes = np.einsum("i,nij->nj", 2 ** np.arange(D), dags), markov_classes(dags)
    for name, kind in KINDS.items():
        found: dict[str, list[tuple[float, float, float]]] = {prior: [] for prior in PRIORS}
        for graph, data in tasks(kind, n):
            truth = classes == classes[np.flatnonzero((dags == graph).all(axis=(1, 2)))[0]]
            for prior, mechanism in PRIORS.items():
                log_p = log_posteriors(mechanism, data, parents)
                inside = log_p[truth]
                spread = np.ptp(inside) if truth.sum() > 1 else np.nan
                found[prior].append((np.exp(logsumexp(inside)), log_p.max() - inside.max(), spread))
        print(f"\n{name:32s} P(class)  best - class   range within the class")
        for prior, rows in found.items():
            print("{:32s} {:8.3f} {:13.2f} {:13.2f}".format(prior, *np.nanmean(rows, axis=0)), flush=True)


if __name__ == "__main__":
    main()
