"""`BaCaDI`: prepare and fit as an estimator in the style of scikit-learn, for pipelines and people who know that."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from bacadi.config.columns import prepare
from bacadi.data.tables import as_frame, table_of
from bacadi.errors import ConfigError
from bacadi.inference.fit import fit
from bacadi.model.statements import UNKNOWN, stated

_OF_ARRAYS = "context"


class BaCaDI(BaseEstimator):
    """Infer graph and targets from a table; a thin layer over `prepare` and `fit`, with the same defaults.

    Args:
        model: a `Model`, the name of a mechanism, or None, as in `fit`.
        method: a method, its name, or None, as in `fit`.
        observational: the label of the untouched context; None looks for a usual one, "" says that there is none.
        targets: "unknown", "known", "known-with-off-targets" or the path of a CSV file, as `--targets`.
        columns: a mapping of fields of `Columns`, such as {"transform": "log"}; None prepares columns as the command
            line does by default.
        seed: makes the run repeatable.

    After `fit`: `posterior_`, `edge_probabilities_` [i, j] of i → j, `target_probabilities_` (contexts × variables),
    `graph_` (one acyclic graph of the probable edges), `contexts_`, `data_`, `feature_names_in_`, `n_features_in_`.

    >>> from bacadi.inference.mcmc.method import MCMC
    >>> from bacadi.simulate import SyntheticSpec, simulate
    >>> data = simulate(SyntheticSpec(n_variables=5), seed=0).data
    >>> labels = np.array(["control", *data.contexts])[data.context]
    >>> estimator = BaCaDI(method=MCMC(n_draws=20, n_sweeps=20)).fit(data.x, context=labels)
    >>> estimator.edge_probabilities_.shape, estimator.n_features_in_
    ((5, 5), 5)
    """

    def __init__(
        self,
        model: Any = None,
        method: Any = None,
        observational: str | None = None,
        targets: str = UNKNOWN,
        columns: Any = None,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.method = method
        self.observational = observational
        self.targets = targets
        self.columns = columns
        self.seed = seed

    def fit(self, X: Any, y: Any = None, *, context: Any = None) -> "BaCaDI":
        """Fit a table (pandas, polars, AnnData, array or path) whose rows are of the contexts named by `context`.

        Args:
            X: rows × variables; of a table the column `context` is no variable.
            y: the labels of the contexts, where `context` is not given.
            context: the name of the column with the labels, or one label per row.
        """
        context = y if context is None else context
        if context is None:
            raise ConfigError("The contexts are not named; give fit(table, context=…) a column or one label per row.")
        if not isinstance(context, str):
            X, context = _with_labels(X, np.asarray(context))
        data = prepare(X, context, self.observational, **dict(self.columns or {}))
        known = stated(data, self.targets, {}, None)
        self.posterior_ = fit(data, self.model, self.method, seed=self.seed, knowledge=known)
        self.data_ = data
        self.contexts_ = np.array(data.contexts, dtype=object)
        self.feature_names_in_ = np.array(data.variables, dtype=object)
        self.n_features_in_ = data.n_variables
        self.edge_probabilities_ = self.posterior_.edge_probabilities()
        self.target_probabilities_ = self.posterior_.target_probabilities()
        self.graph_ = self.posterior_.consensus_graph()
        return self


def _with_labels(X: Any, labels: np.ndarray) -> tuple[Any, str]:
    """The table with the labels as a column of a name that no other has, and that name."""
    table = table_of(X) if isinstance(X, np.ndarray | list) else as_frame(X)
    if labels.shape != (len(table),):
        raise ConfigError(
            f"The table has {len(table)} rows and context has the shape {labels.shape}; name each row once."
        )
    name = _OF_ARRAYS
    while name in map(str, table.columns):
        name += "_"
    return table.assign(**{name: labels}), name
