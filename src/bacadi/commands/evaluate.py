"""`bacadi evaluate`: how good a posterior is where the truth is known."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bacadi.errors import ConfigError

if TYPE_CHECKING:
    from bacadi.posterior import Posterior

# What a good value is, short enough for a terminal; docs/metrics.md says what each rewards and how it misleads.
_BEST_0, _BEST_1, _CONTEXT = "0 is best", "1 is best", "no score"
GOOD = {
    "cyclic_share": f"{_BEST_0}; cyclic draws do not count",
    "expected_sid": f"{_BEST_0}; dense graphs get it cheaply",
    "expected_sid_lower": f"{_BEST_0}; the best DAG of a class",
    "expected_sid_upper": f"{_BEST_0}; the worst DAG of a class",
    "expected_shd": f"{_BEST_0}; no edge at all: their number",
    "edge_average_precision": f"{_BEST_1}; chance: edge_prevalence",
    "edge_auprc": f"{_BEST_1}; no edge at all: above .5",
    "edge_prevalence": f"{_CONTEXT}: share of edges among pairs",
    "ancestral_average_precision": f"{_BEST_1}; chance: ancestral_prevalence",
    "ancestral_prevalence": f"{_CONTEXT}: share of ancestors",
    "expected_ancestral_shd": f"{_BEST_0}; no edge: pairs of ancestors",
    "edge_calibration_error": f"{_BEST_0}; a constant can get it",
    "edge_brier": f"{_BEST_0}; no edge: edge_prevalence",
    "edge_brier_reliability": f"{_BEST_0}; the part of calibration",
    "edge_brier_resolution": "high is good, at most the next",
    "edge_brier_uncertainty": f"{_CONTEXT}: prevalence (1 - prevalence)",
    "target_average_precision": f"{_BEST_1}; chance: target_prevalence",
    "target_auprc": f"{_BEST_1}; no target at all: above .5",
    "target_prevalence": f"{_CONTEXT}: share of targets",
    "target_top_accuracy": f"{_BEST_1}; looks at one target a context",
    "target_calibration_error": f"{_BEST_0}; a constant can get it",
    "target_brier": f"{_BEST_0}; none: target_prevalence",
    "target_brier_reliability": f"{_BEST_0}; the part of calibration",
    "target_brier_resolution": "high is good, at most the next",
    "target_brier_uncertainty": f"{_CONTEXT}: prevalence (1 - prevalence)",
    "interventional_nll": "low is good, -E[log p] a held-out row",
    "predictive_nll": "low is good, -log E[p] a held-out row",
    "interventional_nll_of_truth": f"{_CONTEXT}: what the true network gets",
    "total_effect_rmse": f"{_BEST_0}, in the units of data.csv",
    "effect_mean_rmse": f"{_BEST_0}, over true targets named",
    "effect_mean_coverage": f"{_BEST_1}: share of true targets named",
}


def evaluate(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="The --out folder of a fit, or a posterior.nc.")],
    truth: Annotated[Path | None, typer.Option(help="The --out folder of `bacadi simulate`.")] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the values to this JSON file as well.")
    ] = None,
) -> None:
    """Compare a posterior with the truth of a simulated task: a table of metrics, and JSON on request."""
    if truth is None:
        raise ConfigError("Name the folder with the truth with --truth DIR, the --out folder of `bacadi simulate`.")
    if json_file is not None and json_file.is_dir():
        raise ConfigError(f"--json '{json_file}' is a folder; give the name of a file.")
    from bacadi.commands.export import posterior_file
    from bacadi.data.text import write_text
    from bacadi.metrics.evaluate import evaluate as compare
    from bacadi.posterior import load
    from bacadi.simulate.files import load_truth

    path = posterior_file(source)
    posterior, known = load(path), load_truth(truth)
    _warn_of_other_data(posterior, truth)
    values = compare(posterior, known)
    if json_file is not None:
        write_text(json_file, json.dumps(_record(path, truth, values), indent=2, ensure_ascii=False) + "\n")
    typer.echo(_table(values))


def _warn_of_other_data(posterior: "Posterior", truth: Path) -> None:
    """Tasks of one kind share all their names, so only the data tell a fit of another task from one of this."""
    import hashlib

    from bacadi.simulate.files import TRAINING

    fitted = posterior.attrs.get("data_sha256")
    if fitted is not None and fitted != hashlib.sha256((truth / TRAINING[0]).read_bytes()).hexdigest():
        typer.echo(
            f"Warning: the posterior was fitted to another file than '{truth / TRAINING[0]}'; "
            "if that is no copy of it, the values below mean nothing.",
            err=True,
        )


def _record(path: Path, truth: Path, values: dict[str, float]) -> dict[str, object]:
    import bacadi

    # JSON has no infinity.
    metrics = {name: value if math.isfinite(value) else None for name, value in values.items()}
    return {"bacadi": bacadi.__version__, "posterior": str(path), "truth": str(truth), "metrics": metrics}


def _table(values: dict[str, float]) -> str:
    """One line a metric, never wrapped, so that other programs can cut it as well."""
    rows = [
        ("metric", "value", "what is good"),
        *((name, f"{v:.4g}", GOOD.get(name, "")) for name, v in values.items()),
    ]
    names, numbers = (max(len(row[i]) for row in rows) for i in (0, 1))
    return "\n".join(f"{name:<{names}}  {value:>{numbers}}  {good}".rstrip() for name, value, good in rows)
