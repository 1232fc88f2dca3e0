"""What a method is: an object with `fit(problem, monitor) → Posterior`, ours or a baseline.

A method is a frozen dataclass of its choices. What it is given is a `Problem`, whom it tells of its progress and where
it keeps its checkpoint is a `Monitor`.
"""

import os
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from bacadi.config.choices import Choice
from bacadi.config.layers import name_of_method
from bacadi.data.contexts import ContextData, Scaling
from bacadi.data.labelled import Labelled
from bacadi.data.text import counted
from bacadi.errors import ConfigError
from bacadi.inference.machines import Machines
from bacadi.model.knowledge import Knowledge
from bacadi.model.model import Model
from bacadi.posterior.posterior import Posterior


@dataclass(frozen=True)
class Problem:
    """What a posterior is wanted of. Methods that bring their own model (the baselines) do not read `model`.

    `extends` is an earlier posterior of the same problem, to whose draws more are to be added. `hyperparameters` are
    those of the evidence where they have been fitted (`AbstractEvidence.hyperparameters`).
    """

    data: ContextData
    model: Model
    knowledge: Knowledge
    seed: int = 0
    extends: Posterior | None = None
    hyperparameters: Int[np.ndarray, " h"] | None = None

    @property
    def known_targets(self) -> Float[np.ndarray, "M d"]:
        """1 for a certain target, 0 for a variable that is certainly none, NaN for what is to be inferred."""
        return self.knowledge.certain_targets()

    @cached_property
    def standardized(self) -> ContextData:
        """The data in the units of the priors."""
        if not self.model.standardize_within:
            return self.data
        return self.data.standardized_within(keep_origin=self.model.mechanism.keeps_origin)

    @property
    def scaled_knowledge(self) -> Knowledge:
        """The knowledge in the units of the priors."""
        return self.knowledge.scaled(self.scaling)

    @property
    def scaling(self) -> Scaling:
        """From the units of the priors to those of the data: x = shift + scale · (x in the units of the priors)."""
        return self.standardized.scaling.relative_to(self.data.scaling)

    def unit_constants(self) -> dict[str, Labelled]:
        """`scaling` as constants of a posterior, for parameters that stay in the units of the priors."""
        scaling = self.scaling
        return {"unit_shift": Labelled(scaling.shift, ("node",)), "unit_scale": Labelled(scaling.scale, ("node",))}


@dataclass(frozen=True)
class Progress:
    """How far a running fit is: `step` of `total`, in words for a person and as numbers for the log."""

    step: int
    total: int
    seconds: float
    phase: str
    note: str = ""
    entries: dict[str, Any] = field(default_factory=dict)


Report = Callable[[Progress], None]


STARTING = "starting"
"""The phase of `Progress` before the first step, whose steps say nothing of those to come."""


@dataclass(frozen=True)
class Monitor:
    """Who hears of a running fit and where it keeps its checkpoint; all of it is optional.

    Args:
        report: hears of progress, and may raise `KeyboardInterrupt` to end the fit.
        checkpoint: the file of the state.
        checkpoint_seconds: the time between two checkpoints.
        warn: hears of troubles that do not end the fit, such as a checkpoint that cannot be written.
        begun: when the work began (monotonic), for a time budget; without it, when the fit begins.
        machines: who else works: replicas of MCMC are carried out there, with the same result.
    """

    report: Report | None = None
    checkpoint: Path | None = None
    checkpoint_seconds: float = 60.0
    warn: Callable[[str], None] | None = None
    begun: float | None = None
    machines: Machines | None = None

    def tell(self, progress: Progress) -> None:
        """Report progress to whoever listens."""
        if self.report is not None:
            self.report(progress)


def total_memory() -> float:
    """Bytes of memory that the machine has; no limit where it does not say."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


class AbstractMethod(Choice):
    """A way from a problem to its posterior; equal arguments give equal posteriors, bit for bit on one machine.

    `takes_all_knowledge` says what a method can do with `Knowledge`: all of it, or certain targets alone, and
    `takes_effects` whether it can be told hard effects;
    `reads_model` whether it fits `Problem.model` or brings its own, `can_extend` whether it adds draws to those of an
    earlier posterior. `results_version` is raised with every change of the code that changes its results: records of
    studies made before such a change are then made anew, and all others stay.
    """

    results_version: ClassVar[int] = 1
    takes_all_knowledge: ClassVar[bool] = False
    takes_effects: ClassVar[bool] = False
    reads_model: ClassVar[bool] = True
    can_extend: ClassVar[bool] = False

    @property
    def n_results(self) -> int:
        """How many draws, particles or estimates the method makes at least room for."""
        return 0

    @abstractmethod
    def fit(self, problem: Problem, monitor: Monitor) -> Posterior:
        """The posterior of graph, targets and parameters."""

    def check(self, problem: Problem) -> None:
        """Refuse, before anything is run or written, what this method cannot do with the data and the knowledge."""
        if problem.data.n_rows == 0:
            raise ConfigError("There are no rows to learn from; give data with at least one row.")
        if problem.extends is not None and not self.can_extend:
            raise ConfigError(f"A run of method {name_of_method(self)} cannot be extended; start a new one.")
        d, m = problem.data.n_variables, problem.data.n_contexts
        # Graph and targets take a byte per pair, parameters four, and all is copied on the way to the file.
        if 10 * self.n_results * d * (d + m) > total_memory():
            raise ConfigError(
                f"{self.n_results} draws of {counted(d, 'variable')} and {counted(m, 'context')} do not fit into the "
                "memory of this machine; ask for fewer."
            )
        if not self.takes_effects and problem.knowledge.effects is not None:
            raise ConfigError(
                f"The knowledge gives effects, which method {name_of_method(self)} cannot be told; use --method mcmc "
                "or give their targets alone."
            )
        if not self.takes_all_knowledge and problem.knowledge.beyond_certain_targets:
            raise ConfigError(
                "The knowledge speaks of more than certain targets (edges, limits of parents, likely targets or their "
                f"number), and method {name_of_method(self)} can use these alone; use --method mcmc or remove the rest."
            )

    def settled(self, problem: Problem, monitor: Monitor) -> tuple[Problem, dict[str, Any]]:
        """The problem with what the model leaves open chosen by the data, and attributes that say what and why."""
        return problem, {}

    def opening(self, model: Model | None = None) -> str:
        """What the method does before it first reports progress, in words for the person who waits."""
        return STARTING
