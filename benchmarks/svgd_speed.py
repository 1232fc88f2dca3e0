"""Cost of one SVGD step at the authors' settings: d = 20, N = 300, 20 particles, 128 samples, 32 for acyclicity.

    python benchmarks/svgd_speed.py [--model linear|nonlinear] [--steps 20]

Prints CPU-seconds a step after compilation, the time to compile and the peak memory of the process, beside what the
authors' code takes on the same kind of machine (2 shared cores): 1.15 CPU-s and 1.2 GB linear, 13.6 CPU-s and 9.8 GB
nonlinear. Each model is measured in a process of its own, because the peak memory belongs to a process.
"""

import argparse
import resource
import subprocess
import sys
import time

AUTHORS = {"linear": (1.15, 1.2), "nonlinear": (13.6, 9.8)}
ESTIMATORS = ("relaxed", "blockwise")


def measure(model_name: str, estimator_name: str, n_steps: int) -> None:
    import jax
    import jax.numpy as jnp

    from bacadi.inference.svgd.estimators import BlockwiseEstimator, RelaxedEstimator
    from bacadi.inference.svgd.method import SVGD, Descent, advance, init
    from bacadi.model.model import Model
    from bacadi.relaxed.density import Density
    from bacadi.relaxed.latent import SampledAcyclicity
    from bacadi.simulate import SyntheticSpec, simulate

    estimators = dict(zip(ESTIMATORS, (RelaxedEstimator, BlockwiseEstimator), strict=True))
    model = Model.preset("paper", model_name)
    svgd = SVGD(estimator=estimators[estimator_name](n_samples=128), expected_acyclicity=SampledAcyclicity(32))
    data = simulate(SyntheticSpec(), seed=0).data
    problem = Descent(svgd, Density.of(model, data), jax.random.key(0))
    state = init(problem)
    begin = time.perf_counter()
    state = jax.block_until_ready(advance(problem, state, jnp.asarray(1, jnp.int32)))[0]
    compilation = time.perf_counter() - begin
    begin, cpu = time.perf_counter(), time.process_time()
    jax.block_until_ready(advance(problem, state, jnp.asarray(1 + n_steps, jnp.int32)))
    wall, cpu = (time.perf_counter() - begin) / n_steps, (time.process_time() - cpu) / n_steps
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    theirs, memory = AUTHORS[model_name]
    print(
        f"{model_name:9s} {estimator_name:9s}  {cpu:6.3f} CPU-s per step ({wall:.3f} s wall), compiled in "
        f"{compilation:4.1f} s, peak {peak:.2f} GB   authors: {theirs} CPU-s, {memory} GB  ({theirs / cpu:.0f} times)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=AUTHORS, action="append")
    parser.add_argument("--estimator", choices=ESTIMATORS, action="append")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--here", action="store_true", help="measure in this process")
    arguments = parser.parse_args()
    for model in arguments.model or AUTHORS:
        for estimator in arguments.estimator or ESTIMATORS:
            if arguments.here:
                measure(model, estimator, arguments.steps)
            else:
                options = ["--here", "--model", model, "--estimator", estimator, "--steps", str(arguments.steps)]
                subprocess.run([sys.executable, __file__, *options], check=True)


if __name__ == "__main__":
    main()
