"""Presets as plain data: the settings of each preset for each mechanism, where they differ from the defaults.

`default` is for a user who knows nothing of the scale of the data: priors in the own unit of each column, noise,
intercept, effect means and effect noise inferred. With the linear mechanism it is `inference.fit.default_model`.

`paper` is the text of the paper: fixed noise, α_t = .01 t, β_t = 2 t, 20 particles, 2000 steps, G and I relaxed
together, four kernel terms. Where the text gives no value (step size, samples, the density of untargeted effects and
of weights without an edge, how samples are averaged) it takes what measured best; docs/developer/svgd.md has the
numbers. `authors` is what the authors' code does: each block relaxes only what it must, one kernel term for Θ and Θ_I
together, E[h(G)] by Gumbel-softmax samples, density 1 for untargeted effects and absent weights, particles read at
α = ∞ and weighted by their posterior, 3000 steps where Θ is explicit.

`improved` is SVGD with bounded gradients: persistent Gibbs chains over DAGs in place of relaxed samples, no penalty β,
the likelihood annealed with α, half the steps. It has better marginals of edges and targets and a worse order
(docs/developer/svgd.md).

Bandwidths are those that won the authors' search on Erdős-Rényi graphs, halved: their kernel is exp(-‖·‖²/h) and ours
exp(-‖·‖²/2τ), so τ = h/2. None are stored for BGe; it takes those of the linear model, which are the defaults.
"""

from typing import Any

_NONLINEAR: dict[str, Any] = {
    "bandwidth_z": 0.097,
    "bandwidth_gamma": 0.4975,
    "bandwidth_theta": 60.5,
    "bandwidth_theta_int": 60.5,
}
_NETWORKS: dict[str, Any] = {"absent_ratio": 0.7}
_OWN_UNITS: dict[str, Any] = {
    "units": "own",
    "effect_noise_std": "inferred",
    "effect_noise_shape": 1.0,
    "effect_noise_scale": 0.5,
}
_DEFAULT_LINEAR: dict[str, Any] = _OWN_UNITS | {
    "noise_std": "inferred",
    "noise_shape": 1.0,
    "noise_scale": 0.1,
    "weight_std": 5.0,
    "intercept": True,
    "intercept_std": 10.0,
}
_DEFAULT_NONLINEAR: dict[str, Any] = _OWN_UNITS | {
    **_NETWORKS,
    "noise_std": "inferred",
    "noise_shape": 1.0,
    "noise_scale": 0.5,
    "intercept": True,
}
_AUTHORS_MODEL: dict[str, Any] = {"pseudo_prior": False}
_AUTHORS: dict[str, Any] = {
    "estimator": "blockwise",
    "samples": 128,
    "by_column": False,
    "kernel_terms": 3,
    "acyclicity": "sampled",
    "learning_rate": 0.005,
    "reading": "limit",
    "weights": "posterior",
    "collapsed": False,
    "steps": 3000,
}
# Particles hardly feel each other: chains of one particle want the Θ of their own graphs, not the mean over particles.
_IMPROVED: dict[str, Any] = {
    "estimator": "gibbs",
    "chains": 2,
    "cold_alpha": 14.0,
    "steps": 1000,
    "alpha": 0.02,
    "beta": 0.0,
    "learning_rate": 0.02,
    "bandwidth_z": 0.000276,
    "bandwidth_gamma": 0.00164,
    "bandwidth_theta": 0.226,
    "bandwidth_theta_int": 0.226,
    "weight_share": 8.0,
}

PRESETS: dict[tuple[str, str], dict[str, dict[str, Any]]] = {
    ("default", "linear"): {"model": _DEFAULT_LINEAR},
    ("default", "nonlinear"): {"model": _DEFAULT_NONLINEAR, "svgd": _NONLINEAR},
    ("default", "bge"): {"model": _OWN_UNITS},
    ("paper", "linear"): {},
    ("paper", "nonlinear"): {"model": _NETWORKS, "svgd": _NONLINEAR},
    ("paper", "bge"): {},
    ("improved", "linear"): {"svgd": _IMPROVED},
    ("improved", "nonlinear"): {"model": _NETWORKS, "svgd": _IMPROVED},
    ("improved", "bge"): {"svgd": _IMPROVED},
    ("authors", "linear"): {"model": _AUTHORS_MODEL, "svgd": _AUTHORS},
    ("authors", "nonlinear"): {"model": _AUTHORS_MODEL, "svgd": _AUTHORS | _NONLINEAR},
    ("authors", "bge"): {"model": _AUTHORS_MODEL, "svgd": _AUTHORS | {"steps": 2000}},
}

PRESET_NAMES = tuple(dict.fromkeys(preset for preset, _ in PRESETS))
