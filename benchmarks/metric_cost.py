"""Cost of the metrics: CPU-seconds for 20 graphs of 20, 50 and 100 variables.

    python benchmarks/metric_cost.py [--draws 20]

Prints the time of the expected SID of DAGs, of the expected bounds over CPDAGs (with how many were exact), of the
expected SHD and of `evaluate` as a whole on the paper's linear task. Limits: expected SID of 20 graphs takes less than
1 s at d = 50 and less than 5 s at d = 100; the script ends with an error if one is passed.
"""

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np

from bacadi.graph.equivalence import cpdag
from bacadi.metrics import expected_shd, expected_sid, expected_sid_bounds
from bacadi.metrics.evaluate import evaluate
from bacadi.posterior import Posterior
from bacadi.simulate import HeldOut, SyntheticSpec, simulate
from bacadi.simulate.graphs import erdos_renyi_dag

LIMITS = {50: 1.0, 100: 5.0}


def seconds(work: Callable[[], object]) -> float:
    """CPU time of the second call: the first one loads libraries."""
    work()
    begin = time.process_time()
    work()
    return time.process_time() - begin


def measure(d: int, n_draws: int) -> float:
    rng = np.random.default_rng(d)
    task = simulate(SyntheticSpec(n_variables=d, held_out=HeldOut(10, 100, 4)), seed=d)
    graphs = np.stack([erdos_renyi_dag(rng, d) for _ in range(n_draws)])
    classes = np.stack([cpdag(graph) for graph in graphs])
    weights, targets = np.ones(n_draws), np.stack([task.targets] * n_draws)
    posterior = Posterior.from_draws(task.data, graphs, targets)
    sid = seconds(lambda: expected_sid(graphs, weights, task.graph))
    bounds = seconds(lambda: expected_sid_bounds(classes, weights, task.graph))
    exact = expected_sid_bounds(classes, weights, task.graph).exact
    shd = seconds(lambda: expected_shd(graphs, weights, task.graph))
    whole = seconds(lambda: evaluate(posterior, task))
    print(
        f"d = {d:3d}, {n_draws} graphs: expected SID {sid:.3f} s, SID bounds of CPDAGs {bounds:.3f} s "
        f"({'exact' if exact else 'not all exact'}), expected SHD {shd:.4f} s, all metrics {whole:.2f} s"
    )
    return sid


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20)
    draws = parser.parse_args().draws
    slow = [d for d in (20, 50, 100) if measure(d, draws) > LIMITS.get(d, float("inf"))]
    if slow and draws <= 20:
        sys.exit(f"expected SID is too slow at d = {slow}")


if __name__ == "__main__":
    main()
