"""What the noise ratios of Gaussian processes claim: all graphs of five variables whose noise is next to nothing.

    python benchmarks/noise_ratios.py --tasks 8 [--rows 240] [--context-rows 12] [--kinds recipe 1e-3 some]

Networks of the paper's recipe, one context of hard interventions per variable, targets known. Noise has the recipe's
variances, a standard deviation of 1e-3 of the signal's, or one between 1e-4 and .5 of it (`some`). Hyper-parameters
are chosen as in a fit. For each prior, means over the tasks: the posterior probability of the true graph; the nats by
which the best graph beats it (mean, worst); edges of the best graph beyond the true ones; expected SHD.
"""

import argparse
from collections.abc import Iterator

import numpy as np
from scipy.special import expit, logsumexp

from bacadi import ContextData, Model, NeuralGaussian
from bacadi.evidence.collapsed import CollapsedPosterior
from bacadi.evidence.gp.evidence import DenseEvidence
from bacadi.evidence.gp.factor import NoisePrior
from bacadi.evidence.reading import collapse
from bacadi.graph.enumerate import all_dags
from bacadi.inference.mcmc.start import fit_hyperparameters
from bacadi.model.kernels import Constant, NetworkKernel
from bacadi.model.neural import STANDARDIZED_SCALES

D, EDGE_LOG_ODDS = 5, np.log(0.25)
NARROW, WIDE, MIXED = (
    NoisePrior().ratios,
    (1e-6, 1e-5, 1e-4, 1e-3, *NoisePrior().ratios),
    (1e-4, 1e-3, *NoisePrior().ratios),
)
# Shape and scale of the noise, ratios, and whether they are chosen for each node or, where None, a mixture of all.
ARMS: dict[str, tuple[float, float, tuple[float, ...], bool | None]] = {
    "IG(1, .5), .01 to 1, one for all (default)": (1.0, 0.5, NARROW, False),
    "IG(.1, 1e-6), .01 to 1, one for all": (0.1, 1e-6, NARROW, False),
    "IG(.1, 1e-6), 1e-6 to 1, one for all": (0.1, 1e-6, WIDE, False),
    "IG(.1, 1e-6), 1e-6 to 1, one per node": (0.1, 1e-6, WIDE, True),
    "IG(.1, 1e-6), 1e-4 to 1, mean over all": (0.1, 1e-6, MIXED, None),
}
DAGS = all_dags(D)
PARENTS = np.einsum("i,nij->nj", 1 << np.arange(D), DAGS.astype(int))


def tasks(kind: str, n_rows: int, context_rows: int, n: int) -> Iterator[tuple[np.ndarray, np.ndarray, ContextData]]:
    """Graph, states and data, columns in random order."""
    context = np.repeat(np.arange(D + 1), [n_rows] + [context_rows] * D)
    for seed in range(n):
        rng = np.random.default_rng(seed)
        graph, x = np.triu(rng.random((D, D)) < 0.5, 1), np.zeros((len(context), D))
        for j in range(D):
            x[:, j] = rng.normal(size=len(context)) * (np.sqrt(rng.uniform(0.05, 0.15)) if kind == "recipe" else 1.0)
            if graph[:, j].any():
                hidden = x[:, graph[:, j]] @ rng.normal(size=(graph[:, j].sum(), 5)) + rng.normal(size=5)
                signal = expit(hidden) @ rng.normal(size=5)
                share = 10 ** rng.uniform(-4, -0.3) if kind == "some" else 1e-3
                x[:, j] = signal + x[:, j] * (1.0 if kind == "recipe" else share * signal.std())
            mean = rng.normal(0, 2)
            mean = (mean + 5 * np.sign(mean)) * (1.0 if kind == "recipe" else 0.3)
            x[context == j + 1, j] = mean + 0.7 * rng.normal(size=context_rows)
        order = rng.permutation(D)
        names, contexts = tuple("abcde"), tuple(f"k{j}" for j in range(D))
        data = ContextData(x[:, order], context, names, contexts, "obs").standardized_within()
        yield graph[np.ix_(order, order)], np.eye(D, dtype=np.int8)[:, order], data


def log_posteriors(arm: str, states: np.ndarray, data: ContextData) -> np.ndarray:
    """log p(G | D, targets) of all graphs, up to a constant."""
    shape, scale, ratios, per_node = ARMS[arm]
    base = collapse(Model(NeuralGaussian()), data)
    kernels = [Constant(1.0) + NetworkKernel(5, 1.0, input_scale=by) for by in STANDARDIZED_SCALES]

    def evidence(kernels: list, ratios: tuple[float, ...]) -> DenseEvidence:
        noise = NoisePrior(None, shape, scale, ratios)
        return DenseEvidence(data, base.evidence.states, kernels, noise, bool(per_node))

    fitted = fit_hyperparameters(CollapsedPosterior(evidence(kernels, ratios), base.prior), data).evidence
    parts = [fitted] if per_node is not None else [evidence([fitted.groups[0].kernel], (ratio,)) for ratio in ratios]
    nodes, sets = (part.ravel() for part in np.meshgrid(np.arange(D), np.arange(2**D), indexing="ij"))
    parents = (sets[:, None] >> np.arange(D) & 1).astype(bool)
    parents[np.arange(len(nodes)), nodes] = False
    asked = nodes, parents, np.ascontiguousarray(states.T)[nodes]
    scores = logsumexp([part.log_evidences(*asked) for part in parts], axis=0).reshape(D, 2**D)
    return sum(scores[j, PARENTS[:, j]] for j in range(D)) + EDGE_LOG_ODDS * DAGS.sum(axis=(1, 2))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--rows", type=int, default=240)
    parser.add_argument("--context-rows", type=int, default=12)
    parser.add_argument("--kinds", nargs="*", default=["recipe", "1e-3", "some"], choices=["recipe", "1e-3", "some"])
    given = parser.parse_args()
    for kind in given.kinds:
        found: dict[str, list[tuple[float, ...]]] = {arm: [] for arm in ARMS}
        for graph, states, data in tasks(kind, given.rows, given.context_rows, given.tasks):
            truth = int(np.flatnonzero((graph == DAGS).all(axis=(1, 2)))[0])
            for arm, rows in found.items():
                log_p = log_posteriors(arm, states, data)
                p, best = np.exp(log_p - logsumexp(log_p)), int(log_p.argmax())
                distance = np.abs(np.einsum("n,nij->ij", p, DAGS) - graph).sum()
                rows.append((p[truth], log_p[truth] - log_p[best], DAGS[best].sum() - graph.sum(), distance))
        print(f"{kind}: {given.tasks} tasks, {given.rows} observational rows")
        for arm, rows in found.items():
            (p, nats, edges, distance), worst = np.mean(rows, axis=0), min(row[1] for row in rows)
            print(
                f"  {arm:44} P {p:.3f}  truth - best {nats:.1f}, {worst:.1f}  edges {edges:+.2f}  E-SHD {distance:.2f}"
            )


if __name__ == "__main__":
    main()
