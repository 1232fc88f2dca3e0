"""`read_table` and `from_file`: formats, labels as they are written, line numbers."""

import gzip
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bacadi.data.doctor import diagnose
from bacadi.data.tables import from_dataframe, from_file, read_table
from bacadi.errors import DataError


def frame() -> pd.DataFrame:
    x = np.random.default_rng(0).normal(size=(8, 3))
    return pd.DataFrame(x, columns=["a", "b c", "ü"]).assign(arm=["wt", "ko"] * 4)


def test_every_format_gives_the_same_data(tmp_path: Path) -> None:
    text, expected = frame().to_csv(index=False), from_dataframe(frame(), "arm", "wt")
    tabbed = frame().to_csv(index=False, sep="\t")
    contents = {
        "a.csv": text.encode(),
        "b.CSV": text.encode("utf-8-sig"),
        "c.csv": text.replace("\n", "\r\n").encode(),
        "d.csv": text.replace("\n", "\r").encode(),
        "e.csv.gz": gzip.compress(text.encode()),
        "f.tsv": tabbed.encode(),
        "g.txt.gz": gzip.compress(tabbed.encode()),
        "h.csv": text.replace("wt", '"wt"').rstrip("\n").encode(),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    frame().to_parquet(tmp_path / "i.parquet")
    for path in sorted(tmp_path.iterdir()):
        data = from_file(path, "arm", "wt")
        np.testing.assert_allclose(data.x, expected.x, rtol=1e-14)
        assert (data.variables, data.contexts) == (expected.variables, expected.contexts)
        assert np.array_equal(data.context, expected.context)


def test_labels_are_kept_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("arm,a,b\n01,1,2\n01,2,5\nNone,3,1\nNone,4,4\nNA,0,9\nNA,7,7\n1.0,1,1\n1.0,3,2\n")
    assert from_file(path, "arm", "None").contexts == ("01", "NA", "1.0")


def test_line_numbers_skip_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\narm,a,b\nwt,1,2\n\nwt,2,5\n   \nko,3,1\n,,\n")
    assert read_table(path).index.tolist() == [3, 5, 7]
    path.write_text(path.read_text().replace("ko", '"ko"'))
    assert read_table(path).index.tolist() == [3, 5, 7]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), min_size=2, max_size=6))
def test_quoted_labels_survive_a_round_trip(labels: list[str]) -> None:
    labels = [f"<{label}>" for label in labels]
    table = pd.DataFrame({"arm": labels, "a": range(len(labels)), "b": 0.5})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        table.to_csv(path, index=False)
        back = read_table(path, "arm")
    assert back["arm"].tolist() == labels and back["a"].tolist() == list(range(len(labels)))


def test_folder(tmp_path: Path) -> None:
    folder = tmp_path / "tables.csv"
    folder.mkdir()
    with pytest.raises(DataError, match="is a folder"):
        read_table(folder)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    frame().to_parquet(path)

    def missing(*arguments: object, **options: object) -> None:
        raise ImportError("no pyarrow")

    monkeypatch.setattr(pd, "read_parquet", missing)
    with pytest.raises(DataError, match=r"bacadi\[parquet\]"):
        read_table(path)


CELLS = st.sampled_from(
    ["a", "b", "1", "2.5", "-1e3", "", " ", "\t", '"', '"x"', '"1\n2"', "'", "\n", "\r\n", "NA", "é", ";"]
)


@given(st.lists(st.tuples(CELLS, st.sampled_from([",", ",", ",", "\n", "\t", ""])), max_size=40))
def test_whatever_the_text_it_is_read_or_refused_in_words(pieces: list[tuple[str, str]]) -> None:
    text = "".join(cell + separator for cell, separator in pieces)
    with tempfile.TemporaryDirectory() as folder:
        for ending in (".csv", ".tsv"):
            path = Path(folder) / f"t{ending}"
            path.write_bytes(text.encode())
            try:
                table = read_table(path, "a")
            except DataError:
                continue
            for finding in diagnose(table, "a", "1").problems:
                assert "\n" not in finding.message
