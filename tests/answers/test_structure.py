"""Ancestors against enumeration; what contexts did and which mechanisms changed."""

import numpy as np
import pytest

from bacadi import answers
from bacadi.data.contexts import ContextData
from bacadi.evidence.reading import collapse
from bacadi.graph.dag import transitive_closure
from bacadi.inference.exact.enumeration import enumerate_posterior
from bacadi.inference.exact.method import Exact
from bacadi.inference.fit import fit
from bacadi.model.certainty import NO_COARSENING, NO_DRIFT
from bacadi.model.effects import HardGaussian
from bacadi.model.linear import LinearGaussian
from bacadi.model.model import Model
from bacadi.posterior import Posterior

from .tasks import chain_posterior

MODEL = Model(LinearGaussian(), HardGaussian(), standardize_within=False, drift=NO_DRIFT, coarsening=NO_COARSENING)


def weak_data(d: int = 4, seed: int = 0) -> ContextData:
    """Few rows, so that no ancestor is certain."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(16, d))
    x[:, 1] += x[:, 0]
    x[:, 3] += 0.7 * x[:, 1]
    return ContextData(x, np.repeat([0, 1], 8), tuple("abcd"[:d]), ("k",), "obs")


@pytest.mark.parametrize("max_pairs", [20_000, 0], ids=["listed", "drawn"])
def test_ancestors_against_enumeration(max_pairs: int) -> None:
    """Listed pairs leave out what has a probability below 1e-12; 4,000 draws have a standard error of at most .008."""
    data = weak_data()
    exact = enumerate_posterior(collapse(MODEL, data))
    expected = np.tensordot(np.exp(exact.dag_log_prob), transitive_closure(exact.dags), axes=1)
    found = fit(data, MODEL, Exact(n_draws=4000, max_pairs=max_pairs)).ancestor_probabilities()
    np.testing.assert_allclose(found, expected, atol=1e-6 if max_pairs else 0.04)


def test_listed_pairs_have_parameters_as_often_as_they_are_likely() -> None:
    posterior = fit(weak_data(), MODEL, Exact(n_draws=500))
    assert posterior.weights.max() <= 1 / 500 + 1e-12
    assert posterior.weights.sum() == pytest.approx(1)


def test_ancestors_and_descendants_are_ranked() -> None:
    posterior = chain_posterior()
    up, down = answers.ancestors(posterior, "c"), answers.descendants(posterior, "a")
    assert set(up.table["ancestor"][:2]) == {"a", "b"}
    assert set(down.table["descendant"][:2]) == {"b", "c"}
    assert up.table["probability"].is_monotonic_decreasing
    assert "upstream of c" in up.text
    assert "No variable is upstream of a" in answers.ancestors(posterior, "a").text


def test_what_contexts_did() -> None:
    posterior = chain_posterior()
    drug = answers.context_did(posterior, "drug")
    what = drug.table.set_index("variable")["what"]
    assert what.to_dict() == {
        "b": "hit directly",
        "c": "moved only downstream",
        "a": "unchanged",
        "odd name": "unchanged",
    }
    assert drug.text.startswith("drug hit b (+")
    row = drug.table.iloc[0]
    np.testing.assert_allclose(row["change"], posterior.constant_data["change"].values[0, 1])
    assert row["log_odds"] > 0
    assert set(answers.context_did(posterior, "nothing").table["what"]) == {"unchanged"}
    words = "nothing hit no variable with more than 50 %; 4 of 4 variables are unchanged."
    assert answers.context_did(posterior, "nothing").text == words


def test_a_change_that_no_target_explains() -> None:
    """The draws have no target and no edge, and the rows have moved all the same."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 2)) + np.repeat([[0.0, 0.0], [0.0, 9.0]], 20, axis=0)
    data = ContextData(x, np.repeat([0, 1], 20), ("a", "b"), ("k",), "obs")
    posterior = Posterior.from_draws(data, np.zeros((1, 2, 2)), np.zeros((1, 1, 2)))
    table = answers.context_did(posterior, "k").table.set_index("variable")["what"]
    assert table.to_dict() == {"b": "moved, not explained", "a": "unchanged"}


def test_which_mechanism_changed() -> None:
    posterior = chain_posterior()
    answer = answers.changed(posterior, "incident")
    assert answer.table["variable"][0] == "c"
    assert answer.table["probability"].is_monotonic_decreasing
    assert "Between control and incident" in answer.text
    assert answers.changed(posterior, "incident", "control").table.equals(answer.table)
    two = answers.changed(posterior, "incident", "drug").table
    assert set(two["variable"][:2]) == {"b", "c"}
    assert (two["log_odds"][:2] > 0).all()


def test_json_has_neither_nan_nor_infinity() -> None:
    import json

    record = json.loads(answers.effect(chain_posterior(), "b", "c").json(), parse_constant=pytest.fail)
    assert record["question"] == "effect(b -> c)"
    assert record["rows"][1]["positive"] is None
