"""From a pandas table to `ContextData`."""

from typing import TYPE_CHECKING

from bacadi.data.context import ContextData
from bacadi.data.doctor import examine

if TYPE_CHECKING:
    import pandas as pd


def from_dataframe(df: "pd.DataFrame", context: str, observational: str | None = None) -> ContextData:
    """Samples in rows, one column naming the context of each row, every other column a variable.

    Contexts are numbered in order of first appearance; `observational` is the label of the untouched context, None if
    there is none. Labels are taken as text. Whatever `diagnose` calls an error is refused with its sentence.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"a": [1.0, 2.5, 3.5, 0.5], "b": [0, 3, 1, 2], "context": ["wt", "wt", "ko", "ko"]})
    >>> data = from_dataframe(table, context="context", observational="wt")
    >>> data.context.tolist(), data.contexts, data.variables
    ([0, 0, 1, 1], ('ko',), ('a', 'b'))
    """
    return examine(df, context, observational).data()
