"""Replicas by legs, as workers carry them out, against the same run in this process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from bacadi.data.contexts import ContextData
from bacadi.errors import ConfigError, InferenceError
from bacadi.inference import machines, spread
from bacadi.inference.collapsed import collapsed_problem
from bacadi.inference.fit import fit, resolve
from bacadi.inference.mcmc.method import MCMC
from bacadi.inference.mcmc.run import TemperingRun
from bacadi.inference.method import Monitor, Problem, Progress
from bacadi.inference.svgd.method import SVGD
from bacadi.model.knowledge import Knowledge
from bacadi.model.mechanism import Mechanism
from bacadi.model.model import Model
from bacadi.model.neural import NeuralGaussian
from bacadi.posterior import Posterior
from bacadi.simulate import Interventions, SyntheticSpec, simulate

DATA = simulate(SyntheticSpec(5, n_observational=30, interventions=Interventions(rows_per_context=6)), seed=0).data
METHOD = MCMC(n_draws=40, n_sweeps=40, moves_per_sweep=20, n_levels=4)


class Future:
    """A job that is carried out when somebody looks whether it has ended."""

    def __init__(self, job: Callable[..., dict], arguments: tuple[Any, ...]) -> None:
        self.job, self.arguments = job, arguments


class Inline(machines.Machines):
    """`Machines` of one worker in this process: jobs end in another order than they came in, and some are lost."""

    @property
    def n_workers(self) -> int:
        return 1

    def __init__(self, lost: tuple[int, ...] = (), ends: int | None = None) -> None:
        self.busy: list[Future] = []
        self.lost, self.ends, self.n_done = lost, ends, 0

    def share(self, payload: bytes) -> bytes:
        return payload

    def submit(self, job: Callable[..., dict], *arguments: Any, near: str | None = None) -> Future:
        self.busy.append(Future(job, arguments))
        return self.busy[-1]

    def ended(self) -> list[Future]:
        return [self.busy.pop()]

    def answer(self, future: Future) -> dict | None:
        self.n_done += 1
        if self.n_done == self.ends:
            raise InferenceError("The Dask scheduler has gone.")
        return None if self.n_done in self.lost else future.job(machines.compared(), *future.arguments)

    def give_up(self) -> None:
        self.busy = []


@pytest.fixture(autouse=True)
def _no_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "own_address", lambda: "here")
    monkeypatch.setattr(spread, "is_given_up", lambda: False)


def same(one: Posterior, two: Posterior) -> bool:
    """Whether draws, parameters, diagnostics and attributes are equal to the last bit."""
    arrays = (
        (dict(part.parameters) | dict(part.sample_stats) | {"graph": part.graph, "targets": part.intervention_target})
        for part in (one, two)
    )
    first, second = ({name: np.asarray(getattr(a, "values", a)) for name, a in part.items()} for part in arrays)
    equal = first.keys() == second.keys() and one.attrs == two.attrs
    return equal and all(
        np.array_equal(value, second[name], equal_nan=value.dtype.kind == "f") for name, value in first.items()
    )


MECHANISMS: dict[str, Mechanism | None] = {"linear": None, "network": NeuralGaussian()}


@pytest.mark.parametrize("name", MECHANISMS)
def test_replicas_by_legs_are_those_of_one_process(name: str) -> None:
    mechanism = MECHANISMS[name]
    model = "linear" if mechanism is None else Model(mechanism)
    known = Knowledge.none(5, DATA.n_contexts).forbid(0, 1)
    method = METHOD.replace(n_replicas=3)
    here, legs = (
        fit(DATA, model, method, seed=3, knowledge=known, monitor=Monitor(machines=machines_))
        for machines_ in (None, Inline(lost=(2, 5)))
    )
    assert same(here, legs)


def test_runs_that_double_their_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether there are more sweeps is decided by all replicas together."""
    judged = []

    def goes_on(self: TemperingRun) -> bool:
        judged.append(self.total)
        return TemperingRun._goes_on(self)

    plan = MCMC.plan
    monkeypatch.setattr(
        MCMC, "plan", lambda self, d, costly: plan(self, d, costly)._replace(n_sweeps=24, max_sweeps=96)
    )
    monkeypatch.setattr(spread.SpreadRun, "_goes_on", goes_on)
    method = METHOD.replace(n_sweeps=None)
    here, legs = (fit(DATA, "linear", method, seed=1, monitor=Monitor(machines=m)) for m in (None, Inline()))
    assert judged[:2] == [24, 48] and same(here, legs)


def test_an_interrupted_run_goes_on_anywhere(tmp_path: Path) -> None:
    """A checkpoint made with workers serves a run without, and the other way round."""
    file, here = tmp_path / "checkpoint.npz", fit(DATA, "linear", METHOD, seed=2)

    def until(step: int) -> Callable[[Progress], None]:
        def report(progress: Progress) -> None:
            if progress.step >= step and progress.phase != "starting":
                raise KeyboardInterrupt

        return report

    for first, second in ((Inline(), None), (None, Inline()), (Inline(), Inline())):
        with pytest.raises(KeyboardInterrupt):
            fit(DATA, "linear", METHOD, seed=2, monitor=Monitor(until(30), file, machines=first))
        assert file.exists()
        assert same(here, fit(DATA, "linear", METHOD, seed=2, monitor=Monitor(None, file, machines=second)))
        file.unlink()
    with pytest.raises(InferenceError, match="scheduler has gone"):
        fit(DATA, "linear", METHOD, seed=2, monitor=Monitor(None, file, machines=Inline(ends=12)))
    assert same(here, fit(DATA, "linear", METHOD, seed=2, monitor=Monitor(None, file)))


def test_threads_of_linear_algebra_are_those_of_the_run() -> None:
    """Dask gives its workers one; with another number sums of products end in other bits."""
    rng = np.random.default_rng(0)
    data = ContextData(
        rng.normal(size=(6000, 31)), rng.integers(3, size=6000), tuple(f"x{j}" for j in range(31)), ("a", "b"), "obs"
    )
    problem = Problem(data, resolve("linear", None)[0], Knowledge.none(31, 2))
    with threadpool_limits(3, user_api="blas"):
        here = collapsed_problem(problem)
        content = spread.packed_problem(problem, METHOD, here)
        with threadpool_limits(1, user_api="blas"):
            there = spread.unpacked_problem(content)[2]
    assert np.array_equal(here.evidence.tables.gram, there.evidence.tables.gram)
    assert np.array_equal(here.evidence.tables.total, there.evidence.tables.total)


def test_extensions() -> None:
    first = fit(DATA, "linear", METHOD, seed=0)
    here, legs = (
        fit(DATA, "linear", METHOD, seed=0, extends=first, monitor=Monitor(machines=m)) for m in (None, Inline())
    )
    assert same(here, legs)


def test_what_cannot_be_spread_is_refused() -> None:
    with pytest.raises(ConfigError, match="Method svgd runs on one machine; --cluster is for mcmc"):
        spread.check_spread(SVGD())
    with pytest.raises(ConfigError, match="--time-budget is for one machine"):
        spread.check_spread(MCMC(time_budget=5.0))


def test_errors_of_a_worker_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: object, *arguments: object) -> None:
        raise InferenceError("The evidence is no number; look at the data.")

    monkeypatch.setattr(spread._LoneReplica, "go_leg", fails)
    with pytest.raises(InferenceError, match="The evidence is no number"):
        fit(DATA, "linear", METHOD, monitor=Monitor(machines=Inline()))
