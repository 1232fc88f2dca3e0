"""What simple wrong answers score: the numbers of docs/metrics.md.

    python benchmarks/metric_traps.py --tasks 10

Answers that need no data (no edge at all, every edge, the same probability everywhere) or that know the truth but for
one flaw are judged like any posterior, on the task studies/tasks/linear-er.toml (20 variables, about 40 edges) and, for
the last table, on two-targets-a-third-untouched.toml. Printed are medians over tasks. An answer has graphs and targets
alone; its likelihoods take the maximum-likelihood parameters of each graph.
"""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from bacadi.graph.dag import topological_order
from bacadi.graph.equivalence import cpdag
from bacadi.metrics import average_precision, edge_auprc, favour_undirected
from bacadi.metrics.evaluate import evaluate
from bacadi.posterior import Posterior
from bacadi.simulate import Task, read_spec, simulate
from bacadi.simulate.graphs import erdos_renyi_dag

STUDIES = Path(__file__).parent.parent / "studies" / "tasks"
GRAPH_COLUMNS = {
    "E-SID": "expected_sid",
    "E-SHD": "expected_shd",
    "edge AP": "edge_average_precision",
    "edge AUPRC": "edge_auprc",
    "ancestral AP": "ancestral_average_precision",
    "calibration error": "edge_calibration_error",
    "Brier": "edge_brier",
    "I-NLL": "interventional_nll",
    "predictive NLL": "predictive_nll",
}
TARGET_COLUMNS = {
    "target AP": "target_average_precision",
    "target AUPRC": "target_auprc",
    "top-1 accuracy": "target_top_accuracy",
    "calibration error": "target_calibration_error",
    "Brier": "target_brier",
}
CLASS_COLUMNS = ("edge AP", "edge AUPRC", "edge AP, both directions at .5")
Answers = dict[str, Callable[[np.random.Generator, Task], np.ndarray]]


def in_order(order: np.ndarray) -> np.ndarray:
    """The complete DAG whose edges run from earlier to later nodes of an order."""
    graph = np.zeros((len(order), len(order)), dtype=np.int8)
    place = np.argsort(order)
    graph[place[:, None] < place[None, :]] = 1
    return graph


def shuffled(rng: np.random.Generator, task: Task) -> np.ndarray:
    order = rng.permutation(len(task.graph))
    return task.graph[np.ix_(order, order)]


def with_extra_edges(rng: np.random.Generator, task: Task) -> np.ndarray:
    """The true graph and as many wrong edges, none against the true order."""
    room = np.argwhere(in_order(topological_order(task.graph)) > task.graph)
    graph = task.graph.copy()
    graph[tuple(rng.permutation(room)[: task.graph.sum()].T)] = 1
    return graph


def half(rng: np.random.Generator, task: Task) -> np.ndarray:
    edges = np.argwhere(task.graph)
    graph = np.zeros_like(task.graph)
    graph[tuple(rng.permutation(edges)[: len(edges) // 2].T)] = 1
    return graph


def rotations(rng: np.random.Generator, task: Task) -> np.ndarray:
    """Targets of as many draws as variables: every cell has the probability 1 / d, whatever the truth."""
    m, d = task.targets.shape
    return np.array([[np.eye(d, dtype=np.int8)[(k + draw) % d] for k in range(m)] for draw in range(d)])


def one_of_two(rng: np.random.Generator, task: Task) -> np.ndarray:
    """The first target of each context and nothing else."""
    return task.targets * (np.cumsum(task.targets, axis=1) == 1).astype(np.int8)


GRAPHS: Answers = {
    "the true graph": lambda rng, task: task.graph,
    "no edge": lambda rng, task: 0 * task.graph,
    "every edge, in the true order": lambda rng, task: in_order(topological_order(task.graph)),
    "every edge, in a random order": lambda rng, task: in_order(rng.permutation(len(task.graph))),
    "true graph and as many wrong edges": with_extra_edges,
    "half of the true edges": half,
    "true graph, all edges reversed": lambda rng, task: task.graph.T,
    "true graph, nodes shuffled": shuffled,
    "50 random graphs": lambda rng, task: np.stack([erdos_renyi_dag(rng, len(task.graph)) for _ in range(50)]),
    "true graph in 19 draws, no edge in one": lambda rng, task: np.stack([task.graph] * 19 + [0 * task.graph]),
}
TARGETS: Answers = {
    "the true targets": lambda rng, task: task.targets,
    "no target": lambda rng, task: 0 * task.targets,
    "every variable": lambda rng, task: np.ones_like(task.targets),
    "1/d for every variable": rotations,
    "one target of each context": one_of_two,
}


CLASSES: Answers = {
    "the class of the true graph (CPDAG)": lambda rng, task: cpdag(task.graph),
    "true skeleton, no direction": lambda rng, task: task.graph | task.graph.T,
    "every pair, no direction": lambda rng, task: 1 - np.eye(len(task.graph), dtype=np.int8),
}


def judged(task: Task, graphs: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """All metrics of equally likely graphs and targets; either may be a single one."""
    graphs, targets = (array if array.ndim == 3 else array[None] for array in (graphs, targets))
    n = max(len(graphs), len(targets))
    graphs, targets = (np.broadcast_to(array, (n, *array.shape[1:])) for array in (graphs, targets))
    return evaluate(Posterior.from_draws(task.data, graphs, targets), task)


def medians(answers: Answers, columns: dict[str, str], name: str, n_tasks: int) -> dict[str, list[float]]:
    """The median of each column for each answer."""
    found, tasks = {}, drawn_tasks(name, n_tasks)
    for label, answer in answers.items():
        rows = []
        for task in tasks:
            drawn = answer(np.random.default_rng(task.seed), task)
            about_graphs = answers is GRAPHS
            values = judged(task, drawn if about_graphs else task.graph, task.targets if about_graphs else drawn)
            rows.append([values[column] for column in columns.values()])
        found[label] = np.median(rows, axis=0).tolist()
    return found


def medians_of_classes(n_tasks: int) -> dict[str, list[float]]:
    """Rankings of undirected edges by the paper's favouring rule, and without it."""
    found, tasks = {}, drawn_tasks("linear-er", n_tasks)
    for label, answer in CLASSES.items():
        rows = []
        for task in tasks:
            pdag = answer(np.random.default_rng(task.seed), task)
            favoured, plain = favour_undirected(pdag, task.graph).astype(float), pdag / (1.0 + (pdag & pdag.T))
            rows.append(
                [
                    average_precision(favoured, task.graph),
                    edge_auprc(favoured, task.graph),
                    average_precision(plain, task.graph),
                ]
            )
        found[label] = np.median(rows, axis=0).tolist()
    return found


def drawn_tasks(name: str, n_tasks: int) -> list[Task]:
    return [simulate(read_spec(STUDIES / f"{name}.toml"), seed) for seed in range(n_tasks)]


def markdown(first: str, columns: Iterable[str], values: dict[str, list[float]]) -> str:
    header = (first, *columns)
    lines = [f"| {' | '.join(header)} |", "|---|" + "---:|" * (len(header) - 1)]
    lines += [f"| {label} | {' | '.join(map(shown, row))} |" for label, row in values.items()]
    return "\n".join(lines)


def shown(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.2f}"


def tables(n_tasks: int) -> list[str]:
    """The tables of the page, in its order."""
    return [
        markdown("graph", GRAPH_COLUMNS, medians(GRAPHS, GRAPH_COLUMNS, "linear-er", n_tasks)),
        markdown("class", CLASS_COLUMNS, medians_of_classes(n_tasks)),
        markdown("targets", TARGET_COLUMNS, medians(TARGETS, TARGET_COLUMNS, "linear-er", n_tasks)),
        markdown("targets", TARGET_COLUMNS, medians(TARGETS, TARGET_COLUMNS, "two-targets-a-third-untouched", n_tasks)),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=10)
    print("\n\n".join(tables(parser.parse_args().tasks)))
