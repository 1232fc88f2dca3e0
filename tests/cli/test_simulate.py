"""`simulate`: the files of a task, that they are read back as they were, and what is refused."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import bacadi
from bacadi.data.tables import from_file
from bacadi.errors import StoreError
from bacadi.model.statements import from_csv
from bacadi.simulate import read_spec, simulate
from bacadi.simulate.files import FILES, decode_spec, read_task

from .conftest import Run
from .test_refusals import assert_refused

SPEC = """# a small task
type = "synthetic"
n_variables = 4
n_observational = 12
{more}
[graph]
type = "erdos-renyi"
edges_per_node = 1
[interventions]
n_contexts = 2
targets_per_context = 2
n_without_effect = 1
rows_per_context = 5
[held_out]
n_contexts = 2
rows_per_context = 3
"""
EXPRESSION = """
type = "expression"
n_variables = 4
[langevin]
time = 0.5
[knock_outs]
n_contexts = 2
[held_out]
n_contexts = 2
rows_per_context = 3
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SPEC.format(more="standardize = true"))
    return path


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def assert_same(truth, task) -> None:
    """Data equal to the last bit, the rest up to the rounding of its way to the units of the tables and back."""
    np.testing.assert_array_equal(truth.graph, task.graph)
    for name in ("data", "held_out"):
        found, expected = getattr(truth, name), getattr(task, name)
        for field in ("x", "context"):
            np.testing.assert_array_equal(getattr(found, field), getattr(expected, field))
        for field in ("variables", "contexts", "observational"):
            assert getattr(found, field) == getattr(expected, field)
        for field in ("shift", "scale"):
            np.testing.assert_array_equal(getattr(found.scaling, field), getattr(expected.scaling, field))
    for name in ("effects", "held_out_effects"):
        for field in ("targets", "keeps_parents", "shift", "std"):
            found, expected = (getattr(getattr(source, name), field) for source in (truth, task))
            np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


def test_files_say_what_was_simulated(run: Run, spec: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "task"
    result = run("simulate", spec, "--seed", 7, "--out", out)
    assert result.exit_code == 0, result.output
    assert {path.name for path in out.iterdir()} == set(FILES)
    for text in ("4 variables", "12 observational rows", "15 rows in 3 contexts", "6 held-out rows", "bacadi fit"):
        assert text in result.stdout
    task, truth = simulate(read_spec(spec), 7), read_task(out)
    assert_same(truth, task)
    np.testing.assert_allclose(truth.weights, task.weights, rtol=1e-14)
    np.testing.assert_allclose(truth.noise_std, task.network.noise_std, rtol=1e-14)
    assert (out / "spec.toml").read_text() == spec.read_text()
    record = json.loads((out / "task.json").read_text())
    assert record["seed"] == 7 and record["bacadi"] == bacadi.__version__
    assert decode_spec(record["spec"], "task.json") == read_spec(spec)


@pytest.mark.parametrize("effect", ["hard", "shift"])
def test_tables_are_in_the_units_of_the_data(effect: str, run: Run, spec: Path, tmp_path: Path) -> None:
    """Rows of a standardised data.csv follow the tables: what they leave over is the noise that was drawn."""
    spec.write_text(SPEC.format(more="standardize = true") + f'[interventions.effect]\ntype = "{effect}"\n')
    run("simulate", spec, "--seed", 2, "--out", tmp_path / "task")
    task, record = simulate(read_spec(spec), 2), json.loads((tmp_path / "task" / "task.json").read_text())
    data, scaling = task.data, task.data.scaling
    weights, drawn = np.zeros((4, 4)), scaling.invert(data.x)
    for row in rows(tmp_path / "task" / "truth_edges.csv"):
        weights[data.variables.index(row["source"]), data.variables.index(row["target"])] = float(row["weight"])
    intercept = (scaling.shift @ task.weights - scaling.shift) / scaling.scale
    expected, std = data.x @ weights + intercept, np.tile(record["noise_std"], (data.n_rows, 1))
    for row in rows(tmp_path / "task" / "truth_effects.csv"):
        cell = np.ix_(data.context == 1 + data.contexts.index(row["context"]), [data.variables.index(row["variable"])])
        expected[cell] = int(row["keeps_parents"]) * expected[cell] + float(row["shift"])
        std[cell] = float(row["std"])
    mean, drawn_std = task.network.conditional(drawn, data.context, task.effects)
    np.testing.assert_allclose((data.x - expected) / std, (drawn - mean) / drawn_std, atol=1e-9)


def test_tables_are_those_of_the_other_commands(run: Run, spec: Path, tmp_path: Path) -> None:
    """data.csv is a table for `fit` and truth_targets.csv is a file for its --targets."""
    spec.write_text(SPEC.format(more=""))
    run("simulate", spec, "--out", tmp_path / "task")
    task = simulate(read_spec(spec), 0)
    data = from_file(tmp_path / "task" / "data.csv", "context", "obs")
    np.testing.assert_allclose(data.x, task.data.x, rtol=1e-14)
    assert data.contexts == task.data.contexts and data.variables == task.data.variables
    np.testing.assert_array_equal(from_csv(tmp_path / "task" / "truth_targets.csv", data), task.targets)
    assert {row["context"] for row in rows(tmp_path / "task" / "truth_targets.csv")} == {"c1", "c2", "c3"}
    edges = {
        (row["source"], row["target"]): float(row["weight"]) for row in rows(tmp_path / "task" / "truth_edges.csv")
    }
    expected = {(f"x{i + 1}", f"x{j + 1}"): task.weights[i, j] for i, j in np.argwhere(task.graph).tolist()}
    assert edges == expected
    assert run("check", tmp_path / "task" / "data.csv", "--context", "context").exit_code == 0


def test_equal_seeds_give_equal_files_and_a_new_task_replaces_the_old(run: Run, spec: Path, tmp_path: Path) -> None:
    for folder, seed in (("a", 1), ("b", 2), ("b", 1)):
        assert run("simulate", spec, "--seed", seed, "--out", tmp_path / folder, "--overwrite").exit_code == 0
    assert_refused(run("simulate", spec, "--out", tmp_path / "b"), "data.csv' exists", "--overwrite")
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_gene_expression(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "genes.toml"
    path.write_text(EXPRESSION)
    result = run("simulate", path, "--out", tmp_path / "task")
    assert result.exit_code == 0, result.output
    task, truth = simulate(read_spec(path), 0), read_task(tmp_path / "task")
    assert_same(truth, task)
    assert truth.weights is None and truth.noise_std is None
    strengths = [float(row["weight"]) for row in rows(tmp_path / "task" / "truth_edges.csv")]
    np.testing.assert_array_equal(strengths, task.network.strengths[task.graph == 1])


def test_mechanisms_without_weights_leave_them_empty(run: Run, spec: Path, tmp_path: Path) -> None:
    spec.write_text(SPEC.format(more="") + '[mechanism]\ntype = "neural"\n[held_out.effect]\ntype = "soft"\n')
    assert run("simulate", spec, "--out", tmp_path / "task").exit_code == 0
    truth = read_task(tmp_path / "task")
    assert truth.weights is None and truth.noise_std is not None
    assert {row["weight"] for row in rows(tmp_path / "task" / "truth_edges.csv")} == {""}
    assert truth.held_out_effects.keeps_parents[truth.held_out_targets == 1].all()


def test_a_task_without_observational_rows(run: Run, spec: Path, tmp_path: Path) -> None:
    spec.write_text(SPEC.format(more="").replace("n_observational = 12", "n_observational = 0"))
    result = run("simulate", spec, "--out", tmp_path / "task")
    assert result.exit_code == 0 and "--observational" not in result.stdout
    truth = read_task(tmp_path / "task")
    assert truth.data.observational is None and truth.data.counts.tolist() == [0, 5, 5, 5]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n_varables = 3", ("'n_varables'", "'small.toml'")),
        ("n_observational = -1", ("'small.toml'", "n_observational")),
        ('[noise]\nlow = "little"', ("'low' of section [noise]", "'small.toml'")),
    ],
)
def test_bad_specifications_leave_nothing(text: str, expected: tuple[str, ...], run: Run, tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text('type = "synthetic"\n' + text + "\n")
    assert_refused(run("simulate", path, "--out", tmp_path / "task"), *expected)
    assert not (tmp_path / "task").exists()


def test_other_refusals(run: Run, spec: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "task")
    assert_refused(run("simulate", spec), "--out DIR")
    assert_refused(run("simulate", tmp_path / "none.toml", *out), "none.toml")
    assert_refused(run("simulate", spec, "--seed", -1, *out), "--seed is -1")
    assert_refused(run("simulate", spec, "--out", spec), "is a file")
    spec.write_text('type = "synthetic"\nn_observational = 0\n[interventions]\nrows_per_context = 0\n')
    assert_refused(run("simulate", spec, *out), "'small.toml'", "without rows", "rows_per_context")
    spec.write_text('type = "synthetic"\nn_observational = 0\n[interventions]\nn_contexts = 0\n')
    assert_refused(run("simulate", spec, *out), "'small.toml'", "without rows", "n_observational")
    spec.write_text('type = "synthetic"\n[mechanism]\ntype = "linear"\nweight_high = 1e150\n')
    assert_refused(run("simulate", spec, *out), "'small.toml'", "too large")
    spec.write_text('type = "synthetic"\nn_observational = 1000000000000000\n')
    assert_refused(run("simulate", spec, *out), "'small.toml'", "1000000000 at most")
    spec.write_text(EXPRESSION.replace("n_contexts = 2\nrows", "n_contexts = 9\nrows"))
    assert_refused(run("simulate", spec, *out), "'small.toml'", "9 held-out contexts")
    assert not (tmp_path / "task").exists()


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("task.json", '"seed"', '"sed"', "damaged"),
        ("task.json", "{", "[", "damaged"),
        ("truth_edges.csv", "source", "sauce", "Line 1"),
        ("truth_targets.csv", "c2,", "c9,", "'c9'"),
        ("truth_effects.csv", "c1,x", "c1,y", "Line 2"),
        ("data.csv", ",obs", ",1,obs", "Line 2"),
        ("held_out.csv", ",c1", "e-e,c1", "for a number"),
    ],
)
def test_damaged_folders_are_refused(
    name: str, old: str, new: str, expected: str, run: Run, spec: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "task"
    run("simulate", spec, "--out", folder)
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))
    with pytest.raises(StoreError) as refusal:
        read_task(folder)
    assert name in str(refusal.value) and expected in str(refusal.value) and str(refusal.value).endswith(".")


def test_incomplete_folders_are_refused(run: Run, spec: Path, tmp_path: Path) -> None:
    folder = tmp_path / "task"
    run("simulate", spec, "--out", folder)
    (folder / "held_out.csv").unlink()
    with pytest.raises(StoreError, match=r"held_out\.csv' cannot be read"):
        read_task(folder)
    (folder / "task.json").unlink()
    with pytest.raises(StoreError, match="no complete task"):
        read_task(folder)
    with pytest.raises(StoreError, match="is no folder"):
        read_task(tmp_path / "none")


def test_a_task_that_could_not_be_written_whole_is_not_taken_for_one(run: Run, spec: Path, tmp_path: Path) -> None:
    folder = tmp_path / "task"
    run("simulate", spec, "--out", folder)
    (folder / "held_out.csv").unlink()
    (folder / "held_out.csv").mkdir()
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert_refused(run("simulate", spec, "--seed", 1, "--out", folder, "--overwrite"), "held_out.csv", "is a folder")
    assert before == {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
