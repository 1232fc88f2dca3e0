"""`Task`: data whose truth is known; `simulate` makes one from a specification and a seed."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Int8

from bacadi.config.choices import Choice, option
from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError
from bacadi.inference.method import total_memory
from bacadi.model.network import CausalNetwork, Contexts, Effects, Rows
from bacadi.simulate.graphs import AbstractGraphFamily, RandomErdosRenyi
from bacadi.simulate.grn import RegulatoryNetwork

OBSERVATIONAL = "obs"


class AbstractSpec(Choice):
    """A task but for its seed. Its fields are the keys of the TOML file that describes it."""

    n_variables: int = option(20, least=1)
    graph: AbstractGraphFamily = RandomErdosRenyi()

    @abstractmethod
    def draw(self, seed: int) -> "Task":
        """Draw a task. Graph, mechanisms, interventions and samples have random streams of their own, so that
        specifications which differ only in, say, the number of rows share the network."""

    def _check_size(self, n_observational: int, *designs: Any) -> None:
        """Refuse tables that no memory holds, before any of it is asked for."""
        d, rows = self.n_variables, n_observational
        for design in designs:
            n_contexts = d if design.n_contexts is None else design.n_contexts
            rows += n_contexts * (design.rows_per_context + 1)
        if 8 * d * (d + rows) > total_memory():
            raise ConfigError(
                f"{d} variables and {rows} rows do not fit into the memory of this machine; ask for fewer variables, "
                "contexts or rows."
            )

    def _check_targets(self, *per_context: int) -> None:
        if max(per_context) > self.n_variables:
            raise ConfigError(
                f"{max(per_context)} targets per context are more than the {self.n_variables} variables; "
                "ask for fewer targets."
            )


@dataclass(frozen=True, eq=False)
class Task:
    """Training data of several contexts, held-out interventional data, and the truth behind both.

    Network, noise and effects are in the units in which they were drawn; `data.scaling` says how the data were scaled.
    A task that was read from its tables has no specification, and a network only where its mechanisms are linear. The
    cell types, one number per row, are a hidden cause of gene expression and None for other tasks.
    """

    seed: int
    graph: Int8[np.ndarray, "d d"]
    effects: Effects
    data: ContextData
    held_out_effects: Effects
    held_out: ContextData
    network: CausalNetwork | RegulatoryNetwork | None = None
    noise_std: Float[np.ndarray, " d"] | None = None
    spec: AbstractSpec | None = None
    cell_type: Int[np.ndarray, " n"] | None = None
    held_out_cell_type: Int[np.ndarray, " h"] | None = None

    @property
    def targets(self) -> Int8[np.ndarray, "m d"]:
        """The true targets of the training contexts; row k belongs to `data.contexts[k]`."""
        return self.effects.targets

    @property
    def held_out_targets(self) -> Int8[np.ndarray, "h d"]:
        """The targets of the held-out contexts, which a method is told; row k belongs to `held_out.contexts[k]`."""
        return self.held_out_effects.targets

    @property
    def weights(self) -> Float[np.ndarray, "d d"] | None:
        """The linear coefficient of each edge, None where the mechanisms are not linear."""
        return self.network.weights if isinstance(self.network, CausalNetwork) else None

    def log_density(self, held_out: bool = False) -> Float[np.ndarray, " n"]:
        """log p(x | context) of each training or held-out row under the truth, in the units of `data`.

        On held-out rows this is the best that a method can reach on average.
        """
        data, effects = (self.held_out, self.held_out_effects) if held_out else (self.data, self.effects)
        if not isinstance(self.network, CausalNetwork):
            raise ConfigError("The network of this task has no density in closed form; simulate a synthetic task.")
        original = data.scaling.invert(data.x)
        # Change of variables: the density of scaled = (original - shift) / scale has the factor Π scale.
        log_p = self.network.log_density(original, data.context, effects) + np.log(data.scaling.scale)
        return log_p.sum(axis=1)


def simulate(spec: AbstractSpec, seed: int) -> Task:
    """Make the task of a specification and a seed; equal arguments give equal tasks.

    >>> from bacadi.simulate import GeneExpressionSpec, SyntheticSpec
    >>> task = simulate(SyntheticSpec(), seed=0)
    >>> task.data.n_rows, task.data.n_contexts, task.held_out.n_rows
    (300, 20, 1000)
    >>> simulate(GeneExpressionSpec(), seed=0).data.n_rows
    200
    """
    if seed < 0:
        raise ConfigError(f"The seed {seed} is negative; give 0 or more.")
    return spec.draw(seed)


def standardized(task: Task) -> Task:
    """The task in units in which each training column has mean 0 and standard deviation 1 over all rows."""
    data = task.data.standardized()
    held_out = replace(task.held_out, x=data.scaling.apply(task.held_out.x), scaling=data.scaling)
    return replace(task, data=data, held_out=held_out)


def labelled_data(x: Rows, context: Contexts, n_contexts: int, letter: str) -> ContextData:
    """Name variables by the letter and their number, contexts c1, c2, …"""
    variables = tuple(f"{letter}{j + 1}" for j in range(x.shape[1]))
    contexts = tuple(f"c{k + 1}" for k in range(n_contexts))
    return ContextData(x, context, variables, contexts, OBSERVATIONAL if (context == 0).any() else None)
