"""Sphinx extension: formulas become MathML when the site is built, and a page that would fetch something stops it.

Nothing in the pages needs a network: a browser draws MathML itself, and the theme brings its fonts and scripts along.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

# What a browser loads by itself: sources of elements, style sheets and what these import. Links are no loads.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\ssrc\s*=\s*["']?\s*(?:https?:)?//[^"'\s>]+"""
    r"""|<link\b(?=[^>]*\brel\s*=\s*["']?(?:stylesheet|preload|modulepreload|icon|preconnect|dns-prefetch))"""
    r"""[^>]*?\shref\s*=\s*["']?\s*(?:https?:)?//[^"'\s>]+"""
    r"""|@import\s+(?:url\()?\s*["']?\s*(?:https?:)?//[^"'\s);]+"""
    r"""|url\(\s*["']?\s*(?:https?:)?//[^"'\s)]+""",
    re.I,
)


def fetched(folder: Path) -> Iterator[str]:
    """What the pages and style sheets of a built site would load from elsewhere: `file: the offending text`."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".html", ".css"}:
            for found in FETCHED.findall(path.read_text(encoding="utf-8", errors="replace")):
                yield f"{path.relative_to(folder)}: {found[-160:]}"


def mathml(text: str, display: str) -> str:
    """A formula of LaTeX as an element `<math>`.

    >>> mathml("x_i", "inline").startswith("<math")
    True
    """
    return convert(text, display=display)


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="formula notranslate">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


def _check(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        found = list(fetched(Path(app.outdir)))
        if found:
            raise ExtensionError("these pages would use the network:\n" + "\n".join(found))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("build-finished", _check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
