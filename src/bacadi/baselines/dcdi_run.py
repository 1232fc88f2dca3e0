"""From arrays to graphs and targets: the two phases of DCDI-G on B data sets of one shape."""

from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Int8, Key

from bacadi.baselines.dcdi_estimate import Effects, Layers, NetworkEstimate
from bacadi.baselines.dcdi_model import (
    Constants,
    Known,
    Networks,
    Parameters,
    Sample,
    Score,
    floored,
    masked_probability,
)
from bacadi.baselines.dcdi_train import Lane, Run, Settings, Trainer, start, train
from bacadi.data.context import Scaling
from bacadi.graph.acyclicity import is_acyclic

if TYPE_CHECKING:
    from bacadi.baselines.dcdi_g import DCDIG

MIN_ROWS_TO_SPLIT = 3
EDGE_LOGIT, TARGET_LOGIT = 0.0, 0.0


class Rows(NamedTuple):
    """A standardised data set in two parts: what is fitted and what decides when a subproblem ends."""

    training: tuple[Float[np.ndarray, "n d"], Int[np.ndarray, " n"]]
    held_out: tuple[Float[np.ndarray, "h d"], Int[np.ndarray, " h"]]


class Found(NamedTuple):
    """One run: the structure, the networks and effects refitted to it (standardised units) and how the search ended."""

    graph: Int8[np.ndarray, "d d"]
    targets: Int8[np.ndarray, "M d"]
    parameters: Parameters
    converged: bool
    iterations: int

    def in_data_units(self, scaling: Scaling) -> NetworkEstimate:
        """The same for the columns before they were scaled."""
        learned, effect = self.parameters, self.parameters.effect
        std = np.asarray(floored(learned.effect_log_std)) * scaling.scale
        if isinstance(effect, Constants):
            effects = Effects(np.asarray(effect.mean) * scaling.scale + scaling.shift, std)
        else:
            effects = Effects(_layers(effect).in_data_units(self.graph, scaling), std)
        networks = _layers(learned.networks).in_data_units(self.graph, scaling)
        return NetworkEstimate(self.graph, self.targets, networks, effects, self.converged, self.iterations)


def split_rows(
    rng: np.random.Generator, x: Float[np.ndarray, "n d"], context: Int[np.ndarray, " n"], share: float
) -> Rows:
    """Hold out a share of the rows of each context; contexts of fewer than three rows are trained on as a whole."""
    held_out = np.zeros(len(x), dtype=bool)
    for k in np.unique(context):
        rows = rng.permutation(np.flatnonzero(context == k))
        if len(rows) >= MIN_ROWS_TO_SPLIT:
            held_out[rows[: max(1, round(share * len(rows)))]] = True
    seen = held_out if held_out.any() else ~held_out
    return Rows((x[~held_out], context[~held_out]), (x[seen], context[seen]))


def run(choices: "DCDIG", seed: int, data: list[Rows], known: Float[np.ndarray, "M d"]) -> list[Found]:
    """Search with sampled masks, then fit the networks again with the graph that was found."""
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(seed), 3)
        (m, d), n = known.shape, len(data)
        trainer = Trainer(Score(choices.n_hidden, choices.perfect, choices.rows_per_mask), _settings(choices), (d, m))
        free = Known(_copies(np.where(np.eye(d), 0.0, np.nan), n), _copies(known, n))
        lanes = Lane(_stack([r.training for r in data], m), _stack([r.held_out for r in data], m), free)
        first = _initial(trainer, keys[0], n)
        searched = train(trainer, lanes, _start(trainer, keys[1], first), choices.max_iterations)
        parameters, lanes = _second_phase(choices, searched.parameters, lanes)
        runs = _start(trainer, keys[2], parameters)
        refitted = train(trainer, lanes, runs, choices.refit_iterations, to_the_end=True)
        targets = _decided(_probabilities(refitted.parameters, lanes.known)[1])
    graphs = np.asarray(lanes.known.edges).astype(np.int8)
    own = [jax.tree.map(lambda leaf, b=b: leaf[b], refitted.parameters) for b in range(n)]
    return list(map(Found, graphs, targets, own, searched.converged.tolist(), searched.iterations.tolist()))


def _second_phase(choices: "DCDIG", parameters: Parameters, lanes: Lane) -> tuple[Parameters, Lane]:
    """The graph is known now; the targets start afresh, or are known too, as the search left them.

    While the graph is dense its networks predict a variable from its effects too, and target masks that answer to that
    saturate: their gradient vanishes, so that they outlast their reason.
    """
    edges, probability = _probabilities(parameters, lanes.known)
    graphs = np.stack([acyclic_above(edge, choices.threshold) for edge in np.asarray(edges)])
    if choices.fresh_targets:
        parameters = parameters._replace(target_logit=jnp.full_like(parameters.target_logit, TARGET_LOGIT))
        return parameters, lanes._replace(known=Known(jnp.asarray(graphs, jnp.float32), lanes.known.targets))
    targets = jnp.asarray(_decided(probability), jnp.float32)
    return parameters, lanes._replace(known=Known(jnp.asarray(graphs, jnp.float32), targets))


def acyclic_above(probability: Float[np.ndarray, "d d"], threshold: float) -> Int8[np.ndarray, "d d"]:
    """Edges of a probability above the threshold, which is raised from edge to edge until no cycle is left.

    >>> acyclic_above(np.array([[0.0, 0.9, 0.2], [0.8, 0.0, 0.7], [0.0, 0.0, 0.0]]), 0.5).tolist()
    [[0, 1, 0], [0, 0, 0], [0, 0, 0]]
    """
    levels = np.concatenate([[threshold], np.sort(probability[probability > threshold])])
    # Fewer edges never make a cycle, so the first acyclic level is found by bisection; the last one has no edge.
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_acyclic(probability > levels[middle]) else (middle + 1, high)
    return (probability > levels[low]).astype(np.int8)


def _settings(choices: "DCDIG") -> Settings:
    return Settings(
        choices.sparsity,
        choices.target_sparsity,
        choices.learning_rate,
        choices.tolerance,
        choices.first_weight,
        choices.batch_size,
        choices.window,
    )


@eqx.filter_jit
def _initial(trainer: Trainer, key: Key[Array, ""], n: int) -> Parameters:
    keys = jax.random.split(key, n)
    return jax.vmap(lambda key: trainer.score.init(key, *trainer.shape, (EDGE_LOGIT, TARGET_LOGIT)))(keys)


@eqx.filter_jit
def _start(trainer: Trainer, key: Key[Array, ""], parameters: Parameters) -> Run:
    keys = jax.random.split(key, len(parameters.edge_logit))
    return jax.vmap(lambda key, own: start(trainer.settings, key, own))(keys, parameters)


@eqx.filter_jit
def _probabilities(parameters: Parameters, known: Known) -> tuple[Float[Array, "B d d"], Float[Array, "B M d"]]:
    edges = masked_probability(parameters.edge_logit, known.edges)
    return edges, masked_probability(parameters.target_logit, known.targets)


def _decided(probability: Float[Array, "B M d"]) -> Int8[np.ndarray, "B M d"]:
    return (np.asarray(probability) > 0.5).astype(np.int8)


def _stack(parts: list[tuple[np.ndarray, np.ndarray]], n_contexts: int) -> Sample:
    # An observational row (context 0) belongs to no column, so that no target mask reaches it.
    one_hot = np.stack([context[:, None] == np.arange(1, n_contexts + 1) for _, context in parts])
    x = np.stack([x for x, _ in parts])
    return Sample(jnp.asarray(x, jnp.float32), jnp.asarray(one_hot, jnp.float32))


def _layers(networks: Networks) -> Layers:
    return Layers(*(np.asarray(leaf, dtype=float) for leaf in networks))


def _copies(array: np.ndarray, n: int) -> Float[Array, "B a d"]:
    return jnp.asarray(np.tile(array, (n, 1, 1)), jnp.float32)
