"""Local evidence from a function of rows: the collapsed reading of a user's own mechanism."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from bacadi.data.contexts import ContextData
from bacadi.errors import NoClosedForm
from bacadi.evidence.collapsed import AbstractEvidence, EffectKind, EffectStates

LogEvidence = Callable[[int, Int[np.ndarray, " p"], Float[np.ndarray, "n d"]], float]


class RowsEvidence(AbstractEvidence):
    """Evidence of a node as `log_evidence(node, parents, rows)` of the rows where it is untouched.

    Hard effects add their own evidence, soft ones a second evidence over the rows of their context; shift and scale
    effects change the mechanism in a way that a function of rows cannot know.
    """

    def __init__(self, log_evidence: LogEvidence, data: ContextData, states: EffectStates) -> None:
        wanted = {EffectKind(int(kind)) for kind in states.kind}
        if wanted & {EffectKind.SHIFT, EffectKind.SCALE}:
            raise NoClosedForm(
                "Shift and scale effects need a mechanism that knows them (linear, nonlinear or bge); "
                "use hard or soft effects with a mechanism of your own."
            )
        self.n_variables, self.n_contexts, self.states = data.n_variables, data.n_contexts, states
        self._log_evidence, self._data = log_evidence, data

    def log_evidence(self, node: int, parents: Bool[np.ndarray, " d"], state: Int8[np.ndarray, " M"]) -> float:
        of_context = np.concatenate([[0], np.asarray(state)])
        kind = self.states.kind[of_context]
        chosen, x, context = np.flatnonzero(parents), self._data.x, self._data.context
        total = self._log_evidence(node, chosen, x[(kind == EffectKind.NONE)[context]])
        for k in np.flatnonzero(kind):
            if kind[k] == EffectKind.HARD:
                total += self.states.hard_log_evidence[k - 1, node]
            else:
                total += self._log_evidence(node, chosen, x[context == k])
        return float(total)
