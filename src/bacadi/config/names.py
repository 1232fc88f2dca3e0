"""The one table of names, `names.toml`: what files and flags call a choice, and where its class is."""

import tomllib
from importlib.resources import files

NAMES: dict[str, dict[str, str]] = tomllib.loads(files("bacadi.config").joinpath("names.toml").read_text("utf-8"))
"""Names and `module:Class` paths by group: the path of the base class, or the name of a group of functions."""

MODEL = "bacadi.model.model:Model"
COLUMNS = "bacadi.config.columns:Columns"
METHOD = "bacadi.inference.method:AbstractMethod"
BASELINE = "bacadi.baselines.base:AbstractBaseline"
MECHANISM = "bacadi.model.mechanism:Mechanism"

FLAGS = {
    "--draws": "n_draws",
    "--sweeps": "n_sweeps",
    "--time-budget": "time_budget",
    "--replicas": "n_replicas",
    "--particles": "n_particles",
    "--steps": "n_steps",
    "--samples": "n_samples",
    "--jobs": "jobs",
}
"""The flags of `bacadi fit` that set a field of the method."""
