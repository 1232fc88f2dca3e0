"""The sections of the baselines: `[bootstrap]` and one for each; but for `[bootstrap]` keys are fields of the class."""

from dataclasses import dataclass

from bacadi.settings.rules import Choice, Flag, Number, Whole, setting

_LEVEL = Number(above=0, below=1)


@dataclass(frozen=True)
class BootstrapSettings:
    """`[bootstrap]`: samples ("auto": 20, 5 for DCDI-G), their weights, retries, processes ("auto": all cores)."""

    samples: int | str = setting("auto", Whole(word="auto"))
    weights: str = setting("posterior", Choice(("posterior", "average-likelihood", "uniform")))
    max_retries: int = setting(10, Whole(least=0))
    jobs: int | str = setting("auto", Whole(word="auto"), {"method": ("jci-pc", "ut-igsp")})


@dataclass(frozen=True)
class JCIPCSettings:
    """`[jci-pc]`: level and limits of the tests."""

    alpha: float = setting(0.01, _LEVEL)
    max_conditioning: int | str = setting("none", Whole(least=0, word="none"))
    max_tests: int = setting(500_000, Whole())


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

    sparsity: float = setting(0.05, Number(least=0))
    target_sparsity: float = setting(0.05, Number(least=0))
    perfect: bool = setting(True, Flag())
    n_hidden: int = setting(5, Whole())
    batch_size: int = setting(64, Whole())
    rows_per_mask: int = setting(8, Whole())
    learning_rate: float = setting(1e-3, Number(above=0))
    tolerance: float = setting(1e-8, Number(above=0))
    first_weight: float = setting(1e-8, Number(above=0))
    threshold: float = setting(0.5, _LEVEL)
    max_iterations: int = setting(100_000, Whole())
    refit_iterations: int = setting(10_000, Whole())
    fresh_targets: bool = setting(True, Flag())
    window: int = setting(100, Whole())
    held_out: float = setting(0.2, _LEVEL)
