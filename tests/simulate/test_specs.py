"""Specifications as TOML: what they stand for, that nothing is lost on the way, and what is refused and how."""

import json
import tomllib
from dataclasses import fields, replace
from inspect import isabstract
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bacadi.benchmark.study import read_study
from bacadi.config.codec import encode, load
from bacadi.config.layers import configure
from bacadi.config.names import NAMES
from bacadi.errors import ConfigError
from bacadi.simulate import (
    HeldOut,
    Interventions,
    LinearTruth,
    NeuralTruth,
    RandomErdosRenyi,
    RandomScaleFree,
    Shift,
    SyntheticSpec,
    read_spec,
    simulate,
)
from bacadi.simulate.expression import GeneExpressionSpec
from bacadi.simulate.files import decode_spec
from bacadi.simulate.grn import Dropout, MoleculeCounts
from bacadi.simulate.synthetic import Hard, UniformNoise

ROOT = Path(__file__).parents[2]
TASKS = sorted((ROOT / "studies" / "tasks").glob("*.toml"))
CHOICES = {
    load(group): {name: load(path) for name, path in names.items()}
    for group, names in NAMES.items()
    if group.startswith("bacadi.simulate.")
}
KINDS = CHOICES.pop(load("bacadi.simulate.task:AbstractSpec"))
EFFECTS = CHOICES[load("bacadi.simulate.synthetic:AbstractTrueEffect")]
PAPER = {
    "linear-er": SyntheticSpec(),
    "linear-sf": SyntheticSpec(graph=RandomScaleFree()),
    "nonlinear-er": SyntheticSpec(mechanism=NeuralTruth()),
    "nonlinear-sf": SyntheticSpec(graph=RandomScaleFree(), mechanism=NeuralTruth()),
    "linear-er-50": SyntheticSpec(50, n_observational=200, interventions=Interventions(rows_per_context=20)),
    "linear-er-100": SyntheticSpec(100, n_observational=200, interventions=Interventions(rows_per_context=20)),
    "linear-sf-50": SyntheticSpec(
        50, RandomScaleFree(), n_observational=200, interventions=Interventions(rows_per_context=20)
    ),
    "linear-er-more-data": SyntheticSpec(n_observational=200, interventions=Interventions(rows_per_context=20)),
    "nonlinear-er-more-data": SyntheticSpec(
        mechanism=NeuralTruth(), n_observational=200, interventions=Interventions(rows_per_context=20)
    ),
    "expression-sf": GeneExpressionSpec(standardize=True),
    "two-targets-a-third-untouched": SyntheticSpec(
        interventions=Interventions(n_contexts=7, targets_per_context=2, rows_per_context=30)
    ),
}


def written(folder: Path, text: str) -> Path:
    path = folder / "my.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_paper_like_tasks_are_there() -> None:
    assert set(PAPER) <= {path.stem for path in TASKS}


@pytest.mark.parametrize("name", PAPER)
def test_a_ready_file_says_what_the_paper_does(name: str) -> None:
    """The objects are written out by hand from the paper, in terms of defaults that tests/simulate checks."""
    assert read_spec(next(path for path in TASKS if path.stem == name)) == PAPER[name]


def test_every_toml_file_of_the_repository_can_be_read() -> None:
    """Specifications of tasks have the key `type` at the top, studies a title, configurations of a fit neither."""
    files = [path for folder in ("studies", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.toml")]
    specs = [path for path in files if "type" in tomllib.loads(path.read_text(encoding="utf-8"))]
    assert len(specs) == len(TASKS) + 1 and len(files) > len(specs)
    for path in files:
        if path in specs:
            assert decode_spec(encode(read_spec(path)), "here") == read_spec(path)
        elif "title" in tomllib.loads(path.read_text(encoding="utf-8")):
            assert read_study(path).tasks
        else:
            assert configure(file=path).model is not None


@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
def test_every_ready_file_makes_a_task(path: Path) -> None:
    spec = read_spec(path)
    if isinstance(spec, GeneExpressionSpec):  # the same task in less time: fewer cells, followed for less long
        spec = replace(spec, langevin=replace(spec.langevin, time=1.0), held_out=replace(spec.held_out, n_contexts=2))
    task = simulate(spec, seed=3)
    assert np.isfinite(task.data.x).all() and np.isfinite(task.held_out.x).all()
    assert task.data.n_variables == spec.n_variables and task.data.counts[0] == spec.n_observational


def test_two_targets_leave_a_third_untouched() -> None:
    targets = simulate(PAPER["two-targets-a-third-untouched"], seed=0).targets
    assert targets.sum(axis=1).tolist() == [2] * 7 and (targets.sum(axis=0) == 0).sum() == 6


def test_more_data_share_the_network_of_the_task_they_extend() -> None:
    few, many = (simulate(PAPER[name], seed=5) for name in ("linear-er", "linear-er-more-data"))
    np.testing.assert_array_equal(few.weights, many.weights)
    np.testing.assert_array_equal(few.effects.shift, many.effects.shift)


def test_a_key_that_is_absent_takes_its_default(tmp_path: Path) -> None:
    assert read_spec(written(tmp_path, 'type = "synthetic"\n')) == SyntheticSpec()
    assert read_spec(written(tmp_path, '\ufefftype = "expression"\n')) == GeneExpressionSpec()


def test_lists_of_sections_keep_their_order(tmp_path: Path) -> None:
    text = (
        'type = "expression"\n[[technical_noise]]\ntype = "dropout"\nshape = 2\n[[technical_noise]]\ntype = "counts"\n'
    )
    assert read_spec(written(tmp_path, text)).technical_noise == (Dropout(shape=2.0), MoleculeCounts())


def test_auto_stands_for_none() -> None:
    values = {"type": "expression", "knock_outs": {"n_contexts": "auto"}, "langevin": {"knock_out_time": 0.5}}
    spec = decode_spec(values, "here")
    assert spec.knock_outs.n_contexts is None and spec.langevin.knock_out_time == 0.5
    assert decode_spec(values | {"langevin": {"knock_out_time": "auto"}}, "here").langevin.knock_out_time is None


@given(
    d=st.integers(6, 9),
    graph=st.sampled_from([RandomErdosRenyi(1.5), RandomErdosRenyi(0), RandomScaleFree(3)]),
    mechanism=st.sampled_from([LinearTruth(0.1, 0.2), NeuralTruth(3, 0.5)]),
    low=st.floats(0.01, 1),
    counts=st.tuples(st.none() | st.integers(0, 4), *[st.integers(0, 3)] * 3),
    effect=st.sampled_from([effect() for effect in EFFECTS.values()]),
    standardize=st.booleans(),
)
def test_values_and_specification_are_each_others_inverse(
    d, graph, mechanism, low, counts, effect, standardize
) -> None:
    spec = SyntheticSpec(
        d,
        graph,
        mechanism,
        UniformNoise(low, 2 * low),
        Interventions(*counts, effect=effect),
        HeldOut(effect=effect),
        standardize=standardize,
    )
    assert decode_spec(json.loads(json.dumps(encode(spec))), "here") == spec


def test_every_field_of_every_kind_can_be_read() -> None:
    """All defaults of all options, written out and read again: a field whose type has no rule would show."""
    for kind, cls in KINDS.items():
        spec = cls()
        assert encode(spec)["type"] == kind and decode_spec(encode(spec), "here") == spec
        for entry in fields(cls):
            for options in CHOICES.values():
                if any(isinstance(getattr(spec, entry.name), option) for option in options.values()):
                    for option in options.values():
                        changed = replace(spec, **{entry.name: option()})
                        assert decode_spec(encode(changed), "here") == changed


def test_every_concrete_choice_has_a_name() -> None:
    for interface, options in CHOICES.items():
        assert set(options.values()) == {cls for cls in interface.__subclasses__() if not isabstract(cls)}


SYNTHETIC, EXPRESSION = 'type = "synthetic"\n', 'type = "expression"\n'
BROKEN: list[tuple[str, tuple[str, ...]]] = [
    ("n_variables = 5\n", ("no key 'type'", "synthetic, expression")),
    ('type = "synthetc"\n', ("'type'", "'synthetc'", "did you mean 'synthetic'")),
    ("type = 3\n", ("'type'", "is 3", "one of")),
    (SYNTHETIC + "n_varables = 5\n", ("'n_varables'", "did you mean 'n_variables'")),
    (SYNTHETIC + "n_variables = 5.5\n", ("'n_variables'", "5.5", "whole number")),
    (SYNTHETIC + "n_variables = true\n", ("'n_variables'", "true", "whole number")),
    (SYNTHETIC + "n_variables = 0\n[graph]\ntype = 'scale-free'\n", ("'n_variables'", "is 0", "at least 1")),
    (SYNTHETIC + "n_variables = 100000000000\n", ("'n_variables'", "1000000000 at most")),
    (SYNTHETIC + "n_variables = 1000000000\n", ("1000000000 variables", "memory")),
    (SYNTHETIC + "n_variables = 5\nn_variables = 6\n", ("not TOML", "line 3")),
    (SYNTHETIC + "graph = {}\n", ("[graph]", "no key 'type'")),
    (SYNTHETIC + "n_observational = -3\n", ("'n_observational'", "-3", "at least 0")),
    (SYNTHETIC + "standardize = 1\n", ("'standardize'", "true or false")),
    (SYNTHETIC + "graph = 'scalefree'\n", ("'type'", "[graph]", "did you mean 'scale-free'")),
    (SYNTHETIC + "graph = 3\n", ("[graph]", "no key 'type'")),
    (SYNTHETIC + "[graph]\nedges_per_node = 1\n", ("[graph]", "no key 'type'", "erdos-renyi, scale-free")),
    (SYNTHETIC + "[graph]\ntype = 'scalefree'\n", ("'type'", "[graph]", "did you mean 'scale-free'")),
    (SYNTHETIC + "[graph]\ntype = 'erdos-renyi'\nedges_per_node = 50\n", ("'edges_per_node'", "[graph]", "50", "9.5")),
    (SYNTHETIC + "[graph]\ntype = 'erdos-renyi'\nedges_per_node = -1\n", ("'edges_per_node'", "[graph]", "-1")),
    (SYNTHETIC + "n_variables = 2\n[graph]\ntype = 'scale-free'\n", ("'edges_per_node'", "n_variables = 2")),
    (EXPRESSION + "n_variables = 2\n", ("'edges_per_node'", "[graph]")),
    (SYNTHETIC + "[mechanism]\ntype = 'neural'\nhidden = 0\n", ("'hidden'", "[mechanism]", "at least 1")),
    (SYNTHETIC + "[mechanism]\ntype = 'linear'\nhidden = 5\n", ("'hidden'", "[mechanism]", "'weight_low'")),
    (SYNTHETIC + "[noise]\nlow = 0.3\nhigh = 0.1\n", ("[noise]", "low <= high")),
    (SYNTHETIC + "[noise]\nlow = nan\n", ("'low'", "[noise]", "nan")),
    (SYNTHETIC + "[interventions]\nrows_per_context = -1\n", ("'rows_per_context'", "[interventions]", "-1")),
    (SYNTHETIC + "[interventions]\ntargets_per_context = 21\n", ("21 targets per context", "20")),
    (SYNTHETIC + "[interventions.effect]\ntype = 'shfit'\n", ("[interventions.effect]", "did you mean 'shift'")),
    (
        SYNTHETIC + "[interventions.effect]\ntype = 'hard'\nvariance = -1\n",
        ("'variance'", "[interventions.effect]", "above 0"),
    ),
    (SYNTHETIC + "[interventions]\neffects = 3\n", ("'effects'", "did you mean 'effect'")),
    (SYNTHETIC + "[[held_out]]\nn_contexts = 3\n", ("'held_out'", "[held_out]")),
    (EXPRESSION + "[technical_noise]\ntype = 'counts'\n", ("'technical_noise'", "list of tables")),
    (EXPRESSION + "[[technical_noise]]\ntype = 'drop'\n", ("[technical_noise.1]", "'drop'")),
    (EXPRESSION + "[mechanism]\ntype = 'linear'\n", ("'mechanism'", "not known")),
    ("type = synthetic\n", ("'my.toml'", "not TOML", "line 1")),
]


@pytest.mark.parametrize(("text", "expected"), BROKEN, ids=[text.strip().replace("\n", " ") for text, _ in BROKEN])
def test_broken_files_are_refused_in_one_sentence(text: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        read_spec(written(tmp_path, text))
    message = str(refusal.value)
    assert "'my.toml'" in message and "\n" not in message and message.endswith(".") and ". " not in message
    for fragment in expected:
        assert fragment in message


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"There is no specification .*none\.toml"):
        read_spec(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_spec(tmp_path)
    path = tmp_path / "latin.toml"
    path.write_bytes('type = "müll"'.encode("latin-1"))
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        read_spec(path)


def test_ready_files_name_nothing_twice_and_need_no_default_of_ours() -> None:
    """What a reader of the file sees is what the task is: every key of graph, mechanism, noise and effect is given."""
    for path in TASKS:
        given: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        full = encode(read_spec(path))
        for section in ("graph", "mechanism", "noise", "regulation", "cell_types", "langevin"):
            assert given.get(section, {}).keys() == full.get(section, {}).keys(), (path.name, section)


def test_hard_and_shift_differ_only_in_their_section() -> None:
    hard, shift = (read_spec(TASKS[0].with_name(f"{name}.toml")) for name in ("linear-er", "linear-er-shift"))
    assert hard.interventions.effect == Hard() and shift.interventions.effect == Shift()
    assert replace(shift, interventions=hard.interventions) == hard


def test_the_page_of_tasks_names_every_key_type_and_ready_file() -> None:
    page = (TASKS[0].parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")

    def names(values: dict[str, Any]) -> set[str]:
        below = [names(value) for value in values.values() if isinstance(value, dict)]
        return {key for key, value in values.items() if not isinstance(value, dict | list)}.union(*below)

    keys = set().union(*(names(encode(cls())) for cls in KINDS.values()))
    keys |= {entry.name for options in CHOICES.values() for cls in options.values() for entry in fields(cls)}
    assert not {key for key in keys if f"`{key}`" not in page and f"`{key} = " not in page}
    types = {name for options in (*CHOICES.values(), KINDS) for name in options}
    assert not {name for name in types if f'"{name}"' not in page}
    assert not {path.stem for path in TASKS if f"`{path.stem}`" not in page}
