"""The posterior over graph, intervention targets and parameters: labelled, weighted draws of every method."""

from bacadi.posterior import weights
from bacadi.posterior.draws import Draw, Parameter
from bacadi.posterior.export import Format, export, write_results
from bacadi.posterior.formats import to_networkx
from bacadi.posterior.posterior import Posterior
from bacadi.posterior.store import load, save

__all__ = [
    "Draw",
    "Format",
    "Parameter",
    "Posterior",
    "export",
    "load",
    "save",
    "to_networkx",
    "weights",
    "write_results",
]
