"""ArviZ reads posterior files: its summary, R-hat and trace plot work on what `save` wrote.

ArviZ 1 needs Python 3.12 and stacks variables along an axis that it calls `variable`; ArviZ 0.23, the newest for Python
3.11, does not, so that the stacking is tested by itself.
"""

import arviz as az
import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr

from bacadi.posterior import Posterior

# R-hat of an edge that is in no draw is 0 / 0; ArviZ 0.23 calls matplotlib in an old way.
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}") for kind in ("RuntimeWarning", "DeprecationWarning")]


@pytest.fixture
def path(make_posterior, tmp_path):
    make_posterior(np.random.default_rng(4), shape=(2, 40)).save(tmp_path / "posterior.nc")
    return tmp_path / "posterior.nc"


def test_summary_has_a_row_per_entry_with_its_names(path):
    posterior = Posterior.load(path)
    table = az.summary(az.from_netcdf(path), kind="stats", round_to="none")
    assert len(table) == 4 * 4 + 3 * 4 + 4 * 4 + 3 * 4 + 4 + 3 * 4
    noise = posterior.parameters["noise_std"].values
    assert table.loc["noise_std[v2]", "mean"] == pytest.approx(noise[..., 2].mean(), rel=1e-5)
    assert table.loc["graph[v0, v1]", "mean"] == pytest.approx(posterior.graph[..., 0, 1].mean())
    assert table.loc["effect_mean[k1, v3]", "mean"] == pytest.approx(
        posterior.parameters["effect_mean"].values[..., 1, 3].mean()
    )
    assert {"r_hat", "ess_bulk"} <= set(az.summary(az.from_netcdf(path)).columns)


def test_rhat_keeps_the_names_of_the_axes(path):
    rhat = az.rhat(az.from_netcdf(path))
    assert rhat["effect_mean"].dims == ("context", "node") and rhat["effect_mean"].sel(node="v1", context="k0") > 0
    assert np.isfinite(rhat["weight"]).all()


def test_trace_plot_is_drawn(path):
    with mpl.rc_context({"backend": "agg"}):
        assert az.plot_trace(az.from_netcdf(path), var_names=["noise_std", "effect_mean"]) is not None
        mpl.pyplot.close("all")


def test_every_group_can_be_stacked_into_one_array(path):
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        for group in tree.children:
            assert "variable" not in tree[group].sizes
            assert tree[group].to_dataset().to_array().dims[0] == "variable"
