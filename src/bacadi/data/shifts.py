"""How far contexts move variables: a first look at data that needs no model."""

import numpy as np
from jaxtyping import Float

from bacadi.data.context import ContextData

MOVED = 4.0  # standard errors between the mean of a context and the reference that count as moved


def shifts(data: ContextData) -> Float[np.ndarray, "M d"]:
    """How many standard errors the mean of a variable in a context lies from that of the other rows of reference."""
    observational = data.context == 0
    reference = data.x[observational] if observational.sum() > 2 else data.x
    found = np.zeros((data.n_contexts, data.n_variables))
    for k in range(data.n_contexts):
        block = data.x[data.context == k + 1]
        if len(block):
            # A context of constant values (a knock-out) has no spread of its own; that of the reference stands in.
            error = (reference.var(axis=0) / len(reference)) + np.maximum(block.var(axis=0), 1e-2) / len(block)
            found[k] = np.abs(block.mean(axis=0) - reference.mean(axis=0)) / np.sqrt(error + 1e-300)
    return found
