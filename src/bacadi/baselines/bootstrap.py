"""How the bootstrap weighs what it found: by posterior, as the published code, or alike.

The nonparametric DAG bootstrap (Friedman et al., 1999; the appendix on baselines): a posterior from any baseline.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int8

from bacadi.baselines.base import AbstractBaseline, Estimate
from bacadi.baselines.gaussian import Fitted
from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.errors import ConfigError, DataError, InferenceError
from bacadi.graph import consistent_extension
from bacadi.inference.configuration import configuration
from bacadi.posterior import weights
from bacadi.posterior.posterior import Posterior


class Score(NamedTuple):
    """What is known of one (graph, targets) pair: log-likelihoods at the parameters that go with it."""

    log_likelihood: float  # of the data
    average_on_sample: float  # of the bootstrap sample it was learned from, a row
    n_parameters: int
    n_rows: int


class AbstractWeights(ABC):
    """The log weight of a pair, up to a constant."""

    once: bool  # whether a pair that several samples found counts once, or as often as it was found

    @abstractmethod
    def log_p(self, score: Score) -> float: ...


@dataclass(frozen=True)
class PosteriorWeights(AbstractWeights):
    """The paper's text, log p(G, I | D) up to a constant: log p(D | best parameters) - ½ · parameters · log n (BIC).

    Graphs and targets are equally probable a priori; a pair counts once however often it was found.

    >>> round(PosteriorWeights().log_p(Score(-10.0, -2.0, 2, 100)), 3)
    -14.605
    """

    once = True

    def log_p(self, score: Score) -> float:
        return score.log_likelihood - 0.5 * score.n_parameters * float(np.log(score.n_rows))


@dataclass(frozen=True)
class AverageLikelihoodWeights(AbstractWeights):
    """The authors' code: exp(average log-likelihood a row) on the bootstrap sample; a pair counts once.

    >>> AverageLikelihoodWeights().log_p(Score(-10.0, -2.0, 2, 100))
    -2.0
    """

    once = True

    def log_p(self, score: Score) -> float:
        return score.average_on_sample


@dataclass(frozen=True)
class UniformWeights(AbstractWeights):
    """Every bootstrap sample alike, so that a pair counts as often as it was found (Friedman et al., 1999)."""

    once = False

    def log_p(self, score: Score) -> float:
        return 0.0


# Where a baseline finds classes of DAGs, they stand beside the DAGs drawn from them, and `evaluate` scores them.
CLASS_PARAMETER = "cpdag"

Result = TypeVar("Result")


class BootstrapProgress(NamedTuple):
    """What a person hears of a running bootstrap."""

    done: int
    total: int
    dropped: int
    seconds: float


Report = Callable[[BootstrapProgress], None]


class Sample(NamedTuple):
    """What one bootstrap sample gave: an estimate, a DAG of its class, and what that explains of the sample, a row."""

    found: Estimate
    dag: Int8[np.ndarray, "d d"]
    average_log_likelihood: float
    n_retries: int


class Dropped(NamedTuple):
    """A bootstrap sample that failed to the last, and why."""

    failure: str


@dataclass(frozen=True)
class Bootstrap:
    """`n_samples` runs of a baseline on rows drawn with replacement within each context, weighted.

    A sample that fails is tried again with `baseline.relaxed()` up to `max_retries` times, then dropped and counted in
    the attribute `n_dropped`. The draws of a class of DAGs (a CPDAG) are random members of it, so that every statement
    of a `Posterior` holds for DAGs; the classes stand in the parameter `cpdag`. Parameters are the most likely linear
    Gaussian ones on the data, rows of targets left out, unless an estimate brings its own (`Estimate.fitted`). The same
    seed gives the same posterior for any number of jobs.
    """

    baseline: AbstractBaseline
    n_samples: int = 20
    weights: AbstractWeights = field(default_factory=PosteriorWeights)
    max_retries: int = 10

    def __post_init__(self) -> None:
        if self.n_samples < 1 or self.max_retries < 0:
            raise ConfigError("A bootstrap needs n_samples >= 1 and max_retries >= 0; give such numbers.")

    def fit(
        self,
        data: ContextData,
        seed: int = 0,
        known_targets: Float[np.ndarray, "M d"] | None = None,
        jobs: int | None = None,
        report: Report | None = None,
    ) -> Posterior:
        """The weighted estimates of all samples; `jobs` is the number of processes, None: one for each core.

        `known_targets` is 1 (target), 0 (none) or NaN (unknown) for each context and variable, None: all unknown.

        >>> from bacadi.baselines import JCIPC
        >>> from bacadi.simulate import SyntheticSpec, simulate
        >>> data = simulate(SyntheticSpec(n_variables=5), seed=0).data
        >>> posterior = Bootstrap(JCIPC(alpha=0.05), n_samples=3).fit(data, jobs=1)
        >>> posterior.n_draws, posterior.target_probabilities().shape
        (3, (5, 5))
        """
        begin = time.monotonic()
        known = self.baseline.check(data, known_targets)
        samples: list[Sample | Dropped] = []
        for sample in self._run(data, seed, known, jobs):
            samples.append(sample)
            if report is not None:
                dropped = sum(isinstance(sample, Dropped) for sample in samples)
                report(BootstrapProgress(len(samples), self.n_samples, dropped, time.monotonic() - begin))
        kept = [sample for sample in samples if isinstance(sample, Sample)]
        if not kept:
            failure = next(sample.failure for sample in samples if isinstance(sample, Dropped))
            raise InferenceError(f"None of the {self.n_samples} bootstrap samples gave an estimate: {failure}")
        attrs = {
            "method": "bootstrap",
            "seed": seed,
            "configuration": {"method": configuration(self)},
            "n_dropped": len(samples) - len(kept),
            "wall_time": time.monotonic() - begin,
        }
        return self._posterior(data, known, kept, attrs)

    def _run(
        self, data: ContextData, seed: int, known: Float[np.ndarray, "M d"], jobs: int | None
    ) -> Iterator[Sample | Dropped]:
        seeds = np.random.SeedSequence(seed).spawn(self.n_samples)
        if self.baseline.batched:
            yield from _run_together(self, data, seeds, known)
            return
        from joblib import Parallel, cpu_count, delayed  # type: ignore[import-untyped]

        n_jobs = min(cpu_count() if jobs is None else jobs, self.n_samples)
        if n_jobs < 1:
            raise ConfigError(f"{jobs} processes cannot run a bootstrap; give jobs >= 1.")
        # Processes, for the searches are Python; one job is run in this one.
        calls = (delayed(run_sample)(self, data, child, known) for child in seeds)
        yield from Parallel(n_jobs=n_jobs, return_as="generator")(calls)

    def _posterior(
        self, data: ContextData, known: Float[np.ndarray, "M d"], kept: list[Sample], attrs: dict
    ) -> Posterior:
        found = [sample.found for sample in kept]
        fits = [sample.found.fitted(data, sample.dag) for sample in kept]
        log_p = np.array([self.weights.log_p(_score(*item, data)) for item in zip(kept, fits, strict=True)])
        if self.weights.once:
            log_p -= np.log(_multiplicity(found))
        parameters = _together([fit.parameters for fit in fits])
        classes = np.stack([one.graph for one in found])
        if self.baseline.finds_classes or (classes & classes.swapaxes(1, 2)).any():
            parameters[CLASS_PARAMETER] = Labelled(classes, ("source", "target"))
        return Posterior.from_draws(
            data,
            np.stack([sample.dag for sample in kept]),
            np.stack([one.targets for one in found]),
            log_p,
            weights.posterior,
            parameters=parameters,
            sample_stats={
                "log_likelihood": _stacked([fit.log_likelihood for fit in fits]),
                "n_retries": _stacked([sample.n_retries for sample in kept]),
            },
            constant_data={"known_target": Labelled(known, ("context", "node"))},
            attrs=attrs,
        )


def resampled(rng: np.random.Generator, data: ContextData) -> ContextData:
    """As many rows of each context as there are, drawn with replacement from that context.

    >>> data = ContextData(np.arange(4.0)[:, None], np.array([0, 0, 0, 1]), ("a",), ("k",), "obs")
    >>> resampled(np.random.default_rng(0), data).x[3].tolist()
    [3.0]
    """
    rows = np.arange(data.n_rows)
    for k in np.unique(data.context):
        own = np.flatnonzero(data.context == k)
        rows[own] = rng.choice(own, size=len(own))
    return ContextData(data.x[rows], data.context, data.variables, data.contexts, data.observational, data.scaling)


def run_sample(
    bootstrap: Bootstrap, data: ContextData, seed: np.random.SeedSequence, known: Float[np.ndarray, "M d"]
) -> Sample | Dropped:
    """One bootstrap sample with its retries; all its randomness comes from `seed`."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    of_rows, of_search, of_extension = map(np.random.default_rng, seed.spawn(3))
    sample = resampled(of_rows, data)

    def attempt(baseline: AbstractBaseline, number: int) -> Sample:
        return _extended(of_extension, sample, baseline.estimate(of_search, sample, known), number)

    # The last bits of a sum depend on the number of threads, and the result must not; the matrices are small anyway.
    with threadpool_limits(1):
        return _with_retries(bootstrap, attempt)


def _run_together(
    bootstrap: Bootstrap, data: ContextData, seeds: list[np.random.SeedSequence], known: Float[np.ndarray, "M d"]
) -> list[Sample] | list[Dropped]:
    """The samples of a baseline that runs all of them as one program; if it fails, all are tried again."""
    generators = [tuple(map(np.random.default_rng, child.spawn(3))) for child in seeds]
    samples = [resampled(of_rows, data) for of_rows, _, _ in generators]
    extensions = [of_extension for _, _, of_extension in generators]

    def attempt(baseline: AbstractBaseline, number: int) -> list[Sample]:
        found = baseline.estimate_many(generators[0][1], samples, known)
        return [_extended(*item, number) for item in zip(extensions, samples, found, strict=True)]

    result = _with_retries(bootstrap, attempt)
    return [result] * len(seeds) if isinstance(result, Dropped) else result


def _with_retries(bootstrap: Bootstrap, attempt: Callable[[AbstractBaseline, int], Result]) -> Result | Dropped:
    baseline, failure = bootstrap.baseline, ""
    for number in range(bootstrap.max_retries + 1):
        try:
            return attempt(baseline, number)
        except (InferenceError, DataError) as error:
            failure, baseline = str(error), baseline.relaxed()
    return Dropped(failure)


def _extended(rng: np.random.Generator, sample: ContextData, found: Estimate, n_retries: int) -> Sample:
    """The estimate with a random member of its class and what that explains of the sample."""
    try:
        dag = consistent_extension(found.graph, rng)
    except ValueError as error:
        raise InferenceError(
            "The baseline found a graph that stands for no DAG (a cycle, or directions that force one); "
            "let it return a DAG, a CPDAG or an interventional CPDAG."
        ) from error
    return Sample(found, dag, found.fitted(sample, dag).log_likelihood / sample.n_rows, n_retries)


def _score(sample: Sample, fit: Fitted, data: ContextData) -> Score:
    return Score(fit.log_likelihood, sample.average_log_likelihood, fit.n_parameters, data.n_rows)


def _together(fits: list[dict[str, Labelled]]) -> dict[str, Labelled]:
    """Each parameter of all draws, a draw a row."""
    return {name: _stacked([fit[name].values for fit in fits], *dims) for name, (_, dims) in fits[0].items()}


def _multiplicity(found: list[Estimate]) -> Float[np.ndarray, " n"]:
    """How often the (graph, targets) of each estimate was found."""
    keys = [one.graph.tobytes() + one.targets.tobytes() for one in found]
    return np.array([keys.count(key) for key in keys], dtype=float)


def _stacked(values: list, *dims: str) -> Labelled:
    return Labelled(np.array(values), dims)
