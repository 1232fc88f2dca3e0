"""What a posterior hands to other programs: reprs, DataTree, AnnData."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bacadi.errors import DataError
from bacadi.model.model import Model
from bacadi.posterior import Posterior, load, to_anndata


@pytest.fixture
def posterior() -> Posterior:
    rng = np.random.default_rng(0)
    graph = np.triu(rng.integers(2, size=(2, 5, 3, 3)), k=1)
    targets = rng.integers(2, size=(2, 5, 2, 3))
    names, contexts = ("<b>a</b>", "b/c", "d & e"), ("drug <1>", "A/B")
    attrs = {"warnings": ["<script>"], "configuration": {"method": {"type": "mcmc"}}, "seed": 3}
    return Posterior(graph, targets, np.full((2, 5), -np.log(10)), names, contexts, attrs=attrs, observational="ctrl")


def test_reprs_are_short(posterior: Posterior) -> None:
    for thing in (posterior, Model()):
        assert len(repr(thing)) < 100 and "\n" not in repr(thing)


def test_html_shows_verdict_and_probabilities_and_escapes_labels(posterior: Posterior) -> None:
    html = posterior._repr_html_()
    assert posterior.verdict() in html and "&lt;b&gt;a&lt;/b&gt;" in html and "drug &lt;1&gt;" in html
    assert "<b>a</b>" not in html and "<1>" not in html and len(html) < 20_000
    for p in (*posterior.edge_probabilities().ravel(), *posterior.target_probabilities().ravel()):
        assert f'title="{p:.4f}"' in html


def test_html_of_many_variables_is_small() -> None:
    d = 200
    graph = np.zeros((1, 1, d, d), dtype=np.int8)
    graph[0, 0, 150, 151] = 1
    names = tuple(f"x{j}" for j in range(d))
    html = Posterior(graph, np.zeros((1, 1, 0, d)), np.zeros((1, 1)), names, ())._repr_html_()
    assert ">x150<" in html and "30 × 30 of 200 × 200" in html and len(html) < 250_000


def test_datatree_has_what_the_file_has(posterior: Posterior, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    posterior.save(tmp_path / "posterior.nc")
    tree = posterior.to_datatree()
    with xarray.open_datatree(tmp_path / "posterior.nc", engine="h5netcdf") as stored:
        for group in ("posterior", "sample_stats"):
            assert set(stored[group].data_vars) == set(tree[group].data_vars)
            for name, array in stored[group].data_vars.items():
                np.testing.assert_array_equal(array.values, tree[group][name].values)
                assert array.dims == tree[group][name].dims
    edge = tree["posterior"]["graph"].sel(source="<b>a</b>", target="b/c")
    np.testing.assert_array_equal(edge.values, posterior.graph[:, :, 0, 1])
    assert load(tmp_path / "posterior.nc").attrs == posterior.attrs


@pytest.mark.filterwarnings("ignore")
def test_results_in_an_anndata_survive_a_file(posterior: Posterior, tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata")
    genes = ["other", "d & e", "<b>a</b>", "b/c"]
    adata = anndata.AnnData(X=np.ones((3, 4)), var=pd.DataFrame(index=genes))
    to_anndata(posterior, adata)
    adata.write_h5ad(tmp_path / "out.h5ad")
    back = anndata.read_h5ad(tmp_path / "out.h5ad")
    edges, targets = back.varp["bacadi_edges"].toarray(), back.varm["bacadi_targets"]
    for i, one in enumerate(posterior.variables):
        for j, other in enumerate(posterior.variables):
            assert edges[genes.index(one), genes.index(other)] == posterior.edge_probabilities()[i, j]
        np.testing.assert_array_equal(targets[genes.index(one)], posterior.target_probabilities()[:, i])
    assert np.isnan(targets[0]).all() and not edges[0].any()
    about = back.uns["bacadi"]
    assert list(about["contexts"]) == list(posterior.contexts) and about["verdict"] == posterior.verdict()
    assert list(about["doubts"]) == ["<script>"] and '"seed": 3' in about["settings"]
    with pytest.raises(DataError, match="no gene '<b>a</b>'"):
        to_anndata(posterior, adata[:, ["other"]].copy())
