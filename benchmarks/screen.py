"""From a file of single cells to answers: time, memory and what was found.

    python benchmarks/screen.py                                    # 20,000 cells, 30 of 1,000 genes, 20 guides
    python benchmarks/screen.py --cells 5000 --seeds 9200 9201 -- --model bge

Makes an `.h5ad` of counts, runs `bacadi fit` on it as a user would (genes chosen by the program, counts normalised,
guides known to hit their genes, off-targets unknown), then asks one question; options after `--` are for `fit`. Each
row is a seed: seconds by the clock, of the processor and peak of memory of `fit`, seconds of the question, sweeps and
whether the draws converged, then true edges and off-targets (there are none) among those named with p ≥ .5. Needs
anndata; compile caches are warmed by `bacadi warm-up`. Run it on an idle machine.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import anndata
import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix

from bacadi.posterior import load

CONTROL, KEY = "non-targeting", "guide"
GENES, GUIDES, OTHERS = 30, 20, 970


def screen(seed: int, n_cells: int, level: float = 2.5) -> tuple[anndata.AnnData, np.ndarray]:
    """Counts of a screen and its graph: 30 genes whose logarithms are a linear network, one edge per gene, 970 others.

    Every guide lowers its gene by 1.5 on the scale of logarithms in nine of ten cells; three tenths of the cells are
    controls. Counts are Poisson with a depth that varies between cells; a gene of the network has e^`level` on average.
    """
    rng = np.random.default_rng(seed)
    weight = np.triu(rng.random((GENES, GENES)) < 2 / (GENES - 1), 1)
    weight = weight * rng.choice([-1, 1], weight.shape) * rng.uniform(0.4, 0.9, weight.shape)
    places = rng.permutation(GENES)  # of the genes in the causal order; guides aim at the first genes
    weight = weight[np.ix_(places, places)]
    label = rng.choice(GUIDES + 1, size=n_cells, p=[0.3, *[0.7 / GUIDES] * GUIDES])
    works, log_rate = rng.random(n_cells) < 0.9, np.zeros((n_cells, GENES))
    for j in np.argsort(places):
        log_rate[:, j] = log_rate @ weight[:, j] + 0.5 * rng.normal(size=n_cells) - 1.5 * (works & (label == j + 1))
    log_rate += rng.normal(level, 0.7, GENES)
    depth = rng.gamma(10, 0.1, (n_cells, 1))
    own = rng.poisson(depth * np.exp(log_rate))
    other = rng.poisson(depth * np.exp(rng.normal(0.5, 1.0, OTHERS) + 0.3 * rng.normal(size=(n_cells, OTHERS))))
    names = [f"G{j}" for j in range(GENES + OTHERS)]
    guides = np.array([CONTROL, *names[:GUIDES]])[label]
    obs = pd.DataFrame({KEY: pd.Categorical(guides)}, index=[f"cell{i}" for i in range(n_cells)])
    counts = csr_matrix(np.concatenate([own, other], axis=1).astype(np.float32))
    return anndata.AnnData(counts, obs=obs, var=pd.DataFrame(index=names)), weight != 0


class Took(NamedTuple):
    """What a command took: seconds by the clock, of the processor, and the peak of memory in MB."""

    seconds: float
    cpu: float
    megabytes: float


def timed(command: list[str]) -> Took:
    """Run a command; what it says on stderr is shown where it fails."""
    begin = time.monotonic()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise SystemExit(said.read().decode())
    return Took(time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def row(seed: int, n_cells: int, level: float, options: list[str], folder: Path) -> str:
    """One line of the table."""
    adata, graph = screen(seed, n_cells, level)
    adata.write_h5ad(folder / "screen.h5ad")
    bacadi, out = [sys.executable, "-m", "bacadi"], str(folder / "run")
    chosen = ["--genes", str(GENES), "--normalize", "log1p-cpm", "--targets", "known-with-off-targets"]
    fit = timed([*bacadi, "fit", str(folder / "screen.h5ad"), "--context", KEY, *chosen, "--out", out, *options])
    asked = timed([*bacadi, "query", out, "context(G0)"])
    posterior = load(folder / "run" / "posterior.nc")
    edges = posterior.edges().query("probability >= .5")
    right = sum(
        graph[tuple(int(name[1:]) for name in pair)]
        for pair in zip(edges["source"], edges["target"], strict=True)
        if all(int(name[1:]) < GENES for name in pair)
    )
    targets = posterior.targets().query("probability >= .5")
    beside = int((targets["context"] != targets["variable"]).sum())
    converged = "yes" if posterior.attrs["converged"] else "no"
    return (
        f"{seed:6d}{fit.seconds:8.1f}{fit.cpu:8.1f}{fit.megabytes:8.0f}{asked.seconds:8.1f}"
        f"{posterior.attrs['n_sweeps']:8d}{converged:>10s}{right:6d} of {len(edges)} ({graph.sum()}){beside:8d}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=20_000)
    parser.add_argument(
        "--level", type=float, default=2.5, help="logarithm of the counts of a gene, 1 for shallow ones"
    )
    parser.add_argument("--seeds", type=int, nargs="*", default=[9200, 9201, 9202])
    parser.add_argument("options", nargs="*", help="for `bacadi fit`")
    chosen = parser.parse_args()
    subprocess.run([sys.executable, "-m", "bacadi", "warm-up"], capture_output=True, check=True)
    titles = f"{'seed':>6s}{'s':>8s}{'CPU-s':>8s}{'MB':>8s}{'query s':>8s}{'sweeps':>8s}{'converged':>10s}"
    print(titles + "  edges right of named (true)  off-targets", flush=True)
    for seed in chosen.seeds:
        with tempfile.TemporaryDirectory() as folder:
            print(row(seed, chosen.cells, chosen.level, chosen.options, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
