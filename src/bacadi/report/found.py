"""What a posterior says of edges, as plain records that pictures, pages and sentences share."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

CERTAIN = 0.95
"""A probability to rely on."""


class Edge(NamedTuple):
    """source -> target by number, its probability, and its weight with a 90 % interval (NaN where there is none)."""

    source: int
    target: int
    probability: float
    weight: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or -1 where the interval of the weight is on one side of 0, 0 otherwise.

        >>> Edge(0, 1, 0.9, -0.5, -0.8, -0.2).sign, Edge(0, 1, 0.9, 0.1, -0.2, 0.4).sign
        (-1, 0)
        """
        return int(self.low > 0) - int(self.high < 0)


def likely_edges(table: "pd.DataFrame", variables: tuple[str, ...], least: float, most: int) -> list[Edge]:
    """Of `Posterior.edges` those of at least some probability, the most probable first, and no more than `most`.

    >>> import numpy as np
    >>> from bacadi.posterior import Posterior
    >>> graph = np.array([[[[0, 1], [0, 0]]]], dtype=np.int8)
    >>> posterior = Posterior(graph, np.zeros((1, 1, 0, 2)), np.zeros((1, 1)), ("a", "b"), ())
    >>> [(edge.source, edge.target) for edge in likely_edges(posterior.edges(), posterior.variables, 0.5, 9)]
    [(0, 1)]
    """
    number = {name: i for i, name in enumerate(variables)}
    table = table[table["probability"] >= max(least, 1e-12)].head(most)
    columns = (table[name].tolist() for name in ("probability", "weight", "weight_q05", "weight_q95"))
    ends = ([number[name] for name in table[column]] for column in ("source", "target"))
    return [Edge(*row) for row in zip(*ends, *columns, strict=True)]


def target_kinds(targets: "pd.DataFrame") -> dict[tuple[str, str], str]:
    """The likeliest kind of effect of each context and variable, where there are kinds."""
    return {(row.context, row.variable): row.kind for row in targets.itertuples() if row.kind}
