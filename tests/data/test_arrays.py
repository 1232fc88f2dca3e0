"""`from_arrays`: a dict or a list of arrays, and what is refused."""

import numpy as np
import pandas as pd
import pytest

from bacadi.data.tables import from_arrays, from_dataframe
from bacadi.errors import DataError

RNG = np.random.default_rng(1)
OBS, KO, DRUG = RNG.normal(size=(5, 2)), RNG.normal(size=(3, 2)), RNG.normal(size=(2, 2))


def test_list_takes_the_first_array_as_observational() -> None:
    data = from_arrays([OBS, KO, DRUG])
    assert data.observational == "0" and data.contexts == ("1", "2")
    assert data.counts.tolist() == [5, 3, 2] and data.variables == ("x0", "x1")
    assert np.array_equal(data.x, np.concatenate([OBS, KO, DRUG]))


def test_list_without_observational_array() -> None:
    data = from_arrays([OBS, KO], observational=None)
    assert data.observational is None and data.contexts == ("1", "2") and data.counts.tolist() == [0, 5, 3]


def test_mapping_is_the_same_as_a_table() -> None:
    data = from_arrays({"ko": KO, "wt": OBS}, observational="wt", variables=["g", "h"])
    frame = pd.DataFrame(np.concatenate([KO, OBS]), columns=["g", "h"]).assign(arm=["ko"] * 3 + ["wt"] * 5)
    other = from_dataframe(frame, "arm", "wt")
    assert np.array_equal(data.x, other.x) and np.array_equal(data.context, other.context)
    assert (data.variables, data.contexts, data.observational) == (other.variables, other.contexts, "wt")
    assert from_arrays({"ko": KO, "wt": OBS}).observational is None


def test_three_dimensional_array_is_a_list_of_contexts() -> None:
    assert from_arrays(RNG.normal(size=(3, 4, 2))).counts.tolist() == [4, 4, 4]


@pytest.mark.parametrize(
    ("arrays", "options", "fragment"),
    [
        ([], {}, "No array"),
        ({}, {}, "No array"),
        (OBS, {}, "single array"),
        ([OBS, KO[:, 0]], {}, "'1' has 1 dimension"),
        ([OBS, [[1.0, 2.0], [1.0]]], {}, "'1' differ in length"),
        ({"wt": OBS, "ko": KO[:, :1]}, {}, "'ko' has 1 column"),
        ({"wt": OBS, "ko": KO[:0]}, {}, "'ko' has no rows"),
        ({"wt": OBS, "ko": KO}, {"observational": "wtt"}, "did you mean 'wt'"),
        ([OBS, KO], {"variables": ["a"]}, "2 columns but 1"),
        ([OBS, KO], {"variables": ["a", "a"]}, "'a'"),
        ([OBS, np.array([[1.0, np.nan], [2.0, 3.0]])], {}, "'x1' has no value in array row 1[0]"),
        ({"wt": pd.DataFrame(OBS)}, {}, "from_dataframe"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_refusals(arrays, options: dict, fragment: str) -> None:
    with pytest.raises(DataError) as refusal:
        from_arrays(arrays, **options)
    assert fragment in str(refusal.value)
