"""`report.html`: one file for a person who was not there, without network, libraries or any other file.

Python writes all text, tables and pictures; `page.js` hides, shows and sorts. The Content-Security-Policy allows that
script and that style sheet by their hashes and nothing else: the page can fetch nothing, and a label is only ever text.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bacadi.data.text import write_text
from bacadi.errors import StoreError
from bacadi.posterior import Posterior, load
from bacadi.posterior.moved import LIKELY, MOVED, Contexts
from bacadi.posterior.posterior import EXACT_EDGES
from bacadi.report import svg, words
from bacadi.report.found import Edge, likely_edges, target_kinds
from bacadi.report.heatmaps import context_order
from bacadi.report.layout import lay_out
from bacadi.report.words import Run, probability

if TYPE_CHECKING:
    import pandas as pd

MOST_IN_ONE_GRAPH = 150
"""Variables up to which there is one picture of the whole graph; above, the neighbourhood of a chosen one."""
_LEAST, _ROWS, _BYTES, _NEIGHBOURS, _STRUCTURES = 0.05, 400, 700_000, 24, 6
_ROWS_ON_PAPER = 40  # as page.css has it
_CODE = re.compile(r"`([^`]+)`")
_TITLES = {
    "given_adjacent": "given adjacent",
    "log_odds": "log odds",
    "weight_q05": "weight 5 %",
    "weight_q95": "weight 95 %",
    "change_q05": "change 5 %",
    "change_q95": "change 95 %",
    "change_in_sd": "change in SD",
}


def read_run(source: Path) -> Run:
    """The run of a `posterior.nc`, with what can be read of `config.json` and `log.jsonl` beside it."""
    posterior, folder = load(source), source.parent
    record: Any = {}
    with suppress(OSError, ValueError, RecursionError):
        record = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    lines = []
    with suppress(OSError, ValueError, RecursionError):
        for line in (folder / "log.jsonl").read_text(encoding="utf-8", errors="replace").splitlines():
            entry = json.loads(line)
            lines += [entry] if isinstance(entry, dict) else []
    return Run(posterior, record if isinstance(record, dict) else {}, tuple(lines))


def write_report(run: Run, path: Path) -> None:
    """Write the page of a run, whole or not at all."""
    write_text(path, page(run))


def page(run: Run) -> str:
    """The whole page as text.

    >>> graph, targets = np.array([[[[0, 1], [0, 0]]]], dtype=np.int8), np.zeros((1, 1, 0, 2), np.int8)
    >>> text = page(Run(Posterior(graph, targets, np.zeros((1, 1)), ("<script>", "b"), ())))
    >>> "&lt;script&gt; → b" in text, text.count("<script>")
    (True, 1)
    """
    style, script = (_resource(name) for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    title = f"What causes what in {run.data_name}"
    sections = [
        ("done", "What was done", _done(run)),
        ("found", "What was found", _found(run)),
        ("sure", "How sure", _sure(run)),
        ("doubt", "What to doubt", _doubt(run)),
        ("tables", "Tables", _tables(run)),
    ]
    links = "".join(f'<li><a href="#{name}">{heading}</a></li>' for name, heading, _ in sections)
    body = "".join(
        f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{heading}</h2>{text}</section>'
        for name, heading, text in sections
    )
    d, m = run.posterior.n_variables, run.posterior.n_contexts
    about = " · ".join(part for part in (f"{d} variables", f"{m} contexts beside the control", run.day) if part)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_text(title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<a class="skip" href="#found">Skip to what was found</a>
<header>
<h1>{_text(title)}</h1>
<p class="soft">{_text(about)}</p>
{_verdicts(run)}
<nav aria-label="Sections"><ul>{links}</ul></nav>
</header>
<main>
{svg.markers()}
{body}
</main>
<footer><p>Made by bacadi {_text(str(run.posterior.attrs.get("version", "")))} from posterior.nc, config.json and
log.jsonl of the run; nothing is fetched, nothing is sent.</p></footer>
<div id="tip" aria-hidden="true" hidden></div>
<script type="application/json" id="data">{_json(_data(run))}</script>
<script>{script}</script>
</body>
</html>
"""


def _verdicts(run: Run) -> str:
    """Three answers on one glance: sampler, model, shams; a sign and a word beside each colour."""
    attrs, exact = run.posterior.attrs, EXACT_EDGES in run.posterior.constant_data
    shams = attrs.get("shams")
    doubtful = bool(attrs.get("warnings")) or attrs.get("converged") is False
    sampler = "bad" if doubtful else "good" if exact or attrs.get("converged") else "unknown"
    model = "unknown" if "misfit" not in attrs else "bad" if attrs["misfit"] else "good"
    named = "unknown" if not shams else "bad" if shams.get("warnings") else "good"
    texts = {
        "sampler": {
            "good": "The draws can be trusted",
            "bad": "The draws are not settled",
            "unknown": "The draws were not compared between replicas",
        }[sampler],
        "model": {
            "good": "Nothing speaks against the model",
            "bad": "The model does not fit",
            "unknown": "Whether the model fits was not looked at",
        }[model],
        "shams": {
            "good": "No target is named in shams",
            "bad": "Targets are named in shams, where there are none",
            "unknown": "No shams were fitted",
        }[named],
    }
    states = {"sampler": sampler, "model": model, "shams": named}
    if not run.posterior.contexts:
        del states["shams"]
    sign = {"good": "✓", "bad": "!", "unknown": "?"}
    items = "".join(
        f'<li class="{state}"><strong><span aria-hidden="true">{sign[state]} </span>{texts[name]}</strong>'
        f"<span>{_text(_short(run, name))}</span></li>"
        for name, state in states.items()
    )
    return f'<ul class="verdicts" aria-label="Verdicts">{items}</ul>'


def _short(run: Run, name: str) -> str:
    """One sentence below a verdict."""
    attrs = run.posterior.attrs
    if name == "sampler":
        return words.sentence(run.posterior.verdict())
    if name == "model":
        if "misfit" not in attrs:
            return "Fits of linear models by mcmc or exact are checked."
        return "See what to doubt." if attrs["misfit"] else "What it leaves unexplained looks like noise."
    lines = attrs.get("shams", {}).get("words", [])
    return words.sentence(lines[0]) if lines else "Targets that are named without any reason were not counted."


def _done(run: Run) -> str:
    settings = json.dumps(run.posterior.attrs.get("configuration", {}), indent=2, ensure_ascii=False)
    knowledge = run.record.get("data", {})
    digest = (
        f"<p class='soft'>SHA-256 of the table: {_text(str(knowledge['sha256']))}</p>" if "sha256" in knowledge else ""
    )
    return _paragraphs(words.what_was_done(run)) + (
        f"<details><summary>All settings</summary>{digest}<pre tabindex='0'>{_text(settings)}</pre></details>"
    )


def _found(run: Run) -> str:
    parts = [_paragraphs(words.what_was_found(run)), "<h3>The graph</h3>", _graphs(run)]
    if run.posterior.contexts:
        parts.append(_contexts(run))
        if run.contexts.moved.any() or run.contexts.hit.any():
            parts += ["<h3>What moved and what was hit</h3>", _changes(run)]
    return "".join(parts)


def _graphs(run: Run) -> str:
    """The whole graph, or of many variables one picture for each with its neighbours; slider, legend, contexts."""
    posterior = run.posterior
    d = posterior.n_variables
    most = 4 * d + 100
    edges = {(edge.source, edge.target): edge for edge in likely_edges(run.edges, posterior.variables, _LEAST, most)}
    if not edges:
        return f"<p>No edge has a probability of {_LEAST} or more, so there is nothing to draw.</p>"
    # Where there are too many to draw, the slider begins at the least probable one that is drawn.
    least = (
        _LEAST if len(edges) < most else float(np.ceil(100 * min(edge.probability for edge in edges.values())) / 100)
    )
    order = run.order
    slider = (
        '<div class="controls"><label for="threshold">Edges with a probability of at least</label>'
        f'<input type="range" id="threshold" min="{least:.2f}" max="1" step="0.01" '
        f'value="{max(LIKELY, least):.2f}"><output id="threshold-words" for="threshold" '
        f'aria-live="polite">{LIKELY:.2f}</output><label><input type="checkbox" id="fit"> fit to the width</label>'
        "</div>"
    )
    keys = "".join(
        f'<li><svg width="34" height="10" aria-hidden="true"><path class="key {name}" d="M0 5H34"/></svg>{meaning}</li>'
        for name, meaning in (
            ("up", "positive weight"),
            ("down", "negative weight (broken)"),
            ("open", "sign open, or no weight"),
        )
    )
    legend = f'<ul class="legend">{keys}<li>width: probability; causes stand above their effects</li></ul>'
    if d <= MOST_IN_ONE_GRAPH:
        picture = _stage(_drawn(edges, order, posterior), "Graph")
        return slider + legend + _chips(run) + picture
    return slider + legend + _chips(run) + _neighbourhoods(edges, order, posterior)


def _drawn(edges: dict[tuple[int, int], Edge], order: np.ndarray, posterior: Posterior) -> str:
    drawing = lay_out({ends: edge.probability for ends, edge in edges.items()}, order, posterior.variables)
    return svg.graph(drawing, edges, posterior.variables, order.tolist())


def _neighbourhoods(edges: dict[tuple[int, int], Edge], order: np.ndarray, posterior: Posterior) -> str:
    """A picture for each variable that has an edge, and a list to choose from; the busiest is chosen first."""
    names = posterior.variables
    total = np.zeros(len(names))
    for (i, j), edge in edges.items():
        total[[i, j]] += edge.probability
    pictures, options = [], []
    for v in np.flatnonzero(total):
        own = sorted((edge for ends, edge in edges.items() if v in ends), key=lambda edge: -edge.probability)
        near = {(edge.source, edge.target): edge for edge in own[:_NEIGHBOURS]}
        members = {int(v), *(i for ends in near for i in ends)}
        some = np.array([i for i in order if i in members])
        on = " on" if v == total.argmax() else ""
        picture = _stage(_drawn(near, some, posterior), f"Neighbours of {names[v]}")
        pictures.append(f'<div class="one{on}" data-of="{v}">{picture}</div>')
        chosen = " selected" if on else ""
        options.append((names[v], f'<option value="{v}"{chosen}>{_text(names[v])}</option>'))
    choice = "".join(text for _, text in sorted(options))
    return (
        '<div class="controls"><label for="variable">Direct causes and effects of</label>'
        f'<select id="variable">{choice}</select></div>{"".join(pictures)}'
    )


def _chips(run: Run) -> str:
    names = run.posterior.contexts
    if not names:
        return ""
    buttons = "".join(
        f'<button type="button" aria-pressed="false" data-k="{k}">{_text(name)}</button>'
        for k, name in enumerate(names)
    )
    return (
        '<p id="contexts-title">Choose a context to see what it hit (thick frame) and what moved (▲ up, ▼ down):</p>'
        f'<div class="contexts" role="group" aria-labelledby="contexts-title">{buttons}</div>'
    )


def _contexts(run: Run) -> str:
    """What each context hit and moved, in words."""
    kinds = target_kinds(run.targets)
    panels = []
    for k, name in enumerate(run.posterior.contexts):
        lists = "".join(
            f"<h4>{title}</h4><ul>{''.join(f'<li>{_text(line)}</li>' for line in lines)}</ul>"
            for title, lines in words.of_context(run, k, kinds).items()
        )
        panels.append(f'<article class="context" id="context-{k}"><h3>{_text(name)}</h3>{lists}</article>')
    return f'<div aria-live="polite">{"".join(panels)}</div>'


def _changes(run: Run) -> str:
    posterior, found = run.posterior, run.contexts
    order = run.order
    if len(order) > MOST_IN_ONE_GRAPH:  # only what there is to see
        order = order[(found.moved | found.hit).any(axis=0)[order]]
    rows = context_order(found.probability[:, order]) if len(order) else np.arange(posterior.n_contexts)
    picture = svg.changes(found, rows, order, (posterior.contexts, posterior.variables))
    return (
        f"<p>Rows are contexts, columns variables in causal order. Blue went up against the control, orange with a bar "
        f"went down, the stronger the more ({MOVED}, 1, 2, 4 standard deviations); a frame is a likely target. A cell "
        f"without colour did not move beyond chance.</p>{_stage(picture, 'What moved and what was hit')}"
    )


def _sure(run: Run) -> str:
    structures = run.posterior.structures()
    shares = structures.weights[:_STRUCTURES]
    labels = [f"structure {i + 1}" for i in range(len(shares))]
    parts = [_paragraphs(words.how_sure(run)), "<h3>The most probable structures</h3>", svg.bars(shares, labels)]
    return "".join(parts)


def _doubt(run: Run) -> str:
    posterior = run.posterior
    parts = ["<h3>The sampler</h3>", _paragraphs(words.doubts_of_sampler(run))]
    if "log_posterior" in posterior.sample_stats and "converged" in posterior.attrs:
        score = np.where(posterior.weights > 0, posterior.sample_stats["log_posterior"].values, np.nan)
        picture = svg.traces(score, "Log posterior")
        if picture:
            parts.append(
                f"<p>The log posterior of the draws; replicas that agree overlap:</p>{_stage(picture, 'Traces')}"
            )
    parts += ["<h3>The model</h3>", _paragraphs(words.doubts_of_model(run))]
    parts += ["<h3>What no number here can show</h3>", _paragraphs(words.ASSUMPTIONS)]
    return "".join(parts)


def _tables(run: Run) -> str:
    posterior = run.posterior
    parts = [_table("edges", run.edges, "Edges: source → target")]
    if len(run.directions):
        parts.append(_table("directions", run.directions, "What orients each pair that is likely adjacent"))
    if posterior.contexts:
        parts.append(_table("targets", run.targets, "Targets and changes against the control"))
    return "".join(parts)


def _table(name: str, frame: "pd.DataFrame", caption: str) -> str:
    """The first rows of a table, headings that sort it, and a button for the file of all rows."""
    numeric = {column: frame[column].dtype.kind == "f" for column in frame.columns}
    heads = "".join(
        f'<th scope="col"{" class=n" if numeric[column] else ""}><button type="button">'
        f"{_text(_TITLES.get(column, column))}</button></th>"
        for column in frame.columns
    )
    shown = frame.head(_ROWS)
    shapes: list[Callable[[Any], str]] = [_cell(column, numeric[column]) for column in frame.columns]
    rows = "".join(
        f"<tr>{''.join(shape(value) for shape, value in zip(shapes, row, strict=True))}</tr>"
        for row in shown.itertuples(index=False)
    )
    count = f"all {len(frame):,} rows" if len(shown) == len(frame) else f"the first {_ROWS} of {len(frame):,} rows"
    kept = _csv(frame)[1]
    file = "" if kept == len(frame) else f" of the first {kept:,} rows; {name}.csv of the run has all"
    return (
        f'<h3 id="{name}-table">{caption}</h3><p><button type="button" class="download" data-file="{name}.csv">'
        f'Download {name}.csv</button> <span class="soft">{file}</span></p>'
        f'<div class="scroll{" long" if len(shown) > _ROWS_ON_PAPER else ""}" tabindex="0" role="region" '
        f'aria-labelledby="{name}-table"><table>'
        f"<caption>{count}; a heading sorts by its column</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _cell(column: str, numeric: bool) -> Callable[[Any], str]:
    if not numeric:
        return lambda value: f"<td>{_text(str(value))}</td>"
    if column in ("probability", "given_adjacent", "adjacent", "direction", "structure", "propagated", "undetermined"):
        return lambda value: f"<td class=n>{'' if value != value else f'{value:.3f}'}</td>"
    return lambda value: f"<td class=n>{_plain(value)}</td>"


def _plain(value: float) -> str:
    """A number of a table, empty where there is none, without separators so that it can be sorted and copied."""
    if not np.isfinite(value):
        return "" if np.isnan(value) else "∞" if value > 0 else "−∞"
    return f"{value:.3g}".replace("-", "−")


def _csv(frame: "pd.DataFrame") -> tuple[str, int]:
    """A table as text, and how many rows of it: as many as a page can carry."""
    text = frame.head(20_000).to_csv(index=False, float_format="%.4g", lineterminator="\n")
    if len(text) <= _BYTES:
        return text, min(len(frame), 20_000)
    end = text.rindex("\n", 0, _BYTES) + 1
    rows = frame.head(20_000)
    # Rows may hold line ends in quotes: cut by rows and not by lines.
    kept = max(int(len(rows) * end / len(text)), 1)
    return rows.head(kept).to_csv(index=False, float_format="%.4g", lineterminator="\n"), kept


def _data(run: Run) -> dict[str, Any]:
    """What the script needs: the files, and of each context what was hit or moved."""
    posterior = run.posterior
    found = run.contexts
    tables = {"edges.csv": run.edges, "directions.csv": run.directions}
    if posterior.contexts:
        tables["targets.csv"] = run.targets
    entries = []
    for k in range(posterior.n_contexts):
        at = np.flatnonzero(found.hit[k] | found.moved[k]).tolist()
        entries.append([[j, int(found.hit[k, j]), _sign(found, k, j), _cell_words(found, k, j)] for j in at])
    return {
        "files": {name: _csv(table)[0] for name, table in tables.items()},
        "contexts": entries,
        "names": posterior.contexts,
        "variables": posterior.variables,
    }


def _sign(found: Contexts, k: int, j: int) -> int:
    return int(np.sign(found.in_sd[k, j])) if found.moved[k, j] else 0


def _cell_words(found: Contexts, k: int, j: int) -> str:
    hit = f"target with probability {probability(found.probability[k, j])}" if found.hit[k, j] else ""
    moved = f"moved by {words.number(found.in_sd[k, j])} SD" if found.moved[k, j] else ""
    return ", ".join(part for part in (hit, moved) if part)


def _stage(picture: str, label: str) -> str:
    return f'<div class="stage" tabindex="0" role="region" aria-label="{escape(label, quote=True)}">{picture}</div>'


def _paragraphs(lines: Iterable[str]) -> str:
    """Sentences as paragraphs; what stands between backticks is set as code."""
    set_as_code = r"<code>\1</code>"
    return "".join(f"<p>{_CODE.sub(set_as_code, _text(line))}</p>" for line in lines if line)


def _text(text: str) -> str:
    return escape(text, quote=True)


def _json(value: Any) -> str:
    """JSON that no parser of HTML can take for the end of its element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _resource(name: str) -> str:
    try:
        return files("bacadi.report").joinpath(name).read_text(encoding="utf-8")
    except OSError as error:
        raise StoreError(f"The file '{name}' of the package is missing; install bacadi anew.") from error


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
