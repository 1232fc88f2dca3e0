"""Tasks whose truth is known: a `SyntheticSpec` or a `GeneExpressionSpec` and a seed make a `Task`."""

from bacadi.simulate.effects import AbstractEffect, Effects, Hard, HardAt, Scale, Shift, Soft
from bacadi.simulate.families import AbstractGraphFamily, ErdosRenyi, ScaleFree
from bacadi.simulate.grn import Langevin, RegulatoryNetwork
from bacadi.simulate.grn_noise import AbstractTechnicalNoise, Counts, Dropout, LibrarySize, Outliers
from bacadi.simulate.grn_spec import CellTypes, GeneExpressionSpec, HeldOutKnockOuts, KnockOuts, Regulation
from bacadi.simulate.mechanisms import AbstractFunctions, AbstractMechanism, Linear, Neural
from bacadi.simulate.network import CausalNetwork
from bacadi.simulate.noise import UniformNoise
from bacadi.simulate.spec import HeldOut, Interventions, SyntheticSpec
from bacadi.simulate.task import Task, simulate

__all__ = [
    "AbstractEffect",
    "AbstractFunctions",
    "AbstractGraphFamily",
    "AbstractMechanism",
    "AbstractTechnicalNoise",
    "CausalNetwork",
    "CellTypes",
    "Counts",
    "Dropout",
    "Effects",
    "ErdosRenyi",
    "GeneExpressionSpec",
    "Hard",
    "HardAt",
    "HeldOut",
    "HeldOutKnockOuts",
    "Interventions",
    "KnockOuts",
    "Langevin",
    "LibrarySize",
    "Linear",
    "Neural",
    "Outliers",
    "Regulation",
    "RegulatoryNetwork",
    "Scale",
    "ScaleFree",
    "Shift",
    "Soft",
    "SyntheticSpec",
    "Task",
    "UniformNoise",
    "simulate",
]
