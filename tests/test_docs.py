"""What the documentation shows works: every TOML of the repository is decoded, every command runs at small settings."""

import re
import shlex
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from bacadi.benchmark.plan import plan
from bacadi.benchmark.study import read_study
from bacadi.cli import app
from bacadi.config.layers import PRESETS, configure
from bacadi.inference.fit import fit
from bacadi.inference.mcmc.method import MCMC
from bacadi.simulate.files import read_spec, write_task
from bacadi.simulate.synthetic import SyntheticSpec
from bacadi.simulate.task import simulate

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if "_build" not in page.relative_to(ROOT).parts
)
# The names that the pages use for the context column and the control, of the README and of docs/tasks.md.
COLUMNS = {"data.csv": ("condition", "control"), "task/data.csv": ("context", "obs")}
SMALL = {
    "fit": ("--sweeps", "40", "--draws", "8"),
    "--method svgd": ("--steps", "20", "--particles", "4"),
    "--method exact": (),
}
# Its commands are those of whole studies, which tests/benchmark plans and runs in small.
NOT_RUN = {"results.md"}
# These need a cluster; classes that CONTRIBUTING.md only begins are complete in tests/examples.
NOT_PYTHON = {"studies.md", "CONTRIBUTING.md"}


def blocks(page: Path, *languages: str) -> list[str]:
    """The code blocks of a page in one of the languages ('' for none)."""
    found = re.findall(r"^```(\S*)[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    return [text for language, text in found if language in languages]


def commands(page: Path) -> list[str]:
    """The commands of a page as one would type them, without what only a clone has."""
    lines = [line for text in blocks(page, "", "console", "sh", "bash") for line in text.splitlines()]
    typed = [re.sub(r"\s+#.*", "", line).strip().removeprefix("$ ").removeprefix(".venv/bin/") for line in lines]
    return [line for line in typed if line.startswith("bacadi ")]


def write_other_inputs(folder: Path) -> None:
    """The table in the other forms that docs/inputs.md speaks of, a gold standard, and a small screen."""
    table = pd.read_csv(folder / "data.csv")
    table.to_csv(folder / "comma.csv", index=False, sep=";", decimal=",")
    table.to_excel(folder / "data.xlsx", index=False)
    table.assign(batch=np.tile(["monday", "tuesday"], len(table))[: len(table)]).to_csv(
        folder / "batches.csv", index=False
    )
    (folder / "known_edges.csv").write_text("source,target\nx1,x2\nx2,x3\n")
    (folder / "known_targets.csv").write_text("context,variable\nc1,x1\nc2,x2\n")
    if find_spec("anndata") is not None:
        from anndata import AnnData

        rng = np.random.default_rng(0)
        obs = pd.DataFrame({"guide": pd.Categorical(np.repeat(["ctrl", "g1+ctrl", "g2"], 30))})
        obs.index = [f"cell{i}" for i in range(90)]
        rate = np.full((90, 600), 20.0)
        rate[30:60, 1], rate[60:, 2] = 3.0, 3.0
        genes = pd.DataFrame(index=[f"g{j}" for j in range(600)])
        AnnData(rng.poisson(rate).astype(np.float32), obs=obs, var=genes).write_h5ad(folder / "screen.h5ad")


def test_pages_have_commands() -> None:
    assert sum(len(commands(page)) for page in PAGES) >= 8


@pytest.mark.parametrize(
    "page", [page for page in PAGES if commands(page) and page.name not in NOT_RUN], ids=lambda page: page.name
)
def test_every_command_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("examples", "studies"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    task = simulate(SyntheticSpec(n_variables=5), seed=0)
    write_task(task, tmp_path / "made")
    table = (tmp_path / "made" / "data.csv").read_text()
    (tmp_path / "data.csv").write_text(table.replace("context", "condition").replace(",obs\n", ",control\n"))
    write_other_inputs(tmp_path)
    for command in commands(page):
        if ".h5ad" in command and find_spec("anndata") is None:
            continue
        name, *rest = shlex.split(command)[1:]
        small = next((more for text, more in SMALL.items() if text != "fit" and text in command), SMALL["fit"])
        more = small if name == "fit" else ("--smoke",) if "compare" in rest[:1] else ()
        result = CliRunner().invoke(app, [name, *rest, *more])
        assert result.exit_code == 0, f"{command}\n{result.output}"


PYTHON = [page for page in PAGES if blocks(page, "python") and page.name not in NOT_PYTHON]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", PYTHON, ids=lambda page: page.name)
def test_every_block_of_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    task = simulate(SyntheticSpec(n_variables=5), seed=0)
    write_task(task, tmp_path / "task")
    table = pd.read_csv(tmp_path / "task" / "data.csv").rename(columns={"context": "condition"})
    table["condition"] = table["condition"].replace("obs", "control")
    table.to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "run").mkdir()
    fit(task.data, method=MCMC(n_draws=40, n_sweeps=40)).save(tmp_path / "run" / "posterior.nc")
    module = ModuleType("page")  # classes that a page defines are found by their module
    monkeypatch.setitem(sys.modules, "page", module)
    module.table = table
    for text in blocks(page, "python"):
        if "anndata" not in text or find_spec("anndata") is not None:
            exec(compile(text, page.name, "exec"), vars(module))


@pytest.mark.parametrize("path", sorted([*ROOT.glob("examples/*.toml"), *ROOT.glob("benchmarks/*.toml")]), ids=str)
def test_every_configuration_is_decoded(path: Path) -> None:
    table = tomllib.loads(path.read_text())
    if "type" in table:
        read_spec(path)
    elif "title" in table:
        assert plan(read_study(path), path.parent)
    else:
        configure(file=path)


@pytest.mark.parametrize("path", sorted(ROOT.glob("studies/tasks/*.toml")), ids=lambda path: path.stem)
def test_every_specification_is_decoded(path: Path) -> None:
    assert read_spec(path).n_variables >= 5


def shown() -> list[tuple[str, str]]:
    return [(f"{page.name} {i}", text) for page in PAGES for i, text in enumerate(blocks(page, "toml"))]


@pytest.mark.parametrize("text", [text for _, text in shown()], ids=[name for name, _ in shown()])
def test_every_table_of_the_pages_is_decoded(text: str, tmp_path: Path) -> None:
    path = tmp_path / "shown.toml"
    path.write_text(text)
    table = tomllib.loads(text)
    if "type" in table:
        read_spec(path)
    elif "title" in table:
        assert plan(read_study(path), tmp_path)
    elif set(table) <= {"model", "method", "knowledge"} and "mine:" not in text:
        configure(file=path)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("method", ["auto", "svgd"])
def test_every_preset_is_decoded(preset: str, method: str) -> None:
    assert configure(method, preset).preset == preset
