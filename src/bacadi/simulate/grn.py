"""Gene regulatory networks whose cells follow the chemical Langevin equation (SERGIO; Dibaeinia and Sinha, 2020).

Gene j of a cell of type c is produced at a rate that its regulators set and decays in proportion to its level x_j:

    dx_j = (P_j(x) - λ x_j) dt + q (√P_j(x) dW_α + √(λ x_j) dW_β),   x_j >= 0   (Itô),
    P_j(x) = b_jc + Σ_i |k_ij| · { hill(x_i) where k_ij > 0 (activation), 1 - hill(x_i) where k_ij < 0 (repression) },
    hill(x_i) = x_i^n / (h_i^n + x_i^n).

Only genes without regulators ("master regulators") have a basal rate b_jc, and it alone tells the cell types apart. A
knocked-out gene has P_j = 0. Written from the published equations.

The law of a master regulator is known: x + b/λ ~ Gamma(4b / (q²λ), scale q²/2), cut off below b/λ because levels end at
0. Without the cut its mean is b/λ and its variance q²b/λ; at the defaults the cut raises the mean by 1 % for b = 3 and
by 15 % for b = 1.

Cells are measured with the technical noise of single-cell sequencing, as in SERGIO (`AbstractTechnicalNoise`).
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8
from scipy.special import expit

from bacadi.config.choices import Choice, option
from bacadi.errors import ConfigError
from bacadi.graph.dag import topological_order

Levels = Float[np.ndarray, "n d"]
PerGene = Float[np.ndarray, " d"]
KnockedOut = Bool[np.ndarray, " d"] | None


_MOST_STEPS = 1_000_000


class Langevin(Choice):
    """Decay λ and noise amplitude q of the Langevin equation, its time step, and how long each cell is followed.

    Levels forget their start at the rate λ, so the default time leaves e^(-20) of it. `knock_out_time=None` follows
    the cells of knock-outs as long as the others, to the steady state.
    """

    decay: float = option(0.8, above=0)
    noise: float = option(1.0, least=0)
    step: float = option(0.01, above=0)
    time: float = 25.0
    knock_out_time: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.decay * self.step < 1:
            raise ConfigError(
                f"A time step of {self.step} cannot follow a decay of {self.decay}; give step < 1 / decay."
            )
        if not max(self.time, self.knock_out_time or 0.0) < _MOST_STEPS * self.step:
            raise ConfigError(
                f"Following a cell for {self.time} in steps of {self.step} takes more than {_MOST_STEPS} of them; give "
                "longer steps or less time."
            )
        for name in ("time", "knock_out_time"):
            value = getattr(self, name)
            if value is not None and value < self.step:
                raise ConfigError(f"{name} = {value} is shorter than one step of {self.step}; follow the cells longer.")


class Cells(NamedTuple):
    """The conditions under which each of n cells lives."""

    cell_type: Int[np.ndarray, " n"]
    knocked_out: Bool[np.ndarray, "n d"]
    half_responses: Float[np.ndarray, "n d"]


@dataclass(frozen=True, eq=False)
class RegulatoryNetwork:
    """A gene regulatory network with all its rates, for `graph[i, j] = 1` where gene i regulates gene j."""

    graph: Int8[np.ndarray, "d d"]
    strengths: Float[np.ndarray, "d d"]  # k_ij: positive activates, negative represses, 0 without an edge
    basal: Float[np.ndarray, "c d"]  # b_jc by cell type, 0 for genes with regulators
    hill: float
    langevin: Langevin

    def half_responses(self, knocked_out: KnockedOut = None) -> PerGene:
        """h_i, the mean over cell types of gene i's noise-free steady state in the wild type (or a knock-out).

        Found in topological order: regulators first, each with its own half response before it acts on others. Noise
        moves the means of simulated cells by some 10 % from these (benchmarks/grn_speed.py).
        """
        return self._steady_state(None, knocked_out)[1]

    def levels(self, half_responses: PerGene, knocked_out: KnockedOut = None) -> Float[np.ndarray, "c d"]:
        """The noise-free steady state x_j = P_j(x) / λ of each cell type, where the simulation of its cells starts."""
        return self._steady_state(half_responses, knocked_out)[0]

    def _steady_state(self, half: PerGene | None, out: KnockedOut) -> tuple[Float[np.ndarray, "c d"], PerGene]:
        """Levels by cell type and their means, which are the half responses where none are given."""
        levels, means = np.zeros(self.basal.shape), np.zeros(len(self.graph))
        for gene in topological_order(self.graph).tolist():
            if out is None or not out[gene]:
                produced = self.production(levels, means if half is None else half, self.basal)[:, gene]
                levels[:, gene] = produced / self.langevin.decay
            means[gene] = levels[:, gene].mean()
        return levels, means

    def production(self, x: Levels, half: Float[np.ndarray, "*rows d"], basal: Levels) -> Levels:
        """P_j(x) of each row, as one product: |k| (1 - hill) of a repressor is |k| + k · hill."""
        repressible = np.maximum(-self.strengths, 0).sum(axis=0)
        return np.maximum(hill_response(x, half, self.hill) @ self.strengths + repressible + basal, 0)

    def sample(self, rng: np.random.Generator, cells: Cells, time: float) -> Levels:
        """The levels of each cell after `time`, from the noise-free steady state of its conditions.

        Every cell is a trajectory of its own (Euler–Maruyama steps, levels clipped at 0), so the rows are independent.
        """
        n_steps = max(1, round(time / self.langevin.step))
        decay, step = self.langevin.decay, time / n_steps
        alive, basal, x = np.where(cells.knocked_out, 0.0, 1.0), self.basal[cells.cell_type], self._starts(cells)
        for _ in range(n_steps):
            gain, loss = alive * self.production(x, cells.half_responses, basal), decay * x
            # √P dW_α + √(λx) dW_β is in law one Gaussian of variance (P + λx) dt.
            noise = rng.standard_normal(x.shape)
            noise *= np.sqrt(self.langevin.noise**2 * step * (gain + loss))
            x += step * (gain - loss) + noise
            np.maximum(x, 0, out=x)
        return x

    def _starts(self, cells: Cells) -> Levels:
        x = np.empty(cells.knocked_out.shape)
        conditions = np.hstack([cells.knocked_out, cells.half_responses])
        _, first, which = np.unique(conditions, axis=0, return_index=True, return_inverse=True)
        for k, one in enumerate(first):
            rows = np.flatnonzero(which.reshape(-1) == k)
            levels = self.levels(cells.half_responses[one], cells.knocked_out[one])
            x[rows] = levels[cells.cell_type[rows]]
        return x


def hill_response(x: Levels, half_responses: Float[np.ndarray, "*rows d"], coefficient: float) -> Levels:
    """hill(x) = x^n / (h^n + x^n), and 0 at x = 0 whatever h is.

    >>> hill_response(np.array([[0.0, 1.0, 3.0]]), np.array([0.0, 1.0, 1.0]), 2.0).tolist()
    [[0.0, 0.5, 0.9]]
    """
    power = x**coefficient
    total = half_responses**coefficient + power
    # A half response of 0 belongs to a gene that is not expressed: 0 / 0 there.
    np.maximum(total, np.finfo(float).tiny, out=total)
    return np.divide(power, total, out=power)


Step = Callable[[np.random.Generator, np.ndarray], np.ndarray]


class AbstractTechnicalNoise(Choice):
    """One step from levels to what is measured; a level of 0 stays 0.

    A step is prepared once on the training cells, so that what belongs to a gene or to the instrument is the same for
    all cells of a task, held-out ones included. The defaults are typical of the settings in which SERGIO is used; none
    of them is part of the paper's benchmark.
    """

    @abstractmethod
    def prepare(self, rng: np.random.Generator, x: Levels) -> Step:
        """Make the step `(rng, cells) -> cells` with all that does not belong to a single cell fixed.

        `x` are the training cells.
        """


class Outliers(AbstractTechnicalNoise):
    """x_j · f_j in every cell: f_j ~ LogNormal(log_mean, log_std²) with probability `share` for each gene j, else 1.

    >>> step = Outliers(share=1.0, log_mean=0.0, log_std=0.0).prepare(np.random.default_rng(0), np.ones((2, 3)))
    >>> step(np.random.default_rng(0), np.ones((1, 3))).tolist()
    [[1.0, 1.0, 1.0]]
    """

    share: float = option(0.01, least=0, most=1)
    log_mean: float = 0.8
    log_std: float = option(1.0, least=0)

    def prepare(self, rng: np.random.Generator, x: Levels) -> Step:
        d = x.shape[1]
        factor = np.where(rng.random(d) < self.share, rng.lognormal(self.log_mean, self.log_std, size=d), 1.0)
        return lambda _, cells: cells * factor


class LibrarySize(AbstractTechnicalNoise):
    """L · x_j / Σ_i x_i with L ~ LogNormal(log_mean, log_std²) for each cell; a cell without expression stays as it is.

    >>> step = LibrarySize(0.0, 0.0).prepare(np.random.default_rng(0), np.ones((2, 2)))
    >>> step(np.random.default_rng(0), np.array([[1.0, 3.0], [0.0, 0.0]])).tolist()
    [[0.25, 0.75], [0.0, 0.0]]
    """

    log_mean: float = 4.6
    log_std: float = option(0.4, least=0)

    def prepare(self, rng: np.random.Generator, x: Levels) -> Step:
        def step(rng: np.random.Generator, cells: np.ndarray) -> np.ndarray:
            size = rng.lognormal(self.log_mean, self.log_std, size=(len(cells), 1))
            total = cells.sum(axis=1, keepdims=True)
            return cells * (size / np.where(total > 0, total, 1.0))

        return step


class Dropout(AbstractTechnicalNoise):
    """x_j is kept with probability 1 / (1 + exp(-shape · (log(1 + x_j) - m))) and measured as 0 otherwise.

    m is the given percentile of log(1 + x) over all genes and training cells.

    >>> step = Dropout(shape=1e6, percentile=50).prepare(np.random.default_rng(0), np.array([[1.0, 2.0, 3.0]]))
    >>> step(np.random.default_rng(0), np.array([[1.0, 2.5, 3.0]])).tolist()
    [[0.0, 2.5, 3.0]]
    """

    shape: float = option(6.5, above=0)
    percentile: float = option(82.0, least=0, most=100)

    def prepare(self, rng: np.random.Generator, x: Levels) -> Step:
        middle = np.percentile(np.log1p(x), self.percentile) if x.size else 0.0

        def step(rng: np.random.Generator, cells: np.ndarray) -> np.ndarray:
            kept = expit(self.shape * (np.log1p(cells) - middle))
            return np.where(rng.random(cells.shape) < kept, cells, 0.0)

        return step


class MoleculeCounts(AbstractTechnicalNoise):
    """The number of molecules (UMI) read: Poisson(x_j)."""

    def prepare(self, rng: np.random.Generator, x: Levels) -> Step:
        return lambda rng, cells: rng.poisson(cells).astype(float)
