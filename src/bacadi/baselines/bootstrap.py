"""The nonparametric DAG bootstrap (Friedman et al., 1999; the paper's appendix on baselines): any baseline as a method.

A baseline is run on bootstrap samples, rows drawn with replacement within each context. Each estimate becomes a draw, a
random member of its class of DAGs, weighted by the approximate posterior of its graph and targets (the paper's text),
by their evidence with parameters integrated out, by its average likelihood (the authors' code) or uniformly.
"""

import os
import threading
import time
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float, Int8
from joblib import cpu_count  # type: ignore[import-untyped]
from joblib.externals.loky import get_reusable_executor  # type: ignore[import-untyped]
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from bacadi.baselines.base import CLASS_PARAMETER, AbstractBaseline, Estimate, FittedParameters
from bacadi.config.choices import Choice, option
from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError, DataError, InferenceError
from bacadi.evidence.reading import collapse
from bacadi.graph.equivalence import consistent_extension
from bacadi.inference.method import AbstractMethod, Monitor, Problem, Progress
from bacadi.model.effects import Effect, HardGaussian
from bacadi.model.integrated import BGe
from bacadi.model.mechanism import Mechanism
from bacadi.model.model import Model
from bacadi.posterior import weights
from bacadi.posterior.posterior import Posterior


class Candidate(NamedTuple):
    """A pair (graph, targets) that is to be weighted: its fit to the data, and the average log-likelihood of a row of
    its own bootstrap sample."""

    data: ContextData
    dag: Int8[np.ndarray, "d d"]
    targets: Int8[np.ndarray, "M d"]
    fit: FittedParameters
    average: float


class AbstractWeights(Choice):
    """The log weight of a pair (graph, targets), up to a constant."""

    once: ClassVar[bool] = True  # whether a pair that several samples found counts once, or as often as it was found

    @abstractmethod
    def log_p(self, candidate: Candidate) -> float:
        """The log weight."""


class PosteriorWeights(AbstractWeights):
    """The paper's text, log p(G, I | D) up to a constant: log p(D | best parameters) - ½ · parameters · log n (BIC).

    Graphs and targets are equally probable a priori; a pair counts once however often it was found.
    """

    def log_p(self, candidate: Candidate) -> float:
        fit = candidate.fit
        return fit.log_likelihood - 0.5 * fit.n_parameters * float(np.log(candidate.data.n_rows))


class AverageLikelihoodWeights(AbstractWeights):
    """The authors' code: exp(average log-likelihood per row) on the bootstrap sample; a pair counts once."""

    def log_p(self, candidate: Candidate) -> float:
        return candidate.average


class EvidenceWeights(AbstractWeights):
    """log p(D | G, I) with the parameters of a mechanism integrated out, BGe unless another is named.

    The paper's weights where parameters are marginalised; a pair counts once. Priors are in the units of the data.
    """

    mechanism: Mechanism = BGe()
    effect: Effect = HardGaussian()

    def log_p(self, candidate: Candidate) -> float:
        model = Model(mechanism=self.mechanism, effect=self.effect)
        evidence, edges = collapse(model, candidate.data).evidence, candidate.dag != 0
        nodes = range(len(edges))
        return sum(evidence.log_evidence(j, edges[:, j], candidate.targets[:, j]) for j in nodes)


class UniformWeights(AbstractWeights):
    """Equal weights, so that a pair counts as often as bootstrap samples found it (Friedman et al., 1999)."""

    once = False

    def log_p(self, candidate: Candidate) -> float:
        return 0.0


class BootstrapDraw(NamedTuple):
    """One bootstrap sample's estimate, a DAG of its class, and the log-likelihood per row of the sample given both."""

    estimate: Estimate
    dag: Int8[np.ndarray, "d d"]
    average_log_likelihood: float
    n_retries: int


class Bootstrap(AbstractMethod):
    """Runs of a baseline on rows drawn with replacement within each context, weighted.

    A sample that fails is tried again with `baseline.relaxed()` up to `max_retries` times, then dropped and counted in
    the attribute `n_dropped`. The draws of a class of DAGs (a CPDAG) are random members of it, so that every statement
    of a `Posterior` holds for DAGs; the classes are kept in the parameter `cpdag`. Parameters are those of
    `Estimate.fitted` on the data.

    Args:
        baseline: what is run on every sample; it reads neither the model of the problem nor knowledge beyond certain
            targets.
        n_samples: the number of bootstrap samples; None: the baseline's `default_samples`.
        weights: the weight of a draw.
        max_retries: how often a failed sample is tried again.
        jobs: the number of processes, None: one per core. It does not change the posterior.

    >>> from bacadi.baselines import JCIPC
    >>> Bootstrap(JCIPC()).opening()
    'running JCI-PC on 20 bootstrap samples'
    """

    reads_model = False

    baseline: AbstractBaseline
    n_samples: int | None = option(None, least=1)
    weights: AbstractWeights = PosteriorWeights()
    max_retries: int = option(10, least=0)
    jobs: int | None = option(None, least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.jobs is not None and self.baseline.batched:
            raise ConfigError(
                f"jobs has no effect with {self.baseline.name}, which runs all samples together; remove it."
            )

    @property
    def n_resamples(self) -> int:
        """The number of bootstrap samples, given or the baseline's default."""
        return self.baseline.default_samples if self.n_samples is None else self.n_samples

    @property
    def n_results(self) -> int:
        return self.n_resamples

    def check(self, problem: Problem) -> None:
        """Refuse what the baseline cannot use: see `AbstractBaseline.check`."""
        super().check(problem)
        self.baseline.check(problem.data, problem.known_targets)

    def opening(self, model: Model | None = None) -> str:
        together = " together, which takes minutes" if self.baseline.batched else ""
        return f"running {self.baseline.name} on {self.n_resamples} bootstrap samples{together}"

    def fit(self, problem: Problem, monitor: Monitor) -> Posterior:
        """Run the baseline on all samples and weight its estimates."""
        begin = time.monotonic()
        draws: list[BootstrapDraw] = []
        failures: list[str] = []
        for step, outcome in enumerate(self._outcomes(problem), start=1):
            if isinstance(outcome, str):
                failures.append(outcome)
            else:
                draws.append(outcome)
            note = f"{len(failures)} failed" if failures else ""
            seconds, entries = time.monotonic() - begin, {"dropped": len(failures)}
            monitor.tell(Progress(step, self.n_resamples, seconds, "bootstrap", note, entries))
        if not draws:
            raise InferenceError(f"None of the {self.n_resamples} bootstrap samples gave an estimate: {failures[0]}")
        return self._posterior(problem, draws, len(failures))

    def _outcomes(self, problem: Problem) -> Iterator[BootstrapDraw | str]:
        """A draw per bootstrap sample, or why the sample failed; in order, whatever the number of processes."""
        seeds = np.random.SeedSequence(problem.seed).spawn(self.n_resamples)
        groups = [seeds] if self.baseline.batched else [[seed] for seed in seeds]
        run = partial(run_samples, self, problem.data, known=problem.known_targets)
        # Processes, because the searches are Python and hold its lock; a single job runs in this process.
        n_jobs = min(cpu_count() if self.jobs is None else self.jobs, len(groups))
        if n_jobs == 1:
            yield from chain.from_iterable(map(run, groups))
            return
        processes = get_reusable_executor(n_jobs, initializer=end_with, initargs=(os.getpid(),))
        try:
            yield from chain.from_iterable(processes.map(run, groups))
        except BaseException:
            processes.shutdown(wait=True, kill_workers=True)
            raise

    def _posterior(self, problem: Problem, draws: list[BootstrapDraw], n_dropped: int) -> Posterior:
        data, known = problem.data, Labelled(problem.known_targets, ("context", "node"))
        fits = [draw.estimate.fitted(data, draw.dag) for draw in draws]
        estimates, dags, averages, retries = zip(*draws, strict=True)
        classes, targets = (np.stack([getattr(one, name) for one in estimates]) for name in ("graph", "targets"))
        pairs = zip(dags, targets, fits, averages, strict=True)
        log_p = np.array([self.weights.log_p(Candidate(data, *pair)) for pair in pairs])
        if self.weights.once:
            keys = [graph.tobytes() + hits.tobytes() for graph, hits in zip(classes, targets, strict=True)]
            log_p -= np.log([keys.count(key) for key in keys])
        parameters = {
            name: Labelled(np.array([fit.parameters[name].values for fit in fits]), dims)
            for name, (_, dims) in fits[0].parameters.items()
        }
        if self.baseline.finds_classes or (classes & classes.swapaxes(1, 2)).any():
            parameters[CLASS_PARAMETER] = Labelled(classes, ("source", "target"))
        stats = {"log_likelihood": [fit.log_likelihood for fit in fits], "n_retries": retries}
        groups: dict[str, Any] = {"parameters": parameters, "constant_data": {"known_target": known}}
        groups["sample_stats"] = {name: Labelled(np.array(values)) for name, values in stats.items()}
        groups["attrs"] = {"n_dropped": n_dropped}
        posterior = Posterior.from_draws(data, np.stack(dags), targets, log_p, weights.posterior, **groups)
        return replace(posterior, attrs=posterior.attrs | {"warnings": _doubts(posterior, n_dropped)})


def end_with(parent: int) -> None:
    """Let this process end when its parent does: one that is killed cannot end others."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _doubts(posterior: Posterior, n_dropped: int) -> list[str]:
    """Sentences on why not to trust the weighted samples."""
    n, ess = posterior.n_draws, posterior.effective_sample_size
    doubts = []
    if n_dropped:
        doubts.append(f"{n_dropped} of {n + n_dropped} bootstrap samples gave no estimate and were left out.")
    if n > 1 and ess < 1.5:
        doubts.append(
            f"One of {n} bootstrap samples has nearly all the weight (effective sample size {ess:.1f}), so that "
            'probabilities are those of a single estimate; give equal weights with weights = "uniform" in [method].'
        )
    return doubts


def resampled(rng: np.random.Generator, data: ContextData) -> ContextData:
    """Draw as many rows of each context as there are, with replacement, from that context.

    >>> data = ContextData(np.arange(4.0)[:, None], np.array([0, 0, 0, 1]), ("a",), ("k",), "obs")
    >>> resampled(np.random.default_rng(0), data).x[3].tolist()
    [3.0]
    """
    rows = np.arange(data.n_rows)
    for k in np.unique(data.context):
        of_context = np.flatnonzero(data.context == k)
        rows[of_context] = rng.choice(of_context, size=len(of_context))
    return data.rows(rows)  # a row stays in its context and takes its block along


def run_samples(
    bootstrap: Bootstrap, data: ContextData, seeds: list[np.random.SeedSequence], known: Float[np.ndarray, "M d"]
) -> list[BootstrapDraw] | list[str]:
    """Run the bootstrap samples of these seeds, one or a batch, with retries; a batch succeeds or fails as a whole.

    All randomness comes from `seeds`: the rows of each sample, its search (a batch uses the first seed) and its DAG.
    """
    of_rows, (of_search, *_), of_dags = zip(*(map(np.random.default_rng, seed.spawn(3)) for seed in seeds), strict=True)
    samples = [resampled(rng, data) for rng in of_rows]
    baseline, failure = bootstrap.baseline, ""
    # The last bits of a sum depend on the number of threads, and the result must not; the matrices are small anyway.
    with threadpool_limits(1):
        for n_retries in range(bootstrap.max_retries + 1):
            try:
                estimates = baseline.estimate_many(of_search, samples, known)
                parts = zip(of_dags, samples, estimates, strict=True)
                return [_draw(*part, n_retries) for part in parts]
            except (InferenceError, DataError) as error:
                failure, baseline = str(error), baseline.relaxed()
    return [failure] * len(seeds)


def _draw(rng: np.random.Generator, sample: ContextData, estimate: Estimate, n_retries: int) -> BootstrapDraw:
    """Draw a random member of the estimated class and fit it to the sample."""
    try:
        dag = consistent_extension(estimate.graph, rng)
    except ValueError as error:
        raise InferenceError(
            "The baseline found a graph that stands for no DAG (a cycle, or directions that force one); "
            "let it return a DAG, a CPDAG or an interventional CPDAG."
        ) from error
    return BootstrapDraw(estimate, dag, estimate.fitted(sample, dag).log_likelihood / sample.n_rows, n_retries)
