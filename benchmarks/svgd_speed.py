"""Cost of one SVGD step at the authors' settings: d = 20, N = 300, 20 particles, 128 samples, 32 for acyclicity.

    python benchmarks/svgd_speed.py [--model linear|nonlinear] [--steps 20] [--beside ../other/src --rounds 3]

Prints CPU-seconds a step after compilation, the CPU-seconds that starting, the first step and reading take before (most
of it compiling) and the peak memory of the process, beside what the authors' code takes on the same kind of machine
(2 shared cores): 1.15 CPU-s and 1.2 GB linear, 13.6 CPU-s and 9.8 GB nonlinear. Each model is measured in a process of
its own, because the peak memory belongs to a process; with `--beside` the code of another checkout takes turns.
"""

import argparse
import os
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
    from bacadi.inference.svgd.particles import _read
    from bacadi.model.model import Model
    from bacadi.relaxed.density import Density
    from bacadi.relaxed.latent import SampledAcyclicity
    from bacadi.simulate import SyntheticSpec, simulate

    estimators = dict(zip(ESTIMATORS, (RelaxedEstimator, BlockwiseEstimator), strict=True))
    model = Model.preset("paper", model_name)
    svgd = SVGD(estimator=estimators[estimator_name](n_samples=128), expected_acyclicity=SampledAcyclicity(32))
    data = simulate(SyntheticSpec(), seed=0).data
    problem = Descent(svgd, Density.of(model, data), jax.random.key(0))
    marks = [time.process_time()]
    state = jax.block_until_ready(init(problem))
    marks.append(time.process_time())
    state = jax.block_until_ready(advance(problem, state, jnp.asarray(1, jnp.int32)))[0]
    marks.append(time.process_time())
    begin, cpu = time.perf_counter(), time.process_time()
    state = jax.block_until_ready(advance(problem, state, jnp.asarray(1 + n_steps, jnp.int32)))[0]
    wall, cpu = (time.perf_counter() - begin) / n_steps, (time.process_time() - cpu) / n_steps
    before = time.process_time()
    _read(problem, state)
    parts = [marks[1] - marks[0], marks[2] - marks[1], time.process_time() - before]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    theirs, memory = AUTHORS[model_name]
    print(
        f"{model_name:9s} {estimator_name:9s}  {cpu:6.3f} CPU-s per step ({wall:.3f} s wall), start, first step and "
        f"reading {' + '.join(f'{part:.1f}' for part in parts)} CPU-s, peak {peak:.2f} GB   authors: {theirs} CPU-s, "
        f"{memory} GB  ({theirs / cpu:.0f} times)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=AUTHORS, action="append")
    parser.add_argument("--estimator", choices=ESTIMATORS, action="append")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--beside", default=None, help="`src` of another checkout, measured in turn")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--here", action="store_true", help="measure in this process")
    arguments = parser.parse_args()
    for model in arguments.model or AUTHORS:
        for estimator in arguments.estimator or ESTIMATORS:
            if arguments.here:
                measure(model, estimator, arguments.steps)
                continue
            options = ["--here", "--model", model, "--estimator", estimator, "--steps", str(arguments.steps)]
            for _ in range(arguments.rounds):
                for source in (arguments.beside, None) if arguments.beside else (None,):
                    # The cache of compiled programs would hide what compiling takes.
                    paths = {"JAX_COMPILATION_CACHE_DIR": ""} | ({"PYTHONPATH": source} if source else {})
                    print(f"{source or 'here':24s}", end=" ", flush=True)
                    subprocess.run([sys.executable, __file__, *options], check=True, env=os.environ | paths)


if __name__ == "__main__":
    main()
