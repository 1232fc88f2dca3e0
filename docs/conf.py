"""The documentation site: `make docs` builds it into docs/_build and executes its tutorials; warnings are errors."""

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import bacadi

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
# Tutorials import the simulated data of the worked cases, in kernels that run in folders of their own.
os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent / "examples"), os.environ.get("PYTHONPATH", "")])

project = "bacadi"
author = "the bacadi developers"
copyright = f"{author}, MIT licence"
version = release = bacadi.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "offline"]
exclude_patterns = ["_build", "_ext", "**.ipynb_checkpoints"]
highlight_language = "none"
default_role = "literal"
smartquotes = False

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4

nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 240
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_render_markdown_format = "myst"
# Releases of anndata for Python 3.11 want an older pandas: without the package that tutorial shows no results.
if find_spec("anndata") is None:
    nb_execution_excludepatterns = ["tutorials/perturbation_screen.md"]
    tags.add("without_anndata")  # Sphinx puts `tags` here

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "sphinx_book_theme"
html_title = "bacadi"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "home_page_in_toc": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def setup(app):
    app.connect("source-read", _links)
    app.connect("autodoc-process-docstring", _as_text)


def _links(app, docname, source):
    """Links that are right in the repository lead to the pages of the site; CONTRIBUTING.md is one of these."""
    if docname == "contributing":
        text = (HERE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
        source[0] = text.replace("](docs/", "](").replace("](examples/", "](../examples/")
    source[0] = re.sub(r"\]\(((?:\.\./)+)CONTRIBUTING\.md", lambda up: f"]({up[1][3:]}contributing.md", source[0])


def _as_text(app, what, name, obj, options, lines):
    """Docstrings are read as plain text by people: p(G | Z), x_ and *a are no markup outside of `code` and examples."""
    example = False
    for i, line in enumerate(lines):
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        if not example:
            parts = line.split("`")
            parts[::2] = [re.sub(r"(?<=\w)_(?!\w)|[|*]", r"\\\g<0>", part) for part in parts[::2]]
            lines[i] = "`".join(parts)
