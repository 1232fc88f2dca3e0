"""The sections of the baselines: `[bootstrap]` and one for each, whose keys are the fields of the class.

Defaults are read off the classes where these are quick to import.
"""

from dataclasses import dataclass

from bacadi.baselines.dcdi.dcdi import DCDIG
from bacadi.baselines.greedy import GIES, GnIES
from bacadi.baselines.jci_pc import JCIPC
from bacadi.settings.rules import Choice, Flag, Number, Whole, setting

_LEVEL = Number(above=0, below=1)
_JCI, _DCDI, _GIES, _GNIES = JCIPC(), DCDIG(), GIES(), GnIES()
# The methods whose samples run in processes of their own.
IN_PROCESSES = ("jci-pc", "ut-igsp", "gies", "gnies")


@dataclass(frozen=True)
class BootstrapSettings:
    """`[bootstrap]`: samples ("auto": 20, 5 for DCDI-G), their weights, retries, processes ("auto": all cores)."""

    samples: int | str = setting("auto", Whole(word="auto"))
    weights: str = setting("posterior", Choice(("posterior", "average-likelihood", "uniform")))
    max_retries: int = setting(10, Whole(least=0))
    jobs: int | str = setting("auto", Whole(word="auto"), {"method": IN_PROCESSES})


@dataclass(frozen=True)
class JCIPCSettings:
    """`[jci-pc]`: level and limits of the tests."""

    alpha: float = setting(_JCI.alpha, _LEVEL)
    max_conditioning: int | str = setting(
        "none" if _JCI.max_conditioning is None else _JCI.max_conditioning, Whole(least=0, word="none")
    )
    max_tests: int = setting(_JCI.max_tests, Whole())


@dataclass(frozen=True)
class UTIGSPSettings:
    """`[ut-igsp]`: levels of the tests and how far the search goes."""

    alpha: float = setting(1e-3, _LEVEL)
    alpha_inv: float = setting(1e-4, _LEVEL)
    n_starts: int = setting(300, Whole())
    depth: int = setting(4, Whole(least=0))
    edges_first: bool = setting(False, Flag())
    minimum_degree: bool = setting(False, Flag())


@dataclass(frozen=True)
class DCDIGSettings:
    """`[dcdi-g]`: sparsity, networks and training."""

    sparsity: float = setting(_DCDI.sparsity, Number(least=0))
    target_sparsity: float = setting(_DCDI.target_sparsity, Number(least=0))
    perfect: bool = setting(_DCDI.perfect, Flag())
    n_hidden: int = setting(_DCDI.n_hidden, Whole())
    batch_size: int = setting(_DCDI.batch_size, Whole())
    rows_per_mask: int = setting(_DCDI.rows_per_mask, Whole())
    learning_rate: float = setting(_DCDI.learning_rate, Number(above=0))
    tolerance: float = setting(_DCDI.tolerance, Number(above=0))
    first_weight: float = setting(_DCDI.first_weight, Number(above=0))
    threshold: float = setting(_DCDI.threshold, _LEVEL)
    max_iterations: int = setting(_DCDI.max_iterations, Whole())
    refit_iterations: int = setting(_DCDI.refit_iterations, Whole())
    fresh_targets: bool = setting(_DCDI.fresh_targets, Flag())
    window: int = setting(_DCDI.window, Whole())
    held_out: float = setting(_DCDI.held_out, _LEVEL)


@dataclass(frozen=True)
class GIESSettings:
    """`[gies]`: what a parameter costs, in units of ½ log n."""

    penalty: float = setting(_GIES.penalty, Number(above=0))


@dataclass(frozen=True)
class GnIESSettings:
    """`[gnies]`: what a parameter costs and whether interventions change variances alone."""

    penalty: float = setting(_GNIES.penalty, Number(above=0))
    centered: bool = setting(_GNIES.centered, Flag())
