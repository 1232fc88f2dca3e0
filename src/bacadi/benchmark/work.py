"""One fit of a study, carried out in this process: simulate, fit, evaluate, measure."""

import os
import platform
import re
import resource
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import bacadi
from bacadi.benchmark.records import DONE, FAILED, Identity, Record
from bacadi.benchmark.study import KNOWN_EFFECTS, UNKNOWN
from bacadi.config.codec import Place
from bacadi.config.columns import prepare
from bacadi.config.layers import DATA, KNOWLEDGE, restored
from bacadi.data.contexts import ContextData
from bacadi.errors import BacadiError, ConfigError
from bacadi.inference.fit import fit
from bacadi.metrics.calibration import Forecasts, edge_forecasts, reliability_curve, target_forecasts
from bacadi.metrics.evaluate import aligned, evaluate
from bacadi.model.knowledge import Knowledge, KnownEffects
from bacadi.model.model import Model
from bacadi.model.statements import from_section, labels_of
from bacadi.posterior.posterior import Posterior
from bacadi.simulate.files import CONTEXT, decode_spec
from bacadi.simulate.task import Task, simulate

PACKAGES = ("numpy", "scipy", "numba", "jax", "scikit-learn")
_MOST_CELLS = 2_000
_MOST_GRAPHS, _GRAPHS_UP_TO = 40, 6
_PLACE = "the settings of the record"


def carry_out(identity: Identity) -> Record:
    """Carry out a fit and return its record; whatever goes wrong is a record as well.

    The same functions as those of `bacadi simulate`, `bacadi fit` and `bacadi evaluate` are called.
    """
    facts: dict[str, Any] = {"versions": versions(), "machine": machine()}
    begin = time.monotonic()
    try:
        facts |= _measured(identity)
        facts["details"]["overall_seconds"] = round(time.monotonic() - begin, 3)
    except BacadiError as refusal:
        facts |= {"reason": FAILED, "error": str(refusal)}
    except Exception as failure:
        what = " ".join(str(failure).split()) or "no message"
        at = traceback.extract_tb(failure.__traceback__)[-1]
        facts |= {
            "reason": FAILED,
            "error": f"{type(failure).__name__}: {what} ({Path(at.filename).name}, line {at.lineno})",
        }
    return Record(**identity._asdict(), **facts, recorded=datetime.now(UTC).isoformat(timespec="seconds"))


def _measured(identity: Identity) -> dict[str, Any]:
    task = simulate(decode_spec(identity.task, "the task of the record"), identity.task_seed)
    model, method = restored(identity.settings, Place(_PLACE))
    if hasattr(method, "jobs") and not method.baseline.batched:
        method = method.replace(jobs=1)  # runners have processes of their own
    knowledge, data = told(task, identity.settings), prepared(task, identity.settings)
    _forget_peak()
    begin, before = time.monotonic(), _cpu_seconds()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        posterior = fit(data, model or Model(), method, seed=identity.method_seed, knowledge=knowledge)
        seconds, used = time.monotonic() - begin, _cpu_seconds() - before
        values = evaluate(posterior, task, list(_own_modules(identity.settings)))
    said = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
    return {
        "reason": DONE,
        "metrics": {name: value if np.isfinite(value) else str(value) for name, value in values.items()},
        "details": details(aligned(posterior, task.data), task),
        "seconds": round(seconds, 3),
        "cpu_seconds": round(used, 3),
        "peak_memory": round(_peak_memory(), 1),
        "warnings": [*posterior.attrs.get("warnings", []), *dict.fromkeys(said)],
    }


def prepared(task: Task, settings: dict[str, Any]) -> ContextData:
    """The data of a task as the command line would make them of a table, where the settings say anything of columns
    (`data`); as they were drawn otherwise."""
    if DATA not in settings:
        return task.data
    data = task.data
    labels = np.array([str(data.observational), *data.contexts])
    table = pd.DataFrame(data.x, columns=list(data.variables)).assign(**{CONTEXT: labels[data.context]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what the doctor says of broken data is no news
        return prepare(table, CONTEXT, data.observational or "", **settings[DATA])


def told(task: Task, settings: dict[str, Any]) -> Knowledge:
    """What a method is told of a task: the table `knowledge` of its settings, and true targets where it gets them."""
    labels = labels_of(task.data)
    knowledge = from_section(settings.get(KNOWLEDGE, {}), labels, Path(), _PLACE)
    targets = settings.get("targets", UNKNOWN)
    if targets == UNKNOWN:
        return knowledge
    knowledge = knowledge.known_targets(task.targets.astype(float))
    return knowledge.with_effects(true_effects(task)) if targets == KNOWN_EFFECTS else knowledge


def true_effects(task: Task) -> KnownEffects:
    """Means and noise of the hard effects of a task, in the units of its data."""
    effects = task.effects.scaled(task.data.scaling)
    hit = effects.targets != 0
    if (hit & effects.keeps_parents).any():
        raise ConfigError("Effects that keep the parents of their target cannot be told; give targets = 'known'.")
    return KnownEffects(np.where(hit, effects.shift, np.nan), np.where(hit, effects.std, np.nan))


def details(posterior: Posterior, task: Task) -> dict[str, Any]:
    """What does not fit into single numbers.

    - `reliability`: of `edges` and `targets`, rows of mean probability, frequency and number for ten bins.
    - `probabilities`: of `edges` and `targets`, with the `true_edges` and `true_targets`, where they are not too many.
    - `graphs`: where there are few variables, the most probable graphs as lists of edges, with their probability.
    - `converged`: what the method says itself.
    - `overall_seconds`: wall time with simulation and metrics (`carry_out` adds it).
    """
    edges, targets = posterior.edge_probabilities(), posterior.target_probabilities()
    curves = {"edges": edge_forecasts(edges, task.graph), "targets": target_forecasts(targets, task.targets)}
    found: dict[str, Any] = {"reliability": {name: _curve(forecasts) for name, forecasts in curves.items()}}
    if edges.size + targets.size <= _MOST_CELLS:
        arrays = {"edges": edges, "targets": targets}
        found["probabilities"] = {name: np.round(values, 4).tolist() for name, values in arrays.items()}
        found["probabilities"] |= {"true_edges": task.graph.tolist(), "true_targets": task.targets.tolist()}
    if posterior.n_variables <= _GRAPHS_UP_TO:
        found["graphs"] = _most_probable(posterior)
    if "converged" in posterior.attrs:
        found["converged"] = bool(posterior.attrs["converged"])
    return found


def _curve(forecasts: Forecasts) -> list[list[float]]:
    if not len(forecasts.outcome):
        return []
    curve = reliability_curve(forecasts)
    return [[round(p, 5), round(f, 5), int(n)] for p, f, n in zip(*(part.tolist() for part in curve), strict=True)]


def _most_probable(posterior: Posterior) -> list[dict[str, Any]]:
    weight_of: dict[bytes, float] = {}
    d = posterior.n_variables
    for graph, weight in zip(posterior.graph.reshape(-1, d, d), posterior.weights.ravel().tolist(), strict=True):
        key = graph.astype(np.int8).tobytes()
        weight_of[key] = weight_of.get(key, 0.0) + weight
    ranked = sorted(weight_of.items(), key=lambda pair: (-pair[1], pair[0]))[:_MOST_GRAPHS]
    return [
        {"edges": np.argwhere(np.frombuffer(key, np.int8).reshape(d, d)).tolist(), "probability": round(weight, 5)}
        for key, weight in ranked
    ]


def _own_modules(value: Any) -> Iterator[str]:
    """The modules of classes of the user's own (`module:Class`) that settings name."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _own_modules(item)
    elif isinstance(value, list):
        for item in value:
            yield from _own_modules(item)
    elif isinstance(value, str) and re.fullmatch(r"[\w.]+:\w+", value):
        yield value.partition(":")[0]


def versions() -> dict[str, str]:
    """The versions that a result may depend on; records of other versions stay valid, but say so."""
    found = {"python": platform.python_version(), "bacadi": bacadi.__version__}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def machine() -> str:
    """Processor and number of cores, in words."""
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        described = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
        name = described.group(1) if described else name
    return f"{name.strip()}, {os.cpu_count()} cores, {platform.system()}"


def _cpu_seconds() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def _forget_peak() -> None:
    """Begin to measure the peak of memory anew; where the system cannot, it is that of the process so far."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_memory() -> float:
    """Megabytes."""
    with suppress(OSError, AttributeError):
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return int(re.search(r"VmHWM:\s*(\d+) kB", status).group(1)) / 1024  # type: ignore[union-attr]
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
