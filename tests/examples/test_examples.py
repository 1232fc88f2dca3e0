"""The examples run as they stand in the repository."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_own_mechanism() -> None:
    posterior = runpy.run_path(str(EXAMPLES / "own_mechanism.py"))["main"](n_steps=300)
    assert "theta" in posterior.parameters
    assert posterior.edge_probabilities().shape == (5, 5)
