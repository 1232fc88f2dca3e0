"""What is made of a table: columns, rows, blocks, missing cells, by Python, files and flags alike."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bacadi.cli import app
from bacadi.config.codec import Place, build, encode
from bacadi.config.columns import PLAIN, Columns, choose_columns
from bacadi.data.contexts import ContextData
from bacadi.data.imputation import completed
from bacadi.errors import BacadiError, ConfigError
from bacadi.inference.exact.method import Exact
from bacadi.inference.fit import COMPLETIONS, fit


def table(n: int = 60) -> pd.DataFrame:
    x = np.exp(np.random.default_rng(0).normal(size=(n, 3)))
    frame = pd.DataFrame(x, columns=list("abc"))
    return frame.assign(arm=["wt", "wt", "ko"] * (n // 3), day=["1", "2"] * (n // 2), one=7.0, note="text")


def read(columns: Columns, frame: pd.DataFrame | None = None) -> ContextData:
    data, found = columns.read(table() if frame is None else frame, "arm", "wt")
    assert data is not None, found.problems
    return data


BASIC = PLAIN.replace(drop=("note", "one", "day"))


def test_columns_and_rows() -> None:
    assert read(BASIC).variables == ("a", "b", "c")
    assert read(Columns(variables=("c", "a"))).variables == ("a", "c")  # in the order of the table
    assert read(Columns(drop=("note", "day"), drop_constant=True)).variables == ("a", "b", "c")
    thin = read(BASIC.replace(thin=3))
    assert thin.counts.tolist() == [14, 7] and (thin.x == read(BASIC).thinned(3).x).all()


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: read(Columns(drop=("nothing",))), "no column 'nothing'"),
        (lambda: read(Columns(drop=("arm",))), "names contexts"),
        (lambda: read(BASIC.replace(transform=("note=log",))), "no variable"),
        (lambda: Columns(transform=("lg",)), "normal-scores"),
        (lambda: Columns(transform=("log", "a=none")), "COLUMN=MAP"),
        (lambda: Columns(variables=("a",), drop=("a",)), "both name 'a'"),
        (lambda: Columns(missing_value=0.0), "no effect"),
        (lambda: Columns(thin=0), "at least 1"),
        (lambda: read(Columns(drop=("note", "day"), block="one")), "one value"),
        (lambda: read(BASIC.replace(drop=("note", "one", "day"), block="arm")), "another column"),
        (lambda: read(BASIC.replace(block="id"), table().assign(id=np.arange(60))), "every row"),
        (lambda: read(BASIC.replace(block="id"), table().assign(id=table()["arm"])), "the same as the context"),
        (lambda: read(BASIC.replace(missing="drop", missing_value=-1.0)), "No cell"),
        (lambda: choose_columns(flags={"thin": 0}), "--thin"),
        (lambda: choose_columns(flags={"missing": "guess"}), "--missing"),
        (lambda: choose_columns(flags={"transform": "lg"}), "--transform"),
    ],
)
def test_refusals(make: Callable[[], object], word: str) -> None:
    with pytest.raises(BacadiError, match=word):
        make()


def test_blocks_are_labels_of_rows() -> None:
    data = read(Columns(drop=("note", "one"), block="day"))
    assert data.blocks == ("1", "2") and data.block is not None and data.block[:3].tolist() == [0, 1, 0]
    thin = data.thinned(2)
    assert thin.block is not None and len(thin.block) == thin.n_rows
    shifted = ContextData(data.x + 9.0 * data.block[:, None], data.context, *data.variables[:0], **_names(data))
    assert shifted.residuals_within().std() < 2 * data.residuals_within().std()


def _names(data: ContextData) -> dict[str, object]:
    return {"variables": data.variables, "contexts": data.contexts, "block": data.block, "blocks": data.blocks}


def test_files_flags_and_records(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[data]\ntransform = { a = "log", "b=1" = "none" }\ndrop = "note"\nthin = 2\nmissing = "drop"\n')
    chosen = choose_columns(file, {"thin": 3, "drop_constant": False, "drop": None})
    assert chosen.maps() == {"a": "log", "b=1": "none"} and (chosen.drop, chosen.thin) == (("note",), 3)
    assert build(Columns, encode(chosen), Place("the record")) == chosen
    assert build(Columns, encode(PLAIN), Place("the record")) == PLAIN
    assert PLAIN.replace(transform=("auto",), spikes="auto") == Columns()
    file.write_text("[data]\nthinn = 2\n")
    with pytest.raises(ConfigError, match="did you mean 'thin'"):
        choose_columns(file)


def test_missing_cells_are_refused_dropped_or_kept() -> None:
    frame = table()
    frame.loc[[3, 7], "a"] = np.nan
    assert BASIC.read(frame, "arm", "wt").data is None
    assert read(BASIC.replace(missing="drop"), frame).n_rows == 58
    kept = read(BASIC.replace(missing="impute", transform=("log",)), frame)
    assert np.isnan(kept.x).sum() == 2 and abs(kept.missing - 2 / 180) < 1e-12
    frame.loc[5, "b"] = -999.0
    marked = read(BASIC.replace(missing="impute", missing_value=-999.0), frame)
    assert np.isnan(marked.x).sum() == 3
    few = table()
    few.loc[3:, "a"] = np.nan
    assert BASIC.replace(missing="impute").read(few, "arm", "wt").data is None


def test_values_that_say_nothing_of_their_row_are_taken_for_missing() -> None:
    """A zero in place of what was not measured is missing; a limit of detection, a clamp and a rate that depends on the
    context or on another column are not. A false alarm of the χ² test has probability 1e-4."""
    rng = np.random.default_rng(4)
    n, arm = 600, np.repeat(["wt", "ko", "other"], 200)
    x = rng.normal(size=(n, 5)) + 2.0 * (arm == "ko")[:, None]
    lost = rng.random((n, 5)) < 0.3
    x[lost[:, 0], 0] = 0.0  # not measured
    x[:, 1] = np.maximum(x[:, 1], 0.0)  # limit of detection
    x[(arm == "ko") & lost[:, 2], 2] = 0.0  # of one context alone
    x[x[:, 4] > 0.5, 3] = 0.0  # follows another column
    frame = pd.DataFrame(x, columns=list("abcde")).assign(arm=arm)
    found = Columns().read(frame, "arm", "wt")
    assert found.data is not None
    assert np.isnan(found.data.x).sum(axis=0).tolist() == [lost[:, 0].sum(), 0, 0, 0, 0]
    assert any("a = 0" in finding.message for finding in found.diagnosis.problems if finding.code == "spikes")
    kept = Columns(spikes="keep").read(frame, "arm", "wt").data
    assert kept is not None and not kept.missing


def test_completions_are_draws_of_what_is_missing() -> None:
    """Means over 400 cells of 20 completions: within four standard errors, one false alarm in 15,000."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=2000)
    x = np.column_stack([a, 2 * a + 0.5 * rng.normal(size=2000)])
    gone = rng.random(2000) < 0.2
    data = ContextData(
        np.where(gone[:, None] * [False, True], np.nan, x), np.arange(2000) % 2, ("a", "b"), ("k",), "wt"
    )
    errors = np.array([(completed(np.random.default_rng(s), data).x - x)[gone, 1] for s in range(5)])
    assert abs(errors.mean()) < 0.15 and 0.6 < errors.std() < 0.8  # truth and draw each vary by .5: √2 · .5 = .71
    assert errors.std(axis=0).mean() > 0.3
    again = completed(np.random.default_rng(0), data).x
    assert (again[:, 1] == completed(np.random.default_rng(0), data).x[:, 1]).all()


def test_a_fit_of_missing_cells_pools_its_completions() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=80)
    x = np.column_stack([a, a + 0.3 * rng.normal(size=80)])
    x[::9, 1] = np.nan
    data = ContextData(x, np.repeat([0, 1], 40), ("a", "b"), ("ko",), "wt")
    posterior = fit(data, method=Exact(n_draws=50), seed=3)
    # A completion lists its 3 x 4 pairs of graph and targets, likely ones several times: 10 more in all.
    assert posterior.n_chains == COMPLETIONS and posterior.n_draws <= COMPLETIONS * (10 + 12)
    assert posterior.adjacent_probabilities()[0, 1] > 0.99 and "completed 5 times" in posterior.attrs["columns"][-1]
    assert abs(posterior.weights.sum() - 1) < 1e-9


def test_contexts_of_one_row_beside_others() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 2))
    data = ContextData(x, np.concatenate([np.zeros(20, int), [1, 2, 3, 4]]), ("a", "b"), tuple("pqrs"), "wt")
    scale = data.standardized_within().scaling.scale
    assert np.allclose(scale, x[:20].std(axis=0))  # single rows have no residual
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(arm=["wt"] * 20 + list("pqrs"))
    found = Columns().read(frame, "arm", "wt").diagnosis
    assert found.ok and [finding.code for finding in found.problems] == ["single-row"]
    alone = frame.iloc[19:].assign(arm=["control", "KO_1", "KO_2", "KO_3", "KO_4"])
    (problem, *_) = Columns().read(alone, "arm", "control").diagnosis.problems
    assert problem.code == "small-context" and "row number" not in problem.message
    numbered = frame.assign(arm=[str(n) for n in range(24)])
    assert Columns().read(numbered, "arm").diagnosis.problems[0].code == "context-is-index"


def test_bytes_are_no_counts_and_sparse_rows_no_double_entries() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(np.rint(np.exp(2 * rng.normal(size=(90, 2)) + 14)), columns=["sent", "got"])
    frame = frame.assign(arm=["wt", "ko", "drug"] * 30)
    assert "counts" not in [f.code for f in Columns().read(frame, "arm", "wt").diagnosis.problems]
    sparse = pd.DataFrame(np.where(rng.random((90, 6)) < 0.9, 0.0, rng.normal(size=(90, 6)))).rename(columns=str)
    found = Columns().read(sparse.assign(arm=["wt", "ko", "drug"] * 30), "arm", "wt").diagnosis
    assert "repeated-rows" not in [f.code for f in found.problems]


def test_a_run_keeps_its_columns(tmp_path: Path) -> None:
    path, out = tmp_path / "t.csv", tmp_path / "run"
    table(90).to_csv(path, index=False)
    words = ["--context", "arm", "--observational", "wt", "--drop", "note,one,day", "--transform", "auto"]
    fitted = CliRunner().invoke(
        app, ["fit", str(path), *words, "--method", "exact", "--draws", "20", "--out", str(out)]
    )
    assert fitted.exit_code == 0, fitted.output
    assert "logarithm, because" in fitted.output
    record = json.loads((out / "config.json").read_text())
    assert record["columns"]["transform"] == ["auto"] and record["transforms"] == dict.fromkeys("abc", "log")
    from bacadi.commands.run import RunFolder
    from bacadi.posterior import load

    assert RunFolder.load(out).data.transforms.names == ("log",) * 3
    maps = load(out / "posterior.nc").transforms()
    assert np.allclose(maps.inverse(np.zeros((1, 3))), 1)
    checked = CliRunner().invoke(app, ["check", str(path), *words])
    assert checked.exit_code == 0 and "logarithm, because" in checked.output
