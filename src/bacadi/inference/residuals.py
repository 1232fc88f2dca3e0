"""Does the model fit? Predictive checks of what the structures that were drawn leave unexplained.

Given the graph and the states of a draw, every variable is regressed on its parents over the rows that its mechanism
explains; a hard target keeps its own mean, a soft one its own regression, a shifted one its own intercept. If the model
holds, what is left is Gaussian noise that is independent between variables and rows, with one variance per mechanism
and no mean in contexts that leave a variable untouched. Replicated residuals therefore have a known law, whatever the
parameters, and posterior predictive p-values need no simulation: they are the mean over draws of

    P(statistic of Gaussian noise at least as far out | rows, structure).

Statistics: kurtosis and skewness, lag-1 correlation along the rows, and correlation with the square of the fitted value
by variable; mean and variance by context and variable; correlations by pair of variables. A statistic counts where its
p-value is below .05 over the number of statistics and families (Bonferroni), and its size is of some consequence.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8
from scipy.special import ndtr

from bacadi.data.contexts import ContextData
from bacadi.data.labelled import Labelled
from bacadi.data.text import counted, quoted
from bacadi.evidence.collapsed import EffectKind
from bacadi.evidence.effects import effect_states
from bacadi.inference.method import Problem
from bacadi.model.certainty import ContextDrift
from bacadi.model.integrated import AdditiveProcess, BGe
from bacadi.model.linear import LinearGaussian
from bacadi.model.mechanism import Mechanism
from bacadi.posterior.posterior import Posterior

MAX_DRAWS, MAX_SENTENCES = 100, 3
FALSE_ALARMS = 0.005  # of tasks that follow the model, given their structure
_WORK = 2e7  # rows x variables² x draws at most, but for a few draws
_MAX_ROWS = 4000  # of a context
_BEYOND_DOUBT = 1e-10
_MIN_ROWS = 8  # a context with fewer says nothing of its own spread
_SHAPE_ROWS = 30  # nor, with fewer, of the shape of noise: centred and scaled by themselves its residuals are bounded

Rows = Float[np.ndarray, "n d"]


class Residuals(NamedTuple):
    """Of one draw: what is left of every cell (NaN where nothing can be said), the fitted values, and where a context
    has neither a mean nor a variance of its own."""

    left: Rows
    fitted: Rows
    same_mean: Bool[np.ndarray, "K d"]
    same_variance: Bool[np.ndarray, "K d"]


class Family(NamedTuple):
    """A kind of statistic: its axes, the least size that counts, and how to say it."""

    dims: tuple[str, ...]
    least: float
    words: Callable[["Misfit", ContextData], str]


class Misfit(NamedTuple):
    """A family of statistics over all draws: sizes, p-values, which of them count, and the place of the worst."""

    size: np.ndarray
    p: np.ndarray
    beyond: np.ndarray

    @property
    def worst(self) -> tuple[int, ...]:
        """The place of the smallest p-value among those that count, the largest size where several are 0."""
        order = np.lexsort((-np.abs(self.size).ravel(), np.where(self.beyond, self.p, 2.0).ravel()))
        return tuple(int(i) for i in np.unravel_index(order[0], self.size.shape))


def _tails(found: Misfit, data: ContextData) -> str:
    j = found.worst[0]
    heavy = found.size[j] > 0
    n = int((found.beyond & ((found.size > 0) == heavy)).sum())
    remedy = "consider --transform normal-scores" if heavy else "look for few or repeated values (bacadi check)"
    return (
        f"the tails of {n} of {_every(data)} are {'heavier' if heavy else 'lighter'} than Gaussian (most: "
        f"{quoted(data.variables[j])}, excess kurtosis {found.size[j]:.1f}); {remedy}"
    )


def _skew(found: Misfit, data: ContextData) -> str:
    j, n = found.worst[0], int(found.beyond.sum())
    return (
        f"the noise of {n} of {_every(data)} is skewed (most: {quoted(data.variables[j])}, skewness "
        f"{found.size[j]:.1f}); consider --transform log or --transform normal-scores"
    )


def _rows(found: Misfit, data: ContextData) -> str:
    j, n = found.worst[0], int(found.beyond.sum())
    return (
        f"in {n} of {_every(data)} a row resembles the one before (most: {quoted(data.variables[j])}, correlation "
        f"{found.size[j]:.2f}), so that there are fewer independent rows than it seems; consider --thin"
    )


def _curves(found: Misfit, data: ContextData) -> str:
    j, n = found.worst[0], int(found.beyond.sum())
    return (
        f"a line does not describe how {n} of {_every(data)} depend on their parents (most: "
        f"{quoted(data.variables[j])}); "
        "consider --transform or --model nonlinear"
    )


def _means(found: Misfit, data: ContextData) -> str:
    k, j = found.worst
    n = int(found.beyond.any(axis=0).sum())
    return (
        f"the mean of {n} of {_every(data)} differs between contexts that leave it untouched (most: "
        f"{quoted(data.variables[j])} in {_context(k, data)}, by {found.size[k, j]:.2f} standard deviations); allow "
        "for drift between contexts ([model] drift) or name batches with --block"
    )


def _variances(found: Misfit, data: ContextData) -> str:
    k, j = found.worst
    n = int(found.beyond.any(axis=0).sum())
    return (
        f"the variance of {n} of {_every(data)} differs between contexts that leave it untouched (most: "
        f"{quoted(data.variables[j])} in {_context(k, data)}, {np.exp(found.size[k, j]):.1f} times); consider "
        "--effect any"
    )


def _pairs(found: Misfit, data: ContextData) -> str:
    i, j = found.worst
    n = counted(int(found.beyond.sum()) // 2, "pair")
    return (
        f"{n} of variables vary together for no reason in the model (most: {quoted(data.variables[i])} and "
        f"{quoted(data.variables[j])}, correlation {found.size[i, j]:.2f} of what is left); a common cause may be "
        "missing from the table, or name batches with --block"
    )


def _every(data: ContextData) -> str:
    return counted(data.n_variables, "variable")


def _context(k: int, data: ContextData) -> str:
    return quoted((data.observational or "the control", *data.contexts)[k])


_BY_CONTEXT = ("observational_and_context", "node")
FAMILIES = {
    "kurtosis": Family(("node",), 0.5, _tails),
    "skewness": Family(("node",), 0.3, _skew),
    "autocorrelation": Family(("node",), 0.1, _rows),
    "curvature": Family(("node",), 0.1, _curves),
    "mean": Family(_BY_CONTEXT, 0.1, _means),
    "log_variance_ratio": Family(_BY_CONTEXT, 0.2, _variances),
    "correlation": Family(("source", "target"), 0.1, _pairs),
}
"""What is looked at, by the name of its statistic; `residual_<name>` and `residual_<name>_p` in `sample_stats`.

The shape of the noise comes first: where it is not Gaussian, other statistics fail because of it."""


class FitCheck(NamedTuple):
    """What the checks found; `words` are empty where nothing speaks against the model."""

    findings: dict[str, Misfit]
    words: list[str]

    def to_stats(self) -> dict[str, Labelled]:
        """As arrays of a posterior's `sample_stats`."""
        stats = {}
        for name, found in self.findings.items():
            stats[f"residual_{name}"] = Labelled(found.size, FAMILIES[name].dims)
            stats[f"residual_{name}_p"] = Labelled(found.p, FAMILIES[name].dims)
        return stats


def check_fit(problem: Problem, posterior: Posterior) -> FitCheck | None:
    """Check lines and curves against the residuals of up to 100 draws; None for models that it does not know.

    Of tasks that follow the model at most one in twenty gets a sentence. With missing values there is no check.
    """
    data = problem.standardized
    known = isinstance(problem.model.mechanism, LinearGaussian | BGe | AdditiveProcess)
    if not known or np.isnan(data.x).any() or data.n_rows < 20:
        return None
    data = _fewer_rows(data)
    sums: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    total = 0.0
    for weight, residuals in _draws(problem, data, posterior):
        total += weight
        for name, pair in _statistics(residuals, data).items():
            old = sums.get(name, (0.0, 0.0))
            sums[name] = (old[0] + weight * pair[0], old[1] + weight * pair[1])
    findings = {}
    for name, (size, p) in sums.items():
        size, p, family = size / total, p / total, FAMILIES[name]
        n_tests = max(np.isfinite(p).sum() // (2 if name == "correlation" else 1), 1)
        with np.errstate(invalid="ignore"):
            beyond = (p * n_tests * len(FAMILIES) < FALSE_ALARMS) & (np.abs(size) >= family.least)
        findings[name] = Misfit(size, p, beyond)
    if problem.data.weight is not None:  # the model knows of these tails: rows that are far off count less
        findings["kurtosis"].beyond[(problem.data.weight < 1).any(axis=0)] = False
        findings["log_variance_ratio"].beyond[:, (problem.data.weight < 1).any(axis=0)] = False
    # Variances of heavy tails vary from context to context: that is the same fault once more.
    findings["log_variance_ratio"].beyond[:, findings["kurtosis"].beyond] = False
    return FitCheck(findings, _sentences(findings, data))


def _sentences(findings: dict[str, Misfit], data: ContextData) -> list[str]:
    """The families that speak against the model: those beyond doubt in the order of `FAMILIES`, then the clearest."""
    failed = []
    for place, (name, found) in enumerate(findings.items()):
        if found.beyond.any():
            p = float(found.p[found.beyond].min())
            failed.append((max(p, _BEYOND_DOUBT), place, name))
    words = [FAMILIES[name].words(findings[name], data) for *_, name in sorted(failed)[:MAX_SENTENCES]]
    return [f"The model does not fit: {sentence}." for sentence in words]


def _fewer_rows(data: ContextData) -> ContextData:
    """The first rows of contexts that have very many; they stay in their order."""
    kept = np.concatenate([np.flatnonzero(data.context == k)[:_MAX_ROWS] for k in range(data.n_contexts + 1)])
    return data if len(kept) == data.n_rows else data.rows(np.sort(kept))


def _draws(problem: Problem, data: ContextData, posterior: Posterior) -> Iterator[tuple[float, Residuals]]:
    """Weight and residuals of the different structures among the draws."""
    d, m = data.n_variables, data.n_contexts
    states = posterior.parameters.get("effect_state")
    kinds = effect_states(problem.model.effect, data).kind
    every = posterior.intervention_target if states is None else states.values
    graphs = posterior.graph.reshape(-1, d, d)
    every = np.asarray(every).reshape(len(graphs), m, d)
    usable = np.flatnonzero(posterior.weights.ravel() > 0)
    n = int(np.clip(_WORK / (data.n_rows * d**2), 4, MAX_DRAWS))
    # Of weighted draws those in the middle of equal shares of the weight.
    cumulative = np.cumsum(posterior.weights.ravel()[usable])
    at = usable[np.minimum(np.searchsorted(cumulative, (np.arange(n) + 0.5) / n * cumulative[-1]), len(usable) - 1)]
    rows = np.concatenate([graphs[at].reshape(n, -1), every[at].reshape(n, -1)], axis=1)
    _, first, times = np.unique(rows, axis=0, return_index=True, return_counts=True)
    # With drift every context has a mean of its own, target or not, and means say nothing; nor do variances where those
    # of contexts may differ from the control's.
    regressions = _Regressions(data, inputs_of(problem.model.mechanism, data), problem.model.drift or ContextDrift())
    for i, weight in zip(at[first], times, strict=True):
        kind = np.vstack([np.zeros(d, np.int8), kinds[every[i]]])
        yield float(weight), regressions.residuals(graphs[i], kind)


def inputs_of(mechanism: Mechanism, data: ContextData) -> list[Float[np.ndarray, "n _"]]:
    """The columns by which each variable enters the regressions of others: itself, or features of its curves."""
    columns = [data.x[:, i : i + 1] for i in range(data.n_variables)]
    if not isinstance(mechanism, AdditiveProcess):
        return columns
    from bacadi.evidence.gp.factor import split
    from bacadi.evidence.gp.nystrom import single_features

    kernel = split(mechanism.kernels[0])[1]
    return [single_features(kernel, column, 0.0) for column in columns]


class _Regressions:
    """Least squares given parents and kinds of effect, each made once."""

    def __init__(self, data: ContextData, inputs: list[Float[np.ndarray, "n _"]], drift: ContextDrift) -> None:
        self.inputs = inputs
        self.data, self.drifts, self.same_noise = data, max(drift.stds) > 0, bool((drift.noise_ratios == 1).all())
        self.block = data.block
        self.made: dict[tuple[int, bytes, bytes], tuple[np.ndarray, np.ndarray]] = {}

    def residuals(self, graph: Int8[np.ndarray, "d d"], kind: Int8[np.ndarray, "K d"]) -> Residuals:
        """Residuals of one structure; `kind[k, j]` is the kind of effect on j in context k, the control first."""
        left, fitted = np.empty((2, *self.data.x.shape))
        for j in range(self.data.n_variables):
            key = j, graph[:, j].tobytes(), kind[:, j].tobytes()
            if key not in self.made:
                self.made[key] = self._column(j, np.flatnonzero(graph[:, j]), kind[:, j])
            left[:, j], fitted[:, j] = self.made[key]
        untouched = ((kind == EffectKind.NONE) | (kind == EffectKind.SHIFT)) & self.same_noise
        return Residuals(left, fitted, (kind == EffectKind.NONE) & (not self.drifts), untouched)

    def _column(
        self, node: int, parents: Int[np.ndarray, " p"], kind: Int8[np.ndarray, " K"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        x, context = self.data.x, self.data.context
        left, fitted = np.full(len(x), np.nan), np.full(len(x), np.nan)
        usual = (kind != EffectKind.HARD) & (kind != EffectKind.SOFT)
        own_mean = (kind == EffectKind.SHIFT) | (usual & self.drifts)
        # Contexts with an intercept of their own, and one group for all others.
        group = np.where(own_mean[context], context, len(kind))
        parts = [(np.flatnonzero(usual[context]), group, parents)]
        for k in np.flatnonzero(~usual):
            of_own = parents if kind[k] == EffectKind.SOFT else parents[:0]
            parts.append((np.flatnonzero(context == k), context, of_own))
        for rows, groups, regressors in parts:
            z = np.concatenate([x[rows, :0], *(self.inputs[i][rows] for i in regressors)], axis=1)
            if len(rows) >= _MIN_ROWS + z.shape[1]:
                block = None if self.block is None else self.block[rows]
                left[rows], fitted[rows] = _least_squares(z, x[rows, node], groups[rows], block)
        return left, fitted


def _least_squares(
    z: Float[np.ndarray, "n p"], y: Float[np.ndarray, " n"], group: Int[np.ndarray, " n"], block: np.ndarray | None
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Residuals scaled to standard deviation 1, and fitted values, with an intercept for each group and block."""
    table = np.column_stack([z, y])
    labels, at = np.unique(group, return_inverse=True)
    if block is None:
        counts = np.bincount(at).astype(float)
        means = np.stack([np.bincount(at, weights=column) / counts for column in table.T], axis=1)
        table = table - means[at]
    else:
        blocks = np.unique(block, return_inverse=True)[1]
        design = np.hstack([np.eye(len(labels))[at], np.eye(blocks.max() + 1)[blocks]])
        table = table - design @ np.linalg.lstsq(design, table, rcond=None)[0]
    p = z.shape[1]
    fitted = np.zeros(len(y))
    if p:
        gram = table.T @ table
        ridge = 1e-10 * np.diag(np.diag(gram)[:p] + 1e-300)
        fitted = table[:, :p] @ np.linalg.solve(gram[:p, :p] + ridge, gram[:p, p])
    left = table[:, p] - fitted
    freedom = max(len(y) - len(labels) - p, 1)
    scale = np.sqrt((left**2).sum() / freedom)
    return left / (scale or 1.0), fitted


def _statistics(residuals: Residuals, data: ContextData) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Size and p-value of every statistic of one draw."""
    left, context = residuals.left, data.context
    counts = data.counts.astype(float)
    known = np.isfinite(left)
    filled = np.where(known, left, 0.0)
    sums, squares = (_by_context(values, context, len(counts)) for values in (filled, filled**2))
    n = _by_context(known.astype(float), context, len(counts))
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = sums / n
        variance = squares / n - mean**2
        scaled = (left - mean[context]) / np.sqrt(variance)[context]
    scaled[((n < _SHAPE_ROWS) | ~(variance > 1e-12))[context]] = np.nan
    seen = np.isfinite(scaled)
    u, total = np.where(seen, scaled, 0.0), np.maximum(seen.sum(axis=0), 1)
    kurtosis, sixth = (u**4).sum(axis=0) / total, (u**6).sum(axis=0) / total
    lag = _lag_one(u, seen, context)
    fourth = np.clip(lag, 0, 0.99) ** 4
    found = {
        "kurtosis": (kurtosis - 3, _p_kurtosis(kurtosis, total * (1 - fourth) / (1 + fourth))),
        # The variance of the skewness times n is 6 for Gaussian noise, and more for heavy tails that are symmetric.
        "skewness": _with_p((u**3).sum(axis=0) / total, np.sqrt(total / np.maximum(sixth - 6 * kurtosis + 9, 6))),
        "autocorrelation": _with_p(lag, np.sqrt(total)),
        "curvature": _curvature(residuals.fitted, u, seen),
    }
    # Rows that follow each other are worth fewer, and heavy tails make variances vary: each fault has its own family.
    worth = (1 - np.clip(lag, 0, 0.99)) / (1 + np.clip(lag, 0, 0.99))
    found["mean"] = _of_means(mean, n, residuals.same_mean, worth)
    found["log_variance_ratio"] = _of_variances(variance, n, residuals.same_variance, (kurtosis, worth))
    found["correlation"] = _correlations(u, seen, lag)
    nothing = total < _SHAPE_ROWS
    for name in ("kurtosis", "skewness", "autocorrelation", "curvature"):
        size, p = found[name]
        found[name] = np.where(nothing, 0.0, size), np.where(nothing, 1.0, p)
    return found


def _by_context(values: Rows, context: Int[np.ndarray, " n"], n_contexts: int) -> Float[np.ndarray, "K d"]:
    return (context[:, None] == np.arange(n_contexts)).T.astype(float) @ values


def _two_sided(z: np.ndarray) -> np.ndarray:
    return 2 * ndtr(-np.abs(z))


def _with_p(size: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A statistic that is N(0, 1 / root²) where the model holds."""
    return size, _two_sided(size * root)


def _p_kurtosis(kurtosis: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The normal approximation of Anscombe and Glynn (1983), two-sided."""
    n = np.maximum(n, 20).astype(float)
    mean = 3 * (n - 1) / (n + 1)
    variance = 24 * n * (n - 2) * (n - 3) / ((n + 1) ** 2 * (n + 3) * (n + 5))
    third = 6 * (n**2 - 5 * n + 2) / ((n + 7) * (n + 9)) * np.sqrt(6 * (n + 3) * (n + 5) / (n * (n - 2) * (n - 3)))
    a = 6 + 8 / third * (2 / third + np.sqrt(1 + 4 / third**2))
    standard = (kurtosis - mean) / np.sqrt(variance)
    ratio = (1 - 2 / a) / np.maximum(1 + standard * np.sqrt(2 / (a - 4)), 1e-12)
    return _two_sided(((1 - 2 / (9 * a)) - np.cbrt(ratio)) / np.sqrt(2 / (9 * a)))


def _lag_one(u: Rows, seen: Bool[np.ndarray, "n d"], context: Int[np.ndarray, " n"]) -> Float[np.ndarray, " d"]:
    """The correlation of a row with the one before in its context."""
    order = np.argsort(context, kind="stable")
    u, seen, of = u[order], seen[order], context[order]
    follows = ((of[1:] == of[:-1])[:, None] & seen[1:] & seen[:-1]).astype(float)
    return (u[1:] * u[:-1] * follows).sum(axis=0) / np.maximum(follows.sum(axis=0), 1)


def _curvature(fitted: Rows, u: Rows, seen: Bool[np.ndarray, "n d"]) -> tuple[np.ndarray, np.ndarray]:
    """The correlation of residuals with the square of the fitted values, orthogonal to these; 0 without parents."""
    f = np.where(seen & np.isfinite(fitted), fitted, 0.0)
    n = np.maximum(seen.sum(axis=0), 1)
    square = np.where(seen, f**2, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = np.nan_to_num((square * f).sum(axis=0) / (f**2).sum(axis=0))
        square = np.where(seen, square - slope * f - ((square - slope * f).sum(axis=0) / n), 0.0)
        size = np.nan_to_num((square * u).sum(axis=0) / np.sqrt((square**2).sum(axis=0) * n))
    return _with_p(size, np.sqrt(n))


def _of_means(
    mean: np.ndarray, n: np.ndarray, same: Bool[np.ndarray, "K d"], worth: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means of residuals in contexts that share an intercept; NaN elsewhere."""
    used = same & (n > 0)
    share = np.where(used, n, 0.0) / np.maximum(np.where(used, n, 0.0).sum(axis=0), 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = mean * np.sqrt(n * worth / np.maximum(1 - share, 1e-9))
    fit = used & (share < 0.999)
    return np.where(fit, mean, 0.0), np.where(fit, _two_sided(np.where(fit, z, 0.0)), 1.0)


def _of_variances(
    variance: np.ndarray, n: np.ndarray, same: Bool[np.ndarray, "K d"], correction: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """log of the variance over that of all other contexts of the same mechanism, by Wilson and Hilferty's cube root."""
    kurtosis, worth = correction
    used = same & (n >= _MIN_ROWS) & (variance > 0)
    m = np.where(used, n - 1, 0.0)
    squares = np.where(used, n * variance, 0.0)
    others = (squares.sum(axis=0) - squares) / np.maximum(m.sum(axis=0) - m, 1)
    fit = used & (m.sum(axis=0) - m >= _MIN_ROWS) & (others > 0)
    ratio = np.where(fit, squares / np.maximum(m, 1), 1.0) / np.where(fit, others, 1.0)
    shrink = 2 / (np.maximum(kurtosis, 3) - 1) * worth
    first, second = (2 / (9 * np.maximum(freedom * shrink, 1)) for freedom in (m, m.sum(axis=0) - m))
    root = np.cbrt(ratio)
    z = ((1 - second) * root - (1 - first)) / np.sqrt(second * root**2 + first)
    return np.where(fit, np.log(ratio), 0.0), np.where(fit, _two_sided(z), 1.0)


def _correlations(u: Rows, seen: Bool[np.ndarray, "n d"], lag: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Correlations of the residuals of two variables within contexts."""
    n = np.maximum(seen.T.astype(np.float32) @ seen.astype(np.float32), 1)
    size = np.clip((u.T @ u) / n, -0.999999, 0.999999)
    both = np.clip(np.outer(lag, lag), 0, 0.98)
    p = _two_sided(np.arctanh(size) * np.sqrt(np.maximum(n - 3, 1) * (1 - both) / (1 + both)))
    off = ~np.eye(len(size), dtype=bool)
    return np.where(off, size, 0.0), np.where(off, p, np.nan)
