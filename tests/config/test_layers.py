"""Layers: which one wins, what the presets are, what `auto` picks, and that nothing without effect passes silently."""

import json
from pathlib import Path
from typing import Any

import pytest

from bacadi.config.codec import Place, encode
from bacadi.config.layers import PRESETS, Configuration, configure, merged, method_names, restored
from bacadi.config.names import BASELINE, NAMES
from bacadi.errors import BacadiError, ConfigError
from bacadi.evidence.reading import is_collapsible
from bacadi.inference.exact.method import Exact
from bacadi.inference.fit import default_method, resolve
from bacadi.inference.mcmc.method import MCMC
from bacadi.inference.svgd.method import SVGD
from bacadi.model.effects import EffectMixture, ScaleGaussian, ShiftGaussian, SoftGaussian
from bacadi.model.integrated import AutoMechanism, GaussianProcess
from bacadi.model.linear import LinearGaussian
from bacadi.model.model import Model
from bacadi.model.neural import STANDARDIZED_SCALES, NeuralGaussian
from bacadi.model.noise import of_functions
from bacadi.model.priors import ScaleFree

MECHANISMS = ("linear", "nonlinear", "bge")
BASELINES = tuple(NAMES[BASELINE])
PAIRS = [(preset, mechanism) for preset in PRESETS for mechanism in MECHANISMS]
GOLDEN = json.loads((Path(__file__).parent / "golden_presets.json").read_text(encoding="utf-8"))
"""Presets of the version that kept them as Python tables (commit 41905ca): `bacadi.settings.resolve(preset,
flags={"--model": mechanism}, method=method)`, `build` and `inference.configuration.configuration` of model and method,
for every preset, mechanism and method. Classes are translated to their names in `NAMES`, `own_units` to
`standardize_within`, `reading` to `reader`, the terms of a kernel to their number and None to the word of its field;
`n_warmup` of the Gibbs estimator is left out, and the optimiser is told by the step size inside of it."""


def written(folder: Path, text: str) -> Path:
    path = folder / "my.toml"
    path.write_text(text)
    return path


def refused(*arguments: Any, **named: Any) -> str:
    with pytest.raises(BacadiError) as refusal:
        configure(*arguments, **named)
    message = str(refusal.value)
    assert isinstance(refusal.value, ConfigError)
    assert "\n" not in message and message.endswith(".") and ". " not in message
    return message


@pytest.mark.parametrize(("preset", "mechanism"), PAIRS)
@pytest.mark.parametrize("method", ["auto", "mcmc", "exact", "svgd"])
def test_presets_are_those_of_the_version_before(preset: str, mechanism: str, method: str) -> None:
    chosen = configure(method, preset, flags={"--model": mechanism})
    key = f"{preset}/{mechanism}"
    name = GOLDEN["auto"][key] if method == "auto" else method
    assert (chosen.name, chosen.preset) == (name, preset)
    model = encode(chosen.model)
    none = (
        {"stds": [0.0], "slopes": [0.0], "shares": [1.0], "ratios": "none", "moves": "none", "bend": 0.0},
        {"limit": "none", "dependence": False, "tails": False},
    )
    found = model.pop("drift"), model.pop("coarsening")  # came later
    assert found == (("auto", "auto") if preset == "default" else none)
    assert model["graph_prior"].pop("type") == "auto"  # even edges or hubs, since then
    model["graph_prior"]["type"] = "erdos-renyi"
    if preset == "default":
        assert model["effect"]["type"] == "auto"
        model["effect"] = model["effect"]["candidates"][0]
    if mechanism == "nonlinear":
        assert model["mechanism"].pop("negative_slope") == 0.01
        if preset == "default":  # one ratio of noise for all variables, then
            model["mechanism"]["noise"] = encode(of_functions().replace(widths=(1.0,)))
            assert model["mechanism"]["intercept"] == "auto"  # a mean of its own for every variable, then
            model["mechanism"]["intercept"] = True
    assert model == GOLDEN["models"][key]
    expected = GOLDEN["svgd"][key] if name == "svgd" else GOLDEN[name]
    if (name, key) == ("svgd", "default/linear"):  # particles of inferred noise hardly feel each other, since then
        narrow = {"z": 0.000276, "gamma": 0.00164, "theta": 0.226, "theta_int": 0.226}
        expected = expected | {"kernel": expected["kernel"] | {"bandwidths": narrow}}
    assert encode(chosen.method) == expected


def test_standardised_columns_have_their_noise_inferred() -> None:
    """The noise of the paper is in the units of its tasks; whoever names a preset gets it all the same."""
    assert configure("svgd", standardized=True) == configure("svgd", "default")
    assert configure("svgd", "paper", standardized=True) == configure("svgd") == configure("svgd", "paper")
    assert configure("jci-pc", standardized=True).preset is None
    assert configure(standardized=True) == configure()


@pytest.mark.parametrize(("preset", "mechanism"), PAIRS)
@pytest.mark.parametrize("method", ["svgd", "mcmc", "exact"])
def test_every_configuration_is_restored_from_its_record(preset: str, mechanism: str, method: str) -> None:
    chosen = configure(method, preset, flags={"--model": mechanism})
    again = restored(json.loads(json.dumps(chosen.table())), Place("config.json", modules=()))
    assert again == (chosen.model, chosen.method)
    assert chosen == configure(method, preset, flags={"--model": mechanism})


@pytest.mark.parametrize("method", method_names())
def test_the_record_holds_what_the_method_reads(method: str) -> None:
    chosen = configure(method)
    table = json.loads(json.dumps(chosen.table()))
    assert ("model" in table) == (method not in BASELINES) and "method" in table
    assert (chosen.preset is None) == (method in BASELINES)
    assert restored(table, Place("config.json", modules=())) == (chosen.model, chosen.method)


def test_the_default_preset_is_the_default_of_the_classes() -> None:
    """But for the mechanism, which the default leaves open where the method can choose it by evidence."""
    chosen, usual = configure(), Model(mechanism=AutoMechanism())
    assert (chosen.model, chosen.method, chosen.name, chosen.preset) == (usual, MCMC(), "mcmc", "default")
    assert configure("auto", "default").model == usual and configure("exact").method == Exact()
    assert configure(flags={"--model": "linear"}).model == configure("svgd", "default").model == Model()
    assert configure("mcmc", "paper").model.mechanism == configure("svgd").model.mechanism
    of_file = {"model": {"mechanism": {"weight_prior_std": 3.0}}}, "a file"
    assert configure(file=of_file).model.mechanism == LinearGaussian(weight_prior_std=3.0)
    assert configure("svgd", "paper").method == SVGD()
    assert configure("svgd").preset == "paper" and configure("exact").preset == "default"
    assert resolve(None, None) == (usual, MCMC())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_default_preset_depends_on_no_scale(mechanism: str) -> None:
    model = configure(flags={"--model": mechanism}).model
    assert model.standardize_within and model.effect == Model().effect
    if mechanism == "nonlinear":
        assert (model.mechanism.noise.shape, model.mechanism.noise.scale) == (1.0, 0.5)


def test_flags_win_over_file_over_preset_over_defaults(tmp_path: Path) -> None:
    text = "[method]\ntype = 'svgd'\nn_steps = 7\nn_particles = 5\n[model]\nmechanism = 'bge'\n"
    chosen = configure("svgd", "authors", written(tmp_path, text), {"--particles": 3, "--steps": None})
    assert encode(chosen.model)["mechanism"]["type"] == "bge"
    assert (chosen.method.n_steps, chosen.method.n_particles) == (7, 3)
    assert encode(chosen.method)["estimator"]["type"] == "blockwise" and chosen.method.optimizer.learning_rate == 0.005
    assert chosen.method.double is SVGD().double


def test_a_file_changes_one_key_of_a_table_of_the_preset(tmp_path: Path) -> None:
    text = "[method.kernel.bandwidths]\ngamma = 'median'\n[model.mechanism]\nweight_prior_std = 3\n"
    chosen = configure("svgd", "authors", written(tmp_path, text))
    assert chosen.method.kernel.bandwidths.gamma is None and chosen.method.kernel.bandwidths.z == 0.276
    assert chosen.method.kernel.n_terms == 3
    assert chosen.model.mechanism == Model.preset("authors").mechanism.replace(weight_prior_std=3.0)


def test_another_type_starts_from_the_defaults_of_its_class(tmp_path: Path) -> None:
    text = "[model]\nmechanism = 'nonlinear'\n[method.estimator]\ntype = 'gibbs'\n"
    chosen = configure("svgd", "authors", written(tmp_path, text))
    assert chosen.model == configure("svgd", "authors", flags={"--model": "nonlinear"}).model
    assert encode(chosen.method)["estimator"] == encode(type(chosen.method.estimator)())


def test_merging_keeps_what_the_upper_layer_does_not_say() -> None:
    lower = {"a": 1, "b": {"type": "x", "c": 1, "d": {"e": 2}}}
    assert merged(lower, {"b": {"d": {"f": 3}}}) == {"a": 1, "b": {"type": "x", "c": 1, "d": {"e": 2, "f": 3}}}
    assert merged(lower, {"b": {"type": "y"}}) == {"a": 1, "b": {"type": "y"}}
    assert merged(lower, {"b": {"type": "x", "c": 2}})["b"] == {"type": "x", "c": 2, "d": {"e": 2}}
    assert lower == {"a": 1, "b": {"type": "x", "c": 1, "d": {"e": 2}}}


@pytest.mark.parametrize("effect", ["hard", "soft", "shift", "scale", "any"])
@pytest.mark.parametrize(
    ("mechanism", "name"),
    [
        ("type = 'linear'", "mcmc"),
        ("type = 'bge'", "mcmc"),
        ("type = 'nonlinear'", "mcmc"),
        ("type = 'nonlinear'\nhidden = [3]\nnoise = {type = 'inferred'}", "mcmc"),
        ("type = 'nonlinear'\nhidden = [3, 3]", "svgd"),
        ("type = 'nonlinear'\nhidden = []", "svgd"),
        ("type = 'nonlinear'\nactivation = 'tanh'", "svgd"),
        ("type = 'gaussian-process'", "mcmc"),
        ("type = 'gaussian-process'\nkernels = [{type = 'additive'}]\nnoise = {type = 'fixed', std = 0.3}", "mcmc"),
    ],
    ids=str,
)
def test_auto_is_mcmc_where_there_is_a_closed_form_and_svgd_otherwise(
    mechanism: str, name: str, effect: str, tmp_path: Path
) -> None:
    chosen = configure(file=written(tmp_path, f"[model]\neffect = '{effect}'\n[model.mechanism]\n{mechanism}\n"))
    assert chosen.name == name and type(chosen.method) is {"mcmc": MCMC, "svgd": SVGD}[name]
    assert is_collapsible(chosen.model) == (name == "mcmc") and type(default_method(chosen.model)) is type(
        chosen.method
    )


def test_auto_falls_back_to_svgd(tmp_path: Path) -> None:
    file = written(tmp_path, "[model.mechanism]\ntype = 'nonlinear'\nhidden = [4, 4]\n[method]\nn_steps = 3\n")
    chosen = configure(file=file, flags={"--particles": 2})
    assert (chosen.name, chosen.method.n_steps, chosen.method.n_particles) == ("svgd", 3, 2)
    assert "auto chose" in refused(file=file, flags={"--sweeps": 2})


def test_a_file_may_choose_the_method(tmp_path: Path) -> None:
    assert configure(file=written(tmp_path, "[method]\ntype = 'exact'\nn_draws = 9\n")).method == Exact(9)
    chosen = configure(file=written(tmp_path, "[method]\ntype = 'jci-pc'\nn_samples = 3\n"))
    assert (chosen.name, chosen.model, chosen.preset, chosen.method.n_samples) == ("jci-pc", None, None, 3)
    whole = "[method]\ntype = 'bootstrap'\n[method.baseline]\ntype = 'jci-pc'\nalpha = 0.1\n"
    assert configure(file=written(tmp_path, whole)).method.baseline.alpha == 0.1


def test_every_choice_of_svgd_can_be_made(tmp_path: Path) -> None:
    text = """
        [model]
        effect = "soft"
        latent_prior = { z_std = 0.5 }
        [model.mechanism]
        type = "nonlinear"
        noise = "inferred"
        hidden = [4, 3]
        activation = "tanh"
        [model.graph_prior]
        type = "scale-free"
        exponent = 2
        [method]
        type = "svgd"
        optimizer = "adam"
        expected_acyclicity = "sampled"
        weighting = "uniform"
        latent_dim = 2
        double = true
        [method.kernel]
        n_terms = 3
        bandwidths = { z = "median" }
        [method.reader]
        type = "finite"
        n_draws = 3
        """
    chosen = configure(file=written(tmp_path, text))
    model, method = chosen.model, chosen.method
    assert isinstance(model.mechanism, NeuralGaussian) and model.mechanism.hidden == (4, 3)
    assert model.latent_prior.z_std == 0.5 and model.graph_prior == ScaleFree(2.0) and model.effect == SoftGaussian()
    assert method.kernel.bandwidths.z is None and method.kernel.n_terms == 3
    assert method.reader.n_draws == 3 and method.latent_dim == 2 and method.double
    assert encode(method)["optimizer"]["type"] == "adam" and encode(method)["weighting"] == "uniform"
    assert configure(file=tmp_path / "my.toml") == chosen


def test_every_choice_of_the_collapsed_methods_can_be_made(tmp_path: Path) -> None:
    text = """
        [model]
        standardize_within = true
        [model.mechanism]
        type = "gaussian-process"
        kernels = [
            { type = "additive", part = { type = "rbf", lengthscale = 0.5 } },
            { type = "additive", part = { type = "rbf", lengthscale = 3 } },
        ]
        noise = { type = "inferred", shape = 2 }
        [model.effect]
        type = "any"
        shares = [0.4, 0.3, 0.2, 0.1]
        effects = [
            { type = "hard", noise = { type = "fixed", std = 0.3 } },
            { type = "shift", prior_std = 2 },
            { type = "scale", ratios = [0.1, 9] },
            "soft",
        ]
        [method]
        type = "mcmc"
        n_draws = 10
        n_replicas = 3
        n_sweeps = 11
        time_budget = 9.5
        burn_in = 0.3
        n_levels = 5
        max_temperature = 50
        moves_per_sweep = 6
        max_parents = 2
        weights = { swap_target = 0 }
        """
    chosen = configure(preset="paper", file=written(tmp_path, text))
    model, method = chosen.model, chosen.method
    assert isinstance(model.mechanism, GaussianProcess) and model.standardize_within
    assert [kernel.part.lengthscale for kernel in model.mechanism.kernels] == [0.5, 3.0]
    assert isinstance(model.effect, EffectMixture) and model.effect.shares == (0.4, 0.3, 0.2, 0.1)
    assert model.effect.effects[1:] == (ShiftGaussian(2.0), ScaleGaussian((0.1, 9.0)), SoftGaussian())
    assert (method.n_draws, method.n_replicas, method.n_sweeps, method.time_budget) == (10, 3, 11, 9.5)
    assert (method.n_levels, method.max_temperature, method.moves_per_sweep, method.max_parents) == (5, 50, 6, 2)
    assert method.weights.swap_target == 0 and method.weights.add_or_drop == 4 and method.burn_in == 0.3


def test_every_choice_of_a_baseline_can_be_made(tmp_path: Path) -> None:
    text = (
        "[method]\nn_samples = 3\nweights = 'uniform'\nmax_retries = 0\n"
        "[method.baseline]\nalpha = 0.1\nmax_conditioning = 1\n"
    )
    method = configure("jci-pc", file=written(tmp_path, text), flags={"--jobs": 2}).method
    assert (method.n_samples, method.max_retries, method.jobs) == (3, 0, 2)
    assert (method.baseline.alpha, method.baseline.max_conditioning) == (0.1, 1)


@pytest.mark.parametrize("method", BASELINES)
def test_baselines_start_from_the_defaults_of_their_classes(method: str) -> None:
    chosen = configure(method)
    assert isinstance(chosen, Configuration) and chosen.model is None and chosen.name == method
    assert chosen.method.baseline == type(chosen.method.baseline)()


def test_input_scales_are_chosen_where_columns_are_standardised() -> None:
    assert configure(flags={"--model": "nonlinear"}).model.mechanism.input_scales == STANDARDIZED_SCALES
    assert configure("mcmc", "paper", flags={"--model": "nonlinear"}).model.mechanism.input_scales is None


SVGD_FILES = [
    ("[method]\nn_partcles = 3\n", ("'n_partcles'", "[method]", "'my.toml'", "did you mean 'n_particles'")),
    ("n_steps = 3\n", ("'n_steps'", "not known", "[method]")),
    ("[metod]\nn_steps = 3\n", ("'metod'", "did you mean 'method'")),
    ("[svgd]\nn_steps = 3\n", ("'svgd'", "section", "[method]")),
    ("[method]\nn_steps = 0\n", ("'n_steps'", "is 0", "at least 1")),
    ("[method]\nn_steps = 2.5\n", ("'n_steps'", "2.5", "whole number")),
    ("[method]\nn_steps = true\n", ("'n_steps'", "true", "whole number")),
    ("[method]\nn_steps = 'many'\n", ("'n_steps'", "'many'")),
    ("[method.optimizer]\nlearning_rate = nan\ntype = 'adam'\n", ("'learning_rate'", "nan", "above 0")),
    ("[method.kernel.bandwidths]\nz = 'mean'\n", ("'z'", "'mean'", '"median"')),
    ("[method.kernel]\nn_terms = 5\n", ("'n_terms'", "one of 3, 4")),
    ("[method]\ndouble = 1\n", ("'double'", "true or false")),
    ("[method]\nreader = 'chains'\n", ("[method]", "estimator 'gibbs'")),
    (
        "[model]\nmechanism = 'lineal'\n",
        ("[model.mechanism]", "'lineal'", "did you mean 'linear'", "linear, nonlinear"),
    ),
    ("[model.mechanism]\nnoise = {type = 'fixed', std = -1}\n", ("'std'", "[model.mechanism.noise]", "-1", "above 0")),
    ("[model.mechanism]\ntype = 'nonlinear'\nhidden = [0]\n", ("'hidden'", "[0]", "at least 1")),
    ("[model.mechanism]\nhidden = [5]\n", ("'hidden'", "[model.mechanism]", "not known")),
    ("[model]\nstandardise = true\n", ("'standardise'", "[model]", "did you mean 'standardize_within'")),
    ("model = 3\n", ("'model'", "no section")),
    ("[method\nn_steps = 3\n", ("'my.toml'", "not TOML", "line 1")),
    ("[method]\ntype = 'mcmc'\n", ("[method]", "mcmc", "no effect with method svgd", "--method mcmc")),
]


@pytest.mark.parametrize(("text", "expected"), SVGD_FILES, ids=[text.strip() for text, _ in SVGD_FILES])
def test_broken_files_are_refused_in_one_sentence(text: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    message = refused("svgd", file=written(tmp_path, text))
    for fragment in expected:
        assert fragment in message


FILES = [
    ("mcmc", "[method]\ntype = 'svgd'\nn_steps = 3\n", ("[method]", "no effect with method mcmc", "--method svgd")),
    ("auto", "[method]\nn_steps = 3\n", ("'n_steps'", "[method]", "not known")),
    ("jci-pc", "[model]\nmechanism = 'bge'\n", ("[model]", "no effect with method jci-pc")),
    ("jci-pc", "[method]\ntype = 'ut-igsp'\n", ("[method]", "no effect with method jci-pc", "--method ut-igsp")),
    ("mcmc", "[model.mechanism.noise]\ntype = 'fixed'\nstd = 1\nshape = 2\n", ("'shape'", "not known")),
    ("mcmc", "[model.effect]\nprior_std = 2\n", ("'prior_std'", "[model.effect]", "not known")),
    ("mcmc", "[model.effect]\ntype = 'any'\nshares = [1, 2, 3, 4]\n", ("shares", "4 numbers above 0 that add to 1")),
    ("mcmc", "[model.effect]\ntype = 'scale'\nratios = []\n", ("ratios", "at least one number above 0")),
    ("mcmc", "[method]\nn_sweps = 2\n", ("'n_sweps'", "did you mean 'n_sweeps'")),
    ("mcmc", "[method]\nn_replicas = 1\n", ("'n_replicas'", "at least 2")),
    ("mcmc", "[method]\nburn_in = 1\n", ("'burn_in'", "above 0 and below 1")),
    ("mcmc", "[method.weights]\nadd_or_drop = 0\n", ("'add_or_drop'", "above 0")),
    ("mcmc", "[method]\ntime_budget = 'long'\n", ("'time_budget'", "'long'", '"none"')),
    ("dcdi-g", "[method]\njobs = 2\n", ("[method]", "jobs has no effect with DCDI-G")),
    ("ut-igsp", "[method.baseline]\nalpha = 1\n", ("'alpha'", "below 1")),
    ("ut-igsp", "[method.baseline]\nalfa = 0.1\n", ("'alfa'", "[method.baseline]", "did you mean 'alpha'")),
]


@pytest.mark.parametrize(("method", "text", "expected"), FILES, ids=[text.strip() for _, text, _ in FILES])
def test_broken_files_of_other_methods(method: str, text: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    message = refused(method, file=written(tmp_path, text))
    for fragment in expected:
        assert fragment in message


def test_model_flag_and_section_have_to_agree(tmp_path: Path) -> None:
    file = written(tmp_path, "[model.mechanism]\ntype = 'bge'\nalpha_mu = 0.5\n")
    assert configure("mcmc", file=file, flags={"--model": "bge"}).model.mechanism.alpha_mu == 0.5
    message = refused("mcmc", file=file, flags={"--model": "linear"})
    assert "--model is linear" in message and "[model.mechanism]" in message and "bge" in message


def test_flags_that_mean_nothing_to_the_method_are_refused() -> None:
    assert "only with mcmc or exact" in refused("svgd", flags={"--draws": 2})
    assert "--method svgd" in refused("mcmc", flags={"--particles": 2})
    assert "auto chose" in refused(flags={"--steps": 2})
    assert "--model has no effect with method ut-igsp" in refused("ut-igsp", flags={"--model": "bge"})
    assert "no presets" in refused("jci-pc", "paper")
    assert "--jobs has no effect with method dcdi-g" in refused("dcdi-g", flags={"--jobs": 2})
    assert refused(flags={"--sweeps": 0}) == "--sweeps is 0; give a whole number of at least 1."
    assert refused("svgd", flags={"--particles": 0}) == "--particles is 0; give a whole number of at least 1."
    assert configure("exact", flags={"--draws": 7}).method.n_draws == 7


def test_other_refusals(tmp_path: Path) -> None:
    assert "no configuration file" in refused(file=tmp_path / "none.toml")
    assert "There is no preset 'papr' (did you mean 'paper'?)" in refused(preset="papr")
    assert "did you mean 'mcmc'" in refused("mcm")
    message = refused(flags={"--model": "linea"})
    assert "--model" in message and "'linea' (did you mean 'linear'?)" in message
