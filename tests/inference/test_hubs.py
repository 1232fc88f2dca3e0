"""Whether a few causes have many effects is told by the data, and is no matter of how many edges there are.

All tasks are of fixed seeds; of 21 tasks of even edges and 18 of hubs that were looked at (d = 10 to 50; lines, curves,
networks) the gains were -43 to 3 and 6 to 96 nats, so that a failure is no chance.
"""

import numpy as np
import pytest

from bacadi.config.choices import Choice
from bacadi.data.contexts import ContextData
from bacadi.inference import hubs
from bacadi.inference.auto import Chosen, chosen_model
from bacadi.inference.collapsed import collapsed_problem
from bacadi.inference.fit import _problem
from bacadi.inference.method import Problem
from bacadi.model.effects import HardGaussian
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import Mechanism
from bacadi.model.model import Model
from bacadi.model.neural import NeuralGaussian
from bacadi.model.priors import AutoGraphPrior, ErdosRenyi, PreferentialAttachment
from bacadi.simulate import Interventions, SyntheticSpec, simulate
from bacadi.simulate.graphs import RandomScaleFree
from bacadi.simulate.synthetic import NeuralTruth


def problem(data: ContextData, mechanism: Mechanism | None = None) -> Problem:
    return _problem(data, Model(mechanism=mechanism or LinearGaussian(), effect=HardGaussian()), None, None, 0)


def chosen(data: ContextData) -> Chosen:
    return chosen_model(problem(data))


@pytest.mark.parametrize("crowded", [False, True])
def test_hubs_are_told_from_even_edges(crowded: bool) -> None:
    spec = SyntheticSpec(20, **({"graph": RandomScaleFree()} if crowded else {}))
    found = chosen(simulate(spec, 3).data)
    assert isinstance(found.model.graph_prior, PreferentialAttachment) == crowded
    assert type(found.model.graph_prior) is (PreferentialAttachment if crowded else ErdosRenyi)
    assert (found.hubs > hubs.CLEARLY) == crowded
    assert any("a few causes have many effects" in line for line in found.words()) == crowded
    assert found.attrs()["chosen"]["nats"]["edges"] == {"even": 0.0, "hubs": found.hubs}


def test_few_edges_are_no_hubs() -> None:
    """Two edges among twelve variables: most variables have no effect, which a prior of hubs expects as well."""
    rng = np.random.default_rng(0)
    context = np.repeat(np.arange(13), [100, *[10] * 12])
    x = rng.normal(size=(len(context), 12))
    x[:, 1] += 2 * x[:, 0]
    x[:, 5] += 2 * x[:, 4]
    x[np.arange(len(x)), context - 1] += 8.0 * (context > 0)
    names, contexts = tuple(f"x{j}" for j in range(12)), tuple(f"c{k}" for k in range(12))
    found = chosen(ContextData(x, context, names, contexts, "obs"))
    assert type(found.model.graph_prior) is ErdosRenyi and found.hubs < hubs.CLEARLY


def test_an_approximation_tells_where_evidence_is_costly() -> None:
    contexts = Interventions(rows_per_context=10)
    spec = SyntheticSpec(
        12, graph=RandomScaleFree(), mechanism=NeuralTruth(), n_observational=150, interventions=contexts
    )
    asked = problem(simulate(spec, 1).data, NeuralGaussian(intercept=True))
    found = chosen_model(asked)
    assert np.isfinite(found.hubs)
    assert found.hubs == hubs.gain(asked, collapsed_problem(asked))


def test_what_is_not_asked() -> None:
    """Few variables, evidence without tables, a prior that the user states, no time."""
    data = simulate(SyntheticSpec(5), 0).data
    assert np.isnan(chosen(data).hubs) and type(chosen(data).model.graph_prior) is ErdosRenyi
    many = simulate(SyntheticSpec(10), 0).data
    stated = chosen_model(_problem(many, Model(effect=HardGaussian(), graph_prior=ErdosRenyi(1.0)), None, None, 0))
    assert np.isnan(stated.hubs) and stated.model.graph_prior == ErdosRenyi(1.0)
    asked = problem(many)
    assert np.isnan(hubs.gain(asked, collapsed_problem(asked), over=lambda: True))


def test_what_is_left_open_is_read_as_even() -> None:
    """The number of edges that a user expects is that of both."""
    graph, prior = np.triu(np.ones((6, 6)), 1), AutoGraphPrior(1.0)
    assert isinstance(prior, Choice) and prior.even == ErdosRenyi(1.0) and prior.hubs == PreferentialAttachment(1.0)
    assert prior.log_prob(graph) == ErdosRenyi(1.0).log_prob(graph)
    assert Model().graph_prior == AutoGraphPrior()
