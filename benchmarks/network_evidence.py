"""What the weakest true edges of a nonlinear task gain: by the evidence of networks, beside that of Gaussian processes.

    python benchmarks/network_evidence.py --seed 0 --edges 12

The collapsed sampler takes networks of five units for the Gaussian process of their covariance. Here the evidence of
the networks is computed by annealed importance sampling (Hamiltonian moves from prior to posterior), at the true
targets and the noise of the preset `paper`, for the true parents of a variable and for these less one. Prints the log
evidence that the edge gains by both; where both find nothing, the data say nothing of the edge.
"""

import argparse
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from bacadi.evidence.reading import collapse
from bacadi.model.model import Model
from bacadi.simulate import NeuralTruth, RandomErdosRenyi, SyntheticSpec, simulate

HIDDEN, VARIANCE, MOST_PARENTS, LEAPS = 5, 0.1, 8, 8
N_PARAMETERS = HIDDEN * (MOST_PARENTS + 2) + 1


def log_likelihood(theta, inputs, y, used):
    """log p(y | network θ) over the rows in use; inputs are 0 where there is no parent, so spare weights are idle."""
    weight, bias, out, offset = jnp.split(theta, np.cumsum([HIDDEN * MOST_PARENTS, HIDDEN, HIDDEN]))
    mean = jax.nn.sigmoid(inputs @ weight.reshape(MOST_PARENTS, HIDDEN) + bias) @ out + offset
    return jnp.sum(used * (-0.5 * jnp.log(2 * jnp.pi * VARIANCE) - (y - mean) ** 2 / (2 * VARIANCE)))


@partial(jax.jit, static_argnames=("n_temperatures", "n_chains"))
def annealed_log_evidence(key, rows, n_temperatures=600, n_chains=32):
    """log of the mean weight of chains that walk from N(0, 1) to the posterior over a geometric ladder."""
    ladder = jnp.concatenate([jnp.zeros(1), jnp.geomspace(1e-5, 1.0, n_temperatures)])
    likelihood = jax.vmap(lambda theta: log_likelihood(theta, *rows))

    def log_p(theta, power):
        return -0.5 * jnp.sum(theta**2, axis=1) + power * likelihood(theta)

    slope = jax.grad(lambda theta, power: jnp.sum(log_p(theta, power)))

    def walk(carry, powers):
        theta, log_weight, size, key = carry
        before, power = powers
        log_weight = log_weight + (power - before) * likelihood(theta)
        key, key_momentum, key_size, key_accept = jax.random.split(key, 4)
        momentum = jax.random.normal(key_momentum, theta.shape)
        leap = size * jnp.exp(0.2 * jax.random.normal(key_size, (n_chains, 1)))

        def leapfrog(_, state):
            place, speed = state
            speed = speed + 0.5 * leap * slope(place, power)
            place = place + leap * speed
            return place, speed + 0.5 * leap * slope(place, power)

        place, speed = jax.lax.fori_loop(0, LEAPS, leapfrog, (theta, momentum))
        gain = log_p(place, power) - log_p(theta, power) + 0.5 * jnp.sum(momentum**2 - speed**2, axis=1)
        accepted = jnp.log(jax.random.uniform(key_accept, (n_chains,))) < gain
        theta = jnp.where(accepted[:, None], place, theta)
        return (theta, log_weight, size * jnp.exp(0.1 * (jnp.mean(accepted) - 0.7)), key), None

    key, key_start = jax.random.split(key)
    start = jax.random.normal(key_start, (n_chains, N_PARAMETERS))
    carry = (start, jnp.zeros(n_chains), jnp.asarray(0.2), key)
    (_, log_weight, _, _), _ = jax.lax.scan(walk, carry, (ladder[:-1], ladder[1:]))
    return jax.nn.logsumexp(log_weight) - jnp.log(n_chains)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--edges", type=int, default=12, help="so many true edges, those that gain least")
    chosen = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    task = simulate(SyntheticSpec(graph=RandomErdosRenyi(), mechanism=NeuralTruth()), chosen.seed)
    evidence = collapse(Model.preset("paper", "nonlinear"), task.data).evidence

    def of_process(node: int, parents: np.ndarray) -> float:
        return evidence.log_evidence(node, np.isin(np.arange(len(task.graph)), parents), task.targets[:, node])

    def of_network(node: int, parents: np.ndarray, seed: int) -> float:
        targeted = np.concatenate([[0], task.targets[:, node]])[task.data.context]
        inputs = np.zeros((len(task.data.x), MOST_PARENTS))
        inputs[:, : len(parents)] = task.data.x[:, parents]
        rows = tuple(map(jnp.asarray, (inputs, task.data.x[:, node], 1.0 - targeted)))
        return float(annealed_log_evidence(jax.random.key(seed), rows))

    # A root of the recipe has no network, so an edge counts where other parents stay.
    cases = []
    for source, node in np.argwhere(task.graph):
        parents = np.flatnonzero(task.graph[:, node])
        if 2 <= len(parents) <= MOST_PARENTS:
            others = parents[parents != source]
            cases.append((of_process(node, parents) - of_process(node, others), source, node, parents, others))
    cases.sort(key=lambda case: case[0])
    print(f"seed {chosen.seed}, {task.graph.sum()} edges; gain in log evidence, networks twice\n")
    print(f"{'edge':10s}{'parents':>8s}{'Gaussian process':>18s}{'network':>16s}")
    for gain, source, node, parents, others in cases[: chosen.edges]:
        exact = [of_network(node, parents, seed) - of_network(node, others, seed) for seed in (1, 2)]
        shown = ", ".join(f"{value:.1f}" for value in exact)
        print(f"x{source + 1} -> x{node + 1}".ljust(10) + f"{len(parents):8d}{gain:18.1f}{shown:>16s}", flush=True)


if __name__ == "__main__":
    main()
