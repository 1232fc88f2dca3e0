"""What data show that the models do not expect, each with a remedy: shapes of columns, dependence of rows, change.

These checks look at arrays, as they will be fitted: on the scale of the transform, within contexts. A warning is meant
to be rare: thresholds are where fewer than one in a hundred simulated tasks that follow a model gets any.
"""

import numpy as np
from jaxtyping import Float

from bacadi.data.changes import changes
from bacadi.data.checks import Findings, note, warning
from bacadi.data.contexts import ContextData
from bacadi.data.shapes import Dependence, is_clock, mixture, residuals, shapes
from bacadi.data.text import counted, listed, quoted
from bacadi.data.transforms import NONE, Verdicts, judge

_MOVED = 4.0
_DENSE, _DENSE_LEAST = 0.6, 6
_EVERYWHERE, _EVERYWHERE_LEAST = 0.8, 5
_FEW_VALUES = 10
_DEPENDENT = 0.8
_FACTOR_CORRELATION, _FACTOR_SHARE, _FACTOR_SIGNS, _FACTOR_LEAST = 0.6, 0.8, 0.95, 6
_LISTED = 4


def symptoms(data: ContextData) -> Findings:
    """Everything about the numbers that makes a posterior less certain than it will say.

    >>> rng = np.random.default_rng(0)
    >>> x = np.column_stack([rng.normal(size=200), np.exp(2 * rng.normal(size=200))])
    >>> [finding.code for finding in symptoms(ContextData(x, np.repeat([0, 1], 100), ("a", "b"), ("ko",), "wt"))]
    ['skewed']
    """
    discrete = np.array([_few_values(column) for column in data.x.T])
    yield from _discrete(data, discrete)
    yield from _shapes(data, ~discrete)
    dependence = data.dependence
    yield from _dependence(data, dependence)
    complete = data.rows(~np.isnan(data.x).any(axis=1))
    if complete.n_rows > 2 * data.n_variables:
        yield from _changes(complete, dependence.share)
        yield from _mixture(complete)
        yield from _factor(complete)
    yield from _blocks(data)


def _judged(data: ContextData) -> Verdicts:
    return judge(shapes(data.x, data.context), np.nanmin(data.x, axis=0) > 0)


def _few_values(column: Float[np.ndarray, " n"]) -> bool:
    seen = column[~np.isnan(column)]
    return len(seen) >= 5 * _FEW_VALUES and len(np.unique(seen)) <= _FEW_VALUES


def _discrete(data: ContextData, discrete: np.ndarray) -> Findings:
    """Columns of a few values, on/off states among them."""
    numbers = {data.variables[j]: len(np.unique(data.x[~np.isnan(data.x[:, j]), j])) for j in np.flatnonzero(discrete)}
    for code, how_many, names in (
        ("binary", "two values", [name for name, n in numbers.items() if n == 2]),
        ("few-values", f"at most {_FEW_VALUES} values", [name for name, n in numbers.items() if n > 2]),
    ):
        if names:
            which, has, it = _named(names)
            what = f"{which} {has} {how_many}, and the models have Gaussian noise"
            remedy = f"edges into {it} are rough at best, so drop what is no measurement (--drop) or make it a block"
            yield warning(code, f"{what}; {remedy} (--block).")


def _named(names: list[str]) -> tuple[str, str, str]:
    """Columns as a subject, its "has" and its pronoun."""
    if len(names) == 1:
        return f"Column {quoted(names[0])}", "has", "it"
    return f"{len(names)} columns ({listed(names, _LISTED)})", "have", "them"


def _shapes(data: ContextData, judged: np.ndarray) -> Findings:
    """Columns that are not Gaussian within contexts, each named once, by what is worst about it."""
    shape = shapes(data.x, data.context)
    found, left = judge(shape, np.nanmin(data.x, axis=0) > 0), judged.copy()
    kinds = (("spike", found.spike), ("skewed", found.skewed), ("heavy-tails", found.heavy), ("outliers", found.far))
    for code, mask in kinds:
        at, left = np.flatnonzero(mask & left), left & ~mask
        if not len(at):
            continue
        which, has, it = _named([data.variables[j] for j in at])
        if code == "spike":
            j = at[np.argmax(shape.spike[at])]
            value = data.original()[np.argmax(data.x[:, j] == shape.spike_at[j]), j]
            worst = f"{quoted(data.variables[j])}: {value:g} in {shape.spike[j]:.0%} of rows"
            what = f"{which} {has} a value that many rows share ({worst}), which no Gaussian noise does"
            remedy = f"if it means that nothing was measured, say so (--missing-value {value:g} --missing impute)"
            remedy = f"{remedy}, otherwise drop what you can of {it} (--drop) and see what bacadi sham gives"
        elif code == "skewed":
            what = f"{which} {has} skewed noise within contexts, and the models have Gaussian noise"
            remedy = f"choose another map for {it} (--transform normal-scores)"
            if all(data.transforms.names[j] == NONE for j in at):
                remedy = "use --transform auto, which takes logarithms where they help and says so"
        else:
            tails = "heavier tails than Gaussian noise" if code == "heavy-tails" else "values that are far off"
            what = f"{which} {has} {tails} within contexts, and a few such rows look like a target"
            remedy = "linear mechanisms let such rows count less; with others leave them out (--outliers drop)"
        yield warning(code, f"{what}; {remedy}.")


def _dependence(data: ContextData, found: Dependence) -> Findings:
    """Rows that follow each other, time stamps, rows sorted by a value."""
    clocks: list[str] = []
    sorted_by: list[str] = []
    for j in found.order:
        rows = max(data.by_context(), key=len)[:, j]
        (clocks if is_clock(rows) else sorted_by).append(data.variables[j])
    for name in clocks:
        what = f"Column {quoted(name)} runs evenly along the rows of every context, like a time stamp or a row number"
        yield warning("time-stamp", f"{what}; drop it (--drop {name}).")
    if sorted_by:
        what = f"The rows are sorted by {listed(sorted_by)} within contexts"
        yield note("sorted-rows", f"{what}, so their order says nothing about their dependence.")
    worth, n = data.counts @ found.share, data.n_rows
    if worth < _DEPENDENT * n:
        rho = float(np.median(np.delete(found.autocorrelation, found.order)))
        step = int(np.ceil(n / max(worth, 1.0)))
        what = f"Rows depend on the rows before them (median lag-1 autocorrelation {rho:.2f} within contexts)"
        remedy = f"take every {step}. row (--thin {step}), or fewer rows will look like many"
        yield warning("dependent-rows", f"{what}: {n} rows are worth about {worth:.0f}; {remedy}.")


def _changes(data: ContextData, share: Float[np.ndarray, " K"]) -> Findings:
    """Contexts in which nearly everything moved, variables that moved in nearly every context."""
    found = changes(data.x, data.context, share)
    if found is None:
        return
    moved, own = np.abs(found.alone) > _MOVED, np.abs(found.given_others) > _MOVED
    d, m = data.n_variables, data.n_contexts
    dense = np.flatnonzero((own.mean(axis=1) >= _DENSE) & (own.sum(axis=1) >= _DENSE_LEAST))
    for k in dense:
        name = quoted(data.contexts[k])
        what = f"In context {name} {moved[k].sum()} of {d} variables moved by more than {_MOVED:g} standard errors"
        given = f"{own[k].sum()} of {d} given the others"
        why = "a few targets do not explain that, another batch or state of all does"
        remedy = "name batches (--block), let effects be shifts (--effect shift), see what shuffled labels give"
        yield warning("dense-change", f"{what}, and {given}: {why}; {remedy} (bacadi sham).")
    # Where few contexts differ, or every context as a whole does, no single variable is to blame.
    if m < _EVERYWHERE_LEAST or len(dense) > m / 2:
        return
    sign = np.sign(found.given_others) * own
    for j in np.flatnonzero(np.abs(sign.sum(axis=0)) >= _EVERYWHERE * m):
        count = int(own[:, j].sum())
        what = f"{quoted(data.variables[j])} moved the same way in {count} of {m} contexts"
        why = "it is rather the control that differs"
        remedy = f"drop it (--drop {data.variables[j]}) or name another control (--observational)"
        yield warning("moves-everywhere", f"{what}, so {why}; {remedy}.")


def _mixture(data: ContextData) -> Findings:
    """A control that falls into two groups of rows."""
    control = data.x[data.context == 0]
    share = mixture(control)
    if share is not None:
        name = "observational" if data.observational is None else data.observational
        what = f"The control {quoted(name)} falls into two groups of rows ({share:.0%} and {1 - share:.0%})"
        remedy = "if these are batches, donors or stimulations, name their column (--block) or give each its own label"
        yield warning("mixed-control", f"{what}; {remedy}.")


def _factor(data: ContextData) -> Findings:
    """One hidden factor behind most correlations: nearly all variables go up and down together."""
    if data.n_variables < _FACTOR_LEAST:
        return
    z = np.nan_to_num(residuals(data.x, data.context))
    varies = z.any(axis=0)
    if varies.sum() < _FACTOR_LEAST:
        return
    correlation = np.corrcoef(z[:, varies].T)
    vector = np.linalg.eigh(correlation)[1][:, -1]
    score = z[:, varies] @ vector
    loading = np.array([np.corrcoef(column, score)[0, 1] for column in z[:, varies].T])
    strong = np.abs(loading) > _FACTOR_CORRELATION
    pairs = correlation[np.triu_indices(len(correlation), k=1)]
    same = max((pairs > 0).mean(), (pairs < 0).mean())
    if strong.mean() >= _FACTOR_SHARE and same >= _FACTOR_SIGNS:
        explained = np.linalg.eigvalsh(correlation)[-1] / len(correlation)
        what = f"{strong.sum()} of {len(loading)} variables go up and down together within contexts"
        why = f"({explained:.0%} of their variance), as with sequencing depth or load, which looks like many edges"
        remedy = "divide it out beforehand, or cut it into groups and name these (--block)"
        yield warning("common-factor", f"{what} {why}; {remedy}.")


def _blocks(data: ContextData) -> Findings:
    """Blocks in which a single context was measured."""
    if data.block is None:
        return
    alone = [data.blocks[b] for b in range(len(data.blocks)) if len(np.unique(data.context[data.block == b])) == 1]
    if alone and data.n_contexts:
        has = "has" if len(alone) == 1 else "have"
        what = f"{counted(len(alone), 'block')} ({listed(alone)}) {has} rows of one context only"
        yield warning("block-of-one-context", f"{what}, whose effect cannot be told from the block there.")
