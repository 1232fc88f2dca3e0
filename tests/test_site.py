"""The documentation site: what is generated is up to date, what is public is there, and its pages fetch nothing.

`make docs` builds the whole of it; here its parts are looked at, and a page is built where Sphinx is installed.
"""

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

import bacadi

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def of_docs(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(folder))
    return import_module(name)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("sphinx", reason="the extra docs is not installed")
    pytest.importorskip("latex2mathml", reason="the extra docs is not installed")
    return of_docs("offline", DOCS / "_ext", monkeypatch)


def test_the_interface_is_complete() -> None:
    shown = re.findall(r"\.\. auto\w+:: (\w+)$", (DOCS / "api.md").read_text(encoding="utf-8"), re.M)
    assert sorted(shown) == sorted(set(bacadi.__all__) - {"__version__"})


def test_generated_parts_are_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    made = of_docs("reference", DOCS, monkeypatch)
    remedy = "run `python docs/reference.py`"
    settings = (DOCS / "settings.md").read_text(encoding="utf-8")
    assert settings.partition(made.MARKER)[2].strip() == made.reference().strip(), remedy
    shown = (ROOT / "README.md").read_text(encoding="utf-8").partition(made.FROM_RESULTS)[2].partition(made.END)[0]
    assert shown.strip() == made.comparison((DOCS / "results.md").read_text(encoding="utf-8")).strip(), remedy


def test_links_of_the_readme_lead_somewhere() -> None:
    for name in ("README.md", "CONTRIBUTING.md"):
        links = re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / name).read_text(encoding="utf-8"))
        assert [link for link in links if not (ROOT / link).exists()] == []


def test_tutorials_are_stored_without_output() -> None:
    tutorials = sorted((DOCS / "tutorials").glob("*.md"))
    notebooks = [path for path in DOCS.rglob("*.ipynb") if "_build" not in path.parts]
    assert len(tutorials) == 5 and not notebooks
    assert all("```{code-cell}" in page.read_text(encoding="utf-8") for page in tutorials)


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example.org/a.js"></script>',
        "<script async src='//cdn.example.org/a.js'></script>",
        '<link rel="stylesheet" href="https://fonts.example.org/css?family=Lato">',
        '<link href="https://fonts.example.org" rel="preconnect">',
        '<img alt="x" src="http://example.org/a.png">',
        "<style>@import url(https://example.org/a.css);</style>",
        "<style>@font-face { src: url('https://example.org/a.woff2'); }</style>",
    ],
)
def test_what_would_be_fetched_is_found(offline, tmp_path: Path, text: str) -> None:
    (tmp_path / "page.html").write_text(text)
    assert len(list(offline.fetched(tmp_path))) == 1


def test_links_and_local_files_may_stay(offline, tmp_path: Path) -> None:
    text = '<a href="https://example.org">a</a><script src="a.js"></script><link rel="canonical" href="https://example.org/">'
    (tmp_path / "page.html").write_text(text)
    assert list(offline.fetched(tmp_path)) == []


@pytest.mark.parametrize("body", ["fine", "fetches"])
def test_a_page_that_fetches_stops_the_build(offline, tmp_path: Path, body: str, monkeypatch) -> None:
    from sphinx.application import Sphinx
    from sphinx.errors import ExtensionError

    monkeypatch.setattr(sys, "path", [str(DOCS / "_ext"), *sys.path])
    image = '.. raw:: html\n\n   <img src="https://example.org/a.png">\n'
    (tmp_path / "conf.py").write_text("extensions = ['offline']\nhtml_math_renderer = 'mathml'\n")
    (tmp_path / "index.rst").write_text("A page\n======\n\n:math:`\\sigma_I^2` and\n\n.. math:: a = b\n\n")
    if body == "fetches":
        (tmp_path / "index.rst").open("a").write(image)
    app = Sphinx(tmp_path, tmp_path, tmp_path / "out", tmp_path / "trees", "html", status=None, warning=None)
    if body == "fetches":
        with pytest.raises(ExtensionError, match="would use the network"):
            app.build()
    else:
        app.build()
        page = (tmp_path / "out" / "index.html").read_text()
        assert page.count("<math") == 2 and "mathjax" not in page.lower()


def test_the_built_site_fetches_nothing(offline) -> None:
    built = DOCS / "_build" / "html"
    if not (built / "index.html").exists():
        pytest.skip("the site is not built; `make docs` builds it and checks the same")
    assert list(offline.fetched(built)) == []
