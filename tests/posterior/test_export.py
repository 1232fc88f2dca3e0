"""Files for other programs: names and numbers survive."""

import csv
import io
import json
import re
import subprocess
import sys

import networkx as nx
import numpy as np
import pytest

from bacadi.errors import ConfigError, DataError, StoreError
from bacadi.posterior import Format, Posterior, export, load, to_networkx, write_results

from ..small import EDGE_COLUMNS, TARGET_COLUMNS

AWKWARD = ('say "hi", you', "back\\slash\\", "Größe 基因 🧬", "a\nb <&amp;> 'x'")
QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


@pytest.fixture
def awkward(make_posterior) -> Posterior:
    return make_posterior(np.random.default_rng(2), names=AWKWARD)


def unquoted(text: str) -> str:
    """What the quoted identifier stands for: the inverse of doubling backslashes and escaping quotes."""
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def expected_edges(posterior: Posterior, threshold: float) -> dict[tuple[str, str], float]:
    p = posterior.edge_probabilities()
    names = posterior.variables
    return {(names[i], names[j]): p[i, j] for i, j in np.argwhere(p > threshold).tolist()}


def check_graph(graph: nx.DiGraph, posterior: Posterior, threshold: float) -> None:
    assert set(graph.nodes) == set(posterior.variables)
    expected = expected_edges(posterior, threshold)
    assert expected and {(s, t): data["probability"] for s, t, data in graph.edges(data=True)} == expected
    weight = posterior.parameter_table("weight").set_index(["source", "target"])["mean"]
    assert all(data["mean_weight"] == pytest.approx(weight[s, t]) for s, t, data in graph.edges(data=True))
    for i, name in enumerate(posterior.variables):
        found = [graph.nodes[name][f"target:{context}"] for context in posterior.contexts]
        assert found == posterior.target_probabilities()[:, i].tolist()


def test_networkx_reads_graphml_and_json(awkward, tmp_path):
    export(awkward, Format.GRAPHML, tmp_path / "g.graphml", threshold=0.1)
    check_graph(nx.read_graphml(tmp_path / "g.graphml"), awkward, 0.1)
    export(awkward, Format.JSON, tmp_path / "g.json", threshold=0.1)
    content = json.loads((tmp_path / "g.json").read_text(encoding="utf-8"))
    check_graph(nx.node_link_graph(content, edges="edges"), awkward, 0.1)
    check_graph(to_networkx(awkward, 0.1), awkward, 0.1)


def test_dot_quotes_names_so_that_they_can_be_read_back(awkward, tmp_path):
    export(awkward, Format.DOT, tmp_path / "g.dot", threshold=0.1)
    text = (tmp_path / "g.dot").read_bytes().decode()
    names = [unquoted(match) for match in QUOTED.findall(text)]
    assert set(AWKWARD) <= set(names)
    # Outside quoted strings nothing but the syntax is left.
    skeleton = QUOTED.sub("Q", text)
    assert not set(skeleton) & set("\\\"'&<") and skeleton.startswith("digraph posterior {")
    pairs = re.findall(r'"((?:[^"\\]|\\.)*)" -> "((?:[^"\\]|\\.)*)" \[[^]]*"probability"=([\d.e-]+)', text)
    assert {(unquoted(s), unquoted(t)): float(p) for s, t, p in pairs} == expected_edges(awkward, 0.1)
    assert r'label="a\nb <&amp;amp;> ' in text


def test_csv_has_every_pair_whatever_the_threshold(awkward, tmp_path):
    export(awkward, Format.CSV, tmp_path / "g.csv", threshold=0.9)
    text = (tmp_path / "g.csv").read_bytes().decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(rows) == 12 and list(rows[0]) == [
        *["source", "target", "probability", "mean_weight", "given_adjacent", "log_odds"]
    ]
    got = {(row["source"], row["target"]): float(row["probability"]) for row in rows}
    assert {pair: p for pair, p in got.items() if p > 0} == expected_edges(awkward, 0.0)


def test_graph_formats_without_contexts_weights_or_edges(tmp_path):
    posterior = Posterior(
        np.zeros((1, 1, 2, 2), np.int8), np.zeros((1, 1, 0, 2), np.int8), np.zeros((1, 1)), ("a", "b"), ()
    )
    for kind in Format:
        export(posterior, kind, tmp_path / kind.value)
    graph = nx.read_graphml(tmp_path / "graphml")
    assert list(graph.nodes) == ["a", "b"] and not graph.edges
    assert (tmp_path / "csv").read_text() == "source,target,probability,given_adjacent,log_odds\na,b,0.0,,\nb,a,0.0,,\n"


def test_results_folder_follows_the_contract(posterior, tmp_path):
    write_results(posterior, tmp_path / "new" / "run")
    assert sorted(p.name for p in (tmp_path / "new" / "run").iterdir()) == ["edges.csv", "posterior.nc", "targets.csv"]
    edges = list(csv.reader((tmp_path / "new/run/edges.csv").open()))
    targets = list(csv.reader((tmp_path / "new/run/targets.csv").open()))
    assert tuple(edges[0]) == EDGE_COLUMNS and len(edges) == 1 + 4 * 3
    assert tuple(targets[0]) == TARGET_COLUMNS and len(targets) == 1 + 3 * 4
    probability = [float(row[2]) for row in edges[1:]]
    assert probability == sorted(probability, reverse=True)
    np.testing.assert_array_equal(load(tmp_path / "new/run/posterior.nc").graph, posterior.graph)


def test_refusals_name_what_is_wrong(make_posterior, posterior, tmp_path):
    with pytest.raises(ConfigError, match="threshold"):
        export(posterior, Format.DOT, tmp_path / "g.dot", threshold=-0.1)
    control = make_posterior(np.random.default_rng(0), names=("a\x01", "b", "c", "d"))
    with pytest.raises(DataError, match="GraphML cannot hold"):
        export(control, Format.GRAPHML, tmp_path / "g.graphml")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        write_results(posterior, tmp_path / "file" / "run")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_importing_the_package_loads_nothing_heavy():
    code = (
        "import sys, bacadi.posterior, bacadi.report\n"
        "print([m for m in ('jax', 'pandas', 'xarray', 'networkx', 'matplotlib', 'h5py') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
