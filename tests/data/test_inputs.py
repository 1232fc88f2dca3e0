"""Tables in other clothes: polars, Excel, other separators; the control found by its label; one way to prepare."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import bacadi
from bacadi.cli import app
from bacadi.config.columns import Columns
from bacadi.data.tables import read_table
from bacadi.errors import BacadiError, ConfigError, DataError


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 3)).round(4)
    return pd.DataFrame(x, columns=list("abc")).assign(arm=np.repeat(["01", "ctrl"], 10))


def test_polars(table: pd.DataFrame) -> None:
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    same = polars.DataFrame(table.to_dict("list"))
    for frame in (same, same.lazy()):
        data = bacadi.from_dataframe(frame, "arm", "ctrl")
        np.testing.assert_array_equal(data.x, table[list("abc")].to_numpy())
        assert data.contexts == ("01",)


def test_excel(table: pd.DataFrame, tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    path = tmp_path / "data.xlsx"
    table.to_excel(path, index=False)
    data = bacadi.from_file(path, "arm", "ctrl")
    np.testing.assert_allclose(data.x, table[list("abc")].to_numpy())
    assert data.contexts == ("01",)
    table.astype({"a": object}).replace({"a": {table["a"].iloc[3]: "high"}}).to_excel(path, index=False)
    with pytest.raises(DataError, match="Column 'a' has the text 'high' in line 5"):
        bacadi.from_file(path, "arm", "ctrl")
    path.write_text("no workbook")
    with pytest.raises(DataError, match="not a readable workbook"):
        read_table(path)


def test_separators_and_decimal_commas(table: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    table.to_csv(path, index=False, sep=";", decimal=",")
    read = read_table(path, "arm", sep=";", decimal=",")
    np.testing.assert_array_equal(read[list("abc")].to_numpy(), table[list("abc")].to_numpy())
    result = CliRunner().invoke(app, ["check", str(path), "--context", "arm", "--sep", ";", "--decimal", ","])
    assert result.exit_code == 0 and "20 rows, 3 variables" in result.output
    result = CliRunner().invoke(app, ["check", str(path), "--context", "arm"])
    assert result.exit_code == 2 and "--sep ';'" in result.output
    with pytest.raises(ConfigError, match="both marked by commas"):
        read_table(path, decimal=",")
    result = CliRunner().invoke(app, ["check", str(path), "--context", "arm", "--sep", "x"])
    assert result.exit_code == 2 and "one of ,, ;, |, tab" in result.output


def test_the_control_is_found_by_its_label_and_said(table: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    table.to_csv(path, index=False)
    result = CliRunner().invoke(app, ["check", str(path), "--context", "arm"])
    assert result.exit_code == 0 and "'ctrl' is taken for the untouched one" in result.output
    assert bacadi.prepare(path, "arm").observational == "ctrl"
    with pytest.warns(UserWarning, match="No observational context"):
        assert bacadi.prepare(path, "arm", "").observational is None
    both = table.assign(arm=np.repeat(["DMSO", "ctrl"], 10))
    with pytest.warns(UserWarning, match="perhaps 'DMSO' and 'ctrl'"):
        assert bacadi.prepare(both, "arm").observational is None


def test_prepare_does_what_the_command_line_does() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(np.exp(rng.normal(size=(200, 3))), columns=list("abc")).assign(arm=["wt", "ko"] * 100)
    data, same = bacadi.prepare(frame, "arm"), Columns().read(frame, "arm", "wt").data
    assert data.transforms.names == ("log",) * 3 and (data.x == same.x).all()
    plain = bacadi.prepare(frame, "arm", transform="none")
    np.testing.assert_array_equal(plain.x, frame[list("abc")].to_numpy())
    chosen = bacadi.prepare(frame, "arm", transform={"a": "log"}, drop="c", drop_contexts=())
    assert chosen.variables == ("a", "b") and chosen.transforms.names == ("log", "none")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"drop_contexts": "kp"}, "'kp'"),
        ({"genes": 3}, "--genes is for AnnData"),
        ({"normalize": "log1p-cpm"}, "--transform log1p"),
        ({"layer": "counts"}, "--layer is for AnnData"),
        ({"genes": 3, "variables": ("a", "b")}, "keep one of the two"),
        ({"transfrom": "log"}, "did you mean 'transform'?"),
    ],
)
def test_options_that_make_no_sense_are_refused(table: pd.DataFrame, options: dict, words: str) -> None:
    with pytest.raises(BacadiError) as refusal:
        bacadi.prepare(table, "arm", **options)
    assert words in str(refusal.value)


def test_numbers_stored_as_text_are_one_sentence(table: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=r"a number stored as text, '\d+' in .*; convert the column"):
        bacadi.from_dataframe(table.assign(a=[str(n) for n in range(20)]), "arm", "ctrl")


def test_rows_of_contexts_are_left_out(table: pd.DataFrame) -> None:
    odd = pd.concat([table, table.iloc[:5].assign(arm=None), table.iloc[5:9].assign(arm="failed")], ignore_index=True)
    odd[["a", "b", "c"]] += np.random.default_rng(2).normal(size=(29, 3))
    with pytest.raises(DataError, match="no label"):
        bacadi.prepare(odd, "arm")
    assert bacadi.prepare(odd, "arm", drop_contexts=("nan", "failed")).n_rows == 20


def test_rows_that_nobody_could_assign_are_warned_about(table: pd.DataFrame) -> None:
    odd = table.assign(arm=[*table["arm"][:-4], *["unassigned"] * 4])
    with pytest.warns(UserWarning, match="4 rows with the label 'unassigned'.*--drop-contexts unassigned"):
        bacadi.prepare(odd, "arm")
