"""The worked cases: what they print about data they made is true of these data.

Seeds are fixed, so that nothing here fails by chance; each effect is several standard deviations large.
"""

import re
from importlib import import_module
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)


def named(table, first: str, second: str, threshold: float = 0.5) -> set[tuple[str, str]]:
    likely = table[table["probability"] > threshold]
    return set(zip(likely[first], likely[second], strict=True))


@pytest.mark.parametrize("name", ["flow_cytometry", "perturbation_screen", "root_cause"])
def test_a_case_is_short(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 60


def test_flow_cytometry(capsys, tmp_path: Path) -> None:
    case = import_module("flow_cytometry")
    posterior = case.main()
    assert named(posterior.edges(), "source", "target") == case.EDGES
    assert named(posterior.targets(), "context", "variable") == case.TARGETS
    said = capsys.readouterr().out
    assert "5 of the 5 true edges are found, 0 others are named" in said and "U0126 hit Mek" in said
    low, high = map(float, re.search(r"changes Erk by .* interval (\S+) to (\S+)\)", said).groups())
    assert low < 0.8**3 < high  # the product of the weights along PKC → Raf → Mek → Erk
    path = tmp_path / "mine.csv"
    case.simulated(cells=20).assign(id=range(80)).rename(columns={"condition": "arm"}).to_csv(path, index=False)
    assert "id" not in case.main(str(path), "arm", "id").variables and "true edges" not in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")
def test_perturbation_screen(capsys) -> None:
    anndata = pytest.importorskip("anndata")
    case = import_module("perturbation_screen")
    posterior, adata = case.main()
    chain = {(f"G{k}", f"G{k + 1}") for k in range(7)}
    assert named(posterior.edges(), "source", "target", 0.9) == chain
    own = {(f"G{k}", f"G{k}") for k in range(8)}
    assert named(posterior.targets(), "context", "variable") == own | {case.OFF_TARGET}
    said = capsys.readouterr().out
    assert said.count("its own gene") == 8 and said.count("an off-target") == 1
    assert re.search(r"G3 hit G3 \S+ G6 \S+ directly; .*G4 .*moved only downstream", said)
    back = anndata.read_h5ad("screen_with_results.h5ad")
    i, j = (adata.var_names.get_loc(name) for name in ("G0", "G1"))
    assert back.varp["bacadi_edges"][i, j] > 0.9 and back.uns["bacadi"]["verdict"] == posterior.verdict()


@pytest.mark.filterwarnings("ignore")
def test_root_cause(capsys) -> None:
    case = import_module("root_cause")
    posterior = case.main()
    assert named(posterior.targets(), "context", "variable") == {("incident", case.CAUSE)}
    said = capsys.readouterr().out
    assert f"changed: the mechanism of {case.CAUSE} (100 %)" in said
    assert said.count(" hit directly ") == 1 and said.count(" moved only downstream ") == 2
    assert "3 of 6 variables are unchanged" in said
