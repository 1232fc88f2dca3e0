"""The estimator: parameters as scikit-learn wants them, the same posterior as `fit` on prepared data."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import bacadi
from bacadi import MCMC, BaCaDI
from bacadi.errors import BacadiError, ConfigError

METHOD = MCMC(n_draws=40, n_sweeps=40)


@pytest.fixture
def table() -> pd.DataFrame:
    """a → b → c on a logarithmic scale; `a` and `c` are also the names of what contexts hit."""
    rng = np.random.default_rng(0)
    arm = np.repeat(["ctrl", "a", "c"], 40)
    a = rng.normal(size=120) + 4 * (arm == "a")
    b = 0.8 * a + 0.5 * rng.normal(size=120)
    c = 0.8 * b + 0.5 * rng.normal(size=120) - 4 * (arm == "c")
    return pd.DataFrame({"a": np.exp(a), "b": np.exp(b), "c": np.exp(c), "arm": arm})


def test_parameters_are_those_of_the_constructor() -> None:
    estimator = BaCaDI("linear", METHOD, columns={"transform": "log"}, seed=3)
    assert set(estimator.get_params()) == {"model", "method", "observational", "targets", "columns", "seed"}
    twin = clone(estimator)
    assert twin is not estimator and twin.get_params() == estimator.get_params()
    assert estimator.set_params(seed=4).seed == 4 and twin.seed == 3
    assert "BaCaDI(" in repr(estimator) and not hasattr(estimator, "posterior_")


def test_it_is_fit_on_prepared_data(table: pd.DataFrame) -> None:
    estimator = BaCaDI(method=METHOD).fit(table, context="arm")
    data = bacadi.prepare(table, "arm")
    posterior = bacadi.fit(data, method=METHOD)
    assert data.transforms.names == ("log",) * 3 and estimator.data_.observational == "ctrl"
    np.testing.assert_array_equal(estimator.posterior_.graph, posterior.graph)
    np.testing.assert_array_equal(estimator.edge_probabilities_, posterior.edge_probabilities())
    assert estimator.target_probabilities_.shape == (2, 3) and estimator.graph_.shape == (3, 3)
    assert estimator.feature_names_in_.tolist() == ["a", "b", "c"] and estimator.n_features_in_ == 3
    assert estimator.contexts_.tolist() == ["a", "c"]


def test_labels_may_be_given_apart(table: pd.DataFrame) -> None:
    x, labels = table.drop(columns="arm"), table["arm"].to_numpy()
    one = BaCaDI(method=METHOD).fit(table, context="arm")
    for other in (
        BaCaDI(method=METHOD).fit(x, context=labels),
        BaCaDI(method=METHOD).fit(x, labels),
        BaCaDI(method=METHOD).fit(x.to_numpy(), context=labels),
    ):
        np.testing.assert_array_equal(other.edge_probabilities_, one.edge_probabilities_)


def test_known_targets_with_and_without_others(table: pd.DataFrame) -> None:
    known = BaCaDI(method=METHOD, targets="known").fit(table, context="arm").target_probabilities_
    off = BaCaDI(method=METHOD, targets="known-with-off-targets").fit(table, context="arm").target_probabilities_
    assert known.tolist() == [[1, 0, 0], [0, 0, 1]]
    assert off[0, 0] == 1 and off[1, 2] == 1


def test_what_is_wrong_is_said(table: pd.DataFrame) -> None:
    with pytest.raises(ConfigError, match="contexts are not named"):
        BaCaDI().fit(table)
    with pytest.raises(ConfigError, match="120 rows and context has the shape"):
        BaCaDI().fit(table, context=["a", "b"])
    with pytest.raises(BacadiError, match="'transfrom' in the options"):
        BaCaDI(columns={"transfrom": "log"}).fit(table, context="arm")
    with pytest.raises(BacadiError, match="Column 'a' has no value"):
        BaCaDI().fit(table.assign(a=np.nan), context="arm")
