"""What features in place of rows miss: errors of log evidence against the whole covariance, and the time features take.

    python benchmarks/feature_error.py
    python benchmarks/feature_error.py --kind networks-5000 --no-errors

Takes a task of benchmarks/scale.py, its columns standardised, and for each number of parents up to five the true
parents of two nodes (some of them where there are more). A row is a set of parents: features, milliseconds of one
thread, and the error of log p(y | FF') with an intercept and the noise inferred, in nats, for each ratio ρ and scale
of the inputs.
"""

import argparse
import time

import numpy as np
from scale import KINDS

from bacadi.evidence.gp.nystrom import ERROR, kernel_features
from bacadi.model.kernels import NetworkKernel

HYPERPARAMETERS = ((0.1, 0.5), (0.1, 1.0), (0.03, 2.0))


def log_evidence(covariance: np.ndarray, y: np.ndarray, ratio: float) -> float:
    """log p(y), up to a constant, with s² ~ InverseGamma(1, 1/2ρ) integrated out and an intercept N(0, s²)."""
    root = np.linalg.cholesky(covariance + 1 + ratio * np.eye(len(y)))
    rest = np.linalg.solve(root, y)
    return float(-np.log(np.diag(root)).sum() - (1 + len(y) / 2) * np.log(0.5 / ratio + rest @ rest / 2))


def parent_sets(graph: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """A node and parents of it, for each number of parents two."""
    found = []
    for n in range(1, 6):
        nodes = np.flatnonzero(graph.sum(axis=0) >= n)
        found += [(int(node), np.flatnonzero(graph[:, node])[:n]) for node in nodes[:2]]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--kind", choices=[kind for kind in KINDS if kind.startswith("networks")], default="networks-50"
    )
    parser.add_argument("--seed", type=int, default=8000)
    parser.add_argument("--errors", action=argparse.BooleanOptionalAction, default=True)
    chosen = parser.parse_args()
    case = KINDS[chosen.kind].kind.draw(chosen.seed)
    x = (case.data.x - case.data.x.mean(axis=0)) / case.data.x.std(axis=0)
    print(f"{'ρ':>5s} {'inputs':>6s} {'parents':>7s} {'features':>8s} {'ms':>6s} {'error':>8s}")
    for ratio, scale in HYPERPARAMETERS:
        kernel = NetworkKernel(input_scale=scale)
        for node, parents in parent_sets(case.graph):
            inputs = np.ascontiguousarray(x[:, parents])
            kernel_features(kernel, inputs, 2 * ERROR * ratio)
            begin = time.thread_time()
            features = kernel_features(kernel, inputs, 2 * ERROR * ratio)
            took, error = 1e3 * (time.thread_time() - begin), np.nan
            if chosen.errors:
                error = log_evidence(features @ features.T, x[:, node], ratio)
                error -= log_evidence(kernel(inputs, inputs), x[:, node], ratio)
            print(
                f"{ratio:5.2f} {scale:6.1f} {len(parents):7d} {features.shape[1]:8d} {took:6.1f} {error:8.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
