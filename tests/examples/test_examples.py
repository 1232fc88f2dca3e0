"""The examples run as they stand in the repository."""

from importlib import import_module
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_own_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    posterior, values = import_module("own_mechanism").main(n_steps=300)
    assert {"theta_weight", "theta_log_scale"} <= set(posterior.parameters)
    assert posterior.edge_probabilities().shape == (5, 5)
    assert values["interventional_nll"] >= values["predictive_nll"]
