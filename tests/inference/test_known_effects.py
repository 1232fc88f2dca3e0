"""Effects that are known: their density stands in place of the evidence, in whatever units, for every method."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from bacadi import fit
from bacadi.config.layers import configure
from bacadi.data.contexts import ContextData
from bacadi.errors import BacadiError
from bacadi.evidence.reading import collapse
from bacadi.inference.exact.method import Exact
from bacadi.inference.mcmc.method import MCMC
from bacadi.inference.method import Problem
from bacadi.model.certainty import NO_DRIFT
from bacadi.model.effects import EffectMixture, HardGaussian, ShiftGaussian, SoftGaussian
from bacadi.model.knowledge import Knowledge, KnownEffects
from bacadi.model.linear import LinearGaussian
from bacadi.model.model import Model
from bacadi.model.noise import FixedNoise
from bacadi.model.statements import from_record, from_section, labels_of, stated, to_record
from bacadi.simulate import Interventions, RandomErdosRenyi, SyntheticSpec, simulate
from bacadi.simulate.files import write_task

SPEC = SyntheticSpec(3, RandomErdosRenyi(1), interventions=Interventions(n_contexts=2, rows_per_context=4))
FIXED = Model(
    mechanism=LinearGaussian(noise=FixedNoise(0.5), weight_prior_std=2.0, intercept_prior_std=None),
    effect=HardGaussian(noise=FixedNoise(0.8)),
    standardize_within=False,
    drift=NO_DRIFT,
)


def told(data: ContextData, cell: tuple[int, int] = (0, 1), mean: float = 3.0, std: float = 0.7) -> Knowledge:
    means, stds = np.full((2, data.n_contexts, data.n_variables), np.nan)
    means[cell], stds[cell] = mean, std
    return Knowledge.none(data.n_variables, data.n_contexts, labels_of(data)).with_effects(KnownEffects(means, stds))


def test_the_collapsed_posterior_is_the_formula() -> None:
    """Against densities of SciPy: rows where a variable is no target are N(0, σ² + s² Z Z'), known effects N(m, s)."""
    data = simulate(SPEC, 0).data
    collapsed = collapse(FIXED, data, told(data))
    graph, states = np.zeros((3, 3), np.int8), np.zeros((2, 3), np.int8)
    graph[0, 1], graph[2, 1], states[0, 1] = 1, 1, 1
    rows, own = data.context != 1, data.x[data.context == 1, 1]
    z = data.x[rows][:, [0, 2]]
    covariance = 0.25 * np.eye(len(z)) + 4.0 * z @ z.T
    expected = stats.multivariate_normal(cov=covariance).logpdf(data.x[rows, 1]) + stats.norm(3, 0.7).logpdf(own).sum()
    found = collapsed.evidence.log_evidence(1, graph[:, 1] > 0, states[:, 1])
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_a_known_effect_is_hard_and_certain() -> None:
    data = simulate(SPEC, 0).data
    model = FIXED.replace(effect=EffectMixture((HardGaussian(), ShiftGaussian(), SoftGaussian((), True))))
    prior = collapse(model, data, told(data)).prior.state_log_prior
    assert np.isfinite(prior[0, 1]).tolist() == [False, True, False, False, False]
    assert np.isfinite(prior[1]).all()


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("method", [Exact(n_draws=20), MCMC(n_draws=20, n_sweeps=30)], ids=["exact", "mcmc"])
def test_draws_hold_what_was_told(method: Exact | MCMC, within: bool) -> None:
    data = simulate(SPEC, 0).data
    posterior = fit(data, FIXED.replace(standardize_within=within), method, knowledge=told(data))
    np.testing.assert_allclose(posterior.parameters["effect_mean"].values[..., 0, 1], 3.0, rtol=1e-5)
    np.testing.assert_allclose(posterior.parameters["effect_noise_std"].values[..., 0, 1], 0.7, rtol=1e-5)
    assert (posterior.intervention_target[..., 0, 1] == 1).all()


def test_units_of_the_priors_change_nothing() -> None:
    """The density of known effects in scaled units is that in the data's, by the change of variables."""
    data = simulate(SPEC, 0).data
    problem = Problem(data, FIXED.replace(standardize_within=True), told(data))
    scaled = collapse(FIXED, problem.standardized, problem.scaled_knowledge).evidence.states.hard_log_evidence
    plain = collapse(FIXED, data, problem.knowledge).evidence.states.hard_log_evidence
    np.testing.assert_allclose(scaled[0, 1] - 4 * np.log(problem.scaling.scale[1]), plain[0, 1], rtol=1e-10)


def test_a_wrong_effect_makes_no_target_elsewhere() -> None:
    """A target is told in context 1; what is said of it leaves context 2 to the data."""
    data = simulate(replace(SPEC, n_observational=60), 3).data
    told_wrong = fit(data, FIXED, Exact(), knowledge=told(data, (0, 1), mean=-50.0))
    free = fit(data, FIXED, Exact(), known_targets=np.array([[np.nan, 1.0, np.nan], [np.nan] * 3]))
    difference = told_wrong.target_probabilities() - free.target_probabilities()
    assert abs(difference[1]).max() < 0.08  # 1000 draws each: three standard errors of .02 and more


def test_files(tmp_path: Path) -> None:
    """`truth_effects.csv` of a task and a table of means say the same, also of standardised data; records keep it."""
    task = simulate(SPEC, 0)
    write_task(task, tmp_path)
    section = {"effects": "truth_effects.csv"}
    known = stated(task.data, "unknown", section, tmp_path / "my.toml")
    assert known.effects is not None
    truth = task.effects.targets != 0
    assert (known.effects.known == truth).all()
    np.testing.assert_allclose(known.effects.mean[truth], task.effects.shift[truth])
    np.testing.assert_allclose(known.effects.std[truth], task.effects.std[truth])
    again = from_record(to_record(known), labels_of(task.data)).effects
    assert again is not None and np.array_equal(again.mean, known.effects.mean, equal_nan=True)
    scaled = task.data.standardized()
    other = stated(scaled, "unknown", section, tmp_path / "my.toml").effects
    assert other is not None
    np.testing.assert_allclose(scaled.scaling.invert(other.mean)[truth], task.effects.shift[truth])
    context, variable = np.argwhere(truth)[0]
    names = f"{task.data.contexts[context]},{task.data.variables[variable]}"
    (tmp_path / "mine.csv").write_text(f"context,variable,mean,std\n{names},1.5,.5\n")
    mine = from_section({"effects": "mine.csv"}, labels_of(task.data), tmp_path, "'my.toml'").effects
    assert mine is not None and mine.mean[context, variable] == 1.5


@pytest.mark.parametrize(
    "lines, words",
    [
        ("context,variable,mean\nc1,x1,2", "must be context,variable,mean,std or"),
        ("context,variable,mean,std\nc1,x1,2,0", "has the standard deviation '0'"),
        ("context,variable,mean,std\nc1,x1,two,1", "has 'two' where a number belongs"),
        ("context,variable,mean,std\nc1,y,2,1", "which is not in the data"),
        ("context,variable,mean,std\nc1,x1,2,1\nc1,x1,3,1", "differs from an earlier line"),
        ("context,variable,keeps_parents,shift,std\nc1,x1,1,2,1", "keeps the parents"),
    ],
)
def test_refused_files(tmp_path: Path, lines: str, words: str) -> None:
    (tmp_path / "effects.csv").write_text(lines + "\n")
    with pytest.raises(BacadiError, match=words):
        from_section({"effects": "effects.csv"}, labels_of(simulate(SPEC, 0).data), tmp_path, "'my.toml'")


def test_refusals() -> None:
    data = simulate(SPEC, 0).data
    known = told(data)
    with pytest.raises(BacadiError, match="cannot be told; use --method mcmc"):
        fit(data, method=configure("jci-pc").method, knowledge=known)
    with pytest.raises(BacadiError, match="the model has none"):
        fit(data, FIXED.replace(effect=SoftGaussian()), MCMC(), knowledge=known)
    with pytest.raises(BacadiError, match="is given twice and differs"):
        known.combined(told(data, mean=4.0))
    with pytest.raises(BacadiError, match="is a known target"):
        known.known_targets(np.zeros((2, 3)))
    with pytest.raises(BacadiError, match="no standard deviation above 0"):
        told(data, std=0.0)


def test_svgd_is_told_effects() -> None:
    """log Ψ of particles is the sum of densities of rows: at the known target that of what was told, and its mean and
    noise are what the posterior holds."""
    data = simulate(SPEC, 0).data
    method = configure("svgd", flags={"--particles": 2, "--steps": 3}).method
    posterior = fit(data, FIXED, method, knowledge=told(data))
    np.testing.assert_allclose(posterior.parameters["effect_mean"].values[..., 0, 1], 3.0, rtol=1e-5)
    np.testing.assert_allclose(posterior.parameters["effect_noise_std"].values[..., 0, 1], 0.7, rtol=1e-5)
    np.testing.assert_allclose(posterior.parameters["effect_noise_std"].values[..., 1, 1], 0.8, rtol=1e-5)
    import jax
    import jax.numpy as jnp

    from bacadi.relaxed.density import Density

    known = told(data).effects
    density = Density.of(FIXED, data, None, jnp.dtype("float32"), known)
    theta = density.effect.init(jax.random.key(0))
    targeted, untargeted = (np.asarray(term)[:, 0] for term in density.effect.log_terms(theta, jnp.zeros((3, 1, 3))))
    gain = targeted[0, 1] - untargeted[0, 1]
    np.testing.assert_allclose(gain, stats.norm(3, 0.7).logpdf(data.x[data.context == 1, 1]).sum(), rtol=1e-4)
