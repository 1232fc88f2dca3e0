"""The posterior over graph, intervention targets and parameters: labelled, weighted draws of every method."""

from bacadi.data.labelled import Labelled
from bacadi.posterior import weights
from bacadi.posterior.export import Format, export, to_anndata, to_networkx, write_results
from bacadi.posterior.posterior import Draw, Posterior

load, save = Posterior.load, Posterior.save
