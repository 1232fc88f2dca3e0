"""What a mechanism is: p(x_j | parents of j, Θ) for every variable j.

A mechanism is a choice with its formulas, free of JAX. What can be done with it is said by what it offers:

- `AbstractMechanism` has explicit parameters and a density (`init`, `log_prior`, `log_prob`): the differentiable
  reading (`bacadi.relaxed`), simulation and held-out likelihood need nothing else;
- a method `log_evidence(node, parents, x)` integrates the parameters out over given rows: the collapsed reading
  (`bacadi.evidence`) needs nothing else. The mechanisms of this package have faster evidence there.
"""

import re
from abc import abstractmethod
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int8

from bacadi.config.choices import Choice
from bacadi.data.contexts import Scaling
from bacadi.data.labelled import Labelled
from bacadi.model.noise import AbstractNoise, Values, log_normal, namespace

Theta = Any
"""Parameters of all variables: nested tuples of arrays, of the mechanism's own making."""

Graph = Int8[np.ndarray, "d d"]
Rows = Float[np.ndarray, "n d"]
Column = Float[np.ndarray, " n"]


class Mechanism(Choice):
    """How variables follow their parents."""

    @property
    def keeps_origin(self) -> bool:
        """Whether 0 means something in the columns as they are, so that they are scaled and not shifted."""
        return False


class AbstractMechanism(Mechanism):
    """Conditional densities of all variables given their parents, with explicit parameters Θ.

    A mechanism of your own needs `init`, `log_prior` and `log_prob`; `bacadi.testing.check_mechanism` says in words
    what is wrong with it. Each gives one number per variable: entry j may depend on column j of the graph, on the
    parents of j and on x_j alone. The graph may be relaxed (entries between 0 and 1), so parents are masked by
    multiplication. The other methods have working defaults; override them where you know better.
    """

    @abstractmethod
    def init(self, key: Any, n_variables: int, dtype: Any) -> Theta:
        """Θ of a fresh particle, from a JAX key."""

    @abstractmethod
    def log_prior(self, theta: Theta, graph: Values) -> Values:
        """log p(θ_j | G), one entry per variable."""

    @abstractmethod
    def log_prob(self, theta: Theta, graph: Values, x: Values) -> Values:
        """log p(x_j | parents of j, θ_j) for ONE sample, one entry per variable."""

    def log_density(self, theta: Theta, graph: Graph, x: Rows) -> Rows:
        """`log_prob` of many rows, in NumPy."""
        import jax

        with jax.enable_x64(True):
            leaves, graph_, rows = jax.tree.map(lambda leaf: jax.numpy.asarray(leaf, float), (theta, graph, x))
            return np.asarray(jax.vmap(lambda row: self.log_prob(leaves, graph_, row))(rows))

    def draw_theta(self, rng: np.random.Generator, graph: Graph) -> Theta:
        """True parameters of a simulated network; without more knowledge those of a fresh particle."""
        import jax

        with jax.enable_x64(True):
            theta = self.init(jax.random.key(int(rng.integers(2**31))), len(graph), jax.numpy.dtype("float64"))
            return jax.tree.map(np.asarray, theta)

    def sample(self, rng: np.random.Generator, theta: Theta, graph: Graph, x: Rows, node: int) -> Column:
        """Draw x_node for each row of x, whose columns of parents are filled in; by default from the CDF of `log_prob`.

        The CDF is integrated and inverted numerically, to about 1e-4 in distribution.
        """
        import jax

        with jax.enable_x64(True):
            leaves, graph_ = jax.tree.map(lambda leaf: jax.numpy.asarray(leaf, float), (theta, graph))
            p, n_blocks = rng.random(len(x)), -(-len(x) // _BLOCK)
            # Blocks of one size, the last filled up: one compilation serves any number of rows in bounded memory.
            rows = np.resize(np.arange(max(len(x), 1)), (n_blocks, _BLOCK))
            drawn = [_quantiles(self)(leaves, graph_, node, x[block], p[block]) for block in rows]
            return np.concatenate([np.empty(0), *drawn])[: len(x)]

    def labelled(self, theta: Theta) -> dict[str, Labelled]:
        """Θ under the names it has in the output."""
        import jax

        parts = {}
        for path, leaf in jax.tree_util.tree_flatten_with_path(theta)[0]:
            name = re.sub(r"\W+", "_", "theta" + jax.tree_util.keystr(path)).strip("_")
            parts[name] = Labelled(leaf, tuple(f"{name}_dim_{axis}" for axis in range(leaf.ndim)))
        return parts

    def theta_of(self, values: dict[str, np.ndarray], n_variables: int) -> Theta:
        """The inverse of `labelled` for one draw: Θ from arrays by name."""
        import jax

        shapes = jax.eval_shape(lambda key: self.init(key, n_variables, jax.numpy.dtype("float32")), jax.random.key(0))
        return jax.tree.unflatten(jax.tree.structure(shapes), [values[name] for name in self.labelled(shapes)])

    def rescaled(self, theta: Theta, graph: Graph, scaling: Scaling) -> Theta | None:
        """Θ for the variables in original units, x = shift + scale · (x in the units of Θ); None where that is unknown.

        Where it is unknown the posterior keeps Θ as it is beside the scaling (`unit_shift`, `unit_scale`).
        """
        return None


class GaussianMechanism(AbstractMechanism):
    """x_j ~ N(mean_j(x_parents), σ_j²): one forward pass serves density, simulation and metrics."""

    noise: AbstractNoise

    @abstractmethod
    def mean(self, theta: Theta, graph: Values, x: Values) -> Values:
        """E[x_j | parents of j] of rows x[..., d], for NumPy and JAX arrays."""

    def log_noise_std(self, theta: Theta) -> Values:
        """log σ_j, or one number for all."""
        return self.noise.log_std(theta.log_noise_std)

    def log_prob(self, theta: Theta, graph: Values, x: Values) -> Values:
        xp = namespace(x)
        std = xp.exp(xp.asarray(self.log_noise_std(theta), dtype=x.dtype))
        return log_normal(x, self.mean(theta, graph, x), std)

    def log_density(self, theta: Theta, graph: Graph, x: Rows) -> Rows:
        return self.log_prob(theta, graph, x)

    def sample(self, rng: np.random.Generator, theta: Theta, graph: Graph, x: Rows, node: int) -> Column:
        std = np.broadcast_to(np.exp(self.log_noise_std(theta)), len(graph))[node]
        return self.mean(theta, graph, x)[:, node] + std * rng.normal(size=len(x))


_BLOCK = 256  # rows for which quantiles are computed at once


@lru_cache(maxsize=16)
def _quantiles(mechanism: AbstractMechanism) -> Any:
    """Compile (Θ, G, j, rows, p) → the p-quantile of p(x_j | parents) in each row.

    The grid is c + s sinh u: fine near its centre c and out to 10⁵ s. A density may be narrow and far from 0, so the
    grid is laid five times before, each about the median c and with the quartile range s (at least the spacing of the
    grid there) of the one before. The CDF is integrated by the trapezoid rule.
    """
    import jax
    from jax import numpy as jnp

    u = np.linspace(-12.0, 12.0, 1025)

    def quantile(theta: Theta, graph: Any, node: Any, row: Any, p: Any) -> Any:
        def inverse_cdf(centre: Any, scale: Any, probabilities: Any) -> tuple[Any, Any]:
            grid = centre + scale * np.sinh(u)
            log_p = jax.vmap(lambda value: mechanism.log_prob(theta, graph, row.at[node].set(value))[node])(grid)
            log_mass = log_p + np.log(np.cosh(u))
            mass = jnp.exp(log_mass - jnp.max(log_mass))
            cdf = jnp.concatenate([jnp.zeros(1), jnp.cumsum(mass[1:] + mass[:-1])])
            at = jnp.interp(probabilities, cdf / cdf[-1], u)
            return centre + scale * jnp.sinh(at), scale * jnp.cosh(at) * (u[1] - u[0])

        def narrow(_: Any, place: tuple[Any, Any]) -> tuple[Any, Any]:
            (low, centre, high), spacing = inverse_cdf(*place, jnp.array([0.25, 0.5, 0.75]))
            return centre, jnp.maximum(high - low, spacing[1])

        centre, scale = jax.lax.fori_loop(0, 5, narrow, (jnp.zeros(()), jnp.ones(())))
        return inverse_cdf(centre, scale, p)[0]

    return jax.jit(jax.vmap(quantile, in_axes=(None, None, None, 0, 0)))


def weights_log_prior(weight: Values, graph: Values, std: Values, absent_ratio: float | None) -> Values:
    """log density of the weights `weight[i, j, h]` of the edges i → j, summed over i and h: N(0, std²) for an edge.

    Without the edge a weight follows the pseudo-prior N(0, (absent_ratio std)²). Whatever the ratio, the joint density
    is proper and p(G, I | D) the same; it decides how well gradients find edges (docs/developer/svgd.md). None gives
    absent weights no density at all, as in the authors' code: then an edge pays for the density of its weights.
    S graphs at once are `graph[i, s, j]`; the density is affine in them.
    """
    xp = namespace(weight)
    edge = xp.sum(log_normal(weight, 0.0, std), axis=2)
    absent = xp.zeros_like(edge)
    if absent_ratio is not None:
        absent = xp.sum(log_normal(weight, 0.0, absent_ratio * std), axis=2) * (1 - xp.eye(len(edge), dtype=edge.dtype))
    slope = edge - absent
    return xp.sum(graph * (slope if graph.ndim == 2 else slope[:, None, :]), axis=0) + xp.sum(absent, axis=0)
