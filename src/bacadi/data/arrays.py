"""From arrays, one for each context, to `ContextData`."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from bacadi.data.context import ContextData
from bacadi.data.doctor import examine_parts
from bacadi.data.words import ARRAY_INDEX, quoted
from bacadi.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike


class Default(Enum):
    """What `from_arrays` does when no observational context is named."""

    FIRST_OF_LIST = "the first array of a list is observational, no array of a mapping is"


def from_arrays(
    arrays: "Mapping[str, ArrayLike] | Sequence[ArrayLike]",
    observational: str | Default | None = Default.FIRST_OF_LIST,
    variables: Sequence[str] | None = None,
) -> ContextData:
    """One [n_k, d] array for each context, as a mapping from its name or as a list.

    A mapping names its contexts; none is observational unless `observational` says which. A list names them by
    position: the first is the observational context "0", the others are "1", "2", …; with `observational=None` no
    array is observational and they are "1", "2", … from the first on. Variables are called x0, x1, … unless named.

    >>> rng = np.random.default_rng(0)
    >>> obs, ko = rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    >>> from_arrays([obs, ko]).counts.tolist(), from_arrays([obs, ko]).contexts
    ([4, 3], ('1',))
    >>> from_arrays([obs, ko], observational=None).contexts
    ('1', '2')
    >>> from_arrays({"wt": obs, "ko": ko}, observational="wt", variables=["a", "b"]).contexts
    ('ko',)
    """
    named, observational = _named(arrays, observational)
    matrices = {label: _matrix(label, array) for label, array in named.items()}
    names = _variable_names(matrices, variables)
    values, labels = _table(matrices, names)
    return examine_parts(values, labels, observational).data()


def _named(
    arrays: "Mapping[str, ArrayLike] | Sequence[ArrayLike]", observational: str | Default | None
) -> "tuple[dict[str, ArrayLike], str | None]":
    if len(arrays) == 0:
        raise DataError("No array was given; give one array of samples for each context.")
    if isinstance(arrays, Mapping):
        return {str(label): array for label, array in arrays.items()}, (
            None if isinstance(observational, Default) else observational
        )
    if isinstance(arrays, np.ndarray) and arrays.ndim != 3:
        raise DataError("A single array was given; put the arrays of the contexts in a list or a dict.")
    start = 1 if observational is None else 0
    return {str(k): array for k, array in enumerate(arrays, start)}, (
        "0" if isinstance(observational, Default) else observational
    )


def _matrix(label: str, array: "ArrayLike") -> np.ndarray:
    if hasattr(array, "columns"):
        raise DataError(
            f"Context {quoted(label)} is a table with named columns, not an array; "
            "put all contexts in one table with a context column and use from_dataframe."
        )
    try:
        matrix = np.asarray(array)
    except ValueError:
        raise DataError(f"The rows of context {quoted(label)} differ in length; give an array [rows, d].") from None
    if matrix.ndim != 2:
        raise DataError(
            f"The array of context {quoted(label)} has {matrix.ndim} dimensions; give two, [rows, variables]."
        )
    if len(matrix) == 0:
        raise DataError(f"The array of context {quoted(label)} has no rows; add rows or leave the context out.")
    return matrix


def _variable_names(matrices: dict[str, np.ndarray], variables: Sequence[str] | None) -> list[str]:
    first, width = next((label, matrix.shape[1]) for label, matrix in matrices.items())
    for label, matrix in matrices.items():
        if matrix.shape[1] != width:
            raise DataError(
                f"The array of context {quoted(label)} has {matrix.shape[1]} columns and that of {quoted(first)} has "
                f"{width}; every context needs the same variables."
            )
    names = [f"x{j}" for j in range(width)] if variables is None else [str(name) for name in variables]
    if len(names) != width:
        raise DataError(f"The arrays have {width} columns but {len(names)} variables are named; name each column once.")
    if len(set(names)) != width:
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"The variable name {quoted(twice)} is given twice; give every column a name of its own.")
    return names


def _table(matrices: dict[str, np.ndarray], names: list[str]) -> "tuple[pd.DataFrame, pd.Series]":
    import pandas as pd

    rows = [f"{label}[{n}]" for label, matrix in matrices.items() for n in range(len(matrix))]
    labels = [label for label, matrix in matrices.items() for _ in range(len(matrix))]
    index = pd.Index(rows, name=ARRAY_INDEX)
    values = pd.DataFrame(np.concatenate(list(matrices.values())), columns=names, index=index)
    return values, pd.Series(labels, index=index)
