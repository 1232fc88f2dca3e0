"""Bayesian causal discovery from multi-context data with unknown intervention targets.

Public names are loaded on first use, so that `import bacadi` and the command line start fast
and the doctor for data files never waits for JAX.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

__version__ = "0.1.0"

# Public name -> module that defines it.
_PUBLIC = {
    "BacadiError": "bacadi.errors",
    "ContextData": "bacadi.data.contexts",
    "diagnose": "bacadi.data.doctor",
    "from_anndata": "bacadi.data.annotated",
    "from_arrays": "bacadi.data.tables",
    "from_dataframe": "bacadi.data.tables",
    "from_file": "bacadi.data.tables",
    "prepare": "bacadi.config.columns",
    "Model": "bacadi.model.model",
    "AbstractMechanism": "bacadi.model.mechanism",
    "LinearGaussian": "bacadi.model.linear",
    "NeuralGaussian": "bacadi.model.neural",
    "BGe": "bacadi.model.integrated",
    "GaussianProcess": "bacadi.model.integrated",
    "HardGaussian": "bacadi.model.effects",
    "SoftGaussian": "bacadi.model.effects",
    "ShiftGaussian": "bacadi.model.effects",
    "ScaleGaussian": "bacadi.model.effects",
    "EffectMixture": "bacadi.model.effects",
    "FixedNoise": "bacadi.model.noise",
    "InferredNoise": "bacadi.model.noise",
    "ErdosRenyi": "bacadi.model.priors",
    "ScaleFree": "bacadi.model.priors",
    "TargetPrior": "bacadi.model.priors",
    "Knowledge": "bacadi.model.knowledge",
    "fit": "bacadi.inference.fit",
    "BaCaDI": "bacadi.inference.estimator",
    "sham": "bacadi.inference.shams",
    "MCMC": "bacadi.inference.mcmc.method",
    "Exact": "bacadi.inference.exact.method",
    "SVGD": "bacadi.inference.svgd.method",
    "Bootstrap": "bacadi.baselines.bootstrap",
    "JCIPC": "bacadi.baselines.jci_pc",
    "UTIGSP": "bacadi.baselines.ut_igsp",
    "DCDIG": "bacadi.baselines.dcdi.dcdi",
    "GIES": "bacadi.baselines.greedy",
    "GnIES": "bacadi.baselines.greedy",
    "Posterior": "bacadi.posterior.posterior",
    "load": "bacadi.posterior",
    "evaluate": "bacadi.metrics.evaluate",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> _Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'bacadi' has no attribute '{name}'")
    value = getattr(_import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
