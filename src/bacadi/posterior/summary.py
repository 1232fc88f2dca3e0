"""A posterior in a few lines of plain text."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from bacadi.posterior.posterior import Posterior

_UNCERTAIN = (0.1, 0.9)
_LISTED = 12


def describe(posterior: "Posterior") -> str:
    """Draws, effective sample size, cyclic draws, edges above 1/2, uncertain edges, most probable targets."""
    p = posterior.edge_probabilities()
    likely = int((p > 0.5).sum())
    uncertain = int(((p > _UNCERTAIN[0]) & (p < _UNCERTAIN[1])).sum())
    chains = f" in {posterior.n_chains} chains" if posterior.n_chains > 1 else ""
    lines = [
        f"{posterior.n_draws} draws{chains}, effective sample size {posterior.effective_sample_size:.1f}, "
        f"{posterior.n_cyclic} cyclic and left out",
        f"{posterior.n_variables} variables: {likely} edges with probability above 0.5, "
        f"{uncertain} uncertain ({_UNCERTAIN[0]} to {_UNCERTAIN[1]})",
    ]
    return "\n".join(lines + _target_lines(posterior))


def _target_lines(posterior: "Posterior") -> list[str]:
    if not posterior.contexts:
        return ["no context beside the observational one"]
    lines = ["most probable targets:"]
    probability = posterior.target_probabilities()
    for context, row in list(zip(posterior.contexts, probability, strict=True))[:_LISTED]:
        likely = [i for i in np.argsort(-row, kind="stable") if row[i] > 0.5]
        named = ", ".join(f"{posterior.variables[i]} ({row[i]:.2f})" for i in likely)
        best = int(np.argmax(row))
        none = f"none above 0.5, the best is {posterior.variables[best]} ({row[best]:.2f})"
        lines.append(f"  {context}: {named or none}")
    if len(posterior.contexts) > _LISTED:
        lines.append(f"  and {len(posterior.contexts) - _LISTED} more contexts")
    return lines
