"""Synthetic tasks whose truth is known: a `SyntheticSpec` and a seed make a `Task`."""

from bacadi.simulate.effects import AbstractEffect, Effects, Hard, HardAt, Scale, Shift, Soft
from bacadi.simulate.families import AbstractGraphFamily, ErdosRenyi, ScaleFree
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
    "CausalNetwork",
    "Effects",
    "ErdosRenyi",
    "Hard",
    "HardAt",
    "HeldOut",
    "Interventions",
    "Linear",
    "Neural",
    "Scale",
    "ScaleFree",
    "Shift",
    "Soft",
    "SyntheticSpec",
    "Task",
    "UniformNoise",
    "simulate",
]
