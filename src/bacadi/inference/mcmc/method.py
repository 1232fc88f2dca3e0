"""The choices of `MCMC`: parallel tempering over graph and states; `tempering` runs it."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from bacadi.errors import ConfigError

# Draws come from the coldest level, where most moves are refused; it makes so many times the moves of the hottest.
COLD_MOVES, COLD_LEVELS = 8.0, 1.5


@dataclass(frozen=True)
class MoveWeights:
    """How often each move is proposed, relative to the others; the order is that of `moves.MOVES`."""

    toggle: float = 4.0
    reverse: float = 4.0
    swap_parent: float = 4.0
    change_target: float = 2.0
    swap_target: float = 2.0
    edge_and_target: float = 1.0
    toggle_and_column: float = 0.1
    reverse_and_columns: float = 0.3


@dataclass(frozen=True)
class MCMC:
    """Parallel tempering; None stands for a choice by the number of variables d and the cost of a score.

    A sweep is `moves_per_sweep` moves (4 d, and up to eight times as many at the coldest) at each of `n_levels`
    temperatures (4 + 2.7 √d), then exchanges. `n_sweeps` (33 d, at least 660) of each replica include the share
    `burn_in`, in which the spacing of the temperatures and, without `max_temperature`, the hottest of them are adapted.
    With `time_budget` (seconds) the run ends by then, whatever the number of sweeps, and burns in for the same share of
    the time. The numbers in brackets are those of linear models; `plan` has those of models whose scores take
    milliseconds.

    >>> MCMC(n_draws=200).n_replicas
    2
    """

    n_draws: int = 1000
    n_replicas: int = 2
    n_sweeps: int | None = None
    burn_in: float = 0.4
    n_levels: int | None = None
    max_temperature: float | None = None
    moves_per_sweep: int | None = None
    max_parents: int | None = None
    time_budget: float | None = None
    weights: MoveWeights = field(default_factory=MoveWeights)

    def __post_init__(self) -> None:
        for name in ("n_draws", "n_replicas", "n_sweeps", "n_levels", "moves_per_sweep"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ConfigError(f"{name} is {value}; give a whole number of at least 1.")
        if self.n_replicas < 2:
            raise ConfigError("One replica cannot be compared with another; give n_replicas of at least 2.")
        if not 0 < self.burn_in < 1:
            raise ConfigError(f"burn_in is {self.burn_in}; give the share of the sweeps, between 0 and 1.")

    def plan(self, d: int, costly: bool) -> "Plan":
        """The numbers to run with. Scores that cost milliseconds leave no time for high temperatures, where few of
        them are asked for twice; a short ladder then explores around the structures that the start found."""
        ladder = (
            Plan(350, 6, max(5 * d, 50), 4.0)
            if costly
            else Plan(max(33 * d, 660), round(4 + 2.7 * d**0.5), max(4 * d, 40), None)
        )
        given = {name: getattr(self, name) for name in Plan._fields if getattr(self, name) is not None}
        return ladder._replace(**given)


class Plan(NamedTuple):
    """The numbers of a run; a `max_temperature` of None is adapted."""

    n_sweeps: int
    n_levels: int
    moves_per_sweep: int
    max_temperature: float | None

    def level_moves(self) -> Int[np.ndarray, " L"]:
        """The moves of a sweep at each level, the coldest first.

        >>> Plan(1, 4, 10, None).level_moves().tolist()
        [80, 45, 28, 19]
        """
        more = (COLD_MOVES - 1) * np.exp(-np.arange(self.n_levels) / COLD_LEVELS)
        return (self.moves_per_sweep * (1 + more)).astype(np.int64)
