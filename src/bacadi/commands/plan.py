"""A run before it starts: everything validated, and the content of the config.json that describes it."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

import bacadi
from bacadi.commands import targets as known_targets
from bacadi.data.checks import Severity
from bacadi.data.contexts import ContextData
from bacadi.data.doctor import examine
from bacadi.data.tables import read_table
from bacadi.data.text import quoted, write_text
from bacadi.errors import ConfigError
from bacadi.graph.enumerate import MAX_DAG_NODES
from bacadi.model.knowledge import Knowledge, Labels
from bacadi.settings import Settings, build_baseline, knowledge_section
from bacadi.settings.knowledge import knowledge_from_mapping
from bacadi.settings.knowledge_record import to_record
from bacadi.settings.methods import COLLAPSED

CONFIG, LOG, CHECKPOINT, POSTERIOR = "config.json", "log.jsonl", "checkpoint.npz", "posterior.nc"
RESULTS = ("edges.csv", "targets.csv", POSTERIOR)
_LARGEST_SEED = 2**32 - 1


@dataclass(frozen=True)
class Options:
    """What the user asked for beside the settings; paths are as given."""

    data: Path
    context: str
    observational: str | None
    out: Path
    seed: int = 0
    standardize: bool = False
    targets: str = known_targets.UNKNOWN
    config: Path | None = None
    checkpoint_seconds: float = 60.0


@dataclass(frozen=True)
class Plan:
    """A run that nothing but the inference itself can stop."""

    options: Options
    settings: Settings
    data: ContextData
    known: np.ndarray | None
    knowledge: Knowledge | None
    sha256: str
    warnings: tuple[str, ...] = ()

    @property
    def out(self) -> Path:
        return self.options.out

    def record(self) -> dict[str, Any]:
        """The content of config.json: all that a repetition or a continuation needs."""
        options = self.options
        return {
            "bacadi": bacadi.__version__,
            "data": {"path": str(options.data.resolve()), "sha256": self.sha256},
            "context": options.context,
            "observational": options.observational,
            "standardize": options.standardize,
            "targets": options.targets,
            "known_targets": known_targets.to_cells(self.known, self.data),
            "knowledge": to_record(self.knowledge),
            "method": self.settings.method,
            "seed": options.seed,
            "preset": self.settings.preset,
            "settings": self.settings.to_dict(),
            "checkpoint_seconds": options.checkpoint_seconds,
        }

    def write_record(self) -> None:
        """Write config.json."""
        write_text(self.out / CONFIG, json.dumps(self.record(), indent=2, ensure_ascii=False) + "\n")


def prepare(options: Options, settings: Settings) -> Plan:
    """Check everything that can be checked without running; nothing is written."""
    if not 0 <= options.seed <= _LARGEST_SEED:
        raise ConfigError(f"--seed is {options.seed}; give a whole number from 0 to {_LARGEST_SEED}.")
    if not 0 <= options.checkpoint_seconds < float("inf"):
        raise ConfigError(f"--checkpoint-every is {options.checkpoint_seconds}; give a number of seconds from 0 on.")
    data, warnings = read_data(options)
    known = known_targets.known_targets(options.targets, data)
    knowledge = read_knowledge(options.config, data)
    check_folder(options.out)
    if (options.out / CHECKPOINT).exists():
        raise ConfigError(
            f"The folder '{options.out}' holds an unfinished run; continue it with `bacadi resume`, delete the folder "
            "or choose another --out."
        )
    plan = Plan(options, settings, data, known, knowledge, file_digest(options.data), warnings)
    _check_with_data(plan)
    return plan


def read_data(options: Options) -> tuple[ContextData, tuple[str, ...]]:
    """The data, and the warnings of the doctor as sentences."""
    examination = examine(read_table(options.data, options.context), options.context, options.observational)
    data = examination.data()
    warnings = tuple(finding.message for finding in examination.diagnosis.of(Severity.WARNING))
    return (data.standardized() if options.standardize else data), warnings


def labels_of(data: ContextData) -> Labels:
    """The names that knowledge of these data goes by."""
    return Labels(data.variables, data.contexts)


def read_knowledge(config: Path | None, data: ContextData) -> Knowledge | None:
    """What the section [knowledge] of the configuration says of these data; its files stand beside it."""
    section = None if config is None else knowledge_section(config)
    if config is None or section is None:
        return None
    return knowledge_from_mapping(section, data.variables, data.contexts, config.parent, quoted(config.name))


def certain_targets(plan: Plan) -> Float[np.ndarray, "M d"] | None:
    """All that is known, for methods that take known targets and nothing else; refuses what goes beyond."""
    knowledge = plan.knowledge
    if knowledge is None:
        return plan.known
    odds = knowledge.known_targets(plan.known).target_log_odds
    beyond = knowledge.edge_log_odds.any() or knowledge.max_parents is not None
    if beyond or knowledge.target_count_log is not None or np.isfinite(odds[odds != 0]).any():
        raise ConfigError(
            f"The section [knowledge] speaks of more than certain targets, and method {plan.settings.method} knows how "
            "to use these alone; use --method mcmc or remove the rest."
        )
    return np.where(np.isinf(odds), odds > 0, np.nan)


def check_folder(out: Path) -> None:
    """Refuse a folder for the results that cannot be made or written to."""
    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out '{out}' is a file; give the name of a folder, which is made if it is missing.")
    ancestor = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists())
    if not ancestor.is_dir():
        raise ConfigError(f"--out '{out}' cannot be made because '{ancestor}' is a file; choose another folder.")
    if not os.access(ancestor, os.W_OK | os.X_OK):
        raise ConfigError(
            f"--out '{out}' cannot be written to (no permission for '{ancestor}'); choose another folder."
        )


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_with_data(plan: Plan) -> None:
    """Refuse what the method cannot do with these data and this knowledge."""
    method, data = plan.settings.method, plan.data
    if method in COLLAPSED:
        if plan.knowledge is not None:
            plan.knowledge.known_targets(plan.known)  # refuses what contradicts --targets
    else:
        certain_targets(plan)
    if method == "exact" and data.n_variables > MAX_DAG_NODES:
        raise ConfigError(
            f"--method exact lists all graphs of at most {MAX_DAG_NODES} variables and the data have "
            f"{data.n_variables}; use --method mcmc."
        )
    if plan.settings.is_baseline:
        build_baseline(plan.settings).baseline.check(data, certain_targets(plan))
