"""Expected information gain against enumeration: all graphs, parameters integrated out in closed form."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

from bacadi import answers
from bacadi.data.contexts import ContextData
from bacadi.evidence.reading import collapse
from bacadi.graph.dag import topological_order
from bacadi.inference.exact.enumeration import ExactPosterior, enumerate_posterior
from bacadi.inference.exact.method import Exact
from bacadi.inference.fit import fit
from bacadi.model.certainty import NO_COARSENING, NO_DRIFT
from bacadi.model.effects import HardGaussian
from bacadi.model.linear import LinearGaussian
from bacadi.model.model import Model
from bacadi.model.noise import InferredNoise
from bacadi.model.priors import ErdosRenyi, TargetPrior

from .tasks import MECHANISMS, chain_posterior

NOISE, N_NEW, N_SETS = InferredNoise(3.0, 1.0), 6, 250
MODEL = Model(
    LinearGaussian(NOISE, 1.5, 1.0),
    HardGaussian(NOISE, 0.0, 2.0),
    ErdosRenyi(0.8),
    TargetPrior(discrete_log_odds=-0.4),
    standardize_within=False,
    drift=NO_DRIFT,
    coarsening=NO_COARSENING,
)
MEAN, STD = 3.0, 0.5


def three_variables() -> ContextData:
    """Twelve rows of the control and six of a context of unknown targets: most graphs stay possible."""
    rng = np.random.default_rng(3)
    x = 0.7 * rng.normal(size=(18, 3))
    x[:, 1] += 0.6 * x[:, 0]
    x[12:, 2] += 2.0
    return ContextData(x, np.repeat([0, 1], [12, 6]), ("a", "b", "c"), ("k",), "obs")


def with_rows(data: ContextData, rows: np.ndarray, k: int) -> ContextData:
    """More rows of context k, a new one where it is not there."""
    contexts = data.contexts if k <= data.n_contexts else (*data.contexts, "new")
    context = np.append(data.context, np.full(len(rows), k))
    return replace(data, x=np.vstack([data.x, rows]), context=context, contexts=contexts)


def log_p_set(data: ContextData, exact: ExactPosterior, rows: np.ndarray, target: int) -> np.ndarray:
    """log p(new rows | G, D) of all DAGs, where `target` is set: a ratio of evidences for the other variables.

    States of the context so far are summed over, given the parents: S is independent between variables given G.
    """
    before, after = collapse(MODEL, data), collapse(MODEL, with_rows(data, rows, 2))
    prior, found = before.prior.state_log_prior, np.zeros(len(exact.dags))
    for node in {0, 1, 2} - {target}:
        for parents in np.unique(exact.dags[:, :, node], axis=0):
            sums = []
            for evidence, rest in ((before.evidence, ()), (after.evidence, (0,))):
                terms = [
                    evidence.log_evidence(node, parents != 0, np.array([state, *rest], np.int8)) + prior[0, node, state]
                    for state in (0, 1)
                ]
                sums.append(logsumexp(terms))
            found[(exact.dags[:, :, node] == parents).all(axis=1)] += sums[1] - sums[0]
    return found


def log_p_repeat(data: ContextData, exact: ExactPosterior, rows: np.ndarray) -> np.ndarray:
    """log p(new rows | G, D) of all DAGs, where the context is repeated: a ratio of evidences, targets summed out."""
    after = enumerate_posterior(collapse(MODEL, with_rows(data, rows, 1)))
    return after.dag_log_prob + after.log_evidence - exact.dag_log_prob - exact.log_evidence


def simulated(rng: np.random.Generator, data: ContextData, exact: ExactPosterior, target: int | None) -> tuple:
    """A DAG, and new rows of it with parameters from their posterior."""
    drawn = exact.draws(rng, 1)
    graph, states = drawn.graphs[0], drawn.states[0]
    posterior = fit_fields(rng, data, drawn)
    x = np.zeros((N_NEW, 3))
    for j in topological_order(graph):
        parents = graph[:, j] != 0
        x[:, j] = x[:, parents] @ posterior["weight"][parents, j] + posterior["intercept"][j]
        x[:, j] += posterior["noise_std"][j] * rng.normal(size=N_NEW)
        if target is None and states[0, j]:
            x[:, j] = posterior["effect_mean"][0, j] + posterior["effect_noise_std"][0, j] * rng.normal(size=N_NEW)
        if j == target:
            x[:, j] = MEAN + STD * rng.normal(size=N_NEW)
    return int(np.flatnonzero((exact.dags == graph).all(axis=(1, 2)))[0]), x


def fit_fields(rng: np.random.Generator, data: ContextData, drawn) -> dict[str, np.ndarray]:
    from bacadi.evidence.effects import draw_hard_effects

    found = collapse(MODEL, data).evidence.draw_parameters(rng, drawn.graphs, drawn.states)
    found |= draw_hard_effects(rng, MODEL.effect, data, 1)
    return {name: item.values[0].astype(float) for name, item in found.items()}


def enumerated(target: int | None, seed: int) -> tuple[float, float]:
    """The gain and its standard error, from data sets simulated apart."""
    data, rng, gains = three_variables(), np.random.default_rng(seed), []
    exact = enumerate_posterior(collapse(MODEL, data))
    for _ in range(N_SETS):
        dag, rows = simulated(rng, data, exact, target)
        log_p = log_p_repeat(data, exact, rows) if target is None else log_p_set(data, exact, rows, target)
        gains.append(log_p[dag] - logsumexp(log_p + exact.dag_log_prob))
    return float(np.mean(gains)), float(np.std(gains) / np.sqrt(N_SETS))


@pytest.mark.parametrize("target", [0, 1, None], ids=["set a", "set b", "repeat k"])
def test_gain_against_enumeration(target: int | None) -> None:
    """Within three standard errors, which chance exceeds in 3 of 1,000 cases."""
    data = three_variables()
    mean, std = data.x[:12].mean(axis=0), data.x[:12].std(axis=0, ddof=1)
    posterior = fit(data, MODEL, Exact(n_draws=4000, max_pairs=0), seed=1)
    design = answers.Design(n_rows=N_NEW, variables=(), contexts=("k",))
    name = "repeat k"
    if target is not None:
        at = data.variables[target]
        level = (MEAN - mean[target]) / std[target], STD / std[target]
        design, name = answers.Design(N_NEW, *level, variables=(at,), contexts=()), f"set {at}"
    row = answers.next_experiment(posterior, design=design, seed=2).table.set_index("experiment").loc[name]
    gain, error = enumerated(target, seed=4)
    print(f"{name}: {row['gain']:.3f} ± {row['standard_error']:.3f}, enumerated {gain:.3f} ± {error:.3f}")
    assert abs(row["gain"] - gain) < 3 * np.hypot(row["standard_error"], error)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_gain_of_every_mechanism(mechanism: str) -> None:
    posterior = chain_posterior(mechanism)
    for about in (None, ("a", "b")):
        answer = answers.next_experiment(posterior, about, answers.Design(n_rows=40, mean=3.0, std=1.0))
        assert set(answer.table["experiment"]) >= {"set a", "set odd name", "repeat drug"}
        # Gains are estimates and may be below 0 by their error, but not beyond what there is to learn.
        assert (answer.table["gain"] > -4 * answer.table["standard_error"] - 0.02).all()
        assert (answer.table["share"] <= 1).all()
    assert answer.table["experiment"][0] == "set a"
    assert "about the effect of a on b" in answer.text


def test_nothing_is_left_to_learn_about_a_certain_graph() -> None:
    posterior = chain_posterior()
    graph = np.broadcast_to(posterior.most_probable_graph(), posterior.graph.shape)
    answer = answers.next_experiment(replace(posterior, graph=graph, constant_data=posterior.constant_data))
    assert "nothing left to learn" in answer.text
    assert np.allclose(answer.table["gain"], 0)


def test_soft_effects_that_were_not_drawn_are_left_out() -> None:
    answer = answers.next_experiment(chain_posterior("gaussian-process", "soft"), design=answers.Design(n_rows=5))
    assert all(name.startswith("set") for name in answer.table["experiment"])
    assert "Repeats of contexts are left out" in answer.text


def test_soft_and_mixed_effects_of_linear_mechanisms() -> None:
    for effect in ("soft", "any"):
        answer = answers.next_experiment(chain_posterior("linear", effect), design=answers.Design(n_rows=5))
        assert len(answer.table) == 7
        assert np.isfinite(answer.table["gain"]).all()
