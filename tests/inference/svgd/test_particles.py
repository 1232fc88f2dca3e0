"""Draws of particles under the collapsed posterior: their weights and targets against enumeration, and the fallback."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bacadi.data.contexts import ContextData
from bacadi.errors import InferenceError
from bacadi.evidence.reading import collapse
from bacadi.graph.dag import is_acyclic
from bacadi.inference.method import Problem
from bacadi.inference.svgd.estimators import AbstractReader, FiniteAlpha, LimitGraphs
from bacadi.inference.svgd.method import SVGD, Descent, Info, init
from bacadi.inference.svgd.particles import ParticleDraws, as_particle_model, collapse_draws, to_posterior
from bacadi.model.effects import SoftGaussian
from bacadi.model.knowledge import Knowledge
from bacadi.model.model import Model
from bacadi.posterior import weights
from bacadi.posterior.weights import Tempered
from bacadi.relaxed.density import Density

from ...small import PAPER, PAPER_BGE, PAPER_NETWORKS, small_data

DATA = small_data((5, 2, 3))
MODELS = {
    "linear": PAPER.replace(effect=PAPER.effect.replace(mean_prior_std=1.0)),
    "soft": PAPER.replace(effect=SoftGaussian()),
    "neural": PAPER_NETWORKS,
    "BGe": PAPER_BGE,
}


def random_draws(n: int, seed: int = 0) -> ParticleDraws:
    rng = np.random.default_rng(seed)
    graphs = rng.integers(0, 2, (2, n, 3, 3)) * (1 - np.eye(3, dtype=int))
    return ParticleDraws(graphs.astype(np.int8), rng.integers(0, 2, (2, n, 2, 3)).astype(np.int8), np.zeros((2, n)))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_log_density_is_that_of_the_collapsed_posterior(model: Model) -> None:
    collapsed = collapse(model, DATA)
    for n_sweeps in (0, 2):
        found = collapse_draws(np.random.default_rng(1), collapsed, random_draws(20), n_sweeps)
        for index in np.ndindex(2, 20):
            graph, targets = found.graphs[index], found.targets[index]
            truth = collapsed.log_posterior(graph, targets) if is_acyclic(graph) else -np.inf
            assert found.log_p[index] == pytest.approx(truth, abs=1e-8)
    same = collapse_draws(np.random.default_rng(1), collapsed, random_draws(20), 0)
    np.testing.assert_array_equal(same.targets, random_draws(20).targets)


@pytest.mark.parametrize("model", [MODELS["linear"], MODELS["soft"]], ids=["hard", "soft"])
def test_targets_follow_their_conditional(model: Model) -> None:
    """20,000 draws of one graph, 20 sweeps: probabilities of all 4 states of each of 3 columns, 5 standard errors each,
    false-alarm rate 7e-6."""
    graph, n = np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]], np.int8), 20_000
    draws = ParticleDraws(np.tile(graph, (1, n, 1, 1)), np.zeros((1, n, 2, 3), np.int8), np.zeros((1, n)))
    collapsed = collapse(model, DATA)
    found = collapse_draws(np.random.default_rng(2), collapsed, draws, 20).targets[0]
    states = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.int8)
    for j in range(3):
        log_p = [
            collapsed.evidence.log_evidence(j, graph[:, j] > 0, state)
            + collapsed.prior.state_log_prior[[0, 1], j, state].sum()
            for state in states
        ]
        truth = np.exp(weights.posterior(np.array(log_p)))
        seen = np.array([(found[:, :, j] == state).all(axis=1).mean() for state in states])
        assert (np.abs(seen - truth) <= 5 * np.sqrt(truth * (1 - truth) / n) + 1e-3 / n).all()


def test_known_targets_are_kept() -> None:
    known = np.array([[1.0, 0.0, np.nan], [np.nan, 1.0, 0.0]])
    collapsed = collapse(MODELS["linear"], DATA, Knowledge.none(3, 2).known_targets(known))
    draws = random_draws(20)
    told = ParticleDraws(draws.graphs, np.where(np.isnan(known), draws.targets, known).astype(np.int8), draws.log_p)
    found = collapse_draws(np.random.default_rng(0), collapsed, told, 3)
    assert (found.targets[..., ~np.isnan(known)] == known[~np.isnan(known)]).all()
    assert np.isfinite(found.log_p[is_acyclic(draws.graphs)]).all()


def read(model: Model, svgd: SVGD, data: ContextData = DATA):
    descent = Descent(svgd.replace(n_particles=6), Density.of(model, data), jax.random.key(0))
    state = init(descent)._replace(step=jnp.asarray(100))
    trace = Info(*(np.zeros((1, 6)) for _ in Info._fields))
    return to_posterior(descent, state, trace, Problem(data, model, Knowledge.none(3, data.n_contexts)))


@pytest.mark.parametrize("model", [MODELS["linear"], PAPER_NETWORKS], ids=["linear", "network"])
@pytest.mark.parametrize("reader", [LimitGraphs(), FiniteAlpha(3, 8)], ids=["limit", "finite"])
def test_weights_are_those_of_the_collapsed_posterior(reader: AbstractReader, model: Model) -> None:
    posterior = read(model, SVGD(reader=reader, weighting=weights.posterior))
    collapsed = collapse(as_particle_model(model), DATA)
    assert posterior.attrs["collapsed_weights"] and posterior.log_weight.shape in {(1, 6), (6, 3)}
    pairs = zip(posterior.graph.reshape(-1, 3, 3), posterior.intervention_target.reshape(-1, 2, 3), strict=True)
    truth = np.array([collapsed.log_posterior(g, i) if is_acyclic(g) else -np.inf for g, i in pairs])
    np.testing.assert_allclose(posterior.log_weight.ravel(), weights.posterior(truth), atol=1e-6)
    again = read(model, SVGD(reader=reader, weighting=weights.posterior))
    np.testing.assert_array_equal(again.intervention_target, posterior.intervention_target)


def test_networks_without_parents_are_weighed_with_the_mean_their_biases_give_them() -> None:
    model, data = PAPER_NETWORKS, replace(DATA, x=DATA.x + 2)
    empty, none = np.zeros((3, 3), np.int8), np.zeros((2, 3), np.int8)
    log_p = [collapse(each, data).log_posterior(empty, none) for each in (model, as_particle_model(model))]
    assert log_p[0] < log_p[1] - 100  # ten rows of three variables, two units off at a noise of σ² = .1


def test_targets_of_particles_stay_on_request() -> None:
    svgd = SVGD(reader=LimitGraphs())
    kept, point = read(PAPER, svgd.replace(target_sweeps=0)), read(PAPER, svgd.replace(collapsed=False))
    np.testing.assert_array_equal(kept.intervention_target, point.intervention_target)
    assert kept.attrs["collapsed_weights"] and not np.array_equal(kept.log_weight, point.log_weight)


def test_without_closed_form_or_wish_particles_are_weighed_at_the_point() -> None:
    deep = PAPER_NETWORKS.replace(mechanism=PAPER_NETWORKS.mechanism.replace(hidden=(2, 2)))
    for posterior in (read(deep, SVGD()), read(MODELS["linear"], SVGD(collapsed=False))):
        assert not posterior.attrs["collapsed_weights"]
        kept = np.exp(posterior.log_weight)
        np.testing.assert_allclose(kept, kept[:, :1] * np.ones_like(kept), rtol=1e-9)  # draws of a particle are alike


def test_observational_data_alone() -> None:
    assert read(PAPER, SVGD(), small_data((6,))).intervention_target.shape == (6, 16, 0, 3)


@pytest.mark.parametrize("n_draws", [1, 8])
def test_tempering_keeps_a_share_of_the_particles(n_draws: int) -> None:
    log_p = 100 * np.random.default_rng(0).normal(size=(20, n_draws))
    log_p[3] = -np.inf
    log_weight = Tempered(0.5)(log_p)
    assert weights.effective_sample_size(log_weight) == pytest.approx(0.5 * 19, rel=1e-6)
    assert np.isneginf(log_weight[3]).all()
    np.testing.assert_array_equal(np.argsort(log_weight.ravel()), np.argsort(log_p.ravel()))
    with pytest.raises(InferenceError):
        Tempered()(np.full((2, 2), -np.inf))
