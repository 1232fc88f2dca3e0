"""Shape and type annotations of the numeric packages are checked at run time in every test."""

from collections import Counter

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# The hook decorates modules as they are imported, so it has to stand before the first import of bacadi. The numeric
# tower lets an int stand where a float is asked for, as everywhere else in Python.
_CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
_HOOK = install_import_hook(
    [
        f"bacadi.{name}"
        for name in ("graph", "model", "evidence", "relaxed", "inference", "simulate", "metrics", "answers")
    ],
    _CHECKER,
)

# Shared machines are slow at times; a deadline per example would fail tests for reasons that are not in the code.
settings.register_profile("bacadi", deadline=None, max_examples=50, derandomize=True)
settings.load_profile("bacadi")

WITHOUT_SAMPLER = tuple(
    f"tests/{folder}/"
    for folder in ("config", "data", "graph", "inference/svgd", "metrics", "model", "relaxed", "simulate")
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need no sampler come first, which `make test` compiles meanwhile; then files of many tests, so that
    all workers end at the same time."""
    size = Counter(item.path for item in items)
    items.sort(key=lambda item: (not item.nodeid.startswith(WITHOUT_SAMPLER), -size[item.path]))
