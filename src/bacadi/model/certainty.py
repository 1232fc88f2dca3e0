"""What keeps a model that is only nearly right from being certain: each a choice with its formula.

Both are read where parameters are integrated out from sums of products: linear mechanisms, BGe, and Gaussian processes
by features.
"""

import numpy as np
from jaxtyping import Float

from bacadi.config.choices import Choice, option
from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError


class ContextDrift(Choice):
    """Every variable shifts a little in every context, targeted or not: δ_kj ~ N(0, (τ_j σ_j)²), integrated out.

    Batches, days and doses differ in everything by a little, and with enough rows every little difference is certain.
    With a τ_j of its own per variable, one of `stds` with probabilities `shares`, a shift counts as a target's only
    where it stands out of the shifts that the variable shows in the other contexts: an empirical null. τ = 0 is the
    model without drift.

    Where contexts differ in everything, so do slopes: with v the entry of `slopes` beside τ, coefficients change by
    N(0, (v σ_j)²) in every context.

    A mechanism that is linear only nearby, or is seen through noise or a hidden cause, is another one where a context
    has moved a parent far, and must not pass for a target there. With Δ² the sum of the squared moves of its parents in
    context k, in standard deviations (`evidence.gram.reach`), and w the entry of `moves` beside τ, variable j shifts
    by N(0, (w Δ σ_j)²) more: the slope between contexts is not the one within them. That is not all that may happen
    there, so that with odds of `bend` Δ²/(1 + Δ²) the mechanism is another one altogether, as the effect has it for
    targets. A variable whose mechanism has changed where its parents have moved is then hit directly with the odds of a
    target to these.

    A control that was made of many sources varies more than a context that was made in one go. With ρ the entry of
    `ratios` beside τ, the noise of variable j has the variance ρσ_j² in all contexts but the control (None: σ_j²).

    >>> ContextDrift((0.0, 0.5), (0.0, 0.1), (0.9, 0.1)).probabilities.tolist()
    [0.9, 0.1]
    """

    stds: tuple[float, ...] = option((0.0, 0.1, 0.3, 1.0), least=0)
    slopes: tuple[float, ...] = option((0.0, 0.0, 0.0, 0.0), least=0)
    shares: tuple[float, ...] | None = option((0.4, 0.2, 0.2, 0.2), above=0)
    ratios: tuple[float, ...] | None = option(None, above=0, none="none")
    moves: tuple[float, ...] | None = option(None, least=0, none="none")
    bend: float = option(0.0, least=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        n = len(self.stds)
        if not n or len(self.slopes) != n:
            what = f"stds has {n} numbers and slopes {len(self.slopes)}"
            raise ConfigError(f"{what}; give as many of each, at least one, 0 for no drift.")
        if self.shares is not None and (len(self.shares) != n or abs(sum(self.shares) - 1) > 1e-9):
            raise ConfigError(f"shares is {list(self.shares)}; give {n} numbers above 0 that add to 1.")
        if self.ratios is not None and len(self.ratios) != n:
            raise ConfigError(f"ratios is {list(self.ratios)}; give {n} numbers above 0, one for each of stds.")
        if self.moves is not None and len(self.moves) != n:
            raise ConfigError(f"moves is {list(self.moves)}; give {n} numbers of at least 0, one for each of stds.")

    @property
    def is_any(self) -> bool:
        """Whether contexts may differ in anything but their targets."""
        return any(self.stds) or any(self.slopes) or self.follows_parents or bool((self.noise_ratios != 1).any())

    @property
    def follows_parents(self) -> bool:
        """Whether a variable may change more where its parents have moved."""
        return bool(self.context_moves.any()) or self.bend > 0

    @property
    def context_moves(self) -> Float[np.ndarray, " B"]:
        """`moves`, or 0 for each of `stds`."""
        return np.zeros(len(self.stds)) if self.moves is None else np.array(self.moves)

    @property
    def noise_ratios(self) -> Float[np.ndarray, " B"]:
        """`ratios`, or 1 for each of `stds`."""
        return np.ones(len(self.stds)) if self.ratios is None else np.array(self.ratios)

    @property
    def probabilities(self) -> Float[np.ndarray, " B"]:
        """Those of `stds`: `shares`, or equal ones."""
        return np.full(len(self.stds), 1 / len(self.stds)) if self.shares is None else np.array(self.shares)


NO_DRIFT = ContextDrift((0.0,), (0.0,), (1.0,))
FUNCTIONS = ContextDrift((0.0, 0.0), (0.0, 0.0), (0.5, 0.5), moves=(0.0, 0.1))
"""The default of networks: what is learnt of a function nearby says less of where a context has moved a parent by tens
of standard deviations than the prior of the function has it."""
MOVES = ContextDrift(
    stds=(0.0, 0.1, 0.3, 1.0, 0.1, 0.1, 0.1),
    slopes=(0.0,) * 7,
    shares=(0.3, *(0.1,) * 3, 0.13, 0.13, 0.14),
    moves=(0.0,) * 4 + (0.1, 0.4, 1.6),
    bend=1.0,
)
"""Drift of intercepts, and mechanisms that are others where parents have moved, for data that want it: `inference.auto`
compares it with the default."""
SLOPES = ContextDrift(
    stds=(0.0, 0.1, 0.3, 0.0, 0.0, 1.0, 0.1, 0.1),
    slopes=(0.0, 0.0, 0.0, 0.1, 0.3, 0.3, 0.1, 0.3),
    shares=(0.3, *(0.1,) * 7),
    moves=(0.0,) * 6 + (0.4, 1.6),
    bend=1.0,
)
"""The same, with slopes that drift in all contexts."""
RATIOS = ContextDrift(
    stds=(0.0, 0.1, 0.3, 1.0) + (0.0, 0.1, 0.3) * 3,
    slopes=(0.0,) * 13,
    shares=(0.2, 0.1, 0.1, 0.2) + (0.08, 0.04, 0.04) + (0.06, 0.03, 0.03) * 2,
    ratios=(1.0,) * 4 + (0.25,) * 3 + (0.0625,) * 3 + (4.0,) * 3,
)
"""Drift of intercepts, and a noise in contexts that is not the control's."""


class Coarsening(Choice):
    """Rows count as fewer than they are: the likelihood of context k is raised to the power ζ_k.

    With `limit` a, ζ_k = a / (a + n_k): n_k rows count as at most a (Miller and Dunson 2019), because the data are only
    near the model and more rows of the same kind cannot tell which of two nearly right models is right. None: no limit.
    With `dependence` rows that depend on those before them count as the independent rows that they are worth
    (`ContextData.effective_rows`). With `tails` rows that are far off count less for the variable that is far off,
    where its noise has heavy tails (`inference.tails`).

    >>> data = ContextData(np.zeros((4, 1)), np.array([0, 0, 0, 1]), ("a",), ("k",))
    >>> Coarsening(limit=3.0).power(data).tolist()
    [0.5, 0.75]
    """

    limit: float | None = option(None, above=0, none="none")
    dependence: bool = True
    tails: bool = True

    def power(self, data: ContextData) -> Float[np.ndarray, " K"] | None:
        """ζ of every context, the observational one first; None where all are 1."""
        worth = data.dependence.share if self.dependence and data.n_rows else np.ones(data.n_contexts + 1)
        power = worth if self.limit is None else worth * self.limit / (self.limit + data.counts)
        return None if (power == 1).all() else power


NO_COARSENING = Coarsening(None, False, False)
