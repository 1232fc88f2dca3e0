"""Cost and accuracy of the gene-expression simulator.

    python benchmarks/grn_speed.py [--cells 2000]

1. Time of a task with 300 cells of the wild type and ten knock-outs of 20 cells (20 genes); the limit is 10 s on one
   core, and CPU seconds count the work of all.
2. Steady state: gene means and standard deviations after half and twice the default time against the default, in
   standard errors; a maximum below about 4 over the genes is what equal laws give.
3. Half responses: the noise-free steady state that defines them against the mean of simulated cells.
4. Time step: a master regulator against its law. Levels clipped at 0 follow the reflected equation, for which
   x + b/λ ~ Gamma(4b / (q²λ), scale q²/2) cut off below b/λ; for large b the cut does not matter and mean and variance
   are b/λ and q²b/λ.
"""

import argparse
import time

import numpy as np
from scipy import stats

from bacadi.simulate import GeneExpressionSpec, HeldOutKnockOuts, KnockOuts, Langevin, RegulatoryNetwork, simulate
from bacadi.simulate.grn import Cells


def speed() -> None:
    knock_outs, nothing = KnockOuts(rows_per_context=20), HeldOutKnockOuts(rows_per_context=0)
    issue = GeneExpressionSpec(n_observational=300, knock_outs=knock_outs, held_out=nothing)
    for name, spec in {"300 + 10 x 20 cells": issue, "paper's task + 10 x 100 held out": GeneExpressionSpec()}.items():
        begin, cpu = time.perf_counter(), time.process_time()
        simulate(spec, 0)
        print(f"{name:33s} {time.process_time() - cpu:5.2f} CPU-s ({time.perf_counter() - begin:.2f} s wall)")


def wild_type(rng: np.random.Generator, network: RegulatoryNetwork, n_cells: int, duration: float) -> np.ndarray:
    d, half = len(network.graph), network.half_responses()
    types = np.arange(n_cells) % len(network.basal)
    cells = Cells(types, np.zeros((n_cells, d), dtype=bool), np.broadcast_to(half, (n_cells, d)))
    return network.sample(rng, cells, duration)


def steady_state(n_cells: int) -> None:
    network = simulate(GeneExpressionSpec(held_out=HeldOutKnockOuts(rows_per_context=0)), 0).network
    rng = np.random.default_rng(0)
    usual = wild_type(rng, network, n_cells, network.langevin.time)
    for factor in (0.5, 2.0):
        other = wild_type(rng, network, n_cells, factor * network.langevin.time)
        mean_error = np.sqrt((usual.var(axis=0) + other.var(axis=0)) / n_cells)
        mean = np.abs(usual.mean(axis=0) - other.mean(axis=0)) / mean_error
        kurtosis = stats.kurtosis(np.vstack([usual, other]), axis=0) + 2
        spread = np.abs(np.log(usual.std(axis=0) / other.std(axis=0))) / np.sqrt(kurtosis / (2 * n_cells))
        print(f"{factor:3.1f} times the time: largest z of a mean {mean.max():.1f}, of a spread {spread.max():.1f}")
    ratio = network.half_responses() / usual.mean(axis=0)
    print(f"half response / simulated mean over genes: {ratio.min():.2f} to {ratio.max():.2f}")


def master_regulator(n_cells: int) -> None:
    rng = np.random.default_rng(1)
    for basal in (1.0, 3.0, 20.0):
        for step in (0.04, 0.01, 0.0025):
            langevin = Langevin(step=step)
            network = RegulatoryNetwork(
                np.zeros((1, 1), dtype=np.int8), np.zeros((1, 1)), np.array([[basal]]), 2.0, langevin
            )
            x, level = wild_type(rng, network, 10 * n_cells, 8.0)[:, 0], basal / langevin.decay
            grid = level + np.linspace(0, 40 + 2 * level, 200_001)
            density = stats.gamma(4 * level, scale=0.5).pdf(grid)
            mean = np.average(grid, weights=density)
            variance = np.average((grid - mean) ** 2, weights=density)
            print(
                f"b = {basal:4.1f}, step {step:6.4f}: mean {x.mean():6.3f} (law {mean - level:6.3f}, without clipping "
                f"{level:6.3f}, standard error {stats.sem(x):.3f}), variance {x.var():6.3f} (law {variance:6.3f})"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=2000)
    n_cells = parser.parse_args().cells
    speed()
    steady_state(n_cells)
    master_regulator(n_cells)


if __name__ == "__main__":
    main()
