"""Linear Gaussian mechanisms: x_j ~ N(Σ_i G_ij Θ_ij x_i + b_j, σ_j²) (Appendix D.1)."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int8

from bacadi.config.choices import option
from bacadi.data.contexts import Scaling
from bacadi.data.labelled import Labelled
from bacadi.model.mechanism import GaussianMechanism, weights_log_prior
from bacadi.model.noise import AbstractNoise, Values, log_mean_exp, log_normal, namespace, scale_free


class LinearTheta(NamedTuple):
    """`weight[i, j]` acts from i on j; the other two are None where the model has none."""

    weight: Values
    intercept: Values | None = None
    log_noise_std: Values | None = None


class LinearGaussian(GaussianMechanism):
    """x_j ~ N(Σ_i G_ij Θ_ij x_i + b_j, σ_j²) with Θ_ij ~ N(0, weight_prior_std²) where the edge exists.

    Beside an inferred noise both prior standard deviations are in units of σ_j (see `InferredNoise`). An
    `intercept_prior_std` of None leaves intercepts out. `absent_ratio` is the pseudo-prior of a weight without an edge
    (`weights_log_prior`), `init_std` the spread of weights of a fresh particle: both are for SVGD alone.

    >>> LinearGaussian().noise
    InferredNoise(shape=0.1, scale=1e-06, widths=(1.0, 30.0))
    """

    noise: AbstractNoise = scale_free()
    weight_prior_std: float = option(10.0, above=0)
    intercept_prior_std: float | None = option(10.0, above=0, none="none")
    absent_ratio: float | None = option(None, above=0, none="none")
    init_std: float = option(0.3, above=0)

    def init(self, key: Any, n_variables: int, dtype: Any) -> LinearTheta:
        import jax

        weight = self.init_std * jax.random.normal(key, (n_variables, n_variables), dtype)
        zeros, start = jax.numpy.zeros(n_variables, dtype), self.noise.initial
        intercept = None if self.intercept_prior_std is None else zeros
        return LinearTheta(weight, intercept, None if start is None else zeros + start)

    def log_prior(self, theta: LinearTheta, graph: Values) -> Values:
        log_std = theta.log_noise_std
        by_unit = [self._log_prior(theta, graph, unit) for unit in self.noise.prior_units(log_std)]
        return log_mean_exp(by_unit) + self.noise.log_prior(log_std)

    def _log_prior(self, theta: LinearTheta, graph: Values, unit: Values) -> Values:
        std = self.weight_prior_std * namespace(theta.weight).asarray(unit, dtype=theta.weight.dtype)[..., None]
        log_p = weights_log_prior(theta.weight[..., None], graph, std, self.absent_ratio)
        if theta.intercept is None or self.intercept_prior_std is None:
            return log_p
        return log_p + log_normal(theta.intercept, 0.0, self.intercept_prior_std * unit)

    def mean(self, theta: LinearTheta, graph: Values, x: Values) -> Values:
        mean = x @ (graph * theta.weight)
        return mean if theta.intercept is None else mean + theta.intercept

    def labelled(self, theta: LinearTheta) -> dict[str, Labelled]:
        parts = {"weight": Labelled(theta.weight, ("source", "target"))}
        if theta.intercept is not None:
            parts["intercept"] = Labelled(theta.intercept, ("node",))
        return parts | labelled_noise(theta.log_noise_std)

    def theta_of(self, values: dict[str, np.ndarray], n_variables: int) -> LinearTheta:
        return LinearTheta(values["weight"], values.get("intercept"), log_noise_of(values))

    def rescaled(self, theta: LinearTheta, graph: Int8[np.ndarray, "*batch d d"], scaling: Scaling) -> LinearTheta:
        """With x = a + s · u, u_j = Σ_i w_ij u_i + b_j + ε_j reads x_j = Σ_i w_ij s_j/s_i x_i + b'_j + s_j ε_j,
        where b'_j = a_j + s_j b_j - Σ_i G_ij w_ij s_j/s_i a_i: an origin elsewhere makes an intercept."""
        shift, scale = scaling.shift, scaling.scale
        weight = theta.weight * (scale[None, :] / scale[:, None])
        intercept = theta.intercept
        if intercept is not None or shift.any():
            own = 0.0 if intercept is None else intercept
            intercept = shift + scale * own - np.einsum("...ij,i->...j", graph * weight, shift)
        return LinearTheta(weight, intercept, self.noise.rescaled(theta.log_noise_std, scale))


def total_effects(weights: Float[np.ndarray, "*batch d d"]) -> Float[np.ndarray, "*batch d d"]:
    """T = (I - W)⁻¹ of acyclic weights: T_ij is the change of x_j when x_i is raised by 1, over all directed paths.

    >>> total_effects(np.array([[0.0, 2.0, 1.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]])).round(6).tolist()
    [[1.0, 2.0, 7.0], [0.0, 1.0, 3.0], [0.0, 0.0, 1.0]]
    """
    return np.linalg.inv(np.eye(weights.shape[-1]) - weights)


def labelled_noise(log_std: Values | None) -> dict[str, Labelled]:
    """σ under its name in the output, nothing where the noise is fixed; `log_noise_of` is the inverse."""
    return {} if log_std is None else {"noise_std": Labelled(namespace(log_std).exp(log_std), ("node",))}


def log_noise_of(values: dict[str, np.ndarray]) -> np.ndarray | None:
    """log σ from the arrays of a draw, None where the noise is fixed."""
    return np.log(values["noise_std"]) if "noise_std" in values else None
