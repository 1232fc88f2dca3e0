"""`Answer`: a sentence in plain words and the table behind it; names and units of what is asked for."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from bacadi.data.contexts import Scaling
from bacadi.data.text import closest, quoted
from bacadi.data.transforms import NONE, Transforms
from bacadi.errors import ConfigError
from bacadi.posterior.posterior import Posterior

Values = Float[np.ndarray, "*batch d"]
Row = Float[np.ndarray, " d"]


_SHOWN = 20


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else f"{value:.3g}"
    return str(value)


@dataclass(frozen=True)
class Answer:
    """What was asked, the answer in words, and the numbers as a table.

    >>> print(Answer("1 + 1", "It is two.", pd.DataFrame({"name": ["sum"], "value": [2.0]})))
    It is two.
    <BLANKLINE>
    name  value
     sum      2
    """

    question: str
    text: str
    table: pd.DataFrame

    def __str__(self) -> str:
        """The words, and below them the table, never wrapped, so that other programs can cut it as well."""
        if not len(self.table):
            return self.text
        shown = self.table.head(_SHOWN).map(_cell).to_string(index=False)
        more = f"\nand {len(self.table) - _SHOWN} more rows" if len(self.table) > _SHOWN else ""
        return f"{self.text}\n\n{shown}{more}"

    def record(self) -> dict[str, Any]:
        """Question, answer and rows as plain values; JSON has neither NaN nor infinity, so these are None."""
        rows = [
            {
                name: None if isinstance(value, float) and not np.isfinite(value) else value
                for name, value in row.items()
            }
            for row in self.table.to_dict(orient="records")
        ]
        return {"question": self.question, "answer": self.text, "rows": rows}

    def json(self) -> str:
        """`record` as JSON text."""
        return json.dumps(self.record(), ensure_ascii=False, indent=1, allow_nan=False)

    def csv(self) -> str:
        """The table as CSV text."""
        return self.table.to_csv(index=False, lineterminator="\n")


def variable(posterior: Posterior, name: str) -> int:
    """The number of a variable by its name, or a sentence with the nearest one."""
    return _place(posterior.variables, name, "variable")


def context(posterior: Posterior, name: str) -> int:
    """The number of a context beside the control by its name, or a sentence with the nearest one."""
    if name == posterior.observational:
        raise ConfigError(f"{quoted(name)} is the control, against which contexts are compared; name another context.")
    return _place(posterior.contexts, name, "context")


def _place(names: Sequence[str], name: str, noun: str) -> int:
    if name not in names:
        raise ConfigError(f"There is no {noun} {quoted(name)}{closest(name, names)}; name one of the posterior's.")
    return names.index(name)


@dataclass(frozen=True, eq=False)
class TableUnits:
    """From the units of the table to those of the fit (or of drawn networks) and back.

    fitted = (forward(table) - shift) / scale, where `forward` is the transform of the column, if it has one.
    Differences and effects are told on the transformed scale, before scaling: there they add up.
    """

    transforms: Transforms
    scaling: Scaling

    @classmethod
    def of(cls, posterior: Posterior, own: Scaling | None = None) -> "TableUnits":
        """Those of a posterior; `own` leads from units of networks to those of the fit."""
        d, stored = posterior.n_variables, posterior.constant_data
        given = Scaling.identity(d)
        if {"shift", "scale"} <= stored.keys():
            given = Scaling(stored["shift"].values, stored["scale"].values)
        return cls(posterior.transforms(), given if own is None else given.compose(own))

    def fitted(self, values: Values) -> Values:
        """Values of the table in the units of the fit; what its transform does not reach is refused."""
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = self.transforms.forward(values)
            reached = np.isclose(self.transforms.inverse(moved), values, rtol=1e-6, atol=1e-9)
        if not reached.all():
            j = int(np.argwhere(~reached)[0][-1])
            how = self.transforms.names[j].replace("-", " ")
            what = (
                f"The variable was fitted on the scale of {how}, which does not reach the value {np.ravel(values)[j]:g}"
            )
            raise ConfigError(f"{what}; give a value in the range of the data.")
        return self.scaling.apply(moved)

    def table(self, values: Values) -> Values:
        """Values of the fit as the table has them."""
        return self.transforms.inverse(self.scaling.invert(values))

    def effects(self, values: Float[np.ndarray, "*batch d d"]) -> Float[np.ndarray, "*batch d d"]:
        """Changes of j per unit of i, as the fit has them, on the scale of the table or of its transform."""
        return self.scaling.weights(values)

    def differences(self, values: Values) -> Values:
        """Differences on the scale of the fit, on that of the table or of its transform."""
        return values * self.scaling.scale

    def words(self, variables: Sequence[str], named: Sequence[int]) -> str:
        """A sentence on variables among `named` whose effects are on a transformed scale; empty where none is."""
        bent = {variables[j]: self.transforms.names[j] for j in named if self.transforms.names[j] != NONE}
        if not bent:
            return ""
        return f" Units: {', '.join(f'{how} of {name}' for name, how in bent.items())}."


def share(p: float) -> str:
    """A probability in words for a sentence.

    >>> share(0.5), share(0.9999), share(0.0), share(0.003)
    ('50 %', 'more than 99 %', '0 %', 'less than 1 %')
    """
    if p in (0.0, 1.0):
        return f"{100 * p:.0f} %"
    return "less than 1 %" if p < 0.01 else "more than 99 %" if p > 0.99 else f"{100 * p:.0f} %"
