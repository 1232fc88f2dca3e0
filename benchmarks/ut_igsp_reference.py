"""UT-IGSP beside the package graphical-model-learning 0.1a8 (BSD), on the data sets of tests/baselines/igsp_tasks.py.

    python -m venv /tmp/reference
    /tmp/reference/bin/pip install --no-deps graphical-model-learning==0.1a8 conditional-independence==0.1a6 \\
        graphical-models==0.1a21
    /tmp/reference/bin/pip install numpy scipy scikit-learn numexpr tqdm networkx einops joblib matplotlib \\
        numba jaxtyping
    PYTHONPATH=src /tmp/reference/bin/python benchmarks/ut_igsp_reference.py \\
        [--write tests/baselines/golden_ut_igsp.json]

Needs that environment, not the project's. What the package imports and this algorithm never calls (pgmpy, xgboost,
pygam, ipdb) is replaced by empty stand-ins. Every run starts from the same five orders of a data set:

- package: its search and its tests, edges counted first, which is its default; once as it is and once with the minimal
  I-maps of the orders by definition (its own are tested one-sided, so at twice the level, as if all had d - 2 others);
- package search: its search with our tests and minimal I-maps by definition, so that only the searches differ; once
  with edges first, once with the sum of edges and changes;
- ours, with both scores.

Printed are the means over the data sets, with distances from the true interventional CPDAG and targets.
"""

import argparse
import importlib
import json
import platform
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple
from unittest.mock import MagicMock

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "baselines"))
_UNUSED = ("ipdb", "pygam", "xgboost", "pgmpy", "pgmpy.models", "pgmpy.inference", "pgmpy.factors")
sys.modules.update({name: MagicMock() for name in (*_UNUSED, "pgmpy.factors.discrete", "pgmpy.factors.discrete.CPD")})

import conditional_independence as ci  # noqa: E402
from graphical_models import DAG  # noqa: E402
from igsp_tasks import ALPHA, ALPHA_INV, N_TASKS, ReferenceTask, our_search, reference_task  # noqa: E402

from bacadi.baselines.ci import GaussianTests, mask_of  # noqa: E402
from bacadi.baselines.ut_igsp import Parents, PermutationSearch, adjacency, changed_mechanisms  # noqa: E402
from bacadi.graph.equivalence import i_cpdag  # noqa: E402

# By name: in the package's namespace a function hides the module.
gsp = importlib.import_module("graphical_model_learning.algorithms.dag.gsp")
_IMAP_OF_PACKAGE = gsp.permutation2dag


class Result(NamedTuple):
    parents: Parents
    targets: np.ndarray


class OurTests:
    """Our tests behind the two interfaces the package asks for."""

    def __init__(self, tests: GaussianTests) -> None:
        self.tests = tests

    def is_ci(self, i: int, j: int, cond_set: Iterable[int]) -> bool:
        return self.tests.independent(int(i), int(j), _mask(cond_set))

    def is_invariant(self, node: int, context: int, cond_set: Iterable[int]) -> bool:
        return not self.tests.changed(int(node), _mask(cond_set)) >> context & 1


def _mask(members: Iterable[int]) -> int:
    return sum(1 << int(i) for i in members)


def _imap_by_definition(order: list[int], tests: GaussianTests) -> DAG:
    rules = PermutationSearch(tests, np.zeros((0, len(order)), dtype=bool), edges_first=True)
    graph = adjacency(rules.imap(order).parents)
    return DAG(nodes=set(order), arcs={(int(i), int(j)) for i, j in np.argwhere(graph)})


def _run_package(task: ReferenceTask, independence: object, invariance: object, edges_first: bool) -> Result:
    d = task.data.n_variables
    random.seed(0)
    dag, found = gsp.unknown_target_igsp(
        [{"known_interventions": []} for _ in range(d)],
        set(range(d)),
        independence,
        invariance,
        initial_permutations=task.orders,
        tup_score=edges_first,
    )
    targets = np.array([[int(i in chosen) for i in range(d)] for chosen in found], dtype=np.int8)
    return Result(tuple(_mask(dag.parents_of(node)) for node in range(d)), targets)


def package(task: ReferenceTask, imap_by_definition: bool = False) -> Result:
    ours = GaussianTests(task.data, ALPHA, ALPHA_INV)
    gsp.permutation2dag = (
        (lambda order, tester: _imap_by_definition(order, ours)) if imap_by_definition else _IMAP_OF_PACKAGE
    )
    parts = [task.data.x[task.data.context == k] for k in range(task.data.n_contexts + 1)]
    correlations = ci.partial_correlation_suffstat(parts[0])
    regressions = ci.gauss_invariance_suffstat(parts[0], parts[1:])
    independence = ci.MemoizedCI_Tester(ci.partial_correlation_test, correlations, alpha=ALPHA)
    invariance = ci.MemoizedInvarianceTester(ci.gauss_invariance_test, regressions, alpha=ALPHA_INV)
    return _run_package(task, independence, invariance, edges_first=True)


def package_search(task: ReferenceTask, edges_first: bool) -> Result:
    gsp.permutation2dag = lambda order, tester: _imap_by_definition(order, tester.tests)
    tests = OurTests(GaussianTests(task.data, ALPHA, ALPHA_INV))
    return _run_package(task, tests, tests, edges_first)


def ours(task: ReferenceTask, edges_first: bool) -> Result:
    tests = GaussianTests(task.data, ALPHA, ALPHA_INV)
    parents = our_search(task, tests, edges_first).parents
    return Result(parents, changed_mechanisms(tests, parents, task.data.n_contexts))


ARMS: dict[str, Callable[[ReferenceTask], Result]] = {
    "package": package,
    "package, I-map by definition": lambda task: package(task, imap_by_definition=True),
    "package search, edges first": lambda task: package_search(task, True),
    "package search, sum": lambda task: package_search(task, False),
    "ours, edges first": lambda task: ours(task, True),
    "ours, sum": lambda task: ours(task, False),
}


def measure(task: ReferenceTask, result: Result, seconds: float) -> tuple[float, ...]:
    """Edges, changed mechanisms, pairs of variables and targets that differ from the truth, CPU-seconds."""
    truth = i_cpdag(task.graph, task.targets)
    differs = i_cpdag(adjacency(result.parents), result.targets) != truth
    wrong_pairs = np.triu(differs | differs.T).sum()
    edges = adjacency(result.parents).sum()
    return edges, result.targets.sum(), wrong_pairs, (result.targets != task.targets).sum(), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="store the package's results as golden values")
    path = parser.parse_args().write
    warnings.simplefilter("ignore")  # the package divides by zero where a context has too few rows
    ours(reference_task(0), True)  # compiles
    tasks = [reference_task(seed) for seed in range(N_TASKS)]
    results: dict[str, list[Result]] = {}
    for name, run in ARMS.items():
        begin = time.process_time()
        results[name] = [run(task) for task in tasks]
        seconds = (time.process_time() - begin) / N_TASKS
        mean = np.mean(
            [measure(task, result, seconds) for task, result in zip(tasks, results[name], strict=True)], axis=0
        )
        print(
            f"{name:28s} edges {mean[0]:5.2f}, changes {mean[1]:5.2f}, wrong pairs {mean[2]:4.2f}, "
            f"wrong targets {mean[3]:4.2f}, {mean[4]:.3f} CPU-s"
        )
    for score in ("edges first", "sum"):
        pairs = zip(results[f"package search, {score}"], results[f"ours, {score}"], strict=True)
        print(f"same tests, {score}: the same graph on {sum(a.parents == b.parents for a, b in pairs)} of {N_TASKS}")
    for name in ("package", "package, I-map by definition"):
        pairs = list(zip(results[name], results["ours, edges first"], strict=True))
        graphs = sum(a.parents == b.parents for a, b in pairs)
        targets = np.mean([(a.targets == b.targets).mean() for a, b in pairs])
        print(f"{name}: the same graph on {graphs} of {N_TASKS}, {targets:.1%} of the targets alike")
    if path is not None:
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in _golden(results).items()]
        path.write_text("{" + ",\n".join(lines) + "}\n")


def _golden(results: dict[str, list[Result]]) -> dict[str, object]:
    names = ("graphical-model-learning", "conditional-independence", "graphical-models", "numpy", "scipy")
    return {
        "source": "benchmarks/ut_igsp_reference.py --write; see there how the package was made to run",
        "versions": {"python": platform.python_version()} | {name: version(name) for name in names},
        "meaning": "bit masks of each variable's parents and each context's targets, by seed of igsp_tasks.py",
        "results": {
            name: [
                {"parents": list(one.parents), "targets": [mask_of(row == 1) for row in one.targets]} for one in found
            ]
            for name, found in results.items()
            if name.startswith("package")
        },
    }


if __name__ == "__main__":
    main()
