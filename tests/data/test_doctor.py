"""The doctor: each warning fires on what it is made for and stays silent on plain data."""

import numpy as np
import pandas as pd
import pytest

from bacadi.data.checks import Severity
from bacadi.data.doctor import Diagnosis, diagnose

ROWS = 90


def table() -> pd.DataFrame:
    x = np.random.default_rng(3).normal(size=(ROWS, 4))
    return pd.DataFrame(x, columns=list("abcd")).assign(arm=["wt", "ko", "drug"] * (ROWS // 3))


def look(frame: pd.DataFrame, observational: str | None = "wt") -> Diagnosis:
    return diagnose(frame, "arm", observational)


def messages(found: Diagnosis, code: str) -> list[str]:
    return [finding.message for finding in found.problems if finding.code == code]


def test_plain_data_have_no_findings() -> None:
    found = look(table())
    assert found.ok and found.problems == ()
    assert found.rows == ROWS and found.variables == ("a", "b", "c", "d")
    assert found.contexts == (("wt", 30), ("ko", 30), ("drug", 30))


def test_errors_come_first_and_all_are_listed() -> None:
    frame = table().assign(e=1.0)
    frame.loc[3, "a"], frame.loc[4, "a"], frame.loc[5, "b"] = np.nan, np.inf, np.inf
    found = look(frame, observational=None)
    assert [finding.code for finding in found.problems] == [
        "missing",
        "infinite",
        "infinite",
        "constant",
        "no-observational",
    ]
    assert not found.ok and len(found.of(Severity.ERROR)) == 4


def noisy_sum(noise: float) -> pd.DataFrame:
    frame = table()
    return frame.assign(e=frame["a"] - 2 * frame["b"] + noise * np.random.default_rng(5).normal(size=ROWS))


def test_collinear_columns_are_named_and_bystanders_are_not() -> None:
    (message,) = messages(look(noisy_sum(1e-3)), "collinear")
    assert "'a', 'b' and 'e'" in message and "'c'" not in message and "nearly" in message
    (message,) = messages(look(noisy_sum(0.0)), "collinear")
    assert "'a', 'b' and 'e'" in message and "'c'" not in message and "rounding" in message
    assert not messages(look(noisy_sum(0.3)), "collinear")


def test_two_collinear_groups_are_two_findings() -> None:
    frame = noisy_sum(0.0)
    frame["f"] = frame["c"] + frame["d"]
    assert [("'a', 'b' and 'e'" in m, "'c', 'd' and 'f'" in m) for m in messages(look(frame), "collinear")] == [
        (True, False),
        (False, True),
    ]


def test_shares_that_add_up_to_one_are_dependent() -> None:
    frame = table()
    shares = np.exp(frame[list("abcd")])
    frame[list("abcd")] = shares.div(shares.sum(axis=1), axis=0)
    (message,) = messages(look(frame), "collinear")
    assert "add up to a constant" in message


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_findings_do_not_depend_on_units(scale: float, shift: float) -> None:
    frame = noisy_sum(1e-3).assign(twin=lambda f: -f["c"])
    columns = [*"abcde", "twin"]
    frame[columns] = scale * (frame[columns] + shift)
    assert [finding.code for finding in look(frame).problems] == ["duplicate-column", "collinear"]


def test_correlation_alone_is_no_duplicate() -> None:
    frame = table().assign(e=lambda f: f["a"] + 1e-3 * f["b"])
    assert not messages(look(frame), "duplicate-column")


def test_two_rows_make_no_duplicates() -> None:
    found = look(table().iloc[[0, 3]])
    assert not messages(found, "duplicate-column") and messages(found, "more-variables-than-rows")


def test_scales() -> None:
    (message,) = messages(look(table().assign(a=lambda f: f["a"] * 1e7)), "scales")
    assert "'a'" in message
    assert not messages(look(table().assign(a=lambda f: f["a"] * 1e4)), "scales")


def test_counts_that_want_a_log() -> None:
    # A log-normal with log-std 2 has population skewness 414, far above the threshold of 2: with this fixed seed the
    # test is deterministic. A Poisson of mean 50 has skewness .14 and must stay silent.
    rng = np.random.default_rng(7)
    counts, poisson = np.rint(np.exp(2 * rng.normal(size=ROWS) + 2)).astype(int), rng.poisson(50, size=ROWS)
    (message,) = messages(look(table().assign(umi=counts, mild=poisson)), "counts")
    assert "'umi'" in message and "'mild'" not in message and "logarithm" in message
    assert not messages(look(table().assign(signed=-counts, rare=[1] + [0] * (ROWS - 1))), "counts")


def test_knocked_out_gene_is_a_note() -> None:
    frame = table()
    frame.loc[frame["arm"] == "ko", "b"] = 0.0
    found = look(frame)
    assert found.ok and not found.of(Severity.WARNING)
    (message,) = messages(found, "constant-in-context")
    assert "'ko'" in message and "'b'" in message and "at 0" in message


def test_column_decided_by_the_context() -> None:
    frame = table().assign(dose=lambda f: f["arm"].map({"wt": 0.0, "ko": 0.0, "drug": 2.5}))
    found = look(frame)
    assert "'dose'" in messages(found, "decided-by-context")[0] and not messages(found, "constant-in-context")


def test_row_number_and_repeated_rows() -> None:
    assert "'id'" in messages(look(table().assign(id=range(ROWS))), "row-number")[0]
    frame = table()
    frame.loc[7, list("abcd")] = frame.loc[4, list("abcd")]
    (message,) = messages(look(frame), "repeated-rows")
    assert "label 7" in message and "label 4" in message
    assert not messages(look((table().set_index("arm") > 0).reset_index()), "repeated-rows")


def test_design() -> None:
    assert "'wt'" in messages(look(table(), None), "no-observational")[0]
    assert messages(look(table().assign(arm="wt")), "one-context")
    frame = table()
    frame.loc[frame.index[:30], "arm"] = "WT "
    assert "'WT '" in messages(look(frame), "similar-contexts")[0]
    few = look(table().iloc[[0, 3, 6, 9, 12, 1, 4]])
    assert "'ko'" in messages(few, "few-rows")[0] and "'wt'" not in messages(few, "few-rows")[0]


def test_one_finding_for_a_context_column_of_row_numbers() -> None:
    found = look(table().assign(arm=range(ROWS)), None)
    assert len(messages(found, "context-is-index")) == 1 and not messages(found, "small-context")


def test_wide_tables_take_seconds() -> None:
    x = np.random.default_rng(0).normal(size=(2000, 500))
    frame = pd.DataFrame(x, columns=[f"g{j}" for j in range(500)]).assign(arm=["wt", "ko"] * 1000)
    assert look(frame).problems == ()


def test_to_dict_is_plain() -> None:
    plain = look(table().assign(e=1.0)).to_dict()
    assert plain["ok"] is False and plain["contexts"][0] == {"context": "wt", "rows": 30, "observational": True}
    assert plain["problems"][0]["severity"] == "error" and plain["problems"][0]["code"] == "constant"
