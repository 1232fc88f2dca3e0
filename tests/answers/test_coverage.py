"""Intervals of total effects over tasks whose graph, targets, parameters and data come from the model's own prior."""

from typing import NamedTuple

import numpy as np
import pytest

from bacadi.answers.effects import effect_draws, summary
from bacadi.data.contexts import ContextData
from bacadi.graph.dag import transitive_closure
from bacadi.inference.exact.method import Exact
from bacadi.inference.fit import fit
from bacadi.inference.mcmc.start import Structure
from bacadi.model.certainty import NO_COARSENING
from bacadi.model.linear import total_effects

from ..inference.test_sbc import MODEL, is_plain, prior_of, prior_parameters, simulated

OWN = MODEL.replace(standardize_within=False, coarsening=NO_COARSENING)
BANDS = ((0.0, 0.05), (0.05, 0.95), (0.95, 1.01))


class Covered(NamedTuple):
    """Of each task and pair: P(path), whether there is one, and whether the 90 % interval holds the true effect."""

    probability: np.ndarray
    path: np.ndarray
    covered: np.ndarray


def covered(n_tasks: int, seed: int) -> Covered:
    """Four variables and three contexts; data that are not plain are drawn again, all of it."""
    d, m, rng, found = 4, 3, np.random.default_rng(seed), []
    context, prior = np.repeat(np.arange(m + 1), [60, 20, 20, 20]), prior_of(d, m)
    pairs = np.argwhere(~np.eye(d, dtype=bool))
    for task in range(n_tasks):
        data: ContextData | None = None
        while data is None or not is_plain(data):
            drawn = prior.draws(rng, 1)
            truth, given = Structure(drawn.graphs[0], drawn.states[0]), prior_parameters(rng, d, m, OWN)
            data = simulated(rng, truth, given, context)
        posterior = fit(data, OWN, Exact(n_draws=1000, max_pairs=0), seed=task)
        path = transitive_closure(truth.graph)[pairs[:, 0], pairs[:, 1]]
        # An inverse has 1e-17 where there is no path.
        effects = np.where(path, total_effects(truth.graph * given.weight)[pairs[:, 0], pairs[:, 1]], 0.0)
        told = summary(effect_draws(posterior, pairs), pairs)
        inside = (told["q05"] <= effects) & (effects <= told["q95"])
        found.append((1 - told["zero_by_graph"], path, inside))
    return Covered(*(np.concatenate(part) for part in zip(*found, strict=True)))


def table(found: Covered) -> str:
    """One line for each band of P(path), and one for all pairs."""
    lines = ["P(path)        pairs  share with a path  coverage of 90 % intervals"]
    for low, high in (*BANDS, (0.0, 1.01)):
        at = (found.probability >= low) & (found.probability < high)
        shares = [part[at].mean() if at.any() else np.nan for part in (found.path, found.covered)]
        lines.append(f"{low:.2f} to {min(high, 1):.2f} {at.sum():8d} {shares[0]:18.3f} {shares[1]:27.3f}")
    return "\n".join(lines)


@pytest.mark.slow
def test_intervals_cover_as_often_as_they_say() -> None:
    """Pairs that are connected with P ≥ .95: elsewhere intervals hold the point 0, and cover more often than 90 %.

    400 tasks have some 1,300 such pairs; were they independent the coverage would have a standard error of .8 %, and
    fail by chance in 1 of 3,000 runs; pairs of a task share parameters, which makes it about 1.2 % and 1 of 80.
    """
    found = covered(400, 0)
    print("\n" + table(found))
    sure = found.probability >= 0.95
    assert sure.sum() >= 400
    assert 0.87 <= found.covered[sure].mean() <= 0.93
    assert found.covered.mean() >= 0.89


def test_intervals_of_a_few_tasks() -> None:
    """The same on eight tasks: fewer than 70 % of the pairs would be the case in less than 1 of 10,000 runs."""
    found = covered(8, 1)
    assert found.covered.mean() > 0.7
    assert found.covered[found.probability >= 0.95].mean() > 0.7
