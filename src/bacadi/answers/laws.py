"""The laws that draws have for new rows: log p(x_j | parents, θ_j) of many data sets, by draw or averaged over θ_j.

Given its parents P a variable has the same posterior of parameters in whatever graph, so that draws which share P are
a sample of p(θ_j | P, D), and p(x_j | x_P, D) is the mean of their densities.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import logsumexp

from bacadi.answers.effects import reference
from bacadi.data.contexts import Scaling
from bacadi.model.kernels import FUNCTION_PARAMETERS, FunctionMechanism
from bacadi.model.linear import LinearTheta
from bacadi.model.network import Effects
from bacadi.model.noise import LOG_2PI, log_normal
from bacadi.posterior.networks import DrawnNetworks

DataSets = Float[np.ndarray, "B n d"]
Draws = Int[np.ndarray, " s"]
LogLikelihood = Float[np.ndarray, "s B"]
Columns = list[int]
_PER_COEFFICIENT = 8  # draws that the covariance of coefficients is estimated from, for each of them


def laws_of(networks: DrawnNetworks, x: DataSets, effects: Sequence[Effects] | None = None) -> "AbstractLaws":
    """The laws of the networks for data sets `x`, in the units of the networks.

    `effects[l]` is what draw l says of the one context that the rows are of, None where no mechanism is touched.
    """
    if networks.is_linear:
        return LinearLaws(networks, x, effects)
    kind = FunctionLaws if isinstance(networks.mechanism, FunctionMechanism) else RowLaws
    return kind(networks, x, effects)


class AbstractLaws(ABC):
    """Log densities of data sets under draws."""

    def __init__(self, networks: DrawnNetworks, x: DataSets, effects: Sequence[Effects] | None) -> None:
        self.networks, self.x, self.effects = networks, x, effects

    @abstractmethod
    def log_likelihood(self, node: int, draws: Draws) -> LogLikelihood:
        """log p(x_bj of all rows | parents, θ_j) of these draws and every data set b."""

    def marginal(self, node: int) -> Float[np.ndarray, "g B"]:
        """log p(x_bj | parents) of each set of parents (`parent_groups`), the parameters averaged over its draws."""
        groups = self.networks.parent_groups[node]
        return np.stack([self._averaged(node, np.flatnonzero(groups.of_draw == g)) for g in range(len(groups.parents))])

    def _averaged(self, node: int, draws: Draws) -> Float[np.ndarray, " B"]:
        weight = self.networks.weights[draws, None]
        return logsumexp(self.log_likelihood(node, draws), axis=0, b=weight / weight.sum())


class LinearLaws(AbstractLaws):
    """Laws of linear mechanisms, which read n rows as their matrix of products, whatever n:

        Σ_n (x_nj - w'x_n - b)² = v'Mv   with M = Σ_n (x_n, 1)(x_n, 1)' and v = (e_j - w, -b).

    Where enough draws share the parents, coefficients c = (w, b) are integrated out: c ~ N(m, σ²V) with m and V from
    the draws, so that with Z the rows of parents and constant x_j ~ N(Zm, σ²(I + ZVZ')), averaged over the σ drawn.
    """

    def __init__(self, networks: DrawnNetworks, x: DataSets, effects: Sequence[Effects] | None) -> None:
        super().__init__(networks, x, effects)
        # In standard deviations from the control: sums of squares of numbers far from 0 lose their digits.
        self._units = Scaling(*reference(networks.posterior))
        rows = np.concatenate([self._units.apply(x), np.ones((*x.shape[:2], 1))], axis=2)
        self._products = rows.transpose(0, 2, 1) @ rows
        self._n_rows = x.shape[1]
        theta = self._rescaled(networks.linear, networks.graphs)
        self._weight, self._intercept = theta.weight.copy(), np.array(theta.intercept)
        self._std = np.exp(np.array(theta.log_noise_std))
        self._touched = np.zeros(self._std.shape, dtype=bool)
        for draw, effect in enumerate(effects or ()):
            self._touch(draw, effect, theta)

    def _rescaled(self, theta: LinearTheta, graphs: np.ndarray) -> LinearTheta:
        mechanism: Any = self.networks.mechanism
        return mechanism.rescaled(theta, graphs, self._units.inverse())

    def _touch(self, draw: int, effect: Effects, theta: LinearTheta) -> None:
        """Put the mechanisms of the targets of a draw in place of the usual ones."""
        scaled, hit, own = effect.scaled(self._units), effect.targets[0] != 0, effect.theta[0]
        weight, intercept = theta.weight[draw], np.asarray(theta.intercept)[draw]
        if own is not None:
            weight, intercept, _ = self._rescaled(own, self.networks.graphs[draw])
        keeps = scaled.keeps_parents[0]
        self._weight[draw][:, hit] = (self.networks.graphs[draw] * weight * keeps)[:, hit]
        self._intercept[draw, hit] = (intercept * keeps + scaled.shift[0])[hit]
        self._std[draw, hit] = scaled.std[0, hit]
        self._touched[draw] = hit

    def log_likelihood(self, node: int, draws: Draws) -> LogLikelihood:
        groups, total = self.networks.parent_groups[node], np.empty((len(draws), len(self.x)))
        for group in np.unique(groups.of_draw[draws]):
            place, columns = np.flatnonzero(groups.of_draw[draws] == group), self._columns(node, int(group))
            v = np.column_stack([-self._coefficients(node, draws[place], columns), np.ones(len(place))])
            squares = ((v @ self._of(columns)) * v).sum(axis=2).T
            total[place] = self._log_normal(squares, self._std[draws[place], node, None])
        return total - self._n_rows * np.log(self._units.scale[node])

    def _averaged(self, node: int, draws: Draws) -> Float[np.ndarray, " B"]:
        """Touched and untouched mechanisms apart; coefficients of the latter integrated out where draws are enough."""
        untouched = draws[~self._touched[draws, node]]
        columns = self._columns(node, int(self.networks.parent_groups[node].of_draw[draws[0]]))
        if len(untouched) < _PER_COEFFICIENT * (len(columns) - 1):
            return super()._averaged(node, draws)
        weights = self.networks.weights
        parts, shares = [self._integrated(node, untouched, columns)], [weights[untouched].sum()]
        if len(touched := draws[self._touched[draws, node]]):
            parts.append(super()._averaged(node, touched))
            shares.append(weights[touched].sum())
        share = np.array(shares) / np.sum(shares)
        return logsumexp(np.stack(parts), axis=0, b=share[:, None])

    def _integrated(self, node: int, draws: Draws, columns: Columns) -> Float[np.ndarray, " B"]:
        weight = self.networks.weights[draws] / self.networks.weights[draws].sum()
        found, std = self._coefficients(node, draws, columns), self._std[draws, node]
        mean = weight @ found
        scaled = (found - mean) / std[:, None]
        unbiased = 1 - np.sum(weight**2)
        covariance = (scaled * weight[:, None]).T @ scaled / max(unbiased, 1e-9)
        products = self._of(columns)
        gram, size = products[:, :-1, :-1], len(mean)
        left = products[:, -1, :-1] - gram @ mean  # Z'(x_j - Zm)
        squares = products[:, -1, -1] - (products[:, -1, :-1] + left) @ mean
        # (I + ZVZ')⁻¹ = I - ZV(I + Z'ZV)⁻¹Z', and the determinant is that of I + Z'ZV.
        inner = np.eye(size) + gram @ covariance
        explained = np.einsum("bi,bi->b", left @ covariance, np.linalg.solve(inner, left[:, :, None])[:, :, 0])
        log_det = np.linalg.slogdet(inner)[1]
        log_p = self._log_normal((squares - explained)[None], std[:, None]) - 0.5 * log_det
        return logsumexp(log_p, axis=0, b=weight[:, None]) - self._n_rows * np.log(self._units.scale[node])

    def _log_normal(self, squares: np.ndarray, std: np.ndarray) -> np.ndarray:
        return -self._n_rows * (np.log(std) + 0.5 * LOG_2PI) - 0.5 * np.maximum(squares, 0.0) / std**2

    def _columns(self, node: int, group: int) -> Columns:
        """The parents, the constant and the variable itself."""
        parents = self.networks.parent_groups[node].parents[group]
        return [*np.flatnonzero(parents).tolist(), self.x.shape[2], node]

    def _of(self, columns: Columns) -> Float[np.ndarray, "B c c"]:
        return self._products[:, columns][:, :, columns]

    def _coefficients(self, node: int, draws: Draws, columns: Columns) -> Float[np.ndarray, "s c"]:
        return np.column_stack([self._weight[draws][:, columns[:-2], node], self._intercept[draws, node]])


class FunctionLaws(AbstractLaws):
    """Laws of functions drawn from Gaussian processes: draws that share parents share features."""

    def log_likelihood(self, node: int, draws: Draws) -> LogLikelihood:
        n_sets, n_rows, d = self.x.shape
        mechanism, flat, every = self.networks.mechanism, self.x.reshape(-1, d), self.networks.parameters
        assert isinstance(mechanism, FunctionMechanism)
        drawn = {name: value[draws] for name, value in every.items() if name in FUNCTION_PARAMETERS}
        (mean,) = mechanism.columns(drawn, self.networks.graphs[draws], flat, [node])
        std = every["noise_std"][draws, node]
        if self.effects is not None:
            effects = [self.effects[draw] for draw in draws.tolist()]
            hit, keeps, shift, own = (
                np.array([getattr(effect, part)[0, node] for effect in effects])
                for part in ("targets", "keeps_parents", "shift", "std")
            )
            mean = np.where(hit[:, None] != 0, np.where(keeps[:, None], mean, 0.0) + shift[:, None], mean)
            std = np.where(hit != 0, own, std)
        return log_normal(flat[:, node], mean, std[:, None]).reshape(-1, n_sets, n_rows).sum(axis=2)


class RowLaws(AbstractLaws):
    """Laws of any other mechanism, draw by draw, all variables at once."""

    def log_likelihood(self, node: int, draws: Draws) -> LogLikelihood:
        return self._every[draws, :, node]

    @cached_property
    def _every(self) -> Float[np.ndarray, "S B d"]:
        n_sets, n_rows, d = self.x.shape
        flat, none = self.x.reshape(-1, d), np.zeros((0, d))
        untouched = Effects(none.astype(np.int8), none == 0, none, none, ())
        found = np.empty((len(self.networks), n_sets, d))
        for draw in range(len(self.networks)):
            effect, context = (untouched, 0) if self.effects is None else (self.effects[draw], 1)
            log_p = self.networks.network(draw).log_density(flat, np.full(len(flat), context), effect)
            found[draw] = log_p.reshape(n_sets, n_rows, d).sum(axis=1)
        return found
