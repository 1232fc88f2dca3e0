"""Posteriors to test with."""

from collections.abc import Callable

import numpy as np
import pytest

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.posterior import Posterior, weights


def random_posterior(
    rng: np.random.Generator, d: int = 4, m: int = 3, shape: tuple[int, int] = (2, 7), names: tuple[str, ...] = ()
) -> Posterior:
    """Random acyclic draws with every kind of parameter."""
    variables = names or tuple(f"v{i}" for i in range(d))
    contexts = tuple(f"k{k}" for k in range(m))
    data = ContextData(rng.normal(size=(9, d)), np.zeros(9, dtype=int), variables, contexts, "obs")
    order = rng.permutation(d)
    graph = np.triu(rng.random((*shape, d, d)) < 0.5, 1)[..., order, :][..., order]
    targets = rng.random((*shape, m, d)) < 0.3
    parameters = {
        "weight": Labelled(rng.normal(size=(*shape, d, d)), ("source", "target")),
        "effect_mean": Labelled(rng.normal(size=(*shape, m, d)), ("context", "node")),
        "noise_std": Labelled(rng.random((*shape, d)).astype(np.float32), ("node",)),
        "layer": Labelled(rng.normal(size=(*shape, 3, d)), ("hidden", "node")),
    }
    stats = {"energy": Labelled(np.arange(5.0), ("step",)), "accepted": Labelled(rng.random(shape) < 0.5)}
    attrs = {"seed": 3, "method": "test", "wall_time": 1.25, "config": {"slope": [1, None]}, "fast": True, "note": None}
    log_p, named = rng.normal(size=shape), {"parameters": parameters, "sample_stats": stats, "attrs": attrs}
    return Posterior.from_draws(data, graph, targets, log_p, weights.posterior, **named)


@pytest.fixture(scope="session")
def make_posterior() -> Callable[..., Posterior]:
    return random_posterior


@pytest.fixture
def posterior() -> Posterior:
    return random_posterior(np.random.default_rng(0))
