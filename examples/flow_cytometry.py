"""Which proteins did each drug hit, and who drives whom: flow cytometry in the manner of Sachs et al. (2005).

    python examples/flow_cytometry.py                            # simulated: six proteins and three drugs
    python examples/flow_cytometry.py sachs.csv condition id,day # a table of your own

The arguments are a path, the column of conditions and columns that are no proteins. The control is found by its usual
labels (control, DMSO, …).
"""

import sys

import numpy as np
import pandas as pd

import bacadi
from bacadi import answers

EDGES = {("PKC", "Raf"), ("Raf", "Mek"), ("Mek", "Erk"), ("PKA", "Erk"), ("PKC", "Jnk")}
TARGETS = {("U0126", "Mek"), ("G06976", "PKC"), ("b2cAMP", "PKA")}
SHIFTS = {"U0126": -3.0, "G06976": -2.5, "b2cAMP": 2.5}


def simulated(seed: int = 0, cells: int = 300) -> pd.DataFrame:
    """Intensities, linear in their logarithms; a drug moves its target whatever its causes do."""
    rng, values = np.random.default_rng(seed), {}
    condition = np.repeat(["control", *SHIFTS], cells)
    for protein in ("PKC", "PKA", "Raf", "Mek", "Erk", "Jnk"):  # causes before effects
        x = 0.5 * rng.normal(size=len(condition))
        x += sum(0.8 * values[cause] for cause, effect in EDGES if effect == protein)
        for drug, target in TARGETS:
            if target == protein:
                x = np.where(condition == drug, SHIFTS[drug] + 0.5 * rng.normal(size=len(x)), x)
        values[protein] = x
    return pd.DataFrame({name: np.exp(3 + x) for name, x in values.items()}).assign(condition=condition)


def main(path: str | None = None, context: str = "condition", drop: str = "") -> bacadi.Posterior:
    data = bacadi.prepare(simulated() if path is None else path, context, drop=tuple(filter(None, drop.split(","))))
    print(data)
    posterior = bacadi.fit(data)
    print(posterior.describe())
    for row in posterior.targets().query("probability > 0.5").itertuples():
        print(
            f"{row.context} hit {row.variable} (p = {row.probability:.2f}): {row.change_in_sd:+.1f} sd of the control"
        )
    edges = posterior.edges().query("probability > 0.5")
    for row in edges.itertuples():
        print(f"{row.source} -> {row.target}: p = {row.probability:.2f}, weight {row.weight:+.2f}")
    if path is None:
        found = set(zip(edges["source"], edges["target"], strict=True))
        print(answers.effect(posterior, "PKC", "Erk").text)
        print(f"{len(found & EDGES)} of the {len(EDGES)} true edges are found, {len(found - EDGES)} others are named")
    return posterior


if __name__ == "__main__":
    main(*sys.argv[1:])
