"""How the bootstrap weighs what it found: by posterior, as the published code, or alike."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Score(NamedTuple):
    """What is known of one (graph, targets) pair: log-likelihoods at the parameters that go with it."""

    log_likelihood: float  # of the data
    average_on_sample: float  # of the bootstrap sample it was learned from, a row
    n_parameters: int
    n_rows: int


class AbstractWeights(ABC):
    """The log weight of a pair, up to a constant."""

    once: bool  # whether a pair that several samples found counts once, or as often as it was found

    @abstractmethod
    def log_p(self, score: Score) -> float: ...


@dataclass(frozen=True)
class PosteriorWeights(AbstractWeights):
    """The paper's text, log p(G, I | D) up to a constant: log p(D | best parameters) - ½ · parameters · log n (BIC).

    Graphs and targets are equally probable a priori; a pair counts once however often it was found.

    >>> round(PosteriorWeights().log_p(Score(-10.0, -2.0, 2, 100)), 3)
    -14.605
    """

    once = True

    def log_p(self, score: Score) -> float:
        return score.log_likelihood - 0.5 * score.n_parameters * float(np.log(score.n_rows))


@dataclass(frozen=True)
class AverageLikelihoodWeights(AbstractWeights):
    """The authors' code: exp(average log-likelihood a row) on the bootstrap sample; a pair counts once.

    >>> AverageLikelihoodWeights().log_p(Score(-10.0, -2.0, 2, 100))
    -2.0
    """

    once = True

    def log_p(self, score: Score) -> float:
        return score.average_on_sample


@dataclass(frozen=True)
class UniformWeights(AbstractWeights):
    """Every bootstrap sample alike, so that a pair counts as often as it was found (Friedman et al., 1999)."""

    once = False

    def log_p(self, score: Score) -> float:
        return 0.0
