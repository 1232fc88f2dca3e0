"""Whether the draws of independent replicas can be trusted, as numbers and in words.

R-hat and the effective sample size are those of Vehtari, Gelman, Simpson, Carpenter & Bürkner (Bayesian Analysis 16,
2021): of halves of the chains, after a normal transformation of the ranks. Both are the same for a x + b as for x, and
ranks and distances from the median of an indicator are such a transformation of it: indicators need none of the two.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Int8
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri

from bacadi.data.labelled import Labelled
from bacadi.data.text import counted
from bacadi.model.knowledge import UNNAMED, Labels

MIN_DRAWS = 10
"""Draws per replica that R-hat and effective sample size need; with fewer they are NaN."""

_BLOCK = 512
_SCORE_DECIMALS = 6
_LONGER = "run longer with --sweeps or --time-budget."


@dataclass(frozen=True)
class Criteria:
    """Limits beyond which a run is called not converged.

    Of indicators the limits are on probabilities, not on R-hat: among thousands of edges some rare one always comes in
    a single burst, which makes its R-hat large and its effective sample size small without consequence for any answer.

    max_rhat: of the log posterior alone, which is one number and so has no worst case of many. The usual 1.01 is meant
        for four chains with 400 effective draws; two fine replicas with 200 in all fail it in a third of the cases.
    min_ess_per_replica: of the log posterior; with fewer, R-hat and the effective sample size are noise themselves.
    max_error: Monte-Carlo standard error of an edge or target probability, √(p (1 - p) / ESS); .05 is 100 effective
        draws at p = 1/2 and fewer at a rare edge. It grows if replicas disagree or drift, since ESS looks at both.
    max_difference: of an edge or target probability between replicas; at p = 1/2 and 100 effective draws in each of
        two replicas it is 2.8 standard errors.
    min_swap_rate: of neighbouring temperatures, averaged over replicas; .2 to .4 is usual, and far below it states
        from the hot end seldom come down: replicas may agree because none of them leaves its mode.
    min_replicas: one replica cannot show that it misses a mode.
    """

    max_rhat: float = 1.05
    min_ess_per_replica: float = 50.0
    max_error: float = 0.05
    max_difference: float = 0.2
    min_swap_rate: float = 0.05
    min_replicas: int = 2


UNSETTLED = 1e-5
"""The share of all edges and targets that may be left in doubt by a run that ends by itself."""


@dataclass(frozen=True, eq=False)
class Indicators:
    """How well every edge or target is known. R-hat and ESS are NaN where all draws agree."""

    rhat: Float[np.ndarray, "a b"]
    ess: Float[np.ndarray, "a b"]
    error: Float[np.ndarray, "a b"]
    difference: Float[np.ndarray, "a b"]


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """What `diagnose` measured; `words` says what is wrong and `converged` is whether nothing is."""

    edges: Indicators
    targets: Indicators
    log_posterior_rhat: float
    log_posterior_ess: float
    swap_rate: Float[np.ndarray, "chain pairs"]
    shape: tuple[int, ...]
    criteria: Criteria = Criteria()

    @property
    def converged(self) -> bool:
        """Whether every diagnostic is within its bound."""
        return next(self._failures(UNNAMED), None) is None

    @property
    def is_worth_more(self) -> bool:
        """Whether a run is to go on: where it has not converged, but for a few of very many edges and targets.

        With a million of them a few are always left, for each of which a run would have to be twice as long again;
        `converged` and `words` say so.
        """
        limits, both = self.criteria, (self.edges, self.targets)
        beyond = sum(
            int(((of.difference > limits.max_difference) | (of.error > limits.max_error)).sum()) for of in both
        )
        few = 0 < beyond <= UNSETTLED * sum(of.error.size for of in both)
        return not self.converged and not (few and next(self._other_failures(), None) is None)

    def words(self, variables: tuple[str, ...], contexts: tuple[str, ...]) -> list[str]:
        """A sentence for every criterion that is not met; none if the run is fine."""
        return list(self._failures(Labels(variables, contexts)))

    def to_stats(self) -> dict[str, Labelled]:
        """Entries for `Posterior.sample_stats`."""
        stats = {f"edge_{name}": Labelled(values, ("source", "target")) for name, values in vars(self.edges).items()}
        stats |= {f"target_{name}": Labelled(part, ("context", "node")) for name, part in vars(self.targets).items()}
        for name in ("log_posterior_rhat", "log_posterior_ess", "converged"):
            stats[name] = Labelled(np.array(getattr(self, name)))
        return stats | {"swap_rate": Labelled(self.swap_rate, ("chain", "level"))}

    def _failures(self, labels: Labels) -> Iterator[str]:
        limits, (replicas, draws) = self.criteria, self.shape
        if replicas < limits.min_replicas:
            yield f"Not checked: {counted(replicas, 'replica')} cannot show a missed mode; run {limits.min_replicas}."
        if draws < MIN_DRAWS:
            yield f"Not converged: {counted(draws, 'draw')} per replica cannot be judged; {_LONGER}"
            return
        yield from self._probability_failures(labels)
        yield from self._other_failures()

    def _other_failures(self) -> Iterator[str]:
        limits = self.criteria
        yield from self._score_failures()
        rate = self.swap_rate.mean(axis=0)
        if (rate < limits.min_swap_rate).any():
            level = int(np.nanargmin(rate))
            yield (
                f"Not converged: temperatures {level + 1} and {level + 2} exchange states in {100 * rate[level]:.1f} % "
                "of the attempts, so that hot chains do not help the others; give more temperatures with n_levels in "
                "[method]."
            )

    def _probability_failures(self, labels: Labels) -> Iterator[str]:
        limits, replicas = self.criteria, "the two replicas" if self.shape[0] == 2 else "replicas"
        for found, noun, name in (
            (self.edges, "edge", labels.edge),
            (self.targets, "target", lambda k, j: f"{labels.variable(j)} being a target in {labels.context(k)}"),
        ):
            for start, values, limit, what, end in (
                ("Not converged", found.difference, limits.max_difference, "differs by", f" between {replicas}"),
                ("Too few independent draws", found.error, limits.max_error, "has a standard error of", ""),
            ):
                if beyond := int((values > limit).sum()):
                    row, column = np.unravel_index(values.argmax(), values.shape)
                    others = f" ({counted(beyond - 1, f'other {noun}')} beyond {limit:.2f})" if beyond > 1 else ""
                    subject = f"the probability of {name(int(row), int(column))}"
                    yield f"{start}: {subject} {what} {values.max():.2f}{end}{others}; {_LONGER}"

    def _score_failures(self) -> Iterator[str]:
        limits, ess = self.criteria, self.log_posterior_ess
        if not self.log_posterior_rhat <= limits.max_rhat:
            yield (
                "Not converged: the log posterior is not the same in all replicas and in both halves of each (R-hat "
                f"{self.log_posterior_rhat:.2f}, at most {limits.max_rhat:.2f} is fine); {_LONGER}"
            )
        wanted = limits.min_ess_per_replica * self.shape[0]
        if not ess >= wanted:
            yield (
                f"Too few independent draws: the log posterior has an effective sample size of {ess:.0f}, at least "
                f"{wanted:.0f} is wanted; {_LONGER}"
            )


def diagnose(
    graphs: Int8[np.ndarray, "chain draw d d"],
    targets: Int8[np.ndarray, "chain draw M d"],
    log_posterior: Float[np.ndarray, "chain draw"],
    swap_rates: Float[np.ndarray, "chain pairs"],
) -> Diagnostics:
    """R-hat, effective sample size, standard error and difference between replicas of all that was sampled.

    A chain is the coldest of one replica; `swap_rates[c, l]` is the share of accepted exchanges of temperatures l and
    l + 1. Two replicas that sit at graphs of their own:

    >>> graphs = np.zeros((2, 100, 2, 2), np.int8)
    >>> graphs[0, :, 0, 1] = graphs[1, :, 1, 0] = 1
    >>> found = diagnose(graphs, np.zeros((2, 100, 0, 2), np.int8), np.zeros((2, 100)), np.zeros((2, 0)))
    >>> found.converged, float(np.nanmax(found.edges.rhat))
    (False, inf)
    >>> found.words(("a", "b"), ())[0]
    "Not converged: the probability of 'a' → 'b' differs by 1.00 between the two replicas (1 other edge beyond 0.20); \
run longer with --sweeps or --time-budget."
    """
    return diagnose_varying(Varying.of(graphs), Varying.of(targets), log_posterior, swap_rates)


class Varying(NamedTuple):
    """Indicators [a, b] of all draws: `columns` of those at the places `at` of the flat array; all others are 0."""

    columns: Int8[np.ndarray, "chain draw U"]
    at: Int[np.ndarray, " U"]
    shape: tuple[int, int]

    @classmethod
    def of(cls, draws: Int8[np.ndarray, "chain draw a b"]) -> "Varying":
        """From whole arrays."""
        chains, n, a, b = draws.shape
        flat = draws.reshape(chains, n, a * b)
        at = np.flatnonzero(flat.any(axis=(0, 1)))
        return cls(flat[:, :, at], at, (a, b))


def diagnose_varying(
    edges: Varying,
    targets: Varying,
    log_posterior: Float[np.ndarray, "chain draw"],
    swap_rates: Float[np.ndarray, "chain pairs"],
) -> Diagnostics:
    """`diagnose` of indicators of which most are 0 in all draws."""
    # Sums of local scores differ by rounding on the way to the same state, which would give it different ranks.
    rhat, ess = _of_score(log_posterior.astype(np.float64).round(_SCORE_DECIMALS))
    return Diagnostics(_of_indicators(edges), _of_indicators(targets), rhat, ess, swap_rates, log_posterior.shape)


def split_rhat(halves: Float[np.ndarray, "s m n"]) -> Float[np.ndarray, " s"]:
    """√((n - 1)/n + B/W): B the variance of the means of m half chains, W the mean of their variances.

    Infinite where all are constant and differ, not a number where they are the same constant.
    """
    n = halves.shape[2]
    between = halves.mean(axis=2).var(axis=1, ddof=1)
    # From the first value, so that rounding of a mean does not give a constant half a variance.
    within = (halves - halves[:, :, :1]).var(axis=2, ddof=1).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((n - 1) / n + between / within)


def effective_sample_size(halves: Float[np.ndarray, "s m n"]) -> Float[np.ndarray, " s"]:
    """m n / τ with τ = -1 + 2 Σ_t P_t, P_t = ρ_2t + ρ_2t+1 up to the first that is not positive, made monotone.

    ρ_t = 1 - (W - mean autocovariance) / ((n - 1)/n W + B) falls to 0 only if the halves agree with each other. Of
    the first pair left out, half of the even lag is added, as all implementations do; τ is at least 1 / log10(m n).
    """
    _, m, n = halves.shape
    means = halves.mean(axis=2)
    length = next_fast_len(2 * n, real=True)
    power = np.abs(rfft(halves - means[:, :, None], length)) ** 2
    autocovariance = irfft(power.mean(axis=1), length)[:, :n] / n
    within = autocovariance[:, :1] * n / (n - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1 - (within - autocovariance) / (autocovariance[:, :1] + means.var(axis=1, ddof=1)[:, None])
    rho[:, 0] = 1.0
    last = (n - 3) // 2
    pairs = rho[:, : 2 * last].reshape(-1, last, 2).sum(axis=2)
    kept = np.logical_and.accumulate(pairs > 0, axis=1)
    even = np.take_along_axis(rho, 2 * kept.sum(axis=1, keepdims=True), axis=1)[:, 0]
    tau = -1 + 2 * np.where(kept, np.minimum.accumulate(pairs, axis=1), 0.0).sum(axis=1) + np.maximum(even, 0.0)
    return m * n / np.maximum(tau, 1 / np.log10(m * n))


def _of_score(score: Float[np.ndarray, "chain draw"]) -> tuple[float, float]:
    """The larger R-hat of location and spread, and the bulk effective sample size."""
    if score.shape[1] < MIN_DRAWS:
        return np.nan, np.nan
    if (score == score[0, 0]).all():
        return 1.0, float(score.size)
    halves = _halves(score[:, :, None])
    normal = _normal_scores(halves)
    # The median lies between two values, whose equal distances from it rounding must not tell apart.
    distance = np.abs(halves - np.median(halves)).round(_SCORE_DECIMALS + 1)
    spread = split_rhat(_normal_scores(distance))
    return float(np.fmax(split_rhat(normal), spread)[0]), float(effective_sample_size(normal)[0])


def _of_indicators(draws: Varying) -> Indicators:
    (_, n, size), (a, b) = draws.columns.shape, draws.shape
    means = draws.columns.mean(axis=1)
    rhat, ess = np.full((2, size), np.nan)
    p = means.mean(axis=0)
    varying = np.flatnonzero((p > 0) & (p < 1)) if n >= MIN_DRAWS else np.zeros(0, int)
    for start in range(0, len(varying), _BLOCK):
        at = varying[start : start + _BLOCK]
        halves = _halves(draws.columns[:, :, at].astype(np.float64))
        rhat[at], ess[at] = split_rhat(halves), effective_sample_size(halves)
    error = np.where(np.isnan(ess), 0.0, np.sqrt(p * (1 - p) / ess))
    found = []
    for values, otherwise in ((rhat, np.nan), (ess, np.nan), (error, 0.0), (np.ptp(means, axis=0), 0.0)):
        whole = np.full(a * b, otherwise)
        whole[draws.at] = values
        found.append(whole.reshape(a, b))
    return Indicators(*found)


def _halves(draws: Float[np.ndarray, "chain draw s"]) -> Float[np.ndarray, "s m n"]:
    """First and second half of every chain; the draw in the middle of an odd number is left out."""
    half = draws.shape[1] // 2
    return np.ascontiguousarray(np.concatenate([draws[:, :half], draws[:, -half:]]).transpose(2, 0, 1))


def _normal_scores(values: Float[np.ndarray, "1 m n"]) -> Float[np.ndarray, "1 m n"]:
    """Φ⁻¹((rank - 3/8) / (S + 1/4)) with average ranks among the S values."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    rank = np.cumsum(counts) - (counts - 1) / 2
    return ndtri((rank - 3 / 8) / (values.size + 1 / 4))[inverse].reshape(values.shape)
