"""A perturbation screen as AnnData: did each guide hit its gene, what else did it hit, and what follows in the cell?

    python examples/perturbation_screen.py                          # simulated: 8 guides, 600 genes
    python examples/perturbation_screen.py screen.h5ad guide        # a file of your own: its path and the column of obs

Needs anndata: pip install 'bacadi[anndata]'. Results are written back into the AnnData, beside the input. Counts are
deep here; with shallow ones sampling noise dilutes slopes, and what only follows may be called an off-target.
"""

import sys

import anndata
import numpy as np
import pandas as pd

import bacadi
from bacadi import answers
from bacadi.model.statements import OFF_TARGETS, stated
from bacadi.posterior import to_anndata

OFF_TARGET = ("G3", "G6")  # the guide for G3 also lowers G6


def simulated(seed: int = 0, cells: int = 200) -> anndata.AnnData:
    """Counts: G0 → G1 → … → G7 in logarithms, 592 other genes, sequencing depth that varies between cells."""
    rng = np.random.default_rng(seed)
    guide = np.repeat(["non-targeting", *(f"G{k}+ctrl" for k in range(8))], cells)
    hit = np.array([[label.startswith(f"G{k}+") for k in range(8)] for label in guide])
    hit[guide == f"{OFF_TARGET[0]}+ctrl", int(OFF_TARGET[1][1:])] = True
    log_rate = 0.4 * rng.normal(size=(len(guide), 600))
    for k in range(8):
        log_rate[:, k] += 0.7 * log_rate[:, k - 1] if k else 0.0
        log_rate[hit[:, k], k] = -1.5 + 0.3 * rng.normal(size=hit[:, k].sum())
    depth = rng.gamma(30, 1 / 30, size=(len(guide), 1))
    counts = rng.poisson(depth * np.exp(5.5 + log_rate)).astype(np.float32)
    obs = pd.DataFrame({"guide": pd.Categorical(guide)}, index=[f"cell{i}" for i in range(len(guide))])
    return anndata.AnnData(counts, obs=obs, var=pd.DataFrame(index=[f"G{k}" for k in range(600)]))


def main(path: str | None = None, key: str = "guide", genes: int = 10) -> tuple[bacadi.Posterior, anndata.AnnData]:
    adata = simulated() if path is None else anndata.read_h5ad(path)
    data = bacadi.prepare(adata, key, genes=genes, normalize="log1p-cpm")
    print(data)
    posterior = bacadi.fit(data, knowledge=stated(data, OFF_TARGETS, {}, None))
    print(posterior.verdict())
    for row in posterior.targets().query("probability > 0.5").itertuples():
        kind = "its own gene" if row.variable in data.aims.get(row.context, ()) else "an off-target"
        how = f"{kind} (p = {row.probability:.2f}), by {row.change:+.1f} log1p-cpm"
        print(f"guide {row.context} hit {row.variable}, {how}")
    for row in posterior.edges().query("probability > 0.9").itertuples():
        print(f"{row.source} -> {row.target}: p = {row.probability:.2f}")
    print(answers.context_did(posterior, OFF_TARGET[0] if path is None else data.contexts[0]).text)
    to_anndata(posterior, adata)
    adata.write_h5ad("screen_with_results.h5ad" if path is None else path.removesuffix(".h5ad") + "_with_results.h5ad")
    return posterior, adata


if __name__ == "__main__":
    main(*sys.argv[1:3])
