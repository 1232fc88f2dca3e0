"""Records without fits: numbers drawn for every fit of a study, so that tables and figures have something to show."""

import numpy as np

from bacadi.benchmark.plan import PlannedFit, plan
from bacadi.benchmark.records import Record
from bacadi.benchmark.study import Study
from bacadi.benchmark.tables import HIGH_IS_GOOD
from bacadi.config.shipped import studies_folder

D, M = 5, 3


def fake_pairs(study: Study, skip: tuple[str, ...] = ()) -> list[tuple[PlannedFit, Record | None]]:
    """Every fit of a study with a record, or None for the methods to skip."""
    return [(fit, None if fit.entry.title in skip else fake_record(fit)) for fit in plan(study, studies_folder())]


def fake_record(fit: PlannedFit) -> Record:
    """Numbers that depend on the fit alone: methods differ, tasks scatter."""
    rng = np.random.default_rng([int(fit.key[:8], 16)])
    level = 1 + sum(map(ord, fit.entry.title)) % 5
    names = {"expected_sid", "expected_shd", "interventional_nll", "predictive_nll", "consensus_class_shd"}
    names |= {"expected_class_shd", "edge_calibration_error", "target_calibration_error", "edge_brier", "target_brier"}
    values = {name: float(20 * level * rng.lognormal(0, 0.3)) for name in sorted(names)}
    values |= {name: float(rng.beta(12 - level, 1 + level)) for name in sorted(HIGH_IS_GOOD)}
    at = np.linspace(0.05, 0.95, 10)
    curve = [[round(float(p), 4), round(float(np.clip(p ** (level / 3), 0, 1)), 4), 40] for p in at]
    edges, targets = np.triu(rng.random((D, D)), 1), rng.random((M, D))
    graphs = [{"edges": np.argwhere(edges > cut).tolist(), "probability": 0.3} for cut in (0.5, 0.6, 0.7)]
    known = {"edges": edges.tolist(), "targets": targets.tolist()}
    known |= {"true_edges": (edges > 0.5).astype(int).tolist(), "true_targets": (targets > 0.7).astype(int).tolist()}
    details = {"reliability": {"edges": curve, "targets": curve}, "probabilities": known, "graphs": graphs}
    cost = float((fit.tasks.at or 10) * level)
    return Record(
        **fit.identity._asdict(),
        metrics=values,
        details=details,
        seconds=cost,
        cpu_seconds=cost,
        peak_memory=300.0,
        versions={"python": "3.11", "bacadi": "0"},
        machine="a machine, 2 cores",
    )
