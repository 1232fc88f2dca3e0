"""Results as files for other programs: CSV tables, and the graph as GraphML, DOT or node-link JSON.

An edge i -> j runs from source to target. Edges carry `probability` and, where the posterior has a `weight` parameter,
`mean_weight` (given the edge; the bare name `weight` would steer the layout in Graphviz). Nodes carry
`target:<context>`, the probability of being a target in that context.
"""

import json
import re
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from bacadi.data.text import quoted, write_text
from bacadi.errors import DataError
from bacadi.posterior.posterior import Posterior
from bacadi.posterior.summaries import check_threshold

if TYPE_CHECKING:
    import networkx as nx

# Characters that XML 1.0 cannot hold, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ENTITY = re.compile(r"&(?=#?\w+;)")


class Format(Enum):
    """Formats of `export`; the value is the name on the command line."""

    CSV = "csv"
    GRAPHML = "graphml"
    DOT = "dot"
    JSON = "json"


def export(posterior: Posterior, format: Format, path: str | Path, threshold: float = 0.5) -> None:
    """Write the graph in one format: CSV has every ordered pair, the others the edges above the threshold."""
    write_text(path, WRITERS[format](posterior, threshold))


def write_results(posterior: Posterior, directory: str | Path) -> None:
    """Write edges.csv, targets.csv and posterior.nc into a folder, which is created if it is missing.

    The file that a reader takes for the whole result comes last.
    """
    directory = Path(directory)
    tables = {"edges.csv": posterior.edges(), "targets.csv": posterior.targets()}
    texts = {name: table.to_csv(index=False, lineterminator="\n") for name, table in tables.items()}
    for name, text in texts.items():
        write_text(directory / name, text)
    posterior.save(directory / "posterior.nc")


def to_networkx(posterior: Posterior, threshold: float = 0.5) -> "nx.DiGraph":
    """All variables and the edges with probability above the threshold; below 1/2 these may form cycles."""
    check_threshold(threshold)
    names, targets, attributes = posterior.variables, posterior.target_probabilities(), _edge_attributes(posterior)
    graph = _networkx().DiGraph()
    for i, name in enumerate(names):
        graph.add_node(name, **{f"target:{c}": float(targets[k, i]) for k, c in enumerate(posterior.contexts)})
    for i, j in np.argwhere(attributes["probability"] > threshold).tolist():
        graph.add_edge(names[i], names[j], **{name: float(values[i, j]) for name, values in attributes.items()})
    return graph


def to_anndata(posterior: Posterior, adata: Any, key: str = "bacadi") -> None:
    """Write probabilities and verdict into the AnnData that the posterior was learned from; `write_h5ad` keeps them.

    `varp[key + "_edges"]` is P(row → column), sparse, `varm[key + "_targets"]` has a column per context, NaN for genes
    that were not fitted; `uns[key]` names contexts and variables and holds verdict, doubts and configuration.
    """
    from scipy.sparse import coo_matrix

    position = {str(name): j for j, name in enumerate(adata.var_names)}
    if len(position) < len(adata.var_names):
        raise DataError("The gene names of the AnnData are not unique; call adata.var_names_make_unique() first.")
    if unknown := [name for name in posterior.variables if name not in position]:
        raise DataError(
            f"The AnnData has no gene {quoted(unknown[0])}, which the posterior has; give the one that was fitted."
        )
    at, n = np.array([position[name] for name in posterior.variables]), len(position)
    edges = posterior.edge_probabilities()
    i, j = np.nonzero(edges)
    adata.varp[f"{key}_edges"] = coo_matrix((edges[i, j], (at[i], at[j])), shape=(n, n)).tocsr()
    if posterior.contexts:
        targets = np.full((n, posterior.n_contexts), np.nan)
        targets[at] = posterior.target_probabilities().T
        adata.varm[f"{key}_targets"] = targets
    attrs = posterior.attrs
    adata.uns[key] = {
        "contexts": np.array(posterior.contexts, dtype=object),
        "variables": np.array(posterior.variables, dtype=object),
        "observational": posterior.observational or "",
        "verdict": posterior.verdict(),
        "doubts": np.array([*attrs.get("warnings", []), *attrs.get("misfit", [])], dtype=object),
        "settings": json.dumps({name: attrs.get(name) for name in ("version", "method", "seed", "configuration")}),
    }


def csv_text(posterior: Posterior, threshold: float = 0.0) -> str:
    """source, target, probability (mean_weight), given_adjacent, log_odds of every pair, whatever the threshold."""
    table = posterior.edges()
    first, last = table[["source", "target"]], table[["given_adjacent", "log_odds"]]
    i, j = (first[column].map(posterior.variables.index).to_numpy(dtype=int) for column in first)
    table = first.assign(**{name: values[i, j] for name, values in _edge_attributes(posterior).items()})
    return table.join(last).to_csv(index=False, lineterminator="\n")


def graphml_text(posterior: Posterior, threshold: float = 0.5) -> str:
    """GraphML, for Cytoscape, yEd, Gephi, igraph and networkx."""
    for name in (*posterior.variables, *posterior.contexts):
        if character := _NOT_XML.search(name):
            raise DataError(
                f"The name {name!r} holds the character {character.group()!r}, which GraphML cannot hold; "
                "rename it or export to another format."
            )
    return "\n".join(_networkx().generate_graphml(to_networkx(posterior, threshold))) + "\n"


def node_link_text(posterior: Posterior, threshold: float = 0.5) -> str:
    """networkx node-link JSON, for d3 and `networkx.node_link_graph(..., edges="edges")`."""
    content = _networkx().node_link_data(to_networkx(posterior, threshold), edges="edges")
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
    return "\n".join([*lines, "}\n"])


WRITERS = dict(zip(Format, (csv_text, graphml_text, dot_text, node_link_text), strict=True))


def dot_id(name: str) -> str:
    r"""Quote a name as a DOT identifier; a backslash is doubled because one before the quote would escape it.

    >>> print(dot_id('say "hi"'))
    "say \"hi\""
    """
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def dot_label(name: str) -> str:
    """Quote a name as a DOT label that is drawn verbatim: line ends and what looks like an HTML entity are escaped too.

    >>> print(dot_label("a&amp;b"))
    "a&amp;amp;b"
    """
    return dot_id(_ENTITY.sub("&amp;", name)).replace("\r", "").replace("\n", "\\n")


def _dot_attributes(attributes: dict[str, float]) -> str:
    return "".join(f", {dot_id(name)}={value!r}" for name, value in attributes.items())


def _edge_attributes(posterior: Posterior) -> dict[str, Float[np.ndarray, "d d"]]:
    attributes = {"probability": posterior.edge_probabilities()}
    if "weight" in posterior.parameters and posterior.parameters["weight"].dims == ("source", "target"):
        attributes["mean_weight"] = posterior.parameter_summary("weight")["mean"]
    return attributes


def _networkx() -> Any:
    """Import networkx when a graph is asked for, so that importing this package stays fast."""
    import networkx

    return networkx
