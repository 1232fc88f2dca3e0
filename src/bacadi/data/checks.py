"""What can be wrong with a table: checks of its cells, its context labels, its columns and its rows.

Every check yields findings, each with a severity, a code for scripts and a sentence for people that says what is wrong,
where, and what to do. `bacadi.data.doctor` decides which checks a table gets and collects what they find.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from bacadi.data.text import closest, counted, listed, quoted

Matrix = Float[np.ndarray, "n d"]
Mask = Bool[np.ndarray, " n"]
Names = list[str]


class Severity(Enum):
    """An error refuses the table, a warning informs of a risk, a note mentions something expected.

    >>> Severity("warning")
    <Severity.WARNING: 'warning'>
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """One statement about a table: how bad, a stable code for scripts, and a sentence for people.

    >>> Finding(Severity.NOTE, "few-rows", "Context 'ko' has fewer than 5 rows.").code
    'few-rows'
    """

    severity: Severity
    code: str
    message: str


Findings = Iterator[Finding]
error, warning, note = (partial(Finding, severity) for severity in Severity)


# ---------------------------------------------------------------------------------------------------- where a row is

LINE_INDEX = "file line"
"""Name of the index of a table read from a text file: its labels are line numbers of that file, the header being 1."""

ARRAY_INDEX = "array row"
"""Name of the index of a table put together from arrays: its labels are `context[row]`."""


def row_name(index: pd.Index, position: int) -> str:
    """How to call the row at `position`: by file line, or by index label for a frame.

    >>> row_name(pd.RangeIndex(2, 5, name=LINE_INDEX), 0), row_name(pd.Index(["cell_1"]), 0)
    ('line 2', "the row with index label 'cell_1'")
    """
    label = index[position]
    if index.name == LINE_INDEX:
        return f"line {label}"
    if index.name == ARRAY_INDEX:
        return f"array row {label}"
    return f"the row with index label {quoted(label) if isinstance(label, str) else label}"


def _rows(index: pd.Index, mask: Mask) -> str:
    """The first row of a mask by name and the others by their number: `line 2 and in 3 more rows`."""
    others = int(mask.sum()) - 1
    return row_name(index, int(np.argmax(mask))) + (f" and in {counted(others, 'more row')}" if others else "")


# ------------------------------------------------------------------------------------------------------------- cells

# Squares of the values are summed in single precision, so the square has to be representable, not only the value.
LARGEST = float(np.sqrt(np.finfo(np.float32).max))
SMALLEST = float(np.sqrt(np.finfo(np.float32).tiny))

MIN_PRESENT = 5
"""Fewest values of a column from which its missing ones are completed."""

_SPELLINGS = (
    (r"\s*[-+]?\d*,\d+(?:[eE][-+]?\d+)?\s*", "a decimal comma,", "write numbers with a point, as in 1.5"),
    (r"\s*[-+]?\d{1,3}(?:,\d{3})+(?:\.\d*)?\s*", "a number with thousands separators,", "write digits without commas"),
    (r"(?s).*", "the text", "write a number there, or drop the row or the column"),
)


def to_numbers(series: pd.Series) -> tuple[Float[np.ndarray, " n"], Mask]:
    """Parse one column to floats, NaN where a cell is missing or is not a number, and mark those that are not numbers.

    Booleans become 0 and 1; text is not a number even where it spells one.

    >>> values, text = to_numbers(pd.Series([True, None, "2"], dtype=object))
    >>> values.tolist(), text.tolist()
    ([1.0, nan, nan], [False, False, True])
    """
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(series.cat.categories.dtype)
    if pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_complex_dtype(series.dtype):
        return series.to_numpy(dtype=np.float64, na_value=np.nan), np.zeros(len(series), dtype=bool)
    missing = series.isna().to_numpy(dtype=bool)
    values = np.array([_number(cell) for cell in series.to_list()], dtype=np.float64)
    values[missing] = np.nan
    return values, np.isnan(values) & ~missing


def _number(cell: object) -> float:
    """The cell as a float, NaN when it is not a real number by type."""
    if isinstance(cell, (str, bytes, complex)) or not hasattr(cell, "__float__"):
        return np.nan
    try:
        return float(cell)  # type: ignore[arg-type]
    except OverflowError:
        return np.inf
    except (TypeError, ValueError):
        return np.nan


def cell_findings(series: pd.Series, values: Float[np.ndarray, " n"], text: Mask, may_miss: bool = False) -> Findings:
    """Check the cells of one column, read by `to_numbers`: each kind that is not a usable number, with its first row.

    Cells that `may_miss` are counted in a note, unless they are nearly all there is.

    >>> column = pd.Series([1, None, "high"], dtype=object, name="a")
    >>> [finding.code for finding in cell_findings(column, *to_numbers(column))]
    ['text', 'missing']
    """
    column, index = f"Column {quoted(series.name)}", series.index
    if text.any():
        yield error("text", f"{column} has {_text(series, text)}.")
    missing, infinite = np.isnan(values) & ~text, np.isinf(values)
    if missing.any() and may_miss and missing.sum() <= len(values) - MIN_PRESENT:
        share = f"{missing.sum()} of {len(values)} rows ({missing.mean():.1%})"
        yield note("imputed", f"{column} has no value in {share}, which are completed several times.")
    elif missing.any():
        remedy = "fill in the value, drop the column (--drop), or drop or complete such rows (--missing drop or impute)"
        few = ", with too few values to complete it" if may_miss else ""
        yield error("missing", f"{column} has no value in {_rows(index, missing)}{few}; {remedy}.")
    if infinite.any():
        remedy = "replace it by a number, or drop the row (a logarithm of 0 is a common cause)"
        yield error("infinite", f"{column} has an infinite value in {_rows(index, infinite)}; {remedy}.")
    huge = ~infinite & (np.abs(values) > LARGEST)
    if huge.any():
        remedy = f"(limit {LARGEST:.1e}); express the column in a larger unit"
        what = f"the value {values[np.argmax(huge)]:.3g} in {_rows(index, huge)}"
        yield error("overflow", f"{column} has {what}, too large to be squared in single precision {remedy}.")
    size = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    if 0 < size < SMALLEST:
        remedy = f"(limit {SMALLEST:.1e}); express the column in a smaller unit"
        what = f"no value beyond {size:.3g}"
        yield error("underflow", f"{column} has {what}, too small to be squared in single precision {remedy}.")


def _text(series: pd.Series, text: Mask) -> str:
    """Point at the cell that is to blame: the first that does not spell a number, else the first text cell."""
    spelt = pd.Series([cell if isinstance(cell, str) else None for cell in series.to_list()], dtype=object)
    blamed = text & pd.to_numeric(spelt, errors="coerce").isna().to_numpy(dtype=bool)
    cells = blamed if blamed.any() else text
    cell = series.iloc[int(np.argmax(cells))]
    if not isinstance(cell, str):
        what, remedy = f"a value of type {type(cell).__name__}", "only real numbers can be used, convert it"
    elif not blamed.any():
        what, remedy = "a number stored as text,", "convert the column with pandas.to_numeric"
    else:
        what, remedy = next(words for pattern, *words in _SPELLINGS if re.fullmatch(pattern, cell))
    return f"{what} {quoted(cell)} in {_rows(series.index, cells)}; {remedy}"


# ------------------------------------------------------------------------------------------------------------ labels

MIN_ROWS = 2
"""Fewest rows that at least one context needs: from single rows alone a changed mechanism cannot be told from noise."""

_FEW_ROWS = 5

_CONTROL_WORDS = frozenset(
    {"obs", "observational", "control", "controls", "ctrl", "ctl", "wt", "wildtype", "wild type", "ntc", "nt"}
    | {"untreated", "unperturbed", "non targeting", "nontargeting", "non targeting control", "negative control"}
    | {"mock", "vehicle", "dmso", "pbs", "placebo", "baseline", "reference", "scramble", "scrambled", "safe targeting"}
)
_UNASSIGNED = frozenset(
    {"", "na", "n/a", "nan", "<na>", "none", "null", "unassigned", "not assigned", "unknown", "undetermined"}
    | {"ambiguous", "negative", "doublet", "multiplet", "multiple", "no guide", "noguide", "no call", "filtered"}
)
_PERHAPS_CONTROL = frozenset({"0", "none"})


def is_control(label: str) -> bool:
    """Whether a label is a usual one for the untouched context; case, hyphens and underscores do not count.

    >>> is_control("Non-Targeting"), is_control("NT"), is_control("none")
    (True, True, False)
    """
    return " ".join(re.split(r"[\s_-]+", label.strip().lower())) in _CONTROL_WORDS


def is_unassigned(label: str) -> bool:
    """Whether a label says that nobody knows what was done to a row: such rows are no controls.

    >>> is_unassigned("Unassigned"), is_unassigned("ctrl")
    (True, False)
    """
    return label.strip().lower() in _UNASSIGNED


def find_control(labels: Iterable[str]) -> str | None:
    """The one label that is a usual one for the untouched context; None where none or several are.

    >>> find_control(["KLF1", "ctrl"]), find_control(["DMSO", "untreated"])
    ('ctrl', None)
    """
    usual = [label for label in labels if is_control(label)]
    return usual[0] if len(usual) == 1 else None


def label_findings(index: pd.Index, counts: Counter[str], missing: Mask, observational: str | None) -> Findings:
    """Check the contexts by their labels and their numbers of rows alone, whatever the numbers in the rows.

    >>> index, missing = pd.RangeIndex(2, 6, name=LINE_INDEX), np.array([False, False, False, True])
    >>> [finding.code for finding in label_findings(index, Counter(wt=2, ko=1), missing, "wt")]
    ['missing-context', 'single-row', 'few-rows']
    """
    if missing.any():
        remedy = "write the context of every row, or leave such rows out (--drop-contexts nan)"
        yield error("missing-context", f"The context column has no label in {_rows(index, missing)}; {remedy}.")
    if observational is not None and observational not in counts:
        what = f"No row has the observational label {quoted(observational)}{closest(observational, list(counts))}"
        yield error("unknown-observational", f"{what}; the contexts are {listed(counts)}, so name one of these.")
    yield from _context_sizes(counts)
    odd = {label: n for label, n in counts.items() if is_unassigned(label) and label != observational}
    if odd and len(counts) > 1:
        what = f"{counted(sum(odd.values()), 'row')} with the label {listed(odd)} may be rows that nobody could assign"
        yield warning("unassigned", f"{what}; leave them out with --drop-contexts {','.join(odd)} if they are.")
    yield from _design(counts, observational)
    yield from _spellings(counts)


def _context_sizes(counts: Counter[str]) -> Findings:
    """Contexts with too few rows; if none has a second row, the column is a row number and not a context."""
    if counts and max(counts.values()) < MIN_ROWS and counts.total() > 1:
        what = f"Every one of the {len(counts)} rows has its own context (the first is {quoted(next(iter(counts)))})"
        if len(counts) > 2 and _are_row_numbers(list(counts)):
            remedy = "so the context column looks like a row number; name the column that groups the rows"
            yield error("context-is-index", f"{what}, {remedy}.")
        else:
            remedy = (
                "add replicates of at least one of them, best of the control, or merge contexts of the same treatment"
            )
            yield error("small-context", f"{what}, and nothing tells an effect from noise; {remedy}.")
        return
    single = [label for label, count in counts.items() if count < MIN_ROWS]
    if single:
        which = (
            f"Context {listed(single)} has" if len(single) == 1 else f"{len(single)} contexts ({listed(single)}) have"
        )
        remark = "what noise is comes from the contexts with more rows"
        yield note("single-row", f"{which} a single row; {remark}.")
    few = [label for label, count in counts.items() if MIN_ROWS <= count < _FEW_ROWS]
    if few:
        which, it = (f"Context {listed(few)} has", "it") if len(few) == 1 else (f"Contexts {listed(few)} have", "them")
        yield note("few-rows", f"{which} fewer than {_FEW_ROWS} rows; expect wide uncertainty about {it}.")


def _are_row_numbers(labels: list[str]) -> bool:
    """Whether labels count up one by one, as an index does; one row per experiment is a design with names."""
    return all(label.strip().isdigit() for label in labels) and bool(
        (np.diff([int(label) for label in labels]) == 1).all()
    )


def _design(counts: Counter[str], observational: str | None) -> Findings:
    """What the contexts as a whole can and cannot tell."""
    if len(counts) == 1:
        what = f"All rows are from the context {quoted(next(iter(counts)))}, so nothing tells cause from effect"
        remedy = "add rows from another context if you have them"
        yield warning("one-context", f"{what} beyond the conditional independences; {remedy}.")
    elif counts and observational is None:
        control = [label for label in counts if is_control(label) or label.strip().lower() in _PERHAPS_CONTROL]
        what = "No observational context is named, so every context may have targets and the unperturbed mechanisms"
        which = f"if one of them is the untouched control{f' (perhaps {listed(control)})' if control else ''}"
        remedy = f"are learnt only from what the contexts share; {which}, name it as observational"
        yield warning("no-observational", f"{what} {remedy}.")


def _spellings(counts: Counter[str]) -> Findings:
    """Labels that are probably one context spelt in two ways."""
    variants: dict[str, list[str]] = {}
    for label in counts:
        variants.setdefault(" ".join(label.lower().split()), []).append(label)
    for group in variants.values():
        if len(group) > 1:
            what = f"The contexts {' and '.join(map(repr, group))} differ only in capitals or spaces"
            remedy = "and are treated as different; use one spelling if they are the same"
            yield warning("similar-contexts", f"{what} {remedy}.")


def context_candidates(table: pd.DataFrame) -> list[str]:
    """Columns that could name the contexts: few distinct values, with at least two rows each on average.

    >>> context_candidates(pd.DataFrame({"a": [0.1, 0.2, 0.3, 0.4], "arm": ["wt", "wt", "ko", "ko"]}))
    ['arm']
    """
    columns = [(name, column) for name, column in table.items() if not pd.api.types.is_float_dtype(column.dtype)]
    few = [(name, column) for name, column in columns if 1 <= column.nunique() <= max(1, len(table) // 2)]
    words = [(name, column) for name, column in few if not pd.api.types.is_numeric_dtype(column.dtype)]
    return [str(name) for name, _ in words or few]  # words are a better guess than numbers, which may be measured


# ----------------------------------------------------------------------------------------------------------- columns

DUPLICATE_CORRELATION = 1 - 1e-10
"""Two columns with a larger absolute correlation are one column up to sign, scale and shift."""

COLLINEAR_VIF = 1e3
"""Variance inflation 1 / (1 - R²) from which a column counts as a combination of others (R² > .999)."""

SCALE_RATIO = 1e6
COUNT_SKEWNESS = 2.0
COUNTS_FROM = 100
_ROUNDING = 1e-13


def column_findings(x: Matrix, names: Names) -> Findings:
    """Check the columns of a finite table: constant, duplicated, collinear, badly scaled, counts, row numbers.

    A column that is constant or repeats another one is left out of the checks after it is named.

    >>> x = np.array([[1.0, 2.0, 1.0], [2.0, 4.0, 1.0], [0.0, 0.0, 1.0], [5.0, 10.0, 1.0]])
    >>> [finding.code for finding in column_findings(x, ["a", "b", "c"])]
    ['constant', 'duplicate-column']
    """
    n, d = x.shape
    constant = _equal(x.min(axis=0), x.max(axis=0))
    for j in np.flatnonzero(constant):
        yield error("constant", f"Column {quoted(names[j])} has the same value {x[0, j]:.6g} in all {n} rows; drop it.")
    if d >= n:
        what = f"There are {'more variables than' if d > n else 'as many variables as'} rows ({d} and {n})"
        remedy = "so the result will lean on the prior; choose fewer variables or add rows"
        yield warning("more-variables-than-rows", f"{what}, {remedy}.")
    x, names = x[:, ~constant], [names[j] for j in np.flatnonzero(~constant)]
    if not names:
        return
    unit = _unit_columns(x)
    original = _originals(x, unit)
    for copy, first in original.items():
        how = "is the same as" if (x[:, first] == x[:, copy]).all() else "is the same up to sign, unit or offset as"
        what = f"Column {quoted(names[copy])} {how} column {quoted(names[first])}"
        yield error("duplicate-column", f"{what}; keep only one of the two.")
    kept = [j for j in range(len(names)) if j not in original]
    yield from _collinear(unit[:, kept], [names[j] for j in kept])
    yield from _units(x, names)


def _equal(low: Float[np.ndarray, "..."], high: Float[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
    """Whether values between these differ by nothing but rounding."""
    return high - low <= _ROUNDING * np.maximum(np.abs(low), np.abs(high))


def _unit_columns(x: Matrix) -> Matrix:
    """Columns with mean 0 and length 1, so that `u.T @ u` is the matrix of correlations."""
    centred = x / np.abs(x).max(axis=0)  # first to the same size, so that squares neither overflow nor vanish
    centred = centred - centred.mean(axis=0)
    return centred / np.linalg.norm(centred, axis=0)


def _originals(x: Matrix, unit: Matrix) -> dict[int, int]:
    """For each column that repeats an earlier one up to sign, scale and shift, the first that it repeats."""
    # Any two columns of two rows have correlation 1, which says nothing; there only equal columns are duplicates.
    same = np.abs(unit.T @ unit) > DUPLICATE_CORRELATION if len(x) > 2 else (x[:, :, None] == x[:, None, :]).all(axis=0)
    earlier = np.triu(same, k=1)
    return {int(j): int(np.argmax(earlier[:, j])) for j in np.flatnonzero(earlier.any(axis=0))}


def _connected(linked: Bool[np.ndarray, "n n"]) -> Iterator[Bool[np.ndarray, " n"]]:
    """The connected components of an undirected graph, each as the mask of its members."""
    left = np.ones(len(linked), bool)
    while left.any():
        group, grown = np.zeros_like(left), np.arange(len(left)) == left.argmax()
        while (grown != group).any():
            group, grown = grown, grown | linked[grown].any(axis=0)
        yield group
        left &= ~group


def _collinear(unit: Matrix, names: Names) -> Findings:
    """Groups of columns of which one is, to R² > .999, a linear combination of the others."""
    n, d = unit.shape
    if d < 2 or n <= d + 1:
        return
    correlation = unit.T @ unit
    # The ridge keeps the inverse finite; on an exact dependence it makes the inverse the projection onto it.
    ridge = d * 1e-14
    precision = np.linalg.inv(correlation + ridge * np.eye(d))
    dependent = np.linalg.eigvalsh(correlation)[0] < 100 * ridge
    inflation = np.diag(precision)
    inflated = np.flatnonzero(inflation > COLLINEAR_VIF)
    root = np.sqrt(inflation[inflated])
    partial_correlation = np.abs(precision[np.ix_(inflated, inflated)]) / np.outer(root, root)
    for group in _connected(partial_correlation > 0.1):
        members = inflated[group]
        if len(members) < 2:
            continue
        vif = float(inflation[members].max())
        how = f"nearly collinear (variance inflation up to {vif:.0e})"
        remedy = "edges among them are hardly determined by the data, so consider dropping or merging some"
        if dependent and vif > 1e-3 / ridge:
            how = "linearly dependent to within rounding (for example, they may add up to a constant)"
            remedy = "drop one of them, since the data cannot tell which causes which"
        which = f"The {len(members)} columns {listed(names[j] for j in members)}"
        yield warning("collinear", f"{which} are {how}; {remedy}.")


def _units(x: Matrix, names: Names) -> Findings:
    """Columns whose numbers should be in other units: spreads far apart, counts with a long tail, row numbers."""
    spread = x.std(axis=0)
    low, high = int(np.argmin(spread)), int(np.argmax(spread))
    if spread[high] > SCALE_RATIO * spread[low]:
        what = f"The spread of column {quoted(names[high])} (standard deviation {spread[high]:.2g})"
        than = f"is over a million times that of column {quoted(names[low])} ({spread[low]:.2g})"
        yield warning("scales", f"{what} {than}; standardise the data or change the units.")
    # Counts begin at or near 0; bytes, prices and intensities are whole numbers too and do not.
    low = (x.min(axis=0) >= 0) & (np.quantile(x, 0.1, axis=0) < COUNTS_FROM)
    whole = np.flatnonzero(low & (x.max(axis=0) >= 10) & (x == np.rint(x)).all(axis=0))
    skewness = (((x[:, whole] - x[:, whole].mean(axis=0)) / spread[whole]) ** 3).mean(axis=0)
    skewed = [names[j] for j in whole[skewness > COUNT_SKEWNESS]]
    if skewed:
        verb, whose = ("holds", "its") if len(skewed) == 1 else ("hold", "their")
        what = f"{counted(len(skewed), 'column')} {verb} counts with a long right tail ({listed(skewed)})"
        remedy = f"so take the logarithm of 1 + {whose} values (--transform log1p, divided by the library size, if any)"
        yield warning("counts", f"{what}; the models assume Gaussian noise, {remedy}.")
    for j in np.flatnonzero((np.diff(x, axis=0) == 1).all(axis=0)) if len(x) >= 5 else ():
        what = f"Column {quoted(names[j])} counts the rows one by one and looks like a row number"
        yield warning("row-number", f"{what}; drop it if it is one.")


# -------------------------------------------------------------------------------------------------------------- rows


def row_findings(index: pd.Index, x: Matrix, names: Names, labels: Names) -> Findings:
    """Check the rows of a finite table within their contexts: columns that a context holds constant, repeated rows.

    >>> x = np.array([[0.5, 1.0], [1.5, 2.0], [0.1, 0.0], [0.2, 0.0]])
    >>> [finding.message for finding in row_findings(pd.RangeIndex(4), x, ["a", "b"], ["wt", "wt", "ko", "ko"])]
    ["In context 'ko' column 'b' is constant at 0, as after a knock-out or a clamp; this is fine if it is intended."]
    """
    yield from _constant_in_context(x, names, labels)
    # Whole numbers repeat by chance (counts, on/off states); measured decimals do not.
    repeats = np.flatnonzero(pd.DataFrame(x).duplicated())
    # Nor do cells that hold the commonest value of their column (zeros of sparse cells): at least half must be others.
    common = np.array([_commonest(column) for column in x.T])
    repeats = repeats[(x[repeats] != common).mean(axis=1) >= 0.5]
    if len(repeats) and (x != np.rint(x)).any():
        first = int(np.argmax((x == x[repeats[0]]).all(axis=1)))
        example = f"(first: {row_name(index, repeats[0])} repeats {row_name(index, first)})"
        what = f"{counted(len(repeats), 'row')} repeat the values of an earlier row {example}"
        yield warning("repeated-rows", f"{what}; drop them if a sample was entered twice.")


def _commonest(column: Float[np.ndarray, " n"]) -> float:
    """The value that most rows have, NaN where no two rows share one."""
    values, counts = np.unique(column, return_counts=True)
    return float(values[np.argmax(counts)]) if counts.max() > 2 else np.nan


def _constant_in_context(x: Matrix, names: Names, labels: Names) -> Findings:
    groups = pd.DataFrame(x).groupby(np.array(labels, dtype=object), sort=False)
    value = groups.min()
    if len(value) < 2:
        return
    varies = ~_equal(x.min(axis=0), x.max(axis=0))
    constant = _equal(value.to_numpy(), groups.max().to_numpy()) & (groups.size() > 1).to_numpy()[:, None] & varies
    for j in np.flatnonzero(constant.all(axis=0)):
        what = f"Column {quoted(names[j])} has one value in each context and looks like a batch, dose or group label"
        yield warning("decided-by-context", f"{what}; drop it if it is not a measured variable.")
    constant &= ~constant.all(axis=0)
    for k, label in enumerate(value.index):
        held = [names[j] for j in np.flatnonzero(constant[k])]
        if held:
            at = f"column {quoted(held[0])} is constant at {value.iloc[k, int(np.argmax(constant[k]))]:.6g}"
            which = at if len(held) == 1 else f"the {len(held)} columns {listed(held)} are constant"
            remark = "as after a knock-out or a clamp; this is fine if it is intended"
            yield note("constant-in-context", f"In context {quoted(label)} {which}, {remark}.")
