"""What happens to a table before it is examined: columns chosen, rows thinned, blocks set aside.

Every function takes a table and returns one; a name that is not there is refused, because what has no effect would
not be noticed.
"""

from collections.abc import Collection, Iterable

import numpy as np
import pandas as pd

from bacadi.data.checks import to_numbers
from bacadi.data.contexts import every_nth
from bacadi.data.text import closest, counted, listed, quoted
from bacadi.errors import ConfigError, DataError

_LISTED = 10


def with_columns(
    table: pd.DataFrame, variables: Collection[str] | None, drop: Collection[str], labels: Collection[str]
) -> pd.DataFrame:
    """The table with the columns `variables` (None: all) but those of `drop`, beside the columns of `labels`.

    >>> table = pd.DataFrame({"a": [1.0], "b": [2.0], "arm": ["wt"]})
    >>> with_columns(table, None, ["b"], ["arm"]).columns.tolist()
    ['a', 'arm']
    """
    for name in (*(variables or ()), *drop):
        _check_column(table, name)
        if name in labels:
            raise ConfigError(f"Column {quoted(name)} names contexts or blocks and is no variable; leave it out there.")
    names = [str(name) for name in table.columns]
    kept = [
        j
        for j, name in enumerate(names)
        if name in labels or ((variables is None or name in variables) and name not in drop)
    ]
    return table.iloc[:, kept]


def _check_column(table: pd.DataFrame, name: str) -> None:
    names = [str(column) for column in table.columns]
    if name not in names:
        raise ConfigError(
            f"There is no column {quoted(name)}{closest(name, names)}; there are {listed(names, _LISTED)}."
        )


def constant_columns(table: pd.DataFrame, labels: Collection[str]) -> list[str]:
    """The columns that hold one number in all rows where they hold one.

    >>> constant_columns(pd.DataFrame({"a": [1.0, 1.0], "b": [2.0, 3.0], "arm": ["wt", "wt"]}), ["arm"])
    ['a']
    """
    found = []
    for j, name in enumerate(map(str, table.columns)):
        if name not in labels:
            values, text = to_numbers(table.iloc[:, j])
            finite = values[~np.isnan(values)]
            if not text.any() and len(finite) and finite.min() == finite.max():
                found.append(name)
    return found


def thinned(table: pd.DataFrame, context: str, step: int) -> pd.DataFrame:
    """Every `step`-th row of each context, in the order of the rows.

    >>> thinned(pd.DataFrame({"a": [1, 2, 3], "arm": ["wt", "wt", "wt"]}), "arm", 2)["a"].tolist()
    [1, 3]
    """
    labels = _column(table, context).astype(str).to_numpy(dtype=object)
    return table.loc[every_nth(labels, step)]


def without_contexts(table: pd.DataFrame, context: str, labels: Collection[str]) -> pd.DataFrame:
    """The rows of all contexts but these; a missing label goes by `nan`.

    >>> table = pd.DataFrame({"a": [1, 2, 3], "arm": ["wt", "unknown", None]})
    >>> without_contexts(table, "arm", ["unknown", "nan"])["a"].tolist()
    [1]
    """
    _check_column(table, context)
    column = _column(table, context)
    texts = column.astype(str).mask(column.isna(), "nan")
    for label in labels:
        if not (texts == label).any():
            near = closest(label, sorted(set(texts)))
            raise ConfigError(
                f"No row has the context {quoted(label)} that is to be left out{near}; name one that is there."
            )
    return table.loc[~texts.isin(list(labels)).to_numpy(dtype=bool)]


def without_value(table: pd.DataFrame, value: float, labels: Collection[str]) -> pd.DataFrame:
    """The table with missing cells where a number stands for them.

    >>> without_value(pd.DataFrame({"a": [1.0, -999.0], "arm": ["wt", "wt"]}), -999, ["arm"])["a"].isna().tolist()
    [False, True]
    """
    columns = [j for j, name in enumerate(map(str, table.columns)) if name not in labels]
    hits = table.iloc[:, columns] == value
    if not hits.to_numpy().any():
        raise DataError(f"No cell has the value {value:g} that is to stand for a missing one; leave that option out.")
    whole = table.copy()
    for j, name in zip(columns, hits.columns, strict=True):
        whole.isetitem(j, table.iloc[:, j].mask(hits[name]))
    return whole


def complete_rows(table: pd.DataFrame, labels: Iterable[str]) -> pd.DataFrame:
    """The rows without a missing number; labels may be missing.

    >>> complete_rows(pd.DataFrame({"a": [1.0, None], "arm": ["wt", "wt"]}), ["arm"])["a"].tolist()
    [1.0]
    """
    values = table.iloc[:, [j for j, name in enumerate(map(str, table.columns)) if name not in set(labels)]]
    return table.loc[~values.isna().any(axis=1).to_numpy(dtype=bool)]


def take_blocks(table: pd.DataFrame, block: str, context: str) -> tuple[pd.DataFrame, pd.Series]:
    """The table without the column that names the blocks, and that column as text.

    Refused: a column of one value, one that differs in every row, one that says the same as the contexts.

    >>> table = pd.DataFrame({"a": [1.0, 2.0, 3.0], "day": [1, 2, 2], "arm": ["wt", "wt", "ko"]})
    >>> take_blocks(table, "day", "arm")[1].tolist()
    ['1', '2', '2']
    """
    _check_column(table, block)
    if block == context:
        raise ConfigError(f"Column {quoted(block)} names the contexts; give another column with --block.")
    labels = _column(table, block)
    if labels.isna().any():
        raise DataError(
            f"The block column {quoted(block)} has {counted(int(labels.isna().sum()), 'row')} without a label."
        )
    texts = labels.astype(str)
    n = texts.nunique()
    if n < 2:
        raise DataError(
            f"The block column {quoted(block)} has one value in all rows, so it has no effect; leave it out."
        )
    if n == len(texts):
        raise DataError(f"The block column {quoted(block)} differs in every row; name a column that groups the rows.")
    if context in map(str, table.columns):
        pairs = pd.DataFrame({"block": texts, "context": _column(table, context).astype(str)}).drop_duplicates()
        if pairs["block"].is_unique and pairs["context"].is_unique:
            what = f"The block column {quoted(block)} says the same as the context column"
            raise DataError(f"{what}, so that no effect could be told from a block; leave it out.")
    rest = [j for j, name in enumerate(map(str, table.columns)) if name != block]
    return table.iloc[:, rest], texts


def _column(table: pd.DataFrame, name: str) -> pd.Series:
    return table.iloc[:, [str(column) for column in table.columns].index(name)]
