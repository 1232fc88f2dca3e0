"""SVGD on tasks of the paper's recipe (d = 20, 100 observational rows and 20 contexts of 10), beside the paper.

    python benchmarks/svgd_accuracy.py --model linear --tasks 10
    python benchmarks/svgd_accuracy.py --model nonlinear --tasks 3

Prints expected SID, edge AUPRC and target AUPRC (both the trapezoid of the paper), expected SHD and the average
precisions for every task, and their medians for each way of reading particles (limit: Proposition 2, finite:
Proposition 1) and of weighting them (at the point where a particle stands, or collapsed: by p(G, I | D), with the
particle's own targets or such drawn anew), from the same particles. "preset" names what `bacadi fit --method svgd`
would report. The published medians are those of the authors' stored results over 30 tasks. Presets were chosen on seeds
0 to 9; the tasks here start at seed 100.
"""

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

METRICS = ("E-SID", "edge AUPRC", "target AUPRC", "E-SHD", "edge AP", "target AP")
PUBLISHED = {
    ("linear", "er"): (18.0, 0.796, 0.877, 22.0, 0.632, 0.762),
    ("linear", "sf"): (49.1, 0.749, 0.757, 25.5, 0.557, 0.545),
    ("nonlinear", "er"): (176.1, 0.620, 0.786, 29.0, 0.386, 0.571),
    ("nonlinear", "sf"): (302.9, 0.646, 0.823, 25.5, 0.456, 0.646),
}


def one_task(seed: int, options: argparse.Namespace) -> dict:
    # One task per process: a step is a chain of small products, which a second thread hardly speeds up.
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    import jax

    from bacadi.config.layers import configure
    from bacadi.inference.method import Monitor, Problem
    from bacadi.inference.svgd.estimators import FiniteAlpha, LimitGraphs
    from bacadi.inference.svgd.method import Descent, run
    from bacadi.model.knowledge import Knowledge
    from bacadi.model.priors import ErdosRenyi, ScaleFree
    from bacadi.posterior import weights
    from bacadi.relaxed.density import Density
    from bacadi.simulate import LinearTruth, NeuralTruth, RandomErdosRenyi, RandomScaleFree, SyntheticSpec, simulate

    mechanism = {"linear": LinearTruth, "nonlinear": NeuralTruth}[options.model]()
    graph = {"er": RandomErdosRenyi, "sf": RandomScaleFree}[options.graph]()
    task = simulate(SyntheticSpec(graph=graph, mechanism=mechanism), seed)
    chosen = configure("svgd", options.preset, options.config, {"--model": options.model})
    model, svgd = chosen.model.replace(graph_prior={"er": ErdosRenyi, "sf": ScaleFree}[options.graph]()), chosen.method
    problem = Problem(task.data, model, Knowledge.none(task.data.n_variables, task.data.n_contexts), seed)
    descent = Descent(svgd, Density.of(model, problem.standardized), jax.random.key(seed))
    begin = time.process_time()
    finished = run(descent, Monitor())
    seconds = time.process_time() - begin

    result = {"seed": seed, "cpu_seconds": seconds, "edges": int(task.graph.sum())}
    result["preset"] = evaluate(descent, finished, problem, task)
    rules = {"posterior": weights.posterior, "tempered": weights.Tempered(), "uniform": weights.uniform}
    densities = {"": (False, 0), "collapsed, own targets": (True, 0), "collapsed": (True, 3)}
    for density, (collapsed, sweeps) in densities.items():
        for reader in (LimitGraphs(), FiniteAlpha()):
            for name, rule in rules.items():
                other = svgd.replace(reader=reader, weighting=rule, collapsed=collapsed, target_sweeps=sweeps)
                words = (type(reader).__name__, name, density)
                result[" ".join(words).strip()] = evaluate(descent._replace(svgd=other), finished, problem, task)
    return result


def evaluate(descent, finished, problem, task) -> list[float]:  # type: ignore[no-untyped-def]
    """The metrics of one reading, or NaN where it finds no acyclic graph at all."""
    from bacadi import metrics
    from bacadi.errors import InferenceError
    from bacadi.inference.svgd.particles import to_posterior

    try:
        posterior = to_posterior(descent, *finished, problem)
    except InferenceError:
        return [np.nan] * len(METRICS)
    kept = posterior.weights > 0
    graphs, number = np.unique(posterior.graph[kept], axis=0, return_inverse=True)
    weight = np.bincount(number.ravel(), posterior.weights[kept])
    edges, targets = posterior.edge_probabilities(), posterior.target_probabilities()
    return [
        metrics.expected_sid(graphs, weight, task.graph),
        metrics.edge_auprc(edges, task.graph),
        metrics.target_auprc(targets, task.targets),
        metrics.expected_shd(graphs, weight, task.graph),
        metrics.average_precision(edges, task.graph),
        metrics.target_average_precision(targets, task.targets),
    ]


def row(name: str, values: list[float] | tuple[float, ...]) -> str:
    return f"{name:48s}" + "".join(f"{value:14.3f}" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("linear", "nonlinear"), default="linear")
    parser.add_argument("--graph", choices=("er", "sf"), default="er")
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--config", type=Path, default=None, help="TOML file of settings on top of the preset")
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", default=None, help="append one line per task to this file")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.tasks)
    print(" " * 48 + "".join(f"{name:>14s}" for name in METRICS))
    results = []
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        for result in pool.map(one_task, seeds, [options] * len(seeds)):
            results.append(result)
            label = f"seed {result['seed']} ({result['edges']} edges, {result['cpu_seconds']:.0f} CPU-s)"
            print(row(label, result["preset"]), flush=True)
            if options.json:
                with open(options.json, "a") as file:
                    file.write(json.dumps(vars(options) | result, default=str) + "\n")
    print()
    for name in results[0]:
        if isinstance(results[0][name], list):
            values = np.array([result[name] for result in results])
            failed = int(np.isnan(values).any(axis=1).sum())
            note = f"   ({failed} without an acyclic graph left out)" if failed else ""
            print(row(f"median, {name}", np.nanmedian(values, axis=0).tolist()) + note)
    print(row("published median", PUBLISHED[(options.model, options.graph)]))


if __name__ == "__main__":
    main()
