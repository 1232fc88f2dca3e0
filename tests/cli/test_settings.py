"""Settings: what is refused and how, which layer wins, and that building them twice gives the same program."""

import json
from dataclasses import fields
from pathlib import Path

import equinox as eqx
import pytest
from bacadi.inference.configuration import configuration

from bacadi.errors import ConfigError
from bacadi.inference.svgd.method import SVGD
from bacadi.model.model import Model
from bacadi.settings import MECHANISMS, PRESETS, Settings, build, resolve, restored
from bacadi.settings.rules import REFUSED
from bacadi.settings.schema import SECTIONS, checked, rule_of


def written(folder: Path, text: str) -> Path:
    path = folder / "my.toml"
    path.write_text(text)
    return path


def test_defaults_are_those_of_the_classes() -> None:
    model, method = build(Settings())
    assert configuration(model) == configuration(Model()) and configuration(method) == configuration(SVGD())


@pytest.mark.parametrize(("preset", "mechanism"), PRESETS)
def test_presets_are_valid_and_build_alike_twice(preset: str, mechanism: str) -> None:
    checked(PRESETS[preset, mechanism], "the preset")
    settings = resolve(preset, flags={"--model": mechanism}, method="svgd")
    assert settings == resolve(preset, flags={"--model": mechanism}, method="svgd")
    assert eqx.tree_equal(build(settings), build(settings))
    steps = {"improved": 1000, "authors": 2000 if mechanism == "bge" else 3000}
    assert settings.svgd.steps == steps.get(preset, 2000)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_settings_survive_json(mechanism: str) -> None:
    settings = resolve("authors", flags={"--model": mechanism}, method="svgd")
    assert restored(json.loads(json.dumps(settings.to_dict())), "x", "svgd", "authors") == settings


def test_default_values_obey_their_own_rules() -> None:
    for section, cls in SECTIONS.items():
        for entry in fields(cls):
            assert rule_of(section, entry.name).read(entry.default) is not REFUSED, entry.name


def test_flags_win_over_file_over_preset_over_defaults(tmp_path: Path) -> None:
    file = written(tmp_path, "[svgd]\nsteps = 7\nparticles = 5\n[model]\nmechanism = 'bge'\n")
    settings = resolve("authors", file, {"--particles": 3, "--steps": None}, "svgd")
    assert (settings.model.mechanism, settings.svgd.steps, settings.svgd.particles) == ("bge", 7, 3)
    assert settings.svgd.estimator == "blockwise" and settings.svgd.learning_rate == 0.005
    assert resolve("paper", file, {"--model": "linear"}, "svgd").model.mechanism == "linear"


def test_every_choice_can_be_built(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        [model]
        mechanism = "nonlinear"
        noise_std = "inferred"
        hidden = [4, 3]
        activation = "tanh"
        effect = "soft"
        graph_prior = "sf"
        exponent = 2
        z_std = 0.5
        [svgd]
        estimator = "marginal"
        optimizer = "adam"
        kernel = "product"
        kernel_terms = 3
        bandwidth_z = "median"
        acyclicity = "sampled"
        weights = "uniform"
        reading = "finite"
        reading_draws = 3
        latent_dim = 2
        double = true
        """,
    )
    model, method = build(resolve(file=file, method="svgd"))
    assert model.mechanism.hidden == (4, 3) and model.latent_prior.z_std == 0.5 and model.graph_prior.exponent == 2.0
    assert method.kernel.bandwidths.z is None and method.reading.n_draws == 3 and method.latent_dim == 2
    assert eqx.tree_equal((model, method), build(resolve(file=file, method="svgd")))


BROKEN = [
    ("[svgd]\npartcles = 3\n", ("'partcles'", "[svgd]", "'my.toml'", "did you mean 'particles'")),
    ("[model]\nsteps = 3\n", ("'steps'", "belongs in the section [svgd]")),
    ("steps = 3\n", ("'steps'", "no section", "[svgd]")),
    ("[svdg]\nsteps = 3\n", ("'svdg'", "did you mean 'svgd'")),
    ("[svgd]\nsteps = 0\n", ("'steps'", "is 0", "at least 1")),
    ("[svgd]\nsteps = 2.5\n", ("'steps'", "2.5", "whole number")),
    ("[svgd]\nsteps = true\n", ("'steps'", "true", "whole number")),
    ("[svgd]\nsteps = 'many'\n", ("'steps'", "'many'")),
    ("[svgd]\nlearning_rate = nan\n", ("'learning_rate'", "nan", "above 0")),
    ("[svgd]\nbandwidth_z = 'mean'\n", ("'bandwidth_z'", "'mean'", '"median"')),
    ("[svgd]\nkernel_terms = 5\n", ("'kernel_terms'", "one of 3, 4")),
    ("[svgd]\ndouble = 1\n", ("'double'", "true or false")),
    ("[model]\nmechanism = 'lineal'\n", ("'mechanism'", "'lineal'", "linear, nonlinear, bge")),
    ("[model]\nnoise_std = -1\n", ("'noise_std'", "-1", "above 0")),
    ("[model]\nmechanism = 'nonlinear'\nhidden = [0]\n", ("'hidden'", "[0]", "[5]")),
    ("[model]\nhidden = [5]\n", ("'hidden'", "no effect", "mechanism = linear", "nonlinear")),
    ("[model]\nmechanism = 'bge'\neffect = 'soft'\n", ("soft", "bge")),
    ("model = 3\n", ("'model'", "no section")),
    ("[svgd\nsteps = 3\n", ("'my.toml'", "not TOML", "line 1")),
]


@pytest.mark.parametrize(("text", "expected"), BROKEN, ids=[text.strip() for text, _ in BROKEN])
def test_broken_files_are_refused_in_one_sentence(text: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        resolve(file=written(tmp_path, text), method="svgd")
    message = str(refusal.value)
    assert "\n" not in message and message.endswith(".") and ". " not in message
    for fragment in expected:
        assert fragment in message


def test_other_refusals(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no configuration file"):
        resolve(file=tmp_path / "none.toml")
    with pytest.raises(ConfigError, match=r"no preset 'papr' \(did you mean 'paper'\?\)"):
        resolve("papr")
    with pytest.raises(ConfigError, match=r"--particles is 0; give a whole number"):
        resolve(flags={"--particles": 0}, method="svgd")
    with pytest.raises(ConfigError, match=r"--model is 'linea' \(did you mean 'linear'\?\)"):
        resolve(flags={"--model": "linea"})
