"""Small posteriors of every mechanism, each fitted once."""

from functools import cache

import numpy as np

import bacadi
from bacadi.config.layers import configure
from bacadi.data.contexts import ContextData
from bacadi.inference.exact.method import Exact
from bacadi.posterior import Posterior

MECHANISMS = ("linear", "bge", "nonlinear", "gaussian-process")
VARIABLES, CONTEXTS = ("a", "b", "c", "odd name"), ("drug", "incident", "nothing")


@cache
def chain_data(n: int = 40) -> ContextData:
    """a -> b -> c with weights 1.5 and 1; `drug` sets b to 5, `incident` sets c to 4, `nothing` does nothing."""
    rng = np.random.default_rng(0)
    context = np.repeat(np.arange(4), n)
    x = rng.normal(size=(4 * n, 4))
    x[:, 1] += 1.5 * x[:, 0]
    x[context == 1, 1] = 5 + rng.normal(size=n)
    x[:, 2] += x[:, 1]
    x[context == 2, 2] = 4 + rng.normal(size=n)
    return ContextData(x, context, VARIABLES, CONTEXTS, "control")


@cache
def chain_posterior(mechanism: str = "linear", effect: str = "hard") -> Posterior:
    chosen = configure("exact", flags={"--model": mechanism, "--effect": effect})
    assert chosen.model is not None
    return bacadi.fit(chain_data(), chosen.model, Exact(n_draws=600, max_pairs=0), seed=0)


def linear_posterior(graphs: np.ndarray, weights: np.ndarray, data: ContextData, **more: np.ndarray) -> Posterior:
    """Draws of linear networks with unit noise and no intercept, unless `more` has other parameters."""
    n, d = graphs.shape[:2]
    axes = {"weight": ("source", "target"), "noise_std": ("node",), "intercept": ("node",)}
    axes |= dict.fromkeys(("effect_mean", "effect_noise_std"), ("context", "node"))
    values = {"weight": weights, "noise_std": np.ones((n, d)), "intercept": np.zeros((n, d)), **more}
    targets = np.zeros((n, data.n_contexts, d))
    parameters = {name: bacadi.posterior.Labelled(value, axes[name]) for name, value in values.items()}
    return Posterior.from_draws(data, graphs, targets, parameters=parameters)
