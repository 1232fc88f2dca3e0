"""Methods and their sections: what `auto` picks, which preset goes with what, which keys and flags are idle."""

import json
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np
import pytest
from bacadi.inference.configuration import configuration
from bacadi.model.effect import EffectMixture, ScaleGaussian, ShiftGaussian, SoftGaussian

from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError
from bacadi.inference.exact import Exact
from bacadi.inference.fit import default_method, default_model, fit
from bacadi.inference.mcmc.method import MCMC
from bacadi.inference.svgd.method import SVGD
from bacadi.model.gaussian_process import GaussianProcess
from bacadi.model.model import Model
from bacadi.model.neural import OWN_UNIT_SCALES
from bacadi.settings import (
    BASELINES,
    METHODS,
    PRESET_NAMES,
    PRESETS,
    ModelSettings,
    Settings,
    build,
    build_baseline,
    resolve,
    restored,
)
from bacadi.settings.flags import FLAGS
from bacadi.settings.knowledge import _READERS
from bacadi.settings.methods import decided
from bacadi.settings.objects_baselines import CLASSES
from bacadi.settings.objects_model import build_model
from bacadi.settings.schema import SECTIONS


def written(folder: Path, text: str) -> Path:
    path = folder / "my.toml"
    path.write_text(text)
    return path


def refused(*arguments: Any, **named: Any) -> str:
    with pytest.raises(ConfigError) as refusal:
        resolve(*arguments, **named)
    message = str(refusal.value)
    assert "\n" not in message and message.endswith(".") and ". " not in message
    return message


def test_the_default_preset_is_the_default_model() -> None:
    model, method = build(resolve())
    assert configuration(model) == configuration(default_model()) and method == MCMC()
    assert configuration(build(resolve("default"))[0]) == configuration(default_model())


@pytest.mark.parametrize("mechanism", ["linear", "nonlinear", "bge"])
def test_the_default_preset_depends_on_no_scale(mechanism: str) -> None:
    model, _ = build(resolve(flags={"--model": mechanism}))
    assert model.own_units and configuration(model.effect) == configuration(default_model().effect)
    if mechanism == "nonlinear":
        assert (model.mechanism.noise.shape, model.mechanism.noise.scale) == (1.0, 0.5)


def test_presets_by_method() -> None:
    assert resolve(method="svgd").preset == "paper" and resolve(method="exact").preset == "default"
    assert all(resolve(method=method).preset is None for method in BASELINES)
    model, method = build(resolve("paper", method="mcmc"))
    assert configuration(model) == configuration(Model()) and method == MCMC()


@pytest.mark.parametrize(("preset", "mechanism"), PRESETS)
@pytest.mark.parametrize("method", ["svgd", "mcmc", "exact"])
def test_every_preset_goes_with_every_method(preset: str, mechanism: str, method: str) -> None:
    settings = resolve(preset, flags={"--model": mechanism}, method=method)
    again = restored(json.loads(json.dumps(settings.to_dict())), "x", method, preset)
    assert again == settings and eqx.tree_equal(build(settings)[0], build(again)[0])


@pytest.mark.parametrize("method", METHODS)
def test_the_record_holds_what_the_method_reads(method: str) -> None:
    sections = resolve(method=method).to_dict()
    assert method in sections and ("model" in sections) != ("bootstrap" in sections) and len(sections) == 2


@pytest.mark.parametrize("effect", ["hard", "soft", "shift", "scale", "any"])
@pytest.mark.parametrize(
    "chosen",
    [
        {"mechanism": "linear"},
        {"mechanism": "bge"},
        {"mechanism": "nonlinear"},
        {"mechanism": "nonlinear", "hidden": (3,), "noise_std": "inferred"},
        {"mechanism": "nonlinear", "hidden": (3, 3)},
        {"mechanism": "nonlinear", "hidden": ()},
        {"mechanism": "nonlinear", "activation": "tanh"},
        {"mechanism": "nonlinear", "kernel": "rbf"},
        {"mechanism": "nonlinear", "kernel": "additive", "noise_std": "inferred"},
    ],
    ids=str,
)
def test_auto_is_the_default_method(chosen: dict[str, Any], effect: str) -> None:
    settings = ModelSettings(**chosen, effect=effect)
    kinds = {"svgd": SVGD, "mcmc": MCMC}
    assert type(default_method(build_model(settings))) is kinds[decided("auto", settings)]


def test_auto_falls_back_to_svgd(tmp_path: Path) -> None:
    file = written(tmp_path, "[model]\nmechanism = 'nonlinear'\nhidden = [4, 4]\n[svgd]\nsteps = 3\n")
    settings = resolve(file=file, flags={"--particles": 2})
    assert (settings.method, settings.svgd.steps, settings.svgd.particles) == ("svgd", 3, 2)
    assert "auto chose" in refused(file=file, flags={"--sweeps": 2})


def test_defaults_of_the_sections_are_those_of_the_classes() -> None:
    assert build(Settings("mcmc"))[1] == MCMC() and build(Settings("exact"))[1] == Exact()
    for method in BASELINES:
        section = Settings(method, None).section(method)
        assert set(asdict(section)) == {entry.name for entry in fields(CLASSES[method])}
        bootstrap = build_baseline(Settings(method, None))
        assert bootstrap.baseline == CLASSES[method]() and bootstrap.n_samples == (5 if method == "dcdi-g" else 20)
        for entry in fields(type(bootstrap)):
            if entry.default is not MISSING and entry.name != "n_samples":
                assert getattr(bootstrap, entry.name) == entry.default


def test_every_choice_of_the_collapsed_methods_can_be_built(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """
        [model]
        mechanism = "nonlinear"
        kernel = "additive"
        lengthscales = [0.5, 3]
        units = "own"
        noise_std = "inferred"
        noise_shape = 2
        effect = "any"
        shift_std = 2
        scale_ratios = [0.1, 9]
        shares = [0.4, 0.3, 0.2, 0.1]
        effect_noise_std = 0.3
        [mcmc]
        draws = 10
        replicas = 3
        sweeps = 11
        time_budget = 9.5
        burn_in = 0.3
        levels = 5
        max_temperature = 50
        moves_per_sweep = 6
        max_parents = 2
        move_swap_target = 0
        """,
    )
    model, method = build(resolve("paper", file))
    assert isinstance(model.mechanism, GaussianProcess) and model.own_units
    assert [kernel.lengthscale for kernel in model.mechanism.kernels] == [0.5, 3.0]
    assert isinstance(model.effect, EffectMixture) and model.effect.shares == (0.4, 0.3, 0.2, 0.1)
    assert isinstance(model.effect.effects[1], ShiftGaussian) and model.effect.effects[1].prior_std == 2
    assert isinstance(model.effect.effects[2], ScaleGaussian) and model.effect.effects[2].ratios == (0.1, 9.0)
    assert isinstance(model.effect.effects[3], SoftGaussian)
    assert (method.n_draws, method.n_replicas, method.n_sweeps, method.time_budget) == (10, 3, 11, 9.5)
    assert (method.n_levels, method.max_temperature, method.moves_per_sweep, method.max_parents) == (5, 50, 6, 2)
    assert method.weights.swap_target == 0 and method.weights.toggle == 4 and method.burn_in == 0.3


def test_every_choice_of_a_baseline_can_be_built(tmp_path: Path) -> None:
    text = (
        "[bootstrap]\nsamples = 3\nweights = 'uniform'\nmax_retries = 0\n[jci-pc]\nalpha = 0.1\nmax_conditioning = 1\n"
    )
    settings = resolve(file=written(tmp_path, text), flags={"--jobs": 2}, method="jci-pc")
    bootstrap = build_baseline(settings)
    assert (bootstrap.n_samples, bootstrap.max_retries, settings.bootstrap.jobs) == (3, 0, 2)
    assert (bootstrap.baseline.alpha, bootstrap.baseline.max_conditioning) == (0.1, 1)


def test_scales_are_chosen_in_own_units_and_known_in_those_of_the_prior() -> None:
    """Beside an inferred noise: inputs as they are and the ratio at the mean precision, or what the data prefer."""
    x = np.random.default_rng(0).normal(size=(30, 2))
    data = ContextData(x, np.repeat([0, 1], 15), ("a", "b"), ("k",), "obs")
    groups = {}
    for units in ("raw", "own"):
        model = build_model(ModelSettings(mechanism="nonlinear", units=units, noise_std="inferred"))
        assert model.mechanism.input_scales == (OWN_UNIT_SCALES if units == "own" else None)
        groups[units] = model.collapse(data).evidence.groups[0]
    assert (groups["raw"].kernel.input_scale, groups["raw"].ratio) == (1.0, 0.1)
    assert groups["own"].kernel.input_scale in OWN_UNIT_SCALES


@pytest.mark.parametrize("kernel", ["rbf", "additive"])
@pytest.mark.parametrize("noise", [0.3, "inferred"])
def test_a_gaussian_process_is_for_the_collapsed_methods(kernel: str, noise: float | str) -> None:
    model = build_model(ModelSettings(mechanism="nonlinear", kernel=kernel, noise_std=noise))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2))
    x[:, 1] += np.sin(2 * x[:, 0])
    data = ContextData(x, np.repeat([0, 1], 15), ("a", "b"), ("k",), "obs")
    posterior = fit(data, model, Exact())
    assert posterior.edge_probabilities().sum() > 0.1
    with pytest.raises(ConfigError, match="no parameters for SVGD"):
        fit(data, model, SVGD(n_steps=1))


BROKEN = [
    ("auto", "[svgd]\nsteps = 3\n", ("[svgd]", "no effect with method mcmc", "--method svgd")),
    ("svgd", "[mcmc]\nsweeps = 3\n", ("[mcmc]", "no effect with method svgd", "--method mcmc")),
    ("jci-pc", "[model]\nmechanism = 'bge'\n", ("[model]", "no effect with method jci-pc")),
    ("jci-pc", "[ut-igsp]\nalpha = 0.1\n", ("[ut-igsp]", "only with ut-igsp")),
    ("dcdi-g", "[bootstrap]\njobs = 2\n", ("'jobs'", "no effect with method = dcdi-g")),
    ("mcmc", "[model]\nz_std = 2\n", ("'z_std'", "no effect with method = mcmc, only with svgd")),
    ("mcmc", "[model]\nnoise_std = 1\nnoise_shape = 2\n", ("'noise_shape'", "noise_std = 1.0", "only with inferred")),
    ("mcmc", "[model]\nshift_std = 2\n", ("'shift_std'", "effect = hard", "shift or any")),
    ("mcmc", "[model]\nkernel = 'rbf'\n", ("'kernel'", "mechanism = linear")),
    ("mcmc", "[model]\nmechanism = 'nonlinear'\nlengthscales = [2]\n", ("'lengthscales'", "kernel = network")),
    ("mcmc", "[model]\nmechanism = 'nonlinear'\nhidden = [2, 2]\n", ("hidden = [2, 2]", "closed-form", "svgd")),
    ("mcmc", "[model]\neffect = 'any'\nshares = [1, 2, 3, 4]\n", ("'shares'", "4 numbers above 0 that add up to 1")),
    ("mcmc", "[model]\neffect = 'scale'\nscale_ratios = []\n", ("'scale_ratios'", "a list of numbers above 0")),
    ("mcmc", "[model]\nunits = 'metric'\n", ("'units'", "raw, own")),
    ("mcmc", "[mcmc]\nsweps = 2\n", ("'sweps'", "did you mean 'sweeps'")),
    ("mcmc", "[mcmc]\nreplicas = 1\n", ("'replicas'", "at least 2")),
    ("mcmc", "[mcmc]\nburn_in = 1\n", ("'burn_in'", "above 0 and below 1")),
    ("mcmc", "[mcmc]\nmove_toggle = 0\n", ("'move_toggle'", "above 0")),
    ("mcmc", "[mcmc]\ntime_budget = 'long'\n", ("'time_budget'", "'long'", '"none"')),
    ("mcmc", "[bootstrap]\nstep = 2\n", ("'step'", "[bootstrap]")),
    ("svgd", "[model]\ngraph_prior = 'ordered'\n", ("ordered", "orders", "SVGD", "mcmc")),
    ("svgd", "[model]\ngraph_prior = 'attachment'\n", ("attachment", "orders", "SVGD", "mcmc")),
    ("svgd", "[model]\neffect = 'shift'\n", ("shift", "SVGD", "mcmc")),
    ("svgd", "[model]\neffect = 'any'\n", ("any", "SVGD", "mcmc")),
    ("svgd", "[model]\nmechanism = 'nonlinear'\nkernel = 'rbf'\n", ("rbf", "Gaussian process", "mcmc")),
    ("ut-igsp", "[ut-igsp]\nalpha = 1\n", ("'alpha'", "below 1")),
    ("mcmc", "[jci]\nalpha = 1\n", ("'jci'", "[jci-pc]", "[knowledge]")),
]


@pytest.mark.parametrize(("method", "text", "expected"), BROKEN, ids=[text.strip() for _, text, _ in BROKEN])
def test_broken_files(method: str, text: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    message = refused(file=written(tmp_path, text), method=method)
    for fragment in expected:
        assert fragment in message


def test_other_refusals() -> None:
    assert "did you mean 'mcmc'" in refused(method="mcm")
    assert "no presets" in refused("paper", method="jci-pc")
    assert "--model" in refused(flags={"--model": "bge"}, method="ut-igsp")
    assert "--jobs" in refused(flags={"--jobs": 2}, method="dcdi-g")
    assert "only with mcmc or exact" in refused(flags={"--draws": 2}, method="svgd")
    assert refused(flags={"--sweeps": 0}) == "--sweeps is 0; give a whole number of at least 1."
    assert resolve(flags={"--draws": 7}, method="exact").exact.draws == 7


def test_the_page_of_settings_has_every_key() -> None:
    page = (Path(__file__).parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")
    for section, cls in SECTIONS.items():
        assert f"[{section}]" in page
        for entry in fields(cls):
            assert f"`{entry.name}`" in page, f"{section}.{entry.name}"
    for name in (*METHODS, *PRESET_NAMES, *FLAGS):
        assert name in page
    for key in _READERS:
        assert f"\n{key} = " in page, key
