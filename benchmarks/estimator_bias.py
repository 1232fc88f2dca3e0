"""How far each estimator of ∇ log E[Ψ] is from the truth, by enumeration at d = 3: prints the table of the docs.

Run: python benchmarks/estimator_bias.py
The truth sums over all 64 graphs and 8 sets of targets of one context. Estimates are means over 40 batches of 1000
samples, so what remains beyond the standard error printed is the bias.
"""

from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from bacadi.data.contexts import ContextData
from bacadi.graph.enumerate import all_digraphs
from bacadi.inference.svgd.estimators import AbstractEstimator, BlockwiseEstimator, RelaxedEstimator
from bacadi.model.effects import HardGaussian
from bacadi.model.linear import LinearGaussian
from bacadi.model.model import Model
from bacadi.model.noise import FixedNoise
from bacadi.relaxed.density import Density
from bacadi.relaxed.latent import Particle, Structures

BATCHES, SAMPLES = 40, 1000
ESTIMATORS = {
    "relaxed": RelaxedEstimator(SAMPLES),
    "blockwise": BlockwiseEstimator(SAMPLES),
}


def tiny_data() -> ContextData:
    rng = np.random.default_rng(0)
    x = 0.7 * rng.normal(size=(4, 3))
    x[:, 1] += 0.5 * x[:, 0]
    return ContextData(x, np.array([0, 0, 0, 1]), ("a", "b", "c"), ("k1",), "obs")


def exact(particle: Particle, alpha: jax.Array, density: Density) -> jax.Array:
    """log Σ_G Σ_I p(G | Z) p(I | Γ) Ψ(G, I)."""
    targets = np.array(list(product((0.0, 1.0), repeat=3)), np.float32)[:, None]
    graphs = np.repeat(all_digraphs(3).astype(np.float32), len(targets), axis=0)
    targets = np.tile(targets, (64, 1, 1))
    edge, target = alpha * particle.z[0] @ particle.z[1].T, alpha * particle.gamma
    log_p = jnp.sum((1 - jnp.eye(3)) * jax.nn.log_sigmoid((2 * graphs - 1) * edge), axis=(1, 2))
    log_p = log_p + jnp.sum(jax.nn.log_sigmoid((2 * targets - 1) * target), axis=(1, 2))
    structures = Structures(jnp.asarray(np.moveaxis(graphs, 0, 1)), jnp.asarray(np.moveaxis(targets, 0, 1)))
    return jax.nn.logsumexp(log_p + jnp.sum(density.log_psi(particle.theta, particle.theta_int, structures), 1))


@eqx.filter_jit
def estimated(
    estimator: AbstractEstimator, particle: Particle, alpha: jax.Array, density: Density
) -> tuple[jax.Array, jax.Array, Particle]:
    """Mean of the value over batches, its standard error, and the mean gradient."""
    keys = jax.random.split(jax.random.key(1), BATCHES)
    values, gradients, _ = jax.lax.map(lambda key: estimator(key, particle, (), alpha, density), keys)
    error = jnp.std(values, ddof=1) / BATCHES**0.5
    return jnp.mean(values), error, jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), gradients)


def compare(found: Particle, truth: Particle) -> list[str]:
    """Cosine and ratio of norms, block by block."""
    cells = []
    for block in Particle._fields:
        a, b = (np.concatenate([np.ravel(x) for x in jax.tree.leaves(getattr(g, block))]) for g in (found, truth))
        norm_a, norm_b = np.linalg.norm(a), np.linalg.norm(b)
        cells.append(f"{a @ b / (norm_a * norm_b):.2f} / {norm_a / norm_b:.2f}")
    return cells


def main() -> None:
    effect = HardGaussian(noise=FixedNoise(1.0), mean_prior_std=1.0, pseudo_prior=False)
    mechanism = LinearGaussian(FixedNoise(1.0), weight_prior_std=1.0, intercept_prior_std=None)
    density = Density.of(Model(mechanism, effect, standardize_within=False), tiny_data())
    particle = density.init(jax.random.key(7))
    particle = particle._replace(z=1.5 * particle.z, gamma=3 * particle.gamma)
    truth_of = eqx.filter_jit(jax.value_and_grad(exact))
    print("| α | estimator | bias of log E[Ψ] | Z | Γ | Θ | Θ_I |")
    print("|---|---|---|---|---|---|---|")
    for alpha in (0.2, 1.0, 5.0):
        value, gradient = truth_of(particle, jnp.asarray(alpha), density)
        for name, estimator in ESTIMATORS.items():
            mean, error, found = estimated(estimator, particle, jnp.asarray(alpha), density)
            bias, cells = f"{float(mean - value):+.3f} ± {float(error):.3f}", compare(found, gradient)
            print(f"| {alpha} | {name} | {bias} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
