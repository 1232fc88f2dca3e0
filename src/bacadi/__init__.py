"""Bayesian causal discovery from multi-context data with unknown intervention targets.

Public names are loaded on first use, so that `import bacadi` and the command line start fast
and the doctor for data files never waits for JAX.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Public name -> module that defines it.
_PUBLIC = {
    "BacadiError": "bacadi.errors",
    "ConfigError": "bacadi.errors",
    "DataError": "bacadi.errors",
    "InferenceError": "bacadi.errors",
    "StoreError": "bacadi.errors",
    "ContextData": "bacadi.data",
    "Diagnosis": "bacadi.data",
    "Scaling": "bacadi.data",
    "diagnose": "bacadi.data",
    "from_arrays": "bacadi.data",
    "from_dataframe": "bacadi.data",
    "from_file": "bacadi.data",
    "Model": "bacadi.model.model",
    "AbstractMechanism": "bacadi.model.mechanism",
    "LinearGaussian": "bacadi.model.linear",
    "NeuralGaussian": "bacadi.model.neural",
    "BGe": "bacadi.model.bge",
    "GaussianProcess": "bacadi.model.gaussian_process",
    "HardGaussian": "bacadi.model.effect",
    "SoftGaussian": "bacadi.model.effect",
    "ShiftGaussian": "bacadi.model.effect",
    "ScaleGaussian": "bacadi.model.effect",
    "EffectMixture": "bacadi.model.effect",
    "Knowledge": "bacadi.model.knowledge",
    "FixedNoise": "bacadi.model.noise",
    "InferredNoise": "bacadi.model.noise",
    "ErdosRenyi": "bacadi.model.priors",
    "LatentPrior": "bacadi.model.priors",
    "OrderedErdosRenyi": "bacadi.model.priors",
    "PreferentialAttachment": "bacadi.model.priors",
    "ScaleFree": "bacadi.model.priors",
    "TargetPrior": "bacadi.model.priors",
    "UniformGraph": "bacadi.model.priors",
    "AcyclicityOfProbs": "bacadi.relaxed.latent",
    "SampledAcyclicity": "bacadi.relaxed.latent",
    "Monitor": "bacadi.inference.fit",
    "fit": "bacadi.inference.fit",
    "MCMC": "bacadi.inference.mcmc.method",
    "MoveWeights": "bacadi.inference.mcmc.method",
    "Exact": "bacadi.inference.exact",
    "SVGD": "bacadi.inference.svgd.method",
    "Ramp": "bacadi.inference.svgd.method",
    "BlockwiseEstimator": "bacadi.inference.svgd.estimators",
    "MarginalEstimator": "bacadi.inference.svgd.estimators",
    "RelaxedEstimator": "bacadi.inference.svgd.estimators",
    "AdditiveRBF": "bacadi.inference.svgd.kernel",
    "Bandwidths": "bacadi.inference.svgd.kernel",
    "ProductRBF": "bacadi.inference.svgd.kernel",
    "FiniteReading": "bacadi.inference.svgd.estimators",
    "LimitReading": "bacadi.inference.svgd.estimators",
    "Bootstrap": "bacadi.baselines",
    "DCDIG": "bacadi.baselines.dcdi.dcdi",
    "JCIPC": "bacadi.baselines",
    "UTIGSP": "bacadi.baselines.ut_igsp",
    "Posterior": "bacadi.posterior",
    "load": "bacadi.posterior",
    "save": "bacadi.posterior",
    "to_networkx": "bacadi.posterior",
    "weights": "bacadi.posterior",
    "GeneExpressionSpec": "bacadi.simulate",
    "SyntheticSpec": "bacadi.simulate",
    "Task": "bacadi.simulate",
    "Settings": "bacadi.settings",
}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'bacadi' has no attribute '{name}'")
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
