"""Text of the graph formats: edge list, GraphML, DOT and node-link JSON. An edge i -> j runs from source to target.

Edges carry `probability` and, where the posterior has a `weight` parameter, `mean_weight` (given the edge; the bare
name `weight` steers the layout in Graphviz). Nodes carry `target:<context>`, the probability of being a target there.

Results as files for other programs.
"""

import json
import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bacadi.data.text import write_text
from bacadi.errors import DataError
from bacadi.posterior.posterior import Posterior
from bacadi.posterior.store import save
from bacadi.posterior.summaries import check_threshold, edge_table, summarise

if TYPE_CHECKING:
    import networkx as nx


# Characters that XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENTITY = re.compile(r"&(?=#?\w+;)")


def to_networkx(posterior: Posterior, threshold: float = 0.5) -> "nx.DiGraph":
    """All variables and the edges with probability above the threshold; below 1/2 these may form cycles."""
    import networkx as nx

    check_threshold(threshold)
    edges, targets = posterior.edge_probabilities(), posterior.target_probabilities()
    mean_weight = _mean_weight(posterior)
    graph = nx.DiGraph()
    for i, name in enumerate(posterior.variables):
        graph.add_node(name, **{f"target:{c}": float(targets[k, i]) for k, c in enumerate(posterior.contexts)})
    for i, j in np.argwhere(edges > threshold).tolist():
        attributes = {"probability": float(edges[i, j])}
        if mean_weight is not None:
            attributes["mean_weight"] = float(mean_weight[i, j])
        graph.add_edge(posterior.variables[i], posterior.variables[j], **attributes)
    return graph


def csv_text(posterior: Posterior, threshold: float = 0.0) -> str:
    """source, target, probability (and mean_weight) of every ordered pair; the threshold is not used."""
    table = edge_table(posterior)
    mean_weight = _mean_weight(posterior)
    if mean_weight is not None:
        at = {name: i for i, name in enumerate(posterior.variables)}
        pairs = zip(table["source"], table["target"], strict=True)
        table["mean_weight"] = [mean_weight[at[source], at[target]] for source, target in pairs]
    return table.to_csv(index=False, lineterminator="\n")


def graphml_text(posterior: Posterior, threshold: float = 0.5) -> str:
    """GraphML, for Cytoscape, yEd, Gephi, igraph and networkx."""
    import networkx as nx

    for name in (*posterior.variables, *posterior.contexts):
        if found := _NOT_XML.search(name):
            raise DataError(
                f"The name {name!r} holds the character {found.group()!r}, which GraphML cannot hold; "
                "rename it or export to another format."
            )
    return "\n".join(nx.generate_graphml(to_networkx(posterior, threshold))) + "\n"


def node_link_text(posterior: Posterior, threshold: float = 0.5) -> str:
    """networkx node-link JSON, for d3 and `networkx.node_link_graph(..., edges="edges")`."""
    import networkx as nx

    content = nx.node_link_data(to_networkx(posterior, threshold), edges="edges")
    return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def dot_text(posterior: Posterior, threshold: float = 0.5) -> str:
    """DOT, for Graphviz."""
    graph = to_networkx(posterior, threshold)
    lines = ["digraph posterior {", "  node [shape=ellipse];"]
    for name, attributes in graph.nodes(data=True):
        lines.append(f"  {dot_id(name)} [label={dot_label(name)}{_dot_attributes(attributes)}];")
    for source, target, attributes in graph.edges(data=True):
        label = f'label="{attributes["probability"]:.2f}"'
        lines.append(f"  {dot_id(source)} -> {dot_id(target)} [{label}{_dot_attributes(attributes)}];")
    return "\n".join([*lines, "}"]) + "\n"


def dot_id(name: str) -> str:
    r"""A name as a quoted DOT identifier; a backslash is doubled because one before the quote would end nothing.

    >>> print(dot_id('say "hi"'))
    "say \"hi\""
    """
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def dot_label(name: str) -> str:
    """A name as a DOT label that is drawn as it is: line ends and what looks like an HTML entity escaped too."""
    return dot_id(_ENTITY.sub("&amp;", name)).replace("\r", "").replace("\n", "\\n")


def _dot_attributes(attributes: dict[str, float]) -> str:
    return "".join(f", {dot_id(name)}={value!r}" for name, value in attributes.items())


def _mean_weight(posterior: Posterior) -> np.ndarray | None:
    parameter = posterior.parameters.get("weight")
    if parameter is None or parameter.dims != ("source", "target"):
        return None
    return summarise(posterior, "weight")["mean"]


class Format(Enum):
    """What `export` can write; the value is the name on the command line."""

    CSV = "csv"
    GRAPHML = "graphml"
    DOT = "dot"
    JSON = "json"


WRITERS: dict[Format, Callable[[Posterior, float], str]] = {
    Format.CSV: csv_text,
    Format.GRAPHML: graphml_text,
    Format.DOT: dot_text,
    Format.JSON: node_link_text,
}


def export(posterior: Posterior, format: Format, path: str | Path, threshold: float = 0.5) -> None:
    """Write the graph in one format: CSV has every ordered pair, the others the edges above the threshold."""
    write_text(path, WRITERS[format](posterior, threshold))


def write_results(posterior: Posterior, directory: str | Path) -> None:
    """Write edges.csv, targets.csv and posterior.nc into a folder, which is made if it is missing."""
    directory = Path(directory)
    write_text(directory / "edges.csv", posterior.edges().to_csv(index=False, lineterminator="\n"))
    write_text(directory / "targets.csv", posterior.targets().to_csv(index=False, lineterminator="\n"))
    save(posterior, directory / "posterior.nc")
