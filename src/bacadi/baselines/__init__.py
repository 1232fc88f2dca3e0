"""Baselines of the paper under one interface: `Bootstrap(JCIPC()).fit(data)` gives a `Posterior` like every method."""

from bacadi.baselines.base import AbstractBaseline, Estimate
from bacadi.baselines.bootstrap import (
    AbstractWeights,
    AverageLikelihoodWeights,
    Bootstrap,
    BootstrapProgress,
    PosteriorWeights,
    UniformWeights,
)
from bacadi.baselines.dcdi.dcdi import DCDIG
from bacadi.baselines.gaussian import Fitted
from bacadi.baselines.greedy import GIES, GnIES
from bacadi.baselines.jci_pc import JCIPC
from bacadi.baselines.ut_igsp import UTIGSP

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
