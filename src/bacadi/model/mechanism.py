"""What a mechanism is: p(x_j | parents of j, Θ) for every variable j, by itself or with Θ integrated out."""

import re
from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError
from bacadi.evidence.collapsed import AbstractEvidence, States
from bacadi.model.noise import log_normal
from bacadi.relaxed.rows import Rows, raw_rows


def weights_log_prior(
    weight: Float[Array, "d d h"],
    graph: Float[Array, "d d"],
    std: Float[Array, "#d"] | Float[Array, ""] | float,
    absent_ratio: float | None,
) -> Float[Array, " d"]:
    """log density of the weights `weight[i, j, h]` of the edges i → j, summed over i and h: N(0, std²) for an edge.

    Without the edge a weight follows the pseudo-prior N(0, (absent_ratio std)²). Whatever the ratio, the joint density
    is proper and p(G, I | D) the same; it decides how well gradients find edges (docs/developer/svgd.md). None gives
    absent weights no density at all, as in the authors' code: then an edge pays for the density of its weights.
    """
    std = jnp.broadcast_to(jnp.asarray(std, weight.dtype), graph.shape)[..., None]
    density = graph[..., None] * log_normal(weight, 0.0, std)
    if absent_ratio is not None:
        absent = 1 - jnp.eye(len(graph), dtype=graph.dtype) - graph
        density = density + absent[..., None] * log_normal(weight, 0.0, absent_ratio * std)
    return jnp.sum(density, axis=(0, 2))


class AbstractMechanism(eqx.Module):
    """Conditional densities of all variables given their parents.

    A mechanism of your own needs `init`, `log_prior` and `log_prob` only; `bacadi.testing.check_mechanism`
    tells what is wrong with it. Each returns one number per variable: entry j may depend on column j of the
    graph, on the parents of j and on x_j alone. The graph may be relaxed (entries between 0 and 1), so parents
    are masked by multiplication. The other methods have working defaults; override them for speed.
    """

    @abstractmethod
    def init(self, key: Key[Array, ""], n_variables: int, dtype: jnp.dtype) -> PyTree:
        """Θ of a fresh particle."""

    @abstractmethod
    def log_prior(self, theta: PyTree, graph: Float[Array, "d d"]) -> Float[Array, " d"]:
        """log p(θ_j | G), one entry a variable."""

    @abstractmethod
    def log_prob(self, theta: PyTree, graph: Float[Array, "d d"], x: Float[Array, " d"]) -> Float[Array, " d"]:
        """log p(x_j | parents of j, θ_j) for ONE sample, one entry a variable."""

    def prepare(self, data: ContextData, dtype: jnp.dtype) -> Rows:
        """The data as `log_likelihood` wants them."""
        return raw_rows(data, dtype)

    def log_likelihood(self, theta: PyTree, graphs: Float[Array, "d S d"], rows: Rows) -> Float[Array, "K S d"]:
        """Sum of `log_prob` over the rows of each context, for S graphs at once."""
        over_rows = jax.vmap(self.log_prob, in_axes=(None, None, 0))
        over_graphs = jax.vmap(over_rows, in_axes=(None, 1, None), out_axes=1)
        return jnp.einsum("kn,nsj->ksj", rows.one_hot, over_graphs(theta, graphs, rows.x))

    def log_evidence(self, node: int, parents: Int[np.ndarray, " p"], x: Float[np.ndarray, "n d"]) -> float:
        """log ∫ Π_n p(x_nj | parents, θ_j) p(θ_j) dθ_j over the rows given, for NumPy arrays in float64.

        Optional: a mechanism that has it can be sampled by MCMC and enumerated as well.
        """
        raise ConfigError(
            f"{type(self).__name__} has no closed-form evidence (a method log_evidence); use method svgd with it."
        )

    def evidence(self, data: ContextData, states: States) -> AbstractEvidence:
        """The local terms of the collapsed reading; override it where they can be had faster than from rows."""
        from bacadi.evidence.rows import RowsEvidence

        if type(self).log_evidence is AbstractMechanism.log_evidence:
            self.log_evidence(0, np.empty(0, int), data.x[:0])
        return RowsEvidence(self.log_evidence, data, states)

    def explicit(self) -> "AbstractMechanism":
        """The mechanism whose evidence is that of the Θ a particle has, where `evidence` knows more than Θ says."""
        return self

    def named(self, theta: PyTree) -> dict[str, Labelled]:
        """Θ under the names it has in the output."""
        leaves, _ = jax.tree_util.tree_flatten_with_path(theta)
        names = [re.sub(r"\W+", "_", "theta" + jax.tree_util.keystr(path)).strip("_") for path, _ in leaves]
        return {
            name: Labelled(leaf, tuple(f"{name}_dim_{axis}" for axis in range(leaf.ndim)))
            for name, (_, leaf) in zip(names, leaves, strict=True)
        }


class AbstractMarginalMechanism(eqx.Module):
    """A mechanism whose parameters are integrated out, so that rows no longer factorise (Appendix C)."""

    @abstractmethod
    def prepare(self, data: ContextData, dtype: jnp.dtype) -> PyTree: ...

    @abstractmethod
    def log_evidence(
        self, graphs: Float[Array, "d S d"], keep: Float[Array, "K S d"], statistics: PyTree
    ) -> Float[Array, "S d"]:
        """log p(column j | its parents) over the rows where j is no target: context k counts `keep[k, s, j]` times."""

    def evidence(self, data: ContextData, states: States) -> AbstractEvidence:
        """The local terms of the collapsed reading."""
        raise ConfigError(f"{type(self).__name__} does not give its evidence node by node; use method svgd with it.")


AnyMechanism = AbstractMechanism | AbstractMarginalMechanism


def graph_prior_of_theta(
    mechanism: AbstractMechanism, theta: PyTree, graphs: Float[Array, "d S d"]
) -> Float[Array, "S d"]:
    """log p(θ_j | G) for S graphs."""
    return jax.vmap(mechanism.log_prior, in_axes=(None, 1))(theta, graphs)
