"""Baselines of the paper under one interface: `Bootstrap(JCIPC()).fit(data)` gives a `Posterior` like every method."""

from bacadi.baselines.base import AbstractBaseline, Estimate
from bacadi.baselines.bootstrap import Bootstrap, BootstrapProgress
from bacadi.baselines.dcdi_g import DCDIG
from bacadi.baselines.fitted import Fitted
from bacadi.baselines.gies import GIES
from bacadi.baselines.gnies import GnIES
from bacadi.baselines.jci_pc import JCIPC
from bacadi.baselines.ut_igsp import UTIGSP
from bacadi.baselines.weights import AbstractWeights, AverageLikelihoodWeights, PosteriorWeights, UniformWeights

__all__ = [
    "DCDIG",
    "GIES",
    "JCIPC",
    "UTIGSP",
    "AbstractBaseline",
    "AbstractWeights",
    "AverageLikelihoodWeights",
    "Bootstrap",
    "BootstrapProgress",
    "Estimate",
    "Fitted",
    "GnIES",
    "PosteriorWeights",
    "UniformWeights",
]
