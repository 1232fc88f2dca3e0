"""Posterior files: exact round trips and refusals in words."""

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from bacadi.data.labelled import Labelled
from bacadi.errors import StoreError
from bacadi.posterior import Posterior, load, save


def assert_same(left: Posterior, right: Posterior) -> None:
    for name in ("graph", "intervention_target", "log_weight"):
        assert getattr(left, name).tobytes() == getattr(right, name).tobytes()
        assert getattr(left, name).shape == getattr(right, name).shape
    for name in ("variables", "contexts", "observational", "attrs"):
        assert getattr(left, name) == getattr(right, name)
    for group in ("parameters", "sample_stats", "constant_data"):
        assert list(getattr(left, group)) == list(getattr(right, group))
        for name, (values, dims) in getattr(left, group).items():
            other = getattr(right, group)[name]
            assert (values.dtype, values.shape, dims) == (other.values.dtype, other.values.shape, other.dims)
            assert values.tobytes() == other.values.tobytes()


@pytest.mark.parametrize(("m", "shape"), [(3, (2, 7)), (0, (1, 4)), (1, (1, 1))])
def test_round_trip_is_exact(make_posterior, tmp_path, m, shape):
    posterior = make_posterior(np.random.default_rng(m), m=m, shape=shape)
    save(posterior, tmp_path / "posterior.nc")
    assert_same(posterior, load(tmp_path / "posterior.nc"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["posterior.nc"]


def test_round_trip_of_awkward_content(posterior, tmp_path):
    log_weight = np.full((2, 7), -np.inf)
    log_weight[0, :2] = np.log(0.5)
    odd = replace(
        posterior,
        log_weight=log_weight,
        variables=("Größe", "基因", 'say "x", y', ""),
        contexts=("a/b", "\n", "🧬"),
        sample_stats={"bad": Labelled(np.array([np.nan, np.inf, -0.0]), ("step",)), "n": Labelled(np.int64(3))},
        attrs={"seed": 2**80, "empty": "", "text": "ü", "list": [1, "x"], "no": False, "none": None, "inf": np.inf},
        observational=None,
    )
    odd.save(tmp_path / "deep" / "posterior.nc")
    assert_same(odd, Posterior.load(tmp_path / "deep" / "posterior.nc"))


def test_a_file_of_the_first_schema_is_read(tmp_path):
    """The file was written by the last program whose axis of variables was called `variable` (schema version 1)."""
    path = Path(__file__).parent / "schema_1.nc"
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        assert tree.attrs["schema_version"] == 1
        assert tree["posterior"]["effect_mean"].dims == ("chain", "draw", "context", "variable")
        effects = tree["posterior"]["effect_mean"].values
    posterior = load(path)
    assert posterior.variables == ("a", "b", "c") and posterior.contexts == ("k1", "k2")
    assert posterior.observational == "obs" and posterior.attrs["config"] == {"slope": [1, None]}
    np.testing.assert_array_equal(posterior.parameters["effect_mean"].values, effects)
    assert posterior.parameters["effect_mean"].dims == ("context", "node")
    assert posterior.parameters["noise_std"].dims == posterior.constant_data["scale"].dims == ("node",)
    assert posterior.sample_stats["log_posterior"].values.shape == (2, 3)
    posterior.save(tmp_path / "posterior.nc")
    assert_same(posterior, load(tmp_path / "posterior.nc"))


def test_changes_in_a_file_of_the_first_schema_are_noticed(tmp_path):
    path = tmp_path / "posterior.nc"
    path.write_bytes((Path(__file__).parent / "schema_1.nc").read_bytes())
    with h5py.File(path, "r+") as file:
        file["posterior/effect_mean"][0, 0, 0, 1] += 1e-9
    with pytest.raises(StoreError, match="checksum"):
        load(path)


def test_layout_is_that_of_arviz(posterior, tmp_path):
    save(posterior, tmp_path / "posterior.nc")
    with xr.open_datatree(tmp_path / "posterior.nc", engine="h5netcdf") as tree:
        assert set(tree.children) == {"posterior", "sample_stats", "constant_data"}
        graph = tree["posterior"]["graph"]
        assert graph.dims == ("chain", "draw", "source", "target")
        assert graph.sel(source="v1", target="v2").values.tolist() == posterior.graph[..., 1, 2].tolist()
        assert tree["posterior"]["intervention_target"].dims == ("chain", "draw", "context", "node")
        assert tree["sample_stats"]["log_weight"].dims == ("chain", "draw")
        assert tree["sample_stats"]["energy"].dims == ("step",)
        assert tree["constant_data"]["scale"].dims == ("node",)
        assert tree.attrs["created_by"] == "bacadi" and tree.attrs["seed"] == 3 and tree.attrs["wall_time"] == 1.25
    with h5py.File(tmp_path / "posterior.nc") as file:
        assert file["posterior/graph"].compression == "gzip"


def test_a_paper_sized_run_is_small_and_saved_again_in_the_same_bytes(make_posterior, tmp_path):
    """Every array is written once and in one piece, zeros and ones compressed: what keeps a file small and quick."""
    posterior = make_posterior(np.random.default_rng(0), d=20, m=20, shape=(1, 20))
    save(posterior, tmp_path / "first.nc")
    save(posterior, tmp_path / "second.nc")
    first = (tmp_path / "first.nc").read_bytes()
    assert len(first) < 1_000_000
    assert first == (tmp_path / "second.nc").read_bytes()
    with h5py.File(tmp_path / "first.nc") as file:
        for name in ("graph", "intervention_target"):
            stored = file["posterior"][name]
            assert stored.chunks == stored.shape and stored.compression == "gzip"
            assert stored.id.get_storage_size() < stored.size / 3  # a bit and a little in place of a byte
        for name in posterior.parameters:
            assert file["posterior"][name].chunks is None


def test_what_is_no_netcdf_file_is_refused(tmp_path):
    path = tmp_path / "posterior.nc"
    with pytest.raises(StoreError, match="no file"):
        load(path)
    with pytest.raises(StoreError, match="folder"):
        load(tmp_path)
    for content, message in [
        (b"", "is empty"),
        (b"source,target,probability\n", "no netCDF file"),
        (np.random.default_rng(0).bytes(4000), "no netCDF file"),
        (b"CDF\x01" + bytes(100), "netCDF 3"),
        (b"\x89HDF\r\n\x1a\n" + np.random.default_rng(0).bytes(4000), "damaged"),
    ]:
        path.write_bytes(content)
        with pytest.raises(StoreError, match=message):
            load(path)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("fraction", [0.001, 0.1, 0.5, 0.9, 0.9999])
def test_a_truncated_file_is_refused(posterior, tmp_path, fraction):
    path = tmp_path / "posterior.nc"
    save(posterior, path)
    content = path.read_bytes()
    path.write_bytes(content[: int(fraction * len(content))])
    with pytest.raises(StoreError, match=r"damaged"):
        load(path)


def test_changed_content_is_noticed(posterior, tmp_path):
    path = tmp_path / "posterior.nc"
    for change in ("number", "name", "attribute"):
        save(posterior, path)
        with h5py.File(path, "r+") as file:
            if change == "number":
                file["posterior/weight"][0, 0, 0, 1] += 1e-9
            elif change == "name":
                file["posterior/source"][1] = "other"
            else:
                file.attrs["seed"] = 4
        with pytest.raises(StoreError, match="checksum"):
            load(path)


def test_foreign_and_newer_files_are_refused(posterior, tmp_path):
    foreign, newer = tmp_path / "foreign.nc", tmp_path / "newer.nc"
    xr.Dataset({"t": ("x", np.arange(3.0))}).to_netcdf(foreign, engine="h5netcdf")
    with pytest.raises(StoreError, match="another program"):
        load(foreign)
    save(posterior, newer)
    with h5py.File(newer, "r+") as file:
        file.attrs["schema_version"] = 99
    with pytest.raises(StoreError, match=r"version 99.*update"):
        load(newer)


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing(posterior, tmp_path, monkeypatch):
    path = tmp_path / "posterior.nc"
    save(posterior, path)
    before = path.read_bytes()

    def full(self, content):
        with self.open("wb") as file:
            file.write(content[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StoreError, match="No space left"):
        save(posterior, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["posterior.nc"]


def test_an_attribute_of_the_store_is_not_overwritten(posterior, tmp_path):
    with pytest.raises(ValueError, match="schema_version"):
        save(replace(posterior, attrs={"schema_version": 7}), tmp_path / "posterior.nc")


def test_sparse_draws_of_many_variables_are_read_back_as_they_were(tmp_path):
    """Beyond 200 variables arrays of mostly zeros are written by their entries, others as they are; -0 is an entry."""
    rng, d, m = np.random.default_rng(0), 201, 2
    graph = np.triu(rng.random((2, 3, d, d)) < 0.01, 1).astype(np.int8)
    weight = np.where(graph, rng.normal(size=graph.shape), 0).astype(np.float32)
    weight[0, 0, 5, 3], weight[1, 2, 7, 7] = -0.0, np.nan
    targets = (rng.random((2, 3, m, d)) < 0.02).astype(np.int8)
    parameters = {
        "weight": Labelled(weight, ("source", "target")),
        "full": Labelled(rng.normal(size=(2, 3, m, d)), ("context", "node")),
        "nothing": Labelled(np.zeros((2, 3, m, d)), ("context", "node")),
    }
    names = tuple(f"x{j}" for j in range(d)), ("a", "b")
    posterior = Posterior(graph, targets, np.full((2, 3), -np.log(6)), *names, parameters)
    path = tmp_path / "posterior.nc"
    posterior.save(path)
    assert_same(Posterior.load(path), posterior)
    assert np.signbit(Posterior.load(path).parameters["weight"].values[0, 0, 5, 3])
    assert path.stat().st_size < 0.3 * (graph.nbytes + weight.nbytes)
    with h5py.File(path) as file:
        assert "graph" not in file["posterior"] and file["posterior/graph_number"].shape == (2, 3)
        assert "full" in file["posterior"]
