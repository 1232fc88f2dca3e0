"""`[knowledge]`: what its keys mean, that names survive the way there and back, and what is refused."""

import csv
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bacadi.errors import BacadiError, ConfigError
from bacadi.evidence.collapsed import EffectStates, structure_prior
from bacadi.model.knowledge import Knowledge, Labels
from bacadi.model.model import Model
from bacadi.model.statements import from_section

INF = np.inf
VARIABLES, CONTEXTS = ("geneA", "geneB", "01"), ("ko", "drug, high")
D, M = len(VARIABLES), len(CONTEXTS)

EVERYTHING = """
forbidden = [["geneA", "geneB"]]
required = [["geneB", "01"]]
tiers = [["geneA", "geneB"], ["01"]]
max_parents = 2
edge_log_odds = "edges.csv"
known = { ko = ["geneA"] }
excluded = { ko = ["geneB"] }
candidates = { "drug, high" = ["geneB", "01"] }
target_log_odds = "targets.csv"
target_count = [0.25, 0.5, 0.25]
"""


def read(text: str, folder: Path, **files: str) -> Knowledge:
    for name, content in files.items():
        (folder / f"{name}.csv").write_text(content, encoding="utf-8")
    return from_section(tomllib.loads(text), Labels(VARIABLES, CONTEXTS), folder, "'my.toml'")


def test_every_key(tmp_path: Path) -> None:
    edges = "source,target,log_odds\ngeneA,01,1.5\n\ngeneB, geneA ,-2\n"
    targets = '\ufeffcontext,variable,log_odds\nko,01,0.5\n"drug, high",01,-inf\n'
    known = read(EVERYTHING, tmp_path, edges=edges, targets=targets)
    assert known.edge_log_odds.tolist() == [[0, -INF, 1.5], [-2, 0, INF], [-INF, -INF, 0]]
    assert known.target_log_odds.tolist() == [[INF, -INF, 0.5], [-INF, 0, -INF]]
    assert known.max_parents == 2 and known.target_count_log is not None
    np.testing.assert_allclose(np.exp(known.target_count_log), [[0.25, 0.5, 0.25, 0]] * M)


def test_an_empty_section_knows_nothing(tmp_path: Path) -> None:
    known = read("", tmp_path)
    assert not known.edge_log_odds.any() and not known.target_log_odds.any()
    assert known.max_parents is None and known.target_count_log is None


@pytest.mark.parametrize("mean", [0.3, 1, 2.5])
def test_a_mean_number_of_targets_makes_every_variable_a_target_on_its_own(mean: float, tmp_path: Path) -> None:
    """Binomial(d, mean/d) by scipy, and log p(S) gains logit(mean/d) with every target."""
    known = read(f"target_count = {{ mean = {mean} }}", tmp_path)
    assert known.target_count_log is not None
    np.testing.assert_allclose(known.target_count_log[1], stats.binom.logpmf(range(D + 1), D, mean / D))
    hard = EffectStates(("none", "hard"), np.array([0, 1], np.int8), np.zeros(2), np.zeros(2), np.zeros((M, D)))
    prior = structure_prior(Model(), hard, known)
    log_p = [prior.log_prob_states(np.array([[1] * n + [0] * (D - n), [0] * D], np.int8)) for n in range(D + 1)]
    np.testing.assert_allclose(np.diff(log_p), np.log(mean / (D - mean)))


odds = st.sampled_from([0.0, -INF, INF]) | st.floats(-20, 20)
probabilities = st.lists(st.integers(0, 5), min_size=1, max_size=D + 1).filter(any)


@given(
    st.lists(odds, min_size=D * D, max_size=D * D),
    st.lists(odds, min_size=M * D, max_size=M * D),
    st.none() | st.integers(0, D),
    st.none() | probabilities,
)
def test_what_is_written_under_names_comes_back(
    edge_odds: list[float], target_odds: list[float], limit: int | None, counts: list[int] | None
) -> None:
    """Infinite odds go under the keys for them, finite ones into files; what the arrays refuse is refused here too."""
    edges = np.where(np.eye(D, dtype=bool), 0.0, np.array(edge_odds).reshape(D, D))
    targets = np.array(target_odds).reshape(M, D)
    log_counts = None
    if counts is not None:
        with np.errstate(divide="ignore"):
            log_counts = np.tile(np.log(np.array(counts + [0] * (D + 1 - len(counts))) / sum(counts)), (M, 1))
    try:
        expected = Knowledge(edges, limit, targets, log_counts)
    except ConfigError:
        expected = None
    with TemporaryDirectory() as folder:
        values = written(edges, targets, Path(folder))
        values |= {} if limit is None else {"max_parents": limit}
        values |= {} if counts is None else {"target_count": [count / sum(counts) for count in counts]}
        if expected is None:
            with pytest.raises(ConfigError):
                from_section(values, Labels(VARIABLES, CONTEXTS), Path(folder), "'my.toml'")
            return
        found = from_section(values, Labels(VARIABLES, CONTEXTS), Path(folder), "'my.toml'")
    np.testing.assert_array_equal(found.edge_log_odds, edges)
    np.testing.assert_array_equal(found.target_log_odds, targets)
    assert found.max_parents == limit
    if log_counts is not None and found.target_count_log is not None:
        np.testing.assert_allclose(found.target_count_log, log_counts)
    assert (found.target_count_log is None) == (log_counts is None)


def written(edges: np.ndarray, targets: np.ndarray, folder: Path) -> dict[str, Any]:
    """The mapping, and beside it the files, that stand for the arrays."""

    def table(name: str, header: list[str], rows: tuple[str, ...], cells: np.ndarray) -> str:
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([*header, "log_odds"])
            writer.writerows(
                [rows[i], VARIABLES[j], cells[i, j]] for i, j in np.argwhere(np.isfinite(cells) & (cells != 0))
            )
        return name

    def names(cells: np.ndarray) -> dict[str, list[str]]:
        return {CONTEXTS[k]: [VARIABLES[j] for j in np.flatnonzero(cells[k])] for k in range(M)}

    return {
        "forbidden": [[VARIABLES[i], VARIABLES[j]] for i, j in np.argwhere(np.isneginf(edges))],
        "required": [[VARIABLES[i], VARIABLES[j]] for i, j in np.argwhere(np.isposinf(edges))],
        "known": names(np.isposinf(targets)),
        "excluded": names(np.isneginf(targets)),
        "edge_log_odds": table("edges.csv", ["source", "target"], VARIABLES, edges),
        "target_log_odds": table("targets.csv", ["context", "variable"], CONTEXTS, targets),
    }


BROKEN = [
    ("forbiden = []", ("'forbiden'", "'my.toml'", "did you mean 'forbidden'")),
    ('forbidden = [["genA", "geneB"]]', ("'forbidden'", "variable 'genA'", "did you mean 'geneA'")),
    ('forbidden = ["geneA", "geneB"]', ("pairs", "cause to effect")),
    ('required = [["geneA", "geneB", "01"]]', ("'required'", "pairs")),
    ('required = [["geneA", "geneA"]]', ("'geneA'", "its own cause")),
    ("required = [[1, 2]]", ("holds 1", "in quotes")),
    ('required = [["geneA", "geneB"]]\nforbidden = [["geneA", "geneB"]]', ("'geneA' → 'geneB'", "both required")),
    ('required = [["geneA", "01"]]\ntiers = [["01"], ["geneA"]]', ("'geneA' → '01'", "tiers")),
    ('required = [["geneA", "01"], ["01", "geneA"]]', ("cycle 'geneA' → '01' → 'geneA'",)),
    ('required = [["geneA", "01"]]\nmax_parents = 0', ("'01' 1 parent", "at most 0")),
    ('tiers = [["geneA"], ["geneA"]]', ("'geneA' twice", "one tier")),
    ('tiers = ["geneA"]', ("'tiers'", "list of lists")),
    ("max_parents = -1", ("-1", "at least 0")),
    ("max_parents = true", ("true", "whole number")),
    ("edge_log_odds = 3", ("is 3", "source,target,log_odds")),
    ('edge_log_odds = "none.csv"', ("none.csv", "no such file")),
    ('known = ["geneA"]', ("'known'", "for each context")),
    ('known = { koo = ["geneA"] }', ("context 'koo'", "did you mean 'ko'")),
    ('known = { ko = ["geneA"] }\nexcluded = { ko = ["geneA"] }', ("'geneA' is a known target in context 'ko'",)),
    ('known = { ko = ["geneA", "01"] }\ntarget_count = [0.5, 0.5]', ("context 'ko' 2 targets at least",)),
    ('candidates = { ko = "geneA" }', ("'candidates'", "for each context")),
    ("target_count = [0.5, 0.4]", ("adds up to 0.9",)),
    ("target_count = [1.5, -0.5]", ("[1.5, -0.5]", "probabilities")),
    ("target_count = [0.2, 0.2, 0.2, 0.2, 0.2]", ("beyond the 3 variables",)),
    ("target_count = { mean = 3 }", ("mean 3", "3 variables")),
    ("target_count = { mean = 0 }", ("is 0", "above 0")),
    ("target_count = { median = 1 }", ("{ mean = 1.0 }",)),
]


def refusal(text: str, folder: Path, **files: str) -> str:
    with pytest.raises(BacadiError) as refused:
        read(text, folder, **files)
    message = str(refused.value)
    assert "\n" not in message and message.endswith(".") and "; " in message
    return message


@pytest.mark.parametrize(("text", "expected"), BROKEN, ids=[text for text, _ in BROKEN])
def test_broken_sections_are_refused_in_one_sentence(text: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    message = refusal(text, tmp_path)
    for fragment in expected:
        assert fragment in message


BROKEN_FILES = [
    ("", ("'edges.csv' is empty", "source,target,log_odds")),
    ("source,target\n", ("'source,target'",)),
    ("source,target,log_odds\ngeneA,geneB\n", ("Line 2", "2 values", "names 3")),
    ("source,target,log_odds\n\ngeneA,genB,1\n", ("Line 3", "'genB'", "did you mean 'geneB'")),
    ("source,target,log_odds\ngeneA,geneB,much\n", ("Line 2", "'much'", "-inf to forbid")),
    ("source,target,log_odds\ngeneA,geneB,nan\n", ("'nan'",)),
    ("source,target,log_odds\ngeneA,geneB,1\ngeneA,geneB,2\n", ("Line 3", "differs from line 2")),
    ("source,target,log_odds\ngeneA,geneA,1\n", ("Line 2", "its own cause")),
    ('source,target,log_odds\n"geneA,geneB,1\n', ("'edges.csv'", "quot")),
]


@pytest.mark.parametrize(("content", "expected"), BROKEN_FILES)
def test_broken_files_are_refused_with_their_line(content: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    message = refusal('edge_log_odds = "edges.csv"', tmp_path, edges=content)
    for fragment in expected:
        assert fragment in message


def test_other_files(tmp_path: Path) -> None:
    again = read('edge_log_odds = "edges.csv"', tmp_path, edges="source,target,log_odds\ngeneA,01,1\ngeneA,01,1.0\n")
    assert again.edge_log_odds[0, 2] == 1  # said twice, but the same
    message = refusal('target_log_odds = "targets.csv"', tmp_path, targets="context,variable,log_odds\nwt,01,1\n")
    assert "Line 2" in message and "context 'wt'" in message and "'ko' and 'drug, high'" in message
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in refusal('target_log_odds = "binary.csv"', tmp_path)
