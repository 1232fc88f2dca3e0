"""Ways in which data follow the model only nearly, one assumption broken by each.

A violation takes a task whose data follow the model and draws its training rows again; graph, targets and effects stay
what they are, and held-out rows follow the model as before.
"""

from abc import abstractmethod
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from bacadi.config.choices import Choice, option
from bacadi.errors import ConfigError
from bacadi.model.network import CausalNetwork, Rows, generations
from bacadi.simulate.task import Task


class AbstractViolation(Choice):
    """An assumption of the model that the training rows break."""

    @abstractmethod
    def rows(self, rng: np.random.Generator, task: Task) -> Rows:
        """The training rows of a task with this assumption broken."""

    def applied(self, rng: np.random.Generator, task: Task) -> Task:
        """The task with other training rows."""
        return replace(task, data=replace(task.data, x=self.rows(rng, task)))


class HeavyTails(AbstractViolation):
    """Noise of Student's t with so many degrees of freedom and the same variance, that of targets too."""

    degrees: float = option(3.0, above=2)

    def rows(self, rng: np.random.Generator, task: Task) -> Rows:
        unit = np.sqrt(self.degrees / (self.degrees - 2))
        return drawn_again(task, rng.standard_t(self.degrees, task.data.x.shape) / unit)


class Exponentiated(AbstractViolation):
    """exp of every column in units of its standard deviation over all rows."""

    def rows(self, rng: np.random.Generator, task: Task) -> Rows:
        x = task.data.x
        return np.exp((x - x.mean(axis=0)) / x.std(axis=0))


class ZeroedCells(AbstractViolation):
    """A share of the cells is set to 0, as where nothing was measured."""

    share: float = option(0.3, above=0, below=1)

    def rows(self, rng: np.random.Generator, task: Task) -> Rows:
        return np.where(rng.random(task.data.x.shape) < self.share, 0.0, task.data.x)


class MissingCells(AbstractViolation):
    """A share of the cells is empty."""

    share: float = option(0.1, above=0, below=1)

    def rows(self, rng: np.random.Generator, task: Task) -> Rows:
        return np.where(rng.random(task.data.x.shape) < self.share, np.nan, task.data.x)


class ContextShifts(AbstractViolation):
    """Every variable that is not cut off is shifted by N(0, (std σ)²) in every context, the control included; shifts
    propagate."""

    std: float = option(0.3, above=0)

    def rows(self, rng: np.random.Generator, task: Task) -> Rows:
        _, noise_std = _gaussian(task)
        shift = self.std * noise_std * rng.normal(size=(task.data.n_contexts + 1, task.data.n_variables))
        return drawn_again(task, rng.normal(size=task.data.x.shape), shift[task.data.context])


class Autocorrelated(AbstractViolation):
    """Noise that is AR(1) along the rows of a context, of the same variance."""

    coefficient: float = option(0.9, least=0, below=1)

    def rows(self, rng: np.random.Generator, task: Task) -> Rows:
        noise, a = rng.normal(size=task.data.x.shape), self.coefficient
        new = np.append(True, np.diff(task.data.context) != 0)
        for n in np.flatnonzero(~new):  # rows of a context follow each other
            noise[n] = a * noise[n - 1] + np.sqrt(1 - a**2) * noise[n]
        return drawn_again(task, noise)


class MeasurementNoise(AbstractViolation):
    """Noise that does not propagate is added, its variance so many times that of the column in the control."""

    ratio: float = option(0.5, above=0)

    def rows(self, rng: np.random.Generator, task: Task) -> Rows:
        x = task.data.x
        control = x[task.data.context == 0] if (task.data.context == 0).any() else x
        return x + np.sqrt(self.ratio) * control.std(axis=0) * rng.normal(size=x.shape)


class HiddenCause(AbstractViolation):
    """`n_children` variables have a common cause N(0, variance) that is not in the table, with weights ±U[low, high]
    each."""

    n_children: int = option(5, least=1)
    variance: float = option(0.1, above=0)
    low: float = option(0.5, least=0)
    high: float = option(2.0, least=0)

    def rows(self, rng: np.random.Generator, task: Task) -> Rows:
        n, d = task.data.x.shape
        weight, k = np.zeros(d), min(self.n_children, d)
        sign = rng.choice([-1.0, 1.0], size=k)
        weight[rng.choice(d, k, replace=False)] = sign * rng.uniform(self.low, self.high, size=k)
        cause = np.sqrt(self.variance) * rng.normal(size=(n, 1))
        return drawn_again(task, rng.normal(size=(n, d)), cause * weight)


def drawn_again(task: Task, noise: Rows, extra: Rows | float = 0.0) -> Rows:
    """Rows of the network of a task with this noise, in units of its standard deviation.

    `extra` is added to the variables themselves, so that it propagates, but not where a hard effect cuts one off.
    """
    (network, _), effects, context = _gaussian(task), task.effects, task.data.context
    cut = np.vstack([np.zeros(noise.shape[1]), (effects.targets != 0) & ~effects.keeps_parents])[context] != 0
    extra = np.where(cut, 0.0, extra)
    x = np.zeros_like(noise)
    for nodes in generations(network.graph):
        mean, std = network.conditional(x, context, effects)
        x[:, nodes] = (mean + std * noise + extra)[:, nodes]
    return x


def _gaussian(task: Task) -> tuple[CausalNetwork, Float[np.ndarray, " d"]]:
    """The network of a task and its noise, which has to be Gaussian to be drawn again."""
    if not isinstance(task.network, CausalNetwork) or task.noise_std is None:
        raise ConfigError(
            "This violation draws Gaussian noise again, which the mechanism does not have; choose another."
        )
    return task.network, task.noise_std
