"""Tasks whose truth is known: a `SyntheticSpec` or a `GeneExpressionSpec` and a seed make a `Task`."""

from bacadi.model.network import CausalNetwork, Effects
from bacadi.simulate.expression import CellTypes, GeneExpressionSpec, HeldOutKnockOuts, KnockOuts, Regulation
from bacadi.simulate.files import read_spec, read_task, write_task
from bacadi.simulate.graphs import AbstractGraphFamily, RandomErdosRenyi, RandomScaleFree
from bacadi.simulate.grn import Dropout, Langevin, LibrarySize, MoleculeCounts, Outliers, RegulatoryNetwork
from bacadi.simulate.synthetic import HeldOut, Interventions, LinearTruth, NeuralTruth, Shift, SyntheticSpec
from bacadi.simulate.task import AbstractSpec, Task, simulate
