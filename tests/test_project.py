"""The project as a whole: fast start, no JAX where none is needed, nothing in the tree that ties it to one machine."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"


def imported_by(code: str) -> tuple[set[str], float]:
    """The modules that a fresh interpreter holds after running `code`, and the CPU seconds it took."""
    script = (
        f"import sys, time; sys.path.insert(0, {str(SOURCE)!r})\n"
        f"start = time.process_time()\n{code}\n"
        "print('SECONDS', time.process_time() - start)\n"
        "print('MODULES', *sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    seconds = float(re.search(r"^SECONDS (.*)$", out, re.M).group(1))
    return set(re.search(r"^MODULES (.*)$", out, re.M).group(1).split()), seconds


HELP = """
from bacadi.cli import main
sys.argv = ["bacadi", "--help"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
"""


@pytest.mark.parametrize(
    ("code", "limit"),
    [
        ("import bacadi", 0.5),
        (HELP, 2.0),
        ("import bacadi.graph, bacadi.metrics, bacadi.simulate, bacadi.data, bacadi.posterior", 4.0),
    ],
)
def test_starts_fast_and_without_jax(code, limit):
    """The limits are CPU seconds and generous: each is several times what an idle machine takes."""
    modules, seconds = imported_by(code)
    assert not modules & {"jax", "jaxlib", "equinox", "optax"}
    assert seconds < limit


FIT = """
import numpy as np
from bacadi.data.contexts import ContextData
from bacadi.inference.exact.method import Exact
from bacadi.inference.fit import fit
from bacadi.inference.mcmc.method import MCMC
x = np.random.default_rng(0).normal(size=(12, 3))
data = ContextData(x, np.repeat([0, 1], 6), ("a", "b", "c"), ("k",), "obs")
for method in (None, "exact", MCMC(n_draws=10, n_sweeps=10), Exact(n_draws=10)):
    assert fit(data, method=method).graph.shape[2:] == (3, 3)
for mechanism in ("linear", "nonlinear", "bge", "gaussian-process"):
    fit(data, mechanism, Exact(n_draws=10))
"""


@pytest.mark.parametrize(
    "code",
    [
        "from bacadi.config.layers import configure\nassert configure().name == 'mcmc'",
        "from bacadi.config.layers import configure\nassert configure('exact', 'paper').preset == 'paper'",
        FIT,
    ],
    ids=["defaults", "preset", "fits"],
)
def test_mcmc_and_exact_need_no_jax(code):
    """From choosing a method to its posterior."""
    modules, _ = imported_by(code)
    assert not modules & {"jax", "jaxlib", "equinox", "optax"}


def test_a_linear_fit_loads_only_what_it_needs(tmp_path):
    """What a fit loads beyond NumPy, SciPy's functions, pandas, Numba and HDF5 was a third of its fixed cost once."""
    data, _ = FIT.split("for method", 1)
    file = str(tmp_path / "posterior.nc")
    modules, _ = imported_by(f"{data}fit(data, 'linear', MCMC(n_draws=10, n_sweeps=10)).save({file!r})")
    assert not modules & {"xarray", "dask", "scipy.optimize", "scipy.sparse", "bacadi.evidence.gp"}


def test_import_of_the_package_brings_no_table_library():
    modules, _ = imported_by("import bacadi, bacadi.graph, bacadi.metrics, bacadi.simulate")
    assert not modules & {"pandas", "xarray", "matplotlib"}


def test_public_names_exist_and_others_do_not():
    import bacadi

    for name in bacadi.__all__:
        assert getattr(bacadi, name) is not None
        assert name in dir(bacadi)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = bacadi.nonsense


def test_version_is_one():
    import bacadi

    assert f"version: {bacadi.__version__}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert (SOURCE / "bacadi" / "py.typed").exists()


def project_files() -> list[Path]:
    """What version control holds or would hold; without git (an unpacked archive) this is every file but caches."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listing.returncode == 0:
        return [ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]
    return [p for p in ROOT.rglob("*") if p.is_file() and not any(part.startswith(".") for part in p.parts)]


def test_no_lock_file_and_no_registry_host():
    """Versions are pinned in constraints.txt by name; where packages come from is the business of the machine."""
    locks = {"poetry.lock", "uv.lock", "Pipfile.lock", "pdm.lock", "pixi.lock", "conda-lock.yml", "pylock.toml"}
    files = project_files()
    assert not {p.name for p in files} & locks
    for name in ("constraints.txt", "pyproject.toml", "Makefile", ".ci/run"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"https?://|index-url|find-links|--hash|trusted-host", text), name


def test_constraints_are_names_and_versions_that_cover_the_dependencies():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line) for line in lines)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["dev"]
    names = {re.match(r"[A-Za-z0-9_-]+", requirement).group(0) for requirement in wanted}
    assert names <= {line.split("==")[0] for line in lines}
