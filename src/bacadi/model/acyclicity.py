"""h(G) = tr[(I + G/d)^d] - d, zero exactly on acyclic graphs (Yu et al. 2019), and its expectation in Eq. (7)."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from bacadi.model.latent import edge_probs, edge_scores, off_diagonal


def acyclicity(graph: Float[Array, "d d"]) -> Float[Array, ""]:
    """h(G) = tr[(I + G/d)^d] - d for 0/1 or relaxed adjacency (`graph[i, j]` is i → j).

    The power of I + G/d is taken as Σ_p C(d, p) (G/d)^p through P = (I + G/d)^d - I, so that an acyclic
    graph gives 0 and not the rounding error of d - d: (I + A)(I + B) - I = A + B + AB.
    """
    d = graph.shape[0]
    base = graph / d
    power, square, n = jnp.zeros_like(base), base, d
    while n:
        if n & 1:
            power = power + square + power @ square
        n >>= 1
        if n:
            square = 2 * square + square @ square
    return jnp.trace(power)


class AbstractExpectedAcyclicity(eqx.Module):
    """How E[h(G)] under p(G | Z) is computed."""

    @abstractmethod
    def __call__(
        self, key: Key[Array, ""], z: Float[Array, "2 d r"], alpha: Float[Array, ""] | float
    ) -> Float[Array, ""]: ...


class AcyclicityOfProbs(AbstractExpectedAcyclicity):
    """h(edge probabilities): exact for closed walks up to length 3, noise free, one matrix power."""

    def __call__(
        self, key: Key[Array, ""], z: Float[Array, "2 d r"], alpha: Float[Array, ""] | float
    ) -> Float[Array, ""]:
        return acyclicity(edge_probs(z, alpha))


class SampledAcyclicity(AbstractExpectedAcyclicity):
    """Mean of h over `n_samples` Gumbel-softmax graphs, as the authors' code estimates it."""

    n_samples: int = 32
    temperature: float = 1.0

    def __call__(
        self, key: Key[Array, ""], z: Float[Array, "2 d r"], alpha: Float[Array, ""] | float
    ) -> Float[Array, ""]:
        scores = alpha * edge_scores(z)
        noise = jax.random.logistic(key, (self.n_samples, *scores.shape), z.dtype)
        graphs = jnp.where(off_diagonal(z.shape[1]), jax.nn.sigmoid((scores + noise) / self.temperature), 0.0)
        return jnp.mean(jax.vmap(acyclicity)(graphs))
