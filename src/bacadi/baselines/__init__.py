"""Baselines of the paper and others under one interface: `Bootstrap(JCIPC())` is a method like any other.

DCDI-G is `bacadi.baselines.dcdi.dcdi.DCDIG`; it alone needs JAX, and only when it runs.
"""

from bacadi.baselines.base import AbstractBaseline, Estimate
from bacadi.baselines.bootstrap import Bootstrap
from bacadi.baselines.greedy import GIES, GnIES
from bacadi.baselines.jci_pc import JCIPC
from bacadi.baselines.ut_igsp import UTIGSP
