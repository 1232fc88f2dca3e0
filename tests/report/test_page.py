"""The page as text: complete, self-contained, labels are text, small enough."""

import base64
import csv
import hashlib
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bacadi.report.page import page, read_run, write_report
from bacadi.report.words import Run

from .made import made, run_of

BAD = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "</script><b>",
    "it's & it\u2028",
    "a,b\nc",
    "$x_1$",
)


class Elements(HTMLParser):
    """Elements of a page with their attributes, checked for balance."""

    VOID = frozenset({"meta", "link", "input", "br", "img"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), (tag, attrs)
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def data_of(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1))


def test_every_section_is_there_and_elements_balance() -> None:
    text = page(run_of(made()))
    elements = Elements(text).found
    for heading in ("What was done", "What was found", "How sure", "What to doubt", "Tables"):
        assert f">{heading}</h2>" in text
    ids = [attrs["id"] for _, attrs in elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    links = [attrs["href"] for tag, attrs in elements if tag == "a"]
    assert all(link.startswith("#") and link[1:] in ids for link in links)
    levels = [int(tag[1]) for tag, _ in elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1 and levels.count(1) == 1 and all(b - a <= 1 for a, b in pairwise(levels))


def test_nothing_is_fetched_and_only_our_script_runs() -> None:
    text = page(run_of(made()))
    elements = Elements(text).found
    policy = next(attrs["content"] for _, attrs in elements if attrs.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for name in ("script", "style"):
        body = re.search(rf"<{name}>(.*?)</{name}>", text, re.S).group(1)
        assert f"{name}-src 'sha256-{base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()}'" in policy
    for tag, attrs in elements:
        assert "src" not in attrs and "style" not in attrs and not any(name.startswith("on") for name in attrs), tag
        assert tag not in ("img", "iframe", "object", "embed", "form", "base")
    assert not re.search(r"https?://|@import|url\((?!#)", text)


def test_labels_are_text() -> None:
    posterior = made(6, 4, names=BAD)
    posterior = replace(
        posterior, contexts=BAD[:4], observational=BAD[0], attrs=posterior.attrs | {"columns": [BAD[1]]}
    )
    run = replace(run_of(posterior), record={"data": {"path": f"/tmp/{BAD[0]}", "sha256": BAD[1]}})
    text = page(run)
    elements = Elements(text).found
    assert [tag for tag, _ in elements].count("script") == 2 and not any(tag in ("img", "b") for tag, _ in elements)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert data_of(text)["variables"] == list(BAD)


def test_tables_hold_what_the_files_hold() -> None:
    posterior = made(names=BAD)
    files = data_of(page(run_of(posterior)))["files"]
    for name, table in (("edges.csv", posterior.edges()), ("targets.csv", posterior.targets())):
        rows = list(csv.reader(io.StringIO(files[name])))
        assert rows[0] == list(table.columns) and len(rows) == len(table) + 1
        first = table.columns[0]
        assert [row[0] for row in rows[1:]] == table[first].tolist()
        np.testing.assert_allclose([float(row[2]) for row in rows[1:]], table["probability"], atol=1e-4)


def test_every_likely_edge_is_drawn_with_its_numbers() -> None:
    posterior = made(12)
    text = page(run_of(posterior))
    drawn = re.findall(r'class="edge (up|down|open)" role="img" tabindex="-1" aria-label="([^"]*)"', text)
    p = posterior.edge_probabilities()
    assert len(drawn) == int((p >= 0.05).sum())
    assert all("probability" in label and "90 % interval" in label for _, label in drawn)
    assert {sign for sign, _ in drawn} >= {"up", "down"}


def test_many_variables_are_shown_by_neighbourhood() -> None:
    posterior = made(160, 3, draws=6)
    text = page(run_of(posterior))
    elements = Elements(text).found
    pictures = [attrs for _, attrs in elements if (attrs.get("class") or "").split()[:1] == ["one"]]
    options = [attrs for tag, attrs in elements if tag == "option"]
    assert len(pictures) == len(options) > 100
    assert sum("on" in attrs["class"].split() for attrs in pictures) == 1 == sum("selected" in o for o in options)


@pytest.mark.parametrize(("d", "m"), [(2, 0), (2, 1), (5, 5)])
def test_posteriors_without_anything_beside_draws(d: int, m: int) -> None:
    """No parameters, no statistics, no attributes, no edges: what is missing is said and not invented."""
    posterior = made(d, m)
    bare = replace(
        posterior,
        graph=posterior.graph * 0,
        parameters={},
        sample_stats={},
        constant_data={},
        attrs={},
        observational=None,
    )
    text = page(Run(bare))
    Elements(text)
    assert "was not looked at" in text and "nothing to draw" in text
    assert "nan" not in text[: text.index("<script")].lower()


def test_page_of_a_hundred_variables_is_below_three_megabytes() -> None:
    text = page(run_of(made(100, 100, draws=20)))
    assert len(text.encode()) < 3_000_000


def test_broken_records_are_left_out(tmp_path: Path) -> None:
    made().save(tmp_path / "posterior.nc")
    (tmp_path / "config.json").write_text("[1, 2")
    (tmp_path / "log.jsonl").write_text('{"event": "done", "seconds": "soon", "time": 3}\n[]\nnonsense\n')
    run = read_run(tmp_path / "posterior.nc")
    assert run.record == {} and run.seconds is None and run.day == ""
    write_report(run, tmp_path / "report.html")
    Elements((tmp_path / "report.html").read_text(encoding="utf-8"))


def test_equal_runs_give_equal_pages() -> None:
    assert page(run_of(made())) == page(run_of(made()))
