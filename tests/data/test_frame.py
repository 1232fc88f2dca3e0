"""`from_dataframe`: labels, order, types, and invariances."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bacadi.data.tables import from_dataframe
from bacadi.errors import DataError


def table(n: int = 12, seed: int = 0) -> pd.DataFrame:
    x = np.random.default_rng(seed).normal(size=(n, 3))
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    frame.insert(1, "arm", [["drug", "wt", "ko"][k % 3] for k in range(n)])
    return frame


def test_contexts_are_numbered_by_first_appearance() -> None:
    data = from_dataframe(table(), "arm", "wt")
    assert data.contexts == ("drug", "ko") and data.observational == "wt"
    assert data.context[:3].tolist() == [1, 0, 2]
    assert data.variables == ("a", "b", "c")


def test_without_observational_context_no_row_is_number_0() -> None:
    data = from_dataframe(table(), "arm")
    assert data.observational is None and data.contexts == ("drug", "wt", "ko") and data.counts[0] == 0


def test_labels_of_any_type_become_text() -> None:
    frame = table()
    frame["arm"] = frame["arm"].map({"drug": 2, "wt": 0, "ko": 1})
    assert from_dataframe(frame, "arm", "0").contexts == ("2", "1")
    assert from_dataframe(frame, "arm", 0).contexts == ("2", "1")  # type: ignore[arg-type]
    frame["arm"] = frame["arm"].astype("category")
    assert from_dataframe(frame, "arm", "0").contexts == ("2", "1")


def test_every_numeric_type_is_accepted() -> None:
    frame = table()
    frame["i"] = np.arange(12, dtype=np.int8)[::-1] % 7
    frame["flag"] = [True, False, False] * 2 + [True, True, False] * 2
    frame["nullable"] = pd.array([3, 1, 2, 5] * 3, dtype="Int64")
    frame["objects"] = pd.Series([1, 2.5, np.float32(3), True] * 3, dtype=object)
    frame["single"] = frame["a"].astype(np.float32) ** 2
    data = from_dataframe(frame, "arm", "wt")
    assert data.x.dtype == np.float64 and data.n_variables == 8
    assert data.x[:3, data.variables.index("flag")].tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("change", "fragments"),
    [
        (lambda f: f.assign(a=f["a"].astype(str)), ["'a'", "stored as text", "index label 0"]),
        (lambda f: f.assign(a=pd.Series([1.0, "2.0"] * 6, dtype=object)), ["'a'", "'2.0'", "index label 1"]),
        (lambda f: f.assign(a=pd.date_range("2024-01-01", periods=12)), ["'a'", "Timestamp"]),
        (lambda f: f.assign(a=f["a"] + 1j), ["'a'", "complex"]),
        (lambda f: f.set_index("arm"), ["'arm'", "reset_index"]),
        (lambda f: f.assign(a=f["a"].where(f.index != 4)).set_axis(list("lmnopqrstuvw")), ["'a'", "index label 'p'"]),
        (lambda f: pd.DataFrame(), ["no column 'arm'"]),
        (lambda f: f.iloc[:0], ["no row"]),
        (lambda f: f.rename(columns={"b": "a"}), ["2 columns", "'a'"]),
        (lambda f: f.assign(arm=f["arm"].where(f.index != 5)), ["no label", "index label 5"]),
        (lambda f: f.assign(arm=f["arm"].where(f.index != 5, "  ")), ["no label", "index label 5"]),
    ],
    ids=["text", "mixed", "dates", "complex", "index", "labelled", "empty", "no rows", "names", "label", "blank"],
)
def test_refusals_name_the_place(change, fragments: list[str]) -> None:
    with pytest.raises(DataError) as refusal:
        from_dataframe(change(table()), "arm", "wt")
    for fragment in fragments:
        assert fragment in str(refusal.value)


@given(st.permutations(range(12)))
def test_row_order_changes_nothing_but_the_numbering(order: list[int]) -> None:
    frame = table()
    first, second = from_dataframe(frame, "arm", "wt"), from_dataframe(frame.iloc[order], "arm", "wt")
    assert np.array_equal(first.x[order], second.x)
    names = ("wt", *first.contexts), ("wt", *second.contexts)
    assert [names[0][k] for k in first.context[order]] == [names[1][k] for k in second.context]


@given(hnp.arrays(np.float64, (9, 3), elements=st.floats(-1e6, 1e6, width=32)))
def test_standardisation_has_its_inverse_recorded(x: np.ndarray) -> None:
    assume((x.std(axis=0) > 1e-3).all())
    frame = pd.DataFrame(x, columns=list("abc")).assign(arm=["wt", "ko", "ko"] * 3)
    try:
        data = from_dataframe(frame, "arm", "wt")
    except DataError as refusal:
        assert "same" in str(refusal)  # hypothesis likes equal columns
        return
    scaled = data.standardized()
    np.testing.assert_allclose(scaled.x.mean(axis=0), 0, atol=1e-8)
    np.testing.assert_allclose(scaled.x.std(axis=0), 1, rtol=1e-8)
    np.testing.assert_allclose(scaled.scaling.invert(scaled.x), data.x, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(scaled.standardized().scaling.invert(scaled.x), data.x, rtol=1e-6, atol=1e-5)


def test_context_has_to_be_named() -> None:
    with pytest.raises(DataError, match=r"context=; from its values it could be 'arm'\.$"):
        from_dataframe(table())
    with pytest.raises(DataError, match=r"context=; the columns are 'a', 'b' and 'c'\.$"):
        from_dataframe(table().drop(columns="arm"))
    with pytest.raises(DataError, match=r"is a ndarray and not a pandas DataFrame"):
        from_dataframe(table().to_numpy(), "arm")  # type: ignore[arg-type]


def test_undefined_results_in_nullable_columns_are_missing() -> None:
    frame = table()
    frame["ratio"] = frame["a"].where(frame.index != 3, 0.0).astype("Float64")
    frame["ratio"] /= frame["ratio"]  # 0 / 0 is NaN there, which pandas does not count as missing
    with pytest.raises(DataError, match=r"'ratio' has no value in the row with index label 3"):
        from_dataframe(frame, "arm", "wt")
