"""Presets as plain data: the settings of each preset for each mechanism, where they differ from the defaults.

`paper` is the text of the paper: α_t = .01 t, β_t = 2 t, 20 particles, 2000 steps, G and I relaxed together, four
kernel terms. Where the text gives no value (step size, samples, the density of untargeted effects, how samples are
averaged) it takes what measured best; docs/developer/svgd.md has the numbers. `authors` is what the authors' code does:
each block relaxes only what it must, one kernel term for Θ and Θ_I together, E[h(G)] by Gumbel-softmax samples, density
1 for untargeted effects, particles read at α = ∞ and weighted by their posterior, 3000 steps where Θ is explicit.

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
    "steps": 3000,
}

PRESETS: dict[tuple[str, str], dict[str, dict[str, Any]]] = {
    ("paper", "linear"): {"model": {}, "svgd": {}},
    ("paper", "nonlinear"): {"model": {}, "svgd": _NONLINEAR},
    ("paper", "bge"): {"model": {}, "svgd": {}},
    ("authors", "linear"): {"model": _AUTHORS_MODEL, "svgd": _AUTHORS},
    ("authors", "nonlinear"): {"model": _AUTHORS_MODEL, "svgd": _AUTHORS | _NONLINEAR},
    ("authors", "bge"): {"model": _AUTHORS_MODEL, "svgd": _AUTHORS | {"steps": 2000}},
}

PRESET_NAMES = tuple(dict.fromkeys(preset for preset, _ in PRESETS))
