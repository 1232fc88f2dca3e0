"""AnnData in: labels, controls, genes, counts; each thing that is wrong with one is one sentence."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from typer.testing import CliRunner

import bacadi
from bacadi.cli import app
from bacadi.config.columns import Columns
from bacadi.data.annotated import CHANGE, VARIABILITY, from_anndata, select_genes
from bacadi.errors import BacadiError, ConfigError, DataError
from bacadi.model.statements import KNOWN, OFF_TARGETS, named_targets

anndata = pytest.importorskip("anndata")

GENES = [f"g{j}" for j in range(12)]


def screen(labels: list[str], n: int = 15, sparse_counts: bool = True) -> "anndata.AnnData":
    """Counts of 12 genes, n cells a label; a label lowers the genes it names, and g5 follows g1."""
    rng = np.random.default_rng(0)
    every = np.repeat(np.array(labels, dtype=object), n)
    rate = np.full((len(every), len(GENES)), 20.0)
    for row, label in enumerate(every):
        for part in str(label).split("+"):
            if part in GENES:
                rate[row, GENES.index(part)] = 2.0
    rate[:, 5] = 4 * rate[:, 1]
    x = rng.poisson(rate).astype(np.float32)
    obs = pd.DataFrame({"guide": pd.Categorical(every)}, index=[f"cell{i}" for i in range(len(every))])
    matrix = sparse.csr_matrix(x) if sparse_counts else x
    return anndata.AnnData(X=matrix, obs=obs, var=pd.DataFrame(index=GENES))


@pytest.mark.parametrize("sparse_counts", [True, False])
def test_labels_and_values(sparse_counts: bool) -> None:
    adata = screen(["ctrl", "g1+ctrl", "ctrl+g1", "g1+g2"], sparse_counts=sparse_counts)
    data = from_anndata(adata, "guide")
    assert data.observational == "ctrl" and data.contexts == ("g1", "g1+g2")
    assert data.counts.tolist() == [15, 30, 15] and data.variables == tuple(GENES)
    dense = adata.X.toarray() if sparse_counts else adata.X
    np.testing.assert_array_equal(data.x, dense)
    assert data.aims == {"g1": ("g1",), "g1+g2": ("g1", "g2")}
    known, off = (named_targets(choice, data) for choice in (KNOWN, OFF_TARGETS))
    assert known.sum(axis=1).tolist() == [1, 2] and np.nansum(off, axis=1).tolist() == [1, 2]
    assert np.isnan(off[0]).sum() == 11 and not np.isnan(known).any()


def test_a_separator_of_ones_own() -> None:
    adata = screen(["NT", "g1"])
    adata.obs["guide"] = adata.obs["guide"].astype(str).replace({"g1": "g1|g2"}).astype("category")
    data = from_anndata(adata, "guide", separator="|")
    assert data.observational == "NT" and data.aims == {"g1|g2": ("g1", "g2")}


def test_layers_and_genes_by_name() -> None:
    adata = screen(["ctrl", "g1"])
    adata.layers["twice"] = 2 * adata.X
    data = from_anndata(adata, "guide", layer="twice", genes=["g5", "g1"])
    assert data.variables == ("g5", "g1")
    np.testing.assert_array_equal(data.x, 2 * adata.X.toarray()[:, [5, 1]])


def test_perturbed_genes_come_first_then_those_that_change() -> None:
    adata = screen(["ctrl", "g1", "g2"], n=60)
    assert set(select_genes(adata, 3, "guide")) == {"g1", "g2", "g5"}
    assert select_genes(adata, 3, "guide")[2] == "g5"
    assert len(select_genes(adata, 7, "guide", by=VARIABILITY)) == 7
    assert from_anndata(adata, "guide", genes=3).variables == tuple(select_genes(adata, 3, "guide", by=CHANGE))
    with pytest.raises(ConfigError, match="change or variability"):
        select_genes(adata, 3, "guide", by="size")


def test_counts_are_normalised_on_request_and_warned_about_otherwise() -> None:
    adata = screen(["ctrl", "g1"])
    x = adata.X.toarray()
    with pytest.warns(UserWarning, match="12 genes of the file, which are few"):
        data = bacadi.prepare(adata, "guide", normalize="log1p-cpm", transform="none")
    np.testing.assert_allclose(data.x, np.log1p(1e6 * x / x.sum(axis=1, keepdims=True)), rtol=1e-6)
    codes = [finding.code for finding in Columns().open(adata, "guide").diagnosis.problems]
    assert "raw-counts" in codes and "control" in codes
    with pytest.raises(DataError, match=r"is for raw counts and the matrix holds the value 23\.5"):
        adata.X = x + 1.5
        bacadi.prepare(adata, "guide", normalize="log1p-cpm")


def test_cellxgene_says_which_guide_is_a_control_and_what_guides_hit() -> None:
    adata = screen(["a-1", "a-2", "n-1", "n-2", "a-1 || a-2"])
    adata.obs["genetic_perturbation_id"] = adata.obs["guide"]
    feature = {"g1": "KLF1"}
    guides = {"a-1": {"role": "targeting", "target_features": feature}, "a-2": {"role": "targeting"}}
    guides["a-2"]["target_features"] = {"ENSG00000000002": "g2"}
    adata.uns["genetic_perturbations"] = guides | {"n-1": {"role": "control"}, "n-2": {"role": "control"}}
    data = from_anndata(adata, "genetic_perturbation_id")
    assert data.observational == "control" and data.counts[0] == 30
    assert data.aims == {"a-1": ("g1",), "a-2": ("g2",), "a-1 || a-2": ("g1", "g2")}


WRONG = {
    "missing key": (lambda a: from_anndata(a, "guides"), "no column 'guides' in obs (did you mean 'guide'?)"),
    "no key": (lambda a: from_anndata(a), "it could be 'guide'"),
    "no such control": (lambda a: from_anndata(a, "guide", control="NT"), "'NT'"),
    "no such layer": (lambda a: from_anndata(a, "guide", layer="counts"), "no layer 'counts'"),
    "no such gene": (lambda a: from_anndata(a, "guide", genes=["g99"]), "no gene 'g99'"),
    "no AnnData": (lambda a: from_anndata(a.obs, "guide"), "not an AnnData"),
    "one gene": (lambda a: from_anndata(a, "guide", genes=1), "at least 2"),
    "no such label": (lambda a: bacadi.prepare(a, "guide", drop_contexts="unassigned"), "'unassigned'"),
    "sep": (lambda a: bacadi.prepare(a, "guide", sep=";"), "--sep"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_one_sentence(case: str) -> None:
    read, words = WRONG[case]
    with pytest.raises(BacadiError) as refusal:
        read(screen(["ctrl", "g1", "g2"]))
    assert words in str(refusal.value) and str(refusal.value).count("\n") == 0 and str(refusal.value).endswith(".")


@pytest.mark.parametrize("label", ["unassigned", "NA", "doublet", "none", None])
def test_unassigned_cells_are_refused_and_never_controls(label: str | None) -> None:
    adata = screen(["ctrl", "g1", "odd"])
    labels = adata.obs["guide"].astype(object)
    adata.obs["guide"] = labels.where(labels != "odd", label)
    name = "nan" if label is None else label
    with pytest.raises(DataError, match=f"15 cells of 45 have no perturbation.*--drop-contexts {name}"):
        from_anndata(adata, "guide")
    with pytest.warns(UserWarning, match="raw counts"):
        data = bacadi.prepare(adata, "guide", drop_contexts=(name,), transform="none")
    assert data.n_rows == 30 and data.counts[0] == 15
    if label == "none":
        assert from_anndata(adata, "guide", control="none").observational == "none"


def test_no_control_or_two_are_refused() -> None:
    with pytest.raises(DataError, match="none is a usual one for a control; name it with control="):
        from_anndata(screen(["g1", "g2"]), "guide")
    with pytest.raises(DataError, match=r"more than one \('ctrl' and 'DMSO'\)"):
        from_anndata(screen(["ctrl", "DMSO", "g1"]), "guide")
    assert from_anndata(screen(["g1", "g2"]), "guide", control="").observational is None


@pytest.mark.filterwarnings("ignore:.*not unique")
def test_duplicate_genes_are_refused_unless_others_are_named() -> None:
    adata = screen(["ctrl", "g1"])
    adata.var_names = [*GENES[:-1], "g0"]
    with pytest.raises(DataError, match=r"1 gene name .* more than once \('g0'\); call adata.var_names_make_unique"):
        from_anndata(adata, "guide")
    assert from_anndata(adata, "guide", genes=["g1", "g2"]).variables == ("g1", "g2")


def test_numbers_as_labels_and_text_as_numbers() -> None:
    adata = screen(["0", "1"])
    adata.obs["dose"] = adata.obs["guide"].astype(str).astype(int)
    assert from_anndata(adata, "dose", control="0").contexts == ("1",)
    adata.layers["text"] = adata.X.toarray().astype(str)
    with pytest.raises(DataError, match="holds text and no numbers"):
        from_anndata(adata, "dose", control="0", layer="text")


def test_a_file_is_checked_and_what_was_decided_is_said(tmp_path: Path) -> None:
    path = tmp_path / "screen.h5ad"
    screen(["ctrl", "g1+ctrl", "g2"]).write_h5ad(path)
    result = CliRunner().invoke(app, ["check", str(path), "--context", "guide", "--genes", "4"])
    assert result.exit_code == 0, result.output
    for words in (
        "45 rows, 4 variables",
        "The control is 'ctrl', with 15 cells",
        "4 of 12 genes are used",
        "raw counts",
    ):
        assert words in result.output
    (tmp_path / "no.h5ad").write_text("nothing")
    result = CliRunner().invoke(app, ["check", str(tmp_path / "no.h5ad"), "--context", "guide"])
    assert result.exit_code == 2 and "not a readable .h5ad file" in result.output
