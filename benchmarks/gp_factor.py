"""Evidence of Gaussian processes end to end: the panels of `evidence.gp.linalg` against LAPACK and other checkouts.

    python benchmarks/gp_factor.py [--rows 300 1500] [--repeats 5] [--against /path/to/checkout/src ...]

Every arm is a process of its own that answers the same requests by a fresh evidence, one arm after the other,
by turns, so that the load of a shared machine meets all of them. `lapack` puts SciPy's
LAPACK functions in place of the panels; `--against` adds checkouts, such as 41905ca, which had tiles of 32 x 32.

Requests are those of a fit of the paper's nonlinear task (20 variables, contexts with one target each, a third of the
rows observational): parent sets near the true ones, five requests each, of which two thirds leave out or alter two
contexts or more (a fit of 350 sweeps asked for 60,628 values of 13,352 parent sets, 41,499 of them such). `start` asks
for twenty at a time, as the search for a start does, `replicas` from two threads for one at a time, as samplers do, and
`effects` is `replicas` with shift, scale and soft effects among the states.

Prints the least and the median seconds per arm, and the largest relative difference of a value from the first arm.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

D, HARD_SHARE = 20, 2 / 3
SOURCE = Path(__file__).parent.parent / "src"


def workload(n_rows: int, n_sets: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Data of random networks, and requests near their true structure; states of 2 and more are not hard."""
    rng = np.random.default_rng(seed)
    context = np.repeat(np.arange(D + 1), [n_rows - D * (n_rows // 30), *[n_rows // 30] * D])
    graph, x = np.triu(rng.random((D, D)) < 4 / (D - 1), 1), np.sqrt(0.1) * rng.normal(size=(n_rows, D))
    for j in range(D):
        hidden = x[:, graph[:, j]] @ rng.normal(size=(graph[:, j].sum(), 5)) + rng.normal(size=5)
        x[:, j] += graph[:, j].any() * (rng.normal() + 1 / (1 + np.exp(-hidden)) @ rng.normal(size=5))
        x[context == j + 1, j] = rng.choice([-6, 6]) + rng.normal(size=n_rows // 30)
    nodes = np.repeat(rng.integers(D, size=n_sets), 5)
    parents = graph.T[nodes] ^ np.repeat(rng.random((n_sets, D)) < 3 / D, 5, axis=0)
    parents[np.arange(len(nodes)), nodes] = False
    hard = np.eye(D, dtype=np.int8)[nodes]
    extra = np.where(rng.random(len(nodes)) < HARD_SHARE, rng.integers(D, size=len(nodes)), nodes)
    hard[np.arange(len(nodes)), extra] = 1
    mixed = np.where(hard, rng.integers(1, 6, size=hard.shape), 0).astype(np.int8)
    return {"x": x, "context": context, "nodes": nodes, "parents": parents, "hard": hard, "mixed": mixed}


def evidence_of(data: dict[str, np.ndarray], mixed: bool):
    """The evidence by public names alone, so that older checkouts have it too."""
    import bacadi

    names = tuple(f"x{j}" for j in range(D)), tuple(f"k{j}" for j in range(D))
    effects = (bacadi.HardGaussian(), bacadi.ShiftGaussian(), bacadi.ScaleGaussian((0.25, 4.0)), bacadi.SoftGaussian())
    model = bacadi.Model(
        mechanism=bacadi.NeuralGaussian(noise=bacadi.InferredNoise(1.0, 0.1), input_scales=None),
        effect=bacadi.EffectMixture(effects, (0.25,) * 4) if mixed else effects[0],
    )
    contexts = bacadi.ContextData(data["x"], data["context"], *names, "obs")
    if hasattr(model, "collapse"):
        return model.collapse(contexts).evidence
    from bacadi.evidence.reading import collapse

    return collapse(model, contexts).evidence


def answer(data: dict[str, np.ndarray], name: str) -> tuple[float, np.ndarray]:
    """Seconds and values of one pass over the requests."""
    mixed, order = name == "effects", np.arange(len(data["nodes"]))
    evidence = evidence_of(data, mixed)
    size = 20 if name == "start" else 1
    parts = [order] if name == "start" else [order[: len(order) // 2], order[len(order) // 2 :]]

    def ask(part: np.ndarray) -> np.ndarray:
        states = data["mixed" if mixed else "hard"]
        calls = [part[i : i + size] for i in range(0, len(part), size)]
        return np.concatenate([evidence.log_evidences(data["nodes"][c], data["parents"][c], states[c]) for c in calls])

    begin = time.perf_counter()
    with ThreadPoolExecutor(len(parts)) as pool:
        values = np.concatenate(list(pool.map(ask, parts)))
    return time.perf_counter() - begin, values


def use_lapack() -> None:
    """Let LAPACK factorise, by SciPy and in the units of `linalg.factorise` and `linalg.solve`."""
    from scipy.linalg.lapack import dpotrf, dpotri, dtrtrs

    from bacadi.evidence.gp import linalg

    def root_of(panels: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        whole = panels.transpose(1, 0, 2).reshape(len(y), len(y))  # its upper half is the lower one of Fortran's order
        root, _ = dpotrf(whole.T, lower=1, overwrite_a=1)
        return root, dtrtrs(root, y, lower=1)[0]

    def factorise(panels: np.ndarray, y: np.ndarray, first: int, n: int) -> tuple[Any, ...]:
        root, z = root_of(panels, y)
        top = first * linalg.BLOCK
        last = np.asfortranarray(root[top:, top:])
        alpha, _ = dtrtrs(last, z[top:], lower=1, trans=1)
        precision, _ = dpotri(last, lower=1)
        lower = np.ascontiguousarray(precision[:n, :n][np.tril_indices(n)]), np.ascontiguousarray(alpha[:n])
        return *lower, 2 * np.log(root.diagonal()).sum(), np.square(z).sum(axis=0)

    def solve(panels: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
        root, z = root_of(panels, y)
        return 2 * np.log(root.diagonal()).sum(), np.square(z).sum(axis=0)

    linalg.factorise, linalg.solve = factorise, solve


def work(file: str, arm: str) -> None:
    """Answer every line of the standard input, the name of a pass, by its seconds."""
    data = dict(np.load(file))
    if arm == "lapack":
        use_lapack()
    for name in ("start", "replicas", "effects"):  # compile
        answer({key: value if key in ("x", "context") else value[:20] for key, value in data.items()}, name)
    print("ready", flush=True)
    for line in sys.stdin:
        seconds, values = answer(data, line.strip())
        np.save(f"{file}.{arm}.npy", values)
        print(json.dumps(seconds), flush=True)


def compare(n_rows: int, n_sets: int, repeats: int, sources: dict[str, Path]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "workload.npz")
        np.savez(file, **workload(n_rows, n_sets))
        workers = {}
        for arm, source in sources.items():
            command = [sys.executable, __file__, "--worker", file, arm]
            environment = os.environ | {"PYTHONPATH": str(source)}
            workers[arm] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
            )
            assert workers[arm].stdout.readline() == "ready\n"
        for name in ("start", "replicas", "effects"):
            seconds: dict[str, list[float]] = {arm: [] for arm in sources}
            for _ in range(repeats):
                for arm, worker in workers.items():
                    print(name, file=worker.stdin, flush=True)
                    seconds[arm].append(json.loads(worker.stdout.readline()))
            values = [np.load(f"{file}.{arm}.npy") for arm in sources]
            first = next(iter(seconds.values()))
            for arm, found, value in zip(sources, seconds.values(), values, strict=True):
                difference = np.abs(value / values[0] - 1).max()
                per_set = 1e3 * np.array([min(found), np.median(found)]) / n_sets
                ratio = np.median(found) / np.median(first)
                print(
                    f"{n_rows:6d} {name:9s}{arm:10s} {per_set[0]:8.2f} {per_set[1]:8.2f} ms per parent set"
                    f"{ratio:7.2f} of the first{difference:10.1e}",
                    flush=True,
                )
        for worker in workers.values():
            worker.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1500])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--against", type=Path, nargs="*", default=[], help="folders src of other checkouts")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(*options.worker)
    others = {f"other-{i + 1}": source.resolve() for i, source in enumerate(options.against)}
    print("rows, requests, arm, least and median time")
    for n_rows in options.rows:
        n_sets = 600 if n_rows <= 500 else 40
        compare(n_rows, n_sets, options.repeats, {"panels": SOURCE, "lapack": SOURCE} | others)
    return None


if __name__ == "__main__":
    main()
